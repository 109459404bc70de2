// SPDX-License-Identifier: Apache-2.0
/* Parsing and choosing of trust rules. */
#include "snapshotter/node/trust/policy.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/text.h"

static const char *const mode_names[] = {
	[POLICY_OFF] = "off",   [POLICY_REGISTRY] = "registry",
	[POLICY_SIGN] = "sign", [POLICY_VERIFIED] = "verified",
	[POLICY_ASK] = "ask",   [POLICY_BUILD] = "build",
};

/* The option that a policy's rules come from. */
struct policy_option {
	const char *name, *modes; /* for messages */
	unsigned int allowed;     /* a bit for each mode */
};

static const struct policy_option trust_option = {
	.name = "--trust",
	.modes = "off, registry, sign or verified",
	.allowed = 1u << POLICY_OFF | 1u << POLICY_REGISTRY |
		   1u << POLICY_SIGN | 1u << POLICY_VERIFIED,
};

static const struct policy_option index_option = {
	.name = "--index",
	.modes = "off, ask or build:KEY",
	.allowed = 1u << POLICY_OFF | 1u << POLICY_ASK | 1u << POLICY_BUILD,
};

void policy_fini(struct policy *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->rules[i].prefix);
		free(p->rules[i].keys);
	}
	free(p->rules);
	*p = (struct policy){ .rules = NULL };
}

static const char *const docker_hub[] = { "index.docker.io",
					  "registry-1.docker.io" };

/*
 * The form in which rules compare repositories: the host in lower case, without ":443".
 * Otherwise the author of a pod could choose between rules by the spelling of the host.  NULL
 * when memory is short.
 */
static char *normal_form(const char *text, size_t len)
{
	char *s = strndup(text, len);
	size_t n;

	if (!s)
		return NULL;
	n = strcspn(s, "/");
	for (size_t i = 0; i < n; i++)
		s[i] = (char)tolower((unsigned char)s[i]);
	if (n > 4 && memcmp(s + n - 4, ":443", 4) == 0)
		memmove(s + n - 4, s + n, strlen(s + n) + 1);
	/* Docker Hub has several names; signatures use docker.io. */
	n = strcspn(s, "/");
	for (size_t i = 0; i < ARRAY_SIZE(docker_hub); i++) {
		if (strlen(docker_hub[i]) == n &&
		    memcmp(s, docker_hub[i], n) == 0) {
			memcpy(s, "docker.io", 9);
			memmove(s + 9, s + n, strlen(s + n) + 1);
			break;
		}
	}
	return s;
}

/* ---- one rule ---- */

static bool mode_parse(const struct policy_option *o, const char *text,
		       size_t len, enum policy_mode *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(mode_names); i++) {
		if (o->allowed & 1u << i && strlen(mode_names[i]) == len &&
		    memcmp(mode_names[i], text, len) == 0) {
			*ret = (enum policy_mode)i;
			return true;
		}
	}
	return false;
}

static int check_prefix(const char *text, size_t len, struct error *err)
{
	const char *scheme = memmem(text, len, "://", 3);

	if (len == 0)
		return error_set(err, EINVAL,
				 "no prefix is before '=': a host with or "
				 "without a path, or * for all");
	if (scheme)
		return error_set(err, EINVAL,
				 "the prefix has a scheme: leave '%.*s' out",
				 (int)(scheme + 3 - text), text);
	if (len > POLICY_PREFIX_MAX)
		return error_set(err, EINVAL,
				 "the prefix has %zu bytes, %d at most", len,
				 POLICY_PREFIX_MAX);
	if (memchr(text, '*', len))
		return error_set(err, EINVAL,
				 "* stands alone, for all; a prefix holds for "
				 "all below it without one");
	if (!text_is_repo_prefix(text, len))
		return error_set(err, EINVAL,
				 "'%.*s' is no host with or without a path, in "
				 "lower case and without '/' at its end",
				 (int)(len < 80 ? len : 80), text);
	return 0;
}

/* Check the part of a rule after the colon; `file` NULL: there is none. */
static int check_file(enum policy_mode mode, const char *file,
		      struct error *err)
{
	if (!file)
		return mode == POLICY_BUILD
			       ? error_set(err, EINVAL,
					   "nobody believes an index that "
					   "nobody signed: name a private key, "
					   "PREFIX=build:FILE")
			       : 0;
	if (mode != POLICY_SIGN && mode != POLICY_VERIFIED &&
	    mode != POLICY_BUILD)
		return error_set(err, EINVAL,
				 "'%s' takes no file of keys: leave ':%.60s' "
				 "out, or write sign or verified",
				 mode_names[mode], file);
	if (!*file)
		return error_set(err, EINVAL,
				 "the file of keys is missing behind ':'%s",
				 mode == POLICY_BUILD
					 ? ""
					 : ": without one leave ':' out, and "
					   "--trust-keys is taken");
	if (*file != '/')
		return error_set(err, EINVAL,
				 "the file of keys, '%.80s', is no absolute "
				 "path",
				 file);
	return 0;
}

