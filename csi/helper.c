// SPDX-License-Identifier: Apache-2.0
#include "csi/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/mountinfo.h"
#include "common/process.h"
#include "common/text.h"

#define GROUP "bootseer"
#define HIERARCHIES_MAX 24
#define LOG_MAX 65536
#define SHOWN 200 /* bytes of the log's last line in a message */
/* rounds of killing, since a process may start others while it is killed */
#define KILL_ROUNDS 64
/* time for a process to end: its writes may hang in a store */
#define KILL_MS 20000
#define LIST_MAX 65536     /* bytes of cgroup.procs */
#define OOM_SCORE "-900\n" /* as in bootseer-ckpt@.service */

/* ---- control groups ---- */

struct group_files {
	const char *id;
	uint64_t memory;
	int fds[HIERARCHIES_MAX];
	size_t n;
};

static int group_path(const char *mount, const char *id, const char *file,
		      char **ret, struct error *err)
{
	if (asprintf(ret, "%s/" GROUP "/%s%s%s", mount, id, *file ? "/" : "",
		     file) < 0) {
		*ret = NULL;
		return error_nomem(err);
	}
	return 0;
}

static bool is_hierarchy(const struct mountinfo *m)
{
	return strcmp(m->fstype, "cgroup") == 0 ||
	       strcmp(m->fstype, "cgroup2") == 0;
}

/* Write to a file of the control group; a hierarchy without the file has no such limit. */
static void write_file(const char *dir, const char *file, const char *text)
{
	AUTO_FREE char *path = fs_join(dir, file);
	AUTO_CLOSE int fd = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;

	if (fd >= 0)
		(void)!write(fd, text, strlen(text));
}

static void bound_memory(const char *dir, uint64_t memory)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)memory);
	write_file(dir, "memory.max", text);
	write_file(dir, "memory.limit_in_bytes", text);
}

