// SPDX-License-Identifier: Apache-2.0
/* Members of a group in one process: what is read from the store, what a member that lies
 * does, and what is left when the store fails. */
#include "groupio/groupio.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "groupio/bounds.h"
#include "groupio/group_priv.h"
#include "p2p/net/net_addr.h"

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

static atomic_uint n_released;
static char key[] = "/tmp/bootseer-group.XXXXXX";
static char place[32];
static size_t unit = UNIT; /* of the files */
static int64_t wait_ns = 30 * NS_PER_S;
static unsigned int n_expected; /* members, as each is told */

static void nap(void)
{
	struct timespec t = { .tv_nsec = NS_PER_MS };

	(void)nanosleep(&t, NULL); /* deadline poll */
}

/* Ends by itself, for tests that fail. */
static void wait_at_gate(struct fake_store *s)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	atomic_fetch_add(&s->n_held, 1);
	while (!atomic_load(&s->is_opened) && clock_now_ns() < until)
		nap();
}

static int store_read(void *arg, uint64_t off, void *buf, size_t len,
		      struct error *err)
{
	struct fake_store *s = arg;
	const int index = (int)(off / unit);
	int none = -1;

	atomic_fetch_add(&s->n_reads, 1);
	if (s->gate == SHUT ||
	    (s->gate == SHUT_FOR_FIRST &&
	     (atomic_compare_exchange_strong(&s->held, &none, index) ||
	      none == index)))
		wait_at_gate(s);
	if (s->fails)
		return error_set(err, EACCES, "the store says no");
	memset(buf, index + (s->lies ? 100 : 0), len);
	return 0;
}

static int store_check(void *arg, uint64_t off, const void *buf, size_t len,
		       struct error *err)
{
	const uint8_t *b = buf;

	(void)arg;
	cr_expect_eq(off % unit, 0);
	for (size_t i = 0; i < len; i++)
		if (b[i] != off / unit)
			return error_set(err, EBADMSG, "not the file's");
	return 0;
}

static void store_release(void *arg)
{
	(void)arg;
	atomic_fetch_add(&n_released, 1);
}

static const struct group_source_ops store_ops = {
	.read = store_read,
	.check = store_check,
	.release = store_release,
};

static void make_key(void)
{
	static const char secret[] = "a secret of thirty-two bytes or more";
	int fd = mkstemp(key);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, secret, sizeof(secret)), sizeof(secret));
	cr_assert(fchmod(fd, 0600) == 0 && close(fd) == 0);
}

/* A port that nobody has at this moment. */
static void make_place(void)
{
	struct sockaddr_storage a;
	socklen_t len;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(net_addr_parse("127.0.0.1:0", &a, &len, NULL), 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	net_addr_format(&a, place, sizeof(place));
	cr_assert_eq(close(fd), 0);
}

static void member_begin(struct member *m)
{
	const struct group_config cfg = { .key_file = key,
					  .places = place,
					  .memory = 8 * GROUP_SLOT,
					  .fetches = 4,
					  .members = n_expected,
					  .wait_ns = wait_ns };

	memset(m, 0, sizeof(*m));
	atomic_init(&m->store.held, -1);
	cr_assert_eq(group_new(&cfg, &m->group, NULL), 0);
}

static void member_open(struct member *m, const char *version)
{
	struct group_source s = {
		.ops = &store_ops,
		.arg = &m->store,
		.size = UNITS * unit - 100,
		.unit = (uint32_t)unit,
	};

	cr_assert_eq(digest_of(version, strlen(version), &s.identity), 0);
	cr_assert_eq(group_file_open(m->group, &s, &m->file, NULL), 0);
}

static void member_end(struct member *m)
{
	group_file_close(m->file);
	group_free(m->group);
}

static void members_end(struct member *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		member_end(&all[i]);
}

static uint64_t members_of(const struct member *m)
{
	struct group_stats s;

	group_stats(m->group, &s);
	return s.members;
}

static void wait_linked(const struct member *all, size_t n)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	for (size_t i = 0; i < n; i++)
		while (members_of(&all[i]) != n - 1) {
			cr_assert_lt(clock_now_ns(), until);
			nap();
		}
}

