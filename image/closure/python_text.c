// SPDX-License-Identifier: Apache-2.0
/* Finds import statements in source text line by line, without a grammar. A line of a long
 * string that looks like an import costs a few bytes fetched in vain. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "image/closure/python_imports.h"

#define STATEMENT_MAX 4096u

/* The rest of a statement; comments and line breaks in it are skipped word by word. */
struct statement {
	const char *p, *end;
};

struct text_scan {
	const char *p, *end;
	bool is_in_block; /* below a line that begins a function or class */
	python_import_fn *each;
	void *arg;
};

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.' ||
	       (unsigned char)c >= 0x80;
}

/* Skip what may stand between two words: blanks, brackets, line breaks, comments. */
static void skip_between(struct statement *s)
{
	while (s->p < s->end) {
		if (*s->p == '#')
			while (s->p < s->end && *s->p != '\n')
				s->p++;
		else if (memchr(" \t\r\n\\()", *s->p, 8))
			s->p++;
		else
			return;
	}
}

static size_t take_word(struct statement *s, const char **ret)
{
	skip_between(s);
	*ret = s->p;
	while (s->p < s->end && is_name_char(*s->p))
		s->p++;
	return (size_t)(s->p - *ret);
}

static bool is_word(const char *w, size_t len, const char *text)
{
	return len == strlen(text) && memcmp(w, text, len) == 0;
}

/* Skip "as b" behind a name; true when a comma and so another name follows. */
static bool take_comma(struct statement *s)
{
	const char *w;

	skip_between(s);
	if (s->p + 2 < s->end && memcmp(s->p, "as", 2) == 0 &&
	    !is_name_char(s->p[2])) {
		s->p += 2;
		(void)take_word(s, &w);
		skip_between(s);
	}
	if (s->p >= s->end || *s->p != ',')
		return false;
	s->p++;
	return true;
}

static int take_modules(struct text_scan *t, struct statement *s)
{
	struct python_import i = { .level = 0 };
	int rc = 0;

	do {
		i.module_len = take_word(s, &i.module);
		if (i.module_len == 0)
			break;
		rc = t->each(t->arg, &i);
	} while (rc == 0 && take_comma(s));
	return rc;
}

static int take_items(struct text_scan *t, struct statement *s)
{
	struct python_import i = { .level = 0 };
	const char *w;
	size_t len;
	int rc;

	i.module_len = take_word(s, &i.module);
	for (; i.module_len && *i.module == '.'; i.module_len--, i.module++)
		i.level++;
	len = take_word(s, &w);
	if (!is_word(w, len, "import") || (!i.module_len && !i.level))
		return 0;
	rc = t->each(t->arg, &i);
	if (rc < 0)
		return rc;
	do {
		i.item_len = take_word(s, &i.item);
		if (i.item_len == 0)
			break;
		rc = t->each(t->arg, &i);
	} while (rc == 0 && take_comma(s));
	return rc;
}

/* End of the statement that begins at `p`: of its line, or of the line on which its brackets
 * are closed. */
static const char *find_statement_end(const char *p, const char *end)
{
	const char *most =
		(size_t)(end - p) > STATEMENT_MAX ? p + STATEMENT_MAX : end;
	bool is_open = false;

	for (; p < most; p++) {
		is_open = (is_open || *p == '(') && *p != ')';
		if (*p == '\n' && !is_open && p[-1] != '\\')
			break;
		if (*p == ';' && !is_open)
			break;
	}
	return p;
}

/* Decide by a line's first word whether the indented lines below run at import. */
static void note_block(struct text_scan *t, const char *w, size_t len)
{
	t->is_in_block = is_word(w, len, "def") || is_word(w, len, "class") ||
			 is_word(w, len, "async");
}

static int scan_line(struct text_scan *t)
{
	const char *line = t->p, *w;
	struct statement s = { .p = t->p, .end = t->end };
	size_t len;

	while (s.p < s.end && (*s.p == ' ' || *s.p == '\t'))
		s.p++;
	w = s.p;
	while (s.p < s.end && is_name_char(*s.p))
		s.p++;
	len = (size_t)(s.p - w);
	if (len && w == line)
		note_block(t, w, len);
	if (t->is_in_block ||
	    (!is_word(w, len, "import") && !is_word(w, len, "from")))
		return 0;
	s.end = find_statement_end(s.p, t->end);
	t->p = s.end;
	return len == 4 ? take_items(t, &s) : take_modules(t, &s);
}

int python_scan_text(const char *text, size_t len, python_import_fn *each,
		     void *arg)
{
	struct text_scan t = {
		.p = text, .end = text + len, .each = each, .arg = arg
	};
	int rc = 0;

	while (rc == 0 && t.p < t.end) {
		const char *next;

		rc = scan_line(&t);
		next = memchr(t.p, '\n', (size_t)(t.end - t.p));
		t.p = next ? next + 1 : t.end;
	}
	return rc;
}
