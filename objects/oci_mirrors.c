// SPDX-License-Identifier: Apache-2.0
#include "objects/oci_mirrors.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/json.h"
#include "net/http.h"
#include "net/url.h"
#include "objects/oci_hosts.h"
#include "common/toml.h"

#define CA_BYTES_MAX (1u << 20)

static void mirror_fini(struct oci_mirror *m)
{
	free(m->origin);
	free(m->path);
	for (size_t i = 0; m->headers[i]; i++)
		free(m->headers[i]);
	buf_fini(&m->ca);
	free(m->cert_file);
	free(m->key_file);
}

void oci_mirror_access(const struct oci_mirror *m, struct http_config *ret)
{
	ret->more_ca = m->ca.len ? m->ca.data : NULL;
	ret->cert_file = m->cert_file;
	ret->key_file = m->key_file;
	ret->is_unverified = m->is_unverified;
	if (m->origin)
		ret->allow_plain = strncmp(m->origin, "http:", 5) == 0;
}

void oci_mirrors_fini(struct oci_mirrors *m)
{
	for (size_t i = 0; i < m->n; i++)
		mirror_fini(&m->list[i]);
	m->n = 0;
}

/* ------------------------------------------------------------------ values --- */

/* containerd's rule: "/v2" is added unless it is there or the path is final. */
static int take_path(struct oci_mirror *m, const char *path, bool is_final,
		     struct error *err)
{
	size_t len = strcspn(path, "?#");
	bool has_v2;

	while (len > 0 && path[len - 1] == '/')
		len--;
	has_v2 = len >= 3 && strncmp(path + len - 3, "/v2", 3) == 0;
	return asprintf(&m->path, "%.*s%s", (int)len, path,
			has_v2 || is_final ? "" : "/v2") < 0
		       ? error_nomem(err)
		       : 0;
}

/* "host:port", with a scheme or without, maybe with a path. */
static int take_server(struct oci_mirror *m, const char *server, bool is_final,
		       struct error *err)
{
	bool has_scheme = strncmp(server, "http://", 7) == 0 ||
			  strncmp(server, "https://", 8) == 0;
	AUTO_FREE char *full = NULL;
	const char *host, *path;
	struct url u = { .scheme = NULL };

	if (asprintf(&full, "%s%s", has_scheme ? "" : "https://", server) < 0) {
		full = NULL;
		return error_nomem(err);
	}
	if (strpbrk(full, " @\r\n\t\"\\") || url_parse(full, &u) < 0)
		return error_set(err, EINVAL,
				 "'%.100s' is no address of a "
				 "registry",
				 server);
	url_fini(&u);
	host = strstr(full, "://") + 3;
	path = host + strcspn(host, "/?#");
	m->origin = strndup(full, (size_t)(path - full));
	if (!m->origin)
		return error_nomem(err);
	return take_path(m, path, is_final, err);
}

static int take_capabilities(struct oci_mirror *m, const json_t *list,
			     struct error *err)
{
	const json_t *one;
	size_t k;

	if (list && !json_is_array(list))
		return error_set(err, EINVAL, "'capabilities' is no list");
	m->pulls = m->resolves = json_array_size(list) == 0;
	json_array_foreach(list, k, one)
	{
		const char *name = json_string_value(one);

		if (name && strcasecmp(name, "pull") == 0)
			m->pulls = true;
		else if (name && strcasecmp(name, "resolve") == 0)
			m->resolves = true;
		else if (!name || strcasecmp(name, "push") != 0)
			return error_set(err, EINVAL,
					 "capability '%.40s' is not known",
					 name ? name : "");
	}
	return 0;
}

/* `name` as seen from `dir`; NULL: no memory. */
static char *join_unless_absolute(const char *dir, const char *name)
{
	return *name == '/' ? strdup(name) : fs_join(dir, name);
}

static int add_ca(struct oci_mirror *m, const char *dir, const json_t *name,
		  struct error *err)
{
	AUTO_FREE char *path = NULL;

