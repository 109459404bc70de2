// SPDX-License-Identifier: Apache-2.0
/* Blocks in the store: an object for each block, with the seal before the bytes
 * (docs/formats/blocks.md). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "groupio/blocks_priv.h"
#include "objects/store.h"

#define BLOCKS_FOLDER ".bootseer/blocks"
#define OBJECT_LEN (sizeof(BLOCKS_FOLDER) + 4 + BLOCK_NAME_LEN)
/* A node lists the stored blocks when it has written 1/8 of its share since the last list. */
#define TRIM_PART 8u
/* Objects listed in one pass; later passes see the rest. */
#define TRIM_OBJECTS_MAX (1u << 20)

static void object_name(const char *name, char ret[OBJECT_LEN])
{
	(void)snprintf(ret, OBJECT_LEN, BLOCKS_FOLDER "/%.2s/%s", name, name);
}

/* ------------------------------------------------------------------------ reading --- */

static int read_block(struct kept_block *k, struct object *o, struct error *err)
{
	const uint64_t size = object_opened_stat(o)->size;
	uint8_t head[BLOCK_SEAL_SIZE];
	AUTO_FINI(block_fill) f = { .fd = -1 };
	struct block_seal seal;
	struct object_range parts[2];
	int rc;

	if (size <= BLOCK_SEAL_SIZE || size - BLOCK_SEAL_SIZE > BLOCK_MAX)
		return error_set(err, EBADMSG, "an object of %" PRIu64 " bytes",
				 size);
	rc = block_fill_begin(&f, k, size - BLOCK_SEAL_SIZE, err);
	if (rc == 0) {
		parts[0] = (struct object_range){ 0, sizeof(head), head };
		parts[1] = (struct object_range){ sizeof(head), f.len, f.map };
		rc = object_read(o, parts, 2, 0, err);
		f.got = f.len;
	}
	if (rc == 0 && (block_seal_decode(head, &seal) < 0 ||
			!block_seal_is_ours(&k->all->secret, k->name, &seal)))
		rc = error_set(err, EBADMSG, "no member sealed it");
	if (rc == 0)
		rc = block_fill_end(&f, &seal, err);
	return rc;
}

int block_store_fetch(struct kept_block *k, struct error *err)
{
	struct blocks *b = k->all;
	struct object *o = NULL;
	char name[OBJECT_LEN];
	int rc;

	if (!b->cfg.stored)
		return error_set(err, ENOENT, "no node has it");
	object_name(k->name, name);
	rc = object_open(b->cfg.store, name, &o, err);
	if (rc < 0)
		return rc;
	rc = read_block(k, o, err);
	object_close(o);
	(void)pthread_mutex_lock(&b->lock);
	if (rc == 0)
		b->stats.fetched_bytes += k->len;
	b->stats.wrong_total += rc == -EBADMSG;
	(void)pthread_mutex_unlock(&b->lock);
	if (rc != -EBADMSG)
		return rc;
	log_warning("blocks", "not what a node put object=\"%s\" reason=\"%s\"",
		    name, err->msg);
	return error_set(err, ENOENT, "what is in the store is none of ours");
}

int block_store_has(struct blocks *b, const char *name, struct error *err)
{
	struct object_stat st;
	char object[OBJECT_LEN];

	if (!b->cfg.stored)
		return error_set(err, ENOENT, "no node has it");
	object_name(name, object);
	return object_stat(b->cfg.store, object, &st, err);
}

/* ----------------------------------------------------------------------- trimming --- */

struct block_object {
	char name[BLOCK_NAME_LEN + 1];
	uint64_t size;
	int64_t modified_ms;
};

struct stored_blocks {
	struct blocks *all;
	struct block_object *v;
	size_t n, cap;
	uint64_t bytes;
};

/* Note a stored block if this node owns it, whoever wrote it: each node trims the blocks it
 * owns. */
static int note_stored_object(void *arg, const struct object_entry *e,
			      struct error *err)
{
	struct stored_blocks *l = arg;
	const char *slash = strrchr(e->name, '/');
	struct block_member owner;
	struct block_object *s;

	if (!slash || !block_name_is_valid(slash + 1) ||
	    blocks_owner(l->all, slash + 1, &owner))
		return 0;
	l->bytes += e->stat.size;
	if (l->n == TRIM_OBJECTS_MAX)
		return 0;
	if (array_grow(&l->v, l->n, &l->cap, 256) < 0)
		return error_nomem(err);
	s = &l->v[l->n++];
	memcpy(s->name, slash + 1, sizeof(s->name));
	s->size = e->stat.size;
	s->modified_ms = e->stat.modified_ms;
	return 0;
}

