// SPDX-License-Identifier: Apache-2.0
/*
 * Sessions, by way of fuse-echo (echo.c) under a holder.  Needs root, /dev/fuse and a
 * kernel that sends requests again (6.9); every test has its own mount namespace, so
 * nothing stays mounted whatever happens.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/mount.h"
#include "fuse/fuse.h"
#include "tests/unit/failures.h"

TestSuite(session, .timeout = 120);

struct mounted {
	char dir[64];
	char *run, *path, *file, *folder;
	pid_t holder, child;
	int out; /* what fuse-echo says */
	bool adopted;
};

static char *in(const struct mounted *m, const char *name)
{
	char *path = fs_join(m->dir, name);

	cr_assert_not_null(path);
	return path;
}

/* The next line begins with `word`; its numbers. */
static void await(struct mounted *m, const char *word, int ret[2])
{
	char line[128] = "", said[32];
	size_t n = 0;

	while (n < sizeof(line) - 1 && read(m->out, line + n, 1) == 1 &&
	       line[n] != '\n')
		n++;
	ret[1] = 0;
	cr_assert_geq(sscanf(line, "%31s %d %d", said, &ret[0], &ret[1]), 2,
		      "'%s'", line);
	cr_assert_str_eq(said, word, "'%s'", line);
}

static int await_word(struct mounted *m, const char *word)
{
	int v[2];

	await(m, word, v);
	return v[0];
}

static void await_ready(struct mounted *m)
{
	int v[2];

	await(m, "ready", v);
	m->child = v[0];
	m->adopted = v[1];
}

static void prepare(struct mounted *m)
{
	strcpy(m->dir, "/tmp/bootseer-session.XXXXXX");
	cr_assert_not_null(mkdtemp(m->dir));
	cr_assert_eq(unshare(CLONE_NEWNS), 0, "needs root");
	cr_assert_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	m->folder = in(m, "folder");
	m->run = in(m, "run");
	cr_assert_eq(mkdir(m->folder, 0700), 0);
	cr_assert_eq(mkdir(m->run, 0700), 0);
	m->path = m->path ? m->path : in(m, "run/echo");
	m->file = fs_join(m->path, "echo");
	cr_assert_not_null(m->file);
}

