// SPDX-License-Identifier: Apache-2.0
/* Slots, connections and read-ahead of NFS: the kernel's defaults suit small files (for their cost
 * see docs/analysis.md, and the paper's 4.2.5). */
#include "cli/nfs_mounts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/doctor.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/mountinfo.h"
#include "common/progress.h"
#include "common/text.h"

#define MOUNTSTATS_MAX (4u << 20)
#define NUMBER_MAX 64u
/* too few slots of a connection or session, for large files */
#define SLOTS_FEW 256u
/* requests that sequential reads should have in flight */
#define AHEAD_REQUESTS 4u
/* too large a part of the requests' time spent in the queue */
#define WAIT_MUCH 0.5
#define REQUESTS_MANY 1000u /* fewest requests that allow a judgement */
#define NFS_HEAD "device "
#define MOUNTED " mounted on "
#define WITH_TYPE " with fstype nfs"

/* ------------------------------------------------------------------ mountstats --- */

/* Parse "device nas:/ckpt mounted on /ckpt with fstype nfs4 statvers=1.1".  False: not NFS. */
static bool parse_mount_head(char *line, struct nfs_mount *m)
{
	char *on = strstr(line, MOUNTED), *type;

	if (strncmp(line, NFS_HEAD, strlen(NFS_HEAD)) != 0 || !on)
		return false;
	type = strstr(on, WITH_TYPE);
	if (!type || type[strlen(WITH_TYPE)] == 'd') /* the type is nfsd */
		return false;
	*on = '\0';
	*type = '\0';
	*m = (struct nfs_mount){ .device = line + strlen(NFS_HEAD),
				 .path = on + strlen(MOUNTED) };
	return true;
}

static void read_options(char *opts, struct nfs_mount *m)
{
	char *save = NULL;

	for (char *o = strtok_r(opts, ",", &save); o;
	     o = strtok_r(NULL, ",", &save)) {
		if (strncmp(o, "vers=", 5) == 0)
			(void)snprintf(m->version, sizeof(m->version), "%s",
				       o + 5);
		else if (strncmp(o, "rsize=", 6) == 0)
			m->rsize = strtoull(o + 6, NULL, 10);
		else if (strncmp(o, "nconnect=", 9) == 0)
			m->connections = (uint32_t)strtoul(o + 9, NULL, 10);
		else if (strcmp(o, "proto=rdma") == 0)
			m->is_rdma = true;
	}
}

/* Parse "READ: ops trans timeouts sent received queue_ms rtt_ms execute_ms". */
static void read_operation(const char *numbers, struct nfs_mount *m)
{
	uint64_t ops, queue_ms, rtt_ms;

	if (sscanf(numbers, "%" SCNu64 " %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
		   &ops, &queue_ms, &rtt_ms) != 3)
		return;
	m->requests += ops;
	m->queue_s += (double)queue_ms / 1000;
	m->rtt_s += (double)rtt_ms / 1000;
}

static void read_mount_line(char *line, uint32_t *transports,
			    struct nfs_mount *m)
{
	line += strspn(line, " \t");
	if (strncmp(line, "opts:", 5) == 0)
		read_options(line + 5 + strspn(line + 5, " \t"), m);
	else if (strncmp(line, "xprt:", 5) == 0)
		++*transports;
	else if (strncmp(line, "READ:", 5) == 0)
		read_operation(line + 5, m);
	else if (strncmp(line, "WRITE:", 6) == 0)
		read_operation(line + 6, m);
}

static int report_nfs_mount(bool is_nfs, uint32_t transports,
			    struct nfs_mount *m, nfs_mount_fn *fn, void *arg)
{
	if (!is_nfs)
		return 0;
	if (m->connections < transports)
		m->connections = transports;
	if (!m->connections)
		m->connections = 1;
	return fn(arg, m);
}

