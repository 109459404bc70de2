// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/publish.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "snapshotter/convert/upload.h"
#include "snapshotter/erofs/erofs.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
/* Metadata is read in whole before a mount: worth the time. */
#define META_LEVEL 12
/* Bytes of metadata after which the memory of what went in is let go. */
#define FORGET_EVERY (16 * MIB)

/*
 * Content that is compressed into a nameless file as it comes: the metadata of
 * many files would fill the memory twice.
 */
struct packing {
	ZSTD_CCtx *zstd;
	struct hasher *plain, *stored;
	struct spill *spill;
	int fd;
	uint64_t len; /* of the whole, known before the first byte */
	uint64_t done, n_stored;
	uint8_t out[128 * KIB];
};

static void packing_free(struct packing *k)
{
	if (!k)
		return;
	ZSTD_freeCCtx(k->zstd);
	hasher_free(k->plain);
	hasher_free(k->stored);
	cleanup_close(&k->fd);
	free(k);
}
DEFINE_AUTO(packing)

static int packing_new(struct publish *p, struct packing **ret,
		       struct error *err)
{
	AUTO(packing) k = calloc(1, sizeof(*k));
	int rc;

	if (!k)
		return error_nomem(err);
	k->fd = -1;
	k->zstd = ZSTD_createCCtx();
	k->plain = hasher_new();
	k->stored = hasher_new();
	k->spill = p->spill;
	if (!k->zstd || !k->plain || !k->stored ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(k->zstd,
						ZSTD_c_compressionLevel,
						META_LEVEL)))
		return error_nomem(err);
	rc = temp_file(p->temp_dir, &k->fd, err);
	if (rc == 0)
		*ret = steal_ptr(&k);
	return rc;
}

static int store(struct packing *k, const void *data, size_t len,
		 struct error *err)
{
	int rc = fs_pwrite_full(k->fd, data, len, k->n_stored);

	if (rc == 0)
		rc = hasher_update(k->stored, data, len);
	k->n_stored += len;
	return rc < 0 ? error_set(err, -rc, "write a temporary file: %s",
				  strerror(-rc))
		      : 0;
}

static int compress(struct packing *k, const void *data, size_t len,
		    ZSTD_EndDirective how, struct error *err)
{
	ZSTD_inBuffer in = { .src = data, .size = len };
	size_t left;

	do {
		ZSTD_outBuffer out = { .dst = k->out, .size = sizeof(k->out) };
		int rc;

		left = ZSTD_compressStream2(k->zstd, &out, &in, how);
		if (ZSTD_isError(left))
			return error_set(err, EIO, "zstd: %s",
					 ZSTD_getErrorName(left));
		rc = store(k, k->out, out.pos, err);
		if (rc < 0)
			return rc;
	} while (in.pos < in.size || (how == ZSTD_e_end && left));
	return 0;
}

/* For erofs_write_to(). */
static int pack_piece(void *arg, const void *data, size_t len,
		      struct error *err)
{
	struct packing *k = arg;
	int rc = 0;

	if (k->done == 0 &&
	    ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(k->zstd, k->len)))
		return error_set(err, EIO, "zstd: a size");
	if (hasher_update(k->plain, data, len) < 0)
		return error_nomem(err);
	rc = compress(k, data, len, ZSTD_e_continue, err);
	/* The bytes of tiny files were read meanwhile. */
	if (k->spill &&
	    (k->done + len) / FORGET_EVERY != k->done / FORGET_EVERY)
		spill_forget(k->spill);
	k->done += len;
	return rc;
}

static int digest_part(int fd, uint64_t off, size_t len, void *room,
		       struct digest *ret, struct error *err)
{
	int rc = fs_pread_full(fd, room, len, off);

	if (rc < 0)
		return error_set(err, -rc, "read a temporary file: %s",
				 strerror(-rc));
	return digest_of(room, len, ret) < 0 ? error_nomem(err) : 0;
}

/* How many bytes a part has only the end of the blob tells: it is read again. */
static int make_parts(const struct packing *k, struct parts *ret,
		      struct error *err)
{
	uint32_t size = parts_size(k->n_stored);
	AUTO_FREE struct digest *digests = NULL;
	AUTO_FREE void *room = NULL;
	uint32_t n = 0;

