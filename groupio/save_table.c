// SPDX-License-Identifier: Apache-2.0
/* Tables of tensors, and their encoding between nodes: docs/formats/group-save.md. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/json.h"
#include "groupio/save_plan.h"

#define DIMS_MAX 32u
#define HEAD_LEN 8u /* bytes of a tensor's head in a table, before its name */
#define TENSOR_MAX (UINT64_C(1) << 42) /* bytes */

static const struct dtype {
	char name[8];
	unsigned int width;
} dtypes[] = {
	{ "BOOL", 1 },    { "U8", 1 },  { "I8", 1 },  { "F8_E4M3", 1 },
	{ "F8_E5M2", 1 }, { "U16", 2 }, { "I16", 2 }, { "F16", 2 },
	{ "BF16", 2 },    { "U32", 4 }, { "I32", 4 }, { "F32", 4 },
	{ "U64", 8 },     { "I64", 8 }, { "F64", 8 },
};

/* NULL: unknown type. */
static const struct dtype *dtype_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++)
		if (strcmp(dtypes[i].name, name) == 0)
			return &dtypes[i];
	return NULL;
}

/* Bytes of a tensor of this shape; UINT64_MAX: too many, or no type. */
static uint64_t shape_bytes(const struct dtype *type, const uint64_t *shape,
			    size_t n_dims)
{
	uint64_t bytes = type ? type->width : UINT64_MAX;

	for (size_t i = 0; i < n_dims && type; i++)
		if (shape[i] > INT64_MAX ||
		    __builtin_mul_overflow(bytes, shape[i], &bytes))
			return UINT64_MAX;
	return bytes;
}

static uint64_t chunks_of(uint64_t len)
{
	return len / SAVE_CHUNK + (len % SAVE_CHUNK != 0);
}

bool save_chunk_is_zero(const struct digest *d)
{
	static const struct digest zero;

	return digest_equal(d, &zero);
}

/* ---------------------------------------------------------------------- adding --- */

static int check_tensor(const char *name, const char *dtype,
			const uint64_t *shape, size_t n_dims, uint64_t len,
			struct error *err)
{
	const struct dtype *type = dtype_find(dtype);

	if (!*name || strlen(name) > SAVE_NAME_MAX ||
	    strcmp(name, "__metadata__") == 0 || strstr(name, "@rank"))
		return error_set(err, EINVAL,
				 "'%.60s': no name of a tensor: 1 to %u bytes, "
				 "without '@rank'",
				 name, SAVE_NAME_MAX);
	if (!type)
		return error_set(err, EINVAL,
				 "'%.60s' has the type '%.20s', "
				 "which safetensors has not",
				 name, dtype);
	if (n_dims <= DIMS_MAX && len <= TENSOR_MAX &&
	    shape_bytes(type, shape, n_dims) == len)
		return 0;
	return error_set(err, EINVAL,
			 "'%.60s' has %" PRIu64
			 " bytes, which are not those of its shape",
			 name, len);
}

int save_table_add(struct save_table *t, const char *name, const char *dtype,
		   const uint64_t *shape, size_t n_dims, uint64_t len,
		   struct error *err)
{
	const size_t n_chunks = (size_t)chunks_of(len);
	const size_t n_name = strlen(name) + 1;
	struct save_tensor *x;
	int rc = check_tensor(name, dtype, shape, n_dims, len, err);

	if (rc < 0)
		return rc;
	if (array_grow(&t->tensors, t->n, &t->cap, 64) < 0)
		return error_nomem(err);
	x = &t->tensors[t->n];
	*x = (struct save_tensor){ .dtype = dtype_find(dtype)->name,
				   .n_dims = n_dims,
				   .len = len,
				   .n_chunks = (uint32_t)n_chunks };
	x->dims = calloc(1, n_dims * sizeof(*x->dims) +
				    n_chunks * sizeof(*x->chunks) + n_name);
	if (!x->dims)
		return error_nomem(err);
	x->chunks = (struct digest *)(x->dims + n_dims);
	x->name = memcpy(x->chunks + n_chunks, name, n_name);
	memcpy(x->dims, shape, n_dims * sizeof(*shape));
	t->n++;
	return 0;
}

void save_table_fini(struct save_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->tensors[i].dims);
	free(t->tensors);
	*t = (struct save_table){ .n = 0 };
}

/* --------------------------------------------------------------------- digests --- */

static bool is_zeros(const char *data, size_t len)
{
	return !len || (!data[0] && memcmp(data, data + 1, len - 1) == 0);
}

int save_tensor_digest(struct save_tensor *t, uint32_t chunk, struct error *err)
{
	const char *at = t->data + (size_t)chunk * SAVE_CHUNK;
	const uint32_t len = save_chunk_len(t->len, chunk);

	if (is_zeros(at, len)) {
		t->chunks[chunk] = (struct digest){ .b = { 0 } };
		return 0;
	}
	return digest_of(at, len, &t->chunks[chunk]) < 0 ? error_nomem(err) : 0;
}

/* Compute the contents' digests with one hasher, since a hasher for each tensor would cost
 * more than all else here; a tensor of one chunk reuses the chunk's digest. */
int save_table_finish(struct save_table *t, struct error *err)
{
	AUTO(hasher) h = hasher_new();
	int rc = h ? 0 : -ENOMEM;

	for (size_t i = 0; i < t->n && rc == 0; i++) {
		struct save_tensor *x = &t->tensors[i];

		if (x->n_chunks == 1)
			x->content = x->chunks[0];
		if (x->n_chunks > 1)
			rc = hasher_update(h, x->chunks,
					   x->n_chunks * sizeof(*x->chunks));
		if (x->n_chunks > 1 && rc == 0)
			rc = hasher_final(h, &x->content);
	}
	return rc < 0 ? error_nomem(err) : 0;
}

