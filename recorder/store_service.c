// SPDX-License-Identifier: Apache-2.0
/* Traces kept by bootseer-registry: docs/formats/registry-api.md. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "net/service_client.h"
#include "recorder/store_priv.h"

#define LIST_MAX (2u << 20) /* bytes of a list */
#define LIST_LIMIT 1000     /* limit of the service */

struct service_store {
	struct trace_store base;
	struct service_client *client;
	char *node;
};

/* A request and its answer. */
struct store_call {
	struct service_store *s;
	struct buf path;
	struct service_request req;
	struct service_answer answer;
};

static struct service_store *store_of(struct trace_store *s)
{
	return container_of(s, struct service_store, base);
}

/* ------------------------------------------------------------------- a call --- */

static void call_init(struct store_call *c, struct service_store *s,
		      const char *method, size_t answer_max)
{
	*c = (struct store_call){
		.s = s,
		.req = { .method = method },
		.answer = { .head = HTTP_RESPONSE_INIT,
			    .body = { .limit = answer_max } },
	};
}

static void call_fini(struct store_call *c)
{
	buf_fini(&c->path);
	service_answer_fini(&c->answer);
}

/* Set the path "/v1/traces", for all traces or those of an image. */
static int set_call_path(struct store_call *c, const struct digest *image)
{
	char name[DIGEST_STR_MAX];

	if (!image)
		return buf_puts(&c->path, "/v1/traces");
	digest_format(image, name);
	return buf_printf(&c->path, "/v1/traces/%s", name);
}

/* Send the request; 0 when the answer is successful. */
static int send_store_call(struct store_call *c, struct error *err)
{
	c->req.path = c->path.data;
	return service_client_do(c->s->client, &c->req, &c->answer, err);
}

static int bad_answer(const struct store_call *c, int rc, struct error *err)
{
	return error_wrap(err, rc == -EINVAL ? -EBADMSG : rc, "%s %s%s",
			  c->req.method, service_client_url(c->s->client),
			  c->path.data);
}

/* ----------------------------------------------------------------------- get --- */

static int read_match(const struct store_call *c, enum trace_match *ret,
		      struct error *err)
{
	static const char *const names[] = {
		[TRACE_MATCH_OWN] = "own",
		[TRACE_MATCH_RELATIVE] = "relative",
		[TRACE_MATCH_WORKLOAD] = "workload",
		[TRACE_MATCH_FAR] = "far",
		[TRACE_MATCH_PREDICTED] = "predicted",
	};
	AUTO_FREE char *text = http_header(&c->answer.head, "bootseer-match");

	for (size_t i = 0; text && i < ARRAY_SIZE(names); i++)
		if (strcmp(text, names[i]) == 0) {
			*ret = (enum trace_match)i;
			return 0;
		}
	return error_set(err, EBADMSG,
			 "the answer has no Bootseer-Match that is known "
			 "here: is it a bootseer-registry?");
}

static int read_found(const struct store_call *c, struct trace_found *ret,
		      struct error *err)
{
	AUTO_FREE char *wanted =
		http_header(&c->answer.head, "bootseer-wanted");
	const char *body = c->answer.body.data ? c->answer.body.data : "";
	size_t len = c->answer.body.len;
	int rc = read_match(c, &ret->match, err);

	if (rc == 0)
		rc = ret->match == TRACE_MATCH_PREDICTED
			     ? prediction_decode(body, len, &ret->trace, err)
			     : trace_decode(body, len, &ret->trace, err);
	ret->wanted = wanted && strcmp(wanted, "1") == 0;
	return rc < 0 ? bad_answer(c, rc, err) : 0;
}

static int service_get(struct trace_store *s, const struct trace_query *q,
		       struct trace_found *ret, struct error *err)
{
	struct store_call c;
	int rc;

	call_init(&c, store_of(s), "GET", TRACE_BYTES_MAX);
	c.req.headers[0] = "Accept: " TRACE_MEDIA_TYPE;
	c.req.headers[1] = q->predict ? "Bootseer-Predict: 1" : NULL;
	rc = set_call_path(&c, &q->image);
	if (rc == 0)
		rc = service_client_param(&c.path, "workload", q->workload);
	if (rc == 0)
		rc = service_client_param(&c.path, "repo", q->repo);
	if (rc == 0)
		rc = service_client_param(&c.path, "exact",
					  q->exact ? "1" : NULL);
	rc = rc < 0 ? error_nomem(err) : send_store_call(&c, err);
	if (rc == 0)
		rc = read_found(&c, ret, err);
	call_fini(&c);
	return rc;
}

