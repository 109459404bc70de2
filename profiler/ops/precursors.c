// SPDX-License-Identifier: Apache-2.0
/* Analyses one metric after another: finds thresholds in windows without failures, then looks for
 * values beyond them before failures, and in the windows that set no threshold. */
#include "profiler/ops/precursors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "profiler/ops/ops_priv.h"
#include "profiler/ops/scores.h"

/* A slow node has at least this score and share, in so many windows in a row. */
#define SLOW_SCORE 6.0f
#define SLOW_SHARE 0.05f
#define SLOW_WINDOWS 3u
#define BUSY_SHARE 0.5f /* share of the upper quartile of utilisation */
#define DAY_S 86400.0
/* after a failure, a node is not compared with its peers for so long */
#define AFTERMATH_S 600.0

struct ops_study {
	const struct ops_windows *w;
	const struct ops_failure *f;
	size_t n_failures;
	double budget;
	/* The next two: by node and window, OPS_PEERS_MAX * n_all. */
	/* the node is not compared in the window; NULL: all are */
	uint8_t *is_idle;
	/* set only for windows of the rest (without failures) */
	uint8_t *is_alarmed;
	struct ops_precursors found;
	size_t cap_departures, cap_slow;
	/* Results of the current metric, by node and window. */
	float *middle; /* the median score */
	/* relative distance of the value from the peers' median */
	float *share;
	bool *is_slow; /* the node is slow, by node */
};

static size_t cell_of(const struct ops_study *s, size_t node, size_t window)
{
	return node * s->w->n_all + window;
}

int ops_study_new(const struct ops_windows *w, const struct ops_failure *f,
		  size_t n_failures, size_t n_signals, double budget,
		  struct ops_study **ret, struct error *err)
{
	AUTO(ops_study) s = calloc(1, sizeof(*s));
	size_t cells = (size_t)OPS_PEERS_MAX * w->n_all;

	if (!s)
		return error_nomem(err);
	s->w = w;
	s->f = f;
	s->n_failures = n_failures;
	s->budget = budget;
	s->found.n_signals = n_signals;
	s->found.signals = calloc(n_signals + 1, sizeof(*s->found.signals));
	s->found.samples = calloc(n_failures + 1, sizeof(*s->found.samples));
	s->is_alarmed = calloc(cells, 1);
	s->middle = calloc(cells, sizeof(float));
	s->share = calloc(cells, sizeof(float));
	s->is_slow = calloc(OPS_PEERS_MAX, sizeof(bool));
	if (!s->found.signals || !s->found.samples || !s->is_alarmed ||
	    !s->middle || !s->share || !s->is_slow)
		return error_nomem(err);
	for (size_t i = 0; i < n_signals; i++)
		s->found.signals[i].threshold = INFINITY;
	*ret = steal_ptr(&s);
	return 0;
}

void ops_study_free(struct ops_study *s)
{
	if (!s)
		return;
	free(s->found.departures);
	free(s->found.slow);
	for (size_t i = 0; s->found.signals && i < s->found.n_signals; i++)
		free(s->found.signals[i].usual);
	free(s->found.signals);
	free(s->found.samples);
	free(s->is_idle);
	free(s->is_alarmed);
	free(s->middle);
	free(s->share);
	free(s->is_slow);
	free(s);
}

/* ---------------------------------------------------------------------- busy --- */

static float window_median(const float *row, size_t n, float *room)
{
	size_t known = 0;

	for (size_t i = 0; i < n; i++)
		if (!isnan(row[i]))
			room[known++] = row[i];
	return ops_median(room, known);
}

/* The utilisation above which a node counts as working in a window, from the median utilisation of
 * each node, stored in `mid`; NAN: unknown. */
static float find_least_busy_level(const struct ops_panel *gpu, size_t window,
				   size_t n, float *mid, float *room)
{
	size_t known = 0;

	for (size_t node = 0; node < gpu->n_nodes; node++)
		mid[node] =
			gpu->rows[node]
				? window_median(gpu->rows[node] +
							window *
								gpu->windows->n,
						n, room)
				: NAN;
	for (size_t node = 0; node < gpu->n_nodes; node++)
		if (!isnan(mid[node]))
			room[known++] = mid[node];
	return known ? BUSY_SHARE * ops_rank(room, known, known * 3 / 4) : NAN;
}

