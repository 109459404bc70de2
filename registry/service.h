// SPDX-License-Identifier: Apache-2.0
/*
 * The service: its parts, start and stop. Requests come from httpd on the loop (requests.c), are
 * checked by the table of routes, and run on threads of the pool.
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

/* Counters of the handlers; any thread may change them. */
struct service_counts {
	atomic_uint_fast64_t stored, replaced, enough, refused, too_many;
	atomic_uint_fast64_t evicted, expired_calls, denied, reloads;
	atomic_uint_fast64_t set_aside;
	atomic_uint_fast64_t not_training, silent,
		silent_s; /* at the last sweep */
	atomic_uint_fast64_t doctor_nodes, doctor_missing,
		doctor_advised; /* at the last sweep */
	atomic_uint_fast64_t stage_events;
	/* when dropped pushes were last logged */
	atomic_int_fast64_t drops_said_s;
	atomic_uint_fast64_t pushes_queued, pushes_dropped, pushes_other;
	atomic_uint_fast64_t conversions_done, conversions_failed,
		conversions_retried;
	/* Numbers of the last sweep. */
	atomic_uint_fast64_t converting[CONVERSION_STATES], conversion_wait_s;
	atomic_uint_fast64_t new_bytes;            /* since the last sweep */
	atomic_uint_fast64_t starts, votes, bytes; /* at the last sweep */
};

struct service {
	const struct registry_config *cfg;
	struct loop *loop;
	/* `askers` runs calls to registries, which may be slow, `pool` all others. `turns` and
	 * `asking` are the queues of the two pools. */
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
	struct refusals refusals; /* used on the loop thread only */
	/* Checksums of the named files: when they were loaded, and at the last check. */
	uint64_t files_sum, seen_sum;
	/* one bit for each part whose reload failed and is retried */
	unsigned int reload_failed;
	struct service_counts counts;
	struct buf openapi;
	struct sweep sweep;
	struct readiness readiness;
};

/* Start serving. The caller has set cfg, loop, pool and askers of `s`; all else is zero. */
int service_start(struct service *s, struct error *err) MUST_CHECK;
/* On SIGHUP: load tokens, certificates and keys again. A part that fails stays as it was. */
void service_reload(struct service *s);
/* Reload if a file changed since it was loaded or the last reload failed, but only if no file
 * changed since the previous call: a half-written tokens file may give more rights than the whole
 * one. */
void service_reload_changed(struct service *s);
/* Answer the running requests, then stop the loop. */
void service_stop(struct service *s);
/* Refuse the requests that wait for a thread, before the loop ends. */
void service_drop(struct service *s);
/* Release everything, after the pools and the loop have ended. */
void service_fini(struct service *s);

#endif
