// SPDX-License-Identifier: Apache-2.0
/*
 * Traces as JSON: docs/formats/trace.md, "JSON". A tree of all entries would take a kilobyte for
 * each, so the list is cut into its elements here, and they are parsed one at a time.
 */
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "recorder/trace_priv.h"

#define VERSION 1
/* Longest entry: a path in which each byte is written as \u0025XX, and the rest. */
#define PART_MAX ((size_t)64 << 10)

/* ------------------------------------------------------------------ escaping --- */

/* Length of the UTF-8 sequence at `p`; 0 when it is not valid. */
static size_t utf8_len(const uint8_t *p)
{
	/* For ranges of the first byte: the length, and bounds of the second byte that
	 * exclude overlong forms, surrogates and values beyond Unicode. */
	static const struct {
		uint8_t from, to, len, lo, hi;
	} kinds[] = {
		{ 0x01, 0x7f, 1, 0, 0 },       { 0xc2, 0xdf, 2, 0x80, 0xbf },
		{ 0xe0, 0xe0, 3, 0xa0, 0xbf }, { 0xe1, 0xec, 3, 0x80, 0xbf },
		{ 0xed, 0xed, 3, 0x80, 0x9f }, { 0xee, 0xef, 3, 0x80, 0xbf },
		{ 0xf0, 0xf0, 4, 0x90, 0xbf }, { 0xf1, 0xf3, 4, 0x80, 0xbf },
		{ 0xf4, 0xf4, 4, 0x80, 0x8f },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (p[0] < kinds[i].from || p[0] > kinds[i].to)
			continue;
		for (size_t n = 1; n < kinds[i].len; n++)
			if (p[n] < (n == 1 ? kinds[i].lo : 0x80) ||
			    p[n] > (n == 1 ? kinds[i].hi : 0xbf))
				return 0;
		return kinds[i].len;
	}
	return 0;
}

int trace_path_text(const char *path, struct buf *ret)
{
	const uint8_t *p = (const uint8_t *)path;
	int rc = 0;

	buf_reset(ret);
	while (*p && rc == 0) {
		size_t n = *p == '%' ? 0 : utf8_len(p);

		rc = n ? buf_append(ret, p, n) : buf_printf(ret, "%%%02X", *p);
		p += n ? n : 1;
	}
	return rc;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static int unescape_text(const char *p, struct buf *ret, struct error *err)
{
	int rc = 0;

	buf_reset(ret);
	while (*p && rc == 0) {
		char c = *p++;

		if (c == '%') {
			int hi = hex_value(p[0]);
			int lo = hi < 0 ? -1 : hex_value(p[1]);

			if (lo < 0 || hi + lo == 0)
				return error_set(err, EINVAL,
						 "trace: '%%' in a path is not "
						 "followed by the digits of a "
						 "byte");
			c = (char)(hi << 4 | lo);
			p += 2;
		}
		rc = buf_append(ret, &c, 1);
	}
	return rc < 0 ? error_nomem(err) : 0;
}

/* ------------------------------------------------------------------- writing --- */

/* Append `j`, and free it; NULL: memory was short. */
static int put_json(struct buf *ret, json_t *j)
{
	AUTO_FREE char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	return text ? buf_puts(ret, text) : -ENOMEM;
}

static json_t *info_json(const struct trace_info *i)
{
	char image[DIGEST_STR_MAX];

	digest_format(&i->image, image);
	return json_pack("{s:i,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:b}", "version",
			 VERSION, "image", image, "repo", i->repo, "workload",
			 i->workload, "created_at", (json_int_t)i->created_at,
			 "window_ms", (json_int_t)i->window_ms, "ready_ms",
			 (json_int_t)i->ready_ms, "runs", (json_int_t)i->runs,
			 "truncated", i->truncated);
}

static json_t *entry_json(const struct trace_entry *e, const char *path)
{
	char block[DIGEST_STR_MAX];

	digest_format(&e->block, block);
	return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:s}", "path", path, "off",
			 (json_int_t)e->off, "len", (json_int_t)e->len, "at_ms",
			 (json_int_t)e->at_ms, "csize", (json_int_t)e->csize,
			 "confidence", (json_int_t)e->confidence, "block",
			 block);
}

