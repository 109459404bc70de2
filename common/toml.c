// SPDX-License-Identifier: Apache-2.0
#include "common/toml.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/json.h"

#define DEPTH_MAX 8 /* most nested arrays and tables, and most names in a key */
#define BARE "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

/* The parser's position in the text, which ends with a NUL. */
struct toml {
	const char *p, *end;
	unsigned int line;
	struct error *err;
};

static int toml_fail(const struct toml *t, const char *why)
{
	return error_set(t->err, EINVAL, "line %u: %s", t->line, why);
}

static void skip_blanks(struct toml *t)
{
	t->p += strspn(t->p, " \t");
}

static int skip_comment(struct toml *t)
{
	if (*t->p != '#')
		return 0;
	for (; t->p < t->end && *t->p != '\n'; t->p++)
		if ((unsigned char)*t->p < 0x20 && *t->p != '\t' &&
		    *t->p != '\r')
			return toml_fail(t, "a control character");
	return 0;
}

static bool take_newline(struct toml *t)
{
	if (*t->p == '\r' && t->p[1] == '\n')
		t->p++;
	if (*t->p != '\n')
		return false;
	t->p++;
	t->line++;
	return true;
}

/* Skip blanks, comments and line ends. */
static int skip_lines(struct toml *t)
{
	int rc;

	do {
		skip_blanks(t);
		rc = skip_comment(t);
	} while (rc == 0 && take_newline(t));
	return rc;
}

static int end_line(struct toml *t)
{
	int rc;

	skip_blanks(t);
	rc = skip_comment(t);
	if (rc == 0 && t->p < t->end && !take_newline(t))
		rc = toml_fail(t, "more than one thing in a line");
	return rc;
}

/* ---------------------------------------------------------------- strings --- */

/* Append a code point as UTF-8. */
static int put_rune(struct buf *b, unsigned long c)
{
	char out[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (n == 1) {
		out[0] = (char)c;
		return buf_append(b, out, 1);
	}
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)((0xf00u >> n & 0xf0u) | c);
	return buf_append(b, out, n);
}

static int take_escape(struct toml *t, struct buf *b)
{
	static const char names[] = "btnfr\"\\";
	static const char values[] = "\b\t\n\f\r\"\\";
	const char *at = *t->p ? strchr(names, *t->p) : NULL;
	size_t digits = *t->p == 'u' ? 4 : *t->p == 'U' ? 8 : 0;
	char hex[9] = "";
	unsigned long c;

	if (at) {
		t->p++;
		return buf_append(b, &values[at - names], 1);
	}
	if (!digits)
		return toml_fail(t, "an escape that is not known");
	t->p++;
	for (size_t i = 0; i < digits; i++) {
		if (!isxdigit((unsigned char)*t->p))
			return toml_fail(t, "an escape that is cut off");
		hex[i] = *t->p++;
	}
	c = strtoul(hex, NULL, 16);
	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return toml_fail(t, "an escape of no character");
	return put_rune(b, c);
}

static int take_string(struct toml *t, struct buf *b)
{
	char quote = *t->p++;
	int rc = 0;

	buf_reset(b);
	if (t->p[0] == quote && t->p[1] == quote)
		return toml_fail(t, "a string of several lines");
	while (rc == 0 && *t->p != quote) {
		unsigned char c = (unsigned char)*t->p;

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return toml_fail(t, "a string that does not end");
		t->p++;
		if (c == '\\' && quote == '"')
			rc = take_escape(t, b);
		else
			rc = buf_append(b, t->p - 1, 1);
	}
	t->p += rc == 0;
	return rc;
}

/* ------------------------------------------------------------------- keys --- */

static int take_name(struct toml *t, struct buf *b)
{
	size_t n = strspn(t->p, BARE);

	if (*t->p == '"' || *t->p == '\'')
		return take_string(t, b);
	if (n == 0)
		return toml_fail(t, "a key was expected");
	buf_reset(b);
	if (buf_append(b, t->p, n) < 0)
		return error_nomem(t->err);
	t->p += n;
	return 0;
}

static const char *get_key_name(const struct buf *b)
{
	return b->len ? b->data : "";
}

/* Get the table `name` in `in`; created if missing. */
static int enter_table(struct toml *t, json_t *in, const char *name,
		       json_t **ret)
{
	json_t *there = json_object_get(in, name);

	if (there && !json_is_object(there))
		return toml_fail(t, "a key that is no table is used as one");
	if (!there) {
		there = json_object();
		if (json_object_set_new(in, name, there) < 0)
			return toml_fail(t, "a key that is no UTF-8");
	}
	*ret = there;
	return 0;
}

/* Parse a dotted key: `*in` becomes the table for its last name, which is stored in `name`. */
static int take_key(struct toml *t, json_t **in, struct buf *name)
{
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		int rc = take_name(t, name);

		if (rc < 0)
			return rc;
		skip_blanks(t);
		if (*t->p != '.')
			return 0;
		t->p++;
		skip_blanks(t);
		rc = enter_table(t, *in, get_key_name(name), in);
		if (rc < 0)
			return rc;
	}
	return toml_fail(t, "a key of too many names");
}

/* ----------------------------------------------------------------- values --- */

static int take_value(struct toml *t, int depth, json_t **ret);

