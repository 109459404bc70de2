// SPDX-License-Identifier: Apache-2.0
/*
 * The service, what it has and its life: requests come from httpd on the loop
 * (requests.c), are checked by the table of routes, and run on threads of the pool.
 */
#ifndef BOOTSEER_REGISTRY_SERVICE_H
#define BOOTSEER_REGISTRY_SERVICE_H

#include <stdatomic.h>

#include "net/httpd.h"
#include "net/pool.h"
#include "registry/readiness.h"
#include "registry/capabilities.h"
#include "registry/ckpt_cache.h"
#include "registry/config.h"
#include "registry/conversion_db.h"
#include "registry/hot.h"
#include "registry/predictions.h"
#include "registry/recent.h"
#include "registry/refusals.h"
#include "registry/stage_times.h"
#include "registry/start_cache.h"
#include "registry/swarms.h"
#include "registry/sweep.h"
#include "registry/token.h"
#include "registry/turns.h"

/* Counters of handlers; any thread. */
struct service_counts {
	atomic_uint_fast64_t stored, replaced, enough, refused, too_many;
	atomic_uint_fast64_t evicted, expired_calls, denied, reloads;
	atomic_uint_fast64_t set_aside;
	atomic_uint_fast64_t not_training, silent,
		silent_s; /* at the last sweep */
	atomic_uint_fast64_t doctor_nodes, doctor_missing,
		doctor_advised; /* at the last sweep */
	atomic_uint_fast64_t stage_events;
	atomic_int_fast64_t
		drops_said_s; /* when the log said last that pushes were dropped */
	atomic_uint_fast64_t pushes_queued, pushes_dropped, pushes_other;
	atomic_uint_fast64_t conversions_done, conversions_failed,
		conversions_retried;
	/* At the last sweep. */
	atomic_uint_fast64_t converting[CONVERSION_STATES], conversion_wait_s;
	atomic_uint_fast64_t new_bytes;            /* since the last sweep */
	atomic_uint_fast64_t starts, votes, bytes; /* at the last sweep */
};

struct service {
	const struct registry_config *cfg;
	struct loop *loop;
	/* `askers` for what asks registries, which may be slow; of each the turns. */
	struct pool *pool, *askers;
	struct turns *turns, *asking;
	struct httpd *httpd;
	struct httpd_tls *tls;
	struct db *db;
	struct hot *hot;
	struct predictions *predictions;
	struct recent *recent;
	struct stage_quota *stage_quota;
	struct start_cache *start_cache;
	struct ckpt_cache *ckpt_cache;
	struct stage_times *stage_times;
	struct swarms *swarms;
	struct issuer *issuer;
	struct token_set *tokens; /* NULL: there is no --tokens */
	struct trace_limits limits;
	struct refusals refusals; /* the loop's */
	/* Sums over the named files: as they were loaded, and at the last look. */
	uint64_t files_sum, seen_sum;
	unsigned int reload_failed; /* a bit for each part, to be tried again */
	struct service_counts counts;
	struct buf openapi;
	struct sweep sweep;
	struct readiness readiness;
};

/* Starts serving; `s` has cfg, loop, pool, askers, and zeros. */
int service_start(struct service *s, struct error *err) MUST_CHECK;
/* SIGHUP: tokens and certificates again.  What is wrong stays as it was. */
void service_reload(struct service *s);
/* The same if one of their files is another than was loaded, or the last reload failed, and
 * they are as at the last call: half of a file of tokens may give more rights than all of it. */
void service_reload_changed(struct service *s);
/* Answer what is under way, then stop the loop. */
void service_stop(struct service *s);
/* The loop is about to end: what waits for a thread is answered. */
void service_drop(struct service *s);
/* The pools and the loop have ended. */
void service_fini(struct service *s);

#endif
