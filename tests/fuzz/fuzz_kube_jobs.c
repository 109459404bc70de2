// SPDX-License-Identifier: Apache-2.0
/* Objects of Kubernetes, whose names and messages are users', and the jobs and outages in them. */
#include <string.h>

#include "common/bounded_json.h"
#include "profiler/ops/kube_jobs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define NOW_S 2000000000

static void must_hold(bool holds)
{
	if (!holds)
		__builtin_trap();
}

/* Jobs that are written are read as jobs: no name breaks a line or a column. */
static void look_into(struct ops_kube *k)
{
	struct buf text = BUF_INIT;
	struct error err = ERROR_INIT;
	struct ops_set *s = NULL;

	must_hold(ops_kube_write_jobs(k, &text, &err) == 0);
	must_hold(ops_read_sacct(&text, NOW_S, &s, &err) == 0);
	must_hold(ops_kube_add_outages(k, NOW_S, s, &err) == 0);
	for (size_t i = 0; i < s->n_sessions; i++)
		must_hold(ops_length(&s->sessions[i]) >= 0);
	for (size_t i = 0; i < s->n_outages; i++)
		must_hold(s->outages[i].from_s < s->outages[i].to_s &&
			  *s->outages[i].node &&
			  !strchr(s->outages[i].why, '\n'));
	ops_set_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct error err = ERROR_INIT;
	struct ops_kube *k = NULL;
	json_t *object = NULL;

	must_hold(ops_kube_new(&k, &err) == 0);
	if (bounded_json_load(data, len, "it", &object, &err) == 0) {
		must_hold(ops_kube_add(k, "", object, &err) == 0);
		must_hold(ops_kube_add(k, "Pod", object, &err) == 0);
		look_into(k);
	}
	json_decref(object);
	ops_kube_free(k);
	return 0;
}