	if (!json_is_string(name))
		return error_set(err, EINVAL, "'ca' is no name of a file");
	path = join_unless_absolute(dir, json_string_value(name));
	if (!path)
		return error_nomem(err);
	return fs_read_file(path, CA_BYTES_MAX, &m->ca, err);
}

static int take_ca(struct oci_mirror *m, const char *dir, const json_t *ca,
		   struct error *err)
{
	const json_t *one;
	int rc = 0;
	size_t k;

	if (!json_is_array(ca))
		return ca ? add_ca(m, dir, ca, err) : 0;
	json_array_foreach(ca, k, one)
	{
		if (rc == 0)
			rc = add_ca(m, dir, one, err);
	}
	return rc;
}

/* A file with both, a list of such, or of pairs: the first is shown. */
static int take_client(struct oci_mirror *m, const char *dir,
		       const json_t *client, struct error *err)
{
	const json_t *first =
		json_is_array(client) ? json_array_get(client, 0) : client;
	const json_t *cert =
		json_is_array(first) ? json_array_get(first, 0) : first;
	const json_t *key =
		json_is_array(first) ? json_array_get(first, 1) : first;

	if (!client)
		return 0;
	if (!json_is_string(cert) || !json_is_string(key))
		return error_set(err, EINVAL,
				 "'client' is no file, and no pair of files");
	m->cert_file = join_unless_absolute(dir, json_string_value(cert));
	m->key_file = join_unless_absolute(dir, json_string_value(key));
	return m->cert_file && m->key_file ? 0 : error_nomem(err);
}

static int add_header(struct oci_mirror *m, size_t *n, const char *key,
		      const json_t *value, struct error *err)
{
	const char *text = json_string_value(value);

	if (!text || strpbrk(text, "\r\n") || strpbrk(key, "\r\n: ") || !*key)
		return error_set(err, EINVAL, "header '%.60s' is none", key);
	if (*n == OCI_MIRROR_HEADERS_MAX)
		return error_set(err, EINVAL, "more than %d headers",
				 OCI_MIRROR_HEADERS_MAX);
	if (asprintf(&m->headers[*n], "%s: %s", key, text) < 0) {
		m->headers[*n] = NULL;
		return error_nomem(err);
	}
	(*n)++;
	return 0;
}

static int take_headers(struct oci_mirror *m, const json_t *headers,
			struct error *err)
{
	const char *key;
	json_t *value;
	size_t n = 0;

	json_object_foreach((json_t *)(uintptr_t)headers, key, value)
	{
		const json_t *one = value;
		size_t k;
		int rc = 0;

		if (!json_is_array(value))
			rc = add_header(m, &n, key, value, err);
		else
			json_array_foreach(value, k, one) rc =
				rc ? rc : add_header(m, &n, key, one, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int take_flag(const json_t *table, const char *key, bool *ret,
		     struct error *err)
{
	const json_t *value = json_object_get(table, key);

	*ret = json_is_true(value);
	return value && !json_is_boolean(value)
		       ? error_set(err, EINVAL, "'%s' is not true or false",
				   key)
		       : 0;
}

static void note_ignored_key(struct oci_mirrors *all, const char *what)
{
	size_t len = strlen(all->ignored);

	(void)snprintf(all->ignored + len, sizeof(all->ignored) - len,
		       "%s'%.40s'", len ? ", " : "", what);
}

/* containerd knows more, or somebody wrote it wrongly. */
static void note_other_keys(struct oci_mirrors *all, const json_t *table,
			    bool is_top)
{
	static const char *const known[] = { "capabilities", "ca",
					     "client",       "skip_verify",
					     "header",       "override_path" };
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)table, key, value)
	{
		bool is_known = is_top && (strcmp(key, "server") == 0 ||
					   strcmp(key, "host") == 0);

		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			is_known = is_known || strcmp(key, known[i]) == 0;
		if (!is_known)
			note_ignored_key(all, key);
		else if (strcmp(key, "client") == 0 &&
			 json_array_size(value) > 1)
			note_ignored_key(all, "client: all but the first");
	}
}

/* Add the mirror of one [host."..."] table, or of the top of the file. */
static int add_mirror(struct oci_mirrors *all, const char *server,
		      const json_t *table, bool is_top, const char *dir,
		      struct error *err)
{
	struct oci_mirror *m = &all->list[all->n];
	bool is_final;
	int rc;