static void places_begin(void)
{
	/* As bootseer-ckpt: a link that is closed there is written to here. */
	(void)signal(SIGPIPE, SIG_IGN);
	make_key();
	make_place();
}

static void members_begin(struct member *all, size_t n)
{
	places_begin();
	for (size_t i = 0; i < n; i++)
		member_begin(&all[i]);
	wait_linked(all, n);
}

static void read_part(struct member *m, uint64_t index, size_t from, size_t len)
{
	uint8_t *buf = malloc(len);

	cr_assert_not_null(buf);
	cr_assert_eq(group_read(m->file, index * unit + from, buf, len, NULL),
		     0);
	cr_assert_eq(buf[0], index);
	cr_assert_eq(memcmp(buf, buf + 1, len - 1), 0);
	free(buf);
}

static void read_right(struct member *m, uint64_t index, size_t from)
{
	read_part(m, index, from,
		  (index == UNITS - 1 ? unit - 100 : unit) - from);
}

static unsigned int reads_of(struct member *all, size_t n)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += atomic_load(&all[i].store.n_reads);
	return sum;
}

static void forget_key(void)
{
	(void)unlink(key);
}

TestSuite(group, .timeout = 120, .fini = forget_key);

Test(group, reads_each_unit_from_the_store_once_for_all)
{
	struct member all[3];

	members_begin(all, 3);
	for (size_t i = 0; i < 3; i++) {
		member_open(&all[i], "one");
		read_right(&all[i], 0, 0); /* so that the others know of it */
	}
	for (uint64_t u = 0; u < UNITS; u++)
		for (size_t i = 0; i < 3; i++)
			read_right(&all[i], u, 0);
	cr_expect_eq(reads_of(all, 3), UNITS);
	for (size_t i = 0; i < 3; i++) {
		cr_expect_gt(atomic_load(&all[i].store.n_reads), 0);
		member_end(&all[i]);
	}
	cr_expect_eq(atomic_load(&n_released), 3);
}

static bool is_joining(const struct member *m)
{
	bool is;

	(void)pthread_mutex_lock(&m->group->lock);
	is = m->group->is_joining;
	(void)pthread_mutex_unlock(&m->group->lock);
	return is;
}

/* A member that is the place itself would begin to read at once. */
Test(group, waits_for_as_many_members_as_there_will_be)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;
	struct member all[2];
	char host[64];
	int64_t enough;

	n_expected = 2;
	places_begin();
	member_begin(&all[0]);
	cr_assert_eq(group_wait_host(all[0].group, until, host, NULL), 0);
	enough = clock_now_ns() + NS_PER_S / 2;
	while (clock_now_ns() < enough) {
		cr_assert(is_joining(&all[0]));
		nap();
	}
	member_begin(&all[1]);
	while (is_joining(&all[0]) || is_joining(&all[1])) {
		cr_assert_lt(clock_now_ns(), until);
		nap();
	}
	cr_expect_eq(members_of(&all[0]), 1);
	members_end(all, 2);
}

Test(group, gives_parts_of_units)
{
	struct member all[2];

	members_begin(all, 2);
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	for (uint64_t u = 0; u < UNITS; u++)
		for (size_t i = 0; i < 2; i++)
			read_right(&all[i], u, 1000 + u);
	cr_expect_lt(reads_of(all, 2), 2 * UNITS);
	members_end(all, 2);
}

static bool has_all_members(const struct member *m, size_t n)
{
	const struct group_peer *p;
	size_t n_told = 0;

	(void)pthread_mutex_lock(&m->group->lock);
	LIST_FOREACH(p, &m->group->peers, of_group)
	{
		const struct peer_file *pf = peer_file_find(p, m->file);

		n_told += pf && pf->state == PEER_FILE_TOLD;
	}
	(void)pthread_mutex_unlock(&m->group->lock);
	return n_told == n - 1;
}

