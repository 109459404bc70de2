// SPDX-License-Identifier: Apache-2.0
// Link: -lcrypto -lzstd
/*
 * Measures how much a store of fixed-size blocks would hold: //   fixed_blocks LEVEL SIZE < LIST
 *
 * LIST names files, one per line; an empty line ends a version. Each file is cut every SIZE
 * bytes from its start. A block that was seen before costs nothing, others are compressed with
 * zstd at LEVEL. After each version a line is printed with the totals so far: bytes read,
 * blocks, bytes stored.
 */
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

struct digest {
	unsigned char bytes[SHA256_DIGEST_LENGTH];
};

/* A hash table with open addressing; `used` marks slots in use. */
static struct digest *table;
static bool *used;
static size_t n_slots = 1 << 16, n_digests;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static size_t slot_of(const struct digest *d)
{
	uint64_t h;
	size_t i;

	memcpy(&h, d->bytes, sizeof(h));
	for (i = h & (n_slots - 1); used[i]; i = (i + 1) & (n_slots - 1)) {
		if (memcmp(&table[i], d, sizeof(*d)) == 0)
			break;
	}
	return i;
}

static void make_table(void)
{
	table = calloc(n_slots, sizeof(*table));
	used = calloc(n_slots, sizeof(*used));
	if (!table || !used)
		die("calloc");
}

static void grow(void)
{
	struct digest *old = table;
	bool *old_used = used;
	size_t i, n = n_slots;

	n_slots *= 2;
	make_table();
	for (i = 0; i < n; i++) {
		if (old_used[i]) {
			size_t at = slot_of(&old[i]);

			table[at] = old[i];
			used[at] = true;
		}
	}
	free(old);
	free(old_used);
}

/* Add a block; returns whether it is new. */
static bool add(const void *data, size_t n)
{
	struct digest d;
	size_t at;

	SHA256(data, n, d.bytes);
	at = slot_of(&d);
	if (used[at])
		return false;
	table[at] = d;
	used[at] = true;
	if (++n_digests * 2 > n_slots)
		grow();
	return true;
}

static size_t read_block(int fd, char *buf, size_t size)
{
	size_t n = 0;

	while (n < size) {
		ssize_t got = read(fd, buf + n, size - n);

		if (got < 0)
			die("read");
		if (got == 0)
			break;
		n += (size_t)got;
	}
	return n;
}

int main(int argc, char **argv)
{
	uint64_t n_read = 0, n_stored = 0;
	char *line = NULL, *buf, *out;
	size_t room = 0, size, bound, n;
	bool open_version = false;
	ssize_t len;
	int fd, level;

	if (argc != 3) {
		fprintf(stderr, "usage: fixed_blocks LEVEL SIZE < LIST\n");
		return 2;
	}
	level = atoi(argv[1]);
	size = (size_t)strtoull(argv[2], NULL, 10);
	bound = ZSTD_compressBound(size);
	buf = malloc(size);
	out = malloc(bound);
	if (!buf || !out)
		die("malloc");
	make_table();
	while ((len = getline(&line, &room, stdin)) >= 0) {
		if (len && line[len - 1] == '\n')
			line[--len] = '\0';
		open_version = len > 0;
		if (!len) {
			printf("%llu %zu %llu\n", (unsigned long long)n_read,
			       n_digests, (unsigned long long)n_stored);
			continue;
		}
		fd = open(line, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			die(line);
		while ((n = read_block(fd, buf, size)) > 0) {
			n_read += n;
			if (add(buf, n)) {
				size_t c = ZSTD_compress(out, bound, buf, n,
							 level);

				n_stored += !ZSTD_isError(c) && c < n ? c : n;
			}
		}
		close(fd);
	}
	if (open_version)
		fprintf(stderr, "the last version has no end\n");
	return open_version;
}
