// SPDX-License-Identifier: Apache-2.0
/* Units of files that are in memory, or come; all with group.lock, unless it says otherwise. */
#ifndef BOOTSEER_GROUPIO_UNITS_H
#define BOOTSEER_GROUPIO_UNITS_H

#include "groupio/group_priv.h"

/* The loop ends what is asked for in time; this is for clocks that were stopped. */
#define UNITS_LOOK_NS (60 * NS_PER_S)

enum group_unit_state {
	GROUP_UNIT_QUEUED,   /* this node is to read it from the store */
	GROUP_UNIT_FETCHING, /* it does */
	GROUP_UNIT_ASKED,    /* `peer` is to send it */
	GROUP_UNIT_CAME,     /* it did, and whoever asked has to check it */
	GROUP_UNIT_READY,
	GROUP_UNIT_MOVED, /* it is another member's to read by now: decide again */
	GROUP_UNIT_FAILED, /* `rc` says why */
};

struct group_unit_key {
	struct group_file *file;
	uint64_t index;
};

/* A unit that is in memory, or comes.  All of it: group.lock, but the bytes of `data`, which belong
 * to whoever fetches them until the state is another. */
struct group_unit {
	struct group_unit_key key;
	UT_hash_handle hh;
	/* group.unused has it while it is READY, and n_users is 0; group.waiting, for a slot. */
	TAILQ_ENTRY(group_unit)
	listed;
	struct group *group;
	enum group_unit_state state;
	unsigned int n_users; /* reads, sends, and its own work or call */
	unsigned int n_sends; /* of these, to members */
	bool is_known;        /* in the table */
	bool was_asked;       /* of another member, by a reader */
	bool is_relayed; /* the same by its fetch, for all that want it; a failure is no end */
	bool is_own; /* no other member is to be asked for it */
	char *data;
	bool is_slot; /* `data` is memory of the group, else of a reader */
	bool is_asked; /* a reader's, in such memory: in group.n_asked while it is in use */
	size_t len;
	struct digest id;        /* of its file, on links */
	struct group_peer *peer; /* that it was asked of; NULL: it is gone */
	int64_t asked_ns, fetched_ns; /* when that began */
	uint64_t came_before;         /* group_peer.n_came at that moment */
	int rc;
	struct error err;
	struct group_peer **wants; /* members that wait for it */
	size_t n_wants, cap_wants;
	/* Readers wait, each for its own unit, until that came or does not. */
	pthread_cond_t ended;
	struct work fetch;
	struct loop_call ask;
};

void unit_leave(struct group_unit *u); /* one of n_users */
/* Answer a member that asks; without the lock, on the loop. */
void units_want(struct group *g, struct group_peer *p, const struct digest *id,
		uint32_t index);
/* Tell members that wait for the store that this node does, too; without the lock, on the
 * loop. */
void units_promise(struct group *g, int64_t now_ns);
void units_unwant(struct group *g, const struct group_peer *p,
		  struct group_file *f, uint32_t index);
struct group_unit *unit_find(struct group *g, struct group_file *f,
			     uint64_t index);
void unit_came(struct group_unit *u);
void unit_fail(struct group_unit *u, int rc, const char *why);
/* Units of the file (NULL: of all) that `p` was asked for do not come. */
void units_fail(struct group *g, const struct group_peer *p,
		const struct group_file *f, int rc, const char *why);
void units_forget_wants(struct group *g, const struct group_peer *p,
			const struct group_file *f);
int units_init(struct group *g, struct error *err) MUST_CHECK;
void units_fini(struct group *g);

/* ---- for readers of this node */
void unit_use(struct group_unit *u); /* one more of n_users */
/* Nobody finds the unit any more; those that have it keep it. */
void unit_forget(struct group_unit *u);
/* Are the bytes that came the file's?  The lock is released meanwhile. */
void unit_check(struct group_unit *u, const struct group_source *s);
/* Reads that wait for other members have a half of the memory: two members whose slots all wait for
 * one another would have none left to fetch what the other one waits for. */
bool units_may_ask(const struct group *g);
/* Have another member send the unit: to memory of the group, or to `whole`, that of a reader that
 * wants all of it.  In use by the caller then; NULL: memory is short. */
struct group_unit *unit_bring_from(struct group_file *f, uint64_t index,
				   struct group_peer *owner, char *whole);
/* Have this node read it from the store; unless it is_own, other members may still be asked when
 * its turn comes.  In use by the caller then; NULL: that cannot be. */
struct group_unit *unit_bring_here(struct group_file *f, uint64_t index,
				   bool is_own);

#endif
