// SPDX-License-Identifier: Apache-2.0
/* Places in the device and the files that lie there. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "image/erofs/file_map.h"
#include "random_tree.h"

TestSuite(file_map, .timeout = 120);

#define DEVICE_SIZE (UINT64_C(64) << 20)
#define PAGE UINT64_C(4096)
#define MANY 65536u

struct fixture {
	struct tree *t;
	void *data;
	struct erofs_image img;
	struct file_map *m;
};

static struct inode *add(struct tree *t, struct inode *dir, const char *name,
			 uint32_t mode)
{
	struct inode *i = tree_inode_new(t, mode);

	cr_assert_eq(tree_link(t, dir, name, strlen(name), i), 0);
	return i;
}

static struct inode *add_file(struct tree *t, struct inode *dir,
			      const char *name, uint64_t size,
			      const struct extent *e, uint32_t n)
{
	struct inode *i = add(t, dir, name, S_IFREG | 0644);

	i->size = size;
	i->data = INODE_DATA_EXTENTS;
	i->extents = tree_alloc(t, n * sizeof(*e) + 1);
	if (n)
		memcpy(i->extents, e, n * sizeof(*e));
	i->n_extents = n;
	return i;
}

static void open_map(struct fixture *f)
{
	const struct erofs_device device = { .size = DEVICE_SIZE, .tag = "d" };
	const struct erofs_params params = { .devices = &device,
					     .n_devices = 1 };
	struct error err = ERROR_INIT;
	size_t len;

	cr_assert_eq(erofs_write(f->t, &params, &f->data, &len, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(erofs_open(f->data, len, &f->img, &err), 0);
	cr_assert_eq(erofs_file_map_new(&f->img, &f->m, &err), 0, "%s",
		     err.msg);
}

static void close_map(struct fixture *f)
{
	erofs_file_map_free(f->m);
	free(f->data);
	tree_free(f->t);
}

/* The ranges of a call as one text: "path file_off voff len;" */
static int note(void *arg, const struct file_range *r)
{
	return buf_printf(arg, "%s %lld %lld %lld;", r->path,
			  (long long)r->file_off, (long long)r->voff,
			  (long long)r->len);
}

static void expect_at(struct fixture *f, uint64_t voff, uint64_t len,
		      const char *want)
{
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(buf_puts(&got, ""), 0);
	cr_assert_eq(f->m->ops->at(f->m, voff, len, note, &got, NULL), 0);
	cr_expect_str_eq(got.data, want);
}

static void expect_of(struct fixture *f, const char *path, uint64_t off,
		      uint64_t len, const char *want)
{
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(buf_puts(&got, ""), 0);
	cr_assert_eq(f->m->ops->of(f->m, path, off, len, note, &got, NULL), 0);
	cr_expect_str_eq(got.data, want);
}

Test(file_map, tells_files_of_places_and_places_of_files)
{
	struct fixture f = { .t = tree_new() };
	struct inode *root = tree_root(f.t), *dir, *one;

	dir = add(f.t, root, "dir", S_IFDIR | 0755);
	/* A hole, two runs, and a last page that is not full. */
	one = add_file(f.t, dir, "one", 5 * PAGE - 100,
		       (struct extent[]){ { 0, PAGE, 8 * PAGE },
					  { 2 * PAGE, 3 * PAGE - 100, PAGE } },
		       2);
	cr_assert_eq(tree_link(f.t, dir, "same", 4, one), 0);
	/* Shares the second run's first page. */
	add_file(f.t, root, "two", PAGE, (struct extent[]){ { 0, PAGE, PAGE } },
		 1);
	open_map(&f);
	expect_at(&f, 0, PAGE, "");
	expect_at(&f, 8 * PAGE, 1, "/dir/one 0 32768 1;");
	expect_at(&f, 2 * PAGE + 5, 10, "/dir/one 12293 8197 10;");
	expect_at(&f, 4 * PAGE - 101, PAGE, "/dir/one 20379 16283 1;");
	expect_at(&f, 4 * PAGE - 100, 100, "");
	expect_of(&f, "/dir/one", 0, 1 << 20,
		  "/dir/one 0 32768 4096;/dir/one 8192 4096 12188;");
	expect_of(&f, "/dir/same", PAGE, PAGE + 1, "/dir/same 8192 4096 1;");
	expect_of(&f, "/two", PAGE, PAGE, "");
	close_map(&f);
}

