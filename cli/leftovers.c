// SPDX-License-Identifier: Apache-2.0
/*
 * The process of a recording locks its folder as long as it lives (rootfs.c).  A folder of ours
 * that has a note and is not locked is left over.
 */
#include "cli/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/node_ask.h"
#include "cli/rootfs.h"
#include "common/fs.h"

#define NOTE "user"
#define USER_MAX 64u
#define USER_PREFIX "record/"
#define RUNC_TIMEOUT_MS 20000

int leftovers_note(const char *dir, const char *user, struct error *err)
{
	AUTO_FREE char *path = NULL;

	if (asprintf(&path, "%s/" NOTE, dir) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	return fs_replace_file(path, user, strlen(user), 0600, err);
}

/* Is the folder ours?  Other users can write to the folder above; their folders are ignored. */
static bool is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	       (st.st_mode & 022) == 0;
}

static bool is_named_so(const char *name)
{
	size_t n = strlen(ROOTFS_DIR_PREFIX);

	return strncmp(name, ROOTFS_DIR_PREFIX, n) == 0 &&
	       strlen(name) == n + strlen("XXXXXX");
}

static void kill_container(const char *path, const char *name)
{
	AUTO_FREE char *root = NULL;
	AUTO_BUF text = { .limit = 4096 };
	struct error err = ERROR_INIT;
	int status;

	if (asprintf(&root, "%s/runc", path) < 0) {
		root = NULL;
		return;
	}
	{
		char *argv[] = { (char[]){ "runc" },
				 (char[]){ "--root" },
				 root,
				 (char[]){ "delete" },
				 (char[]){ "--force" },
				 (char *)(uintptr_t)name,
				 NULL };

		/* If containers are left, the later steps report it. */
		(void)!child_capture(argv, RUNC_TIMEOUT_MS, &text, &status,
				     &err);
	}
}

static int clean_leftover(struct node_client *c, const char *path,
			  const char *name, const char *user, struct error *err)
{
	int rc;

	kill_container(path, name);
	rc = node_ask_on(c, "image.umount", json_pack("{s:s}", "user", user),
			 NULL, err);
	return rc < 0 ? rc : fs_remove_tree(path, err);
}

/* Is the folder left over?  1: yes, and `ret` is the user in its note. */
static int find_user(const char *path, struct buf *ret)
{
	AUTO_CLOSE int fd =
		open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FREE char *note = NULL;

	if (fd < 0 || !is_ours(fd) || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	if (asprintf(&note, "%s/" NOTE, path) < 0) {
		note = NULL;
		return 0;
	}
	return fs_read_file(note, USER_MAX, ret, NULL) == 0 && ret->len &&
	       strncmp(ret->data, USER_PREFIX, strlen(USER_PREFIX)) == 0;
}

void leftovers_clean(struct node_client *c)
{
	const char *temp = rootfs_temp_dir();
	DIR *dir = opendir(temp);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		AUTO_FREE char *path = NULL;
		AUTO_BUF user = BUF_INIT;
		struct error err = ERROR_INIT;

		if (!is_named_so(e->d_name))
			continue;
		if (asprintf(&path, "%s/%s", temp, e->d_name) < 0) {
			path = NULL;
			break;
		}
		if (find_user(path, &user) == 0)
			continue;
		if (clean_leftover(c, path, e->d_name, user.data, &err) < 0)
			fprintf(stderr,
				"bootseer: a killed recording stays in '%s': "
				"%s\n",
				path, err.msg);
		else
			fprintf(stderr,
				"bootseer: removed what a killed recording "
				"had left in '%s'\n",
				path);
	}
	if (dir)
		(void)closedir(dir);
}
