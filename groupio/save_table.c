// SPDX-License-Identifier: Apache-2.0
/* Tables of tensors, and their text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bounded_json.h"
#include "groupio/save_plan.h"

#define DIMS_MAX 32u
#define VALUES_MAX (1u << 19)
#define TENSOR_MAX (UINT64_C(1) << 42) /* bytes */

static const struct {
	char name[8];
	unsigned int width;
} dtypes[] = {
	{ "BOOL", 1 },    { "U8", 1 },  { "I8", 1 },  { "F8_E4M3", 1 },
	{ "F8_E5M2", 1 }, { "U16", 2 }, { "I16", 2 }, { "F16", 2 },
	{ "BF16", 2 },    { "U32", 4 }, { "I32", 4 }, { "F32", 4 },
	{ "U64", 8 },     { "I64", 8 }, { "F64", 8 },
};

static unsigned int dtype_width(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++)
		if (strcmp(dtypes[i].name, name) == 0)
			return dtypes[i].width;
	return 0;
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
	uint64_t bytes = dtype_width(dtype);

	if (!*name || strlen(name) > SAVE_NAME_MAX ||
	    strcmp(name, "__metadata__") == 0 || strstr(name, "@rank"))
		return error_set(err, EINVAL,
				 "'%.60s': no name of a tensor: 1 to %u bytes, "
				 "without '@rank'",
				 name, SAVE_NAME_MAX);
	if (!bytes)
		return error_set(err, EINVAL,
				 "'%.60s' has the type '%.20s', "
				 "which safetensors has not",
				 name, dtype);
	for (size_t i = 0; i < n_dims; i++)
		if (__builtin_mul_overflow(bytes, shape[i], &bytes))
			bytes = UINT64_MAX;
	if (bytes == len && len <= TENSOR_MAX)
		return 0;
	return error_set(err, EINVAL,
			 "'%.60s' has %" PRIu64
			 " bytes, which are not those of its shape",
			 name, len);
}

static void tensor_fini(struct save_tensor *t)
{
	free(t->name);
	free(t->dtype);
	free(t->shape);
	free(t->chunks);
}

static char *shape_text(const uint64_t *shape, size_t n)
{
	AUTO_BUF b = BUF_INIT;
	int rc = buf_puts(&b, "[");

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = buf_printf(&b, "%s%" PRIu64, i ? "," : "", shape[i]);
	return rc == 0 && buf_puts(&b, "]") == 0 ? buf_steal(&b) : NULL;
}

int save_table_add(struct save_table *t, const char *name, const char *dtype,
		   const uint64_t *shape, size_t n_dims, uint64_t len,
		   struct error *err)
{
	struct save_tensor *x;
	int rc = check_tensor(name, dtype, shape, n_dims, len, err);

	if (rc < 0)
		return rc;
	if (array_grow(&t->tensors, t->n, &t->cap, 64) < 0)
		return error_nomem(err);
	x = &t->tensors[t->n];
	*x = (struct save_tensor){
		.name = strdup(name),
		.dtype = strdup(dtype),
		.shape = shape_text(shape, n_dims),
		.len = len,
		.n_chunks = (uint32_t)((len + SAVE_CHUNK - 1) / SAVE_CHUNK),
	};
	x->chunks = calloc(x->n_chunks + 1, sizeof(*x->chunks));
	if (!x->name || !x->dtype || !x->shape || !x->chunks) {
		tensor_fini(x);
		return error_nomem(err);
	}
	t->n++;
	return 0;
}

