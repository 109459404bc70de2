// SPDX-License-Identifier: Apache-2.0
/* References in skopeo's notation (containers-transports(5)). */
#include "objects/oci.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define REF_MAX 4096
#define TAG_MAX 128  /* distribution-spec 1.1, Pulling manifests */
#define REPO_MAX 255 /* with the host, as other tools have it */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* [a-zA-Z0-9_][a-zA-Z0-9._-]{0,127} */
static bool tag_is_valid(const char *tag)
{
	size_t len = strlen(tag);

	if (len == 0 || len > TAG_MAX || !is_word(tag[0]))
		return false;
	for (; *tag; tag++)
		if (!is_word(*tag) && *tag != '.' && *tag != '-')
			return false;
	return true;
}

static bool is_alnum_lower(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Components of lower-case letters and digits, joined by . _ __ or dashes. */
static bool repo_is_valid(const char *repo)
{
	size_t len = strlen(repo);

	if (len == 0 || len > REPO_MAX || !is_alnum_lower(repo[0]) ||
	    !is_alnum_lower(repo[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (is_alnum_lower(repo[i]) || repo[i] == '-')
			continue;
		if (!strchr("._/", repo[i]))
			return false;
		if (repo[i] == '_' && repo[i + 1] == '_')
			i++;
		if (!is_alnum_lower(repo[i + 1]))
			return false;
	}
	return true;
}

static bool host_is_valid(const char *host)
{
	const char *colon = strrchr(host, ':');

	if (!*host || colon == host)
		return false;
	for (const char *c = host; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr(".-:[]", *c))
			return false;
	if (!colon || strchr(colon, ']'))
		return true;
	return colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

static int refuse_text(const char *text, const char *why, struct error *err)
{
	return error_set(err, EINVAL, "'%.100s' is not an image reference: %s",
			 text, why);
}

#define KINDS \
	"[docker://]HOST[:PORT]/REPOSITORY[:TAG], oci:DIR[:TAG] or " \
	"docker-archive:FILE"
#define TAG_WANTED \
	"the tag is not valid: want at most 128 letters, digits, '_', '.' and " \
	"'-', and none of the last two first"

/* Refuse the forms that people write who think of a web page, or of a file. */
static int check_form(const char *rest, const char *text, struct error *err)
{
	if (strncmp(rest, "http://", 7) == 0)
		return refuse_text(
			text,
			"leave out http://; a registry without TLS is "
			"allowed by --plain-http, and by plain-http in "
			"bootseerd.conf",
			err);
	if (strncmp(rest, "https://", 8) == 0)
		return refuse_text(text, "leave out https://", err);
	if (*rest == '/' || *rest == '.')
		return refuse_text(text,
				   "of a folder it is oci:DIR[:TAG], of a file "
				   "docker-archive:FILE",
				   err);
	return 0;
}

/* Cut "@sha256:..." off `rest`. */
static int cut_digest(char *rest, const char *text, struct oci_ref *r,
		      struct error *err)
{
	char *at = strrchr(rest, '@');
	int rc;

	if (!at)
		return 0;
	rc = digest_parse(at + 1, &r->digest, err);
	if (rc < 0)
		return error_wrap(err, rc, "reference '%.200s'", text);
	r->has_digest = true;
	*at = '\0';
	return 0;
}

static int parse_registry(char *rest, const char *text, struct oci_ref *r,
			  struct error *err)
{
	char *slash, *colon;
	int rc = check_form(rest, text, err);

	if (rc == 0)
		rc = cut_digest(rest, text, r, err);
	if (rc < 0)
		return rc;
	slash = strchr(rest, '/');
	if (!slash)
		return refuse_text(text,
				   "want HOST[:PORT]/REPOSITORY[:TAG], as in "
				   "docker.io/library/busybox:1",
				   err);
	colon = strrchr(slash, ':');
	if (colon) {
		*colon = '\0';
		if (!tag_is_valid(colon + 1))
			return refuse_text(text, TAG_WANTED, err);
		r->tag = strdup(colon + 1);
	} else if (!r->has_digest) {
		r->tag = strdup("latest");
	}
	*slash = '\0';
	if (!host_is_valid(rest))
		return refuse_text(text, "the host is not valid: want " KINDS,
				   err);
	if (!repo_is_valid(slash + 1))
		return refuse_text(text,
				   "the repository is not valid: want lower-"
				   "case letters, digits and separators",
				   err);
	r->host = strdup(rest);
	r->repo = strdup(slash + 1);
	if (!r->host || !r->repo || (colon && !r->tag))
		return error_nomem(err);
	return 0;
}

/* oci:DIR[:TAG]; a tag holds no slash, so a colon in a folder's name is safe
 * unless it is in the last component. */
static int parse_layout(char *rest, const char *text, struct oci_ref *r,
			struct error *err)
{
	char *colon;
	int rc = cut_digest(rest, text, r, err);

	if (rc < 0)
		return rc;
	colon = strrchr(rest, ':');
	if (colon && !strchr(colon, '/')) {
		*colon = '\0';
		if (!tag_is_valid(colon + 1))
			return refuse_text(text, TAG_WANTED, err);
		r->tag = strdup(colon + 1);
		if (!r->tag)
			return error_nomem(err);
	}
	if (!*rest)
		return refuse_text(text, "want oci:DIR[:TAG]", err);
	r->repo = strdup(rest);
	return r->repo ? 0 : error_nomem(err);
}

/* docker-archive:FILE[:REPOSITORY:TAG] */
static int parse_archive(char *rest, const char *text, struct oci_ref *r,
			 struct error *err)
{
	char *colon = strchr(rest, ':');

	if (colon) {
		*colon = '\0';
		r->tag = strdup(colon + 1);
		if (!r->tag)
			return error_nomem(err);
	}
	if (!*rest)
		return refuse_text(text, "want docker-archive:FILE", err);
	r->repo = strdup(rest);
	return r->repo ? 0 : error_nomem(err);
}

static const struct transport {
	const char *prefix;
	enum oci_transport kind;
	int (*parse)(char *rest, const char *text, struct oci_ref *r,
		     struct error *err);
} transports[] = {
	{ "docker://", OCI_TRANSPORT_REGISTRY, parse_registry },
	{ "oci:", OCI_TRANSPORT_LAYOUT, parse_layout },
	{ "docker-archive:", OCI_TRANSPORT_ARCHIVE, parse_archive },
	{ "", OCI_TRANSPORT_REGISTRY, parse_registry },
};

int oci_ref_parse(const char *text, struct oci_ref *ret, struct error *err)
{
	const struct transport *t = transports;
	struct oci_ref r = { .host = NULL };
	AUTO_FREE char *rest = NULL;
	int rc;

	if (strnlen(text, REF_MAX) == REF_MAX)
		return refuse_text(text, "it is too long", err);
	while (strncmp(text, t->prefix, strlen(t->prefix)) != 0)
		t++;
	rest = strdup(text + strlen(t->prefix));
	if (!rest)
		return error_nomem(err);
	r.transport = t->kind;
	rc = t->parse(rest, text, &r, err);
	if (rc < 0) {
		oci_ref_fini(&r);
		return rc;
	}
	*ret = r;
	return 0;
}

void oci_ref_fini(struct oci_ref *r)
{
	free(r->host);
	free(r->repo);
	free(r->tag);
	*r = (struct oci_ref){ .host = NULL };
}

char *oci_ref_format(const struct oci_ref *r)
{
	const char *prefix = transports[r->transport].prefix;
	AUTO_BUF b = BUF_INIT;
	char digest[DIGEST_STR_MAX];

	if (buf_printf(&b, "%s%s%s%s", prefix, r->host ? r->host : "",
		       r->host ? "/" : "", r->repo) < 0)
		return NULL;
	if (r->tag && buf_printf(&b, ":%s", r->tag) < 0)
		return NULL;
	digest_format(&r->digest, digest);
	if (r->has_digest && buf_printf(&b, "@%s", digest) < 0)
		return NULL;
	return buf_steal(&b);
}
