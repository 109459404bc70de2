// SPDX-License-Identifier: Apache-2.0
/*
 * Reads and writes of blocks. A read searches this node's memory, then sends a request to the
 * block's owner, which searches its own memory and the store; when no owner answers, this node
 * reads the store itself. A block that a program puts is in memory at once, soon after at its
 * owner, and then in the store.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "groupio/blocks_priv.h"
#include "groupio/group_priv.h"

#define THREADS 8u
/* owners that may fail before this node reads the store itself */
#define TRIES_MAX 3u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define GET_NS (120 * NS_PER_S)
/* Blocks may use one in so many of the descriptors that the process may have. */
#define FILES_PART 2u

/* ------------------------------------------------------------------------ reading --- */

enum block_from { FROM_MEMBER, FROM_STORE };

static int fetch_bytes(struct kept_block *k, bool is_asked,
		       enum block_from *ret, struct error *err)
{
	struct blocks *b = k->all;
	struct block_member m;

	for (unsigned int i = 0; i < TRIES_MAX && !is_asked; i++) {
		int rc;

		if (!blocks_owner(b, k->name, &m))
			break;
		*ret = FROM_MEMBER;
		rc = block_peer_fetch(k, &m, "", err);
		if (rc == 0 || rc == -ENOENT || rc == -ENOBUFS ||
		    rc == -ECANCELED)
			return rc;
		if (rc == -EBUSY)
			break;
		blocks_silence(b, &m, err->msg);
	}
	*ret = FROM_STORE;
	if (is_asked || !blocks_owner(b, k->name, &m))
		block_set_owned(k);
	return block_store_fetch(k, err);
}

/* End a fetch that failed with `rc`, but first try the members that have offered the block
 * since the search began. Returns the final result. */
static int fetch_from_offers(struct kept_block *k, int rc, struct error *err)
{
	struct blocks *b = k->all;
	struct block_member from;

	while (block_end_unless_offered(k, rc, err, &from)) {
		block_set_owned(k);
		rc = block_peer_fetch(k, &from, "/memory", err);
		if (rc < 0 && rc != -ENOENT && rc != -ENOBUFS && rc != -EBUSY &&
		    rc != -ECANCELED)
			blocks_silence(b, &from, err->msg);
	}
	return rc;
}

void blocks_fetch(struct kept_block *k, bool is_asked)
{
	struct blocks *b = k->all;
	struct error err = ERROR_INIT;
	enum block_from from = FROM_STORE;
	const int rc = fetch_bytes(k, is_asked, &from, &err);

	(void)pthread_mutex_lock(&b->lock);
	if (rc == 0 && !is_asked && from == FROM_MEMBER)
		b->stats.member_total++;
	if (rc == 0 && !is_asked && from == FROM_STORE)
		b->stats.store_total++;
	(void)pthread_mutex_unlock(&b->lock);
	if (rc < 0 && fetch_from_offers(k, rc, &err) == 0)
		block_store_write(k);
	else if (rc == 0)
		block_end(k, 0, NULL);
}

int blocks_get(struct blocks *b, const char *name, struct kept_block **ret,
	       struct error *err)
{
	bool is_new;
	struct kept_block *k = block_join(b, name, &is_new);
	int rc;

	if (!k)
		return error_nomem(err);
	if (is_new)
		blocks_fetch(k, false);
	rc = block_wait(k, clock_now_ns() + GET_NS, err);
	(void)pthread_mutex_lock(&b->lock);
	b->stats.memory_total += rc == 0 && !is_new;
	b->stats.none_total += rc < 0;
	(void)pthread_mutex_unlock(&b->lock);
	if (rc < 0)
		block_unref(k);
	else
		*ret = k;
	return rc;
}

int blocks_has(struct blocks *b, const char *name, struct error *err)
{
	struct block_member m;
	int rc;

	if (block_is_here(b, name))
		return 0;
	for (unsigned int i = 0; i < TRIES_MAX; i++) {
		if (!blocks_owner(b, name, &m))
			break;
		rc = block_peer_tell(b, &m, name, "/head", err);
		if (rc == 0 || rc == -ENOENT || rc == -ECANCELED)
			return rc;
		if (rc == -EBUSY)
			break;
		blocks_silence(b, &m, err->msg);
	}
	return block_store_has(b, name, err);
}

/* ------------------------------------------------------------------------ writing --- */

struct block_settle {
	struct work work;
	struct kept_block *block;
};

