// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a layer, over a small one of good will: refused, or a tree whose
 * files the chunker takes. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "image/writer/chunker.h"
#include "snapshotter/convert/apply.h"
#include "snapshotter/convert/tar.h"
#include "tests/fakes/fault_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PLAIN_MAX (8u << 20) /* bytes of content looked at */

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

struct feeder {
	struct tar_visitor visitor;
	struct apply *apply;
	struct chunker *chunker;
	uint64_t fed;
};

static int entry(struct tar_visitor *v, const struct layer_entry *e, bool *want,
		 struct error *err)
{
	struct feeder *f = container_of(v, struct feeder, visitor);
	struct inode *i;
	int rc = apply_entry(f->apply, e, &i, err);

	*want = rc == 0 && i && i->size;
	return *want ? chunker_begin(f->chunker, i, err) : rc;
}

static int data_of(struct tar_visitor *v, uint64_t off, const void *data,
		   size_t len, struct error *err)
{
	struct feeder *f = container_of(v, struct feeder, visitor);

	f->fed += len;
	if (f->fed > PLAIN_MAX)
		return error_set(err, EFBIG, "enough");
	return chunker_data(f->chunker, off, data, len, err);
}

static int end(struct tar_visitor *v, struct error *err)
{
	return chunker_end(container_of(v, struct feeder, visitor)->chunker,
			   err);
}

static int put(struct chunk_sink *sink, uint64_t voff, uint8_t **buf,
	       uint32_t len, struct error *err)
{
	require(len && voff % 4096 == 0);
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

static void feed(struct feeder *f, const uint8_t *data, size_t size)
{
	AUTO(source) source = memory_source_new(data, size, size + 1);
	struct layer_input in = { .source = source,
				  .size = size,
				  .copy_fd = -1 };
	struct error err = ERROR_INIT;
	struct layer *l = NULL;
	uint64_t device;

	if (!source || digest_of(data, size, &in.digest) < 0 ||
	    layer_open(&in, &l, &err) < 0)
		return;
	if (tar_walk(l, &f->visitor, &err) < 0)
		require(err.code && err.msg[0]);
	else
		require(chunker_finish(f->chunker, &device, &err) == 0);
	layer_close(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct chunk_sink sink = { put };
	struct feeder f = {
		.visitor = { .entry = entry, .data = data_of, .end = end }
	};
	struct tree *t = tree_new();

	if (!t)
		return 0;
	f.apply = apply_new(t);
	if (f.apply &&
	    chunker_new(&chunk_params, t, NULL, &sink, &f.chunker, NULL) == 0) {
		good_layer(f.apply);
		apply_next_layer(f.apply);
		feed(&f, data, size);
	}
	chunker_free(f.chunker);
	apply_free(f.apply);
	tree_free(t);
	return 0;
}
