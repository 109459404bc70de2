// SPDX-License-Identifier: Apache-2.0
/* Makes the contents of the file and its units. save_assign.c chooses which nodes keep and
 * write them. */
#include "groupio/save_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/parts.h"
#include "common/bytes.h"
#include "common/json.h"

/* Smaller tensors are not merged: they may be equal by chance (norms of ones), and keep
 * their names in the file. */
#define ALIAS_MIN SAVE_CHUNK
#define FILE_MAX (UINT64_C(1) << 42)
#define HEAD_MAX (100u << 20) /* limit of safetensors */
#define HEAD_ALIGN 64u

/* A tensor of a rank while the plan is made. */
struct item {
	struct save_tensor *tensor;
	unsigned int node;
	/* name of the content in the file; set in the first item of each content */
	char *key;
	size_t first; /* index of the first item with the same content */
};

struct making {
	struct save_plan *plan;
	struct item *items; /* sorted by name, content, rank */
	size_t n;
	size_t self;
	/* maps names that are not in the file to names that are */
	json_t *aliases;
};

/* ----------------------------------------------------------------- what is equal --- */

static int compare_content(const struct item *x, const struct item *y)
{
	const struct save_tensor *a = x->tensor, *b = y->tensor;
	int order = memcmp(&a->content, &b->content, sizeof(a->content));

	if (!order)
		order = strcmp(a->dtype, b->dtype);
	if (!order)
		order = (a->n_dims > b->n_dims) - (a->n_dims < b->n_dims);
	return order ? order
		     : memcmp(a->dims, b->dims, a->n_dims * sizeof(*a->dims));
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = strcmp(x->tensor->name, y->tensor->name);

	if (!order)
		order = compare_content(x, y);
	if (!order)
		order = x->tensor->rank < y->tensor->rank
				? -1
				: x->tensor->rank > y->tensor->rank;
	return order ? order : (x->node < y->node ? -1 : x->node > y->node);
}

static bool tensor_is_zero(const struct save_tensor *t)
{
	for (uint32_t i = 0; i < t->n_chunks; i++)
		if (!save_chunk_is_zero(&t->chunks[i]))
			return false;
	return true;
}

static int add_alias(struct making *m, const char *name, const char *key)
{
	return json_object_set_new(m->aliases, name, json_string(key));
}

static char *rank_name(const struct save_tensor *t)
{
	AUTO_BUF b = BUF_INIT;

	if (buf_printf(&b, "%s@rank%u", t->name, t->rank) < 0)
		return NULL;
	return buf_steal(&b);
}

/* Items from..to-1 have the same name. If all have the same content, it gets this name in
 * the file; else each content is named after its first rank, and the names of other ranks
 * become aliases. */
