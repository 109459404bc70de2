// SPDX-License-Identifier: Apache-2.0
/*
 * The login of one repository: got when the registry asks for it, kept while it works,
 * and got anew when it is refused, by whatever status (some answer 403 to a token whose
 * time is over).  There are several places that may have one: each is tried once, from the
 * first again after one has worked.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/cond.h"
#include "objects/oci_json.h"
#include "objects/oci_providers.h"
#include "objects/oci_registry.h"
#include "objects/oci_registry_auth.h"

#define LOGINS_MAX 2 /* in one attempt of a request */
#define RETRY_FIRST_NS (15 * NS_PER_S)
#define RETRY_MOST_NS (300 * NS_PER_S)

/* A number that changes when another login may work now. */
static unsigned int get_login_change_count(struct registry *r)
{
	return oci_hosts_logins(r->cfg.hosts, r->origin) +
	       oci_logins_news(r->cfg.logins, r->host, r->repo);
}

/* With the lock: is there a login that was refused, and a place with others? */
static bool may_have_other_login(const struct registry *r)
{
	return r->cfg.logins && r->login.authorization;
}

static int max_login_tries(const struct registry *r)
{
	return r->cfg.logins ? LOGINS_MAX + OCI_LOGINS_EACH + LOGIN_PLACES
			     : LOGINS_MAX;
}

/* A line by a login that was forgotten, as its secret was deleted, is not sent again. */
static void drop_forgotten(struct registry *r)
{
	unsigned int used;
	uint64_t shown;

	(void)pthread_mutex_lock(&r->lock);
	shown = r->login.authorization ? r->login.shown_id : 0;
	used = r->login.generation;
	(void)pthread_mutex_unlock(&r->lock);
	if (shown && !oci_logins_has(r->cfg.logins, shown))
		registry_login_drop(r, used, false);
}

char *registry_login_line(struct registry *part, unsigned int *ret_generation,
			  bool *ret_is_shown)
{
	struct registry *r = registry_whole(part);
	char *copy;

	drop_forgotten(r);
	(void)pthread_mutex_lock(&r->lock);
	copy = r->login.authorization ? strdup(r->login.authorization) : NULL;
	*ret_generation = r->login.generation;
	if (ret_is_shown)
		*ret_is_shown = copy && r->login.shown_id;
	(void)pthread_mutex_unlock(&r->lock);
	return copy;
}

/* Does the registry's own JSON say that it is about rights? */
static bool is_called_refusal(const struct http_response *resp)
{
	static const char *const codes[] = { "DENIED", "UNAUTHORIZED" };
	const char *code;
	bool found = false;
	json_t *j;

	if (resp->body.len == 0 ||
	    bounded_json_load(resp->body.data, resp->body.len, "", &j, NULL) <
		    0)
		return false;
	code = json_string_value(
		json_object_get(json_array_get(json_object_get(j, "errors"), 0),
				"code"));
	for (size_t i = 0; code && i < ARRAY_SIZE(codes); i++)
		found = found || strcmp(code, codes[i]) == 0;
	json_decref(j);
	return found;
}

bool registry_is_refusal(const struct http_response *resp)
{
	if (resp->status == 401 || resp->status == 403)
		return true;
	return resp->status / 100 == 4 && resp->status != 404 &&
	       resp->status != 429 && is_called_refusal(resp);
}

bool registry_may_log_in(struct registry *part,
			 const struct http_response *resp, unsigned int used,
			 int n_logins, bool is_verdict)
{
	struct registry *r = registry_whole(part);
	const struct registry_login *l = &r->login;
	unsigned int seen = get_login_change_count(r);
	bool ret;

	(void)pthread_mutex_lock(&r->lock);
	if (l->generation != used) /* another thread did */
		ret = n_logins < max_login_tries(r);
	else if (l->next >= LOGIN_PLACES)
		ret = false;
	else if (!l->has_worked || n_logins > 0)
		ret = n_logins < max_login_tries(r) &&
		      (resp->status == 401 ||
		       (is_verdict && may_have_other_login(r)));
	else
		ret = l->works || seen != l->n_seen ||
		      clock_now_ns() >= l->retry_at_ns;
	(void)pthread_mutex_unlock(&r->lock);
	return ret;
}

/* With the lock: until somebody has logged in, or a moment. */
static void wait_login(struct registry *r)
{
	(void)cond_wait_until(&r->logged_in, &r->lock,
			      clock_now_ns() + HTTP_STOP_MS * NS_PER_MS);
}

