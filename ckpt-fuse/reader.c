// SPDX-License-Identifier: Apache-2.0
/* Reads files; each chunk is checked before any byte of it is returned. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/names.h"
#include "common/bytes.h"
#include "common/crc32c.h"
#include "common/digest.h"
#include "objects/object_get.h"

#define CHUNKS_AT_ONCE 64u
#define PLAIN_UNIT (4 * MIB)
#define PLAIN_HEAD MIB /* bytes that are read together with the open */

struct ckpt_file {
	struct object_store *store;
	char *path;
	struct ckpt_stat stat;
	/* without the plain object that a manifest hides */
	struct ckpt_version version;
	struct object *plain; /* NULL: a striped file */
	struct manifest *manifest;
	/* Columns of all segments, in sequence; each is opened when first read. */
	pthread_mutex_t lock;
	pthread_cond_t opened;
	struct object **columns;
	/* a thread opens the column; others wait for it */
	bool *is_opening;
	/* index in `columns` of each segment's first column */
	size_t *first_column;
	size_t n_columns;
};

/* ------------------------------------------------------------------- opening --- */

static int open_striped(struct ckpt_file *f, struct error *err)
{
	const struct manifest *m = f->manifest;
	int rc;

	/* Pieces of the same segment share its columns. */
	rc = manifest_same_segments(m, &f->first_column, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < m->n_segments; i++) {
		if (f->first_column[i] != i) {
			f->first_column[i] =
				f->first_column[f->first_column[i]];
			continue;
		}
		f->first_column[i] = f->n_columns;
		f->n_columns += m->segments[i].columns;
	}
	f->columns =
		(struct object **)calloc(f->n_columns + 1, sizeof(*f->columns));
	f->is_opening = calloc(f->n_columns + 1, sizeof(*f->is_opening));
	if (!f->columns || !f->is_opening)
		return error_nomem(err);
	manifest_stat(m, &f->stat);
	return 0;
}

static int file_open(struct object_store *s, const char *path, size_t head,
		     struct ckpt_file **ret, struct error *err)
{
	struct ckpt_file *f = calloc(1, sizeof(*f));
	int rc = 0;

	if (!f)
		return error_nomem(err);
	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_cond_init(&f->opened, NULL);
	f->store = s;
	f->path = strdup(path);
	if (!f->path)
		rc = error_nomem(err);
	if (rc == 0)
		rc = names_open(s, path, head, &f->manifest, &f->plain,
				&f->version, err);
	if (rc == 0 && f->plain)
		plain_stat(object_opened_stat(f->plain), &f->stat);
	else if (rc == 0)
		rc = open_striped(f, err);
	if (rc < 0) {
		ckpt_close(f);
		return rc;
	}
	*ret = f;
	return 0;
}

int ckpt_open(struct object_store *s, const char *path, struct ckpt_file **ret,
	      struct error *err)
{
	return file_open(s, path, 0, ret, err);
}

int ckpt_open_whole(struct object_store *s, const char *path,
		    struct ckpt_file **ret, struct error *err)
{
	return file_open(s, path, PLAIN_HEAD, ret, err);
}

int ckpt_open_manifest(struct object_store *s, const char *path,
		       struct manifest *m, struct ckpt_file **ret,
		       struct error *err)
{
	struct ckpt_file *f = calloc(1, sizeof(*f));
	int rc;

	if (!f) {
		manifest_free(m);
		return error_nomem(err);
	}
	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_cond_init(&f->opened, NULL);
	f->store = s;
	f->manifest = m;
	f->path = strdup(path);
	rc = f->path ? open_striped(f, err) : error_nomem(err);
	if (rc < 0)
		ckpt_close(f);
	else
		*ret = f;
	return rc;
}

void ckpt_close(struct ckpt_file *f)
{
	if (!f)
		return;
	for (size_t i = 0; f->columns && i < f->n_columns; i++)
		if (f->columns[i])
			object_close(f->columns[i]);
	if (f->plain)
		object_close(f->plain);
	free((void *)f->columns);
	free(f->is_opening);
	(void)pthread_cond_destroy(&f->opened);
	free(f->first_column);
	manifest_free(f->manifest);
	(void)pthread_mutex_destroy(&f->lock);
	free(f->path);
	free(f);
}

