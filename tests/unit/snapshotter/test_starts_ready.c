// SPDX-License-Identifier: Apache-2.0
/* How a start shows that it is ready, and which start a process belongs to. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "net/places.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/starts/starts_priv.h"

TestSuite(starts_ready, .timeout = 120);

static char dir[32];

static int open_dir(void)
{
	int fd;

	strcpy(dir, "/tmp/starts.XXXXXX");
	cr_assert(mkdtemp(dir));
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	return fd;
}

static void make(int fd, const char *name)
{
	int f = openat(fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	cr_assert_geq(f, 0);
	close(f);
}

static bool ready(int root, const char *path)
{
	const struct container_start s = { .ready_file =
						   (char *)(uintptr_t)path,
					   .ready_root = root };

	return container_start_has_ready_file(&s);
}

static void end(int fd)
{
	close(fd);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

Test(starts_ready, sees_a_file_below_the_root)
{
	int fd = open_dir();

	cr_expect_not(ready(fd, "/run/app/ready"));
	cr_assert_eq(mkdirat(fd, "run", 0755), 0);
	cr_assert_eq(mkdirat(fd, "run/app", 0755), 0);
	cr_expect_not(ready(fd, "/run/app/ready"));
	make(fd, "run/app/ready");
	cr_expect(ready(fd, "/run/app/ready"));
	end(fd);
}

Test(starts_ready, follows_no_link_out_of_the_root)
{
	int fd = open_dir();

	cr_assert_eq(symlinkat("/etc", fd, "etc"), 0);
	cr_assert_eq(symlinkat("../../etc", fd, "up"), 0);
	cr_assert_eq(symlinkat("/etc/passwd", fd, "file"), 0);
	cr_assert_eq(mkdirat(fd, "run", 0755), 0);
	cr_assert_eq(symlinkat("run", fd, "inside"), 0);
	make(fd, "run/ready");
	cr_expect_not(ready(fd, "/etc/passwd"));
	cr_expect_not(ready(fd, "/file"));
	cr_expect_not(ready(fd, "/inside"));
	cr_expect_not(ready(fd, "/up/passwd"));
	cr_expect_not(ready(fd, "/../../etc/passwd"));
	cr_expect(ready(fd, "/inside/ready"));
	end(fd);
}

Test(starts_ready, takes_no_removed_file_for_one)
{
	int fd = open_dir();

	/* A whiteout is the only device that can be made without privileges. */
	cr_assert_eq(mknodat(fd, "gone", S_IFCHR | 0600, makedev(0, 0)), 0);
	cr_expect_not(ready(fd, "/gone"));
	end(fd);
}

static bool is_in(const char *id, const char *cgroups)
{
	const struct container_start s = { .container = (char *)(uintptr_t)id };

	return container_start_has_process(&s, cgroups);
}

Test(starts_ready, finds_a_container_in_its_control_group)
{
	cr_expect(is_in("c1", "0::/default/c1\n"));
	cr_expect(is_in("c1", "0::/default/c1/init\n"));
	cr_expect(is_in("abc", "0::/kubepods.slice/pod1.slice/"
			       "cri-containerd-abc.scope\n"));
	cr_expect(is_in("abc", "2:cpu:/x\n1:memory:/y/abc\n0::/\n"));
	cr_expect_not(is_in("c1", "0::/default/c12\n"));
	cr_expect_not(is_in("c1", "0::/default/xc1\n"));
	cr_expect_not(is_in("abc", "0::/cri-containerd-xabc.scope\n"));
	cr_expect_not(is_in("abc", "0::/abc.slice\n"));
	/* Cgroups whose names a user can choose prove nothing. */
	cr_expect_not(is_in("c1", "0::/user.slice/user-1000.slice/"
				  "user@1000.service/app.slice/c1\n"));
	cr_expect_not(is_in("c1", "1:name=systemd:/user.slice/"
				  "user@1000.service/x-c1.scope\n0::/\n"));
	cr_expect(is_in("c1", "1:name=systemd:/user@1.service/x\n"
			      "0::/default/c1\n"));
	cr_expect_not(is_in("", "0::/\n"));
	cr_expect_not(is_in(NULL, "0::/c1\n"));
}

static char *bundle_key(void)
{
	struct bundle b;

	return bundle_read(dir, &b, NULL) == 0 ? b.key : NULL;
}

static char *key_of(const char *config)
{
	AUTO_BUF path = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/config.json", dir), 0);
	cr_assert_eq(fs_replace_file(path.data, config, strlen(config), 0600,
				     NULL),
		     0);
	return bundle_key();
}

Test(starts_ready, takes_the_key_of_what_a_bundle_runs)
{
	const char *words[] = { "python", "train.py" };
	AUTO_FREE char *want = trace_workload_key(words, 2);
	AUTO_FREE char *got = NULL;
	int fd = open_dir();

	cr_expect_null(bundle_key());
	cr_expect_null(key_of("{\"process\":{\"args\":[\"pyth"));
	cr_expect_null(key_of("{\"process\":{\"args\":[]}}"));
	cr_expect_null(key_of("{\"process\":{\"args\":[1]}}"));
	cr_expect_null(key_of("[]"));
	got = key_of("{\"process\":{\"args\":[\"python\",\"train.py\"]}}");
	cr_expect_str_eq(got, want);
	end(fd);
}

