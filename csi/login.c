// SPDX-License-Identifier: Apache-2.0
#include "csi/login.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "common/base64.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/text.h"

#define CREDENTIALS "credentials"
#define TOKEN "token"
#define TOKEN_MAX 16384
#define SECRET_MAX 2048
#define LOGIN_ENTRIES_MAX 3 /* entries that add_login() may add */

/* ---- tokens ---- */

/* Read the claims, the middle part of a JWT. */
static int read_claims(const char *token, json_t **ret)
{
	const char *dot = strchr(token, '.');
	size_t len = dot ? strcspn(dot + 1, ".") : 0;
	AUTO_BUF text = BUF_SECRET_INIT, bytes = BUF_SECRET_INIT;

	if (len == 0 || len > TOKEN_MAX || dot[1 + len] != '.' ||
	    buf_append(&text, dot + 1, len) < 0)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (text.data[i] == '-')
			text.data[i] = '+';
		else if (text.data[i] == '_')
			text.data[i] = '/';
	while (text.len % 4)
		if (buf_puts(&text, "=") < 0)
			return -ENOMEM;
	if (base64_decode(text.data, text.len, &bytes) < 0 || !bytes.data)
		return -EINVAL;
	*ret = json_loadb(bytes.data, bytes.len, JSON_REJECT_DUPLICATES, NULL);
	return json_is_object(*ret) ? 0 : -EINVAL;
}

static bool is_token_for(const json_t *aud, const char *audience)
{
	for (size_t i = 0; i < json_array_size(aud); i++)
		if (is_token_for(json_array_get(aud, i), audience))
			return true;
	return json_is_string(aud) &&
	       strcmp(json_string_value(aud), audience) == 0;
}

static bool is_text(const json_t *v, const char *wanted)
{
	return json_is_string(v) && strcmp(json_string_value(v), wanted) == 0;
}

int login_check_token(const char *token, const char *audience,
		      const struct volume_request *r, struct error *err)
{
	AUTO_JSON *claims = NULL;
	const json_t *pod;

	if (!text_is_word(token, TOKEN_MAX) || read_claims(token, &claims) < 0)
		return error_set(err, EACCES,
				 "the token of the pod's service account is no "
				 "JWT");
	if (!is_token_for(json_object_get(claims, "aud"), audience))
		return error_set(err, EACCES,
				 "the token of the pod's service account is "
				 "not for '%.100s': --token-audience has to be "
				 "an audience of tokenRequests in the "
				 "CSIDriver csi.bootseer",
				 audience);
	pod = json_object_get(claims, "kubernetes.io");
	if (!is_text(json_object_get(pod, "namespace"), r->namespace) ||
	    !is_text(json_object_get(json_object_get(pod, "pod"), "uid"),
		     r->pod_uid))
		return error_set(err, EACCES,
				 "the token is of another pod's service "
				 "account");
	return 0;
}

/* Write the token for `audience`.  The tokens are {"AUDIENCE": {"token": "..."}}, one for each
 * entry in tokenRequests. */
static int write_token(const char *path, const char *audience,
		       const struct volume_request *r, struct error *err)
{
	AUTO_JSON *all = r->tokens ? json_loads(r->tokens, 0, NULL) : NULL;
	const char *token = json_string_value(
		json_object_get(json_object_get(all, audience), "token"));
	int rc;

	if (!token)
		return error_set(err, EACCES,
				 "the node's rule has a role, and the kubelet "
				 "gives no token for '%.100s': add the "
				 "audience to tokenRequests in the CSIDriver "
				 "csi.bootseer",
				 audience);
	rc = login_check_token(token, audience, r, err);
	return rc < 0 ? rc
		      : fs_replace_file(path, token, strlen(token), 0600, err);
}

/* ---- secrets ---- */

/* Find a secret's value.  -EACCES: it is missing, or cannot stand in one line of a file. */
static int find_secret(const struct csi_publish *p, const char *key,
		       bool is_needed, const char **ret, struct error *err)
{
	*ret = NULL;
	for (size_t i = 0; i < p->n_secrets; i++)
		if (strcmp(p->secrets[i].key, key) == 0)
			*ret = p->secrets[i].value;
	if (!*ret && is_needed)
		return error_set(err, EACCES,
				 "the volume needs a nodePublishSecretRef with "
				 "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: "
				 "%s is not there",
				 key);
	if (*ret && (!**ret || !text_is_word(*ret, SECRET_MAX)))
		return error_set(err, EACCES,
				 "%s of nodePublishSecretRef is empty, too "
				 "long, or has spaces or line ends in it",
				 key);
	return 0;
}

