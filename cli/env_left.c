// SPDX-License-Identifier: Apache-2.0
#include "cli/env_left.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/text.h"

#define LIST_MAX (64u << 10)
#define STAT_MAX 4096
#define NAMES_SHOWN 3u

void env_left_adopt(bool is_on)
{
	(void)prctl(PR_SET_CHILD_SUBREAPER, is_on);
}

/* Get the process's name.  False: the process has ended. */
static bool is_alive(pid_t pid, char ret_name[64])
{
	AUTO_BUF text = BUF_INIT;
	char path[40];
	const char *begin, *end;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fs_read_file(path, STAT_MAX, &text, NULL) < 0 || !text.data)
		return false;
	begin = strchr(text.data, '(');
	end = strrchr(text.data, ')');
	if (!begin || !end || strlen(end) < 3)
		return false;
	(void)snprintf(ret_name, 64, "%.*s", (int)(end - begin - 1), begin + 1);
	text_make_printable(ret_name);
	return end[2] != 'Z' && end[2] != 'X';
}

static void add_children_of(const char *task, struct env_left *ret)
{
	AUTO_BUF text = BUF_INIT;
	char path[64], name[64], *at, *end;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%.20s/children",
		       task);
	if (fs_read_file(path, LIST_MAX, &text, NULL) < 0 || !text.data)
		return;
	for (at = text.data; ret->n < ENV_LEFT_MAX; at = end) {
		pid_t pid = (pid_t)strtol(at, &end, 10);

		if (end == at)
			break;
		if (is_alive(pid, name))
			ret->pids[ret->n++] = pid;
	}
}

void env_left_list(struct env_left *ret)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *e;

	*ret = (struct env_left){ .n = 0 };
	while (tasks && (e = readdir(tasks)))
		if (isdigit((unsigned char)e->d_name[0]))
			add_children_of(e->d_name, ret);
	if (tasks)
		(void)closedir(tasks);
}

static bool has_pid(const struct env_left *l, pid_t pid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->pids[i] == pid)
			return true;
	return false;
}

size_t env_left_describe(const struct env_left *was, char ret[ENV_LEFT_ROOM])
{
	struct env_left now;
	AUTO_BUF names = BUF_INIT;
	char name[64];
	size_t n = 0;

	env_left_list(&now);
	for (size_t i = 0; i < was->n; i++) {
		if (!has_pid(&now, was->pids[i]) ||
		    !is_alive(was->pids[i], name))
			continue;
		if (n < NAMES_SHOWN)
			(void)!buf_printf(&names, "%s%s", n ? ", " : "", name);
		n++;
	}
	if (n)
		(void)snprintf(ret, ENV_LEFT_ROOM, "%zu process%s (%s%s)", n,
			       n > 1 ? "es" : "", names.data ? names.data : "",
			       n > NAMES_SHOWN ? ", ..." : "");
	return n;
}
