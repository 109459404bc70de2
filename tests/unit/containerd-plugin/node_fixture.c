// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/containerd-plugin/node_fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"

char node_dir[64];
char node_sock[80];

static pid_t fake;

void fake_node_dir(void)
{
	strcpy(node_dir, "/tmp/bootseer-plugin.XXXXXX");
	cr_assert_not_null(mkdtemp(node_dir));
	snprintf(node_sock, sizeof(node_sock), "%s/sock", node_dir);
}

void fake_node_write(const char *name, const char *text)
{
	AUTO_FREE char *path = fs_join(node_dir, name);

	cr_assert_eq(fs_replace_file(path, text, strlen(text), 0600, NULL), 0);
}

void fake_node_start(void)
{
	char said[6] = "";
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	fake = fork();
	if (fake == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl(getenv("FAKE_NODE"), "fake-node", node_sock, node_dir,
		      (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	cr_assert_eq(read(fds[0], said, sizeof(said)), 6);
	close(fds[0]);
}

void fake_node_stop(void)
{
	kill(fake, SIGTERM);
	waitpid(fake, NULL, 0);
	unlink(node_sock);
}

void fake_node_remove(void)
{
	cr_expect_eq(fs_remove_tree(node_dir, NULL), 0);
}
