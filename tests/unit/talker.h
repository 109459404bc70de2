// SPDX-License-Identifier: Apache-2.0
/* A client that makes TLS's messages itself, and sends them when it likes. */
#ifndef BOOTSEER_TESTS_UNIT_TALKER_H
#define BOOTSEER_TESTS_UNIT_TALKER_H

#include <openssl/ssl.h>
#include <stdbool.h>

struct talker {
	SSL_CTX *ctx;
	SSL *ssl;
	BIO *in, *out;
	int fd;
};

/* Connect to where `listening` does; what the other side does not read stays with
 * us.  `cert` and `key` may be NULL. */
void talker_call(struct talker *t, int listening, const char *cert,
		 const char *key);
/* As much as the kernel takes of what waits; how much that was. */
size_t talker_send(struct talker *t);
/* One step of the handshake: is it done? */
bool talker_shakes_hands(struct talker *t);
/* New keys so many times; not sent yet. */
void talker_change_keys(struct talker *t, int times);
void talker_end(struct talker *t);

#endif
