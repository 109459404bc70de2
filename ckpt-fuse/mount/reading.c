// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/reading.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

#include "ckpt-fuse/mount/readahead.h"
#include "ckpt-fuse/mount/zip_order.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/mutex.h"

#define CHUNK MIB
/* After this time without reads, a reader may have left the file: some programs first read the
 * beginnings of many files. */
#define ACTIVE_NS (5 * NS_PER_S)
/* A file of fewer units is read completely before its order could be used. */
#define ORDER_UNITS_MIN 4u

/* A block: bytes of a file within one unit. Blocks of a file do not overlap. */
struct read_block {
	struct work work;
	struct reading *r;
	TAILQ_ENTRY(read_block) of_file;
	/* in the list while it is ready and n_users is 0 */
	TAILQ_ENTRY(read_block) idle;
	uint64_t off;
	/* bytes; number of bytes that were given to readers */
	size_t len, n_had;
	char *data;
	unsigned int n_users;
	bool is_ready;
	int rc;
	struct error err;
};

struct reading {
	struct readings *all;
	struct grouped_file *file;
	uint64_t size, unit;
	atomic_uint refs;
	/* this and the members below are protected by readings.lock */
	TAILQ_HEAD(, read_block) blocks;
	TAILQ_ENTRY(reading) active;
	/* time of the last sequential read; 0: not in the list `active` */
	int64_t used_ns;
	unsigned int n_coming;
	struct readahead ahead;
	struct work order_work;
	bool is_order_asked;
	bool is_left;            /* the last reference was released */
	bool stays;              /* no read-ahead */
	uint64_t had;            /* bytes that were requested */
	struct zip_order *order; /* NULL: the order is unknown */
};

void readings_init(struct readings *all)
{
	(void)pthread_mutex_init(&all->lock, NULL);
	(void)pthread_cond_init(&all->came, NULL);
	TAILQ_INIT(&all->idle);
	TAILQ_INIT(&all->active);
}

void readings_fini(struct readings *all)
{
	(void)pthread_cond_destroy(&all->came);
	(void)pthread_mutex_destroy(&all->lock);
}

/* The part of the tables' memory that counts against the budget. */
static uint64_t budget_part_of_tables(const struct readings *all,
				      uint64_t tables)
{
	return tables > all->tables_own ? tables - all->tables_own : 0;
}

static void give_table_memory(struct readings *all, uint64_t bytes)
{
	(void)pthread_mutex_lock(&all->lock);
	budget_give(all->budget,
		    budget_part_of_tables(all, all->tables) -
			    budget_part_of_tables(all, all->tables - bytes));
	all->tables -= bytes;
	(void)pthread_mutex_unlock(&all->lock);
}

/* Take memory for tables. Tables of all open files may use half of the budget, large ones a
 * quarter, so that a few forged manifests cannot keep other files from being opened. */
static bool take_table_memory(struct readings *all, uint64_t bytes)
{
	const uint64_t share = all->budget->most / (bytes > MIB ? 4 : 2);
	bool is_within, ok;

	do {
		(void)pthread_mutex_lock(&all->lock);
		is_within = all->tables + bytes <= share;
		ok = is_within &&
		     budget_take(all->budget,
				 budget_part_of_tables(all,
						       all->tables + bytes) -
					 budget_part_of_tables(all,
							       all->tables));
		all->tables += ok ? bytes : 0;
		(void)pthread_mutex_unlock(&all->lock);
	} while (!ok && ((all->group && group_shed(all->group)) ||
			 (is_within && readings_shrink(all))));
	return ok;
}

/* Forget the readers. Slices of all ranks are in one file, so otherwise blocks that other group
 * members send unasked would displace those that are needed. */
static void forget_readers(struct reading *r)
{
	readahead_init(&r->ahead, r->unit, r->all->readahead_most);
	if (r->all->group)
		r->ahead.share = 1;
}

static void reading_give_tables(void *all, const struct ckpt_file *f)
{
	give_table_memory(all, ckpt_file_tables(f));
}

