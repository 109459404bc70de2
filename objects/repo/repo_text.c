// SPDX-License-Identifier: Apache-2.0
#include "objects/repo/repo_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "objects/oci.h"

#define WHOLE "o."  /* tags that have the whole name */
#define HASHED "h." /* those of the beginning of the name, and its SHA-256 */
#define KIND_LEN 2
#define HEAD_LEN 60 /* of an encoded name that is in a hashed tag */

#define OBJECT_TYPE "application/vnd.bootseer.object.v1"
#define NAME_KEY "dev.bootseer.object.name"
#define TIME_KEY "dev.bootseer.object.modified-ms"
#define PUT_KEY "dev.bootseer.object.put"
#define TIME_DIGITS 16

/* ------------------------------------------------------------------- names --- */

static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
}

int repo_name_encode(const char *name, struct buf *ret)
{
	int rc = 0;

	for (; rc == 0 && *name; name++) {
		if (*name == '/')
			rc = buf_puts(ret, "__");
		else if (is_plain(*name))
			rc = buf_append(ret, name, 1);
		else
			rc = buf_printf(ret, "_%02x", (unsigned char)*name);
	}
	return rc < 0 ? -ENOMEM : 0;
}

/* The byte of two lower-case hex digits; -1: they are none. */
static int hex_byte(const char *digits)
{
	static const char hex[] = "0123456789abcdef";
	int ret = 0;

	for (int i = 0; i < 2; i++) {
		const char *at = digits[i] ? strchr(hex, digits[i]) : NULL;

		if (!at)
			return -1;
		ret = ret * 16 + (int)(at - hex);
	}
	return ret;
}

int repo_name_decode(const char *text, struct buf *ret)
{
	while (*text) {
		char c = *text;
		size_t n = 1;

		if (c == '_' && text[1] == '_') {
			c = '/';
			n = 2;
		} else if (c == '_') {
			int byte = hex_byte(text + 1);

			c = (char)byte;
			if (byte <= 0 || is_plain(c) || c == '/')
				return -EINVAL;
			n = 3;
		} else if (!is_plain(c)) {
			return -EINVAL;
		}
		if (buf_append(ret, &c, 1) < 0)
			return -ENOMEM;
		text += n;
	}
	return 0;
}

int repo_tag(const char *name, char ret[REPO_TAG_MAX], struct error *err)
{
	char text[DIGEST_STR_MAX];
	AUTO_BUF encoded = BUF_INIT;
	struct digest d;
	int rc = repo_name_encode(name, &encoded);

	if (rc < 0)
		return error_nomem(err);
	if (KIND_LEN + encoded.len < REPO_TAG_MAX) {
		(void)snprintf(ret, REPO_TAG_MAX, WHOLE "%s", encoded.data);
		return 0;
	}
	rc = digest_of(name, strlen(name), &d);
	if (rc < 0)
		return error_set(err, -rc, "hash a name");
	digest_format(&d, text);
	(void)snprintf(ret, REPO_TAG_MAX, HASHED "%.*s.%s", HEAD_LEN,
		       encoded.data, strchr(text, ':') + 1);
	return 0;
}

bool repo_tag_is_in(const char *tag, const char *encoded, char **ret_name)
{
	const char *text = tag + KIND_LEN;
	size_t len = strlen(encoded);
	AUTO_BUF name = BUF_INIT;

	*ret_name = NULL;
	if (strncmp(tag, HASHED, KIND_LEN) == 0)
		return strncmp(text, encoded,
			       len < HEAD_LEN ? len : HEAD_LEN) == 0;
	if (strncmp(tag, WHOLE, KIND_LEN) != 0 ||
	    strncmp(text, encoded, len) != 0 ||
	    repo_name_decode(text, &name) < 0 || name.len == 0)
		return false;
	*ret_name = buf_steal(&name);
	return *ret_name != NULL;
}

/* --------------------------------------------------------------- manifests --- */

