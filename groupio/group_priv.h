// SPDX-License-Identifier: Apache-2.0
/* A group, as its files share it. */
#ifndef BOOTSEER_GROUPIO_GROUP_PRIV_H
#define BOOTSEER_GROUPIO_GROUP_PRIV_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "common/hash.h"
#include "common/thread.h"
#include "groupio/groupio.h"
#include "groupio/identity.h"
#include "net/loop.h"
#include "net/pool.h"
#include "p2p/net/net.h"
#include "p2p/net/net_addr.h"

#define GROUP_SLOT ((size_t)GROUP_UNIT_MAX)

/* A source with those that read from it. */
struct group_origin {
	struct group_source s;
	unsigned int refs; /* group.lock */
};

struct group_unit; /* units.h */
struct group_send; /* bounds.h */

enum group_fault {
	GROUP_FINE,
	GROUP_LATE,  /* the member sent nothing in time */
	GROUP_STUCK, /* it took nothing in time of what it asked for */
	GROUP_WRONG, /* it sent bytes that were not the file's */
};

/* A member that held others up, by the name in its certificate, with which it links anew. */
#define GROUP_SHUNNED_MAX 32u
struct group_shunned {
	char name[256];
	int64_t until_ns;
};

enum peer_file_state {
	PEER_FILE_OFFERED, /* no answer yet */
	PEER_FILE_OPEN, /* both have it; what it has in memory is not known yet */
	PEER_FILE_TOLD,
};

/* A file that is open with a member. */
struct peer_file {
	struct group_file *file;
	struct group_peer *peer;
	LIST_ENTRY(peer_file) of_peer;
	enum peer_file_state state;
	uint8_t *
		has; /* bits: units that it had, or fetched, when both opened the file */
};

struct group_peer {
	LIST_ENTRY(group_peer) of_group;
	struct net_link *link;
	bool is_up;
	enum group_fault fault; /* group.lock */
	bool is_left;           /* its link was dropped for that */
	char name[256], addr[64];
	int64_t moved_ns; /* when it sent bytes last, or that it waits for its store */
	/* When it had sent, or taken, so many bytes last that it gets on (bounds.c); bytes since
	 * then; units that came from it. */
	int64_t gained_ns;
	uint64_t gained_bytes, taken_bytes, n_came;
	/* All with group.lock: until when it is left alone; units that it waits for, and those of
	 * them that are on their way, the first to be sent first; when one arrived last. */
	int64_t shunned_ns;
	size_t n_held;
	TAILQ_HEAD(, group_send) sends;
	int64_t took_ns;
	int64_t promised_ns; /* when it was told last that a unit will come */
	/* Where it is asked for blocks, "": nowhere; until when it is not; group.lock */
	char blocks_addr[64];
	uint64_t blocks_seed;
	int64_t blocks_silent_ns;
	LIST_HEAD(, peer_file) files;
};

struct group_file {
	struct group *group;
	struct digest id; /* on links */
	UT_hash_handle hh;
	uint64_t size;
	uint32_t unit;
	uint64_t n_units;
	struct group_origin
		*origin; /* NULL: nobody here has had it open for a while */
	unsigned int n_local; /* group_file_open() less group_file_close() */
	size_t n_known;       /* units in the table, and others that name it */
	int64_t used_ns, joined_ns; /* by a member, last */
	int64_t settles_ns;         /* no longer are other members waited for */
	bool is_offered;            /* to all that were linked */
	bool is_posted;             /* `offer` is */
	bool is_let_go; /* the origin is, and members are to be told */
	struct loop_call offer;
	/* Members that have it open, by name, and this node's place among them. */
	struct peer_file **members;
	size_t n_members, cap_members, self_at;
};

/* An address where members meet; the loop's. */
struct group_place {
	char host[256], port[8];
	char addr[64]; /* "": not looked up yet */
	struct sockaddr_storage found;
	socklen_t found_len;
	bool is_looked_up, was_told;
	int64_t next_ns;
	struct look_up *look_up; /* that runs; or NULL */
};

