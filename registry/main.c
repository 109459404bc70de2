// SPDX-License-Identifier: Apache-2.0
/* bootseer-registry: starts the parts of the service, runs the loop, stops them. */
#include <errno.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/notify.h"
#include "net/signals.h"
#include "registry/metrics.h"
#include "registry/service.h"

#define EXIT_BAD_OPTIONS 2
/* descriptors for the database, files and so on, besides one for each client */
#define DESCRIPTORS_BESIDE 256
/* malloc() maps blocks of this size separately, so that the memory of request bodies goes back to
 * the system when freed and does not fragment the heap. */
#define MMAP_THRESHOLD (64 << 10)
#define FILES_POLL_NS INT64_C(25000000000)

struct registry_daemon {
	struct service service;
	struct daemon_signals signals;
	struct loop_timer grace, files;
	bool ending;
};

static void on_grace_over(struct loop_timer *t)
{
	struct registry_daemon *d =
		container_of(t, struct registry_daemon, grace);

	log_warning("main", "requests under way are cut off");
	loop_stop(d->service.loop);
}

static void end_service(void *arg, int signo)
{
	struct registry_daemon *d = arg;
	struct service *s = &d->service;

	if (d->ending)
		return;
	d->ending = true;
	log_info("main", "ending signal=%d", signo);
	if (loop_timer_start(s->loop, &d->grace, s->cfg->grace, NULL) < 0)
		loop_stop(s->loop);
	service_stop(s);
}

static void reload_service(void *arg)
{
	service_reload(&((struct registry_daemon *)arg)->service);
}

/* Reload files that have changed: in a pod, a changed secret sends no signal. */
static void on_files(struct loop_timer *t)
{
	struct registry_daemon *d =
		container_of(t, struct registry_daemon, files);
	struct error err = ERROR_INIT;

	service_reload_changed(&d->service);
	if (loop_timer_start(d->service.loop, t, FILES_POLL_NS, &err) < 0)
		log_error("main",
			  "files are read again at SIGHUP only reason=\"%s\"",
			  err.msg);
}

/* Raise the limit of descriptors: each client has one. */
static void raise_descriptors(const struct registry_config *cfg)
{
	rlim_t want = cfg->max_connections + DESCRIPTORS_BESIDE;
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= want)
		return;
	r.rlim_cur = want < r.rlim_max ? want : r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur < want)
		log_warning("main",
			    "descriptors are fewer than --max-connections "
			    "limit=%llu",
			    (unsigned long long)r.rlim_cur);
}

/* Stop the pool before the loop, which answers its calls, and before that the objects that belong
 * to the loop. */
static void stop_registry(struct registry_daemon *d)
{
	struct service *s = &d->service;

	sweep_stop(&s->sweep);
	if (s->httpd)
		httpd_abort(s->httpd);
	service_drop(s);
	sweep_join(&s->sweep);
	pool_free(s->pool);
	pool_free(s->askers);
	loop_timer_stop(&d->grace);
	loop_timer_stop(&d->files);
	daemon_signals_stop(&d->signals);
	loop_free(s->loop);
	service_fini(s);
}

static int run_service(const struct registry_config *cfg, struct error *err)
{
	struct registry_daemon d = {
		.service = { .cfg = cfg },
		.signals = { end_service, reload_service, &d },
		.grace.fn = on_grace_over,
		.files.fn = on_files,
	};
	struct service *s = &d.service;
	int rc = loop_new(&s->loop, err);

	if (rc < 0)
		return rc;
	raise_descriptors(cfg);
	rc = daemon_signals_start(&d.signals, s->loop, err);
	if (rc == 0)
		rc = pool_new(s->loop, cfg->threads, 0, &s->pool, err);
	if (rc == 0)
		rc = pool_new(s->loop, cfg->threads, 0, &s->askers, err);
	if (rc == 0)
		rc = service_start(s, err);
	if (rc == 0)
		rc = loop_timer_start(s->loop, &d.files, FILES_POLL_NS, err);
	if (rc == 0) {
		log_info("main", "ready port=%u db=%s tls=%s tokens=%s",
			 httpd_port(s->httpd), db_kind(s->db),
			 s->tls ? "yes" : "no", s->tokens ? "yes" : "no");
		notify_send("READY=1");
		rc = loop_run(s->loop, err);
	}
	stop_registry(&d);
	return rc;
}

static int start_registry(const struct registry_config *cfg, struct error *err)
{
	enum log_level level;

	if (log_level_parse(cfg->log_level, &level) == 0)
		log_set_level(level);
	if (cfg->list_metrics) {
		metrics_list(stdout);
		return 0;
	}
	(void)mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	return run_service(cfg, err);
}

/* Read the files that the configuration names, so that --check-config reports errors in them. Only
 * --check-config fails on an expired certificate; a running service logs it and goes on. */
static int check_files(const struct registry_config *c, bool is_check,
		       struct error *err)
{
	struct tokens tokens = { .n = 0 };
	struct httpd_tls *tls = NULL;
	struct issuer *issuer = NULL;
	int rc = 0;

	if (c->tokens)
		rc = tokens_load(c->tokens, &tokens, err);
	/* An empty tokens file is an error at the start only: on reload it revokes all tokens at
	 * once. */
	if (rc == 0 && c->tokens && !tokens.n && !c->tls_client_ca)
		rc = error_set(err, EINVAL,
			       "tokens file '%s' has no token, so nobody may "
			       "call this service: add a line for each: NAME "
			       "sha256:HEX ROLE[,ROLE...]",
			       c->tokens);
	if (rc == 0 && c->tls_cert)
		rc = httpd_tls_new(c->tls_cert, c->tls_key, c->tls_client_ca,
				   &tls, err);
	if (rc == 0 && tls && is_check)
		rc = httpd_tls_check_time(tls, err);
	if (rc == 0)
		rc = issuer_new(c, &issuer, err);
	tokens_fini(&tokens);
	httpd_tls_free(tls);
	issuer_free(issuer);
	return rc;
}

int main(int argc, char **argv)
{
	struct registry_config cfg = { .listen = NULL };
	struct error err = ERROR_INIT;
	enum option_action action;
	int operand, rc;

	daemon_signals_hold();
	/* SQLite creates files as readable as the umask permits, and they name private images: make
	 * them private. */
	(void)umask(077);
	rc = option_parse(&registry_program, &cfg, argc, argv, &action,
			  &operand, &err);
	if (rc == 0 && cfg.listen)
		rc = registry_config_check(&cfg, &err);
	if (rc == 0 && cfg.listen)
		rc = check_files(&cfg, action != OPTION_ACTION_RUN, &err);
	rc = option_refuse(&registry_program, &cfg, argc, argv, rc, &err);
	if (rc < 0) {
		fprintf(stderr, "bootseer-registry: %s\n", err.msg);
		option_fini(registry_program.options, &cfg);
		return EXIT_BAD_OPTIONS;
	}
	if (action == OPTION_ACTION_RUN)
		rc = start_registry(&cfg, &err);
	if (rc < 0)
		log_error("main", "cannot go on reason=\"%s\"", err.msg);
	option_fini(registry_program.options, &cfg);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
