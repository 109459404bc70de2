// SPDX-License-Identifier: Apache-2.0
/*
 * The images that the node has: ROOT/images/ID/ with
 *
 *	artifact.json  manifest of the artifact, as stored
 *	config.json    its config, as stored
 *	image.json     the ordinary image's config, as stored
 *	meta.erofs     metadata image
 *	blockmap       block map
 *	state.json     what the node remembers (state.h)
 *	complete.*     see complete.c
 *	hot.json       see prefetch.c
 *
 * A folder appears by rename when all of it is durable.  Safe from any thread.
 */
#ifndef BOOTSEER_NODE_IMAGES_H
#define BOOTSEER_NODE_IMAGES_H

#include <pthread.h>

#include "snapshotter/artifact.h"
#include "snapshotter/node/gate.h"
#include "snapshotter/node/state.h"

#define IMAGES_MAX 4096
#define IMAGE_HEX_MAX 65 /* 64 hex digits and NUL */

struct mounted;
struct image_prefetch;
struct metadata;
struct peer_image;
struct plan;

struct image {
	struct digest id;
	char hex[IMAGE_HEX_MAX];
	char *dir;
	char *mountpoint;         /* RUN/images/HEX/fs */
	struct artifact artifact; /* never changes */

	struct image_state state; /* images_lock(); change by image_*() */
	struct mounted *mounted;  /* images_lock(); set inside the gate */
	struct image_prefetch *prefetch; /* images_lock(); of prefetch.c */
	struct peer_image *peer;         /* images_lock(); of peers.c */
	struct metadata *metadata;       /* the same: it is served */
	struct error last_error;         /* images_lock() */
	int64_t last_error_at;           /* seconds since 1970 */

	unsigned int recordings;     /* images_lock(): mounts of record.c */
	struct plan *plans;          /* traces.c's, with its lock */
	const struct plan *hot_plan; /* the same: what is prefetched */

	unsigned int refs; /* the table's, as the rest */
	bool removed;
	pthread_mutex_t saving; /* files of the folder that change */
	struct image *next;
	struct images *all;
};

struct images;

/* Read what is there.  What is damaged is logged and left out. */
int images_open(const char *root, const char *run, struct images **ret,
		struct error *err) MUST_CHECK;
void images_close(struct images *t); /* after every image was put back */

/* For short looks at members; nothing else is called while it is held. */
void images_lock(struct images *t);
void images_unlock(struct images *t);

/* A use of an image, or NULL: by id; by one of its names. */
struct image *images_get(struct images *t, const struct digest *id) MUST_CHECK;
struct image *images_find(struct images *t, const char *name) MUST_CHECK;
void images_put(struct image *i); /* NULL is allowed */

/* One more use of an image that the caller has a use of. */
void images_ref(struct image *i);

/* A use of each image; the array is the caller's. */
int images_list(struct images *t, struct image ***ret, size_t *ret_n,
		struct error *err) MUST_CHECK;
void images_list_free(struct image **list, size_t n);

/*
 * Make the folder in which a new image is put together, for images_add().
 * Inside the image's gate.  The path is the caller's.
 */
int images_stage(struct images *t, const struct digest *id, char **ret,
		 struct error *err) MUST_CHECK;

/* Take the staged folder (with metadata image and block map) into the table,
 * durably.  Takes what `a` owns when it succeeds.  A use is returned. */
int images_add(struct images *t, const char *staged, struct artifact *a,
	       const char *host, const char *repo, bool plain_http,
	       struct image **ret, struct error *err) MUST_CHECK;

/* Forget an image that nobody uses or mounts, and delete its folder.  -EBUSY,
 * also when another call did.  Inside its gate. */
int images_remove(struct image *i, struct error *err) MUST_CHECK;

/* Durable changes of the state. */
int image_add_user(struct image *i, const char *user,
		   struct error *err) MUST_CHECK;
int image_remove_user(struct image *i, const char *user, bool *ret_was,
		      struct error *err) MUST_CHECK;
int image_set_complete(struct image *i, bool complete,
		       struct error *err) MUST_CHECK;
int image_set_prefetch(struct image *i, enum state_prefetch prefetch,
		       struct error *err) MUST_CHECK;
/* `name` leads to this image from now on, and to no other. */
int image_set_name(struct image *i, const char *name,
		   struct error *err) MUST_CHECK;

/* A file of the image; NULL when memory is short. */
char *image_path(const struct image *i, const char *name) MUST_CHECK;

/* A name for messages: one of the references, else the id. */
char *image_label(const struct image *i) MUST_CHECK;

/* Remember a failure for `node status`. */
void image_note_error(struct image *i, const struct error *why);

void digest_hex(const struct digest *d, char out[IMAGE_HEX_MAX]);

#endif
