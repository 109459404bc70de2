// SPDX-License-Identifier: Apache-2.0
/* /v1/swarms: docs/formats/registry-api.md. Everything here runs on the loop thread. */
#include "registry/swarms.h"

#include <errno.h>
#include <jansson.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/log.h"
#include "p2p/tracker/tracker_json.h"
#include "registry/call.h"
#include "registry/routes.h"

#define MISSED_MAX 5 /* a member that missed so many announcements is removed */
#define MS INT64_C(1000000)
#define TELL_NS (60 * 1000 * MS)
#define RETRY_FULL_S 10

struct swarms {
	struct tracker *tracker;
	/* Buffers for the current call; they are large, so there is one of each. */
	struct tracker_call_text heard;
	struct tracker_answer answer;
	/* when two nodes with the same name were last logged; 0: never */
	int64_t namesake_told;
};

int swarms_new(const struct registry_config *cfg, struct swarms **ret,
	       struct error *err)
{
	struct tracker_config t = tracker_config_default;
	struct swarms *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	t.memory_max = cfg->swarm_memory;
	t.interval_ns = cfg->swarm_interval;
	t.member_ttl_ns = MISSED_MAX * cfg->swarm_interval;
	/* A new seed at each start of the service makes a new epoch. */
	if (getrandom(&t.seed, sizeof(t.seed), 0) != (ssize_t)sizeof(t.seed))
		rc = error_errno(err, errno, "random numbers");
	else
		rc = tracker_new(&t, &s->tracker, err);
	if (rc < 0) {
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void swarms_free(struct swarms *s)
{
	if (!s)
		return;
	tracker_free(s->tracker);
	free(s);
}

void swarms_get_stats(struct swarms *s, struct tracker_stats *ret)
{
	tracker_sweep(s->tracker, clock_now_ns());
	tracker_get_stats(s->tracker, ret);
}

/* Log that two nodes use the same name, at most once a minute; all cases are counted. */
static void log_namesake(struct swarms *s)
{
	int64_t now = clock_now_ns();

	if (!s->answer.namesake[0] ||
	    (s->namesake_told && now - s->namesake_told < TELL_NS))
		return;
	s->namesake_told = now;
	log_warning("swarms",
		    "two nodes have one name node=\"%s\" addr=\"%s\" "
		    "other=\"%s\": give each its own --node-name",
		    s->heard.node, s->heard.addr, s->answer.namesake);
}

int swarms_post(struct call *c, struct error *err)
{
	struct swarms *s = c->service->swarms;
	const struct httpd_request *r = c->req;
	int rc = tracker_call_from_json(r->body ? r->body : "",
					r->head.content_length, &s->heard, err);

	if (rc == 0)
		rc = digest_parse(call_param(c, "digest"), &s->heard.call.image,
				  err);
	if (rc == 0)
		rc = call_check_node(c, s->heard.node, err);
	if (rc == 0)
		rc = tracker_hear(s->tracker, &s->heard.call, clock_now_ns(),
				  &s->answer, err);
	if (rc == -ENOSPC) {
		/* The limit is this image's, not the service's, which 503 would mean. */
		c->status = HTTPD_TOO_MANY;
		c->retry_after_s = RETRY_FULL_S;
	}
	if (rc == 0)
		log_namesake(s);
	if (rc == 0)
		rc = tracker_answer_to_json(&s->answer, &c->reply.body, err);
	c->reply.type = "application/json";
	return rc;
}

struct swarm_lines {
	json_t *array;
	size_t max;
	int64_t now;
	int rc;
};

static int lines_init(struct swarm_lines *l, const struct call *c)
{
	*l = (struct swarm_lines){ .array = json_array(),
				   .max = (size_t)call_number(c, "limit",
							      LIMIT_DEFAULT),
				   .now = clock_now_ns() };
	tracker_sweep(c->service->swarms->tracker, l->now);
	return l->array ? 0 : -ENOMEM;
}

/* Append a line; takes `o`. */
static void add_line(struct swarm_lines *l, json_t *o)
{
	if (json_array_append_new(l->array, o) < 0)
		l->rc = -ENOMEM;
}

static json_t *image_line(const struct tracker_image_info *i)
{
	char image[DIGEST_STR_MAX];

	digest_format(&i->image, image);
	return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "image", image,
			 "pieces", (json_int_t)i->n_pieces, "members",
			 (json_int_t)i->members, "complete",
			 (json_int_t)i->complete, "leases",
			 (json_int_t)i->leases, "read", (json_int_t)i->done,
			 "flying_bytes", (json_int_t)i->flying, "window_bytes",
			 (json_int_t)i->window);
}

static void add_image(void *arg, const struct tracker_image_info *i)
{
	struct swarm_lines *l = arg;

	if (json_array_size(l->array) < l->max)
		add_line(l, image_line(i));
}

static void add_member(void *arg, const struct tracker_member_info *i)
{
	const struct tracker_member *m = &i->member;
	struct swarm_lines *l = arg;

	if (json_array_size(l->array) >= l->max)
		return;
	add_line(l,
		 json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I}", "node",
			   m->node, "addr", m->addr, "rack", m->rack, "zone",
			   m->zone, "region", m->region, "have",
			   (json_int_t)m->have, "leases", (json_int_t)i->leases,
			   "flying_bytes", (json_int_t)i->flying, "silent_ms",
			   (json_int_t)((l->now - i->seen) / MS)));
}

int swarms_list(struct call *c, struct error *err)
{
	struct swarm_lines l;
	/* The list has images of all repositories: refuse tokens that are bound to a repository. */
	int rc = call_check_repo(c, "", err);

	if (rc < 0)
		return rc;
	if (lines_init(&l, c) < 0)
		return error_nomem(err);
	tracker_each_image(c->service->swarms->tracker, add_image, &l);
	if (l.rc < 0) {
		json_decref(l.array);
		return error_nomem(err);
	}
	return call_send_json(c, json_pack("{s:o}", "swarms", l.array), err);
}

int swarms_get(struct call *c, struct error *err)
{
	struct tracker *t = c->service->swarms->tracker;
	struct tracker_image_info i;
	struct digest image;
	struct swarm_lines l;
	int rc = call_check_repo(c, "", err);
	json_t *o;

	if (rc == 0)
		rc = digest_parse(call_param(c, "digest"), &image, err);
	if (rc < 0)
		return rc;
	if (lines_init(&l, c) < 0)
		return error_nomem(err);
	if (!tracker_get_image(t, &image, &i)) {
		json_decref(l.array);
		return call_fail(c, HTTPD_NOT_FOUND, NULL, err,
				 "nobody takes part in this image");
	}
	tracker_each_member(t, &image, add_member, &l);
	o = l.rc < 0 ? NULL : image_line(&i);
	if (!o || json_object_set(o, "nodes", l.array) < 0) {
		json_decref(o);
		o = NULL;
	}
	json_decref(l.array);
	return call_send_json(c, o, err);
}
