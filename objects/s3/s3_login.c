// SPDX-License-Identifier: Apache-2.0
/* Finds credentials, searching the same sources in the same order as other S3 programs. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "objects/s3/s3_credentials.h"
#include "objects/store/store_url.h"

/* Request new credentials this long before they expire. */
#define EARLY_MS (300 * 1000)
#define FILE_MAX (1u << 20)
#define METADATA "http://169.254.169.254"
#define CONTAINER "http://169.254.170.2"
#define METADATA_MS 2000 /* the metadata service is near, or absent */

struct s3_login {
	char *profile, *region;
	struct http *http;
	struct http *direct; /* without a proxy, for services on this host */

	/* Protects the members below; one thread requests at a time. */
	pthread_mutex_t lock;
	struct s3_credentials now;
	bool is_stale;
};

int s3_login_new(const struct s3_login_config *cfg, struct s3_login **ret,
		 struct error *err)
{
	AUTO(s3_login) l = calloc(1, sizeof(*l));
	struct http_config http = *cfg->http;
	const char *profile = cfg->profile;
	int rc;

	if (!l)
		return error_nomem(err);
	(void)pthread_mutex_init(&l->lock, NULL);
	if (!profile)
		profile = getenv("AWS_PROFILE");
	l->profile = strdup(profile ? profile : "default");
	l->region = strdup(cfg->region);
	if (!l->profile || !l->region)
		return error_nomem(err);
	rc = http_new(&http, &l->http, err);
	if (rc < 0)
		return rc;
	http.is_direct = http.allow_plain = true;
	http.connect_timeout_ms = METADATA_MS;
	rc = http_new(&http, &l->direct, err);
	if (rc == 0)
		*ret = steal_ptr(&l);
	return rc;
}

void s3_login_free(struct s3_login *l)
{
	if (!l)
		return;
	http_free(l->http);
	http_free(l->direct);
	s3_credentials_fini(&l->now);
	(void)pthread_mutex_destroy(&l->lock);
	free(l->profile);
	free(l->region);
	free(l);
}

static int get_credentials_from_env(struct s3_credentials *ret,
				    struct error *err)
{
	const char *id = store_variable("AWS_ACCESS_KEY_ID");
	const char *secret = store_variable("AWS_SECRET_ACCESS_KEY");
	const char *token = store_variable("AWS_SESSION_TOKEN");

	if (!id)
		return -ENOENT;
	if (!secret)
		return error_set(err, EACCES,
				 "AWS_ACCESS_KEY_ID is set, and "
				 "AWS_SECRET_ACCESS_KEY is not");
	*ret = (struct s3_credentials){
		.key_id = strdup(id),
		.secret = strdup(secret),
		.token = token ? strdup(token) : NULL,
	};
	return ret->key_id && ret->secret ? 0 : error_nomem(err);
}

static int get_credentials_from_file(const struct s3_login *l,
				     struct s3_credentials *ret,
				     struct error *err)
{
	const char *named = store_variable("AWS_SHARED_CREDENTIALS_FILE");
	const char *home = store_variable("HOME");
	AUTO_BUF path = BUF_INIT, text = BUF_SECRET_INIT;
	int rc;

	if (!named && !home)
		return -ENOENT;
	if (buf_printf(&path, "%s%s", named ? named : home,
		       named ? "" : "/.aws/credentials") < 0)
		return error_nomem(err);
	if (!named && access(path.data, F_OK) < 0)
		return -ENOENT;
	rc = fs_read_file(path.data, FILE_MAX, &text, err);
	if (rc < 0)
		return error_wrap(err, -EACCES, "credentials");
	rc = s3_credentials_from_file(text.data ? text.data : "", text.len,
				      l->profile, ret);
	if (rc == -EBADMSG)
		return error_set(err, EACCES,
				 "'%s' has no aws_access_key_id and "
				 "aws_secret_access_key in [%s]",
				 path.data, l->profile);
	return rc < 0 ? error_nomem(err) : 0;
}

/* Cut the line end off a token file's text. */
static void cut_line_end(struct buf *b)
{
	if (!b->data)
		return;
	b->len = strcspn(b->data, "\r\n");
	b->data[b->len] = '\0';
}

static int check_answer(const struct http_response *r, const char *url,
			struct error *err)
{
	if (r->status == 200)
		return 0;
	return error_set(err, EACCES, "%s answered %ld", url, r->status);
}

/* ------------------------------------------------------------- web identity --- */

static int identity_url(const struct s3_login *l, const char *role,
			const char *token, struct buf *url, struct error *err)
{
	const char *endpoint = store_variable("AWS_ENDPOINT_URL_STS");
	const char *session = store_variable("AWS_ROLE_SESSION_NAME");
	int rc = 0;

	if (endpoint)
		rc = buf_puts(url, endpoint);
	else
		rc = buf_printf(url, "https://sts.%s.amazonaws.com", l->region);
	if (rc == 0)
		rc = buf_puts(url, "/?Action=AssumeRoleWithWebIdentity&Version="
				   "2011-06-15&RoleArn=");
	if (rc == 0)
		rc = store_url_encode(url, role, "");
	if (rc == 0)
		rc = buf_puts(url, "&RoleSessionName=");
	if (rc == 0)
		rc = store_url_encode(url, session ? session : "bootseer", "");
	if (rc == 0)
		rc = buf_puts(url, "&WebIdentityToken=");
	if (rc == 0)
		rc = store_url_encode(url, token, "");
	return rc < 0 ? error_nomem(err) : 0;
}

