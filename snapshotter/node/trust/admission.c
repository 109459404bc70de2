// SPDX-License-Identifier: Apache-2.0
/* Applies rules, keys and signatures.  The formats are in snapshotter/trust.h, the operator's
 * rules in policy.h. */
#include "snapshotter/node/trust/admission.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/offer_file.h"
#include "snapshotter/node/trust/key_revocations.h"
#include "snapshotter/trust.h"

#define REFUSALS_MAX 64 /* images whose refusal is remembered */

/* The keys read from a file. A list stays in memory while a check uses it, which may wait for a
 * registry, even if the file is read again meanwhile. */
struct key_list {
	struct trust_keys *keys; /* NULL: the file cannot be read */
	struct error why;        /* why the file cannot be read */
	unsigned int refs;       /* under the lock of `files` */
};

/* A file of public keys, as last read. */
struct key_file {
	const char *path;      /* borrowed from the configuration or a rule */
	struct key_list *list; /* NULL: no rule needs the file */
};

struct refusal {
	char *image;
	enum admission_reason reason;
	struct error why;
	int64_t at; /* seconds since 1970, of the last time */
};

struct admission {
	struct policy policy;            /* never changes */
	struct key_revocations *revoked; /* borrowed; NULL: none */

	/* protects `files`; held for short times only */
	pthread_mutex_t keys_lock;
	struct key_file
		*files; /* one for each path; the first is --trust-keys */
	size_t n_files;

	pthread_mutex_t lock; /* protects the rest */
	struct refusal refusals[REFUSALS_MAX];
	size_t next; /* index of `refusals` that is written next */
};

/* -------------------------------------------------------------------- keys --- */

static bool needs_keys(const struct policy_rule *r)
{
	return r->mode == POLICY_SIGN || r->mode == POLICY_VERIFIED;
}

static const struct key_file *file_of(const struct admission *a,
				      const struct policy_rule *r)
{
	for (size_t i = 1; r->keys && i < a->n_files; i++)
		if (strcmp(a->files[i].path, r->keys) == 0)
			return &a->files[i];
	return &a->files[0];
}

static void put_list(struct admission *a, struct key_list *l)
{
	bool last;

	if (!l)
		return;
	(void)pthread_mutex_lock(&a->keys_lock);
	last = --l->refs == 0;
	(void)pthread_mutex_unlock(&a->keys_lock);
	if (!last)
		return;
	trust_keys_free(l->keys);
	free(l);
}

/* Take a use of the keys of a rule; NULL: memory was short when they were read. */
static struct key_list *get_list(struct admission *a,
				 const struct policy_rule *r)
{
	struct key_list *l;

	(void)pthread_mutex_lock(&a->keys_lock);
	l = file_of(a, r)->list;
	if (l)
		l->refs++;
	(void)pthread_mutex_unlock(&a->keys_lock);
	return l;
}

static void load_file(struct admission *a, struct key_file *f)
{
	struct key_list *l = calloc(1, sizeof(*l)), *old;

	if (l) {
		l->refs = 1;
		if (trust_keys_load(f->path, &l->keys, &l->why) < 0)
			log_warning("trust",
				    "no keys file=\"%s\" reason=\"%s\" "
				    "action=\"images that need one start the "
				    "ordinary way\" cure=\"copy the public key "
				    "of who converts images there, 'bootseer "
				    "key new' makes one; then reload\"",
				    f->path, l->why.msg);
	}
	(void)pthread_mutex_lock(&a->keys_lock);
	old = f->list;
	f->list = l;
	(void)pthread_mutex_unlock(&a->keys_lock);
	put_list(a, old);
}

/* Is the file one that a rule takes keys from? */
static bool is_wanted(const struct admission *a, const struct key_file *f)
{
	for (size_t k = 0; k < a->policy.n; k++)
		if (needs_keys(&a->policy.rules[k]) &&
		    file_of(a, &a->policy.rules[k]) == f)
			return true;
	return false;
}

/* Forget the refusals of `image`; NULL: of all images.  The lock is held. */
static void forget_refusals(struct admission *a, const char *image)
{
	for (size_t i = 0; i < REFUSALS_MAX; i++) {
		struct refusal *r = &a->refusals[i];

		if (!r->image || (image && strcmp(r->image, image) != 0))
			continue;
		free(r->image);
		r->image = NULL;
	}
}

void admission_reload(struct admission *a)
{
	for (size_t i = 0; i < a->n_files; i++)
		if (is_wanted(a, &a->files[i]))
			load_file(a, &a->files[i]);
	/* Forget all refusals: the next start of each image judges it anew. */
	(void)pthread_mutex_lock(&a->lock);
	forget_refusals(a, NULL);
	(void)pthread_mutex_unlock(&a->lock);
}

