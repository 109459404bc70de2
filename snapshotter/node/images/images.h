// SPDX-License-Identifier: Apache-2.0
/*
 * The images that the node has: ROOT/images/ID/ (ID: the hex digits of image_id_of()) with
 *
 *	artifact.json  manifest of the artifact, as stored
 *	config.json    its config, as stored
 *	image.json     the ordinary image's config, as stored
 *	meta.erofs     metadata image
 *	blockmap       block map
 *	state.json     what the node remembers (state.h)
 *	evidence       the signature that admission.h accepted it for; absent where
 *	               none was wanted
 *	offer          of an index that came from the service (offer_file.h)
 *	wrong          that index is wrong, which the service does not know yet
 *	hot.json       see prefetch.c
 *
 * A folder appears by rename when all of it is durable.  Safe from any thread.
 */
#ifndef BOOTSEER_NODE_IMAGES_H
#define BOOTSEER_NODE_IMAGES_H

#include <pthread.h>

#include "image/artifact/artifact.h"
#include "snapshotter/node/images/keyed_lock.h"
#include "snapshotter/node/images/state.h"

#define IMAGES_MAX 4096
#define IMAGES_STAGE_PREFIX "tmp." /* of folders that are no images (yet) */
/* File of the image's folder with the evidence that its artifact was accepted
 * for (trust/admission.h), and its bytes at most. */
#define EVIDENCE_FILE "evidence"
#define EVIDENCE_MAX (64u << 10)
#define WRONG_FILE "wrong"
#define IMAGE_HEX_MAX 65 /* 64 hex digits and NUL */

struct mounted;
struct image_prefetch;
struct metadata_swarm;
struct image_swarm;
struct image_workloads;

/* When an image was prepared: what its next start waited for.  Monotonic;
 * `resolved_ns` 0: no registry was asked; `end_ns` 0: it was not, since the last. */
struct image_asked {
	int64_t begin_ns, resolved_ns, end_ns;
	uint64_t hot_fetched_bytes;        /* of its prefetch until then */
	uint64_t peer_bytes, origin_bytes; /* of its swarm until then */
};

struct image {
	struct digest id; /* image_id_of() */
	char hex[IMAGE_HEX_MAX];
	char *dir;
	char *mountpoint;         /* RUN/images/HEX/fs */
	struct artifact artifact; /* never changes */
	bool is_checked; /* set inside the gate: the content of its files, by
	                  * this process */

	struct image_state state; /* images_lock(); change by image_*() */
	struct mounted *mounted;  /* images_lock(); set inside the gate */
	struct image_prefetch *prefetch; /* images_lock(); of prefetch.c */
	struct image_swarm *peer;        /* images_lock(); of image_swarm.c */
	struct metadata_swarm *metadata; /* the same: it is served */
	struct error last_error;         /* images_lock() */
	int64_t last_error_at;           /* seconds since 1970 */
	int64_t judged_error_at; /* the newest that housekeeper.c acted upon */
	int64_t used_at; /* the same, images_lock(): when its state last changed
	                  * or it was last asked for, the mtime of state.json */

	struct image_asked asked; /* images_lock() */
	unsigned int recordings;  /* images_lock(): mounts of record.c */
	struct image_workloads *workloads; /* traces/workload.h, its lock */
	void (*workloads_free)(struct image_workloads *w);

	unsigned int refs; /* the table's, as the rest */
	bool removed;
	bool is_not_restored; /* while the node starts: it was tried, and told */
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
struct image *images_by_name(struct images *t, const char *name) MUST_CHECK;
void images_put(struct image *i); /* NULL is allowed */

/* Take another use of an image that the caller has a use of. */
void images_ref(struct image *i);

size_t images_count(struct images *t);

/*
 * A use of the image that nobody needs (no user, no mount) and that was asked for
 * longest ago, after the second `after` and before the second `before`; NULL.
 */
struct image *images_oldest_unused(struct images *t, int64_t after,
				   int64_t before) MUST_CHECK;

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

/* Where a new image comes from, and the names that lead to it. */
struct image_place {
	const char *host, *repo;
	bool plain_http;
	const char *const *names;
	size_t n_names;
};

/* Write the texts of `a` into the staged folder.  Waits for the disk: beside what comes
 * from the registry, where there is something. */
int images_stage_texts(const char *staged, const struct artifact *a,
		       struct error *err) MUST_CHECK;

/*
 * Take the staged folder (with metadata image, block map and texts) into the table,
 * durably.  Takes what `a` owns when it succeeds.  A use is returned.  A name that leads
 * to another image is left to image_set_name(), which takes it from there.
 */
int images_add(struct images *t, const char *staged, struct artifact *a,
	       const struct image_place *place, struct image **ret,
	       struct error *err) MUST_CHECK;

/* Forget an image that nobody uses or mounts, and delete its folder.  -EBUSY,
 * also when another call did.  Inside its gate. */
int images_remove(struct image *i, struct error *err) MUST_CHECK;

bool image_has_user(struct image *i, const char *user);
/* Durable changes of the state. */
int image_add_user(struct image *i, const char *user,
		   struct error *err) MUST_CHECK;
/* On a full disk it is forgotten in memory alone, and that is a success; after any
 * other failure the user is there still. */
int image_remove_user(struct image *i, const char *user, bool *ret_was,
		      struct error *err) MUST_CHECK;
int image_set_complete(struct image *i, bool complete,
		       struct error *err) MUST_CHECK;
int image_set_prefetch(struct image *i, enum state_prefetch prefetch,
		       struct error *err) MUST_CHECK;
/* `name` leads to this image from now on, and to no other. */
int image_set_name(struct image *i, const char *name,
		   struct error *err) MUST_CHECK;

/* Keep what the artifact was accepted for (admission.h) instead of what was kept
 * before; durable. */
int image_set_evidence(struct image *i, const struct buf *evidence,
		       struct error *err) MUST_CHECK;

/* Have blocks that were wrong until now judge nothing any more: what they came from is mended. */
void image_forget_errors(struct image *i);

/* A file of the image; NULL when memory is short. */
char *image_path(const struct image *i, const char *name) MUST_CHECK;

/* A name for messages: one of the references, else the id. */
char *image_label(const struct image *i) MUST_CHECK;

/* Note that the image was asked for; a power loss may forget it. */
void image_touch(struct image *i);

/* Remember a failure for `node status`. */
void image_note_error(struct image *i, const struct error *why);

/*
 * The id of an image: SHA-256 over the artifact's digest and the repository that
 * it was found in, "host/repo".  The same artifact in two repositories is two
 * images, since each repository decides by itself who may read what is in it: a
 * foreign one, which needs no more than a few JSON texts to claim any digest,
 * must not lead to an image that was fetched with another one's credentials.
 * -ENOMEM.
 */
int image_id_of(const struct digest *artifact, const char *host,
		const char *repo, struct digest *ret) MUST_CHECK;

void digest_hex(const struct digest *d, char out[IMAGE_HEX_MAX]);

#endif
