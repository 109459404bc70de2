// SPDX-License-Identifier: Apache-2.0
/*
 * A table of what pods showed, or may show by their pull secrets.  Its order is that of their
 * arrival; a login leaves it when it has to make room, when its repository is of no use any more,
 * or when its secret or the last pod that names it is gone.
 */
#include "objects/oci_logins.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "objects/oci_json.h"
#include "objects/oci_providers.h"
#include "objects/oci_registry_auth.h"

#define AGAIN_NS (60 * NS_PER_S)

struct shown_login {
	uint64_t id;
	char *host, *repo, *shown_by;
	struct credentials who;
	unsigned int news; /* of all, when it was new or good again */
	int64_t shown_at;  /* seconds since 1970, of the last time */
	uint64_t round;  /* the last call whose secrets had it; 0: a pull did */
	int64_t since_s; /* of a secret: as in struct oci_pull_secret */
	bool has_worked; /* the registry accepted it */
	bool is_refused; /* the registry refused it when it was shown last */
	int64_t again_ns;        /* then: not tried before */
	int64_t passed_until_ns; /* others go first until then; 0: it has no fault */
};

struct oci_logins {
	struct oci_providers *providers; /* NULL: none */
	pthread_mutex_t lock;            /* protects the rest */
	struct shown_login list[OCI_LOGINS_MAX];
	size_t n;
	uint64_t next_id;
	uint64_t n_rounds;   /* calls with secrets */
	bool has_secrets;    /* some are listed */
	unsigned int n_news; /* logins that were new, or good again, so far */
};

int oci_logins_new(const char *providers, struct oci_logins **ret,
		   struct error *err)
{
	struct oci_logins *l = calloc(1, sizeof(*l));
	int rc = 0;

	if (!l)
		return error_nomem(err);
	(void)pthread_mutex_init(&l->lock, NULL);
	if (providers && *providers)
		rc = oci_providers_new(providers, &l->providers, err);
	if (rc < 0)
		oci_logins_free(l);
	else
		*ret = l;
	return rc;
}

static void shown_login_fini(struct shown_login *s)
{
	free(s->host);
	free(s->repo);
	free(s->shown_by);
	credentials_fini(&s->who);
	*s = (struct shown_login){ .id = 0 };
}