static int reading_refuse(struct ckpt_file *f, struct error *err)
{
	const uint64_t bytes = ckpt_file_tables(f);

	ckpt_close(f);
	return error_set(err, ENOBUFS,
			 "its checksums need %" PRIu64
			 " KiB, and files that are open have the memory: close "
			 "some, or give the mount more (--memory)",
			 bytes / KIB);
}

int reading_new(struct readings *all, struct ckpt_file *f, struct reading **ret,
		struct error *err)
{
	struct reading *r;
	int rc;

	if (!take_table_memory(all, ckpt_file_tables(f)))
		return reading_refuse(f, err);
	r = calloc(1, sizeof(*r));
	if (!r) {
		give_table_memory(all, ckpt_file_tables(f));
		ckpt_close(f);
		return error_nomem(err);
	}
	rc = grouped_file_new(all->group, all->cache, f, reading_give_tables,
			      all, &r->file, err);
	if (rc < 0) {
		free(r);
		return rc;
	}
	r->all = all;
	r->size = ckpt_file_stat(f)->size;
	r->unit = ckpt_file_unit(f);
	atomic_init(&r->refs, 1);
	TAILQ_INIT(&r->blocks);
	forget_readers(r);
	*ret = r;
	return 0;
}

void reading_stay(struct reading *r)
{
	(void)pthread_mutex_lock(&r->all->lock);
	r->stays = true;
	(void)pthread_mutex_unlock(&r->all->lock);
}

struct reading *reading_ref(struct reading *r)
{
	atomic_fetch_add(&r->refs, 1);
	return r;
}

struct ckpt_file *reading_file(struct reading *r)
{
	return grouped_file_get(r->file);
}

/* --------------------------------------------------------------------- blocks --- */

/* Free a block without users. Called with the lock held. */
static void block_free(struct read_block *b)
{
	struct readings *all = b->r->all;

	TAILQ_REMOVE(&b->r->blocks, b, of_file);
	/* n_had may exceed len, since two readers may have taken the same bytes. */
	if (b->rc == -ECANCELED)
		atomic_fetch_sub(&all->bytes_ahead, b->len);
	else if (b->n_had < b->len)
		atomic_fetch_add(&all->bytes_unused, b->len - b->n_had);
	budget_memory_free(all->budget, b->data, b->len);
	budget_give_ahead(all->budget, b->len);
	free(b);
}

static void unlist_active_reading(struct reading *r)
{
	if (!r->used_ns)
		return;
	TAILQ_REMOVE(&r->all->active, r, active);
	r->all->n_active--;
	r->used_ns = 0;
}

/* Note a sequential read of the file. Called with the lock held. */
static void list_reading_as_active(struct reading *r)
{
	struct readings *all = r->all;
	const int64_t now_ns = clock_now_ns();
	struct reading *first;

	unlist_active_reading(r);
	r->used_ns = now_ns;
	TAILQ_INSERT_TAIL(&all->active, r, active);
	all->n_active++;
	while ((first = TAILQ_FIRST(&all->active)) &&
	       now_ns - first->used_ns > ACTIVE_NS)
		unlist_active_reading(first);
}

/* Free a reading without references and running requests. */
static void reading_free(struct reading *r)
{
	struct read_block *b;

	(void)pthread_mutex_lock(&r->all->lock);
	while ((b = TAILQ_FIRST(&r->blocks))) {
		TAILQ_REMOVE(&r->all->idle, b, idle);
		block_free(b);
	}
	unlist_active_reading(r);
	(void)pthread_mutex_unlock(&r->all->lock);
	zip_order_free(r->order);
	grouped_file_free(r->file);
	free(r);
}

/* Release a reference. Running reads are not waited for, because a slow store would delay the close
 * of the file; the last of them frees the reading. */
void reading_unref(struct reading *r)
{
	bool is_free;

	if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	(void)pthread_mutex_lock(&r->all->lock);
	r->is_left = true;
	is_free = !r->n_coming;
	(void)pthread_mutex_unlock(&r->all->lock);
	if (is_free)
		reading_free(r);
}

/* A request of the reading has ended. True: free the reading. Called with the lock held. */
static bool end_reading_request(struct reading *r)
{
	r->n_coming--;
	(void)pthread_cond_broadcast(&r->all->came);
	return r->is_left && !r->n_coming;
}

