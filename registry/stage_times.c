// SPDX-License-Identifier: Apache-2.0
#include "registry/stage_times.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/mutex.h"

#define NAME "bootseer_stage_duration_seconds"
#define WHOLE "bootseer_start_duration_seconds"
#define BOUNDS 12
#define OTHER "other"

static const double bounds[BOUNDS] = { 0.5, 1,   2,   5,   10,   20,
				       60,  120, 300, 600, 1800, 3600 };

struct times_row {
	char stage[STAGE_NAME_MAX + 1];
	/* count of each bucket alone (not cumulative); the last is unbounded */
	uint64_t within[BOUNDS + 1];
	double sum_s;
};

struct stage_times {
	pthread_mutex_t lock; /* protects the other members */
	size_t n;
	struct times_row rows[STAGE_TIMES_MAX + 1]; /* the last is "other" */
	struct times_row whole;
};

int stage_times_new(struct stage_times **ret, struct error *err)
{
	struct stage_times *t = calloc(1, sizeof(*t));

	if (!t)
		return error_nomem(err);
	(void)pthread_mutex_init(&t->lock, NULL);
	*ret = t;
	return 0;
}

void stage_times_free(struct stage_times *t)
{
	if (!t)
		return;
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

/* Index of the stage's row; `n`: there is none. */
static size_t row_at(const struct stage_times *t, const char *stage)
{
	size_t i = 0;

	while (i < t->n && strcmp(t->rows[i].stage, stage) != 0)
		i++;
	return i;
}

static struct times_row *find_row(struct stage_times *t, const char *stage)
{
	size_t i = row_at(t, stage);

	/* Look the row up: a stage may be called "other" itself, and have a row already. */
	if (i == t->n && i >= STAGE_TIMES_MAX) {
		stage = OTHER;
		i = row_at(t, stage);
	}
	if (i == t->n) {
		t->n++;
		(void)snprintf(t->rows[i].stage, sizeof(t->rows[i].stage), "%s",
			       stage);
	}
	return &t->rows[i];
}

static void add_time(struct times_row *row, int64_t ns)
{
	double s = (double)ns / 1e9;
	size_t i = 0;

	while (i < BOUNDS && s > bounds[i])
		i++;
	row->within[i]++;
	row->sum_s += s;
}

void stage_times_add(struct stage_times *t, const struct start_report *r)
{
	(void)pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < r->n_cells; i++)
		if (r->cells[i].runs > r->cells[i].open)
			add_time(find_row(t, r->stages[r->cells[i].stage].name),
				 r->cells[i].duration_ns);
	if (r->is_ready)
		add_time(&t->whole, r->end_ns - r->begin_ns);
	(void)pthread_mutex_unlock(&t->lock);
}

/* Format a histogram. `label` is "" or "stage=\"x\"". */
static int format_row(const struct times_row *row, const char *name,
		      const char *label, struct buf *ret)
{
	const char *comma = label[0] ? "," : "";
	uint64_t n = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < BOUNDS; i++) {
		n += row->within[i];
		rc = buf_printf(ret, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n",
				name, label, comma, bounds[i], n);
	}
	n += row->within[BOUNDS];
	if (rc == 0)
		rc = buf_printf(ret, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n",
				name, label, comma, n);
	if (rc == 0)
		rc = buf_printf(ret,
				"%s_sum{%s} %.3f\n%s_count{%s} %" PRIu64 "\n",
				name, label, row->sum_s, name, label, n);
	return rc;
}

static int format_rows(const struct stage_times *t, struct buf *ret)
{
	int rc = buf_puts(ret,
			  "# HELP " NAME " Time of a stage on a node, of "
			  "starts that are over.\n# TYPE " NAME " histogram\n");

	for (size_t i = 0; rc == 0 && i < t->n; i++) {
		char label[STAGE_NAME_MAX + 16];

		(void)snprintf(label, sizeof(label), "stage=\"%s\"",
			       t->rows[i].stage);
		rc = format_row(&t->rows[i], NAME, label, ret);
	}
	if (rc == 0)
		rc = buf_puts(ret,
			      "# HELP " WHOLE " Time of starts until "
			      "training began.\n# TYPE " WHOLE " histogram\n");
	return rc == 0 ? format_row(&t->whole, WHOLE, "", ret) : rc;
}

int stage_times_format(struct stage_times *t, struct buf *ret)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	return format_rows(t, ret);
}
