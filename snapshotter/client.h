// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of other programs to bootseerd, over its control socket:
 * docs/formats/control.md.  One connection, one call at a time; a client
 * belongs to one thread.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CLIENT_H
#define BOOTSEER_SNAPSHOTTER_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"
#include "net/control_client.h"

#define NODE_SOCKET_DEFAULT "/run/bootseer/bootseerd.sock"

struct node_client;

/* As control_client_open(); all calls but image.record, layer.apply and layer.unpack may be made
 * twice.  -ENOENT or -ECONNREFUSED: bootseerd does not run, the message says so. */
int node_client_open(const char *socket_path, uint32_t timeout_ms,
		     struct control_patience *patience,
		     struct node_client **ret, struct error *err) MUST_CHECK;
/* The same, and wait for `wait_ms` each time that it does not listen. */
int node_client_open_within(const char *socket_path, uint32_t timeout_ms,
			    uint32_t wait_ms, struct node_client **ret,
			    struct error *err) MUST_CHECK;
void node_client_close(struct node_client *c);

/* Calls end with -ECANCELED within a moment after `*is_gone` became true; borrowed
 * until the client is closed. */
void node_client_heed(struct node_client *c, const atomic_bool *is_gone);

/* Which image: a registry reference, and its manifest digest where known. */
struct node_image_query {
	const char *ref;               /* "host/repo:tag", no transport */
	const struct digest *manifest; /* NULL: what the tag points to now */
	bool plain_http;
};

struct node_image {
	struct digest id;         /* digest of the artifact's manifest */
	struct digest manifest;   /* of the ordinary image */
	struct digest *chain_ids; /* bottom first; owned */
	size_t n_chain_ids;
	char *warning; /* why it may be out of date, or NULL; owned */
	/* Prefix of the repositories whose images may share this one's
	 * snapshots, "" for all: how far whoever vouches for the tree is
	 * believed.  Owned. */
	char *scope;
};
void node_image_fini(struct node_image *i);

/*
 * Find the image's artifact and have its metadata and block map on the node,
 * checked and durable: after this the image can be mounted with the registry
 * down.  -ENOENT: it has no artifact; -EKEYREJECTED: it has one that the node's
 * operator does not trust: use the ordinary layers.
 */
int node_image_prepare(struct node_client *c, const struct node_image_query *q,
		       struct node_image *ret, struct error *err) MUST_CHECK;

/* Mount it (once, however many users) and remember `user` as one who needs it,
 * durably: bootseerd restores the mount when it starts.  `for_start`: containers
 * will be started on it, whose reads a recording must see.  The path and, unless
 * NULL, the scope as in struct node_image, both the caller's.  -EKEYREJECTED: its
 * operator trusts it no longer.  Idempotent for one user. */
int node_image_mount(struct node_client *c, const struct digest *id,
		     const char *user, bool for_start, char **ret_path,
		     char **ret_scope, struct error *err) MUST_CHECK;

/* Forget `user`; the last one unmounts.  `id` may be NULL: of every image.  Unknown users
 * are no error. */
int node_image_umount(struct node_client *c, const struct digest *id,
		      const char *user, struct error *err) MUST_CHECK;

/* Users of mounted images, one of several images as often. */
struct node_users {
	char **names;
	size_t n;
};
void node_users_fini(struct node_users *u);

/* Those that begin with `prefix`. */
int node_image_users(struct node_client *c, const char *prefix,
		     struct node_users *ret, struct error *err) MUST_CHECK;

/* A container that is about to start on a mounted image; the texts are borrowed
 * and may be NULL, but for `user`. */
struct node_start {
	const char *user;     /* names the start */
	const char *workload; /* key; NULL: of the image's config */
	const char *wait;     /* policy: "none"; NULL: the node's */
	const char *ready_file, *ready_root; /* a file beneath a folder */
	const char *bundle; /* folder of the OCI bundle, maybe to come */
};

/*
 * Have what the start will read prefetched, wait for it as the policy says, and
 * watch the start.  A failure is none of the start: it only is slower.
 * `ret_waited_ms` may be NULL.
 */
int node_start_begin(struct node_client *c, const struct digest *id,
		     const struct node_start *s, uint32_t *ret_waited_ms,
		     struct error *err) MUST_CHECK;
/* The container is gone.  Unknown users are no error. */
int node_start_end(struct node_client *c, const char *user,
		   struct error *err) MUST_CHECK;

/*
 * Download an ordinary layer and apply it to the folder `dir` as overlayfs
 * wants it (whiteouts as 0/0 devices, opaque xattrs).  For a layer that was
 * skipped because its image is lazy, and that an ordinary image turns out to
 * share.  Its content is checked against the image's config, and that against
 * `chain_id`, unless it is NULL.  `lower` as in overlayfs' lowerdir: what is below,
 * for the folders that the layer implies; "" at the bottom.
 */
int node_layer_apply(struct node_client *c, const struct node_image_query *q,
		     size_t layer, const struct digest *chain_id,
		     const char *dir, const char *lower,
		     struct error *err) MUST_CHECK;

/* A login that a pod showed for its image; borrowed.  User and password, or a token. */
struct node_login {
	const char *image;      /* "host/repository..." */
	const char *namespace_; /* of the pod */
	const char *user, *password, *identity_token;
};

/* Have bootseerd keep it for reads of that repository, durably. */
int node_login_show(struct node_client *c, const struct node_login *login,
		    struct error *err) MUST_CHECK;

/* Any method, for the command line: parameters and result are JSON texts;
 * `params` may be NULL, `*ret` is the caller's. */
int node_call(struct node_client *c, const char *method, const char *params,
	      char **ret, struct error *err) MUST_CHECK;

/* A layer in containerd's content store, and where it is to be unpacked. */
struct node_layer {
	struct digest digest; /* of what is stored */
	const char *media_type;
	uint64_t size;           /* bytes stored */
	const char *dir, *lower; /* as for node_layer_apply(); `dir` is empty */
	bool sync;               /* it has to be on the disk afterwards */
};
struct node_layer_content {
	struct digest diff_id;
	uint64_t bytes; /* unpacked */
};

/* Unpack it.  After a failure parts of it are in `dir`; -ETIMEDOUT: it is still written. */
int node_layer_unpack(struct node_client *c, const struct node_layer *l,
		      struct node_layer_content *ret,
		      struct error *err) MUST_CHECK;

#endif
