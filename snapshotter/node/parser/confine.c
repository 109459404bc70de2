// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/parser/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"

/* uid and gid used where a user namespace does not map the wanted ones */
#define NOBODY 65534
#define STATUS_MAX 65536u
#define CAPABILITIES_MAX 64
/* of one job: checking 2 GiB of metadata takes a tenth of that */
#define CPU_SECONDS 60
/* Limits of the process that makes an index: its memory and file, since a tree may have 3 GiB
 * (artifact.md). */
#define INDEX_MEMORY (UINT64_C(4) << 30)
#define INDEX_FILE (UINT64_C(4) << 30)
#define JOB_FILES 16 /* descriptors of a process of the parser */

/* Capabilities of bootseerd, and their use. */
static const int node_capabilities[] = {
	CAP_SYS_ADMIN, /* mounts, loops, trusted.* */
	/* to write ordinary layers, as the rights down to CAP_SETFCAP */
	CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,
	CAP_FSETID, CAP_MKNOD, CAP_SETFCAP,
	/* to check that the process on RUN/ready.sock still exists */
	CAP_KILL,
	/* to run the parser as a user without rights */
	CAP_SETUID, CAP_SETGID,
	CAP_NET_BIND_SERVICE, /* ports of --metrics and --p2p-listen */
	CAP_IPC_LOCK,         /* memory that RDMA registers */
};

/* System calls that bootseerd and the credential helpers that it runs may not make. */
static const int refused[] = {
	/* load code into the kernel */
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(bpf),
	/* parts of the kernel that often had security bugs, not needed here */
	SCMP_SYS(userfaultfd),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(keyctl),
	SCMP_SYS(modify_ldt),
	SCMP_SYS(vmsplice),
	SCMP_SYS(personality),
	/* look into other processes */
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(kcmp),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(move_pages),
	SCMP_SYS(migrate_pages),
	/* change or leave namespaces and roots */
	SCMP_SYS(setns),
	SCMP_SYS(unshare),
	SCMP_SYS(chroot),
	SCMP_SYS(pivot_root),
	SCMP_SYS(open_by_handle_at),
	/* change the machine */
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(acct),
	SCMP_SYS(quotactl),
	SCMP_SYS(quotactl_fd),
	SCMP_SYS(syslog),
	SCMP_SYS(settimeofday),
	SCMP_SYS(clock_settime),
	SCMP_SYS(clock_adjtime),
	SCMP_SYS(adjtimex),
	SCMP_SYS(sethostname),
	SCMP_SYS(setdomainname),
	SCMP_SYS(iopl),
	SCMP_SYS(ioperm),
	SCMP_SYS(vhangup),
	SCMP_SYS(fanotify_init),
};

/* System calls that a job may make; mmap and mprotect also, but without PROT_EXEC. */
static const int job_calls[] = {
	SCMP_SYS(read),       SCMP_SYS(pread64),       SCMP_SYS(write),
	SCMP_SYS(munmap),     SCMP_SYS(mremap),        SCMP_SYS(madvise),
	SCMP_SYS(brk),        SCMP_SYS(fstat),         SCMP_SYS(newfstatat),
	SCMP_SYS(futex),      SCMP_SYS(clock_gettime), SCMP_SYS(exit),
	SCMP_SYS(exit_group),
};

/* System calls that the parser itself may make, besides those of a job. */
static const int parser_calls[] = {
	SCMP_SYS(recvmsg),         SCMP_SYS(clone),
	SCMP_SYS(clone3),          SCMP_SYS(fork),
	SCMP_SYS(close),           SCMP_SYS(prctl),
	SCMP_SYS(seccomp),         SCMP_SYS(prlimit64),
	SCMP_SYS(setrlimit),       SCMP_SYS(getrlimit),
	SCMP_SYS(set_robust_list), SCMP_SYS(rseq),
	SCMP_SYS(gettid),          SCMP_SYS(getpid),
	SCMP_SYS(getrandom),       SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigaction),    SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sendto),          SCMP_SYS(wait4),
};

/* ------------------------------------------------------------ capabilities --- */

uint64_t confine_node_capabilities(void)
{
	uint64_t set = 0;

	for (size_t i = 0; i < ARRAY_SIZE(node_capabilities); i++)
		set |= UINT64_C(1) << node_capabilities[i];
	return set;
}

/* Limit the capabilities that running a program can give. */
static int bound_capabilities(uint64_t keep, struct error *err)
{
	for (int c = 0; c < CAPABILITIES_MAX; c++) {
		int has = prctl(PR_CAPBSET_READ, c, 0, 0, 0);

		if (has < 0)
			break; /* the kernel has no more capabilities */
		if (has && !(keep & UINT64_C(1) << c) &&
		    prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
			return error_errno(err, errno, "bound capabilities");
	}
	return 0;
}

static int keep_capabilities(uint64_t keep, struct error *err)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[2];

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &head, data) < 0)
		return error_errno(err, errno, "capabilities");
	for (int k = 0; k < 2; k++) {
		data[k].permitted &= (uint32_t)(keep >> 32 * k);
		data[k].effective = data[k].permitted;
		data[k].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, data) < 0)
		return error_errno(err, errno, "drop capabilities");
	return 0;
}

