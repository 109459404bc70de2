// SPDX-License-Identifier: Apache-2.0
#include "common/progress.h"

#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "common/text.h"

#define QUIET (2 * NS_PER_S)      /* shorter jobs show nothing */
#define BAR_EVERY (NS_PER_S / 10) /* between two redraws */
#define LINE_EVERY (10 * NS_PER_S)
#define BAR_WIDTH 24
#define WHAT_MAX 64

struct progress {
	FILE *out;
	bool terminal;
	bool drawn; /* a bar stands on the terminal */
	int64_t start;
	int64_t shown; /* time of the last output */
	char what[WHAT_MAX];
	uint64_t first; /* `done` at the time `since`, when the current
	                 * `what` began: for the rate */
	int64_t since;
};

struct progress *progress_new_as(FILE *out, bool terminal)
{
	struct progress *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->out = out;
	p->terminal = terminal;
	return p;
}

struct progress *progress_new(FILE *out)
{
	int fd = fileno(out);

	return progress_new_as(out, fd >= 0 && isatty(fd));
}

void progress_format_bytes(uint64_t bytes, char out[PROGRESS_BYTES_MAX])
{
	static const char *const units[] = { "B",   "KiB", "MiB",
					     "GiB", "TiB", "PiB" };
	double v = (double)bytes;
	size_t u = 0;

	while (v >= 1024 && u + 1 < ARRAY_SIZE(units)) {
		v /= 1024;
		u++;
	}
	(void)snprintf(out, PROGRESS_BYTES_MAX, u ? "%.1f %s" : "%.0f %s", v,
		       units[u]);
}

static void print_amounts(struct progress *p, uint64_t done, uint64_t total,
			  int64_t now)
{
	char a[PROGRESS_BYTES_MAX], b[PROGRESS_BYTES_MAX];
	uint64_t rate = 0;

	if (now > p->since && done > p->first)
		rate = (uint64_t)((double)(done - p->first) * (double)NS_PER_S /
				  (double)(now - p->since));
	progress_format_bytes(done, a);
	progress_format_bytes(total, b);
	fprintf(p->out, "%s", a);
	if (total)
		fprintf(p->out, " of %s", b);
	progress_format_bytes(rate, a);
	fprintf(p->out, ", %s/s", a);
	if (rate && total > done)
		fprintf(p->out, ", %" PRIu64 " s left", (total - done) / rate);
}

/* The text may be a file's name, and so may have any byte. */
static void print_current_item(const struct progress *p)
{
	char what[WHAT_MAX];

	memcpy(what, p->what, sizeof(what));
	text_make_printable(what);
	fputs(what, p->out);
}

static void draw_bar(struct progress *p, uint64_t done, uint64_t total,
		     int64_t now)
{
	size_t full = 0;

	fputs("\r\033[K", p->out);
	print_current_item(p);
	fputc(' ', p->out);
	if (total) {
		full = (size_t)((double)done / (double)total * BAR_WIDTH);
		if (full > BAR_WIDTH)
			full = BAR_WIDTH;
		fputc('[', p->out);
		for (size_t i = 0; i < BAR_WIDTH; i++)
			fputc(i < full ? '#' : '.', p->out);
		fputs("] ", p->out);
	}
	print_amounts(p, done, total, now);
	(void)fflush(p->out);
	p->drawn = true;
}

static void print_line(struct progress *p, uint64_t done, uint64_t total,
		       int64_t now)
{
	print_current_item(p);
	fputs(": ", p->out);
	print_amounts(p, done, total, now);
	fputc('\n', p->out);
	(void)fflush(p->out);
}

void progress_step(struct progress *p, const char *what, uint64_t done,
		   uint64_t total, int64_t now_ns)
{
	if (!p)
		return;
	if (!p->start)
		p->start = now_ns;
	if (strncmp(p->what, what, WHAT_MAX - 1) != 0) {
		(void)snprintf(p->what, sizeof(p->what), "%s", what);
		p->first = done;
		p->since = now_ns;
	}
	if (now_ns - p->start < QUIET ||
	    now_ns - p->shown < (p->terminal ? BAR_EVERY : LINE_EVERY))
		return;
	p->shown = now_ns;
	if (p->terminal)
		draw_bar(p, done, total, now_ns);
	else
		print_line(p, done, total, now_ns);
}

void progress_say(struct progress *p, const char *line)
{
	if (!p)
		return;
	fprintf(p->out, "%s%s\n", p->drawn ? "\r\033[K" : "", line);
	(void)fflush(p->out);
	p->drawn = false;
}

void progress_free(struct progress *p)
{
	if (!p)
		return;
	if (p->drawn) {
		fputs("\r\033[K", p->out);
		(void)fflush(p->out);
	}
	free(p);
}

void progress_format_count(uint64_t n, const char *noun,
			   char out[PROGRESS_COUNT_MAX])
{
	size_t len = strlen(noun);
	const char *end = n == 1                            ? ""
			  : len > 0 && noun[len - 1] == 's' ? "es"
							    : "s";

	(void)snprintf(out, PROGRESS_COUNT_MAX, "%" PRIu64 " %.20s%s", n, noun,
		       end);
}
