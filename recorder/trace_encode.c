// SPDX-License-Identifier: Apache-2.0
/* Encodes traces: docs/formats/trace.md. Pure. */
#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "common/bytes.h"
#include "recorder/trace_format.h"

#define ZSTD_LEVEL 9

int trace_checksum(const uint8_t *data, size_t len, struct digest *ret)
{
	AUTO(hasher) h = hasher_new();
	int rc;

	if (!h)
		return -ENOMEM;
	rc = hasher_update(h, data, HEAD_SUM);
	if (rc == 0)
		rc = hasher_update(h, data + HEAD_SIZE, len - HEAD_SIZE);
	return rc < 0 ? rc : hasher_final(h, ret);
}

static uint64_t encode_zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static int put_varint(struct buf *b, uint64_t v)
{
	uint8_t out[10];
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		out[n++] = (uint8_t)(v | 0x80);
	out[n++] = (uint8_t)v;
	return buf_append(b, out, n);
}

static int put_signed(struct buf *b, int64_t v)
{
	return put_varint(b, encode_zigzag(v));
}

/* Numbers given to paths and blocks, and the first entry with each number. */
struct tables {
	uint32_t *path, *block;             /* for each entry */
	uint32_t *path_entry, *block_entry; /* for each number */
	uint32_t n_paths, n_blocks;
};

static void tables_fini(struct tables *k)
{
	free(k->path);
	free(k->block);
	free(k->path_entry);
	free(k->block_entry);
}

static int compare_entry_paths(const struct trace_entry *a,
			       const struct trace_entry *b)
{
	return a->path == b->path ? 0 : strcmp(a->path, b->path);
}

static int compare_entry_blocks(const struct trace_entry *a,
				const struct trace_entry *b)
{
	int c = memcmp(a->block.b, b->block.b, DIGEST_SIZE);

	return c ? c : (a->csize > b->csize) - (a->csize < b->csize);
}

struct encode_order {
	const struct trace_entry *entries;
	int (*compare)(const struct trace_entry *a,
		       const struct trace_entry *b);
};

static int compare_indexes(const void *a, const void *b, void *arg)
{
	const struct encode_order *o = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int c = o->compare(&o->entries[x], &o->entries[y]);

	return c ? c : (x > y) - (x < y);
}

/* Number the entries so that those which `o` compares as equal get the same number; `first`
 * gets the first entry of each number. */
static uint32_t number_entries(struct encode_order *o, uint32_t n,
			       uint32_t *sorted, uint32_t *by_entry,
			       uint32_t *first)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		sorted[i] = i;
	qsort_r(sorted, n, sizeof(sorted[0]), compare_indexes, o);
	for (uint32_t i = 0; i < n; i++) {
		if (i == 0 || o->compare(&o->entries[sorted[i - 1]],
					 &o->entries[sorted[i]]) != 0)
			first[count++] = sorted[i];
		by_entry[sorted[i]] = count - 1;
	}
	return count;
}

/* Renumber in the order of first use, in which an entry's block is mostly the one before or
 * the next. */
static void number_by_use(uint32_t n, uint32_t *new_of, uint32_t *by_entry,
			  uint32_t *first)
{
	uint32_t count = 0;

	memset(new_of, 0xff, n * sizeof(new_of[0]));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t *to = &new_of[by_entry[i]];

		if (*to == UINT32_MAX) {
			*to = count;
			first[count++] = i;
		}
		by_entry[i] = *to;
	}
}

static int tables_make(const struct trace *t, struct tables *k)
{
	AUTO_FREE uint32_t *scratch = calloc(t->n + 1, sizeof(*scratch));
	struct encode_order o = { t->entries, compare_entry_paths };
	uint32_t n = (uint32_t)t->n;

	k->path = calloc(t->n + 1, sizeof(uint32_t));
	k->block = calloc(t->n + 1, sizeof(uint32_t));
	k->path_entry = calloc(t->n + 1, sizeof(uint32_t));
	k->block_entry = calloc(t->n + 1, sizeof(uint32_t));
	if (!scratch || !k->path || !k->block || !k->path_entry ||
	    !k->block_entry)
		return -ENOMEM;
	k->n_paths = number_entries(&o, n, scratch, k->path, k->path_entry);
	o.compare = compare_entry_blocks;
	k->n_blocks = number_entries(&o, n, scratch, k->block, k->block_entry);
	number_by_use(n, scratch, k->block, k->block_entry);
	return 0;
}

static int put_paths(struct buf *b, const struct trace *t,
		     const struct tables *k)
{
	const char *before = "";
	int rc = 0;

	for (uint32_t i = 0; i < k->n_paths && rc == 0; i++) {
		const char *path = t->entries[k->path_entry[i]].path;
		size_t same = 0, more;

		while (before[same] && before[same] == path[same])
			same++;
		more = strlen(path + same);
		rc = put_varint(b, same);
		if (rc == 0)
			rc = put_varint(b, more);
		if (rc == 0)
			rc = buf_append(b, path + same, more);
		before = path;
	}
	return rc;
}

static int put_blocks(struct buf *b, const struct trace *t,
		      const struct tables *k)
{
	int rc = 0;

	for (uint32_t i = 0; i < k->n_blocks && rc == 0; i++)
		rc = buf_append(b, t->entries[k->block_entry[i]].block.b,
				DIGEST_SIZE);
	for (uint32_t i = 0; i < k->n_blocks && rc == 0; i++)
		rc = put_varint(b, t->entries[k->block_entry[i]].csize);
	return rc;
}

