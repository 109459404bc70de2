// SPDX-License-Identifier: Apache-2.0
/*
 * Finds complete mounts in the kernel's lists, for mounts whose files were deleted: without a
 * name no lease can be requested. The source of such a mount is the path of its metadata image,
 * or a loop device that has it; loop devices are visible also when the mount is in another
 * namespace.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blockstore/cache.h"
#include "common/fs.h"
#include "common/mountinfo.h"

#define BACKING_FILE_MAX 65536u
/* Suffix that the kernel puts behind the path of a deleted file. */
#define DELETED " (deleted)"

/* The beginning of the paths of our mounts' metadata images, with symlinks resolved; the
 * caller frees it. */
static int make_prefix(const struct cache *c, char **ret, struct error *err)
{
	AUTO_FREE char *dir = realpath(c->dir, NULL);

	if (!dir)
		return error_errno(err, errno, "cache folder '%s'", c->dir);
	if (asprintf(ret, "%s/mounts/", dir) < 0) {
		*ret = NULL;
		return error_nomem(err);
	}
	return 0;
}

/* Cut `tail` off the end of `s`, if it is there. */
static bool cut_tail(char *s, const char *tail)
{
	size_t n = strlen(s), k = strlen(tail);

	if (n <= k || strcmp(s + n - k, tail) != 0)
		return false;
	s[n - k] = '\0';
	return true;
}

/* The name of the mount whose metadata image `path` is; changes `path`. NULL: not one of
 * ours. */
static const char *name_of(const char *prefix, char *path)
{
	size_t len = strlen(prefix);

	(void)cut_tail(path, DELETED);
	return strncmp(path, prefix, len) == 0 && cut_tail(path, ".erofs")
		       ? path + len
		       : NULL;
}

static int add_source(struct cache *c, const char *prefix, char *path,
		      struct error *err)
{
	const char *name = name_of(prefix, path);

	if (!name || !*name || strchr(name, '/'))
		return 0;
	return mounts_add_unknown(c, name, err);
}

/* Argument of look_at_mount(). */
struct kernel_look {
	struct cache *cache;
	const char *prefix;
};

static int look_at_mount(void *arg, const struct mountinfo *m,
			 struct error *err)
{
	const struct kernel_look *l = arg;
	AUTO_FREE char *source = NULL;

	if (strcmp(m->fstype, "erofs") != 0)
		return 0;
	source = strdup(m->source);
	return source ? add_source(l->cache, l->prefix, source, err)
		      : error_nomem(err);
}

static int look_at_loops(struct cache *c, const char *prefix, struct error *err)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *e;
	int rc = 0;

	/* Without this folder the kernel has no loop devices. */
	if (!dir)
		return 0;
	while (rc == 0 && (e = readdir(dir))) {
		AUTO_BUF path = BUF_INIT;
		AUTO_BUF text = BUF_INIT;

		if (strncmp(e->d_name, "loop", 4) != 0)
			continue;
		rc = buf_printf(&path, "/sys/block/%s/loop/backing_file",
				e->d_name);
		if (rc == 0)
			rc = fs_read_file(path.data, BACKING_FILE_MAX, &text,
					  NULL);
		if (rc == 0 && text.len) {
			text.data[strcspn(text.data, "\n")] = '\0';
			rc = add_source(c, prefix, text.data, err);
		} else if (rc == -ENOMEM) {
			rc = error_nomem(err);
		} else {
			/* A loop device that is not in use has no such file. */
			rc = 0;
		}
	}
	(void)closedir(dir);
	return rc;
}

int kernel_mounts_load(struct cache *c, struct error *err)
{
	AUTO_FREE char *prefix = NULL;
	int rc = make_prefix(c, &prefix, err);
	struct kernel_look look = { .cache = c, .prefix = prefix };

	if (rc == 0)
		rc = mountinfo_each(look_at_mount, &look, err);
	return rc < 0 ? rc : look_at_loops(c, prefix, err);
}
