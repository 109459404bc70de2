// SPDX-License-Identifier: Apache-2.0
/* Layers that bootseerd unpacks for containerd, and does not unpack, against the fake one. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/backoff.h"
#include "common/clock.h"
#include "common/fs.h"
#include "containerd-plugin/snapshots_priv.h"
#include "snapshotter/client.h"
#include "tests/unit/containerd-plugin/node_fixture.h"

TestSuite(apply, .timeout = 60);

static struct snapshots *s;
static char *folder;

static void set_up(void)
{
	struct snapshots_config config = {
		.root = node_dir,
		.node_socket = node_sock,
		.node_timeout_ns = INT64_C(30000000000),
		.layer_timeout_ns = INT64_C(1000000000),
		.start_timeout_ns = INT64_C(30000000000),
		.containerd_state = "",
		.scope = ""
	};

	fake_node_dir();
	folder = fs_join(node_dir, "folder");
	cr_assert_eq(mkdir(folder, 0755), 0);
	fake_node_write("images.json", "[]");
	fake_node_start();
	cr_assert_eq(snapshots_open(&config, &s, NULL), 0);
}

static void tear_down(void)
{
	snapshots_close(s);
	fake_node_stop();
	fake_node_remove();
	free(folder);
}

static int unpack_layer(const char *fault)
{
	const struct node_layer l = { .media_type = "x",
				      .dir = folder,
				      .lower = "" };
	struct turn turn = { .kind = TURN_UNPACK };
	struct node_layer_content ret;

	fake_node_write("fault", fault);
	return snapshots_apply(s, &l, &turn, &ret, NULL);
}

static void await_moment(void)
{
	(void)!backoff_wait(clock_now_ns() + 10 * NS_PER_MS, NULL);
}

static void make_file(const char *name)
{
	AUTO_FREE char *path = fs_join(folder, name);
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		_exit(1);
}

/* A bootseerd that works on the layer, and goes on for a moment after whoever asked has left,
 * unless somebody takes its files away before. */
static pid_t start_writer(void)
{
	AUTO_FREE char *calls = fs_join(node_dir, "calls");
	AUTO_FREE char *first = fs_join(folder, "first");
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid;

	cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	pid = fork();
	if (pid) {
		close(fd);
		return pid;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (access(calls, F_OK) < 0)
		await_moment();
	make_file("first");
	for (unsigned int n = 0; n < 200 && access(first, F_OK) == 0; n++)
		await_moment();
	make_file("last");
	_exit(0);
}

/* containerd writes there next. */
static void expect_nothing_written_later(const char *fault)
{
	pid_t pid = start_writer();
	struct stat st;
	int status;

	cr_expect_eq(unpack_layer(fault), -ENOSYS);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_expect_eq(rmdir(folder), 0, "it has files");
	cr_assert_eq(stat(folder, &st), -1);
}

Test(apply, is_left_to_containerd_when_a_bootseerd_that_ends_writes_no_more,
     .init = set_up, .fini = tear_down)
{
	expect_nothing_written_later("layer.unpack close");
}

Test(apply, is_left_to_containerd_when_a_bootseerd_that_is_late_writes_no_more,
     .init = set_up, .fini = tear_down)
{
	expect_nothing_written_later("layer.unpack hang folder");
}

Test(apply, is_not_left_to_containerd_where_somebody_else_is_at_work,
     .init = set_up, .fini = tear_down)
{
	char fault[64];

	snprintf(fault, sizeof(fault), "layer.unpack %d other", ENOTEMPTY);
	cr_expect_eq(unpack_layer(fault), -EALREADY);
	snprintf(fault, sizeof(fault), "layer.unpack %d other", EBADMSG);
	cr_expect_eq(unpack_layer(fault), -ENOSYS);
}
