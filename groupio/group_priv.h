// SPDX-License-Identifier: Apache-2.0
/* Declarations that the files of a group share. */
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

/* A source and the number of its users. */
struct group_origin {
	struct group_source s;
	unsigned int refs; /* group.lock */
};

struct group_unit; /* units.h */
struct group_send; /* bounds.h */

enum group_fault {
	GROUP_FINE,
	GROUP_LATE,  /* the member sent nothing in time */
	GROUP_STUCK, /* the member did not take in time what it had requested */
	GROUP_WRONG, /* the member sent bytes that are not the file's */
};

/* A shunned member, by the name in its certificate, since it may connect again. */
#define GROUP_SHUNNED_MAX 32u
struct group_shunned {
	char name[256];
	int64_t until_ns;
};

enum peer_file_state {
	PEER_FILE_OFFERED, /* offered, no answer yet */
	/* both sides have it open; the units in the member's memory are unknown yet */
	PEER_FILE_OPEN,
	PEER_FILE_TOLD,
};

/* The state of a file on the link to one member. */
struct peer_file {
	struct group_file *file;
	struct group_peer *peer;
	LIST_ENTRY(peer_file) of_peer;
	enum peer_file_state state;
	uint8_t *
		/* bits: units that the member had or was fetching when both opened the file,
		 * and those that it has named since */
		has;
};

struct group_peer {
	LIST_ENTRY(group_peer) of_group;
	struct net_link *link;
	bool is_up;
	enum group_fault fault; /* its link was closed because of `fault` */
	bool is_left;           /* its link was dropped for that */
	char name[256], addr[64];
	/* when it last sent bytes, or said that it waits for its store */
	int64_t moved_ns;
	/* Progress of the member (bounds.c): when it last had sent or taken GAIN_MIN bytes
	 * or a piece, bytes sent and taken since then, units received from it. */
	int64_t gained_ns;
	uint64_t gained_bytes, taken_bytes, n_came;
	/* Until when the member is shunned; units that it waits for; the units being sent to
	 * it, in their order; when the last one arrived. group.lock */
	int64_t shunned_ns;
	size_t n_held;
	TAILQ_HEAD(, group_send) sends;
	int64_t took_ns;
	int64_t promised_ns; /* when it was last told that a unit will come */
	/* Where the member serves blocks ("": it does not), and until when it gets no
	 * requests for them; group.lock */
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
		*origin; /* NULL: no reader here has had it open for a while */
	/* calls of group_file_open() less those of group_file_close() */
	unsigned int n_local;
	/* units in the table and other objects that refer to the file */
	size_t n_known;
	/* when a member last used it, and last opened it */
	int64_t used_ns, joined_ns;
	/* until then a read may wait for other members */
	int64_t settles_ns;
	bool is_offered; /* to all linked members */
	bool is_posted;  /* the call `offer` was posted */
	bool is_let_go;  /* origin was dropped, and the members must be told */
	struct loop_call offer;
	/* Members that have the file open, sorted by name, and this node's place among them. */
	struct peer_file **members;
	size_t n_members, cap_members, self_at;
};

/* An address of --group, at which members meet; used on the loop only. */
struct group_place {
	char host[256], port[8];
	char addr[64]; /* "": not looked up yet */
	struct sockaddr_storage found;
	socklen_t found_len;
	bool is_looked_up, was_told;
	int64_t next_ns;
	struct look_up *look_up; /* the look-up that is running, or NULL */
};

struct group {
	struct group_config cfg;
	struct digest secret; /* of the key file */
	char name[256];       /* this member's */
	/* image id under which members send each other addresses of members */
	struct digest room;
	struct digest
		/* image id under which members announce their address for blocks */
		blocks_image;
	/* The loop's: */
	struct loop *loop;
	struct thread thread;
	struct pool *pool;
	const struct net_events *events; /* callbacks of the group's links */
	/* NULL: the addresses of --group are not looked up yet */
	struct net *net;
	struct loop_timer tick;
	struct loop_call ending, ended, announce;
	struct group_place places[GROUP_PLACES_MAX];
	size_t n_places;
	/* when this node last sent a member the addresses of the others */
	int64_t told_ns;
	int64_t linked_ns; /* when a member was linked last */
	unsigned int told_turn;
	/* refused connections since the last line in the log, at refused_ns */
	uint64_t n_refused;
	int64_t refused_ns;
	/* Protected by the lock. Peers are added and removed on the loop alone, so the loop
	 * may read their list without the lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_ending;
	char host[64];        /* address that it listens at; "": not yet */
	bool is_unawaited;    /* calls of group_wait_host() return at once */
	char blocks_addr[64]; /* where it serves blocks; "": not yet */
	bool is_dead;         /* the loop has failed: files are read alone */
	/* This node has just started and looks for the other members; reads wait for that
	 * until joins_ns. */
	bool is_joining;
	int64_t joins_ns;
	LIST_HEAD(, group_peer) peers;
	struct group_file *files;
	struct group_unit *units;
	/* units waiting to be fetched; units being sent */
	size_t n_queued, n_sending;
	/* units in slots that readers have requested from other members */
	size_t n_asked;
	int64_t slow_ns; /* duration of the slowest recent fetch */
	struct group_shunned shunned[GROUP_SHUNNED_MAX];
	TAILQ_HEAD(, group_unit) unused; /* least recently used first */
	TAILQ_HEAD(, group_unit)
	waiting; /* for slots, to be fetched; the first is served */
	char *memory;
	size_t n_slots, n_free, n_slots_begun;
	char **free_slots;
	struct group_stats stats;
};

/* ---- files.c: with the lock, except where a comment says otherwise */
struct group_file *files_find(struct group *g, const struct digest *id);
/* The member to request the unit from; NULL: this node brings it for all members, from the
 * member that file_holder() names or from the store. */
struct group_peer *file_owner(const struct group_file *f, uint64_t index);
/* The member that should read the unit from the store, no matter which members have it in
 * memory; NULL: this node. */
struct group_peer *file_reader(const struct group_file *f, uint64_t index);
/* A member that has announced the unit; NULL: there is none. */
struct group_peer *file_holder(const struct group_file *f, uint64_t index);
/* The member does not have the unit that it announced, so do not request it there again. */
void file_forget_held(const struct group_file *f, const struct group_peer *p,
		      uint64_t index);
size_t unit_len(const struct group_file *f, uint64_t index);
struct peer_file *peer_file_find(const struct group_peer *p,
				 const struct group_file *f);
int peer_file_add(struct group_peer *p, struct group_file *f) MUST_CHECK;
void peer_file_remove(struct peer_file *pf);
/* The member has the file open too. */
int file_join(struct group_file *f, struct peer_file *pf) MUST_CHECK;
void origin_unref(struct group *g, struct group_origin *o);
void file_drop_if_unused(struct group_file *f);
/* Announce to the members that this node has the unit or reads it now. On the loop, without
 * the lock. */
void file_tell_held(struct group *g, const struct digest *id, uint64_t index);
/* On the loop, without the lock: offer all files to a new member; close files that no member
 * used for a while. */
void file_offer_to(struct group_file *f, struct group_peer *p);
void files_offer_to(struct group *g, struct group_peer *p);
void files_withdraw_idle(struct group *g, int64_t now_ns);
void files_fini(struct group *g);

/* ---- join.c, on the loop */
int places_parse(const char *text, struct group_place *places, size_t *ret_n,
		 struct error *err) MUST_CHECK;
/* Longest time that a read waits for answers of other members to the offer of its file. */
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
