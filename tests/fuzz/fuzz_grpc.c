// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes of a client on a connection.  The client's preface is put before them,
 * as no fuzzer would find it.  The first byte decides in what pieces the rest
 * comes, and whether calls are answered at once or never.
 */
#include <stdint.h>
#include <string.h>

#include "net/grpc_conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HELD_MAX 64

static struct grpc_call *held[HELD_MAX];
static size_t n_held;
static bool hold;

static void start(struct grpc_call *c, void *arg)
{
	size_t len;
	const uint8_t *data = grpc_call_request(c, &len);

	if (hold && n_held < HELD_MAX) {
		held[n_held++] = c;
		return;
	}
	if (grpc_call_send(c, data ? data : (const uint8_t *)"", len) == 0)
		grpc_call_finish(c, GRPC_STATUS_OK, NULL);
	else
		grpc_call_finish(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "memory");
}

static void on_wake(void *owner)
{
}

static int64_t zero_clock(void)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				      "\0\0\0\4\0\0\0\0\0";
	static const struct grpc_method methods[] = {
		{ "/a", start },
		{ NULL, NULL },
	};
	const struct grpc_conn_ops ops = { .methods = methods,
					   .wake = on_wake,
					   .clock = zero_clock };
	struct grpc_conn *c = NULL;
	size_t piece, n;

	if (size < 1 || grpc_conn_new(&ops, NULL, &c, NULL) < 0)
		return 0;
	hold = *data & 1;
	piece = (size_t)(*data >> 1) + 1;
	data++;
	size--;
	if (grpc_conn_receive(c, (const uint8_t *)preface, sizeof(preface) - 1,
			      NULL) < 0)
		abort();
	for (; size > 0; data += n, size -= n) {
		AUTO_BUF out = BUF_INIT;

		n = size < piece ? size : piece;
		if (grpc_conn_receive(c, data, n, NULL) < 0 ||
		    grpc_conn_send(c, &out, 65536, NULL) < 0 ||
		    !grpc_conn_is_alive(c))
			break;
	}
	grpc_conn_free(c);
	while (n_held > 0)
		grpc_call_finish(held[--n_held], GRPC_STATUS_OK, NULL);
	return 0;
}