static bool is_left(struct reading *r)
{
	AUTO_UNLOCK held = mutex_hold(&r->all->lock);

	return r->is_left;
}

static struct read_block *find_block(struct reading *r, uint64_t off)
{
	struct read_block *b;

	TAILQ_FOREACH(b, &r->blocks, of_file)
	if (b->off <= off && off < b->off + b->len)
		return b;
	return NULL;
}

/* Where a new block for the byte begins: not before its unit, which may not be a multiple of
 * chunks, nor before the end of another block. */
static uint64_t find_block_begin(struct reading *r, uint64_t off)
{
	uint64_t from = off / CHUNK * CHUNK, unit = off / r->unit * r->unit;
	struct read_block *b;

	if (from < unit)
		from = unit;
	TAILQ_FOREACH(b, &r->blocks, of_file)
	if (b->off <= off && b->off + b->len > from)
		from = b->off + b->len;
	return from;
}

/* Where a new block at `off` must end. */
static uint64_t find_block_end(struct reading *r, uint64_t off, uint64_t wanted)
{
	uint64_t end = (off / r->unit + 1) * r->unit, other;
	struct read_block *b;

	if (end > wanted)
		end = wanted;
	if (end > r->size)
		end = r->size;
	/* Stop where another reader's part begins. */
	other = round_up(readahead_end(&r->ahead, off, end), CHUNK);
	if (other < end)
		end = other;
	TAILQ_FOREACH(b, &r->blocks, of_file)
	if (b->off > off && b->off < end)
		end = b->off;
	return end;
}

static void run_block_read(struct work *work)
{
	struct read_block *b = container_of(work, struct read_block, work);
	struct reading *r = b->r;
	int rc = is_left(r) ? -ECANCELED
			    : grouped_file_read(r->file, b->off, b->data,
						b->len, &b->err);
	bool is_free;

	(void)pthread_mutex_lock(&r->all->lock);
	b->rc = rc;
	b->is_ready = true;
	if (!b->n_users)
		TAILQ_INSERT_TAIL(&r->all->idle, b, idle);
	is_free = end_reading_request(r);
	(void)pthread_mutex_unlock(&r->all->lock);
	if (is_free)
		reading_free(r);
}

/* Number of bytes that will be read before the block is needed again. */
static uint64_t get_block_distance(const struct read_block *b)
{
	const struct reading *r = b->r;
	uint64_t distance = readahead_distance(&r->ahead, b->off, b->len);

	return distance && r->order
		       ? zip_order_distance(r->order, b->off, b->len)
		       : distance;
}

/* Note that a block was not read ahead or was dropped unread. A reader that returns to a file it
 * left starts like a new one. */
static void note_lost_block(struct reading *r, uint64_t off, uint64_t len)
{
	if (r->order)
		zip_order_lost(r->order, off, len);
	if (r->used_ns)
		readahead_lost(&r->ahead, off);
	else
		forget_readers(r);
}

/* Find the block that will be needed last. */
static struct read_block *find_block_needed_last(struct readings *all)
{
	struct read_block *b, *furthest = NULL;
	uint64_t most = 0;

	TAILQ_FOREACH(b, &all->idle, idle)
	{
		uint64_t distance = get_block_distance(b);

		if (furthest && distance <= most)
			continue;
		furthest = b;
		most = distance;
	}
	return furthest;
}

/* Choose a block to drop: the least recently used one of a file that was not read lately, or one
 * that was partly read and is not being continued, as programs that read here and there leave
 * behind. If a program waits for the memory, also a block that was read ahead. NULL: none. Called
 * with the lock held. */
static struct read_block *find_block_to_drop(struct readings *all,
					     bool is_ahead)
{
	struct read_block *b;

	TAILQ_FOREACH(b, &all->idle, idle)
	if (b->rc < 0 || !b->r->used_ns ||
	    (b->n_had && get_block_distance(b) > 0))
		return b;
	return is_ahead ? NULL : find_block_needed_last(all);
}

/* With the lock. */
static void drop_block(struct read_block *b)
{
	note_lost_block(b->r, b->off, b->len);
	TAILQ_REMOVE(&b->r->all->idle, b, idle);
	block_free(b);
}

