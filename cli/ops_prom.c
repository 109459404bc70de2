// SPDX-License-Identifier: Apache-2.0
/* Read a cluster's metrics for bootseer ops: as time series, and the samples of each save. */
#include "cli/ops_prom.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/array.h"
#include "common/buf.h"
#include "common/clock.h"

#define DAY_S INT64_C(86400)
/* Points of a first query to find where data exist.  Few points cost the server least, but may
 * miss a short time of data in a long range; then many are tried. */
#define SURVEY_FEW 500
#define SURVEY_MANY 8000
#define SURVEY_STEP_MIN_S 60
/* span of samples that the scrape interval is computed from */
#define SAMPLES_S 900u
#define STEP_MAX_S 3600u
#define USED_POINTS 500
/* saves; if there are more, only every k-th is measured */
#define MEASURED_MAX 2000
#define REQUESTS_BURSTS 20 /* the last bursts, of which requests are measured */
#define MARGIN_SAMPLES 4   /* samples read before and after a save */
#define GPU_EACH 10u
#define TOLD_AFTER_NS (2 * NS_PER_S)
#define TOLD_SAVES 200
#define FLOWS_MAX 1000000u
#define TIME_MAX_S INT64_C(100000000000)

struct ops_gather {
	const struct ops_prom_config *c;
	struct prom *prom;
	struct ops_metrics *m;
	int64_t begin_ns; /* start of the command, for progress messages */
	struct buf query;
};

/* ------------------------------------------------------------------- options --- */

int ops_read_time(const char *text, int64_t *ret, struct error *err)
{
	static const char *const forms[] = { "%Y-%m-%dT%H:%M:%SZ",
					     "%Y-%m-%dT%H:%MZ", "%Y-%m-%d" };
	char *end;
	long long s = strtoll(text, &end, 10);

	if (*text && !*end && s >= 0 && s < TIME_MAX_S) {
		*ret = s;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tm tm = { .tm_year = 0 };
		const char *rest = strptime(text, forms[i], &tm);

		if (rest && !*rest) {
			*ret = (int64_t)timegm(&tm);
			return 0;
		}
	}
	return error_set(err, EINVAL,
			 "'%s' is no time: wanted is 2025-10-01, "
			 "2025-10-01T12:00:00Z, or seconds since 1970",
			 text);
}

static int read_times(const struct ops_prom_config *c, uint64_t days,
		      int64_t *from_s, int64_t *to_s, struct error *err)
{
	int rc = 0;

	*to_s = (int64_t)time(NULL);
	if (c->to)
		rc = ops_read_time(c->to, to_s, err);
	*from_s = *to_s - (int64_t)days * DAY_S;
	if (rc == 0 && c->from)
		rc = ops_read_time(c->from, from_s, err);
	if (rc == 0 && *from_s >= *to_s)
		rc = error_set(err, EINVAL, "--from is not before --to");
	return rc;
}

/* Is this a list of names between commas?  Queries are made of them, so nothing else may pass. */
static bool are_names(const char *list)
{
	char name[128];

	while (*list) {
		size_t n = strcspn(list, ",");

		if (n >= sizeof(name))
			return false;
		memcpy(name, list, n);
		name[n] = '\0';
		if (!prom_is_name(name))
			return false;
		list += n + (list[n] == ',');
	}
	return true;
}

int ops_prom_check(const struct ops_prom_config *c, struct error *err)
{
	const char *const names[] = { c->write, c->read,     c->gpu,
				      c->size,  c->free,     c->requests,
				      c->queue, c->response, c->node_label };
	int64_t from_s, to_s;

	if (!c->url == !c->data)
		return error_set(err, EINVAL,
				 "name the server that has the metrics: "
				 "--prometheus URL, or else --prometheus-data "
				 "PATH");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!prom_is_name(names[i]))
			return error_set(err, EINVAL,
					 "'%s' is no name of a metric or label",
					 names[i]);
	if (!are_names(c->replica_labels))
		return error_set(err, EINVAL,
				 "--replica-labels '%s': wanted are names, "
				 "with commas between them",
				 c->replica_labels);
	return read_times(c, 1, &from_s, &to_s, err);
}

