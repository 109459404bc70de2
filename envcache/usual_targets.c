// SPDX-License-Identifier: Apache-2.0
/* The default targets of set-up commands, and which changes there must not be shared. */
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/text.h"
#include "envcache/usual_targets.h"

/* Folders that package managers write to, and their records. */
static const char *const owned[] = {
	"usr",
	"etc",
	"opt",
	"bin",
	"sbin",
	"lib",
	"lib64",
	"var/lib/dpkg",
	"var/lib/rpm",
	"lib/apk",
	"usr/lib/sysimage/rpm",
};

struct found {
	const struct env_usual *from;
	dev_t device;                     /* device of the root folder */
	char *paths[ENV_TARGETS_MAX + 1]; /* ends with NULL */
	size_t n;
};

static bool is_within_found_targets(const struct found *f, const char *path)
{
	for (size_t i = 0; i < f->n; i++)
		if (text_path_holds(f->paths[i], path))
			return true;
	return false;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_overlay(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* Does the folder belong to the container?  Volumes do not; an environment mounted at a target
 * does. */
static bool is_on_own_file_system(const struct found *f, const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 &&
	       (st.st_dev == f->device || is_overlay(path));
}

static int push_path(struct found *f, const char *path, struct error *err)
{
	if (f->n == ENV_TARGETS_MAX)
		return error_set(err, E2BIG,
				 "more than %d folders to install into: name "
				 "those that are meant by --target DIR",
				 ENV_TARGETS_MAX);
	f->paths[f->n] = strdup(path);
	if (!f->paths[f->n])
		return error_nomem(err);
	f->n++;
	return 0;
}

/* Refuse a volume: the command may install into it, and the capture would lack those files. */
static int refuse_volume(const char *path, struct error *err)
{
	return error_set(err, ENOTSUP,
			 "'%.200s' is on a volume, which is not the "
			 "container's own: name the folders to install into by "
			 "--target DIR",
			 path);
}

/* Add a folder as a target, unless this user cannot write to it. */
static int add_folder(struct found *f, const char *path, struct error *err)
{
	AUTO_FREE char *real = realpath(path, NULL);

	if (!real || strcmp(real, "/") == 0 ||
	    is_within_found_targets(f, real) || !is_folder(real) ||
	    access(real, W_OK) < 0)
		return 0;
	return is_on_own_file_system(f, real) ? push_path(f, real, err)
					      : refuse_volume(real, err);
}

static int add_below(struct found *f, const char *folder, const char *name,
		     struct error *err)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >=
	    sizeof(path))
		return 0;
	return add_folder(f, path, err);
}

static int add_matching_folders(struct found *f, const char *folder,
				const char *pattern, struct error *err)
{
	char path[PATH_MAX];
	glob_t g;
	int rc = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, pattern) >=
		    sizeof(path) ||
	    glob(path, GLOB_NOSORT, NULL, &g) != 0)
		return 0;
	for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++)
		rc = add_folder(f, g.gl_pathv[i], err);
	globfree(&g);
	return rc;
}

static bool has_interpreter(const char *folder)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/python3", folder) <
		       sizeof(path) &&
	       access(path, X_OK) == 0;
}

/* Add a folder of $PATH and the package folders of its interpreter; a virtual environment's
 * packages lie beside it, wherever the interpreter is linked from. */
static int add_programs(struct found *f, const char *folder, struct error *err)
{
	static const char *const packages[] = {
		"lib/python3*/site-packages",
		"lib64/python3*/site-packages",
		"lib/python3*/dist-packages",
	};
	AUTO_FREE char *prefix = strdup(folder);
	char *slash = prefix ? strrchr(prefix, '/') : NULL;
	int rc = prefix ? add_folder(f, folder, err) : error_nomem(err);

	if (rc < 0 || !slash || slash == prefix || !has_interpreter(folder))
		return rc;
	*slash = '\0';
	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(packages); i++)
		rc = add_matching_folders(f, prefix, packages[i], err);
	return rc;
}

/* Is the folder a temporary one, of a session or build, whose name differs each time? */
static bool is_temporary_folder(const struct found *f, const char *path)
{
	static const char *const folders[] = { "/tmp", "/var/tmp", "/run" };
	const size_t len = strlen(f->from->root);

	if (strncmp(path, f->from->root, len) == 0)
		path += len;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (text_path_holds(folders[i], path))
			return true;
	return false;
}

