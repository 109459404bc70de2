// SPDX-License-Identifier: Apache-2.0
/* Members of a group that hold others up, and how long they may. */
#include "groupio/bounds.h"
#include "groupio/units.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tests/unit/groupio/group_fixture.h"

TestSuite(group_bounds, .timeout = 120, .fini = members_forget_key);

static void *read_next(void *member)
{
	static atomic_uint next;

	member_read(member, atomic_fetch_add(&next, 1) % UNITS, 0);
	return NULL;
}

/* For as long as the test takes: links that are there, and those to come. */
static void make_shun_last(struct group *g)
{
	struct group_peer *p;

	(void)pthread_mutex_lock(&g->lock);
	g->shunned[0].until_ns += 3600 * NS_PER_S;
	/* A link that came when the time was over already is one of these, too. */
	LIST_FOREACH(p, &g->peers, of_group)
	p->shunned_ns = g->shunned[0].until_ns;
	(void)pthread_mutex_unlock(&g->lock);
}

Test(group_bounds,
     waits_not_for_ever_for_one_unit_of_a_member_that_sends_others)
{
	struct member all[2];
	pthread_t reader;
	uint64_t before;

	members_begin_place();
	member_begin(&all[1]); /* waits for as long as it takes */
	member_wait_ns = 200 * NS_PER_MS;
	member_begin(&all[0]);
	members_wait_linked(all, 2);
	all[1].store.gate = SHUT_FOR_FIRST;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	cr_assert_eq(pthread_create(&reader, NULL, member_read_all, &all[0]),
		     0);
	member_wait_held(&all[1], 1);
	while (!member_stats(&all[0]).late_total)
		for (int u = 0; u < (int)UNITS; u++)
			if (u != atomic_load(&all[1].store.held))
				member_read(&all[0], (uint64_t)u, 0);
	make_shun_last(all[0].group);
	cr_assert_eq(pthread_join(reader, NULL), 0);
	/* The member that was left out is linked again, but is asked for nothing for a while: not
	 * for the unit that its store holds back. */
	members_wait_linked(all, 2);
	before = member_stats(&all[0]).late_total;
	member_read_all(&all[0]);
	cr_expect_eq(member_stats(&all[0]).late_total, before);
	atomic_store(&all[1].store.is_opened, true);
	members_end(all, 2);
}

static size_t held_of_peer(struct group *g)
{
	const struct group_peer *p;
	size_t n = 0;

	(void)pthread_mutex_lock(&g->lock);
	LIST_FOREACH(p, &g->peers, of_group)
	n += p->n_held;
	(void)pthread_mutex_unlock(&g->lock);
	return n;
}

/* Eight slots of memory, of which it may have four. */
Test(group_bounds, leaves_out_a_member_that_asks_and_takes_nothing)
{
	struct member all[2];
	pthread_t readers[UNITS];

	member_unit = GROUP_UNIT_MAX;
	members_begin_place();
	member_begin(&all[1]); /* waits for as long as it takes */
	member_wait_ns = 200 * NS_PER_MS;
	member_begin(&all[0]);
	members_wait_linked(all, 2);
	all[0].store.gate = SHUT;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	for (size_t i = 0; i < UNITS; i++)
		cr_assert_eq(pthread_create(&readers[i], NULL, read_next,
					    &all[1]),
			     0);
	member_wait_held(&all[0], 2);
	/* From now on it takes nothing. */
	(void)pthread_mutex_lock(&all[1].group->lock);
	atomic_store(&all[0].store.is_opened, true);
	while (!member_stats(&all[0]).late_total) {
		cr_assert_leq(held_of_peer(all[0].group), 4);
		member_read_own(&all[0]);
	}
	(void)pthread_mutex_unlock(&all[1].group->lock);
	for (size_t i = 0; i < UNITS; i++)
		cr_assert_eq(pthread_join(readers[i], NULL), 0);
	members_end(all, 2);
}

static void add_sending(struct group *g, size_t n)
{
	(void)pthread_mutex_lock(&g->lock);
	g->n_sending += n;
	(void)pthread_mutex_unlock(&g->lock);
}