/* ------------------------------------------------------------------- queries --- */

/* Append "name{match,more}" to the query. */
static int add_selector(struct ops_gather *g, const char *name,
			const char *more)
{
	const char *match = g->c->match ? g->c->match : "";

	return buf_printf(&g->query, "%s{%s%s%s}", name, match,
			  *match && *more ? "," : "", more);
}

static int ask_range(struct ops_gather *g, int64_t from_s, uint32_t step_s,
		     size_t n, double *v, struct error *err)
{
	return prom_range(g->prom, g->query.data, from_s, step_s, n, v, err);
}

static int new_series(struct ops_series *s, int64_t from_s, uint32_t step_s,
		      int64_t to_s, struct error *err)
{
	size_t n = (size_t)((to_s - from_s) / step_s) + 1;

	if (n > OPS_POINTS_MAX)
		return error_set(err, EFBIG,
				 "%zu samples are too many: ask for fewer days",
				 n);
	*s = (struct ops_series){ .begin_s = from_s,
				  .step_s = step_s,
				  .n = n,
				  .v = calloc(n, sizeof(*s->v)) };
	return s->v ? 0 : error_nomem(err);
}

/* Drop a series without any value: the metric does not exist. */
static void drop_empty_series(struct ops_series *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (!isnan(s->v[i]))
			return;
	free(s->v);
	s->v = NULL;
}

static void tell_reading(const struct ops_gather *g, const char *what)
{
	if (clock_now_ns() - g->begin_ns > TOLD_AFTER_NS)
		(void)fprintf(stderr, "reading %s\n", what);
}

static int read_series(struct ops_gather *g, const char *what,
		       struct ops_series *s, uint32_t step_s, struct error *err)
{
	int rc = new_series(s, g->m->from_s, step_s, g->m->to_s, err);

	tell_reading(g, what);
	if (rc == 0)
		rc = ask_range(g, s->begin_s, s->step_s, s->n, s->v, err);
	if (rc == 0)
		drop_empty_series(s);
	return rc;
}

/* Read each node's growth between its last two samples (irate): a burst is then seen exactly in
 * its samples, and one lost sample hides none. */
static int read_rate(struct ops_gather *g, const char *name,
		     struct ops_series *s, struct error *err)
{
	buf_reset(&g->query);
	if (buf_printf(&g->query, "max(sum by(%s)(irate(",
		       g->c->replica_labels) < 0 ||
	    add_selector(g, name, "") < 0 ||
	    buf_printf(&g->query, "[%" PRIu32 "s])))",
		       g->m->step_s * 7 / 2 + 1) < 0)
		return error_nomem(err);
	return read_series(g, name, s, g->m->step_s, err);
}

/* Near these samples, does a node read enough for a load? */
static bool is_load_near(const struct ops_series *read, size_t first, size_t n,
			 double threshold)
{
	for (size_t i = first; i < first + n && i < read->n; i++)
		if (read->v[i] > threshold)
			return true;
	return false;
}

/* Read GPU samples at full resolution where nodes read much: only there does it matter when the
 * GPUs began to work. */
static int refine_gpus(struct ops_gather *g, struct error *err)
{
	const struct ops_series *read = &g->m->read;
	struct ops_series *gpu = &g->m->gpu;
	struct ops_level level = { .is_found = g->c->load_above > 0,
				   .threshold = (double)g->c->load_above };
	size_t begin = 0, n = 0;
	int rc = 0;

	if (!level.is_found && read->v)
		level = ops_find_level(read, true);
	if (!level.is_found || !read->v)
		return 0;
	for (size_t i = 0; rc == 0 && i < gpu->n + GPU_EACH; i += GPU_EACH) {
		size_t from = i < GPU_EACH ? 0 : i - GPU_EACH;

		if (i < gpu->n &&
		    is_load_near(read, from, 3 * GPU_EACH, level.threshold)) {
			begin = n ? begin : i;
			n = i + GPU_EACH < gpu->n ? i + GPU_EACH - begin
						  : gpu->n - begin;
			continue;
		}
		if (n)
			rc = ask_range(g,
				       gpu->begin_s +
					       (int64_t)begin * gpu->step_s,
				       gpu->step_s, n, gpu->v + begin, err);
		n = 0;
	}
	return rc;
}

