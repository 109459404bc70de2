// SPDX-License-Identifier: Apache-2.0
/* Blocks, as the files that serve them share them. */
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
#define BLOCK_TASKS_MAX \
	1024u /* blocks that wait to be passed on, or to be had */

/* ---- block_seal.c: pure */

/* The seal of a block: its length, the SHA-256 of its bytes, and a code that only members of
 * the group can make of these and the name. */
struct block_seal {
	uint64_t len;
	struct digest sum, code;
};

#define BLOCK_SEAL_SIZE 80u      /* bytes, in the store */
#define BLOCK_SEAL_TEXT_MAX 192u /* in an answer's header */

/* The name by which nodes and store know the block of this key.  Nobody without the secret can
 * make it, or find the key from it. */
int block_name(const struct digest *secret, const char *cache, const void *key,
	       size_t len, char ret[BLOCK_NAME_LEN + 1]) MUST_CHECK;
bool block_name_is_valid(const char *name);
int block_seal_make(const struct digest *secret, const char *name,
		    const void *data, size_t len,
		    struct block_seal *ret) MUST_CHECK;
/* Did a member seal a block of this name so? */
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

/* ---- block_table.c: what is in memory, and its budget */

struct block_member {
	char name[256], addr[64];
};

enum block_state {
	BLOCK_COMING, /* a thread fetches it */
	BLOCK_HERE,
	BLOCK_NONE, /* it did not come: block.err says why */
};

/* All of it: blocks.lock, but `fd` and `len`, which stay once it is BLOCK_HERE. */
struct kept_block {
	struct blocks *all;
	char name[BLOCK_NAME_LEN + 1];
	UT_hash_handle hh;
	TAILQ_ENTRY(kept_block)
	unused; /* while it is BLOCK_HERE, and refs is 0 */
	enum block_state state;
	unsigned int refs;
	bool is_known;      /* in the table */
	bool is_owned;      /* this node is its owner */
	bool is_sealed;     /* `seal` is made */
	int fd;             /* of sealed memory; -1: none yet */
	uint64_t len, room; /* bytes, and of blocks.used */
	struct block_seal seal;
	struct block_member *offer; /* that has it, while it comes; or NULL */
	void *map;                  /* while it is sent */
	unsigned int n_maps;
	struct error err;
};

TAILQ_HEAD(block_list, kept_block);

/* Another node's request that waits for a block; the loop's. */
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
	struct pace pace; /* stops transfers then */
	/* Set once, by blocks_begin(). */
	struct loop *loop;
	struct http *http;
	char addr[64];
	/* The loop's. */
	struct loop_timer tick;
	struct loop_call kick, close;
	atomic_bool is_kicked;
	TAILQ_HEAD(, block_waiter) waiters;
	uint64_t sending; /* bytes that are being sent; with the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct kept_block *table;
	struct block_list owned, guests; /* used longest ago first */
	uint64_t used, used_by_guests;
	size_t n_tasks; /* blocks.pending */
	size_t n_sessions;
	bool is_trimming, is_closed;
	uint64_t stored_since; /* bytes, since the store was trimmed */
	bool was_trimmed;
	struct blocks_stats stats;
};

/* The block of the name, with a reference; *ret_is_new: it is BLOCK_COMING, and the caller's to
 * fetch and block_end().  NULL: memory is short.  Without the lock, as all below. */
struct kept_block *block_join(struct blocks *b, const char *name,
			      bool *ret_is_new);
/* The block if it is in memory, or comes. */
struct kept_block *block_find(struct blocks *b, const char *name);
/* The same, but not one that comes. */
struct kept_block *block_find_here(struct blocks *b, const char *name);
/* Is it in memory?  Nobody uses it by this. */
bool block_is_here(struct blocks *b, const char *name);
void block_unref(struct kept_block *k);
/* End BLOCK_COMING: the block is here (rc 0), or does not come.  Or take one that is here from
 * all, since nobody can be sent it. */
void block_end(struct kept_block *k, int rc, const struct error *why);
/* Another member has the block.  False: this one has it, too, or it does not come any more. */
bool block_note_offer(struct kept_block *k, const struct block_member *from);
/* As block_end(); true: not yet, since `*ret` has offered a block that could not be had. */
bool block_end_unless_offered(struct kept_block *k, int rc,
			      const struct error *why,
			      struct block_member *ret);