/* Each knows of the others that they have the file open, and asks them from now on. */
static void wait_opened(const struct member *all, size_t n)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	for (size_t i = 0; i < n; i++)
		while (!has_all_members(&all[i], n)) {
			cr_assert_lt(clock_now_ns(), until);
			nap();
		}
}

static void members_begin_with_file(struct member *all, size_t n)
{
	members_begin(all, n);
	for (size_t i = 0; i < n; i++)
		member_open(&all[i], "one");
	wait_opened(all, n);
}

static struct group_stats stats_of(const struct member *m)
{
	struct group_stats s;

	group_stats(m->group, &s);
	return s;
}

/* Eight slots: six are for what this member read from the store. */
Test(group, keeps_what_others_sent_where_memory_is_spare)
{
	struct member all[2];
	uint64_t first, second;

	members_begin_with_file(all, 2);
	for (uint64_t u = 0; u < UNITS; u++)
		read_right(&all[0], u, 0);
	first = stats_of(&all[0]).received_bytes;
	for (uint64_t u = 0; u < UNITS; u++)
		read_right(&all[0], u, 0);
	second = stats_of(&all[0]).received_bytes - first;
	cr_expect_gt(first, 5 * unit);
	cr_expect_leq(second + 2 * unit, first + 100);
	cr_expect_eq(reads_of(all, 2), UNITS);
	members_end(all, 2);
}

static void shun_for(struct member *m, const struct member *other, int64_t ns)
{
	struct group_peer *p;

	(void)pthread_mutex_lock(&m->group->lock);
	LIST_FOREACH(p, &m->group->peers, of_group)
	if (strcmp(p->name, other->group->name) == 0)
		p->shunned_ns = clock_now_ns() + ns;
	(void)pthread_mutex_unlock(&m->group->lock);
}

/* For longer than the test takes. */
static void shun_member(struct member *m, const struct member *other)
{
	shun_for(m, other, 3600 * NS_PER_S);
}

Test(group, reads_the_share_of_a_member_that_is_left_alone_once)
{
	struct member all[4];

	members_begin_with_file(all, 4);
	for (size_t i = 0; i < 3; i++)
		shun_member(&all[i], &all[3]);
	for (uint64_t u = 0; u < UNITS; u++)
		for (size_t i = 0; i < 3; i++)
			read_right(&all[i], u, 0);
	cr_expect(reads_of(all, 3) == UNITS && reads_of(&all[3], 1) == 0);
	members_end(all, 4);
}

static bool is_holder(const struct member *m, const struct member *of,
		      uint64_t index)
{
	const struct group_peer *p;
	bool is;

	(void)pthread_mutex_lock(&m->group->lock);
	p = file_holder(m->file, index);
	is = p && strcmp(p->name, of->group->name) == 0;
	(void)pthread_mutex_unlock(&m->group->lock);
	return is;
}

/* Until a member knows that another one has the first units. */
static void wait_told(const struct member *m, const struct member *of,
		      uint64_t n_units)
{
	for (uint64_t u = 0; u < n_units; u++)
		while (!is_holder(m, of, u)) /* or the test's end */
			nap();
}

/* Units that a member reads beside the plan are asked of it, and not read from the store again. */
Test(group, tells_members_which_units_it_reads)
{
	struct member all[3];

	members_begin_with_file(all, 3);
	shun_member(&all[0], &all[1]);
	shun_member(&all[0], &all[2]);
	for (uint64_t u = 0; u < UNITS; u++)
		read_right(&all[0], u, 0);
	wait_told(&all[2], &all[0], UNITS);
	shun_for(&all[0], &all[2], 0);
	/* The eight slots have these units still. */
	for (uint64_t u = UNITS - 6; u < UNITS; u++)
		read_right(&all[2], u, 0);
	cr_expect_eq(atomic_load(&all[2].store.n_reads), 0);
	members_end(all, 3);
}

/* A member that read all units before the others came would else send each unit to each of
 * them. */
