// SPDX-License-Identifier: Apache-2.0
/* Handlers for health, readiness, metrics, version and API description. */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/clock.h"
#include "registry/call.h"
#include "registry/metrics.h"
#include "registry/routes.h"

#define JSON "application/json"
#define ROOM_TRACES 4 /* free space wanted, in recordings of size --trace-max */

static int reply_text(struct call *c, const char *type, const char *text,
		      size_t len, struct error *err)
{
	c->reply.type = type;
	if (buf_append(&c->reply.body, text, len) < 0)
		return error_nomem(err);
	return 0;
}

int system_health(struct call *c, struct error *err)
{
	static const char ok[] = "{\"status\":\"ok\"}\n";

	return reply_text(c, JSON, ok, strlen(ok), err);
}

/* Report not ready while there is no room for a few recordings, because a database that cannot grow
 * refuses them, and other replicas may have room. Only the disk of a local file can be checked. */
static int check_room(const struct registry_config *cfg, struct error *err)
{
	static const char sqlite[] = "sqlite:";
	AUTO_FREE char *path = NULL;
	uint64_t left, want = ROOM_TRACES * (uint64_t)cfg->trace_max;
	struct statvfs st;

	if (strncmp(cfg->db, sqlite, strlen(sqlite)) != 0)
		return 0;
	path = strdup(cfg->db + strlen(sqlite));
	if (!path)
		return error_nomem(err);
	if (statvfs(dirname(path), &st) < 0)
		return error_set(err, EBUSY, "folder of the database: %s",
				 strerror(errno));
	left = (uint64_t)st.f_bavail * st.f_frsize;
	if (left >= want)
		return 0;
	return error_set(err, ENOSPC,
			 "the disk of the database is full: %" PRIu64
			 " MiB are free, %" PRIu64 " wanted",
			 left >> 20, want >> 20);
}

static int ping_database(void *arg, struct error *err)
{
	return trace_db_ping(arg, err);
}

int system_ready(struct call *c, struct error *err)
{
	static const char ready[] = "{\"status\":\"ready\"}\n";
	int rc = readiness_ask(&c->service->readiness, clock_now_ns(),
			       ping_database, c->service->db, err);

	if (rc == 0)
		rc = check_room(c->service->cfg, err);
	return rc < 0 ? rc : reply_text(c, JSON, ready, strlen(ready), err);
}

int system_openapi(struct call *c, struct error *err)
{
	const struct buf *text = &c->service->openapi;

	return reply_text(c, JSON, text->data, text->len, err);
}

int system_metrics(struct call *c, struct error *err)
{
	/* Metrics cover all repositories: refuse tokens that are bound to one. */
	int rc = call_check_repo(c, "", err);

	c->reply.type = "text/plain; version=0.0.4; charset=utf-8";
	if (rc == 0 && metrics_format(c->service, &c->reply.body) < 0)
		rc = error_nomem(err);
	return rc;
}
