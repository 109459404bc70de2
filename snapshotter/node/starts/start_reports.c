// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/starts/start_reports.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/periodic.h"
#include "net/service_client.h"
#include "snapshotter/node/starts/report_files.h"

#define SEND_MS 3000
#define PAUSE_MIN_NS (5 * NS_PER_S)
#define PAUSE_MAX_NS (600 * NS_PER_S)
#define ANSWER_MAX 4096

/* A report in the list.  Any thread appends one; only the sender changes and removes it. */
struct start_report_text {
	TAILQ_ENTRY(start_report_text) entry;
	char *path, *body;
	uint64_t number; /* number of its file; 0: it has no file */
	bool is_kept;    /* its file was written, or could not be */
};
TAILQ_HEAD(start_report_list, start_report_text);

struct start_reports {
	struct service_client *client;
	struct report_files *files;
	char *node_header;
	struct periodic *sender;
	/* it was logged that a report could not be kept in a file */
	bool is_unkept;
	pthread_mutex_t lock;             /* protects the rest */
	struct start_report_list waiting; /* the oldest first */
	size_t n;
	int64_t next_at, pause_ns; /* time of the next try after a failure */
	/* a failure was logged; false again once a report is sent */
	bool is_told;
	struct start_reports_stats stats;
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
	AUTO_FINI(service_answer) answer = { .head = HTTP_RESPONSE_INIT,
					     .body = { .limit = ANSWER_MAX } };

	return service_client_do(r->client, &req, &answer, err);
}

/* Is the failure one that a later try would not change?  The service is older, or the token
 * does not allow reports. */
static bool is_failure_final(int rc)
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
			    is_failure_final(rc)
				    ? ""
				    : " action=\"tried again later\"");
	r->is_told = true;
	if (is_failure_final(rc))
		return;
	r->pause_ns = r->pause_ns ? 2 * r->pause_ns : PAUSE_MIN_NS;
	if (r->pause_ns > PAUSE_MAX_NS)
		r->pause_ns = PAUSE_MAX_NS;
	r->next_at = clock_now_ns() + r->pause_ns;
}

/* ------------------------------------------------------------------- sender --- */

/* The first report without a file.  Lock held. */
static struct start_report_text *
find_report_without_file(struct start_reports *r)
{
	struct start_report_text *t = TAILQ_FIRST(&r->waiting);

	while (t && t->is_kept)
		t = TAILQ_NEXT(t, entry);
	return t;
}

/* Write the report to a file.  Called without the lock: it stays in the list, and only this
 * thread removes reports. */
static void keep_report(struct start_reports *r, struct start_report_text *t)
{
	struct error err = ERROR_INIT;

	t->is_kept = true;
	if (report_files_put(r->files, t->path, t->body, &t->number, &err) == 0)
		return;
	if (!r->is_unkept)
		log_warning("starts",
			    "figures are not kept over a restart reason=\"%s\"",
			    err.msg);
	r->is_unkept = true;
}

/* Remove a report that was sent or is not wanted any more.  Lock held, and released meanwhile. */
static void remove_report(struct start_reports *r, struct start_report_text *t)
{
	TAILQ_REMOVE(&r->waiting, t, entry);
	r->n--;
	(void)pthread_mutex_unlock(&r->lock);
	if (t->number)
		report_files_drop(r->files, t->number);
	report_free(t);
	(void)pthread_mutex_lock(&r->lock);
}

/* Send the first report.  Lock held, and released meanwhile. */
static void send_first(struct start_reports *r)
{
	struct start_report_text *t = TAILQ_FIRST(&r->waiting);
	struct error err = ERROR_INIT;
	int rc;

	(void)pthread_mutex_unlock(&r->lock);
	rc = send_report(r, t, &err);
	(void)pthread_mutex_lock(&r->lock);
	note_sent(r, rc, err.msg);
	if (rc < 0 && !is_failure_final(rc))
		return;
	r->stats.sent += rc == 0;
	r->stats.dropped += rc < 0;
	remove_report(r, t);
}