/* GPUs have the most series, so every tenth sample is read where nodes read little. */
static int read_gpus(struct ops_gather *g, struct error *err)
{
	struct ops_series few = { .v = NULL }, *gpu = &g->m->gpu;
	int rc;

	buf_reset(&g->query);
	/* avg() is not changed by copies of series from several servers. */
	if (buf_puts(&g->query, "avg(") < 0 ||
	    add_selector(g, g->c->gpu, "") < 0 || buf_puts(&g->query, ")") < 0)
		return error_nomem(err);
	rc = read_series(g, g->c->gpu, &few, GPU_EACH * g->m->step_s, err);
	if (rc == 0 && few.v)
		rc = new_series(gpu, g->m->from_s, g->m->step_s, g->m->to_s,
				err);
	for (size_t i = 0; rc == 0 && gpu->v && i < gpu->n; i++) {
		size_t k = (i + GPU_EACH / 2) / GPU_EACH;

		gpu->v[i] = few.v[k < few.n ? k : few.n - 1];
	}
	if (rc == 0 && gpu->v)
		rc = refine_gpus(g, err);
	free(few.v);
	return rc;
}

static int read_used(struct ops_gather *g, struct error *err)
{
	static const char nfs[] = "fstype=~\"nfs.*\"";
	int64_t step = (g->m->to_s - g->m->from_s) / USED_POINTS;

	if (step < g->m->step_s)
		step = g->m->step_s;
	buf_reset(&g->query);
	if (buf_puts(&g->query, "max(") < 0 ||
	    add_selector(g, g->c->size, nfs) < 0 ||
	    buf_puts(&g->query, "-") < 0 ||
	    add_selector(g, g->c->free, nfs) < 0 ||
	    buf_puts(&g->query, ")") < 0)
		return error_nomem(err);
	return read_series(g, g->c->size, &g->m->used, (uint32_t)step, err);
}

/* -------------------------------------------------------------------- survey --- */

static int set_no_metric_error(const struct ops_gather *g, const char *name,
			       struct error *err)
{
	return error_set(err, ENOENT,
			 "%s has no %s%s%s%s in this time: check --from, --to, "
			 "--match and %s",
			 g->c->url, name, g->c->match ? "{" : "",
			 g->c->match ? g->c->match : "", g->c->match ? "}" : "",
			 name == g->c->write
				 ? "--metric-nfs-write (node_exporter needs "
				   "--collector.mountstats)"
				 : "its name");
}

/* Cut the range to where data exist, by a query of `points` points, and count the nodes.  -ENOENT:
 * no point had data. */
static int survey_points(struct ops_gather *g, const char *name, int points,
			 int64_t *last_s, struct error *err)
{
	struct ops_metrics *m = g->m;
	int64_t step = (m->to_s - m->from_s) / points;
	size_t first = SIZE_MAX, last = 0;
	struct ops_series s = { .v = NULL };
	int rc;

	if (step < SURVEY_STEP_MIN_S)
		step = SURVEY_STEP_MIN_S;
	rc = read_series(g, name, &s, (uint32_t)step, err);
	for (size_t i = 0; rc == 0 && s.v && i < s.n; i++)
		if (!isnan(s.v[i])) {
			first = first == SIZE_MAX ? i : first;
			last = i;
			m->nodes = fmax(m->nodes, s.v[i]);
		}
	free(s.v);
	if (rc < 0)
		return rc;
	if (first == SIZE_MAX)
		return set_no_metric_error(g, name, err);
	*last_s = m->from_s + (int64_t)last * step;
	if (*last_s + step < m->to_s)
		m->to_s = *last_s + step;
	if (first > 0)
		m->from_s += (int64_t)(first - 1) * step;
	return 0;
}

