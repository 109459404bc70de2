// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_GROUPIO_READ_SESSION_H
#define BOOTSEER_GROUPIO_READ_SESSION_H

#include <stdint.h>
#include <sys/socket.h>

#include "common/error.h"

struct saves;

/* Counts of reading ranks; with saves.lock. */
struct rank_readers {
	unsigned int n;    /* clients that have a file open */
	uint64_t n_failed; /* failed reads since the last line in the log */
	int64_t told_ns;   /* time of that line; 0: never */
};

/* Serve a rank's reads of one file until it closes the connection. */
int reads_serve(struct saves *s, int sock, const char *path,
		const struct ucred *who, struct error *err) MUST_CHECK;

#endif
