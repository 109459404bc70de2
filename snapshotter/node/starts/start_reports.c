// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/starts/start_reports.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "net/service_client.h"

#define SEND_MS 3000
#define PAUSE_MIN_NS (5 * NS_PER_S)
#define PAUSE_MAX_NS (600 * NS_PER_S)
#define ANSWER_MAX 4096

struct start_report_text {
	TAILQ_ENTRY(start_report_text) entry;
	char *path, *body;
};
TAILQ_HEAD(start_report_list, start_report_text);

struct start_reports {
	struct service_client *client;
	char *node_header;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t changed;
	struct start_report_list waiting; /* the oldest first */
	size_t n;
	int64_t next_at, pause_ns; /* after a failure */
	bool is_told;              /* that reports are not taken */
	bool is_stopping;
};

static void report_free(struct start_report_text *t)
{
	if (!t)
		return;
	free(t->path);
	free(t->body);
	free(t);
}

/* ------------------------------------------------------------------ sending --- */

static int send_report(struct start_reports *r,
		       const struct start_report_text *t, struct error *err)
{
	const struct service_request req = {
		.method = "POST",
		.path = t->path,
		.headers = { "Content-Type: application/json", r->node_header },
		.body = t->body,
		.body_len = strlen(t->body),
	};
	struct service_answer answer = { .head = HTTP_RESPONSE_INIT,
					 .body = { .limit = ANSWER_MAX } };
	int rc = service_client_do(r->client, &req, &answer, err);

	service_answer_fini(&answer);
	return rc;
}

/* What no later try changes: the service is older, or the token does not allow it. */
static bool is_for_good(int rc)
{
	return rc == -EINVAL || rc == -EACCES || rc == -ENOENT || rc == -EFBIG;
}

/* Lock held. */
static void note_sent(struct start_reports *r, int rc, const char *why)
{
	if (rc == 0) {
		r->is_told = false;
		r->next_at = r->pause_ns = 0;
		return;
	}
	if (!r->is_told)
		log_warning("starts", "figures not sent reason=\"%s\"%s", why,
			    is_for_good(rc) ? ""
					    : " action=\"tried again later\"");
	r->is_told = true;
	if (is_for_good(rc))
		return;
	r->pause_ns = r->pause_ns ? 2 * r->pause_ns : PAUSE_MIN_NS;
	if (r->pause_ns > PAUSE_MAX_NS)
		r->pause_ns = PAUSE_MAX_NS;
	r->next_at = clock_now_ns() + r->pause_ns;
}

/* Lock held: the next one, or NULL at the end. */
static struct start_report_text *wait_report(struct start_reports *r)
{
	struct start_report_text *t;

	while (!r->is_stopping) {
		t = TAILQ_FIRST(&r->waiting);
		if (t && clock_now_ns() >= r->next_at) {
			TAILQ_REMOVE(&r->waiting, t, entry);
			r->n--;
			return t;
		}
		if (t)
			(void)cond_wait_until(&r->changed, &r->lock,
					      r->next_at);
		else
			(void)pthread_cond_wait(&r->changed, &r->lock);
	}
	return NULL;
}

/* Lock held: the last one that waits is the newest. */
static void drop_oldest(struct start_reports *r)
{
	struct start_report_text *t;

	while (r->n > START_REPORTS_MAX) {
		t = TAILQ_FIRST(&r->waiting);
		TAILQ_REMOVE(&r->waiting, t, entry);
		r->n--;
		report_free(t);
	}
}

