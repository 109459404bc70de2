// SPDX-License-Identifier: Apache-2.0
/*
 * The state of all snapshots, in SQLite: docs/formats/snapshots.md, section "State". Every
 * function is one transaction, may be called on any thread, and takes a few milliseconds; its
 * changes survive a power loss once it returns 0.
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_STORE_H
#define BOOTSEER_CONTAINERD_PLUGIN_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"
#include "containerd-plugin/labels.h"

/* The numbers are those of the protocol. */
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
	/* usage of a committed snapshot; -1: not counted yet */
	int64_t size, inodes;

	/* The layer was not downloaded, because its image is lazy. */
	bool remote;
	bool unpacked; /* it was downloaded later */
	/* it is the image's top layer: `tree` holds it and all below */
	bool has_tree;
	struct digest tree;     /* the artifact's manifest */
	char *image;            /* reference of the image that it came with */
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

/* Get an id that no snapshot had before; it is stored only by store_insert(). */
uint64_t store_next_id(struct store *s);

/* Get the snapshot `name`. -ENOENT */
int store_get(struct store *s, const char *name, struct snapshot *ret,
	      struct error *err) MUST_CHECK;

/* Get the snapshot `name` and its ancestors, from the top down; the caller frees them with
 * snapshots_free(). -ENOENT */
int store_chain(struct store *s, const char *name, struct snapshot **ret,
		size_t *ret_n, struct error *err) MUST_CHECK;

/* Does the snapshot `id` exist? 1, 0, -errno. */
int store_has(struct store *s, uint64_t id, struct error *err) MUST_CHECK;

/* Get the ids of all snapshots and of remains of removed ones, in ascending order; the
 * caller frees the array. */
int store_ids(struct store *s, uint64_t **ret, size_t *ret_n,
	      struct error *err) MUST_CHECK;

/* List up to `max` snapshots whose names follow `after`, in order of names. */
int store_list(struct store *s, const char *after, size_t max,
	       struct snapshot **ret, size_t *ret_n,
	       struct error *err) MUST_CHECK;

/* Add a snapshot; sets its `parent_id` and times. -EEXIST, -ENOENT (no such parent), -EINVAL
 * (the parent is not committed). */
int store_insert(struct store *s, struct snapshot *snap,
		 struct error *err) MUST_CHECK;

/* Turn the active snapshot `key` into the committed snapshot `name` with these labels.
 * `parent` must be its parent, or NULL or "". -ENOENT, -EEXIST, -EBUSY (not active, or it has
 * no parent), -EINVAL (it has another parent). */
int store_commit(struct store *s, const char *key, const char *name,
		 const char *parent, const struct labels *labels,
		 struct error *err) MUST_CHECK;

/* Replace the labels that `paths` name ("labels", "labels.KEY"); without paths all of them.
 * -ENOENT, -EINVAL (another path). Fills `ret`. */
int store_update(struct store *s, const char *name, const struct labels *labels,
		 const char *const *paths, size_t n_paths, struct snapshot *ret,
		 struct error *err) MUST_CHECK;

/* Remove a snapshot, and note that its remains must be cleaned up. -ENOENT, -EBUSY (other
 * snapshots are on top of it). */
int store_remove(struct store *s, const char *name,
		 struct error *err) MUST_CHECK;

int store_set_usage(struct store *s, uint64_t id, int64_t size, int64_t inodes,
		    struct error *err) MUST_CHECK;
int store_set_unpacked(struct store *s, uint64_t id,
		       struct error *err) MUST_CHECK;
/* Set the tree of a top layer; `tree` NULL: it is no top any more. */
int store_set_tree(struct store *s, uint64_t id, const struct digest *tree,
		   struct error *err) MUST_CHECK;
/* Make the snapshot the top of another image than the one it came with: `tree`, `image`,
 * `manifest` and `layer` are copied from `top`. -EBUSY: it is a top already. */
int store_set_top(struct store *s, uint64_t id, const struct snapshot *top,
		  struct error *err) MUST_CHECK;

/* Remains of a removed snapshot that must be cleaned up. */
struct garbage {
	uint64_t id;
	bool has_tree;
	struct digest tree;
};

/* Get all remains; the caller frees the array. */
int store_garbage(struct store *s, struct garbage **ret, size_t *ret_n,
		  struct error *err) MUST_CHECK;

/* Note a folder without a snapshot, unless a snapshot has this id. */
int store_garbage_add(struct store *s, uint64_t id,
		      struct error *err) MUST_CHECK;
int store_garbage_done(struct store *s, uint64_t id,
		       struct error *err) MUST_CHECK;

#endif