/* Wait until it is BLOCK_HERE, or does not come, or another thread's deadline. */
int block_wait(struct kept_block *k, int64_t until_ns,
	       struct error *err) MUST_CHECK;
/* Take over the sealed memory `fd` as bytes of a block that is coming.  -ENOBUFS */
int block_take_memory(struct kept_block *k, int fd, uint64_t len,
		      struct error *err) MUST_CHECK;
void block_set_seal(struct kept_block *k, const struct block_seal *s);
void block_set_owned(struct kept_block *k);
/* Its bytes, until block_unmap(). */
int block_map(struct kept_block *k, const void **ret,
	      struct error *err) MUST_CHECK;
void block_unmap(struct kept_block *k);
void blocks_forget_all(struct blocks *b);

/* Bytes that come from elsewhere, until they are known to be the block's. */
struct block_fill {
	struct kept_block *block;
	char *map; /* NULL: not begun */
	int fd;
	uint64_t len, got;
};
int block_fill_begin(struct block_fill *f, struct kept_block *k, uint64_t len,
		     struct error *err) MUST_CHECK;
/* -EBADMSG: they are not what the seal says. */
int block_fill_end(struct block_fill *f, const struct block_seal *seal,
		   struct error *err) MUST_CHECK;
void block_fill_fini(struct block_fill *f);

/* ---- block_store.c */
/* -ENOENT: it is not there, or not what a member has put there. */
int block_store_fetch(struct kept_block *k, struct error *err) MUST_CHECK;
int block_store_has(struct blocks *b, const char *name,
		    struct error *err) MUST_CHECK;
/* Write it, and remove what is beyond the budget. */
void block_store_write(struct kept_block *k);

/* ---- block_members.c: who owns what */
/* The owner of the block; false: this node. */
bool blocks_owner(struct blocks *b, const char *name, struct block_member *ret);
bool blocks_find_member(struct blocks *b, const char *member,
			struct block_member *ret);
/* The member has failed: it is asked for nothing for a while. */
void blocks_silence(struct blocks *b, const struct block_member *m,
		    const char *why);
size_t blocks_count_members(struct blocks *b);
/* Tell members where this node is asked, from now on. */
void blocks_announce(struct blocks *b);

/* ---- block_peers.c: what nodes ask one another */
/* Other nodes are answered on the loop of the server at `addr` from now on. */
void blocks_begin(struct blocks *b, struct loop *loop, struct http *http,
		  const char *addr);
bool blocks_is_path(const char *path);
void blocks_answer(struct blocks *b, struct httpd_request *r);
/* Something has come that another node may wait for. */
void blocks_kick(struct blocks *b);
/* On the loop: whoever waits is answered, and nobody waits from now on. */
void blocks_close(struct loop_call *c);
/* Ask a member for a block; `what` is "" or "/memory".
 *   -ENOENT   it is not there
 *   -EBUSY    it has no room, or too much to do
 *   -ENOBUFS  this node has no memory for it */
int block_peer_fetch(struct kept_block *k, const struct block_member *m,
		     const char *what, struct error *err) MUST_CHECK;
/* GET what the path says of the block: 0, -ENOENT, -EBUSY. */
int block_peer_tell(struct blocks *b, const struct block_member *m,
		    const char *name, const char *what,
		    struct error *err) MUST_CHECK;

/* ---- block_ops.c */
/* The block, with a reference; -ENOENT: nobody has it. */
int blocks_get(struct blocks *b, const char *name, struct kept_block **ret,
	       struct error *err) MUST_CHECK;
/* Fetch a block that block_join() has begun, as its owner where `is_asked`. */
void blocks_fetch(struct kept_block *k, bool is_asked);
/* Takes `fd`, sealed memory, also on failure. */
int blocks_put(struct blocks *b, const char *name, int fd,
	       struct error *err) MUST_CHECK;
int blocks_has(struct blocks *b, const char *name,
	       struct error *err) MUST_CHECK;
/* Another node has a block that this one owns. */
void blocks_pull(struct blocks *b, const char *name,
		 const struct block_member *from);
/* No call waits any more; then, before the server's loop ends, nothing is under way any more, and
 * all that were asked for have an answer. */
void blocks_cancel(struct blocks *b);
void blocks_end(struct blocks *b);

/* ---- block_session.c */
/* Serve a program until it goes; the socket stays the caller's. */
void blocks_serve(struct blocks *b, int sock, const char *cache);

#endif