const struct ckpt_stat *ckpt_file_stat(const struct ckpt_file *f)
{
	return &f->stat;
}

int ckpt_file_version(const struct ckpt_file *f,
		      struct ckpt_version *ret_version, struct error *err)
{
	*ret_version = f->version;
	return version_see_hidden(f->store, f->path, ret_version, err);
}

const struct buf *ckpt_file_xattrs(const struct ckpt_file *f)
{
	static const struct buf none = BUF_INIT;

	return f->manifest ? &f->manifest->xattrs : &none;
}

const struct manifest *ckpt_file_manifest(const struct ckpt_file *f)
{
	return f->manifest;
}

static bool is_same_manifest(const struct manifest *a, const struct manifest *b)
{
	if (a->size != b->size || a->n_segments != b->n_segments ||
	    a->n_chunks != b->n_chunks)
		return false;
	for (size_t i = 0; i < a->n_segments; i++)
		if (memcmp(a->segments[i].id, b->segments[i].id, SEGMENT_ID) !=
			    0 ||
		    a->segments[i].place != b->segments[i].place)
			return false;
	return memcmp(a->crcs, b->crcs, a->n_chunks * sizeof(*a->crcs)) == 0;
}

bool ckpt_file_is_same(const struct ckpt_file *a, const struct ckpt_file *b)
{
	if (!a->plain != !b->plain)
		return false;
	if (!a->plain)
		return is_same_manifest(a->manifest, b->manifest);
	return strcmp(object_opened_stat(a->plain)->tag,
		      object_opened_stat(b->plain)->tag) == 0;
}

uint64_t ckpt_file_bytes_id(const struct ckpt_file *f)
{
	return f->plain ? tag_bytes_id(object_opened_stat(f->plain)->tag)
			: manifest_bytes_id(f->manifest);
}

static int hash_manifest(struct hasher *h, const struct manifest *m)
{
	int rc = hasher_update(h, m->crcs, m->n_chunks * sizeof(*m->crcs));

	for (size_t i = 0; i < m->n_segments && rc == 0; i++) {
		const struct ckpt_segment *s = &m->segments[i];
		const uint64_t at[] = { s->start, s->length, s->columns,
					s->rotation, s->place };

		rc = hasher_update(h, s->id, sizeof(s->id));
		if (rc == 0)
			rc = hasher_update(h, at, sizeof(at));
	}
	return rc;
}

int ckpt_file_identity(const struct ckpt_file *f, struct digest *ret,
		       struct error *err)
{
	AUTO(hasher) h = hasher_new();
	const char *tag = f->plain ? object_opened_stat(f->plain)->tag : "";
	int rc = h ? 0 : -ENOMEM;

	if (rc == 0 && f->manifest)
		rc = hash_manifest(h, f->manifest);
	/* Include the path: equal bytes elsewhere in a bucket have the same tag, and so may other
	 * files in another file system. */
	if (rc == 0 && f->plain)
		rc = hasher_update(h, f->path, strlen(f->path) + 1);
	if (rc == 0 && f->plain)
		rc = hasher_update(h, tag, strlen(tag) + 1);
	if (rc == 0)
		rc = hasher_final(h, ret);
	return rc < 0 ? error_nomem(err) : 0;
}

uint64_t ckpt_file_unit(const struct ckpt_file *f)
{
	return f->plain ? PLAIN_UNIT : manifest_unit(f->manifest);
}

uint32_t ckpt_file_chunk(const struct ckpt_file *f)
{
	return f->plain ? 1 : f->manifest->chunk_size;
}

uint64_t ckpt_file_next_stored(const struct ckpt_file *f, uint64_t off)
{
	const struct manifest *m = f->manifest;
	size_t i;

	if (f->plain)
		return off;
	i = manifest_find(m, off);
	if (i == m->n_segments)
		return m->size;
	return off < m->segments[i].start ? m->segments[i].start : off;
}