static int get_credentials_from_identity(const struct s3_login *l,
					 int64_t deadline_ns,
					 struct s3_credentials *ret,
					 struct error *err)
{
	const char *file = store_variable("AWS_WEB_IDENTITY_TOKEN_FILE");
	const char *role = store_variable("AWS_ROLE_ARN");
	struct http_response r = HTTP_RESPONSE_INIT;
	AUTO_BUF token = BUF_INIT, url = BUF_INIT;
	struct http_request req = { .method = "GET",
				    .deadline_ns = deadline_ns };
	int rc;

	if (!file || !role)
		return -ENOENT;
	rc = fs_read_file(file, FILE_MAX, &token, err);
	cut_line_end(&token);
	if (rc == 0)
		rc = identity_url(l, role, token.data ? token.data : "", &url,
				  err);
	if (rc < 0)
		return rc;
	req.url = url.data;
	rc = http_do(l->http, &req, &r, err);
	if (rc == 0)
		rc = check_answer(&r, "the service that knows web identities",
				  err);
	if (rc == 0 && s3_credentials_from_xml(r.body.data ? r.body.data : "",
					       r.body.len, ret) < 0)
		rc = error_set(err, EACCES,
			       "the answer to the web identity has no "
			       "credentials");
	http_response_fini(&r);
	return error_wrap(err, rc, "web identity of '%s'", file);
}

/* ----------------------------------------------------------------- metadata --- */

static int get_from_metadata_service(const struct s3_login *l,
				     const char *method, const char *url,
				     const char *header, int64_t deadline_ns,
				     struct buf *ret, struct error *err)
{
	const char *headers[] = { header, NULL };
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	struct http_request req = {
		.method = method,
		.url = url,
		.headers = headers,
		.stays = true,
		.deadline_ns = deadline_ns,
	};
	int rc = http_do(l->direct, &req, &r, err);

	if (rc == 0)
		rc = check_answer(&r, url, err);
	if (rc == 0 && buf_append(ret, r.body.data, r.body.len) < 0)
		rc = error_nomem(err);
	return rc;
}

static int take_json(const struct buf *text, struct s3_credentials *ret,
		     struct error *err)
{
	if (s3_credentials_from_json(text->data ? text->data : "", text->len,
				     ret) < 0)
		return error_set(err, EACCES,
				 "the answer has no credentials in it");
	return 0;
}

/* Get credentials from the container service of ECS or EKS. */
static int get_credentials_from_container(const struct s3_login *l,
					  int64_t deadline_ns,
					  struct s3_credentials *ret,
					  struct error *err)
{
	const char *full = store_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	const char *relative =
		store_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *file =
		store_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *token = store_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	AUTO_BUF url = BUF_INIT, header = BUF_INIT, text = BUF_INIT;
	int rc = 0;

	if (!full && !relative)
		return -ENOENT;
	rc = buf_printf(&url, "%s%s", relative ? CONTAINER : full,
			relative ? relative : "");
	if (rc == 0 && (file || token))
		rc = buf_puts(&header, "Authorization: ");
	if (rc == 0 && file)
		rc = fs_read_file(file, FILE_MAX, &header, err);
	else if (rc == 0 && token)
		rc = buf_puts(&header, token);
	cut_line_end(&header);
	if (rc < 0)
		return rc;
	rc = get_from_metadata_service(l, "GET", url.data, header.data,
				       deadline_ns, &text, err);
	if (rc == 0)
		rc = take_json(&text, ret, err);
	return error_wrap(err, rc, "the container's agent");
}

static int get_credentials_from_instance(const struct s3_login *l,
					 int64_t deadline_ns,
					 struct s3_credentials *ret,
					 struct error *err)
{
	static const char roles[] = "latest/meta-data/iam/"
				    "security-credentials/";
	const char *base = store_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	const char *off = store_variable("AWS_EC2_METADATA_DISABLED");
	AUTO_BUF url = BUF_INIT, token = BUF_INIT, role = BUF_INIT;
	AUTO_BUF text = BUF_SECRET_INIT;
	int rc;

