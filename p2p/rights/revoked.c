// SPDX-License-Identifier: Apache-2.0
/* An open-addressed set of SHA-256(image, node): every entry takes 32 bytes. */
#include "p2p/rights/revoked.h"

#include <errno.h>
#include <string.h>

#include "common/bytes.h"

#define NODE_MAX 255u

struct revoked {
	size_t n, n_max;
	size_t n_slots; /* a power of two, at least twice n_max */
	struct digest slots[];
};

/* A free slot; also stands for "every image". */
static const struct digest none;

int revoked_new(size_t n, struct revoked **ret, struct error *err)
{
	size_t n_slots = 2;
	struct revoked *r;

	if (n > REVOKED_MAX)
		return error_set(err, E2BIG, "%zu revocations, %u at most", n,
				 REVOKED_MAX);
	while (n_slots < 2 * n)
		n_slots *= 2;
	r = calloc(1, sizeof(*r) + n_slots * sizeof(r->slots[0]));
	if (!r)
		return error_nomem(err);
	r->n_max = n;
	r->n_slots = n_slots;
	*ret = r;
	return 0;
}

void revoked_free(struct revoked *r)
{
	free(r);
}

size_t revoked_count(const struct revoked *r)
{
	return r ? r->n : 0;
}

static int key_of(const struct digest *image, const char *node,
		  struct digest *ret)
{
	uint8_t text[DIGEST_SIZE + NODE_MAX];
	size_t len = strnlen(node, NODE_MAX);

	memcpy(text, image->b, DIGEST_SIZE);
	memcpy(text + DIGEST_SIZE, node, len);
	return digest_of(text, DIGEST_SIZE + len, ret);
}

/* Slot where `key` is, or would be inserted. */
static size_t find_slot_of_key(const struct revoked *r,
			       const struct digest *key)
{
	size_t at = get_le64(key->b) & (r->n_slots - 1);

	while (!digest_equal(&r->slots[at], &none) &&
	       !digest_equal(&r->slots[at], key))
		at = (at + 1) & (r->n_slots - 1);
	return at;
}

int revoked_add(struct revoked *r, const struct digest *image, const char *node,
		struct error *err)
{
	struct digest key;
	size_t at;

	if (!image && !*node)
		return error_set(err, EINVAL,
				 "a revocation of neither image nor node");
	if (strlen(node) > NODE_MAX)
		return error_set(err, EINVAL, "a revocation of a long name");
	if (key_of(image ? image : &none, node, &key) < 0)
		return error_nomem(err);
	at = find_slot_of_key(r, &key);
	if (digest_equal(&r->slots[at], &key))
		return 0;
	if (r->n == r->n_max)
		return error_set(err, ENOSPC, "more than %zu revocations",
				 r->n_max);
	r->slots[at] = key;
	r->n++;
	return 0;
}

static bool revoked_has_key(const struct revoked *r, const struct digest *image,
			    const char *node)
{
	struct digest key;

	/* Without memory for the hash, assume it is revoked. */
	return key_of(image, node, &key) < 0 ||
	       digest_equal(&r->slots[find_slot_of_key(r, &key)], &key);
}

bool revoked_has(const struct revoked *r, const struct digest *image,
		 const char *node)
{
	return revoked_count(r) > 0 && (revoked_has_key(r, image, node) ||
					revoked_has_key(r, image, "") ||
					revoked_has_key(r, &none, node));
}