/* Digest of the two bytes "{}", the config of every object's manifest (image-spec 1.1). */
static int repo_empty_digest(struct digest *ret, struct error *err)
{
	int rc = digest_of("{}", 2, ret);

	return rc < 0 ? error_set(err, -rc, "hash the empty config") : 0;
}

int repo_manifest_format(const struct repo_manifest *m, const char *put,
			 struct buf *ret, struct error *err)
{
	char empty[DIGEST_STR_MAX], blob[DIGEST_STR_MAX];
	AUTO_BUF name = BUF_INIT;
	struct digest d;
	int rc = repo_empty_digest(&d, err);

	if (rc < 0)
		return rc;
	digest_format(&d, empty);
	digest_format(m->size ? &m->blob : &d, blob);
	if (repo_name_encode(m->name, &name) < 0 ||
	    buf_printf(
		    ret,
		    "{\"schemaVersion\":2,\"mediaType\":\"%s\","
		    "\"artifactType\":\"%s\",\"config\":{\"mediaType\":\"%s\","
		    "\"digest\":\"%s\",\"size\":2},\"layers\":["
		    "{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%" PRIu64
		    "}],\"annotations\":{\"%s\":\"%s\",\"%s\":\"%" PRId64
		    "\",\"%s\":\"%s\"}}",
		    REPO_MANIFEST_TYPE, OBJECT_TYPE, REPO_EMPTY_TYPE, empty,
		    m->size ? "application/octet-stream" : REPO_EMPTY_TYPE,
		    blob, m->size ? m->size : 2, NAME_KEY, name.data, TIME_KEY,
		    m->modified_ms, PUT_KEY, put) < 0)
		return error_nomem(err);
	return 0;
}

static int parse_time(const char *text, int64_t *ret)
{
	size_t n = text ? strspn(text, "0123456789") : 0;

	if (n == 0 || n > TIME_DIGITS || text[n])
		return -EPROTO;
	*ret = strtoll(text, NULL, 10);
	return 0;
}

static int parse_name(const char *text, char ret[OBJECT_NAME_MAX + 1])
{
	AUTO_BUF name = BUF_INIT;
	int rc = text ? repo_name_decode(text, &name) : -EINVAL;

	if (rc == -ENOMEM)
		return rc;
	if (rc < 0 || name.len == 0 || name.len > OBJECT_NAME_MAX)
		return -EPROTO;
	memcpy(ret, name.data, name.len + 1);
	return 0;
}

static int take_fields(const struct oci_image *image, struct repo_manifest *ret)
{
	const struct oci_descriptor *layer = image->layers;
	AUTO_FREE char *name = oci_annotation(image->annotations, NAME_KEY);
	AUTO_FREE char *time = oci_annotation(image->annotations, TIME_KEY);
	bool is_empty;
	int rc;

	if (strcmp(image->artifact_type, OBJECT_TYPE) != 0 ||
	    image->n_layers != 1)
		return -EPROTO;
	is_empty = strcmp(layer->media_type, REPO_EMPTY_TYPE) == 0;
	if (!is_empty && layer->size == 0)
		return -EPROTO;
	ret->blob = layer->digest;
	ret->size = is_empty ? 0 : layer->size;
	rc = parse_time(time, &ret->modified_ms);
	return rc < 0 ? rc : parse_name(name, ret->name);
}

int repo_manifest_parse(const void *json, size_t len, struct repo_manifest *ret,
			struct error *err)
{
	struct oci_image image = { .n_layers = 0 };
	struct repo_manifest m = { .size = 0 };
	int rc = len > REPO_MANIFEST_MAX
			 ? -EPROTO
			 : oci_image_parse(json, len, &image, NULL);

	if (rc == 0)
		rc = take_fields(&image, &m);
	oci_image_fini(&image);
	if (rc == -ENOMEM)
		return error_nomem(err);
	if (rc < 0)
		return error_set(err, EPROTO, "it is not one of an object");
	*ret = m;
	return 0;
}
