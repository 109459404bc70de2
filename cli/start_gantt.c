// SPDX-License-Identifier: Apache-2.0
#include "cli/start_gantt.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/text.h"

#define NAME_MAX_WIDTH 24
#define BAR_MIN 20
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define IDLE '.'
#define OPEN '?' /* the stage began, and has no known end */
#define FAILED '!'
#define START_SECONDS_MAX 1e9

void start_print_text(const char *s, int min, int max, FILE *out)
{
	AUTO_FREE char *text = strndup(s, (size_t)max);

	if (!text)
		return;
	text_make_printable(text);
	(void)fprintf(out, "%-*s", min, text);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "?";
}

static double number_of(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

void start_duration(const json_t *o, const char *key,
		    char out[DURATION_TEXT_MAX])
{
	double s = number_of(o, key);

	/* Limit the service's number to what int64_t can hold. */
	if (!(s > -START_SECONDS_MAX && s < START_SECONDS_MAX))
		s = 0;
	duration_format((int64_t)(s * (double)NS_PER_S), out);
}

static bool is_set(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

/* The letter of a stage: its index among the stages that are not inside another. */
static char letter_of_stage(const json_t *start, const char *stage)
{
	const json_t *s;
	size_t k, n = 0;

	json_array_foreach(json_object_get(start, "stages"), k, s)
	{
		if (!is_set(s, "top"))
			continue;
		if (strcmp(text_of(s, "stage"), stage) == 0)
			return n < strlen(LETTERS) ? LETTERS[n] : '#';
		n++;
	}
	return '#';
}

/* The column of a time in the bar.  Compared as double first, as the service's times may be too
 * large for an int. */
static int column_of_time(double at, double whole, int width)
{
	double c = whole > 0 && at > 0 ? at / whole * width : 0;

	return c < width ? (int)c : width - 1;
}

static void draw_run(const json_t *start, const json_t *run, char *bar,
		     int width)
{
	double whole = number_of(start, "duration_s");
	double at = number_of(run, "at_s");
	int from = column_of_time(at, whole, width);
	int to =
		column_of_time(at + number_of(run, "duration_s"), whole, width);
	char c = is_set(run, "open") ? OPEN
		 : number_of(run, "status") > 0
			 ? FAILED
			 : letter_of_stage(start, text_of(run, "stage"));

	for (int i = from; i <= to; i++)
		bar[i] = c;
}

static void draw_node(const json_t *start, const json_t *node, int name_width,
		      char *bar, int width, FILE *out)
{
	char busy[DURATION_TEXT_MAX];
	const json_t *run;
	size_t k;

	memset(bar, IDLE, (size_t)width);
	json_array_foreach(json_object_get(node, "runs"), k, run)
	{
		if (is_set(run, "top"))
			draw_run(start, run, bar, width);
	}
	start_print_text(text_of(node, "node"), name_width, name_width, out);
	start_duration(node, "busy_s", busy);
	fprintf(out, " %10s %c %.*s\n", busy,
		is_set(node, "straggler") ? '!' : ' ', width, bar);
}

static void draw_legend(const json_t *start, FILE *out)
{
	const json_t *s;
	size_t k;

	json_array_foreach(json_object_get(start, "stages"), k, s)
	{
		if (!is_set(s, "top"))
			continue;
		fprintf(out, "  %c ",
			letter_of_stage(start, text_of(s, "stage")));
		start_print_text(text_of(s, "stage"), 0, 64, out);
	}
	fprintf(out, "  %c nothing  %c no end  %c failed\n", IDLE, OPEN,
		FAILED);
}

void start_gantt(const json_t *start, int columns, FILE *out)
{
	const json_t *nodes = json_object_get(start, "nodes"), *node;
	int name_width = 4, width;
	AUTO_FREE char *bar = NULL;
	size_t k;

	json_array_foreach(nodes, k, node)
	{
		int n = (int)strnlen(text_of(node, "node"), NAME_MAX_WIDTH);

		if (n > name_width)
			name_width = n;
	}
	width = columns - name_width - (int)strlen(" 1234567890 ! ");
	if (width < BAR_MIN)
		width = BAR_MIN;
	bar = malloc((size_t)width);
	if (!bar)
		return;
	json_array_foreach(nodes, k, node)
	{
		draw_node(start, node, name_width, bar, width, out);
	}
	draw_legend(start, out);
}
