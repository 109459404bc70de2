// SPDX-License-Identifier: Apache-2.0
/* The tokens file: which token has which rights. Parsing is pure. */
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
	ROLE_NOTIFY = 8,   /* a registry that sends push notifications */
	ROLE_CONVERT = 16, /* a worker that converts pushed images */
};

/* The role's name in the tokens file. */
const char *token_role_name(enum role role);

struct token {
	char *name; /* name for logs; with the node it identifies a voter */
	struct digest sha256;
	unsigned int roles; /* bits of enum role */
	/* the only repository the token may use, with those below it; NULL: all */
	char *repo;
	/* URLs, separated by commas, of stores that the token's nodes may read entirely; NULL:
	 * none */
	char *stores;
	/* the only node that the token may act for; TOKEN_ANY_NODE: any; NULL: the node named by
	 * the client certificate */
	char *node;
};

struct tokens {
	struct token *v;
	size_t n;
};

/*
 * Parse a file of lines `NAME sha256:HEX ROLE[,ROLE...] [repo=PREFIX] [node=NAME]
 * [stores=URL[,URL...]]`; '#' begins a comment. -EINVAL: the message names the line.
 */
int tokens_parse(const char *text, struct tokens *ret,
		 struct error *err) MUST_CHECK;
int tokens_load(const char *path, struct tokens *ret,
		struct error *err) MUST_CHECK;
void tokens_fini(struct tokens *t);

/* A loaded tokens file with a reference count: after a reload, running calls still use the older
 * set. Used on the loop thread. */
struct token_set {
	struct tokens tokens;
	unsigned int refs;
};
/* Load a set; the caller gets the first reference. */
int token_set_load(const char *path, struct token_set **ret,
		   struct error *err) MUST_CHECK;
struct token_set *token_set_ref(struct token_set *set);
void token_set_unref(struct token_set *set);

/* Find the token that a client sent as "Authorization"; NULL: unknown. Takes the same time for
 * every entry, so that timing reveals nothing. */
const struct token *tokens_find(const struct tokens *t,
				const char *authorization);

/* May the token act for this node? Always false for a token that names no node. */
bool token_has_node(const struct token *t, const char *node);

/* May the token see and change this repository? "": data that belongs to no single repository. */
bool token_has_repo(const struct token *t, const char *repo);

/* Does the token's line name this store, so that its nodes may get the store's blocks from each
 * other? Compares the whole URL. */
bool token_has_store(const struct token *t, const char *url);

#endif
