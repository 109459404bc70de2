// SPDX-License-Identifier: Apache-2.0
/*
 * bootseer-ckpt: one process for one mount. With --hold, a parent process keeps the mount while
 * this one is restarted.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ckpt-fuse/mount/outlets.h"
#include "ckpt-fuse/mount/say.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mount.h"
#include "common/notify.h"
#include "common/option.h"
#include "net/signals.h"

#define SESSION_NAME "ckpt"
#define JOURNAL_NAME "ckpt-names"
#define LIFE_NAME "ckpt-life"
#define LOOK_AGAIN_MS 1000
/* bytes of the log of a held mount: it may be in memory */
#define LOG_FILE_MAX MIB
#define EXIT_USAGE 2
#define EXIT_LOST 3 /* files that were closed could not be stored */

static const struct option_spec options[] = {
	{ .key = "run",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .def = "/run/bootseer-ckpt/default",
	  .offset = offsetof(struct ckpt_mount_config, run_dir),
	  .help = "Folder of this mount's socket and locks, which no other "
		  "mount has." },
	CKPT_MOUNT_OPTIONS(struct ckpt_mount_config),
	{ .key = "hold",
	  .type = OPTION_BOOL,
	  .no_file = true,
	  .offset = offsetof(struct ckpt_mount_config, hold),
	  .help = "Keep the mount over a crash, and start again." },
	{ .key = "ranks-only",
	  .type = OPTION_BOOL,
	  .no_file = true,
	  .offset = offsetof(struct ckpt_mount_config, ranks_only),
	  .help = "Serve --group-socket alone, as any user and without "
		  "/dev/fuse: nothing is mounted, and DIR is only where "
		  "programs have the store." },
	{ .key = NULL },
};

static const struct option_program program = {
	.name = "bootseer-ckpt",
	.usage = "[OPTIONS] STORE DIR",
	.summary = "Show the checkpoint files of a store as a folder, until it "
		   "is unmounted. 'bootseer ckpt mount' starts it.",
	.options = options,
	.see_also = "bootseer(1)",
	.min_args = 2,
	.max_args = 2,
};

/* Open the file kept by the previous process, or a new one that is kept for the next. */
static int open_kept_or_new_file(struct fd_keeper *k, const char *name,
				 int *ret, struct error *err)
{
	int fd = fd_keeper_take(k, name);
	int rc = 0;

	if (fd < 0) {
		fd = memfd_create(name, MFD_CLOEXEC);
		if (fd < 0)
			return error_errno(err, errno, "memfd");
		if (fd_keeper_is_durable(k))
			rc = fd_keeper_put(k, name, fd, err);
	}
	if (rc < 0)
		(void)close(fd);
	else
		*ret = fd;
	return rc;
}

/* ---------------------------------------------------------------------- the mount --- */

/* Refuse a mount point on which another file system is mounted. */
static int check_nothing_mounted(const char *path, struct error *err)
{
	struct mount_line l = { .major = 0 };
	int rc = mount_find(path, &l, err);

	if (rc != 1)
		return rc;
	mount_line_fini(&l);
	return error_set(err, EBUSY, "something is mounted on '%s': unmount it",
			 path);
}

/* Claim the mount point, so that one process at a time begins there. Two processes that wait for
 * their stores would both find it free, and the second would take down the mount of the first.
 * `*ret` is the claim. */
static int claim_mount_point(const char *run_dir, int *ret, struct error *err)
{
	AUTO_FREE char *name = fs_join(run_dir, CKPT_CLAIM_FILE);
	AUTO_CLOSE int fd = -1;

	if (!name)
		return error_nomem(err);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_errno(err, errno, "open '%s'", name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, EBUSY,
				 "another 'bootseer ckpt mount' of this folder "
				 "begins, or waits for its store: end it, or "
				 "wait for it");
	*ret = steal_fd(&fd);
	return 0;
}

/* Serve until the mount is unmounted: by others, or by us after a signal once it is not in use.
 * Without a session: until a signal. */
static int serve_mount(struct session *s, struct ckpt_mount *m,
		       struct ckpt_say *say, int signals, struct error *err)
{
	AUTO_CLOSE int mounts =
		open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	struct pollfd p[2] = { { .fd = signals, .events = POLLIN },
			       { .fd = mounts, .events = POLLPRI } };
	bool was_told = false;