static int take_pair(struct toml *t, json_t *in, int depth)
{
	AUTO_BUF name = BUF_INIT;
	json_t *value = NULL;
	int rc = take_key(t, &in, &name);

	if (rc < 0)
		return rc;
	if (*t->p != '=')
		return toml_fail(t, "'=' was expected behind a key");
	t->p++;
	skip_blanks(t);
	rc = take_value(t, depth, &value);
	if (rc < 0)
		return rc;
	if (json_object_get(in, get_key_name(&name))) {
		json_decref(value);
		return toml_fail(t, "a key that was there before");
	}
	if (json_object_set_new(in, get_key_name(&name), value) < 0)
		return toml_fail(t, "a key that is no UTF-8");
	return 0;
}

static int take_array(struct toml *t, int depth, json_t *list)
{
	int rc = 0;

	t->p++;
	for (;;) {
		json_t *value = NULL;

		rc = skip_lines(t);
		if (rc < 0 || *t->p == ']')
			break;
		rc = take_value(t, depth, &value);
		if (rc == 0 && json_array_append_new(list, value) < 0)
			rc = error_nomem(t->err);
		if (rc == 0)
			rc = skip_lines(t);
		if (rc < 0 || *t->p != ',')
			break;
		t->p++;
	}
	if (rc == 0 && *t->p != ']')
		rc = toml_fail(t, "an array that does not end");
	t->p += rc == 0;
	return rc;
}

static int take_inline(struct toml *t, int depth, json_t *table)
{
	int rc = 0;

	t->p++;
	skip_blanks(t);
	while (rc == 0 && *t->p != '}') {
		rc = take_pair(t, table, depth);
		skip_blanks(t);
		if (rc < 0 || *t->p != ',')
			break;
		t->p++;
		skip_blanks(t);
		if (*t->p == '}')
			rc = toml_fail(t, "',' before '}'");
	}
	if (rc == 0 && *t->p != '}')
		rc = toml_fail(t, "a table that does not end");
	t->p += rc == 0;
	return rc;
}

static int take_text(struct toml *t, json_t **ret)
{
	AUTO_BUF text = BUF_INIT;
	int rc = take_string(t, &text);

	if (rc < 0)
		return rc;
	*ret = json_string(get_key_name(&text));
	return *ret ? 0 : toml_fail(t, "a string that is no UTF-8");
}

/* Parse true, false, a number or a date. */
static int take_word(struct toml *t, json_t **ret)
{
	size_t n = strspn(t->p, BARE "+.:");

	if (n == 4 && strncmp(t->p, "true", n) == 0)
		*ret = json_true();
	else if (n == 5 && strncmp(t->p, "false", n) == 0)
		*ret = json_false();
	else if (n && (isdigit((unsigned char)*t->p) || strchr("+-", *t->p)))
		*ret = json_null();
	else
		return toml_fail(t, "a value was expected");
	t->p += n;
	return 0;
}

static int take_value(struct toml *t, int depth, json_t **ret)
{
	AUTO_JSON *all = NULL;
	int rc;

	if (*t->p == '"' || *t->p == '\'')
		return take_text(t, ret);
	if (*t->p != '[' && *t->p != '{')
		return take_word(t, ret);
	if (depth == DEPTH_MAX)
		return toml_fail(t, "too many tables and arrays in each other");
	all = *t->p == '[' ? json_array() : json_object();
	if (!all)
		return error_nomem(t->err);
	rc = *t->p == '[' ? take_array(t, depth + 1, all)
			  : take_inline(t, depth + 1, all);
	if (rc == 0)
		*ret = steal_ptr(&all);
	return rc;
}

/* ----------------------------------------------------------------- tables --- */

/* Parse "[a.b]": `*ret` becomes that table; `seen` lists tables that had a header already. */
static int take_header(struct toml *t, json_t *root, json_t *seen, json_t **ret)
{
	AUTO_BUF name = BUF_INIT;
	json_t *in = root;
	char key[32];
	int rc;

	t->p++;
	if (*t->p == '[')
		return toml_fail(t, "an array of tables");
	skip_blanks(t);
	rc = take_key(t, &in, &name);
	if (rc == 0)
		rc = enter_table(t, in, get_key_name(&name), ret);
	if (rc < 0)
		return rc;
	(void)snprintf(key, sizeof(key), "%p", (void *)*ret);
	if (json_object_get(seen, key))
		return toml_fail(t, "a table that was there before");
	if (json_object_set_new(seen, key, json_true()) < 0)
		return error_nomem(t->err);
	if (*t->p != ']')
		return toml_fail(t, "']' was expected");
	t->p++;
	return 0;
}

int toml_parse(const char *text, size_t len, json_t **ret, struct error *err)
{
	AUTO_FREE char *copy =
		len <= TOML_BYTES_MAX ? strndup(text, len) : NULL;
	struct toml t = { .p = copy, .line = 1, .err = err };
	AUTO_JSON *root = json_object();
	AUTO_JSON *seen = json_object();
	json_t *table = root;
	int rc;

	if (len > TOML_BYTES_MAX)
		return error_set(err, EFBIG, "longer than %u bytes",
				 TOML_BYTES_MAX);
	if (!copy || !root || !seen)
		return error_nomem(err);
	t.end = copy + strlen(copy);
	if (strlen(copy) != len)
		return error_set(err, EINVAL, "a NUL byte");
	for (;;) {
		rc = skip_lines(&t);
		if (rc < 0 || t.p == t.end)
			break;
		rc = *t.p == '[' ? take_header(&t, root, seen, &table)
				 : take_pair(&t, table, 0);
		if (rc == 0)
			rc = end_line(&t);
		if (rc < 0)
			break;
	}
	if (rc == 0)
		*ret = steal_ptr(&root);
	return rc;
}
