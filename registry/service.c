// SPDX-License-Identifier: Apache-2.0
#include "registry/service.h"

#include "common/fs.h"
#include "common/log.h"
#include "registry/named_files.h"
#include "registry/requests.h"
#include "registry/routes.h"
#include "registry/schema.h"
#include "registry/stage_quota.h"

#define START_CACHE_MAX (192u * 1024 * 1024) /* bytes of analysed starts */
/* bytes of answers that are being sent to clients */
#define ANSWER_MEMORY (256u * 1024 * 1024)
#define NS_PER_S INT64_C(1000000000)

/* --------------------------------------------------------------------- reload --- */

static int load_tokens(struct service *s, struct error *err)
{
	struct token_set *set;
	int rc = s->cfg->tokens ? token_set_load(s->cfg->tokens, &set, err) : 0;

	if (rc < 0 || !s->cfg->tokens)
		return rc;
	token_set_unref(s->tokens);
	s->tokens = set;
	return 0;
}

/* Warn about a signing key that others may read: its holder can sign in the name of this service.
 * (A key that belongs to another user prevents the start.) */
static void log_key_warnings(const struct service *s)
{
	const struct registry_config *cfg = s->cfg;
	struct error why = ERROR_INIT;

	if (cfg->tls_key && fs_check_private(cfg->tls_key, &why) < 0)
		log_warning("service",
			    "the key is not this service's alone "
			    "reason=\"%s: chmod 600 %s\"",
			    why.msg, cfg->tls_key);
	if (!cfg->tokens && !cfg->tls_client_ca && !cfg->insecure_no_auth)
		log_warning("service",
			    "nobody may call it: give it --tokens or "
			    "--tls-client-ca, or say --insecure-no-auth");
	if (!cfg->tokens && cfg->insecure_no_auth &&
	    !registry_config_is_local(cfg))
		log_warning("service",
			    "whoever reaches it may do everything: "
			    "--insecure-no-auth beyond loopback listen=%s",
			    cfg->listen);
	if (s->tls && httpd_tls_check_time(s->tls, &why) < 0)
		log_warning("service",
			    "clients will not believe this service "
			    "reason=\"%s\"",
			    why.msg);
}

static int load_certificate(struct service *s, struct error *err)
{
	return s->tls ? httpd_tls_reload(s->tls, err) : 0;
}

static int load_keys(struct service *s, struct error *err)
{
	return issuer_reload(s->issuer, err);
}

/* Load each part even if another fails: a bad line in the tokens file must not keep an expiring
 * certificate in use. A failed part is retried every few seconds, so a repeated failure is logged
 * only on request or after a change. */
static void reload_parts(struct service *s, bool is_retry)
{
	static const struct {
		const char *name;
		int (*load)(struct service *s, struct error *err);
	} parts[] = {
		{ "tokens", load_tokens },
		{ "certificate", load_certificate },
		{ "keys", load_keys },
	};
	unsigned int failed = 0;
	struct error err = ERROR_INIT;

	/* Take the checksum before reading the files, so that a write during the reload counts as a
	 * change. */
	s->files_sum = named_files_sum(s->cfg);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i].load(s, &err) == 0)
			continue;
		failed |= 1u << i;
		if (!is_retry || !(s->reload_failed & 1u << i))
			log_error("service",
				  "reload failed, the old stays what=%s "
				  "reason=\"%s\"",
				  parts[i].name, err.msg);
	}
	s->reload_failed = failed;
	if (!failed)
		log_info("service",
			 "reloaded what=\"tokens, certificate and keys\"");
	if (is_retry && failed)
		return;
	log_key_warnings(s);
	atomic_fetch_add(&s->counts.reloads, 1);
}

void service_reload(struct service *s)
{
	reload_parts(s, false);
}

void service_reload_changed(struct service *s)
{
	uint64_t sum = named_files_sum(s->cfg);
	bool is_settled = sum == s->seen_sum;
	bool is_changed = sum != s->files_sum;

	s->seen_sum = sum;
	if (!is_settled || (!is_changed && !s->reload_failed))
		return;
	if (is_changed)
		log_info("service",
			 "a file of tokens, certificates or keys changed");
	reload_parts(s, !is_changed);
}

/* -------------------------------------------------------------- start and stop --- */