/* Write files for all reports that have none.  Lock held, and released meanwhile. */
static void keep_all(struct start_reports *r)
{
	struct start_report_text *t;

	while ((t = find_report_without_file(r))) {
		(void)pthread_mutex_unlock(&r->lock);
		keep_report(r, t);
		(void)pthread_mutex_lock(&r->lock);
	}
}

/* A round of the sender sends one report at most, so that closing does not wait for more. */
static int64_t send_reports(void *arg)
{
	struct start_reports *r = arg;
	int64_t next_at = 0;

	(void)pthread_mutex_lock(&r->lock);
	keep_all(r);
	if (r->n > START_REPORTS_MAX) {
		/* Too many wait: drop the oldest, since newer reports are worth more. */
		r->stats.dropped++;
		remove_report(r, TAILQ_FIRST(&r->waiting));
	} else if (!r->n) {
		next_at = INT64_MAX;
	} else if (clock_now_ns() < r->next_at) {
		next_at = r->next_at;
	} else {
		send_first(r);
	}
	(void)pthread_mutex_unlock(&r->lock);
	return next_at;
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

	/* Without the workload's key the service could not show the report. */
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
	/* Neither the disk nor the service has answered for so long that the report is dropped. */
	if (r->n >= 2 * START_REPORTS_MAX) {
		r->stats.dropped++;
	} else {
		TAILQ_INSERT_TAIL(&r->waiting, t, entry);
		r->n++;
		t = NULL;
	}
	(void)pthread_mutex_unlock(&r->lock);
	if (!t)
		periodic_wake(r->sender);
	report_free(t);
}

void start_reports_get_stats(struct start_reports *r,
			     struct start_reports_stats *ret)
{
	*ret = (struct start_reports_stats){ .waiting = 0 };
	if (!r)
		return;
	(void)pthread_mutex_lock(&r->lock);
	*ret = r->stats;
	ret->waiting = r->n;
	(void)pthread_mutex_unlock(&r->lock);
}

/* --------------------------------------------------------------- new and free --- */

static int make_client(struct start_reports *r, const struct node_config *cfg,
		       struct error *err)
{
	const struct service_client_config service =
		node_config_service(cfg, SEND_MS);
	const char *node = cfg->node_name;
	char host[256] = "";
	int rc;

	if (!node && gethostname(host, sizeof(host) - 1) < 0)
		return error_errno(err, errno, "hostname");
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

/* Add a report of an earlier bootseerd; the sender thread does not run yet. */
static int take_kept(void *arg, uint64_t number, const char *path,
		     const char *body)
{
	struct start_report_text *t = calloc(1, sizeof(*t));
	struct start_reports *r = arg;

	if (!t)
		return -ENOMEM;
	t->number = number;
	t->is_kept = true;
	t->path = strdup(path);
	t->body = strdup(body);
	if (!t->path || !t->body) {
		report_free(t);
		return -ENOMEM;
	}
	TAILQ_INSERT_TAIL(&r->waiting, t, entry);
	r->n++;
	return 0;
}

/* Read the reports that an earlier bootseerd did not send. */
static int open_files(struct start_reports *r, const struct node_config *cfg,
		      struct error *err)
{
	AUTO_FREE char *dir = fs_join(cfg->root, "start-reports");
	int rc =
		dir ? report_files_open(dir, &r->files, err) : error_nomem(err);

	return rc < 0 ? rc
		      : report_files_load(r->files, START_REPORTS_MAX,
					  START_REPORT_BYTES, take_kept, r,
					  &r->stats.dropped, err);
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
	rc = make_client(r, cfg, err);
	if (rc == 0)
		rc = open_files(r, cfg, err);
	if (rc == 0)
		rc = periodic_start(send_reports, r, 0, &r->sender, err);
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
	periodic_stop(r->sender);
	(void)pthread_mutex_lock(&r->lock);
	keep_all(r);
	(void)pthread_mutex_unlock(&r->lock);
	while ((t = TAILQ_FIRST(&r->waiting))) {
		TAILQ_REMOVE(&r->waiting, t, entry);
		report_free(t);
	}
	service_client_free(r->client);
	report_files_close(r->files);
	free(r->node_header);
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
}
