// SPDX-License-Identifier: Apache-2.0
/* A sealed file is MAGIC, nonce, tag, ciphertext; each write uses a new random nonce. */
#include "common/seal.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "common/fs.h"

#define MAGIC "BSSEAL01"
#define MAGIC_SIZE 8u
#define NONCE_SIZE 12u
#define TAG_SIZE 16u
#define HEAD_SIZE (MAGIC_SIZE + NONCE_SIZE + TAG_SIZE)
#define SEALED_MAX (64u << 20)

static int make_random(void *out, size_t len, struct error *err)
{
	return getrandom(out, len, 0) == (ssize_t)len
		       ? 0
		       : error_set(err, EIO, "getrandom: %s", strerror(errno));
}

int seal_key_load(const char *path, struct seal_key *ret, struct error *err)
{
	AUTO_BUF text = BUF_SECRET_INIT;
	struct seal_key key;
	int rc = fs_check_private(path, err);

	if (rc == 0)
		rc = fs_read_file(path, SEAL_KEY_SIZE, &text, err);
	if (rc == 0 && text.len != SEAL_KEY_SIZE)
		rc = -EFBIG;
	if (rc == -EFBIG)
		return error_set(err, EINVAL,
				 "'%s' is no key of %d bytes: remove it, and a "
				 "new one is made",
				 path, SEAL_KEY_SIZE);
	if (rc == 0)
		memcpy(ret->b, text.data, SEAL_KEY_SIZE);
	if (rc != -ENOENT)
		return rc;
	rc = make_random(key.b, sizeof(key.b), err);
	if (rc == 0)
		rc = fs_replace_file(path, key.b, sizeof(key.b), 0600, err);
	if (rc == 0)
		*ret = key;
	return rc;
}

/* AES-GCM over `len` bytes of `in`: encryption makes the tag, decryption compares it. */
static int run_cipher(const struct seal_key *key, const uint8_t *nonce,
		      uint8_t *tag, bool encrypts, const uint8_t *in,
		      uint8_t *out, size_t len)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int n = 0;
	bool ok = c && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key->b,
					 nonce, encrypts) == 1;

	if (ok && !encrypts)
		ok = EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_SIZE,
					 tag) == 1;
	ok = ok && EVP_CipherUpdate(c, out, &n, in, (int)len) == 1 &&
	     EVP_CipherFinal_ex(c, out + n, &n) == 1;
	if (ok && encrypts)
		ok = EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_SIZE,
					 tag) == 1;
	EVP_CIPHER_CTX_free(c);
	return ok ? 0 : -EBADMSG;
}

int seal_write_file(const struct seal_key *key, const char *path,
		    const void *data, size_t len, struct error *err)
{
	AUTO_FREE uint8_t *file = NULL;
	int rc;

	if (len > SEALED_MAX)
		return error_set(err, EFBIG, "'%s': %zu bytes", path, len);
	file = malloc(HEAD_SIZE + len + 1);
	if (!file)
		return error_nomem(err);
	memcpy(file, MAGIC, MAGIC_SIZE);
	rc = make_random(file + MAGIC_SIZE, NONCE_SIZE, err);
	if (rc < 0)
		return rc;
	if (run_cipher(key, file + MAGIC_SIZE, file + MAGIC_SIZE + NONCE_SIZE,
		       true, data, file + HEAD_SIZE, len) < 0)
		return error_set(err, EIO, "'%s': cannot encrypt", path);
	return fs_replace_file(path, file, HEAD_SIZE + len, 0600, err);
}

int seal_read_file(const struct seal_key *key, const char *path, size_t max,
		   struct buf *ret, struct error *err)
{
	AUTO_BUF file = BUF_INIT;
	uint8_t *head;
	size_t len;
	int rc = fs_read_file(path, HEAD_SIZE + max, &file, err);

	if (rc < 0)
		return rc;
	if (file.len < HEAD_SIZE || memcmp(file.data, MAGIC, MAGIC_SIZE) != 0)
		return error_set(err, EBADMSG, "'%s' is no sealed file", path);
	head = (uint8_t *)file.data;
	len = file.len - HEAD_SIZE;
	if (buf_reserve(ret, len + 1) < 0)
		return error_nomem(err);
	if (run_cipher(key, head + MAGIC_SIZE, head + MAGIC_SIZE + NONCE_SIZE,
		       false, head + HEAD_SIZE, (uint8_t *)ret->data + ret->len,
		       len) < 0) {
		explicit_bzero(ret->data + ret->len, len);
		return error_set(err, EBADMSG,
				 "'%s' was sealed with another key, or was "
				 "changed",
				 path);
	}
	ret->len += len;
	ret->data[ret->len] = '\0';
	return 0;
}
