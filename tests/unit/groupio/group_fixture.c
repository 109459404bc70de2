// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/groupio/group_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "groupio/group_priv.h"
#include "p2p/net/net_addr.h"

size_t member_unit = UNIT;
size_t member_slots = 8;
int64_t member_wait_ns = 30 * NS_PER_S;
unsigned int members_expected;
atomic_uint stores_released;
static char key[] = "/tmp/bootseer-group.XXXXXX";
static char place[32];

void member_nap(void)
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
		member_nap();
}

static int store_read(void *arg, uint64_t off, void *buf, size_t len,
		      struct error *err)
{
	struct fake_store *s = arg;
	const int index = (int)(off / member_unit);
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
	cr_expect_eq(off % member_unit, 0);
	for (size_t i = 0; i < len; i++)
		if (b[i] != off / member_unit)
			return error_set(err, EBADMSG, "not the file's");
	return 0;
}

static void store_release(void *arg)
{
	(void)arg;
	atomic_fetch_add(&stores_released, 1);
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

void member_begin(struct member *m)
{
	const struct group_config cfg = { .key_file = key,
					  .places = place,
					  .memory = member_slots * GROUP_SLOT,
					  .fetches = 4,
					  .members = members_expected,
					  .wait_ns = member_wait_ns };

	memset(m, 0, sizeof(*m));
	atomic_init(&m->store.held, -1);
	cr_assert_eq(group_new(&cfg, &m->group, NULL), 0);
}

void member_open(struct member *m, const char *version)
{
	struct group_source s = {
		.ops = &store_ops,
		.arg = &m->store,
		.size = UNITS * member_unit - 100,
		.unit = (uint32_t)member_unit,
	};

	cr_assert_eq(digest_of(version, strlen(version), &s.identity), 0);
	cr_assert_eq(group_file_open(m->group, &s, &m->file, NULL), 0);
}

void member_end(struct member *m)
{
	group_file_close(m->file);
	group_free(m->group);
}

void members_end(struct member *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		member_end(&all[i]);
}

struct group_stats member_stats(const struct member *m)
{
	struct group_stats s;

	group_stats(m->group, &s);
	return s;
}

void members_wait_linked(const struct member *all, size_t n)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	for (size_t i = 0; i < n; i++)
		while (member_stats(&all[i]).members != n - 1) {
			cr_assert_lt(clock_now_ns(), until);
			member_nap();
		}
}

void members_begin_place(void)
{
	/* As bootseer-ckpt: a link that is closed there is written to here. */
	(void)signal(SIGPIPE, SIG_IGN);
	make_key();
	make_place();
}

void members_begin(struct member *all, size_t n)
{
	members_begin_place();
	for (size_t i = 0; i < n; i++)
		member_begin(&all[i]);
	members_wait_linked(all, n);
}

static void member_read_part(struct member *m, uint64_t index, size_t from,
			     size_t len)
{
	uint8_t *buf = malloc(len);

	cr_assert_not_null(buf);
	cr_assert_eq(group_read(m->file, index * member_unit + from, buf, len,
				NULL),
		     0);
	cr_assert_eq(buf[0], index);
	cr_assert_eq(memcmp(buf, buf + 1, len - 1), 0);
	free(buf);
}

void member_read(struct member *m, uint64_t index, size_t from)
{
	member_read_part(m, index, from,
			 (index == UNITS - 1 ? member_unit - 100
					     : member_unit) -
				 from);
}

unsigned int members_reads(struct member *all, size_t n)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += atomic_load(&all[i].store.n_reads);
	return sum;
}

void members_forget_key(void)
{
	(void)unlink(key);
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

void members_wait_opened(const struct member *all, size_t n)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	for (size_t i = 0; i < n; i++)
		while (!has_all_members(&all[i], n)) {
			cr_assert_lt(clock_now_ns(), until);
			member_nap();
		}
}

void members_begin_with_file(struct member *all, size_t n)
{
	members_begin(all, n);
	for (size_t i = 0; i < n; i++)
		member_open(&all[i], "one");
	members_wait_opened(all, n);
}

struct group_peer *member_peer(const struct member *m,
			       const struct member *other)
{
	struct group_peer *p = LIST_FIRST(&m->group->peers);

	while (strcmp(p->name, other->group->name) != 0)
		p = LIST_NEXT(p, of_group);
	return p;
}

void member_shun(struct member *m, const struct member *other, int64_t ns)
{
	(void)pthread_mutex_lock(&m->group->lock);
	member_peer(m, other)->shunned_ns = clock_now_ns() + ns;
	(void)pthread_mutex_unlock(&m->group->lock);
}

bool member_is_holder(const struct member *m, const struct member *of,
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

void member_wait_told(const struct member *m, const struct member *of,
		      uint64_t n_units)
{
	for (uint64_t u = 0; u < n_units; u++)
		while (!member_is_holder(m, of, u)) /* or the test's end */
			member_nap();
}

void *member_read_all(void *member)
{
	for (uint64_t u = 0; u < UNITS; u++)
		member_read(member, u, 0);
	return NULL;
}

void member_wait_fetched(const struct member *m, uint64_t bytes)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	while (member_stats(m).fetched_bytes < bytes) {
		cr_assert_lt(clock_now_ns(), until);
		member_nap();
	}
}

void member_wait_held(struct member *m, unsigned int n)
{
	const int64_t until = clock_now_ns() + 60 * NS_PER_S;

	while (atomic_load(&m->store.n_held) < n) {
		cr_assert_lt(clock_now_ns(), until);
		member_nap();
	}
}

bool member_asks_for(struct member *m, uint64_t u)
{
	bool is;

	(void)pthread_mutex_lock(&m->group->lock);
	is = file_owner(m->file, u) != NULL;
	(void)pthread_mutex_unlock(&m->group->lock);
	return is;
}

void member_read_own(struct member *m)
{
	for (uint64_t u = 0; u < UNITS; u++)
		if (!member_asks_for(m, u))
			member_read(m, u, 0);
}

void *member_read_one(void *arg)
{
	const struct one_read *r = arg;

	member_read(r->member, r->index, 0);
	return NULL;
}