int ops_study_set_busy(struct ops_study *s, const struct ops_panel *gpu,
		       struct error *err)
{
	AUTO_FREE float *mid = calloc(gpu->n_nodes + 1, sizeof(*mid));
	AUTO_FREE float *room = calloc(gpu->n_nodes + s->w->n, sizeof(*room));

	if (!s->is_idle)
		s->is_idle = calloc((size_t)OPS_PEERS_MAX * s->w->n_all, 1);
	if (!mid || !room || !s->is_idle)
		return error_nomem(err);
	for (size_t w = 0; w < s->w->n_all; w++) {
		/* Use only the samples before the failure, because work ends with it. */
		float least = find_least_busy_level(gpu, w, s->w->n_before, mid,
						    room);

		for (size_t node = 0; !isnan(least) && node < OPS_PEERS_MAX;
		     node++)
			s->is_idle[cell_of(s, node, w)] =
				!(node < gpu->n_nodes && mid[node] >= least);
	}
	return 0;
}

/* -------------------------------------------------------------------- scores --- */

struct panel_room {
	float *values, *scores, *room;
	double *sum; /* sum of shares in a window, by node */
	size_t *n;
};

static int panel_room_init(struct panel_room *r, size_t n)
{
	*r = (struct panel_room){
		.values = calloc(n + 1, sizeof(float)),
		.scores = calloc(n + 1, sizeof(float)),
		.room = calloc(n + 1, sizeof(float)),
		.sum = calloc(n + 1, sizeof(double)),
		.n = calloc(n + 1, sizeof(size_t)),
	};
	return r->values && r->scores && r->room && r->sum && r->n ? 0 : -1;
}

static void panel_room_fini(struct panel_room *r)
{
	free(r->values);
	free(r->scores);
	free(r->room);
	free(r->sum);
	free(r->n);
}

/* Does the node still recover from an earlier failure, so that it is not comparable with its peers?
 * Failures are in the order of time. */
static bool node_recovers_from_failure(const struct ops_study *s, size_t window,
				       size_t node, double at_s)
{
	size_t k = s->w->v[window].failure;

	if (k == SIZE_MAX)
		return false;
	while (k-- > 0 &&
	       s->f[k].at_s + AFTERMATH_S > (double)s->w->v[window].begin_s)
		if (s->f[k].node == node && s->f[k].at_s <= at_s &&
		    at_s < s->f[k].at_s + AFTERMATH_S)
			return true;
	return false;
}

static bool cell_is_compared(const struct ops_study *s, size_t node,
			     size_t window)
{
	return !s->is_idle || !s->is_idle[cell_of(s, node, window)];
}

/* Replace the values of one sample by scores. */
static size_t score_sample(struct ops_study *s, struct ops_panel *p,
			   size_t window, size_t i, struct panel_room *r)
{
	size_t at = window * s->w->n + i, n = 0;
	double at_s =
		(double)s->w->v[window].begin_s + (double)i * s->w->step_s;
	float middle;

	for (size_t node = 0; node < p->n_nodes; node++) {
		bool is_known =
			p->rows[node] && !isnan(p->rows[node][at]) &&
			cell_is_compared(s, node, window) &&
			!node_recovers_from_failure(s, window, node, at_s);

		r->values[node] = is_known ? p->rows[node][at] : NAN;
		n += is_known;
	}
	middle = ops_score_nodes(r->values, p->n_nodes, r->scores, r->room);
	for (size_t node = 0; node < p->n_nodes; node++) {
		if (p->rows[node])
			p->rows[node][at] = r->scores[node];
		if (isnan(r->scores[node]) || middle == 0)
			continue;
		r->sum[node] += (double)(r->values[node] / middle - 1);
		r->n[node]++;
	}
	return n;
}

static size_t score_panel(struct ops_study *s, struct ops_panel *p,
			  struct panel_room *r)
{
	size_t most = 0;

	for (size_t w = 0; w < s->w->n_all; w++) {
		memset(r->sum, 0, p->n_nodes * sizeof(*r->sum));
		memset(r->n, 0, p->n_nodes * sizeof(*r->n));
		for (size_t i = 0; i < s->w->n; i++) {
			size_t n = score_sample(s, p, w, i, r);

			most = n > most ? n : most;
		}
		for (size_t node = 0; node < p->n_nodes; node++)
			s->share[cell_of(s, node, w)] =
				r->n[node] ? (float)(r->sum[node] /
						     (double)r->n[node])
					   : 0;
	}
	return most;
}

