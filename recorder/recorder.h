// SPDX-License-Identifier: Apache-2.0
/*
 * Recording what a start reads, mapping a trace to the blocks of an image, and
 * the places where traces are kept.
 */
#ifndef BOOTSEER_RECORDER_RECORDER_H
#define BOOTSEER_RECORDER_RECORDER_H

#include "blockstore/device.h"
#include "blockstore/file_map.h"
#include "objects/oci.h"
#include "recorder/trace.h"

/* ---------------------------------------------------------------- recorder --- */

struct recorder_config {
	uint64_t device_size; /* bytes */
	size_t ranges_max;    /* first accesses kept; 0: 262144.  16 bytes each,
	                    * taken as they come */
};

/*
 * Notes the first access to each 4 KiB page of a device, in order, with its
 * time.  Memory: two bits a page, and the ranges.  Any thread; one access costs
 * a few atomic operations, and no lock when its pages were seen before.
 */
struct recorder;
/* -EFBIG: a device of more than 4 TiB. */
int recorder_new(const struct recorder_config *cfg, struct recorder **ret,
		 struct error *err) MUST_CHECK;
void recorder_free(struct recorder *r); /* no device has its observer */
DEFINE_AUTO(recorder)

/* To be given to device_observe(); the recorder's. */
struct device_observer *recorder_observer(struct recorder *r);

/* Figures so far; may be asked while it records. */
struct recorder_stats {
	uint64_t reads, read_bytes;
	uint64_t ranges;
	uint64_t misses; /* blocks */
	bool truncated;
};
void recorder_get_stats(struct recorder *r, struct recorder_stats *ret);

/*
 * The trace of accesses until `until_ms` after recorder_new(), with paths.  Of
 * a range that several files share, each file gets an entry.  The recorder
 * goes on.  `info`: all but window_ms and truncated is the caller's.
 */
int recorder_trace(struct recorder *r, const struct trace_info *info,
		   const struct blockmap *map, struct file_map *files,
		   uint32_t until_ms, struct trace **ret,
		   struct error *err) MUST_CHECK;

/* Set the bits of the blocks of which a page was read: some ns a block. */
void recorder_mark_read(const struct recorder *r, const struct blockmap *map,
			uint8_t *bits);

/* Blocks touched, and blocks that readers missed, as entries of the map in
 * order of first time; arrays are the caller's. */