int trace_to_json(const struct trace *t, struct buf *ret, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = put_json(ret, info_json(&t->info));

	if (rc == 0) {
		ret->len--; /* drop the '}' */
		rc = buf_puts(ret, ",\"entries\":[");
	}
	for (size_t i = 0; i < t->n && rc == 0; i++) {
		rc = trace_path_text(t->entries[i].path, &path);
		if (rc == 0)
			rc = buf_puts(ret, i ? ",\n" : "\n");
		if (rc == 0)
			rc = put_json(ret,
				      entry_json(&t->entries[i], path.data));
	}
	if (rc == 0)
		rc = buf_puts(ret, "]}\n");
	return rc < 0 ? error_nomem(err) : 0;
}

/* ------------------------------------------------------------------- cutting --- */

/* Text that is being cut. It need not be valid JSON, as the parser checks every part. */
struct text {
	const char *p, *end;
};

static void skip_space(struct text *t)
{
	while (t->p < t->end && strchr(" \t\r\n", *t->p) && *t->p)
		t->p++;
}

static bool skip_char(struct text *t, char c)
{
	skip_space(t);
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

/* Skip one value, up to the ',', ']' or '}' behind it. */
static void skip_value(struct text *t)
{
	size_t depth = 0;
	bool quoted = false;

	for (; t->p < t->end; t->p++) {
		char c = *t->p;

		if (quoted) {
			if (c == '\\' && t->end - t->p > 1)
				t->p++;
			else if (c == '"')
				quoted = false;
		} else if (c == '"') {
			quoted = true;
		} else if (c == '[' || c == '{') {
			depth++;
		} else if (!depth && (c == ',' || c == ']' || c == '}')) {
			return;
		} else if (c == ']' || c == '}') {
			depth--;
		}
	}
}

/* Find the value of "entries" in the document; false: there is none. */
static bool find_entries(const char *text, size_t len, struct text *ret)
{
	static const char key[] = "\"entries\"";
	struct text t = { text, text + len };

	if (!skip_char(&t, '{'))
		return false;
	do {
		bool found;

		skip_space(&t);
		found = (size_t)(t.end - t.p) >= sizeof(key) &&
			memcmp(t.p, key, sizeof(key) - 1) == 0;
		if (found) {
			t.p += sizeof(key) - 1;
			if (!skip_char(&t, ':'))
				return false;
			skip_space(&t);
			ret->p = t.p;
		}
		skip_value(&t); /* skips the value, or another member */
		ret->end = t.p;
		if (found)
			return true;
	} while (skip_char(&t, ','));
	return false;
}

/* ------------------------------------------------------------------- reading --- */

/* Parse one part of the document, which must be an object. */
static int parse_object(const char *text, size_t len, const char *what,
			json_t **ret, struct error *err)
{
	json_error_t where;

	if (len > PART_MAX)
		return error_set(err, EFBIG, "trace: %s is too long", what);
	*ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
	if (!*ret)
		return error_set(err, EINVAL, "trace: %s is not JSON: %.200s",
				 what, where.text);
	return 0;
}

static bool fits_range(json_int_t v, uint64_t max)
{
	return v >= 0 && (uint64_t)v <= max;
}

static int read_info(json_t *j, struct trace_info *ret, struct error *err)
{
	json_int_t version, created, window, ready, runs;
	const char *image, *repo, *workload;
	json_error_t where;
	json_t *entries;
	int truncated, rc;

	if (json_unpack_ex(j, &where, JSON_STRICT,
			   "{s:I,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:b,s:o}",
			   "version", &version, "image", &image, "repo", &repo,
			   "workload", &workload, "created_at", &created,
			   "window_ms", &window, "ready_ms", &ready, "runs",
			   &runs, "truncated", &truncated, "entries",
			   &entries) < 0)
		return error_set(err, EINVAL, "trace: %.200s", where.text);
	if (version != VERSION)
		return error_set(err, ENOTSUP,
				 "trace: version %" JSON_INTEGER_FORMAT
				 " as JSON, this program reads %d",
				 version, VERSION);
	if (!fits_range(created, TRACE_OFFSET_MAX) ||
	    !fits_range(window, UINT32_MAX) || !fits_range(ready, UINT32_MAX) ||
	    !fits_range(runs, TRACE_RUNS_MAX))
		return error_set(err, EINVAL, "trace: a number is too large");
	rc = digest_parse(image, &ret->image, err);
	if (rc < 0)
		return error_wrap(err, rc, "trace: image");
	ret->created_at = (uint64_t)created;
	ret->window_ms = (uint32_t)window;
	ret->ready_ms = (uint32_t)ready;
	ret->runs = (uint32_t)runs;
	ret->truncated = truncated;
	ret->repo = strdup(repo);
	ret->workload = strdup(workload);
	return ret->repo && ret->workload ? 0 : error_nomem(err);
}

static int read_entry(json_t *j, struct buf *path, struct trace_entry *ret,
		      struct error *err)
{
	json_int_t off, len, at, csize, confidence;
	const char *escaped, *block;
	json_error_t where;
	int rc;

	if (json_unpack_ex(j, &where, JSON_STRICT,
			   "{s:s,s:I,s:I,s:I,s:I,s:I,s:s}", "path", &escaped,
			   "off", &off, "len", &len, "at_ms", &at, "csize",
			   &csize, "confidence", &confidence, "block",
			   &block) < 0)
		return error_set(err, EINVAL, "trace: %.200s", where.text);
	if (!fits_range(off, TRACE_OFFSET_MAX) ||
	    !fits_range(len, TRACE_BLOCK_MAX) || !fits_range(at, UINT32_MAX) ||
	    !fits_range(csize, TRACE_BLOCK_MAX) ||
	    !fits_range(confidence, TRACE_CERTAIN))
		return error_set(err, EINVAL, "trace: a number is too large");
	rc = digest_parse(block, &ret->block, err);
	if (rc == 0)
		rc = unescape_text(escaped, path, err);
	if (rc < 0)
		return rc;
	ret->path = path->data ? path->data : "";
	ret->off = (uint64_t)off;
	ret->len = (uint32_t)len;
	ret->at_ms = (uint32_t)at;
	ret->csize = (uint32_t)csize;
	ret->confidence = (uint16_t)confidence;
	return 0;
}

static int add_entry(struct trace_builder *b, const char *text, size_t len,
		     struct buf *path, struct error *err)
{
	struct trace_entry e;
	AUTO_JSON *j = NULL;
	int rc = parse_object(text, len, "an entry", &j, err);

	if (rc < 0)
		return rc;
	rc = read_entry(j, path, &e, err);
	return rc < 0 ? rc : trace_builder_add(b, &e, err);
}

static int add_entries(struct trace_builder *b, struct text t,
		       struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	size_t n = 0;
	int rc;

	if (!skip_char(&t, '['))
		return error_set(err, EINVAL, "trace: 'entries' is no list");
	if (!skip_char(&t, ']')) {
		do {
			const char *from = t.p;

			skip_value(&t);
			rc = add_entry(b, from, (size_t)(t.p - from), &path,
				       err);
			if (rc < 0)
				return error_wrap(err, rc, "entry %zu", n);
			n++;
		} while (skip_char(&t, ','));
		if (!skip_char(&t, ']'))
			return error_set(err, EINVAL,
					 "trace: 'entries' does not end");
	}
	skip_space(&t);
	return t.p == t.end
		       ? 0
		       : error_set(err, EINVAL, "trace: text after 'entries'");
}

/* Parse the document with an empty list of entries, so that the parser checks all the rest. */
static int parse_all_but_entries(const char *text, size_t len,
				 const struct text *entries,
				 struct trace_info *ret, struct error *err)
{
	size_t before = (size_t)(entries->p - text);
	size_t after = (size_t)(text + len - entries->end);
	AUTO_BUF rest = { .limit = PART_MAX };
	AUTO_JSON *j = NULL;
	int rc = buf_append(&rest, text, before);

	if (rc == 0)
		rc = buf_puts(&rest, "[]");
	if (rc == 0)
		rc = buf_append(&rest, entries->end, after);
	if (rc < 0)
		return error_set(err, -rc,
				 "trace: what is beside the entries "
				 "is too long");
	rc = parse_object(rest.data, rest.len, "the document", &j, err);
	if (rc < 0)
		return rc;
	return read_info(j, ret, err);
}

int trace_from_json(const char *text, size_t len, struct trace **ret,
		    struct error *err)
{
	struct trace_info info = { .repo = NULL };
	AUTO(trace_builder) b = NULL;
	struct text entries;
	int rc;

	if (!find_entries(text, len, &entries))
		return error_set(err, EINVAL,
				 "trace: no JSON object with 'entries'");
	rc = parse_all_but_entries(text, len, &entries, &info, err);
	if (rc == 0)
		rc = trace_builder_new(&info, &b, err);
	trace_info_fini(&info);
	if (rc == 0)
		rc = add_entries(b, entries, err);
	return rc < 0 ? rc : trace_builder_finish(steal_ptr(&b), ret, err);
}
