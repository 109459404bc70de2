// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks in memory: each is a sealed memfd, which programs receive as it is. Blocks that this
 * node owns get three quarters of the memory, or more when copies of others' blocks leave some
 * unused; the copies get the rest. Unused blocks are evicted first, the least recently used
 * before others.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/cond.h"
#include "groupio/blocks_priv.h"

#define GUEST_SHARE 4u
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* ------------------------------ the functions here are called with the lock held --- */

static void count_memory(struct blocks *b)
{
	b->stats.memory_bytes = b->used;
}

static void give_back_block_memory(struct kept_block *k)
{
	struct blocks *b = k->all;

	b->used -= k->room;
	if (!k->is_owned)
		b->used_by_guests -= k->room;
	k->room = 0;
	count_memory(b);
}

static void forget_block(struct kept_block *k)
{
	if (!k->is_known)
		return;
	k->is_known = false;
	HASH_DELETE(hh, k->all->table, k);
}

static void free_block(struct kept_block *k)
{
	forget_block(k);
	give_back_block_memory(k);
	if (k->map)
		(void)munmap(k->map, k->len);
	fd_close(k->fd);
	free(k->offer);
	free(k);
}

static struct block_list *list_of(struct kept_block *k)
{
	return k->is_owned ? &k->all->owned : &k->all->guests;
}

static void ref_block(struct kept_block *k)
{
	if (!k->refs++ && k->state == BLOCK_HERE && k->is_known)
		TAILQ_REMOVE(list_of(k), k, unused);
}

static void unref_block(struct kept_block *k)
{
	if (--k->refs)
		return;
	if (k->state == BLOCK_HERE && k->is_known)
		TAILQ_INSERT_TAIL(list_of(k), k, unused);
	else
		free_block(k);
}

static struct kept_block *find_block(struct blocks *b, const char *name)
{
	struct kept_block *k;

	HASH_FIND(hh, b->table, name, BLOCK_NAME_LEN, k);
	return k;
}

static struct kept_block *new_block(struct blocks *b, const char *name)
{
	struct kept_block *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->all = b;
	k->fd = -1;
	memcpy(k->name, name, BLOCK_NAME_LEN);
	HASH_ADD(hh, b->table, name, BLOCK_NAME_LEN, k);
	if (!hash_has_added(k)) {
		free(k);
		return NULL;
	}
	k->is_known = true;
	return k;
}

static bool evict_one(struct blocks *b)
{
	struct kept_block *guest = TAILQ_FIRST(&b->guests);
	struct kept_block *own = TAILQ_FIRST(&b->owned);
	const bool is_guest =
		guest &&
		(!own || b->used_by_guests > b->cfg.memory / GUEST_SHARE);
	struct kept_block *k = is_guest ? guest : own;

	if (!k)
		return false;
	TAILQ_REMOVE(list_of(k), k, unused);
	free_block(k);
	b->stats.evicted_total++;
	return true;
}

static bool take_block_room(struct kept_block *k, uint64_t len)
{
	struct blocks *b = k->all;

	while (b->used + len > b->cfg.memory ||
	       HASH_COUNT(b->table) > b->n_blocks_max)
		if (!evict_one(b))
			return false;
	k->room = len;
	b->used += len;
	if (!k->is_owned)
		b->used_by_guests += len;
	count_memory(b);
	return true;
}

/* ------------------------------- the functions here are called from other files --- */

struct kept_block *block_join(struct blocks *b, const char *name,
			      bool *ret_is_new)
{
	struct kept_block *k;

	(void)pthread_mutex_lock(&b->lock);
	k = find_block(b, name);
	*ret_is_new = !k;
	if (!k)
		k = new_block(b, name);
	if (k)
		ref_block(k);
	(void)pthread_mutex_unlock(&b->lock);
	return k;
}

struct kept_block *block_find(struct blocks *b, const char *name)
{
	struct kept_block *k;

	(void)pthread_mutex_lock(&b->lock);
	k = find_block(b, name);
	if (k)
		ref_block(k);
	(void)pthread_mutex_unlock(&b->lock);
	return k;
}

