// SPDX-License-Identifier: Apache-2.0
/* Undoing a restore: by the same process, or after it was killed. */
#include "envcache/stage.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/clock.h"
#include "env_fixture.h"
#include "envcache/xattrs.h"

TestSuite(env_stage, .init = env_setup, .fini = env_teardown, .timeout = 60);

static struct error err;

static void env_make_new(const struct stage *s)
{
	AUTO_CLOSE int fd = openat(s->new_fd, "n", O_WRONLY | O_CREAT, 0600);

	cr_assert_eq(write(fd, "new", 3), 3);
}

/* Put a file of the stage at `name`. */
static void place_stage_file(struct stage *s, const char *name)
{
	env_make_new(s);
	cr_assert_eq(stage_put_aside(s, s->root, name, name, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(stage_log_put(s, s->new_fd, "n", name, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(renameat(s->new_fd, "n", s->root, name), 0);
}

static void expect_file_text(const char *path, const char *want)
{
	AUTO_FREE char *got = env_read(path);

	if (!want)
		cr_expect_null(got, "'%s' is there", path);
	else
		cr_expect(got && strcmp(got, want) == 0, "'%s' is '%s'", path,
			  got ? got : "(none)");
}

static void env_rename(const char *from, const char *to)
{
	AUTO_FREE char *a = env_path(from);
	AUTO_FREE char *b = env_path(to);

	cr_assert_eq(rename(a, b), 0);
}

static void env_remove(const char *path)
{
	AUTO_FREE char *p = env_path(path);

	cr_assert_eq(remove(p), 0);
}

static void make_base(void)
{
	env_write("file", "old");
	env_write("other", "old");
	env_mkdir("folder");
	env_write("folder/x", "in it");
}

static void expect_base(void)
{
	AUTO(env_scan) s = env_look();

	expect_file_text("file", "old");
	expect_file_text("other", "old");
	expect_file_text("folder/x", "in it");
	expect_file_text("added", NULL);
	cr_expect_eq(s->n, 5);
}

static void change_all(struct stage *s)
{
	cr_assert_eq(stage_open(s, env_dir, 0, &err), 0, "%s", err.msg);
	place_stage_file(s, "file");
	place_stage_file(s, "added");
	cr_assert_eq(stage_put_aside(s, s->root, "folder", "folder", &err), 0);
	place_stage_file(s, "folder");
	cr_assert_eq(stage_put_aside(s, s->root, "none", "none", &err), 0);
	cr_assert_eq(stage_put_aside(s, s->root, "other", "other", &err), 0);
	expect_file_text("file", "new");
	expect_file_text("added", "new");
	expect_file_text("folder", "new");
	expect_file_text("other", NULL);
}

static bool has_staging(void)
{
	AUTO_FREE char *command = NULL;
	FILE *f;
	int c;

	cr_assert_geq(asprintf(&command,
			       "ls -d %s/" ENV_STAGING "* 2>/dev/null",
			       env_dir),
		      0);
	f = popen(command, "r");
	cr_assert_not_null(f);
	c = fgetc(f);
	(void)pclose(f);
	return c != EOF;
}

Test(env_stage, takes_all_back)
{
	struct stage s;

	make_base();
	stage_init(&s);
	change_all(&s);
	cr_expect_eq(stage_undo(&s, true, &err), 0, "%s", err.msg);
	stage_close(&s);
	expect_base();
	cr_expect(!has_staging());
}

/* During a replacement, a program always finds the old or the new file. */
Test(env_stage, has_the_old_file_at_its_place_until_the_new_one_comes)
{
	make_base();
	for (unsigned int step = 0; step < 6; step++) {
		struct stage s;
		const bool keeps_others = step % 2;

		stage_init(&s);
		cr_assert_eq(stage_open(&s, env_dir, 0, &err), 0, "%s",
			     err.msg);
		env_make_new(&s);
		cr_assert_eq(stage_keep_aside(&s, s.root, "file", "file", &err),
			     0, "%s", err.msg);
		expect_file_text("file", "old");
		if (step >= 2)
			cr_assert_eq(stage_log_put(&s, s.new_fd, "n", "file",
						   &err),
				     0);
		if (step >= 4) {
			cr_assert_eq(renameat(s.new_fd, "n", s.root, "file"),
				     0);
			expect_file_text("file", "new");
		}
		cr_expect_eq(stage_undo(&s, keeps_others, &err), 0, "%s",
			     err.msg);
		stage_close(&s);
		expect_base();
		cr_expect(!has_staging(), "step %u", step);
	}
}

Test(env_stage, keeps_all_after_the_commit)
{
	struct stage s;

	make_base();
	stage_init(&s);
	change_all(&s);
	cr_assert_eq(stage_commit(&s, &err), 0);
	stage_close(&s);
	cr_expect_eq(env_recover(&env_dir_targets, 0, &err), 0);
	expect_file_text("file", "new");
	expect_file_text("other", NULL);
	cr_expect(!has_staging());
}

/* The failed check wrote to places that the snapshot deleted or replaced; the old files return. */
Test(env_stage, takes_back_what_a_check_has_made_at_its_places)
{
	struct stage s;

	make_base();
	stage_init(&s);
	change_all(&s);
	env_mkdir("other");
	env_write("other/below", "newer");
	env_write("newer", "newer");
	env_rename("newer", "file");
	cr_expect_eq(stage_undo(&s, false, &err), 0, "%s", err.msg);
	stage_close(&s);
	expect_base();
	cr_expect(!has_staging());
}

/* Change the target in a child process that then dies. */
static void change_and_die(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct stage s;

		stage_init(&s);
		change_all(&s);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

Test(env_stage, of_a_process_that_was_killed_is_taken_back_by_the_next)
{
	make_base();
	change_and_die();
	expect_file_text("file", "new");
	cr_expect(has_staging());
	cr_expect_eq(env_recover(&env_dir_targets, 0, &err), 0, "%s", err.msg);
	expect_base();
	cr_expect(!has_staging());
	cr_expect_eq(env_recover(&env_dir_targets, 0, &err), 0, "%s", err.msg);
	expect_base();
}

/* Wait until the file system's clock advances, so that later files have a newer time. */
static void wait_for_tick(void)
{
	struct statx was, is;
	AUTO_FREE char *p = env_path("tick");

	for (bool is_first = true;; is_first = false) {
		env_write("tick", "x");
		cr_assert_eq(statx(AT_FDCWD, p, 0, STATX_BTIME, &is), 0);
		env_remove("tick");
		if (is_first)
			was = is;
		if (!(is.stx_mask & STATX_BTIME) ||
		    memcmp(&was.stx_btime, &is.stx_btime,
			   sizeof(is.stx_btime)) != 0)
			return;
	}
}

/* Another program wrote to the target after the kill. */
Test(env_stage, of_a_process_that_was_killed_takes_nothing_that_came_since)
{
	make_base();
	change_and_die();
	wait_for_tick();
	env_remove("folder");
	env_mkdir("folder");
	env_write("folder/x", "newer");
	env_write("newer", "newer");
	env_rename("newer", "added");
	env_write("other", "newer");
	cr_expect_eq(env_recover(&env_dir_targets, 0, &err), 0, "%s", err.msg);
	expect_file_text("file", "old");
	expect_file_text("folder/x", "newer");
	expect_file_text("added", "newer");
	expect_file_text("other", "newer");
	/* Files from before are kept for people, and are not put back later. */
	cr_expect(has_staging());
	env_remove("other");
	cr_expect_eq(env_recover(&env_dir_targets, 0, &err), 0, "%s", err.msg);
	expect_file_text("other", NULL);
	cr_expect(has_staging());
}

/* The second undo must not reuse names that the interrupted one has used. */
Test(env_stage, is_taken_back_also_where_that_was_begun_before)
{
	AUTO_FREE char *command = NULL;

	make_base();
	change_and_die();
	cr_assert_geq(asprintf(&command,
			       "cd %s/" ENV_STAGING "*/new && mkdir u0 u1 && "
			       "touch u0/x u1/x",
			       env_dir),
		      0);
	cr_assert_eq(system(command), 0);
	cr_expect_eq(env_recover(&env_dir_targets, 0, &err), 0, "%s", err.msg);
	expect_base();
	cr_expect(!has_staging());
}

Test(env_stage, that_cannot_be_taken_back_is_kept_and_not_gone_on_with)
{
	struct stage s;

	make_base();
	stage_init(&s);
	change_all(&s);
	cr_assert_eq(write(s.log_fd, "Z bad", 6), 6);
	cr_expect_eq(stage_undo(&s, true, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "what was there before is in '" ENV_STAGING),
		  "%s", err.msg);
	stage_close(&s);
	cr_expect(has_staging());
	expect_file_text("file", "new");
	cr_expect_eq(env_recover(&env_dir_targets, 0, &err), 0, "%s", err.msg);
	expect_file_text("file", "new");
	cr_expect(has_staging());
}

/* ---------------------------------------------------------------- several targets --- */

/* Change the targets a and b, and die after `n_done` steps of the commit. */
static void change_two_and_die(unsigned int n_done)
{
	AUTO_FREE char *a = env_path("a");
	AUTO_FREE char *b = env_path("b");
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		AUTO_BUF leader = BUF_INIT;
		AUTO_BUF others = BUF_INIT;
		struct stage s[2];

		stage_init(&s[0]);
		stage_init(&s[1]);
		cr_assert_eq(stage_open(&s[0], a, 0, &err), 0);
		cr_assert_eq(stage_open(&s[1], b, 0, &err), 0);
		cr_assert_eq(buf_printf(&leader, "%s/%s", a, s[0].name), 0);
		cr_assert_eq(buf_printf(&others, "%s/%s", b, s[1].name), 0);
		cr_assert_eq(buf_append(&others, "", 1), 0);
		cr_assert_eq(stage_follow(&s[1], leader.data, &err), 0);
		place_stage_file(&s[0], "file");
		place_stage_file(&s[1], "file");
		if (n_done > 0)
			cr_assert_eq(stage_commit_leader(&s[0], &others, &err),
				     0, "%s", err.msg);
		if (n_done > 1)
			cr_assert_eq(stage_commit(&s[1], &err), 0);
		if (n_done > 2)
			cr_assert_eq(stage_commit(&s[0], &err), 0);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

static void recover_target(const char *which)
{
	AUTO_FREE char *path = env_path(which);
	const struct env_targets t = { .paths = &path, .n = 1 };

	cr_expect_eq(env_recover(&t, 0, &err), 0, "%s", err.msg);
}

/* Recover both targets in the given order; the order must not matter. */
static void expect_two(unsigned int n_done, const char *first,
		       const char *second, const char *want)
{
	env_mkdir("a");
	env_mkdir("b");
	env_write("a/file", "old");
	env_write("b/file", "old");
	change_two_and_die(n_done);
	recover_target(first);
	recover_target(second);
	expect_file_text("a/file", want);
	expect_file_text("b/file", want);
	env_remove("a/file");
	env_remove("b/file");
	/* The folders are empty now. */
	env_remove("a");
	env_remove("b");
}

Test(env_stage, of_several_targets_all_are_done_or_none_is)
{
	for (unsigned int n = 0; n < 4; n++) {
		const char *want = n ? "new" : "old";

		expect_two(n, "a", "b", want);
		expect_two(n, "b", "a", want);
	}
}

/* A log in a folder of another user is ignored. */
Test(env_stage, of_another_kind_of_folder_is_let_be)
{
	AUTO_FREE char *folder = env_path(ENV_STAGING "00");

	make_base();
	env_mkdir(ENV_STAGING "00");
	env_mkdir(ENV_STAGING "00/new");
	env_mkdir(ENV_STAGING "00/old");
	env_write(ENV_STAGING "00/log", "P file");
	cr_assert_eq(chmod(folder, 0755), 0);
	cr_expect_eq(env_recover(&env_dir_targets, 0, &err), 0);
	expect_base();
	cr_expect(has_staging());
}

Test(env_stage, that_is_at_work_is_not_disturbed)
{
	struct stage s;

	make_base();
	stage_init(&s);
	change_all(&s);
	cr_expect_eq(env_recover(&env_dir_targets, clock_now_ns(), &err),
		     -EBUSY);
	expect_file_text("file", "new");
	cr_expect_eq(stage_undo(&s, true, &err), 0);
	stage_close(&s);
	expect_base();
}

Test(env_stage, takes_back_attributes_of_folders_that_stay)
{
	AUTO_FREE char *path = env_path("folder");
	AUTO(tree) t = tree_new();
	struct inode *i = tree_root(t);
	AUTO_CLOSE int fd = -1;
	struct stage s;
	char value[16];

	make_base();
	fd = open(path, O_RDONLY | O_DIRECTORY);
	cr_assert_eq(fsetxattr(fd, "user.was", "\0 old", 5, 0), 0);
	cr_assert_eq(fsetxattr(fd, "user.empty", "", 0, 0), 0);
	cr_assert_eq(tree_set_xattr(t, i, "user.was", "new", 3), 0);
	cr_assert_eq(tree_set_xattr(t, i, "user.empty", "new", 3), 0);
	cr_assert_eq(tree_set_xattr(t, i, "user.a new", "new", 3), 0);
	stage_init(&s);
	cr_assert_eq(stage_open(&s, env_dir, 0, &err), 0);
	cr_assert_eq(stage_log_xattrs(&s, fd, i, "folder", &err), 0, "%s",
		     err.msg);
	cr_assert_eq(xattrs_write(fd, i, &err), 0, "%s", err.msg);
	cr_expect_eq(fgetxattr(fd, "user.a new", value, sizeof(value)), 3);
	cr_expect_eq(stage_undo(&s, true, &err), 0, "%s", err.msg);
	stage_close(&s);
	cr_expect_eq(fgetxattr(fd, "user.was", value, sizeof(value)), 5);
	cr_expect_eq(memcmp(value, "\0 old", 5), 0);
	cr_expect_eq(fgetxattr(fd, "user.empty", value, sizeof(value)), 0);
	cr_expect_eq(fgetxattr(fd, "user.a new", value, sizeof(value)), -1);
}

/* A record that is cut off belongs to a step that was never done. */
Test(env_stage, takes_back_whole_records_only)
{
	struct stage s;

	make_base();
	stage_init(&s);
	change_all(&s);
	cr_assert_eq(write(s.log_fd, "P oth", 5), 5);
	cr_expect_eq(stage_undo(&s, true, &err), 0, "%s", err.msg);
	stage_close(&s);
	expect_base();
}

Test(env_stage, leads_nowhere_outside_of_the_target)
{
	static const char *const bad[] = { "P ../x", "P /etc/x", "O 1 ../x",
					   "X file", "A 1 2",    "O" };

	make_base();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct stage s;

		stage_init(&s);
		cr_assert_eq(stage_open(&s, env_dir, 0, &err), 0);
		cr_assert_eq(write(s.log_fd, bad[i], strlen(bad[i]) + 1),
			     (ssize_t)strlen(bad[i]) + 1);
		cr_expect_lt(stage_undo(&s, true, &err), 0, "%s", bad[i]);
		stage_close(&s);
	}
	expect_base();
}

/* Otherwise a failing restore would undo the other's changes. */
Test(env_stage, one_at_a_time_has_a_target)
{
	struct env_targets t = { .paths = (char *[]){ env_dir }, .n = 1 };
	struct stage first, second;

	make_base();
	stage_init(&first);
	stage_init(&second);
	change_all(&first);
	cr_expect_eq(stage_open(&second, env_dir, 0, &err), -EBUSY);
	cr_expect_eq(env_recover(&t, 0, &err), -EBUSY);
	cr_expect(strstr(err.msg, "another restore works on it"), "%s",
		  err.msg);
	stage_close(&second);
	cr_assert_eq(stage_commit(&first, &err), 0, "%s", err.msg);
	stage_close(&first);
	cr_assert_eq(env_recover(&t, 0, &err), 0, "%s", err.msg);
	cr_expect_eq(stage_open(&second, env_dir, 0, &err), 0, "%s", err.msg);
	stage_close(&second);
}
