// SPDX-License-Identifier: Apache-2.0
/*
 * The small parts of gRPC over HTTP/2, without I/O: status codes, the prefix of
 * a message, grpc-timeout, grpc-message.  docs/formats/grpc.md.
 */
#ifndef BOOTSEER_NET_GRPC_WIRE_H
#define BOOTSEER_NET_GRPC_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

enum grpc_status {
	GRPC_STATUS_OK = 0,
	GRPC_STATUS_CANCELLED = 1,
	GRPC_STATUS_UNKNOWN = 2,
	GRPC_STATUS_INVALID_ARGUMENT = 3,
	GRPC_STATUS_DEADLINE_EXCEEDED = 4,
	GRPC_STATUS_NOT_FOUND = 5,
	GRPC_STATUS_ALREADY_EXISTS = 6,
	GRPC_STATUS_PERMISSION_DENIED = 7,
	GRPC_STATUS_RESOURCE_EXHAUSTED = 8,
	GRPC_STATUS_FAILED_PRECONDITION = 9,
	GRPC_STATUS_ABORTED = 10,
	GRPC_STATUS_UNIMPLEMENTED = 12,
	GRPC_STATUS_INTERNAL = 13,
	GRPC_STATUS_UNAVAILABLE = 14,
};

/* The status that reports a failure with this positive errno to the client. */
enum grpc_status grpc_status_of_errno(int code);

#define GRPC_PREFIX_SIZE 5

/* Put the prefix of an uncompressed message of `len` bytes into `out`. */
void grpc_prefix_write(uint8_t out[GRPC_PREFIX_SIZE], uint32_t len);

/*
 * The one message of a request, collected from pieces of any size.
 */
struct grpc_message {
	struct buf body;
	uint8_t prefix[GRPC_PREFIX_SIZE];
	size_t n_prefix;
	uint32_t len; /* of the body, once the prefix is complete */
};

void grpc_message_fini(struct grpc_message *m);

/*
 * Take the next bytes.  -ENOSYS: compressed; -EMSGSIZE: longer than `max`;
 * -EINVAL: more than one message; -ENOMEM.
 */
int grpc_message_feed(struct grpc_message *m, const uint8_t *data, size_t len,
		      size_t max, struct error *err) MUST_CHECK;

/* -EINVAL unless the message is whole. */
int grpc_message_check_end(const struct grpc_message *m,
			   struct error *err) MUST_CHECK;

/* Parse a timeout such as "120994m" into nanoseconds, at most 100 years. -EINVAL. */
int grpc_timeout_parse(const char *text, size_t len,
		       int64_t *ret_ns) MUST_CHECK;

/* Append the text; bytes that a header cannot hold are percent-encoded. */
int grpc_percent_encode(const char *text, struct buf *ret) MUST_CHECK;

#endif
