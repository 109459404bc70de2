// SPDX-License-Identifier: Apache-2.0
#include "image/writer/metadata.h"

#include <errno.h>
#include <string.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"
#include "image/erofs/erofs.h"
#include "image/writer/spill.h"
#include "image/writer/zstd_blob.h"

/* After so many bytes of metadata, the memory of the spilled file contents is released. */
#define FORGET_EVERY (16 * MIB)

/* List the packs of the map as descriptors, in the map's order. */
static int list_packs(const struct metadata *m, struct artifact *a,
		      struct error *err)
{
	struct blockmap map;
	int rc = blockmap_open(m->map, m->map_len, &map, err);

	if (rc < 0)
		return rc;
	a->packs = calloc(map.n_packs + 1, sizeof(*a->packs));
	if (!a->packs)
		return error_nomem(err);
	for (; a->n_packs < map.n_packs; a->n_packs++) {
		struct pack pack;

		blockmap_pack(&map, a->n_packs, &pack);
		a->packs[a->n_packs].digest = pack.digest;
		a->packs[a->n_packs].size = pack.size;
	}
	return 0;
}

static int store_map(const struct metadata *m, struct artifact *a,
		     struct error *err)
{
	AUTO(zstd_blob) blob = NULL;
	struct zstd_blob_stored s;
	int rc = zstd_blob_new(m->temp_dir, m->level, &blob, err);

	if (rc == 0)
		rc = zstd_blob_put(blob, m->map_len, m->map, m->map_len, err);
	if (rc == 0)
		rc = zstd_blob_store(blob, m->target, &s, err);
	if (rc < 0)
		return rc;
	a->map = s.blob;
	a->map_parts = s.parts;
	a->map_raw = s.plain;
	a->map_size = s.plain_size;
	return 0;
}

/* Passes an EROFS image to its blob as it is written. */
struct metadata_stream {
	struct zstd_blob *blob;
	struct spill *spill;
	/* length of the whole image, known before the first byte */
	uint64_t len;
	uint64_t done;
};

static int metadata_put(void *arg, const void *data, size_t len,
			struct error *err)
{
	struct metadata_stream *s = arg;
	int rc;

	if (s->len > ARTIFACT_META_MAX)
		return error_set(err, EFBIG,
				 "its metadata has %llu bytes; %u is the most",
				 (unsigned long long)s->len, ARTIFACT_META_MAX);
	rc = zstd_blob_put(s->blob, s->len, data, len, err);
	/* The image's bytes include contents of tiny files, read from the spill: release
	 * that memory. */
	if (s->spill &&
	    (s->done + len) / FORGET_EVERY != s->done / FORGET_EVERY)
		spill_forget(s->spill);
	s->done += len;
	return rc;
}

static int store_image(const struct metadata *m, struct artifact *a,
		       struct error *err)
{
	struct erofs_device device = { .size = m->device_size,
				       .tag = "bootseer" };
	struct erofs_params params = {
		.build_time = tree_root(m->tree)->mtime,
		.devices = &device,
		.n_devices = 1,
	};
	struct metadata_stream stream = { .spill = m->spill };
	AUTO(zstd_blob) blob = NULL;
	struct zstd_blob_stored s;
	int rc;

	/* The uuid depends on the content alone, so that the same content gives the same
	 * image. */
	memcpy(params.uuid, a->map_raw.b, sizeof(params.uuid));
	rc = zstd_blob_new(m->temp_dir, m->level, &blob, err);
	stream.blob = blob;
	if (rc == 0)
		rc = erofs_write_to(m->tree, &params, metadata_put, &stream,
				    &stream.len, err);
	if (rc == 0)
		rc = zstd_blob_store(blob, m->target, &s, err);
	if (rc < 0)
		return rc;
	a->meta = s.blob;
	a->meta_parts = s.parts;
	a->meta_raw = s.plain;
	a->meta_size = s.plain_size;
	return 0;
}

int metadata_store(const struct metadata *m, struct artifact *a,
		   struct error *err)
{
	int rc = list_packs(m, a, err);

	a->device_size = m->device_size;
	if (rc == 0)
		rc = store_map(m, a, err);
	if (rc < 0)
		return error_wrap(err, rc, "block map");
	rc = store_image(m, a, err);
	return rc < 0 ? error_wrap(err, rc, "metadata image") : 0;
}