Test(group, asks_a_member_that_came_first_once_for_all)
{
	const uint64_t n_units = 6; /* all members have memory for them */
	struct member all[5];
	uint64_t sent = 0;
	bool is_own;

	members_begin(all, 5);
	member_open(&all[0], "one");
	for (uint64_t u = 0; u < n_units; u++)
		read_right(&all[0], u, 0);
	for (size_t i = 1; i < 5; i++)
		member_open(&all[i], "one");
	wait_opened(all, 5);
	for (size_t i = 1; i < 5; i++)
		wait_told(&all[i], &all[0], n_units);
	for (uint64_t u = 0; u < n_units; u++) {
		is_own = (u + all[0].file->id.b[0]) % 5 == all[0].file->self_at;
		sent += (is_own ? 4 : 1) * unit;
		for (size_t i = 1; i < 5; i++)
			read_right(&all[i], u, 0);
	}
	cr_expect_eq(reads_of(all, 5), n_units);
	while (stats_of(&all[0]).sent_bytes < sent) /* or the test's end */
		nap();
	cr_expect_eq(stats_of(&all[0]).sent_bytes, sent);
	members_end(all, 5);
}

/* Where both waited for one another's reads of the store, all of their threads could. */
Test(group, reads_its_own_units_that_another_member_gave_up)
{
	struct member all[3];
	uint64_t own = 0;

	members_begin_with_file(all, 3);
	(void)pthread_mutex_lock(&all[0].group->lock);
	while (file_owner(all[0].file, own))
		own++;
	all[0].file->members[0]->has[0] = 255;
	(void)pthread_mutex_unlock(&all[0].group->lock);
	read_right(&all[0], own, 0);
	cr_expect(reads_of(all, 1) == 1 && reads_of(all + 1, 2) == 0);
	members_end(all, 3);
}

Test(group, takes_no_unit_of_another_version)
{
	struct member all[2];

	members_begin(all, 2);
	all[1].store.lies = true;
	member_open(&all[0], "one");
	member_open(&all[1], "two");
	for (uint64_t u = 0; u < UNITS; u++)
		read_right(&all[0], u, 0);
	cr_expect_eq(atomic_load(&all[0].store.n_reads), UNITS);
	members_end(all, 2);
}

Test(group, believes_no_member_whose_bytes_are_not_the_files)
{
	struct member all[2];
	struct group_stats s;

	members_begin(all, 2);
	all[1].store.lies = true;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	for (uint64_t u = 0; u < UNITS; u++)
		read_right(&all[0], u, 0);
	group_stats(all[0].group, &s);
	cr_expect_gt(s.wrong_total, 0);
	cr_expect_eq(s.received_bytes, 0);
	members_end(all, 2);
}

Test(group, says_what_the_store_said_to_who_asked_it)
{
	struct error err = ERROR_INIT;
	struct member all[2];
	uint8_t buf[100];

	members_begin(all, 2);
	all[1].store.fails = true;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	/* A member whose store fails is no failure of others. */
	for (uint64_t u = 0; u < UNITS; u++)
		read_right(&all[0], u, 0);
	group_file_close(all[0].file);
	group_free(all[0].group);
	for (uint64_t u = 0; u < UNITS; u++) {
		int rc = group_read(all[1].file, u * UNIT, buf, 100, &err);

		cr_assert(rc == 0 || rc == -EACCES);
	}
	cr_expect_str_eq(err.msg, "the store says no");
	/* Its failures do not make it a slow store. */
	(void)pthread_mutex_lock(&all[1].group->lock);
	cr_expect_eq(all[1].group->slow_ns, 0);
	(void)pthread_mutex_unlock(&all[1].group->lock);
	member_end(&all[1]);
}

/* ------------------------------------------- members that would hold others up --- */

static void *read_all(void *member)
{
	for (uint64_t u = 0; u < UNITS; u++)
		read_right(member, u, 0);
	return NULL;
}

static void *read_next(void *member)
{
	static atomic_uint next;

	read_right(member, atomic_fetch_add(&next, 1) % UNITS, 0);
	return NULL;
}

static uint64_t late_of(const struct member *m)
{
	struct group_stats s;

	group_stats(m->group, &s);
	return s.late_total;
}

