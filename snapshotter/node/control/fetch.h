// SPDX-License-Identifier: Apache-2.0
/*
 * The third step from a reference to an image: the files of an artifact that may be used,
 * fetched into a folder below ROOT/images, checked, and taken into the table of images.
 */
#ifndef BOOTSEER_NODE_FETCH_H
#define BOOTSEER_NODE_FETCH_H

#include "objects/oci.h"
#include "snapshotter/node/images/images.h"

struct disk;
struct image_swarms;
struct offer_found;
struct parser;

/* An artifact whose files are wanted; all borrowed. */
struct fetch_request {
	struct artifact *artifact; /* what it owns is taken on success */
	const struct digest *id;   /* of the image; its gate is entered */
	struct oci_store *store;   /* its repository */
	const struct image_place *place;
	const char *label; /* for messages */
	/* Holds the files, and was set aside room for; NULL: they come from peers or
	 * the registry. */
	const struct offer_found *offer;
	struct pace *pace;
	struct disk *disk;
	struct images *images;
	struct parser *parser;
	struct image_swarms *peers; /* or NULL */
};

/* Fetch a new image, which is a use of it.  Without room on the disk for it, images without
 * users are removed first.  The parser has looked at the whole of both files, without
 * rights. */
int fetch_image(const struct fetch_request *r, struct image **ret,
		struct error *err) MUST_CHECK;

#endif
