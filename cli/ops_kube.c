// SPDX-License-Identifier: Apache-2.0
#include "cli/ops_kube.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/child.h"
#include "common/base64.h"
#include "common/bounded_json.h"
#include "common/buf.h"
#include "common/fs.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"
#define PEM_MAX (1u << 20)
#define CONFIG_MAX (4u << 20)
#define SAID_MAX (64u << 10)
#define CHILD_TIMEOUT_MS INT64_C(60000)
#define ARGS_MAX 64u

/* A login while it is being read; its secrets are overwritten at the end. */
struct kube_login {
	struct kube_config cfg;
	struct buf ca, cert, key, token;
};

static void login_fini(struct kube_login *l)
{
	buf_fini(&l->ca);
	buf_fini(&l->cert);
	buf_fini(&l->key);
	buf_fini(&l->token);
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* -------------------------------------------------------------------- plugin --- */

/* Variables that the kubeconfig sets for a credential plugin only: a proxy in them must not apply
 * to this program's own requests. */
struct plugin_env {
	char *v[ARGS_MAX + 1]; /* "NAME=VALUE", ends with NULL */
	size_t n;
};

static int add_variable(struct plugin_env *e, const char *name,
			const char *value, struct error *err)
{
	AUTO_BUF text = BUF_SECRET_INIT;

	if (e->n == ARGS_MAX || !*name || strchr(name, '='))
		return error_set(err, EINVAL,
				 "the kubeconfig's credential plugin has a "
				 "variable that is none, or too many");
	if (buf_printf(&text, "%s=%s", name, value) < 0 ||
	    !(e->v[e->n] = strdup(text.data)))
		return error_nomem(err);
	e->n++;
	return 0;
}

static void free_variables(struct plugin_env *e)
{
	while (e->n) {
		char *v = e->v[--e->n];

		explicit_bzero(v, strlen(v));
		free(v);
	}
}

/* Read the arguments and variables of a credential plugin from the kubeconfig. */
static int read_plugin(const json_t *exec, char *argv[ARGS_MAX + 2],
		       struct plugin_env *env, struct error *err)
{
	const json_t *v;
	size_t i, n = 0;

	argv[n++] = (char *)(uintptr_t)text_of(exec, "command");
	json_array_foreach(json_object_get(exec, "args"), i, v)
	{
		if (!json_is_string(v) || n > ARGS_MAX)
			return error_set(err, EINVAL,
					 "the kubeconfig's credential plugin "
					 "has arguments that are none");
		argv[n++] = (char *)(uintptr_t)json_string_value(v);
	}
	argv[n] = NULL;
	json_array_foreach(json_object_get(exec, "env"), i, v)
	{
		const char *name = text_of(v, "name"),
			   *value = text_of(v, "value");
		int rc =
			name && value ? add_variable(env, name, value, err) : 0;

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Describe the cluster to the plugin in a variable, from which it learns which token is wanted. */
static int tell_plugin(const json_t *exec, const json_t *cluster,
		       struct plugin_env *env, struct error *err)
{
	const char *version = text_of(exec, "apiVersion");
	AUTO_JSON *info =
		json_pack("{s:s,s:s,s:{s:b,s:{s:s?,s:s?}}}", "apiVersion",
			  version ? version : "", "kind", "ExecCredential",
			  "spec", "interactive", 0, "cluster", "server",
			  text_of(cluster, "server"),
			  "certificate-authority-data",
			  text_of(cluster, "certificate-authority-data"));
	AUTO_FREE char *text = info ? json_dumps(info, JSON_COMPACT) : NULL;

	return text ? add_variable(env, "KUBERNETES_EXEC_INFO", text, err)
		    : error_nomem(err);
}

static int run_plugin(struct kube_login *l, const json_t *exec,
		      const json_t *cluster, struct error *err)
{
	AUTO_BUF out = BUF_SECRET_INIT, said = { .limit = SAID_MAX };
	AUTO_JSON *answer = NULL;
	const json_t *status;
	const char *token, *cert, *key;
	struct plugin_env env = { .n = 0 };
	char *argv[ARGS_MAX + 2];
	int ended = 0;
	int rc = read_plugin(exec, argv, &env, err);

	if (rc == 0)
		rc = tell_plugin(exec, cluster, &env, err);
	if (rc == 0)
		rc = child_read_output(argv, env.v, -1, SAID_MAX,
				       CHILD_TIMEOUT_MS, &out, &said, &ended,
				       err);
	free_variables(&env);
	if (rc == 0 && ended != 0)
		rc = error_set(err, EIO, "%s", child_last_line(&said));
	if (rc == 0)
		rc = bounded_json_load(out.data, out.len, "its answer", &answer,
				       err);
	if (rc < 0)
		return error_wrap(err, rc, "credential plugin '%s'", argv[0]);
	status = json_object_get(answer, "status");
	token = text_of(status, "token");
	cert = text_of(status, "clientCertificateData");
	key = text_of(status, "clientKeyData");
	if ((token && buf_puts(&l->token, token) < 0) ||
	    (cert && key &&
	     (buf_puts(&l->cert, cert) < 0 || buf_puts(&l->key, key) < 0)))
		return error_nomem(err);
	return token || (cert && key)
		       ? 0
		       : error_set(err, EBADMSG,
				   "credential plugin '%s' gave neither a "
				   "token nor a certificate",
				   argv[0]);
}

/* ---------------------------------------------------------------- kubeconfig --- */

static int decode_pem(const json_t *o, const char *key, struct buf *ret,
		      struct error *err)
{
	const char *text = text_of(o, key);

	if (!text)
		return 0;
	if (base64_decode(text, strlen(text), ret) < 0 || !ret->len ||
	    strlen(ret->data) != ret->len)
		return error_set(err, EINVAL, "the kubeconfig's %s is none",
				 key);
	return 0;
}

/* Refuse members that would change the server or the user and are not supported here. */
static int refuse_unsupported_members(const json_t *cluster, const json_t *user,
				      struct error *err)
{
	static const char *const of_cluster[] = { "proxy-url",
						  "tls-server-name" };
	static const char *const of_user[] = { "username", "auth-provider",
					       "as",       "as-groups",
					       "as-uid",   "as-user-extra" };

	for (size_t i = 0; i < 2; i++)
		if (json_object_get(cluster, of_cluster[i]))
			return error_set(err, EINVAL,
					 "the kubeconfig has %s, which is not "
					 "done here",
					 of_cluster[i]);
	for (size_t i = 0; i < 6; i++)
		if (json_object_get(user, of_user[i]))
			return error_set(err, EINVAL,
					 "the kubeconfig has %s, which is not "
					 "done here: give it a token, a "
					 "certificate or a credential plugin",
					 of_user[i]);
	return 0;
}

/* Read a kubeconfig that kubectl has reduced to the current context, with files embedded. */
static int read_login(const json_t *config, struct kube_login *l,
		      struct error *err)
{
	const json_t *cluster =
		json_object_get(json_array_get(json_object_get(config,
							       "clusters"),
					       0),
				"cluster");
	const json_t *user =
		json_object_get(json_array_get(json_object_get(config, "users"),
					       0),
				"user");
	const json_t *exec = json_object_get(user, "exec");
	const char *token = text_of(user, "token");
	int rc = refuse_unsupported_members(cluster, user, err);

	if (rc < 0)
		return rc;
	l->cfg.server = text_of(cluster, "server");
	l->cfg.is_unverified = json_is_true(
		json_object_get(cluster, "insecure-skip-tls-verify"));
	l->cfg.token_file = text_of(user, "tokenFile");
	if (!l->cfg.server)
		return error_set(err, EINVAL,
				 "the kubeconfig names no cluster: choose one "
				 "by kubectl config use-context");
	rc = decode_pem(cluster, "certificate-authority-data", &l->ca, err);
	if (rc == 0)
		rc = decode_pem(user, "client-certificate-data", &l->cert, err);
	if (rc == 0)
		rc = decode_pem(user, "client-key-data", &l->key, err);
	if (rc == 0 && token && !l->cfg.token_file &&
	    buf_puts(&l->token, token) < 0)
		rc = error_nomem(err);
	/* As in kubectl, a token in the kubeconfig takes precedence over the plugin. */
	if (rc == 0 && exec && text_of(exec, "command") && !token &&
	    !l->cfg.token_file)
		rc = run_plugin(l, exec, cluster, err);
	if (rc == 0 && !l->cert.len != !l->key.len)
		rc = error_set(err, EINVAL,
			       "the kubeconfig has only one of "
			       "client-certificate and client-key");
	return rc;
}

static int open_kubeconfig(const char *path, int64_t deadline_ns,
			   struct kube **ret, struct error *err)
{
	AUTO_BUF text = BUF_SECRET_INIT, said = { .limit = SAID_MAX };
	struct kube_login l = { .ca = BUF_INIT,
				.cert = BUF_SECRET_INIT,
				.key = BUF_SECRET_INIT,
				.token = BUF_SECRET_INIT };
	AUTO_JSON *config = NULL;
	char *argv[] = { (char[]){ "kubectl" },
			 (char[]){ "config" },
			 (char[]){ "view" },
			 (char[]){ "--raw" },
			 (char[]){ "--minify" },
			 (char[]){ "--flatten" },
			 (char[]){ "--output=json" },
			 path ? (char[]){ "--kubeconfig" } : NULL,
			 (char *)(uintptr_t)path,
			 NULL };
	int status = 0;
	int rc = child_read_output(argv, NULL, -1, CONFIG_MAX, CHILD_TIMEOUT_MS,
				   &text, &said, &status, err);

	if (rc == -ENOENT)
		return error_set(err, ENOENT,
				 "no kubectl here, which reads kubeconfigs: "
				 "install it, or run this in a pod whose "
				 "service account has the rights");
	if (rc == 0 && status != 0)
		rc = error_set(err, EIO, "%s", child_last_line(&said));
	if (rc == 0)
		rc = bounded_json_load(text.data, text.len, "its answer",
				       &config, err);
	if (rc < 0)
		return error_wrap(err, rc, "kubectl config view");
	rc = read_login(config, &l, err);
	if (rc == 0) {
		l.cfg.ca = l.ca.len ? l.ca.data : NULL;
		l.cfg.cert = l.cert.len ? l.cert.data : NULL;
		l.cfg.key = l.key.len ? l.key.data : NULL;
		l.cfg.token = l.token.len ? l.token.data : NULL;
		l.cfg.deadline_ns = deadline_ns;
		rc = kube_new(&l.cfg, ret, err);
	}
	login_fini(&l);
	return rc;
}

/* ------------------------------------------------------------------- account --- */

static int open_service_account(const char *host, const char *port,
				int64_t deadline_ns, struct kube **ret,
				struct error *err)
{
	AUTO_BUF server = BUF_INIT, ca = BUF_INIT;
	bool is_six = strchr(host, ':') != NULL;
	struct kube_config cfg = { .token_file = ACCOUNT "token",
				   .deadline_ns = deadline_ns };
	int rc = fs_read_file(ACCOUNT "ca.crt", PEM_MAX, &ca, err);

	if (rc < 0)
		return error_wrap(err, rc, "the pod's service account");
	if (buf_printf(&server, "https://%s%s%s:%s", is_six ? "[" : "", host,
		       is_six ? "]" : "", port) < 0)
		return error_nomem(err);
	cfg.server = server.data;
	cfg.ca = ca.data;
	return kube_new(&cfg, ret, err);
}

int ops_kube_open(const char *kubeconfig, int64_t deadline_ns,
		  struct kube **ret, struct error *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");

	if (!kubeconfig && !getenv("KUBECONFIG") && host && port &&
	    access(ACCOUNT "token", R_OK) == 0)
		return open_service_account(host, port, deadline_ns, ret, err);
	return open_kubeconfig(kubeconfig, deadline_ns, ret, err);
}
