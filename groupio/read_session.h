// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_GROUPIO_READ_SESSION_H
#define BOOTSEER_GROUPIO_READ_SESSION_H

#include <sys/socket.h>

#include "common/error.h"

struct saves;

/* Serve what a rank reads of a file, until the rank ends the connection. */
int reads_serve(struct saves *s, int sock, const char *path,
		const struct ucred *who, struct error *err) MUST_CHECK;

#endif
