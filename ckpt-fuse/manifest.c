// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/xattrs.h"
#include "common/bytes.h"
#include "common/crc32c.h"
#include "common/hash.h"

#define MAGIC "BSEERCKP"
#define MAGIC_LEN 8u
#define VERSION 1u
#define VERSION_XATTRS 2u /* with extended attributes */
/* with or without extended attributes; segments have places in their columns */
#define VERSION_PLACES 3u
#define SEGMENT 48u
#define CRC 4u
#define FOOTER 16u
#define SIZE_MAX_FILE ((uint64_t)1 << 62)
#define CHUNK_MIN 4096u
#define CHUNK_MAX (16u << 20)
#define UNIT_CHUNKS_MAX 64u
/* bytes; limited because several units are in memory at a time */
#define UNIT_MAX (64u << 20)
#define CHUNKS_MAX ((uint64_t)MANIFEST_MAX / CRC)

int manifest_new(size_t n_segments, uint64_t n_chunks, struct manifest **ret,
		 struct error *err)
{
	AUTO(manifest) m = calloc(1, sizeof(*m));

	if (!m)
		return error_nomem(err);
	m->segments = calloc(n_segments + 1, sizeof(*m->segments));
	m->crcs = calloc(n_chunks + 1, sizeof(*m->crcs));
	if (!m->segments || !m->crcs)
		return error_nomem(err);
	m->n_segments = n_segments;
	m->n_chunks = n_chunks;
	*ret = steal_ptr(&m);
	return 0;
}

void manifest_free(struct manifest *m)
{
	if (!m)
		return;
	free(m->segments);
	free(m->crcs);
	buf_fini(&m->xattrs);
	free(m);
}

/* --------------------------------------------------------------------- places --- */

uint64_t segment_chunks(const struct manifest *m, const struct ckpt_segment *s)
{
	return (s->length + m->chunk_size - 1) / m->chunk_size;
}

struct chunk_place chunk_place(const struct manifest *m,
			       const struct ckpt_segment *s, uint64_t chunk)
{
	uint64_t unit = chunk / m->unit_chunks + s->place;
	uint64_t at = chunk * m->chunk_size;
	uint64_t row = unit / s->columns;
	uint64_t left = s->length - at;

	return (struct chunk_place){
		.column = (uint32_t)((unit + s->rotation) % s->columns),
		.off = (row * m->unit_chunks + chunk % m->unit_chunks) *
		       m->chunk_size,
		.len = left < m->chunk_size ? (uint32_t)left : m->chunk_size,
	};
}

uint64_t segment_column_size(const struct manifest *m,
			     const struct ckpt_segment *s, uint32_t column)
{
	uint64_t unit = manifest_unit(m), whole = s->length / unit;
	uint32_t turn = (column + s->columns - s->rotation) % s->columns;
	uint64_t size = whole / s->columns * unit;
	uint64_t rest = whole % s->columns;

	if (turn < rest)
		size += unit;
	else if (turn == rest)
		size += s->length % unit;
	return size;
}

bool segment_has_column(const struct manifest *m, const struct ckpt_segment *s,
			uint32_t column)
{
	uint64_t unit = manifest_unit(m);
	uint64_t n = (s->length + unit - 1) / unit;
	uint64_t first = (s->place + s->rotation) % s->columns;

	return (column + s->columns - first) % s->columns < n;
}

