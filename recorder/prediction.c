// SPDX-License-Identifier: Apache-2.0
/*
 * Encodes and decodes predictions (docs/formats/trace.md): a head of 16 bytes, a number of 64
 * bits for each entry, and a trace of these entries. Input is untrusted.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/bytes.h"
#include "recorder/trace_priv.h"

#define MAGIC "BSEERPRD"
#define VERSION 1u

enum head {
	HEAD_MAGIC = 0,
	HEAD_VERSION = 8,
	HEAD_ENTRIES = 12,
	HEAD_SIZE = 16,
};

int prediction_encode(const struct trace *t, struct buf *ret, struct error *err)
{
	uint8_t head[HEAD_SIZE], number[sizeof(uint64_t)];
	AUTO_BUF trace = BUF_INIT;
	int rc = trace_encode(t, &trace, err);

	if (rc < 0)
		return rc;
	memcpy(head, MAGIC, HEAD_VERSION);
	put_le32(head + HEAD_VERSION, VERSION);
	put_le32(head + HEAD_ENTRIES, (uint32_t)t->n);
	rc = buf_append(ret, head, sizeof(head));
	for (size_t i = 0; i < t->n && rc == 0; i++) {
		put_le64(number, t->readers[i]);
		rc = buf_append(ret, number, sizeof(number));
	}
	if (rc == 0)
		rc = buf_append(ret, trace.data, trace.len);
	return rc < 0 ? error_nomem(err) : 0;
}

static int check_head(const uint8_t *p, size_t len, size_t *ret_n,
		      struct error *err)
{
	if (len < HEAD_SIZE || memcmp(p, MAGIC, HEAD_VERSION) != 0)
		return error_set(err, EINVAL, "prediction: it is none");
	if (get_le32(p + HEAD_VERSION) != VERSION)
		return error_set(err, ENOTSUP,
				 "prediction: version %" PRIu32
				 ", this program knows %u",
				 get_le32(p + HEAD_VERSION), VERSION);
	*ret_n = get_le32(p + HEAD_ENTRIES);
	if (*ret_n < 1 || *ret_n > PREDICTION_ENTRIES_MAX)
		return error_set(err, EINVAL,
				 "prediction: %zu entries, want 1 to %u",
				 *ret_n, PREDICTION_ENTRIES_MAX);
	if ((len - HEAD_SIZE) / sizeof(uint64_t) < *ret_n)
		return error_set(err, EINVAL, "prediction: it is cut off");
	return 0;
}

int prediction_decode(const void *data, size_t len, struct trace **ret,
		      struct error *err)
{
	const uint8_t *p = data;
	AUTO(trace) t = NULL;
	size_t n = 0, at;
	int rc = check_head(p, len, &n, err);

	if (rc < 0)
		return rc;
	at = HEAD_SIZE + n * sizeof(uint64_t);
	rc = trace_decode(p + at, len - at, &t, err);
	if (rc < 0)
		return error_wrap(err, rc, "prediction");
	if (t->n != n)
		return error_set(err, EINVAL,
				 "prediction: its trace has %zu entries, its "
				 "head says %zu",
				 t->n, n);
	t->readers = calloc(n, sizeof(*t->readers));
	if (!t->readers)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		t->readers[i] = get_le64(p + HEAD_SIZE + i * sizeof(uint64_t));
		if (!t->readers[i])
			return error_set(err, EINVAL,
					 "prediction: nobody read entry %zu",
					 i);
	}
	*ret = steal_ptr(&t);
	return 0;
}