/* Make and open the group in a hierarchy; a hierarchy that is mounted read-only has none. */
static int open_group(void *arg, const struct mountinfo *m, struct error *err)
{
	struct group_files *g = arg;
	AUTO_FREE char *above = fs_join(m->path, GROUP);
	AUTO_FREE char *dir = NULL;
	AUTO_FREE char *procs = NULL;
	int fd, rc;

	if (!is_hierarchy(m) || g->n == HIERARCHIES_MAX)
		return 0;
	rc = group_path(m->path, g->id, "", &dir, err);
	if (rc == 0)
		rc = group_path(m->path, g->id, "cgroup.procs", &procs, err);
	if (rc < 0 || !above)
		return error_nomem(err);
	if (mkdir(above, 0755) < 0 && errno != EEXIST)
		return 0;
	write_file(above, "cgroup.subtree_control", "+memory");
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return 0;
	if (g->memory)
		bound_memory(dir, g->memory);
	fd = open(procs, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		g->fds[g->n++] = fd;
	return 0;
}

static void group_close(struct group_files *g)
{
	while (g->n > 0)
		(void)close(g->fds[--g->n]);
}

static int group_open(const struct helper_job *job, struct group_files *g,
		      struct error *err)
{
	int rc;

	*g = (struct group_files){ .id = job->id, .memory = job->memory };
	rc = mountinfo_each(open_group, g, err);
	if (rc == 0 && g->n == 0)
		rc = error_set(
			err, EROFS,
			"no control group can be made for the volume's "
			"process: is /sys/fs/cgroup of the node mounted, "
			"and the plugin privileged?");
	if (rc < 0)
		group_close(g);
	return rc;
}

/* ---- the end of a group ---- */

static int open_process(pid_t pid, const char *id)
{
	AUTO_BUF text = BUF_INIT;
	char path[48], wanted[64];
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return -1;
	/* The number may have been another's before it was opened. */
	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	(void)snprintf(wanted, sizeof(wanted), "/" GROUP "/%s\n", id);
	if (fs_read_file(path, LIST_MAX, &text, NULL) == 0 && text.data &&
	    strstr(text.data, wanted))
		return fd;
	(void)close(fd);
	return -1;
}

struct group_end {
	const char *id;
	size_t n_left; /* processes found in this round */
	bool is_stuck;
};

static void kill_process(struct group_end *e, pid_t pid)
{
	AUTO_CLOSE int fd = open_process(pid, e->id);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (fd < 0)
		return;
	(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	if (poll(&p, 1, KILL_MS) <= 0)
		e->is_stuck = true;
}

static int kill_group(void *arg, const struct mountinfo *m, struct error *err)
{
	struct group_end *e = arg;
	AUTO_FREE char *procs = NULL;
	AUTO_FREE char *dir = NULL;
	AUTO_BUF text = BUF_INIT;
	char *save = NULL;
	int rc;

	if (!is_hierarchy(m))
		return 0;
	rc = group_path(m->path, e->id, "cgroup.procs", &procs, err);
	if (rc == 0)
		rc = group_path(m->path, e->id, "", &dir, err);
	if (rc < 0)
		return rc;
	if (fs_read_file(procs, LIST_MAX, &text, NULL) == 0 && text.data)
		for (char *w = strtok_r(text.data, "\n", &save);
		     w && !e->is_stuck; w = strtok_r(NULL, "\n", &save)) {
			e->n_left++;
			kill_process(e, (pid_t)atoi(w));
		}
	(void)rmdir(dir);
	return 0;
}

int helper_kill(const char *id, struct error *err)
{
	struct group_end e = { .id = id, .n_left = 1 };
	int rc = 0;

	for (int i = 0; rc == 0 && e.n_left > 0 && i < KILL_ROUNDS; i++) {
		e.n_left = 0;
		rc = mountinfo_each(kill_group, &e, err);
		if (e.is_stuck)
			break;
	}
	if (rc == 0 && (e.n_left > 0 || e.is_stuck))
		rc = error_set(err, EBUSY,
			       "a process of the volume's control group " GROUP
			       "/%s does not end: see "
			       "/sys/fs/cgroup/*/" GROUP "/%s/cgroup.procs",
			       id, id);
	return rc;
}

/* ---- programs ---- */

struct helper_files {
	struct group_files group;
	int log, out;
};

/* Have the program end when the plugin ends that waits for it: otherwise it would run beside a
 * program of the next plugin, which does not know it. */
static void end_with_parent(pid_t parent)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(127);
}

/* Run the program; in the forked child of a process with threads, so system calls only. */
static void exec_helper(const struct helper_job *job,
			const struct helper_files *f)
{
	static const char failed[] = "the program cannot be run: --programs\n";
	sigset_t none;
	int fd;

	for (size_t i = 0; i < f->group.n; i++)
		/* Ignore a failure: some hierarchies refuse processes (cpuset), and any of the
		 * others is enough to find the group. */
		(void)!write(f->group.fds[i], "0", 1);
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, OOM_SCORE, strlen(OOM_SCORE));
	(void)setsid();
	(void)dup2(f->out, STDOUT_FILENO);
	(void)dup2(f->log, STDERR_FILENO);
	(void)close_range(STDERR_FILENO + 1, ~0U, 0);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execve(job->argv[0], job->argv, job->env);
	(void)!write(STDERR_FILENO, failed, sizeof(failed) - 1);
	_exit(127);
}

static int open_files(const struct helper_job *job, struct helper_files *f,
		      struct error *err)
{
	int rc;

	*f = (struct helper_files){ .log = -1, .out = -1 };
	rc = group_open(job, &f->group, err);
	if (rc < 0)
		return rc;
	f->log =
		open(job->log,
		     O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (f->log >= 0)
		return 0;
	rc = error_errno(err, errno, "open '%s'", job->log);
	group_close(&f->group);
	return rc;
}

static void close_files(struct helper_files *f)
{
	group_close(&f->group);
	fd_close(f->log);
	fd_close(f->out);
}

/* Report the log's last line, without its prefix "program: ". */
static int report_last_line(const struct helper_job *job, const char *what,
			    struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	char *line = NULL, *save = NULL;

	if (fs_read_file(job->log, LOG_MAX, &text, NULL) == 0 && text.data)
		for (char *l = strtok_r(text.data, "\n", &save); l;
		     l = strtok_r(NULL, "\n", &save))
			line = l;
	if (line)
		text_make_printable(line);
	return error_set(err, EIO, "%s: %.400s", what,
			 line ? line : "it ended without a word");
}

int helper_run(const struct helper_job *job, int64_t timeout_ms,
	       struct error *err)
{
	struct helper_files f;
	int status = 0, rc = open_files(job, &f, err);
	pid_t pid, self = getpid();

