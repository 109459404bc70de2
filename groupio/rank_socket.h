// SPDX-License-Identifier: Apache-2.0
/* Receives from ranks and other programs of this node. Any thread. */
#ifndef BOOTSEER_GROUPIO_RANK_SOCKET_H
#define BOOTSEER_GROUPIO_RANK_SOCKET_H

#include <stddef.h>

#include "common/error.h"

/* Receive `len` bytes, and put a descriptor that comes with them into *fd, closing the one
 * there. //   -EPROTO  the connection ended early, or more than one descriptor came */
int rank_receive(int sock, void *data, size_t len, int *fd,
		 struct error *err) MUST_CHECK;

#endif
