// SPDX-License-Identifier: Apache-2.0
#include "groupio/identity.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "p2p/net/net.h"

/* Bytes in the middle of the key, as text; not on the heap. */
static char needle[32], page[1 << 16];

static void find_needle(const struct identity_files *f)
{
	static char pem[256];
	const ssize_t n = pread(f->fds[2], pem, sizeof(pem) - 1, 0);
	const char *body = strchr(pem, '\n');

	cr_assert_gt(n, 100);
	cr_assert_not_null(body);
	/* The first bytes of each Ed25519 key are the same. */
	memcpy(needle, body + 1 + 24, sizeof(needle));
}

static bool is_in(int mem, uint64_t from, uint64_t to)
{
	const uint64_t step = sizeof(page) - sizeof(needle);

	for (uint64_t at = from; at < to; at += step) {
		const uint64_t left = to - at;
		const size_t want =
			left < sizeof(page) ? (size_t)left : sizeof(page);
		const ssize_t n = pread(mem, page, want, (off_t)at);

		if (n > 0 && memmem(page, (size_t)n, needle, sizeof(needle)))
			return true;
	}
	return false;
}

/* Without a call that takes memory, which could be the very bytes. */
static bool heap_has_needle(void)
{
	static char maps[1 << 16];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;
	char *at;
	bool found;

	cr_assert(fd >= 0 && mem >= 0);
	while ((n = read(fd, maps + len, sizeof(maps) - 1 - len)) > 0)
		len += (size_t)n;
	at = strstr(maps, "[heap]");
	/* ASan has another heap. */
	if (!at)
		return false;
	while (at > maps && at[-1] != '\n')
		at--;
	found = is_in(mem, strtoull(at, NULL, 16),
		      strtoull(strchr(at, '-') + 1, NULL, 16));
	(void)close(fd);
	(void)close(mem);
	return found;
}

Test(identity, leaves_no_private_key_in_memory_that_was_given_back)
{
	struct identity_files files;
	struct digest secret;

	cr_assert_eq(digest_of("a secret", 8, &secret), 0);
	cr_assert_eq(identity_make(&secret, "node-1", NULL, &files, NULL), 0);
	find_needle(&files);
	cr_expect_not(heap_has_needle());
	/* As links do. */
	cr_assert_eq(net_check_files("node-1", files.ca, files.cert, files.key,
				     NULL),
		     0);
	cr_expect_not(heap_has_needle());
	identity_close(&files);
}