static int service_put(struct trace_store *s, const struct trace *t,
		       struct error *err)
{
	const struct trace one = store_as_one_run(t);
	AUTO_BUF node = BUF_INIT;
	AUTO_BUF data = BUF_INIT;
	struct store_call c;
	int rc = trace_encode(&one, &data, err);

	if (rc < 0)
		return rc;
	call_init(&c, store_of(s), "POST", LIST_MAX);
	c.req.body = data.data;
	c.req.body_len = data.len;
	c.req.headers[0] = "Content-Type: " TRACE_MEDIA_TYPE;
	rc = buf_printf(&node, "Bootseer-Node: %s", c.s->node);
	c.req.headers[1] = node.data;
	if (rc == 0)
		rc = set_call_path(&c, &t->info.image);
	if (rc == 0)
		rc = service_client_param(&c.path, "workload",
					  t->info.workload);
	if (rc == 0)
		rc = service_client_param(&c.path, "repo",
					  *t->info.repo ? t->info.repo : NULL);
	rc = rc < 0 ? error_nomem(err) : send_store_call(&c, err);
	call_fini(&c);
	return rc;
}

static int service_list(struct trace_store *s, const struct trace_query *q,
			struct trace_info **ret, size_t *ret_n,
			struct error *err)
{
	bool image = store_has_image(q);
	struct store_list l = { .infos = NULL };
	char limit[16];
	struct store_call c;
	int rc;

	if (!image && !q->repo)
		return error_set(err, EINVAL,
				 "the trace service lists an image or a "
				 "repository");
	call_init(&c, store_of(s), "GET", LIST_MAX);
	(void)snprintf(limit, sizeof(limit), "%d", LIST_LIMIT);
	rc = set_call_path(&c, image ? &q->image : NULL);
	if (rc == 0)
		rc = service_client_param(&c.path, "repo",
					  image ? NULL : q->repo);
	if (rc == 0)
		rc = service_client_param(&c.path, "limit", limit);
	rc = rc < 0 ? error_nomem(err) : send_store_call(&c, err);
	if (rc == 0) {
		rc = store_list_parse(c.answer.body.data ? c.answer.body.data
							 : "",
				      c.answer.body.len, q->workload, &l, err);
		rc = rc < 0 ? bad_answer(&c, rc, err) : 0;
	}
	call_fini(&c);
	if (rc < 0) {
		store_list_fini(&l);
		return rc;
	}
	*ret = l.infos;
	*ret_n = l.n;
	return 0;
}

static int service_remove(struct trace_store *s, const struct trace_query *q,
			  struct error *err)
{
	struct store_call c;
	json_t *j;
	int rc;

	call_init(&c, store_of(s), "DELETE", LIST_MAX);
	rc = set_call_path(&c, &q->image);
	if (rc == 0)
		rc = service_client_param(&c.path, "workload", q->workload);
	rc = rc < 0 ? error_nomem(err) : send_store_call(&c, err);
	if (rc == 0) {
		j = json_loadb(c.answer.body.data ? c.answer.body.data : "",
			       c.answer.body.len, 0, NULL);
		if (json_integer_value(json_object_get(j, "removed")) < 1)
			rc = error_set(err, ENOENT,
				       "%s%s: the trace service has no such "
				       "trace",
				       service_client_url(c.s->client),
				       c.path.data);
		json_decref(j);
	}
	call_fini(&c);
	return rc;
}

/* ---------------------------------------------------------------------- open --- */

static void store_free(struct trace_store *store)
{
	struct service_store *s = store_of(store);

	service_client_free(s->client);
	free(s->node);
	free(s);
}

static const struct trace_store_ops service_ops = {
	.name = "service",
	.get = service_get,
	.put = service_put,
	.list = service_list,
	.remove = service_remove,
	.free = store_free,
};

int trace_service_new(const struct trace_service_config *cfg,
		      struct trace_store **ret, struct error *err)
{
	const struct service_client_config service = {
		.url = cfg->url,
		.token_file = cfg->token_file,
		.ca_file = cfg->ca_file,
		.plain_token = cfg->plain_token,
		.plain_cure = cfg->plain_cure,
		.cert_file = cfg->cert_file,
		.key_file = cfg->key_file,
		.timeout_ms = cfg->timeout_ms,
	};
	struct service_store *s;
	int rc = service_client_check_node(cfg->node, err);

	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	s->base.ops = &service_ops;
	s->node = strdup(cfg->node);
	rc = s->node ? service_client_new(&service, &s->client, err)
		     : error_nomem(err);
	if (rc < 0) {
		store_free(&s->base);
		return rc;
	}
	*ret = &s->base;
	return 0;
}
