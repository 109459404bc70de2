// SPDX-License-Identifier: Apache-2.0
/*
 * Containers in a user namespace (pods with hostUsers: false).  Labels of Prepare name
 * the mappings, and containerd maps the layers when it mounts them, by the options
 * uidmap= and gidmap=, so that nothing is copied or chowned.
 */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "common/log.h"
#include "containerd-plugin/snapshots_priv.h"

#define LABEL_UID_MAPPING "containerd.io/snapshot/uidmapping"
#define LABEL_GID_MAPPING "containerd.io/snapshot/gidmapping"
/* Set by this program; containerd passes on no such label from images' manifests. */
#define LABEL_SHIFTED "bootseer/shifted"

/* For snapshotters without id mapping, containerd's clients chown a whole image in the
 * snapshot "DIGEST-remap", and commit it as "DIGEST". Mark such a snapshot by a label. */
int snapshots_note_shifted(const char *key, struct labels *labels,
			   struct error *err)
{
	if (!snapshots_is_remap_key(key))
		return 0;
	return labels_set(labels, LABEL_SHIFTED, "1", err);
}

/* Get the host id of the container's id 0 from "0:1000:65536,...". */
static bool root_of_mapping(const char *text, unsigned int *ret)
{
	unsigned int inside, host, n;

	for (; text; text = strchr(text, ',')) {
		text += *text == ',';
		if (sscanf(text, "%u:%u:%u", &inside, &host, &n) == 3 &&
		    inside == 0 && n > 0) {
			*ret = host;
			return true;
		}
	}
	return false;
}

int snapshots_id_maps(const struct snapshot *snap,
		      const struct snapshot *parent, struct id_maps *ret,
		      struct error *err)
{
	*ret = (struct id_maps){ .uids = NULL };
	/* The labels of an unpacked layer come from the image's manifest, and other images
	 * share the layer, so they are ignored. */
	if (snapshots_is_layer(snap))
		return 0;
	ret->uids = labels_get(&snap->labels, LABEL_UID_MAPPING);
	ret->gids = labels_get(&snap->labels, LABEL_GID_MAPPING);
	if (!ret->uids && !ret->gids)
		return 0;
	if (!root_of_mapping(ret->uids, &ret->uid) ||
	    !root_of_mapping(ret->gids, &ret->gid))
		return error_set(err, EINVAL,
				 "the labels of id mappings do not map id 0");
	ret->shifts_lower =
		parent && !labels_get(&parent->labels, LABEL_SHIFTED);
	return 0;
}

int snapshots_check_mappable(const char *tree, const char *image,
			     struct error *err)
{
	struct statfs st;

	if (statfs(tree, &st) < 0)
		return error_set(err, EIO, "'%s': %s", tree, strerror(errno));
	if (st.f_type == EROFS_SUPER_MAGIC_V1)
		return 0;
	log_warning("snapshots",
		    "layers are downloaded for a container in a user "
		    "namespace: image=\"%s\" reason=\"the kernel maps ids of "
		    "EROFS mounts, and bootseerd mounts by another way here\" "
		    "cure=\"bootseer node doctor\"",
		    image);
	return error_set(err, EKEYREJECTED, "ids of '%s' cannot be mapped",
			 tree);
}