/* Offer the block to its owner, which fetches it and writes it to the store. */
static void offer_to_owner(struct kept_block *k)
{
	struct blocks *b = k->all;
	struct error err = ERROR_INIT;
	struct block_member m;
	int rc;

	if (blocks_owner(b, k->name, &m)) {
		rc = block_peer_tell(b, &m, k->name, "/offer", &err);
		if (rc == 0 || rc == -ECANCELED)
			return;
		if (rc != -EBUSY)
			blocks_silence(b, &m, err.msg);
	}
	/* The owner did not take the block, so this node stores it; the owner will find it
	 * there. */
	block_store_write(k);
}

static int seal_block(struct kept_block *k, struct error *err)
{
	struct block_seal seal;
	const void *data;
	int rc = block_map(k, &data, err);

	if (rc < 0)
		return rc;
	rc = block_seal_make(&k->all->secret, k->name, data, k->len, &seal);
	block_unmap(k);
	if (rc < 0)
		return error_nomem(err);
	block_set_seal(k, &seal);
	return 0;
}

static void pass_block_on(struct kept_block *k)
{
	struct blocks *b = k->all;
	struct error err = ERROR_INIT;
	const int rc = seal_block(k, &err);

	/* End the block, since other nodes would wait for bytes that cannot be sent without
	 * a seal. */
	if (rc < 0) {
		log_warning("blocks", "not passed on name=\"%s\" reason=\"%s\"",
			    k->name, err.msg);
		block_end(k, rc, &err);
	} else if (!atomic_load(&b->is_ending)) {
		offer_to_owner(k);
	}
	(void)pthread_mutex_lock(&b->lock);
	b->n_tasks--;
	(void)pthread_mutex_unlock(&b->lock);
	block_unref(k);
}

static void run_block_settle(struct work *w)
{
	struct block_settle *s = container_of(w, struct block_settle, work);

	pass_block_on(s->block);
	free(s);
}

/* Start passing the block on in a thread; takes a reference. When too many blocks wait
 * already, the calling thread does the work, which slows the program down. */
static void begin_to_pass_block_on(struct kept_block *k)
{
	struct blocks *b = k->all;
	struct block_settle *s = NULL;
	bool is_short;

	(void)pthread_mutex_lock(&b->lock);
	is_short = ++b->n_tasks > BLOCK_TASKS_MAX;
	(void)pthread_mutex_unlock(&b->lock);
	if (!is_short)
		s = calloc(1, sizeof(*s));
	if (s) {
		s->work.run = run_block_settle;
		s->block = k;
		if (pool_submit(b->pool, &s->work) == 0)
			return;
		free(s);
	}
	pass_block_on(k);
}

static int check_memory(struct blocks *b, int fd, uint64_t *ret_len,
			struct error *err)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	/* F_GET_SEALS fails for an ordinary file with -1, whose bits are all set. */
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0)
		return error_set(err, EINVAL, "the memory is not sealed");
	if (st.st_size < 1 || (uint64_t)st.st_size > BLOCK_MAX ||
	    (uint64_t)st.st_size > b->cfg.memory / 2)
		return error_set(
			err, EFBIG,
			"a block has 1 byte at least, 1 GiB and a half "
			"of --group-blocks at most");
	*ret_len = (uint64_t)st.st_size;
	return 0;
}

/* Begin a block that a program puts; 1: it is in memory already. Waits for a fetch of the
 * block that is running: if that finds nothing, it must not end the put block too. */
static int join_to_put(struct blocks *b, const char *name,
		       struct kept_block **ret, struct error *err)
{
	const int64_t until_ns = clock_now_ns() + GET_NS;
	struct error ignored = ERROR_INIT;
	bool is_new;
	int rc;

	do {
		struct kept_block *k = block_join(b, name, &is_new);

		if (!k)
			return error_nomem(err);
		if (is_new) {
			*ret = k;
			return 0;
		}
		rc = block_wait(k, until_ns, &ignored);
		block_unref(k);
		if (rc == 0)
			return 1;
	} while (clock_now_ns() < until_ns && !atomic_load(&b->is_ending));
	return error_set(err, ETIMEDOUT, "%s", ignored.msg);
}

/* Keep a block. If the name is in memory already, the bytes there stay, since a name always
 * stands for the same bytes. */
