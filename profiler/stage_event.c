// SPDX-License-Identifier: Apache-2.0
/* Parses and writes events in the grammar of docs/formats/stage-events.md. */
#include "profiler/stage_event.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/digest.h"
#include "profiler/log_line.h"

#define MARKER_LEN (sizeof(STAGE_MARKER) - 1)

static const char *const fact_names[STAGE_FACTS] = {
	[STAGE_FACT_GPUS] = "gpus",
	[STAGE_FACT_CACHE_BYTES] = "cache_bytes",
	[STAGE_FACT_PEER_BYTES] = "peer_bytes",
	[STAGE_FACT_ORIGIN_BYTES] = "origin_bytes",
	[STAGE_FACT_MISSES] = "misses",
	[STAGE_FACT_MISS_MS] = "miss_ms",
	[STAGE_FACT_RETRIES] = "retries",
	[STAGE_FACT_RETRY_MS] = "retry_ms",
	[STAGE_FACT_THROTTLED_MS] = "throttled_ms",
	[STAGE_FACT_DISK_MS] = "disk_ms",
	[STAGE_FACT_SAVED_BYTES] = "saved_bytes",
	[STAGE_FACT_WAIT_MS] = "wait_ms",
	[STAGE_FACT_QUEUE_MS] = "queue_ms",
	[STAGE_FACT_STORAGE_MS] = "storage_ms",
	[STAGE_FACT_NETWORK_MS] = "network_ms",
};

/* ------------------------------------------------------------------ fields --- */

static bool text_equals(struct stage_text t, const char *s)
{
	return t.n == strlen(s) && memcmp(t.s, s, t.n) == 0;
}

static bool read_number(struct stage_text t, int64_t max, int64_t *ret)
{
	int64_t v = 0;

	if (t.n < 1 || *ret != STAGE_NONE)
		return false;
	for (size_t i = 0; i < t.n; i++) {
		if (!isdigit((unsigned char)t.s[i]) ||
		    __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, t.s[i] - '0', &v))
			return false;
	}
	*ret = v;
	return v <= max;
}

static bool read_hex(struct stage_text t, size_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (t.n < 1 || t.n > max)
		return false;
	for (size_t i = 0; i < t.n; i++) {
		const char *digits = "0123456789abcdef";
		const char *at = t.s[i] ? strchr(digits, t.s[i]) : NULL;

		if (!at)
			return false;
		v = v << 4 | (uint64_t)(at - digits);
	}
	*ret = v;
	return true;
}

static bool read_text(struct stage_text t, bool (*ok)(struct stage_text t),
		      struct stage_text *ret)
{
	if (ret->n || !ok(t))
		return false;
	*ret = t;
	return true;
}

/* Fields of an event read so far. */
struct fields {
	struct stage_event *e;
	const char *begin; /* begin of the event's marker */
	bool has_ev, has_crc;
};

static bool read_ev(struct fields *f, struct stage_text v)
{
	static const char *const names[] = { [STAGE_BEGIN] = "begin",
					     [STAGE_END] = "end",
					     [STAGE_MARK] = "mark" };

	for (size_t i = 0; i < ARRAY_SIZE(names) && !f->has_ev; i++) {
		if (text_equals(v, names[i])) {
			f->e->ev = (enum stage_ev)i;
			f->has_ev = true;
			return true;
		}
	}
	return false;
}

/* Check the CRC of the event's text before " crc=". */
static bool read_crc(struct fields *f, struct stage_text key,
		     struct stage_text v)
{
	uint64_t crc;

	if (v.n != 8 || !read_hex(v, 8, &crc))
		return false;
	f->has_crc = true;
	return crc == crc32c(0, f->begin, (size_t)(key.s - 1 - f->begin));
}

/* Read a fact; unknown keys are skipped. False: the fact is repeated or not a number. */
static bool read_fact(uint64_t facts[STAGE_FACTS], struct stage_text key,
		      struct stage_text v)
{
	for (size_t i = 0; i < STAGE_FACTS; i++) {
		int64_t n = STAGE_NONE;

		if (!text_equals(key, fact_names[i]))
			continue;
		if (facts[i] || !read_number(v, STAGE_FACT_MAX, &n))
			return false;
		facts[i] = (uint64_t)n;
		break;
	}
	return true;
}

/* Read a field. Unknown keys are skipped, because later versions may add some. False: the event is
 * damaged. */
static bool read_field(struct fields *f, struct stage_text key,
		       struct stage_text v)
{
	struct stage_event *e = f->e;

