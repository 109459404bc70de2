// SPDX-License-Identifier: Apache-2.0
/* Requests of containerd: /v2/REPOSITORY/manifests/DIGEST and .../blobs/DIGEST with ?ns=HOST. */
#include <string.h>

#include "common/registry_host.h"
#include "snapshotter/node/mirror/mirror_priv.h"

static uint64_t mirror_head(void *arg, struct httpd_request *r)
{
	(void)arg;
	if (strcmp(r->peer_node, MIRROR_PEER) != 0)
		httpd_answer_error(r, HTTPD_FORBIDDEN,
				   "this is for the containerd of this node");
	else if (r->head.method != HTTPD_GET && r->head.method != HTTPD_HEAD)
		httpd_answer_error(r, HTTPD_METHOD_NOT_ALLOWED,
				   "layers can be read");
	else
		r->owner = MIRROR_PEER; /* clients share memory by owner */
	return 0;                       /* no request may have a body */
}

/* ---------------------------------------------- --- the request's target --- */

struct mirror_target {
	struct oci_ref ref;
	bool is_manifest;
	struct digest digest;
};

static const char *find_host(struct httpd_request *r)
{
	struct httpd_field params[HTTPD_PARAMS_MAX];
	size_t n = 0;

	if (httpd_query_parse(r->head.query, params, &n, NULL) < 0)
		return NULL;
	for (size_t k = 0; k < n; k++)
		if (strcmp(params[k].name, "ns") == 0)
			return params[k].value;
	return NULL;
}

/* Find the last "/KIND/" of the path and cut the path there; NULL: there is none. */
static char *cut_path_at_kind(char *path, const char *kind)
{
	char *at = NULL, *next = strstr(path, kind);

	for (; next; next = strstr(next + 1, kind))
		at = next;
	if (!at)
		return NULL;
	*at = '\0';
	return at + strlen(kind);
}

/* Parse what the request wants; false: the mirror does not serve such a path. */
static bool parse_target(struct httpd_request *r, struct mirror_target *ret)
{
	char *path = r->head.path, *name;
	const char *host = find_host(r);
	AUTO_FREE char *text = NULL;

	*ret = (struct mirror_target){ .is_manifest = false };
	if (!host || !*host || registry_host_is_store(host) ||
	    httpd_decode(path) < 0 || strncmp(path, "/v2/", 4) != 0)
		return false;
	name = cut_path_at_kind(path, "/blobs/");
	if (!name) {
		name = cut_path_at_kind(path, "/manifests/");
		ret->is_manifest = true;
	}
	if (!name || digest_parse(name, &ret->digest, NULL) < 0)
		return false;
	if (asprintf(&text, "docker://%s/%s@%s", host, path + 4, name) < 0) {
		text = NULL;
		return false;
	}
	return oci_ref_parse(text, &ret->ref, NULL) == 0;
}

/*
 * Refuse HEAD: containerd resolves a name with a digest by HEAD, and would then use a layer as
 * an image without showing the registry a login.
 */
static void mirror_request(void *arg, struct httpd_request *r)
{
	struct mirror *m = arg;
	struct mirror_target t;
	bool is_good = r->head.method == HTTPD_GET && !m->is_ending &&
		       parse_target(r, &t);

	if (!is_good) {
		mirror_refuse(r);
		return;
	}
	if (t.is_manifest) {
		mirror_note(m, t.ref.host, t.ref.repo, &t.digest);
		mirror_refuse(r);
	} else {
		mirror_want(m, t.ref.host, t.ref.repo, &t.digest, r);
	}
	oci_ref_fini(&t.ref);
}

static void mirror_drop(void *arg, struct httpd_request *r)
{
	(void)arg;
	(void)r;
}

static int mirror_error(void *arg, int status, const char *message,
			struct buf *ret)
{
	(void)arg;
	return buf_printf(
		ret, "{\"errors\":[{\"code\":\"%s\",\"message\":\"%s\"}]}\n",
		status == HTTPD_NOT_FOUND ? "BLOB_UNKNOWN" : "DENIED", message);
}

const struct httpd_handler mirror_handler = {
	.head = mirror_head,
	.request = mirror_request,
	.drop = mirror_drop,
	.error_type = "application/json",
	.error = mirror_error,
};
