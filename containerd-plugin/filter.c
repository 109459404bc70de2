// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "containerd-plugin/filter.h"

#include <ctype.h>
#include <errno.h>
#include <pcre2.h>
#include <string.h>

/* Limits of matching a pattern, so that none occupies a thread. */
#define PATTERN_MAX 1024
#define MATCH_STEPS_MAX 100000
#define MATCH_DEPTH_MAX 1000
#define MATCH_HEAP_KIB 1024

enum operator{
	OPERATOR_PRESENT,
	OPERATOR_EQUAL,
	OPERATOR_NOT_EQUAL,
	OPERATOR_MATCHES,
};

struct selector {
	char *field; /* "name", "parent", "kind", "labels" or unknown */
	char *label; /* the rest of the path, "" without */
	enum operator op;
	char *value;
	pcre2_code *pattern; /* only for OPERATOR_MATCHES */
};

struct alternative {
	struct selector *v;
	size_t n; /* all must match; an empty list always matches */
};

struct filter {
	struct alternative *v;
	size_t n;
	pcre2_match_context *limits;
};

struct filter_parser {
	const char *text;
	const char *p;
};

static int parse_error(const struct filter_parser *ps, const char *what,
		       struct error *err)
{
	return error_set(err, EINVAL, "filter '%s' at byte %zu: %s", ps->text,
			 (size_t)(ps->p - ps->text), what);
}

static void skip_space(struct filter_parser *ps)
{
	while (isspace((unsigned char)*ps->p))
		ps->p++;
}

/* ---- quoted texts: the escapes of Go's strings ---- */

static int put_rune(unsigned long v, struct buf *out)
{
	uint8_t u[4];
	size_t n;

	if (v < 0x80) {
		u[0] = (uint8_t)v;
		n = 1;
	} else if (v < 0x800) {
		u[0] = (uint8_t)(0xc0 | v >> 6);
		u[1] = (uint8_t)(0x80 | (v & 0x3f));
		n = 2;
	} else if (v < 0x10000) {
		u[0] = (uint8_t)(0xe0 | v >> 12);
		u[1] = (uint8_t)(0x80 | (v >> 6 & 0x3f));
		u[2] = (uint8_t)(0x80 | (v & 0x3f));
		n = 3;
	} else {
		u[0] = (uint8_t)(0xf0 | v >> 18);
		u[1] = (uint8_t)(0x80 | (v >> 12 & 0x3f));
		u[2] = (uint8_t)(0x80 | (v >> 6 & 0x3f));
		u[3] = (uint8_t)(0x80 | (v & 0x3f));
		n = 4;
	}
	return buf_append(out, u, n);
}

/* Take exactly `n` digits of `base` at ps->p. */
static int take_digits(struct filter_parser *ps, int n, int base,
		       unsigned long *ret, struct error *err)
{
	char digits[9] = "";
	char *end;

	for (int i = 0; i < n; i++) {
		if (!isxdigit((unsigned char)ps->p[i]))
			return parse_error(ps, "bad number in an escape", err);
		digits[i] = ps->p[i];
	}
	*ret = strtoul(digits, &end, base);
	if (*end || *ret == 0)
		return parse_error(ps, "bad number in an escape", err);
	ps->p += n;
	return 0;
}

static int take_escape(struct filter_parser *ps, char quote, struct buf *out,
		       struct error *err)
{
	static const char names[] = "abfnrtv\\";
	static const char values[] = "\a\b\f\n\r\t\v\\";
	char c = *ps->p;
	const char *at = c ? strchr(names, c) : NULL;
	unsigned long v;
	int rc;

	if (at || (c && c == quote)) {
		ps->p++;
		return buf_append(out, at ? &values[at - names] : &quote, 1);
	}
	if (c == 'x' || c == 'u' || c == 'U') {
		ps->p++;
		rc = take_digits(ps,
				 c == 'x'   ? 2
				 : c == 'u' ? 4
					    : 8,
				 16, &v, err);
	} else {
		rc = take_digits(ps, 3, 8, &v, err);
	}
	if (rc < 0)
		return rc;
	if (c == 'u' || c == 'U') {
		if (v > 0x10ffff)
			return parse_error(ps, "no such character", err);
		return put_rune(v, out);
	}
	if (v > 0xff)
		return parse_error(ps, "bad number in an escape", err);
	return buf_append(out, &(char){ (char)v }, 1);
}

