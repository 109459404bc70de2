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
/* prefix of folders that are no images (yet) */
#define IMAGES_STAGE_PREFIX "tmp."
/* File of an image's folder with the signature for which its artifact was accepted
 * (trust/admission.h), and its largest size. */
#define EVIDENCE_FILE "evidence"
#define EVIDENCE_MAX (64u << 10)
#define WRONG_FILE "wrong"
#define IMAGE_HEX_MAX 65 /* 64 hex digits and NUL */

struct mounted;
struct image_prefetch;
struct metadata_swarm;
struct image_swarm;
struct image_workloads;

/* How an image was prepared, to explain what its next start waited for.  Monotonic times;
 * `resolved_ns` 0: no registry was asked; `end_ns` 0: not prepared since the last start. */
struct image_asked {
	int64_t begin_ns, resolved_ns, end_ns;
	/* fetched by its prefetch until then */
	uint64_t hot_fetched_bytes;
	uint64_t peer_bytes, origin_bytes; /* fetched by its swarm until then */
};

struct image {
	struct digest id; /* image_id_of() */
	char hex[IMAGE_HEX_MAX];
	char *dir;
	char *mountpoint;         /* RUN/images/HEX/fs */
	struct artifact artifact; /* never changes */
	/* this process has checked the content of the files; set inside the gate */
	bool is_checked;

	struct image_state state; /* images_lock(); changed by image_*() only */
	struct mounted *mounted;  /* images_lock(); set inside the gate */
	/* images_lock(); owned by prefetch.c */
	struct image_prefetch *prefetch;
	/* images_lock(); owned by image_swarm.c */
	struct image_swarm *peer;
	/* images_lock(); set while the metadata is served to peers */
	struct metadata_swarm *metadata;
	struct error last_error; /* images_lock() */
	int64_t last_error_at;   /* seconds since 1970 */
	/* time of the newest error that housekeeper.c acted upon */
	int64_t judged_error_at;
	/* images_lock(); seconds since 1970 of the last change of the state or request for the
	 * image: the mtime of state.json */
	int64_t used_at;

	struct image_asked asked; /* images_lock() */
	unsigned int recordings;  /* images_lock(): mounts of record.c */
	/* traces/workload.h; under that file's lock */
	struct image_workloads *workloads;
	void (*workloads_free)(struct image_workloads *w);

	unsigned int refs; /* images_lock(); number of uses */
	bool removed;
	/* while the node starts: mounting it again failed and was logged */
	bool is_not_restored;
	/* held while a file of the folder is replaced */
	pthread_mutex_t saving;
	struct image *next;
	struct images *all;
};

struct images;

/* Read the images of ROOT.  Damaged images are logged and left out. */
int images_open(const char *root, const char *run, struct images **ret,
		struct error *err) MUST_CHECK;
void images_close(struct images *t); /* after every image was put back */

/* Lock the table to read or write members for a moment; call nothing else while it is held. */
void images_lock(struct images *t);
void images_unlock(struct images *t);

/* Take a use of an image, by its id or by one of its names; NULL: there is none. */
struct image *images_get(struct images *t, const struct digest *id) MUST_CHECK;
struct image *images_by_name(struct images *t, const char *name) MUST_CHECK;
void images_put(struct image *i); /* NULL is allowed */

/* Take another use of an image that the caller has a use of. */
void images_ref(struct image *i);

size_t images_count(struct images *t);

/*
 * Take a use of the image that nobody needs (no user, no mount) and whose last request is the
 * oldest, after the second `after` and before the second `before`; NULL: there is none.
 */
struct image *images_oldest_unused(struct images *t, int64_t after,
				   int64_t before) MUST_CHECK;

/* A use of each image; the caller frees the array. */
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

/* Write the texts of `a` into the staged folder.  Waits for the disk, so call it while files
 * come from the registry. */
int images_stage_texts(const char *staged, const struct artifact *a,
		       struct error *err) MUST_CHECK;

/*
 * Take the staged folder (with metadata image, block map and texts) into the table, durably.
 * Takes what `a` owns when it succeeds.  A use is returned.  Names that lead to another image
 * are not taken; image_set_name() moves them.
 */
int images_add(struct images *t, const char *staged, struct artifact *a,
	       const struct image_place *place, struct image **ret,
	       struct error *err) MUST_CHECK;

/* Remove an image that nobody uses or mounts, and delete its folder.  -EBUSY: it is in use, or
 * another call removed it.  Inside its gate. */
int images_remove(struct image *i, struct error *err) MUST_CHECK;

bool image_has_user(struct image *i, const char *user);
/* Change the image's state durably. */
int image_add_user(struct image *i, const char *user,
		   struct error *err) MUST_CHECK;
/* Remove a user.  On a full disk the user is removed in memory alone, which is a success; after
 * any other failure the user is still there. */
int image_remove_user(struct image *i, const char *user, bool *ret_was,
		      struct error *err) MUST_CHECK;
int image_set_complete(struct image *i, bool complete,
		       struct error *err) MUST_CHECK;
int image_set_prefetch(struct image *i, enum state_prefetch prefetch,
		       struct error *err) MUST_CHECK;
/* Make `name` lead to this image, and to no other. */
int image_set_name(struct image *i, const char *name,
		   struct error *err) MUST_CHECK;

/* Replace the signature for which the artifact was accepted (admission.h); durable. */
int image_set_evidence(struct image *i, const struct buf *evidence,
		       struct error *err) MUST_CHECK;

/* Ignore the wrong blocks that were seen until now, since their source was repaired. */
void image_forget_errors(struct image *i);

/* The path of a file of the image; NULL when memory is short. */
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
