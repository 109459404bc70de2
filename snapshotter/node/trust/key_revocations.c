// SPDX-License-Identifier: Apache-2.0
/* The lists of revoked keys, and the thread that asks services for theirs. */
#include "snapshotter/node/trust/key_revocations.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/periodic.h"
#include "snapshotter/node/config.h"

#define INTERVAL_NS (60 * NS_PER_S)
#define RETRY_NS (5 * NS_PER_S) /* pause after a failure; doubled each time */
#define TIMEOUT_MS 10000
#define ETAG_MAX 80u
/* Limits of a file and an answer: a line takes 72 bytes at most, an entry of an answer 110. */
#define FILE_BYTES_MAX (16u << 20)
#define ANSWER_MAX (2u << 20)

/* A service and its last answer. Services may have separate databases, so no service can take
 * back a revocation of another one. */
struct trust_service {
	struct service_client *client;
	char etag[ETAG_MAX]; /* used by the thread alone */
	struct key_ids keys; /* under the lock */
	/* it has answered since the start; under the lock */
	bool is_heard;
};

struct key_revocations {
	struct trust_service services[TRUST_REVOKED_SERVICES_MAX];
	size_t n_services;
	char *path; /* of the list in ROOT */
	char *file; /* the operator's list; NULL: none */
	int64_t interval_ns;
	int64_t pause_ns; /* used by the thread alone */
	/* the services do not answer; used by the thread alone */
	bool is_silent;

	struct periodic *thread; /* NULL: there are no services */
	pthread_mutex_t lock;    /* protects the members below */
	/* Keys that services revoked before this start, which count until all services have
	 * answered; and the operator's keys. */
	struct key_ids before, own;
	struct key_revocations_stats stats;
};

/* --------------------------------------------------------------------- lists --- */

static bool is_same(const struct key_ids *a, const struct key_ids *b)
{
	return a->n == b->n &&
	       (a->n == 0 || memcmp(a->v, b->v, a->n * sizeof(*a->v)) == 0);
}

/* Merge the keys of all services' answers, and of those before this start; the lock is held, as
 * in the three functions below. */
static int merge_service_keys(const struct key_revocations *t,
			      struct key_ids *ret, struct error *err)
{
	int rc = key_ids_merge(ret, &t->before, err);

	for (size_t i = 0; i < t->n_services && rc == 0; i++)
		rc = key_ids_merge(ret, &t->services[i].keys, err);
	return rc;
}

static size_t count_keys(const struct key_revocations *t)
{
	AUTO_FINI(key_ids) all = { .n = 0 };

	if (merge_service_keys(t, &all, NULL) < 0 ||
	    key_ids_merge(&all, &t->own, NULL) < 0)
		log_warning("trust", "revoked keys are not counted "
				     "reason=\"out of memory\"");
	return all.n;
}

static bool are_all_heard(const struct key_revocations *t)
{
	for (size_t i = 0; i < t->n_services; i++)
		if (!t->services[i].is_heard)
			return false;
	return t->n_services > 0;
}

/* Replace `*list` by `keys`, which are taken. */
static void replace_key_list(struct key_revocations *t, struct key_ids *list,
			     struct key_ids *keys)
{
	t->stats.changes += !is_same(list, keys);
	key_ids_fini(list);
	*list = *keys;
	*keys = (struct key_ids){ .n = 0 };
	t->stats.keys = count_keys(t);
}

static void set_keys(struct key_revocations *t, struct key_ids *list,
		     struct key_ids *keys)
{
	uint64_t changes, n;

	pthread_mutex_lock(&t->lock);
	changes = t->stats.changes;
	replace_key_list(t, list, keys);
	changes = t->stats.changes - changes;
	n = t->stats.keys;
	pthread_mutex_unlock(&t->lock);
	if (changes)
		log_info("trust", "revoked keys=%" PRIu64, n);
}

/* Note that the service has answered. Keys from before this start are dropped when all services
 * have. */
static void mark_service_heard(struct key_revocations *t,
			       struct trust_service *s)
{
	struct key_ids none = { .n = 0 };

	pthread_mutex_lock(&t->lock);
	s->is_heard = true;
	if (are_all_heard(t)) {
		t->stats.changes += t->stats.is_damaged;
		t->stats.is_damaged = false;
		replace_key_list(t, &t->before, &none);
	}
	pthread_mutex_unlock(&t->lock);
}

bool key_revocations_has(struct key_revocations *t, const struct digest *key_id)
{
	bool has;

	pthread_mutex_lock(&t->lock);
	has = t->stats.is_damaged || key_ids_has(&t->before, key_id) ||
	      key_ids_has(&t->own, key_id);
	for (size_t i = 0; i < t->n_services && !has; i++)
		has = key_ids_has(&t->services[i].keys, key_id);
	pthread_mutex_unlock(&t->lock);
	return has;
}

void key_revocations_get_stats(struct key_revocations *t,
			       struct key_revocations_stats *ret)
{
	pthread_mutex_lock(&t->lock);
	*ret = t->stats;
	pthread_mutex_unlock(&t->lock);
}

