// SPDX-License-Identifier: Apache-2.0
/*
 * Environment snapshots: what a set-up command changed in the target folders, kept in a
 * store, so that it is put there on other nodes and at restarts instead of running the
 * command again (BootSeer paper, section 4.3).  docs/environments.md has the design,
 * docs/formats/environment.md the bytes.
 *
 * A key says what a snapshot is of.  Functions block; one thread uses an object.  They
 * fail as those of objects/store.h do; besides:
 *   -EBADMSG   the snapshot is damaged
 *   -ENOTSUP   it has, or the folders have, something that cannot be kept or restored
 *   -EBUSY     a target does not keep still while it is read
 */
#ifndef BOOTSEER_ENVCACHE_ENVCACHE_H
#define BOOTSEER_ENVCACHE_ENVCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "objects/store.h"

#define ENV_TARGETS_MAX 64
#define ENV_KEY_HEX 65 /* of a key as hex digits, with its NUL */
#define ENV_KEY_FORM 2u
#define ENV_FOLDER_ROOM 33

/* ------------------------------------------------------------------ the targets --- */

/* Folders whose changes count: absolute, without links or folders in each other,
 * sorted.  One need not be there yet. */
struct env_targets {
	char **paths;
	size_t n;
	/* Nobody named them: the system's, which is not to be hidden below a mount, and whose
	 * own secrets are nobody else's. */
	bool is_usual;
};

/* Make targets of paths as they were given, NULL at the end. -EINVAL: one of them cannot
 * be a target. */
int env_targets_make(char *const *given, struct env_targets *ret,
		     struct error *err) MUST_CHECK;
/* Where a process looks for what is installed. */
struct env_usual {
	const char *root; /* "": the system's */
	const char *path; /* $PATH; NULL: none */
	const char *home; /* $HOME; NULL: none */
};
/* The folders that package managers, pip and `make install` install into, that are there and
 * that this user may write to: /usr, /etc, /opt and the managers' records, folders of the path
 * and of the loader's list, packages of the interpreters there.  -EACCES: none; -ENOTSUP: one of
 * them is on a volume, which is not the container's own. */
int env_targets_usual(const struct env_usual *from, struct env_targets *ret,
		      struct error *err) MUST_CHECK;
void env_targets_fini(struct env_targets *t);

/* Take back what a restore that was killed had begun in the targets; what another
 * process works on at this moment is waited for, until `deadline_ns`
 * (CLOCK_MONOTONIC). */
int env_recover(const struct env_targets *t, int64_t deadline_ns,
		struct error *err) MUST_CHECK;

/* A scan of the targets: all but contents. */
struct env_scan;
int env_scan_new(const struct env_targets *t, struct env_scan **ret,
		 struct error *err) MUST_CHECK;
void env_scan_free(struct env_scan *s);
DEFINE_AUTO(env_scan)
/* Prepare the scan before a command: hash the files that were changed so short a time ago
 * that another change could leave the same times. */
