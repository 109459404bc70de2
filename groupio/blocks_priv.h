// SPDX-License-Identifier: Apache-2.0
/* Declarations that the files for blocks share. */
#ifndef BOOTSEER_GROUPIO_BLOCKS_PRIV_H
#define BOOTSEER_GROUPIO_BLOCKS_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "common/digest.h"
#include "common/hash.h"
#include "common/pace.h"
#include "groupio/blocks.h"
#include "net/http.h"
#include "net/httpd.h"
#include "net/loop.h"
#include "net/pool.h"

#define BLOCK_NAME_LEN 64u /* hex digits */
#define BLOCK_CACHE_MAX 256u
#define BLOCK_KEY_MAX 1024u
#define BLOCK_MAX (UINT64_C(1) << 30) /* bytes */
#define BLOCK_TASKS_MAX 1024u /* blocks that wait to be passed on or fetched */

/* ---- block_seal.c: pure functions */

/* The seal of a block: its length, the SHA-256 of its bytes, and a code that only members of
 * the group can make of these and the name. */
struct block_seal {
	uint64_t len;
	struct digest sum, code;
};

#define BLOCK_SEAL_SIZE 80u      /* bytes, in the store */
#define BLOCK_SEAL_TEXT_MAX 192u /* in an answer's header */

/* The name that nodes and the store use for the block with this key. Without the secret
 * nobody can compute it, or find the key from it. */
int block_name(const struct digest *secret, const char *cache, const void *key,
	       size_t len, char ret[BLOCK_NAME_LEN + 1]) MUST_CHECK;
bool block_name_is_valid(const char *name);
int block_seal_make(const struct digest *secret, const char *name,
		    const void *data, size_t len,
		    struct block_seal *ret) MUST_CHECK;
/* Was this seal made for this name by a member of the group? */
bool block_seal_is_ours(const struct digest *secret, const char *name,
			const struct block_seal *s);
void block_seal_encode(const struct block_seal *s,
		       uint8_t ret[BLOCK_SEAL_SIZE]);
int block_seal_decode(const uint8_t from[BLOCK_SEAL_SIZE],
		      struct block_seal *ret) MUST_CHECK;
void block_seal_format(const struct block_seal *s,
		       char ret[BLOCK_SEAL_TEXT_MAX]);
int block_seal_parse(const char *text, struct block_seal *ret) MUST_CHECK;
/* The member whose seed gives the highest weight owns the block. */
uint64_t block_weight(const char *name, uint64_t seed);
uint64_t block_member_seed(const char *member);

/* ---- block_table.c: the blocks in memory, and their budget */

struct block_member {
	char name[256], addr[64];
};

enum block_state {
	BLOCK_COMING, /* a thread is fetching it */
	BLOCK_HERE,
	BLOCK_NONE, /* it could not be fetched: `err` says why */
};

/* A block in memory, or being fetched. Protected by blocks.lock, except `fd` and `len`,
 * which do not change after BLOCK_HERE. */
struct kept_block {
	struct blocks *all;
	char name[BLOCK_NAME_LEN + 1];
	UT_hash_handle hh;
	TAILQ_ENTRY(kept_block)
	/* entry in the list of unused blocks, while refs is 0 and it is BLOCK_HERE */
	unused;
	enum block_state state;
	unsigned int refs;
	bool is_known;  /* in the table */
	bool is_owned;  /* this node is its owner */
	bool is_sealed; /* `seal` is made */
	int fd;         /* sealed memory with the bytes; -1: none yet */
	/* bytes of the block, and the bytes counted for it in blocks.used */
	uint64_t len, room;
	struct block_seal seal;
	/* a member that offered the block during the fetch, or NULL */
	struct block_member *offer;
	/* mapped bytes, while the block is being sent */
	void *map;
	unsigned int n_maps;
	struct error err;
};

TAILQ_HEAD(block_list, kept_block);

/* Another node's request that waits for a block; used on the loop only. */
struct block_waiter {
	TAILQ_ENTRY(block_waiter) of_all;
	struct httpd_request *request;
	struct kept_block *block;
	int64_t until_ns;
};

struct blocks {
	struct blocks_config cfg;
	struct digest secret;
	struct pool *pool;
	size_t n_blocks_max;
	atomic_bool is_ending;
	struct pace pace; /* stops transfers once is_ending is set */
	/* Set once, by blocks_begin(). */
	struct loop *loop;
	struct http *http;
	char addr[64];
	/* Used on the loop only: */
	struct loop_timer tick;
	struct loop_call kick, close;
	atomic_bool is_kicked;
	TAILQ_HEAD(, block_waiter) waiters;
	uint64_t sending; /* bytes that are being sent; with the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct kept_block *table;
	/* unused blocks, least recently used first */
	struct block_list owned, guests;
	uint64_t used, used_by_guests;
	size_t n_tasks; /* blocks.pending */
	size_t n_sessions;
	bool is_trimming, is_closed;
	/* bytes written since the store was last trimmed */
	uint64_t stored_since;
	bool was_trimmed;
	struct blocks_stats stats;
};

/* Get the block with this name, with a reference. *ret_is_new: it is BLOCK_COMING, and the
 * caller must fetch it and call block_end(). NULL: no memory. This and the functions below are
 * called without the lock. */
struct kept_block *block_join(struct blocks *b, const char *name,
			      bool *ret_is_new);
