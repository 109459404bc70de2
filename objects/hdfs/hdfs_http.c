// SPDX-License-Identifier: Apache-2.0
/*
 * Requests in two steps: a name node gets a request without a body and redirects to a data node.
 * HttpFS redirects to itself, or answers at once. Of several name nodes, the active one is found
 * by trying.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "objects/hdfs/hdfs_store_priv.h"

#define TOKEN_MAX (64u << 10)
#define ASKS 4u /* requests for one file until another data node is named */

static const struct {
	const char *exception;
	int error;
	bool can_retry, next_node;
	const char *cure;
} answers[] = {
	{ "FileNotFoundException", ENOENT, false, false, "" },
	{ "FileAlreadyExistsException", EEXIST, false, false, "" },
	{ "AccessControlException", EACCES, false, false,
	  ": give this user the right to it" },
	{ "AuthorizationException", EACCES, false, false,
	  ": let the server take this user as a proxy "
	  "(hadoop.proxyuser.USER.hosts and .groups)" },
	{ "AuthenticationException", EACCES, false, false,
	  ": log in with kinit" },
	{ "StandbyException", EBUSY, true, true,
	  ": no name node is active: see haadmin -getAllServiceState" },
	{ "RetriableException", EBUSY, true, true, "" },
	{ "SafeModeException", EROFS, true, false,
	  ": the name node is in safe mode: wait, or see dfsadmin" },
	{ "QuotaExceededException", ENOSPC, false, false, ": raise the quota" },
	{ "NSQuotaExceededException", ENOSPC, false, false,
	  ": raise the quota of names" },
	{ "DSQuotaExceededException", ENOSPC, false, false,
	  ": raise the quota of space" },
	{ "ParentNotDirectoryException", ENOTDIR, false, false,
	  ": an object cannot have the name of a folder, nor the reverse" },
	{ "PathIsNotEmptyDirectoryException", ENOTDIR, false, false, "" },
	{ "AlreadyBeingCreatedException", EBUSY, true, false,
	  ": another writes it" },
	{ "RecoveryInProgressException", EBUSY, true, false, "" },
	{ "LeaseExpiredException", EBUSY, true, false, "" },
	{ "IllegalArgumentException", EINVAL, false, false, "" },
	{ "HadoopIllegalArgumentException", EINVAL, false, false, "" },
	{ "InvalidPathException", EINVAL, false, false, "" },
	{ "UnsupportedOperationException", ENOTSUP, false, false,
	  ": this server cannot do it" },
	{ "InvalidToken", EACCES, true, false, ": get a new token" },
};

/* ------------------------------------------------------------------- login --- */

static int ask_token(struct hdfs_store *s, unsigned int node, char **ret,
		     struct error *err)
{
	AUTO_BUF url = BUF_INIT;
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct http_request req = {
		.method = "GET",
		.stays = true,
		.negotiates = true,
		.deadline_ns = store_deadline(&s->base),
	};
	int rc = buf_printf(&url, "%s/webhdfs/v1/?op=GETDELEGATIONTOKEN%s%s",
			    s->nodes[node], s->doas ? "&doas=" : "",
			    s->doas ? s->doas : "");

	if (rc < 0)
		return error_nomem(err);
	req.url = url.data;
	rc = http_do(s->http, &req, &resp, err);
	if (rc == 0 && resp.status == 401)
		rc = error_set(err, EACCES,
			       "%s does not take this user's ticket: log in "
			       "with kinit, and call the server by the name "
			       "that its principal has",
			       s->nodes[node]);
	else if (rc == 0 &&
		 (resp.status != 200 ||
		  hdfs_token_parse(resp.body.data, resp.body.len, ret) < 0))
		rc = error_set(err, resp.status == 403 ? EBUSY : EACCES,
			       "%s answered %ld and gave no delegation token",
			       s->nodes[node], resp.status);
	return rc;
}

static int read_token(const struct hdfs_store *s, char **ret, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_check_private(s->token_file, err);

	if (rc == 0)
		rc = fs_read_file(s->token_file, TOKEN_MAX, &text, err);
	if (rc < 0)
		return error_wrap(err, -EACCES, "delegation token");
	*ret = strndup(text.data ? text.data : "",
		       strcspn(text.data ? text.data : "", "\r\n"));
	if (!*ret)
		return error_nomem(err);
	if (**ret)
		return 0;
	free(*ret);
	return error_set(err, EACCES, "'%s' has no delegation token in it",
			 s->token_file);
}