bool readings_shrink(struct readings *all)
{
	struct read_block *b;

	(void)pthread_mutex_lock(&all->lock);
	b = find_block_to_drop(all, false);
	if (b)
		drop_block(b);
	(void)pthread_mutex_unlock(&all->lock);
	return b != NULL;
}

/* With the lock. */
static bool take_block_memory(struct readings *all, uint64_t bytes,
			      bool is_ahead)
{
	uint64_t freed = 0;

	while (!budget_take_ahead(all->budget, bytes)) {
		struct read_block *b = find_block_to_drop(all, is_ahead);

		/* Enough memory was freed, but others waited for it before. */
		if (!b || freed >= bytes)
			return false;
		freed += b->len;
		drop_block(b);
	}
	return true;
}

/* Make a block to read; NULL: memory is short. */
static struct read_block *block_new(struct reading *r, uint64_t off,
				    uint64_t end, bool is_ahead)
{
	struct read_block *b;

	if (!take_block_memory(r->all, end - off, is_ahead))
		return NULL;
	b = calloc(1, sizeof(*b));
	if (b)
		b->data = budget_memory(r->all->budget, (size_t)(end - off));
	if (!b || !b->data) {
		budget_give_ahead(r->all->budget, end - off);
		free(b);
		return NULL;
	}
	b->work.run = run_block_read;
	b->r = r;
	b->off = off;
	b->len = (size_t)(end - off);
	TAILQ_INSERT_TAIL(&r->blocks, b, of_file);
	r->n_coming++;
	atomic_fetch_add(&r->all->bytes_ahead, b->len);
	return b;
}

/* Start reads ahead. False: memory is short. Called with the lock held. */
static bool read_ahead(struct reading *r, const struct readahead_advice *a)
{
	uint64_t off = a->from / CHUNK * CHUNK;

	while (off < a->to && off < r->size) {
		struct read_block *b = find_block(r, off);
		uint64_t end =
			b ? b->off + b->len : find_block_end(r, off, a->to);

		if (!b) {
			b = block_new(r, off, end, true);
			if (!b) {
				note_lost_block(r, off, end - off);
				return false;
			}
			(void)!pool_submit(r->all->pool, &b->work);
		}
		off = end;
	}
	return true;
}

/* ---------------------------------------------------------------------- order --- */

/* Read bytes for the parser of the order; NULL: not possible now. */
static char *read_part(struct reading *r, const struct zip_range *at)
{
	struct error ignored = ERROR_INIT;
	char *part;

	if (!budget_take_ahead(r->all->budget, at->len))
		return NULL;
	part = malloc((size_t)at->len);
	if (part && grouped_file_read(r->file, at->off, part, (size_t)at->len,
				      &ignored) == 0)
		return part;
	free(part);
	budget_give_ahead(r->all->budget, at->len);
	return NULL;
}

static void drop_part(struct reading *r, char *part, const struct zip_range *at)
{
	free(part);
	budget_give_ahead(r->all->budget, at->len);
}

static struct zip_order *parse_order(struct reading *r, const char *directory,
				     const struct zip_range *at)
{
	struct zip_order *o = NULL;

	return zip_order_new(directory, (size_t)at->len, r->size, &o) == 0
		       ? o
		       : NULL;
}

static struct zip_order *read_order(struct reading *r)
{
	uint64_t from = (r->size - ZIP_TAIL_MIN) / CHUNK * CHUNK;
	struct zip_range tail = { .off = from, .len = r->size - from }, dir;
	struct zip_order *o = NULL;
	char *part = read_part(r, &tail);
	bool is_there;

	if (!part)
		return NULL;
	is_there = zip_find_directory(part, (size_t)tail.len, r->size, &dir) ==
			   0 &&
		   dir.len <= ZIP_DIRECTORY_MAX;
	if (is_there && dir.off >= from)
		o = parse_order(r, part + (dir.off - from), &dir);
	drop_part(r, part, &tail);
	if (!is_there || dir.off >= from)
		return o;
	part = read_part(r, &dir);
	if (!part)
		return NULL;
	o = parse_order(r, part, &dir);
	drop_part(r, part, &dir);
	return o;
}

