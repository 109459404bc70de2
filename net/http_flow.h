// SPDX-License-Identifier: Apache-2.0
/*
 * The receive window of a connection, set so that bulk leaves room for others:
 * of http.c, which says what arrives.  Only a receiver can do this: a registry
 * does not know which of its answers are urgent.
 */
#ifndef BOOTSEER_NET_HTTP_FLOW_H
#define BOOTSEER_NET_HTTP_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/pace.h"

/* Flow control of a connection; one thread at a time. */
struct http_flow {
	int fd;           /* -1: none yet */
	uint32_t window;  /* bytes allowed in flight when not waiting */
	uint32_t clamp;   /* bytes told to the kernel; 0: nothing yet */
	bool is_long;     /* leave the window to the kernel */
	int64_t since_ns; /* measuring since; 0: not yet */
	uint64_t bytes;   /* arrived since then */
};

#define HTTP_FLOW_INIT \
	{ \
		.fd = -1 \
	}

/* The connection is this socket. */
void http_flow_use(struct http_flow *f, int fd);

/* The next bytes do not follow at once: measure anew when they come. */
void http_flow_pause(struct http_flow *f);

/* `n` more bytes were taken from it.  Gives way when it must: blocks. */
void http_flow_took(struct http_flow *f, size_t n, struct pace *pace);

/* Bytes to allow in flight, when `bytes` arrived in `ns` nanoseconds and a round
 * trip takes `rtt_us` microseconds; pure. */
uint32_t http_flow_window(uint64_t bytes, int64_t ns, uint32_t rtt_us);

#endif