uint64_t ckpt_file_stored(const struct ckpt_file *f)
{
	const struct manifest *m = f->manifest;
	uint64_t sum = 0;

	if (f->plain)
		return f->stat.size;
	for (size_t i = 0; i < m->n_segments; i++) {
		const struct ckpt_segment *s = &m->segments[i];
		uint64_t left = s->start < m->size ? m->size - s->start : 0;

		sum += s->length < left ? s->length : left;
	}
	return sum;
}

uint64_t ckpt_file_tables(const struct ckpt_file *f)
{
	const struct manifest *m = f->manifest;

	if (f->plain)
		return 0;
	return m->n_chunks * sizeof(*m->crcs) +
	       m->n_segments * sizeof(*m->segments) +
	       f->n_columns * sizeof(struct object *) + m->xattrs.len;
}

/* Set the error for a missing column: normally only a replaced file's columns are removed. */
static int fail_missing_column(const struct ckpt_file *f, const char *column,
			       struct error *err)
{
	struct error ignored = ERROR_INIT;
	AUTO(manifest) now = NULL;
	struct manifest_name name;
	int rc = manifest_name(f->path, &name, &ignored);

	if (rc == 0)
		rc = manifest_load(f->store, name.s, &now, &ignored);
	if (rc == 0 && is_same_manifest(f->manifest, now))
		return error_set(err, EBADMSG,
				 "%s: '%.200s' is damaged: %s is missing",
				 object_store_url(f->store), f->path, column);
	return error_wrap(err, -ESTALE,
			  "'%.200s' was replaced, and its data removed since; "
			  "open it again",
			  f->path);
}

static int ask_for_column(struct ckpt_file *f, size_t segment, uint32_t column,
			  struct object **ret, struct error *err)
{
	char name[COLUMN_NAME_MAX];

	/* The object never changes, since its name is random and written once: no version check is
	 * needed. */
	column_name(&f->manifest->segments[segment], column, name);
	return object_open_unasked(f->store, name, ret, err);
}

/* Open a column, once for all threads that read it. */
static int column_open(struct ckpt_file *f, size_t segment, uint32_t column,
		       struct object **ret, struct error *err)
{
	const size_t i = f->first_column[segment] + column;
	int rc = 0;

	(void)pthread_mutex_lock(&f->lock);
	while (!f->columns[i] && f->is_opening[i])
		(void)pthread_cond_wait(&f->opened, &f->lock);
	if (!f->columns[i]) {
		struct object *o = NULL;

		f->is_opening[i] = true;
		(void)pthread_mutex_unlock(&f->lock);
		rc = ask_for_column(f, segment, column, &o, err);
		(void)pthread_mutex_lock(&f->lock);
		f->is_opening[i] = false;
		if (rc == 0)
			f->columns[i] = o;
		(void)pthread_cond_broadcast(&f->opened);
	}
	*ret = f->columns[i];
	(void)pthread_mutex_unlock(&f->lock);
	return rc;
}

/* ------------------------------------------------------------------- chunks --- */

/* Consecutive chunks of one unit in one column. */
struct unit_run {
	const struct ckpt_segment *segment;
	size_t segment_index;
	uint64_t first; /* index of the first chunk in the segment */
	unsigned int n;
	struct object *column;
	char name[COLUMN_NAME_MAX];
	struct object_range ranges[CHUNKS_AT_ONCE];
	/* Buffers for the first and the last chunk, which the reader may need only partly. */
	void *bounce[2];
};

static bool has_right_checksum(const struct ckpt_file *f,
			       const struct unit_run *r, unsigned int i)
{
	const uint32_t *crcs = f->manifest->crcs + r->segment->first_chunk;

	return crc32c(0, r->ranges[i].buf, r->ranges[i].len) ==
	       crcs[r->first + i];
}

/* Check the chunks. A wrong one is read again, since it may have been damaged in transfer; if it is
 * wrong twice, the stored bytes are damaged. */
