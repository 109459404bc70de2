// SPDX-License-Identifier: Apache-2.0
/* The memory of saves, and which nodes are gone: no other node, no store. */
#include "groupio/save_peers.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/cond.h"
#include "groupio/groupio.h"

#define LEN 100u /* bytes of a chunk */

static struct saves saves;
static struct save save = { .all = &saves, .terms.id = "one" };
static char *place; /* of a chunk */

static void begin_save_in(uint64_t memory)
{
	saves.cfg.memory = memory;
	(void)pthread_mutex_init(&saves.lock, NULL);
	cond_init(&saves.changed);
	TAILQ_INIT(&saves.list);
	TAILQ_INSERT_TAIL(&saves.list, &save, of_all);
	/* The deadline is an hour away, so that a thread that waits for it fails the test. */
	save.until_ns = clock_now_ns() + 3600 * NS_PER_S;
}

static void *keep_one(void *arg)
{
	char *chunk = malloc(LEN);

	(void)arg;
	cr_assert_not_null(chunk);
	cr_assert_eq(save_keep_chunk(&save, &place, &chunk, LEN, NULL), 0);
	cr_expect_not_null(place);
	free(chunk);
	return NULL;
}

TestSuite(save, .timeout = 60);

/* Two threads may both fetch a chunk that two units share. */
Test(save, has_no_need_of_memory_for_a_chunk_that_is_here)
{
	pthread_t threads[2];

	begin_save_in(LEN);
	keep_one(NULL);
	keep_one(NULL);
	cr_expect(saves.used == LEN && save.memory == LEN &&
		  saves.stats.copied_bytes == LEN);
	free(steal_ptr(&place));
	/* The same where both wait for memory for it. */
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, keep_one, NULL),
			     0);
	saves_give(&saves, LEN);
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_expect(saves.used == LEN && save.memory == 2 * LEN);
	free(place);
}

/* A firewall that is loaded anew refuses what four threads ask in the same moment. */
Test(save, takes_a_node_for_gone_that_refuses_for_two_seconds)
{
	const int64_t first_ns = 1000 * NS_PER_S;

	for (int64_t i = 0; i < 20; i++)
		cr_expect_not(peer_is_refused(&save, 1,
					      first_ns + i * 99 * NS_PER_MS));
	cr_expect_not(peer_is_refused(&save, 2, first_ns + 2 * NS_PER_S));
	cr_expect(peer_is_refused(&save, 1, first_ns + 2 * NS_PER_S));
}

/* ---------------------------------------------------------------------- the end --- */

static char folder[] = "/tmp/bootseer-saves.XXXXXX";

/* A group whose place has a name that no host can have, so that it never listens. */
static struct group *begin_homeless_group(void)
{
	static const char secret[] = "a secret of thirty-two bytes or more";
	char key[64];
	const struct group_config cfg = { .key_file = key,
					  .places = "a..b:29600",
					  .memory = MIB,
					  .fetches = 1,
					  .wait_ns = 30 * NS_PER_S };
	struct group *g = NULL;
	FILE *f;

	cr_assert_not_null(mkdtemp(folder));
	(void)snprintf(key, sizeof(key), "%s/key", folder);
	f = fopen(key, "we");
	cr_assert(f && fputs(secret, f) >= 0 && fchmod(fileno(f), 0600) == 0 &&
		  fclose(f) == 0);
	cr_assert_eq(group_new(&cfg, &g, NULL), 0);
	cr_assert_eq(unlink(key), 0);
	return g;
}

/* Until all of the request has been read. */
static int say_hello(const char *path)
{
	static const char request[] = "\x0e\0\0\0{\"op\":\"hello\"}";
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	const struct timespec nap = { .tv_nsec = NS_PER_MS };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int unread = 1;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL),
		     sizeof(request) - 1);
	while (unread) {                     /* or the test's end */
		(void)nanosleep(&nap, NULL); /* deadline poll */
		cr_assert_eq(ioctl(fd, SIOCOUTQ, &unread), 0);
	}
	return fd;
}

Test(save, ends_at_once_while_a_rank_waits_for_the_groups_address)
{
	struct group *g = begin_homeless_group();
	char path[64], said[256] = "";
	const struct saves_config cfg = { .group = g,
					  .socket = path,
					  .mount = folder,
					  .owner = geteuid(),
					  .memory = MIB,
					  .wait_ns = 30 * NS_PER_S };
	struct saves *s = NULL;
	int64_t begun_ns;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/ranks", folder);
	cr_assert_eq(saves_new(&cfg, &s, NULL), 0);
	fd = say_hello(path);
	begun_ns = clock_now_ns();
	cr_expect_eq(saves_end(s), 0);
	/* An address is waited for for half a minute. */
	cr_expect_lt(clock_now_ns() - begun_ns, 20 * NS_PER_S);
	cr_expect_gt(recv(fd, said, sizeof(said) - 1, 0), 0);
	cr_expect_not_null(strstr(said, "the mount ends"));
	saves_free(s);
	group_free(g);
	cr_expect(close(fd) == 0 && rmdir(folder) == 0);
}
