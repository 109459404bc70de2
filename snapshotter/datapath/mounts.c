// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/cleanup.h"

/* No devices or set-user-id programs in this mount: containers get them through overlayfs,
 * which has mount flags of its own, and nobody else should use them. */
#define MOUNT_FLAGS (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME)

/* -------------------------------------------------------- mount, unmount --- */

struct mount_job {
	const struct mount_wish *wish;
	const char *path;
};

#define JOB_ADOPTED 1

static int mount_job(void *arg, struct error *err)
{
	const struct mount_job *j = arg;
	struct mount_seen seen;
	int rc = 0;

	if (j->wish->replaces)
		rc = mount_take_down_alone(j->path, true, err);
	if (rc == 0)
		rc = mount_see(j->path, &seen, err);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return j->wish->make(j->wish, err);
	if (!j->wish->is_same(j->wish, &seen.line))
		return error_set(err, EBUSY,
				 "'%s' is already a mount of '%s' (%s)",
				 j->path, seen.line.source, seen.line.fstype);
	return JOB_ADOPTED;
}

int mount_image(const struct mount_wish *w, bool *ret_adopted,
		struct error *err)
{
	AUTO_FREE char *path = NULL;
	struct mount_wish wish = *w;
	struct mount_job job = { .wish = &wish };
	int rc = mount_canonical(w->path, &path, err);

	if (rc < 0)
		return rc;
	wish.path = job.path = path;
	rc = mount_isolated(w->run_dir, w->lock, mount_job, &job, err);
	if (rc < 0)
		return rc;
	if (ret_adopted)
		*ret_adopted = rc == JOB_ADOPTED;
	return 0;
}

/* ----------------------------------------------------------------- EROFS --- */

#define BDI_DIR "/sys/class/bdi"
#define METADATA_AHEAD (64 << 20)
/* for more EROFS mounts than that, readahead is left alone */
#define BDI_MAX 4096

/* The numbers N of all backing devices erofs-N, in the kernel's order. */
struct bdi_set {
	unsigned int n;
	uint32_t ids[BDI_MAX];
};

/* Parse "erofs-N". */
static bool bdi_parse(const char *name, uint32_t *ret)
{
	unsigned long id;
	char *end;

	if (strncmp(name, "erofs-", 6) != 0)
		return false;
	id = strtoul(name + 6, &end, 10);
	*ret = (uint32_t)id;
	return end != name + 6 && !*end && id <= UINT32_MAX;
}

/* List the backing devices without opendir(3), which would allocate memory. */
static void bdi_list(struct bdi_set *s)
{
	AUTO_CLOSE int fd = open(BDI_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct dirent64) char room[4096];
	ssize_t n;

	s->n = 0;
	while (fd >= 0 && (n = getdents64(fd, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n && s->n < BDI_MAX;) {
			const struct dirent64 *e = (const void *)(room + at);

			s->n += bdi_parse(e->d_name, &s->ids[s->n]);
			at += e->d_reclen;
		}
	}
}

static bool bdi_has(const struct bdi_set *s, uint32_t id)
{
	for (unsigned int i = 0; i < s->n; i++)
		if (s->ids[i] == id)
			return true;
	return false;
}

/*
 * Set the readahead of the new mount's backing device.  Nothing links the device to its mount
 * except the moment at which it appears.  If several appeared at once, ours cannot be told, and
 * all are left alone: this only affects speed.
 */
static void set_readahead(const struct bdi_set *before, unsigned int kib)
{
	char path[64], value[16];
	AUTO_CLOSE int fd = -1;
	unsigned int found = 0;
	struct bdi_set now;
	uint32_t id = 0;
	int n;

	bdi_list(&now);
	for (unsigned int i = 0; i < now.n; i++) {
		if (bdi_has(before, now.ids[i]))
			continue;
		id = now.ids[i];
		found++;
	}
	if (found != 1)
		return;
	(void)snprintf(path, sizeof(path),
		       BDI_DIR "/erofs-%" PRIu32 "/read_ahead_kb", id);
	n = snprintf(value, sizeof(value), "%u\n", kib);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, value, (size_t)n);
}

/* Explain an errno of mount(2), with a cure. */
static const char *mount_hint(int code)
{
	switch (code) {
	case ENODEV:
		return " (the kernel has no EROFS: modprobe erofs, or a kernel"
		       " with CONFIG_EROFS_FS)";
	case ENOTBLK:
		return " (the kernel cannot mount EROFS from a file: needs"
		       " Linux 6.12 with CONFIG_EROFS_FS_BACKED_BY_FILE, and"
		       " the file on a disk file system, not tmpfs)";
	case EINVAL:
		return " (damaged metadata, a feature this kernel lacks, or a"
		       " wrong number of data devices; see dmesg)";
	case EPERM:
		return " (needs CAP_SYS_ADMIN)";
	default:
		return "";
	}
}

/*
 * Tell the kernel to read the whole metadata.  It would read most of it page by page; with this
 * a walk right after the mount takes 0.8 of the time.  Does not wait.
 */
static void ask_for_metadata(const char *source)
{
	AUTO_CLOSE int fd = open(source, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)posix_fadvise(fd, 0, METADATA_AHEAD, POSIX_FADV_WILLNEED);
}

int erofs_mount(const char *source, const char *path,
		const struct mount_options *o, unsigned int readahead_kib,
		struct error *err)
{
	struct bdi_set before;

	ask_for_metadata(source);
	before.n = 0;
	if (readahead_kib)
		bdi_list(&before);
	if (mount(source, path, "erofs", MOUNT_FLAGS, o->text) < 0)
		return error_set(err, errno, "mount '%s' on '%s': %s%s", source,
				 path, strerror(errno), mount_hint(errno));
	if (readahead_kib)
		set_readahead(&before, readahead_kib);
	return 0;
}

int erofs_mount_direct(const char *source, const char *path,
		       const struct mount_options *o,
		       unsigned int readahead_kib, struct error *err)
{
	struct mount_options direct = *o;
	int rc = mount_options_add(&direct, err, "directio");

	if (rc == 0)
		rc = erofs_mount(source, path, &direct, readahead_kib, err);
	/* Some kernels that mount files do not know the option; or the options have no room for
	 * it. */
	if (rc == -EINVAL || rc == -E2BIG)
		rc = erofs_mount(source, path, o, readahead_kib, err);
	return rc;
}

int erofs_add_device(struct mount_options *o, const char *path,
		     struct error *err)
{
	if (strchr(path, ','))
		return error_set(err, EINVAL,
				 "'%s': mount options cannot hold a comma",
				 path);
	return mount_options_add(o, err, "device=%s", path);
}