static int take_quoted(struct filter_parser *ps, char **ret, struct error *err)
{
	AUTO_BUF out = BUF_INIT;
	char quote = *ps->p++;
	int rc = buf_puts(&out, "");

	while (rc == 0 && *ps->p != quote) {
		if (*ps->p == '\0' || *ps->p == '\n')
			return parse_error(ps, "the quote does not end", err);
		if (*ps->p == '\\') {
			ps->p++;
			rc = take_escape(ps, quote, &out, err);
			if (rc == -EINVAL)
				return rc;
		} else {
			rc = buf_append(&out, ps->p++, 1);
		}
	}
	ps->p++;
	if (rc == 0)
		*ret = buf_steal(&out);
	return rc < 0 || !*ret ? error_nomem(err) : 0;
}

/* ---- fieldpath [operator value] ---- */

static int filter_take_bytes(struct filter_parser *ps, size_t n, char **ret,
			     struct error *err)
{
	*ret = strndup(ps->p, n);
	ps->p += n;
	return *ret ? 0 : error_nomem(err);
}

static int take_field(struct filter_parser *ps, char **ret, struct error *err)
{
	size_t n = 0;

	skip_space(ps);
	if (*ps->p == '"')
		return take_quoted(ps, ret, err);
	while (isalnum((unsigned char)ps->p[n]) || ps->p[n] == '_')
		n++;
	if (n == 0)
		return parse_error(ps, "a field or a quoted text is missing",
				   err);
	return filter_take_bytes(ps, n, ret, err);
}

static int take_path(struct filter_parser *ps, struct selector *s,
		     struct error *err)
{
	AUTO_BUF rest = BUF_INIT;
	int rc = take_field(ps, &s->field, err);

	if (rc == 0 && buf_puts(&rest, "") < 0)
		rc = error_nomem(err);
	while (rc == 0 && *ps->p == '.') {
		AUTO_FREE char *part = NULL;

		ps->p++;
		rc = take_field(ps, &part, err);
		if (rc == 0 &&
		    buf_printf(&rest, "%s%s", rest.len ? "." : "", part) < 0)
			rc = error_nomem(err);
	}
	if (rc < 0)
		return rc;
	s->label = buf_steal(&rest);
	return s->label ? 0 : error_nomem(err);
}

static int take_operator(struct filter_parser *ps, struct selector *s,
			 struct error *err)
{
	skip_space(ps);
	if (*ps->p == '\0' || *ps->p == ',') {
		s->op = OPERATOR_PRESENT;
		return 0;
	}
	if (ps->p[0] == '=' && ps->p[1] == '=')
		s->op = OPERATOR_EQUAL;
	else if (ps->p[0] == '!' && ps->p[1] == '=')
		s->op = OPERATOR_NOT_EQUAL;
	else if (ps->p[0] == '~' && ps->p[1] == '=')
		s->op = OPERATOR_MATCHES;
	else
		return parse_error(ps, "one of == != ~= is missing", err);
	ps->p += 2;
	return 0;
}

static int take_value(struct filter_parser *ps, struct selector *s,
		      struct error *err)
{
	size_t n = 0;

	skip_space(ps);
	if (*ps->p == '"' || (s->op == OPERATOR_MATCHES && *ps->p != '\0' &&
			      strchr("/|", *ps->p)))
		return take_quoted(ps, &s->value, err);
	while (ps->p[n] && ps->p[n] != ',' && !isspace((unsigned char)ps->p[n]))
		n++;
	if (n == 0)
		return parse_error(ps, "a value is missing", err);
	return filter_take_bytes(ps, n, &s->value, err);
}

static int compile_pattern(struct filter_parser *ps, struct selector *s,
			   struct error *err)
{
	pcre2_compile_context *limits = pcre2_compile_context_create(NULL);
	PCRE2_UCHAR text[128];
	PCRE2_SIZE where;
	int code;

	if (!limits)
		return error_nomem(err);
	pcre2_set_max_pattern_length(limits, PATTERN_MAX);
	s->pattern =
		pcre2_compile((PCRE2_SPTR)s->value, PCRE2_ZERO_TERMINATED,
			      PCRE2_NEVER_BACKSLASH_C, &code, &where, limits);
	pcre2_compile_context_free(limits);
	if (s->pattern)
		return 0;
	if (pcre2_get_error_message(code, text, sizeof(text)) < 0)
		text[0] = '\0';
	return parse_error(ps, (const char *)text, err);
}

