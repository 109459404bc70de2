// SPDX-License-Identifier: Apache-2.0
/*
 * The login of one repository: got when the registry asks for it, kept while it works,
 * and got anew when it is refused, by whatever status (some answer 403 to a token whose
 * time is over).
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/cond.h"
#include "objects/oci_json.h"
#include "objects/oci_registry.h"
#include "objects/oci_registry_auth.h"

#define LOGINS_MAX 2 /* in one attempt of a request */
#define RETRY_FIRST_NS (15 * NS_PER_S)
#define RETRY_MOST_NS (300 * NS_PER_S)

char *registry_login_line(struct registry *part, unsigned int *ret_generation)
{
	struct registry *r = registry_whole(part);
	char *copy;

	(void)pthread_mutex_lock(&r->lock);
	copy = r->login.authorization ? strdup(r->login.authorization) : NULL;
	*ret_generation = r->login.generation;
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
			 int n_logins)
{
	struct registry *r = registry_whole(part);
	const struct registry_login *l = &r->login;
	unsigned int seen = oci_hosts_logins(r->cfg.hosts, r->origin);
	bool ret;

	(void)pthread_mutex_lock(&r->lock);
	if (l->generation != used) /* another thread did */
		ret = n_logins < LOGINS_MAX;
	else if (!l->has_worked)
		ret = resp->status == 401 && n_logins < LOGINS_MAX;
	else if (n_logins > 0)
		ret = resp->status == 401 && n_logins < LOGINS_MAX;
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
	unsigned int seen = oci_hosts_logins(r->cfg.hosts, r->origin);
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

/* What the answer asks for; else, as a 403 asks for nothing, what one before it did. */
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

int registry_log_in(struct registry *part, const struct http_response *resp,
		    unsigned int used, struct pace *pace, struct error *err)
{
	struct registry *r = registry_whole(part);
	AUTO_FREE char *header = challenge_text(r, resp);
	struct credentials who = { .user = NULL };
	struct challenge c = { .realm = NULL };
	struct error own = ERROR_INIT;
	char *answer = NULL;
	int rc;

	err = err ? err : &own;
	if (!header)
		return error_set(err, EACCES,
				 "it refuses without saying how to log in");
	if (!begin_login(r, used, pace))
		return 0;
	rc = challenge_parse(header, &c, err);
	if (rc == 0)
		rc = credentials_find(r->auth_file, r->host, r->repo, pace,
				      &who, err);
	if (rc == 0)
		rc = challenge_answer(r->http, &c, &who, pace, &answer, err);
	challenge_fini(&c);
	credentials_fini(&who);
	end_login(r, rc == 0 ? answer : NULL, steal_ptr(&header), err);
	return rc;
}

void registry_login_drop(struct registry *part, unsigned int used)
{
	struct registry *r = registry_whole(part);
	struct registry_login *l = &r->login;

	(void)pthread_mutex_lock(&r->lock);
	if (l->generation == used && !l->is_under_way) {
		free(steal_ptr(&l->authorization));
		l->generation++;
		l->works = false;
	}
	(void)pthread_mutex_unlock(&r->lock);
}

void registry_login_worked(struct registry *part, unsigned int used)
{
	struct registry *r = registry_whole(part);
	struct registry_login *l = &r->login;
	bool is_renewed = false, was_refused = false;

	(void)pthread_mutex_lock(&r->lock);
	if (l->generation == used && !l->works) {
		is_renewed = l->has_worked;
		was_refused = l->n_refused > 0;
		l->works = true;
		l->has_worked = true;
		l->n_refused = 0;
		l->retry_at_ns = 0;
	}
	(void)pthread_mutex_unlock(&r->lock);
	if (is_renewed)
		oci_hosts_note_login(r->cfg.hosts, r->origin);
	if (was_refused && r->cfg.watch)
		r->cfg.watch->login(r->cfg.watch, r->host, r->repo, NULL);
}

void registry_login_refused(struct registry *part,
			    const struct http_response *resp)
{
	struct registry *r = registry_whole(part);
	unsigned int seen = oci_hosts_logins(r->cfg.hosts, r->origin);
	struct error why = ERROR_INIT;
	bool is_new;

	(void)pthread_mutex_lock(&r->lock);
	is_new = note_refusal(&r->login, seen);
	(void)pthread_mutex_unlock(&r->lock);
	(void)registry_status_error(resp, &why);
	if (is_new && r->cfg.watch)
		r->cfg.watch->login(r->cfg.watch, r->host, r->repo, &why);
}
