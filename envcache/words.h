// SPDX-License-Identifier: Apache-2.0
/* Split a shell text into words, as far as possible without running it. */
#ifndef BOOTSEER_ENVCACHE_WORDS_H
#define BOOTSEER_ENVCACHE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/error.h"

#define SHELL_WORDS_MAX 20000u

struct shell_word {
	char *text;     /* the word without quotes, variables expanded */
	char *written;  /* the word without quotes, variables unexpanded */
	bool is_first;  /* the word is a command's name */
	bool is_piped;  /* is_first, and the command reads the output of the
	                 * one before "|" */
	bool is_output; /* a file that the shell writes to, after ">" */
	bool is_input;  /* a file that the shell reads, after "<" */
	bool is_open;   /* contains parts that only the shell can expand:
	                 * $(...), $1 */
};

struct shell_words {
	struct shell_word *list;
	size_t n, cap;
};

/* `environment` has the form of environ(7).  -E2BIG: more than SHELL_WORDS_MAX words. */
int shell_words_split(const char *text, char *const *environment,
		      struct shell_words *ret, struct error *err) MUST_CHECK;
void shell_words_fini(struct shell_words *w);
/* The length of the name in $NAME or ${NAME at `at`, with its start in *ret; 0: no name. */
size_t shell_variable_name(const char *at, const char **ret);
/* The value of `name` (`len` bytes) in an environment; NULL: not set. */
const char *variable_find(char *const *environment, const char *name,
			  size_t len);

/* A copy of `text` without logins: user and password of URLs, tokens in their paths and queries,
 * values of --token, PASSWORD= and similar.  NULL: no memory. */
char *text_without_logins(const char *text) MUST_CHECK;
/* Does the option or variable `name` hold a password, token or other secret? */
bool name_is_secret(const char *name, size_t len);

#endif
