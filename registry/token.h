// SPDX-License-Identifier: Apache-2.0
/* The tokens file: who may do what. Parsing is pure. */
#ifndef BOOTSEER_REGISTRY_TOKEN_H
#define BOOTSEER_REGISTRY_TOKEN_H

#include <stdbool.h>

#include "common/digest.h"

#define TOKENS_MAX 4096u
#define TOKENS_FILE_MAX (2u << 20) /* bytes */
#define TOKEN_NAME_MAX 63u

#define TOKEN_ANY_NODE "*"

enum role {
	ROLE_NONE = 0,
	ROLE_READ = 1,
	ROLE_WRITE = 2,
	ROLE_ADMIN = 4,
	ROLE_NOTIFY = 8,   /* a registry, that says what was pushed */
	ROLE_CONVERT = 16, /* a worker, that converts it */
};

/* As a tokens file has it. */
const char *token_role_name(enum role role);

struct token {
	char *name; /* for logs, and the voter's first name */
	struct digest sha256;
	unsigned int roles; /* of enum role */
	char *repo;   /* prefix: this repository and those below; NULL: all */
	char *stores; /* URLs between commas: its nodes may read all of them;
		       * NULL: none */
	char *node;   /* it speaks for this node only; TOKEN_ANY_NODE: for any;
		     * NULL: a certificate says for which */
};

struct tokens {
	struct token *v;
	size_t n;
};

/*
 * A file of lines `NAME sha256:HEX ROLE[,ROLE...] [repo=PREFIX] [node=NAME]
 * [stores=URL[,URL...]]`, '#' begins a comment.  -EINVAL names the line.
 */
int tokens_parse(const char *text, struct tokens *ret,
		 struct error *err) MUST_CHECK;
int tokens_load(const char *path, struct tokens *ret,
		struct error *err) MUST_CHECK;
void tokens_fini(struct tokens *t);

/* Tokens that are in force, and those of before while calls by them are under way; the
 * loop's. */
struct token_set {
	struct tokens tokens;
	unsigned int refs;
};
/* The caller has the first reference. */
int token_set_load(const char *path, struct token_set **ret,
		   struct error *err) MUST_CHECK;
struct token_set *token_set_ref(struct token_set *set);
void token_set_unref(struct token_set *set);

/* The entry of what a client sent as "Authorization"; NULL.  Takes as long
 * whichever entry it is. */
const struct token *tokens_find(const struct tokens *t,
				const char *authorization);

/* May it speak for this node?  False for all when it names none. */
bool token_has_node(const struct token *t, const char *node);

/* May it see and change this repository?  "" is no repository. */
bool token_has_repo(const struct token *t, const char *repo);

/* Does its line name the store, so that its nodes may have from each other what is there?
 * By the whole URL: no token has stores that it does not name. */
bool token_has_store(const struct token *t, const char *url);

#endif
