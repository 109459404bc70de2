// SPDX-License-Identifier: Apache-2.0
/*
 * State of each snapshot, in SQLite: docs/formats/snapshots.md, section "State". Every
 * function is one transaction, may be called on any thread, takes a few milliseconds, and
 * what it changed survives a power loss when it returns 0.
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_STORE_H
#define BOOTSEER_CONTAINERD_PLUGIN_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"
#include "containerd-plugin/labels.h"

/* Numbers as on the wire. */
enum snapshot_kind {
	SNAPSHOT_KIND_VIEW = 1,
	SNAPSHOT_KIND_ACTIVE = 2,
	SNAPSHOT_KIND_COMMITTED = 3,
};

/* "view", "active", "committed" */
const char *snapshot_kind_name(enum snapshot_kind kind);

struct snapshot {
	uint64_t id;
	char *name;         /* owned, as all below */
	char *parent;       /* "" when there is none */
	uint64_t parent_id; /* 0 when there is none */
	enum snapshot_kind kind;
	int64_t created_ns, updated_ns; /* since 1970 */
	struct labels labels;
	int64_t size, inodes; /* of a committed one; -1: not counted yet */

	/* A layer that was not downloaded, because its image is lazy. */
	bool remote;
	bool unpacked;      /* it was downloaded later */
	bool has_tree;      /* it is the top: `tree` holds it and all below */
	struct digest tree; /* the artifact's manifest */
	char *image;        /* the reference it came with */
	struct digest manifest; /* the ordinary image's */
	uint32_t layer;         /* index in that image, 0 is the bottom */
};

void snapshot_fini(struct snapshot *s);
void snapshots_free(struct snapshot *v, size_t n);

struct store;

/* Open or create the file `path`. */
int store_open(const char *path, struct store **ret,
	       struct error *err) MUST_CHECK;
void store_close(struct store *s);

/* True when the file was created by this store_open(). */
bool store_is_new(const struct store *s);

/* Random text that tells this store from others; borrowed. */
const char *store_instance(const struct store *s);

/* An id that no snapshot had before.  (Durable only with store_insert().) */
uint64_t store_next_id(struct store *s);

/* -ENOENT */
int store_get(struct store *s, const char *name, struct snapshot *ret,
	      struct error *err) MUST_CHECK;

/* The snapshot `name` and what is below it, from the top down; caller frees
 * with snapshots_free().  -ENOENT */
int store_chain(struct store *s, const char *name, struct snapshot **ret,
		size_t *ret_n, struct error *err) MUST_CHECK;

/* Is there a snapshot `id`?  1, 0, -errno. */
int store_has(struct store *s, uint64_t id, struct error *err) MUST_CHECK;

/* The ids of all snapshots and of what removed ones left, smallest first; the caller
 * frees the array. */
int store_ids(struct store *s, uint64_t **ret, size_t *ret_n,
	      struct error *err) MUST_CHECK;

/* Up to `max` snapshots whose names follow `after`, in order of names. */
int store_list(struct store *s, const char *after, size_t max,
	       struct snapshot **ret, size_t *ret_n,
	       struct error *err) MUST_CHECK;

/* Add it; `parent_id` and the times are set here.  -EEXIST, -ENOENT (no such
 * parent), -EINVAL (the parent is not committed). */
int store_insert(struct store *s, struct snapshot *snap,
		 struct error *err) MUST_CHECK;

/* The active snapshot `key` becomes the committed `name` with these labels.
 * `parent`, which may be NULL or "", is the one that it has.  -ENOENT, -EEXIST, -EBUSY
 * (not active, or it has no parent), -EINVAL (it has another parent). */
int store_commit(struct store *s, const char *key, const char *name,
		 const char *parent, const struct labels *labels,
		 struct error *err) MUST_CHECK;

/* Replace labels: those that `paths` names ("labels", "labels.KEY"), all without
 * paths.  -ENOENT, -EINVAL (another path).  Fills `ret`. */
int store_update(struct store *s, const char *name, const struct labels *labels,
		 const char *const *paths, size_t n_paths, struct snapshot *ret,
		 struct error *err) MUST_CHECK;

/* Forget it, and note that what it held is to be cleaned up.  -ENOENT, -EBUSY
 * (others are on top of it). */
int store_remove(struct store *s, const char *name,
		 struct error *err) MUST_CHECK;

int store_set_usage(struct store *s, uint64_t id, int64_t size, int64_t inodes,
		    struct error *err) MUST_CHECK;
int store_set_unpacked(struct store *s, uint64_t id,
		       struct error *err) MUST_CHECK;
/* `tree` may be NULL: it is no top any more. */
int store_set_tree(struct store *s, uint64_t id, const struct digest *tree,
		   struct error *err) MUST_CHECK;
/* Make the snapshot the top of another image than the one it came with: `tree`, `image`,
 * `manifest` and `layer` of `top`, borrowed, are its own from now on. -EBUSY: it is one
 * already. */
int store_set_top(struct store *s, uint64_t id, const struct snapshot *top,
		  struct error *err) MUST_CHECK;

/* Remains of a removed snapshot, to be cleaned up. */
struct garbage {
	uint64_t id;
	bool has_tree;
	struct digest tree;
};

/* All of it; the caller frees the array. */
int store_garbage(struct store *s, struct garbage **ret, size_t *ret_n,
		  struct error *err) MUST_CHECK;

/* Note a folder that belongs to no snapshot, if none has this id. */
int store_garbage_add(struct store *s, uint64_t id,
		      struct error *err) MUST_CHECK;
int store_garbage_done(struct store *s, uint64_t id,
		       struct error *err) MUST_CHECK;

#endif