static int find_window_medians(struct ops_study *s, const struct ops_panel *p,
			       struct error *err)
{
	size_t n = s->w->n;
	AUTO_FREE float *room = calloc(n, sizeof(*room));

	if (!room)
		return error_nomem(err);
	for (size_t node = 0; node < p->n_nodes; node++)
		for (size_t w = 0; w < s->w->n_all; w++)
			s->middle[cell_of(s, node, w)] =
				p->rows[node]
					? window_median(p->rows[node] + w * n,
							n, room)
					: NAN;
	return 0;
}

/* The median over a node's last three known windows of the rest in [from, to). */
static float recent_score(const struct ops_study *s, size_t node, size_t from,
			  size_t to)
{
	float near[3], v;
	size_t n = 0;

	for (size_t w = to < s->w->n_rest ? to : s->w->n_rest; w-- > from;)
		if (!isnan(v = s->middle[cell_of(s, node, w)]) && n < 3)
			near[n++] = v;
	return n ? ops_median(near, n) : 0;
}

/* A node's usual score, which may permanently differ from its peers': the median of the
 * neighbouring windows of the rest, or for a failure of those before it. */
static float usual_score(const struct ops_study *s, size_t node, size_t window)
{
	size_t to = 0;

	if (window < s->w->n_rest)
		return recent_score(s, node, window ? window - 1 : 0,
				    window + 2);
	while (to < s->w->n_rest &&
	       s->w->v[to].begin_s < s->w->v[window].begin_s)
		to++;
	return recent_score(s, node, 0, to);
}

/* ---------------------------------------------------------------------- slow --- */

static bool is_slow_cell(const struct ops_study *s, size_t node, size_t window,
			 float side)
{
	size_t cell = cell_of(s, node, window);

	return side * s->middle[cell] >= SLOW_SCORE &&
	       side * s->share[cell] >= SLOW_SHARE;
}

static int add_slow_node(struct ops_study *s, const struct ops_slow *slow,
			 struct error *err)
{
	if (array_grow(&s->found.slow, s->found.n_slow, &s->cap_slow, 16) < 0)
		return error_nomem(err);
	s->found.slow[s->found.n_slow++] = *slow;
	return 0;
}

/* Find runs of windows in which a node is slow; windows in which it is unknown do not end a run. */
static int find_slow_node(struct ops_study *s, size_t signal, int slow,
			  uint32_t node, struct error *err)
{
	const struct ops_windows *w = s->w;
	double length_s = (double)w->n * w->step_s, sum = 0;
	size_t first = 0, last = 0, n = 0;

	for (size_t i = 0; i <= w->n_rest; i++) {
		bool is_end = i == w->n_rest;

		if (!is_end && isnan(s->middle[cell_of(s, node, i)]))
			continue;
		if (!is_end && is_slow_cell(s, node, i, (float)slow)) {
			first = n ? first : i;
			last = i;
			sum += (double)s->share[cell_of(s, node, i)];
			n++;
			continue;
		}
		if (n >= SLOW_WINDOWS) {
			struct ops_slow one = {
				.node = node,
				.signal = signal,
				.windows = n,
				.from_s = (double)w->v[first].begin_s,
				.to_s = (double)w->v[last].begin_s + length_s,
				.share = sum / (double)n,
			};
			int rc = add_slow_node(s, &one, err);

			if (rc < 0)
				return rc;
			s->is_slow[node] = true;
		}
		n = 0;
		sum = 0;
	}
	return 0;
}

/* ---------------------------------------------------------------- thresholds --- */

/* Every second window of the rest is used to set thresholds; the others test them. */
static bool is_setting(size_t window)
{
	return window % 2 == 0;
}

static double count_window_days(const struct ops_study *s, bool of_setting)
{
	size_t n = 0;

	for (size_t w = 0; w < s->w->n_rest; w++)
		n += is_setting(w) == of_setting;
	return (double)n * (double)s->w->n * s->w->step_s / DAY_S;
}

