// SPDX-License-Identifier: Apache-2.0
/* Figures of a report as plain SVG, without scripts and external files. */
#include "cli/ops_figure.h"

#include <math.h>

#include "cli/ops_study.h"
#include "common/text.h"

#define WIDTH 960
#define LEFT 80
#define PLOT (WIDTH - LEFT - 10)
#define HEIGHT 140
#define STRIP 26
#define TICKS 5
#define BARS_MAX 60
#define BAR_HEIGHT 16
#define BAR_LEFT 200
#define LABEL_MAX 64

void ops_figure_text(const char *s, FILE *out)
{
	for (; *s; s++) {
		unsigned char u = (unsigned char)*s;

		if (u == '<')
			(void)fputs("&lt;", out);
		else if (u == '>')
			(void)fputs("&gt;", out);
		else if (u == '&')
			(void)fputs("&amp;", out);
		else if (u == '"')
			(void)fputs("&quot;", out);
		else if (u == '\n' || (u >= ' ' && u != 0x7f))
			(void)fputc(u, out);
		else
			(void)fputc('?', out);
	}
}

static void begin_figure(const char *title, int height, FILE *out)
{
	fprintf(out,
		"<figure><figcaption>%s</figcaption>\n<svg viewBox=\"0 0 %d "
		"%d\" role=\"img\" aria-label=\"%s\">\n",
		title, WIDTH, height, title);
}

static void end_figure(FILE *out)
{
	(void)fputs("</svg></figure>\n", out);
}

static void draw_times(const struct ops_series *s, int y, FILE *out)
{
	for (int i = 0; i <= TICKS; i++) {
		double part = (double)i / TICKS;
		char text[32];

		fprintf(out,
			"<text class=\"t\" x=\"%.1f\" y=\"%d\" "
			"text-anchor=\"%s\">%s</text>\n",
			LEFT + part * PLOT, y,
			i == 0       ? "start"
			: i == TICKS ? "end"
				     : "middle",
			ops_time_text((double)s->begin_s +
					      part * (double)s->n * s->step_s,
				      text));
	}
}

static size_t first_sample_of_column(size_t n, size_t column)
{
	return n * column / PLOT;
}

/* The phase of most samples in the column; but a save or load is always shown. */
static enum ops_phase phase_of_column(const struct ops_phases *p, size_t column)
{
	size_t count[OPS_N_PHASES] = { 0 };
	size_t i = first_sample_of_column(p->n, column);
	size_t to = first_sample_of_column(p->n, column + 1);

	do
		count[p->phase[i]]++;
	while (++i < to);
	return count[OPS_SAVE]                         ? OPS_SAVE
	       : count[OPS_LOAD]                       ? OPS_LOAD
	       : count[OPS_UNKNOWN] > count[OPS_TRAIN] ? OPS_UNKNOWN
						       : OPS_TRAIN;
}

static void draw_phases(const struct ops_phases *p, int y, FILE *out)
{
	static const char *const colours[OPS_N_PHASES] = { "u", "r", "l", "s" };
	size_t from = 0;

	for (size_t i = 1; i <= PLOT; i++) {
		enum ops_phase now = phase_of_column(p, from);

		if (i < PLOT && phase_of_column(p, i) == now)
			continue;
		fprintf(out,
			"<rect class=\"%s\" x=\"%zu\" y=\"%d\" width=\"%zu\" "
			"height=\"%d\"/>\n",
			colours[now], LEFT + from, y, i - from, STRIP);
		from = i;
	}
}

/* The horizontal position of a time within the plot. */
static double x_of_time(const struct ops_series *axis, double at_s)
{
	double part = (at_s - (double)axis->begin_s) /
		      ((double)axis->n * axis->step_s);

	return LEFT + PLOT * fmax(0, fmin(1, part));
}

