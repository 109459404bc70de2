// SPDX-License-Identifier: Apache-2.0
/* Encrypted files for secrets: AES-256-GCM, with a key in another file. */
#ifndef BOOTSEER_COMMON_SEAL_H
#define BOOTSEER_COMMON_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define SEAL_KEY_SIZE 32

struct seal_key {
	uint8_t b[SEAL_KEY_SIZE];
};

/*
 * Read the key file, or create it with a new key (mode 600, durable).  Its folder has to exist.
 * -EPERM: users other than its owner may read it; -EINVAL: it holds no key.
 */
int seal_key_load(const char *path, struct seal_key *ret,
		  struct error *err) MUST_CHECK;

/* Replace the file `path` by the encrypted text: all or nothing, durable, mode 600. */
int seal_write_file(const struct seal_key *key, const char *path,
		    const void *data, size_t len, struct error *err) MUST_CHECK;

/* Append the decrypted text of a file.  -EBADMSG: another key was used, or the file was changed;
 * -ENOENT. */
int seal_read_file(const struct seal_key *key, const char *path, size_t max,
		   struct buf *ret, struct error *err) MUST_CHECK;

#endif