static int set_threshold(struct ops_study *s, size_t signal,
			 const struct ops_panel *p, struct error *err)
{
	size_t n = 0, windows = 0;
	AUTO_FREE float *far =
		calloc(p->n_nodes * s->w->n_rest + 1, sizeof(*far));

	if (!far)
		return error_nomem(err);
	for (size_t w = 0; w < s->w->n_rest; w++) {
		if (!is_setting(w))
			continue;
		windows++;
		for (uint32_t node = 0; node < p->n_nodes; node++)
			if (!isnan(s->middle[cell_of(s, node, w)]) &&
			    !s->is_slow[node])
				far[n++] =
					ops_farthest(p->rows[node] +
							     w * s->w->n,
						     s->w->n,
						     usual_score(s, node, w));
	}
	s->found.signals[signal].threshold =
		ops_find_threshold(far, n,
				   s->budget * count_window_days(s, true) /
					   (double)(s->found.n_signals *
						    (n ? n : windows)));
	return 0;
}

/* ------------------------------------------------------------------ findings --- */

static void count_alarms(struct ops_study *s, size_t signal,
			 const struct ops_panel *p)
{
	struct ops_signal_result *r = &s->found.signals[signal];
	struct ops_outside o;

	for (size_t w = 0; w < s->w->n_rest; w++)
		for (uint32_t node = 0; node < p->n_nodes; node++)
			if (!is_setting(w) && !s->is_slow[node] &&
			    p->rows[node] &&
			    ops_find_outside(p->rows[node] + w * s->w->n,
					     s->w->n, usual_score(s, node, w),
					     r->threshold, &o)) {
				s->is_alarmed[cell_of(s, node, w)] = 1;
				r->alarms++;
			}
}

static int find_departure_before_failure(struct ops_study *s, size_t signal,
					 const struct ops_panel *p,
					 size_t window, struct error *err)
{
	size_t i = s->w->v[window].failure, known = 0;
	const struct ops_failure *f = &s->f[i];
	double threshold = s->found.signals[signal].threshold;
	struct ops_precursors *found = &s->found;
	double begin_s = (double)s->w->v[window].begin_s;
	struct ops_outside o;
	const float *z;

	if (f->node >= p->n_nodes || !p->rows[f->node])
		return 0;
	z = p->rows[f->node] + window * s->w->n;
	for (size_t k = 0; k < s->w->n_before; k++)
		known += !isnan(z[k]);
	if (known > found->samples[i])
		found->samples[i] = known;
	if (!ops_find_outside(z, s->w->n, usual_score(s, f->node, window),
			      threshold, &o))
		return 0;
	if (array_grow(&found->departures, found->n_departures,
		       &s->cap_departures, 64) < 0)
		return error_nomem(err);
	found->departures[found->n_departures++] = (struct ops_departure){
		.failure = i,
		.signal = signal,
		.lead_s = f->at_s - begin_s - (double)o.first * s->w->step_s,
		.warning_s = f->at_s - begin_s -
			     (double)(o.first + OPS_STAY - 1) * s->w->step_s,
		.score = o.score,
	};
	return 0;
}

static int store_usual_node_scores(const struct ops_study *s,
				   struct ops_signal_result *r,
				   const struct ops_panel *p, struct error *err)
{
	free(r->usual);
	r->n_usual = 0;
	r->usual = calloc(p->n_nodes + 1, sizeof(*r->usual));
	if (!r->usual)
		return error_nomem(err);
	r->n_usual = p->n_nodes;
	for (size_t node = 0; node < p->n_nodes; node++)
		r->usual[node] = recent_score(s, node, 0, s->w->n_rest);
	return 0;
}

static size_t count_nodes(const struct ops_panel *p)
{
	size_t n = 0;

	for (size_t node = 0; node < p->n_nodes; node++)
		n += p->rows[node] != NULL;
	return n;
}

int ops_study_add(struct ops_study *s, size_t signal, int slow,
		  struct ops_panel *p, struct error *err)
{
	struct ops_signal_result *r = &s->found.signals[signal];
	struct panel_room room;
	int rc = panel_room_init(&room, p->n_nodes) < 0 ? error_nomem(err) : 0;

