// SPDX-License-Identifier: Apache-2.0
/* A command line that is built word by word.  Lack of memory is noted and reported at the end. */
#ifndef BOOTSEER_CLI_JOB_WORDS_H
#define BOOTSEER_CLI_JOB_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

struct job_words {
	char **v; /* ends with NULL; NULL: no word */
	size_t n, cap;
	bool is_short; /* memory ran out: words are missing */
};

void job_words_add(struct job_words *w, const char *fmt, ...) PRINTF(2, 3);
void job_words_add_all(struct job_words *w, char *const *list);
/* Add `option` before each word of the list. */
void job_words_add_each(struct job_words *w, const char *option,
			char *const *list);
/* Add each option of the list that has this name, with its value (after '=' or the next word). */
void job_words_add_option(struct job_words *w, char *const *list,
			  const char *name);
void job_words_fini(struct job_words *w);

/* Append the words, quoted for a shell. */
int job_words_quote(char *const *v, struct buf *ret) MUST_CHECK;

#endif
