// SPDX-License-Identifier: Apache-2.0
#include "envcache/load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "envcache/names.h"
#include "image/artifact/packs.h"
#include "image/erofs/erofs.h"
#include "objects/oci.h"

#define FOLDER_PREFIX "bootseer-env."
#define FOLDER_RANDOM 6u /* characters of mkdtemp(3) */
#define LEFT_OVER_S (24 * 3600)

static int map_file(const char *path, struct mapped_file *ret,
		    struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open '%s'", path);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return error_errno(err, errno, "map '%s'", path);
	*ret = (struct mapped_file){ p, (size_t)st.st_size };
	return 0;
}

/* Report a failed check (-EINVAL) as damage, as no capture writes such data. */
static int note_damage(int rc, const char *what, struct error *err)
{
	if (rc != -EINVAL)
		return error_wrap(err, rc, "%s", what);
	if (err)
		err->code = EBADMSG;
	return error_wrap(err, -EBADMSG, "%s", what);
}

static int check_loaded(struct loaded *l, struct error *err)
{
	struct erofs_image image;
	int rc = blockmap_open(l->map_bytes.data, l->map_bytes.len, &l->map,
			       err);

	if (rc == 0)
		rc = packs_check_map(&l->artifact, &l->map, err);
	if (rc < 0)
		return note_damage(rc, "block map", err);
	rc = erofs_check(l->meta.data, l->meta.len, &image, err);
	if (rc == 0)
		rc = erofs_read_tree(&image, &l->tree, err);
	return rc < 0 ? note_damage(rc, "metadata image", err) : 0;
}

/* Copy a file from the giver and verify the copy: the giver could change its file after a check. */
static int copy_file_of_giver(int from, uint64_t size,
			      const struct digest *want, const char *path,
			      struct error *err)
{
	AUTO_CLOSE int to =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	AUTO_FREE void *data = malloc((size_t)size + 1);
	struct digest is;
	struct stat st;
	int rc;

	if (!data)
		return error_nomem(err);
	/* Only regular files: reading others could block. */
	if (to < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, EIO, "no file is given");
	rc = fs_pread_full(from, data, (size_t)size, 0);
	if (rc < 0)
		return error_errno(err, -rc, "what is given cannot be read");
	if (digest_of(data, (size_t)size, &is) < 0 || !digest_equal(&is, want))
		return error_set(err, EBADMSG,
				 "the metadata that is given is wrong");
	rc = fs_pwrite_full(to, data, (size_t)size, 0);
	return rc < 0 ? error_errno(err, -rc, "write '%s'", path) : 0;
}

/* Take both files from the giver; false: read them from the store. */
static bool take_files_of_giver(struct loaded *l, const char *meta,
				const char *map)
{
	const struct artifact *a = &l->artifact;
	struct env_giver *g = l->giver;
	int rc;

	if (!g)
		return false;
	rc = copy_file_of_giver(g->meta, a->meta_size, &a->meta_raw, meta,
				&g->failed);
	if (rc == 0)
		rc = copy_file_of_giver(g->map, a->map_size, &a->map_raw, map,
					&g->failed);
	if (rc == 0)
		return true;
	(void)unlink(meta);
	(void)unlink(map);
	return false;
}

/* The two temporary files have names only for the shortest possible time. */
static int fetch_files(struct loaded *l, const char *meta, const char *map,
		       struct error *err)
{
	int rc = take_files_of_giver(l, meta, map)
			 ? 0
			 : artifact_fetch(l->blobs, &l->artifact, NULL, meta,
					  map, err);

	if (rc == 0)
		rc = map_file(meta, &l->meta, err);
	if (rc == 0)
		rc = map_file(map, &l->map_bytes, err);
	return rc;
}

/* Is the folder left by a killed process?  It is if it is a day old, as no fetch takes that
 * long. */
static bool is_folder_left_over(int dir, const char *name)
{
	const char *end = name + strlen(FOLDER_PREFIX);
	struct stat st;

	return strncmp(name, FOLDER_PREFIX, strlen(FOLDER_PREFIX)) == 0 &&
	       strlen(end) == FOLDER_RANDOM &&
	       fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       time(NULL) - st.st_mtime > LEFT_OVER_S;
}

/* Can no other user replace our folders in this folder? */
static bool is_folder_safe(int dir)
{
	struct stat st;

	return fstat(dir, &st) == 0 &&
	       (!(st.st_mode & 022) || (st.st_mode & S_ISVTX));
}

static void sweep_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *e;

	while (dir && is_folder_safe(dirfd(dir)) && (e = readdir(dir))) {
		AUTO_FREE char *path = fs_join(folder, e->d_name);

		if (path && is_folder_left_over(dirfd(dir), e->d_name))
			(void)!fs_remove_tree(path, NULL);
	}
	if (dir)
		(void)closedir(dir);
}

static int fetch_in_folder(struct loaded *l, struct error *err)
{
	const char *dir = secure_getenv("TMPDIR");
	AUTO_BUF folder = BUF_INIT;
	AUTO_BUF meta = BUF_INIT;
	AUTO_BUF map = BUF_INIT;
	int rc;

	if (!dir || !*dir)
		dir = "/var/tmp";
	sweep_folder(dir);
	if (buf_printf(&folder, "%s/" FOLDER_PREFIX "XXXXXX", dir) < 0)
		return error_nomem(err);
	if (!mkdtemp(folder.data))
		return error_errno(err, errno, "make a folder in '%s'", dir);
	rc = buf_printf(&meta, "%s/meta", folder.data) < 0 ||
			     buf_printf(&map, "%s/map", folder.data) < 0
		     ? error_nomem(err)
		     : fetch_files(l, meta.data, map.data, err);
	(void)!fs_remove_tree(folder.data, NULL);
	return rc;
}

int loaded_open(struct object_store *s, const struct env_snapshot *snap,
		struct env_giver *giver, struct loaded **ret, struct error *err)
{
	AUTO(loaded) l = calloc(1, sizeof(*l));
	char folder[ENV_NAME_ROOM];
	int rc;

	if (!l)
		return error_nomem(err);
	l->giver = giver;
	env_blob_folder(&snap->key.digest, snap->folder, folder);
	rc = oci_objects_new(s, folder,
			     snap->is_shared ? ENV_PACKS_FOLDER : NULL,
			     &l->blobs, err);
	if (rc == 0)
		rc = artifact_get(l->blobs, &snap->manifest, &l->artifact, err);
	if (rc == 0 &&
	    (l->artifact.n_chain_ids != 1 ||
	     !digest_equal(&l->artifact.chain_ids[0], &snap->key.digest)))
		rc = error_set(err, EBADMSG,
			       "the snapshot is damaged: its artifact is "
			       "another key's");
	if (rc == 0)
		rc = fetch_in_folder(l, err);
	if (rc == 0)
		rc = check_loaded(l, err);
	if (rc == 0)
		*ret = steal_ptr(&l);
	return rc;
}

static void unmap_file(const struct mapped_file *m)
{
	if (m->data)
		(void)munmap(m->data, m->len);
}

void loaded_free(struct loaded *l)
{
	if (!l)
		return;
	tree_free(l->tree);
	unmap_file(&l->meta);
	unmap_file(&l->map_bytes);
	artifact_fini(&l->artifact);
	oci_store_free(l->blobs);
	free(l);
}
