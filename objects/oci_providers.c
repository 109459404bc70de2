// SPDX-License-Identifier: Apache-2.0
/* Plugins are run as the kubelet runs them; their answers are kept in memory alone. */
#include "objects/oci_providers.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"
#include "objects/credential_program.h"

#define CONFIG_MAX (1u << 20)
#define KEPT_MAX 64 /* answers; the one that ends first gives way */
#define VARIABLES_MAX 256

extern char **environ;

struct kept_answer {
	char *key; /* NULL: the place is free */
	json_t *auth;
	int64_t until_ns;
};

struct oci_providers {
	char *config, *bin_dir;
	pthread_mutex_t lock; /* protects `kept` */
	struct kept_answer kept[KEPT_MAX];
};

static int load_config(const struct oci_providers *p, json_t **ret,
		       struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_read_file(p->config, CONFIG_MAX, &text, err);

	if (rc == 0)
		rc = provider_config_parse(text.data, text.len, ret, err);
	return rc < 0 ? error_wrap(err, rc, "credential providers in '%s'",
				   p->config)
		      : 0;
}

int oci_providers_new(const char *places, struct oci_providers **ret,
		      struct error *err)
{
	struct oci_providers *p = calloc(1, sizeof(*p));
	const char *colon = strchr(places, ':');
	json_t *list = NULL;
	int rc = 0;

	if (!p)
		return error_nomem(err);
	(void)pthread_mutex_init(&p->lock, NULL);
	if (places[0] != '/' || !colon || colon[1] != '/')
		rc = error_set(err, EINVAL,
			       "'%.120s': wanted are two absolute paths, "
			       "CONFIG:BINDIR",
			       places);
	if (rc == 0) {
		p->config = strndup(places, (size_t)(colon - places));
		p->bin_dir = strdup(colon + 1);
		rc = p->config && p->bin_dir ? load_config(p, &list, err)
					     : error_nomem(err);
	}
	json_decref(list);
	if (rc < 0)
		oci_providers_free(p);
	else
		*ret = p;
	return rc;
}

static void forget_answer(struct kept_answer *k)
{
	free(k->key);
	json_decref(k->auth);
	*k = (struct kept_answer){ .key = NULL };
}

void oci_providers_free(struct oci_providers *p)
{
	if (!p)
		return;
	for (size_t k = 0; k < KEPT_MAX; k++)
		forget_answer(&p->kept[k]);
	free(p->config);
	free(p->bin_dir);
	(void)pthread_mutex_destroy(&p->lock);
	free(p);
}

/* -------------------------------------------------------------- kept answers --- */

static char *answer_key(const char *name, enum provider_use use,
			const char *host, const char *repo)
{
	char *key;
	int rc = use == PROVIDER_USE_ALL ? asprintf(&key, "%s", name)
		 : use == PROVIDER_USE_REGISTRY
			 ? asprintf(&key, "%s %s", name, host)
			 : asprintf(&key, "%s %s/%s", name, host, repo);

	return rc < 0 ? NULL : key;
}

/* Returns a reference to the answer that is kept, or NULL. */
static json_t *find_kept(struct oci_providers *p, const char *name,
			 const char *host, const char *repo)
{
	int64_t now = clock_now_ns();
	json_t *found = NULL;

	for (int use = PROVIDER_USE_IMAGE; use <= PROVIDER_USE_ALL; use++) {
		AUTO_FREE char *key =
			answer_key(name, (enum provider_use)use, host, repo);

		(void)pthread_mutex_lock(&p->lock);
		for (size_t k = 0; key && !found && k < KEPT_MAX; k++)
			if (p->kept[k].key &&
			    strcmp(p->kept[k].key, key) == 0 &&
			    now < p->kept[k].until_ns)
				found = json_incref(p->kept[k].auth);
		(void)pthread_mutex_unlock(&p->lock);
	}
	return found;
}

static void keep_answer(struct oci_providers *p, const char *name,
			const char *host, const char *repo,
			const struct provider_answer *a, int64_t kept_ns)
{
	char *key = answer_key(name, a->use, host, repo);
	struct kept_answer *place = NULL;

	(void)pthread_mutex_lock(&p->lock);
	for (size_t k = 0; key && k < KEPT_MAX; k++) {
		struct kept_answer *i = &p->kept[k];

		if (i->key && strcmp(i->key, key) == 0) {
			place = i;
			break;
		}
		if (!place || !i->key ||
		    (place->key && i->until_ns < place->until_ns))
			place = i;
	}
	if (place) {
		forget_answer(place);
		*place = (struct kept_answer){ .key = steal_ptr(&key),
					       .auth = json_incref(a->auth),
					       .until_ns = clock_now_ns() +
							   kept_ns };
	}
	(void)pthread_mutex_unlock(&p->lock);
	free(key);
}

/* ------------------------------------------------------------------- plugins --- */

static bool provider_matches_image(const json_t *provider, const char *host,
				   const char *repo)
{
	const json_t *list = json_object_get(provider, "matchImages");
	bool fits = false;

	for (size_t k = 0; !fits && k < json_array_size(list); k++) {
		const char *pattern =
			json_string_value(json_array_get(list, k));

		fits = pattern && provider_pattern_fits(pattern, host, repo);
	}
	return fits;
}

/* Our own variables and those of the configuration; the texts that are made are in `made`. */
static int make_environment(const json_t *provider,
			    char *out[VARIABLES_MAX + 1],
			    char *made[VARIABLES_MAX], size_t *ret_made,
			    struct error *err)
{
	const json_t *list = json_object_get(provider, "env");
	size_t n = 0;

