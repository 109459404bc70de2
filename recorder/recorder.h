// SPDX-License-Identifier: Apache-2.0
/*
 * Records what a start reads, maps traces to the blocks of an image, and keeps traces in stores.
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
	/* limit of first accesses kept, 16 bytes each, allocated as needed; 0: 262144 */
	size_t ranges_max;
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
/* no device may have its observer then */
void recorder_free(struct recorder *r);
DEFINE_AUTO(recorder)

/* The observer for device_observe(); owned by the recorder. */
struct device_observer *recorder_observer(struct recorder *r);

/* Counts so far; may be read while it records. */
struct recorder_stats {
	uint64_t reads, read_bytes;
	uint64_t ranges;
	uint64_t misses; /* blocks */
	bool truncated;
};
void recorder_get_stats(struct recorder *r, struct recorder_stats *ret);

/*
 * Get the trace of accesses until `until_ms` after recorder_new(), with paths. When several
 * files share a range, each file gets an entry. Recording continues. `info` comes from the
 * caller, except window_ms and truncated.
 */
int recorder_trace(struct recorder *r, const struct trace_info *info,
		   const struct blockmap *map, struct file_map *files,
		   uint32_t until_ms, struct trace **ret,
		   struct error *err) MUST_CHECK;

/* Set the bits of the blocks of which a page was read; takes some ns for each block. */
void recorder_mark_read(const struct recorder *r, const struct blockmap *map,
			uint8_t *bits);

/* Get the blocks that were read and those that readers missed, as entries of the map in the
 * order of first access; the caller owns the arrays. */
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

/* The blocks that a start of this image is likely to read, in the order of the trace; each
 * stored place once. */
struct hot_list {
	struct hot_block *blocks;
	size_t n;
	uint64_t bytes;   /* stored */
	size_t by_digest; /* entries of the trace found by content */
	/* entries found by path and offset, as their content has changed */
	size_t by_path;
	size_t lost; /* entries not found */
	/* entries left out: fewer than TRACE_HOT of the runs had them */
	size_t rare;
	/* Made from a prediction, which may be wrong: prefetch_start() fetches it only as
	 * far as it proves right. */
	bool is_predicted;
	/* The prediction includes a start of nearly the same files. */
	bool has_twin;
};
void hot_list_fini(struct hot_list *l);

/* Map a trace, of this image or of a related one, to the blocks of an image. `files` NULL:
 * map by content only. A prediction needs `files`: its entries apply if the image has nearly
 * all files that their donors read. */
int hot_list_make(const struct trace *t, const struct blockmap *map,
		  struct file_map *files, struct hot_list *ret,
		  struct error *err) MUST_CHECK;

/* Append the blocks of the ranges `more`, in their order, to the list. */
int hot_list_add(struct hot_list *l, const struct blockmap *map,
		 const struct device_span *more, size_t n,
		 struct error *err) MUST_CHECK;

/* ------------------------------------------------------------------ stores --- */

/* Selects the trace that is wanted. */
struct trace_query {
	struct digest image; /* manifest of the ordinary image */
	const char *repo;    /* "host/repository", for relatives; may be NULL */
	const char *workload; /* NULL in lists and removals: all workloads */
	bool exact;           /* accept no other image and no other workload */
	/* if no trace is found, accept a prediction from starts of other images */
	bool predict;
};

/* How closely a found trace matches; closest first. */
enum trace_match {
	TRACE_MATCH_OWN, /* this image, this workload */
	/* another image of the repository, same workload */
	TRACE_MATCH_RELATIVE,
	TRACE_MATCH_WORKLOAD, /* this image, another workload */
	/* another image of the repository, another workload */
	TRACE_MATCH_FAR,
	TRACE_MATCH_PREDICTED, /* predicted from starts of other images */
};

struct trace_found {
	struct trace *trace; /* the caller's */
	enum trace_match match;
	bool wanted; /* the store wants further recordings of this start */
};

/* Operations of a kind of trace store: one `static const` table per kind. */
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
 * Get the closest trace; -ENOENT: none. All these functions block, have a time limit of their
 * own, and may be called by several threads. Errors: -EACCES, -ETIMEDOUT, -ECONNREFUSED, -EBUSY
 * (the service or registry is overloaded), -EFBIG, -EIO, -EPROTO, -EINVAL, -EBADMSG (the answer
 * is no trace).
 */
int trace_store_get(struct trace_store *s, const struct trace_query *q,
		    struct trace_found *ret, struct error *err) MUST_CHECK;
/* Add a recording; the store merges it with others. A merged trace counts as a single
 * recording here. */
int trace_store_put(struct trace_store *s, const struct trace *t,
		    struct error *err) MUST_CHECK;
/* List the traces of an image (`image` set) or of a repository (`image` all zeros; in a
 * folder, `repo` NULL means all), newest first. The caller owns the array, and releases each
 * element by trace_info_fini(). Never returns -ENOENT. */
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
	/* the token may be sent to another machine by http:// */
	bool plain_token;
	/* how users allow that, for messages; or NULL */
	const char *plain_cure;
	/* PEM files of the node's certificate and key, for a service that asks for them; or
	 * NULL. */
	const char *cert_file, *key_file;
	const char *node;    /* name of this node; each node has one vote */
	uint32_t timeout_ms; /* limit of one call */
};
int trace_service_new(const struct trace_service_config *cfg,
		      struct trace_store **ret, struct error *err) MUST_CHECK;

/* A repository's tags for the newest trace of a workload begin with this. */
#define TRACE_TAG_PREFIX "bootseer-trace-"

/* A store of OCI artifacts beside the image (docs/formats/trace.md); `store` is borrowed,
 * and must be that of the image's repository. */
int trace_oci_new(struct oci_store *store, struct trace_store **ret,
		  struct error *err) MUST_CHECK;

/* A store in a folder of this machine, which is created. Keeps at most `bytes_max`; the
 * least recently used traces are removed first. */
int trace_folder_new(const char *dir, uint64_t bytes_max,
		     struct trace_store **ret, struct error *err) MUST_CHECK;

/*
 * Merge traces as the stores do: the weight of a run is 7/8 of the next newer run's, and entries
 * that less than 1/20 of the weight has seen are left out. Pure; the order of `traces` does not
 * matter. -EINVAL: not all of the same image.
 */
int trace_merge_recent(const struct trace *const *traces, size_t n,
		       struct trace **ret, struct error *err) MUST_CHECK;

/* Make the key of a workload from the words of its command (docs/formats/trace.md);
 * "default-..." when there are none. The caller owns it. */
char *trace_workload_key(const char *const *argv, size_t n) MUST_CHECK;

#endif
