// SPDX-License-Identifier: Apache-2.0
#include "objects/s3/s3_xml.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct xml {
	const char *at, *end;
	s3_xml_fn *fn;
	void *arg;
	struct buf path;
	struct buf text; /* text since the last tag */
	/* Length of the path without each open element. */
	size_t len[S3_XML_DEPTH];
	unsigned int depth;
	bool had_root;
};

static bool starts_with(const struct xml *x, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(x->end - x->at) >= n && memcmp(x->at, text, n) == 0;
}

/* Skip to behind the next `text`. */
static int skip_past(struct xml *x, const char *text)
{
	const char *found =
		memmem(x->at, (size_t)(x->end - x->at), text, strlen(text));

	if (!found)
		return -EBADMSG;
	x->at = found + strlen(text);
	return 0;
}

static int put_character(struct buf *b, unsigned long c)
{
	char utf8[4];
	size_t n;

	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return -EBADMSG;
	if (c < 0x80) {
		utf8[0] = (char)c;
		n = 1;
	} else if (c < 0x800) {
		utf8[0] = (char)(0xc0 | c >> 6);
		n = 2;
	} else if (c < 0x10000) {
		utf8[0] = (char)(0xe0 | c >> 12);
		n = 3;
	} else {
		utf8[0] = (char)(0xf0 | c >> 18);
		n = 4;
	}
	for (size_t i = 1; i < n; i++)
		utf8[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
	return buf_append(b, utf8, n);
}

/* Read an entity; the position is at its ampersand. */
static int read_entity(struct xml *x)
{
	static const struct {
		const char *name;
		char c;
	} known[] = { { "&amp;", '&' },
		      { "&lt;", '<' },
		      { "&gt;", '>' },
		      { "&quot;", '"' },
		      { "&apos;", '\'' } };
	char number[12], *stop;
	const char *semicolon;
	bool hex;
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (starts_with(x, known[i].name)) {
			x->at += strlen(known[i].name);
			return buf_append(&x->text, &known[i].c, 1);
		}
	semicolon = memchr(x->at, ';', (size_t)(x->end - x->at));
	if (!starts_with(x, "&#") || !semicolon)
		return -EBADMSG;
	x->at += 2;
	hex = x->at < semicolon && *x->at == 'x';
	x->at += hex;
	n = (size_t)(semicolon - x->at);
	if (n == 0 || n >= sizeof(number) ||
	    strspn(x->at, "0123456789abcdefABCDEF") != n)
		return -EBADMSG;
	memcpy(number, x->at, n);
	number[n] = '\0';
	x->at = semicolon + 1;
	n = strtoul(number, &stop, hex ? 16 : 10);
	return *stop ? -EBADMSG : put_character(&x->text, n);
}

static int close_element(struct xml *x)
{
	int rc;

	if (x->depth == 0)
		return -EBADMSG;
	rc = x->fn(x->arg, x->path.data, x->text.len ? x->text.data : "");
	x->path.len = x->len[--x->depth];
	if (x->path.data)
		x->path.data[x->path.len] = '\0';
	buf_reset(&x->text);
	return rc;
}

static int open_element(struct xml *x, const char *name, size_t len)
{
	const char *colon = memchr(name, ':', len);
	int rc;

	if (colon) {
		len -= (size_t)(colon + 1 - name);
		name = colon + 1;
	}
	if (len == 0 || memchr(name, '/', len) || memchr(name, '\0', len))
		return -EBADMSG;
	if (x->depth == S3_XML_DEPTH)
		return -EFBIG;
	if (x->depth == 0 && x->had_root)
		return -EBADMSG;
	x->had_root = true;
	x->len[x->depth++] = x->path.len;
	rc = x->path.len ? buf_append(&x->path, "/", 1) : 0;
	buf_reset(&x->text);
	return rc < 0 ? rc : buf_append(&x->path, name, len);
}

/* Find the `>` that ends the tag, ignoring quoted ones. */
static const char *tag_end(const struct xml *x)
{
	char quote = '\0';

	for (const char *p = x->at; p < x->end; p++) {
		if (quote)
			quote = *p == quote ? '\0' : quote;
		else if (*p == '"' || *p == '\'')
			quote = *p;
		else if (*p == '>')
			return p;
	}
	return NULL;
}

/* Does the closing tag match the open element? */
static bool is_own_end(const struct xml *x, const char *name, size_t len)
{
	const char *colon = memchr(name, ':', len);
	size_t from;

	if (x->depth == 0)
		return false;
	if (colon) {
		len -= (size_t)(colon + 1 - name);
		name = colon + 1;
	}
	from = x->len[x->depth - 1] + (x->depth > 1);
	return x->path.len - from == len &&
	       memcmp(x->path.data + from, name, len) == 0;
}

static int read_tag(struct xml *x)
{
	const char *end = tag_end(x), *name = x->at + 1;
	bool is_end, is_empty;
	size_t len = 0;
	int rc;

	if (!end)
		return -EBADMSG;
	is_end = name < end && *name == '/';
	name += is_end;
	while (name + len < end && !strchr(" \t\r\n/", name[len]))
		len++;
	is_empty = !is_end && end[-1] == '/';
	x->at = end + 1;
	if (is_end)
		return is_own_end(x, name, len) ? close_element(x) : -EBADMSG;
	rc = open_element(x, name, len);
	return rc == 0 && is_empty ? close_element(x) : rc;
}

static int read_cdata(struct xml *x)
{
	const char *from = x->at + strlen("<![CDATA[");
	int rc = skip_past(x, "]]>");

	if (rc < 0 || x->depth == 0)
		return -EBADMSG;
	return buf_append(&x->text, from, (size_t)(x->at - 3 - from));
}

static int read_step(struct xml *x)
{
	size_t n = 0;

	if (starts_with(x, "<?"))
		return skip_past(x, "?>");
	if (starts_with(x, "<!--"))
		return skip_past(x, "-->");
	if (starts_with(x, "<![CDATA["))
		return read_cdata(x);
	if (starts_with(x, "<!"))
		return -EBADMSG;
	if (*x->at == '<')
		return read_tag(x);
	if (*x->at == '&' && x->depth)
		return read_entity(x);
	while (x->at + n < x->end && !strchr("<&", x->at[n]))
		n++;
	if (n == 0) /* a NUL, or an entity outside of elements */
		return -EBADMSG;
	x->at += n;
	return x->depth ? buf_append(&x->text, x->at - n, n) : 0;
}

int s3_xml_parse(const char *data, size_t len, s3_xml_fn *fn, void *arg)
{
	struct xml x = { .at = data, .end = data + len, .fn = fn, .arg = arg };
	int rc = 0;

	while (x.at < x.end && rc == 0)
		rc = read_step(&x);
	if (rc == 0 && (x.depth || !x.had_root))
		rc = -EBADMSG;
	buf_fini(&x.path);
	buf_fini(&x.text);
	return rc;
}

int s3_xml_escape(struct buf *b, const char *text)
{
	for (; *text; text++) {
		const char *as = *text == '&'   ? "&amp;"
				 : *text == '<' ? "&lt;"
				 : *text == '>' ? "&gt;"
						: NULL;
		int rc = as ? buf_puts(b, as) : buf_append(b, text, 1);

		if (rc < 0)
			return rc;
	}
	return 0;
}