	for (size_t k = 0; k < json_array_size(list); k++) {
		const json_t *v = json_array_get(list, k);
		const char *name =
			json_string_value(json_object_get(v, "name"));
		const char *value =
			json_string_value(json_object_get(v, "value"));

		if (!name || !value || n == VARIABLES_MAX)
			return error_set(err, EINVAL,
					 "its env has a name and a value each, "
					 "%d at most",
					 VARIABLES_MAX);
		if (asprintf(&out[n], "%s=%s", name, value) < 0)
			return error_nomem(err);
		made[n] = out[n];
		*ret_made = ++n;
	}
	/* The first of one name counts. */
	for (char **e = environ; *e && n < VARIABLES_MAX; e++)
		out[n++] = *e;
	out[n] = NULL;
	return 0;
}

static int make_arguments(const json_t *provider, char *program,
			  char *out[VARIABLES_MAX + 2], struct error *err)
{
	const json_t *args = json_object_get(provider, "args");
	size_t n = json_array_size(args);

	if (n > VARIABLES_MAX)
		return error_set(err, EINVAL, "it has over %d args",
				 VARIABLES_MAX);
	out[0] = program;
	for (size_t k = 0; k < n; k++) {
		const char *arg = json_string_value(json_array_get(args, k));

		if (!arg)
			return error_set(err, EINVAL, "its args are no texts");
		out[k + 1] = (char *)(uintptr_t)arg;
	}
	out[n + 1] = NULL;
	return 0;
}

static int run_plugin(const json_t *provider, char *program,
		      const char *question, struct pace *pace,
		      struct buf *answer, struct error *err)
{
	char *argv[VARIABLES_MAX + 2], *envp[VARIABLES_MAX + 1];
	char *made[VARIABLES_MAX];
	size_t n_made = 0;
	int status = 0;
	int rc = make_arguments(provider, program, argv, err);

	if (rc == 0)
		rc = make_environment(provider, envp, made, &n_made, err);
	if (rc == 0)
		rc = credential_program_run(
			&(struct credential_program){ .argv = argv,
						      .envp = envp,
						      .input = question,
						      .pace = pace },
			answer, &status, err);
	if (rc == 0 && status != 0)
		rc = error_set(err, EACCES,
			       "it failed: what it wrote is in the log");
	while (n_made > 0)
		free(made[--n_made]);
	return rc;
}

static int ask_plugin(struct oci_providers *p, const json_t *provider,
		      const char *host, const char *repo, struct pace *pace,
		      struct provider_answer *ret, struct error *err)
{
	const char *name = json_string_value(json_object_get(provider, "name"));
	AUTO_FREE char *program = fs_join(p->bin_dir, name);
	AUTO_FREE char *question = NULL;
	AUTO_BUF answer = BUF_SECRET_INIT;
	int rc;

	/* Names of hosts and repositories need no escapes. */
	if (!program ||
	    asprintf(&question,
		     "{\"kind\":\"CredentialProviderRequest\","
		     "\"apiVersion\":\"%s\",\"image\":\"%s/%s\"}\n",
		     json_string_value(json_object_get(provider, "apiVersion")),
		     host, repo) < 0)
		return error_nomem(err);
	rc = run_plugin(provider, program, question, pace, &answer, err);
	if (rc == 0)
		rc = provider_answer_parse(answer.data, answer.len, ret, err);
	return rc < 0 ? error_wrap(err, rc, "credential provider %s", program)
		      : 0;
}

/* Asks a provider for its login: 0, -ENOENT, or why it cannot tell. */
static int ask_provider(struct oci_providers *p, const json_t *provider,
			const char *host, const char *repo, bool anew,
			struct pace *pace, struct credentials *ret,
			bool *ret_kept, struct error *err)
{
	const char *name = json_string_value(json_object_get(provider, "name"));
	struct provider_answer a = { .auth = NULL };
	int64_t kept_ns;
	json_t *kept = anew ? NULL : find_kept(p, name, host, repo);
	int rc;

	*ret_kept = kept != NULL;
	if (kept) {
		rc = provider_answer_pick(kept, host, repo, ret, err);
		json_decref(kept);
		return rc;
	}
	rc = ask_plugin(p, provider, host, repo, pace, &a, err);
	if (rc < 0)
		return rc;
	kept_ns = a.kept_ns;
	if (kept_ns < 0)
		kept_ns = provider_duration_parse(json_string_value(
			json_object_get(provider, "defaultCacheDuration")));
	if (kept_ns > 0 && a.auth)
		keep_answer(p, name, host, repo, &a, kept_ns);
	rc = provider_answer_pick(a.auth, host, repo, ret, err);
	json_decref(a.auth);
	return rc;
}

int oci_providers_ask(struct oci_providers *p, const char *host,
		      const char *repo, bool anew, struct pace *pace,
		      struct credentials *ret, bool *ret_kept,
		      struct error *err)
{
	AUTO_JSON *list = NULL;
	int rc = load_config(p, &list, err), found = -ENOENT;

	if (rc < 0)
		return rc;
	error_set(err, ENOENT, "no credential provider is for '%s/%s'", host,
		  repo);
	for (size_t k = 0;
	     found < 0 && found != -ECANCELED && k < json_array_size(list);
	     k++) {
		const json_t *provider = json_array_get(list, k);

		if (provider_matches_image(provider, host, repo))
			found = ask_provider(p, provider, host, repo, anew,
					     pace, ret, ret_kept, err);
	}
	return found;
}
