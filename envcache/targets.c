// SPDX-License-Identifier: Apache-2.0
/* Make the list of target folders, in which no folder occurs twice. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/compare.h"
#include "common/text.h"
#include "envcache/envcache.h"

/* Is the text plain (no "." or ".."), so that it can follow the existing part of a path? */
static bool is_plain(const char *rest)
{
	while (*rest) {
		size_t len = strcspn(rest, "/");

		if ((len == 1 && rest[0] == '.') ||
		    (len == 2 && rest[0] == '.' && rest[1] == '.'))
			return false;
		rest += len;
		rest += strspn(rest, "/");
	}
	return true;
}

/* realpath(3) for a path whose last components may be missing. */
static int canonical_path(const char *path, char **ret, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);
	AUTO_FREE char *real = NULL;
	AUTO_BUF out = BUF_INIT;
	size_t len = strlen(path);
	const char *rest;

	if (!copy)
		return error_nomem(err);
	while (!(real = realpath(len ? copy : ".", NULL))) {
		if (errno != ENOENT)
			return error_errno(err, errno, "target '%.200s'", path);
		while (len && copy[len - 1] == '/')
			len--;
		while (len && copy[len - 1] != '/')
			len--;
		copy[len] = '\0';
		if (len == 0 && path[0] == '/')
			return error_set(err, ENOENT, "target '%.200s'", path);
	}
	rest = path + len + strspn(path + len, "/");
	if (!is_plain(rest))
		return error_set(err, EINVAL,
				 "target '%.200s': what is not there yet has "
				 "no '..'",
				 path);
	if (buf_puts(&out, strcmp(real, "/") == 0 ? "" : real) < 0)
		return error_nomem(err);
	while (*rest) {
		size_t n = strcspn(rest, "/");

		if (buf_puts(&out, "/") < 0 || buf_append(&out, rest, n) < 0)
			return error_nomem(err);
		rest += n + strspn(rest + n, "/");
	}
	if (out.len == 0)
		return error_set(err, EINVAL,
				 "'/' is no target: name the folders that the "
				 "command installs into");
	if (out.len >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "target '%.200s'", path);
	*ret = buf_steal(&out);
	return *ret ? 0 : error_nomem(err);
}

static int check_folder(const char *path, struct error *err)
{
	struct stat st;

	if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return error_set(err, ENOTDIR, "target '%.200s' is no folder",
				 path);
	return 0;
}

/* Drop targets that are inside another target. */
static void drop_inner(struct env_targets *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		bool is_inner = false;

		for (size_t k = 0; k < t->n && !is_inner; k++)
			is_inner = k != i && t->paths[k] &&
				   text_path_holds(t->paths[k], t->paths[i]);
		if (is_inner) {
			free(t->paths[i]);
			t->paths[i] = NULL;
		}
	}
	for (size_t i = 0; i < t->n; i++)
		if (t->paths[i])
			t->paths[n++] = t->paths[i];
	t->n = n;
}

int env_targets_make(char *const *given, struct env_targets *ret,
		     struct error *err)
{
	struct env_targets t = { .n = 0 };
	size_t n = 0;
	int rc = 0;

	while (given && given[n])
		n++;
	if (n < 1 || n > ENV_TARGETS_MAX)
		return error_set(err, EINVAL,
				 "name 1 to %d target folders: --target DIR",
				 ENV_TARGETS_MAX);
	t.paths = (char **)calloc(n, sizeof(char *));
	if (!t.paths)
		return error_nomem(err);
	while (rc == 0 && t.n < n) {
		rc = canonical_path(given[t.n], &t.paths[t.n], err);
		if (rc == 0)
			rc = check_folder(t.paths[t.n++], err);
	}
	if (rc < 0) {
		env_targets_fini(&t);
		return rc;
	}
	qsort((void *)t.paths, t.n, sizeof(*t.paths), compare_texts);
	drop_inner(&t);
	*ret = t;
	return 0;
}

void env_targets_fini(struct env_targets *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->paths[i]);
	free((void *)t->paths);
	*t = (struct env_targets){ .n = 0 };
}