static int survey_metrics(struct ops_gather *g, const char *name,
			  int64_t *last_s, struct error *err)
{
	int rc;

	buf_reset(&g->query);
	if (buf_printf(&g->query, "count(count by(%s)(", g->c->node_label) <
		    0 ||
	    add_selector(g, name, "") < 0 || buf_puts(&g->query, "))") < 0)
		return error_nomem(err);
	rc = survey_points(g, name, SURVEY_FEW, last_s, err);
	return rc == -ENOENT ? survey_points(g, name, SURVEY_MANY, last_s, err)
			     : rc;
}

struct sample_distances {
	double *v;
	size_t n, cap;
};

static int add_distances(void *arg, const struct prom_series *s,
			 struct error *err)
{
	struct sample_distances *d = arg;

	for (size_t i = 1; i < s->n; i++) {
		if (array_grow(&d->v, d->n, &d->cap, 256) < 0)
			return error_nomem(err);
		d->v[d->n++] = s->at_s[i] - s->at_s[i - 1];
	}
	return 0;
}

static struct prom_samples make_samples_query(struct ops_gather *g,
					      double end_s, uint32_t length_s)
{
	return (struct prom_samples){ .selector = g->query.data,
				      .end_s = end_s,
				      .length_s = length_s,
				      .node_label = g->c->node_label,
				      .replica_labels = g->c->replica_labels };
}

static int check_step(const struct ops_gather *g, const char *name,
		      struct error *err)
{
	return g->m->step_s <= STEP_MAX_S
		       ? 0
		       : error_set(err, ERANGE,
				   "samples of %s are %u s apart, which is too "
				   "coarse to see a save",
				   name, g->m->step_s);
}

/* Find the distance of samples, in a time with data. */
static int find_step(struct ops_gather *g, const char *name, int64_t last_s,
		     struct error *err)
{
	struct sample_distances d = { .n = 0 };
	struct ops_spread spread;
	struct prom_samples s;
	int rc = 0;

	/* Skipped if the distance was given: the samples of all series may be too many for one
	 * reply. */
	if (g->c->step_s) {
		g->m->step_s = (uint32_t)g->c->step_s;
		return check_step(g, name, err);
	}
	buf_reset(&g->query);
	if (add_selector(g, name, "") < 0)
		return error_nomem(err);
	for (uint32_t length = SAMPLES_S;
	     rc == 0 && !d.n && length <= 16 * SAMPLES_S; length *= 4) {
		s = make_samples_query(g, (double)last_s, length);
		rc = prom_samples(g->prom, &s, add_distances, &d, err);
	}
	spread = ops_spread_of(d.v, d.n);
	free(d.v);
	if (rc == -EFBIG)
		return error_wrap(err, rc,
				  "say how far samples are apart "
				  "(--scrape-interval), or take fewer series "
				  "(--match)");
	if (rc < 0)
		return rc;
	if (!d.n)
		return set_no_metric_error(g, name, err);
	if (spread.median > 0)
		g->m->jitter = (spread.p75 - spread.p25) / spread.median;
	g->m->step_s = (uint32_t)fmax(1, round(spread.median));
	return check_step(g, name, err);
}

/* --------------------------------------------------------------------- saves --- */

struct node_flows {
	struct ops_flow *v; /* own their texts */
	size_t n, cap;
};

static void free_flows(struct node_flows *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free((char *)(uintptr_t)f->v[i].node);
		free((char *)(uintptr_t)f->v[i].id);
	}
	free(f->v);
}

static int add_flow(void *arg, const struct prom_series *s, struct error *err)
{
	struct node_flows *f = arg;
	AUTO_FREE struct ops_sample *v = calloc(s->n + 1, sizeof(*v));
	struct ops_flow *to;
	size_t n = 0;

	if (f->n == FLOWS_MAX)
		return error_set(err, EFBIG, "more than %u series", FLOWS_MAX);
	if (!v || array_grow(&f->v, f->n, &f->cap, 64) < 0)
		return error_nomem(err);
	for (size_t i = 0; i < s->n; i++)
		if (isfinite(s->v[i]))
			v[n++] = (struct ops_sample){ s->at_s[i], s->v[i] };
	to = &f->v[f->n++];
	*to = (struct ops_flow){ .node = strdup(s->node),
				 .id = strdup(s->id),
				 .samples = n,
				 .growth = ops_find_growth(v, n) };
	return to->node && to->id ? 0 : error_nomem(err);
}

