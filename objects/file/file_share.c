// SPDX-License-Identifier: Apache-2.0
/*
 * Sharing a directory among users of a machine: a user who may write to the directory may write to
 * the folders that the store makes in it, whatever the umask of the user who made them. Objects
 * are as private as their writer's umask makes them, unless the store's directory is open for
 * sharing.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "objects/file/file_path.h"
#include "objects/file/file_store_priv.h"

#define ALL_OF_GROUP 070u
#define ALL_OF_OTHERS 07u
#define READS 0444u
#define READS_AND_WRITES 0666u

void file_share_init(struct file_store *f)
{
	struct stat st;

	if (fstat(f->root, &st) < 0)
		return;
	f->shared = (st.st_mode & S_IWGRP ? ALL_OF_GROUP : 0) |
		    (st.st_mode & S_IWOTH ? ALL_OF_OTHERS : 0);
	f->keeps_owners = st.st_mode & S_ISVTX;
	f->gid = st.st_gid;
}

/* Those of `bits` that a file may have: group bits only if its group is the directory's. */
static mode_t bits_for(const struct file_store *f, int fd,
		       const struct stat *st, mode_t bits)
{
	bits &= f->shared;
	if ((bits & ALL_OF_GROUP) && st->st_gid != f->gid &&
	    fchown(fd, (uid_t)-1, f->gid) < 0)
		bits &= ~ALL_OF_GROUP;
	return bits;
}

/* Share a folder just made. Check that it is this user's, new and empty: in a directory that
 * others may write to, its name may already lead to a private folder. */
void file_share_folder(const struct file_store *f, const char *path)
{
	AUTO_CLOSE int fd = f->shared ? file_path_open_folder(f, path) : -1;
	mode_t bits;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
	    !fs_is_empty(fd))
		return;
	bits = bits_for(f, fd, &st, ALL_OF_GROUP | ALL_OF_OTHERS);
	if (bits)
		(void)fchmod(fd, (st.st_mode & 07777) | bits |
					 (f->keeps_owners ? S_ISVTX : 0));
}

/* Share a lock file with writers only: a user who may only read could keep all others waiting. */
void file_share_lock(const struct file_store *f, int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_uid == geteuid())
		(void)fchmod(fd,
			     S_IRUSR | S_IWUSR |
				     bits_for(f, fd, &st, READS_AND_WRITES));
}

void file_share_object(const struct file_store *f, int fd)
{
	struct stat st;

	if (f->shared && f->base.is_shared && fstat(fd, &st) == 0)
		(void)fchmod(fd, (st.st_mode & 07777) |
					 bits_for(f, fd, &st, READS));
}

/* May this user enter the folder, and write to it? If not, `ret` shows its permissions. */
static bool is_usable(const struct file_store *f, int fd, const char *path,
		      bool is_written, char ret[FILE_RIGHTS_ROOM])
{
	struct stat st;

	if (faccessat(fd, "", is_written ? W_OK | X_OK : X_OK,
		      AT_EACCESS | AT_EMPTY_PATH) == 0 ||
	    fstat(fd, &st) < 0)
		return true;
	(void)snprintf(ret, FILE_RIGHTS_ROOM,
		       " ('%.100s%s%.60s' is of user %u, mode %04o)", f->path,
		       *path ? "/" : "", path, st.st_uid, st.st_mode & 07777);
	return false;
}

void file_share_explain(const struct file_store *f, const char *name,
			char ret[FILE_RIGHTS_ROOM])
{
	AUTO_FREE char *path = strdup(name);
	char *slash = path ? strchr(path, '/') : NULL;

	*ret = '\0';
	if (!path || !is_usable(f, f->root, "", !slash, ret))
		return;
	while (slash) {
		char *next = strchr(slash + 1, '/');
		AUTO_CLOSE int fd = -1;

		*slash = '\0';
		fd = file_path_enter(f, path);
		if (fd < 0 || !is_usable(f, fd, path, !next, ret))
			return;
		*slash = '/';
		slash = next;
	}
}