/* ------------------------------------------------------------------ filters --- */

static int add_all(scmp_filter_ctx f, uint32_t action, const int *calls,
		   size_t n)
{
	int rc = 0;

	/* libseccomp does not know every call on every machine; skip an unknown call. */
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = seccomp_rule_add(f, action, calls[i], 0);
		rc = rc == -EDOM || rc == -EACCES ? 0 : rc;
	}
	return rc;
}

static int load_filter(scmp_filter_ctx f, int rc, bool no_new_privs,
		       struct error *err)
{
	/* "No new privileges" is a parameter, since the holder must not have it. */
	if (rc == 0)
		rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_NNP, no_new_privs);
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	if (rc < 0)
		return error_errno(err, -rc, "filter of system calls");
	return 0;
}

static int refuse_calls(bool no_new_privs, struct error *err)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int rc;

	if (!f)
		return error_nomem(err);
	rc = add_all(f, SCMP_ACT_ERRNO(EPERM), refused, ARRAY_SIZE(refused));
	/* Log refused calls to the audit log, if there is one. */
	if (rc == 0)
		(void)seccomp_attr_set(f, SCMP_FLTATR_CTL_LOG, 1);
	return load_filter(f, rc, no_new_privs, err);
}

/* Other calls fail with ENOSYS, as on a kernel without them, so that a libc which could use
 * them falls back. */
static int allow_calls(bool is_parser, struct error *err)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int rc;

	if (!f)
		return error_nomem(err);
	rc = add_all(f, SCMP_ACT_ALLOW, job_calls, ARRAY_SIZE(job_calls));
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				      SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC,
					      0));
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				      SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC,
					      0));
	if (rc == 0 && is_parser)
		rc = add_all(f, SCMP_ACT_ALLOW, parser_calls,
			     ARRAY_SIZE(parser_calls));
	/* Allow kill(0): the parser's process group, which are its jobs. */
	if (rc == 0 && is_parser)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX,
					      0));
	return load_filter(f, rc, true, err);
}

/* ---------------------------------------------------------------- processes --- */

/* The first failure is returned, but later steps are tried too. */
static int first_failure_of(int rc, int next)
{
	return rc < 0 ? rc : next;
}

static int set_no_new_privs(struct error *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_errno(err, errno, "no new privileges");
	return 0;
}

int confine_node(struct error *err)
{
	uint64_t keep = confine_node_capabilities();
	struct error other;
	int rc = bound_capabilities(keep, err);

	rc = first_failure_of(rc, set_no_new_privs(rc < 0 ? &other : err));
	rc = first_failure_of(rc,
			      keep_capabilities(keep, rc < 0 ? &other : err));
	return first_failure_of(rc, refuse_calls(true, rc < 0 ? &other : err));
}

int confine_holder(struct error *err)
{
	struct error other;
	int rc = bound_capabilities(confine_node_capabilities(), err);

	/* An exec gives root its capabilities back, within the bounding set, unless "no new
	 * privileges" is set. */
	rc = first_failure_of(rc, refuse_calls(false, rc < 0 ? &other : err));
	if (geteuid() == 0)
		rc = first_failure_of(rc, keep_capabilities(0, rc < 0 ? &other
								      : err));
	return rc;
}

static int become_user(unsigned int id)
{
	return setresgid(id, id, id) < 0 ? -1 : setresuid(id, id, id);
}

static int become_nobody(unsigned int id, struct error *err)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0)
		return error_errno(err, errno, "leave all groups");
	if (become_user(id) < 0 && become_user(NOBODY) < 0)
		return error_errno(err, errno, "become uid %d", NOBODY);
	return 0;
}

int confine_parser(struct error *err)
{
	const struct rlimit none = { 0, 0 };
	const struct rlimit files = { JOB_FILES, JOB_FILES };
	struct error other;
	int rc;

	/* Ignore a failure: bootseerd may have given up the right to do this. */
	(void)!bound_capabilities(0, &other);
	rc = setrlimit(RLIMIT_CORE, &none) < 0 ||
			     setrlimit(RLIMIT_NOFILE, &files) < 0
		     ? error_errno(err, errno, "limits")
		     : 0;
	rc = first_failure_of(rc, become_nobody(CONFINE_PARSER_ID,
						rc < 0 ? &other : err));
	rc = first_failure_of(rc, keep_capabilities(0, rc < 0 ? &other : err));
	rc = first_failure_of(rc, set_no_new_privs(rc < 0 ? &other : err));
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return first_failure_of(rc, allow_calls(true, rc < 0 ? &other : err));
}