static int name_items_of_one_name(struct making *m, size_t from, size_t to)
{
	const bool agree =
		compare_content(&m->items[from], &m->items[to - 1]) == 0;
	size_t first = from;

	for (size_t i = from; i < to; i++) {
		struct item *x = &m->items[i];
		AUTO_FREE char *name = NULL;

		if (compare_content(x, &m->items[first]) != 0)
			first = i;
		x->first = first;
		if (agree) {
			x->key = i == first ? strdup(x->tensor->name) : NULL;
			if (i == first && !x->key)
				return -ENOMEM;
			continue;
		}
		name = rank_name(x->tensor);
		if (!name)
			return -ENOMEM;
		if (i == first)
			x->key = steal_ptr(&name);
		else if (x->tensor->rank != m->items[first].tensor->rank &&
			 add_alias(m, name, m->items[first].key) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int name_all_items(struct making *m)
{
	int rc = 0;

	for (size_t i = 0, to; i < m->n && rc == 0; i = to) {
		for (to = i + 1;
		     to < m->n && strcmp(m->items[to].tensor->name,
					 m->items[i].tensor->name) == 0;)
			to++;
		rc = name_items_of_one_name(m, i, to);
	}
	return rc;
}

static int compare_named(const void *a, const void *b)
{
	const struct item *x = *(struct item *const *)a;
	const struct item *y = *(struct item *const *)b;
	const int order = compare_content(x, y);

	return order ? order : strcmp(x->key, y->key);
}

/* Merge equal contents with several names (tied weights): the file has only the first name. */
static int merge_names_of_tied_weights(struct making *m)
{
	AUTO_FREE struct item **all =
		(struct item **)calloc(m->n + 1, sizeof(*all));
	struct item *kept = NULL;
	size_t n = 0;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < m->n; i++)
		if (m->items[i].key)
			all[n++] = &m->items[i];
	qsort(all, n, sizeof(*all), compare_named);
	for (size_t i = 0; i < n; i++) {
		struct item *x = all[i];

		if (!kept || compare_content(kept, x) != 0) {
			kept = x;
			continue;
		}
		if (x->tensor->len < ALIAS_MIN || tensor_is_zero(x->tensor))
			continue;
		if (add_alias(m, x->key, kept->key) < 0)
			return -ENOMEM;
		free(x->key);
		x->key = NULL;
		x->first = (size_t)(kept - m->items);
	}
	return 0;
}

/* Resolve aliases whose target has become an alias. */
static int resolve_aliases(struct making *m)
{
	const char *name;
	json_t *v, *of;
	void *next;

	json_object_foreach_safe(m->aliases, next, name, v)
	{
		of = json_object_get(m->aliases, json_string_value(v));
		if (of && json_object_set(m->aliases, name, of) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* --------------------------------------------------------------------- the file --- */

static unsigned int get_dtype_width(const struct save_tensor *t)
{
	static const char *const wide[] = { "64", "32", "16" };

	for (unsigned int i = 0; i < ARRAY_SIZE(wide); i++)
		if (strstr(t->dtype, wide[i]))
			return 8u >> i;
	return 1;
}

/* Order of tensors in the file: wide types first, so that each tensor is aligned; zeros
 * together, so that they form holes; tensors of the same nodes together, so that few units mix
 * nodes. */
static int compare_entries(const void *a, const void *b)
{
	const struct save_entry *x = a, *y = b;
	const unsigned int wx = get_dtype_width(x->tensor),
			   wy = get_dtype_width(y->tensor);

	if (wx != wy)
		return wx > wy ? -1 : 1;
	if (x->is_zero != y->is_zero)
		return x->is_zero ? 1 : -1;
	if (x->holders != y->holders)
		return x->holders < y->holders ? -1 : 1;
	return strcmp(x->key, y->key);
}

static int place_entries(struct making *m, struct error *err)
{
	struct save_plan *p = m->plan;
	uint64_t at = 0, chunks = 0;

	qsort(p->entries, p->n_entries, sizeof(*p->entries), compare_entries);
	for (size_t i = 0; i < p->n_entries; i++) {
		struct save_entry *e = &p->entries[i];

		e->start = at;
		e->first_chunk = (uint32_t)chunks;
		at += e->tensor->len;
		chunks += e->tensor->n_chunks;
		if (at > FILE_MAX || chunks > UINT32_MAX)
			return error_set(err, EFBIG,
					 "more than 4 TiB in one file: save "
					 "them by more than one");
		if (!e->is_zero)
			p->unique += e->tensor->len;
	}
	p->size = at;
	p->n_chunks = (uint32_t)chunks;
	return 0;
}

/* Make the file's entries. They take over the keys of first items, by whose pointers the
 * items find their entries. */
static int make_entries(struct making *m, struct error *err)
{
	struct save_plan *p = m->plan;
	AUTO_FREE size_t *index = calloc(m->n + 1, sizeof(*index));

	p->entries = calloc(m->n + 1, sizeof(*p->entries));
	if (!p->entries || !index)
		return error_nomem(err);
	for (size_t i = 0; i < m->n; i++) {
		struct item *x = &m->items[i];

		if (!x->key)
			continue;
		index[i] = p->n_entries;
		p->entries[p->n_entries++] = (struct save_entry){
			.tensor = x->tensor,
			.key = steal_ptr(&x->key),
			.is_zero = tensor_is_zero(x->tensor),
		};
	}
	for (size_t i = 0; i < m->n; i++) {
		const struct item *x = &m->items[i];
		/* The first item may itself have been tied to another one. */
		const size_t first = m->items[x->first].first;
		struct save_entry *e = &p->entries[index[first]];

		e->holders |= UINT64_C(1) << x->node;
		if (x->node == m->self && !e->data)
			e->data = x->tensor->data;
		x->tensor->entry = (uint32_t)index[first];
		p->given += x->tensor->len;
	}
	return 0;
}

/* qsort moved the entries, so give the tensors the new numbers. */
static int renumber_tensors(struct making *m, struct error *err)
{
	struct save_plan *p = m->plan;
	AUTO_FREE uint32_t *to = calloc(p->n_entries + 1, sizeof(*to));

	if (!to)
		return error_nomem(err);
	for (size_t i = 0; i < p->n_entries; i++)
		to[p->entries[i].tensor->entry] = (uint32_t)i;
	for (size_t i = 0; i < m->n; i++)
		m->items[i].tensor->entry = to[m->items[i].tensor->entry];
	return 0;
}

static json_t *entry_json(const struct save_entry *e)
{
	const struct save_tensor *t = e->tensor;
	json_t *shape = json_array();

	for (size_t i = 0; i < t->n_dims && shape; i++) {
		json_t *dim = json_integer((json_int_t)t->dims[i]);

		if (json_array_append_new(shape, dim) < 0) {
			json_decref(shape);
			return NULL;
		}
	}
	return shape ? json_pack("{s:s,s:o,s:[I,I]}", "dtype", t->dtype,
				 "shape", shape, "data_offsets",
				 (json_int_t)e->start,
				 (json_int_t)(e->start + t->len))
		     : NULL;
}

/* Refuse an alias that equals a name in the file, as one would hide the other. */
static int check_aliases(const struct making *m, const json_t *root,
			 struct error *err)
{
	const char *name;
	json_t *v;

	json_object_foreach(m->aliases, name, v)
	{
		if (json_object_get(root, name))
			return error_set(err, EINVAL,
					 "'%.60s' would be two tensors", name);
	}
	return 0;
}

static int make_head(struct making *m, struct error *err)
{
	struct save_plan *p = m->plan;
	AUTO_JSON *root = json_object();
	AUTO_FREE char *text = NULL;
	uint8_t len[8] = { 0 };
	size_t n, padded;

	if (json_object_get(m->aliases, "format"))
		return error_set(err, EINVAL,
				 "'format' is no name of a tied tensor");
	if (json_object_set_new(m->aliases, "format", json_string("pt")) < 0 ||
	    json_object_set(root, "__metadata__", m->aliases) < 0)
		return error_nomem(err);
	for (size_t i = 0; i < p->n_entries; i++)
		if (json_object_set_new(root, p->entries[i].key,
					entry_json(&p->entries[i])) < 0)
			return error_nomem(err);
	if (json_object_size(root) != p->n_entries + 1)
		return error_set(err, EINVAL, "two tensors have one name");
	if (check_aliases(m, root, err) < 0)
		return -EINVAL;
	text = json_dumps(root, JSON_COMPACT);
	if (!text)
		return error_nomem(err);
	n = strlen(text);
	padded = (n + 8 + HEAD_ALIGN - 1) / HEAD_ALIGN * HEAD_ALIGN - 8;
	if (padded > HEAD_MAX)
		return error_set(err, EFBIG, "too many tensors for one file");
	for (size_t i = 0; i < 8; i++)
		len[i] = (uint8_t)(padded >> 8 * i);
	if (buf_append(&p->head, len, 8) < 0 || buf_puts(&p->head, text) < 0)
		return error_nomem(err);
	while (p->head.len < padded + 8)
		if (buf_puts(&p->head, " ") < 0)
			return error_nomem(err);
	for (size_t i = 0; i < p->n_entries; i++)
		p->entries[i].start += p->head.len;
	p->size += p->head.len;
	return 0;
}

/* ------------------------------------------------------------------------ units --- */

/* The entry with the chunk is the last whose first_chunk is not above `c`: entries without
 * bytes share their number with the next entry, or stand behind all. */
struct save_chunk save_plan_chunk(const struct save_plan *p, uint32_t c)
{
	size_t low = 0, high = p->n_entries;

	while (high - low > 1) {
		const size_t mid = low + (high - low) / 2;

		if (p->entries[mid].first_chunk > c)
			high = mid;
		else
			low = mid;
	}
	return (struct save_chunk){ &p->entries[low],
				    c - p->entries[low].first_chunk };
}

static uint64_t unit_end(const struct save_plan *p, uint64_t u)
{
	const uint64_t end = (u + 1) * p->unit;

	return end < p->size ? end : p->size;
}

static bool range_is_zero(const struct save_entry *e, uint64_t from,
			  uint64_t to)
{
	if (e->is_zero)
		return true;
	for (uint64_t c = from / SAVE_CHUNK; c * SAVE_CHUNK < to; c++)
		if (!save_chunk_is_zero(&e->tensor->chunks[c]))
			return false;
	return true;
}

static bool unit_is_zero(const struct save_plan *p, uint64_t u)
{
	const uint64_t from = u * p->unit, to = unit_end(p, u);

	if (from < p->head.len)
		return false;
	for (size_t i = save_plan_find(p, from);
	     i < p->n_entries && p->entries[i].start < to; i++) {
		const struct save_entry *e = &p->entries[i];
		const uint64_t end = e->start + e->tensor->len;

		if (e->tensor->len &&
		    !range_is_zero(e, from > e->start ? from - e->start : 0,
				   (to < end ? to : end) - e->start))
			return false;
	}
	return true;
}

static int cut_units(struct save_plan *p, struct error *err)
{
	p->unit = p->size <= CKPT_PART_SMALL ? CKPT_PART_CHUNK : SAVE_UNIT;
	p->n_units = (p->size + p->unit - 1) / p->unit;
	p->units = calloc(p->n_units + 1, sizeof(*p->units));
	p->stored = calloc(p->n_units + 1, sizeof(*p->stored));
	if (!p->units || !p->stored)
		return error_nomem(err);
	for (uint64_t u = 0; u < p->n_units; u++) {
		if (!unit_is_zero(p, u))
			p->stored[u] = (uint32_t)(unit_end(p, u) - u * p->unit);
		p->to_store += p->stored[u];
	}
	return 0;
}

/* ---------------------------------------------------------------- who asks when --- */

/* Distance to the next node, counting upwards, that has the first bytes of the unit that
 * this node lacks; 0: this node lacks none. */
static uint8_t unit_distance(const struct save_plan *p, uint64_t u, size_t self)
{
	const uint64_t from = u * p->unit, to = from + p->stored[u];

	for (size_t i = save_plan_find(p, from);
	     i < p->n_entries && p->entries[i].start < to; i++) {
		const struct save_entry *e = &p->entries[i];
		const uint64_t end = e->start + e->tensor->len;

		if (e->data ||
		    range_is_zero(e, from > e->start ? from - e->start : 0,
				  (to < end ? to : end) - e->start))
			continue;
		for (uint8_t d = 1; d < p->n_nodes; d++)
			if (e->holders >> (self + d) % p->n_nodes & 1)
				return d;
	}
	return 0;
}

int save_plan_order(const struct save_plan *p, size_t self, uint64_t **ret,
		    size_t *ret_n, struct error *err)
{
	AUTO_FREE uint64_t *order = calloc(p->n_units + 1, sizeof(*order));
	AUTO_FREE uint8_t *far = calloc(p->n_units + 1, 1);
	uint64_t n = 0;

	if (!order || !far)
		return error_nomem(err);
	for (uint64_t u = 0; u < p->n_units; u++)
		far[u] = !p->stored[u] || !save_unit_is_kept(&p->units[u], self)
				 ? UINT8_MAX
			 : u + 1 == p->n_units ? (uint8_t)p->n_nodes
					       : unit_distance(p, u, self);
	for (unsigned int d = 0; d <= p->n_nodes; d++)
		for (uint64_t u = 0; u < p->n_units; u++)
			if (far[u] == d)
				order[n++] = u;
	*ret = steal_ptr(&order);
	*ret_n = (size_t)n;
	return 0;
}

/* ------------------------------------------------------------------ what a unit has --- */

/* Hash bytes from..to-1 of an entry, which lie at `at` in the unit, by the digests of their
 * chunks. */
static int hash_range(struct hasher *h, const struct save_entry *e, uint64_t at,
		      uint64_t from, uint64_t to)
{
	const uint64_t first = from / SAVE_CHUNK;
	const uint64_t n = (to + SAVE_CHUNK - 1) / SAVE_CHUNK - first;
	uint8_t where[24];

	put_le64(where, at);
	put_le64(where + 8, from % SAVE_CHUNK);
	put_le64(where + 16, to - from);
	if (hasher_update(h, where, sizeof(where)) < 0)
		return -ENOMEM;
	return hasher_update(h, e->tensor->chunks + first,
			     n * sizeof(*e->tensor->chunks));
}

int save_plan_unit_digest(const struct save_plan *p, uint64_t u,
			  struct digest *ret, struct error *err)
{
	const uint64_t from = u * p->unit, to = from + p->stored[u];
	AUTO(hasher) h = hasher_new();
	uint8_t len[8];
	int rc = h ? 0 : -ENOMEM;

	/* Units of another size or with other lengths must get other digests. */
	put_le32(len, p->stored[u]);
	put_le32(len + 4, p->unit);
	if (rc == 0)
		rc = hasher_update(h, len, sizeof(len));
	if (rc == 0 && from < p->head.len)
		rc = hasher_update(h, p->head.data + from,
				   (to < p->head.len ? to : p->head.len) -
					   from);
	for (size_t i = save_plan_find(p, from);
	     i < p->n_entries && p->entries[i].start < to && rc == 0; i++) {
		const struct save_entry *e = &p->entries[i];
		const uint64_t end = e->start + e->tensor->len;
		const uint64_t begin = from > e->start ? from : e->start;

		if (e->tensor->len)
			rc = hash_range(h, e, begin - from, begin - e->start,
					(to < end ? to : end) - e->start);
	}
	if (rc == 0)
		rc = hasher_final(h, ret);
	return rc < 0 ? error_nomem(err) : 0;
}

/* ---------------------------------------------------------------------- the plan --- */

static int collect_items(struct making *m, struct save_table *tables,
			 struct error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < m->plan->n_nodes; i++)
		n += tables[i].n;
	m->items = calloc(n + 1, sizeof(*m->items));
	if (!m->items)
		return error_nomem(err);
	for (size_t i = 0; i < m->plan->n_nodes; i++)
		for (size_t k = 0; k < tables[i].n; k++)
			m->items[m->n++] =
				(struct item){ .tensor = &tables[i].tensors[k],
					       .node = (unsigned int)i };
	qsort(m->items, m->n, sizeof(*m->items), compare_items);
	for (size_t i = 1; i < m->n; i++) {
		const struct save_tensor *x = m->items[i - 1].tensor,
					 *y = m->items[i].tensor;

		if (x->rank == y->rank && strcmp(x->name, y->name) == 0)
			return error_set(err, EINVAL,
					 "rank %u has '%.60s' twice", x->rank,
					 x->name);
	}
	return 0;
}

static int make_plan(struct making *m, struct save_table *tables,
		     struct error *err)
{
	int rc = collect_items(m, tables, err);

	if (rc < 0)
		return rc;
	if (name_all_items(m) < 0 || merge_names_of_tied_weights(m) < 0 ||
	    resolve_aliases(m) < 0)
		return error_nomem(err);
	rc = make_entries(m, err);
	if (rc == 0)
		rc = place_entries(m, err);
	if (rc == 0)
		rc = renumber_tensors(m, err);
	if (rc == 0)
		rc = make_head(m, err);
	if (rc == 0)
		rc = cut_units(m->plan, err);
	return rc < 0 ? rc : save_plan_assign(m->plan, err);
}

int save_plan_make(struct save_table *tables, size_t n, size_t self,
		   struct save_plan **ret, struct error *err)
{
	struct making m = { .self = self, .aliases = json_object() };
	int rc;

	m.plan = calloc(1, sizeof(*m.plan));
	if (!m.plan || !m.aliases) {
		rc = error_nomem(err);
	} else {
		m.plan->n_nodes = n;
		rc = make_plan(&m, tables, err);
	}
	for (size_t i = 0; m.items && i < m.n; i++)
		free(m.items[i].key);
	free(m.items);
	json_decref(m.aliases);
	if (rc < 0)
		save_plan_free(m.plan);
	else
		*ret = m.plan;
	return rc;
}

int save_plan_hash(const struct save_plan *p, struct hasher *h)
{
	int rc = hasher_update(h, p->head.data, p->head.len);

	for (size_t i = 0; i < p->n_entries && rc == 0; i++)
		rc = hasher_update(h, &p->entries[i].tensor->content,
				   sizeof(p->entries[i].tensor->content));
	if (rc == 0)
		rc = hasher_update(h, p->units, p->n_units * sizeof(*p->units));
	return rc < 0 ? rc
		      : hasher_update(h, p->stored,
				      p->n_units * sizeof(*p->stored));
}

void save_plan_free(struct save_plan *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_entries; i++)
		free(p->entries[i].key);
	free(p->entries);
	free(p->units);
	free(p->stored);
	buf_fini(&p->head);
	free(p);
}