size_t manifest_find(const struct manifest *m, uint64_t off)
{
	size_t low = 0, high = m->n_segments;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct ckpt_segment *s = &m->segments[mid];

		if (s->start + s->length <= off)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* ------------------------------------------------------------------- identity --- */

#define ID_START 0xcbf29ce484222325

/* Add to an FNV-1a hash, which is enough because segment IDs are random. */
static uint64_t add_bytes_to_hash(uint64_t id, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		id = (id ^ p[i]) * 0x100000001b3;
	return id;
}

uint64_t manifest_bytes_id(const struct manifest *m)
{
	uint64_t id = add_bytes_to_hash(ID_START, &m->size, sizeof(m->size));

	for (size_t i = 0; i < m->n_segments; i++) {
		const struct ckpt_segment *s = &m->segments[i];

		id = add_bytes_to_hash(id, s->id, sizeof(s->id));
		id = add_bytes_to_hash(id, &s->start, sizeof(s->start));
		id = add_bytes_to_hash(id, &s->length, sizeof(s->length));
		if (s->place)
			id = add_bytes_to_hash(id, &s->place, sizeof(s->place));
	}
	return id;
}

uint64_t tag_bytes_id(const char *tag)
{
	return add_bytes_to_hash(ID_START, tag, strlen(tag));
}

bool manifest_has_segment(const struct manifest *m,
			  const struct ckpt_segment *s)
{
	for (size_t i = 0; i < m->n_segments; i++)
		if (memcmp(m->segments[i].id, s->id, sizeof(s->id)) == 0)
			return true;
	return false;
}

struct same_segment {
	UT_hash_handle hh;
	uint8_t key[SEGMENT_ID + 2 * sizeof(uint32_t)];
	size_t index;
};

int manifest_same_segments(const struct manifest *m, size_t **ret,
			   struct error *err)
{
	AUTO_FREE struct same_segment *all =
		calloc(m->n_segments + 1, sizeof(*all));
	AUTO_FREE size_t *same = calloc(m->n_segments + 1, sizeof(*same));
	struct same_segment *table = NULL, *first;

	if (!all || !same)
		return error_nomem(err);
	for (size_t i = 0; i < m->n_segments; i++) {
		const struct ckpt_segment *s = &m->segments[i];
		struct same_segment *x = &all[i];

		memcpy(x->key, s->id, SEGMENT_ID);
		put_le32(x->key + SEGMENT_ID, s->columns);
		put_le32(x->key + SEGMENT_ID + sizeof(uint32_t), s->rotation);
		x->index = i;
		HASH_FIND(hh, table, x->key, sizeof(x->key), first);
		if (!first)
			HASH_ADD(hh, table, key, sizeof(x->key), x);
		same[i] = first ? first->index : i;
	}
	HASH_CLEAR(hh, table);
	*ret = steal_ptr(&same);
	return 0;
}

/* ---------------------------------------------------------------------- names --- */

#define DATA_FOLDER ".bootseer/data/"
#define ID_DIGITS (SEGMENT_ID * 2u)

/* Name an object in the folder of a segment's columns. */
static void name_in_segment(const uint8_t id[SEGMENT_ID], const char *last,
			    char out[COLUMN_NAME_MAX])
{
	char digits[ID_DIGITS + 1];

	for (unsigned int i = 0; i < SEGMENT_ID; i++)
		(void)snprintf(digits + 2 * i, 3, "%02x", id[i]);
	(void)snprintf(out, COLUMN_NAME_MAX, DATA_FOLDER "%.2s/%s/%s", digits,
		       digits, last);
}

void column_name(const struct ckpt_segment *s, uint32_t column,
		 char out[COLUMN_NAME_MAX])
{
	char last[8];

	(void)snprintf(last, sizeof(last), "c%02" PRIu32, column % COLUMNS_MAX);
	name_in_segment(s->id, last, out);
}

void segment_mark_name(const uint8_t id[SEGMENT_ID], char out[COLUMN_NAME_MAX])
{
	name_in_segment(id, SEGMENT_MARK, out);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parse the ID in the name of an object in a segment's folder; returns the rest of the name, NULL:
 * not such a name. The part before the ID is not checked: the caller compares the whole name with
 * one made from the ID. */
static const char *parse_id(const char *name, uint8_t ret_id[SEGMENT_ID])
{
	const char *p;

	if (strncmp(name, DATA_FOLDER, strlen(DATA_FOLDER)) != 0 ||
	    strlen(name) <= strlen(DATA_FOLDER) + 3 + ID_DIGITS + 1)
		return NULL;
	p = name + strlen(DATA_FOLDER) + 3;
	for (unsigned int i = 0; i < SEGMENT_ID; i++) {
		int high = hex_digit(p[2 * i]), low = hex_digit(p[2 * i + 1]);

		if (high < 0 || low < 0)
			return NULL;
		ret_id[i] = (uint8_t)(high << 4 | low);
	}
	return p + ID_DIGITS + 1;
}

bool column_parse(const char *name, uint8_t ret_id[SEGMENT_ID])
{
	char same[COLUMN_NAME_MAX];
	struct ckpt_segment s = { .start = 0 };
	const char *p = parse_id(name, s.id);
	uint32_t column;

	if (!p || strlen(p) != 3 || hex_digit(p[1]) < 0 ||
	    hex_digit(p[1]) > 9 || hex_digit(p[2]) < 0 || hex_digit(p[2]) > 9)
		return false;
	column = (uint32_t)(hex_digit(p[1]) * 10 + hex_digit(p[2]));
	column_name(&s, column, same);
	if (column >= COLUMNS_MAX || strcmp(name, same) != 0)
		return false;
	memcpy(ret_id, s.id, SEGMENT_ID);
	return true;
}

bool segment_mark_parse(const char *name, uint8_t ret_id[SEGMENT_ID])
{
	char same[COLUMN_NAME_MAX];
	uint8_t id[SEGMENT_ID];

	if (!parse_id(name, id))
		return false;
	segment_mark_name(id, same);
	if (strcmp(name, same) != 0)
		return false;
	memcpy(ret_id, id, SEGMENT_ID);
	return true;
}

/* --------------------------------------------------------------------- decode --- */

static int damage_error(struct error *err, const char *what)
{
	return error_set(err, EBADMSG, "the manifest is damaged: %s", what);
}

/* Check the version, and read the length of the extended attributes, which only later versions
 * have. */
static int decode_version(const uint8_t *p, uint32_t *ret_xattrs,
			  struct error *err)
{
	uint32_t version = get_le32(p + 8);

	*ret_xattrs = get_le32(p + 72);
	if (version < VERSION || version > VERSION_PLACES)
		return error_set(err, ENOTSUP,
				 "the manifest has version %" PRIu32
				 ", of a newer bootseer",
				 version);
	if (*ret_xattrs > XATTRS_MAX ||
	    (version != VERSION_PLACES &&
	     (*ret_xattrs != 0) != (version == VERSION_XATTRS)))
		return damage_error(err,
				    "the bytes of its extended attributes");
	return 0;
}

int manifest_decode_header(const void *data, size_t len, struct manifest *ret,
			   uint64_t *ret_len, struct error *err)
{
	const uint8_t *p = data;
	uint32_t xattrs;
	int rc;

	if (len < MANIFEST_HEADER || memcmp(p, MAGIC, MAGIC_LEN) != 0)
		return damage_error(err, "it does not begin as one");
	rc = decode_version(p, &xattrs, err);
	if (rc < 0)
		return rc;
	*ret = (struct manifest){
		.chunk_size = get_le32(p + 12),
		.unit_chunks = get_le32(p + 16),
		.n_segments = get_le32(p + 20),
		.size = get_le64(p + 24),
		.generation = get_le64(p + 32),
		.attr = { .mtime_ns = (int64_t)get_le64(p + 40),
			  .mode = get_le32(p + 48),
			  .uid = get_le32(p + 52),
			  .gid = get_le32(p + 56) },
		.n_chunks = get_le64(p + 64),
	};
	if (ret->chunk_size < CHUNK_MIN || ret->chunk_size > CHUNK_MAX ||
	    (ret->chunk_size & (ret->chunk_size - 1)))
		return damage_error(err, "the size of its chunks");
	if (ret->unit_chunks < 1 || ret->unit_chunks > UNIT_CHUNKS_MAX ||
	    manifest_unit(ret) > UNIT_MAX)
		return damage_error(err, "the chunks of a unit");
	if (ret->n_segments > SEGMENTS_MAX || ret->n_chunks > CHUNKS_MAX ||
	    ret->n_segments > ret->n_chunks)
		return damage_error(err, "how many segments or chunks it has");
	if (ret->size > SIZE_MAX_FILE || ret->attr.mode > 07777)
		return damage_error(err, "size or permissions of the file");
	if (!bytes_are_zero(p + 60, 4) || !bytes_are_zero(p + 76, 20))
		return damage_error(err, "bytes that are to be zeros");
	*ret_len = MANIFEST_HEADER + SEGMENT * (uint64_t)ret->n_segments +
		   CRC * ret->n_chunks + xattrs + FOOTER;
	return *ret_len > MANIFEST_MAX ? damage_error(err, "it is too long")
				       : 0;
}

static int decode_segment(const struct manifest *m, const uint8_t *p,
			  uint64_t from, uint32_t version,
			  struct ckpt_segment *s, struct error *err)
{
	memcpy(s->id, p, SEGMENT_ID);
	s->start = get_le64(p + 16);
	s->length = get_le64(p + 24);
	s->columns = get_le32(p + 32);
	s->rotation = get_le32(p + 36);
	if (s->start < from || s->start > SIZE_MAX_FILE ||
	    s->start % manifest_unit(m) || s->length < 1 ||
	    s->length > SIZE_MAX_FILE)
		return damage_error(err, "where a segment lies");
	if (s->columns < 1 || s->columns > COLUMNS_MAX ||
	    s->rotation >= s->columns)
		return damage_error(err, "the columns of a segment");
	s->place = get_le64(p + 40);
	if (version < VERSION_PLACES && s->place)
		return damage_error(err, "bytes that are to be zeros");
	return s->place <= SIZE_MAX_FILE / manifest_unit(m)
		       ? 0
		       : damage_error(err,
				      "where a segment lies in its columns");
}

static int decode_segments(struct manifest *m, const uint8_t *p,
			   uint32_t version, struct error *err)
{
	uint64_t from = 0, chunks = 0;
	bool has_places = false;

	for (size_t i = 0; i < m->n_segments; i++, p += SEGMENT) {
		struct ckpt_segment *s = &m->segments[i];
		int rc = decode_segment(m, p, from, version, s, err);

		if (rc < 0)
			return rc;
		s->first_chunk = chunks;
		from = s->start + s->length;
		chunks += segment_chunks(m, s);
		has_places = has_places || s->place;
	}
	if (version == VERSION_PLACES && !has_places)
		return damage_error(err, "its version");
	return chunks == m->n_chunks
		       ? 0
		       : damage_error(err, "how many chunks it has");
}

/* Cut the map of units to the file's size. Units beyond it were cut off and are not read; without
 * this, the writer of a manifest could make every reader use much memory. */
static void cut_unit_map_to_file_size(struct manifest *m)
{
	struct ckpt_segment *s;
	uint64_t left;

	while (m->n_segments && m->segments[m->n_segments - 1].start >= m->size)
		m->n_segments--;
	if (!m->n_segments) {
		m->n_chunks = 0;
		return;
	}
	s = &m->segments[m->n_segments - 1];
	left = round_up(m->size - s->start, m->chunk_size);
	if (s->length > left)
		s->length = left;
	m->n_chunks = s->first_chunk + segment_chunks(m, s);
}

/* Shrink the tables to the memory they need. */
static int shrink_tables(struct manifest *m, struct error *err)
{
	uint32_t *crcs = realloc(m->crcs, (m->n_chunks + 1) * sizeof(*crcs));

	if (!crcs)
		return error_nomem(err);
	m->crcs = crcs;
	return 0;
}

int manifest_decode(const void *data, size_t len, struct manifest **ret,
		    struct error *err)
{
	const uint8_t *p = data, *foot;
	struct manifest head;
	AUTO(manifest) m = NULL;
	uint64_t want, n_chunks;
	int rc = manifest_decode_header(data, len, &head, &want, err);

	if (rc < 0)
		return rc;
	if (want != len)
		return damage_error(err, "it is cut, or longer than it says");
	foot = p + len - FOOTER;
	if (get_le64(foot + 8) != len || !bytes_are_zero(foot + 4, 4) ||
	    get_le32(foot) != crc32c(0, p, len - FOOTER))
		return damage_error(err, "its checksum");
	rc = manifest_new(head.n_segments, head.n_chunks, &m, err);
	if (rc < 0)
		return rc;
	head.segments = m->segments;
	head.crcs = m->crcs;
	*m = head;
	p += MANIFEST_HEADER;
	rc = decode_segments(m, p, get_le32((const uint8_t *)data + 8), err);
	if (rc < 0)
		return rc;
	p += SEGMENT * m->n_segments;
	n_chunks = m->n_chunks;
	cut_unit_map_to_file_size(m);
	for (uint64_t i = 0; i < m->n_chunks; i++)
		m->crcs[i] = get_le32(p + CRC * i);
	if (m->n_chunks < n_chunks)
		rc = shrink_tables(m, err);
	if (rc < 0)
		return rc;
	p += CRC * n_chunks;
	if (!xattrs_are_valid(p, (size_t)(foot - p)))
		return damage_error(err, "its extended attributes");
	if (foot > p && buf_append(&m->xattrs, p, (size_t)(foot - p)) < 0)
		return error_nomem(err);
	*ret = steal_ptr(&m);
	return 0;
}

/* --------------------------------------------------------------------- encode --- */

static uint32_t get_format_version(const struct manifest *m)
{
	for (size_t i = 0; i < m->n_segments; i++)
		if (m->segments[i].place)
			return VERSION_PLACES;
	return m->xattrs.len ? VERSION_XATTRS : VERSION;
}

static void encode_header(const struct manifest *m, uint8_t *p)
{
	memcpy(p, MAGIC, MAGIC_LEN);
	put_le32(p + 8, get_format_version(m));
	put_le32(p + 12, m->chunk_size);
	put_le32(p + 16, m->unit_chunks);
	put_le32(p + 20, (uint32_t)m->n_segments);
	put_le64(p + 24, m->size);
	put_le64(p + 32, m->generation);
	put_le64(p + 40, (uint64_t)m->attr.mtime_ns);
	put_le32(p + 48, m->attr.mode);
	put_le32(p + 52, m->attr.uid);
	put_le32(p + 56, m->attr.gid);
	put_le64(p + 64, m->n_chunks);
	put_le32(p + 72, (uint32_t)m->xattrs.len);
}

static void encode_segment(const struct ckpt_segment *s, uint8_t *p)
{
	memcpy(p, s->id, SEGMENT_ID);
	put_le64(p + 16, s->start);
	put_le64(p + 24, s->length);
	put_le32(p + 32, s->columns);
	put_le32(p + 36, s->rotation);
	put_le64(p + 40, s->place);
}

int manifest_encode(const struct manifest *m, struct buf *out,
		    struct error *err)
{
	uint64_t len = MANIFEST_HEADER + SEGMENT * (uint64_t)m->n_segments +
		       CRC * m->n_chunks + m->xattrs.len + FOOTER;
	uint8_t *p, *first;

	if (len > MANIFEST_MAX)
		return error_set(
			err, EFBIG,
			"a file of so many chunks is too large: %" PRIu64,
			m->n_chunks);
	if (buf_reserve(out, len) < 0)
		return error_nomem(err);
	first = p = (uint8_t *)out->data + out->len;
	memset(p, 0, len);
	encode_header(m, p);
	p += MANIFEST_HEADER;
	for (size_t i = 0; i < m->n_segments; i++, p += SEGMENT)
		encode_segment(&m->segments[i], p);
	for (uint64_t i = 0; i < m->n_chunks; i++, p += CRC)
		put_le32(p, m->crcs[i]);
	if (m->xattrs.len)
		memcpy(p, m->xattrs.data, m->xattrs.len);
	p += m->xattrs.len;
	put_le32(p, crc32c(0, first, len - FOOTER));
	put_le64(p + 8, len);
	out->len += len;
	return 0;
}