void save_table_fini(struct save_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		tensor_fini(&t->tensors[i]);
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

static int content_digest(struct hasher *h, struct save_tensor *t)
{
	int rc = hasher_update(h, t->dtype, strlen(t->dtype) + 1);

	if (rc == 0)
		rc = hasher_update(h, t->shape, strlen(t->shape) + 1);
	if (rc == 0)
		rc = hasher_update(h, t->chunks,
				   t->n_chunks * sizeof(*t->chunks));
	return rc < 0 ? rc : hasher_final(h, &t->content);
}

/* A hasher of its own for each tensor would cost more than all else here. */
int save_table_finish(struct save_table *t, struct error *err)
{
	AUTO(hasher) h = hasher_new();
	int rc = h ? 0 : -ENOMEM;

	for (size_t i = 0; i < t->n && rc == 0; i++)
		rc = content_digest(h, &t->tensors[i]);
	return rc < 0 ? error_nomem(err) : 0;
}

/* ------------------------------------------------------------------------ text --- */

static int put_hex(struct buf *b, const struct digest *d)
{
	static const char digits[] = "0123456789abcdef";
	char hex[2 * DIGEST_SIZE];

	for (size_t i = 0; i < DIGEST_SIZE; i++) {
		hex[2 * i] = digits[d->b[i] >> 4];
		hex[2 * i + 1] = digits[d->b[i] & 15];
	}
	return buf_append(b, hex, sizeof(hex));
}

static int hex_value(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
				      : -1;
}

static bool get_hex(const char *hex, struct digest *ret)
{
	for (size_t i = 0; i < DIGEST_SIZE; i++) {
		const int high = hex_value(hex[2 * i]);
		const int low = hex_value(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret->b[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static int put_tensor(struct buf *b, const struct save_tensor *t, bool is_first)
{
	AUTO_JSON *name = json_string(t->name);
	AUTO_FREE char *quoted =
		name ? json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	int rc = quoted ? buf_printf(b, "%s[%u,%s,\"%s\",%s,%" PRIu64 ",\"",
				     is_first ? "" : ",\n", t->rank, quoted,
				     t->dtype, t->shape, t->len)
			: -ENOMEM;

	for (uint32_t i = 0; i < t->n_chunks && rc == 0; i++)
		rc = put_hex(b, &t->chunks[i]);
	return rc < 0 ? rc : buf_puts(b, "\"]");
}

int save_table_encode(const struct save_table *t, struct buf *ret,
		      struct error *err)
{
	int rc = buf_puts(ret, "{\"tensors\":[");

	ret->limit = SAVE_TABLE_MAX;
	for (size_t i = 0; i < t->n && rc == 0; i++)
		rc = put_tensor(ret, &t->tensors[i], i == 0);
	if (rc == 0)
		rc = buf_puts(ret, "]}");
	if (rc == -EFBIG)
		return error_set(err, EFBIG,
				 "tensors of this node's ranks make a table "
				 "of more than %u bytes: save them by more "
				 "than one file",
				 SAVE_TABLE_MAX);
	return rc < 0 ? error_nomem(err) : 0;
}

static int decode_shape(const json_t *list, uint64_t shape[DIMS_MAX],
			struct error *err)
{
	const size_t n = json_array_size(list);

	if (!json_is_array(list) || n > DIMS_MAX)
		return error_set(err, EBADMSG, "a tensor without a shape");
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);

		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return error_set(err, EBADMSG, "a shape of no numbers");
		shape[i] = (uint64_t)json_integer_value(v);
	}
	return 0;
}

static int decode_digests(struct save_tensor *t, const char *hex,
			  struct error *err)
{
	bool ok = strlen(hex) == (size_t)t->n_chunks * 2 * DIGEST_SIZE;

	for (uint32_t i = 0; i < t->n_chunks && ok; i++)
		ok = get_hex(hex + (size_t)i * 2 * DIGEST_SIZE, &t->chunks[i]);
	return ok ? 0
		  : error_set(err, EBADMSG, "'%.60s' has not its digests",
			      t->name);
}

static int decode_tensor(struct save_table *t, json_t *v, struct error *err)
{
	const char *name, *dtype, *hex;
	json_int_t rank, len;
	uint64_t shape[DIMS_MAX];
	json_t *dims;
	int rc;

	if (json_unpack(v, "[I,s,s,o,I,s!]", &rank, &name, &dtype, &dims, &len,
			&hex) < 0 ||
	    rank < 0 || rank >= SAVE_RANKS_MAX || len < 0)
		return error_set(err, EBADMSG, "a line that is no tensor");
	/* Digests of the length are in the text: no more memory than that is taken. */
	if ((uint64_t)len / SAVE_CHUNK > SAVE_TABLE_MAX / (2 * DIGEST_SIZE))
		return error_set(err, EBADMSG, "'%.60s' is too large", name);
	rc = decode_shape(dims, shape, err);
	if (rc == 0)
		rc = save_table_add(t, name, dtype, shape,
				    json_array_size(dims), (uint64_t)len, err);
	if (rc < 0)
		return rc;
	t->tensors[t->n - 1].rank = (unsigned int)rank;
	return decode_digests(&t->tensors[t->n - 1], hex, err);
}

int save_table_take(const json_t *root, struct save_table *ret,
		    struct error *err)
{
	json_t *list = json_object_get(root, "tensors"), *v;
	size_t i;
	int rc = 0;

	*ret = (struct save_table){ .n = 0 };
	if (!json_is_array(list))
		return error_set(err, EBADMSG, "a table without tensors");
	json_array_foreach(list, i, v)
	{
		rc = decode_tensor(ret, v, err);
		if (rc < 0)
			break;
	}
	if (rc == 0)
		rc = save_table_finish(ret, err);
	if (rc < 0)
		save_table_fini(ret);
	return rc;
}

int save_table_decode(const char *text, size_t len, struct save_table *ret,
		      struct error *err)
{
	AUTO_JSON *root = NULL;
	int rc = bounded_json_load_large(text, len, VALUES_MAX, "a table",
					 &root, err);

	*ret = (struct save_table){ .n = 0 };
	return rc < 0 ? rc : save_table_take(root, ret, err);
}
