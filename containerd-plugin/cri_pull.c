// SPDX-License-Identifier: Apache-2.0
/*
 * Fields by their numbers in the CRI's api.proto, v1:
 *
 *	PullImageRequest  1 image (1: its name)  2 auth  3 sandbox_config
 *	AuthConfig        1 username  2 password  3 auth  4 server_address
 *	                  5 identity_token  6 registry_token
 *	PodSandboxConfig  1 metadata (3: namespace)
 */
#include "containerd-plugin/cri_pull.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "common/base64.h"
#include "common/buf.h"
#include "common/registry_host.h"

/* A value of a message; `data` is NULL where there is none. */
struct wire_bytes {
	const uint8_t *data;
	size_t len;
};

static int take_varint(struct wire_bytes *in, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 64 && in->len > 0; shift += 7) {
		uint8_t byte = *in->data++;

		in->len--;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		*ret = value;
		return 0;
	}
	return -EINVAL;
}

static int skip_bytes(struct wire_bytes *in, uint64_t n)
{
	if (n > in->len)
		return -EINVAL;
	in->data += n;
	in->len -= (size_t)n;
	return 0;
}

/* Take the next field: its number, and its value if that is bytes. */
static int take_field(struct wire_bytes *in, uint64_t *ret_number,
		      struct wire_bytes *ret)
{
	uint64_t tag, n = 0;
	int rc = take_varint(in, &tag);

	*ret = (struct wire_bytes){ .data = NULL };
	*ret_number = tag >> 3;
	if (rc < 0)
		return rc;
	switch (tag & 7) {
	case 0:
		return take_varint(in, &n);
	case 1:
		return skip_bytes(in, 8);
	case 2:
		rc = take_varint(in, &n);
		ret->data = in->data;
		ret->len = (size_t)n;
		return rc < 0 ? rc : skip_bytes(in, n);
	case 5:
		return skip_bytes(in, 4);
	default:
		return -EINVAL;
	}
}

/* Find the last field with this number: in protobuf the last one counts. */
static int find_field(struct wire_bytes in, uint64_t number,
		      struct wire_bytes *ret)
{
	struct wire_bytes value;
	uint64_t n;
	int rc;

	*ret = (struct wire_bytes){ .data = NULL };
	while (in.len > 0) {
		rc = take_field(&in, &n, &value);
		if (rc < 0)
			return rc;
		if (n == number && value.data)
			*ret = value;
	}
	return 0;
}

/* Find a text, which the caller frees; NULL when it is absent or empty. */
static int find_text(struct wire_bytes in, uint64_t number, char **ret,
		     struct error *err)
{
	struct wire_bytes value;

	*ret = NULL;
	if (find_field(in, number, &value) < 0 ||
	    (value.data && memchr(value.data, '\0', value.len)))
		return error_set(err, EINVAL,
				 "the request is no message of the CRI");
	if (value.len == 0)
		return 0;
	*ret = strndup((const char *)value.data, value.len);
	return *ret ? 0 : error_nomem(err);
}

/* --------------------------------------------------------------------- login --- */

/* Is the login for the image's host? containerd sends it to no other registry. */
static bool is_for_host(const char *server, const char *image)
{
	const char *scheme = strstr(server, "://");
	size_t host = strcspn(image, "/"), len;

	/* containerd parses the server as a URL, in which there is no host without a scheme. */
	if (!scheme)
		return false;
	server = scheme + 3;
	len = strcspn(server, "/?#");
	return len == host && strncmp(server, image, host) == 0;
}

/* Split "auth", the base64 form of user:password. */
static int split_auth(const char *auth, struct cri_pull *p, struct error *err)
{
	AUTO_BUF plain = BUF_SECRET_INIT;
	char *colon;
	int rc = 0;

	if (base64_decode(auth, strlen(auth), &plain) < 0 || !plain.data)
		return error_set(err, EINVAL, "its auth is not base 64");
	colon = strchr(plain.data, ':');
	if (!colon) {
		rc = error_set(err, EINVAL, "its auth is not user:password");
	} else {
		p->user = strndup(plain.data, (size_t)(colon - plain.data));
		p->password = strdup(colon + 1);
		rc = p->user && p->password ? 0 : error_nomem(err);
	}
	return rc;
}

static void free_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

/* Choose the login among the message's fields, in containerd's order. */
static int parse_login(struct wire_bytes auth, struct cri_pull *p,
		       struct error *err)
{
	char *server = NULL, *both = NULL;
	int rc = find_text(auth, 4, &server, err);

	if (rc == 0 && (!server || is_for_host(server, p->image))) {
		rc = find_text(auth, 1, &p->user, err);
		if (rc == 0 && p->user)
			rc = find_text(auth, 2, &p->password, err);
		if (rc == 0 && !p->user)
			rc = find_text(auth, 5, &p->identity_token, err);
		if (rc == 0 && !p->user && !p->identity_token)
			rc = find_text(auth, 3, &both, err);
		if (rc == 0 && both)
			rc = split_auth(both, p, err);
		if (rc == 0 && p->user && !p->password) {
			p->password = strdup("");
			rc = p->password ? 0 : error_nomem(err);
		}
	}
	free(server);
	free_secret(both);
	return rc;
}

/* ------------------------------------------------------------------- together --- */

static int parse_pull(struct wire_bytes in, struct cri_pull *p,
		      struct error *err)
{
	struct wire_bytes image, auth, sandbox, metadata;
	AUTO_FREE char *name = NULL;
	int rc;

	if (find_field(in, 1, &image) < 0 || find_field(in, 2, &auth) < 0 ||
	    find_field(in, 3, &sandbox) < 0 ||
	    find_field(sandbox, 1, &metadata) < 0)
		return error_set(err, EINVAL,
				 "the request is no message of the CRI");
	rc = find_text(image, 1, &name, err);
	if (rc == 0 && !name)
		rc = error_set(err, EINVAL, "the request names no image");
	if (rc == 0)
		rc = registry_name_complete(name, &p->image, err);
	if (rc == 0)
		rc = find_text(metadata, 3, &p->namespace_, err);
	if (rc == 0 && !p->namespace_) {
		p->namespace_ = strdup("");
		rc = p->namespace_ ? 0 : error_nomem(err);
	}
	return rc < 0 ? rc : parse_login(auth, p, err);
}

int cri_pull_parse(const void *message, size_t len, struct cri_pull *ret,
		   struct error *err)
{
	struct cri_pull p = { .image = NULL };
	int rc = parse_pull((struct wire_bytes){ .data = message, .len = len },
			    &p, err);

	if (rc < 0)
		cri_pull_fini(&p);
	else
		*ret = p;
	return rc;
}

void cri_pull_fini(struct cri_pull *p)
{
	free(p->image);
	free(p->namespace_);
	free_secret(p->user);
	free_secret(p->password);
	free_secret(p->identity_token);
	*p = (struct cri_pull){ .image = NULL };
}

bool cri_pull_has_login(const struct cri_pull *p)
{
	return p->user || p->identity_token;
}
