// SPDX-License-Identifier: Apache-2.0
/* Computes the time that failures lost: since the last save. */
#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "profiler/ops/ops_priv.h"

static bool is_known(const struct ops_phases *p, const struct ops_series *s,
		     double at_s)
{
	double index = floor((at_s - (double)s->begin_s) / s->step_s);

	return index >= 0 && index < (double)p->n &&
	       p->phase[(size_t)index] != OPS_UNKNOWN;
}

static double find_loss(const struct ops_phases *p, const struct ops_session *v,
			bool *has_save)
{
	const struct ops_burst *last = ops_last_save(p, (double)v->end_s);

	*has_save = last && last->end_s > (double)v->begin_s;
	return (double)v->end_s -
	       (*has_save ? last->end_s : (double)v->begin_s);
}

int ops_find_losses(const struct ops_set *s, const struct ops_rule *r,
		    const struct ops_phases *p, const struct ops_series *write,
		    struct ops_losses *ret, struct error *err)
{
	size_t cap = 0;

	*ret = (struct ops_losses){ .n = 0 };
	for (size_t i = 0; i < s->n_sessions; i++) {
		const struct ops_session *v = &s->sessions[i];
		struct ops_loss loss = { .session = i };

		if (v->end != OPS_FAILED || !ops_is_of(v, r) ||
		    !ops_has_trained(v, r))
			continue;
		loss.lost_s = find_loss(p, v, &loss.has_save);
		/* Skip a session whose end the metrics do not cover, or, without a save, its
		 * begin. */
		if (!is_known(p, write, (double)v->end_s) ||
		    (!loss.has_save &&
		     !is_known(p, write, (double)v->begin_s))) {
			ret->n_unknown++;
			continue;
		}
		if (array_grow(&ret->v, ret->n, &cap, 32) < 0) {
			ops_losses_fini(ret);
			return error_nomem(err);
		}
		ret->v[ret->n++] = loss;
		ret->sum_s += loss.lost_s;
		ret->gpu_s += loss.lost_s * v->gpus;
	}
	return 0;
}

void ops_losses_fini(struct ops_losses *l)
{
	free(l->v);
	*l = (struct ops_losses){ .n = 0 };
}