	if (text_equals(key, "stage"))
		return read_text(v, stage_is_name, &e->stage);
	if (text_equals(key, "ev"))
		return read_ev(f, v);
	if (text_equals(key, "job"))
		return read_text(v, stage_is_job, &e->job);
	if (text_equals(key, "node"))
		return read_text(v, stage_is_node, &e->node);
	if (text_equals(key, "ts"))
		return read_number(v, STAGE_TS_MAX, &e->ts_ns);
	if (text_equals(key, "mono"))
		return read_number(v, STAGE_MONO_MAX, &e->mono_ns);
	if (text_equals(key, "attempt"))
		return read_number(v, INT64_MAX, &e->attempt);
	if (text_equals(key, "rank"))
		return read_number(v, INT64_MAX, &e->rank);
	if (text_equals(key, "id"))
		return read_number(v, INT64_MAX, &e->id);
	if (text_equals(key, "status"))
		return read_number(v, INT64_MAX, &e->status);
	if (text_equals(key, "boot"))
		return !e->boot && read_hex(v, 16, &e->boot);
	if (text_equals(key, "crc"))
		return read_crc(f, key, v);
	if (text_equals(key, "image"))
		return read_text(v, stage_is_image, &e->image);
	if (text_equals(key, "label"))
		return read_text(v, stage_is_name, &e->label);
	return read_fact(e->facts, key, v);
}

bool stage_facts_parse(const char *text, uint64_t ret[STAGE_FACTS])
{
	uint64_t any = 0;

	memset(ret, 0, STAGE_FACTS * sizeof(*ret));
	while (*text) {
		size_t n = strcspn(text, " "), k = strcspn(text, "=");

		if (k < n)
			(void)read_fact(ret, (struct stage_text){ text, k },
					(struct stage_text){ text + k + 1,
							     n - k - 1 });
		text += n + strspn(text + n, " ");
	}
	for (size_t i = 0; i < STAGE_FACTS; i++)
		any |= ret[i];
	return any != 0;
}

/* Does the text at `p` end what the event is embedded in: quotes, JSON, or a sentence? A comma ends
 * it only before a space or a quote. */
static bool is_closing_character(const char *p, const char *end)
{
	if (*p == ',' || *p == ';')
		return p + 1 == end || isspace((unsigned char)p[1]) ||
		       p[1] == '"' || p[1] == '\\';
	return iscntrl((unsigned char)*p) ||
	       (*p && strchr("\"'`\\)]}>|", *p) != NULL);
}

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	return p;
}

static const char *word_end(const char *p, const char *end)
{
	while (p < end && !isspace((unsigned char)*p) &&
	       !is_closing_character(p, end))
		p++;
	return p;
}

/* Is the word that ends at `p` the last word of the event? */
static bool is_last_word(const char *p, const char *end)
{
	const char *next = skip_blanks(p, end);

	return next == p || next == end ||
	       !memchr(next, '=', (size_t)(word_end(next, end) - next));
}

/* Read words KEY=VALUE up to the first other word, or to `end`. */
static bool read_fields(struct fields *f, const char *p, const char *end)
{
	bool is_last = false;

	while (!f->has_crc && !is_last) {
		const char *word = skip_blanks(p, end), *eq;
		struct stage_text key, value;

		p = word_end(word, end);
		eq = word < p ? memchr(word, '=', (size_t)(p - word)) : NULL;
		if (!eq)
			break;
		key = (struct stage_text){ word, (size_t)(eq - word) };
		value = (struct stage_text){ eq + 1, (size_t)(p - eq - 1) };
		is_last = is_last_word(p, end) || text_equals(key, "crc");
		/* Cut off punctuation that ends a sentence: it is not part of the value. */
		while (is_last && value.n &&
		       strchr(".:!?", value.s[value.n - 1]))
			value.n--;
		if (!read_field(f, key, value))
			return false;
	}
	/* An event with an id must have a checksum, or it was cut off. */
	return f->has_ev && f->e->stage.n && f->has_crc == (f->e->id >= 0);
}

/* -------------------------------------------------------------------- lines --- */

int64_t stage_logged_at(const char *line, size_t len)
{
	return log_line_time(line, len, len);
}

static const char *find_marker(const char *p, const char *end)
{
	return p < end ? memmem(p, (size_t)(end - p), STAGE_MARKER " ",
				MARKER_LEN + 1)
		       : NULL;
}

static void read_head(const char *line, size_t len, size_t head,
		      struct stage_scan *at)
{
	at->has_head = true;
	at->ts_ns = log_line_time(line, len, head);
	at->source = log_line_source(line, len, head);
	at->is_trace = log_line_is_trace(line, head);
}