void oci_logins_free(struct oci_logins *l)
{
	if (!l)
		return;
	for (size_t k = 0; k < l->n; k++)
		shown_login_fini(&l->list[k]);
	oci_providers_free(l->providers);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

struct oci_providers *oci_logins_providers(struct oci_logins *l)
{
	return l ? l->providers : NULL;
}

/* ----------------------------------------------------------------- one login --- */

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool login_is_of_repo(const struct shown_login *s, const char *host,
			     const char *repo)
{
	return strcmp(s->host, host) == 0 && strcmp(s->repo, repo) == 0;
}

/* Bytes of a text as login_json() has it written. */
static size_t text_size(const char *text)
{
	size_t size = 0;

	for (const char *c = text ? text : ""; *c; c++)
		size += (unsigned char)*c < 0x20  ? 6
			: *c == '"' || *c == '\\' ? 2
						  : 1;
	return size;
}

static int check_login(const struct oci_login *login, struct error *err)
{
	size_t size = text_size(login->host) + text_size(login->repo) +
		      text_size(login->shown_by) + text_size(login->user) +
		      text_size(login->password) +
		      text_size(login->identity_token);

	if (!login->host || !login->repo || !login->shown_by ||
	    !(login->identity_token || (login->user && login->password)))
		return error_set(err, EINVAL,
				 "a login has a user and a password, or a "
				 "token");
	return size <= OCI_LOGIN_TEXT_MAX
		       ? 0
		       : error_set(err, EINVAL,
				   "a login of %zu bytes: %u are the most",
				   size, OCI_LOGIN_TEXT_MAX);
}

static int copy_text(char **ret, const char *text)
{
	if (!text)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int copy_credentials(const struct credentials *from,
			    struct credentials *ret)
{
	struct credentials c = { .user = NULL };

	if (copy_text(&c.user, from->user) < 0 ||
	    copy_text(&c.password, from->password) < 0 ||
	    copy_text(&c.identity_token, from->identity_token) < 0) {
		credentials_fini(&c);
		return -ENOMEM;
	}
	*ret = c;
	return 0;
}

static int copy_login(const struct oci_login *from, struct shown_login *ret)
{
	struct shown_login s = { .id = 0 };

	if (copy_text(&s.host, from->host) < 0 ||
	    copy_text(&s.repo, from->repo) < 0 ||
	    copy_text(&s.shown_by, from->shown_by) < 0 ||
	    copy_text(&s.who.user, from->user) < 0 ||
	    copy_text(&s.who.password, from->password) < 0 ||
	    copy_text(&s.who.identity_token, from->identity_token) < 0) {
		shown_login_fini(&s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

/* --------------------------------------------------------------- with the lock --- */

static struct shown_login *find_same(struct oci_logins *l,
				     const struct oci_login *login)
{
	for (size_t k = 0; k < l->n; k++) {
		struct shown_login *s = &l->list[k];

		if (login_is_of_repo(s, login->host, login->repo) &&
		    strcmp(s->shown_by, login->shown_by) == 0 &&
		    is_same_text(s->who.user, login->user) &&
		    is_same_text(s->who.password, login->password) &&
		    is_same_text(s->who.identity_token, login->identity_token))
			return s;
	}
	return NULL;
}

static void remove_at(struct oci_logins *l, size_t k)
{
	shown_login_fini(&l->list[k]);
	l->n--;
	memmove(&l->list[k], &l->list[k + 1], (l->n - k) * sizeof(l->list[0]));
	l->list[l->n] = (struct shown_login){ .id = 0 };
}

static bool login_is_within_repo(const struct shown_login *s,
				 const struct oci_login *of_repo)
{
	return !of_repo || login_is_of_repo(s, of_repo->host, of_repo->repo);
}

/* Is `a` given up before `b`?  Namespaces that have as many logins are alike. */
static bool login_goes_first(const struct shown_login *a,
			     const struct shown_login *b)
{
	if (a->is_refused != b->is_refused)
		return a->is_refused;
	if (a->has_worked != b->has_worked)
		return b->has_worked;
	return a->shown_at < b->shown_at;
}

/* Make room for one more: of that repository, or (NULL) of all. */
static void drop_one_login(struct oci_logins *l,
			   const struct oci_login *of_repo)
{
	const struct shown_login *most = NULL;
	size_t n_most = 0, victim = l->n;

	for (size_t k = 0; k < l->n; k++) {
		size_t n = 0;

		if (!login_is_within_repo(&l->list[k], of_repo))
			continue;
		for (size_t i = 0; i < l->n; i++)
			n += login_is_within_repo(&l->list[i], of_repo) &&
			     strcmp(l->list[i].shown_by, l->list[k].shown_by) ==
				     0;
		if (n < n_most || (n == n_most && most &&
				   !login_goes_first(&l->list[k], most)))
			continue;
		n_most = n;
		most = &l->list[k];
	}
	for (size_t k = 0; most && k < l->n; k++)
		if (login_is_within_repo(&l->list[k], of_repo) &&
		    strcmp(l->list[k].shown_by, most->shown_by) == 0 &&
		    (victim == l->n ||
		     login_goes_first(&l->list[k], &l->list[victim])))
			victim = k;
	if (victim < l->n)
		remove_at(l, victim);
}

/* Is `t` of a secret that an earlier call for the namespace of `s` had, and its call has not? */
static bool login_secret_is_gone(const struct shown_login *t,
				 const struct shown_login *s)
{
	return t->round && t->round < s->round &&
	       strcmp(t->shown_by, s->shown_by) == 0;
}

/* Those by the namespace of `t`, but for what is gone by the call of `s`. */
static size_t count_logins_of_namespace(const struct oci_logins *l,
					const struct shown_login *t,
					const struct shown_login *s,
					const struct oci_login *of_repo)
{
	size_t n = 0;

	for (size_t k = 0; k < l->n; k++)
		n += login_is_within_repo(&l->list[k], of_repo) &&
		     strcmp(l->list[k].shown_by, t->shown_by) == 0 &&
		     !login_secret_is_gone(&l->list[k], s);
	return n;
}

/*
 * Make room for `s`, a secret's: first by a login of its namespace that is gone, else by one that
 * a pull showed there, or of a namespace that has more even with one less.  Two namespaces that
 * displaced each other would each have new logins in each round.
 */
static bool make_room_for_secret(struct oci_logins *l,
				 const struct shown_login *s,
				 const struct oci_login *of_repo)
{
	size_t own = count_logins_of_namespace(l, s, s, of_repo);
	size_t n_most = 0, victim = l->n;

	for (size_t k = 0; k < l->n; k++) {
		const struct shown_login *t = &l->list[k];
		size_t n;

		if (!login_is_within_repo(t, of_repo))
			continue;
		n = login_secret_is_gone(t, s)
			    ? SIZE_MAX
			    : count_logins_of_namespace(l, t, s, of_repo);
		if (strcmp(t->shown_by, s->shown_by) == 0 ? t->round == s->round
							  : n < own + 2)
			continue;
		if (n < n_most ||
		    (n == n_most && !login_goes_first(t, &l->list[victim])))
			continue;
		n_most = n;
		victim = k;
	}
	if (victim == l->n)
		return false;
	remove_at(l, victim);
	return true;
}

/* False, and `s` is the caller's still: a secret's login for which there is no room. */
static bool add_login(struct oci_logins *l, struct shown_login *s)
{
	const struct oci_login one_repo = { .host = s->host, .repo = s->repo };
	const struct oci_login *of_repo = NULL;
	size_t n = 0;

	for (size_t k = 0; k < l->n; k++)
		n += login_is_of_repo(&l->list[k], s->host, s->repo);
	if (n >= OCI_LOGINS_EACH)
		of_repo = &one_repo;
	if (of_repo || l->n >= OCI_LOGINS_MAX) {
		if (!s->round)
			drop_one_login(l, of_repo);
		else if (!make_room_for_secret(l, s, of_repo))
			return false;
	}
	s->id = ++l->next_id;
	s->news = ++l->n_news;
	l->list[l->n++] = *s;
	return true;
}

/* ------------------------------------------------------------------- any thread --- */

int oci_logins_show(struct oci_logins *l, const struct oci_login *login,
		    int64_t now_s, struct error *err)
{
	struct shown_login s, *same;
	bool is_new = true;
	int rc = check_login(login, err);

	if (rc < 0)
		return rc;
	if (copy_login(login, &s) < 0)
		return error_nomem(err);
	s.shown_at = now_s;
	(void)pthread_mutex_lock(&l->lock);
	same = find_same(l, login);
	if (same) {
		same->shown_at = now_s;
		if (same->is_refused)
			same->news = ++l->n_news;
		same->is_refused = false;
		is_new = same->round != 0;
		same->round = 0;
	} else {
		(void)add_login(l, &s);
	}
	(void)pthread_mutex_unlock(&l->lock);
	if (same)
		shown_login_fini(&s);
	return is_new;
}

/* ----------------------------------------------------------------- pull secrets --- */

/* With the lock: `s`, which it takes, is of a secret.  False: it was not there, and is not to be
 * added or has no room. */
static bool add_or_renew_login(struct oci_logins *l, struct shown_login *s,
			       const struct oci_login *login, bool add)
{
	struct shown_login *same = find_same(l, login);

	if (!same && add && add_login(l, s))
		return true;
	if (same && same->round) {
		same->shown_at = s->shown_at;
		same->round = s->round;
		if (same->is_refused && s->since_s > same->since_s) {
			same->news = ++l->n_news;
			same->is_refused = false;
		}
		same->since_s = s->since_s;
	}
	shown_login_fini(s);
	return same != NULL;
}

/* Is there a login of `p` in its secret, that was had? */
static bool read_secret(struct oci_logins *l, const struct oci_pull_secret *p,
			uint64_t round, int64_t now_s, bool add,
			size_t *left_out)
{
	struct credentials who = { .user = NULL };
	struct oci_login login = { .host = p->host,
				   .repo = p->repo,
				   .shown_by = p->shown_by };
	AUTO_FREE char *program = NULL;
	struct shown_login s;
	bool is_had = false;

	if (credentials_of_config(p->config, p->host, p->repo, &who, &program,
				  NULL) < 0)
		return false;
	login.user = who.user;
	login.password = who.password;
	login.identity_token = who.identity_token;
	if (!program && check_login(&login, NULL) == 0 &&
	    copy_login(&login, &s) == 0) {
		s.shown_at = now_s;
		s.round = round;
		s.since_s = p->since_s;
		(void)pthread_mutex_lock(&l->lock);
		is_had = add_or_renew_login(l, &s, &login, add);
		(void)pthread_mutex_unlock(&l->lock);
		*left_out += !is_had;
	}
	credentials_fini(&who);
	return is_had;
}

static bool login_has_unread_secret(const struct shown_login *s,
				    const struct oci_pull_secret *list,
				    size_t n)
{
	for (size_t k = 0; k < n; k++)
		if (!list[k].config &&
		    strcmp(list[k].shown_by, s->shown_by) == 0)
			return true;
	return false;
}

size_t oci_logins_replace_secrets(struct oci_logins *l,
				  const struct oci_pull_secret *list, size_t n,
				  int64_t now_s, size_t *ret_left_out)
{
	size_t n_had = 0, left_out = 0;
	uint64_t round;

	(void)pthread_mutex_lock(&l->lock);
	round = ++l->n_rounds;
	(void)pthread_mutex_unlock(&l->lock);
	/* First what is there already, so that it is known what new logins may displace. */
	for (int add = 0; add < 2; add++) {
		n_had = left_out = 0;
		for (size_t k = 0; k < n; k++)
			n_had += list[k].config &&
				 read_secret(l, &list[k], round, now_s, add,
					     &left_out);
	}
	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = l->n; k-- > 0;) {
		if (!l->list[k].round)
			continue;
		/* Another thread's call may be at work on a namespace that this one keeps. */
		if (login_has_unread_secret(&l->list[k], list, n))
			n_had++;
		else if (l->list[k].round < round)
			remove_at(l, k);
	}
	(void)pthread_mutex_unlock(&l->lock);
	*ret_left_out = left_out;
	return n_had;
}

void oci_logins_set_secrets(struct oci_logins *l, bool has_secrets)
{
	(void)pthread_mutex_lock(&l->lock);
	l->has_secrets = has_secrets;
	(void)pthread_mutex_unlock(&l->lock);
}

bool oci_logins_has_secrets(struct oci_logins *l)
{
	bool ret;

	(void)pthread_mutex_lock(&l->lock);
	ret = l->has_secrets;
	(void)pthread_mutex_unlock(&l->lock);
	return ret;
}

bool oci_logins_has(struct oci_logins *l, uint64_t id)
{
	bool ret = false;

	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; k < l->n && !ret; k++)
		ret = l->list[k].id == id;
	(void)pthread_mutex_unlock(&l->lock);
	return ret;
}

/* ------------------------------------------------------------------- any thread --- */

/* A login that has worked may have been refused by a registry or token service in trouble. */
static bool is_to_be_tried(const struct shown_login *s, int64_t now_ns)
{
	return now_ns >= s->passed_until_ns &&
	       (!s->is_refused || (s->has_worked && now_ns >= s->again_ns));
}

int oci_logins_find(struct oci_logins *l, const char *host, const char *repo,
		    struct credentials *ret, uint64_t *ret_id)
{
	const struct shown_login *best = NULL;
	int64_t now = clock_now_ns();
	int rc = -ENOENT;

	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; k < l->n; k++) {
		const struct shown_login *s = &l->list[k];

		if (login_is_of_repo(s, host, repo) && is_to_be_tried(s, now) &&
		    (!best || !login_goes_first(s, best)))
			best = s;
	}
	if (best) {
		*ret_id = best->id;
		rc = copy_credentials(&best->who, ret);
	}
	(void)pthread_mutex_unlock(&l->lock);
	return rc;
}

static bool login_is_passed_for_repo(const struct shown_login *s,
				     const char *host, const char *repo)
{
	return s->passed_until_ns && !s->is_refused &&
	       login_is_of_repo(s, host, repo);
}

size_t oci_logins_count_passed(struct oci_logins *l, const char *host,
			       const char *repo)
{
	size_t n = 0;

	if (!l)
		return 0;
	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; k < l->n; k++)
		n += login_is_passed_for_repo(&l->list[k], host, repo);
	(void)pthread_mutex_unlock(&l->lock);
	return n;
}

int oci_logins_find_passed(struct oci_logins *l, const char *host,
			   const char *repo, struct credentials *ret,
			   uint64_t *ret_id)
{
	const struct shown_login *best = NULL;
	int rc = -ENOENT;

	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; k < l->n; k++) {
		const struct shown_login *s = &l->list[k];

		if (login_is_passed_for_repo(s, host, repo) &&
		    (!best || s->passed_until_ns < best->passed_until_ns))
			best = s;
	}
	if (best) {
		*ret_id = best->id;
		rc = copy_credentials(&best->who, ret);
	}
	(void)pthread_mutex_unlock(&l->lock);
	return rc;
}