int nfs_mounts_parse(char *text, nfs_mount_fn *fn, void *arg)
{
	struct nfs_mount m = { .device = NULL };
	uint32_t transports = 0;
	bool is_nfs = false;
	int rc = 0;

	for (char *line = text, *next; rc == 0 && line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (strncmp(line, NFS_HEAD, strlen(NFS_HEAD)) == 0) {
			rc = report_nfs_mount(is_nfs, transports, &m, fn, arg);
			is_nfs = parse_mount_head(line, &m);
			transports = 0;
		} else if (is_nfs) {
			read_mount_line(line, &transports, &m);
		}
	}
	return rc ? rc : report_nfs_mount(is_nfs, transports, &m, fn, arg);
}

/* ---------------------------------------------------------------------- judge --- */

static bool has_sessions(const struct nfs_mount *m)
{
	return m->version[0] == '4' && m->version[1] == '.' &&
	       m->version[2] >= '1';
}

static double queue_time_share(const struct nfs_mount *m)
{
	double all = m->queue_s + m->rtt_s;

	return m->requests >= REQUESTS_MANY && all > 0 ? m->queue_s / all : 0;
}

/* The smaller of the session's and the connection's number of slots; 0: unknown. */
static uint64_t count_slots(const struct nfs_mount *m,
			    const struct nfs_limits *l)
{
	uint64_t of_connection = m->is_rdma ? l->rdma_slots : l->tcp_slots;

	if (!has_sessions(m) || !l->session_slots)
		return of_connection;
	return of_connection && of_connection < l->session_slots
		       ? of_connection
		       : l->session_slots;
}

static int format_slots_cure(const struct nfs_mount *m,
			     const struct nfs_limits *l, struct buf *cure)
{
	uint64_t of_connection = m->is_rdma ? l->rdma_slots : l->tcp_slots;
	int rc = 0;

	if (of_connection && of_connection < SLOTS_FEW)
		rc = buf_printf(cure, "sysctl sunrpc.%s=1024; ",
				m->is_rdma ? "rdma_slot_table_entries"
					   : "tcp_max_slot_table_entries");
	if (rc == 0 && has_sessions(m) && l->session_slots &&
	    l->session_slots < SLOTS_FEW)
		rc = buf_puts(cure, "options nfs max_session_slots=1024 in "
				    "/etc/modprobe.d, as far as the server "
				    "gives them; ");
	return rc;
}

int nfs_mount_judge(const struct nfs_mount *m, const struct nfs_limits *l,
		    struct buf *detail, struct buf *cure, struct error *err)
{
	char ahead[PROGRESS_BYTES_MAX];
	uint64_t slots = count_slots(m, l);
	double wait = queue_time_share(m);
	int rc =
		buf_printf(detail, "%s, NFS %s by %s, %" PRIu32 " connection%s",
			   m->device, m->version, m->is_rdma ? "RDMA" : "TCP",
			   m->connections, m->connections == 1 ? "" : "s");

	if (rc == 0 && slots)
		rc = buf_printf(detail, ", %" PRIu64 " slots", slots);
	if (rc == 0 && l->read_ahead) {
		progress_format_bytes(l->read_ahead, ahead);
		rc = buf_printf(detail, ", reads %s ahead", ahead);
	}
	if (rc == 0 && wait > 0)
		rc = buf_printf(detail,
				"; %.0f %% of the time of its requests is "
				"waiting for a slot",
				100 * wait);
	if (rc == 0 && (slots && (slots < SLOTS_FEW || wait >= WAIT_MUCH)))
		rc = format_slots_cure(m, l, cure);
	if (rc == 0 && m->connections < 2)
		rc = buf_puts(cure, "mount with nconnect=8 (Linux 5.3); ");
	if (rc == 0 && l->read_ahead &&
	    l->read_ahead < AHEAD_REQUESTS * m->rsize)
		rc = buf_printf(cure,
				"echo 16384 >/sys/class/bdi/%u:%u/"
				"read_ahead_kb, for good default=16384 in "
				"/etc/nfs.conf, [nfsrahead]; ",
				l->major, l->minor);
	if (rc < 0)
		return error_nomem(err);
	if (cure->len)
		cure->data[cure->len -= 2] = '\0';
	return 0;
}

/* --------------------------------------------------------------------- machine --- */