static void *start_reports_main(void *arg)
{
	struct start_reports *r = arg;
	struct start_report_text *t;

	(void)pthread_mutex_lock(&r->lock);
	while ((t = wait_report(r))) {
		struct error err = ERROR_INIT;
		int rc;

		(void)pthread_mutex_unlock(&r->lock);
		rc = send_report(r, t, &err);
		(void)pthread_mutex_lock(&r->lock);
		note_sent(r, rc, err.msg);
		if (rc == 0 || is_for_good(rc)) {
			report_free(t);
			continue;
		}
		TAILQ_INSERT_HEAD(&r->waiting, t, entry);
		r->n++;
		drop_oldest(r);
	}
	(void)pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* ---------------------------------------------------------------------- add --- */

static int make_path(const struct start_reported *of, char **ret)
{
	char digest[DIGEST_STR_MAX];
	AUTO_BUF path = BUF_INIT;
	int rc;

	digest_format(of->image, digest);
	rc = buf_printf(&path, "/v1/images/%s", digest);
	if (rc == 0)
		rc = service_client_param(&path, "workload", of->workload);
	if (rc == 0)
		rc = service_client_param(&path, "repo",
					  *of->repo ? of->repo : NULL);
	if (rc == 0)
		*ret = strdup(path.data);
	return rc == 0 && *ret ? 0 : -ENOMEM;
}

void start_reports_add(struct start_reports *r, const struct start_reported *of,
		       char *body)
{
	struct start_report_text *t = NULL;

	/* Without a key nobody could ask for it. */
	if (r && body && *of->workload)
		t = calloc(1, sizeof(*t));
	if (!t) {
		free(body);
		return;
	}
	t->body = body;
	if (make_path(of, &t->path) < 0) {
		report_free(t);
		return;
	}
	(void)pthread_mutex_lock(&r->lock);
	TAILQ_INSERT_TAIL(&r->waiting, t, entry);
	r->n++;
	drop_oldest(r);
	(void)pthread_cond_signal(&r->changed);
	(void)pthread_mutex_unlock(&r->lock);
}

/* --------------------------------------------------------------- new and free --- */

static int start_thread(struct start_reports *r, struct error *err)
{
	sigset_t mask, old;
	int rc;

	sigfillset(&mask);
	(void)pthread_sigmask(SIG_SETMASK, &mask, &old);
	rc = pthread_create(&r->thread, NULL, start_reports_main, r);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	r->has_thread = rc == 0;
	return rc ? error_set(err, rc, "thread: %s", strerror(rc)) : 0;
}

static int make_client(struct start_reports *r, const struct node_config *cfg,
		       struct error *err)
{
	const struct service_client_config service =
		node_config_service(cfg, SEND_MS);
	const char *node = cfg->node_name;
	char host[256] = "";
	int rc;

	if (!node && gethostname(host, sizeof(host) - 1) < 0)
		return error_set(err, errno, "hostname: %s", strerror(errno));
	node = node ? node : host;
	rc = service_client_check_node(node, err);
	if (rc < 0)
		return rc;
	if (asprintf(&r->node_header, "Bootseer-Node: %s", node) < 0) {
		r->node_header = NULL;
		return error_nomem(err);
	}
	return service_client_new(&service, &r->client, err);
}

int start_reports_new(const struct node_config *cfg, struct start_reports **ret,
		      struct error *err)
{
	struct start_reports *r;
	int rc;

	*ret = NULL;
	if (!cfg->service)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_nomem(err);
	TAILQ_INIT(&r->waiting);
	(void)pthread_mutex_init(&r->lock, NULL);
	cond_init(&r->changed);
	rc = make_client(r, cfg, err);
	if (rc == 0)
		rc = start_thread(r, err);
	if (rc < 0) {
		start_reports_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

void start_reports_free(struct start_reports *r)
{
	struct start_report_text *t;

	if (!r)
		return;
	(void)pthread_mutex_lock(&r->lock);
	r->is_stopping = true;
	(void)pthread_cond_signal(&r->changed);
	(void)pthread_mutex_unlock(&r->lock);
	if (r->has_thread)
		(void)pthread_join(r->thread, NULL);
	while ((t = TAILQ_FIRST(&r->waiting))) {
		TAILQ_REMOVE(&r->waiting, t, entry);
		report_free(t);
	}
	service_client_free(r->client);
	free(r->node_header);
	(void)pthread_cond_destroy(&r->changed);
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
}