static int write_secrets(const char *path, const struct csi_publish *p,
			 struct error *err)
{
	const char *id, *secret, *session;
	AUTO_BUF text = BUF_SECRET_INIT;
	int rc = find_secret(p, "AWS_ACCESS_KEY_ID", true, &id, err);

	if (rc == 0)
		rc = find_secret(p, "AWS_SECRET_ACCESS_KEY", true, &secret,
				 err);
	if (rc == 0)
		rc = find_secret(p, "AWS_SESSION_TOKEN", false, &session, err);
	if (rc < 0)
		return rc;
	rc = buf_printf(&text,
			"[default]\naws_access_key_id = %s\n"
			"aws_secret_access_key = %s\n",
			id, secret);
	if (rc == 0 && session)
		rc = buf_printf(&text, "aws_session_token = %s\n", session);
	if (rc < 0)
		return error_nomem(err);
	return fs_replace_file(path, text.data, text.len, 0600, err);
}

int login_write(const char *dir, const char *audience,
		const struct csi_publish *p, const struct volume_request *r,
		const struct volume_grant *g, struct error *err)
{
	AUTO_FREE char *credentials = fs_join(dir, CREDENTIALS);
	AUTO_FREE char *token = fs_join(dir, TOKEN);

	if (!credentials || !token)
		return error_nomem(err);
	if (g->login != VOLUME_LOGIN_SECRET && p->n_secrets > 0)
		return error_set(err, EACCES,
				 "nodePublishSecretRef: the node's rule for "
				 "this %s takes no secret: leave it out",
				 volume_kind_name(r->kind));
	if (g->login == VOLUME_LOGIN_SECRET)
		return write_secrets(credentials, p, err);
	if (g->login == VOLUME_LOGIN_ROLE)
		return write_token(token, audience, r, err);
	return 0;
}

/* ---- the environment ---- */

/* Is the variable passed on?  Only those that say where things are on this node, and give no
 * rights. */
static bool is_passed_on(const char *entry)
{
	static const char *const names[] = {
		"PATH=",
		"TZ=",
		"HTTP_PROXY=",
		"HTTPS_PROXY=",
		"NO_PROXY=",
		"http_proxy=",
		"https_proxy=",
		"no_proxy=",
		"AWS_REGION=",
		"AWS_DEFAULT_REGION=",
		"AWS_ENDPOINT_URL=",
		"AWS_ENDPOINT_URL_S3=",
		"AWS_CA_BUNDLE=",
		"AWS_ENDPOINT_URL_STS=",
		"SSL_CERT_FILE=",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strncmp(entry, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static int add_entry(char **env, size_t *n, const char *name, const char *dir,
		     const char *value)
{
	if (asprintf(&env[*n], "%s%s%s%s", name, dir, *dir ? "/" : "", value) <
	    0) {
		env[*n] = NULL;
		return -ENOMEM;
	}
	(*n)++;
	return 0;
}

/* Add the variables of the login.  If the store needs none, the process must not find the
 * node's own login instead. */
static int add_login(const char *dir, const struct volume_grant *g, char **env,
		     size_t *n)
{
	int rc = add_entry(env, n, "AWS_EC2_METADATA_DISABLED=", "", "true");

	if (rc == 0 && g->login == VOLUME_LOGIN_SECRET)
		rc = add_entry(env, n, "AWS_SHARED_CREDENTIALS_FILE=", dir,
			       CREDENTIALS);
	if (rc == 0 && g->login == VOLUME_LOGIN_ROLE)
		rc = add_entry(env, n, "AWS_WEB_IDENTITY_TOKEN_FILE=", dir,
			       TOKEN);
	if (rc == 0 && g->login == VOLUME_LOGIN_ROLE)
		rc = add_entry(env, n, "AWS_ROLE_ARN=", "", g->role);
	return rc;
}

int login_env(const char *dir, const struct volume_grant *g, char ***ret,
	      struct error *err)
{
	size_t n = 0, n_own = 0;
	char **env;
	int rc;

	/* The environment may be large: seven variables for each Service of the pod's namespace. */
	while (environ[n_own])
		n_own++;
	env = (char **)calloc(n_own + LOGIN_ENTRIES_MAX + 1, sizeof(*env));
	rc = env ? 0 : -ENOMEM;
	for (char **e = environ; rc == 0 && *e; e++)
		if (g->login == VOLUME_LOGIN_NODE || is_passed_on(*e))
			rc = add_entry(env, &n, "", "", *e);
	if (rc == 0 && g->login != VOLUME_LOGIN_NODE)
		rc = add_login(dir, g, env, &n);
	if (rc < 0) {
		login_env_free(env);
		return error_errno(err, -rc, "the environment of a program");
	}
	*ret = env;
	return 0;
}

void login_env_free(char **env)
{
	for (char **e = env; e && *e; e++)
		free(*e);
	free((void *)env);
}
