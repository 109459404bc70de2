// SPDX-License-Identifier: Apache-2.0
/* Members of a group in one process, each with a store of its own. */
#ifndef BOOTSEER_TESTS_UNIT_GROUPIO_GROUP_FIXTURE_H
#define BOOTSEER_TESTS_UNIT_GROUPIO_GROUP_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "groupio/groupio.h"

#define FOR_LONG_NS (3600 * NS_PER_S) /* than a test takes */

#define UNIT (64u << 10)
#define UNITS 12u

/* A member's way to a store, where unit n is made of bytes n. */
struct fake_store {
	atomic_uint n_reads;
	bool lies, fails;
	/* The first read of a unit, or each, waits while it is shut. */
	enum { OPEN, SHUT_FOR_FIRST, SHUT } gate;
	atomic_bool is_opened;
	atomic_int held; /* the unit that was waited for first; -1: none */
	atomic_uint n_held;
};

struct member {
	struct group *group;
	struct group_file *file;
	struct fake_store store;
};

struct one_read {
	struct member *member;
	uint64_t index;
};

struct group_peer;

/* Settings of members that begin from now on, and of their files. */
extern size_t member_unit;  /* bytes */
extern size_t member_slots; /* units that each has memory for */
extern int64_t member_wait_ns;
extern unsigned int members_expected; /* as each is told */

extern atomic_uint stores_released;

void member_nap(void);

/* A key, and an address where members meet. */
void members_begin_place(void);
void members_forget_key(void);
void member_begin(struct member *m);
void member_open(struct member *m, const char *version);
void member_end(struct member *m);
/* Members that are linked with one another, or also have a file open, and know of it. */
void members_begin(struct member *all, size_t n);
void members_begin_with_file(struct member *all, size_t n);
void members_end(struct member *all, size_t n);

struct group_stats member_stats(const struct member *m);
unsigned int members_reads(struct member *all, size_t n); /* of their stores */
void members_wait_linked(const struct member *all, size_t n);
/* Each knows of the others that they have the file open, and asks them from now on. */
void members_wait_opened(const struct member *all, size_t n);
/* The member's record of another one; with its group's lock. */
struct group_peer *member_peer(const struct member *m,
			       const struct member *other);
/* Leave another one alone for so long; 0: no more. */
void member_shun(struct member *m, const struct member *other, int64_t ns);
/* Does it know that another one has the unit? */
bool member_is_holder(const struct member *m, const struct member *of,
		      uint64_t index);
/* Until it knows that another one has the first units. */
void member_wait_told(const struct member *m, const struct member *of,
		      uint64_t n_units);
void member_wait_fetched(const struct member *m, uint64_t bytes);
/* Until so many reads wait at the store's gate. */
void member_wait_held(struct member *m, unsigned int n);
/* Does it ask another member for the unit? */
bool member_asks_for(struct member *m, uint64_t u);

/* From a byte of the unit to its end. */
void member_read(struct member *m, uint64_t index, size_t from);
void member_read_own(struct member *m); /* units that it asks nobody for */
/* Bodies of threads: of a member, and of a one_read. */
void *member_read_all(void *member);
void *member_read_one(void *arg);

#endif