	if (mounts < 0)
		return error_errno(err, errno, "mountinfo");
	for (;;) {
		struct signalfd_siginfo si;
		struct error why = ERROR_INIT;
		int rc = s ? session_is_mounted(s, &why) : 1;
		int wait_ms = ckpt_say_interval(say);

		if (rc == 0)
			return 0;
		/* The check failed, perhaps for lack of descriptors. Writers go on. */
		if (rc < 0 && !was_told)
			log_warning("ckpt",
				    "cannot see whether it is mounted "
				    "reason=\"%s\"",
				    why.msg);
		was_told = rc < 0;
		if (rc < 0)
			wait_ms = LOOK_AGAIN_MS;
		if (poll(p, s ? 2 : 1, wait_ms) < 0 && errno != EINTR)
			return error_errno(err, errno, "poll");
		ckpt_say_phases(say, m, false);
		if (!(p[0].revents & POLLIN) ||
		    read(signals, &si, sizeof(si)) != (ssize_t)sizeof(si) ||
		    si.ssi_signo == SIGHUP)
			continue;
		if (!s)
			return 0;
		if (mount_take_down(m->cfg->run_dir, MOUNT_LOCK_SESSION,
				    session_path(s), false, &why) < 0)
			log_warning("ckpt", "still in use reason=\"%s\"",
				    why.msg);
	}
}

/* Drop the journal last: if this process is killed in between, the journal tells the next process
 * what was lost. */
static void drop_kept_files(struct fd_keeper *k)
{
	static const char *const names[] = { SESSION_NAME, SESSION_NAME "-init",
					     LIFE_NAME, JOURNAL_NAME };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)!fd_keeper_drop(k, names[i], NULL);
}

static void say_ready(const char *path, bool is_adopted, struct ckpt_mount *m,
		      const char *store)
{
	atomic_store(&m->is_ready, true);
	log_info("ckpt", "ready path=\"%s\" store=\"%s\" restarted=%d", path,
		 store, is_adopted);
	notify_send("READY=1");
	(void)!write(STDOUT_FILENO, "ready\n", 6);
}

/* Leave the mount to the next process after a failure, so that programs with open files go on,
 * unless this process could not begin. */
static bool is_left(struct session *s, bool was_ready, int rc,
		    const struct fd_keeper *keeper)
{
	return rc < 0 && (was_ready || session_is_adopted(s)) &&
	       fd_keeper_is_durable(keeper) && session_is_mounted(s, NULL) != 0;
}

/* Handle a signal before the mount exists: exit. The holder of the descriptors does not restart a
 * process that ends without failure. */
static void main_end_early(int signal_number)
{
	static const char line[] =
		"bootseer-ckpt: ended before it was mounted\n";

	(void)signal_number;
	(void)!write(STDERR_FILENO, line, sizeof(line) - 1);
	_exit(EXIT_SUCCESS);
}

/* Pass a signal on to the main thread, which reads signals. Threads that the name resolver started
 * before the mount existed do not block signals. */
static void pass_signal_to_main_thread(int signal_number)
{
	const int code = errno;

	if (gettid() != getpid())
		(void)tgkill(getpid(), getpid(), signal_number);
	errno = code;
}

/* Open the mount, waiting for the store if it does not answer. A signal ends the wait, unless
 * programs have the previous process's mount open. */
static int open_mount(const struct ckpt_mount_config *cfg, const char *store,
		      const struct ckpt_kept *kept, struct ckpt_mount **ret,
		      struct error *err)
{
	sigset_t ending;
	int rc;

	(void)sigemptyset(&ending);
	(void)sigaddset(&ending, SIGTERM);
	(void)sigaddset(&ending, SIGINT);
	if (!getenv("LISTEN_FDS")) {
		(void)signal(SIGTERM, main_end_early);
		(void)signal(SIGINT, main_end_early);
		(void)pthread_sigmask(SIG_UNBLOCK, &ending, NULL);
	}
	rc = ckpt_mount_open(cfg, store, kept, ret, err);
	(void)pthread_sigmask(SIG_BLOCK, &ending, NULL);
	/* Not SIG_IGN, which would drop a pending signal that came while the store was opened. */
	(void)signal(SIGTERM, pass_signal_to_main_thread);
	(void)signal(SIGINT, pass_signal_to_main_thread);
	return rc;
}

/* Set the kernel's read-ahead, 128 KiB by default, a request each. With 512 KiB, parallel reads
 * of 16 files of 64 MiB take 0.8 of the time; more brings nothing. Left alone if /sys is not
 * writable. */
static void set_kernel_readahead(const struct session *s)
{
	static const char kib[] = "512\n";
	const dev_t dev = session_device(s);
	AUTO_CLOSE int fd = -1;
	char path[64];

	(void)snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb",
		       major(dev), minor(dev));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, kib, sizeof(kib) - 1);
}

/* Make the mount options of the session's configuration. */
static int set_mount_data(const struct ckpt_mount_config *cfg, char **data,
			  struct error *err)
{
	const char *context = cfg->selinux_context;