static int take_selector(struct filter_parser *ps, struct selector *s,
			 struct error *err)
{
	int rc = take_path(ps, s, err);

	if (rc == 0)
		rc = take_operator(ps, s, err);
	if (rc == 0 && s->op != OPERATOR_PRESENT)
		rc = take_value(ps, s, err);
	if (rc == 0 && s->op == OPERATOR_MATCHES)
		rc = compile_pattern(ps, s, err);
	return rc;
}

static int parse_one(const char *text, struct alternative *a, struct error *err)
{
	struct filter_parser ps = { .text = text, .p = text };
	int rc;

	if (!*text)
		return 0;
	a->v = calloc(FILTER_SELECTORS_MAX, sizeof(*a->v));
	if (!a->v)
		return error_nomem(err);
	for (;;) {
		if (a->n == FILTER_SELECTORS_MAX)
			return parse_error(&ps, "too many selectors", err);
		rc = take_selector(&ps, &a->v[a->n++], err);
		if (rc < 0)
			return rc;
		skip_space(&ps);
		if (*ps.p == '\0')
			return 0;
		if (*ps.p != ',')
			return parse_error(&ps, "a comma is missing", err);
		ps.p++;
	}
}

int filter_parse(const char *const *texts, size_t n, struct filter **ret,
		 struct error *err)
{
	AUTO(filter) f = NULL;
	int rc;

	if (n > FILTERS_MAX)
		return error_set(err, EINVAL, "more than %d filters",
				 FILTERS_MAX);
	f = calloc(1, sizeof(*f));
	if (!f)
		return error_nomem(err);
	f->limits = pcre2_match_context_create(NULL);
	f->v = calloc(n ? n : 1, sizeof(*f->v));
	if (!f->limits || !f->v)
		return error_nomem(err);
	pcre2_set_match_limit(f->limits, MATCH_STEPS_MAX);
	pcre2_set_depth_limit(f->limits, MATCH_DEPTH_MAX);
	pcre2_set_heap_limit(f->limits, MATCH_HEAP_KIB);
	f->n = n ? n : 1;
	for (size_t i = 0; i < n; i++) {
		rc = parse_one(texts[i], &f->v[i], err);
		if (rc < 0)
			return rc;
	}
	*ret = steal_ptr(&f);
	return 0;
}

void filter_free(struct filter *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n && f->v; i++) {
		for (size_t k = 0; k < f->v[i].n; k++) {
			free(f->v[i].v[k].field);
			free(f->v[i].v[k].label);
			free(f->v[i].v[k].value);
			pcre2_code_free(f->v[i].v[k].pattern);
		}
		free(f->v[i].v);
	}
	free(f->v);
	pcre2_match_context_free(f->limits);
	free(f);
}

/* ---- matching ---- */

/* The field's value, or NULL when the snapshot has none. */
static const char *value_of(const struct selector *s,
			    const struct filter_subject *subject)
{
	if (strcmp(s->field, "name") == 0)
		return subject->name;
	if (strcmp(s->field, "parent") == 0)
		return subject->parent;
	if (strcmp(s->field, "kind") == 0)
		return subject->kind;
	if (strcmp(s->field, "labels") == 0)
		return labels_get(subject->labels, s->label);
	return NULL;
}

static bool pattern_matches(const struct filter *f, const struct selector *s,
			    const char *value)
{
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	int n;

	if (!data)
		return false;
	n = pcre2_match(s->pattern, (PCRE2_SPTR)value, strlen(value), 0, 0,
			data, f->limits);
	pcre2_match_data_free(data);
	return n >= 0;
}

static bool selector_matches(const struct filter *f, const struct selector *s,
			     const struct filter_subject *subject)
{
	const char *value = value_of(s, subject);

	switch (s->op) {
	case OPERATOR_PRESENT:
		return value;
	case OPERATOR_EQUAL:
		return value && strcmp(value, s->value) == 0;
	case OPERATOR_NOT_EQUAL:
		return strcmp(value ? value : "", s->value) != 0;
	default:
		return pattern_matches(f, s, value ? value : "");
	}
}

bool filter_matches(const struct filter *f, const struct filter_subject *s)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct alternative *a = &f->v[i];
		size_t k = 0;

		while (k < a->n && selector_matches(f, &a->v[k], s))
			k++;
		if (k == a->n)
			return true;
	}
	return false;
}