/* Wait for the turn to log in; false when another thread had it meanwhile, with success
 * or without, or the request is not wanted any more. */
static bool begin_login(struct registry *r, unsigned int used,
			struct pace *pace)
{
	struct registry_login *l = &r->login;
	bool mine;

	(void)pthread_mutex_lock(&r->lock);
	mine = !l->is_under_way && l->generation == used;
	while (l->is_under_way && pace_level(pace) != PACE_STOP)
		wait_login(r);
	if (mine)
		l->is_under_way = true;
	(void)pthread_mutex_unlock(&r->lock);
	return mine;
}

/* With the lock.  Is it the first in a row? */
static bool note_refusal(struct registry_login *l, unsigned int seen)
{
	int64_t now = clock_now_ns(), wait = RETRY_FIRST_NS;

	if (!l->has_worked || (now < l->retry_at_ns && seen == l->n_seen))
		return false;
	for (unsigned int n = 0; n < l->n_refused && wait < RETRY_MOST_NS; n++)
		wait *= 2;
	l->works = false;
	l->retry_at_ns = now + (wait < RETRY_MOST_NS ? wait : RETRY_MOST_NS);
	l->n_seen = seen;
	return l->n_refused++ == 0;
}

/* Takes both; `answer` NULL: there is no new login, for `why`. */
static void end_login(struct registry *r, char *answer, char *challenge,
		      const struct error *why)
{
	unsigned int seen = get_login_change_count(r);
	struct registry_login *l = &r->login;
	bool is_new = false;

	(void)pthread_mutex_lock(&r->lock);
	if (!answer && why->code == EACCES)
		is_new = note_refusal(l, seen);
	if (answer) {
		free(l->authorization);
		l->authorization = answer;
		free(l->challenge);
		l->challenge = steal_ptr(&challenge);
		l->generation++;
		l->works = false;
	}
	l->is_under_way = false;
	(void)pthread_cond_broadcast(&r->logged_in);
	(void)pthread_mutex_unlock(&r->lock);
	free(challenge);
	if (is_new && r->cfg.watch)
		r->cfg.watch->login(r->cfg.watch, r->host, r->repo, why);
}

/* The challenge of the answer; a 403 has none, and then that of the answer before it is
 * taken. */
static char *challenge_text(struct registry *r,
			    const struct http_response *resp)
{
	char *text = http_header(resp, "www-authenticate");

	if (text)
		return text;
	(void)pthread_mutex_lock(&r->lock);
	text = r->login.challenge ? strdup(r->login.challenge) : NULL;
	(void)pthread_mutex_unlock(&r->lock);
	return text;
}

/* With the lock: the login of a line that was refused and never accepted, to be noted as
 * refused, or 0. */
static uint64_t take_refused_login_id(struct registry_login *l, bool is_verdict)
{
	uint64_t id = l->works || !is_verdict ? 0 : l->shown_id;

	if (l->works)
		l->next = LOGIN_FILE;
	l->shown_id = 0;
	return id;
}

static void note_refused_login(struct registry *r, uint64_t id)
{
	if (id)
		oci_logins_note(r->cfg.logins, id, false);
}

static size_t count_passed_logins(const struct registry *r)
{
	return oci_logins_count_passed(r->cfg.logins, r->host, r->repo);
}

/* A login of a place: 0, -ENOENT when it has none, or what keeps it from telling.  `*place`
 * becomes the one that is next. */
static int get_login_from_place(struct registry *r, enum login_place *place,
				struct pace *pace, struct credentials *ret,
				uint64_t *ret_shown, struct error *err)
{
	struct oci_providers *plugins = oci_logins_providers(r->cfg.logins);
	enum login_place now = *place;
	bool is_kept = false;
	int rc;

	*place = now + 1;
	switch (now) {
	case LOGIN_FILE:
		rc = credentials_find(r->auth_file, r->host, r->repo, pace, ret,
				      err);
		return rc == 0 && !ret->user && !ret->identity_token ? -ENOENT
								     : rc;
	case LOGIN_SHOWN:
		rc = oci_logins_find(r->cfg.logins, r->host, r->repo, ret,
				     ret_shown);
		if (rc == 0)
			*place = LOGIN_SHOWN; /* there may be more */
		return rc;
	case LOGIN_PROVIDER:
	case LOGIN_PROVIDER_ANEW:
		if (!plugins)
			return -ENOENT;
		rc = oci_providers_ask(plugins, r->host, r->repo,
				       now == LOGIN_PROVIDER_ANEW, pace, ret,
				       &is_kept, err);
		if (!is_kept)
			*place = LOGIN_ANONYMOUS;
		return rc;
	case LOGIN_PASSED:
		/* Failures of theirs end a request, so that each has its turn. */
		rc = oci_logins_find_passed(r->cfg.logins, r->host, r->repo,
					    ret, ret_shown);
		if (count_passed_logins(r) > 1)
			*place = LOGIN_PASSED;
		return rc;
	default:
		if (count_passed_logins(r) == 0)
			*place = LOGIN_PLACES;
		return 0;
	}
}

