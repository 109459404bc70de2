// SPDX-License-Identifier: Apache-2.0
/* Mounts images whose bytes are all in files of this node, without a daemon. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/loops.h"
#include "snapshotter/datapath.h"
#include "snapshotter/datapath/mounts.h"

/* Readahead of the mount if the disk's own setting is not known: more readahead causes no
 * fetches here.  docs/decisions has the figures. */
#define READAHEAD_KIB 1024u
#define READAHEAD_KIB_MAX 16384u
#define FILES_MAX 64u

struct mapping_job {
	const char *meta;
	const char *const *files;
	size_t n_files;
	unsigned int readahead_kib;
	pid_t parent; /* the process that makes the cache keep the blocks */
};

static bool is_mount_of_metadata(const struct mount_line *l, const char *meta)
{
	return strcmp(l->fstype, "erofs") == 0 &&
	       (strcmp(l->source, meta) == 0 || loop_is_of(l->source, meta));
}

static bool is_same(const struct mount_wish *w, const struct mount_line *l)
{
	const struct mapping_job *j = w->arg;

	return is_mount_of_metadata(l, j->meta);
}

bool datapath_has_complete(const char *mountpoint, const char *meta_path)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *meta = NULL;
	AUTO_FINI(mount_line) line = { .major = 0 };

	if (mount_canonical(mountpoint, &path, NULL) < 0 ||
	    mount_find(path, &line, NULL) <= 0)
		return false;
	/* The kernel shows mounts by paths without symlinks; the file may have been deleted
	 * since. */
	return mount_canonical(meta_path, &meta, NULL) == 0 &&
	       is_mount_of_metadata(&line, meta);
}

/* The readahead that is set for the disk of `path`. */
static unsigned int get_disk_readahead(const char *path)
{
	static const char *const places[] = { "bdi", "../bdi" };
	unsigned int kib = READAHEAD_KIB;
	struct stat st;

	if (stat(path, &st) < 0)
		return kib;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		AUTO_FCLOSE FILE *f = NULL;
		char name[96];

		/* The second place is for a partition: its disk's folder. */
		(void)snprintf(name, sizeof(name),
			       "/sys/dev/block/%u:%u/%s/read_ahead_kb",
			       major(st.st_dev), minor(st.st_dev), places[i]);
		f = fopen(name, "re");
		if (f && fscanf(f, "%u", &kib) == 1)
			break;
	}
	if (kib < READAHEAD_KIB)
		return READAHEAD_KIB;
	return kib < READAHEAD_KIB_MAX ? kib : READAHEAD_KIB_MAX;
}

static int make_from_files(const struct mount_wish *w, struct error *err)
{
	const struct mapping_job *j = w->arg;
	struct mount_options o = MOUNT_OPTIONS_INIT;

	for (size_t i = 0; i < j->n_files; i++) {
		int rc = erofs_add_device(&o, j->files[i], err);

		if (rc < 0)
			return rc;
	}
	return erofs_mount_direct(j->meta, w->path, &o, j->readahead_kib, err);
}

/* Mount through loop devices; runs in a child process that ends afterwards, which closes the
 * descriptors. */
static int make_from_loops(const struct mount_wish *w, struct error *err)
{
	const struct mapping_job *j = w->arg;
	char meta[LOOP_PATH_MAX], path[LOOP_PATH_MAX];
	struct mount_options o = MOUNT_OPTIONS_INIT;
	int fd, rc = loop_open(j->meta, meta, &fd, err);

	for (size_t i = 0; rc == 0 && i < j->n_files; i++) {
		rc = loop_open(j->files[i], path, &fd, err);
		if (rc == 0)
			rc = erofs_add_device(&o, path, err);
	}
	return rc < 0 ? rc
		      : erofs_mount(meta, w->path, &o, j->readahead_kib, err);
}

/*
 * Make sure that the cache still keeps the blocks.  If bootseerd was killed while this child
 * waited for its lock, a new bootseerd may have evicted blocks that no mount reads.  So open
 * the file first, then check the parent: a bootseerd that starts later finds the file in use,
 * and keeps the blocks.
 */
static int hold_blocks(const struct mapping_job *j, struct error *err)
{
	/* Stays open until the child ends. */
	int fd = open(j->meta, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return error_errno(err, errno, "open '%s'", j->meta);
	return getppid() == j->parent
		       ? 0
		       : error_set(err, ECANCELED,
				   "whoever mounts it has ended");
}

static int make_device(const struct mount_wish *w, struct error *err)
{
	int rc = hold_blocks(w->arg, err);

	if (rc < 0)
		return rc;
	rc = make_from_files(w, err);

	/* -E2BIG: the names of the files are too long; those of loop devices are shorter. */
	return rc == -ENOTBLK || rc == -E2BIG ? make_from_loops(w, err) : rc;
}

int datapath_mount_complete(const char *run_dir, struct datapath_image *img,
			    struct error *err)
{
	AUTO_FREE char *meta = realpath(img->meta_path, NULL);
	struct mapping_job job = { .meta = meta,
				   .files = img->files,
				   .n_files = img->n_files,
				   .parent = getpid() };
	struct mount_wish wish = { .run_dir = run_dir,
				   .lock = img->index,
				   .path = img->mountpoint,
				   .is_same = is_same,
				   .make = make_device,
				   .arg = &job };

	if (!meta)
		return error_errno(err, errno, "metadata '%s'", img->meta_path);
	/* Without a device EROFS would mount, but read wrong bytes. */
	if (img->n_files == 0 || img->n_files > FILES_MAX)
		return error_set(err, EINVAL, "image '%s' has %zu data files",
				 img->name, img->n_files);
	job.readahead_kib = get_disk_readahead(img->files[0]);
	return mount_image(&wish, NULL, err);
}
