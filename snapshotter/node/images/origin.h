// SPDX-License-Identifier: Apache-2.0
/*
 * Repositories that images come from, and the stack of sources that a device
 * reads a pack through.  origin.c is the one file that composes it.
 */
#ifndef BOOTSEER_NODE_ORIGIN_H
#define BOOTSEER_NODE_ORIGIN_H

#include <stdatomic.h>

#include "image/artifact/artifact.h"
#include "snapshotter/node/config.h"

/* The name, in access rules and traces, of `repo` at `host`: a registry's
 * repository or, for environments, the folder of blobs in the store with that
 * URL. The name is HOST/REPOSITORY, or the URL without options, which may hold
 * secrets, and without a last '/'. The caller's; NULL when memory is short. */
char *origin_place(const char *host, const char *repo) MUST_CHECK;

struct blockmap;
/* shared by a process: images of one repository use the same origin */
struct origins;
struct origin;

/* Opens a store as oci_store_open(), which bootseerd passes; tests pass their own. */
typedef int origin_open_fn(const struct oci_ref *ref,
			   const struct oci_config *cfg, bool create,
			   struct oci_store **ret, struct error *err);

/* `cfg` and `is_ending` are borrowed until origins_free().  Once `is_ending` is true, requests
 * without a caller that could stop them end with -ECANCELED. */
struct origins *origins_new(const struct node_config *cfg,
			    const atomic_bool *is_ending,
			    origin_open_fn *open) MUST_CHECK;
/* Use the pods' logins for all stores, in addition to --auth-file.  Call it before anything is
 * read; `logins` outlives the stores. */
struct oci_logins;
void origins_use_logins(struct origins *o, struct oci_logins *logins);
void origins_free(struct origins *o); /* after every origin was put back */
DEFINE_AUTO(origins)

/* Registries for which reads wait now. */
struct outages *origins_outages(struct origins *o);

/* State of all registry hosts: which are away, and which throttle requests. */
struct oci_hosts;
struct oci_hosts *origins_hosts(struct origins *o);

/* Use credentials and certificates as they are on disk now, for requests that
 * start after this.  Any thread. */
void origins_reload(struct origins *o);

/* The repository `repo` at `host`; nothing is contacted.  Any thread, as all
 * below. */
int origin_get(struct origins *o, const char *host, const char *repo,
	       bool plain_http, struct origin **ret,
	       struct error *err) MUST_CHECK;
void origin_put(struct origin *o); /* NULL is allowed */

/* A use of a repository's store, until store_lease_end(). */
struct store_lease {
	struct oci_store *store;
	unsigned int refs; /* under the origins' lock */
	struct origins *all;
	/* the lease of which this is one call's part; or NULL */
	struct store_lease *whole;
};
int origin_lease(struct origin *o, struct store_lease **ret,
		 struct error *err) MUST_CHECK;
/* A lease for one call, whose requests end when `pace` says so.  NULL is as origin_lease(). */
int origin_lease_paced(struct origin *o, struct pace *pace,
		       struct store_lease **ret, struct error *err) MUST_CHECK;
void store_lease_end(struct store_lease *l); /* NULL is allowed */

/* Open a source for each blob: the array and the sources are the caller's. Each
 * keeps a use of `o`. */
int origin_blobs(struct origin *o, const struct oci_descriptor *blobs, size_t n,
		 struct source ***ret, struct error *err) MUST_CHECK;
/* Open sources of the stored bytes of the packs of `a`, in whose folder `dir` an offer may be.
 * `map`, its block map, outlives them.  For an index the sources are those of
 * span_sources_join(). */
int origin_packs(struct origin *o, const struct artifact *a, const char *dir,
		 const struct blockmap *map, struct source ***ret,
		 struct error *err) MUST_CHECK;

#endif