static int compare_age(const void *a, const void *b)
{
	const struct block_object *x = a, *y = b;

	return (x->modified_ms > y->modified_ms) -
	       (x->modified_ms < y->modified_ms);
}

/* Remove the oldest blocks until the share is met. Blocks in memory were used lately, so
 * they stay. */
static void remove_oldest(struct stored_blocks *l, uint64_t share)
{
	struct blocks *b = l->all;
	struct error err = ERROR_INIT;
	char object[OBJECT_LEN];

	qsort(l->v, l->n, sizeof(*l->v), compare_age);
	for (unsigned int round = 0; round < 2; round++)
		for (size_t i = 0; i < l->n && l->bytes > share; i++) {
			struct block_object *s = &l->v[i];

			if (!s->size || (!round && block_is_here(b, s->name)))
				continue;
			object_name(s->name, object);
			if (object_delete(b->cfg.store, object, NULL, &err) < 0)
				continue;
			l->bytes -= s->size;
			s->size = 0;
			(void)pthread_mutex_lock(&b->lock);
			b->stats.dropped_total++;
			(void)pthread_mutex_unlock(&b->lock);
		}
}

static uint64_t get_own_share_of_store(struct blocks *b)
{
	return b->cfg.stored / (blocks_count_members(b) + 1);
}

static bool begin_trim(struct blocks *b, uint64_t written)
{
	const uint64_t share = get_own_share_of_store(b);
	bool is_due;

	(void)pthread_mutex_lock(&b->lock);
	b->stats.stored_bytes += written;
	b->stored_since += written;
	is_due = !b->is_trimming &&
		 (!b->was_trimmed || b->stored_since > share / TRIM_PART);
	if (is_due) {
		b->is_trimming = b->was_trimmed = true;
		b->stored_since = 0;
	}
	(void)pthread_mutex_unlock(&b->lock);
	return is_due;
}

/* List the stored blocks that this node owns and remove the oldest, so that there is room
 * for the writes until the next pass. */
static void trim_stored_blocks_once(struct blocks *b, uint64_t share)
{
	struct stored_blocks l = { .all = b };
	struct error err = ERROR_INIT;

	if (object_list(b->cfg.store, BLOCKS_FOLDER, true, note_stored_object,
			&l, &err) < 0)
		log_warning("blocks", "the store is not trimmed reason=\"%s\"",
			    err.msg);
	else
		remove_oldest(&l, share - share / TRIM_PART);
	free(l.v);
}

/* Trim the store. Blocks that are written during a pass may make another pass due. */
static void trim_store(struct blocks *b)
{
	const uint64_t share = get_own_share_of_store(b);
	bool is_due = true;

	while (is_due && !atomic_load(&b->is_ending)) {
		trim_stored_blocks_once(b, share);
		(void)pthread_mutex_lock(&b->lock);
		is_due = b->stored_since > share / TRIM_PART;
		b->stored_since = is_due ? 0 : b->stored_since;
		b->is_trimming = is_due;
		(void)pthread_mutex_unlock(&b->lock);
	}
}

/* ------------------------------------------------------------------------ writing --- */

static int write_block(struct kept_block *k, const void *data,
		       struct error *err)
{
	const struct object_put_options opts = { .size = BLOCK_SEAL_SIZE +
							 k->len };
	struct object_store *s = k->all->cfg.store;
	AUTO(object_put) p = NULL;
	uint8_t head[BLOCK_SEAL_SIZE];
	char name[OBJECT_LEN];
	struct object_stat st;
	int rc;

	object_name(k->name, name);
	block_seal_encode(&k->seal, head);
	rc = object_put_open(s, name, &opts, &p, err);
	if (rc == 0)
		rc = object_put_write(p, head, sizeof(head), err);
	if (rc == 0)
		rc = object_put_write(p, data, k->len, err);
	return rc < 0 ? rc : object_put_commit(p, &st, err);
}

void block_store_write(struct kept_block *k)
{
	struct blocks *b = k->all;
	struct error err = ERROR_INIT;
	const void *data;
	int rc;

	if (!b->cfg.stored || b->cfg.read_only ||
	    k->len > get_own_share_of_store(b))
		return;
	rc = block_map(k, &data, &err);
	if (rc == 0) {
		rc = write_block(k, data, &err);
		block_unmap(k);
	}
	if (rc < 0)
		log_warning("blocks", "not stored name=\"%s\" reason=\"%s\"",
			    k->name, err.msg);
	else if (begin_trim(b, k->len))
		trim_store(b);
}