Test(group_bounds, waits_for_a_member_whose_memory_is_in_use)
{
	const int64_t until = clock_now_ns() + NS_PER_S;
	struct member all[2];
	pthread_t reader;

	members_begin_with_file(all, 2);
	for (size_t i = 0; i < 2; i++)
		member_read_own(&all[i]);
	add_sending(all[1].group, 1000);
	cr_assert_eq(pthread_create(&reader, NULL, member_read_all, &all[0]),
		     0);
	while (clock_now_ns() < until)
		member_nap();
	add_sending(all[1].group, (size_t)-1000);
	cr_assert_eq(pthread_join(reader, NULL), 0);
	cr_expect_eq(members_reads(all, 2), UNITS);
	members_end(all, 2);
}

static void add_queued(struct group *g, size_t n)
{
	(void)pthread_mutex_lock(&g->lock);
	g->n_queued += n;
	(void)pthread_mutex_unlock(&g->lock);
}

Test(group_bounds, counts_no_unit_that_it_refuses_as_held)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;
	const size_t many = 1u << 20;
	struct member all[2];
	uint64_t u = 0;

	member_wait_ns = 200 * NS_PER_MS;
	members_begin(all, 2);
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	while (!member_asks_for(&all[0], u)) {
		cr_assert_lt(clock_now_ns(), until);
		member_nap();
		u = (u + 1) % UNITS;
	}
	add_queued(all[1].group, many);
	member_read(&all[0], u, 0);
	cr_expect_eq(held_of_peer(all[1].group), 0);
	add_queued(all[1].group, -many);
	cr_expect_eq(atomic_load(&all[1].store.n_reads), 0);
	members_end(all, 2);
}

/* ------------------------------------------------------------------ little memory --- */

struct loop_stop {
	struct loop_call call;
	atomic_bool is_over;
};

static void group_loop_stand(struct loop_call *c)
{
	struct loop_stop *s = container_of(c, struct loop_stop, call);

	while (!atomic_load(&s->is_over)) /* or the test's end */
		member_nap();
}

/* A read of two units' length, from half a unit on, or from a whole one. */
struct span_read {
	struct member *member;
	uint64_t index;
	bool is_half;
};

static void *read_span(void *arg)
{
	const struct span_read *r = arg;
	const uint64_t off =
		r->index * member_unit + (r->is_half ? member_unit / 2 : 0);
	const size_t len = 2 * member_unit;
	uint8_t *buf = malloc(len);

	cr_assert_not_null(buf);
	cr_assert_eq(group_read(r->member->file, off, buf, len, NULL), 0);
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(buf[i], (off + i) / member_unit);
	free(buf);
	return NULL;
}

static size_t units_of(const struct member *m)
{
	size_t n;

	(void)pthread_mutex_lock(&m->group->lock);
	n = HASH_COUNT(m->group->units);
	(void)pthread_mutex_unlock(&m->group->lock);
	return n;
}

/* Two members with memory for two units read at the same moment, each what the other one is to send
 * first.  Neither hears of the other before all reads have begun, and `n_reads` units of each came
 * from the store.  Whoever waited for --group-wait would outlast the test. */
static void read_crosswise(bool is_half, unsigned int n_reads)
{
	struct member all[2];
	struct span_read reads[2];
	struct loop_stop stops[2] = { { .is_over = false } };
	pthread_t readers[2];
	uint64_t first;

	member_slots = 2;
	member_wait_ns = 3600 * NS_PER_S;
	members_begin_with_file(all, 2);
	first = !member_asks_for(&all[0], 0);
	for (size_t i = 0; i < 2; i++) {
		stops[i].call.fn = group_loop_stand;
		loop_post(all[i].group->loop, &stops[i].call);
	}
	for (size_t i = 0; i < 2; i++) {
		reads[i] =
			(struct span_read){ &all[i], first + 3 * i, is_half };
		cr_assert_eq(pthread_create(&readers[i], NULL, read_span,
					    &reads[i]),
			     0);
	}
	for (size_t i = 0; i < 2; i++)
		while (units_of(&all[i]) < 2 ||
		       members_reads(&all[i], 1) < n_reads)
			member_nap();
	for (size_t i = 0; i < 2; i++)
		atomic_store(&stops[i].is_over, true);
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_join(readers[i], NULL), 0);
	members_end(all, 2);
}