Test(file_map, names_every_file_of_a_shared_place)
{
	struct fixture f = { .t = tree_new() };
	struct inode *root = tree_root(f.t);

	add_file(f.t, root, "long", 8 * PAGE,
		 (struct extent[]){ { 0, 8 * PAGE, 0 } }, 1);
	add_file(f.t, root, "a", PAGE, (struct extent[]){ { 0, PAGE, PAGE } },
		 1);
	add_file(f.t, root, "b", PAGE,
		 (struct extent[]){ { 0, PAGE, 6 * PAGE } }, 1);
	open_map(&f);
	expect_at(&f, 6 * PAGE, PAGE,
		  "/long 24576 24576 4096;"
		  "/b 0 24576 4096;");
	expect_at(&f, 5 * PAGE, PAGE, "/long 20480 20480 4096;");
	close_map(&f);
}

Test(file_map, knows_no_other_paths)
{
	struct fixture f = { .t = tree_new() };
	struct inode *root = tree_root(f.t), *link;

	add(f.t, root, "dir", S_IFDIR | 0755);
	link = add(f.t, root, "link", S_IFLNK | 0777);
	link->target = "file";
	link->size = 4;
	add_file(f.t, root, "file", PAGE, (struct extent[]){ { 0, PAGE, 0 } },
		 1);
	open_map(&f);
	for (const char *const *p =
		     (const char *const[]){ "/none", "/dir", "/", "", "/link",
					    "/file/x", "/dir/../file", NULL };
	     *p; p++)
		cr_expect_eq(f.m->ops->of(f.m, *p, 0, 1, note, NULL, NULL),
			     -ENOENT, "%s", *p);
	close_map(&f);
}

/* ---- many files ---- */

struct expected {
	const char *path;
	uint64_t off, voff, len;
	unsigned int found;
};

static int is_expected(void *arg, const struct file_range *r)
{
	struct expected *e = arg;

	e->found += strcmp(r->path, e->path) == 0 && r->file_off == e->off &&
		    r->voff == e->voff && r->len == e->len;
	return 0;
}

static int goes_back(void *arg, const struct file_range *r)
{
	struct fixture *f = arg;
	struct expected e = { r->path, r->file_off, r->voff, r->len, 0 };

	cr_assert_eq(f->m->ops->at(f->m, r->voff, r->len, is_expected, &e,
				   NULL),
		     0);
	cr_expect_eq(e.found, 1, "%s at %llu", r->path,
		     (unsigned long long)r->file_off);
	return 0;
}