/* A copy of the present token; NULL where none is used. */
static int get_token(struct hdfs_store *s, unsigned int node, char **ret,
		     struct error *err)
{
	int rc = 0;

	*ret = NULL;
	if (!s->by_kerberos && !s->token_file)
		return 0;
	(void)pthread_mutex_lock(&s->lock);
	if (!s->token)
		rc = s->token_file ? read_token(s, &s->token, err)
				   : ask_token(s, node, &s->token, err);
	if (rc == 0) {
		*ret = strdup(s->token);
		rc = *ret ? 0 : error_nomem(err);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return rc;
}

/* Forget a token that the server refuses. */
static void drop_token(struct hdfs_store *s, const char *token)
{
	(void)pthread_mutex_lock(&s->lock);
	if (s->token && token && strcmp(s->token, token) == 0) {
		free(s->token);
		s->token = NULL;
	}
	(void)pthread_mutex_unlock(&s->lock);
}

/* --------------------------------------------------------------------- URLs --- */

static int encode_path(const struct hdfs_store *s, struct buf *b,
		       const char *name)
{
	int rc = store_url_encode(b, *s->root || *name ? s->root : "/", "/");

	if (rc == 0 && *name)
		rc = buf_puts(b, "/");
	return rc == 0 ? store_url_encode(b, name, "/") : rc;
}

int hdfs_add_path(const struct hdfs_store *s, struct buf *b, const char *key,
		  const char *name, struct error *err)
{
	int rc = buf_printf(b, "&%s=", key);

	return rc < 0 || encode_path(s, b, name) < 0 ? error_nomem(err) : 0;
}

static int make_url(const struct hdfs_store *s, const struct hdfs_request *r,
		    unsigned int node, const char *token, struct buf *b)
{
	int rc = buf_printf(b, "%s/webhdfs/v1", s->nodes[node]);

	if (rc == 0)
		rc = encode_path(s, b, r->name);
	if (rc == 0)
		rc = buf_printf(b, "?op=%s%s", r->op,
				r->params ? r->params : "");
	/* A token names the user, so no other parameter may. */
	if (rc == 0 && token)
		rc = buf_puts(b, "&delegation=");
	if (rc == 0 && token)
		return store_url_encode(b, token, "");
	if (rc == 0 && s->user)
		rc = buf_puts(b, "&user.name=");
	if (rc == 0 && s->user)
		rc = store_url_encode(b, s->user, "");
	if (rc == 0 && s->doas)
		rc = buf_puts(b, "&doas=");
	if (rc == 0 && s->doas)
		rc = store_url_encode(b, s->doas, "");
	return rc;
}

/* --------------------------------------------------------------- judgement --- */

static int map_exception_to_error(const char *server, const char *name,
				  const char *why, long status,
				  struct retry_verdict *v, bool *ret_next,
				  struct error *err)
{
	/* A refused token is a SecurityException with a certain text. */
	if (strcmp(name, "SecurityException") == 0 &&
	    (strstr(why, "InvalidToken") || strstr(why, "token")))
		name = "InvalidToken";
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		if (strcmp(answers[i].exception, name) != 0)
			continue;
		v->can_retry = answers[i].can_retry;
		*ret_next = answers[i].next_node;
		return error_set(err, answers[i].error, "%s: %s (%s)%s", server,
				 why, name, answers[i].cure);
	}
	v->can_retry = status >= 500;
	return error_set(err, status == 401 ? EACCES : EIO, "%s: %s (%s)",
			 server, why, name);
}

static int judge_answer(const char *server, const struct http_response *resp,
			struct retry_verdict *v, bool *ret_next,
			struct error *err)
{
	AUTO_FREE char *name = NULL;
	AUTO_FREE char *why = NULL;