static int list_files(struct admission *a, const struct node_config *cfg,
		      struct error *err)
{
	a->files = calloc(a->policy.n + 1, sizeof(*a->files));
	if (!a->files)
		return error_nomem(err);
	a->files[a->n_files++].path = cfg->trust_keys;
	for (size_t i = 0; i < a->policy.n; i++) {
		const struct policy_rule *r = &a->policy.rules[i];

		if (r->keys && file_of(a, r) == &a->files[0] &&
		    strcmp(r->keys, cfg->trust_keys) != 0)
			a->files[a->n_files++].path = r->keys;
	}
	return 0;
}

int admission_check_files(const struct node_config *cfg, struct error *err)
{
	struct trust_keys *keys = NULL;
	bool is_needed = false;
	struct policy p;
	int rc = policy_parse(cfg->trust, &p, err);

	if (rc < 0)
		return rc;
	rc = trust_keys_load(cfg->trust_keys, &keys, err);
	trust_keys_free(keys);
	/* A missing file is only logged: a node may be set up before the first image is signed. */
	if (rc == -ENOENT) {
		for (size_t i = 0; !is_needed && i < p.n; i++)
			is_needed = needs_keys(&p.rules[i]) && !p.rules[i].keys;
		if (is_needed)
			log_warning("trust",
				    "no keys file=\"%s\" --trust-keys: until "
				    "it is there no image is believed by its "
				    "signature",
				    cfg->trust_keys);
		rc = 0;
	}
	if (rc < 0)
		error_wrap(err, rc, "--trust-keys");
	for (size_t i = 0; rc == 0 && i < p.n; i++) {
		if (!p.rules[i].keys)
			continue;
		keys = NULL;
		rc = trust_keys_load(p.rules[i].keys, &keys, err);
		trust_keys_free(keys);
		if (rc < 0)
			error_wrap(err, rc, "--trust");
	}
	policy_fini(&p);
	return rc;
}

int admission_open(const struct node_config *cfg,
		   struct key_revocations *revoked, struct admission **ret,
		   struct error *err)
{
	struct admission *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return error_nomem(err);
	(void)pthread_mutex_init(&a->keys_lock, NULL);
	(void)pthread_mutex_init(&a->lock, NULL);
	a->revoked = revoked;
	rc = policy_parse(cfg->trust, &a->policy, err);
	if (rc == 0)
		rc = list_files(a, cfg, err);
	if (rc < 0) {
		admission_close(a);
		return rc;
	}
	admission_reload(a);
	*ret = a;
	return 0;
}

void admission_close(struct admission *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n_files; i++)
		put_list(a, a->files[i].list);
	forget_refusals(a, NULL);
	free(a->files);
	policy_fini(&a->policy);
	(void)pthread_mutex_destroy(&a->keys_lock);
	(void)pthread_mutex_destroy(&a->lock);
	free(a);
}

static bool is_revoked(void *arg, const struct digest *key)
{
	return key_revocations_has(arg, key);
}

/* Is there a key that may be used now? */
static bool has_good_key(const struct admission *a,
			 const struct trust_keys *keys, int64_t now_s)
{
	for (size_t i = 0; i < keys->n; i++) {
		const struct trust_key *k = &keys->v[i];

		if (k->not_after_s && now_s >= k->not_after_s)
			continue;
		if (!a->revoked ||
		    !key_revocations_has(a->revoked, verify_key_id(k->key)))
			return true;
	}
	return false;
}

static int check_rule(struct admission *a, const struct policy_rule *r,
		      struct error *err)
{
	struct key_list *l = get_list(a, r);
	int rc = 0;

	if (!l)
		rc = error_nomem(err);
	else if (!l->keys)
		rc = error_set(err, l->why.code ? l->why.code : ENOKEY, "%s",
			       l->why.msg);
	else if (!has_good_key(a, l->keys, time(NULL)))
		rc = error_set(err, ENOKEY,
			       "'%s' has no key that is neither over nor "
			       "revoked",
			       file_of(a, r)->path);
	put_list(a, l);
	return rc;
}

int admission_check(struct admission *a, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < a->policy.n; i++)
		if (needs_keys(&a->policy.rules[i]))
			rc = check_rule(a, &a->policy.rules[i], err);
	return rc;
}

/* ---------------------------------------------------- --- judging artifacts --- */

