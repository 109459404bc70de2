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

/* As control_client_open(); calls are repeated when the connection breaks, but for
 * image.record, layer.apply and layer.unpack.  -ENOENT or -ECONNREFUSED: bootseerd does not
 * run, the message says so. */
int node_client_open(const char *socket_path, uint32_t timeout_ms,
		     struct control_patience *patience,
		     struct node_client **ret, struct error *err) MUST_CHECK;
/* Open as node_client_open(), and wait for up to `wait_ms` each time that bootseerd does not
 * listen. */
int node_client_open_within(const char *socket_path, uint32_t timeout_ms,
			    uint32_t wait_ms, struct node_client **ret,
			    struct error *err) MUST_CHECK;
void node_client_close(struct node_client *c);

/* Calls end with -ECANCELED within a moment after `*is_gone` became true; borrowed
 * until the client is closed. */
void node_client_heed(struct node_client *c, const atomic_bool *is_gone);

/* The wanted image: a registry reference, and its manifest digest if known. */
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
	char *warning; /* why it may be out of date; NULL: it is not; owned */
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

/* Mount the image (once, however many users) and remember its user, durably: bootseerd restores
 * the mount when it starts.  `for_start`: containers will be started on it, whose reads a
 * recording must see.  Returns the path and (may be NULL) the scope as in struct node_image,
 * both the caller's.  -EKEYREJECTED: the node's operator does not trust the artifact any more.
 * Idempotent for one user. */
int node_image_mount(struct node_client *c, const struct digest *id,
		     const char *user, bool for_start, char **ret_path,
		     char **ret_scope, struct error *err) MUST_CHECK;

/* Remove the user; the last one unmounts.  `id` may be NULL: from every image.  Unknown users
 * are no error. */
int node_image_umount(struct node_client *c, const struct digest *id,
		      const char *user, struct error *err) MUST_CHECK;

/* Users of mounted images; a user of several images is listed for each. */
struct node_users {
	char **names;
	size_t n;
};
void node_users_fini(struct node_users *u);

/* List the users that begin with `prefix`. */
int node_image_users(struct node_client *c, const char *prefix,
		     struct node_users *ret, struct error *err) MUST_CHECK;

/* A container that is about to start on a mounted image; the texts are borrowed
 * and may be NULL, but for `user`. */
struct node_start {
	const char *user; /* names the start */
	/* workload key; NULL: that of the image's config */
	const char *workload;
	const char *wait; /* policy of waiting: "none"; NULL: the node's */
	/* the start is ready when this file in the folder exists */
	const char *ready_file, *ready_root;
	/* folder of the OCI bundle, which may not exist yet */
	const char *bundle;
};

/*
 * Prefetch what the start will read, wait for it as the policy says, and watch the start.  A
 * failure does not make the start fail, only slower.  `ret_waited_ms` may be NULL.
 */
int node_start_begin(struct node_client *c, const struct digest *id,
		     const struct node_start *s, uint32_t *ret_waited_ms,
		     struct error *err) MUST_CHECK;
/* End the user's start: its container is gone.  Unknown users are no error. */
int node_start_end(struct node_client *c, const char *user,
		   struct error *err) MUST_CHECK;

/*
 * Download an ordinary layer and apply it to the folder `dir` as overlayfs wants it (whiteouts
 * as 0/0 devices, opaque xattrs).  For a layer that was skipped because its image is lazy, and
 * that an ordinary image turns out to share.  Its content is checked against the image's
 * config, and that against `chain_id`, unless it is NULL.  `lower`: the layers below, as in
 * overlayfs' lowerdir, for attributes of folders without an entry; "" for the bottom layer.
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

/* Have bootseerd keep the login for reads of that repository, durably. */
int node_login_show(struct node_client *c, const struct node_login *login,
		    struct error *err) MUST_CHECK;

/* Call any method, for the command line: parameters and result are JSON texts; `params` may be
 * NULL, the caller frees `*ret`. */
int node_call(struct node_client *c, const char *method, const char *params,
	      char **ret, struct error *err) MUST_CHECK;

/* A layer in containerd's content store, and the folder to unpack it into. */
struct node_layer {
	struct digest digest; /* of what is stored */
	const char *media_type;
	uint64_t size;           /* bytes stored */
	const char *dir, *lower; /* as for node_layer_apply(); `dir` is empty */
	bool sync;               /* write it to the disk before returning */
};
struct node_layer_content {
	struct digest diff_id;
	uint64_t bytes; /* of the unpacked layer */
};

/* Unpack the layer.  After a failure parts of it are in `dir`; after -ETIMEDOUT bootseerd still
 * writes there. */
int node_layer_unpack(struct node_client *c, const struct node_layer *l,
		      struct node_layer_content *ret,
		      struct error *err) MUST_CHECK;

#endif