int env_scan_hash_recent(struct env_scan *s, struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------------- the key --- */

/* An item that went into a key. */
struct env_item {
	char *kind; /* "argument", "file", ...: docs/formats/environment.md */
	char *name; /* which of them, or "" */
	struct digest value;
	char *shown; /* the value for people; NULL: it is not kept */
};

struct env_key {
	unsigned int
		form; /* of the text that it is the digest of; 0: ENV_KEY_FORM */
	struct digest digest;
	struct env_item *items; /* sorted by kind and name */
	size_t n;
};

struct env_inputs; /* envcache/inputs.h */

/* All is borrowed; lists end with NULL and may be NULL, but the command. */
struct env_spec {
	char *const *command;
	char *const *values;             /* NAME=VALUE */
	char *const *files;              /* whose contents count */
	const struct env_inputs *inputs; /* what else does; or NULL */
	const char *image; /* digest of the container's image, or NULL */
	bool merges;       /* of no command: envcache/merge.h */
};

/* `before` may be NULL: that of env_near_get().  -EINVAL says which of them is wrong; -ENOENT,
 * -EACCES: a file cannot be read. */
int env_key_make(const struct env_spec *spec, const struct env_targets *t,
		 const struct env_scan *before, struct env_key *ret,
		 struct error *err) MUST_CHECK;
void env_key_fini(struct env_key *k);
void env_key_hex(const struct digest *key, char ret[ENV_KEY_HEX]);

/* Tell, in order, of each item that is in one of them only (the other is NULL), or has
 * another value. */
typedef void env_differs_fn(void *arg, const struct env_item *a,
			    const struct env_item *b);
void env_key_compare(const struct env_key *a, const struct env_key *b,
		     env_differs_fn *fn, void *arg);

/* Specification of a process snapshot: a daemon, on an environment, on nodes that can
 * restore it. All is borrowed. */
struct env_daemon_spec {
	const struct digest *environment; /* the environment's key */
	const struct digest *snapshot;    /* its manifest */
	const char *name, *command;
	const char *criu; /* version */
};
/* The dump is the tree of one target. */
int env_daemon_key_make(const struct env_daemon_spec *spec,
			const struct env_targets *t, struct env_key *ret,
			struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------- the snapshots --- */

/* Notes on a snapshot, in the store or by the service. */
struct env_marks {
	bool is_pinned;    /* env_gc() keeps it */
	bool is_bad;       /* a smoke test failed after it was restored */
	int64_t used_ms;   /* wall clock, to the hour */
	char bad_why[320]; /* " by HOST: ..." */
};
/* A snapshot, as its index in the store describes it. */
struct env_snapshot {
	struct env_key key;
	struct env_targets targets;
	struct digest manifest;       /* of the artifact that has the files */
	char folder[ENV_FOLDER_ROOM]; /* of its blobs; random hex */
	char *by;                     /* host that made it */
	char *program;                /* first word of the command */
	uint64_t n_changed;           /* names added or changed */
	uint64_t n_deleted;
	uint64_t bytes;  /* of the files */
	uint64_t stored; /* bytes that it added to the store */
	bool is_shared; /* some of its packs are those of other snapshots, too */
	/* Digest of the scan of the targets after the command; snapshots of older
	 * programs have none. */
	struct digest after;
	bool has_after;
	/* Attributes of the object; not set by env_capture(). */
	int64_t made_ms; /* the store's wall clock */
	char tag[OBJECT_TAG_MAX];
	/* Notes of the service; false: it says nothing. */
	bool has_marks;
	struct env_marks marks;
};
void env_snapshot_fini(struct env_snapshot *s);

/* Is what was looked at the targets as they were after the command?  Times to the nanosecond are
 * those of the capture: it was restored here, or captured. */
int env_scan_is_after(const struct env_scan *s, const struct env_snapshot *snap,
		      bool *ret, struct error *err) MUST_CHECK;

/* The key that was captured last of those that are near: with all items of `near`, and a base.  A
 * guess, of which nothing is believed; a failure to put it is nobody's matter. */
int env_near_get(struct object_store *s, const struct env_key *near,
		 struct digest *ret, struct error *err) MUST_CHECK;
void env_near_put(struct object_store *s, const struct env_key *near,
		  const struct digest *key);
bool env_key_is_near(const struct env_key *key, const struct env_key *near);
/* The key that whoever calls itself `name` had last, for whoever cannot make the key yet; a
 * guess, too. */
int env_named_get(struct object_store *s, const char *name, struct digest *ret,
		  struct error *err) MUST_CHECK;
/* Nothing is written when it is noted already. */
void env_named_put(struct object_store *s, const char *name,
		   const struct digest *key);

/* -ENOENT: there is none of this key. */
int env_snapshot_get(struct object_store *s, const struct digest *key,
		     struct env_snapshot *ret, struct error *err) MUST_CHECK;

/* Returns 0, or -errno, which env_snapshot_list() then returns.  `why` is NULL, or says
 * why the snapshot of this key cannot be read; `snap` is then NULL. */
typedef int env_list_fn(void *arg, const struct digest *key,
			const struct env_snapshot *snap,
			const struct error *why, struct error *err);
int env_snapshot_list(struct object_store *s, env_list_fn *fn, void *arg,
		      struct error *err) MUST_CHECK;

/* The key that begins with these hex digits ("sha256:" before them is taken).
 * -ENOENT, -EINVAL: none; several, or that is no beginning of a key. */
int env_key_find(struct object_store *s, const char *text, struct digest *ret,
		 struct error *err) MUST_CHECK;

/* Remove the snapshot, all blobs of its key, and what a captor that was killed left.
 * Whoever restores it now fails, and runs the command. */
int env_snapshot_remove(struct object_store *s, const struct digest *key,
			struct error *err) MUST_CHECK;

/* Read all of it and compare every byte with its digest. */
int env_snapshot_verify(struct object_store *s, const struct env_snapshot *snap,
			struct error *err) MUST_CHECK;

/* Is there something in the targets that a merged snapshot (env_spec.merges) lacks?  `snap` may be
 * NULL: is there anything but folders? */
int env_merge_has_more(struct object_store *s, const struct env_snapshot *snap,
		       const struct env_targets *targets, bool *ret,
		       struct error *err) MUST_CHECK;

/* Copy it to another store.  -EEXIST: that has one of this key. */
int env_snapshot_copy(struct object_store *from, struct object_store *to,
		      const struct digest *key, struct error *err) MUST_CHECK;

int env_marks_get(struct object_store *s, const struct env_snapshot *snap,
		  struct env_marks *ret, struct error *err) MUST_CHECK;
int env_snapshot_mark_bad(struct object_store *s,
			  const struct env_snapshot *snap, const char *host,
			  const char *why, struct error *err) MUST_CHECK;
int env_snapshot_pin(struct object_store *s, const struct digest *key,
		     bool is_pinned, struct error *err) MUST_CHECK;
/* Note that it is used; a failure is nobody's matter. */
void env_snapshot_touch(struct object_store *s, const struct digest *key,
			int64_t now_ms);
/* Remove the index of just this one, so that the next run makes another; blobs stay for
 * whoever restores it, until env_gc(). */
int env_snapshot_expire(struct object_store *s, const struct env_snapshot *snap,
			struct error *err) MUST_CHECK;

#endif
