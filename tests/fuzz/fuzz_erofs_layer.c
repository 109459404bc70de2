// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a layer that is an EROFS image, over a small layer of good will: refused, or
 * entries that have one path each, below a folder that came before, and content that the
 * image has at the place which the walk names.  Inputs get a right checksum first, or nothing
 * would come past it.
 */
#include <errno.h>
#include <search.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "image/erofs/erofs.h"
#include "image/erofs/format.h"
#include "snapshotter/convert/erofs_layer.h"
#include "tests/fakes/fault_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PLAIN_MAX (8u << 20) /* bytes of content looked at */
#define FILES_MAX \
	64 /* of which content is looked at: a hole may have many pieces */

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

struct feeder {
	struct tar_visitor visitor;
	struct apply *apply;
	const uint8_t *image;
	size_t image_len;
	void *paths;       /* tsearch(3), of all entries */
	uint64_t size, at; /* of the entry whose content comes */
	uint64_t fed;
	unsigned int n_files;
	bool is_open;
};

static int compare_paths(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void require_known(const struct feeder *f, const char *path)
{
	require(tfind(path, &f->paths, compare_paths) != NULL);
}

/* The path is new, and the folder around it is not. */
static void note_path(struct feeder *f, const char *path)
{
	char *copy = strdup(path), *slash;

	require(copy && path[0] && path[0] != '/');
	require(*(char **)tsearch(copy, &f->paths, compare_paths) == copy);
	copy = strdup(path);
	require(copy != NULL);
	slash = strrchr(copy, '/');
	if (slash && slash[1]) {
		*slash = '\0';
		require_known(f, copy);
	}
	free(copy);
}

static int entry(struct tar_visitor *v, const struct layer_entry *e, bool *want,
		 struct error *err)
{
	struct feeder *f = container_of(v, struct feeder, visitor);
	struct inode *i;

	require(!f->is_open);
	note_path(f, e->path);
	if (e->hard)
		require_known(f, e->link);
	*want = S_ISREG(e->mode) && !e->hard && e->size &&
		f->n_files++ < FILES_MAX;
	f->is_open = *want;
	f->size = e->size;
	f->at = 0;
	return apply_entry(f->apply, e, &i, err);
}

static int data_of(struct tar_visitor *v, uint64_t off, const void *data,
		   size_t len, struct error *err)
{
	struct feeder *f = container_of(v, struct feeder, visitor);

	require(f->is_open && len && off >= f->at);
	require(off <= f->size && len <= f->size - off);
	require(len <= f->image_len && v->plain <= f->image_len - len);
	require(memcmp(f->image + v->plain, data, len) == 0);
	f->at = off + len;
	f->fed += len;
	return f->fed > PLAIN_MAX ? error_set(err, EFBIG, "enough") : 0;
}

static int end(struct tar_visitor *v, struct error *err)
{
	struct feeder *f = container_of(v, struct feeder, visitor);

	require(f->is_open);
	f->is_open = false;
	return 0;
}

static void good_layer(struct apply *a)
{
	static const struct layer_entry entries[] = {
		{ .path = "d/f", .mode = S_IFREG | 0644, .size = 3 },
		{ .path = "l", .mode = S_IFLNK | 0777, .link = "d" },
		{ .path = "h", .hard = true, .link = "d/f" },
	};
	struct inode *i;

	apply_next_layer(a);
	for (size_t k = 0; k < ARRAY_SIZE(entries); k++)
		require(apply_entry(a, &entries[k], &i, NULL) == 0);
}

static void feed(struct feeder *f)
{
	AUTO(source)
	source = memory_source_new(f->image, f->image_len, f->image_len + 1);
	struct layer_input in = { .source = source,
				  .size = f->image_len,
				  .copy_fd = -1 };
	struct error err = ERROR_INIT;
	AUTO(layer) l = NULL;

	if (!source || digest_of(f->image, f->image_len, &in.digest) < 0 ||
	    layer_open(&in, &l, &err) < 0)
		return;
	if (erofs_walk(l, NULL, &f->visitor, &err) < 0)
		require(err.code && err.msg[0]);
	else
		require(!f->is_open);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE uint8_t *copy = malloc(size + 1);
	struct feeder f = {
		.visitor = { .entry = entry, .data = data_of, .end = end },
		.image = copy,
		.image_len = size,
	};
	struct tree *t = tree_new();

	if (copy && size)
		memcpy(copy, data, size);
	if (copy && size >= EROFS_BLOCK) {
		uint8_t *sb = copy + EROFS_SB_POS;

		put_le32(copy, 0); /* no compression's magic */
		put_le32(sb + SB_CHECKSUM, 0);
		put_le32(sb + SB_CHECKSUM,
			 erofs_crc32c(sb, EROFS_BLOCK - EROFS_SB_POS));
	}
	f.apply = t ? apply_new(t) : NULL;
	if (f.apply && copy) {
		good_layer(f.apply);
		apply_next_layer(f.apply);
		feed(&f);
	}
	tdestroy(f.paths, free);
	apply_free(f.apply);
	tree_free(t);
	return 0;
}
