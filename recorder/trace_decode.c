// SPDX-License-Identifier: Apache-2.0
/*
 * Decodes traces: docs/formats/trace.md. Pure. Input comes from other nodes: each count is
 * checked against the limits and against the bytes present before memory is allocated for it.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zstd.h>

#include "common/bytes.h"
#include "recorder/trace_format.h"
#include "recorder/trace_priv.h"

/* The fixed part of an encoded trace. */
struct head {
	uint32_t n_entries, n_paths, n_blocks;
	uint32_t body, stored; /* bytes */
	uint16_t repo_len, workload_len;
	struct trace_info info; /* without its texts */
};

/* The undecoded rest of a body. After the first error it is empty, and all numbers read
 * later are 0. */
struct trace_reader {
	const uint8_t *p, *end;
	bool bad;
};

static void spoil_reader(struct trace_reader *r)
{
	r->bad = true;
	r->p = r->end;
}

static uint64_t get_varint(struct trace_reader *r)
{
	uint64_t v = 0;

	for (unsigned int shift = 0; shift < 64 && r->p < r->end; shift += 7) {
		uint8_t byte = *r->p++;

		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	spoil_reader(r);
	return 0;
}

static int64_t decode_zigzag(uint64_t v)
{
	return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

static int64_t get_signed(struct trace_reader *r)
{
	return decode_zigzag(get_varint(r));
}

/* Take `n` bytes; NULL if fewer are left. */
static const uint8_t *get_bytes(struct trace_reader *r, size_t n)
{
	const uint8_t *p = r->p;

	if (n > (size_t)(r->end - r->p)) {
		spoil_reader(r);
		return NULL;
	}
	r->p += n;
	return p;
}

/* Returns `v` if it is within 0..max; else marks the body as bad. */
static uint32_t bound_number(struct trace_reader *r, int64_t v, uint32_t max)
{
	if (v >= 0 && v <= (int64_t)max)
		return (uint32_t)v;
	spoil_reader(r);
	return 0;
}

static uint32_t get_bounded(struct trace_reader *r, uint32_t max)
{
	uint64_t v = get_varint(r);

	return bound_number(r, v > max ? -1 : (int64_t)v, max);
}

static int refuse_trace(struct error *err, const char *why)
{
	return error_set(err, EINVAL, "trace: %s", why);
}

static int check_limits(const struct head *h, struct error *err)
{
	if (h->n_entries > TRACE_ENTRIES_MAX || h->body > BODY_MAX)
		return error_set(err, EFBIG,
				 "trace: %" PRIu32 " entries in %" PRIu32
				 " bytes, %u in %u at most",
				 h->n_entries, h->body, TRACE_ENTRIES_MAX,
				 BODY_MAX);
	if (h->n_paths > h->n_entries || h->n_blocks > h->n_entries)
		return refuse_trace(err, "more paths or blocks than entries");
	/* Each count is at most TRACE_ENTRIES_MAX, so this cannot overflow. */
	if (h->n_paths * PATH_MIN + h->n_blocks * BLOCK_MIN +
		    h->n_entries * ENTRY_MIN >
	    h->body)
		return refuse_trace(err,
				    "its body is too short for its counts");
	return 0;
}

static int read_head(const uint8_t *p, size_t len, struct head *h,
		     struct error *err)
{
	uint32_t flags;

	if (len > TRACE_BYTES_MAX)
		return error_set(err, EFBIG,
				 "trace: %zu bytes encoded, %u at most", len,
				 TRACE_BYTES_MAX);
	if (len < HEAD_SIZE || memcmp(p, MAGIC, 8) != 0)
		return refuse_trace(err, "too short, or it is no trace at "
					 "all: 'bootseer image record "
					 "--output' makes one");
	if (get_le32(p + HEAD_VERSION) != VERSION)
		return error_set(err, ENOTSUP,
				 "trace: version %" PRIu32
				 ", this program reads %u",
				 get_le32(p + HEAD_VERSION), VERSION);
	flags = get_le32(p + HEAD_FLAGS);
	if (flags & ~FLAG_TRUNCATED || get_le32(p + HEAD_RESERVED))
		return refuse_trace(err, "reserved bits of the head are set");
	memset(h, 0, sizeof(*h));
	memcpy(h->info.image.b, p + HEAD_IMAGE, DIGEST_SIZE);
	h->info.truncated = flags & FLAG_TRUNCATED;
	h->info.created_at = get_le64(p + HEAD_CREATED);
	h->info.window_ms = get_le32(p + HEAD_WINDOW);
	h->info.ready_ms = get_le32(p + HEAD_READY);
	h->info.runs = get_le32(p + HEAD_RUNS);
	h->n_entries = get_le32(p + HEAD_N_ENTRIES);
	h->n_paths = get_le32(p + HEAD_N_PATHS);
	h->n_blocks = get_le32(p + HEAD_N_BLOCKS);
	h->body = get_le32(p + HEAD_BODY);
	h->stored = get_le32(p + HEAD_STORED);
	h->repo_len = get_le16(p + HEAD_REPO_LEN);
	h->workload_len = get_le16(p + HEAD_WORKLOAD_LEN);
	if (h->repo_len > TRACE_REPO_MAX ||
	    h->workload_len > TRACE_WORKLOAD_MAX ||
	    h->repo_len + h->workload_len > len - HEAD_SIZE)
		return refuse_trace(err, "its texts are too long");
	return check_limits(h, err);
}

/* Read head and texts; `ret` must be released also after a failure. */
static int read_info(const uint8_t *p, size_t len, struct head *h,
		     struct trace_info *ret, struct error *err)
{
	const char *texts = (const char *)p + HEAD_SIZE;
	int rc = read_head(p, len, h, err);

	if (rc < 0)
		return rc;
	if (memchr(texts, '\0', (size_t)h->repo_len + h->workload_len))
		return refuse_trace(err, "a text holds NUL");
	*ret = h->info;
	ret->repo = strndup(texts, h->repo_len);
	ret->workload = strndup(texts + h->repo_len, h->workload_len);
	if (!ret->repo || !ret->workload)
		return error_nomem(err);
	return trace_info_check(ret, err);
}

int trace_decode_info(const void *data, size_t len, struct trace_info *ret,
		      size_t *ret_entries, struct error *err)
{
	struct trace_info info = { .repo = NULL };
	struct head h;
	int rc = read_info(data, len, &h, &info, err);

	if (rc < 0) {
		trace_info_fini(&info);
		return rc;
	}
	*ret = info;
	*ret_entries = h.n_entries;
	return 0;
}

/* Verify the checksum, and unpack the body. */
static int unpack_body(const uint8_t *data, size_t len, const struct head *h,
		       uint8_t **ret, struct error *err)
{
	size_t at = HEAD_SIZE + (size_t)h->repo_len + h->workload_len, n;
	AUTO_FREE uint8_t *body = NULL;
	struct digest sum;

	if (h->stored != len - at)
		return refuse_trace(err,
				    "its length is not what the head says");
	if (trace_checksum(data, len, &sum) < 0)
		return error_nomem(err);
	if (memcmp(sum.b, data + HEAD_SUM, DIGEST_SIZE) != 0)
		return refuse_trace(err, "damaged: the checksum differs");
	/* The body must be a single frame of the present format, not of one before zstd 0.8. */
	if (h->stored < sizeof(uint32_t) ||
	    get_le32(data + at) != ZSTD_MAGICNUMBER ||
	    ZSTD_findFrameCompressedSize(data + at, h->stored) != h->stored ||
	    ZSTD_getFrameContentSize(data + at, h->stored) != h->body)
		return refuse_trace(err,
				    "its body is not of the size in the head");
	body = malloc(h->body ? h->body : 1);
	if (!body)
		return error_nomem(err);
	n = ZSTD_decompress(body, h->body, data + at, h->stored);
	if (ZSTD_isError(n) || n != h->body)
		return refuse_trace(err, "its body does not unpack");
	*ret = steal_ptr(&body);
	return 0;
}

static int fault_at(struct error *err, const char *what, size_t i)
{
	return error_set(err, EINVAL, "trace: %s %zu is damaged", what, i);
}

/* Read the paths, which must be strictly ascending, into memory of the trace, at most `room`
 * bytes in all. */
static int read_paths(struct trace_reader *r, uint32_t n, struct trace *t,
		      const char **paths, size_t room, struct error *err)
{
	const size_t max = room;
	size_t before = 0;
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t same = get_bounded(r, (uint32_t)before);
		uint32_t more = get_bounded(r, TRACE_PATH_MAX - same);
		const uint8_t *bytes = get_bytes(r, more);
		size_t len = (size_t)same + more;
		char *path;

		if (!bytes || r->bad)
			return fault_at(err, "path", i);
		if (len + 1 > room)
			return error_set(err, EFBIG,
					 "trace: more than %zu bytes of paths",
					 max);
		room -= len + 1;
		path = trace_path_room(t, len + 1);
		if (!path)
			return error_nomem(err);
		memcpy(path, i ? paths[i - 1] : "", same);
		memcpy(path + same, bytes, more);
		path[len] = '\0';
		rc = trace_path_check(path, len, err);
		if (rc < 0)
			return error_wrap(err, rc, "path %" PRIu32, i);
		if (i && strcmp(paths[i - 1], path) >= 0)
			return fault_at(err, "path", i);
		paths[i] = path;
		before = len;
	}
	return 0;
}

/* The offset that entry `i` is expected to have: behind the entry before in the same file,
 * else 0. */
static uint64_t expected_off(const struct trace_entry *e, size_t i)
{
	return i && e[i].path == e[i - 1].path ? e[i - 1].off + e[i - 1].len
					       : 0;
}

/* Read the columns of the entries; trace_entry_check() checks the values later. */
static void read_columns(struct trace_reader *r, const struct head *h,
			 const char *const *paths, const uint8_t *digests,
			 const uint32_t *csizes, struct trace_entry *e)
{
	uint32_t v = 0;

	for (uint32_t i = 0; i < h->n_entries; i++) {
		v = bound_number(r, (int64_t)(v + (uint64_t)get_signed(r)),
				 h->n_paths - 1);
		e[i].path = paths[v];
	}
	v = 0;
	for (uint32_t i = 0; i < h->n_entries; i++) {
		v = bound_number(r, (int64_t)(v + (uint64_t)get_signed(r)),
				 h->n_blocks - 1);
		memcpy(e[i].block.b, digests + (size_t)v * DIGEST_SIZE,
		       DIGEST_SIZE);
		e[i].csize = csizes[v];
	}
	/* Offsets depend on the lengths, which come after them. */
	for (uint32_t i = 0; i < h->n_entries; i++)
		e[i].off = (uint64_t)get_signed(r);
	for (uint32_t i = 0; i < h->n_entries; i++)
		e[i].len = get_bounded(r, TRACE_BLOCK_MAX);
	for (uint32_t i = 0; i < h->n_entries; i++)
		e[i].off += expected_off(e, i);
	v = 0;
	for (uint32_t i = 0; i < h->n_entries; i++) {
		v = bound_number(r, (int64_t)(v + (uint64_t)get_signed(r)),
				 UINT32_MAX);
		e[i].at_ms = v;
	}
	v = 0;
	for (uint32_t i = 0; i < h->n_entries; i++) {
		v = bound_number(r, (int64_t)(v + (uint64_t)get_signed(r)),
				 TRACE_CERTAIN);
		e[i].confidence = (uint16_t)v;
	}
}

static int read_body(struct trace_reader *r, const struct head *h,
		     struct trace *t, size_t room, struct error *err)
{
	AUTO_FREE const char **paths = calloc(h->n_paths + 1, sizeof(*paths));
	AUTO_FREE uint32_t *csizes = calloc(h->n_blocks + 1, sizeof(*csizes));
	const uint8_t *digests;
	int rc;

	t->entries = calloc((size_t)h->n_entries + 1, sizeof(t->entries[0]));
	if (!paths || !csizes || !t->entries)
		return error_nomem(err);
	rc = read_paths(r, h->n_paths, t, paths, room, err);
	if (rc < 0)
		return rc;
	digests = get_bytes(r, (size_t)h->n_blocks * DIGEST_SIZE);
	if (h->n_entries && (!h->n_paths || !h->n_blocks || !digests))
		return refuse_trace(err, "entries without paths or blocks");
	for (uint32_t i = 0; i < h->n_blocks; i++)
		csizes[i] = get_bounded(r, TRACE_BLOCK_MAX);
	read_columns(r, h, paths, digests, csizes, t->entries);
	if (r->bad || r->p != r->end)
		return refuse_trace(err, "its body does not hold its counts");
	for (uint32_t i = 0; i < h->n_entries; i++) {
		rc = trace_entry_check(&t->entries[i], err);
		if (rc < 0)
			return error_wrap(err, rc, "entry %" PRIu32, i);
	}
	t->n = h->n_entries;
	return 0;
}

/* Memory left for the paths after all that the head counts. */
static int room_for_paths(const struct head *h, uint64_t memory_max,
			  size_t *ret, struct error *err)
{
	uint64_t counts = h->body +
			  (uint64_t)h->n_entries * sizeof(struct trace_entry) +
			  (uint64_t)h->n_paths * sizeof(char *) +
			  (uint64_t)h->n_blocks * sizeof(uint32_t);

	if (counts > memory_max)
		return error_set(err, EFBIG,
				 "trace: it takes %" PRIu64
				 " bytes of memory or more, %" PRIu64
				 " at most",
				 counts, memory_max);
	*ret = memory_max - counts < TRACE_DECODED_MAX
		       ? (size_t)(memory_max - counts)
		       : TRACE_DECODED_MAX;
	return 0;
}

int trace_decode(const void *data, size_t len, struct trace **ret,
		 struct error *err)
{
	return trace_decode_within(data, len, UINT64_MAX, ret, err);
}

int trace_decode_within(const void *data, size_t len, uint64_t memory_max,
			struct trace **ret, struct error *err)
{
	size_t room = 0;
	AUTO(trace) t = calloc(1, sizeof(*t));
	AUTO_FREE uint8_t *body = NULL;
	struct trace_reader r = { .bad = false };
	struct head h;
	int rc;

	if (!t)
		return error_nomem(err);
	rc = read_info(data, len, &h, &t->info, err);
	if (rc == 0)
		rc = room_for_paths(&h, memory_max, &room, err);
	if (rc == 0)
		rc = unpack_body(data, len, &h, &body, err);
	if (rc < 0)
		return rc;
	r.p = body;
	r.end = body + h.body;
	rc = read_body(&r, &h, t, room, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&t);
	return 0;
}
