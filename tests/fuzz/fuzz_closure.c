// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a program of an image, as a Python module, as its byte code, as a library:
 * what is found lies within the device, and nothing is read outside of a file.
 */
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "image/closure/closure_priv.h"
#include "image/closure/python_imports.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE_MAX_HERE (64u << 10)

struct device {
	const uint8_t *data;
	uint64_t size; /* whole blocks; behind the input they are zero */
	size_t used;
};

static void require_true(bool ok)
{
	if (!ok)
		__builtin_trap();
}

static int check_spans(void *arg, const struct device_span *spans, size_t n,
		       struct error *err)
{
	const struct device *d = arg;

	(void)err;
	for (size_t i = 0; i < n; i++)
		require_true(spans[i].voff <= d->size &&
			     spans[i].len <= d->size - spans[i].voff);
	return 0;
}

static int read_device(void *arg, uint64_t voff, void *buf, size_t len,
		       struct error *err)
{
	const struct device *d = arg;
	size_t there = voff < d->used ? (size_t)(d->used - voff) : 0;

	(void)err;
	require_true(voff <= d->size && len <= d->size - voff);
	there = there < len ? there : len;
	memset(buf, 0, len);
	if (there)
		memcpy(buf, d->data + voff, there);
	return 0;
}

static void add_file(struct tree *t, struct inode *dir, const char *name,
		     size_t size)
{
	struct inode *i = tree_inode_new(t, S_IFREG | 0755);

	require_true(i && tree_link(t, dir, name, strlen(name), i) == 0);
	i->size = size;
	i->data = INODE_DATA_EXTENTS;
	i->extents = tree_alloc(t, sizeof(*i->extents));
	require_true(i->extents);
	i->extents[0] = (struct extent){ 0, size, 0 };
	i->n_extents = 1;
}

static struct inode *add_folder(struct tree *t, struct inode *dir,
				const char *name)
{
	struct inode *i = tree_inode_new(t, S_IFDIR | 0755);

	require_true(i && tree_link(t, dir, name, strlen(name), i) == 0);
	return i;
}

/* All files are the input. */
static void find_all(const struct erofs_image *img, struct device *d,
		     const char *const *words, size_t n_words)
{
	static const struct closure_ops ops = { check_spans, read_device };
	const struct closure_start start = { .words = words,
					     .n_words = n_words,
					     .folder = "/lib" };
	struct device_span *spans = NULL;
	size_t n = 0;

	if (closure_find(img, &start, &ops, d, &spans, &n, NULL) == 0)
		(void)check_spans(d, spans, n, NULL);
	free(spans);
}

static int ignore_import(void *arg, const struct python_import *i)
{
	(void)arg;
	require_true(i->module_len == 0 || i->module);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const script[] = { "/bin/python3.11", "/lib/a.py" };
	static const char *const program[] = { "/bin/prog", "/bin/sh" };
	struct device d = { data, round_up(size + 1, EROFS_BLOCK), size };
	const struct erofs_device device = { .size = d.size, .tag = "d" };
	const struct erofs_params params = { .devices = &device,
					     .n_devices = 1 };
	struct erofs_image img;
	struct inode *dir;
	struct tree *t;
	void *meta;
	size_t len;

	if (size == 0 || size > SIZE_MAX_HERE)
		return 0;
	(void)!python_scan_code(data, size, ignore_import, NULL);
	(void)!python_scan_text((const char *)data, size, ignore_import, NULL);
	(void)ld_cache_find(data, size, "libc.so.6");
	t = tree_new();
	require_true(t);
	dir = add_folder(t, tree_root(t), "bin");
	add_file(t, dir, "prog", size);
	add_file(t, dir, "sh", size);
	add_file(t, dir, "python3.11", size);
	dir = add_folder(t, tree_root(t), "lib");
	add_file(t, dir, "a.py", size);
	add_file(t, dir, "libc.so.6", size);
	dir = add_folder(t, dir, "python3.11");
	add_file(t, dir, "os.py", size);
	dir = add_folder(t, tree_root(t), "etc");
	add_file(t, dir, "ld.so.cache", size);
	require_true(erofs_write(t, &params, &meta, &len, NULL) == 0 &&
		     erofs_open(meta, len, &img, NULL) == 0);
	find_all(&img, &d, program, 2);
	find_all(&img, &d, script, 2);
	free(meta);
	tree_free(t);
	return 0;
}
