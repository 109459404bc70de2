// SPDX-License-Identifier: Apache-2.0
#include "csi/policy.h"

#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/text.h"

#define ID_MAX UINT32_C(4294967294)
#define MEMORY_MIN (64 * MIB) /* least memory of bootseer-ckpt */
#define MEMORY_DEFAULT (512 * MIB)
/* a namespace's volumes may have this many times `memory` together */
#define TOTAL_DEFAULT 4
#define SIZE_MOST (UINT64_C(1) << 60)
#define RULE_MAX 4096

struct id_range {
	uint64_t from, to;
};

struct volume_rule {
	char *text; /* the rule, cut up in place; owns the texts below */
	const char *namespace, *what, *role; /* namespace "*": any */
	const char *cache;                   /* folder of a cache; NULL: none */
	enum volume_kind kind;
	enum volume_login login;
	bool has_kind, has_login, may_write;
	uint64_t memory, total; /* total 0: TOTAL_DEFAULT times the memory */
	uint64_t cache_size;    /* 0: the default of bootseer-ckpt */
	struct id_range uid, gid;
};

struct volume_policy {
	struct volume_rule *rules;
	size_t n;
};

/* ---- rules ---- */

static int take_range(const char *text, struct id_range *ret)
{
	char from[24];
	const char *dash = strchr(text, '-');
	size_t len = dash ? (size_t)(dash - text) : strlen(text);

	if (len >= sizeof(from))
		return -EINVAL;
	memcpy(from, text, len);
	from[len] = '\0';
	if (volume_number_parse(from, ID_MAX, &ret->from) < 0 ||
	    volume_number_parse(dash ? dash + 1 : from, ID_MAX, &ret->to) < 0 ||
	    ret->from > ret->to)
		return -EINVAL;
	return 0;
}

static int take_login(struct volume_rule *r, const char *value)
{
	r->has_login = true;
	if (strcmp(value, "node") == 0)
		r->login = VOLUME_LOGIN_NODE;
	else if (strcmp(value, "secret") == 0)
		r->login = VOLUME_LOGIN_SECRET;
	else
		return -EINVAL;
	return 0;
}

/* Parse a size within limits, so that sums of sizes do not wrap. */
static int take_size(const char *value, uint64_t *ret)
{
	return volume_size_parse(value, ret) < 0 || *ret < MEMORY_MIN ||
			       *ret > SIZE_MOST
		       ? -EINVAL
		       : 0;
}

static bool is_s3(const char *url)
{
	return strncmp(url, "s3:", 3) == 0;
}

static int set_rule_word(struct volume_rule *r, const char *key,
			 const char *value)
{
	if (strcmp(key, "namespace") == 0 && !r->namespace) {
		r->namespace = value;
		return 0;
	}
	if (strcmp(key, "kind") == 0 && !r->has_kind) {
		r->has_kind = true;
		return volume_kind_parse(value, &r->kind);
	}
	if ((strcmp(key, "image") == 0 || strcmp(key, "store") == 0) &&
	    !r->what) {
		r->what = value;
		return r->has_kind && (*key == 'i') ==
					       (r->kind == VOLUME_KIND_IMAGE)
			       ? 0
			       : -EINVAL;
	}
	if (!r->has_kind || r->kind != VOLUME_KIND_CKPT)
		return -EINVAL;
	if (strcmp(key, "access") == 0) {
		r->may_write = strcmp(value, "write") == 0;
		return r->may_write || strcmp(value, "read") == 0 ? 0 : -EINVAL;
	}
	if (strcmp(key, "memory") == 0)
		return take_size(value, &r->memory);
	if (strcmp(key, "total") == 0)
		return take_size(value, &r->total);
	if (strcmp(key, "cache") == 0 && !r->cache) {
		r->cache = value;
		return *value == '/' ? 0 : -EINVAL;
	}
	if (strcmp(key, "cache-size") == 0)
		return take_size(value, &r->cache_size);
	if (strcmp(key, "uid") == 0)
		return take_range(value, &r->uid);
	if (strcmp(key, "gid") == 0)
		return take_range(value, &r->gid);
	if (strcmp(key, "credentials") == 0 && !r->has_login)
		return take_login(r, value);
	if (strcmp(key, "role") == 0 && !r->has_login) {
		r->has_login = true;
		r->login = VOLUME_LOGIN_ROLE;
		r->role = value;
		return *value ? 0 : -EINVAL;
	}
	return -EINVAL;
}

