// SPDX-License-Identifier: Apache-2.0
/* Finds saves, loads and training from the rates of all nodes together. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "profiler/ops/ops_priv.h"

/* A save or load may have pauses of at most so many samples. */
#define PAUSE_SAMPLES_MAX 3
/* If saves seem to take more than this share of the time, they cannot be told apart from other
 * writes. */
#define SAVE_TIME_MAX 0.5
/* % of utilisation that counts as busy, if the data show no two groups */
#define GPU_BUSY 50.0

static bool is_above(const struct ops_series *s, const struct ops_level *l,
		     size_t i)
{
	return s->v && l->is_found && s->v[i] > l->threshold;
}

static double share_of_samples_above(const struct ops_series *s,
				     const struct ops_level *l)
{
	size_t known = 0, above = 0;

	for (size_t i = 0; i < s->n; i++) {
		known += !isnan(s->v[i]);
		above += is_above(s, l, i);
	}
	return known ? (double)above / (double)known : 0;
}

/* The paper's rules, applied in this order: save, load, train. */
static enum ops_phase judge_sample(const struct ops_phases *p,
				   const struct ops_series *write,
				   const struct ops_series *read,
				   const struct ops_series *gpu, size_t i)
{
	if (is_above(write, &p->write, i))
		return OPS_SAVE;
	if (is_above(read, &p->read, i) &&
	    !(gpu->v && gpu->v[i] >= p->gpu.threshold))
		return OPS_LOAD;
	return isnan(write->v[i]) && (!gpu->v || isnan(gpu->v[i])) ? OPS_UNKNOWN
								   : OPS_TRAIN;
}

static void measure_burst(const struct ops_series *s, struct ops_burst *b)
{
	double step = (double)s->step_s, moment = 0;

	/* A sample is the rate over the step before it. */
	b->begin_s = (double)s->begin_s + ((double)b->first - 1) * step;
	b->end_s = b->begin_s + (double)b->n * step;
	for (size_t i = b->first; i < b->first + b->n; i++) {
		double at = (double)(i - b->first) + 0.5;

		if (isnan(s->v[i]))
			continue;
		b->bytes += s->v[i] * step;
		moment += s->v[i] * step * at;
		b->peak = fmax(b->peak, s->v[i]);
	}
	b->middle_s = b->begin_s;
	if (b->bytes > 0)
		b->middle_s += moment / b->bytes * step;
}

/* Find runs of samples in `phase`; `s` has their rates. */
static int find_bursts(const struct ops_phases *p, enum ops_phase phase,
		       const struct ops_series *s, struct ops_burst **ret,
		       size_t *ret_n, struct error *err)
{
	size_t cap = 0, n = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct ops_burst *last = n ? &(*ret)[n - 1] : NULL;

		if (p->phase[i] != phase)
			continue;
		if (last && i - (last->first + last->n) <= PAUSE_SAMPLES_MAX) {
			last->n = i + 1 - last->first;
			continue;
		}
		if (array_grow(ret, n, &cap, 64) < 0)
			return error_nomem(err);
		(*ret)[n++] = (struct ops_burst){ .first = i,
						  .n = 1,
						  .setting = SIZE_MAX };
		*ret_n = n;
	}
	for (size_t i = 0; i < n; i++)
		measure_burst(s, &(*ret)[i]);
	return 0;
}

static void set_phase_of_each_sample(struct ops_phases *p,
				     const struct ops_series *write,
				     const struct ops_series *read,
				     const struct ops_series *gpu)
{
	for (size_t i = 0; i < p->n; i++) {
		enum ops_phase v = judge_sample(p, write, read, gpu, i);

		p->phase[i] = (uint8_t)v;
		p->length_s[v] += (double)write->step_s;
		if (v == OPS_TRAIN && gpu->v && gpu->v[i] < p->gpu.threshold)
			p->idle_s += (double)write->step_s;
	}
}

static int check_series(const struct ops_series *write,
			const struct ops_series *read,
			const struct ops_series *gpu, struct error *err)
{
	const struct ops_series *all[] = { write, read, gpu };

	if (!write->v || !write->n || !write->step_s)
		return error_set(err, EINVAL, "no rate of writes is known");
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i]->v && (all[i]->n != write->n ||
				  all[i]->begin_s != write->begin_s ||
				  all[i]->step_s != write->step_s))
			return error_set(err, EINVAL,
					 "the series are of other times");
	return 0;
}

static struct ops_level make_level_of_rate(uint64_t rate)
{
	return (struct ops_level){ .is_found = true,
				   .threshold = (double)rate };
}

int ops_find_phases(const struct ops_series *write,
		    const struct ops_series *read, const struct ops_series *gpu,
		    const struct ops_rates *given, struct ops_phases *ret,
		    struct error *err)
{
	int rc = check_series(write, read, gpu, err);

	*ret = (struct ops_phases){ .n = write->n };
	if (rc < 0)
		return rc;
	ret->phase = calloc(write->n, 1);
	if (!ret->phase)
		return error_nomem(err);
	ret->write = given && given->save ? make_level_of_rate(given->save)
					  : ops_find_level(write, true);
	if (!(given && given->save) &&
	    share_of_samples_above(write, &ret->write) > SAVE_TIME_MAX)
		ret->write.is_found = false;
	if (read->v)
		ret->read = given && given->load
				    ? make_level_of_rate(given->load)
				    : ops_find_level(read, true);
	if (gpu->v)
		ret->gpu = ops_find_level(gpu, false);
	if (!ret->gpu.is_found)
		ret->gpu.threshold = GPU_BUSY;
	set_phase_of_each_sample(ret, write, read, gpu);
	rc = find_bursts(ret, OPS_SAVE, write, &ret->saves, &ret->n_saves, err);
	if (rc == 0 && read->v)
		rc = find_bursts(ret, OPS_LOAD, read, &ret->loads,
				 &ret->n_loads, err);
	if (rc == 0)
		rc = ops_find_settings(ret, err);
	if (rc < 0)
		ops_phases_fini(ret);
	return rc;
}

void ops_phases_fini(struct ops_phases *p)
{
	free(p->phase);
	free(p->saves);
	free(p->loads);
	free(p->settings);
	*p = (struct ops_phases){ .n = 0 };
}

const struct ops_burst *ops_last_save(const struct ops_phases *p, double at_s)
{
	const struct ops_burst *last = NULL;

	for (size_t i = 0; i < p->n_saves && p->saves[i].end_s <= at_s; i++)
		last = &p->saves[i];
	return last;
}