static void run_order_read(struct work *work)
{
	struct reading *r = container_of(work, struct reading, order_work);
	struct zip_order *o = is_left(r) ? NULL : read_order(r);
	bool is_free;

	(void)pthread_mutex_lock(&r->all->lock);
	r->order = o;
	is_free = end_reading_request(r);
	(void)pthread_mutex_unlock(&r->all->lock);
	if (is_free)
		reading_free(r);
}

/* Ask for the order of a file, if a reader begins at its end, where a zip directory is. Called with
 * the lock held. */
static void begin_order_read(struct reading *r, uint64_t off, size_t len)
{
	if (off + len == r->size && !r->is_order_asked &&
	    r->size > ORDER_UNITS_MIN * r->unit && r->had < r->size / 4) {
		r->is_order_asked = true;
		r->order_work.run = run_order_read;
		r->n_coming++;
		(void)!pool_submit(r->all->pool, &r->order_work);
	}
	r->had += len;
}

/* Read ahead in the known order. False: nothing is known about what follows these bytes. Called
 * with the lock held. */
static bool read_ahead_in_zip_order(struct reading *r, uint64_t off, size_t len)
{
	struct zip_range x;

	if (!r->order ||
	    !zip_order_note(r->order, off, len, READAHEAD_FIRST * r->unit,
			    r->ahead.most))
		return false;
	while (zip_order_next(r->order, &x)) {
		struct readahead_advice a = {
			.from = x.off,
			.to = round_up(x.off + x.len, CHUNK),
		};

		if (!read_ahead(r, &a))
			break;
	}
	return true;
}

/* The memory that one of the currently read files may use for blocks. The ranks of a job read their
 * files in parallel; if the first ones took all the memory, the others would displace the blocks
 * that those need next. Called with the lock held. */
static uint64_t get_readahead_share(const struct reading *r)
{
	const unsigned int n = r->all->n_active;

	return r->all->budget->most_ahead / (n ? n : 1);
}

/* With the lock. */
static void set_readahead_window(struct reading *r)
{
	const uint64_t share = get_readahead_share(r),
		       most = r->all->readahead_most;
	const unsigned int n = readahead_count(&r->ahead);

	r->ahead.most = share < most ? share : most;
	/* With several readers of one file, divide its share, so that they do not displace each
	 * other's next blocks; the blocks being read come on top. */
	if (n > 1 && !r->order && r->ahead.most > share / (n + 1))
		r->ahead.most = share / (n + 1);
}

/* Get a reference to the block with the byte; a new one must be read by the caller. NULL: no memory
 * for a block. Called with the lock held. */
static struct read_block *take_block(struct reading *r, uint64_t off,
				     const struct readahead_advice *a,
				     bool *ret_is_new)
{
	/* A known order predicts better than jumps do. */
	const uint64_t until = r->order         ? UINT64_MAX
			       : a->until > off ? a->until
						: off + 1;
	struct read_block *b = find_block(r, off);
	uint64_t from, to;

	*ret_is_new = !b;
	if (!b) {
		from = find_block_begin(r, off);
		to = from + CHUNK;
		if (a->is_sequential && get_readahead_share(r) >= r->unit)
			to = until > from + r->unit ? from + r->unit
						    : round_up(until, CHUNK);
		b = block_new(r, from, find_block_end(r, from, to), false);
	}
	if (b && !b->n_users++ && b->is_ready)
		TAILQ_REMOVE(&r->all->idle, b, idle);
	return b;
}

/* With the lock. */
static void release_block(struct read_block *b)
{
	if (--b->n_users)
		return;
	/* Free a block that was read completely: the kernel has the bytes cached. */
	if (b->rc < 0 || b->n_had >= b->len)
		block_free(b);
	else
		TAILQ_INSERT_TAIL(&b->r->all->idle, b, idle);
}

/* ---------------------------------------------------------------------- reads --- */

/* Get a reference to the block with the byte, and wait until it is read. NULL: no memory for a
 * block. */
