// SPDX-License-Identifier: Apache-2.0
/* sacct's output, in which users choose the names of jobs, and all that is found in it. */
#include <math.h>
#include <string.h>

#include "profiler/ops/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void look_into(const struct ops_set *s)
{
	const struct ops_rule r = { .nodes_min = 1, .trained_s = 60 };
	struct error err = ERROR_INIT;
	struct ops_exclusions e;
	struct ops_chains c;
	struct ops_cost cost;

	for (size_t i = 0; i < s->n_sessions; i++) {
		const struct ops_session *v = &s->sessions[i];

		must(ops_length(v) >= 0 && strlen(v->name) <= s->text.len);
		must(v->first + (size_t)v->n_nodes <= s->n_places);
	}
	for (size_t i = 0; i < s->n_places; i++)
		must(s->places[i] < s->n_nodes);
	must(ops_find_chains(s, &r, &c, &err) == 0);
	must(c.attempts <= s->n_sessions && c.recovered <= c.n);
	ops_chains_fini(&c);
	ops_find_cost(s, &r, &cost);
	must(cost.failed <= cost.sessions && !(cost.low_s > cost.high_s));
	must(ops_find_exclusions(s, &r, &e, &err) == 0);
	for (size_t i = 0; i < e.n; i++)
		must(e.v[i].sessions <= e.sessions &&
		     e.v[i].held_s <= e.v[i].excluded_s);
	ops_exclusions_fini(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct buf text = BUF_INIT;
	struct ops_set *s = NULL;
	struct error err = ERROR_INIT;

	must(buf_append(&text, data, len) == 0);
	if (ops_read_sacct(&text, 2000000000, &s, &err) == 0)
		look_into(s);
	ops_set_free(s);
	return 0;
}