static void set_limits(struct service *s)
{
	const struct registry_config *cfg = s->cfg;

	s->limits = (struct trace_limits){
		.trace_max = cfg->trace_max,
		.memory_max = 4 * cfg->trace_max,
		.node_bytes = cfg->max_node_bytes,
		.node_hourly = cfg->max_node_hourly,
		.repo_bytes = cfg->max_repo_bytes,
		.total_bytes = cfg->max_bytes,
		.retention_s = cfg->retention / NS_PER_S,
	};
}

static int start_http(struct service *s, struct error *err)
{
	const struct registry_config *cfg = s->cfg;
	struct httpd_config http = {
		.name = "http",
		.option = "--listen",
		.loop = s->loop,
		.listen = cfg->listen,
		.connections_max = cfg->max_connections,
		.body_memory = cfg->body_memory,
		.answer_memory = ANSWER_MEMORY,
		.idle_ns = cfg->idle_timeout,
		.request_ns = cfg->request_timeout,
		.handler = &requests_handler,
		.arg = s,
	};
	int rc = 0;

	if (cfg->tls_cert)
		rc = httpd_tls_new(cfg->tls_cert, cfg->tls_key,
				   cfg->tls_client_ca, &s->tls, err);
	http.tls = s->tls;
	return rc < 0 ? rc : httpd_new(&http, &s->httpd, err);
}

static int create_turn_queues(struct service *s, struct error *err)
{
	const struct registry_config *cfg = s->cfg;
	int rc = turns_new(s->pool, cfg->threads, cfg->max_connections,
			   &s->turns, err);

	return rc < 0 ? rc
		      : turns_new(s->askers, cfg->threads, cfg->max_connections,
				  &s->asking, err);
}

int service_start(struct service *s, struct error *err)
{
	const struct db_config db = {
		.url = s->cfg->db,
		.schema = &schema,
		.timeout_ns = s->cfg->db_timeout,
	};
	int rc;

	readiness_init(&s->readiness);
	s->files_sum = named_files_sum(s->cfg);
	set_limits(s);
	rc = create_turn_queues(s, err);
	if (rc == 0)
		rc = load_tokens(s, err);
	if (rc == 0)
		rc = openapi_make(routes, n_routes, &s->openapi, err);
	if (rc == 0)
		rc = db_open(&db, &s->db, err);
	if (rc == 0)
		rc = hot_new(s->db, s->cfg->list_memory, s->cfg->db_timeout,
			     &s->hot, err);
	if (rc == 0)
		rc = predictions_new(s->db, s->hot, &s->predictions, err);
	if (rc == 0)
		rc = recent_new(&s->recent, err);
	if (rc == 0)
		rc = stage_quota_new(s->cfg->max_node_events, &s->stage_quota,
				     err);
	if (rc == 0)
		rc = start_cache_new(s->db, START_CACHE_MAX, &s->start_cache,
				     err);
	if (rc == 0)
		rc = ckpt_cache_new(s->db, &s->ckpt_cache, err);
	if (rc == 0)
		rc = stage_times_new(&s->stage_times, err);
	if (rc == 0)
		rc = swarms_new(s->cfg, &s->swarms, err);
	if (rc == 0)
		rc = issuer_new(s->cfg, &s->issuer, err);
	if (rc == 0)
		rc = sweep_start(&s->sweep, s, err);
	if (rc == 0)
		rc = start_http(s, err);
	if (rc == 0)
		log_key_warnings(s);
	return rc;
}

static void on_idle(void *arg)
{
	struct service *s = arg;

	loop_stop(s->loop);
}

void service_stop(struct service *s)
{
	sweep_stop(&s->sweep);
	httpd_stop(s->httpd, on_idle, s);
}

void service_drop(struct service *s)
{
	if (s->turns)
		turns_stop(s->turns);
	if (s->asking)
		turns_stop(s->asking);
}

void service_fini(struct service *s)
{
	turns_free(s->turns);
	turns_free(s->asking);
	httpd_free(s->httpd);
	httpd_tls_free(s->tls);
	swarms_free(s->swarms);
	issuer_free(s->issuer);
	recent_free(s->recent);
	stage_quota_free(s->stage_quota);
	start_cache_free(s->start_cache);
	ckpt_cache_free(s->ckpt_cache);
	stage_times_free(s->stage_times);
	predictions_free(s->predictions);
	hot_free(s->hot);
	db_close(s->db);
	token_set_unref(s->tokens);
	buf_fini(&s->openapi);
	readiness_fini(&s->readiness);
}