const char *admission_cure(enum admission_reason r)
{
	static const char *const cures[ADMISSION_REASONS] = {
		[ADMISSION_UNKNOWN] = "read docs/trust.md, 'Seeing it'",
		[ADMISSION_NO_RULE] =
			"add a rule for its repository to trust in "
			"bootseerd.conf and restart bootseerd, if its "
			"artifacts are to be used; else all is well",
		[ADMISSION_OFF] = "change that rule and restart bootseerd, if "
				  "its artifacts are to be used; else all is "
				  "well",
		[ADMISSION_NO_KEYS] =
			"copy the .pub file of who converts images there, "
			"then systemctl reload bootseerd",
		[ADMISSION_LIST_DAMAGED] =
			"have bootseer-registry answer, or without one remove "
			"ROOT/" TRUST_REVOKED_NAME,
		[ADMISSION_UNSIGNED] =
			"sign it with 'bootseer image sign' and a key whose "
			".pub is among trust-keys",
		[ADMISSION_DAMAGED] =
			"sign it anew with 'bootseer image sign': the "
			"signature is not what its key made",
		[ADMISSION_UNKNOWN_KEY] =
			"add the signer's .pub file to trust-keys and "
			"systemctl reload bootseerd, if he is to be believed; "
			"else sign it with a key of the list",
		[ADMISSION_REVOKED] =
			"sign it with another key; where the revocation was a "
			"mistake, an admin takes it back (DELETE "
			"/v1/trust/revoked/KEY)",
		[ADMISSION_EXPIRED] =
			"sign it anew with 'bootseer image sign'; a key that "
			"ended wants a next one, 'bootseer key new'",
		[ADMISSION_OF_OTHER] =
			"sign it with 'bootseer image sign --repository', if "
			"it may be run from here",
		[ADMISSION_SAYS_TOO_LITTLE] =
			"'bootseer image verify', with a key whose entry in "
			"trust-keys says 'uses: verify'",
		[ADMISSION_NO_LOGIN] =
			"for pull secrets of pods, have the kubelet's "
			"imageServiceEndpoint lead to bootseer-snapshotter's "
			"--image-service (docs/kubernetes.md, 'Private "
			"images'), or list the secrets in the chart's "
			"node.pullSecrets; for the kubelet's credential provider "
			"plugins, name them by credential-providers in "
			"bootseerd.conf; else give this node a login for that "
			"registry: 'nerdctl login' or 'docker login' as root, "
			"or a file or credential helper named by auth-file",
		[ADMISSION_NO_ANSWER] =
			"see that the registry can be reached from this node, "
			"or raise its limit by a login: 'bootseer node "
			"doctor' says when it is asked again",
	};

	return cures[r];
}

/* Set the reason, unless there is one already. */
static void set_first_reason(enum admission_reason *why,
			     enum admission_reason r)
{
	if (why && *why == ADMISSION_UNKNOWN)
		*why = r;
}

/* The repository's name as signatures have it. */
static int repository_of(const char *host, const char *repo,
			 char ret[TRUST_PATTERN_MAX + 1], struct error *err)
{
	/* borrowed texts, never freed */
	const struct oci_ref ref = {
		.transport = OCI_TRANSPORT_REGISTRY,
		.host = (char *)(uintptr_t)host,
		.repo = (char *)(uintptr_t)repo,
	};

	return trust_repository(&ref, ret, err);
}

static const struct policy_rule *rule_of(struct admission *a,
					 const char *repository,
					 enum admission_reason *why,
					 struct error *err)
{
	const struct policy_rule *r = policy_find(&a->policy, repository);

	if (r && r->mode != POLICY_OFF)
		return r;
	set_first_reason(why, r ? ADMISSION_OFF : ADMISSION_NO_RULE);
	error_set(err, ADMISSION_REFUSED,
		  "%s: %s if its artifacts are to be used", repository,
		  r ? "--trust says off for it: change that rule"
		    : "no --trust rule is for it: add PREFIX=sign");
	return NULL;
}

static bool is_list_damaged(struct admission *a)
{
	struct key_revocations_stats s = { .is_damaged = false };

	if (a->revoked)
		key_revocations_get_stats(a->revoked, &s);
	return s.is_damaged;
}

/* Can a signature be good with these keys?  Fails if the file cannot be read or no key is valid
 * now. */
static int check_list(struct admission *a, const struct key_list *l,
		      enum admission_reason *why, struct error *err)
{
	if (!l)
		return error_nomem(err);
	if (!l->keys) {
		set_first_reason(why, ADMISSION_NO_KEYS);
		return error_set(
			err, ADMISSION_REFUSED,
			"this node has no keys to check signatures with: "
			"%s; mend that, then reload",
			l->why.msg);
	}
	if (!is_list_damaged(a))
		return 0;
	set_first_reason(why, ADMISSION_LIST_DAMAGED);
	return error_set(
		err, ADMISSION_REFUSED,
		"the list of revoked keys in --root is damaged, so that no key "
		"counts until the service answers: without one remove "
		"ROOT/" TRUST_REVOKED_NAME);
}