static void draw_sessions(const struct ops_timeline *t, int y, FILE *out)
{
	static const char *const colours[] = { [OPS_RUNS] = "o",
					       [OPS_DONE] = "o",
					       [OPS_FAILED] = "f",
					       [OPS_REQUEUED] = "f",
					       [OPS_STOPPED] = "o" };

	for (size_t i = 0; i < t->set->n_sessions; i++) {
		const struct ops_session *s = &t->set->sessions[i];
		double from = x_of_time(t->axis, (double)s->begin_s);
		double to = x_of_time(t->axis, (double)s->end_s);
		char at[32];

		if (!ops_is_of(s, t->rule) || to <= from)
			continue;
		fprintf(out,
			"<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
			"height=\"%d\"><title>",
			colours[s->end], from, y, fmax(1, to - from - 0.5),
			STRIP);
		ops_figure_text(s->name, out);
		fprintf(out, " ");
		ops_figure_text(s->job, out);
		fprintf(out, ", from %s, ",
			ops_time_text((double)s->begin_s, at));
		ops_figure_text(s->state, out);
		fprintf(out, "</title></rect>\n");
	}
}

static void draw_failures(const struct ops_timeline *t, int y, FILE *out)
{
	const struct ops_inquiry *q = t->inquiry;

	for (size_t i = 0; i < q->n_failures; i++) {
		double x = x_of_time(t->axis, q->failures[i].at_s);
		char at[32];

		fprintf(out,
			"<path class=\"x\" d=\"M%.1f %dl4 -8h-8z\"><title>", x,
			y + 10);
		ops_figure_text(q->nodes[q->failures[i].node]->name, out);
		fprintf(out, ", %s, XID %u</title></path>\n",
			ops_time_text(q->failures[i].at_s, at),
			q->failures[i].xid);
	}
}

static void draw_lane_name(const char *name, int y, FILE *out)
{
	fprintf(out,
		"<text class=\"t\" x=\"%d\" y=\"%d\" "
		"text-anchor=\"end\">%s</text>\n",
		LEFT - 6, y, name);
}

void ops_figure_timeline(const struct ops_timeline *t, FILE *out)
{
	int y = 0;
	int above = (t->set ? STRIP + 4 : 0) + (t->inquiry ? 16 : 0);

	begin_figure("Large jobs, failures of nodes and phases",
		     above + STRIP + 20, out);
	if (t->set) {
		draw_lane_name("jobs", y + 17, out);
		draw_sessions(t, y, out);
		y += STRIP + 4;
	}
	if (t->inquiry) {
		draw_lane_name("failures", y + 11, out);
		draw_failures(t, y, out);
		y += 16;
	}
	draw_lane_name("phases", y + 17, out);
	draw_phases(t->phases, y, out);
	draw_times(t->axis, y + STRIP + 14, out);
	end_figure(out);
	(void)fputs("<p class=\"q\"><span class=\"k o\"></span> job <span "
		    "class=\"k f\"></span> job that failed <span class=\"k "
		    "r\"></span> training <span class=\"k s\"></span> saves "
		    "<span class=\"k l\"></span> loads, white: unknown</p>\n",
		    out);
}

static double column_value(const struct ops_series *s, size_t column,
			   bool is_lowest)
{
	size_t to = first_sample_of_column(s->n, column + 1);
	double v = (double)NAN;

	for (size_t i = first_sample_of_column(s->n, column); i < to; i++)
		/* fmin() and fmax() ignore missing samples (NaN). */
		v = is_lowest ? fmin(v, s->v[i]) : fmax(v, s->v[i]);
	return v;
}

