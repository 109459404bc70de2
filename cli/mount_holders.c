// SPDX-License-Identifier: Apache-2.0
#include "cli/mount_holders.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"

#define NAMED_MAX 3u
#define LOOK_NS (2 * NS_PER_S)
#define MOUNTS_MAX (16u << 20) /* bytes of /proc/self/mountinfo */

struct holder_look {
	const char *dir;
	size_t len;
	int64_t until;
	size_t n; /* holders so far */
	struct buf *out;
};

static bool is_look_time_over(const struct holder_look *l)
{
	return clock_now_ns() > l->until;
}

static bool is_within(const struct holder_look *l, const char *path)
{
	return strncmp(path, l->dir, l->len) == 0 &&
	       (path[l->len] == '/' || path[l->len] == '\0');
}

static const char *list_separator(const struct holder_look *l)
{
	return l->n ? ", " : "";
}

static bool leads_within(const struct holder_look *l, const char *link)
{
	char to[PATH_MAX];
	ssize_t n = readlink(link, to, sizeof(to) - 1);

	if (n < 0)
		return false;
	to[n] = '\0';
	return is_within(l, to);
}

/* Does a link in this folder of /proc/PID lead into the mount? */
static bool any_leads_within(const struct holder_look *l, const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *e;
	char path[PATH_MAX];
	bool found = false;

	while (dir && !found && !is_look_time_over(l) && (e = readdir(dir))) {
		if (*e->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%.64s/%.255s", folder, e->d_name);
		found = leads_within(l, path);
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool holds_mount(const struct holder_look *l, const char *pid)
{
	static const char *const links[] = { "cwd", "root", "exe" };
	static const char *const folders[] = { "fd", "map_files" };
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, links[i]);
		if (leads_within(l, path))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, folders[i]);
		if (any_leads_within(l, path))
			return true;
	}
	return false;
}

static void name_process(struct holder_look *l, const char *pid)
{
	AUTO_BUF name = BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	if (l->n < NAMED_MAX && fs_read_file(path, 64, &name, NULL) == 0 &&
	    name.data)
		(void)!buf_printf(l->out, "%s%.*s (pid %.20s)",
				  list_separator(l),
				  (int)strcspn(name.data, "\n"), name.data,
				  pid);
	l->n++;
}

/* Look for mounts below the folder: the mount point is the fifth word of each line. */
static void find_mounts_below(struct holder_look *l)
{
	AUTO_BUF text = BUF_INIT;
	char *line, *next = NULL, *save = NULL;

	if (fs_read_file("/proc/self/mountinfo", MOUNTS_MAX, &text, NULL) < 0)
		return;
	for (line = strtok_r(text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *at = line;

		for (int i = 0; at && i < 4; i++)
			at = strchr(at + 1, ' ');
		if (!at)
			continue;
		at++;
		next = strchr(at, ' ');
		if (next)
			*next = '\0';
		if (!is_within(l, at) || strlen(at) == l->len)
			continue;
		if (l->n < NAMED_MAX)
			(void)!buf_printf(l->out, "%sthe mount '%.80s'",
					  list_separator(l), at);
		l->n++;
	}
}

void mount_holders(const char *dir, struct buf *ret)
{
	struct holder_look l = { .dir = dir,
				 .len = strlen(dir),
				 .until = clock_now_ns() + LOOK_NS,
				 .out = ret };
	const struct dirent *e;
	DIR *proc;

	find_mounts_below(&l);
	proc = opendir("/proc");
	while (proc && !is_look_time_over(&l) && (e = readdir(proc)))
		if (isdigit((unsigned char)*e->d_name) &&
		    holds_mount(&l, e->d_name))
			name_process(&l, e->d_name);
	if (proc)
		closedir(proc);
	if (l.n > NAMED_MAX)
		(void)!buf_printf(ret, " and %zu more", l.n - NAMED_MAX);
}
