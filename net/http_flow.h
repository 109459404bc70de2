// SPDX-License-Identifier: Apache-2.0
/*
 * Sets the receive window of a connection so that bulk leaves room for other traffic; http.c
 * reports what arrives. Only the receiver can do this, as a registry does not know which of its
 * answers are urgent.
 */
#ifndef BOOTSEER_NET_HTTP_FLOW_H
#define BOOTSEER_NET_HTTP_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/pace.h"

/* Flow control of a connection; one thread at a time. */
struct http_flow {
	int fd; /* -1: none yet */
	/* bytes allowed in flight while it does not give way */
	uint32_t window;
	uint32_t clamp;   /* value given to the kernel; 0: none yet */
	bool is_long;     /* long route: the kernel sets the window */
	int64_t since_ns; /* begin of the measurement; 0: not measuring */
	uint64_t bytes;   /* arrived since then */
};

#define HTTP_FLOW_INIT \
	{ \
		.fd = -1 \
	}

/* Use this socket as the connection. */
void http_flow_use(struct http_flow *f, int fd);

/* The next bytes will come after a pause: restart the measurement then. */
void http_flow_pause(struct http_flow *f);

/* Note that `n` more bytes were taken from the connection. Blocks while it must give way. */
void http_flow_took(struct http_flow *f, size_t n, struct pace *pace);

/* Bytes to allow in flight, when `bytes` arrived in `ns` nanoseconds and a round
 * trip takes `rtt_us` microseconds; pure. */
uint32_t http_flow_window(uint64_t bytes, int64_t ns, uint32_t rtt_us);

#endif