/* Check a rule: `len` bytes of prefix, then '='. */
static int check_rule(const struct policy_option *o, const char *text,
		      size_t len, struct policy_rule *ret, struct error *err)
{
	bool everywhere = len == 1 && text[0] == '*';
	const char *mode = text + len + 1;
	size_t mode_len = strcspn(mode, ":");
	const char *file = mode[mode_len] ? mode + mode_len + 1 : NULL;
	int rc = everywhere ? 0 : check_prefix(text, len, err);

	if (rc < 0)
		return rc;
	if (!mode_parse(o, mode, mode_len, &ret->mode))
		return error_set(err, EINVAL, "'%.*s' is no mode: %s",
				 (int)(mode_len < 40 ? mode_len : 40), mode,
				 o->modes);
	rc = check_file(ret->mode, file, err);
	if (rc < 0)
		return rc;
	if (everywhere && ret->mode == POLICY_REGISTRY)
		return error_set(err, EINVAL,
				 "everybody who may push anywhere would be "
				 "believed; name the repositories: "
				 "HOST[/PATH]=registry");
	ret->prefix = normal_form(text, everywhere ? 0 : len);
	ret->keys = file ? strdup(file) : NULL;
	return ret->prefix && (!file || ret->keys) ? 0 : error_nomem(err);
}

static int rule_parse(const struct policy_option *o, const char *text,
		      struct policy_rule *ret, struct error *err)
{
	const char *equal = strchr(text, '=');
	int rc = equal ? check_rule(o, text, (size_t)(equal - text), ret, err)
		       : error_set(err, EINVAL,
				   "'=' is missing: PREFIX=MODE is wanted, "
				   "MODE being %s",
				   o->modes);

	return rc < 0 ? error_wrap(err, rc, "%s '%.80s'", o->name, text) : 0;
}

/* ---- all of them ---- */

static int add_rule(const struct policy_option *o, struct policy *p,
		    const char *text, struct error *err)
{
	struct policy_rule *r = &p->rules[p->n++];
	int rc = rule_parse(o, text, r, err);

	for (size_t i = 0; rc == 0 && i + 1 < p->n; i++) {
		if (strcmp(p->rules[i].prefix, r->prefix) == 0)
			rc = error_set(err, EINVAL,
				       "%s: two rules for '%s'; keep one",
				       o->name, *r->prefix ? r->prefix : "*");
	}
	return rc;
}

/* Parse a list of rules; if it is empty, `by_default` is the only rule; NULL: there is no rule
 * then. */
static int parse_list(const struct policy_option *o, char *const *list,
		      const char *by_default, struct policy *ret,
		      struct error *err)
{
	struct policy p = { .rules = NULL };
	size_t n = 0;
	int rc = 0;

	while (list && list[n])
		n++;
	if (n > POLICY_RULES_MAX)
		return error_set(err, EINVAL, "%s: %zu rules, %d at most",
				 o->name, n, POLICY_RULES_MAX);
	p.rules = calloc(n ? n : 1, sizeof(*p.rules));
	if (!p.rules)
		return error_nomem(err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_rule(o, &p, list[i], err);
	if (n == 0 && by_default)
		rc = add_rule(o, &p, by_default, err);
	if (rc < 0)
		policy_fini(&p);
	else
		*ret = p;
	return rc;
}

int policy_parse(char *const *list, struct policy *ret, struct error *err)
{
	return parse_list(&trust_option, list, "*=sign", ret, err);
}

int policy_parse_index(char *const *list, struct policy *ret, struct error *err)
{
	int rc = parse_list(&index_option, list, NULL, ret, err);
	const char *key = rc < 0 ? NULL : policy_index_key(ret);

	for (size_t i = 0; key && i < ret->n; i++) {
		const char *file = ret->rules[i].keys;

		if (!file || strcmp(file, key) == 0)
			continue;
		rc = error_set(err, EINVAL,
			       "--index: a node signs with one key, so '%.60s' "
			       "and '%.60s' cannot both be",
			       key, file);
		policy_fini(ret);
		break;
	}
	return rc;
}

const char *policy_index_key(const struct policy *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->rules[i].keys)
			return p->rules[i].keys;
	return NULL;
}

const struct policy_rule *policy_find(const struct policy *p,
				      const char *repository)
{
	AUTO_FREE char *name = normal_form(repository, strlen(repository));
	const struct policy_rule *best = NULL;

	/* If memory is short, no rule is found, so nothing is trusted. */
	for (size_t i = 0; name && i < p->n; i++) {
		const struct policy_rule *r = &p->rules[i];

		if (text_path_holds(r->prefix, name) &&
		    (!best || strlen(r->prefix) > strlen(best->prefix)))
			best = r;
	}
	return best;
}