static int check_rule(const struct volume_rule *r, const char *rule,
		      struct error *err)
{
	if (!r->namespace || !*r->namespace || !r->has_kind || !r->what ||
	    !*r->what)
		return error_set(err, EINVAL,
				 "--allow '%.200s': wanted are namespace=, "
				 "kind=, and image= or store=",
				 rule);
	if (r->kind == VOLUME_KIND_IMAGE &&
	    !text_is_repo_prefix(r->what, strlen(r->what)))
		return error_set(err, EINVAL,
				 "--allow '%.200s': image= is HOST[:PORT] or "
				 "HOST[:PORT]/PATH, as names of images begin",
				 rule);
	if (r->kind != VOLUME_KIND_IMAGE && !strchr(r->what, ':'))
		return error_set(err, EINVAL,
				 "--allow '%.200s': store= is a URL, as "
				 "s3://BUCKET/PATH",
				 rule);
	if (r->total && r->total < r->memory)
		return error_set(err, EINVAL,
				 "--allow '%.200s': total= is less than "
				 "memory=, that one volume may have",
				 rule);
	if (r->cache_size && !r->cache)
		return error_set(err, EINVAL,
				 "--allow '%.200s': cache-size= is of a "
				 "cache=, a folder",
				 rule);
	if (r->login == VOLUME_LOGIN_ROLE && !is_s3(r->what))
		return error_set(err, EINVAL,
				 "--allow '%.200s': a role is of s3: stores "
				 "alone",
				 rule);
	if (r->login == VOLUME_LOGIN_SECRET && !is_s3(r->what))
		return error_set(err, EINVAL,
				 "--allow '%.200s': secrets are of s3: stores "
				 "alone",
				 rule);
	return 0;
}

static int rule_parse(const char *rule, struct volume_rule *r,
		      struct error *err)
{
	char *save = NULL;

	*r = (struct volume_rule){ .memory = MEMORY_DEFAULT };
	if (strlen(rule) > RULE_MAX)
		return error_set(err, EINVAL,
				 "--allow: a rule has %d bytes at most",
				 RULE_MAX);
	r->text = strdup(rule);
	if (!r->text)
		return error_nomem(err);
	for (char *w = strtok_r(r->text, " \t\n", &save); w;
	     w = strtok_r(NULL, " \t\n", &save)) {
		char *value = strchr(w, '=');

		if (value)
			*value++ = '\0';
		if (!value || set_rule_word(r, w, value) < 0)
			return error_set(
				err, EINVAL,
				"--allow '%.200s': '%.100s%s%.100s' is "
				"nothing that a rule has there; first "
				"come namespace=, kind=, and image= or "
				"store=",
				rule, w, value ? "=" : "", value ? value : "");
	}
	if (!r->has_login && r->kind == VOLUME_KIND_CKPT && r->what &&
	    is_s3(r->what))
		r->login = VOLUME_LOGIN_SECRET;
	return check_rule(r, rule, err);
}

int volume_policy_new(char *const *rules, struct volume_policy **ret,
		      struct error *err)
{
	AUTO(volume_policy) p = calloc(1, sizeof(*p));
	size_t n = 0;

	while (rules && rules[n])
		n++;
	if (!p)
		return error_nomem(err);
	p->rules = calloc(n ? n : 1, sizeof(*p->rules));
	if (!p->rules)
		return error_nomem(err);
	for (; p->n < n; p->n++) {
		int rc = rule_parse(rules[p->n], &p->rules[p->n], err);

		if (rc < 0) {
			free(p->rules[p->n].text);
			return rc;
		}
	}
	*ret = steal_ptr(&p);
	return 0;
}

void volume_policy_free(struct volume_policy *p)
{
	for (size_t i = 0; p && i < p->n; i++)
		free(p->rules[i].text);
	if (p)
		free(p->rules);
	free(p);
}

/* ---- decisions ---- */

/* Does the image lie below the prefix?  Its repository is the part before the tag or digest; a
 * colon after the last slash begins a tag. */
static bool holds_image(const char *prefix, const char *image)
{
	char name[512 + 1];
	size_t len = strcspn(image, "@");
	const char *slash, *colon;

	if (len >= sizeof(name))
		return false;
	memcpy(name, image, len);
	name[len] = '\0';
	slash = strrchr(name, '/');
	colon = slash ? strchr(slash, ':') : NULL;
	if (colon)
		name[colon - name] = '\0';
	/* Refuse "team/../other", which a registry might take for another repository. */
	return slash && text_is_repo_prefix(name, strlen(name)) &&
	       !strstr(name, "/.") && text_path_holds(prefix, name);
}

/* Is each folder below a store a plain name: no escape sequence, no option, no ".."? */
static bool is_plain_folder(const char *path)
{
	for (const char *at = path; at; at = strchr(at + 1, '/')) {
		size_t n = strcspn(at + 1, "/");

		if (n == 0 || (n <= 2 && strspn(at + 1, ".") >= n))
			return false;
	}
	for (; *path; path++)
		if (!strchr("/._-", *path) && !(*path >= '0' && *path <= '9') &&
		    !(*path >= 'a' && *path <= 'z') &&
		    !(*path >= 'A' && *path <= 'Z'))
			return false;
	return true;
}

