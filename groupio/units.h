// SPDX-License-Identifier: Apache-2.0
/* Units of files that are in memory or being brought; all functions are called with
 * group.lock, except where noted. */
#ifndef BOOTSEER_GROUPIO_UNITS_H
#define BOOTSEER_GROUPIO_UNITS_H

#include "groupio/group_priv.h"

/* A limit for waits that the loop normally ends in time; it matters only after a clock was
 * stopped. */
#define UNITS_LOOK_NS (60 * NS_PER_S)

enum group_unit_state {
	GROUP_UNIT_QUEUED,   /* this node is reading it from the store */
	GROUP_UNIT_FETCHING, /* it does */
	GROUP_UNIT_ASKED,    /* `peer` must send it */
	/* `peer` has sent it, and the reader that asked must check it */
	GROUP_UNIT_CAME,
	GROUP_UNIT_READY,
	GROUP_UNIT_MOVED,  /* another member should read it now: decide again */
	GROUP_UNIT_FAILED, /* `rc` says why */
};

struct group_unit_key {
	struct group_file *file;
	uint64_t index;
};

/* A unit in memory or being brought. Protected by group.lock, except the bytes of `data`,
 * which belong to the thread that fetches them until the state changes. */
struct group_unit {
	struct group_unit_key key;
	UT_hash_handle hh;
	/* Entry of group.unused while READY and n_users is 0; of group.waiting while it
	 * waits for a slot. */
	TAILQ_ENTRY(group_unit)
	listed;
	struct group *group;
	enum group_unit_state state;
	unsigned int n_users; /* reads, sends, and a running fetch or call */
	unsigned int n_sends; /* sends to members, included in n_users */
	bool is_known;        /* in the table */
	/* a reader has requested it from another member */
	bool was_asked;
	/* its fetch has requested it from another member, for all that want it; a failure is
	 * not final */
	bool is_relayed;
	bool is_own; /* it must not be requested from another member */
	char *data;
	bool is_slot; /* `data` is memory of the group, not of a reader */
	/* counted in group.n_asked while in use: requested by a reader, into memory of the
	 * group */
	bool is_asked;
	size_t len;
	struct digest id; /* id of its file on links */
	/* member from which it was requested; NULL: the link has ended */
	struct group_peer *peer;
	/* when the request, or the fetch, began */
	int64_t asked_ns, fetched_ns;
	/* group_peer.n_came when it was requested */
	uint64_t came_before;
	int rc;
	struct error err;
	struct group_peer **wants; /* members that wait for it */
	size_t n_wants, cap_wants;
	/* Each reader waits here for its own unit, until it has come or failed. */
	pthread_cond_t ended;
	struct work fetch;
	struct loop_call ask;
};

void unit_leave(struct group_unit *u); /* releases one of n_users */
/* Answer a member's request; on the loop, without the lock. */
void units_want(struct group *g, struct group_peer *p, const struct digest *id,
		uint32_t index);
/* Tell members that wait for this node that its store is slow; on the loop, without the
 * lock. */
void units_promise(struct group *g, int64_t now_ns);
void units_unwant(struct group *g, const struct group_peer *p,
		  struct group_file *f, uint32_t index);
struct group_unit *unit_find(struct group *g, struct group_file *f,
			     uint64_t index);
void unit_came(struct group_unit *u);
void unit_fail(struct group_unit *u, int rc, const char *why);
/* Fail the units of the file (NULL: of all files) that were requested from `p`. */
void units_fail(struct group *g, const struct group_peer *p,
		const struct group_file *f, int rc, const char *why);
void units_forget_wants(struct group *g, const struct group_peer *p,
			const struct group_file *f);
int units_init(struct group *g, struct error *err) MUST_CHECK;
void units_fini(struct group *g);

/* ---- for readers of this node */
void unit_use(struct group_unit *u); /* takes another of n_users */
/* Remove the unit from the table; present users keep it. */
void unit_forget(struct group_unit *u);
/* Check that received bytes belong to the file. The lock is released meanwhile. */
void unit_check(struct group_unit *u, const struct group_source *s);
/* Is there memory for another request to members? Such reads may use half of the memory: two
 * members whose slots all wait for each other could not fetch what the other waits for. */
bool units_may_ask(const struct group *g);
/* Request the unit from another member: into memory of the group, or into `whole`, the
 * memory of a reader that wants all of it. The caller then uses it; NULL: no memory. */
struct group_unit *unit_bring_from(struct group_file *f, uint64_t index,
				   struct group_peer *owner, char *whole);
/* Have this node read the unit from the store; unless is_own, other members may still be
 * asked when its turn comes. The caller then uses it; NULL: it cannot be. */
struct group_unit *unit_bring_here(struct group_file *f, uint64_t index,
				   bool is_own);

#endif
