// SPDX-License-Identifier: Apache-2.0
#include "cli/nfs_mounts.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(nfs_mounts, .timeout = 60);

/* Output of Linux 6.1, some lines left out. */
static const char stats[] =
	"device sysfs mounted on /sys with fstype sysfs\n"
	"device nas:/ckpt mounted on /ckpt with fstype nfs4 statvers=1.1\n"
	"\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,"
	"proto=tcp,timeo=600,retrans=2,sec=sys,clientaddr=10.0.0.2,"
	"local_lock=none\n"
	"\tage:\t5400\n"
	"\tbytes:\t10 20 0 0 1234 5678 3 4\n"
	"\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
	"\txprt:\ttcp 0 0 1 0 0 17 17 0 17 0 2 0 0\n"
	"\tper-op statistics\n"
	"\t        NULL: 1 1 0 44 24 0 0 0 0\n"
	"\t        READ: 1000 1000 0 144000 1048576000 32000 27000 60000 0\n"
	"\t       WRITE: 1000 1000 0 1048576000 144000 1495000 126000 1700000 0\n"
	"device nas2:/a\\040b mounted on /a\\040b with fstype nfs "
	"statvers=1.1\n"
	"\topts:\trw,vers=3,rsize=262144,wsize=262144,proto=rdma,nconnect=4\n"
	"\txprt:\trdma 0 0 1 0 0 17 17 0 17 0\n"
	"\tper-op statistics\n"
	"\t        READ: 5 5 0 144 1048 0 1 1 0\n"
	"device nfsd mounted on /proc/fs/nfsd with fstype nfsd\n"
	"device nas:/x mounted on /x with fstype nfs4 statvers=1.1\n"
	"\topts:\trw,vers=4.2,rsize=1048576,nconnect=8,proto=tcp\n"
	"\txprt:\ttcp 0 0 1 0 0 17 17 0 17 0 2 0 0\n"
	"\txprt:\ttcp 0 0 1 0 0 17 17 0 17 0 2 0 0";

struct seen {
	struct nfs_mount v[8];
	size_t n;
};

static int keep_mount(void *arg, const struct nfs_mount *m)
{
	struct seen *s = arg;

	s->v[s->n++] = *m;
	return 0;
}

Test(nfs_mounts, mountstats_are_read_of_nfs_alone)
{
	struct seen s = { .n = 0 };
	char *text = strdup(stats);

	cr_assert_eq(nfs_mounts_parse(text, keep_mount, &s), 0);
	cr_assert_eq(s.n, 3);
	cr_expect_str_eq(s.v[0].device, "nas:/ckpt");
	cr_expect_str_eq(s.v[0].path, "/ckpt");
	cr_expect_str_eq(s.v[0].version, "4.2");
	cr_expect_eq(s.v[0].connections, 1);
	cr_expect_eq(s.v[0].rsize, 1048576);
	cr_expect_eq(s.v[0].requests, 2000);
	cr_expect_float_eq(s.v[0].queue_s, 1527, 1e-6);
	cr_expect_float_eq(s.v[0].rtt_s, 153, 1e-6);
	cr_expect_str_eq(s.v[1].path, "/a\\040b");
	cr_expect(s.v[1].is_rdma);
	cr_expect_eq(s.v[1].connections, 4);
	cr_expect_eq(s.v[2].connections, 8);
	free(text);
}

/* Compare "detail | cure" for the n-th mount above. */
static void expect_judged(size_t n, const struct nfs_limits *l,
			  const char *wanted)
{
	struct seen s = { .n = 0 };
	char *text = strdup(stats);
	AUTO_BUF detail = BUF_INIT, cure = BUF_INIT;

	cr_assert_eq(nfs_mounts_parse(text, keep_mount, &s), 0);
	cr_assert_eq(nfs_mount_judge(&s.v[n], l, &detail, &cure, NULL), 0);
	cr_assert_eq(buf_printf(&detail, " | %s", cure.len ? cure.data : ""),
		     0);
	cr_expect_str_eq(detail.data, wanted);
	free(text);
}

Test(nfs_mounts, what_holds_back_large_files_is_told_with_what_to_set)
{
	struct nfs_limits l = { .tcp_slots = 65536,
				.rdma_slots = 128,
				.session_slots = 64,
				.read_ahead = 128 << 10,
				.major = 0,
				.minor = 53 };

	expect_judged(
		0, &l,
		"nas:/ckpt, NFS 4.2 by TCP, 1 connection, 64 slots, reads 128.0 "
		"KiB ahead; 91 % of the time of its requests is waiting for a "
		"slot | options nfs max_session_slots=1024 in /etc/modprobe.d, "
		"as far as the server gives them; mount with nconnect=8 (Linux "
		"5.3); echo 16384 >/sys/class/bdi/0:53/read_ahead_kb, for good "
		"default=16384 in /etc/nfs.conf, [nfsrahead]");
	/* The paper's case: RDMA has only 128 slots. */
	expect_judged(1, &l,
		      "nas2:/a\\040b, NFS 3 by RDMA, 4 connections, 128 slots, "
		      "reads 128.0 KiB ahead | sysctl "
		      "sunrpc.rdma_slot_table_entries=1024; echo 16384 "
		      ">/sys/class/bdi/0:53/read_ahead_kb, for good "
		      "default=16384 in /etc/nfs.conf, [nfsrahead]");
	l.session_slots = 1024;
	l.read_ahead = 16 << 20;
	expect_judged(
		2, &l,
		"nas:/x, NFS 4.2 by TCP, 8 connections, 1024 slots, reads "
		"16.0 MiB ahead | ");
	/* Unknown limits must not cause advice. */
	l = (struct nfs_limits){ .tcp_slots = 0 };
	expect_judged(2, &l, "nas:/x, NFS 4.2 by TCP, 8 connections | ");
}