static int check_run(const struct ckpt_file *f, struct unit_run *r,
		     int64_t deadline_ns, struct error *err)
{
	for (unsigned int i = 0; i < r->n; i++) {
		int rc;

		if (has_right_checksum(f, r, i))
			continue;
		rc = object_read(r->column, &r->ranges[i], 1, deadline_ns, err);
		if (rc < 0)
			return rc;
		if (!has_right_checksum(f, r, i))
			return error_set(
				err, EBADMSG,
				"%s: '%.200s' is damaged at byte %" PRIu64
				": chunk %" PRIu64
				" of %s is not what was written",
				object_store_url(f->store), f->path,
				r->segment->start +
					(r->first + i) *
						f->manifest->chunk_size,
				r->first + i, r->name);
	}
	return 0;
}

static void run_fini(struct unit_run *r)
{
	free(r->bounce[0]);
	free(r->bounce[1]);
}

/* Plan reads of the chunks of [rel, rel + len) in the segment; whole chunks go to `dst`
 * directly. */
static int set_run_ranges(const struct ckpt_file *f, struct unit_run *r,
			  uint64_t rel, char *dst, uint64_t len,
			  struct error *err)
{
	const struct manifest *m = f->manifest;

	for (unsigned int i = 0; i < r->n; i++) {
		struct chunk_place p = chunk_place(m, r->segment, r->first + i);
		uint64_t at = (r->first + i) * m->chunk_size;

		r->ranges[i] =
			(struct object_range){ .off = p.off, .len = p.len };
		if (at >= rel && at + p.len <= rel + len) {
			r->ranges[i].buf = dst + (at - rel);
			continue;
		}
		r->ranges[i].buf = malloc(p.len);
		if (!r->ranges[i].buf)
			return error_nomem(err);
		r->bounce[i ? 1 : 0] = r->ranges[i].buf;
	}
	return 0;
}

static void copy_part(const struct ckpt_file *f, const struct unit_run *r,
		      unsigned int i, uint64_t rel, char *dst, uint64_t len)
{
	uint64_t at = (r->first + i) * f->manifest->chunk_size;
	uint64_t from = at > rel ? at : rel;
	uint64_t end = at + r->ranges[i].len;

	if (end > rel + len)
		end = rel + len;
	memcpy(dst + (from - rel), (char *)r->ranges[i].buf + (from - at),
	       end - from);
}

static void copy_parts(const struct ckpt_file *f, const struct unit_run *r,
		       uint64_t rel, char *dst, uint64_t len)
{
	if (r->bounce[0])
		copy_part(f, r, 0, rel, dst, len);
	if (r->bounce[1])
		copy_part(f, r, r->n - 1, rel, dst, len);
}

static int read_run(struct ckpt_file *f, struct unit_run *r, uint64_t rel,
		    char *dst, uint64_t len, int64_t deadline_ns,
		    struct error *err)
{
	struct chunk_place p = chunk_place(f->manifest, r->segment, r->first);
	int rc = column_open(f, r->segment_index, p.column, &r->column, err);

	column_name(r->segment, p.column, r->name);
	if (rc == 0)
		rc = set_run_ranges(f, r, rel, dst, len, err);
	if (rc == 0)
		rc = object_read(r->column, r->ranges, r->n, deadline_ns, err);
	if (rc == -ENOENT)
		rc = fail_missing_column(f, r->name, err);
	if (rc == -ERANGE)
		rc = error_set(err, EBADMSG,
			       "%s: '%.200s' is damaged: %s is shorter than "
			       "what was written",
			       object_store_url(f->store), f->path, r->name);
	if (rc == 0)
		rc = check_run(f, r, deadline_ns, err);
	if (rc == 0)
		copy_parts(f, r, rel, dst, len);
	return rc;
}

/* --------------------------------------------------------------------- reads --- */