void oci_logins_pass(struct oci_logins *l, uint64_t id)
{
	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; k < l->n; k++)
		if (l->list[k].id == id)
			l->list[k].passed_until_ns = clock_now_ns() + AGAIN_NS;
	(void)pthread_mutex_unlock(&l->lock);
}

void oci_logins_note(struct oci_logins *l, uint64_t id, bool works)
{
	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; k < l->n; k++) {
		struct shown_login *s = &l->list[k];

		if (s->id != id)
			continue;
		s->has_worked = s->has_worked || works;
		s->is_refused = !works;
		s->again_ns = clock_now_ns() + AGAIN_NS;
		s->passed_until_ns = 0;
	}
	(void)pthread_mutex_unlock(&l->lock);
}

unsigned int oci_logins_news(struct oci_logins *l, const char *host,
			     const char *repo)
{
	unsigned int n = 0;

	if (!l)
		return 0;
	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; k < l->n; k++)
		if (login_is_of_repo(&l->list[k], host, repo) &&
		    l->list[k].news > n)
			n = l->list[k].news;
	(void)pthread_mutex_unlock(&l->lock);
	return n;
}

static bool is_wanted(const struct shown_login *s,
		      const struct oci_logins_wanted *wanted, size_t n)
{
	for (size_t k = 0; k < n; k++)
		if (login_is_of_repo(s, wanted[k].host, wanted[k].repo))
			return true;
	return false;
}