struct group {
	struct group_config cfg;
	struct digest secret; /* of the key file */
	char name[256];       /* this member's */
	struct digest room;   /* the image by which members tell of others */
	struct digest
		blocks_image; /* by which they tell where blocks are asked for */
	/* The loop's: */
	struct loop *loop;
	struct thread thread;
	struct pool *pool;
	const struct net_events *events; /* of its links */
	struct net *net; /* NULL: where members meet is not known yet */
	struct loop_timer tick;
	struct loop_call ending, ended, announce;
	struct group_place places[GROUP_PLACES_MAX];
	size_t n_places;
	int64_t told_ns;   /* when a member was told of the others last */
	int64_t linked_ns; /* when a member was linked last */
	unsigned int told_turn;
	uint64_t n_refused; /* since the log told of one, at refused_ns */
	int64_t refused_ns;
	/* The rest with the lock.  Peers come and go on the loop alone, which may look at them
	 * without it. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_ending;
	char host[64];        /* that it listens at; "": not yet */
	bool is_unawaited;    /* nobody is to wait for `host` any more */
	char blocks_addr[64]; /* where blocks are asked for; "": not yet */
	bool is_dead;         /* its loop failed: files are read alone */
	/* This node has just begun, and looks for the others; reads wait so long for that, and for what
	 * they say then. */
	bool is_joining;
	int64_t joins_ns;
	LIST_HEAD(, group_peer) peers;
	struct group_file *files;
	struct group_unit *units;
	size_t n_queued, n_sending; /* units: to be fetched, being sent */
	size_t n_asked; /* units in slots that reads have, or wait for, of other members */
	int64_t slow_ns; /* time of the slowest of the latest fetches */
	struct group_shunned shunned[GROUP_SHUNNED_MAX];
	TAILQ_HEAD(, group_unit) unused; /* those used longest ago first */
	TAILQ_HEAD(, group_unit)
	waiting; /* for slots, to be fetched; the first is served */
	char *memory;
	size_t n_slots, n_free, n_slots_begun;
	char **free_slots;
	struct group_stats stats;
};

/* ---- files.c: all with the lock, unless they say otherwise */
struct group_file *files_find(struct group *g, const struct digest *id);
/* Which member is to be asked for the unit; NULL: this one brings it for all, from the member that
 * file_holder() says or from the store. */
struct group_peer *file_owner(const struct group_file *f, uint64_t index);
/* Which member is to read it from the store, whoever has it by now; NULL: this one. */
struct group_peer *file_reader(const struct group_file *f, uint64_t index);
/* A member that said that it has the unit; NULL: none. */
struct group_peer *file_holder(const struct group_file *f, uint64_t index);
/* The member has not what it named, or no more: another one is asked. */
void file_forget_held(const struct group_file *f, const struct group_peer *p,
		      uint64_t index);
size_t unit_len(const struct group_file *f, uint64_t index);
struct peer_file *peer_file_find(const struct group_peer *p,
				 const struct group_file *f);
int peer_file_add(struct group_peer *p, struct group_file *f) MUST_CHECK;
void peer_file_remove(struct peer_file *pf);
/* The member has it open, too. */
int file_join(struct group_file *f, struct peer_file *pf) MUST_CHECK;
void origin_unref(struct group *g, struct group_origin *o);
void file_drop_if_unused(struct group_file *f);
/* Without the lock, on the loop: this node has the unit, or reads it now. */
void file_tell_held(struct group *g, const struct digest *id, uint64_t index);
/* Without the lock, on the loop: a new member is told of all; those that nobody used for a
 * while are withdrawn. */
void file_offer_to(struct group_file *f, struct group_peer *p);
void files_offer_to(struct group *g, struct group_peer *p);
void files_withdraw_idle(struct group *g, int64_t now_ns);
void files_fini(struct group *g);

/* ---- join.c, on the loop */
int places_parse(const char *text, struct group_place *places, size_t *ret_n,
		 struct error *err) MUST_CHECK;
/* No longer than this are answers of other members waited for before a file is read. */
#define GROUP_SETTLE_NS NS_PER_S
void join_tick(struct group *g, int64_t now_ns);
void join_tell(struct group *g, const struct group_peer *p);
void join_heard(struct group *g, const struct net_node *nodes, size_t n);

/* ---- block_members.c, on the loop */
void members_tell_blocks(struct group *g, struct group_peer *p);
int members_note_blocks(struct group *g, struct group_peer *p, const void *addr,
			size_t len, struct error *err) MUST_CHECK;

/* ---- links.c */
extern const struct net_events group_events;
struct group_peer *peer_new(struct net_link *l);
void links_drop_faulty(struct group *g, int64_t now_ns);

#endif