/* Read up to the end of the unit, from `off`; returns the number of bytes, or -errno. */
static int64_t read_stored(struct ckpt_file *f, size_t index, uint64_t off,
			   char *dst, uint64_t len, int64_t deadline_ns,
			   struct error *err)
{
	const struct manifest *m = f->manifest;
	const struct ckpt_segment *s = &m->segments[index];
	uint64_t unit = manifest_unit(m), rel = off - s->start;
	uint64_t end = (rel / unit + 1) * unit;
	struct unit_run r = { .segment = s, .segment_index = index };
	int rc;

	if (end > s->length)
		end = s->length;
	if (end > rel + len)
		end = rel + len;
	r.first = rel / m->chunk_size;
	r.n = (unsigned int)((end - 1) / m->chunk_size - r.first + 1);
	rc = read_run(f, &r, rel, dst, end - rel, deadline_ns, err);
	run_fini(&r);
	return rc < 0 ? rc : (int64_t)(end - rel);
}

static int64_t read_stored_or_hole(struct ckpt_file *f, uint64_t off, char *dst,
				   uint64_t len, int64_t deadline_ns,
				   struct error *err)
{
	const struct manifest *m = f->manifest;
	size_t i = manifest_find(m, off);
	uint64_t hole = len;

	if (i < m->n_segments && m->segments[i].start <= off)
		return read_stored(f, i, off, dst, len, deadline_ns, err);
	if (i < m->n_segments && m->segments[i].start - off < hole)
		hole = m->segments[i].start - off;
	memset(dst, 0, hole);
	return (int64_t)hole;
}

int ckpt_read(struct ckpt_file *f, uint64_t off, void *buf, size_t len,
	      int64_t deadline_ns, struct error *err)
{
	struct object_range r = { .off = off, .len = len, .buf = buf };
	char *dst = buf;

	if (off > f->stat.size || len > f->stat.size - off)
		return error_set(err, ERANGE,
				 "%s: '%.200s' has %" PRIu64 " bytes",
				 object_store_url(f->store), f->path,
				 f->stat.size);
	if (f->plain)
		return len ? object_read(f->plain, &r, 1, deadline_ns, err) : 0;
	while (len) {
		int64_t n =
			read_stored_or_hole(f, off, dst, len, deadline_ns, err);

		if (n < 0)
			return (int)n;
		off += (uint64_t)n;
		dst += n;
		len -= (size_t)n;
	}
	return 0;
}

/* ------------------------------------------------------------------ of others --- */

/* Count the bytes that are right: a whole chunk or a hole; 0: they are wrong. */
static uint64_t count_verified_bytes(const struct ckpt_file *f, uint64_t off,
				     const char *data, uint64_t len)
{
	const struct manifest *m = f->manifest;
	size_t i = manifest_find(m, off);
	const struct ckpt_segment *s = &m->segments[i];
	struct chunk_place p;
	uint64_t chunk, hole = len;

	if (i == m->n_segments || s->start > off) {
		if (i < m->n_segments && s->start - off < hole)
			hole = s->start - off;
		return bytes_are_zero(data, hole) ? hole : 0;
	}
	chunk = (off - s->start) / m->chunk_size;
	p = chunk_place(m, s, chunk);
	if ((off - s->start) % m->chunk_size || p.len > len)
		return 0;
	return crc32c(0, data, p.len) == m->crcs[s->first_chunk + chunk] ? p.len
									 : 0;
}

bool ckpt_file_can_check(const struct ckpt_file *f)
{
	const struct manifest *m = f->manifest;
	const struct ckpt_segment *last;

	if (!m || !m->n_segments)
		return true;
	last = &m->segments[m->n_segments - 1];
	return last->start + last->length <= m->size;
}

int ckpt_check_bytes(const struct ckpt_file *f, uint64_t off, const void *data,
		     size_t len, struct error *err)
{
	const char *at = data;

	while (f->manifest && len) {
		const uint64_t n = count_verified_bytes(f, off, at, len);

		if (!n)
			return error_set(err, EBADMSG,
					 "'%.200s': bytes from %" PRIu64
					 " on are not what was written",
					 f->path, off);
		off += n;
		at += n;
		len -= n;
	}
	return 0;
}