static uint64_t fetched_of(const struct member *m)
{
	struct group_stats s;

	group_stats(m->group, &s);
	return s.fetched_bytes;
}

static void wait_fetched(const struct member *m, uint64_t bytes)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	while (fetched_of(m) < bytes) {
		cr_assert_lt(clock_now_ns(), until);
		nap();
	}
}

static void wait_held(struct member *m, unsigned int n)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	while (atomic_load(&m->store.n_held) < n) {
		cr_assert_lt(clock_now_ns(), until);
		nap();
	}
}

static void *read_inner(void *arg)
{
	struct member *m = arg;
	const size_t size = UNITS * unit - 100;
	uint8_t *buf = malloc(size);
	size_t n_wrong = 0;

	/* The first and the last unit not whole. */
	if (buf && group_read(m->file, 50, buf, size - 100, NULL) == 0)
		for (size_t i = 0; i < size - 100; i++)
			n_wrong += buf[i] != (i + 50) / unit;
	else
		n_wrong = 1;
	free(buf);
	return n_wrong ? m : NULL;
}

/* The fetches of a unit that is shut do not keep back those of the units behind it. */
Test(group, fetches_the_units_of_a_read_side_by_side)
{
	struct member all[2];
	pthread_t readers[2];
	void *wrong;

	members_begin_with_file(all, 2);
	for (size_t i = 0; i < 2; i++) {
		all[i].store.gate = SHUT;
		cr_assert_eq(pthread_create(&readers[i], NULL, read_inner,
					    &all[i]),
			     0);
	}
	for (size_t i = 0; i < 2; i++)
		wait_held(&all[i], 4);
	for (size_t i = 0; i < 2; i++)
		atomic_store(&all[i].store.is_opened, true);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(pthread_join(readers[i], &wrong), 0);
		cr_expect_null(wrong);
	}
	cr_expect_eq(reads_of(all, 2), UNITS);
	members_end(all, 2);
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