static int read_keys(const char *path, bool is_sealed, struct key_ids *ret,
		     struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_read_file(path, FILE_BYTES_MAX, &text, err);

	if (rc == 0 && is_sealed)
		rc = key_ids_check_seal(text.data ? text.data : "", text.len,
					err);
	if (rc == 0)
		rc = key_ids_parse(text.data ? text.data : "", text.len,
				   is_sealed ? TRUST_REVOKED_KEPT_MAX
					     : TRUST_REVOKED_MAX,
				   ret, err);
	return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}

/* Load the keys that the services said before this start. */
static void load_saved_keys(struct key_revocations *t)
{
	struct key_ids keys = { .n = 0 };
	struct error err = ERROR_INIT;
	int rc = read_keys(t->path, true, &keys, &err);

	if (rc == -ENOENT)
		return;
	if (rc == 0) {
		set_keys(t, &t->before, &keys);
		return;
	}
	t->stats.is_damaged = true;
	log_error("trust",
		  "every key counts as revoked reason=\"%s\" cure=\"services "
		  "that answer, or remove the file\"",
		  err.msg);
}

int key_revocations_check(const char *file, struct error *err)
{
	struct key_ids keys = { .n = 0 };
	int rc = file ? read_keys(file, false, &keys, err) : 0;

	key_ids_fini(&keys);
	return rc < 0 ? error_wrap(err, rc, "--trust-revoked-file") : 0;
}

static int load_own(struct key_revocations *t, struct error *err)
{
	struct key_ids keys = { .n = 0 };
	int rc = t->file ? read_keys(t->file, false, &keys, err) : 0;

	if (rc < 0)
		return error_wrap(err, rc, "--trust-revoked-file");
	set_keys(t, &t->own, &keys);
	return 0;
}

/* Save the keys of all services, so that they count after a restart, even if no service answers
 * then. */
static int save_service_keys(struct key_revocations *t, struct error *err)
{
	struct key_ids all = { .n = 0 };
	AUTO_BUF text = BUF_INIT;
	char hex[DIGEST_STR_MAX];
	int rc;

	pthread_mutex_lock(&t->lock);
	rc = merge_service_keys(t, &all, err);
	pthread_mutex_unlock(&t->lock);
	if (rc == 0 && all.n > TRUST_REVOKED_KEPT_MAX)
		rc = error_set(err, E2BIG, "more than %u keys in all",
			       TRUST_REVOKED_KEPT_MAX);
	if (rc == 0 &&
	    buf_puts(&text, "# Keys that bootseer-registry has revoked.\n") < 0)
		rc = error_nomem(err);
	for (size_t i = 0; i < all.n && rc == 0; i++) {
		digest_format(&all.v[i], hex);
		if (buf_printf(&text, "%s\n", hex) < 0)
			rc = error_nomem(err);
	}
	key_ids_fini(&all);
	if (rc == 0)
		rc = key_ids_seal(&text, err);
	return rc < 0 ? rc
		      : fs_replace_file(t->path, text.data, text.len, 0600,
					err);
}

/* -------------------------------------------------------------------- asking --- */

/* Keep the ETag for the next request, if it is a valid header value. */
static void keep_etag(struct trust_service *s, const struct http_response *r)
{
	AUTO_FREE char *tag = http_header(r, "etag");
	size_t n = tag ? strlen(tag) : 0;

	s->etag[0] = '\0';
	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)tag[i]))
			return;
	if (n > 0 && n < ETAG_MAX)
		memcpy(s->etag, tag, n + 1);
}

static int take_answer(struct key_revocations *t, struct trust_service *s,
		       const struct service_answer *a, struct error *err)
{
	struct key_ids keys = { .n = 0 };
	bool is_damaged;
	int rc = key_ids_from_json(a->body.data ? a->body.data : "",
				   a->body.len, &keys, err);

	if (rc < 0)
		return error_wrap(err, -EPROTO, "the answer");
	set_keys(t, &s->keys, &keys);
	mark_service_heard(t, s);
	pthread_mutex_lock(&t->lock);
	is_damaged = t->stats.is_damaged;
	pthread_mutex_unlock(&t->lock);
	/* Do not save over a damaged list: a key that it had may be known only to a service
	 * that has not answered yet, and a list without that key must not look complete. */
	if (is_damaged)
		return 0;
	/* If the list cannot be saved, it counts now, but no ETag is kept, so that it is
	 * requested again. */
	rc = save_service_keys(t, err);
	if (rc == 0)
		keep_etag(s, &a->head);
	return rc;
}

static int ask_one(struct key_revocations *t, struct trust_service *s,
		   struct error *err)
{
	char condition[ETAG_MAX + 32];
	struct service_request r = { .method = "GET",
				     .path = "/v1/trust/revoked" };
	AUTO_FINI(service_answer) a = { .head = HTTP_RESPONSE_INIT,
					.body = { .limit = ANSWER_MAX } };
	int rc;

	if (s->etag[0]) {
		(void)snprintf(condition, sizeof(condition),
			       "If-None-Match: %s", s->etag);
		r.headers[0] = condition;
	}
	rc = service_client_do(s->client, &r, &a, err);
	if (rc == 0)
		rc = take_answer(t, s, &a, err);
	else if (s->etag[0] && a.head.status == 304)
		rc = 0;
	return rc;
}