size_t oci_logins_forget(struct oci_logins *l, int64_t before_s,
			 const struct oci_logins_wanted *wanted, size_t n)
{
	size_t n_forgotten = 0;

	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = l->n; k-- > 0;) {
		if (l->list[k].shown_at >= before_s ||
		    is_wanted(&l->list[k], wanted, n))
			continue;
		remove_at(l, k);
		n_forgotten++;
	}
	(void)pthread_mutex_unlock(&l->lock);
	return n_forgotten;
}

/* ------------------------------------------------------------------------- file --- */

static json_t *login_json(const struct shown_login *s)
{
	return json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:s*, s:I, s:b}", "host",
			 s->host, "repo", s->repo, "shown_by", s->shown_by,
			 "user", s->who.user, "password", s->who.password,
			 "identity_token", s->who.identity_token, "shown_at",
			 (json_int_t)s->shown_at, "has_worked", s->has_worked);
}

int oci_logins_encode(struct oci_logins *l, struct buf *ret, struct error *err)
{
	AUTO_JSON *root = json_pack("{s:[]}", "logins");
	json_t *list = json_object_get(root, "logins");
	char *text;
	int rc;

	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; list && k < l->n; k++)
		/* Bytes that are no UTF-8 stay in memory alone. */
		if (!l->list[k].round &&
		    (!l->list[k].is_refused || l->list[k].has_worked))
			(void)!json_array_append_new(list,
						     login_json(&l->list[k]));
	(void)pthread_mutex_unlock(&l->lock);
	text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	if (!text)
		return error_nomem(err);
	rc = buf_puts(ret, text);
	explicit_bzero(text, strlen(text));
	free(text);
	return rc < 0 ? error_nomem(err) : 0;
}

static void decode_login(struct oci_logins *l, json_t *entry)
{
	struct oci_login login = { .host = NULL };
	json_int_t shown_at = 0;
	int has_worked = 0;

	if (json_unpack(entry, "{s:s, s:s, s:s, s?s, s?s, s?s, s?I, s?b}",
			"host", &login.host, "repo", &login.repo, "shown_by",
			&login.shown_by, "user", &login.user, "password",
			&login.password, "identity_token",
			&login.identity_token, "shown_at", &shown_at,
			"has_worked", &has_worked) < 0 ||
	    oci_logins_show(l, &login, shown_at, NULL) != 1 || !has_worked)
		return;
	(void)pthread_mutex_lock(&l->lock);
	l->list[l->n - 1].has_worked = true;
	(void)pthread_mutex_unlock(&l->lock);
}

int oci_logins_decode(struct oci_logins *l, const void *data, size_t len,
		      struct error *err)
{
	json_t *root, *entry;
	size_t k;
	int rc = bounded_json_load(data, len, "logins", &root, err);

	if (rc < 0)
		return rc;
	json_array_foreach(json_object_get(root, "logins"), k, entry)
	{
		decode_login(l, entry);
	}
	json_decref(root);
	return 0;
}