Test(group, waits_not_for_ever_for_one_unit_of_a_member_that_sends_others)
{
	struct member all[2];
	pthread_t reader;
	uint64_t before;

	places_begin();
	member_begin(&all[1]); /* waits for as long as it takes */
	wait_ns = 200 * NS_PER_MS;
	member_begin(&all[0]);
	wait_linked(all, 2);
	all[1].store.gate = SHUT_FOR_FIRST;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	cr_assert_eq(pthread_create(&reader, NULL, read_all, &all[0]), 0);
	wait_held(&all[1], 1);
	while (!late_of(&all[0]))
		for (int u = 0; u < (int)UNITS; u++)
			if (u != atomic_load(&all[1].store.held))
				read_right(&all[0], (uint64_t)u, 0);
	make_shun_last(all[0].group);
	cr_assert_eq(pthread_join(reader, NULL), 0);
	/* It comes again, and is asked for nothing for a while: not for the unit it holds. */
	wait_linked(all, 2);
	before = late_of(&all[0]);
	read_all(&all[0]);
	cr_expect_eq(late_of(&all[0]), before);
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

static bool is_of_other(struct member *m, uint64_t u)
{
	bool is;

	(void)pthread_mutex_lock(&m->group->lock);
	is = file_owner(m->file, u) != NULL;
	(void)pthread_mutex_unlock(&m->group->lock);
	return is;
}

/* The units that are asked of nobody. */
static void read_own(struct member *m)
{
	for (uint64_t u = 0; u < UNITS; u++)
		if (!is_of_other(m, u))
			read_right(m, u, 0);
}

/* Eight slots of memory, of which it may have four. */
Test(group, leaves_out_a_member_that_asks_and_takes_nothing)
{
	struct member all[2];
	pthread_t readers[UNITS];

	unit = GROUP_UNIT_MAX;
	places_begin();
	member_begin(&all[1]); /* waits for as long as it takes */
	wait_ns = 200 * NS_PER_MS;
	member_begin(&all[0]);
	wait_linked(all, 2);
	all[0].store.gate = SHUT;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	for (size_t i = 0; i < UNITS; i++)
		cr_assert_eq(pthread_create(&readers[i], NULL, read_next,
					    &all[1]),
			     0);
	wait_held(&all[0], 2);
	/* From now on it takes nothing. */
	(void)pthread_mutex_lock(&all[1].group->lock);
	atomic_store(&all[0].store.is_opened, true);
	while (!late_of(&all[0])) {
		cr_assert_leq(held_of_peer(all[0].group), 4);
		read_own(&all[0]);
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

Test(group, waits_for_a_member_whose_memory_is_in_use)
{
	const int64_t until = clock_now_ns() + NS_PER_S;
	struct member all[2];
	pthread_t reader;

	members_begin_with_file(all, 2);
	for (size_t i = 0; i < 2; i++)
		read_own(&all[i]);
	add_sending(all[1].group, 1000);
	cr_assert_eq(pthread_create(&reader, NULL, read_all, &all[0]), 0);
	while (clock_now_ns() < until)
		nap();
	add_sending(all[1].group, (size_t)-1000);
	cr_assert_eq(pthread_join(reader, NULL), 0);
	cr_expect_eq(reads_of(all, 2), UNITS);
	members_end(all, 2);
}

static void add_queued(struct group *g, size_t n)
{
	(void)pthread_mutex_lock(&g->lock);
	g->n_queued += n;
	(void)pthread_mutex_unlock(&g->lock);
}

Test(group, counts_no_unit_that_it_refuses_as_held)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;
	const size_t many = 1u << 20;
	struct member all[2];
	uint64_t u = 0;

	wait_ns = 200 * NS_PER_MS;
	members_begin(all, 2);
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	while (!is_of_other(&all[0], u)) {
		cr_assert_lt(clock_now_ns(), until);
		nap();
		u = (u + 1) % UNITS;
	}
	add_queued(all[1].group, many);
	read_right(&all[0], u, 0);
	cr_expect_eq(held_of_peer(all[1].group), 0);
	add_queued(all[1].group, -many);
	cr_expect_eq(atomic_load(&all[1].store.n_reads), 0);
	members_end(all, 2);
}

/* ------------------------------------------------------------------ a broken loop --- */

static int find_epoll(void)
{
	char path[32], what[64];
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");
	int fd = -1;

	cr_assert_not_null(d);
	while ((e = readdir(d))) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%.9s",
			       e->d_name);
		n = readlink(path, what, sizeof(what) - 1);
		what[n > 0 ? n : 0] = 0;
		if (strcmp(what, "anon_inode:[eventpoll]") == 0)
			fd = atoi(e->d_name);
	}
	(void)closedir(d);
	return fd;
}

Test(group, reads_alone_when_its_loop_has_failed)
{
	struct member all[2];
	pthread_t reader;
	int loop_fd, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	places_begin();
	member_begin(&all[0]);
	loop_fd = find_epoll();
	cr_assert_geq(loop_fd, 0);
	member_begin(&all[1]);
	wait_linked(all, 2);
	all[1].store.gate = SHUT;
	for (size_t i = 0; i < 2; i++)
		member_open(&all[i], "one");
	cr_assert_eq(pthread_create(&reader, NULL, read_all, &all[0]), 0);
	wait_held(&all[1], 1);
	cr_assert_geq(dup3(fd, loop_fd, O_CLOEXEC), 0);
	cr_assert_eq(pthread_join(reader, NULL), 0);
	cr_expect_eq(members_of(&all[0]), 0);
	read_all(&all[0]);
	atomic_store(&all[1].store.is_opened, true);
	members_end(all, 2);
	(void)close(fd);
}

/* ---------------------------------------------------------------- a slow store --- */

struct one_read {
	struct member *member;
	uint64_t index;
};

static void *read_one(void *arg)
{
	const struct one_read *r = arg;

	read_right(r->member, r->index, 0);
	return NULL;
}

