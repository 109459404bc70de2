// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/blockstore/cache_dir.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"

void cache_dir_make(struct cache_dir *d)
{
	(void)snprintf(d->path, sizeof(d->path), "/tmp/bootseer-cache.XXXXXX");
	cr_assert_not_null(mkdtemp(d->path));
}

void cache_dir_remove(struct cache_dir *d)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(fs_remove_tree(d->path, &err), 0, "%s", err.msg);
}

struct cache *cache_dir_open(const struct cache_dir *d, uint64_t quota)
{
	struct cache_config cfg = { .dir = d->path,
				    .quota = quota,
				    .segment_bytes = CACHE_TEST_SEGMENT };
	struct error err = ERROR_INIT;
	struct cache *c = NULL;

	cr_assert_eq(cache_open(&cfg, &c, &err), 0, "%s", err.msg);
	return c;
}

int put_block(struct cache *c, const struct image *img, size_t i)
{
	struct error err = ERROR_INIT;
	struct block b;

	blockmap_block(&img->map, i, &b);
	return cache_put(c, &b, image_plain(img, i), SOURCE_DEMAND, &err);
}

int get_block(struct cache *c, const struct image *img, size_t i)
{
	AUTO_FREE uint8_t *got = NULL;
	struct error err = ERROR_INIT;
	struct block b;
	int rc;

	blockmap_block(&img->map, i, &b);
	got = malloc(b.usize);
	memset(got, 0xee, b.usize);
	rc = cache_read(c, &b, 0, got, b.usize, &err);
	if (rc == 0)
		cr_assert_arr_eq(got, image_plain(img, i), b.usize);
	else
		cr_assert_eq(rc, -ENOENT, "%d %s", rc, err.msg);
	return rc;
}

static void take_file(struct picture_file *f, const char *path,
		      const char *name)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	cr_assert(fd >= 0 && fstat(fd, &st) == 0);
	cr_assert_lt(strlen(name), sizeof(f->name));
	memcpy(f->name, name, strlen(name) + 1);
	f->size = (size_t)st.st_size;
	f->data = malloc(f->size + 1);
	cr_assert_eq(fs_pread_full(fd, f->data, f->size, 0), 0);
	f->len = f->size;
	while (f->len && !f->data[f->len - 1])
		f->len--;
}

void picture_take(struct picture *p, const struct cache_dir *d)
{
	DIR *dir = opendir(d->path);
	struct dirent *e;

	memset(p, 0, sizeof(*p));
	cr_assert_not_null(dir);
	while ((e = readdir(dir))) {
		AUTO_BUF path = BUF_INIT;

		if (e->d_name[0] == '.' || strcmp(e->d_name, "lock") == 0 ||
		    strcmp(e->d_name, "mounts") == 0)
			continue;
		cr_assert_lt(p->n, PICTURE_FILES_MAX);
		cr_assert_eq(buf_printf(&path, "%s/%s", d->path, e->d_name), 0);
		take_file(&p->file[p->n++], path.data, e->d_name);
	}
	closedir(dir);
}

void picture_restore(const struct picture *p, const struct cache_dir *d)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(fs_remove_tree(d->path, &err), 0, "%s", err.msg);
	cr_assert_eq(mkdir(d->path, 0700), 0);
	for (size_t i = 0; i < p->n; i++) {
		const struct picture_file *f = &p->file[i];
		AUTO_BUF path = BUF_INIT;
		AUTO_CLOSE int fd = -1;

		cr_assert_eq(buf_printf(&path, "%s/%s", d->path, f->name), 0);
		fd = open(path.data, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		cr_assert_geq(fd, 0);
		cr_assert_eq(fs_pwrite_full(fd, f->data,
					    f->len < f->size ? f->len : f->size,
					    0),
			     0);
		cr_assert_eq(ftruncate(fd, (off_t)f->size), 0);
	}
}

void picture_copy(struct picture *to, const struct picture *from)
{
	*to = *from;
	for (size_t i = 0; i < to->n; i++) {
		struct picture_file *f = &to->file[i];

		f->data = calloc(1, f->size + 1);
		memcpy(f->data, from->file[i].data, f->len);
	}
}

void picture_fini(struct picture *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->file[i].data);
	p->n = 0;
}

struct picture_file *picture_find(struct picture *p, const char *prefix)
{
	for (size_t i = 0; i < p->n; i++)
		if (strncmp(p->file[i].name, prefix, strlen(prefix)) == 0)
			return &p->file[i];
	cr_assert_fail("no file %s", prefix);
	return NULL;
}
