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
	const struct digest *id;   /* of the image; the caller holds its gate */
	struct oci_store *store;   /* the image's repository */
	const struct image_place *place;
	const char *label; /* for messages */
	/* An index of the service that holds the files and has a reservation on the disk; NULL:
	 * the files come from peers or the registry. */
	const struct offer_found *offer;
	struct pace *pace;
	struct disk *disk;
	struct images *images;
	struct parser *parser;
	struct image_swarms *peers; /* NULL: no peers */
};

/* Fetch a new image and take a use of it.  If the disk lacks room, images without users are
 * removed first.  The unprivileged parser process has checked all of both files by then. */
int fetch_image(const struct fetch_request *r, struct image **ret,
		struct error *err) MUST_CHECK;

#endif
