// SPDX-License-Identifier: Apache-2.0
/* docker's config.json and credential helpers. */
#include "objects/oci_registry_auth.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "common/base64.h"
#include "common/fs.h"
#include "objects/credential_program.h"
#include "objects/oci_json.h"

#define CONFIG_MAX (1u << 20)
#define NAME_MAX_LEN 64

extern char **environ;

void credentials_fini(struct credentials *c)
{
	free(c->user);
	if (c->password)
		explicit_bzero(c->password, strlen(c->password));
	free(c->password);
	free(c->identity_token);
	*c = (struct credentials){ .user = NULL };
}

/* How well does a key fit "host/repository"?  0 not at all; the longest wins.
 * Keys are hosts, hosts with the start of a repository (containers-auth.json(5)),
 * or URLs as docker writes them: "https://index.example/v1/". */
static size_t matching_key_length(const char *key, const char *place)
{
	size_t len;

	if (strncmp(key, "https://", 8) == 0)
		key += 8;
	else if (strncmp(key, "http://", 7) == 0)
		key += 7;
	len = strlen(key);
	if (len && key[len - 1] == '/')
		len--;
	if (len > 3 && (strncmp(key + len - 3, "/v1", 3) == 0 ||
			strncmp(key + len - 3, "/v2", 3) == 0))
		len -= 3;
	if (len == 0 || strncmp(key, place, len) != 0)
		return 0;
	return place[len] == '\0' || place[len] == '/' ? len : 0;
}

static const json_t *find_place(const json_t *map, const char *place)
{
	const json_t *found = NULL;
	const char *key;
	size_t best = 0;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)map, key, value)
	{
		size_t fit = matching_key_length(key, place);

		if (fit <= best)
			continue;
		best = fit;
		found = value;
	}
	return found;
}

static char *copy_text(const json_t *obj, const char *key)
{
	const char *v = json_string_value(json_object_get(obj, key));

	return v && *v ? strdup(v) : NULL;
}

/* auth is base64("user:password"). */
static int parse_auth(const json_t *entry, struct credentials *c,
		      struct error *err)
{
	AUTO_FREE char *auth = copy_text(entry, "auth");
	AUTO_BUF plain = BUF_SECRET_INIT;
	char *colon;

	c->identity_token = copy_text(entry, "identitytoken");
	if (!auth) {
		c->user = copy_text(entry, "username");
		c->password = copy_text(entry, "password");
		return 0;
	}
	if (base64_decode(auth, strlen(auth), &plain) < 0)
		return error_set(err, EINVAL, "'auth' is not base 64");
	colon = plain.data ? strchr(plain.data, ':') : NULL;
	if (!colon)
		return error_set(err, EINVAL, "'auth' is not user:password");
	c->user = strndup(plain.data, (size_t)(colon - plain.data));
	c->password = strdup(colon + 1);
	return c->user && c->password ? 0 : error_nomem(err);
}

static bool helper_is_valid(const char *name)
{
	size_t len = strlen(name);

	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
			return false;
	return len > 0 && len <= NAME_MAX_LEN;
}

int credentials_parse(const void *json, size_t len, const char *place,
		      struct credentials *ret, char **helper, struct error *err)
{
	struct credentials c = { .user = NULL };
	const json_t *entry;
	const char *name;
	json_t *j;
	int rc;

	*helper = NULL;
	rc = bounded_json_load(json, len, "the file", &j, err);
	if (rc < 0)
		return rc;
	entry = find_place(json_object_get(j, "auths"), place);
	name = json_string_value(
		find_place(json_object_get(j, "credHelpers"), place));
	if (!name && !(entry && json_object_get(entry, "auth")))
		name = json_string_value(json_object_get(j, "credsStore"));
	if (name && !helper_is_valid(name)) {
		rc = error_set(err, EINVAL, "'%.64s' is no credential helper",
			       name);
	} else if (name) {
		*helper = strdup(name);
		rc = *helper ? 0 : error_nomem(err);
	} else if (entry) {
		rc = parse_auth(entry, &c, err);
	}
	json_decref(j);
	if (rc < 0) {
		credentials_fini(&c);
		return rc;
	}
	*ret = c;
	return 0;
}

/* docker's own registry goes by an old name in this file. */
static int format_credentials_place(const char *host, const char *repo,
				    struct buf *ret)
{
	if (strcmp(host, "docker.io") == 0)
		host = "index.docker.io";
	return buf_printf(ret, "%s/%s", host, repo);
}

