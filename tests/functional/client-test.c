// SPDX-License-Identifier: Apache-2.0
/* Uses libbootseer as programs do: client-test SOCKET MOUNT. Two ranks of one node save, read back
 * what they saved, and share blocks; prints the results. */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "groupio/client/bootseer.h"

#define RANKS 2u
#define LEN 3000000u

static struct bootseer_error why;

static void check_ok(int rc)
{
	if (rc < 0)
		errx(1, "%s (%d)", why.text, rc);
}

static char *make_bytes(unsigned int seed)
{
	char *bytes = malloc(LEN);

	for (size_t i = 0; bytes && i < LEN; i++)
		bytes[i] = (char)(seed * 31 + i / 7 + i % 251);
	return bytes ? bytes : (errx(1, "out of memory"), NULL);
}

static void save_together(struct bootseer_group **g, const char *path)
{
	const uint64_t shape[] = { LEN };
	char *bytes[] = { make_bytes(1), make_bytes(2), make_bytes(3) };
	char *got = make_bytes(0);
	struct bootseer_save *s[RANKS];

	for (unsigned int r = 0; r < RANKS; r++) {
		const struct bootseer_tensor t[] = {
			{ "world", "U8", shape, 1, bytes[0], LEN },
			{ "tied", "U8", shape, 1, bytes[0], LEN },
			{ "mine", "U8", shape, 1, bytes[1 + r], LEN },
		};

		check_ok(bootseer_put(g[r], path, t, 3, &s[r], &why));
	}
	for (unsigned int r = 0; r < RANKS; r++) {
		check_ok(bootseer_wait(s[r], BOOTSEER_BUFFERED, -1, &why));
		check_ok(bootseer_wait(s[r], BOOTSEER_DURABLE, -1, &why));
		bootseer_save_free(s[r]);
		check_ok(bootseer_get(g[r], path, "mine", got, LEN, &why));
		printf("mine %d\n", memcmp(got, bytes[1 + r], LEN));
		check_ok(bootseer_get(g[r], path, "tied", got, LEN, &why));
		printf("tied %d\n", memcmp(got, bytes[0], LEN));
	}
	printf("none %d\n",
	       bootseer_get(g[0], path, "other", got, LEN, &why) == -ENOENT);
	puts(why.text);
	for (size_t i = 0; i < 3; i++)
		free(bytes[i]);
	free(got);
}

/* Save when the other rank never comes. */
static int save_alone(struct bootseer_group_options o, const char *job,
		      unsigned int buffered_ms, int wait_ms)
{
	const uint64_t none[] = { 0 };
	const struct bootseer_tensor t = { "a", "U8", none, 1, NULL, 0 };
	struct bootseer_group *g;
	struct bootseer_save *s;
	int rc;

	o.job = job;
	o.buffered_ms = buffered_ms;
	check_ok(bootseer_group_open(&o, &g, &why));
	check_ok(bootseer_put(g, job, &t, 1, &s, &why));
	bootseer_group_close(g);
	rc = bootseer_wait(s, BOOTSEER_BUFFERED, wait_ms, &why);
	bootseer_save_free(s);
	return rc;
}

static void use_cache(const char *socket)
{
	char *bytes = make_bytes(9);
	struct bootseer_cache *c;
	const void *got;
	size_t len;

	check_ok(bootseer_cache_open(socket, "c", &c, &why));
	printf("nobody %d\n",
	       bootseer_cache_get(c, "k", 1, &got, &len, &why) == -ENOENT);
	check_ok(bootseer_cache_put(c, "k", 1, bytes, 100000, &why));
	check_ok(bootseer_cache_has(c, "k", 1, &why));
	check_ok(bootseer_cache_get(c, "k", 1, &got, &len, &why));
	printf("block %d\n", len == 100000 && memcmp(got, bytes, len) == 0);
	bootseer_cache_release(got, len);
	printf("empty %d\n",
	       bootseer_cache_put(c, "e", 1, NULL, 0, &why) == -EFBIG);
	bootseer_cache_close(c);
	free(bytes);
}

int main(int argc, char **argv)
{
	char address[BOOTSEER_ADDRESS_MAX], path[4096];
	const char *addresses[RANKS] = { address, address };
	struct bootseer_group_options o = { .addresses = addresses,
					    .n_ranks = RANKS,
					    .job = "client-test" };
	struct bootseer_group *g[RANKS];

	if (argc != 3)
		errx(2, "client-test SOCKET MOUNT");
	o.socket = argv[1];
	check_ok(bootseer_address(argv[1], address, &why));
	for (o.rank = 0; o.rank < RANKS; o.rank++)
		check_ok(bootseer_group_open(&o, &g[o.rank], &why));
	(void)snprintf(path, sizeof(path), "%s/step", argv[2]);
	save_together(g, path);
	o.rank = 0;
	printf("not yet %d\n", save_alone(o, "late", 0, 0) == -ETIMEDOUT);
	printf("failed %d\n", save_alone(o, "never", 1, -1) == -EIO);
	use_cache(argv[1]);
	for (unsigned int r = 0; r < RANKS; r++)
		bootseer_group_close(g[r]);
	return 0;
}