Test(group_bounds, leaves_memory_to_fetch_with_beside_what_is_asked_of_others)
{
	read_crosswise(true, 0);
}

Test(group_bounds, keeps_no_unit_of_a_read_that_waits_for_another_member)
{
	read_crosswise(false, 1);
}

static void add_asked(struct group *g, size_t n)
{
	(void)pthread_mutex_lock(&g->lock);
	g->n_asked += n;
	(void)pthread_mutex_unlock(&g->lock);
}

/* Units that were asked of others, and are sent on to a slow member, have the memory. */
Test(group_bounds, reads_a_part_past_the_group_when_memory_for_it_does_not_come)
{
	struct member all[2];
	uint64_t u = 0;

	member_wait_ns = 100 * NS_PER_MS;
	members_begin_with_file(all, 2);
	while (!member_asks_for(&all[0], u))
		u++;
	add_asked(all[0].group, 1000);
	member_read(&all[0], u, 1);
	cr_expect_eq(atomic_load(&all[0].store.n_reads), 1);
	cr_expect_eq(atomic_load(&all[1].store.n_reads), 0);
	add_asked(all[0].group, (size_t)-1000);
	members_end(all, 2);
}

/* ---------------------------------------------------------------- a slow store --- */

static int64_t moved_ns(struct group *g)
{
	int64_t ns;

	(void)pthread_mutex_lock(&g->lock);
	ns = LIST_FIRST(&g->peers)->moved_ns;
	(void)pthread_mutex_unlock(&g->lock);
	return ns;
}

/* Is another member left out so much later, when it said the moment before that it waits? */
static bool is_left_out_in(const struct member *m, const struct member *other,
			   int64_t ns)
{
	const int64_t then_ns = clock_now_ns() + ns;
	struct group *g = m->group;
	struct group_peer *p;
	bool is_left;

	(void)pthread_mutex_lock(&g->lock);
	p = member_peer(m, other);
	p->moved_ns = then_ns;
	bounds_look(g, then_ns);
	is_left = p->fault != GROUP_FINE;
	p->fault = GROUP_FINE;
	p->moved_ns = clock_now_ns();
	(void)pthread_mutex_unlock(&g->lock);
	return is_left;
}

/* The same of a member that sent a whole part so long before that moment, and so many pieces since
 * it was asked. */
static bool is_left_out_gaining(const struct member *m,
				const struct member *other, int64_t ns,
				int64_t before_ns, uint64_t n_came)
{
	struct group *g = m->group;
	struct group_peer *p;
	bool is_left;

	(void)pthread_mutex_lock(&g->lock);
	p = member_peer(m, other);
	p->gained_ns = clock_now_ns() + ns - before_ns;
	p->n_came += n_came;
	(void)pthread_mutex_unlock(&g->lock);
	is_left = is_left_out_in(m, other, ns);
	(void)pthread_mutex_lock(&g->lock);
	p->n_came -= n_came;
	(void)pthread_mutex_unlock(&g->lock);
	return is_left;
}

Test(group_bounds, waits_for_a_member_as_long_as_it_gets_on)
{
	const int64_t long_ns = 1000 * NS_PER_S;
	struct member all[2];
	pthread_t readers[2];
	struct one_read reads[2] = { { &all[0], 0 }, { &all[0], 1 } };

	member_wait_ns = 8 * NS_PER_S;
	members_begin_with_file(all, 2);
	all[1].store.gate = SHUT;
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&readers[i], NULL, member_read_one,
					    &reads[i]),
			     0);
	member_wait_held(&all[1], 1);
	/* Its own store would be slow, too, if this still came from it so much later. */
	member_wait_fetched(&all[0], member_unit);
	cr_expect_not(is_left_out_gaining(&all[0], &all[1], long_ns,
					  30 * NS_PER_S, 0));
	cr_expect(is_left_out_gaining(&all[0], &all[1], long_ns, 40 * NS_PER_S,
				      0));
	/* A member that sends 64 later pieces and keeps this one back is left out. */
	cr_expect_not(is_left_out_gaining(&all[0], &all[1], long_ns, 0, 60));
	cr_expect(is_left_out_gaining(&all[0], &all[1], long_ns, 0, 70));
	atomic_store(&all[1].store.is_opened, true);
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_join(readers[i], NULL), 0);
	members_end(all, 2);
}

