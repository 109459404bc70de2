// SPDX-License-Identifier: Apache-2.0
/* Capabilities: docs/formats/capability.md. */
#include "p2p/rights/capability.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "common/sign_key.h"

#define MAGIC "BSCP"
#define VERSION 2
#define HEAD_SIZE 72u
#define SIGNATURE_SIZE SIGN_KEY_SIGNATURE
#define KEY_ID_SIZE 8u /* the first bytes of the key's id */

enum capability_offset {
	AT_MAGIC = 0,
	AT_VERSION = 4,
	AT_NODE_LEN = 6,
	AT_RIGHTS = 8,
	AT_REPO_LEN = 12,
	AT_ZERO = 14,
	AT_KEY_ID = 16,
	AT_NOT_BEFORE = 24,
	AT_NOT_AFTER = 32,
	AT_IMAGE = 40,
	AT_NODE = HEAD_SIZE,
};

struct capability_signer {
	struct sign_key *key;
};

struct capability_keys {
	struct verify_key *v[CAPABILITY_KEYS_MAX];
	size_t n;
};

/* --------------------------------------------------------------------- places --- */

/* "h", "h:5000", "[::1]:5000". */
static bool is_host(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr(".:-_[]", s[i]))
			return false;
	return n > 0;
}

bool capability_is_repo(const char *repo)
{
	size_t n = strnlen(repo, CAPABILITY_REPO_MAX + 1), at;

	at = strcspn(repo, "/");
	if (n > CAPABILITY_REPO_MAX || !is_host(repo, at) || n < at + 2 ||
	    repo[n - 1] == '/' || strstr(repo, "//") || strstr(repo, ".."))
		return false;
	for (size_t i = at + 1; i < n; i++)
		if (!islower((unsigned char)repo[i]) &&
		    !isdigit((unsigned char)repo[i]) &&
		    !strchr("._-/", repo[i]))
			return false;
	return true;
}

static const char registry_scheme[] = "docker://";

static bool is_of_registry(const char *url)
{
	return strncmp(url, registry_scheme, strlen(registry_scheme)) == 0;
}

const char *capability_repo_of(const char *repo)
{
	if (is_of_registry(repo))
		repo += strlen(registry_scheme);
	return capability_is_repo(repo) ? repo : NULL;
}

bool capability_is_store(const char *repo)
{
	size_t n = strnlen(repo, CAPABILITY_REPO_MAX + 1), at = 0;

	if (is_of_registry(repo) && !capability_repo_of(repo))
		return false;
	while (islower((unsigned char)repo[at]) ||
	       isdigit((unsigned char)repo[at]))
		at++;
	if (n > CAPABILITY_REPO_MAX || at == 0 ||
	    strncmp(repo + at, "://", 3) != 0 || n < at + 4 ||
	    repo[n - 1] == '/')
		return false;
	for (; at < n; at++)
		if (repo[at] <= ' ' || repo[at] > '~' ||
		    strchr("?#\"\\", repo[at]))
			return false;
	return true;
}

static bool text_is_repo_or_store(const char *repo)
{
	return capability_is_repo(repo) || capability_is_store(repo);
}

/* -------------------------------------------------------------------- private --- */

int capability_signer_load(const char *path, struct capability_signer **ret,
			   struct error *err)
{
	AUTO(capability_signer) s = calloc(1, sizeof(*s));
	int rc = s ? sign_key_load(path, &s->key, err) : error_nomem(err);

	if (rc == 0)
		*ret = steal_ptr(&s);
	return rc;
}

void capability_signer_free(struct capability_signer *s)
{
	if (!s)
		return;
	sign_key_free(s->key);
	free(s);
}

int capability_signer_public(const struct capability_signer *s, struct buf *ret,
			     struct error *err)
{
	return sign_key_format_public(s->key, ret, err);
}

int capability_sign(const struct capability_signer *s,
		    const struct capability *c, uint8_t ret[CAPABILITY_MAX],
		    size_t *ret_len, struct error *err)
{
	size_t n = strnlen(c->node, sizeof(c->node));
	size_t m = strnlen(c->repo, sizeof(c->repo));
	size_t text = AT_NODE + n + m;
	int rc;

	if (n < 1 || n > CAPABILITY_NODE_MAX || c->not_after <= c->not_before)
		return error_set(err, EINVAL,
				 "capability: no node, or no time");
	if (!text_is_repo_or_store(c->repo))
		return error_set(err, EINVAL, "capability: no repository");
	memset(ret, 0, HEAD_SIZE);
	memcpy(ret + AT_MAGIC, MAGIC, 4);
	put_le16(ret + AT_VERSION, VERSION);
	put_le16(ret + AT_NODE_LEN, (uint16_t)n);
	put_le32(ret + AT_RIGHTS, c->rights);
	put_le16(ret + AT_REPO_LEN, (uint16_t)m);
	memcpy(ret + AT_KEY_ID, sign_key_id(s->key)->b, KEY_ID_SIZE);
	put_le64(ret + AT_NOT_BEFORE, (uint64_t)c->not_before);
	put_le64(ret + AT_NOT_AFTER, (uint64_t)c->not_after);
	memcpy(ret + AT_IMAGE, c->image.b, DIGEST_SIZE);
	memcpy(ret + AT_NODE, c->node, n);
	memcpy(ret + AT_NODE + n, c->repo, m);
	rc = sign_key_sign(s->key, ret, text, ret + text, err);
	if (rc < 0)
		return error_wrap(err, rc, "capability");
	*ret_len = text + SIGNATURE_SIZE;
	return 0;
}

/* --------------------------------------------------------------------- public --- */

