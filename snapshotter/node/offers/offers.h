// SPDX-License-Identifier: Apache-2.0
/*
 * Indexes of ordinary images that nodes make for each other, by way of bootseer-registry
 * (docs/trust.md, "Nobody converts"): asked for when an image has no artifact that may be used,
 * and made of what containerd has pulled.  Nothing that the service says is believed: its
 * signatures are held against --trust (trust/admission.h), its bytes against the digest that was
 * signed.  Any thread.
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
	const atomic_bool *is_ending; /* the node ends */
};

/* *ret is NULL where no rule of --index asks for anything. */
int offers_open(const struct offers_of *of, struct offers **ret,
		struct error *err) MUST_CHECK;
void offers_close(struct offers *o); /* NULL is allowed, as in all below */

/* An image that the registry has no usable artifact of; all borrowed. */
struct offer_query {
	const char *host, *repo;
	bool plain_http;
	const struct oci_manifest *image;
	struct oci_store *store; /* its repository */
	struct pace *pace;       /* of the one who waits */
};

struct offer_found {
	struct artifact artifact; /* with evidence and the image's config */
	struct offer offer;
	int fd; /* a nameless file below --root that holds the offer */
	uint64_t size;
	const struct disk_room *room; /* where `size` is set aside */
};
void offer_found_fini(struct offer_found *f); /* zeroed is allowed */

/* Ask the service.  -ENOENT: no rule asks, it has none, or it cannot be asked; -ADMISSION_REFUSED:
 * it has some, but nobody whom this node believes made them. */
int offers_find(struct offers *o, const struct offer_query *q,
		struct offer_found *ret, struct error *err) MUST_CHECK;

/* The image that the node has of it may start by it again: a damaged offer in its folder is
 * mended.  -EBADMSG: this node found the index wrong, and the service does not know yet. */
int offer_found_renew(const struct offer_found *f, const struct image *i,
		      struct error *err) MUST_CHECK;

/* Give the file its name in the folder of the new image. */
int offer_found_keep(const struct offer_found *f, const char *dir,
		     struct error *err) MUST_CHECK;

/* The image starts the ordinary way, as offers_find() said `rc`: make its index once containerd has
 * all of it, where a rule says so. */
void offers_note(struct offers *o, const struct offer_query *q, int rc);

/*
 * A layer is about to be unpacked for containerd.  If it is one of an image whose index is to be
 * made, what its reading finds is kept for that until the image is pulled: the caller has it
 * filled, and calls the second function, with NULL where the layer was not unpacked whole.  NULL:
 * it is not wanted.
 */
struct layer_reading;
struct layer_reading *offers_reading_begin(struct offers *o,
					   const struct oci_descriptor *d);
void offers_reading_end(struct offers *o, struct layer_reading *r,
			const struct digest *diff_id, uint64_t plain);

/* A block of the image is not what its index says: no node is to have that index any more.  Waits
 * for the service. */
int offers_withdraw(struct offers *o, const struct image *i,
		    struct error *err) MUST_CHECK;

/* bootseerd as the process that makes an index: argv[0] is this, and it ends with the status
 * that is returned. */
#define OFFERS_CHILD_NAME "bootseerd-index"
int offers_child_main(void);

#endif
