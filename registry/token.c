// SPDX-License-Identifier: Apache-2.0
#include "registry/token.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/registry_host.h"
#include "p2p/rights/capability.h"

#define SPACE " \t\r"

static const struct {
	const char *name;
	enum role role;
} roles[] = {
	{ "read", ROLE_READ },       { "write", ROLE_WRITE },
	{ "admin", ROLE_ADMIN },     { "notify", ROLE_NOTIFY },
	{ "convert", ROLE_CONVERT },
};

const char *token_role_name(enum role role)
{
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (roles[i].role == role)
			return roles[i].name;
	return "none";
}

static void token_fini(struct token *t)
{
	free(t->name);
	free(t->repo);
	free(t->node);
	free(t->stores);
}

void tokens_fini(struct tokens *t)
{
	for (size_t i = 0; i < t->n; i++)
		token_fini(&t->v[i]);
	free(t->v);
	memset(t, 0, sizeof(*t));
}

static int parse_roles(char *list, unsigned int *ret, struct error *err)
{
	char *word;
	size_t i;

	while ((word = strsep(&list, ","))) {
		for (i = 0; i < ARRAY_SIZE(roles); i++) {
			if (strcmp(word, roles[i].name) == 0)
				break;
		}
		if (i == ARRAY_SIZE(roles))
			return error_set(err, EINVAL,
					 "'%s' is no role: read, write, "
					 "admin, notify, convert",
					 word);
		*ret |= roles[i].role;
	}
	return 0;
}

static int keep_member(char **member, const char *value, struct error *err)
{
	if (*member || !*value)
		return error_set(err, EINVAL, "'%s': empty, or given twice",
				 value);
	*member = strdup(value);
	return *member ? 0 : error_nomem(err);
}

/* Length of the first URL of the comma-separated `list`. */
static size_t store_len(const char *list)
{
	return strcspn(list, ",");
}

static int check_store(const char *url, size_t len, struct error *err)
{
	AUTO_FREE char *one = strndup(url, len);

	if (!one)
		return error_nomem(err);
	if (capability_repo_of(one))
		return error_set(err, EINVAL,
				 "stores=%.200s: who may read there is said by "
				 "its registry; leave it out",
				 one);
	if (!capability_is_store(one))
		return error_set(err, EINVAL,
				 "stores=%.200s: wanted is the URL of a store "
				 "as in s3://bucket/env, without options or a "
				 "last '/'",
				 one);
	return 0;
}

static int keep_stores(struct token *t, const char *list, struct error *err)
{
	const char *at = list;
	int rc;

	for (;;) {
		size_t n = store_len(at);

		rc = check_store(at, n, err);
		if (rc < 0 || !at[n])
			break;
		at += n + 1;
	}
	return rc < 0 ? rc : keep_member(&t->stores, list, err);
}

static int parse_option(char *word, struct token *t, struct error *err)
{
	size_t n = strlen(word);

	if (strncmp(word, "repo=", 5) == 0) {
		/* Drop trailing slashes: the database compares the prefix with whole parts of
		 * names. */
		while (n > 5 && word[n - 1] == '/')
			word[--n] = '\0';
		return keep_member(&t->repo, word + 5, err);
	}
	if (strncmp(word, "node=", 5) == 0)
		return keep_member(&t->node, word + 5, err);
	if (strncmp(word, "stores=", 7) == 0)
		return keep_stores(t, word + 7, err);
	return error_set(err, EINVAL,
			 "'%s' is none of repo=, node=, stores=", word);
}

static char *next_word(char **rest)
{
	char *word;

	do {
		word = strsep(rest, SPACE);
	} while (word && !*word);
	return word;
}

static int parse_token(char *line, struct token *t, struct error *err)
{
	char *name = next_word(&line), *hash = next_word(&line);
	char *list = next_word(&line), *word;
	int rc;

	if (!list)
		return error_set(err, EINVAL,
				 "wanted: NAME sha256:HEX ROLE[,ROLE...], with "
				 "the HEX of \"printf %%s TOKEN | sha256sum\"");
	if (strlen(name) > TOKEN_NAME_MAX)
		return error_set(err, EINVAL, "the name is too long");
	rc = digest_parse(hash, &t->sha256, err);
	if (rc == 0)
		rc = parse_roles(list, &t->roles, err);
	if (rc == 0)
		rc = keep_member(&t->name, name, err);
	while (rc == 0 && (word = next_word(&line)))
		rc = parse_option(word, t, err);
	return rc;
}