	if (off && strcasecmp(off, "true") == 0)
		return -ENOENT;
	base = base ? base : METADATA;
	rc = buf_printf(&url, "%s/latest/api/token", base);
	if (rc == 0)
		rc = buf_puts(&token, "X-aws-ec2-metadata-token: ");
	if (rc == 0)
		rc = get_from_metadata_service(
			l, "PUT", url.data,
			"X-aws-ec2-metadata-token-ttl-seconds: 300",
			deadline_ns, &token, err);
	if (rc < 0)
		return rc == -ENOMEM ? rc : -ENOENT; /* there is no metadata
		                                      * service */
	cut_line_end(&token);
	buf_reset(&url);
	rc = buf_printf(&url, "%s/%s", base, roles);
	if (rc == 0)
		rc = get_from_metadata_service(l, "GET", url.data, token.data,
					       deadline_ns, &role, err);
	if (rc == 0)
		rc = buf_printf(&url, "%.*s",
				(int)strcspn(role.data ? role.data : "",
					     "\r\n"),
				role.data ? role.data : "");
	if (rc == 0)
		rc = get_from_metadata_service(l, "GET", url.data, token.data,
					       deadline_ns, &text, err);
	if (rc == 0)
		rc = take_json(&text, ret, err);
	return error_wrap(err, rc, "the instance's metadata");
}

static int find_credentials(struct s3_login *l, int64_t deadline_ns,
			    struct s3_credentials *ret, struct error *err)
{
	int64_t soon = clock_now_ns() + METADATA_MS * 1000000LL;
	int rc = get_credentials_from_env(ret, err);

	if (rc == -ENOENT)
		rc = get_credentials_from_identity(l, deadline_ns, ret, err);
	if (rc == -ENOENT)
		rc = get_credentials_from_file(l, ret, err);
	if (rc == -ENOENT)
		rc = get_credentials_from_container(l, deadline_ns, ret, err);
	if (rc == -ENOENT)
		rc = get_credentials_from_instance(l,
						   soon < deadline_ns
							   ? soon
							   : deadline_ns,
						   ret, err);
	if (rc == -ENOENT)
		rc = error_set(err, EACCES,
			       "no credentials: not in AWS_ACCESS_KEY_ID, "
			       "AWS_WEB_IDENTITY_TOKEN_FILE, "
			       "~/.aws/credentials or a metadata service; for "
			       "a public bucket add ?anonymous=yes");
	return rc;
}

/* -------------------------------------------------------------------- cache --- */

static bool credentials_are_current(const struct s3_login *l, int64_t early_ms)
{
	return l->now.key_id && !l->is_stale &&
	       (!l->now.until_ms ||
		clock_wall_ms() + early_ms < l->now.until_ms);
}

static int copy_credentials(const struct s3_credentials *from,
			    struct s3_credentials *to, struct error *err)
{
	*to = (struct s3_credentials){
		.key_id = strdup(from->key_id),
		.secret = strdup(from->secret),
		.token = from->token ? strdup(from->token) : NULL,
		.until_ms = from->until_ms,
	};
	if (to->key_id && to->secret && (to->token || !from->token))
		return 0;
	s3_credentials_fini(to);
	return error_nomem(err);
}

int s3_login_get(struct s3_login *l, int64_t deadline_ns,
		 struct s3_credentials *ret, struct error *err)
{
	struct timespec until;
	int rc = 0;

	/* POSIX locks time out by the wall clock */
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (deadline_ns - clock_now_ns()) / NS_PER_S + 1;
	if (pthread_mutex_timedlock(&l->lock, &until) != 0)
		return error_set(err, ETIMEDOUT,
				 "waited in vain for credentials");
	if (!credentials_are_current(l, EARLY_MS)) {
		struct s3_credentials next = { .key_id = NULL };

		rc = find_credentials(l, deadline_ns, &next, err);
		if (rc == 0) {
			s3_credentials_fini(&l->now);
			l->now = next;
			l->is_stale = false;
		} else {
			s3_credentials_fini(&next);
			/* The old credentials are still valid for a while. */
			rc = credentials_are_current(l, 0) ? 0 : rc;
		}
	}
	if (rc == 0)
		rc = copy_credentials(&l->now, ret, err);
	(void)pthread_mutex_unlock(&l->lock);
	return rc;
}

void s3_login_expire(struct s3_login *l, const char *key_id)
{
	(void)pthread_mutex_lock(&l->lock);
	if (l->now.key_id && strcmp(l->now.key_id, key_id) == 0)
		l->is_stale = true;
	(void)pthread_mutex_unlock(&l->lock);
}

static bool is_same(const struct s3_credentials *a,
		    const struct s3_credentials *b)
{
	return strcmp(a->key_id, b->key_id) == 0 &&
	       strcmp(a->secret, b->secret) == 0 &&
	       strcmp(a->token ? a->token : "", b->token ? b->token : "") == 0;
}

bool s3_login_renew(struct s3_login *l, const struct s3_credentials *refused)
{
	struct s3_credentials next = { .key_id = NULL };
	bool is_other;

	(void)pthread_mutex_lock(&l->lock);
	is_other = l->now.key_id && !is_same(&l->now, refused);
	/* Credentials with an expiry are renewed in time, and variables do not change. */
	if (!is_other && !l->now.until_ms &&
	    !store_variable("AWS_ACCESS_KEY_ID") &&
	    get_credentials_from_file(l, &next, NULL) == 0 &&
	    !is_same(&next, refused)) {
		s3_credentials_fini(&l->now);
		l->now = next;
		next = (struct s3_credentials){ .key_id = NULL };
		is_other = true;
	}
	(void)pthread_mutex_unlock(&l->lock);
	s3_credentials_fini(&next);
	return is_other;
}
