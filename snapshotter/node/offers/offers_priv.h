// SPDX-License-Identifier: Apache-2.0
/* Asking, making and sending of indexes share this. */
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

/* An image on its way to an index. */
struct offer_image {
	char *host, *repo;
	bool plain_http;
	bool was_none; /* the service had no index of it */
	struct digest digest;
	struct buf manifest;
	int64_t until_ns;
};
void offer_image_fini(struct offer_image *i);

/* A reading of a layer (convert/layer_reading.h) that is kept. */
struct kept_reading {
	struct digest layer;
	int fd;
	uint64_t bytes; /* that are set aside for it */
	int64_t until_ns;
};

struct offers {
	struct offers_of of;
	struct policy policy;
	struct service_client *client;
	struct service_client *asked; /* of the list, for which a start waits */
	char name[256];               /* of this node */
	/* Credentials of registries may be told to the service: it is asked by TLS, or on this
	 * machine, or the operator allowed it. */
	bool is_private;
	struct sign_key *key; /* NULL: none is made here */
	struct periodic *thread;

	pthread_mutex_t lock; /* of what is below */
	struct offer_image v[OFFERS_AT_ONCE];
	size_t n;
	struct kept_reading readings[OFFERS_READINGS];
	size_t n_readings;
	unsigned int n_unpacking; /* layers of such images */
	int64_t unpacked_ns;      /* when the last of them ended */
	int64_t silent_until_ns;  /* the service did not answer */
};

/* A call of the service about an image. */
struct offer_call {
	const char *method;
	bool is_list;
	const char *below;                     /* "", "/wrong", "/parts/3" */
	const struct digest *image, *artifact; /* artifact: NULL, none */
	const char *repo;                      /* HOST/REPOSITORY */
	const char *authorization;             /* of the registry; NULL: none */
	const char *parts, *offer;             /* numbers, or NULL */
	const void *body;
	size_t body_len;
};
/* -ENOENT and -EACCES are the service's answers; `ret` has the limit of the answer. */
int offers_call(struct offers *o, const struct offer_call *c, struct buf *ret,
		struct error *err) MUST_CHECK;

/* Credentials of the pull; NULL: without credentials.  -EACCES: the service must not be
 * told. */
int offers_authorization(const struct offers *o, struct oci_store *store,
			 const struct digest *image, struct pace *pace,
			 char **ret, struct error *err) MUST_CHECK;

/* The rule of --index for a repository; POLICY_OFF without one. */
enum policy_mode offers_mode(const struct offers *o, const char *host,
			     const char *repo);

/* Has the service one by now, by a signature that is believed here? */
bool offers_is_made(struct offers *o, const struct offer_image *i,
		    const char *repo, const char *authorization);

/* readings.c */
/* Are layers of such images being unpacked? */
bool offers_is_unpacking(struct offers *o);
/* A descriptor of what is kept of a layer; -1: nothing is. */
int offers_reading_dup(struct offers *o, const struct digest *layer);
/* Give up what is kept of the image's layers, and what was kept for too long; NULL: all. */
void offers_readings_drop(struct offers *o, const struct offer_image *i);

/* Make the index of an image that containerd has, and send it (build.c; send.c). */
int offers_build(struct offers *o, const struct offer_image *i,
		 struct error *err) MUST_CHECK;
/* An artifact that lies in the OCI layout `dir`, which a process without rights wrote. */
int offers_send(struct offers *o, const struct offer_image *i, int dir,
		const struct digest *artifact, const char *authorization,
		struct error *err) MUST_CHECK;

#endif