/* `mode`: "early", or NULL. */
static void run_echo(struct mounted *m, char *mode)
{
	char program[] = FUSE_ECHO;
	char *argv[] = { program, m->run, m->path, m->folder, mode, NULL };
	int p[2];

	cr_assert_eq(pipe(p), 0);
	m->holder = fork();
	if (m->holder == 0) {
		int rc;

		/* Not to be left over when the test times out. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(p[1], STDOUT_FILENO);
		(void)close(p[0]);
		(void)close(p[1]);
		rc = hold_run(argv, NULL);
		_exit(rc < 0 ? 99 : rc);
	}
	(void)close(p[1]);
	m->out = p[0];
}

static void begin(struct mounted *m, char *mode)
{
	prepare(m);
	run_echo(m, mode);
	await_ready(m);
}

static int status_of(pid_t pid)
{
	int status = -1;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void kill_child(struct mounted *m)
{
	cr_assert_eq(kill(m->child, SIGKILL), 0);
	await_ready(m);
	cr_expect(m->adopted);
}

static void clean(struct mounted *m)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(fs_remove_tree(m->dir, &err), 0, "%s", err.msg);
	free(m->run);
	free(m->path);
	free(m->file);
	free(m->folder);
}

/* Told to end, it ends, and its mount with it. */
static void finish(struct mounted *m)
{
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;

	cr_assert_eq(kill(m->holder, SIGTERM), 0);
	cr_expect_eq(status_of(m->holder), 0);
	cr_expect_eq(mount_find(m->path, &line, &err), 0);
	mount_line_fini(&line);
	(void)close(m->out);
	clean(m);
}

static void flag(const struct mounted *m, const char *name, bool on)
{
	char *path = fs_join(m->folder, name);

	cr_assert_not_null(path);
	if (on)
		cr_assert_eq(close(open(path, O_WRONLY | O_CREAT, 0600)), 0);
	else
		cr_assert_eq(unlink(path), 0);
	free(path);
}

static int open_file(const struct mounted *m)
{
	int fd = open(m->file, O_RDWR | O_CLOEXEC);

	cr_assert_geq(fd, 0, "%s: %s", m->file, strerror(errno));
	return fd;
}

static void fill(char *buf, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (char)(i * 31 + i / 4096 * 7 + seed);
}

#define BYTES ((size_t)SESSION_DATA_MAX + 12345)

static void expect_bytes(int fd, unsigned int seed, uint64_t off)
{
	char *want = malloc(BYTES), *got = malloc(BYTES);

	fill(want, BYTES, seed);
	cr_expect_eq(fs_pread_full(fd, got, BYTES, off), 0);
	cr_expect_eq(memcmp(got, want, BYTES), 0);
	free(want);
	free(got);
}

static void write_bytes(int fd, unsigned int seed, uint64_t off)
{
	char *buf = malloc(BYTES);

	fill(buf, BYTES, seed);
	cr_expect_eq(fs_pwrite_full(fd, buf, BYTES, off), 0);
	free(buf);
}

Test(session, serves_what_its_handler_answers)
{
	struct mounted m = { .path = NULL };
	struct stat st;
	int fd;

	begin(&m, NULL);
	cr_expect_not(m.adopted);
	fd = open_file(&m);
	write_bytes(fd, 1, 0);
	write_bytes(fd, 2, BYTES);
	expect_bytes(fd, 1, 0);
	expect_bytes(fd, 2, BYTES);
	cr_expect_eq(fstat(fd, &st), 0);
	cr_expect_eq((size_t)st.st_size, 2 * BYTES);
	(void)close(fd);
	finish(&m);
}

Test(session, goes_on_when_its_process_is_killed)
{
	struct mounted m = { .path = NULL };
	struct stat before, after;
	int fd, again;

	begin(&m, NULL);
	fd = open_file(&m);
	cr_assert_eq(fstat(fd, &before), 0);
	for (unsigned int i = 0; i < 3; i++) {
		write_bytes(fd, i, i * BYTES);
		kill_child(&m);
		expect_bytes(fd, i, i * BYTES);
	}
	again = open_file(&m);
	cr_expect_eq(fstat(again, &after), 0);
	cr_expect_eq(before.st_dev, after.st_dev);
	expect_bytes(again, 0, 0);
	(void)close(again);
	(void)close(fd);
	finish(&m);
}

/* The request reached the process, and was not answered when that was killed. */
static void is_sent_again(bool is_write)
{
	struct mounted m = { .path = NULL };
	pid_t user;
	int fd;

	begin(&m, NULL);
	fd = open_file(&m);
	write_bytes(fd, 5, 0);
	flag(&m, "withhold", true);
	user = fork();
	if (user == 0) {
		char buf[4096], want[4096];

		fill(want, sizeof(want), is_write ? 9 : 5);
		memcpy(buf, want, sizeof(buf));
		if (is_write)
			_exit(pwrite(fd, buf, sizeof(buf), 0) == sizeof(buf)
				      ? 0
				      : 1);
		memset(buf, 0, sizeof(buf));
		if (pread(fd, buf, sizeof(buf), 0) != sizeof(buf))
			_exit(1);
		_exit(memcmp(buf, want, sizeof(buf)) ? 2 : 0);
	}
	(void)await_word(&m, "withheld");
	flag(&m, "withhold", false);
	kill_child(&m);
	cr_expect_eq(status_of(user), 0);
	if (is_write) {
		char got[4096], want[4096];

		fill(want, sizeof(want), 9);
		cr_expect_eq(fs_pread_full(fd, got, sizeof(got), 0), 0);
		cr_expect_eq(memcmp(got, want, sizeof(got)), 0);
	}
	(void)close(fd);
	finish(&m);
}

Test(session, has_a_read_answered_that_a_killed_process_had)
{
	is_sent_again(false);
}

Test(session, has_a_write_done_that_a_killed_process_had)
{
	is_sent_again(true);
}

/* The descriptor was kept already; the kernel waits for the answer to INIT. */
Test(session, begins_although_the_process_died_before_it_answered_INIT)
{
	struct mounted m = { .path = NULL };
	int fd;

	prepare(&m);
	flag(&m, "die-at-init", true);
	run_echo(&m, NULL);
	await_ready(&m);
	cr_expect(m.adopted, "the second process took it over");
	fd = open_file(&m);
	write_bytes(fd, 3, 0);
	expect_bytes(fd, 3, 0);
	(void)close(fd);
	finish(&m);
}

/* Requests of 1 MiB, of which the kernel must be able to write each to the memory of a
 * process that is being killed. */
Test(session, fails_no_write_while_its_process_is_killed)
{
	struct mounted m = { .path = NULL };
	pid_t writers[3];
	int fd;

	begin(&m, NULL);
	fd = open_file(&m);
	for (unsigned int k = 0; k < ARRAY_SIZE(writers); k++) {
		writers[k] = fork();
		if (writers[k])
			continue;
		for (unsigned int i = 0; i < 60; i++) {
			static char buf[BYTES];

			fill(buf, BYTES, k + i);
			if (fs_pwrite_full(fd, buf, BYTES, k * BYTES) < 0)
				_exit(1);
		}
		_exit(0);
	}
	for (unsigned int i = 0; i < 5; i++)
		kill_child(&m);
	for (unsigned int k = 0; k < ARRAY_SIZE(writers); k++) {
		cr_expect_eq(status_of(writers[k]), 0);
		expect_bytes(fd, k + 59, k * BYTES);
	}
	(void)close(fd);
	finish(&m);
}

Test(session, lets_requests_wait_that_come_too_early_after_a_restart)
{
	char mode[] = "early";
	struct mounted m = { .path = NULL };
	pid_t reader;
	char c = 'x';
	int fd;

	begin(&m, mode);
	fd = open_file(&m);
	cr_assert_eq(pwrite(fd, &c, 1, 0), 1);
	kill_child(&m);
	reader = fork();
	if (reader == 0)
		_exit(pread(fd, &c, 1, 0) == 1 && c == 'x' ? 0 : 1);
	(void)await_word(&m, "early");
	cr_expect_eq(waitpid(reader, NULL, WNOHANG), 0);
	cr_assert_eq(kill(m.child, SIGUSR2), 0);
	/* One asks again when the list is looked through. */
	(void)await_word(&m, "admitted");
	cr_expect_eq(status_of(reader), 0);
	(void)close(fd);
	finish(&m);
}

static int ensure(struct mounted *m)
{
	cr_assert_eq(kill(m->child, SIGUSR1), 0);
	return await_word(m, "ensured");
}

Test(session, is_mounted_again_when_somebody_unmounted_it)
{
	struct mounted m = { .path = NULL };
	int fd, again;

	begin(&m, NULL);
	fd = open_file(&m);
	write_bytes(fd, 4, 0);
	cr_expect_eq(ensure(&m), 0);
	cr_assert_eq(umount2(m.path, MNT_DETACH), 0);
	cr_expect_eq(ensure(&m), 1);
	again = open_file(&m);
	expect_bytes(again, 4, 0);
	expect_bytes(fd, 4, 0);
	(void)close(again);
	/* Unmounted between two processes. */
	cr_assert_eq(kill(m.child, SIGSTOP), 0);
	cr_assert_eq(umount2(m.path, MNT_DETACH), 0);
	kill_child(&m);
	cr_expect_eq(ensure(&m), 1);
	expect_bytes(fd, 4, 0);
	(void)close(fd);
	finish(&m);
}

Test(session, goes_when_it_is_unmounted_unless_somebody_wants_it_to_stay)
{
	struct mounted m = { .path = NULL };

	begin(&m, NULL);
	cr_expect_eq(ensure(&m), 0);
	cr_expect_eq(umount(m.path), -1);
	cr_expect_eq(errno, EBUSY);
	kill_child(&m);
	/* The next process does not ask for it. */
	cr_expect_eq(umount(m.path), 0);
	cr_expect_eq(kill(m.holder, SIGKILL), 0);
	cr_expect_eq(status_of(m.holder), -1);
	(void)close(m.out);
	clean(&m);
}

/* As of a run folder below /var/run, which is a link to /run. */
Test(session, knows_its_mount_behind_a_symlink)
{
	struct mounted m = { .path = NULL };
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;
	char *link, *path;

	prepare(&m);
	link = in(&m, "link");
	path = m.path;
	m.path = in(&m, "link/echo");
	cr_assert_eq(symlink("run", link), 0);
	run_echo(&m, NULL);
	await_ready(&m);
	cr_expect_eq(ensure(&m), 0);
	kill_child(&m);
	cr_expect_eq(mount_find(path, &line, &err), 1);
	mount_line_fini(&line);
	finish(&m);
	/* All of it is gone: nothing was mounted twice. */
	cr_expect_eq(mount_find(path, &line, &err), 0);
	free(path);
	free(link);
}

Test(session, refuses_to_cover_what_somebody_else_mounted)
{
	struct mounted m = { .path = NULL };

	begin(&m, NULL);
	cr_assert_eq(mount("none", m.path, "tmpfs", 0, NULL), 0);
	cr_expect_eq(ensure(&m), -EBUSY);
	cr_assert_eq(umount(m.path), 0);
	finish(&m);
}

/* A mount that nobody serves, of the same kind; the descriptor. */
static int mount_other(const char *path)
{
	char data[80];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	(void)snprintf(data, sizeof(data),
		       "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	cr_assert_eq(mount("other", path, "fuse.echo", 0, data), 0, "%s",
		     strerror(errno));
	return fd;
}

/* While the holder has not started the next process yet. */
Test(session, leaves_alone_what_was_mounted_there_before_it_was_taken_over)
{
	struct mounted m = { .path = NULL };
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;
	int fd, other;

	begin(&m, NULL);
	fd = open_file(&m);
	write_bytes(fd, 7, 0);
	cr_assert_eq(kill(m.holder, SIGSTOP), 0);
	cr_assert_eq(kill(m.child, SIGKILL), 0);
	cr_assert_eq(umount2(m.path, MNT_DETACH), 0);
	other = mount_other(m.path);
	cr_assert_eq(kill(m.holder, SIGCONT), 0);
	await_ready(&m);
	cr_expect(m.adopted);
	expect_bytes(fd, 7, 0);
	cr_expect_eq(ensure(&m), -EBUSY);
	cr_assert_eq(kill(m.holder, SIGTERM), 0);
	cr_expect_eq(status_of(m.holder), 0);
	cr_expect_eq(mount_find(m.path, &line, &err), 1);
	mount_line_fini(&line);
	(void)umount2(m.path, MNT_DETACH);
	(void)close(other);
	(void)close(fd);
	(void)close(m.out);
	clean(&m);
}

/* Ours is gone; the other may have its number, and answers nothing. */
static void ends_beside_a_mount_that_hangs(bool is_made_before)
{
	struct mounted m = { .path = NULL };
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;
	char *elsewhere;
	int other = -1;

	begin(&m, NULL);
	elsewhere = in(&m, "elsewhere");
	cr_assert_eq(mkdir(elsewhere, 0700), 0);
	if (is_made_before)
		other = mount_other(elsewhere);
	cr_assert_eq(umount(m.path), 0);
	if (is_made_before)
		cr_assert_eq(mount(elsewhere, m.path, NULL, MS_MOVE, NULL), 0);
	else
		other = mount_other(m.path);
	cr_assert_eq(kill(m.holder, SIGTERM), 0);
	cr_expect_eq(status_of(m.holder), 0);
	cr_expect_eq(mount_find(m.path, &line, &err), 1);
	mount_line_fini(&line);
	(void)umount2(m.path, MNT_DETACH);
	(void)close(other);
	(void)close(m.out);
	clean(&m);
	free(elsewhere);
}

Test(session, ends_beside_a_mount_of_another_number_that_hangs)
{
	ends_beside_a_mount_that_hangs(true);
}

Test(session, ends_beside_a_mount_that_hangs_and_may_have_its_number)
{
	ends_beside_a_mount_that_hangs(false);
}

Test(session, is_handed_over_when_its_process_is_told_to_leave_it)
{
	struct mounted m = { .path = NULL };
	int fd;

	begin(&m, NULL);
	fd = open_file(&m);
	write_bytes(fd, 6, 0);
	cr_assert_eq(kill(m.holder, SIGHUP), 0);
	await_ready(&m);
	cr_expect(m.adopted);
	expect_bytes(fd, 6, 0);
	(void)close(fd);
	finish(&m);
}

struct owner {
	int n_freed;
};

static void owner_free(void *arg)
{
	((struct owner *)arg)->n_freed++;
}

static bool owner_is_early(void *arg, uint64_t node, const char *name)
{
	return false;
}

static int start_with(struct session_handler h, unsigned int threads,
		      struct owner *o)
{
	const struct session_config cfg = { .name = "x",
					    .path = "/nonexistent/x",
					    .run_dir = "/nonexistent",
					    .threads = threads,
					    .handler = &h,
					    .owner = o,
					    .fstype = "fuse.x",
					    .mount_data = "",
					    .log = "x" };
	struct session *s;
	struct error err = ERROR_INIT;

	return session_start(&cfg, &s, &err);
}

Test(session, takes_its_owner_also_when_it_is_refused)
{
	struct session_handler h = { .free = owner_free,
				     .request_max = SESSION_REQUEST_DATA };
	struct owner o = { .n_freed = 0 };

	cr_expect_eq(start_with(h, 0, &o), -EINVAL);
	cr_expect_eq(o.n_freed, 1);
	cr_expect_eq(start_with(h, 65, &o), -EINVAL);
	cr_expect_eq(o.n_freed, 2);
	h.is_early = owner_is_early;
	cr_expect_eq(start_with(h, 1, &o), -EINVAL);
	cr_expect_eq(o.n_freed, 3);
	h.is_early = NULL;
	h.request_max++;
	cr_expect_eq(start_with(h, 1, &o), -EINVAL);
	cr_expect_eq(o.n_freed, 4);
}

static const struct fuse_lowlevel_ops no_ops;

/* One that is refused leaves nothing; one that starts has all of its threads. */
static void start_when_short(enum failure_kind kind, int want)
{
	const struct session_handler h = { .ops = &no_ops,
					   .request_max =
						   SESSION_REQUEST_NAMES };
	struct mounted m = { .path = NULL };
	struct session_config cfg = { .name = "short",
				      .threads = 3,
				      .handler = &h,
				      .fstype = "fuse.short",
				      .mount_data = "allow_other",
				      .log = "short" };
	struct failures f = { .kind = kind };
	struct error err = ERROR_INIT;

	prepare(&m);
	cfg.path = m.path;
	cfg.run_dir = m.run;
	cr_assert_eq(fd_keeper_open(&cfg.keeper, &err), 0, "%s", err.msg);
	while (failures_next(&f)) {
		struct mount_line line = { .major = 0 };
		struct session *s = NULL;
		struct stat st;
		int rc = session_start(&cfg, &s, &err);

		if (failures_hit(&f)) {
			cr_assert_eq(rc, want, "round %u: %s", f.n, err.msg);
			cr_expect_eq(mount_find(m.path, &line, &err), 0,
				     "round %u", f.n);
			continue;
		}
		cr_assert_eq(rc, 0, "%s", err.msg);
		/* Its threads answer, although with this. */
		cr_expect_eq(stat(m.path, &st), -1);
		cr_expect_eq(errno, ENOSYS);
		session_stop(s, false);
	}
	cr_expect_geq(f.n, cfg.threads + 1, "%u", f.n);
	fd_keeper_close(cfg.keeper);
	clean(&m);
}

Test(session, has_all_of_its_threads_or_is_no_mount)
{
	start_when_short(FAIL_THREAD, -EAGAIN);
}

Test(session, has_memory_for_the_requests_of_each_thread_or_is_no_mount)
{
	start_when_short(FAIL_MAP, -ENOMEM);
}

/* It is known by its path, and there it is not. */
Test(session, is_no_mount_where_a_link_leads)
{
	const struct session_handler h = { .ops = &no_ops,
					   .request_max =
						   SESSION_REQUEST_NAMES };
	struct mounted m = { .path = NULL };
	struct session_config cfg = { .name = "link",
				      .threads = 1,
				      .handler = &h,
				      .fstype = "fuse.link",
				      .mount_data = "allow_other",
				      .log = "link" };
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;
	struct session *s = NULL;

	prepare(&m);
	cfg.path = m.path;
	cfg.run_dir = m.run;
	cr_assert_eq(symlink(m.folder, m.path), 0);
	cr_assert_eq(fd_keeper_open(&cfg.keeper, &err), 0, "%s", err.msg);
	cr_expect_eq(session_start(&cfg, &s, &err), -ENOENT, "%s", err.msg);
	cr_expect_eq(mount_find(m.folder, &line, &err), 0);
	fd_keeper_close(cfg.keeper);
	clean(&m);
}

Test(session, can_be_on_this_kernel)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(session_probe(&err), 0, "%s", err.msg);
}