/* Measure a save's burst.  If its samples are too many for one reply, it is counted as unmeasured:
 * the other results are still worth showing. */
static int measure_save(struct ops_gather *g, struct ops_burst *b,
			struct error *err)
{
	double margin = (double)MARGIN_SAMPLES * g->m->step_s;
	struct node_flows f = { .n = 0 };
	struct prom_samples s =
		make_samples_query(g, b->end_s + margin,
				   (uint32_t)(b->end_s - b->begin_s +
					      2 * margin));
	int rc = prom_samples(g->prom, &s, add_flow, &f, err);

	if (rc == 0) {
		AUTO_FREE struct ops_flow *copy =
			calloc(f.n + 1, sizeof(*copy));

		if (!copy)
			rc = error_nomem(err);
		else {
			if (f.n)
				memcpy(copy, f.v, f.n * sizeof(*copy));
			rc = ops_sum_flows(copy, f.n, b, err);
		}
	}
	free_flows(&f);
	if (rc == -EFBIG) {
		g->m->n_too_large++;
		return 0;
	}
	return rc;
}

static int measure_saves(struct ops_gather *g, struct error *err)
{
	struct ops_phases *p = &g->m->phases;
	size_t each = p->n_saves / MEASURED_MAX + 1;
	int rc = 0;

	buf_reset(&g->query);
	if (add_selector(g, g->c->write, "") < 0)
		return error_nomem(err);
	for (size_t i = 0; rc == 0 && i < p->n_saves; i += each) {
		if (i % TOLD_SAVES == 0)
			tell_reading(g, "the counters around saves");
		rc = measure_save(g, &p->saves[i], err);
		g->m->n_measured += p->saves[i].nodes > 0;
	}
	return rc < 0 ? rc : ops_time_settings(p, err);
}

/* ------------------------------------------------------------------- requests --- */

/* Measure how much a counter with these labels grew during a burst, summed over all nodes. */
static int measure_counter(struct ops_gather *g, const struct ops_burst *b,
			   const char *name, const char *labels,
			   struct ops_burst *ret, struct error *err)
{
	*ret = (struct ops_burst){ .begin_s = b->begin_s, .end_s = b->end_s };
	buf_reset(&g->query);
	if (add_selector(g, name, labels) < 0)
		return error_nomem(err);
	return measure_save(g, ret, err);
}

static int measure_requests(struct ops_gather *g, const struct ops_burst *b,
			    const char *bytes, const char *labels,
			    struct ops_rpc *to, struct error *err)
{
	const struct {
		const char *name, *labels;
		double *sum;
	} counters[] = { { g->c->requests, labels, &to->requests },
			 { g->c->queue, labels, &to->queue_s },
			 { g->c->response, labels, &to->response_s },
			 { bytes, "", &to->bytes } };
	double growth[ARRAY_SIZE(counters)];
	struct ops_burst grown = { .n = 0 };

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		int rc = measure_counter(g, b, counters[i].name,
					 counters[i].labels, &grown, err);

		if (rc < 0)
			return rc;
		if (!grown.nodes)
			return 0;
		growth[i] = grown.bytes;
	}
	/* Add all four counters or none, as means divide one by another. */
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		*counters[i].sum += growth[i];
	/* `grown` now has the last counter, of bytes. */
	to->node_s +=
		(double)grown.nodes *
		(isnan(grown.takes_s) ? b->end_s - b->begin_s : grown.takes_s);
	return 0;
}

static int measure_all_requests(struct ops_gather *g, struct error *err)
{
	const struct ops_phases *p = &g->m->phases;
	size_t saves =
		p->n_saves < REQUESTS_BURSTS ? 0 : p->n_saves - REQUESTS_BURSTS;
	size_t loads =
		p->n_loads < REQUESTS_BURSTS ? 0 : p->n_loads - REQUESTS_BURSTS;
	int rc = 0;

	for (size_t i = saves; rc == 0 && i < p->n_saves; i++)
		rc = measure_requests(g, &p->saves[i], g->c->write,
				      "operation=\"WRITE\"", &g->m->saving,
				      err);
	for (size_t i = loads; rc == 0 && i < p->n_loads; i++)
		rc = measure_requests(g, &p->loads[i], g->c->read,
				      "operation=\"READ\"", &g->m->loading,
				      err);
	return rc;
}

