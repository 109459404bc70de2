// SPDX-License-Identifier: Apache-2.0
/* Layers that containerd has pulled, unpacked by bootseerd: it decompresses several times as
 * fast as containerd does. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "containerd-plugin/snapshots_priv.h"
#include "snapshotter/client.h"

/* Take out what a layer that was not unpacked whole left in its folder. */
static int empty_folder(const char *dir, struct error *err)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int rc = d ? 0
		   : error_set(err, errno, "open '%s': %s", dir,
			       strerror(errno));

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

	/* A folder with files of others is left alone: they could not be told from ours. */
	if (fd < 0 || !fs_is_empty(fd))
		return error_set(err, ENOSYS, "'%s' is no empty folder",
				 l->dir);
	rc = images_unpack(s->images, l, turn, ret, &why);
	if (rc == 0)
		return 0;
	if (rc == -ECANCELED || rc == -EINPROGRESS)
		return error_set(err, -rc, "%s", why.msg);
	digest_format(&l->digest, digest);
	log_warning("snapshots",
		    "containerd unpacks a layer itself: layer=%s reason=\"%s\"",
		    digest, why.msg);
	if (empty_folder(l->dir, err) < 0)
		return -EIO;
	return error_set(err, ENOSYS, "%s", why.msg);
}
