// SPDX-License-Identifier: Apache-2.0
/* Writer of block maps. Pure. Format: docs/formats/blockmap.md. */
#include <errno.h>
#include <string.h>

#include "blockstore/blockmap_format.h"
#include "blockstore/span_map.h"
#include "common/buf.h"
#include "common/bytes.h"

struct blockmap_writer {
	struct buf blocks; /* header and records, as in the result */
	struct buf packs;
	struct buf spans, places; /* only of a map whose blocks lie in layers */
	size_t n_blocks;
	uint32_t n_packs;
	uint64_t content; /* end of the last block's stored form */
};

struct blockmap_writer *blockmap_writer_new(void)
{
	static const uint8_t header[HEADER_SIZE];
	AUTO(blockmap_writer) w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->blocks.limit = BLOCKMAP_BYTES_MAX;
	if (buf_append(&w->blocks, header, sizeof(header)) < 0)
		return NULL;
	return steal_ptr(&w);
}

void blockmap_writer_free(struct blockmap_writer *w)
{
	if (!w)
		return;
	buf_fini(&w->blocks);
	buf_fini(&w->packs);
	buf_fini(&w->spans);
	buf_fini(&w->places);
	free(w);
}

int blockmap_writer_pack(struct blockmap_writer *w, const struct pack *p,
			 uint32_t *ret_index, struct error *err)
{
	uint8_t rec[PACK_SIZE];

	if (w->n_packs == PACKS_MAX)
		return error_set(err, EFBIG, "block map: more than %u packs",
				 PACKS_MAX);
	memcpy(rec + PACK_DIGEST, p->digest.b, DIGEST_SIZE);
	put_le64(rec + PACK_BYTES, p->size);
	if (buf_append(&w->packs, rec, sizeof(rec)) < 0)
		return error_nomem(err);
	*ret_index = w->n_packs++;
	return 0;
}

int blockmap_writer_block(struct blockmap_writer *w, const struct block *b,
			  struct error *err)
{
	uint8_t rec[BLOCK_SIZE] = { 0 };
	int rc;

	memcpy(rec + BLOCK_DIGEST, b->digest.b, DIGEST_SIZE);
	put_le64(rec + BLOCK_VOFF, b->voff);
	put_le64(rec + BLOCK_POFF, b->poff);
	put_le32(rec + BLOCK_USIZE, b->usize);
	put_le32(rec + BLOCK_CSIZE, b->csize);
	put_le32(rec + BLOCK_PACK, b->pack);
	rec[BLOCK_CODEC] = (uint8_t)b->codec;
	rc = buf_append(&w->blocks, rec, sizeof(rec));
	if (rc == -EFBIG)
		return error_set(err, EFBIG,
				 "block map: more than %u bytes of blocks",
				 BLOCKMAP_BYTES_MAX);
	if (rc < 0)
		return error_nomem(err);
	w->n_blocks++;
	if (b->poff + b->csize > w->content)
		w->content = b->poff + b->csize;
	return 0;
}

int blockmap_writer_span(struct blockmap_writer *w, const struct span *s,
			 struct error *err)
{
	uint8_t rec[SPAN_SIZE] = { 0 };

	put_le64(rec + SPAN_PLAIN_OFF, s->plain);
	put_le64(rec + SPAN_STORED_OFF, s->stored);
	put_le64(rec + SPAN_WINDOW_OFF, s->window);
	put_le32(rec + SPAN_WINDOW_LEN, s->window_len);
	put_le32(rec + SPAN_PACK, s->pack);
	rec[SPAN_KIND] = (uint8_t)s->kind;
	rec[SPAN_BITS] = s->bits;
	put_le32(rec + SPAN_CRC, s->crc);
	return buf_append(&w->spans, rec, sizeof(rec)) < 0 ? error_nomem(err)
							   : 0;
}

int blockmap_writer_place(struct blockmap_writer *w,
			  const struct content_place *p, struct error *err)
{
	uint8_t rec[PLACE_SIZE];

	put_le64(rec + PLACE_AT, p->at);
	put_le64(rec + PLACE_PLAIN, p->plain);
	put_le32(rec + PLACE_LEN, p->len);
	put_le32(rec + PLACE_PACK, p->pack);
	return buf_append(&w->places, rec, sizeof(rec)) < 0 ? error_nomem(err)
							    : 0;
}

static int append_part(struct blockmap_writer *w, const struct buf *part)
{
	return part->len ? buf_append(&w->blocks, part->data, part->len) : 0;
}

int blockmap_writer_finish(struct blockmap_writer *w, uint64_t device_size,
			   void **ret, size_t *ret_len, struct error *err)
{
	struct blockmap m;
	size_t len;
	int rc = append_part(w, &w->packs);

	if (rc == 0)
		rc = append_part(w, &w->spans);
	if (rc == 0)
		rc = append_part(w, &w->places);
	if (rc == -EFBIG)
		return error_set(err, EFBIG, "block map: more than %u bytes",
				 BLOCKMAP_BYTES_MAX);
	if (rc < 0)
		return error_nomem(err);
	memcpy(w->blocks.data + HEADER_MAGIC, BLOCKMAP_MAGIC, 8);
	put_le32(w->blocks.data + HEADER_VERSION,
		 w->spans.len ? BLOCKMAP_VERSION_INDEX : BLOCKMAP_VERSION);
	if (w->spans.len) {
		put_le64(w->blocks.data + HEADER_N_SPANS,
			 w->spans.len / SPAN_SIZE);
		put_le64(w->blocks.data + HEADER_N_PLACES,
			 w->places.len / PLACE_SIZE);
		put_le64(w->blocks.data + HEADER_CONTENT, w->content);
	}
	put_le32(w->blocks.data + HEADER_N_PACKS, w->n_packs);
	put_le64(w->blocks.data + HEADER_N_BLOCKS, w->n_blocks);
	put_le64(w->blocks.data + HEADER_DEVICE_SIZE, device_size);
	/* A map that no node could open must not be published, so the reader itself checks
	 * the result. */
	rc = blockmap_open(w->blocks.data, w->blocks.len, &m, err);
	if (rc < 0)
		return rc;
	len = w->blocks.len;
	*ret = buf_steal(&w->blocks);
	if (!*ret)
		return error_nomem(err);
	*ret_len = len;
	return 0;
}
