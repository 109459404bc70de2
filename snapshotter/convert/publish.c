// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/publish.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "snapshotter/erofs/erofs.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
/* Metadata is read in whole before a mount: worth the time. */
#define META_LEVEL 12

/* Compress and store; fills the descriptor, digest and size of the content. */
static int put_content(struct oci_store *store, const void *data, size_t len,
		       struct oci_descriptor *ret, struct digest *ret_raw,
		       uint64_t *ret_size, struct error *err)
{
	size_t cap = ZSTD_compressBound(len);
	AUTO_FREE void *stored = malloc(cap);
	size_t n;

	if (!stored)
		return error_nomem(err);
	n = ZSTD_compress(stored, cap, data, len, META_LEVEL);
	if (ZSTD_isError(n))
		return error_set(err, EIO, "zstd: %s", ZSTD_getErrorName(n));
	if (digest_of(data, len, ret_raw) < 0)
		return error_nomem(err);
	*ret_size = len;
	ret->size = n;
	return oci_put_bytes(store, stored, n, &ret->digest, err);
}

static int put_metadata(struct publish *p, struct error *err)
{
	struct artifact *a = p->artifact;
	struct erofs_device device = { .size = a->device_size,
				       .tag = "bootseer" };
	struct erofs_params params = {
		.build_time = tree_root(p->tree)->mtime,
		.devices = &device,
		.n_devices = 1,
	};
	AUTO_FREE void *image = NULL;
	size_t len = 0;
	int rc;

	/* The same content has the same name, so it depends on that alone. */
	memcpy(params.uuid, a->map_raw.b, sizeof(params.uuid));
	rc = erofs_write(p->tree, &params, &image, &len, err);
	if (rc == 0 && len > ARTIFACT_META_MAX)
		rc = error_set(err, EFBIG,
			       "its metadata has %zu bytes; %u is "
			       "the most",
			       len, ARTIFACT_META_MAX);
	if (rc == 0)
		rc = put_content(p->store, image, len, &a->meta, &a->meta_raw,
				 &a->meta_size, err);
	return rc < 0 ? error_wrap(err, rc, "metadata image") : 0;
}

/* The packs of the map, as descriptors in its order. */
static int list_packs(struct publish *p, struct error *err)
{
	struct artifact *a = p->artifact;
	struct blockmap map;
	int rc = blockmap_open(p->map, p->map_len, &map, err);

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

int publish_blobs(struct publish *p, struct error *err)
{
	struct artifact *a = p->artifact;
	int rc = list_packs(p, err);

	if (rc == 0)
		rc = put_content(p->store, p->map, p->map_len, &a->map,
				 &a->map_raw, &a->map_size, err);
	if (rc < 0)
		return error_wrap(err, rc, "block map");
	return put_metadata(p, err);
}

int publish_manifest(struct publish *p, const char *tag, struct error *err)
{
	struct artifact *a = p->artifact;
	struct oci_descriptor desc = { .annotations = NULL };
	AUTO_BUF config = BUF_INIT;
	AUTO_BUF manifest = BUF_INIT;
	int rc = artifact_format_config(a, &config, err);

	if (rc < 0)
		return rc;
	desc.size = config.len;
	rc = oci_put_bytes(p->store, config.data, config.len, &desc.digest,
			   err);
	if (rc == 0)
		rc = artifact_format_manifest(a, &desc, p->image_manifest_size,
					      p->image_media_type, &manifest,
					      err);
	if (rc == 0 && manifest.len > OCI_MANIFEST_MAX)
		rc = error_set(err, EFBIG, "its manifest has %zu bytes",
			       manifest.len);
	if (rc == 0 && digest_of(manifest.data, manifest.len, &a->digest) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = oci_put_manifest(p->store, tag, MANIFEST_TYPE,
				      manifest.data, manifest.len, err);
	return rc < 0 ? error_wrap(err, rc, "publish the artifact") : 0;
}
