// SPDX-License-Identifier: Apache-2.0
/*
 * Indexes of ordinary images that nodes make for each other, and share through
 * bootseer-registry (docs/trust.md, "Nobody converts").  A node asks for one when an image has
 * no usable artifact, and makes one of what containerd has pulled.  The service is not trusted:
 * signatures are checked by --trust (trust/admission.h), bytes by the digest that was signed.
 * Any thread.
 */
#ifndef BOOTSEER_NODE_OFFERS_H
#define BOOTSEER_NODE_OFFERS_H

#include "snapshotter/node/disk_room.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/offer_file.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/trust/admission.h"

struct offers;

/* The parts of the node that indexes need; all is borrowed. */
struct offers_of {
	const struct node_config *cfg;
	struct admission *admission;
	struct origins *origins;
	const struct disk_room *room;
	const atomic_bool *is_ending; /* true: the node is ending */
};

/* *ret is NULL if no rule of --index asks for indexes. */
int offers_open(const struct offers_of *of, struct offers **ret,
		struct error *err) MUST_CHECK;
void offers_close(struct offers *o); /* NULL is allowed, as in all below */

/* An image without a usable artifact in its registry; all borrowed. */
struct offer_query {
	const char *host, *repo;
	bool plain_http;
	const struct oci_manifest *image;
	struct oci_store *store; /* the image's repository */
	struct pace *pace;       /* of the call that waits */
};

struct offer_found {
	/* with its signature and the image's config */
	struct artifact artifact;
	struct offer offer;
	int fd; /* a nameless file below --root that holds the offer */
	uint64_t size;
	const struct disk_room *room; /* the reservation of `size` bytes */
};
void offer_found_fini(struct offer_found *f); /* zeroed is allowed */

/* Ask the service for an index.  -ENOENT: no rule asks for one, the service has none, or it
 * cannot be asked; -ADMISSION_REFUSED: it has indexes, but of no node that is trusted here. */
int offers_find(struct offers *o, const struct offer_query *q,
		struct offer_found *ret, struct error *err) MUST_CHECK;

/* Let the node's image `i` start with this index: a damaged offer in its folder is repaired.
 * -EBADMSG: this node found the index wrong, and could not report that yet. */
int offer_found_renew(const struct offer_found *f, const struct image *i,
		      struct error *err) MUST_CHECK;

/* Link the offer's file into the folder of the new image. */
int offer_found_keep(const struct offer_found *f, const char *dir,
		     struct error *err) MUST_CHECK;

/* The image starts the ordinary way because offers_find() returned `rc`: if a rule says so,
 * make its index once containerd has pulled it. */
void offers_note(struct offers *o, const struct offer_query *q, int rc);

/*
 * A layer is about to be unpacked for containerd.  If it belongs to an image whose index is to
 * be made, keep what is found while reading it: the caller fills the returned reading and ends
 * it, with `diff_id` NULL if the layer was not unpacked whole.  NULL: no reading is wanted.
 */
struct layer_reading;
struct layer_reading *offers_reading_begin(struct offers *o,
					   const struct oci_descriptor *d);
void offers_reading_end(struct offers *o, struct layer_reading *r,
			const struct digest *diff_id, uint64_t plain);

/* A block of the image does not match its index: withdraw the index from the service for all
 * nodes.  Waits for the service. */
int offers_withdraw(struct offers *o, const struct image *i,
		    struct error *err) MUST_CHECK;

/* Main function of the process that makes an index: bootseerd runs itself with this argv[0];
 * the result is its exit status. */
#define OFFERS_CHILD_NAME "bootseerd-index"
int offers_child_main(void);

#endif
