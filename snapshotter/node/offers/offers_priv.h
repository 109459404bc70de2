// SPDX-License-Identifier: Apache-2.0
/* Shared by the code that asks for, makes and sends indexes. */
#ifndef BOOTSEER_NODE_OFFERS_PRIV_H
#define BOOTSEER_NODE_OFFERS_PRIV_H

#include <pthread.h>

#include "common/periodic.h"
#include "common/sign_key.h"
#include "net/service_client.h"
#include "snapshotter/node/offers/offers.h"
#include "snapshotter/node/trust/policy.h"

#define OFFERS_PART (4u << 20) /* bytes: docs/formats/registry-api.md */
#define OFFERS_PARTS_MAX 256
#define OFFERS_AT_ONCE 16 /* images whose index is to be made */
#define OFFERS_READINGS 256
#define OFFERS_PULL_NS \
	(3600 * NS_PER_S) /* a pull that lasts longer is not waited for */

/* An image whose index is to be made. */
struct offer_image {
	char *host, *repo;
	bool plain_http;
	bool was_none; /* the service had no index of the image */
	struct digest digest;
	struct buf manifest;
	int64_t until_ns;
};
void offer_image_fini(struct offer_image *i);

/* A reading of a layer (convert/layer_reading.h) that is kept. */
struct kept_reading {
	struct digest layer;
	int fd;
	uint64_t bytes; /* bytes reserved for it */
	int64_t until_ns;
};

struct offers {
	struct offers_of of;
	struct policy policy;
	struct service_client *client;
	/* client for the list only, for which a start waits: short timeout */
	struct service_client *asked;
	char name[256]; /* of this node */
	/* Registry credentials may be sent to the service: it uses TLS, is on this machine, or
	 * the operator allowed it. */
	bool is_private;
	struct sign_key *key; /* NULL: no indexes are made here */
	struct periodic *thread;

	pthread_mutex_t lock; /* protects the members below */
	struct offer_image v[OFFERS_AT_ONCE];
	size_t n;
	struct kept_reading readings[OFFERS_READINGS];
	size_t n_readings;
	/* layers that are being unpacked now, of images in `v` */
	unsigned int n_unpacking;
	int64_t unpacked_ns; /* when the last of these layers was done */
	/* until when the silent service is not asked */
	int64_t silent_until_ns;
};

/* A call of the service about an image. */
struct offer_call {
	const char *method;
	bool is_list;
	/* end of the URL: "", "/wrong", "/parts/3" */
	const char *below;
	const struct digest *image, *artifact; /* artifact: NULL if none */
	const char *repo;                      /* HOST/REPOSITORY */
	const char *authorization;             /* the registry's; NULL: none */
	const char *parts, *offer;             /* numbers, or NULL */
	const void *body;
	size_t body_len;
};
/* Call the service.  -ENOENT and -EACCES are its answers; `ret` limits the size of the answer. */
int offers_call(struct offers *o, const struct offer_call *c, struct buf *ret,
		struct error *err) MUST_CHECK;

/* Get the credentials of the pull; NULL: it has none.  -EACCES: the service must not see them. */
int offers_authorization(const struct offers *o, struct oci_store *store,
			 const struct digest *image, struct pace *pace,
			 char **ret, struct error *err) MUST_CHECK;

/* The rule of --index for a repository; POLICY_OFF without one. */
enum policy_mode offers_mode(const struct offers *o, const char *host,
			     const char *repo);

/* Does the service have an index of the image now, with a signature that is trusted here? */
bool offers_is_made(struct offers *o, const struct offer_image *i,
		    const char *repo, const char *authorization);

/* readings.c */
/* Are layers of images whose index is to be made being unpacked now? */
bool offers_is_unpacking(struct offers *o);
/* Duplicate the descriptor of a layer's reading; -1: there is none. */
int offers_reading_dup(struct offers *o, const struct digest *layer);
/* Drop the readings of the image's layers, and readings that are too old; NULL: all. */
void offers_readings_drop(struct offers *o, const struct offer_image *i);

/* Make the index of an image that containerd has, and send it (build.c; send.c). */
int offers_build(struct offers *o, const struct offer_image *i,
		 struct error *err) MUST_CHECK;
/* Send the artifact in the OCI layout `dir`, which an unprivileged process wrote. */
int offers_send(struct offers *o, const struct offer_image *i, int dir,
		const struct digest *artifact, const char *authorization,
		struct error *err) MUST_CHECK;

#endif
