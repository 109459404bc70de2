// SPDX-License-Identifier: Apache-2.0
/* A layer that is being fetched: which bytes may be given out when, and which peers sent wrong
 * pieces. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "snapshotter/node/mirror/layer_file.h"
#include "snapshotter/node/mirror/pulled.h"

TestSuite(layer_file, .timeout = 60);

#define PIECES 4u
#define SIZE ((uint64_t)LAYER_PIECE * (PIECES - 1) + 1000)

static struct bytes_of_layer {
	uint8_t data[PIECES * LAYER_PIECE];
	struct layer_file *f;
	volatile bool broken;
} t;

static const void *piece_of(uint32_t k)
{
	return t.data + (size_t)k * LAYER_PIECE;
}

static void begin_layer(void)
{
	struct error err = ERROR_INIT;
	struct digest d;
	int fd = memfd_create("layer", MFD_CLOEXEC);

	for (size_t k = 0; k < sizeof(t.data); k++)
		t.data[k] = (uint8_t)(k * 7 + (k >> 12));
	cr_assert_geq(fd, 0);
	cr_assert_eq(digest_of(t.data, SIZE, &d), 0);
	cr_assert_eq(layer_file_new(&d, SIZE, &t.f, &err), 0, "%s", err.msg);
	layer_file_begin(t.f, fd, &t.broken);
}

static void end_layer(void)
{
	layer_file_free(t.f);
}

static int put_of(uint32_t k, const char *sender)
{
	return layer_file_put(t.f, k, piece_of(k), sender, NULL);
}

#define RULE(name) \
	Test(layer_file, name, .init = begin_layer, .fini = end_layer)

RULE(what_a_peer_sent_leaves_only_with_the_whole)
{
	struct error err = ERROR_INIT;
	uint8_t read[16];

	cr_expect_eq(layer_file_readable(t.f, 0, SIZE), 0);
	cr_assert_eq(put_of(0, NULL), 0);
	cr_assert_eq(put_of(1, "a"), 1);
	cr_assert_eq(put_of(2, NULL), 0);
	cr_expect_eq(layer_file_readable(t.f, 5, SIZE), LAYER_PIECE - 5);
	cr_expect_eq(layer_file_readable(t.f, LAYER_PIECE, SIZE), 0);
	cr_assert_eq(layer_file_hash(t.f, &err), 0);
	/* one piece is missing */
	cr_assert_eq(layer_file_verify(t.f, &err), -EIO);
	cr_assert_eq(put_of(3, "b"), 1);
	/* The registry's piece comes too late: the peer's is kept. */
	cr_assert_eq(put_of(3, NULL), 1);
	cr_assert_eq(layer_file_verify(t.f, &err), 0, "%s", err.msg);
	cr_expect_eq(layer_file_readable(t.f, LAYER_PIECE, SIZE),
		     SIZE - LAYER_PIECE);
	cr_expect_eq(layer_file_readable(t.f, SIZE, SIZE), 0);
	cr_assert_eq(layer_file_read(t.f, SIZE - 16, read, 16), 0);
	cr_expect_eq(memcmp(read, t.data + SIZE - 16, 16), 0);
}

/* layer_file_readable() is called for each buffer, so it must not count more pieces than asked
 * for. */
RULE(bytes_are_counted_as_far_as_they_are_asked_for)
{
	cr_assert_eq(put_of(0, NULL), 0);
	cr_assert_eq(put_of(1, NULL), 0);
	cr_expect_eq(layer_file_readable(t.f, 0, 0), 0);
	cr_expect_eq(layer_file_readable(t.f, 7, 100), 100);
	cr_expect_eq(layer_file_readable(t.f, LAYER_PIECE - 5, 10), 10);
	cr_expect_eq(layer_file_readable(t.f, 2 * LAYER_PIECE - 5, 10), 5);
	cr_expect_eq(layer_file_readable(t.f, 2 * LAYER_PIECE, 10), 0);
	cr_assert_eq(put_of(2, "a"), 1);
	cr_assert_eq(put_of(3, NULL), 0);
	cr_assert_eq(layer_file_verify(t.f, NULL), 0);
	cr_expect_eq(layer_file_readable(t.f, 2 * LAYER_PIECE - 5, 10), 10);
	cr_expect_eq(layer_file_readable(t.f, SIZE - 5, 10), 5);
}

RULE(a_piece_of_another_sender_changes_nothing)
{
	uint8_t other[LAYER_PIECE] = { 1 }, read[4];

	cr_assert_eq(put_of(0, NULL), 0);
	cr_assert_eq(layer_file_put(t.f, 0, other, "liar", NULL), 0);
	cr_assert_eq(layer_file_read(t.f, 0, read, 4), 0);
	cr_expect_eq(memcmp(read, t.data, 4), 0);
	cr_expect_not(layer_file_is_doubtful(t.f, 0));
}