/* Write the entries column by column, since similar numbers side by side compress best. */
static int put_entries(struct buf *b, const struct trace *t,
		       const struct tables *k)
{
	const struct trace_entry *e = t->entries;
	size_t n = t->n;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = put_signed(b,
				(int64_t)k->path[i] - (i ? k->path[i - 1] : 0));
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = put_signed(b, (int64_t)k->block[i] -
					   (i ? k->block[i - 1] : 0));
	for (size_t i = 0; i < n && rc == 0; i++) {
		bool on = i && k->path[i] == k->path[i - 1];

		rc = put_signed(b, (int64_t)(e[i].off -
					     (on ? e[i - 1].off + e[i - 1].len
						 : 0)));
	}
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = put_varint(b, e[i].len);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = put_signed(b,
				(int64_t)e[i].at_ms - (i ? e[i - 1].at_ms : 0));
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = put_signed(b, (int64_t)e[i].confidence -
					   (i ? e[i - 1].confidence : 0));
	return rc;
}

static int make_body(const struct trace *t, struct tables *k, struct buf *ret,
		     struct error *err)
{
	int rc = tables_make(t, k);

	if (rc == 0)
		rc = put_paths(ret, t, k);
	if (rc == 0)
		rc = put_blocks(ret, t, k);
	if (rc == 0)
		rc = put_entries(ret, t, k);
	if (rc == -EFBIG)
		return error_set(err, EFBIG,
				 "trace: more than %u bytes unpacked",
				 BODY_MAX);
	return rc < 0 ? error_nomem(err) : 0;
}

static void put_head(uint8_t *p, const struct trace *t, const struct tables *k,
		     size_t body, size_t stored)
{
	const struct trace_info *i = &t->info;

	memset(p, 0, HEAD_SIZE);
	memcpy(p, MAGIC, 8);
	put_le32(p + HEAD_VERSION, VERSION);
	put_le32(p + HEAD_FLAGS, i->truncated ? FLAG_TRUNCATED : 0);
	memcpy(p + HEAD_IMAGE, i->image.b, DIGEST_SIZE);
	put_le64(p + HEAD_CREATED, i->created_at);
	put_le32(p + HEAD_WINDOW, i->window_ms);
	put_le32(p + HEAD_READY, i->ready_ms);
	put_le32(p + HEAD_RUNS, i->runs);
	put_le32(p + HEAD_N_ENTRIES, (uint32_t)t->n);
	put_le32(p + HEAD_N_PATHS, k->n_paths);
	put_le32(p + HEAD_N_BLOCKS, k->n_blocks);
	put_le32(p + HEAD_BODY, (uint32_t)body);
	put_le32(p + HEAD_STORED, (uint32_t)stored);
	put_le16(p + HEAD_REPO_LEN, (uint16_t)strlen(i->repo));
	put_le16(p + HEAD_WORKLOAD_LEN, (uint16_t)strlen(i->workload));
}

/* Append head, texts and packed body. */
static int assemble_trace(const struct trace *t, const struct tables *k,
			  const struct buf *body, struct buf *ret,
			  struct error *err)
{
	size_t start = ret->len, bound = ZSTD_compressBound(body->len);
	uint8_t head[HEAD_SIZE] = { 0 };
	struct digest sum;
	size_t stored;
	int rc = buf_append(ret, head, HEAD_SIZE);

	if (rc == 0)
		rc = buf_puts(ret, t->info.repo);
	if (rc == 0)
		rc = buf_puts(ret, t->info.workload);
	if (rc == 0)
		rc = buf_reserve(ret, bound);
	if (rc < 0)
		return error_nomem(err);
	stored = ZSTD_compress(ret->data + ret->len, bound,
			       body->data ? body->data : "", body->len,
			       ZSTD_LEVEL);
	if (ZSTD_isError(stored))
		return error_set(err, EIO, "trace: zstd: %s",
				 ZSTD_getErrorName(stored));
	ret->len += stored;
	ret->data[ret->len] = '\0';
	if (ret->len - start > TRACE_BYTES_MAX)
		return error_set(err, EFBIG,
				 "trace: more than %u bytes encoded",
				 TRACE_BYTES_MAX);
	put_head(head, t, k, body->len, stored);
	memcpy(ret->data + start, head, HEAD_SIZE);
	rc = trace_checksum((uint8_t *)ret->data + start, ret->len - start,
			    &sum);
	if (rc < 0)
		return error_nomem(err);
	memcpy(ret->data + start + HEAD_SUM, sum.b, DIGEST_SIZE);
	return 0;
}

int trace_encode(const struct trace *t, struct buf *ret, struct error *err)
{
	AUTO_BUF body = { .limit = BODY_MAX };
	AUTO_FINI(tables) k = { .n_paths = 0 };
	size_t start = ret->len;
	int rc = make_body(t, &k, &body, err);

	if (rc == 0)
		rc = assemble_trace(t, &k, &body, ret, err);
	if (rc < 0 && ret->data) {
		ret->len = start;
		ret->data[start] = '\0';
	}
	return rc;
}
