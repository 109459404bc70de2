// SPDX-License-Identifier: Apache-2.0
/* Combines chunker, packer, upload and metadata to store a tree. */
#include "image/writer/writer.h"

#include <errno.h>
#include <fcntl.h>

#include "image/spans/spans.h"
#include "image/writer/chunker.h"
#include "image/writer/metadata.h"
#include "image/writer/packer.h"
#include "image/writer/spill.h"
#include "image/writer/upload.h"

/* Limit of the tree's memory once the places of its files are in it. */
#define PLACES_MEMORY_MAX (UINT64_C(3) << 30)

struct tree_writer {
	struct tree_writer_config cfg;
	struct upload *upload;
	struct spill *spill;
	struct packer *packer;
	struct chunker *chunker;
	uint64_t file_bytes;
};

static int writer_start(struct tree_writer *w, struct error *err)
{
	struct packer_config packer = {
		.params = &chunk_params,
		.jobs = w->cfg.jobs,
		.temp_dir = w->cfg.temp_dir,
		.index = w->cfg.index,
		.level = w->cfg.level,
		.spans = w->cfg.spans,
		.packs = { .first = w->cfg.pack_first, .max = w->cfg.pack_max },
	};
	int rc = upload_new(w->cfg.packs ? w->cfg.packs : w->cfg.target,
			    &w->upload, err);

	packer.upload = w->upload;
	if (rc == 0)
		rc = spill_new(w->cfg.temp_dir, &w->spill, err);
	if (rc == 0)
		rc = packer_new(&packer, &w->packer, err);
	return rc < 0 ? rc
		      : chunker_new(&chunk_params, w->cfg.tree, w->spill,
				    packer_sink(w->packer), &w->chunker, err);
}

int tree_writer_new(const struct tree_writer_config *cfg,
		    struct tree_writer **ret, struct error *err)
{
	AUTO(tree_writer) w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return error_nomem(err);
	w->cfg = *cfg;
	rc = writer_start(w, err);
	if (rc == 0)
		*ret = steal_ptr(&w);
	return rc;
}

/* Free the memory of the chunker and the packer; their threads end first. */
static void free_blocks(struct tree_writer *w)
{
	chunker_free(steal_ptr(&w->chunker));
	packer_free(steal_ptr(&w->packer));
}

void tree_writer_free(struct tree_writer *w)
{
	if (!w)
		return;
	free_blocks(w);
	upload_free(w->upload);
	spill_free(w->spill);
	free(w);
}

struct upload *tree_writer_upload(struct tree_writer *w)
{
	return w->upload;
}

int tree_writer_begin(struct tree_writer *w, struct inode *i, struct error *err)
{
	w->file_bytes += i->size;
	return chunker_begin(w->chunker, i, err);
}

int tree_writer_data(struct tree_writer *w, uint64_t off, const void *data,
		     size_t len, struct error *err)
{
	return chunker_data(w->chunker, off, data, len, err);
}

int tree_writer_end(struct tree_writer *w, struct error *err)
{
	if (tree_memory(w->cfg.tree) > PLACES_MEMORY_MAX)
		return error_set(err, E2BIG,
				 "the image's metadata needs more than %llu "
				 "MiB",
				 (unsigned long long)PLACES_MEMORY_MAX >> 20);
	return chunker_end(w->chunker, err);
}

/* Store the decoders' windows of the layers as a blob like a pack. */
static int store_windows(struct tree_writer *w, uint64_t *ret_bytes,
			 struct error *err)
{
	struct pack windows;
	int fd, rc = span_set_windows(w->cfg.spans, &windows, &fd, err);

	*ret_bytes = rc < 0 ? 0 : windows.size;
	if (rc < 0 || windows.size == 0)
		return rc;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return error_errno(err, errno, "duplicate a descriptor");
	return upload_put(w->upload, &windows.digest, windows.size, fd, err);
}

/* Make the last blocks and the map; some of the packs may still be in the queue. */
static int finish_blocks(struct tree_writer *w, struct metadata *m,
			 void **ret_map, struct packer_stats *ret,
			 struct error *err)
{
	uint64_t windows = 0;
	int rc = chunker_finish(w->chunker, &m->device_size, err);

	if (rc == 0 && w->cfg.spans)
		rc = store_windows(w, &windows, err);
	if (rc == 0)
		rc = packer_finish(w->packer, m->device_size, ret_map,
				   &m->map_len, ret, err);
	if (rc == 0 && w->cfg.spans)
		ret->new_bytes = windows;
	m->map = *ret_map;
	free_blocks(w);
	return rc < 0 ? rc : spill_flush(w->spill, err);
}

/* Store the metadata. Packs with a target of their own are stored at the same time; a common
 * target takes one blob at a time, so then the packs are waited for first. */
static int store_metadata(struct tree_writer *w, const struct metadata *m,
			  struct artifact *a, struct error *err)
{
	int rc = w->cfg.packs ? 0 : upload_finish(w->upload, err);

	if (rc == 0)
		rc = metadata_store(m, a, err);
	return rc < 0 || !w->cfg.packs ? rc : upload_finish(w->upload, err);
}

int tree_writer_finish(struct tree_writer *w, struct artifact *a,
		       struct tree_writer_stats *ret, struct error *err)
{
	struct metadata m = { .target = w->cfg.target,
			      .tree = w->cfg.tree,
			      .spill = w->spill,
			      .temp_dir = w->cfg.temp_dir,
			      .level = w->cfg.meta_level };
	AUTO_FREE void *map = NULL;
	struct packer_stats stats;
	int rc = finish_blocks(w, &m, &map, &stats, err);

	if (rc == 0)
		rc = store_metadata(w, &m, a, err);
	if (rc < 0)
		return rc;
	a->format = w->cfg.spans ? ARTIFACT_FORMAT_INDEX : ARTIFACT_FORMAT;
	(void)snprintf(a->chunking, sizeof(a->chunking), "%s",
		       chunk_params.name);
	a->image_size = w->file_bytes;
	a->n_inodes = tree_n_inodes(w->cfg.tree);
	*ret = (struct tree_writer_stats){
		.blocks = stats.blocks,
		.new_blocks = stats.new_blocks,
		.new_bytes = stats.new_bytes,
		.old_bytes = stats.old_bytes,
	};
	return 0;
}
