// SPDX-License-Identifier: Apache-2.0
/*
 * Signatures that cosign made with a key (its SIGNATURE_SPEC.md): a JSON payload, "simple
 * signing", and a signature of its bytes.  No transparency log is asked.  No I/O in here.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "common/bytes.h"
#include "common/bounded_json.h"
#include "snapshotter/trust/trust_priv.h"

#define MAGIC "BSCS"
#define VERSION 1
#define HEAD_SIZE 12u
#define TYPE "cosign container image signature"

enum cosign_offset {
	AT_MAGIC = 0,
	AT_VERSION = 4,
	AT_SIGNATURE_LEN = 6,
	AT_PAYLOAD_LEN = 8,
};

int trust_wrap_cosign(const void *payload, size_t payload_len,
		      const void *signature, size_t signature_len,
		      struct buf *ret, struct error *err)
{
	uint8_t head[HEAD_SIZE] = { 0 };

	if (payload_len > TRUST_SIGNATURE_MAX ||
	    signature_len > TRUST_SIGNATURE_MAX ||
	    payload_len + signature_len + HEAD_SIZE > TRUST_SIGNATURE_MAX)
		return error_set(err, EFBIG, "a signature of %zu bytes",
				 payload_len + signature_len);
	memcpy(head + AT_MAGIC, MAGIC, 4);
	put_le16(head + AT_VERSION, VERSION);
	put_le16(head + AT_SIGNATURE_LEN, (uint16_t)signature_len);
	put_le32(head + AT_PAYLOAD_LEN, (uint32_t)payload_len);
	if (buf_append(ret, head, sizeof(head)) < 0 ||
	    buf_append(ret, signature, signature_len) < 0 ||
	    buf_append(ret, payload, payload_len) < 0)
		return error_nomem(err);
	return 0;
}

bool trust_is_cosign(const void *data, size_t len)
{
	return len >= HEAD_SIZE && memcmp(data, MAGIC, 4) == 0;
}

struct cosign_parts {
	const uint8_t *signature, *payload;
	size_t signature_len, payload_len;
};

static int split_layer(const uint8_t *p, size_t len, struct cosign_parts *ret,
		       struct error *err)
{
	ret->signature_len = get_le16(p + AT_SIGNATURE_LEN);
	ret->payload_len = get_le32(p + AT_PAYLOAD_LEN);
	if (get_le16(p + AT_VERSION) != VERSION ||
	    ret->payload_len > TRUST_SIGNATURE_MAX ||
	    len != HEAD_SIZE + ret->signature_len + ret->payload_len)
		return error_set(err, EBADMSG,
				 "signature of cosign: bad length");
	ret->signature = p + HEAD_SIZE;
	ret->payload = ret->signature + ret->signature_len;
	return 0;
}

/* Find the key that made the signature by trying each: the signature does not name it. */
static const struct trust_key *find_key(const struct trust_keys *keys,
					const struct cosign_parts *c)
{
	for (size_t i = 0; i < keys->n; i++)
		if (verify_key_check(keys->v[i].key, c->payload, c->payload_len,
				     c->signature, c->signature_len, NULL) == 0)
			return &keys->v[i];
	return NULL;
}

/* The text member `key`, or member `inner` of the object `key`; NULL: there is none. */
static const char *text_at(const json_t *o, const char *key, const char *inner)
{
	const json_t *v = json_object_get(o, key);

	return json_string_value(inner ? json_object_get(v, inner) : v);
}

/* Check the payload's member `critical`, after the signature was found good. */
static int check_critical(const json_t *critical, const struct trust_query *q,
			  struct error *err)
{
	char repository[TRUST_PATTERN_MAX + 1];
	const char *type, *image, *reference;
	struct digest d;

	type = text_at(critical, "type", NULL);
	image = text_at(critical, "image", "docker-manifest-digest");
	reference = text_at(critical, "identity", "docker-reference");
	if (!type || strcmp(type, TYPE) != 0)
		return error_set(err, EKEYREJECTED,
				 "what cosign signed is no image");
	if (!image || digest_parse(image, &d, NULL) < 0 ||
	    !digest_equal(&d, q->artifact))
		return error_set(err, EKEYREJECTED,
				 "the signature of cosign is of another "
				 "artifact, '%.72s'",
				 image ? image : "");
	if (!reference || !trust_normalise(reference, repository) ||
	    strcmp(repository, q->repository) != 0)
		return error_set(err, EKEYREJECTED,
				 "the signature of cosign is for repository "
				 "'%.80s', not '%.80s'",
				 reference ? reference : "", q->repository);
	if (q->claim != TRUST_CLAIM_SIGNED)
		return error_set(err, EPERM,
				 "cosign signed it, which does not say that it "
				 "was compared with the image's layers: "
				 "'bootseer image verify' does");
	return 0;
}

int cosign_check(const struct trust_keys *keys, const struct trust_query *q,
		 const void *data, size_t len, int64_t now_s,
		 const struct trust_revoked *revoked, struct trust_result *ret,
		 struct error *err)
{
	const struct trust_key *k;
	struct cosign_parts c = { .signature = NULL };
	json_t *root;
	int rc = split_layer(data, len, &c, err);

	if (rc < 0)
		return rc;
	k = find_key(keys, &c);
	if (!k)
		return error_set(err, ENOKEY,
				 "cosign signed it with a key that is not of "
				 "the trusted keys");
	rc = trust_key_check(k, TRUST_CLAIM_SIGNED, now_s, revoked, err);
	if (rc < 0)
		return rc;
	rc = bounded_json_load(c.payload, c.payload_len, "what cosign signed",
			       &root, err);
	if (rc < 0)
		return rc;
	rc = check_critical(json_object_get(root, "critical"), q, err);
	json_decref(root);
	if (rc < 0)
		return rc;
	*ret = (struct trust_result){
		.claim = TRUST_CLAIM_SIGNED,
		.key = *verify_key_id(k->key),
		.is_cosign = true,
		.not_after_s = k->not_after_s,
	};
	memcpy(ret->key_name, k->name, sizeof(ret->key_name));
	return 0;
}
