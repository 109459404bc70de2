// SPDX-License-Identifier: Apache-2.0
/*
 * Environment snapshots: the changes that a set-up command made in the target folders, kept in a
 * store.  They are restored on other nodes and at restarts instead of running the command again
 * (BootSeer paper, section 4.3). docs/environments.md has the design, docs/formats/environment.md
 * the formats.
 *
 * A key identifies what a snapshot was made from.  Functions block; an object is used by one
 * thread at a time.  Errors are those of objects/store.h, and:
 *   -EBADMSG   the snapshot is damaged
 *   -ENOTSUP   the snapshot or the folders have something that cannot be kept or restored
 *   -EBUSY     a target keeps changing while it is read
 */
#ifndef BOOTSEER_ENVCACHE_ENVCACHE_H
#define BOOTSEER_ENVCACHE_ENVCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "objects/store.h"

#define ENV_TARGETS_MAX 64
#define ENV_KEY_HEX 65 /* bytes of a key as hex digits, with NUL */
#define ENV_KEY_FORM 2u
#define ENV_FOLDER_ROOM 33

/* ------------------------------------------------------------------ the targets --- */

/* Folders whose changes are captured: absolute, sorted, without links, not inside each other.
 * They need not exist yet. */
struct env_targets {
	char **paths;
	size_t n;
	/* No targets were named, so they are the system's own folders: no mount may hide these,
	 * and secrets in them must not be captured. */
	bool is_usual;
};

/* Make targets of the given paths (ends with NULL).  -EINVAL: a path cannot be a target. */
int env_targets_make(char *const *given, struct env_targets *ret,
		     struct error *err) MUST_CHECK;
/* Where to look for installed software. */
struct env_usual {
	const char *root; /* "": the system's */
	const char *path; /* $PATH; NULL: none */
	const char *home; /* $HOME; NULL: none */
};
/* Find the folders that package managers, pip and `make install` write to, as far as they exist
 * and this user may write to them: /usr, /etc, /opt, the managers' records, folders of $PATH and
 * of the loader's list, and package folders of the interpreters there.  -EACCES: none; -ENOTSUP:
 * one is on a volume, which is not the container's own. */
int env_targets_usual(const struct env_usual *from, struct env_targets *ret,
		      struct error *err) MUST_CHECK;
void env_targets_fini(struct env_targets *t);

/* Undo what a killed restore left in the targets.  If another process works there now, wait for it
 * until `deadline_ns` (CLOCK_MONOTONIC). */
int env_recover(const struct env_targets *t, int64_t deadline_ns,
		struct error *err) MUST_CHECK;

/* A scan of the targets: all metadata, no contents. */
struct env_scan;
int env_scan_new(const struct env_targets *t, struct env_scan **ret,
		 struct error *err) MUST_CHECK;
void env_scan_free(struct env_scan *s);
DEFINE_AUTO(env_scan)
/* Prepare the scan before a command: hash files changed so recently that a further change could
 * leave the same times. */