static int add_line(char *line, struct tokens *ret, struct error *err)
{
	struct token t = { .name = NULL }, *v;
	int rc;

	line[strcspn(line, "#")] = '\0';
	if (!line[strspn(line, SPACE)])
		return 0;
	if (ret->n == TOKENS_MAX)
		return error_set(err, E2BIG, "more than %u tokens", TOKENS_MAX);
	rc = parse_token(line, &t, err);
	for (size_t i = 0; i < ret->n && rc == 0; i++) {
		if (strcmp(ret->v[i].name, t.name) == 0)
			rc = error_set(err, EINVAL, "a second '%s'", t.name);
	}
	v = rc == 0 ? reallocarray(ret->v, ret->n + 1, sizeof(*v)) : NULL;
	if (rc == 0 && !v)
		rc = error_nomem(err);
	if (rc < 0) {
		token_fini(&t);
		return rc;
	}
	ret->v = v;
	ret->v[ret->n++] = t;
	return 0;
}

int tokens_parse(const char *text, struct tokens *ret, struct error *err)
{
	AUTO_FREE char *copy = strdup(text);
	struct tokens t = { .n = 0 };
	char *rest = copy, *line;
	int rc = 0, number = 0;

	if (!copy)
		return error_nomem(err);
	while (rc == 0 && (line = strsep(&rest, "\n"))) {
		number++;
		rc = add_line(line, &t, err);
	}
	if (rc < 0) {
		tokens_fini(&t);
		return error_wrap(err, rc, "line %d", number);
	}
	*ret = t;
	return 0;
}

int tokens_load(const char *path, struct tokens *ret, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_read_file(path, TOKENS_FILE_MAX, &text, err);

	if (rc == -ENOENT)
		return error_set(
			err, ENOENT,
			"tokens file '%s' is not there: mend the path, or "
			"make it, with a line for each token: NAME "
			"sha256:HEX ROLE[,ROLE...]",
			path);
	if (rc == 0)
		rc = tokens_parse(text.data ? text.data : "", ret, err);
	return rc < 0 ? error_wrap(err, rc, "tokens file '%s'", path) : 0;
}

const struct token *tokens_find(const struct tokens *t,
				const char *authorization)
{
	static const char scheme[] = "Bearer ";
	const struct token *found = NULL;
	struct digest d;

	if (!authorization ||
	    strncasecmp(authorization, scheme, strlen(scheme)) != 0)
		return NULL;
	authorization += strlen(scheme);
	authorization += strspn(authorization, " ");
	if (digest_of(authorization, strlen(authorization), &d) < 0)
		return NULL;
	for (size_t i = 0; i < t->n; i++) {
		if (CRYPTO_memcmp(d.b, t->v[i].sha256.b, DIGEST_SIZE) == 0)
			found = &t->v[i];
	}
	return found;
}

bool token_has_node(const struct token *t, const char *node)
{
	return t->node && (strcmp(t->node, TOKEN_ANY_NODE) == 0 ||
			   strcmp(t->node, node) == 0);
}

bool token_has_repo(const struct token *t, const char *repo)
{
	return !t->repo ||
	       registry_host_is_below(repo, t->repo, strlen(t->repo));
}

bool token_has_store(const struct token *t, const char *url)
{
	size_t len = strlen(url);
	const char *at = t->stores;

	while (at) {
		size_t n = store_len(at);

		if (n == len && strncmp(at, url, n) == 0)
			return true;
		at = at[n] ? at + n + 1 : NULL;
	}
	return false;
}

/* ------------------------------------------------------------------------ set --- */

int token_set_load(const char *path, struct token_set **ret, struct error *err)
{
	struct token_set *set = calloc(1, sizeof(*set));
	int rc;

	if (!set)
		return error_nomem(err);
	set->refs = 1;
	rc = tokens_load(path, &set->tokens, err);
	if (rc < 0)
		token_set_unref(set);
	else
		*ret = set;
	return rc;
}

struct token_set *token_set_ref(struct token_set *set)
{
	set->refs++;
	return set;
}

void token_set_unref(struct token_set *set)
{
	if (!set || --set->refs > 0)
		return;
	tokens_fini(&set->tokens);
	free(set);
}
