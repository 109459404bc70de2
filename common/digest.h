// SPDX-License-Identifier: Apache-2.0
/* SHA-256 digests: the names of all content. */
#ifndef BOOTSEER_COMMON_DIGEST_H
#define BOOTSEER_COMMON_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

#define DIGEST_SIZE 32
#define DIGEST_STR_MAX 72 /* "sha256:" + 64 hex digits + NUL */

struct digest {
	uint8_t b[DIGEST_SIZE];
};

bool digest_equal(const struct digest *a, const struct digest *b);

/* An order of digests, for qsort() and bsearch(). */
int compare_digests(const void *a, const void *b);

/* Write "sha256:<64 lower-case hex digits>" and a NUL. */
void digest_format(const struct digest *d, char out[DIGEST_STR_MAX]);

/* Parse exactly the form that digest_format() writes (OCI image-spec, descriptor.md, Digests).
 * The message of -EINVAL has the text. */
int digest_parse(const char *text, struct digest *ret,
		 struct error *err) MUST_CHECK;

/* SHA-256 of `len` bytes.  Any thread. */
int digest_of(const void *data, size_t len, struct digest *ret) MUST_CHECK;

/* HMAC-SHA-256 (RFC 2104) of `len` bytes.  Any thread. */
int digest_hmac(const void *key, size_t key_len, const void *data, size_t len,
		struct digest *ret) MUST_CHECK;

/* Incremental hashing; one thread at a time per object. */
struct hasher;

struct hasher *hasher_new(void) MUST_CHECK; /* NULL when memory is short */
int hasher_update(struct hasher *h, const void *data, size_t len) MUST_CHECK;
/* Hash an open file in reads of `piece` bytes: with `step` 0 the whole file, else only the piece
 * at each multiple of `step`.  Returns the read's -errno. */
int hasher_update_file(struct hasher *h, int fd, size_t piece,
		       uint64_t step) MUST_CHECK;
/* The digest of all bytes hashed so far; the hasher then starts afresh. */
int hasher_final(struct hasher *h, struct digest *ret) MUST_CHECK;
void hasher_free(struct hasher *h);
DEFINE_AUTO(hasher)

#endif