RULE(a_wrong_piece_is_mended_and_its_sender_known)
{
	struct error err = ERROR_INIT;
	uint8_t wrong[LAYER_PIECE];
	const char *liar;

	memcpy(wrong, piece_of(2), LAYER_PIECE);
	wrong[LAYER_PIECE - 1] ^= 1;
	cr_assert_eq(put_of(0, NULL), 0);
	cr_assert_eq(put_of(1, "honest"), 1);
	cr_assert_eq(layer_file_put(t.f, 2, wrong, "liar", NULL), 1);
	cr_assert_eq(put_of(3, "liar"), 1);
	cr_assert_eq(layer_file_verify(t.f, &err), -EBADMSG);
	cr_expect_eq(layer_file_readable(t.f, LAYER_PIECE, SIZE), 0);
	cr_expect_not(layer_file_is_doubtful(t.f, 0));
	for (uint32_t k = 1; k < PIECES; k++) {
		cr_assert(layer_file_is_doubtful(t.f, k));
		cr_assert_eq(layer_file_mend(t.f, k, piece_of(k), &liar, &err),
			     0);
		if (k == 2)
			cr_assert_str_eq(liar, "liar");
		else
			cr_expect_null(liar);
	}
	cr_assert_eq(layer_file_verify(t.f, &err), 0, "%s", err.msg);
	cr_expect_eq(layer_file_readable(t.f, 0, SIZE), SIZE);
	cr_expect_eq(layer_file_put(t.f, 0, piece_of(0), "liar", NULL),
		     -EBADMSG);
	cr_expect_eq(put_of(0, "honest"), 0);
}

RULE(what_the_registry_sent_wrong_is_nobodys)
{
	struct error err = ERROR_INIT;
	uint8_t wrong[LAYER_PIECE] = { 0 };
	int fd;

	cr_assert_eq(layer_file_put(t.f, 0, wrong, NULL, NULL), 0);
	for (uint32_t k = 1; k < PIECES; k++)
		cr_assert_eq(put_of(k, NULL), 0);
	cr_assert_eq(layer_file_verify(t.f, &err), -EBADMSG);
	cr_assert_eq(layer_file_open(t.f, 1, &fd), 0);
	(void)close(fd);
	layer_file_drop(t.f);
	cr_expect_eq(layer_file_open(t.f, 1, &fd), -ENOENT);
	cr_expect_eq(layer_file_readable(t.f, 0, SIZE), 0);
}

RULE(there_is_a_bound_on_senders)
{
	char name[16];

	for (unsigned int k = 0; k < LAYER_SENDERS_MAX; k++) {
		(void)snprintf(name, sizeof(name), "n%u", k);
		cr_assert_eq(put_of(0, name), 1);
	}
	cr_expect_eq(put_of(1, "one more"), -EUSERS);
	cr_expect_eq(put_of(1, "n7"), 1);
}

static atomic_bool is_missing;

/* Two threads put the same pieces: one those of the registry, one those of a peer. */
static void *bring_all(void *arg)
{
	pthread_barrier_t *both = arg;
	bool is_first =
		pthread_barrier_wait(both) == PTHREAD_BARRIER_SERIAL_THREAD;

	for (uint32_t k = 0; k < PIECES; k++) {
		int rc = put_of(k, is_first ? NULL : "a");

		if (rc < 0 || !layer_file_has(t.f, k) ||
		    layer_file_is_doubtful(t.f, k) != (rc == 1))
			atomic_store(&is_missing, true);
		(void)pthread_barrier_wait(both);
	}
	return NULL;
}

RULE(a_piece_that_comes_twice_at_once_is_here_for_both)
{
	struct error err = ERROR_INIT;
	pthread_barrier_t both;
	pthread_t other;

	cr_assert_eq(pthread_barrier_init(&both, NULL, 2), 0);
	cr_assert_eq(pthread_create(&other, NULL, bring_all, &both), 0);
	(void)bring_all(&both);
	cr_assert_eq(pthread_join(other, NULL), 0);
	(void)pthread_barrier_destroy(&both);
	cr_expect_not(atomic_load(&is_missing));
	cr_expect_eq(layer_file_verify(t.f, &err), 0, "%s", err.msg);
}

/* A registry could send two nodes different bytes, so that one seems to lie to the other. */
Test(layer_file, one_registry_says_nothing_of_layers_of_another)
{
	static struct liars l = { .lock = PTHREAD_MUTEX_INITIALIZER };

	liars_add(&l, "a.tenants.own", "node");
	cr_expect(liars_have(&l, "a.tenants.own", "node"));
	cr_expect_not(liars_have(&l, "registry.internal", "node"));
	cr_expect_not(liars_have(&l, "a.tenants.own", "other"));
}