struct kept_block *block_find_here(struct blocks *b, const char *name)
{
	struct kept_block *k;

	(void)pthread_mutex_lock(&b->lock);
	k = find_block(b, name);
	if (k && k->state != BLOCK_HERE)
		k = NULL;
	if (k)
		ref_block(k);
	(void)pthread_mutex_unlock(&b->lock);
	return k;
}

bool block_is_here(struct blocks *b, const char *name)
{
	const struct kept_block *k;
	bool is_here;

	(void)pthread_mutex_lock(&b->lock);
	k = find_block(b, name);
	is_here = k && k->state == BLOCK_HERE;
	(void)pthread_mutex_unlock(&b->lock);
	return is_here;
}

void block_unref(struct kept_block *k)
{
	struct blocks *b = k->all;

	(void)pthread_mutex_lock(&b->lock);
	unref_block(k);
	(void)pthread_mutex_unlock(&b->lock);
}

static void set_block_result(struct kept_block *k, int rc,
			     const struct error *why)
{
	k->state = rc < 0 ? BLOCK_NONE : BLOCK_HERE;
	if (rc < 0) {
		k->err = *why;
		forget_block(k);
	}
	(void)pthread_cond_broadcast(&k->all->changed);
}

void block_end(struct kept_block *k, int rc, const struct error *why)
{
	(void)pthread_mutex_lock(&k->all->lock);
	set_block_result(k, rc, why);
	(void)pthread_mutex_unlock(&k->all->lock);
	blocks_kick(k->all);
}

bool block_note_offer(struct kept_block *k, const struct block_member *from)
{
	struct block_member *offer = malloc(sizeof(*offer));
	bool is_noted;

	(void)pthread_mutex_lock(&k->all->lock);
	is_noted = offer && k->state == BLOCK_COMING && !k->offer;
	if (is_noted) {
		*offer = *from;
		k->offer = offer;
	}
	(void)pthread_mutex_unlock(&k->all->lock);
	if (!is_noted)
		free(offer);
	return is_noted;
}

bool block_end_unless_offered(struct kept_block *k, int rc,
			      const struct error *why, struct block_member *ret)
{
	AUTO_FREE struct block_member *offer = NULL;

	(void)pthread_mutex_lock(&k->all->lock);
	if (rc < 0) {
		offer = k->offer;
		k->offer = NULL;
	}
	if (offer)
		*ret = *offer;
	else
		set_block_result(k, rc, why);
	(void)pthread_mutex_unlock(&k->all->lock);
	blocks_kick(k->all);
	if (!offer)
		return false;
	return true;
}

int block_wait(struct kept_block *k, int64_t until_ns, struct error *err)
{
	struct blocks *b = k->all;
	bool in_time = true;
	int rc = 0;

	(void)pthread_mutex_lock(&b->lock);
	while (k->state == BLOCK_COMING && in_time &&
	       !atomic_load(&b->is_ending))
		in_time = cond_wait_until(&b->changed, &b->lock, until_ns);
	if (k->state == BLOCK_COMING)
		rc = error_set(err, ETIMEDOUT, "it has not come in time");
	else if (k->state == BLOCK_NONE)
		rc = error_set(err, k->err.code, "%s", k->err.msg);
	(void)pthread_mutex_unlock(&b->lock);
	return rc;
}

int block_take_memory(struct kept_block *k, int fd, uint64_t len,
		      struct error *err)
{
	struct blocks *b = k->all;
	bool ok;

	(void)pthread_mutex_lock(&b->lock);
	ok = k->room || take_block_room(k, len);
	if (ok) {
		k->fd = fd;
		k->len = len;
	}
	(void)pthread_mutex_unlock(&b->lock);
	return ok ? 0
		  : error_set(err, ENOBUFS,
			      "all of --group-blocks is in use: give the mount "
			      "more");
}

void block_set_seal(struct kept_block *k, const struct block_seal *s)
{
	(void)pthread_mutex_lock(&k->all->lock);
	k->seal = *s;
	k->is_sealed = true;
	(void)pthread_mutex_unlock(&k->all->lock);
	blocks_kick(k->all);
}