Test(group_bounds, leaves_nobody_out_for_a_store_that_is_slow_for_all)
{
	struct member all[2];
	pthread_t readers[4];
	struct one_read reads[4];
	int64_t begun_ns;

	member_wait_ns = 8 * NS_PER_S;
	members_begin(all, 2);
	for (size_t i = 0; i < 2; i++) {
		all[i].store.gate = SHUT;
		member_open(&all[i], "one");
	}
	for (size_t i = 0; i < 4; i++) {
		reads[i] = (struct one_read){ &all[0], i };
		cr_assert_eq(pthread_create(&readers[i], NULL, member_read_one,
					    &reads[i]),
			     0);
	}
	for (size_t i = 0; i < 2; i++)
		member_wait_held(&all[i], 2);
	begun_ns = clock_now_ns();
	/* The holder sends no byte, but tells that it is at work. */
	while (moved_ns(all[0].group) < begun_ns) {
		cr_assert_lt(clock_now_ns(), begun_ns + 60 * NS_PER_S);
		member_nap();
	}
	cr_expect_not(is_left_out_in(&all[0], &all[1], 1000 * NS_PER_S));
	/* For this one the store is not slow. */
	atomic_store(&all[0].store.is_opened, true);
	while (member_stats(&all[0]).fetched_bytes < 2 * member_unit)
		member_nap();
	cr_expect(is_left_out_in(&all[0], &all[1], 1000 * NS_PER_S));
	atomic_store(&all[1].store.is_opened, true);
	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(pthread_join(readers[i], NULL), 0);
	for (size_t i = 0; i < 2; i++) {
		cr_expect_eq(member_stats(&all[i]).late_total, 0);
		member_end(&all[i]);
	}
}

/* A member that relays a unit of a slow holder leaves the holder out before those that wait for the
 * relay leave the relay out. */
Test(group_bounds, leaves_out_a_slow_holder_and_not_who_relays_for_it)
{
	struct member all[3], *const holder = &all[0], *relay, *reader;
	pthread_t readers[2];
	struct one_read reads[2];
	uint64_t u = 0;

	member_wait_ns = 60 * NS_PER_S;
	members_begin_with_file(all, 3);
	while (!member_asks_for(holder, u))
		u++;
	relay = &all[member_asks_for(&all[1], u) ? 2 : 1];
	reader = &all[relay == &all[1] ? 2 : 1];
	/* The holder reads it beside the plan, and others learn so. */
	member_shun(holder, relay, FOR_LONG_NS);
	member_shun(holder, reader, FOR_LONG_NS);
	holder->store.gate = SHUT;
	reads[0] = (struct one_read){ holder, u };
	reads[1] = (struct one_read){ reader, u };
	cr_assert_eq(pthread_create(&readers[0], NULL, member_read_one,
				    &reads[0]),
		     0);
	while (!member_is_holder(relay, holder, u)) /* or the test's end */
		member_nap();
	member_shun(holder, relay, 0);
	cr_assert_eq(pthread_create(&readers[1], NULL, member_read_one,
				    &reads[1]),
		     0);
	while (!held_of_peer(holder->group)) /* or the test's end */
		member_nap();
	cr_expect_not(is_left_out_in(relay, holder, 90 * NS_PER_S));
	cr_expect(is_left_out_in(relay, holder, 150 * NS_PER_S));
	cr_expect_not(is_left_out_in(reader, relay, 150 * NS_PER_S));
	cr_expect(is_left_out_in(reader, relay, 270 * NS_PER_S));
	atomic_store(&holder->store.is_opened, true);
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_join(readers[i], NULL), 0);
	cr_expect_eq(members_reads(all, 3), 1);
	members_end(all, 3);
}
