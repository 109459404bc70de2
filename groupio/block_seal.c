// SPDX-License-Identifier: Apache-2.0
/* Makes and checks names and seals of blocks: docs/formats/blocks.md. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "groupio/blocks_priv.h"

#define NAME_TEXT "bootseer block name"
#define SEAL_TEXT "bootseer block seal"
#define SEAL_MAGIC 0x4b425342u /* "BSBK" */
#define SEAL_VERSION 1u
#define HASH_PREFIX 7u /* "sha256:" */

int block_name(const struct digest *secret, const char *cache, const void *key,
	       size_t len, char ret[BLOCK_NAME_LEN + 1])
{
	AUTO_BUF text = BUF_INIT;
	char hex[DIGEST_STR_MAX];
	struct digest d;
	int rc = buf_append(&text, NAME_TEXT, sizeof(NAME_TEXT));

	if (rc == 0)
		rc = buf_append(&text, cache, strlen(cache) + 1);
	if (rc == 0)
		rc = buf_append(&text, key, len);
	if (rc == 0)
		rc = digest_hmac(secret->b, sizeof(secret->b), text.data,
				 text.len, &d);
	if (rc < 0)
		return rc;
	digest_format(&d, hex);
	memcpy(ret, hex + HASH_PREFIX, BLOCK_NAME_LEN + 1);
	return 0;
}

bool block_name_is_valid(const char *name)
{
	return strlen(name) == BLOCK_NAME_LEN &&
	       strspn(name, "0123456789abcdef") == BLOCK_NAME_LEN;
}

static int seal_code(const struct digest *secret, const char *name,
		     const struct block_seal *s, struct digest *ret)
{
	uint8_t text[sizeof(SEAL_TEXT) + BLOCK_NAME_LEN + 8 + DIGEST_SIZE];
	uint8_t *p = text;

	memcpy(p, SEAL_TEXT, sizeof(SEAL_TEXT));
	p += sizeof(SEAL_TEXT);
	memcpy(p, name, BLOCK_NAME_LEN);
	p += BLOCK_NAME_LEN;
	put_le64(p, s->len);
	memcpy(p + 8, s->sum.b, DIGEST_SIZE);
	return digest_hmac(secret->b, sizeof(secret->b), text, sizeof(text),
			   ret);
}

int block_seal_make(const struct digest *secret, const char *name,
		    const void *data, size_t len, struct block_seal *ret)
{
	int rc = digest_of(data, len, &ret->sum);

	ret->len = len;
	return rc < 0 ? rc : seal_code(secret, name, ret, &ret->code);
}

bool block_seal_is_ours(const struct digest *secret, const char *name,
			const struct block_seal *s)
{
	struct digest d;

	return s->len && s->len <= BLOCK_MAX &&
	       seal_code(secret, name, s, &d) == 0 &&
	       digest_equal(&d, &s->code);
}

void block_seal_encode(const struct block_seal *s, uint8_t ret[BLOCK_SEAL_SIZE])
{
	put_le32(ret, SEAL_MAGIC);
	put_le32(ret + 4, SEAL_VERSION);
	put_le64(ret + 8, s->len);
	memcpy(ret + 16, s->sum.b, DIGEST_SIZE);
	memcpy(ret + 16 + DIGEST_SIZE, s->code.b, DIGEST_SIZE);
}

int block_seal_decode(const uint8_t from[BLOCK_SEAL_SIZE],
		      struct block_seal *ret)
{
	if (get_le32(from) != SEAL_MAGIC || get_le32(from + 4) != SEAL_VERSION)
		return -EBADMSG;
	ret->len = get_le64(from + 8);
	memcpy(ret->sum.b, from + 16, DIGEST_SIZE);
	memcpy(ret->code.b, from + 16 + DIGEST_SIZE, DIGEST_SIZE);
	return 0;
}

void block_seal_format(const struct block_seal *s,
		       char ret[BLOCK_SEAL_TEXT_MAX])
{
	char sum[DIGEST_STR_MAX], code[DIGEST_STR_MAX];

	digest_format(&s->sum, sum);
	digest_format(&s->code, code);
	(void)snprintf(ret, BLOCK_SEAL_TEXT_MAX, "%" PRIu64 " %s %s", s->len,
		       sum, code);
}

int block_seal_parse(const char *text, struct block_seal *ret)
{
	char sum[DIGEST_STR_MAX], code[DIGEST_STR_MAX];
	uint64_t len;
	int end = 0;

	if (sscanf(text, "%10" SCNu64 " %71s %71s%n", &len, sum, code, &end) !=
		    3 ||
	    text[end] || digest_parse(sum, &ret->sum, NULL) < 0 ||
	    digest_parse(code, &ret->code, NULL) < 0)
		return -EBADMSG;
	ret->len = len;
	return 0;
}

uint64_t block_weight(const char *name, uint64_t seed)
{
	uint64_t v;

	/* The name is random already; the rest mixes in the seed, as the end of splitmix64
	 * does. */
	memcpy(&v, name, sizeof(v));
	v = le64toh(v) ^ seed;
	v = (v ^ (v >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	v = (v ^ (v >> 27)) * UINT64_C(0x94d049bb133111eb);
	return v ^ (v >> 31);
}

uint64_t block_member_seed(const char *member)
{
	struct digest d;

	return digest_of(member, strlen(member), &d) < 0 ? 0 : get_le64(d.b);
}