	v->after_ms = http_retry_after_ms(resp);
	if (hdfs_exception_parse(resp->body.data ? resp->body.data : "",
				 resp->body.len, &name, &why) == 0)
		return map_exception_to_error(server, name, why, resp->status,
					      v, ret_next, err);
	v->can_retry = resp->status >= 500 || resp->status == 429;
	*ret_next = v->can_retry;
	return error_set(
		err,
		resp->status == 401 || resp->status == 403 ? EACCES
		: resp->status == 404                      ? ENOENT
		: v->can_retry                             ? EBUSY
							   : EPROTO,
		"%s answered %ld%s", server, resp->status,
		resp->status == 401 ? ": it wants a login: ?auth=kerberos, or "
				      "?token-file="
		: resp->status == 404
			? ": is it the HTTP port of a name node, or of HttpFS?"
			: "");
}

static bool request_error_may_pass(int rc)
{
	return rc == -ETIMEDOUT || rc == -EIO || rc == -ECONNREFUSED;
}

/* The server of a URL, for messages: the rest of the URL may hold a token. */
static char *copy_server_of_url(const char *url)
{
	const char *host = strstr(url, "://");

	host = host ? host + 3 : url;
	return strndup(url, (size_t)(host - url) + strcspn(host, "/?"));
}

/* ------------------------------------------------------------------- steps --- */

static int send_to(struct hdfs_store *s, const char *url,
		   const struct hdfs_request *r, bool with_body,
		   struct http_response *resp, struct retry_verdict *v,
		   struct error *err)
{
	/* Any value satisfies the server's check against forged browser requests. */
	static const char *const headers[] = {
		"X-XSRF-HEADER: bootseer",
		"Content-Type: application/octet-stream", NULL
	};
	static const char *const plain[] = { "X-XSRF-HEADER: bootseer", NULL };
	struct http_request req = {
		.method = r->method,
		.url = url,
		.headers = with_body ? headers : plain,
		.body = with_body ? r->body : NULL,
		.body_len = with_body ? r->body_len : 0,
		.stays = true,
		.sink = r->sink,
		.deadline_ns = r->deadline_ns,
		.pace = r->pace,
		.is_greedy = true,
	};
	AUTO_FREE char *server = copy_server_of_url(url);
	int rc = http_do(s->http, &req, resp, err);

	store_count_answer(&s->base, r->sink, r->body_len > 0, resp->took_ns,
			   resp->wait_ns);
	v->can_retry = request_error_may_pass(rc);
	return rc < 0 ? error_wrap(err, rc, "%s", server ? server : "") : 0;
}

int hdfs_try_url(struct hdfs_store *s, const char *url,
		 const struct hdfs_request *r, struct http_response *resp,
		 struct retry_verdict *v, struct error *err)
{
	AUTO_FREE char *server = copy_server_of_url(url);
	bool next;
	int rc = send_to(s, url, r, true, resp, v, err);

	if (rc == 0 && resp->status / 100 != 2)
		rc = judge_answer(server ? server : "", resp, v, &next, err);
	/* The next attempt asks for another data node. */
	if (rc < 0 && request_error_may_pass(rc))
		v->can_retry = true;
	return rc;
}

bool hdfs_refuses_block(const struct error *err)
{
	return err && strstr(err->msg, "min-block-size");
}

/* Is the node broken? Not if its answer comes from the cluster's configuration: any other would
 * answer the same. */
bool hdfs_node_is_broken(int rc, const struct error *err)
{
	return rc < 0 && request_error_may_pass(rc) && !hdfs_refuses_block(err);
}

/* Send to the data node with the fewest requests of this process. */
static int send_file(struct hdfs_store *s, const char *location,
		     const struct hdfs_request *r, struct http_response *resp,
		     struct retry_verdict *v, struct error *err)
{
	AUTO_FREE char *url = NULL;
	int rc = hdfs_spread_begin(&s->spread, location, r->place,
				   clock_now_ns(), &url, err);

	if (rc < 0)
		return rc;
	rc = hdfs_try_url(s, url, r, resp, v, err);
	hdfs_spread_end(&s->spread, url, hdfs_node_is_broken(rc, err));
	return rc;
}

/* Follow the redirect of the first step. */
static int follow_redirect(struct hdfs_store *s, const struct hdfs_request *r,
			   struct http_response *resp, struct retry_verdict *v,
			   struct error *err)
{
	AUTO_FREE char *location = http_header(resp, "location");