/* Count the block among those that this node owns; call it before the state becomes
 * BLOCK_HERE. */
void block_set_owned(struct kept_block *k)
{
	struct blocks *b = k->all;

	(void)pthread_mutex_lock(&b->lock);
	if (!k->is_owned)
		b->used_by_guests -= k->room;
	k->is_owned = true;
	(void)pthread_mutex_unlock(&b->lock);
}

int block_map(struct kept_block *k, const void **ret, struct error *err)
{
	struct blocks *b = k->all;
	int rc = 0;

	(void)pthread_mutex_lock(&b->lock);
	if (!k->map) {
		k->map = mmap(NULL, k->len, PROT_READ, MAP_SHARED, k->fd, 0);
		if (k->map == MAP_FAILED) {
			k->map = NULL;
			rc = error_errno(err, errno, "map a block");
		}
	}
	if (rc == 0)
		k->n_maps++;
	*ret = k->map;
	(void)pthread_mutex_unlock(&b->lock);
	return rc;
}

void block_unmap(struct kept_block *k)
{
	struct blocks *b = k->all;

	(void)pthread_mutex_lock(&b->lock);
	if (!--k->n_maps) {
		(void)munmap(k->map, k->len);
		k->map = NULL;
	}
	(void)pthread_mutex_unlock(&b->lock);
}

/* Free all blocks; call it when none is in use. */
void blocks_forget_all(struct blocks *b)
{
	(void)pthread_mutex_lock(&b->lock);
	while (evict_one(b))
		b->stats.evicted_total--;
	(void)pthread_mutex_unlock(&b->lock);
}

/* --------------------------------------------------- receiving the bytes of a block --- */

int block_fill_begin(struct block_fill *f, struct kept_block *k, uint64_t len,
		     struct error *err)
{
	struct blocks *b = k->all;
	bool ok;

	*f = (struct block_fill){ .block = k, .fd = -1, .len = len };
	(void)pthread_mutex_lock(&b->lock);
	ok = take_block_room(k, len);
	(void)pthread_mutex_unlock(&b->lock);
	if (!ok)
		return error_set(err, ENOBUFS,
				 "all of --group-blocks is in use: give the "
				 "mount more");
	f->fd = memfd_create("bootseer-block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* -ENOBUFS tells the caller that the shortage is here, and no fault of the sending
	 * member. */
	if (f->fd < 0 || ftruncate(f->fd, (off_t)len) < 0)
		return error_set(err, ENOBUFS, "memory of a block: %s",
				 strerror(errno));
	f->map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (f->map != MAP_FAILED)
		return 0;
	f->map = NULL;
	return error_set(err, ENOBUFS, "map a block: %s", strerror(errno));
}

int block_fill_end(struct block_fill *f, const struct block_seal *seal,
		   struct error *err)
{
	struct digest sum;

	if (f->got != f->len || seal->len != f->len)
		return error_set(err, EBADMSG, "a block of another length");
	if (digest_of(f->map, f->len, &sum) < 0)
		return error_nomem(err);
	if (!digest_equal(&sum, &seal->sum))
		return error_set(err, EBADMSG, "other bytes than were sealed");
	(void)munmap(f->map, f->len);
	f->map = NULL;
	/* Programs receive this memory, and must not be able to change what others read. */
	if (fcntl(f->fd, F_ADD_SEALS, SEALS) < 0)
		return error_errno(err, errno, "seal a block");
	block_set_seal(f->block, seal);
	return block_take_memory(f->block, steal_fd(&f->fd), f->len, err);
}

void block_fill_fini(struct block_fill *f)
{
	if (f->map)
		(void)munmap(f->map, f->len);
	fd_close(f->fd);
	/* Give back the room of a failed fetch: another fetch of the block may follow. */
	if (f->block && f->block->fd < 0) {
		(void)pthread_mutex_lock(&f->block->all->lock);
		give_back_block_memory(f->block);
		(void)pthread_mutex_unlock(&f->block->all->lock);
	}
}