/* A service that is away, or silent, is not waited for by each image anew.  Its silence after a
 * pod's login (`shown`, 0: another) may be about that login alone. */
static int ask_token_service(struct registry *r, struct registry_request *req,
			     const struct challenge *c,
			     const struct credentials *who, uint64_t shown,
			     char **ret, struct error *err)
{
	bool is_optional = registry_is_optional(r, req);
	bool is_reached = false;
	const struct challenge_wait wait = {
		.pace = req->http.pace,
		.reach_ms = is_optional ? REGISTRY_REACH_MS : 0,
		.ret_is_reached = &is_reached,
	};
	struct oci_hosts *hosts = r->cfg.hosts;
	char host[OCI_HOST_ROOM];
	int rc = 0;

	registry_origin_of(c->realm, host);
	if (is_optional)
		rc = oci_hosts_check(hosts, host, clock_now_ns(), err);
	if (rc != 0)
		req->is_final = true;
	if (rc < 0)
		return error_wrap(err, rc, "token service %.100s", c->realm);
	rc = challenge_answer(r->http, c, who, &wait, ret, err);
	if (rc == -ECONNREFUSED) {
		memcpy(req->refused_by, host, sizeof(host));
	} else if (rc == -ETIMEDOUT && is_optional && !(shown && is_reached)) {
		oci_hosts_note_away(hosts, host, err, clock_now_ns());
		req->is_final = true;
	} else if (rc == 0 || rc == -EACCES) {
		oci_hosts_answered(hosts, host);
	}
	return rc;
}

/* Can a failure of the token service be about the login that it was shown?  Some answer 429 to
 * a user that is locked out. */
static bool may_be_of_login(uint64_t shown, int rc)
{
	return shown && rc < 0 && rc != -EACCES && rc != -ECANCELED &&
	       rc != -ENOMEM && rc != -ECONNREFUSED;
}

/* Note how a pod's login fared.  May the next place be tried?  A token service that is down is
 * so for all of them; after a silence no more logins are tried before none. */
static bool note_login_result(struct registry *r, struct registry_request *req,
			      uint64_t shown, enum login_place tried,
			      enum login_place *place, int rc)
{
	if (rc == -EACCES) {
		note_refused_login(r, shown);
		return true;
	}
	if (req->is_final || !may_be_of_login(shown, rc))
		return false;
	oci_logins_pass(r->cfg.logins, shown);
	if (tried == LOGIN_PASSED) {
		req->is_final =
			rc == -ETIMEDOUT && registry_is_optional(r, req);
		return false;
	}
	if (rc == -ETIMEDOUT)
		*place = LOGIN_ANONYMOUS;
	return true;
}

/* A line by the next place that has a login which the token service, where there is one,
 * accepts.  Without logins from elsewhere only the file's is asked for. */
static int make_next_authorization(struct registry *r,
				   struct registry_request *req,
				   const struct challenge *c,
				   enum login_place *place, uint64_t *ret_shown,
				   char **ret, struct error *err)
{
	static const struct challenge_wait no_wait = { .pace = NULL };
	struct error first = ERROR_INIT;
	int rc = error_set(err, EACCES, "every login was refused");

	while (*place < LOGIN_PLACES) {
		struct credentials who = { .user = NULL };
		enum login_place tried = *place;
		int has;

		*ret_shown = 0;
		has = get_login_from_place(r, place, req->http.pace, &who,
					   ret_shown, err);
		if (!r->cfg.logins && has == -ENOENT)
			has = 0; /* anonymous */
		rc = has < 0     ? has
		     : c->bearer ? ask_token_service(r, req, c, &who,
						     *ret_shown, ret, err)
				 : challenge_answer(r->http, c, &who, &no_wait,
						    ret, err);
		credentials_fini(&who);
		if (!r->cfg.logins || rc == 0 || rc == -ECANCELED ||
		    (has == 0 &&
		     !note_login_result(r, req, *ret_shown, tried, place, rc)))
			break;
		/* The first that is no mere lack says most. */
		if (rc != -ENOENT && !first.code)
			first = *err;
	}
	/* The last of those with a failure was forgotten meanwhile. */
	if (rc == -ENOENT)
		rc = error_set(err, EACCES, "every login was refused");
	if (rc < 0 && rc != -ECANCELED && first.code) {
		*err = first;
		rc = -first.code;
	}
	return rc;
}

