// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_GROUPIO_READ_SESSION_H
#define BOOTSEER_GROUPIO_READ_SESSION_H

#include <stdint.h>
#include <sys/socket.h>

#include "common/error.h"

struct saves;

/* With saves.lock. */
struct rank_readers {
	unsigned int n;    /* clients that have a file open */
	uint64_t n_failed; /* reads since the log told of some */
	int64_t told_ns;   /* when it did; 0: never */
};

/* Serve what a rank reads of a file, until the rank ends the connection. */
int reads_serve(struct saves *s, int sock, const char *path,
		const struct ucred *who, struct error *err) MUST_CHECK;

#endif