static int64_t moved_ns(struct group *g)
{
	int64_t ns;

	(void)pthread_mutex_lock(&g->lock);
	ns = LIST_FIRST(&g->peers)->moved_ns;
	(void)pthread_mutex_unlock(&g->lock);
	return ns;
}

/* Is the other member left out so much later, when it said the moment before that it waits? */
static bool is_left_out_in(struct group *g, int64_t ns)
{
	const int64_t then_ns = clock_now_ns() + ns;
	struct group_peer *p;
	bool is_left;

	(void)pthread_mutex_lock(&g->lock);
	p = LIST_FIRST(&g->peers);
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
static bool is_left_out_gaining(struct group *g, int64_t ns, int64_t before_ns,
				uint64_t n_came)
{
	struct group_peer *p;
	bool is_left;

	(void)pthread_mutex_lock(&g->lock);
	p = LIST_FIRST(&g->peers);
	p->gained_ns = clock_now_ns() + ns - before_ns;
	p->n_came += n_came;
	(void)pthread_mutex_unlock(&g->lock);
	is_left = is_left_out_in(g, ns);
	(void)pthread_mutex_lock(&g->lock);
	p->n_came -= n_came;
	(void)pthread_mutex_unlock(&g->lock);
	return is_left;
}

Test(group, waits_for_a_member_as_long_as_it_gets_on)
{
	const int64_t long_ns = 1000 * NS_PER_S;
	struct member all[2];
	pthread_t readers[2];
	struct one_read reads[2] = { { &all[0], 0 }, { &all[0], 1 } };

	wait_ns = 8 * NS_PER_S;
	members_begin_with_file(all, 2);
	all[1].store.gate = SHUT;
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&readers[i], NULL, read_one,
					    &reads[i]),
			     0);
	wait_held(&all[1], 1);
	/* Its own store would be slow, too, if this still came from it so much later. */
	wait_fetched(&all[0], unit);
	cr_expect_not(
		is_left_out_gaining(all[0].group, long_ns, 30 * NS_PER_S, 0));
	cr_expect(is_left_out_gaining(all[0].group, long_ns, 40 * NS_PER_S, 0));
	/* A member that sends 64 later pieces and keeps this one back is left out. */
	cr_expect_not(is_left_out_gaining(all[0].group, long_ns, 0, 60));
	cr_expect(is_left_out_gaining(all[0].group, long_ns, 0, 70));
	atomic_store(&all[1].store.is_opened, true);
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_join(readers[i], NULL), 0);
	members_end(all, 2);
}

Test(group, leaves_nobody_out_for_a_store_that_is_slow_for_all)
{
	struct member all[2];
	pthread_t readers[4];
	struct one_read reads[4];
	int64_t begun_ns;

	wait_ns = 8 * NS_PER_S;
	members_begin(all, 2);
	for (size_t i = 0; i < 2; i++) {
		all[i].store.gate = SHUT;
		member_open(&all[i], "one");
	}
	for (size_t i = 0; i < 4; i++) {
		reads[i] = (struct one_read){ &all[0], i };
		cr_assert_eq(pthread_create(&readers[i], NULL, read_one,
					    &reads[i]),
			     0);
	}
	for (size_t i = 0; i < 2; i++)
		wait_held(&all[i], 2);
	begun_ns = clock_now_ns();
	/* It sends no byte, and says so. */
	while (moved_ns(all[0].group) < begun_ns) {
		cr_assert_lt(clock_now_ns(), begun_ns + 60 * NS_PER_S);
		nap();
	}
	cr_expect_not(is_left_out_in(all[0].group, 1000 * NS_PER_S));
	/* For this one the store is not slow. */
	atomic_store(&all[0].store.is_opened, true);
	while (fetched_of(&all[0]) < 2 * unit)
		nap();
	cr_expect(is_left_out_in(all[0].group, 1000 * NS_PER_S));
	atomic_store(&all[1].store.is_opened, true);
	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(pthread_join(readers[i], NULL), 0);
	for (size_t i = 0; i < 2; i++) {
		cr_expect_eq(late_of(&all[i]), 0);
		member_end(&all[i]);
	}
}