int blocks_put(struct blocks *b, const char *name, int fd, struct error *err)
{
	struct error why = ERROR_INIT;
	struct block_member m;
	struct kept_block *k = NULL;
	uint64_t len = 0;
	int rc = check_memory(b, fd, &len, err);

	if (rc == 0)
		rc = join_to_put(b, name, &k, err);
	if (rc) {
		(void)close(fd);
		return rc < 0 ? rc : 0;
	}
	if (!blocks_owner(b, name, &m))
		block_set_owned(k);
	rc = block_take_memory(k, fd, len, &why);
	if (rc < 0) {
		(void)close(fd);
		(void)error_set(err, why.code, "%s", why.msg);
	}
	block_end(k, rc, &why);
	if (rc < 0) {
		block_unref(k);
		return rc;
	}
	(void)pthread_mutex_lock(&b->lock);
	b->stats.put_total++;
	(void)pthread_mutex_unlock(&b->lock);
	begin_to_pass_block_on(k);
	return 0;
}

void blocks_pull(struct blocks *b, const char *name,
		 const struct block_member *from)
{
	struct error err = ERROR_INIT;
	bool is_new, is_noted;
	struct kept_block *k = block_join(b, name, &is_new);

	if (!k)
		return;
	/* The thread that is fetching the block tries the offer when it finds nothing. Do
	 * not wait for it here: the wait may be for this very thread. */
	is_noted = block_note_offer(k, from);
	(void)error_set(&err, ENOENT, "no node has it");
	if (is_new && is_noted && fetch_from_offers(k, -ENOENT, &err) == 0)
		block_store_write(k);
	else if (is_new && !is_noted)
		block_end(k, -ENOMEM, &err);
	block_unref(k);
}

/* ------------------------------------------------------------------------ the whole --- */

static enum pace_level blocks_pace_level(struct pace *p)
{
	return atomic_load(&container_of(p, struct blocks, pace)->is_ending)
		       ? PACE_STOP
		       : PACE_GO;
}

static void blocks_pace_nothing(struct pace *p)
{
	(void)p;
}

/* Raise the limit of open files, since each block in memory has a descriptor. */
static size_t raise_open_files_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return 256;
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
	return (size_t)r.rlim_cur / FILES_PART;
}

int blocks_new(const struct blocks_config *cfg, struct blocks **ret,
	       struct error *err)
{
	struct blocks *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return error_nomem(err);
	b->cfg = *cfg;
	if (cfg->group)
		b->secret = cfg->group->secret;
	b->n_blocks_max = raise_open_files_limit();
	b->pace = (struct pace){ .level = blocks_pace_level,
				 .moves = blocks_pace_nothing,
				 .wait = blocks_pace_nothing };
	TAILQ_INIT(&b->waiters);
	TAILQ_INIT(&b->owned);
	TAILQ_INIT(&b->guests);
	(void)pthread_mutex_init(&b->lock, NULL);
	cond_init(&b->changed);
	rc = pool_new_lazy(THREADS, &b->pool, err);
	if (rc < 0)
		blocks_free(b);
	else
		*ret = b;
	return rc;
}

void blocks_cancel(struct blocks *b)
{
	if (!b)
		return;
	atomic_store(&b->is_ending, true);
	(void)pthread_mutex_lock(&b->lock);
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
	blocks_kick(b);
}

void blocks_end(struct blocks *b)
{
	const int64_t until_ns = clock_now_ns() + GET_NS;
	bool in_time = true;

	if (!b)
		return;
	if (b->loop && !b->is_closed) {
		b->close.fn = blocks_close;
		loop_post(b->loop, &b->close);
		(void)pthread_mutex_lock(&b->lock);
		while (!b->is_closed && in_time)
			in_time = cond_wait_until(&b->changed, &b->lock,
						  until_ns);
		(void)pthread_mutex_unlock(&b->lock);
	}
	pool_free(b->pool);
	b->pool = NULL;
}

void blocks_free(struct blocks *b)
{
	if (!b)
		return;
	blocks_end(b);
	blocks_forget_all(b);
	explicit_bzero(&b->secret, sizeof(b->secret));
	(void)pthread_cond_destroy(&b->changed);
	(void)pthread_mutex_destroy(&b->lock);
	free(b);
}

void blocks_stats(struct blocks *b, struct blocks_stats *ret)
{
	const uint64_t members = blocks_count_members(b);

	(void)pthread_mutex_lock(&b->lock);
	*ret = b->stats;
	ret->pending = b->n_tasks;
	(void)pthread_mutex_unlock(&b->lock);
	ret->members = members;
}
