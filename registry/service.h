// SPDX-License-Identifier: Apache-2.0
/*
 * The service: requests come from httpd on the loop, are checked by the table of
 * routes, and run on threads of the pool.
 */
#ifndef BOOTSEER_REGISTRY_SERVICE_H
#define BOOTSEER_REGISTRY_SERVICE_H

#include <stdatomic.h>

#include "net/httpd.h"
#include "net/pool.h"
#include "registry/capabilities.h"
#include "registry/ckpt_cache.h"
#include "registry/config.h"
#include "registry/hot.h"
#include "registry/recent.h"
#include "registry/refusals.h"
#include "registry/route.h"
#include "registry/stage_times.h"
#include "registry/start_cache.h"
#include "registry/swarms.h"
#include "registry/turns.h"

/* Of tokens that are in force; the loop's. */
struct token_set {
	struct tokens tokens;
	unsigned int refs;
};

/* What handlers count; any thread. */
struct service_counts {
	atomic_uint_fast64_t stored, replaced, enough, refused, too_many;
	atomic_uint_fast64_t evicted, expired_calls, denied, reloads;
	atomic_uint_fast64_t stage_events;
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
	struct service_counts counts;
	struct buf openapi;

	struct loop_timer sweep_timer;
	struct work sweep_work;
	bool sweeping, sweep_again, stopping;
};

/* One request, from its head to its answer. */
struct call {
	struct owner_turn turn;
	struct service *service;
	struct httpd_request *req;
	const struct route *route;
	const char *values[ROUTE_PARAMS_MAX];
	struct token_set *set;
	const struct token *token; /* NULL: there are none */
	struct httpd_reply reply;
	int rc;
	int status; /* of a failure; 0: by rc */
	int retry_after_s;
	bool is_refused; /* for its token or certificate */
	struct error err;
};

struct json_t;
/* The value of a parameter; "" when it was not given. */
const char *call_param(const struct call *c, const char *name);
/* The repository prefix that it is bound to, or "". */
const char *call_prefix(const struct call *c);
/* Refuse a repository that the token may not see. */
int call_check_repo(struct call *c, const char *repo,
		    struct error *err) MUST_CHECK;
/* Of traces, `repo` is HOST/REPOSITORY or, of environments, the URL of a store.  Refuse one
 * whose traces the token may neither see nor add to: of a store that is no registry's they
 * are those of who may have its blocks from other nodes. */
int call_check_trace_repo(struct call *c, const char *repo,
			  struct error *err) MUST_CHECK;
/* What is seen besides what is of `repo`: call_prefix(); besides a store nothing. */
const char *call_trace_prefix(const struct call *c, const char *repo);
/* Refuse a name that is none, or not that of the token or the certificate. */
int call_check_node(struct call *c, const char *node,
		    struct error *err) MUST_CHECK;
/* Answer with this; takes it (NULL: memory was short). */
int call_send_json(struct call *c, struct json_t *o,
		   struct error *err) MUST_CHECK;
/* Whose token or certificate it is; "": anybody's. */
const char *call_owner(const struct call *c);
/* The body as JSON, the caller's. */
int call_body_json(const struct call *c, struct json_t **ret,
		   struct error *err) MUST_CHECK;
/* Fail with this status and, if not NULL, code. */
int call_fail(struct call *c, int status, const char *code, struct error *err,
	      const char *fmt, ...) PRINTF(5, 6);
int call_header(struct call *c, const char *name, const char *value) MUST_CHECK;
/* Give the body that is there an ETag; none, and 304, when the client has it. */
int call_send_if_new(struct call *c, struct error *err) MUST_CHECK;

extern const struct route routes[];
extern const size_t n_routes;

/* Starts serving; `s` has cfg, loop, pool, askers, and zeros. */
int service_start(struct service *s, struct error *err) MUST_CHECK;
/* SIGHUP: tokens and certificates again.  What is wrong stays as it was. */
void service_reload(struct service *s);
/* Answer what is under way, then stop the loop. */
void service_stop(struct service *s);
/* The loop is about to end: what waits for a thread is answered. */
void service_drop(struct service *s);
/* The pools and the loop have ended. */
void service_fini(struct service *s);

/* Handlers, by subject. */
int traces_get(struct call *c, struct error *err);
int traces_post(struct call *c, struct error *err);
int traces_delete(struct call *c, struct error *err);
int traces_list_repo(struct call *c, struct error *err);
int image_figures_post(struct call *c, struct error *err);
int image_figures_list(struct call *c, struct error *err);
int image_figures_get(struct call *c, struct error *err);
int peers_list(struct call *c, struct error *err);
int peers_of_start(struct call *c, struct error *err);
int swarms_post(struct call *c, struct error *err);
int swarms_list(struct call *c, struct error *err);
int swarms_get(struct call *c, struct error *err);
int capabilities_post(struct call *c, struct error *err);
int capabilities_revoke(struct call *c, struct error *err);
int capabilities_restore(struct call *c, struct error *err);
int capabilities_keys(struct call *c, struct error *err);
int preheats_post(struct call *c, struct error *err);
int preheats_list(struct call *c, struct error *err);
int preheats_report(struct call *c, struct error *err);
int preheats_get(struct call *c, struct error *err);
int stages_post(struct call *c, struct error *err);
int starts_list(struct call *c, struct error *err);
int starts_get(struct call *c, struct error *err);
int starts_bars(struct call *c, struct error *err);
int starts_export(struct call *c, struct error *err);
int starts_compare(struct call *c, struct error *err);
int checkpoints_list(struct call *c, struct error *err);
int checkpoints_get(struct call *c, struct error *err);
int scales_get(struct call *c, struct error *err);
int trends_get(struct call *c, struct error *err);
int nodes_list(struct call *c, struct error *err);
int nodes_get(struct call *c, struct error *err);
int page_index(struct call *c, struct error *err);
int page_script(struct call *c, struct error *err);
int page_views(struct call *c, struct error *err);
int page_style(struct call *c, struct error *err);
int environments_list(struct call *c, struct error *err);
int environments_get(struct call *c, struct error *err);
int environments_publish(struct call *c, struct error *err);
int environments_note(struct call *c, struct error *err);
int environments_remove(struct call *c, struct error *err);
int environments_pin(struct call *c, struct error *err);
int environments_unpin(struct call *c, struct error *err);
int environments_take(struct call *c, struct error *err);
int environments_renew(struct call *c, struct error *err);
int environments_drop(struct call *c, struct error *err);
int trust_revoke(struct call *c, struct error *err);
int trust_restore(struct call *c, struct error *err);
int trust_revoked(struct call *c, struct error *err);
int system_health(struct call *c, struct error *err);
int system_ready(struct call *c, struct error *err);
int system_openapi(struct call *c, struct error *err);
int system_metrics(struct call *c, struct error *err);

#endif