	if (context && !mount_context_is_valid(context))
		return error_set(err, EINVAL,
				 "--selinux-context: '%.100s' is none, as "
				 "system_u:object_r:container_file_t:s0 is",
				 context);
	if (asprintf(data, "default_permissions,allow_other%s%s%s",
		     context ? ",context=\"" : "", context ? context : "",
		     context ? "\"" : "") >= 0)
		return 0;
	*data = NULL;
	return error_nomem(err);
}

static int start_session(const struct ckpt_mount_config *cfg,
			 const struct session_config *sc, struct session **ret,
			 struct error *err)
{
	int rc = session_start(sc, ret, err);

	if (rc < 0 && cfg->selinux_context &&
	    access("/sys/fs/selinux", F_OK) < 0)
		return error_wrap(err, rc,
				  "--selinux-context: this machine has no "
				  "SELinux");
	return rc;
}

struct session_run {
	int signals;
	/* claim on the mount point until it is mounted, or without a session until the end; -1:
	 * none */
	int claim_fd;
	/* the mount and the kept files are left to the next process */
	bool is_left;
};

/* Run a session. With --ranks-only there is none: ranks save and programs keep blocks in a
 * container without the right to mount. */
static int run_session(const struct ckpt_mount_config *cfg, char **args,
		       struct fd_keeper *keeper, const struct ckpt_kept *kept,
		       struct session_run *r, struct error *err)
{
	struct session_config sc = { .name = SESSION_NAME,
				     .path = args[1],
				     .run_dir = cfg->run_dir,
				     .threads = (unsigned int)cfg->threads,
				     .keeper = keeper,
				     .handler = &ckpt_mount_handler,
				     .fstype = CKPT_MOUNT_FSTYPE,
				     .mount_flags =
					     cfg->read_only ? MS_RDONLY : 0,
				     .log = "ckpt" };
	struct outlets_config oc = { .path = args[1] };
	AUTO_FREE char *data = NULL;
	struct outlets *outlets = NULL;
	struct ckpt_mount *m = NULL;
	struct session *s = NULL;
	struct ckpt_say say;
	bool was_started, was_ready = false;
	int rc = set_mount_data(cfg, &data, err);

	if (rc < 0)
		return rc;
	sc.mount_data = data;
	ckpt_say_init(&say);
	if (!cfg->ranks_only)
		ckpt_say_open(&say, STAGE_BEGIN, STAGE_NONE);
	rc = open_mount(cfg, args[0], kept, &m, err);
	sc.owner = m;
	if (!cfg->ranks_only) {
		if (rc == 0)
			rc = start_session(cfg, &sc, &s, err);
		if (r->claim_fd >= 0)
			(void)close(steal_fd(&r->claim_fd));
		ckpt_say_open(&say, STAGE_END, rc < 0);
	}
	if (rc < 0 && !m) {
		ckpt_say_fini(&say);
		return rc;
	}
	oc.mount = m;
	if (s) {
		oc.path = session_path(s);
		oc.is_adopted = session_is_adopted(s);
	}
	/* An adopted mount already has the setting, or another one made by the operator. */
	if (s && !oc.is_adopted)
		set_kernel_readahead(s);
	/* Begin saves before the outlets, which report on them from their own threads. */
	if (rc == 0)
		rc = ckpt_mount_begin_saves(m, oc.path, err);
	if (rc == 0)
		rc = outlets_new(&oc, &outlets, err);
	/* If the previous process's mount is gone, it was unmounted on purpose: do not mount
	 * again. */
	if (rc == 0 && (!s || oc.is_adopted || !getenv("LISTEN_FDS"))) {
		say_ready(oc.path, oc.is_adopted, m, args[0]);
		was_ready = true;
		rc = serve_mount(s, m, &say, r->signals, err);
	}
	outlets_free(outlets); /* before the session, whose path it uses */
	was_started = s != NULL;
	r->is_left = s && is_left(s, was_ready, rc, keeper);
	session_stop(s, r->is_left);
	/* The log names each lost file. */
	if (ckpt_mount_settle(m) && rc == 0)
		rc = EXIT_LOST;
	/* After an unmount no next process is wanted, whatever the result. */
	if (was_started && !r->is_left)
		drop_kept_files(keeper);
	ckpt_say_phases(&say, m, true);
	ckpt_say_fini(&say);
	ckpt_mount_free(m);
	return rc;
}

/* End the process after a mount that was unmounted. Needs neither the store, which may not have
 * answered, nor the mount point. */