int env_scan_hash_recent(struct env_scan *s, struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------------- the key --- */

/* An item of a key; the key is the digest of all its items. */
struct env_item {
	char *kind; /* "argument", "file", ...: docs/formats/environment.md */
	char *name; /* distinguishes items of a kind; may be "" */
	struct digest value;
	char *shown; /* the value as text; NULL: not kept */
};

struct env_key {
	unsigned int
		form; /* version of the text that was hashed; 0: ENV_KEY_FORM */
	struct digest digest;
	struct env_item *items; /* sorted by kind and name */
	size_t n;
};

struct env_inputs; /* envcache/inputs.h */

/* Specification of a key.  All is borrowed; lists end with NULL and may be NULL, except the
 * command. */
struct env_spec {
	char *const *command;
	char *const *values;             /* NAME=VALUE */
	char *const *files;              /* files whose contents count */
	const struct env_inputs *inputs; /* inputs that were found; or NULL */
	const char *image; /* digest of the container's image, or NULL */
	bool merges;       /* no command: a cache that nodes merge,
	                    * envcache/merge.h */
};

/* Make a key.  `before` NULL: make a key for env_near_get().  -EINVAL: the message says which part
 * is wrong; -ENOENT, -EACCES: a file cannot be read. */
int env_key_make(const struct env_spec *spec, const struct env_targets *t,
		 const struct env_scan *before, struct env_key *ret,
		 struct error *err) MUST_CHECK;
void env_key_fini(struct env_key *k);
void env_key_hex(const struct digest *key, char ret[ENV_KEY_HEX]);

/* Called, in order, for each item that only one key has (the other is NULL), or whose values
 * differ. */
typedef void env_differs_fn(void *arg, const struct env_item *a,
			    const struct env_item *b);
void env_key_compare(const struct env_key *a, const struct env_key *b,
		     env_differs_fn *fn, void *arg);

/* The parts of a process snapshot's key: a daemon, its environment, and the kind of node.  All is
 * borrowed. */
struct env_daemon_spec {
	const struct digest *environment; /* the environment's key */
	const struct digest *snapshot;    /* digest of the environment's
	                                   * manifest */
	const char *name, *command;
	const char *criu; /* version */
};
/* Make the key of a dump, which is the content of a single target. */
int env_daemon_key_make(const struct env_daemon_spec *spec,
			const struct env_targets *t, struct env_key *ret,
			struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------- the snapshots --- */

/* Marks on a snapshot, in the store or the service. */
struct env_marks {
	bool is_pinned;    /* env_gc() keeps the snapshot */
	bool is_bad;       /* its smoke test failed after a restore */
	int64_t used_ms;   /* last use, by the wall clock, to the hour */
	char bad_why[320]; /* " by HOST: ..." */
};
/* A snapshot, as described by its index in the store. */
struct env_snapshot {
	struct env_key key;
	struct env_targets targets;
	struct digest manifest;       /* of the artifact with the files */
	char folder[ENV_FOLDER_ROOM]; /* name of its blobs' folder, in hex */
	char *by;                     /* host that made it */
	char *program;                /* first word of the command */
	uint64_t n_changed;           /* number of names added or changed */
	uint64_t n_deleted;
	uint64_t bytes;  /* size of the files */
	uint64_t stored; /* bytes that it added to the store */
	bool is_shared;  /* some of its packs also belong to other snapshots */
	/* Digest of the scan after the command; not set by older versions. */
	struct digest after;
	bool has_after;
	/* Attributes of the index object; not set by env_capture(). */
	int64_t made_ms; /* the store's wall clock */
	char tag[OBJECT_TAG_MAX];
	/* Marks from the service; false: it has none. */
	bool has_marks;
	struct env_marks marks;
};
void env_snapshot_fini(struct env_snapshot *s);

/* Are the scanned targets as they were after the command?  Times are compared to the nanosecond,
 * so this is only true where it was captured or restored. */
int env_scan_is_after(const struct env_scan *s, const struct env_snapshot *snap,
		      bool *ret, struct error *err) MUST_CHECK;

/* Get the key that was captured last among those near: keys with all items of `near`, and a base.
 * It is only a guess.  Failing to store it is ignored. */
int env_near_get(struct object_store *s, const struct env_key *near,
		 struct digest *ret, struct error *err) MUST_CHECK;
void env_near_put(struct object_store *s, const struct env_key *near,
		  const struct digest *key);
bool env_key_is_near(const struct env_key *key, const struct env_key *near);
/* Get the key that was last used under `name`, for callers that cannot compute the key yet.  It is
 * only a guess. */
int env_named_get(struct object_store *s, const char *name, struct digest *ret,
		  struct error *err) MUST_CHECK;
/* Store the key for `name`; nothing is written if it is stored already. */
void env_named_put(struct object_store *s, const char *name,
		   const struct digest *key);

/* Get the snapshot of a key.  -ENOENT: there is none. */
int env_snapshot_get(struct object_store *s, const struct digest *key,
		     struct env_snapshot *ret, struct error *err) MUST_CHECK;

/* Called for each snapshot.  Returns 0, or -errno to end env_snapshot_list(), which returns it.
 * If a snapshot cannot be read, `snap` is NULL and `why` has the reason. */
typedef int env_list_fn(void *arg, const struct digest *key,
			const struct env_snapshot *snap,
			const struct error *why, struct error *err);
int env_snapshot_list(struct object_store *s, env_list_fn *fn, void *arg,
		      struct error *err) MUST_CHECK;

/* Find the key that begins with these hex digits (optionally after "sha256:").  -ENOENT: no key
 * does; -EINVAL: several do, or `text` is malformed. */
int env_key_find(struct object_store *s, const char *text, struct digest *ret,
		 struct error *err) MUST_CHECK;

/* Remove the snapshot, all blobs of its key, and leftovers of killed captures.  A restore under
 * way fails, and its command is run. */
int env_snapshot_remove(struct object_store *s, const struct digest *key,
			struct error *err) MUST_CHECK;

/* Read all of the snapshot and compare every byte with its digest. */
int env_snapshot_verify(struct object_store *s, const struct env_snapshot *snap,
			struct error *err) MUST_CHECK;

/* Do the targets have files that a merged snapshot (env_spec.merges) lacks?  `snap` NULL: do they
 * have anything but folders? */
int env_merge_has_more(struct object_store *s, const struct env_snapshot *snap,
		       const struct env_targets *targets, bool *ret,
		       struct error *err) MUST_CHECK;

/* Copy a snapshot to another store.  -EEXIST: the store has a snapshot of this key. */
int env_snapshot_copy(struct object_store *from, struct object_store *to,
		      const struct digest *key, struct error *err) MUST_CHECK;

int env_marks_get(struct object_store *s, const struct env_snapshot *snap,
		  struct env_marks *ret, struct error *err) MUST_CHECK;
int env_snapshot_mark_bad(struct object_store *s,
			  const struct env_snapshot *snap, const char *host,
			  const char *why, struct error *err) MUST_CHECK;
int env_snapshot_pin(struct object_store *s, const struct digest *key,
		     bool is_pinned, struct error *err) MUST_CHECK;
/* Record that the snapshot is used now; failures are ignored. */
void env_snapshot_touch(struct object_store *s, const struct digest *key,
			int64_t now_ms);
/* Remove the index of this very snapshot, so that the next run makes a new one.  Its blobs stay
 * for restores under way, until env_gc(). */
int env_snapshot_expire(struct object_store *s, const struct env_snapshot *snap,
			struct error *err) MUST_CHECK;

#endif
