// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of the mirror.  One thread runs its loop and owns all that does not say otherwise;
 * what waits for registries and peers runs on its pools.
 *
 *   mirror.c         open and close, figures
 *   mirror_cert.c    the key and certificate that it and containerd show each other
 *   mirror_http.c    requests
 *   mirror_layers.c  images that were asked for, layers that are brought and kept
 *   mirror_streams.c answers: the bytes of layers as they come
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

/* The node of the certificate: who shows another one, or none, gets nothing. */
#define MIRROR_PEER "mirror"
#define MIRROR_FETCHES 16u /* layers that come at a time, of all images ... */
#define MIRROR_STREAMS \
	32u /* ... and reads of them, but for two of each layer */

struct mirror_layer;
struct mirror_image;

/* Bytes of a layer on their way to containerd. */
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
	LAYER_FAILED, /* containerd gets it itself */
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
	atomic_bool has_moved; /* that is posted */
	int64_t begun_ns;
	bool is_reserved; /* room on the disk */
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
	struct work work;            /* it is opened, or closed */
	struct remote_call call;     /* what ends the first */
	unsigned int refs;           /* streams, and layers that come */
	int64_t used_ns;
	int rc;
	struct error err;
};

/* A request for a layer, while manifests of its repository are looked at. */
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
	struct pool *opening; /* manifests; ends of images */
	struct pool *fetching;
	struct loop_timer tidy;
	TAILQ_HEAD(mirror_image_list, mirror_image)
	images; /* used last: last */
	size_t n_images;
	unsigned int n_fetches; /* layers that come ... */
	unsigned int n_streams; /* ... by so many reads at a time */
	TAILQ_HEAD(, parked_request) parked;
	uint64_t bytes; /* of layers that are kept or come */
	bool is_ending;
	struct liars liars; /* any thread, as the rest */
	struct mirror_counts counts;
};

/* ------------------------------------------------------- mirror_cert.c --- */

/* Make both anew, for the address of `listen`; the key is for root alone.  Certificates of before
 * are not taken any more. */
int mirror_cert_make(const char *cert_file, const char *key_file,
		     const char *listen, struct error *err) MUST_CHECK;

/* ------------------------------------------------------- mirror_http.c --- */

extern const struct httpd_handler mirror_handler;

/* ---------------------------------------------------- mirror_streams.c --- */

void mirror_refuse(struct httpd_request *r);
/* Send what the request wants of the layer, now or as it comes. */
void mirror_send_layer(struct mirror_layer *l, struct httpd_request *r);
/* More of the layer is here, or it failed. */
void mirror_streams_go_on(struct mirror_layer *l);
/* The image is in use now; or a use of it is over. */
void mirror_image_touch(struct mirror_image *i);
void mirror_image_put(struct mirror_image *i);

/* ----------------------------------------------------- mirror_layers.c --- */

/* containerd asks for this manifest: soon it may ask for its layers. */
void mirror_note(struct mirror *m, const char *host, const char *repo,
		 const struct digest *manifest);
/* Answer, now or when the manifests of that repository are known. */
void mirror_want(struct mirror *m, const char *host, const char *repo,
		 const struct digest *layer, struct httpd_request *r);
/* Forget images that were not used for long, some time. */
void mirror_tidy(struct mirror *m);
/* At the end: nothing is waited for any more; and then nothing is left. */
void mirror_give_up(struct mirror *m);
void mirror_images_free(struct mirror *m);

#endif