/* The block, with a reference, if it is in memory or being fetched; else NULL. */
struct kept_block *block_find(struct blocks *b, const char *name);
/* The block, with a reference, if it is in memory; else NULL. */
struct kept_block *block_find_here(struct blocks *b, const char *name);
/* Is the block in memory? Does not count as a use. */
bool block_is_here(struct blocks *b, const char *name);
void block_unref(struct kept_block *k);
/* End BLOCK_COMING: the block is here (rc 0), or could not be fetched. With rc < 0 it also
 * removes a block that is BLOCK_HERE, when its bytes cannot be sent. */
void block_end(struct kept_block *k, int rc, const struct error *why);
/* Note that another member has the block. False: this node has it too, or its fetch has
 * ended. */
bool block_note_offer(struct kept_block *k, const struct block_member *from);
/* As block_end(), but true, and nothing is ended, when the member `*ret` has offered a block
 * that could not be fetched. */
bool block_end_unless_offered(struct kept_block *k, int rc,
			      const struct error *why,
			      struct block_member *ret);
/* Wait until the block is BLOCK_HERE, cannot be fetched, or `until_ns` has come. */
int block_wait(struct kept_block *k, int64_t until_ns,
	       struct error *err) MUST_CHECK;
/* Use the sealed memory `fd` as the bytes of a block that is BLOCK_COMING. -ENOBUFS */
int block_take_memory(struct kept_block *k, int fd, uint64_t len,
		      struct error *err) MUST_CHECK;
void block_set_seal(struct kept_block *k, const struct block_seal *s);
void block_set_owned(struct kept_block *k);
/* Map the block's bytes until block_unmap(). */
int block_map(struct kept_block *k, const void **ret,
	      struct error *err) MUST_CHECK;
void block_unmap(struct kept_block *k);
void blocks_forget_all(struct blocks *b);

/* Memory that receives a block's bytes until they are verified. */
struct block_fill {
	struct kept_block *block;
	char *map; /* NULL: block_fill_begin() was not called */
	int fd;
	uint64_t len, got;
};
int block_fill_begin(struct block_fill *f, struct kept_block *k, uint64_t len,
		     struct error *err) MUST_CHECK;
/* Check the received bytes. -EBADMSG: they do not match the seal. */
int block_fill_end(struct block_fill *f, const struct block_seal *seal,
		   struct error *err) MUST_CHECK;
void block_fill_fini(struct block_fill *f);

/* ---- block_store.c */
/* Read a block from the store. -ENOENT: it is not there, or not written by a member. */
int block_store_fetch(struct kept_block *k, struct error *err) MUST_CHECK;
int block_store_has(struct blocks *b, const char *name,
		    struct error *err) MUST_CHECK;
/* Write the block to the store, and remove stored blocks beyond the budget. */
void block_store_write(struct kept_block *k);

/* ---- block_members.c: owners of blocks */
/* Find the block's owner; false: this node is. */
bool blocks_owner(struct blocks *b, const char *name, struct block_member *ret);
bool blocks_find_member(struct blocks *b, const char *member,
			struct block_member *ret);
/* After a failure of the member: send it no requests for a while. */
void blocks_silence(struct blocks *b, const struct block_member *m,
		    const char *why);
size_t blocks_count_members(struct blocks *b);
/* Announce to the members the address at which this node serves blocks, now and to later
 * ones. */
void blocks_announce(struct blocks *b);

/* ---- block_peers.c: requests between nodes */
/* Begin to answer other nodes, on the loop of the server at `addr`. */
void blocks_begin(struct blocks *b, struct loop *loop, struct http *http,
		  const char *addr);
bool blocks_is_path(const char *path);
void blocks_answer(struct blocks *b, struct httpd_request *r);
/* Wake the requests of other nodes that may wait for a block that has now arrived. */
void blocks_kick(struct blocks *b);
/* On the loop: answer all waiting requests; later ones do not wait. */
void blocks_close(struct loop_call *c);
/* Fetch a block from a member; `what` is "" or "/memory" (only blocks in its memory). //
 * -ENOENT   the member does not have it //   -EBUSY    the member has no room, or too much to
 * do //   -ENOBUFS  this node has no memory for it */
int block_peer_fetch(struct kept_block *k, const struct block_member *m,
		     const char *what, struct error *err) MUST_CHECK;
/* Send a GET for the block with the path's end `what`; returns 0, -ENOENT or -EBUSY. */
int block_peer_tell(struct blocks *b, const struct block_member *m,
		    const char *name, const char *what,
		    struct error *err) MUST_CHECK;

/* ---- block_ops.c */
/* Get a block, with a reference; -ENOENT: it is found nowhere. */
int blocks_get(struct blocks *b, const char *name, struct kept_block **ret,
	       struct error *err) MUST_CHECK;
/* Fetch a block that block_join() has begun; `is_asked`: as its owner, for another node. */
void blocks_fetch(struct kept_block *k, bool is_asked);
/* Keep a block; takes `fd`, sealed memory, also on failure. */
int blocks_put(struct blocks *b, const char *name, int fd,
	       struct error *err) MUST_CHECK;
int blocks_has(struct blocks *b, const char *name,
	       struct error *err) MUST_CHECK;
/* Fetch a block that this node owns and that another node has offered. */
void blocks_pull(struct blocks *b, const char *name,
		 const struct block_member *from);
/* blocks_cancel(): no call waits from now on. blocks_end(), before the server's loop ends:
 * wait until no work is left and all requests are answered. */
void blocks_cancel(struct blocks *b);
void blocks_end(struct blocks *b);

/* ---- block_session.c */
/* Serve a program until it disconnects; the caller closes the socket. */
void blocks_serve(struct blocks *b, int sock, const char *cache);

#endif