int registry_log_in(struct registry *part, struct registry_request *req,
		    const struct http_response *resp, unsigned int used,
		    bool is_verdict, struct error *err)
{
	struct registry *r = registry_whole(part);
	AUTO_FREE char *header = challenge_text(r, resp);
	struct challenge c = { .realm = NULL };
	struct error own = ERROR_INIT;
	enum login_place place;
	uint64_t shown = 0;
	char *answer = NULL;
	int rc;

	err = err ? err : &own;
	if (!header)
		return error_set(err, EACCES,
				 "it refuses without saying how to log in");
	if (!begin_login(r, used, req->http.pace))
		return 0;
	(void)pthread_mutex_lock(&r->lock);
	shown = take_refused_login_id(&r->login, is_verdict);
	place = r->cfg.logins ? r->login.next : LOGIN_FILE;
	(void)pthread_mutex_unlock(&r->lock);
	note_refused_login(r, shown);
	rc = challenge_parse(header, &c, err);
	if (rc == 0)
		rc = make_next_authorization(r, req, &c, &place, &shown,
					     &answer, err);
	challenge_fini(&c);
	(void)pthread_mutex_lock(&r->lock);
	if (r->cfg.logins)
		r->login.next = rc == 0 ? place : LOGIN_FILE;
	r->login.shown_id = rc == 0 ? shown : 0;
	(void)pthread_mutex_unlock(&r->lock);
	end_login(r, rc == 0 ? answer : NULL, steal_ptr(&header), err);
	return rc;
}

void registry_login_drop(struct registry *part, unsigned int used,
			 bool is_verdict)
{
	struct registry *r = registry_whole(part);
	struct registry_login *l = &r->login;
	uint64_t refused = 0;

	(void)pthread_mutex_lock(&r->lock);
	if (l->generation == used && !l->is_under_way) {
		refused = take_refused_login_id(l, is_verdict);
		free(steal_ptr(&l->authorization));
		l->generation++;
		l->works = false;
	}
	(void)pthread_mutex_unlock(&r->lock);
	note_refused_login(r, refused);
}

void registry_login_worked(struct registry *part, unsigned int used)
{
	struct registry *r = registry_whole(part);
	struct registry_login *l = &r->login;
	bool is_renewed = false, was_refused = false;
	uint64_t shown = 0;

	(void)pthread_mutex_lock(&r->lock);
	if (l->generation == used && !l->works) {
		shown = l->shown_id;
		is_renewed = l->has_worked;
		was_refused = l->n_refused > 0;
		l->works = true;
		l->has_worked = true;
		l->n_refused = 0;
		l->retry_at_ns = 0;
	}
	(void)pthread_mutex_unlock(&r->lock);
	if (shown)
		oci_logins_note(r->cfg.logins, shown, true);
	if (is_renewed)
		oci_hosts_note_login(r->cfg.hosts, r->origin);
	if (was_refused && r->cfg.watch)
		r->cfg.watch->login(r->cfg.watch, r->host, r->repo, NULL);
}

void registry_login_refused(struct registry *part,
			    const struct http_response *resp)
{
	struct registry *r = registry_whole(part);
	unsigned int seen = get_login_change_count(r);
	struct error why = ERROR_INIT;
	bool is_new;

	(void)pthread_mutex_lock(&r->lock);
	r->login.next =
		LOGIN_FILE; /* another request tries all of them again */
	is_new = note_refusal(&r->login, seen);
	(void)pthread_mutex_unlock(&r->lock);
	(void)registry_status_error(resp, &why);
	if (is_new && r->cfg.watch)
		r->cfg.watch->login(r->cfg.watch, r->host, r->repo, &why);
}