/* Refuse calls by a list, unlike for the parser: the process that makes an index has threads
 * and opens files. */
static int refuse_index_calls(struct error *err)
{
	static const int calls[] = {
		SCMP_SYS(socket),        SCMP_SYS(socketpair),
		SCMP_SYS(execve),        SCMP_SYS(execveat),
		SCMP_SYS(mount),         SCMP_SYS(umount2),
		SCMP_SYS(kill),          SCMP_SYS(tkill),
		SCMP_SYS(pidfd_open),    SCMP_SYS(pidfd_send_signal),
		SCMP_SYS(inotify_init1), SCMP_SYS(setsid),
		SCMP_SYS(setpgid),       SCMP_SYS(fork),
		SCMP_SYS(vfork),         SCMP_SYS(open_tree),
		SCMP_SYS(move_mount),    SCMP_SYS(fsopen),
		SCMP_SYS(fsconfig),      SCMP_SYS(fsmount),
		SCMP_SYS(fspick),        SCMP_SYS(mount_setattr),
	};
	/* clone3() has its flags in memory, where no filter can check them; on ENOSYS libc uses
	 * clone(). */
	static const int clone3_call[] = { SCMP_SYS(clone3) };
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int rc;

	if (!f)
		return error_nomem(err);
	rc = add_all(f, SCMP_ACT_ERRNO(EPERM), calls, ARRAY_SIZE(calls));
	if (rc == 0)
		rc = add_all(f, SCMP_ACT_ERRNO(EPERM), refused,
			     ARRAY_SIZE(refused));
	if (rc == 0)
		rc = add_all(f, SCMP_ACT_ERRNO(ENOSYS), clone3_call, 1);
	/* Allow new threads only: no child process may outlive this one or have other
	 * namespaces. */
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone),
				      1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD,
					      0));
	return load_filter(f, rc, true, err);
}

uint64_t confine_data_bytes(void)
{
	AUTO_FCLOSE FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (f && fscanf(f, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
		pages = 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int confine_index(struct error *err)
{
	const struct rlimit none = { 0, 0 };
	const uint64_t memory = INDEX_MEMORY + confine_data_bytes();
	const struct rlimit data = { memory, memory };
	const struct rlimit size = { INDEX_FILE, INDEX_FILE };
	struct error other;
	int rc;

	(void)!bound_capabilities(0, &other);
	rc = setrlimit(RLIMIT_CORE, &none) < 0 ||
			     setrlimit(RLIMIT_DATA, &data) < 0 ||
			     setrlimit(RLIMIT_FSIZE, &size) < 0
		     ? error_errno(err, errno, "limits")
		     : 0;
	if (rc == 0)
		rc = become_nobody(CONFINE_INDEX_ID, err);
	if (rc == 0)
		rc = keep_capabilities(0, err);
	if (rc == 0)
		rc = set_no_new_privs(err);
	/* Make /proc/self/fd, by which the process opens the layers, readable for its new uid. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return rc == 0 ? refuse_index_calls(err) : rc;
}

int confine_job(uint64_t memory, uint64_t file, struct error *err)
{
	const struct rlimit data = { memory, memory };
	const struct rlimit size = { file, file };
	const struct rlimit cpu = { CPU_SECONDS, CPU_SECONDS };

	if (setrlimit(RLIMIT_DATA, &data) < 0 ||
	    setrlimit(RLIMIT_FSIZE, &size) < 0 ||
	    setrlimit(RLIMIT_CPU, &cpu) < 0)
		return error_errno(err, errno, "limits");
	return allow_calls(false, err);
}

/* -------------------------------------- --- reading a process's confinement --- */

static bool find_number(const char *status, const char *key, int base,
			uint64_t *ret)
{
	const char *p = strstr(status, key);

	if (!p)
		return false;
	*ret = strtoull(p + strlen(key), NULL, base);
	return true;
}

int confine_look(int pid, struct confined *ret, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	uint64_t nnp = 0, filter = 0, uid = 0;
	struct confined c;
	char path[64];
	int rc;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	rc = fs_read_file(path, STATUS_MAX, &text, err);
	if (rc < 0)
		return rc;
	if (!find_number(text.data, "\nCapEff:", 16, &c.effective) ||
	    !find_number(text.data, "\nCapBnd:", 16, &c.bounding) ||
	    !find_number(text.data, "\nUid:", 10, &uid) ||
	    !find_number(text.data, "\nNoNewPrivs:", 10, &nnp) ||
	    !find_number(text.data, "\nSeccomp:", 10, &filter))
		return error_set(err, ENOTSUP, "%s tells of no filters", path);
	c.n_effective = (unsigned int)__builtin_popcountll(c.effective);
	c.uid = (uint32_t)uid;
	c.no_new_privs = nnp != 0;
	c.has_filter = filter == 2;
	*ret = c;
	return 0;
}