static int add_path(struct found *f, struct error *err)
{
	AUTO_FREE char *list = strdup(f->from->path ? f->from->path : "");
	char *save = NULL;
	int rc = list ? 0 : error_nomem(err);

	for (char *p = list ? strtok_r(list, ":", &save) : NULL; rc == 0 && p;
	     p = strtok_r(NULL, ":", &save)) {
		size_t len = strlen(p);

		while (len > 1 && p[len - 1] == '/')
			p[--len] = '\0';
		if (*p == '/' && !is_temporary_folder(f, p))
			rc = add_programs(f, p, err);
	}
	return rc;
}

/* Add pip's fallback folder in $HOME. */
static int add_home_folders(struct found *f, struct error *err)
{
	int rc = 0;

	if (!f->from->home || f->from->home[0] != '/')
		return 0;
	rc = add_below(f, f->from->home, ".local/bin", err);
	return rc < 0 ? rc : add_below(f, f->from->home, ".local/lib", err);
}

/* Add the folders in the loader's list, one per line; files that it includes are in /etc. */
static int add_libraries(struct found *f, const char *file, struct error *err)
{
	FILE *lines = fopen(file, "re");
	char line[PATH_MAX];
	int rc = 0;

	while (rc == 0 && lines && fgets(line, sizeof(line), lines)) {
		line[strcspn(line, "\n \t#")] = '\0';
		if (line[0] == '/')
			rc = add_folder(f, line, err);
	}
	if (lines)
		(void)fclose(lines);
	return rc;
}

static int add_loader(struct found *f, struct error *err)
{
	glob_t g;
	char pattern[PATH_MAX];
	int rc = 0;

	if ((size_t)snprintf(pattern, sizeof(pattern),
			     "%s/etc/ld.so.conf.d/*.conf",
			     f->from->root) >= sizeof(pattern) ||
	    glob(pattern, 0, NULL, &g) != 0)
		return 0;
	for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++)
		rc = add_libraries(f, g.gl_pathv[i], err);
	globfree(&g);
	return rc;
}

static int find_install_folders(struct found *f, struct error *err)
{
	struct stat st;
	int rc = 0;

	if (stat(*f->from->root ? f->from->root : "/", &st) < 0)
		return error_errno(err, errno, "'/'");
	f->device = st.st_dev;
	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(owned); i++)
		rc = add_below(f, f->from->root, owned[i], err);
	if (rc == 0)
		rc = add_path(f, err);
	if (rc == 0)
		rc = add_loader(f, err);
	return rc < 0 ? rc : add_home_folders(f, err);
}

int env_targets_usual(const struct env_usual *from, struct env_targets *ret,
		      struct error *err)
{
	struct found f = { .from = from };
	int rc = find_install_folders(&f, err);

	if (rc == 0 && f.n == 0)
		rc = error_set(err, EACCES,
			       "user %u may write to no folder that programs "
			       "are installed into: name one by --target DIR",
			       geteuid());
	if (rc == 0)
		rc = env_targets_make(f.paths, ret, err);
	if (rc == 0)
		ret->is_usual = true;
	for (size_t i = 0; i < f.n; i++)
		free(f.paths[i]);
	return rc;
}

/* ------------------------------------------------------------------ what changed --- */

/* Files that belong to this machine alone, as patterns of glob(7). */
static const char *const secrets[] = {
	"/etc/ssh/ssh_host_*_key",
	"/etc/machine-id",
	"/etc/shadow",
	"/etc/gshadow",
	"/etc/*/private/*",
	"/etc/krb5.keytab",
};

static bool is_secret(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
		if (fnmatch(secrets[i], path, 0) == 0)
			return true;
	return false;
}

/* Check for mounts inside targets, whose files a scan does not see. */
static int check_mounts(const struct env_scan *s, struct error *err)
{
	for (size_t i = 0; i < s->n_mounts; i++)
		if (is_folder(s->mounts[i]) && !is_overlay(s->mounts[i]) &&
		    access(s->mounts[i], W_OK) == 0)
			return refuse_volume(s->mounts[i], err);
	return 0;
}

int usual_targets_check(const struct changes *c, const struct env_scan *after,
			struct error *err)
{
	int rc = check_mounts(after, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < c->n_files; i++)
		if (is_secret(c->files[i].entry->path))
			return error_set(err, EPERM,
					 "'%.200s' is this machine's own: name "
					 "what others are to have by --target "
					 "DIR",
					 c->files[i].entry->path);
	return 0;
}