	memset(s->is_slow, 0, OPS_PEERS_MAX * sizeof(bool));
	if (rc == 0)
		r->nodes = score_panel(s, p, &room);
	panel_room_fini(&room);
	if (rc == 0)
		rc = find_window_medians(s, p, err);
	r->is_elsewhere =
		r->nodes < OPS_PEERS_MIN && count_nodes(p) >= OPS_PEERS_MIN;
	for (uint32_t i = 0; rc == 0 && slow && i < p->n_nodes; i++)
		rc = find_slow_node(s, signal, slow, i, err);
	if (rc == 0 && r->nodes >= OPS_PEERS_MIN)
		rc = set_threshold(s, signal, p, err);
	if (rc == 0)
		count_alarms(s, signal, p);
	for (size_t w = s->w->n_rest; rc == 0 && w < s->w->n_all; w++)
		rc = find_departure_before_failure(s, signal, p, w, err);
	return rc < 0 ? rc : store_usual_node_scores(s, r, p, err);
}

int ops_score_now(const struct ops_signal_result *r,
		  const struct ops_panel *gpu, struct ops_panel *p, float *ret,
		  struct error *err)
{
	size_t n = p->n_nodes + (gpu ? gpu->n_nodes : 0);
	AUTO_FREE float *mid = calloc(n + 1, sizeof(*mid));
	AUTO_FREE float *room = calloc(n + OPS_STAY, sizeof(*room));
	AUTO_FREE float *values = calloc(n + 1, sizeof(*values));
	AUTO_FREE float *scores = calloc(n + 1, sizeof(*scores));
	float least = NAN;

	if (!mid || !room || !values || !scores)
		return error_nomem(err);
	if (gpu)
		least = find_least_busy_level(gpu, 0, OPS_STAY, mid, room);
	for (size_t i = 0; i < OPS_STAY; i++) {
		for (size_t node = 0; node < p->n_nodes; node++) {
			bool is_busy =
				!gpu || (!isnan(least) && node < gpu->n_nodes &&
					 mid[node] >= least);

			values[node] = p->rows[node] && is_busy
					       ? p->rows[node][i]
					       : NAN;
		}
		(void)ops_score_nodes(values, p->n_nodes, scores, room);
		for (size_t node = 0; node < p->n_nodes; node++)
			if (p->rows[node])
				p->rows[node][i] = scores[node];
	}
	for (size_t node = 0; node < p->n_nodes; node++) {
		const float *z = p->rows[node];
		bool is_known = z != NULL;

		for (size_t i = 0; is_known && i < OPS_STAY; i++)
			is_known = !isnan(z[i]);
		ret[node] = is_known ? ops_stayed(z, node < r->n_usual
							     ? r->usual[node]
							     : 0)
				     : NAN;
	}
	return 0;
}

/* ----------------------------------------------------------------------- end --- */

static int compare_departures(const void *x, const void *y)
{
	const struct ops_departure *a = x, *b = y;

	if (a->failure != b->failure)
		return a->failure < b->failure ? -1 : 1;
	if (a->lead_s != b->lead_s)
		return a->lead_s > b->lead_s ? -1 : 1;
	return (a->signal > b->signal) - (a->signal < b->signal);
}

bool ops_was_preceded(const struct ops_precursors *p, size_t failure)
{
	for (size_t i = 0; i < p->n_departures; i++)
		if (p->departures[i].failure == failure &&
		    p->departures[i].warning_s > 0)
			return true;
	return false;
}

const struct ops_precursors *ops_study_end(struct ops_study *s)
{
	struct ops_precursors *p = &s->found;
	size_t nodes = 0;

	if (p->n_departures)
		qsort(p->departures, p->n_departures, sizeof(*p->departures),
		      compare_departures);
	p->compared = p->preceded = p->alarms = 0;
	for (size_t i = 0; i < s->n_failures; i++) {
		p->compared += p->samples[i] > 0;
		p->preceded += ops_was_preceded(p, i);
	}
	for (size_t i = 0; i < (size_t)OPS_PEERS_MAX * s->w->n_all; i++)
		p->alarms += s->is_alarmed[i];
	for (size_t i = 0; i < p->n_signals; i++)
		if (p->signals[i].nodes > nodes)
			nodes = p->signals[i].nodes;
	p->days = count_window_days(s, false);
	ops_bound_events(p->alarms, &p->alarms_low, &p->alarms_high);
	/* Alarms are expected at the same rate in the windows before failures as in the test
	 * windows, of which each node has one at each time. */
	p->by_chance =
		nodes ? (double)p->compared * (double)p->alarms /
				((double)nodes * (double)(s->w->n_rest / 2))
		      : 0;
	return p;
}