	if (rc < 0)
		return rc;
	f.out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	pid = fork();
	if (pid == 0) {
		end_with_parent(self);
		exec_helper(job, &f);
	}
	rc = pid < 0 ? error_errno(err, errno, "fork")
		     : process_reap(pid, timeout_ms, 0, &status, err);
	close_files(&f);
	if (rc == -ETIMEDOUT) {
		(void)!helper_kill(job->id, NULL);
		return error_set(err, ETIMEDOUT, "%s took longer than %lld s",
				 job->argv[0], (long long)(timeout_ms / 1000));
	}
	if (rc == 0 && WIFSIGNALED(status))
		rc = error_set(err, EIO, "%s ended by signal %d", job->argv[0],
			       WTERMSIG(status));
	else if (rc == 0 && WEXITSTATUS(status) != 0)
		rc = report_last_line(job, "it failed", err);
	return rc;
}

/* ---- programs that stay ---- */

static bool has_line(const char *log, const char *ready)
{
	AUTO_BUF text = BUF_INIT;
	const char *at;

	if (fs_read_file(log, LOG_MAX, &text, NULL) < 0 || !text.data)
		return false;
	at = strstr(text.data, ready);
	return at && (at == text.data || at[-1] == '\n');
}

/* Wait until the program's log has the line, or the program ends: `life` is the other end of
 * its standard output. */
static int wait_ready(const struct helper_job *job, const char *ready, int life,
		      int64_t timeout_ms, struct error *err)
{
	const int64_t end_ms = clock_now_ms() + timeout_ms;
	AUTO_CLOSE int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct pollfd p[2] = { { .fd = watch, .events = POLLIN },
			       { .fd = life, .events = POLLIN } };
	char events[4096];

	if (watch < 0 || inotify_add_watch(watch, job->log, IN_MODIFY) < 0)
		return error_errno(err, errno, "watch '%s'", job->log);
	for (;;) {
		int64_t left_ms = end_ms - clock_now_ms();

		if (has_line(job->log, ready))
			return 0;
		if (left_ms <= 0)
			return error_set(err, ETIMEDOUT,
					 "%s is not ready after %lld s",
					 job->argv[0],
					 (long long)(timeout_ms / 1000));
		if (poll(p, 2, (int)left_ms) < 0 && errno != EINTR)
			return error_errno(err, errno, "poll");
		if (p[1].revents)
			return report_last_line(job, "it ended", err);
		while (read(watch, events, sizeof(events)) > 0)
			;
	}
}

int helper_start(const struct helper_job *job, const char *ready,
		 int64_t timeout_ms, struct error *err)
{
	struct helper_files f;
	int life[2], status, rc = open_files(job, &f, err);
	pid_t pid;

	if (rc < 0)
		return rc;
	if (pipe2(life, O_CLOEXEC) < 0) {
		rc = error_errno(err, errno, "pipe");
		close_files(&f);
		return rc;
	}
	f.out = life[1];
	/* Fork twice: the intermediate process ends at once, so the program is no child of this
	 * process and need not be reaped here. */
	pid = fork();
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			exec_helper(job, &f);
		_exit(pid < 0);
	}
	rc = pid < 0 ? error_errno(err, errno, "fork") : 0;
	if (rc == 0 && (waitpid(pid, &status, 0) != pid || status != 0))
		rc = error_set(err, EAGAIN, "no process can be started for it");
	close_files(&f);
	if (rc == 0)
		rc = wait_ready(job, ready, life[0], timeout_ms, err);
	(void)close(life[0]);
	if (rc < 0)
		(void)!helper_kill(job->id, NULL);
	return rc;
}