static int read_all_metrics(struct ops_gather *g, struct error *err)
{
	const struct ops_rates given = { g->c->save_above, g->c->load_above };
	struct ops_metrics *m = g->m;
	int64_t last_s = 0;
	int rc = survey_metrics(g, g->c->write, &last_s, err);

	if (rc == 0)
		rc = find_step(g, g->c->write, last_s, err);
	if (rc == 0)
		rc = read_rate(g, g->c->write, &m->write, err);
	if (rc == 0 && !m->write.v)
		rc = set_no_metric_error(g, g->c->write, err);
	if (rc == 0)
		rc = read_rate(g, g->c->read, &m->read, err);
	if (rc == 0)
		rc = read_gpus(g, err);
	if (rc == 0)
		rc = read_used(g, err);
	if (rc == 0)
		rc = ops_find_phases(&m->write, &m->read, &m->gpu, &given,
				     &m->phases, err);
	if (rc == 0)
		rc = measure_saves(g, err);
	return rc < 0 ? rc : measure_all_requests(g, err);
}

int ops_prom_open(const struct ops_prom_config *c, struct prom **ret,
		  struct error *err)
{
	const struct prom_config cfg = {
		.url = c->url,
		.auth_file = c->auth,
		.ca_file = c->ca,
		.auth_option = "--prometheus-auth",
		.ca_option = "--prometheus-ca",
		.timeout_ms = (uint32_t)(c->timeout_ns / NS_PER_MS),
	};

	return prom_new(&cfg, ret, err);
}

int ops_prom_survey(const struct ops_prom_config *c, struct prom *p,
		    uint64_t days, const char *const *names, size_t n,
		    struct ops_span *ret, struct error *err)
{
	struct ops_metrics m = { .n_measured = 0 };
	struct ops_gather g = {
		.c = c, .prom = p, .m = &m, .begin_ns = clock_now_ns()
	};
	int64_t last_s = 0;
	int rc = -ENOENT;

	for (size_t i = 0; i < n && rc == -ENOENT; i++) {
		rc = read_times(c, days, &m.from_s, &m.to_s, err);
		if (rc == 0)
			rc = survey_metrics(&g, names[i], &last_s, err);
		if (rc == 0)
			rc = find_step(&g, names[i], last_s, err);
	}
	buf_fini(&g.query);
	*ret = (struct ops_span){ m.from_s, m.to_s, m.step_s };
	return rc;
}

int ops_read_metrics(const struct ops_prom_config *c, uint64_t days,
		     struct ops_metrics **ret, struct error *err)
{
	AUTO(ops_metrics) m = calloc(1, sizeof(*m));
	AUTO(prom) p = NULL;
	struct ops_gather g = { .c = c, .m = m };
	int rc = m ? ops_prom_open(c, &p, err) : error_nomem(err);

	if (rc == 0)
		rc = read_times(c, days, &m->from_s, &m->to_s, err);
	if (rc < 0)
		return rc;
	g.prom = p;
	g.begin_ns = clock_now_ns();
	rc = read_all_metrics(&g, err);
	buf_fini(&g.query);
	if (rc < 0)
		return rc;
	m->requests = prom_requests(p);
	(void)snprintf(m->warning, sizeof(m->warning), "%s", prom_warning(p));
	*ret = steal_ptr(&m);
	return 0;
}

void ops_metrics_free(struct ops_metrics *m)
{
	if (!m)
		return;
	free(m->write.v);
	free(m->read.v);
	free(m->gpu.v);
	free(m->used.v);
	ops_phases_fini(&m->phases);
	free(m);
}

const char *ops_time_text(double at_s, char out[32])
{
	time_t s = (time_t)at_s;
	struct tm tm;

	if (!gmtime_r(&s, &tm) || !strftime(out, 32, "%F %H:%MZ", &tm))
		(void)snprintf(out, 32, "-");
	return out;
}