void ops_figure_line(const char *title, const struct ops_series *s,
		     double scale, const char *unit, bool is_lowest, FILE *out)
{
	double top = 0;
	bool is_open = false;

	for (size_t i = 0; i < s->n; i++)
		top = fmax(top, s->v[i]);
	begin_figure(title, HEIGHT + 20, out);
	fprintf(out,
		"<line class=\"a\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n"
		"<text class=\"t\" x=\"%d\" y=\"12\" text-anchor=\"end\">%.4g "
		"%s</text>\n<text class=\"t\" x=\"%d\" y=\"%d\" "
		"text-anchor=\"end\">0</text>\n",
		LEFT, HEIGHT, WIDTH - 10, HEIGHT, LEFT - 6, top / scale, unit,
		LEFT - 6, HEIGHT);
	for (size_t i = 0; top > 0 && i < PLOT; i++) {
		double v = column_value(s, i, is_lowest);

		if (isnan(v) && s->n >= PLOT) {
			(void)fputs(is_open ? "\"/>\n" : "", out);
			is_open = false;
		}
		if (isnan(v))
			continue;
		if (!is_open)
			(void)fputs("<polyline class=\"d\" points=\"", out);
		is_open = true;
		fprintf(out, "%zu,%.1f ", LEFT + i,
			HEIGHT - (HEIGHT - 4) * fmax(0, v) / top);
	}
	(void)fputs(is_open ? "\"/>\n" : "", out);
	draw_times(s, HEIGHT + 14, out);
	end_figure(out);
}

void ops_figure_bars(const char *title, const struct ops_figure_bar *v,
		     size_t n, const char *unit, double mark, FILE *out)
{
	size_t shown = n < BARS_MAX ? n : BARS_MAX;
	double top = mark, width = WIDTH - BAR_LEFT - 90;

	for (size_t i = 0; i < shown; i++)
		top = fmax(top, v[i].value);
	if (!(top > 0))
		return;
	begin_figure(title, (int)shown * BAR_HEIGHT + 4, out);
	for (size_t i = 0; i < shown; i++) {
		double x = BAR_LEFT + width * v[i].value / top;
		int y = (int)i * BAR_HEIGHT;

		fprintf(out,
			"<text class=\"t\" x=\"%d\" y=\"%d\" "
			"text-anchor=\"end\">",
			BAR_LEFT - 6, y + 12);
		ops_figure_text(v[i].label ? v[i].label : "", out);
		fprintf(out,
			"</text><rect class=\"b\" x=\"%d\" y=\"%d\" "
			"width=\"%.1f\" height=\"%d\"/><text class=\"t\" "
			"x=\"%.1f\" y=\"%d\">%.3g %s</text>\n",
			BAR_LEFT, y + 2, x - BAR_LEFT, BAR_HEIGHT - 4, x + 4,
			y + 12, v[i].value, unit);
	}
	if (mark > 0)
		fprintf(out,
			"<line class=\"m\" x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" "
			"y2=\"%d\"/>\n",
			BAR_LEFT + width * mark / top,
			BAR_LEFT + width * mark / top, (int)shown * BAR_HEIGHT);
	end_figure(out);
	if (n > shown)
		fprintf(out, "<p>%zu more are left out.</p>\n", n - shown);
}

void ops_figure_leads(const struct ops_inquiry *q, FILE *out)
{
	const struct ops_precursors *p = q->found;
	struct ops_figure_bar bars[BARS_MAX];
	char labels[BARS_MAX][LABEL_MAX];
	size_t n = 0;

	/* A failure's departures are sorted by time, so the first is the lead. */
	for (size_t i = 0; i < p->n_departures && n < BARS_MAX; i++) {
		const struct ops_departure *d = &p->departures[i];
		const struct ops_failure *f = &q->failures[d->failure];
		char at[32];

		if (d->warning_s <= 0 ||
		    (i && p->departures[i - 1].failure == d->failure))
			continue;
		(void)snprintf(labels[n], LABEL_MAX, "%s %.30s",
			       ops_time_text(f->at_s, at),
			       q->nodes[f->node]->name);
		text_end_whole(labels[n]);
		bars[n].label = labels[n];
		bars[n++].value = d->lead_s / 60;
	}
	ops_figure_bars("How long before a failure a metric of its node left "
			"its peers'",
			bars, n, "min", 0, out);
}