Test(starts_ready, takes_the_key_of_an_image_from_entry_point_and_command)
{
	static const char config[] =
		"{\"config\":{\"Entrypoint\":[\"python\"],\"Cmd\":"
		"[\"train.py\"]}}";
	const char *words[] = { "python", "train.py" };
	AUTO_FREE char *want = trace_workload_key(words, 2);
	AUTO_FREE char *got = image_config_key(config, strlen(config));
	AUTO_FREE char *none = image_config_key("{}", 2);
	AUTO_FREE char *no_words = trace_workload_key(NULL, 0);

	cr_expect_str_eq(got, want);
	cr_expect_str_eq(none, no_words);
}

Test(starts_ready, believes_no_number_whose_process_is_gone)
{
	AUTO_BUF own = BUF_INIT;
	AUTO_BUF none = BUF_INIT;
	siginfo_t info;
	pid_t pid = fork();
	int fd;

	if (pid == 0)
		pause();
	fd = pidfd_open(pid, 0);
	cr_assert_geq(fd, 0);
	cr_expect_eq(process_cgroups(pid, fd, &own, NULL), 0);
	cr_expect_gt(own.len, 0);
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitid(P_PIDFD, (id_t)fd, &info, WEXITED), 0);
	/* As if another process had the PID meanwhile. */
	cr_expect_eq(process_cgroups(getpid(), fd, &none, NULL), -ESRCH);
	cr_expect_eq(process_cgroups(getpid(), -1, &none, NULL), 0);
	close(fd);
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(starts_ready, what_a_container_makes_below_its_group_is_of_that_group)
{
	uint64_t own =
		places_group("0::/kubepods/cri-containerd-" ID ".scope\n");

	cr_expect_eq(places_group("0::/kubepods/cri-containerd-" ID
				  ".scope/a/b\n"),
		     own);
	cr_expect_neq(places_group("0::/kubepods/cri-containerd-1" ID
				   ".scope\n"),
		      own);
	cr_expect_eq(places_group("4:cpu:/x\n0::/default/c1\n"),
		     places_group("0::/default/c1\n"));
	cr_expect_neq(places_group("0::/default/c1\n"),
		      places_group("0::/default/c2\n"));
}

Test(starts_ready, a_group_with_many_places_gives_one_up_first)
{
	/* Connections of containers 7, 3 and 5, the newest first: 7 floods the socket, the
	 * others have one each. */
	struct place v[] = { { 7, true },  { 3, true }, { 7, true },
			     { 7, false }, { 5, true }, { 7, true } };
	const size_t n = ARRAY_SIZE(v);

	cr_expect_eq(places_choose(v, n), 5, "the oldest of the loud one");
	v[5].is_silent = false;
	cr_expect_eq(places_choose(v, n), 2, "that is being answered");
	v[0].is_silent = v[2].is_silent = false;
	cr_expect_eq(places_choose(v, n), 4, "the oldest of all");
	v[1].is_silent = v[4].is_silent = false;
	cr_expect_eq(places_choose(v, n), n, "all are being answered");
	cr_expect_eq(places_choose(v, 0), 0);
}

Test(starts_ready, figures_that_grow_too_long_lose_the_oldest)
{
	AUTO_FREE char *path = malloc(4001);
	struct artifact a = { .image_size = 1 };
	AUTO_FREE char *staged = NULL;
	struct images *t = NULL;
	struct image *i = NULL;
	json_t *list;
	int fd = open_dir();

	/* JSON needs six bytes for each escaped byte. */
	memset(path, 1, 4000);
	path[4000] = '\0';
	cr_assert_eq(buf_puts(&a.manifest_json, "{}"), 0);
	cr_assert_eq(buf_puts(&a.config_json, "{}"), 0);
	cr_assert_eq(images_open(dir, dir, &t, NULL), 0);
	cr_assert_eq(images_stage(t, &a.digest, &staged, NULL), 0);
	cr_assert_eq(images_stage_texts(staged, &a, NULL), 0);
	cr_assert_eq(images_add(t, staged, &a,
				&(struct image_place){ .host = "h:5000",
						       .repo = "r" },
				&i, NULL),
		     0);
	for (int n = 1; n <= 16; n++) {
		json_t *missed = json_array();

		for (int k = 0; k < 20; k++)
			(void)json_array_append_new(missed, json_string(path));
		cr_assert_eq(starts_note(i,
					 json_pack("{s:i, s:o}", "start", n,
						   "missed_files", missed),
					 NULL),
			     0);
	}
	list = starts_explain(i);
	cr_expect_geq(json_array_size(list), 2);
	cr_expect_lt(json_array_size(list), 16);
	cr_expect_eq(json_integer_value(
			     json_object_get(json_array_get(list, 0), "start")),
		     16);
	json_decref(list);
	images_put(i);
	images_close(t);
	end(fd);
}