enum stage_found stage_line_next(const char *line, size_t len,
				 struct stage_scan *at, struct stage_event *ret)
{
	const char *end = line + len;
	const char *begin = find_marker(line + at->pos, end), *next;
	struct fields f = { .e = ret, .begin = begin };
	size_t head;

	*ret = (struct stage_event)STAGE_EVENT_INIT;
	if (!begin) {
		at->pos = len;
		return STAGE_FOUND_NONE;
	}
	/* The event ends at the latest before the next marker. */
	next = find_marker(begin + 1, end);
	if (!next)
		next = end;
	at->pos = (size_t)(next - line);
	if ((size_t)(next - begin) > STAGE_LINE_MAX)
		next = begin + STAGE_LINE_MAX;
	if (!read_fields(&f, begin + MARKER_LEN, next))
		return STAGE_FOUND_JUNK;
	head = (size_t)(begin - line);
	if (!at->has_head)
		read_head(line, len, head, at);
	if (ret->ts_ns == STAGE_NONE)
		ret->ts_ns = at->ts_ns;
	if (ret->rank == STAGE_NONE)
		ret->rank = log_line_rank(line, head);
	if (!ret->node.n)
		ret->source = at->source;
	ret->is_trace = at->is_trace;
	return STAGE_FOUND_EVENT;
}

/* ------------------------------------------------------------------ writing --- */

static int put_text(struct buf *b, const char *key, struct stage_text t)
{
	return t.n ? buf_printf(b, " %s=%.*s", key, (int)t.n, t.s) : 0;
}

static int put_number(struct buf *b, const char *key, int64_t v)
{
	return v >= 0 ? buf_printf(b, " %s=%" PRId64, key, v) : 0;
}

int stage_facts_format(const uint64_t facts[STAGE_FACTS], struct buf *ret)
{
	const char *between = "";
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < STAGE_FACTS; i++) {
		if (!facts[i])
			continue;
		rc = buf_printf(ret, "%s%s=%" PRIu64, between, fact_names[i],
				facts[i]);
		between = " ";
	}
	return rc;
}

static int put_facts(const struct stage_event *e, struct buf *b)
{
	AUTO_BUF text = BUF_INIT;
	int rc = stage_facts_format(e->facts, &text);

	return rc == 0 && text.len ? buf_printf(b, " %s", text.data) : rc;
}

static int put_fields(const struct stage_event *e, struct buf *b)
{
	static const char *const evs[] = { "begin", "end", "mark" };
	int rc = put_text(b, "stage", e->stage);

	if (rc == 0)
		rc = buf_printf(b, " ev=%s", evs[e->ev]);
	if (rc == 0)
		rc = put_number(b, "ts", e->ts_ns);
	if (rc == 0)
		rc = put_number(b, "mono", e->mono_ns);
	if (rc == 0 && e->boot)
		rc = buf_printf(b, " boot=%" PRIx64, e->boot);
	if (rc == 0)
		rc = put_text(b, "job", e->job);
	if (rc == 0)
		rc = put_number(b, "attempt", e->attempt);
	if (rc == 0)
		rc = put_text(b, "node", e->node);
	if (rc == 0)
		rc = put_number(b, "rank", e->rank);
	if (rc == 0)
		rc = put_number(b, "status", e->status);
	if (rc == 0)
		rc = put_text(b, "image", e->image);
	if (rc == 0)
		rc = put_text(b, "label", e->label);
	if (rc == 0)
		rc = put_facts(e, b);
	return rc == 0 ? put_number(b, "id", e->id) : rc;
}

int stage_event_format(const struct stage_event *e, struct buf *ret)
{
	AUTO_BUF b = BUF_INIT;
	int rc = buf_puts(&b, STAGE_MARKER);

	if (rc == 0)
		rc = put_fields(e, &b);
	if (rc == 0 && e->id >= 0)
		rc = buf_printf(&b, " crc=%08" PRIx32,
				crc32c(0, b.data, b.len));
	if (rc == 0)
		rc = buf_puts(&b, "\n");
	return rc == 0 ? buf_append(ret, b.data, b.len) : rc;
}

int64_t stage_event_make_id(const struct stage_event *e, uint64_t place)
{
	struct stage_event plain = *e;
	AUTO_BUF b = BUF_INIT;
	struct digest d;
	uint64_t v;

	plain.id = STAGE_NONE;
	if (buf_printf(&b, "%" PRIu64 " ", place) < 0 ||
	    stage_event_format(&plain, &b) < 0 ||
	    digest_of(b.data, b.len, &d) < 0)
		return STAGE_NONE;
	memcpy(&v, d.b, sizeof(v));
	return (int64_t)(v & INT64_MAX);
}