	if (all->n > OCI_MIRRORS_MAX)
		return error_set(err, EINVAL, "more than %d hosts",
				 OCI_MIRRORS_MAX);
	*m = (struct oci_mirror){ .ca = BUF_INIT };
	all->n++;
	note_other_keys(all, table, is_top);
	rc = take_flag(table, "override_path", &is_final, err);
	if (rc == 0)
		rc = take_flag(table, "skip_verify", &m->is_unverified, err);
	if (rc == 0 && server)
		rc = take_server(m, server, is_final, err);
	if (rc == 0)
		rc = take_capabilities(m,
				       json_object_get(table, "capabilities"),
				       err);
	if (rc == 0)
		rc = take_ca(m, dir, json_object_get(table, "ca"), err);
	if (rc == 0)
		rc = take_client(m, dir, json_object_get(table, "client"), err);
	if (rc == 0)
		rc = take_headers(m, json_object_get(table, "header"), err);
	return rc;
}

/* This node's own mirror, which asks the registry by us. */
static bool mirror_is_of_this_node(const json_t *table)
{
	const json_t *headers = json_object_get(table, "header");

	return json_object_get(headers, OCI_MIRROR_OWN);
}

int oci_mirrors_parse(const char *text, size_t len, const char *dir,
		      struct oci_mirrors *ret, struct error *err)
{
	AUTO_JSON *top = NULL;
	const char *server, *name;
	json_t *table;
	int rc = toml_parse(text, len, &top, err);

	ret->n = 0;
	ret->ignored[0] = '\0';
	if (rc < 0)
		return rc;
	json_object_foreach(json_object_get(top, "host"), name, table)
	{
		rc = mirror_is_of_this_node(table)
			     ? 0
			     : add_mirror(ret, name, table, false, dir, err);
		if (rc < 0)
			break;
	}
	server = json_string_value(json_object_get(top, "server"));
	if (rc == 0)
		rc = add_mirror(ret, server && *server ? server : NULL, top,
				true, dir, err);
	if (rc < 0)
		oci_mirrors_fini(ret);
	return rc;
}

/* ------------------------------------------------------------------ folders --- */

/* Is there a folder for the host in `base`?  Its path, or NULL. */
static char *find_dir(const char *base, size_t len, const char *host)
{
	const char *colon = strrchr(host, ':');
	AUTO_FREE char *flat = NULL;
	const char *names[] = { NULL, host, "_default" };
	struct stat st;

	if (asprintf(&flat, "%.*s_%s_",
		     colon ? (int)(colon - host) : (int)strlen(host), host,
		     colon ? colon + 1 : "") < 0) {
		flat = NULL;
		return NULL;
	}
	names[0] = colon ? flat : host;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *path;

		if (asprintf(&path, "%.*s/%s", (int)len, base, names[i]) < 0)
			return NULL;
		if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
			return path;
		free(path);
	}
	return NULL;
}

int oci_mirrors_load(const char *dirs, const char *host,
		     struct oci_mirrors *ret, struct error *err)
{
	AUTO_FREE char *dir = NULL;

	ret->n = 0;
	for (; dirs && *dirs && !dir; dirs += *dirs == ':') {
		size_t len = strcspn(dirs, ":");

		dir = len ? find_dir(dirs, len, host) : NULL;
		dirs += len;
	}
	return dir ? oci_mirrors_read(dir, ret, err) : 0;
}

int oci_mirrors_read(const char *dir, struct oci_mirrors *ret,
		     struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, "hosts.toml");
	AUTO_BUF text = BUF_INIT;
	int rc;

	ret->n = 0;
	if (!path)
		return error_nomem(err);
	rc = fs_read_file(path, TOML_BYTES_MAX, &text, err);
	if (rc == -ENOENT)
		return 0;
	if (rc == 0 && text.len)
		rc = oci_mirrors_parse(text.data, text.len, dir, ret, err);
	return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}
