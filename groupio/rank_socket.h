// SPDX-License-Identifier: Apache-2.0
/* Connections of ranks and other programs of this node.  Any thread. */
#ifndef BOOTSEER_GROUPIO_RANK_SOCKET_H
#define BOOTSEER_GROUPIO_RANK_SOCKET_H

#include <stddef.h>

#include "common/error.h"

/* Receive so many bytes, and in *fd a descriptor that comes with them, in place of one before.
 *   -EPROTO  the connection ended before, or more descriptors came than one */
int rank_receive(int sock, void *data, size_t len, int *fd,
		 struct error *err) MUST_CHECK;

#endif