	if (!location)
		return error_set(err, EPROTO,
				 "a redirect leads nowhere: is it a name "
				 "node?");
	if (r->moved) {
		free(*r->moved);
		*r->moved = strdup(location);
	}
	return r->is_new_file ? send_file(s, location, r, resp, v, err)
			      : hdfs_try_url(s, location, r, resp, v, err);
}

/* Should the name node be asked for another data node? `excludedatanodes` does not help: name
 * nodes compare it with other ports and names than those in their redirects. */
static bool wants_another(struct hdfs_store *s, const struct hdfs_request *r,
			  const struct http_response *resp)
{
	AUTO_FREE char *location = NULL;

	if (resp->status != 307 || (!r->is_new_file && !r->not_at))
		return false;
	location = http_header(resp, "location");
	if (!location)
		return false;
	if (r->not_at)
		return hdfs_spread_is_same(location, r->not_at);
	return hdfs_spread_wants_another(&s->spread, location, clock_now_ns());
}

static int try_node(struct hdfs_store *s, struct hdfs_request *r,
		    unsigned int node, const char *token,
		    struct http_response *resp, struct retry_verdict *v,
		    bool *ret_next, struct error *err)
{
	AUTO_BUF url = BUF_INIT;
	int rc = 0;

	if (make_url(s, r, node, token, &url) < 0)
		return error_nomem(err);
	for (unsigned int i = 0; i < ASKS; i++) {
		rc = send_to(s, url.data, r, false, resp, v, err);
		if (rc < 0 || !wants_another(s, r, resp))
			break;
	}
	*ret_next = rc < 0 && v->can_retry;
	if (rc == 0 && resp->status == 307)
		return follow_redirect(s, r, resp, v, err);
	if (rc == 0 && resp->status / 100 != 2)
		return judge_answer(s->nodes[node], resp, v, ret_next, err);
	if (rc == 0 && r->body_len)
		return error_set(err, EPROTO,
				 "%s did not say where the bytes go: is it a "
				 "name node?",
				 s->nodes[node]);
	return rc;
}

int hdfs_try(struct hdfs_store *s, struct hdfs_request *r,
	     struct http_response *resp, struct retry_verdict *v,
	     struct error *err)
{
	unsigned int node = atomic_load(&s->active) % s->n_nodes;
	AUTO_FREE char *token = NULL;
	bool next = false;
	int rc = get_token(s, node, &token, err);

	if (rc == 0)
		rc = try_node(s, r, node, token, resp, v, &next, err);
	else
		v->can_retry = next =
			request_error_may_pass(rc) || rc == -EBUSY;
	if (rc == -EACCES && v->can_retry)
		drop_token(s, token);
	if (rc < 0 && next && s->n_nodes > 1) {
		/* Only the first thread that notices it switches nodes. */
		(void)atomic_compare_exchange_strong(&s->active, &node,
						     (node + 1) % s->n_nodes);
		v->at_once = true;
	}
	return rc;
}

int hdfs_call(struct hdfs_store *s, struct hdfs_request *r,
	      struct http_response *resp, struct error *err)
{
	struct retry_budget retry;

	retry_init(&retry, &s->base, r->deadline_ns);
	if (!r->deadline_ns && r->body_len < HDFS_PART / 8)
		r->deadline_ns = retry_until(&retry);
	for (;;) {
		struct retry_verdict v = { .can_retry = false };
		int rc;

		atomic_fetch_add(&s->base.count.n_requests, 1);
		rc = hdfs_try(s, r, resp, &v, err);
		if (rc == 0 || !retry_again(&retry, &v, err))
			return rc;
	}
}

int hdfs_remove_all(struct hdfs_store *s, const char *name, int64_t deadline_ns,
		    struct error *err)
{
	struct hdfs_request r = { .method = "DELETE",
				  .op = "DELETE",
				  .name = name,
				  .params = "&recursive=true",
				  .deadline_ns = deadline_ns };
	struct http_response resp = HTTP_RESPONSE_INIT;
	int rc = hdfs_call(s, &r, &resp, err);

	http_response_fini(&resp);
	return rc == -ENOENT ? 0 : rc;
}