/* ------------------------------------------------------------------------ bytes --- */

static int put_tensor(struct buf *b, const struct save_tensor *t)
{
	const size_t n_name = strlen(t->name), n_type = strlen(t->dtype);
	uint8_t head[HEAD_LEN], dim[8];
	int rc;

	put_le32(head, t->rank);
	put_le16(head + 4, (uint16_t)n_name);
	head[6] = (uint8_t)n_type;
	head[7] = (uint8_t)t->n_dims;
	rc = buf_append(b, head, sizeof(head));
	if (rc == 0)
		rc = buf_append(b, t->name, n_name);
	if (rc == 0)
		rc = buf_append(b, t->dtype, n_type);
	for (size_t i = 0; i < t->n_dims && rc == 0; i++) {
		put_le64(dim, t->dims[i]);
		rc = buf_append(b, dim, sizeof(dim));
	}
	return rc < 0 ? rc
		      : buf_append(b, t->chunks,
				   t->n_chunks * sizeof(*t->chunks));
}

int save_table_encode(const struct save_table *t, struct buf *ret,
		      struct error *err)
{
	uint8_t n[4];
	int rc = t->n > SAVE_TENSORS_MAX ? -EFBIG : 0;

	put_le32(n, (uint32_t)t->n);
	ret->limit = SAVE_TABLE_MAX;
	if (rc == 0)
		rc = buf_append(ret, n, sizeof(n));
	for (size_t i = 0; i < t->n && rc == 0; i++)
		rc = put_tensor(ret, &t->tensors[i]);
	if (rc == -EFBIG)
		return error_set(err, EFBIG,
				 "this node's ranks have more than %u tensors, "
				 "or of these a table of more than %u bytes: "
				 "save them by more than one file",
				 SAVE_TENSORS_MAX, SAVE_TABLE_MAX);
	return rc < 0 ? error_nomem(err) : 0;
}

/* The part of a table that is not yet decoded. */
struct table_rest {
	const char *at;
	size_t len;
};

/* Take the next `n` bytes; NULL: fewer are left. */
static const char *rest_take(struct table_rest *r, uint64_t n)
{
	const char *at = r->at;

	if (n > r->len)
		return NULL;
	r->at += n;
	r->len -= (size_t)n;
	return at;
}

/* Take the next `n` bytes as text of fewer than `size` bytes; false: they are no such text. */
static bool rest_take_text(struct table_rest *r, size_t n, char *ret,
			   size_t size)
{
	const char *at = n < size ? rest_take(r, n) : NULL;

	if (!at || memchr(at, 0, n))
		return false;
	memcpy(ret, at, n);
	ret[n] = '\0';
	return true;
}

static bool is_utf8(const char *name)
{
	AUTO_JSON *text = NULL;
	const char *c = name;

	while (*c && !(*c & 0x80))
		c++;
	/* ASCII is valid UTF-8, so only other names need a check. */
	text = *c ? json_string(name) : NULL;
	return !*c || text;
}

static int decode_tensor(struct save_table *t, struct table_rest *r,
			 struct error *err)
{
	const char *head = rest_take(r, HEAD_LEN), *dims, *digests;
	const size_t n_dims = head ? (uint8_t)head[7] : 0;
	char name[SAVE_NAME_MAX + 1], dtype[sizeof(dtypes->name)];
	uint64_t shape[DIMS_MAX], len;
	int rc;

	if (!head || n_dims > DIMS_MAX || get_le32(head) >= SAVE_RANKS_MAX ||
	    !rest_take_text(r, get_le16(head + 4), name, sizeof(name)) ||
	    !rest_take_text(r, (uint8_t)head[6], dtype, sizeof(dtype)) ||
	    !is_utf8(name))
		return error_set(err, EBADMSG, "a table that is none");
	dims = rest_take(r, n_dims * sizeof(*shape));
	for (size_t i = 0; i < n_dims && dims; i++)
		shape[i] = get_le64(dims + i * sizeof(*shape));
	len = dims ? shape_bytes(dtype_find(dtype), shape, n_dims) : 0;
	/* Digests are taken before memory is allocated, so a forged length cannot allocate
	 * more than was sent. */
	digests = rest_take(r, chunks_of(len) * DIGEST_SIZE);
	if (!dims || !digests)
		return error_set(err, EBADMSG,
				 "'%.60s' has not its shape, type or digests",
				 name);
	rc = save_table_add(t, name, dtype, shape, n_dims, len, err);
	if (rc < 0)
		return rc;
	t->tensors[t->n - 1].rank = get_le32(head);
	memcpy(t->tensors[t->n - 1].chunks, digests,
	       t->tensors[t->n - 1].n_chunks * DIGEST_SIZE);
	return 0;
}

int save_table_decode(const char *data, size_t len, struct save_table *ret,
		      struct error *err)
{
	struct table_rest r = { data, len };
	const char *head = rest_take(&r, 4);
	const uint32_t n = head ? get_le32(head) : UINT32_MAX;
	int rc = 0;

	*ret = (struct save_table){ .n = 0 };
	if (n > SAVE_TENSORS_MAX)
		return error_set(err, EBADMSG, "a table that is none");
	while (ret->n < n && rc == 0)
		rc = decode_tensor(ret, &r, err);
	if (rc == 0 && r.len)
		rc = error_set(err, EBADMSG, "a table with more behind it");
	if (rc == 0)
		rc = save_table_finish(ret, err);
	if (rc < 0)
		save_table_fini(ret);
	return rc;
}
