// SPDX-License-Identifier: Apache-2.0
/* An image's file index for making and applying traces, without a mount. */
#ifndef BOOTSEER_NODE_IMAGE_INDEX_H
#define BOOTSEER_NODE_IMAGE_INDEX_H

#include "image/erofs/erofs.h"
#include "recorder/recorder.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/map_file.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/remote_call.h"

struct image_index {
	struct map_file map_file, meta_file;
	struct blockmap map;
	struct erofs_image meta;
	struct file_map *files;
};
#define IMAGE_INDEX_INIT \
	{ \
		.files = NULL \
	}

/* Open the index.  It hashes both files and walks the metadata, tens of milliseconds for a
 * large image, so never call it while a read waits. */
int image_index_open(const struct image *i, struct image_index *ret,
		     struct error *err) MUST_CHECK;
void image_index_close(struct image_index *v);

/* The image's name in traces: the manifest digest of the ordinary image. */
struct digest image_manifest(struct image *i);
/* The name in traces of the image's repository: origin_place(); the caller's, NULL when memory
 * is short. */
char *image_repo(const struct image *i) MUST_CHECK;

/* Is the image the snapshot of an environment? */
bool image_is_environment(const struct image *i);

/*
 * The config of the ordinary image, JSON text: from ROOT/images/ID/image.json,
 * else from the registry, and kept there.  Blocks for as long as a registry
 * request may.
 */
int image_config(struct origins *origins, struct image *i, struct buf *ret,
		 struct error *err) MUST_CHECK;

/* The workload key of what the config starts; the caller's, NULL when memory is short. Does no
 * I/O. */
char *image_config_key(const char *config, size_t len) MUST_CHECK;

#endif