int recorder_blocks(struct recorder *r, const struct blockmap *map,
		    uint32_t **ret_touched, size_t *ret_n_touched,
		    uint32_t **ret_missed, size_t *ret_n_missed,
		    struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------- hot list --- */

struct hot_block {
	uint32_t index; /* of the block map */
	uint32_t at_ms;
	uint16_t confidence;
};

/* The blocks that a start of this image will read, in trace order, each stored place
 * once. */
struct hot_list {
	struct hot_block *blocks;
	size_t n;
	uint64_t bytes;   /* stored */
	size_t by_digest; /* entries of the trace found by content, */
	size_t by_path;   /* by path and offset because the content changed, */
	size_t lost;      /* and not found; */
	size_t rare;      /* left out: less than TRACE_HOT of the runs had it */
	/* Made of a prediction, which may be wrong: prefetch_start() goes on only as
	 * far as it proves right. */
	bool is_predicted;
	/* And of one that knows a start of nearly the same files. */
	bool has_twin;
};
void hot_list_fini(struct hot_list *l);

/* Map a trace, of this image or of a relative, to the blocks of an image.
 * `files` may be NULL: by content only.  A prediction needs them: it holds for what
 * its donors read when the image has nearly all of that. */
int hot_list_make(const struct trace *t, const struct blockmap *map,
		  struct file_map *files, struct hot_list *ret,
		  struct error *err) MUST_CHECK;

/* The blocks of `more`, in their order, behind those of the list. */
int hot_list_add(struct hot_list *l, const struct blockmap *map,
		 const struct device_span *more, size_t n,
		 struct error *err) MUST_CHECK;

/* ------------------------------------------------------------------ stores --- */

/* The trace that is wanted. */
struct trace_query {
	struct digest image; /* manifest of the ordinary image */
	const char *repo;    /* "host/repository", for relatives; may be NULL */
	const char *workload; /* for lists and removal NULL is every one */
	bool exact;           /* no relative, no other workload */
	bool predict; /* without any of these, what starts of other images read */
};

/* How near it is, nearest first. */
enum trace_match {
	TRACE_MATCH_OWN,      /* this image, this workload */
	TRACE_MATCH_RELATIVE, /* another image of the repository, this workload */
	TRACE_MATCH_WORKLOAD,  /* this image, another workload */
	TRACE_MATCH_FAR,       /* neither, but the same repository */
	TRACE_MATCH_PREDICTED, /* what starts of other images read */
};

struct trace_found {
	struct trace *trace; /* the caller's */
	enum trace_match match;
	bool wanted; /* the store wants more recordings of this start */
};

/* Where traces are kept: one `static const` table a kind. */
struct trace_store;
struct trace_store_ops {
	const char *name; /* "service", "oci", "folder" */
	int (*get)(struct trace_store *s, const struct trace_query *q,
		   struct trace_found *ret, struct error *err);
	int (*put)(struct trace_store *s, const struct trace *t,
		   struct error *err);
	int (*list)(struct trace_store *s, const struct trace_query *q,
		    struct trace_info **ret, size_t *ret_n, struct error *err);
	int (*remove)(struct trace_store *s, const struct trace_query *q,
		      struct error *err);
	void (*free)(struct trace_store *s);
};
struct trace_store {
	const struct trace_store_ops *ops;
};

/*
 * The nearest trace; -ENOENT: none.  All of these block, have a deadline of
 * their own, and are safe from several threads.  -EACCES, -ETIMEDOUT,
 * -ECONNREFUSED, -EBUSY (the service or registry has too much to do), -EFBIG,
 * -EIO, -EPROTO, -EINVAL, -EBADMSG (what came is no trace).
 */
int trace_store_get(struct trace_store *s, const struct trace_query *q,
		    struct trace_found *ret, struct error *err) MUST_CHECK;
/* Add a recording; the store merges it with others.  A merged trace counts as
 * one recording too. */
int trace_store_put(struct trace_store *s, const struct trace *t,
		    struct error *err) MUST_CHECK;
/* List the traces of an image (`image` set) or a repository (it is all zeros; of a folder
 * with `repo` NULL: all), newest first; the array is the caller's, each to be released by
 * trace_info_fini(). -ENOENT is never returned. */
int trace_store_list(struct trace_store *s, const struct trace_query *q,
		     struct trace_info **ret, size_t *ret_n,
		     struct error *err) MUST_CHECK;
/* Remove the traces of an image. -ENOENT: there is none. */
int trace_store_remove(struct trace_store *s, const struct trace_query *q,
		       struct error *err) MUST_CHECK;
void trace_store_free(struct trace_store *s);
DEFINE_AUTO(trace_store)

/* bootseer-registry, over HTTP (docs/formats/registry-api.md). */
struct trace_service_config {
	const char *url;        /* "https://host:port" */
	const char *token_file; /* bearer token, read for each request; NULL */
	const char *ca_file;    /* PEM; NULL: the system's */
	bool plain_token;       /* it may go to another machine by http:// */
	const char *plain_cure; /* how to allow that, for messages; or NULL */
	/* The node's certificate and key, PEM, for a service that asks for it; NULL:
	 * none. */
	const char *cert_file, *key_file;
	const char *node;    /* name of this node; a node has one vote */
	uint32_t timeout_ms; /* of one call in all */
};
int trace_service_new(const struct trace_service_config *cfg,
		      struct trace_store **ret, struct error *err) MUST_CHECK;

/* Tags of a repository that name its newest trace of a workload begin so. */
#define TRACE_TAG_PREFIX "bootseer-trace-"

/* OCI artifacts beside the image (docs/formats/trace.md); `store` is borrowed,
 * and is that of the image's repository. */
int trace_oci_new(struct oci_store *store, struct trace_store **ret,
		  struct error *err) MUST_CHECK;

/* A folder on this machine; created.  Keeps at most `bytes_max`, the least
 * recently used go first. */
int trace_folder_new(const char *dir, uint64_t bytes_max,
		     struct trace_store **ret, struct error *err) MUST_CHECK;

/*
 * Merge as the stores do: of all runs, newest first, each weighs 7/8 of the next
 * newer one; what less than 1/20 of the weight has seen is left out.  Pure, and
 * the same whatever the order of `traces`.  -EINVAL: not all of one image.
 */
int trace_merge_recent(const struct trace *const *traces, size_t n,
		       struct trace **ret, struct error *err) MUST_CHECK;

/* A key from the words that a container starts, as docs/formats/trace.md says;
 * "default-..." when there are none.  Caller owns. */
char *trace_workload_key(const char *const *argv, size_t n) MUST_CHECK;

#endif