static uint64_t read_number(const char *path)
{
	AUTO_BUF text = BUF_INIT;

	return fs_read_file(path, NUMBER_MAX, &text, NULL) == 0 && text.data
		       ? strtoull(text.data, NULL, 10)
		       : 0;
}

struct mount_number {
	const char *path;
	struct nfs_limits *to;
};

static int find_number(void *arg, const struct mountinfo *m, struct error *err)
{
	struct mount_number *f = arg;

	(void)err;
	if (strcmp(m->path, f->path) == 0) {
		f->to->major = m->major;
		f->to->minor = m->minor;
	}
	return 0;
}

static struct nfs_limits read_limits(const char *path)
{
	struct nfs_limits l = {
		.tcp_slots = read_number(
			"/proc/sys/sunrpc/tcp_max_slot_table_entries"),
		.rdma_slots =
			read_number("/proc/sys/sunrpc/rdma_slot_table_entries"),
		.session_slots = read_number(
			"/sys/module/nfs/parameters/max_session_slots"),
	};
	struct mount_number f = { path, &l };
	char file[64];

	if (mountinfo_each(find_number, &f, NULL) < 0 || (!l.major && !l.minor))
		return l;
	(void)snprintf(file, sizeof(file), "/sys/class/bdi/%u:%u/read_ahead_kb",
		       l.major, l.minor);
	l.read_ahead = read_number(file) * 1024;
	return l;
}

struct mount_checks {
	json_t *list;
	const char *path;
};

static int check_mount(void *arg, const struct nfs_mount *m)
{
	const struct mount_checks *c = arg;
	struct nfs_limits l;
	AUTO_BUF detail = BUF_INIT, cure = BUF_INIT;
	char name[128];

	if (c->path && strcmp(c->path, m->path) != 0)
		return 0;
	l = read_limits(m->path);
	if (nfs_mount_judge(m, &l, &detail, &cure, NULL) < 0)
		return -ENOMEM;
	(void)snprintf(name, sizeof(name), "nfs %s", m->path);
	text_end_whole(name);
	doctor_add(c->list, name, cure.len == 0, DOCTOR_ADVICE,
		   cure.len ? cure.data : "", "%s", detail.data);
	return 0;
}

void nfs_mounts_check(json_t *list, const char *path)
{
	struct mount_checks c = { list, path };
	AUTO_BUF text = BUF_INIT;

	if (fs_read_file("/proc/self/mountstats", MOUNTSTATS_MAX, &text, NULL) <
		    0 ||
	    !text.data)
		return;
	(void)nfs_mounts_parse(text.data, check_mount, &c);
}

/* ---------------------------------------------------------------------- advice --- */

struct mount_of_path {
	const char *path;
	char *found; /* mount point nearest to `path`, if it is NFS; else
	              * NULL */
	size_t len;
};

static int find_nearest(void *arg, const struct mountinfo *m, struct error *err)
{
	struct mount_of_path *f = arg;

	(void)err;
	if (strlen(m->path) < f->len || !text_path_holds(m->path, f->path))
		return 0;
	f->len = strlen(m->path);
	free(f->found);
	f->found = strncmp(m->fstype, "nfs", 3) == 0 ? strdup(m->path) : NULL;
	return 0;
}

void nfs_mounts_advise(const char *path)
{
	AUTO_FREE char *real = realpath(path, NULL);
	struct mount_of_path f = { .path = real ? real : path };
	AUTO_JSON *list = json_array();
	const json_t *check;
	size_t i;

	if (mountinfo_each(find_nearest, &f, NULL) == 0 && f.found && list)
		nfs_mounts_check(list, f.found);
	free(f.found);
	json_array_foreach(list, i, check)
	{
		if (json_is_false(json_object_get(check, "ok")))
			(void)fprintf(stderr, "advice: %s: %s; %s\n",
				      json_string_value(
					      json_object_get(check, "name")),
				      json_string_value(
					      json_object_get(check, "detail")),
				      json_string_value(
					      json_object_get(check, "cure")));
	}
}
