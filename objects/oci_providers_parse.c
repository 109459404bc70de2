// SPDX-License-Identifier: Apache-2.0
/* The texts of credential provider plugins, and what their patterns mean. */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "common/clock.h"
#include "objects/oci_json.h"
#include "objects/oci_providers.h"
#include "objects/yaml_json.h"

#define KEPT_MAX_S (10.0 * 365 * 86400)
#define PROVIDERS_MAX 64
#define PART_MAX 256 /* bytes of a part of a name of a host */

/* ------------------------------------------------------------------ patterns --- */

/* Takes the part of a host's name up to a '.'; false: it is longer than any. */
static bool take_part(const char **p, const char *end, char out[PART_MAX])
{
	size_t n = 0;

	while (*p + n < end && (*p)[n] != '.')
		n++;
	if (n >= PART_MAX)
		return false;
	memcpy(out, *p, n);
	out[n] = '\0';
	*p += n;
	return true;
}

/* As many parts on both sides, each of which fits. */
static bool parts_fit(const char *pattern, size_t pattern_len, const char *name,
		      size_t name_len)
{
	const char *pattern_end = pattern + pattern_len;
	const char *name_end = name + name_len;
	char a[PART_MAX], b[PART_MAX];

	for (;;) {
		if (!take_part(&pattern, pattern_end, a) ||
		    !take_part(&name, name_end, b) || fnmatch(a, b, 0) != 0)
			return false;
		if (pattern == pattern_end || name == name_end)
			return pattern == pattern_end && name == name_end;
		pattern++;
		name++;
	}
}

size_t provider_pattern_fits(const char *pattern, const char *host,
			     const char *repo)
{
	size_t host_name = strcspn(host, ":"), place, name;
	const char *path;

	if (strncmp(pattern, "https://", 8) == 0)
		pattern += 8;
	else if (strncmp(pattern, "http://", 7) == 0)
		pattern += 7;
	place = strcspn(pattern, "/");
	name = strcspn(pattern, ":/");
	path = pattern + place;
	path += *path == '/';
	if (name == 0 || !parts_fit(pattern, name, host, host_name))
		return 0;
	/* The ports, ":5000" or nothing. */
	if (strlen(host + host_name) != place - name ||
	    strncmp(host + host_name, pattern + name, place - name) != 0)
		return 0;
	/* As the kubelet has it: not at whole names only. */
	return strncmp(repo, path, strlen(path)) == 0 ? strlen(pattern) : 0;
}

/* ----------------------------------------------------------------- durations --- */

static double unit_seconds(const char *unit, size_t *ret_len)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {
		{ "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 },
		{ "h", 3600 },  { "m", 60 },    { "s", 1 },
	};

	for (size_t k = 0; k < ARRAY_SIZE(units); k++) {
		*ret_len = strlen(units[k].name);
		if (strncmp(unit, units[k].name, *ret_len) == 0)
			return units[k].seconds;
	}
	return -1;
}

int64_t provider_duration_parse(const char *text)
{
	double sum = 0;

	if (!*text)
		return -1;
	while (*text) {
		size_t digits = strspn(text, "0123456789."), len;
		double n = strtod(text, NULL), unit;

		if (digits == 0 || digits > 20)
			return -1;
		unit = unit_seconds(text + digits, &len);
		if (unit < 0)
			return -1;
		sum += n * unit;
		text += digits + len;
	}
	return sum <= KEPT_MAX_S ? (int64_t)(sum * (double)NS_PER_S) : -1;
}

/* ------------------------------------------------------------------- answers --- */

static int parse_use(const json_t *root, enum provider_use *ret,
		     struct error *err)
{
	static const struct {
		const char *name;
		enum provider_use use;
	} uses[] = { { "Image", PROVIDER_USE_IMAGE },
		     { "Registry", PROVIDER_USE_REGISTRY },
		     { "Global", PROVIDER_USE_ALL } };
	const char *type =
		json_string_value(json_object_get(root, "cacheKeyType"));

	for (size_t k = 0; type && k < ARRAY_SIZE(uses); k++) {
		if (strcmp(type, uses[k].name) == 0) {
			*ret = uses[k].use;
			return 0;
		}
	}
	return error_set(err, EINVAL,
			 "its cacheKeyType is not Image, Registry or Global");
}