static struct read_block *wait_block(struct reading *r, uint64_t off,
				     const struct readahead_advice *a)
{
	struct readings *all = r->all;
	struct read_block *b;
	bool is_new;

	(void)pthread_mutex_lock(&all->lock);
	b = take_block(r, off, a, &is_new);
	(void)pthread_mutex_unlock(&all->lock);
	if (!b)
		return NULL;
	if (is_new)
		run_block_read(&b->work);
	(void)pthread_mutex_lock(&all->lock);
	while (!b->is_ready)
		(void)pthread_cond_wait(&all->came, &all->lock);
	(void)pthread_mutex_unlock(&all->lock);
	return b;
}

/* Lend bytes of one more block; returns how many, or -errno; 0: no block available. */
static int64_t lend_bytes_of_block(struct reading *r, uint64_t off, size_t len,
				   const struct readahead_advice *a,
				   struct reading_loan *loan, struct error *err)
{
	struct read_block *b =
		loan->n < READING_PARTS_MAX ? wait_block(r, off, a) : NULL;
	uint64_t left;
	int rc;

	if (!b)
		return 0;
	if (b->rc < 0) {
		rc = b->rc;
		if (err)
			*err = b->err;
		(void)pthread_mutex_lock(&r->all->lock);
		release_block(b);
		(void)pthread_mutex_unlock(&r->all->lock);
		return rc;
	}
	left = b->off + b->len - off;
	loan->blocks[loan->n] = b;
	loan->parts[loan->n++] = (struct iovec){
		.iov_base = b->data + (off - b->off),
		.iov_len = (size_t)(left < len ? left : len),
	};
	return (int64_t)loan->parts[loan->n - 1].iov_len;
}

void reading_return(struct reading *r, struct reading_loan *loan)
{
	(void)pthread_mutex_lock(&r->all->lock);
	for (size_t i = 0; i < loan->n && loan->blocks[i]; i++) {
		loan->blocks[i]->n_had += loan->parts[i].iov_len;
		release_block(loan->blocks[i]);
	}
	(void)pthread_mutex_unlock(&r->all->lock);
	free(loan->own);
	*loan = (struct reading_loan){ .n = 0 };
}

/* Read the whole range from the store into a buffer of its own, because memory for blocks is short
 * or there are too many blocks. */
static int lend_own_buffer(struct reading *r, uint64_t off, size_t len,
			   struct reading_loan *loan, struct error *err)
{
	reading_return(r, loan);
	loan->own = malloc(len);
	if (!loan->own)
		return error_nomem(err);
	loan->n = 1;
	loan->parts[0] =
		(struct iovec){ .iov_base = loan->own, .iov_len = len };
	return grouped_file_read(r->file, off, loan->own, len, err);
}

static int lend_bytes_of_blocks(struct reading *r, uint64_t off, size_t len,
				const struct readahead_advice *a,
				struct reading_loan *loan, struct error *err)
{
	for (size_t done = 0; done < len;) {
		int64_t n = lend_bytes_of_block(r, off + done, len - done, a,
						loan, err);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return lend_own_buffer(r, off, len, loan, err);
		done += (size_t)n;
	}
	return 0;
}

int64_t reading_lend(struct reading *r, uint64_t off, size_t len,
		     struct reading_loan *ret, struct error *err)
{
	struct readahead_advice a;
	int rc;

	*ret = (struct reading_loan){ .n = 0 };
	if (off >= r->size)
		return 0;
	if (len > r->size - off)
		len = (size_t)(r->size - off);
	(void)pthread_mutex_lock(&r->all->lock);
	a = readahead_note(&r->ahead, off, len, r->size);
	if (!r->stays) {
		if (a.goes_on || r->order)
			list_reading_as_active(r);
		set_readahead_window(r);
		begin_order_read(r, off, len);
		if (!read_ahead_in_zip_order(r, off, len))
			(void)read_ahead(r, &a);
	}
	(void)pthread_mutex_unlock(&r->all->lock);
	rc = lend_bytes_of_blocks(r, off, len, &a, ret, err);
	if (rc < 0) {
		reading_return(r, ret);
		return rc;
	}
	atomic_fetch_add(&r->all->bytes_read, len);
	return (int64_t)len;
}
