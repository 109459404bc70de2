// SPDX-License-Identifier: Apache-2.0
#include "cli/preheat.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "cli/node_ask.h"
#include "cli/plain_output.h"
#include "cli/service.h"
#include "common/clock.h"
#include "common/json.h"
#include "objects/oci.h"

#define TIMEOUT_MS 30000
#define LOOK_MS 1000 /* between two requests for the progress */

bool preheat_is_all(char *const *nodes)
{
	return nodes[0] && !nodes[1] && strcmp(nodes[0], "all") == 0;
}

/* Make JSON of the nodes: "all", or an array of names. */
static json_t *nodes_json(char *const *nodes)
{
	json_t *list;

	if (preheat_is_all(nodes))
		return json_string("all");
	list = json_array();
	for (; list && *nodes; nodes++) {
		const char *p = *nodes;

		while (*p) {
			size_t n = strcspn(p, ",");

			if (n)
				(void)json_array_append_new(list,
							    json_stringn(p, n));
			p += n + (p[n] == ',');
		}
	}
	return list;
}

/* Complete the image's name for the service: with its host, without a transport. */
static int full_ref(const char *ref, char **ret, struct error *err)
{
	struct oci_ref parsed;
	char *text, *rest;
	int rc = oci_ref_parse(ref, &parsed, err);

	if (rc < 0)
		return rc;
	text = oci_ref_format(&parsed);
	if (parsed.transport != OCI_TRANSPORT_REGISTRY)
		rc = error_set(err, EINVAL, "'%s' is in no registry", ref);
	oci_ref_fini(&parsed);
	rest = text ? strstr(text, "://") : NULL;
	if (rc == 0) {
		*ret = text ? strdup(rest ? rest + 3 : text) : NULL;
		rc = *ret ? 0 : error_nomem(err);
	}
	free(text);
	return rc;
}

static int ask_service(struct service_client *c, const char *method,
		       const char *path, const char *body, json_t **ret,
		       struct error *err)
{
	const struct service_request r = {
		.method = method,
		.path = path,
		.headers = { body ? "Content-Type: application/json" : NULL },
		.body = body,
		.body_len = body ? strlen(body) : 0,
	};

	return service_ask(c, &r, ret, err);
}

static int send_order(struct service_client *c, const struct preheat_options *o,
		      long long *ret_id, struct error *err)
{
	AUTO_FREE char *ref = NULL;
	AUTO_FREE char *text = NULL;
	AUTO_JSON *body = NULL;
	AUTO_JSON *reply = NULL;
	int rc = o->env ? 0 : full_ref(o->ref, &ref, err);

	if (rc < 0)
		return rc;
	body = json_pack("{s:s, s:s, s:o, s:O*}", "ref", ref ? ref : o->ref,
			 "what", o->what, "nodes", nodes_json(o->nodes), "env",
			 o->env);
	text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	if (!text)
		return error_set(err, EINVAL, "--nodes: a name is not UTF-8");
	rc = ask_service(c, "POST", "/v1/preheats", text, &reply, err);
	*ret_id = reply_number(reply, "id");
	return rc;
}

struct sum {
	uint64_t have, all;
	size_t open, failed;
};

static bool is_state(const json_t *node, const char *state)
{
	return strcmp(reply_text(node, "state"), state) == 0;
}

static struct sum sum_up_nodes(const json_t *order)
{
	struct sum s = { .open = 0 };
	const json_t *node;
	size_t k;

	json_array_foreach(json_object_get(order, "nodes"), k, node)
	{
		s.have += (uint64_t)reply_number(node, "have_bytes");
		s.all += (uint64_t)reply_number(node, "all_bytes");
		s.failed += is_state(node, "failed");
		s.open +=
			is_state(node, "waiting") || is_state(node, "running");
	}
	return s;
}

static void print_order(const json_t *order)
{
	char have[PROGRESS_BYTES_MAX], all[PROGRESS_BYTES_MAX];
	const json_t *node;
	size_t k;

	json_array_foreach(json_object_get(order, "nodes"), k, node)
	{
		bool failed = is_state(node, "failed");

		printf("%s: %s, %s of %s%s%s\n", reply_text(node, "node"),
		       reply_text(node, "state"),
		       reply_bytes(node, "have_bytes", have),
		       reply_bytes(node, "all_bytes", all), failed ? ": " : "",
		       failed ? reply_text(node, "error") : "");
	}
}

static int conclude_preheat(const struct sum *s, struct error *err)
{
	char count[PROGRESS_COUNT_MAX];

	if (s->open) {
		progress_format_count(s->open, "node", count);
		return error_set(err, ETIMEDOUT,
				 "%s not over within --timeout: does bootseerd "
				 "run there, with this --service?",
				 count);
	}
	if (s->failed) {
		progress_format_count(s->failed, "node", count);
		return error_set(err, EIO, "%s failed", count);
	}
	return 0;
}

static int wait_for_order(struct service_client *c, long long id,
			  int64_t wait_ns, struct error *err)
{
	AUTO(progress) bar = progress_new(plain_output_bar());
	int64_t until = clock_now_ns() + wait_ns;
	AUTO_JSON *order = NULL;
	struct sum s;
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "/v1/preheats/%lld", id);
	for (;;) {
		json_decref(order);
		order = NULL;
		rc = ask_service(c, "GET", path, NULL, &order, err);
		if (rc < 0)
			return rc;
		s = sum_up_nodes(order);
		if (!s.open || clock_now_ns() > until)
			break;
		progress_step(bar, "nodes", s.have, s.all, clock_now_ns());
		(void)poll(NULL, 0, LOOK_MS);
	}
	progress_free(steal_ptr(&bar));
	print_order(order);
	return conclude_preheat(&s, err);
}

int preheat_order(const struct preheat_options *o, struct error *err)
{
	const struct service_client_config cfg = {
		.url = o->service,
		.token_file = o->token_file,
		.ca_file = o->ca_file,
		.timeout_ms = TIMEOUT_MS,
	};
	AUTO(service_client) c = NULL;
	long long id = 0;
	int rc = service_client_new(&cfg, &c, err);

	if (rc == 0)
		rc = send_order(c, o, &id, err);
	if (rc < 0)
		return rc;
	if (o->wait_ns)
		return wait_for_order(c, id, o->wait_ns, err);
	printf("ordered: %lld\n", id);
	return 0;
}
