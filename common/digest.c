// SPDX-License-Identifier: Apache-2.0
/* SHA-256 through OpenSSL's EVP, which uses the CPU's SHA instructions. */
#include "common/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <string.h>

static const char prefix[] = "sha256:";
#define PREFIX_LEN (sizeof(prefix) - 1)

struct hasher {
	EVP_MD_CTX *ctx;
	EVP_MD *md; /* fetched once: OpenSSL's implicit fetch takes longer
	             * than hashing 4 KiB */
};

bool digest_equal(const struct digest *a, const struct digest *b)
{
	return memcmp(a->b, b->b, DIGEST_SIZE) == 0;
}

int compare_digests(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct digest));
}

void digest_format(const struct digest *d, char out[DIGEST_STR_MAX])
{
	static const char hex[] = "0123456789abcdef";
	char *p = out + PREFIX_LEN;

	memcpy(out, prefix, PREFIX_LEN);
	for (size_t i = 0; i < DIGEST_SIZE; i++) {
		*p++ = hex[d->b[i] >> 4];
		*p++ = hex[d->b[i] & 15];
	}
	*p = '\0';
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int digest_parse(const char *text, struct digest *ret, struct error *err)
{
	struct digest d;
	const char *p = text + PREFIX_LEN;

	if (strncmp(text, prefix, PREFIX_LEN) != 0 ||
	    strnlen(text, DIGEST_STR_MAX) != DIGEST_STR_MAX - 1)
		return error_set(err, EINVAL,
				 "'%.80s' is not a digest: want sha256: and "
				 "64 lower-case hex digits",
				 text);
	for (size_t i = 0; i < DIGEST_SIZE; i++, p += 2) {
		int hi = hex_value(p[0]), lo = hex_value(p[1]);

		if (hi < 0 || lo < 0)
			return error_set(err, EINVAL,
					 "'%.80s' is not a digest: want "
					 "lower-case hex digits",
					 text);
		d.b[i] = (uint8_t)(hi << 4 | lo);
	}
	*ret = d;
	return 0;
}

struct hasher *hasher_new(void)
{
	AUTO(hasher) h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->md = EVP_MD_fetch(NULL, "SHA256", NULL);
	h->ctx = EVP_MD_CTX_new();
	if (!h->md || !h->ctx || EVP_DigestInit_ex(h->ctx, h->md, NULL) != 1)
		return NULL;
	return steal_ptr(&h);
}

int hasher_update(struct hasher *h, const void *data, size_t len)
{
	return EVP_DigestUpdate(h->ctx, data, len) == 1 ? 0 : -EIO;
}

int hasher_update_file(struct hasher *h, int fd, size_t piece, uint64_t step)
{
	AUTO_FREE char *data = malloc(piece);
	uint64_t off = 0;
	int rc = data ? 0 : -ENOMEM;

	while (rc == 0) {
		ssize_t n = pread(fd, data, piece, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		rc = hasher_update(h, data, (size_t)n);
		off += step ? step : (uint64_t)n;
	}
	return rc;
}

int hasher_final(struct hasher *h, struct digest *ret)
{
	if (EVP_DigestFinal_ex(h->ctx, ret->b, NULL) != 1 ||
	    EVP_DigestInit_ex(h->ctx, h->md, NULL) != 1)
		return -EIO;
	return 0;
}

void hasher_free(struct hasher *h)
{
	if (!h)
		return;
	EVP_MD_CTX_free(h->ctx);
	EVP_MD_free(h->md);
	free(h);
}

static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static int thread_rc;

static void thread_hasher_free(void *p)
{
	hasher_free(p);
}

static void thread_init(void)
{
	thread_rc = pthread_key_create(&thread_key, thread_hasher_free);
}

/* This thread's hasher, freed when the thread ends; NULL when memory is short.  Kept, as making a
 * new context costs as much as hashing a small block. */
static struct hasher *thread_hasher(void)
{
	AUTO(hasher) h = NULL;
	struct hasher *have;

	(void)pthread_once(&thread_once, thread_init);
	if (thread_rc)
		return NULL;
	have = pthread_getspecific(thread_key);
	if (have)
		return have;
	h = hasher_new();
	if (!h || pthread_setspecific(thread_key, h))
		return NULL;
	return steal_ptr(&h);
}

int digest_of(const void *data, size_t len, struct digest *ret)
{
	struct hasher *h = thread_hasher();
	int rc;

	if (!h)
		return -ENOMEM;
	rc = hasher_update(h, data, len);
	return rc < 0 ? rc : hasher_final(h, ret);
}

int digest_hmac(const void *key, size_t key_len, const void *data, size_t len,
		struct digest *ret)
{
	unsigned int n = 0;

	if (!HMAC(EVP_sha256(), key, (int)key_len, data, len, ret->b, &n))
		return -ENOMEM;
	return n == DIGEST_SIZE ? 0 : -EIO;
}