static int report_lost_and_drop_kept(struct fd_keeper *k, const char *why,
				     struct error *err)
{
	AUTO_CLOSE int journal_fd = -1;
	unsigned int n_lost = 0;
	int rc = open_kept_or_new_file(k, JOURNAL_NAME, &journal_fd, err);

	if (rc == 0)
		rc = ckpt_tell_lost(journal_fd, &n_lost, err);

	log_warning("ckpt", "the mount is gone reason=\"%s\"", why);
	drop_kept_files(k);
	return rc < 0 ? rc : n_lost ? EXIT_LOST : 0;
}

static int run_mount(const struct ckpt_mount_config *cfg, char **args,
		     struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int signals = daemon_signals_fd(err);
	struct session_run r = { .signals = signals, .claim_fd = -1 };
	AUTO_CLOSE int journal_fd = -1;
	AUTO_CLOSE int life_fd = -1;
	struct fd_keeper *keeper = NULL;
	const char *is_gone = NULL;
	bool is_successor;
	int rc = signals < 0 ? signals : fd_keeper_open(&keeper, err);

	if (rc < 0)
		return rc;
	if (fd_keeper_is_durable(keeper))
		log_set_file_max(LOG_FILE_MAX);
	is_successor = getenv("LISTEN_FDS") != NULL;
	if (!cfg->ranks_only)
		rc = mount_canonical(args[1], &path, err);
	else if (!cfg->group_socket)
		rc = error_set(err, EINVAL,
			       "--ranks-only needs --group-socket");
	if (is_successor && session_is_gone(keeper, SESSION_NAME))
		is_gone = "it was unmounted while nobody served it";
	else if (is_successor && rc == -ENOENT)
		is_gone = err->msg;
	if (is_gone) {
		rc = report_lost_and_drop_kept(keeper, is_gone, err);
		fd_keeper_close(keeper);
		return rc;
	}
	if (rc == 0)
		rc = fs_mkdir_p(cfg->run_dir, 0700, err);
	if (rc == 0 && !is_successor)
		rc = claim_mount_point(cfg->run_dir, &r.claim_fd, err);
	if (rc == 0 && !is_successor && path)
		rc = check_nothing_mounted(path, err);
	if (rc == 0)
		rc = open_kept_or_new_file(keeper, JOURNAL_NAME, &journal_fd,
					   err);
	if (rc == 0)
		rc = open_kept_or_new_file(keeper, LIFE_NAME, &life_fd, err);
	if (rc == 0) {
		const struct ckpt_kept kept = { .journal_fd = journal_fd,
						.life_fd = life_fd };

		rc = run_session(cfg, args, keeper, &kept, &r, err);
	}
	/* Do not retry a failed first start: no program has the mount open. */
	if (rc < 0 && !is_successor && !r.is_left)
		drop_kept_files(keeper);
	fd_keeper_close(keeper);
	fd_close(r.claim_fd);
	return rc;
}

/* Run this program again without --hold, as the child of a process that keeps its descriptors. */
static int rerun_as_held_child(int argc, char **argv, struct error *err)
{
	AUTO_FREE char **args =
		(char **)calloc((size_t)argc + 1, sizeof(*args));
	static char self[] = "/proc/self/exe";
	int n = 0;

	if (!args)
		return error_nomem(err);
	args[n++] = self;
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--hold", 6) != 0)
			args[n++] = argv[i];
	log_set_file_max(LOG_FILE_MAX);
	return hold_run(args, err);
}

int main(int argc, char **argv)
{
	struct ckpt_mount_config cfg = { .run_dir = NULL };
	struct error err = ERROR_INIT;
	enum option_action action;
	int first = 0, rc;

	/* Return large pieces to the system when freed. Otherwise each thread's heap keeps its
	 * largest size: the process grew from 59 to 420 MiB when 48 programs listed 100,000 names
	 * at once, and grows to 250 MiB with this. */
	(void)mallopt(M_MMAP_THRESHOLD, 2 * MIB);
	rc = option_parse(&program, &cfg, argc, argv, &action, &first, &err);
	if (rc < 0) {
		fprintf(stderr, "bootseer-ckpt: %s\n", err.msg);
		option_fini(options, &cfg);
		return EXIT_USAGE;
	}
	/* Set the process name, which is "exe" if the holder started it. */
	(void)prctl(PR_SET_NAME, program.name);
	if (action == OPTION_ACTION_RUN)
		rc = cfg.hold ? rerun_as_held_child(argc, argv, &err)
			      : run_mount(&cfg, argv + first, &err);
	if (rc < 0)
		fprintf(stderr, "bootseer-ckpt: %s\n", err.msg);
	option_fini(options, &cfg);
	return rc < 0 ? EXIT_FAILURE : rc;
}