const struct policy_rule *admission_rule(struct admission *a, const char *host,
					 const char *repo,
					 enum admission_reason *ret_why,
					 struct error *err)
{
	char repository[TRUST_PATTERN_MAX + 1];
	const struct policy_rule *r;
	struct key_list *l = NULL;
	bool can_accept = true;

	if (repository_of(host, repo, repository, err) < 0)
		return NULL;
	r = rule_of(a, repository, ret_why, err);
	if (r && needs_keys(r)) {
		l = get_list(a, r);
		can_accept = check_list(a, l, ret_why, err) == 0;
	}
	put_list(a, l);
	return can_accept ? r : NULL;
}

static enum trust_claim claim_of_rule(const struct policy_rule *r)
{
	return r->mode == POLICY_VERIFIED ? TRUST_CLAIM_VERIFIED
					  : TRUST_CLAIM_SIGNED;
}

/* Make one code of all refusals, whatever was wrong with the signatures; failures of the
 * registry keep their own code, since they may pass. */
static int refusal_of(int rc, enum admission_reason *why, struct error *err)
{
	static const struct {
		int code;
		enum admission_reason reason;
	} refusals[] = {
		{ ENODATA, ADMISSION_UNSIGNED },
		{ EBADMSG, ADMISSION_DAMAGED },
		{ EINVAL, ADMISSION_DAMAGED },
		{ ENOKEY, ADMISSION_UNKNOWN_KEY },
		{ EKEYREVOKED, ADMISSION_REVOKED },
		{ EKEYEXPIRED, ADMISSION_EXPIRED },
		{ EKEYREJECTED, ADMISSION_OF_OTHER },
		{ EPERM, ADMISSION_SAYS_TOO_LITTLE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		if (-rc != refusals[i].code)
			continue;
		set_first_reason(why, refusals[i].reason);
		if (err)
			err->code = ADMISSION_REFUSED;
		return error_wrap(err, -ADMISSION_REFUSED, "not trusted");
	}
	return error_wrap(err, rc, "signatures of the artifact");
}

/* A query with the rule of its repository. */
struct ruled_query {
	const struct policy_rule *rule;
	struct trust_query query;
	char repository[TRUST_PATTERN_MAX + 1];
	enum admission_reason *why; /* as in struct admission_query */
};

static int find_rule(struct admission *a, const struct admission_query *asked,
		     struct ruled_query *ret, struct error *err)
{
	int rc = repository_of(asked->host, asked->repo, ret->repository, err);

	if (rc < 0)
		return rc;
	ret->why = asked->why;
	ret->rule = rule_of(a, ret->repository, ret->why, err);
	if (!ret->rule)
		return -ADMISSION_REFUSED;
	ret->query = (struct trust_query){ .artifact = asked->artifact,
					   .subject = asked->subject,
					   .repository = ret->repository,
					   .claim = claim_of_rule(ret->rule) };
	return 0;
}

/* Check the signature `held`, without a registry, with the keys that the rule has now. */
static int check_held(struct admission *a, const struct ruled_query *q,
		      const struct buf *held, struct error *err)
{
	const struct trust_revoked revoked = { is_revoked, a->revoked };
	struct trust_result result;
	struct key_list *l;
	int rc;

	if (held->len == 0) {
		set_first_reason(q->why, ADMISSION_UNSIGNED);
		return error_set(err, ADMISSION_REFUSED,
				 "not trusted: it has no signature here");
	}
	l = get_list(a, q->rule);
	rc = check_list(a, l, q->why, err);
	if (rc == 0)
		rc = refusal_of(trust_check(l->keys, &q->query, held->data,
					    held->len, time(NULL),
					    a->revoked ? &revoked : NULL,
					    &result, err),
				q->why, err);
	put_list(a, l);
	return rc;
}

static int refuse_unsigned_offer(enum admission_reason *why, struct error *err)
{
	set_first_reason(why, ADMISSION_UNSIGNED);
	return error_set(err, ADMISSION_REFUSED,
			 "not trusted: an index of the service counts "
			 "by its signature, and the rule asks for none");
}

int admission_judge(struct admission *a, const struct admission_query *asked,
		    struct oci_store *store, struct buf *evidence,
		    struct error *err)
{
	const struct trust_revoked revoked = { is_revoked, a->revoked };
	struct trust_result result;
	struct ruled_query q;
	struct key_list *l;
	int rc = find_rule(a, asked, &q, err);

	if (rc < 0 || !needs_keys(q.rule))
		return rc;
	l = get_list(a, q.rule);
	rc = check_list(a, l, q.why, err);
	if (rc == 0)
		rc = refusal_of(trust_find(store, l->keys, &q.query, time(NULL),
					   a->revoked ? &revoked : NULL,
					   &result, evidence, err),
				q.why, err);
	put_list(a, l);
	return rc;
}

int admission_judge_offer(struct admission *a,
			  const struct admission_query *asked,
			  const struct buf *signature, struct error *err)
{
	struct ruled_query q;
	int rc = find_rule(a, asked, &q, err);

	if (rc < 0)
		return rc;
	return needs_keys(q.rule) ? check_held(a, &q, signature, err)
				  : refuse_unsigned_offer(q.why, err);
}

/* Did the image come as an index of the service? */
static int image_is_offer(const struct image *i, bool *ret, struct error *err)
{
	AUTO_FREE char *path = image_path(i, OFFER_FILE);

	if (!path)
		return error_nomem(err);
	*ret = access(path, F_OK) == 0;
	return 0;
}

static int read_evidence(const struct image *i, struct buf *ret,
			 struct error *err)
{
	AUTO_FREE char *path = image_path(i, EVIDENCE_FILE);
	int rc = path ? fs_read_file(path, EVIDENCE_MAX, ret, err)
		      : error_nomem(err);

	return rc == -ENOENT ? 0 : rc;
}

int admission_recheck(struct admission *a, const struct image *i,
		      enum admission_reason *ret_why, const char **ret_scope,
		      struct error *err)
{
	const struct admission_query asked = { .host = i->state.host,
					       .repo = i->state.repo,
					       .artifact = &i->artifact.digest,
					       .subject = &i->artifact.image,
					       .why = ret_why };
	AUTO_BUF evidence = BUF_INIT;
	struct ruled_query q;
	bool is_offer = false;
	int rc = find_rule(a, &asked, &q, err);

	if (rc < 0)
		return rc;
	*ret_scope = q.rule->prefix;
	if (!needs_keys(q.rule)) {
		rc = image_is_offer(i, &is_offer, err);
		return is_offer ? refuse_unsigned_offer(ret_why, err) : rc;
	}
	rc = read_evidence(i, &evidence, err);
	return rc < 0 ? rc : check_held(a, &q, &evidence, err);
}

/* ---------------------------------------------------------------- refusals --- */

void admission_note(struct admission *a, const char *image,
		    enum admission_reason reason, const struct error *why)
{
	struct refusal *r = NULL;
	bool is_new = true;
	char *copy;

	(void)pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < REFUSALS_MAX && !r; i++)
		if (a->refusals[i].image &&
		    strcmp(a->refusals[i].image, image) == 0)
			r = &a->refusals[i];
	if (r) {
		is_new = strcmp(r->why.msg, why->msg) != 0;
	} else {
		copy = strdup(image);
		r = copy ? &a->refusals[a->next] : NULL;
		if (r) {
			a->next = (a->next + 1) % REFUSALS_MAX;
			free(r->image);
			r->image = copy;
		}
	}
	if (r) {
		r->reason = reason;
		r->why = *why;
		r->at = time(NULL);
	}
	(void)pthread_mutex_unlock(&a->lock);
	if (is_new)
		log_warning(
			"trust",
			"image=\"%s\" starts the ordinary way reason=\"%s\"",
			image, why->msg);
}

void admission_settle(struct admission *a, const char *image)
{
	(void)pthread_mutex_lock(&a->lock);
	forget_refusals(a, image);
	(void)pthread_mutex_unlock(&a->lock);
}

static json_t *refusal_json(const struct refusal *r)
{
	json_t *reason = json_string(r->why.msg);

	/* The message cannot be JSON if it quotes bytes that are not UTF-8. */
	return json_pack("{s:s, s:o, s:s, s:I}", "image", r->image, "reason",
			 reason ? reason : json_string("(not UTF-8)"), "cure",
			 admission_cure(r->reason), "at", (json_int_t)r->at);
}

json_t *admission_refusals(struct admission *a)
{
	json_t *list = json_array();

	if (!list)
		return NULL;
	(void)pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < REFUSALS_MAX; i++) {
		const struct refusal *r =
			&a->refusals[(a->next + REFUSALS_MAX - 1 - i) %
				     REFUSALS_MAX];

		if (r->image)
			(void)json_array_append_new(list, refusal_json(r));
	}
	(void)pthread_mutex_unlock(&a->lock);
	return list;
}