/* The bytes of the first key in `pem`, with what stands before it. */
static size_t find_first_key_length(const char *pem, size_t len)
{
	static const char end[] = "-----END PUBLIC KEY-----";
	const char *at = memmem(pem, len, end, strlen(end));

	return at ? (size_t)(at - pem) + strlen(end) : len;
}

int capability_keys_parse(const char *pem, size_t len,
			  struct capability_keys **ret, struct error *err)
{
	AUTO(capability_keys) k = calloc(1, sizeof(*k));

	if (!k)
		return error_nomem(err);
	if (len > SIGN_KEY_FILE_MAX)
		return error_set(err, EFBIG, "public keys: too long");
	do {
		size_t n = find_first_key_length(pem, len);
		int rc;

		if (k->n == CAPABILITY_KEYS_MAX)
			return error_set(err, E2BIG, "more than %u public keys",
					 CAPABILITY_KEYS_MAX);
		rc = verify_key_parse(pem, n, &k->v[k->n], err);
		if (rc < 0)
			return rc;
		if (verify_key_kind(k->v[k->n++]) != VERIFY_KEY_ED25519)
			return error_set(err, EINVAL, "it is no Ed25519 key");
		pem += n;
		len -= n;
	} while (memmem(pem, len, "-----BEGIN ", 11));
	*ret = steal_ptr(&k);
	return 0;
}

int capability_keys_load(const char *path, struct capability_keys **ret,
			 struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_read_file(path, SIGN_KEY_FILE_MAX, &text, err);

	if (rc == 0)
		rc = capability_keys_parse(text.data ? text.data : "", text.len,
					   ret, err);
	return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}

void capability_keys_free(struct capability_keys *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->n; i++)
		verify_key_free(k->v[i]);
	free(k);
}

/* ------------------------------------------------------------------- checking --- */

int capability_decode(const void *data, size_t len, struct capability *ret,
		      struct error *err)
{
	const uint8_t *p = data;
	size_t n, m;

	if (len == 0)
		return error_set(err, EBADMSG,
				 "it showed no capability: its --p2p-rights "
				 "names no keys, or it was given none (its "
				 "log says why)");
	if (len < HEAD_SIZE || memcmp(p, MAGIC, 4) != 0)
		return error_set(err, EBADMSG, "it is no capability");
	if (get_le16(p + AT_VERSION) != VERSION)
		return error_set(
			err, EBADMSG,
			"capability of version %u, wanted is %u: upgrade %s",
			get_le16(p + AT_VERSION), VERSION,
			get_le16(p + AT_VERSION) < VERSION
				? "the bootseer-registry that signs"
				: "bootseerd of this node");
	n = get_le16(p + AT_NODE_LEN);
	m = get_le16(p + AT_REPO_LEN);
	if (n < 1 || n > CAPABILITY_NODE_MAX || m > CAPABILITY_REPO_MAX ||
	    len != HEAD_SIZE + n + m + SIGNATURE_SIZE ||
	    get_le16(p + AT_ZERO) != 0 || memchr(p + AT_NODE, 0, n + m))
		return error_set(err, EBADMSG, "capability: bad length");
	*ret = (struct capability){
		.not_before = (int64_t)get_le64(p + AT_NOT_BEFORE),
		.not_after = (int64_t)get_le64(p + AT_NOT_AFTER),
		.rights = get_le32(p + AT_RIGHTS),
	};
	memcpy(ret->image.b, p + AT_IMAGE, DIGEST_SIZE);
	memcpy(ret->node, p + AT_NODE, n);
	memcpy(ret->repo, p + AT_NODE + n, m);
	if (!text_is_repo_or_store(ret->repo))
		return error_set(err, EBADMSG, "capability: of no repository");
	return 0;
}

static const struct verify_key *find_key(const struct capability_keys *k,
					 const uint8_t id[KEY_ID_SIZE])
{
	for (size_t i = 0; i < k->n; i++)
		if (memcmp(verify_key_id(k->v[i])->b, id, KEY_ID_SIZE) == 0)
			return k->v[i];
	return NULL;
}

int capability_check(const struct capability_keys *k, const void *data,
		     size_t len, const struct digest *image, const char *repo,
		     const char *node, int64_t now_s, struct capability *ret,
		     struct error *err)
{
	const uint8_t *p = data;
	const struct verify_key *key;
	struct capability c;
	int rc = capability_decode(data, len, &c, err);

	if (rc < 0)
		return rc;
	key = find_key(k, p + AT_KEY_ID);
	if (!key)
		return error_set(err, EACCES,
				 "capability: signed by a key that "
				 "the keys of --p2p-rights are without");
	len -= SIGNATURE_SIZE;
	rc = verify_key_check(key, p, len, p + len, SIGNATURE_SIZE, err);
	if (rc < 0)
		return error_wrap(err, rc, "capability");
	if (!digest_equal(&c.image, image))
		return error_set(err, EACCES, "capability: of another image");
	if (strcmp(c.repo, repo) != 0)
		return error_set(err, EACCES,
				 "capability: of the image in repository "
				 "'%.100s', not in '%.100s'",
				 c.repo, repo);
	if (strcmp(c.node, node) != 0)
		return error_set(err, EACCES, "capability: of node '%s'",
				 c.node);
	if (!(c.rights & CAPABILITY_PULL))
		return error_set(err, EACCES, "capability: not to pull");
	if (now_s < c.not_before)
		return error_set(err, EACCES,
				 "capability: not yet, by %" PRId64 " s",
				 c.not_before - now_s);
	if (now_s >= c.not_after)
		return error_set(err, EACCES,
				 "capability: over since %" PRId64 " s",
				 now_s - c.not_after);
	*ret = c;
	return 0;
}