/* The part of `store` after the rule's URL, "" or "/folder"; NULL: the rule is not for this
 * store. A folder on a file system is only granted as a whole, because names below it may be
 * links. */
static const char *folder_below(const struct volume_rule *r, const char *store)
{
	size_t len = strcspn(r->what, "?");
	const char *rest;

	if (strcmp(store, r->what) == 0)
		return "";
	if (strncmp(store, r->what, len) != 0)
		return NULL;
	rest = store + len;
	if (!*rest)
		return rest;
	return r->kind == VOLUME_KIND_CKPT && *rest == '/' &&
			       strncmp(store, "file:", 5) != 0 &&
			       is_plain_folder(rest)
		       ? rest
		       : NULL;
}

static bool is_rule_about_request(const struct volume_rule *r,
				  const struct volume_request *q)
{
	if (r->kind != q->kind || (strcmp(r->namespace, "*") != 0 &&
				   strcmp(r->namespace, q->namespace) != 0))
		return false;
	return q->kind == VOLUME_KIND_IMAGE ? holds_image(r->what, q->image)
					    : folder_below(r, q->store) != NULL;
}

static int check_id(const char *what, uint64_t id, const struct id_range *range,
		    struct error *err)
{
	if (id >= range->from && id <= range->to)
		return 0;
	return error_set(
		err, EACCES,
		"%s %llu: the node's rule allows %llu to %llu: ask for "
		"one of these, or have its operator extend the rule",
		what, (unsigned long long)id, (unsigned long long)range->from,
		(unsigned long long)range->to);
}

static int fill_grant(const struct volume_rule *r,
		      const struct volume_request *q, struct volume_grant *g,
		      struct error *err)
{
	size_t len = strcspn(r->what, "?");
	int rc = 0;

	if (q->kind == VOLUME_KIND_CKPT && !q->is_read_only && !r->may_write)
		return error_set(err, EACCES,
				 "the node's rule lets pods of namespace %s "
				 "only read '%.100s': say readOnly: true, or "
				 "have its operator add access=write",
				 q->namespace, q->store);
	if (q->has_memory && (q->memory > r->memory || q->memory < MEMORY_MIN))
		return error_set(err, EACCES,
				 "memory %llu: the node's rule allows 64Mi to "
				 "%llu bytes",
				 (unsigned long long)q->memory,
				 (unsigned long long)r->memory);
	g->login = r->login;
	g->role = r->role;
	g->cache = r->cache;
	g->cache_size = r->cache_size;
	g->memory = q->has_memory                ? q->memory
		    : r->memory < MEMORY_DEFAULT ? r->memory
						 : MEMORY_DEFAULT;
	g->total = r->total ? r->total : TOTAL_DEFAULT * r->memory;
	g->uid = q->has_uid ? q->uid : r->uid.from;
	g->gid = q->has_gid ? q->gid : r->gid.from;
	rc = check_id("uid", g->uid, &r->uid, err);
	if (rc == 0)
		rc = check_id(q->is_group ? "fsGroup" : "gid", g->gid, &r->gid,
			      err);
	if (rc < 0 || q->kind == VOLUME_KIND_IMAGE)
		return rc;
	if (asprintf(&g->store, "%.*s%s%s", (int)len, r->what,
		     folder_below(r, q->store), r->what + len) < 0) {
		g->store = NULL;
		return error_nomem(err);
	}
	return 0;
}

int volume_policy_decide(const struct volume_policy *p,
			 const struct volume_request *q,
			 struct volume_grant *ret, struct error *err)
{
	const char *what = q->kind == VOLUME_KIND_IMAGE ? q->image : q->store;
	int rc = 0;

	*ret = (struct volume_grant){ .store = NULL };
	for (size_t i = 0; i < p->n; i++) {
		if (!is_rule_about_request(&p->rules[i], q))
			continue;
		rc = fill_grant(&p->rules[i], q, ret, err);
		if (rc == 0 || rc == -ENOMEM)
			return rc;
	}
	/* Return the failure of the last rule that is about this request. */
	if (rc < 0)
		return rc;
	return error_set(err, EACCES,
			 "no rule of this node gives pods of namespace %s the "
			 "%s '%.120s': its operator adds one to 'allow' in "
			 "bootseer-csi's configuration: \"namespace=%s kind=%s "
			 "%s=%.120s\"",
			 q->namespace, volume_kind_name(q->kind), what,
			 q->namespace, volume_kind_name(q->kind),
			 q->kind == VOLUME_KIND_IMAGE ? "image" : "store",
			 what);
}

void volume_grant_fini(struct volume_grant *g)
{
	free(g->store);
	*g = (struct volume_grant){ .store = NULL };
}
