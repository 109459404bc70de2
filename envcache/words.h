// SPDX-License-Identifier: Apache-2.0
/* The words of a shell's text, as far as they can be told without running it. */
#ifndef BOOTSEER_ENVCACHE_WORDS_H
#define BOOTSEER_ENVCACHE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/error.h"

#define SHELL_WORDS_MAX 20000u

struct shell_word {
	char *text;     /* without quotes, with values of variables */
	char *written;  /* without quotes, variables by their names */
	bool is_first;  /* of a command, which it names */
	bool is_piped;  /* it is, and what stands before a "|" is its input */
	bool is_output; /* a file that the shell writes to: behind ">" */
	bool is_input;  /* one that it reads: behind "<" */
	bool is_open;   /* some of it is known by the shell alone: $(...), $1 */
};

struct shell_words {
	struct shell_word *list;
	size_t n, cap;
};

/* `environment` is as environ(7) has it.  -E2BIG: more than SHELL_WORDS_MAX. */
int shell_words_split(const char *text, char *const *environment,
		      struct shell_words *ret, struct error *err) MUST_CHECK;
void shell_words_fini(struct shell_words *w);
/* The bytes of the name at $NAME or ${NAME, which is in *ret; 0: none is there. */
size_t shell_variable_name(const char *at, const char **ret);
/* The value of `name`, of `len` bytes, in an environment; NULL: it has none. */
const char *variable_find(char *const *environment, const char *name,
			  size_t len);

/* A copy of `text` without what is a login in it: user and password of URLs, tokens in
 * their paths and queries, values of --token, PASSWORD= and the like.  NULL: no memory. */
char *text_without_logins(const char *text) MUST_CHECK;
/* Does an option or variable of this name have a password, a token or another secret? */
bool name_is_secret(const char *name, size_t len);

#endif