	if (!size)
		return 0;
	digests = calloc(PARTS_MAX, sizeof(*digests));
	room = malloc(size);
	if (!digests || !room)
		return error_nomem(err);
	for (uint64_t off = 0; off < k->n_stored; off += size, n++) {
		uint64_t left = k->n_stored - off;
		int rc = digest_part(k->fd, off, left < size ? left : size,
				     room, &digests[n], err);

		if (rc < 0)
			return rc;
	}
	*ret = (struct parts){ .digests = steal_ptr(&digests),
			       .n = n,
			       .size = size };
	return 0;
}

/* Store it; fills the descriptor, its parts, digest and size of the content. */
static int packing_put(struct packing *k, struct oci_store *to,
		       struct oci_descriptor *ret, struct parts *ret_parts,
		       struct digest *ret_plain, uint64_t *ret_size,
		       struct error *err)
{
	int rc = compress(k, "", 0, ZSTD_e_end, err);

	if (rc == 0)
		rc = make_parts(k, ret_parts, err);

	if (rc < 0)
		return rc;
	if (hasher_final(k->plain, ret_plain) < 0 ||
	    hasher_final(k->stored, &ret->digest) < 0)
		return error_nomem(err);
	*ret_size = k->done;
	ret->size = k->n_stored;
	return oci_put_blob(to, &ret->digest, ret->size, k->fd, NULL, err);
}

static int put_map(struct publish *p, struct error *err)
{
	struct artifact *a = p->artifact;
	AUTO(packing) k = NULL;
	int rc = packing_new(p, &k, err);

	if (rc < 0)
		return rc;
	k->len = p->map_len;
	rc = pack_piece(k, p->map, p->map_len, err);
	return rc < 0 ? rc
		      : packing_put(k, p->store, &a->map, &a->map_parts,
				    &a->map_raw, &a->map_size, err);
}

static int pack_metadata(void *arg, const void *data, size_t len,
			 struct error *err)
{
	struct packing *k = arg;

	if (k->len > ARTIFACT_META_MAX)
		return error_set(err, EFBIG,
				 "its metadata has %llu bytes; %u is the most",
				 (unsigned long long)k->len, ARTIFACT_META_MAX);
	return pack_piece(arg, data, len, err);
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
	AUTO(packing) k = NULL;
	int rc;

	/* The same content has the same name, so it depends on that alone. */
	memcpy(params.uuid, a->map_raw.b, sizeof(params.uuid));
	rc = packing_new(p, &k, err);
	if (rc == 0)
		rc = erofs_write_to(p->tree, &params, pack_metadata, k, &k->len,
				    err);
	if (rc == 0)
		rc = packing_put(k, p->store, &a->meta, &a->meta_parts,
				 &a->meta_raw, &a->meta_size, err);
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
	int rc = list_packs(p, err);

	if (rc == 0)
		rc = put_map(p, err);
	if (rc < 0)
		return error_wrap(err, rc, "block map");
	return put_metadata(p, err);
}

static int format_manifest(struct publish *p,
			   const struct oci_descriptor *config, struct buf *ret,
			   struct error *err)
{
	struct artifact *a = p->artifact;
	int rc;

	buf_reset(ret);
	rc = artifact_format_manifest(a, config, p->image_manifest_size,
				      p->image_media_type, ret, err);
	if (rc == 0 && ret->len > OCI_MANIFEST_MAX)
		rc = error_set(err, EFBIG, "its manifest has %zu bytes",
			       ret->len);
	if (rc == 0 && digest_of(ret->data, ret->len, &a->digest) < 0)
		rc = error_nomem(err);
	return rc;
}

/* The last ones: what they replaced nobody uses any more. */
static int name_replaced(struct publish *p, struct error *err)
{
	size_t n = p->n_others;
	AUTO_BUF text = BUF_INIT;
	char name[DIGEST_STR_MAX];

	for (size_t i = n > ARTIFACTS_MAX ? n - ARTIFACTS_MAX : 0; i < n; i++) {
		digest_format(&p->others[i], name);
		if (buf_printf(&text, "%s%s", text.len ? " " : "", name) < 0)
			return error_nomem(err);
	}
	p->artifact->replaces = steal_ptr(&text.data);
	return 0;
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
		rc = format_manifest(p, &desc, &manifest, err);
	if (rc == 0 && p->n_others &&
	    !(p->used && digest_equal(p->used, &a->digest))) {
		rc = name_replaced(p, err);
		if (rc == 0)
			rc = format_manifest(p, &desc, &manifest, err);
	}
	if (rc == 0)
		rc = oci_put_manifest(p->store, tag, MANIFEST_TYPE,
				      manifest.data, manifest.len, err);
	return rc < 0 ? error_wrap(err, rc, "publish the artifact") : 0;
}