static void note_answer(struct key_revocations *t, int rc, const char *why)
{
	pthread_mutex_lock(&t->lock);
	if (rc == 0)
		t->stats.asked_s = time(NULL);
	t->stats.failures_total += rc < 0;
	(void)snprintf(t->stats.error, sizeof(t->stats.error), "%s",
		       rc < 0 ? why : "");
	pthread_mutex_unlock(&t->lock);
	if (rc < 0 && !t->is_silent)
		log_warning("trust",
			    "which keys are revoked is not told, the last "
			    "list holds reason=\"%s\"",
			    why);
	if (rc == 0 && t->is_silent)
		log_info("trust", "which keys are revoked is told again");
	t->is_silent = rc < 0;
}

static int64_t key_revocations_ask(void *arg)
{
	struct key_revocations *t = arg;
	struct error err = ERROR_INIT, why = ERROR_INIT;
	uint32_t random = 0;
	int rc = 0, one;

	for (size_t i = 0; i < t->n_services; i++) {
		one = ask_one(t, &t->services[i], &err);
		if (one < 0 && rc == 0) {
			rc = one;
			why = err;
		}
	}
	note_answer(t, rc, why.msg);
	if (rc == 0)
		t->pause_ns = RETRY_NS;
	else if (t->pause_ns < t->interval_ns)
		t->pause_ns *= 2;
	if (rc < 0 && t->pause_ns / 2 < t->interval_ns)
		return clock_now_ns() + t->pause_ns / 2;
	/* Add a random part, so that nodes do not ask all at once. */
	(void)!getrandom(&random, sizeof(random), 0);
	return clock_now_ns() + t->interval_ns / 4 * 3 +
	       (int64_t)(random % 1000) * (t->interval_ns / 2000);
}

int key_revocations_reload(struct key_revocations *t, struct error *err)
{
	periodic_wake(t->thread);
	return load_own(t, err);
}

/* ------------------------------------------------------------ open and close --- */

void key_revocations_config_of(const struct node_config *cfg,
			       struct key_revocations_config *ret)
{
	struct service_client_config *s = ret->services;

	*ret = (struct key_revocations_config){
		.root = cfg->root, .file = cfg->trust_revoked_file
	};
	if (cfg->service)
		s[ret->n_services++] = node_config_service(cfg, TIMEOUT_MS);
	for (char *const *u = cfg->p2p_trackers;
	     u && *u && ret->n_services < TRUST_REVOKED_SERVICES_MAX; u++) {
		if (cfg->service && strcmp(cfg->service, *u) == 0)
			continue;
		s[ret->n_services++] = (struct service_client_config){
			.url = *u,
			.token_file = cfg->service_token_file,
			.ca_file = cfg->service_ca_file,
			.plain_token = node_config_is_plain(cfg, *u),
			.cert_file = cfg->p2p_cert_file,
			.key_file = cfg->p2p_key_file,
			.is_direct = true,
			.timeout_ms = TIMEOUT_MS,
		};
	}
}

static int copy_config(struct key_revocations *t,
		       const struct key_revocations_config *cfg,
		       struct error *err)
{
	int rc = 0;

	t->interval_ns = cfg->interval_ns ? cfg->interval_ns : INTERVAL_NS;
	t->pause_ns = RETRY_NS;
	if (asprintf(&t->path, "%s/" TRUST_REVOKED_NAME, cfg->root) < 0) {
		t->path = NULL;
		return error_nomem(err);
	}
	if (cfg->file) {
		t->file = strdup(cfg->file);
		if (!t->file)
			return error_nomem(err);
	}
	for (size_t i = 0; i < cfg->n_services && rc == 0; i++) {
		rc = service_client_new(&cfg->services[i],
					&t->services[i].client, err);
		t->n_services += rc == 0;
	}
	return rc;
}

int key_revocations_open(const struct key_revocations_config *cfg,
			 struct key_revocations **ret, struct error *err)
{
	struct key_revocations *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return error_nomem(err);
	(void)pthread_mutex_init(&t->lock, NULL);
	rc = copy_config(t, cfg, err);
	if (rc == 0)
		load_saved_keys(t);
	if (rc == 0)
		rc = load_own(t, err);
	if (rc == 0 && t->n_services > 0)
		rc = periodic_start(key_revocations_ask, t, 0, &t->thread, err);
	if (rc < 0) {
		key_revocations_close(t);
		return error_wrap(err, rc, "trust");
	}
	*ret = t;
	return 0;
}

void key_revocations_close(struct key_revocations *t)
{
	if (!t)
		return;
	periodic_stop(t->thread);
	for (size_t i = 0; i < t->n_services; i++) {
		service_client_free(t->services[i].client);
		key_ids_fini(&t->services[i].keys);
	}
	key_ids_fini(&t->before);
	key_ids_fini(&t->own);
	pthread_mutex_destroy(&t->lock);
	free(t->path);
	free(t->file);
	free(t);
}
