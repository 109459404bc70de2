// SPDX-License-Identifier: Apache-2.0
#include "cli/job_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define PLAIN \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" \
	"%+,-./:=@_"

void job_words_add(struct job_words *w, const char *fmt, ...)
{
	va_list ap;
	char *word = NULL;

	if (array_grow(&w->v, w->n + 1, &w->cap, 16) < 0) {
		w->is_short = true;
		return;
	}
	va_start(ap, fmt);
	if (vasprintf(&word, fmt, ap) < 0) {
		word = NULL;
		w->is_short = true;
	}
	va_end(ap);
	w->v[w->n] = word;
	w->n += word != NULL;
	w->v[w->n] = NULL;
}

void job_words_add_all(struct job_words *w, char *const *list)
{
	for (; list && *list; list++)
		job_words_add(w, "%s", *list);
}

void job_words_add_option(struct job_words *w, char *const *list,
			  const char *name)
{
	size_t n = strlen(name);

	for (; list && *list; list++) {
		if (strncmp(*list, name, n) != 0)
			continue;
		if ((*list)[n] == '=') {
			job_words_add(w, "%s", *list);
		} else if (!(*list)[n] && list[1]) {
			job_words_add(w, "%s", *list++);
			job_words_add(w, "%s", *list);
		}
	}
}

void job_words_add_each(struct job_words *w, const char *option,
			char *const *list)
{
	for (; list && *list; list++) {
		job_words_add(w, "%s", option);
		job_words_add(w, "%s", *list);
	}
}

void job_words_fini(struct job_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	*w = (struct job_words){ .v = NULL };
}

static int quote_word(const char *word, struct buf *ret)
{
	int rc = 0;

	if (*word && strspn(word, PLAIN) == strlen(word))
		return buf_puts(ret, word);
	rc = buf_puts(ret, "'");
	for (; rc == 0 && *word; word++)
		rc = *word == '\'' ? buf_puts(ret, "'\\''")
				   : buf_append(ret, word, 1);
	return rc < 0 ? rc : buf_puts(ret, "'");
}

int job_words_quote(char *const *v, struct buf *ret)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && v && v[i]; i++) {
		if (i)
			rc = buf_puts(ret, " ");
		if (rc == 0)
			rc = quote_word(v[i], ret);
	}
	return rc;
}
