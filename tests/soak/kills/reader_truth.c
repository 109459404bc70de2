// SPDX-License-Identifier: Apache-2.0
#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/soak/kills/reader.h"

#define N_FOLDERS_OPEN 16

/* nftw() gives its callback no argument. */
static struct truth *loading;
static size_t loading_skip;

static int load_file(const char *path, const struct stat *st, int type,
		     struct FTW *where)
{
	struct truth *t = loading;
	struct truth_file *f;
	int fd;

	(void)where;
	if (type != FTW_F || !S_ISREG(st->st_mode))
		return 0;
	t->files = realloc(t->files, (t->n + 1) * sizeof(*t->files));
	if (!t->files)
		err(2, "realloc");
	f = &t->files[t->n++];
	*f = (struct truth_file){ .path = strdup(path + loading_skip),
				  .size = (size_t)st->st_size };
	if (!f->size)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err(2, "%s", path);
	f->data = mmap(NULL, f->size, PROT_READ, MAP_SHARED, fd, 0);
	if (f->data == MAP_FAILED)
		err(2, "map %s", path);
	(void)close(fd);
	return 0;
}

void truth_load(const char *dir, struct truth *ret)
{
	*ret = (struct truth){ .n = 0 };
	loading = ret;
	loading_skip = strlen(dir) + 1;
	if (nftw(dir, load_file, N_FOLDERS_OPEN, FTW_PHYS) != 0)
		err(2, "%s", dir);
	if (ret->n == 0)
		errx(2, "no file below %s", dir);
}

static bool is_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

enum verdict truth_check(const struct truth_file *f, size_t off,
			 const uint8_t *got, size_t len, size_t *ret_bad)
{
	const uint8_t *want = f->data + off;
	enum verdict verdict = VERDICT_RIGHT;

	if (len == 0 || memcmp(want, got, len) == 0)
		return VERDICT_RIGHT;
	for (size_t at = 0, n; at < len; at += n) {
		n = TRUTH_PAGE - (off + at) % TRUTH_PAGE;
		if (n > len - at)
			n = len - at;
		if (memcmp(want + at, got + at, n) == 0)
			continue;
		if (verdict == VERDICT_RIGHT) {
			*ret_bad = off + at;
			verdict = VERDICT_ZEROS;
		}
		if (!is_zero(got + at, n))
			return VERDICT_WRONG;
	}
	return verdict;
}
