// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of the mirror.  One thread runs its loop and owns every member without a comment on
 * threads; work that waits for registries and peers runs on its pools.
 *
 *     mirror.c         open and close, figures
 *     mirror_cert.c    the key and certificate that it and containerd show each other
 *     mirror_http.c    requests
 *     mirror_layers.c  images that were asked for, layers that are brought and kept
 *     mirror_streams.c answers: the bytes of layers as they come
 */
#ifndef BOOTSEER_NODE_MIRROR_PRIV_H
#define BOOTSEER_NODE_MIRROR_PRIV_H

#include <pthread.h>
#include <sys/queue.h>

#include "common/thread.h"
#include "net/httpd.h"
#include "net/loop.h"
#include "net/pool.h"
#include "snapshotter/node/mirror/layer_transfer.h"
#include "snapshotter/node/mirror/mirror.h"
#include "snapshotter/node/mirror/pulled.h"
#include "snapshotter/node/remote_call.h"

/* Node name in the mirror's certificate; clients with another certificate or none get nothing. */
#define MIRROR_PEER "mirror"
/* layers of all images that are fetched at once ... */
#define MIRROR_FETCHES 16u
#define MIRROR_STREAMS \
	32u /* ... and connections for them, besides two for each layer */

struct mirror_layer;
struct mirror_image;

/* A response to containerd that sends bytes of a layer. */
struct layer_stream {
	TAILQ_ENTRY(layer_stream) link;
	struct mirror_layer *l;
	struct httpd_request *request;
	uint64_t pos, end;
};

enum layer_state {
	LAYER_IDLE,
	LAYER_COMING,
	LAYER_WHOLE,
	LAYER_FAILED, /* containerd has to get the layer from the registry */
};

struct mirror_layer {
	struct mirror_image *i;
	struct pulled_layer *p;
	enum layer_state state;
	TAILQ_HEAD(, layer_stream) streams;
	struct work work; /* the fetch */
	struct layer_transfer fetch;
	struct pace pace;
	volatile bool cancel;
	struct loop_call moved_call;
	atomic_bool has_moved; /* moved_call is posted */
	int64_t begun_ns;
	bool is_reserved; /* space on the disk is reserved */
	int rc;
	struct error err;
};

enum image_stage {
	IMAGE_NOTED, /* containerd asked for its manifest */
	IMAGE_OPENING,
	IMAGE_OPEN,
	IMAGE_CLOSING,
};

struct mirror_image {
	TAILQ_ENTRY(mirror_image) link;
	struct mirror *m;
	enum image_stage stage;
	struct pulled p;
	struct mirror_layer *layers; /* p.n_layers of them */
	struct work work;            /* opens the image, later closes it */
	struct remote_call call;     /* ends the opening */
	/* number of streams, and of layers that are being fetched */
	unsigned int refs;
	int64_t used_ns;
	int rc;
	struct error err;
};

/* A request for a layer that waits until manifests of its repository are known. */
struct parked_request {
	TAILQ_ENTRY(parked_request) link;
	struct httpd_request *request;
	char *host, *repo;
	struct digest digest;
};

struct mirror_counts {
	atomic_uint_fast64_t layers, layers_bytes, served, passed, failed,
		wrong;
	atomic_uint_fast64_t served_bytes, registry_bytes, peers_bytes;
};

struct mirror {
	struct mirror_of of;
	char *dir, *cert_file, *key_file;
	char *client_cas[2];
	struct httpd_tls *tls;
	struct loop *loop;
	struct thread thread;
	struct loop_call stop_call;
	struct httpd *http;
	struct pool *opening; /* opens and closes images */
	struct pool *fetching;
	struct loop_timer tidy;
	TAILQ_HEAD(mirror_image_list, mirror_image)
	images; /* the last used one is last */
	size_t n_images;
	unsigned int n_fetches; /* layers that are being fetched ... */
	unsigned int n_streams; /* ... and their connections */
	TAILQ_HEAD(, parked_request) parked;
	uint64_t bytes; /* of layers that are kept or being fetched */
	bool is_ending;
	struct liars liars; /* any thread, as the members below */
	struct mirror_counts counts;
};

/* ------------------------------------------------------- mirror_cert.c --- */

/* Make a new key, for root alone, and a certificate for the address of `listen`.  Older
 * certificates are not accepted any more. */
int mirror_cert_make(const char *cert_file, const char *key_file,
		     const char *listen, struct error *err) MUST_CHECK;

/* ------------------------------------------------------- mirror_http.c --- */

extern const struct httpd_handler mirror_handler;

/* ---------------------------------------------------- mirror_streams.c --- */

void mirror_refuse(struct httpd_request *r);
/* Send the bytes of the layer that the request wants, as they arrive. */
void mirror_send_layer(struct mirror_layer *l, struct httpd_request *r);
/* Continue the streams of a layer: more bytes arrived, or it failed. */
void mirror_streams_go_on(struct mirror_layer *l);
/* Note a use of the image; end a use of it. */
void mirror_image_touch(struct mirror_image *i);
void mirror_image_put(struct mirror_image *i);

/* ----------------------------------------------------- mirror_layers.c --- */

/* Note that containerd asked for this manifest, since it may soon ask for its layers. */
void mirror_note(struct mirror *m, const char *host, const char *repo,
		 const struct digest *manifest);
/* Answer a request for a layer, now or when the manifests of that repository are known. */
void mirror_want(struct mirror *m, const char *host, const char *repo,
		 const struct digest *layer, struct httpd_request *r);
/* Forget images that were not used for long; called from time to time. */
void mirror_tidy(struct mirror *m);
/* At the end: cancel all waiting work, later free all images. */
void mirror_give_up(struct mirror *m);
void mirror_images_free(struct mirror *m);

#endif