static int parse_answer(const json_t *root, struct provider_answer *ret,
			struct error *err)
{
	const char *kind = json_string_value(json_object_get(root, "kind"));
	const char *kept =
		json_string_value(json_object_get(root, "cacheDuration"));
	json_t *auth = json_object_get(root, "auth");

	if (!kind || strcmp(kind, "CredentialProviderResponse") != 0)
		return error_set(err, EINVAL,
				 "its answer is no CredentialProviderResponse");
	if (auth && !json_is_object(auth) && !json_is_null(auth))
		return error_set(err, EINVAL, "its 'auth' is no object");
	ret->kept_ns = kept ? provider_duration_parse(kept) : -1;
	if (kept && ret->kept_ns < 0)
		return error_set(err, EINVAL,
				 "its cacheDuration is no duration");
	ret->auth = json_incref(auth);
	return parse_use(root, &ret->use, err);
}

int provider_answer_parse(const void *text, size_t len,
			  struct provider_answer *ret, struct error *err)
{
	struct provider_answer a = { .auth = NULL };
	json_t *root;
	int rc = bounded_json_load(text, len, "its answer", &root, err);

	if (rc < 0)
		return rc;
	rc = parse_answer(root, &a, err);
	json_decref(root);
	if (rc < 0)
		json_decref(a.auth);
	else
		*ret = a;
	return rc;
}

int provider_answer_pick(const json_t *auth, const char *host, const char *repo,
			 struct credentials *ret, struct error *err)
{
	const json_t *found = NULL;
	const char *pattern, *user, *password;
	size_t longest = 0;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)auth, pattern, value)
	{
		size_t fit = provider_pattern_fits(pattern, host, repo);

		if (fit <= longest)
			continue;
		longest = fit;
		found = value;
	}
	user = json_string_value(json_object_get(found, "username"));
	password = json_string_value(json_object_get(found, "password"));
	if (!user || !password || (!*user && !*password))
		return error_set(err, ENOENT, "it has no login for '%s/%s'",
				 host, repo);
	*ret = (struct credentials){ .user = strdup(user),
				     .password = strdup(password) };
	if (ret->user && ret->password)
		return 0;
	credentials_fini(ret);
	return error_nomem(err);
}

/* ------------------------------------------------------------- configuration --- */

static int check_provider(const json_t *p, struct error *err)
{
	const char *name = json_string_value(json_object_get(p, "name"));
	const char *version =
		json_string_value(json_object_get(p, "apiVersion"));
	const char *kept =
		json_string_value(json_object_get(p, "defaultCacheDuration"));

	if (!name || !*name || strpbrk(name, "/ \t\n") ||
	    strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return error_set(err, EINVAL,
				 "a provider's name is that of a program in "
				 "the folder");
	if (!version ||
	    strncmp(version, "credentialprovider.kubelet.k8s.io/", 34) != 0)
		return error_set(err, EINVAL,
				 "provider '%.64s': apiVersion is "
				 "credentialprovider.kubelet.k8s.io/v1",
				 name);
	if (!kept || provider_duration_parse(kept) < 0)
		return error_set(err, EINVAL,
				 "provider '%.64s': defaultCacheDuration is a "
				 "duration as \"12h\"",
				 name);
	if (!json_is_array(json_object_get(p, "matchImages")))
		return error_set(err, EINVAL,
				 "provider '%.64s': matchImages is a list",
				 name);
	return 0;
}

int provider_config_parse(const void *text, size_t len, json_t **ret,
			  struct error *err)
{
	json_t *root, *list, *p;
	const char *kind;
	size_t k;
	int rc = yaml_json_load(text, len, &root, err);

	if (rc < 0)
		return rc;
	kind = json_string_value(json_object_get(root, "kind"));
	list = json_object_get(root, "providers");
	if (!kind || strcmp(kind, "CredentialProviderConfig") != 0 ||
	    !json_is_array(list) || json_array_size(list) > PROVIDERS_MAX)
		rc = error_set(err, EINVAL,
			       "it is no CredentialProviderConfig of at most "
			       "%d providers",
			       PROVIDERS_MAX);
	for (k = 0; rc == 0 && k < json_array_size(list); k++) {
		p = json_array_get(list, k);
		rc = check_provider(p, err);
	}
	if (rc == 0)
		*ret = json_incref(list);
	json_decref(root);
	return rc;
}
