// SPDX-License-Identifier: Apache-2.0
/* node.doctor_report: takes the result of `bootseer node doctor` for this node's figures, and
 * passes it on to the service with the node's own credentials. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/json.h"
#include "net/service_client.h"
#include "snapshotter/node/control/methods.h"
#include "snapshotter/node/control/node.h"

#define TIMEOUT_MS 10000

static void note_checks(struct node *n, const json_t *checks)
{
	uint64_t missing = 0, advice = 0;
	const json_t *one;
	size_t k;

	json_array_foreach(checks, k, one)
	{
		if (json_is_true(json_object_get(one, "ok")))
			continue;
		if (json_is_true(json_object_get(one, "needed")))
			missing++;
		else
			advice++;
	}
	atomic_store(&n->doctor.missing, missing);
	atomic_store(&n->doctor.advice, advice);
	atomic_store(&n->doctor.at, (uint64_t)time(NULL));
}

static int send_checks(struct node *n, json_t *checks, struct error *err)
{
	const struct service_client_config cfg =
		node_config_service(n->cfg, TIMEOUT_MS);
	AUTO_JSON *body = json_pack("{s:O}", "checks", checks);
	AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	AUTO(service_client) client = NULL;
	AUTO_FINI(service_answer) answer = { .head = HTTP_RESPONSE_INIT,
					     .body = { .limit = 4096 } };
	char host[256] = "", path[320];
	const char *node = n->cfg->node_name;
	struct service_request r = {
		.method = "PUT",
		.path = path,
		.headers = { "Content-Type: application/json" },
		.body = text,
		.body_len = text ? strlen(text) : 0,
	};
	int rc;

	if (!text)
		return error_nomem(err);
	if (!node && gethostname(host, sizeof(host) - 1) == 0)
		node = host;
	rc = service_client_check_node(node ? node : "", err);
	if (rc < 0)
		return rc;
	(void)snprintf(path, sizeof(path), "/v1/nodes/%s/doctor", node);
	rc = service_client_new(&cfg, &client, err);
	if (rc == 0)
		rc = service_client_do(client, &r, &answer, err);
	return rc;
}

json_t *method_doctor_report(struct node *n, json_t *params,
			     struct remote_call *call, struct error *err)
{
	json_t *checks;

	if (params_unpack(params, err, "{s:o}", "checks", &checks) < 0)
		return NULL;
	if (!json_is_array(checks)) {
		error_set(err, EINVAL, "parameters: checks is no list");
		return NULL;
	}
	if (n->cfg->service && (!call || call->is_local)) {
		error_set(err, EINPROGRESS, "the service is needed");
		return NULL;
	}
	note_checks(n, checks);
	if (n->cfg->service && send_checks(n, checks, err) < 0)
		return NULL;
	return json_pack("{s:b}", "sent", n->cfg->service != NULL);
}