Test(file_map, goes_back_and_forth_for_any_tree)
{
	struct fixture f = { .t = tree_new() };
	struct inode *dirs[64] = { tree_root(f.t) };
	AUTO_FREE char **paths = calloc(3000, sizeof(*paths));
	AUTO_FREE char **dir_paths = calloc(64, sizeof(*dir_paths));
	struct rnd r = { 42 };
	uint64_t voff = 0;

	dir_paths[0] = strdup("");
	for (unsigned int i = 1; i < 64; i++) {
		unsigned int up = rnd_below(&r, i);
		char name[16];

		snprintf(name, sizeof(name), "d%u", i);
		dirs[i] = add(f.t, dirs[up], name, S_IFDIR | 0755);
		cr_assert(asprintf(&dir_paths[i], "%s/%s", dir_paths[up],
				   name) > 0);
	}
	for (unsigned int i = 0; i < 3000; i++) {
		unsigned int in = rnd_below(&r, 64);
		struct extent e[4];
		uint64_t off = 0;
		uint32_t n = 0, want = 1 + rnd_below(&r, 4);
		char name[16];

		for (; n < want; n++) {
			off += PAGE * rnd_below(&r, 3);
			e[n] = (struct extent){ off, PAGE, voff };
			voff += PAGE * (1 + rnd_below(&r, 2));
			off += PAGE;
		}
		snprintf(name, sizeof(name), "f%u", i);
		add_file(f.t, dirs[in], name, off, e, n);
		cr_assert(asprintf(&paths[i], "%s/%s", dir_paths[in], name) >
			  0);
	}
	cr_assert_lt(voff, DEVICE_SIZE);
	open_map(&f);
	for (unsigned int i = 0; i < 3000; i++) {
		struct error err = ERROR_INIT;

		cr_expect_eq(f.m->ops->of(f.m, paths[i], 0, UINT64_MAX,
					  goes_back, &f, &err),
			     0, "%s", err.msg);
		free(paths[i]);
	}
	for (unsigned int i = 0; i < 64; i++)
		free(dir_paths[i]);
	close_map(&f);
}

Test(file_map, finds_the_few_among_many_that_overlap)
{
	struct fixture f = { .t = tree_new() };
	struct inode *root = tree_root(f.t);
	const struct extent long_one = { 0, 9 * PAGE, 0 };
	const struct extent end = { 0, PAGE, 8 * PAGE };
	struct extent many[MANY];
	AUTO_BUF got = BUF_INIT;

	/* One file over all, one at the end, and a flood between. */
	add_file(f.t, root, "all", 9 * PAGE, &long_one, 1);
	add_file(f.t, root, "end", PAGE, &end, 1);
	for (unsigned int k = 0; k < MANY; k++)
		many[k] = (struct extent){ (uint64_t)k * PAGE, PAGE,
					   (k % 2 ? 5 : 3) * PAGE };
	add_file(f.t, root, "flood", (uint64_t)MANY * PAGE, many, MANY);
	open_map(&f);
	/* As many looks as a recording may have ranges. */
	for (unsigned int k = 0; k < 262144; k++) {
		buf_reset(&got);
		cr_assert_eq(f.m->ops->at(f.m, 8 * PAGE, PAGE, note, &got,
					  NULL),
			     0);
	}
	cr_expect_str_eq(got.data, "/all 32768 32768 4096;/end 0 32768 4096;");
	expect_at(&f, 4 * PAGE, PAGE, "/all 16384 16384 4096;");
	expect_at(&f, 9 * PAGE, PAGE, "");
	close_map(&f);
}

Test(file_map, leaves_out_paths_that_are_too_long)
{
	struct fixture f = { .t = tree_new() };
	struct inode *dir = tree_root(f.t);
	const struct extent e = { 0, PAGE, PAGE };
	char name[256];

	memset(name, 'd', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (unsigned int k = 0; k < 15; k++)
		dir = add(f.t, dir, name, S_IFDIR | 0755);
	/* 15 x 256 bytes, and the name: 4095 and 4096. */
	name[254] = '\0';
	(void)add_file(f.t, dir, name, PAGE, &e, 1);
	name[254] = 'd';
	(void)add_file(f.t, dir, name, PAGE, &e, 1);
	open_map(&f);
	for (unsigned int k = 0; k < 2; k++) {
		AUTO_BUF got = BUF_INIT;

		cr_assert_eq(f.m->ops->at(f.m, PAGE, PAGE, note, &got, NULL),
			     0);
		cr_expect_eq(strcspn(got.data, " "), FILE_MAP_PATH_MAX);
		cr_expect_null(strchr(strchr(got.data, ';') + 1, ';'));
	}
	close_map(&f);
}
