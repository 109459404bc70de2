// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_OBJECTS_STORE_LEASE_PRIV_H
#define BOOTSEER_OBJECTS_STORE_LEASE_PRIV_H

#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"

#define LEASE_TEXT_MAX 4096
#define LEASE_OWNER_MAX 200

/* The contents of a lease's object. */
struct lease_text {
	char owner[LEASE_OWNER_MAX + 1]; /* "": no holder */
	char nonce[17];                  /* random text of the holder */
	uint64_t generation, beat;
	uint32_t ttl_ms;
};

/* -EBADMSG: not a lease. */
int lease_text_parse(const char *data, size_t len,
		     struct lease_text *ret) MUST_CHECK;

#endif
