// SPDX-License-Identifier: Apache-2.0
/* The parts of a running bootseerd, put together by main.c. */
#ifndef BOOTSEER_NODE_NODE_H
#define BOOTSEER_NODE_NODE_H

#include <stdatomic.h>

#include "prefetcher/prefetcher.h"
#include "snapshotter/control.h"
#include "snapshotter/datapath.h"
#include "snapshotter/node/config.h"
#include "snapshotter/node/images.h"
#include "snapshotter/node/origin.h"
#include "snapshotter/node/ready_rate.h"

/* Events counted by bootseerd itself; the rest comes from cache and devices. */
struct node_events {
	atomic_uint_fast64_t calls, calls_failed;
	atomic_uint_fast64_t prepares, prepares_fetched, prepares_stale,
		prepares_failed;
	atomic_uint_fast64_t mounts_lazy, mounts_complete, mounts_adopted;
	atomic_uint_fast64_t mounts_failed, layers_applied, reloads;
	atomic_uint_fast64_t reloads_failed;
};

struct node {
	const struct node_config *cfg;
	int run_fd; /* holds the lock on RUN */
	struct cache *cache;
	struct fetcher *fetcher;
	struct fd_keeper *keeper;
	struct datapath *datapath;
	struct origins *origins;
	struct images *images;
	struct prefetches *prefetches;
	struct peers *peers; /* NULL: none are wanted */
	struct gate *gate;   /* of work on one image */
	struct traces *traces;
	struct starts *starts;
	struct recordings *recordings;
	struct wait_policy wait_policy; /* cfg->wait */
	struct ready_rate ready_rate;
	struct node_events events;
	atomic_uint_fast64_t metadata_bytes; /* pinned to be served */
	struct device_stats past; /* of devices that are gone; images_lock() */
	int64_t started_at;       /* seconds since 1970 */
	bool held;                /* by a holder, which ends with us */
	atomic_bool is_ending;    /* what waits for others gives up */
};

/* A wait for other work on the same image ends after this. */
#define NODE_GATE_TIMEOUT_NS (INT64_C(600) * 1000000000)

/* -------------------------------------------------------------- prepare.c --- */

/* Which image, as docs/formats/control.md says. */
struct image_query {
	const char *ref;
	const struct digest *manifest; /* NULL: what the tag points to */
	bool plain_http;
};

enum prepare_source {
	PREPARE_NODE,     /* everything was here */
	PREPARE_REGISTRY, /* fetched now */
	PREPARE_STALE,    /* here; the registry could not be asked */
};

struct prepared {
	struct image *image; /* a use */
	struct digest manifest;
	enum prepare_source source;
	struct error warning; /* why it is stale */
	bool answered;        /* the registry said what the reference names */
	/* The search for its trace, when the image came only now: the caller's,
	 * for traces_prepare(). */
	struct traces_early *early;
};

/* `err` is not NULL here: it is what a stale image's warning says. */
int node_prepare(struct node *n, const struct image_query *q,
		 struct prepared *ret, struct error *err) MUST_CHECK;

/* The manifest of the ordinary image, checked. */
int node_manifest(struct node *n, const struct image_query *q,
		  struct origin **ret_origin, struct oci_manifest *ret,
		  struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------- mount.c --- */

/* Mount if it is not, and remember the user.  `for_start`: containers will be
 * started on it, so it is mounted in a way that lets a recording see its reads
 * when there is no trace. */
int node_mount(struct node *n, struct image *i, const char *user,
	       bool for_start, struct error *err) MUST_CHECK;
/* Forget the user; unmount after the last. */
int node_umount(struct node *n, struct image *i, const char *user,
		bool *ret_was, struct error *err) MUST_CHECK;

/* At start, before anything is answered: mount what has users. */
void node_restore(struct node *n);
/* At the end: leave mounts to a successor where somebody keeps their
 * descriptors until then, else take down those that need this process. */
void node_leave(struct node *n);

bool mounted_is_complete(const struct mounted *m);
/* False for a complete image, which has no device. */
bool mounted_stats(const struct mounted *m, struct device_stats *ret);

/* --------------------------------------------------------------- layer.c --- */

int node_layer_apply(struct node *n, const struct image_query *q, size_t layer,
		     const char *dir, uint64_t *ret_bytes,
		     struct error *err) MUST_CHECK;

/* ------------------------------------------------------ status.c, doctor.c --- */

json_t *node_status(struct node *n) MUST_CHECK;
json_t *node_doctor(struct node *n, const char *registry) MUST_CHECK;
/* Prometheus text of everything. */
int node_metrics(struct node *n, struct buf *ret) MUST_CHECK;
void node_metrics_list(FILE *out);

/* ------------------------------------------------------------------- gc.c --- */

struct gc_result {
	uint64_t images;
	uint64_t freed_bytes;
};
int node_gc(struct node *n, bool images, bool shrink, uint64_t cache_bytes,
	    struct gc_result *ret, struct error *err) MUST_CHECK;

/* --------------------------------------------------------------- record.c --- */

/* Mounts for recordings only: gone with this process. */
int recordings_open(struct node *n, struct recordings **ret,
		    struct error *err) MUST_CHECK;
void recordings_close(struct recordings *r); /* NULL is allowed */

struct record_reply {
	char *path; /* the caller's */
	uint64_t start;
};

/* Mount the image for `user` alone and watch its start.  -EBUSY: the user has
 * such a mount; -EAGAIN: there are too many. */
int node_record(struct node *n, struct image *i, const char *user,
		const char *workload, int64_t window_ns,
		struct record_reply *ret, struct error *err) MUST_CHECK;

/* Take the user's down.  `*ret_was`: there was one.  -EBUSY: it is in use. */
int node_record_end(struct node *n, const char *user, bool *ret_was,
		    struct error *err) MUST_CHECK;

/* -------------------------------------------------------------- methods.c --- */

/* What a process says on RUN/ready.sock, which is for everybody: its container is
 * ready.  Nothing else is understood.  `pidfd`: of the same process, or -1.  One
 * thread at a time. */
int node_ready_line(struct node *n, int pid, int pidfd, const char *line,
		    size_t len, struct buf *reply) MUST_CHECK;

/* Does what one method of the control socket says; the result is the caller's,
 * NULL with `err`. */
typedef json_t *method_fn(struct node *n, json_t *params, struct error *err);

/* Parameters that do not fit are -EINVAL, with what is wrong. */
int params_unpack(json_t *params, struct error *err, const char *fmt,
		  ...) MUST_CHECK;
/* An image of the node by id; NULL with -ENOENT. */
struct image *params_image(struct node *n, const char *id,
			   struct error *err) MUST_CHECK;
int params_user(const char *user, struct error *err) MUST_CHECK;

/* methods_start.c */
method_fn method_begin, method_ready, method_end, method_record, method_explain;

/* Do what a line asks for and append the reply's line. */
int node_answer(struct node *n, const char *line, size_t len,
		struct buf *reply) MUST_CHECK;

#endif
