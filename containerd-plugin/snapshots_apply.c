// SPDX-License-Identifier: Apache-2.0
/* Has bootseerd unpack layers that containerd has pulled: it decompresses several times
 * faster than containerd. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/backoff.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "containerd-plugin/snapshots_priv.h"
#include "snapshotter/client.h"

/* bootseerd stops writing soon after its client disconnected, unless the disk delays it. */
#define END_NS (60 * NS_PER_S)
#define LOOK_NS (20 * NS_PER_MS)

/* Wait until bootseerd, which locks the folder while it writes there, has released it. It
 * may still be writing after any failure, for example when it did not answer in time. */
static int await_end(int folder, const struct turn *turn, struct error *err)
{
	int64_t end = clock_now_ns() + END_NS;

	while (flock(folder, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || clock_now_ns() >= end ||
		    atomic_load(&turn->is_cut))
			return error_set(err, EINPROGRESS,
					 "bootseerd may still write to the "
					 "layer's folder");
		(void)!backoff_wait(clock_now_ns() + LOOK_NS, NULL);
	}
	return 0;
}

/* Remove from the folder what an incomplete unpacking left there. */
static int empty_folder(const char *dir, struct error *err)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int rc = d ? 0 : error_errno(err, errno, "open '%s'", dir);

	while (rc == 0 && (e = readdir(d))) {
		AUTO_FREE char *path = NULL;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		path = fs_join(dir, e->d_name);
		rc = path ? fs_remove_tree(path, err) : error_nomem(err);
	}
	if (d)
		closedir(d);
	return rc;
}

int snapshots_apply(struct snapshots *s, const struct node_layer *l,
		    const struct turn *turn, struct node_layer_content *ret,
		    struct error *err)
{
	AUTO_CLOSE int fd =
		open(l->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct error why = ERROR_INIT;
	char digest[DIGEST_STR_MAX];
	int rc;

	/* Refuse a folder with other files: after a failure they could not be told from the
	 * layer's. */
	if (fd < 0 || !fs_is_empty(fd))
		return error_set(err, ENOSYS, "'%s' is no empty folder",
				 l->dir);
	rc = images_unpack(s->images, l, turn, ret, &why);
	if (rc == 0)
		return 0;
	if (atomic_load(&turn->is_cut))
		return error_set(err, ECANCELED, "%s", why.msg);
	if (rc == -ENOTEMPTY)
		return error_set(err, EALREADY, "%s", why.msg);
	if (await_end(fd, turn, err) < 0)
		return -EINPROGRESS;
	digest_format(&l->digest, digest);
	log_warning("snapshots",
		    "containerd unpacks a layer itself: layer=%s reason=\"%s\"",
		    digest, why.msg);
	if (empty_folder(l->dir, err) < 0)
		return -EIO;
	return error_set(err, ENOSYS, "%s", why.msg);
}