int credentials_of_config(const char *json, const char *host, const char *repo,
			  struct credentials *ret, char **helper,
			  struct error *err)
{
	AUTO_BUF place = BUF_INIT;

	if (format_credentials_place(host, repo, &place) < 0)
		return error_nomem(err);
	return credentials_parse(json, strlen(json), place.data, ret, helper,
				 err);
}

/* ---------------------------------------------------------------- helper --- */

static int parse_answer(const struct buf *answer, struct credentials *ret,
			struct error *err)
{
	struct credentials c = { .user = NULL };
	json_t *j;
	int rc = bounded_json_load(answer->data, answer->len, "its answer", &j,
				   err);

	if (rc < 0)
		return rc;
	c.user = copy_text(j, "Username");
	c.password = copy_text(j, "Secret");
	json_decref(j);
	if (!c.user || !c.password) {
		credentials_fini(&c);
		return error_set(err, EINVAL, "it gave no Username and Secret");
	}
	if (strcmp(c.user, "<token>") == 0) {
		c.identity_token = steal_ptr(&c.password);
		free(steal_ptr(&c.user));
	}
	*ret = c;
	return 0;
}

/* Ask docker-credential-NAME: the host on stdin, JSON on stdout. */
static int ask_helper(const char *name, const char *host, struct pace *pace,
		      struct credentials *ret, struct error *err)
{
	AUTO_BUF program = BUF_INIT;
	AUTO_BUF answer = BUF_SECRET_INIT;
	int status = 0, rc;

	if (buf_printf(&program, "docker-credential-%s", name) < 0)
		return error_nomem(err);
	rc = credential_program_run(
		&(struct credential_program){
			.argv = (char *[]){ program.data,
					    (char *)(uintptr_t) "get", NULL },
			.envp = environ,
			.input = host,
			.pace = pace },
		&answer, &status, err);
	/* Docker-credential-helpers says so when there is none: anonymous. */
	if (rc == 0 && status != 0 && answer.data &&
	    strstr(answer.data, "credentials not found"))
		return 0;
	if (rc == 0 && status != 0)
		rc = error_set(err, EACCES, "it has nothing for '%s': %.200s",
			       host, answer.data ? answer.data : "");
	if (rc == 0)
		rc = parse_answer(&answer, ret, err);
	return rc < 0 ? error_wrap(err, rc, "%s", program.data) : 0;
}

/* ------------------------------------------------------------------ file --- */

static int find_usual_auth_file(struct buf *path)
{
	static const struct {
		const char *variable, *rest;
	} places[] = {
		{ "DOCKER_CONFIG", "/config.json" },
		{ "HOME", "/.docker/config.json" },
		{ "XDG_RUNTIME_DIR", "/containers/auth.json" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const char *base = getenv(places[i].variable);

		/* Systemd sets no HOME for a service of root. */
		if (!base && strcmp(places[i].variable, "HOME") == 0 &&
		    geteuid() == 0)
			base = "/root";
		buf_reset(path);
		if (!base)
			continue;
		if (buf_printf(path, "%s%s", base, places[i].rest) < 0)
			return -ENOMEM;
		if (access(path->data, R_OK) == 0)
			return 0;
	}
	buf_reset(path);
	return 0;
}

int credentials_find(const char *path, const char *host, const char *repo,
		     struct pace *pace, struct credentials *ret,
		     struct error *err)
{
	AUTO_FREE char *helper = NULL;
	AUTO_BUF place = BUF_INIT;
	AUTO_BUF file = BUF_INIT;
	AUTO_BUF text = BUF_SECRET_INIT;
	int rc;

	*ret = (struct credentials){ .user = NULL };
	if (format_credentials_place(host, repo, &place) < 0 ||
	    (!path && find_usual_auth_file(&file) < 0))
		return error_nomem(err);
	if (!path && file.len == 0)
		return 0;
	path = path ? path : file.data;
	rc = fs_read_file(path, CONFIG_MAX, &text, err);
	if (rc == 0)
		rc = credentials_parse(text.data, text.len, place.data, ret,
				       &helper, err);
	if (rc == 0 && helper)
		rc = ask_helper(helper, host, pace, ret, err);
	return rc < 0 ? error_wrap(err, rc, "credentials in '%s'", path) : 0;
}
