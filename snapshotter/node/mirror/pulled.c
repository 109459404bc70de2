// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/mirror/pulled.h"

#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/log.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/peers/image_swarm.h"

#define LIAR_NS (600 * NS_PER_S)

/* ----------------------------------------------------------------- liars --- */

void liars_add(struct liars *l, const char *host, const char *node)
{
	(void)pthread_mutex_lock(&l->lock);
	(void)snprintf(l->list[l->next].host, sizeof(l->list[0].host), "%s",
		       host);
	(void)snprintf(l->list[l->next].node, sizeof(l->list[0].node), "%s",
		       node);
	l->list[l->next].until = clock_now_ns() + LIAR_NS;
	l->next = (l->next + 1) % LIARS_MAX;
	(void)pthread_mutex_unlock(&l->lock);
}

bool liars_have(struct liars *l, const char *host, const char *node)
{
	int64_t now = clock_now_ns();
	bool yes = false;

	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; k < LIARS_MAX && !yes; k++)
		yes = now < l->list[k].until &&
		      strcmp(l->list[k].host, host) == 0 &&
		      strcmp(l->list[k].node, node) == 0;
	(void)pthread_mutex_unlock(&l->lock);
	return yes;
}

/* ---------------------------------------------------------------- pieces --- */

/* The layer in which block `index` of the map lies. */
static struct pulled_layer *
find_layer_of_block(const struct pulled *p, uint32_t index, uint32_t *ret_piece)
{
	size_t k = p->n_layers - 1;

	while (k > 0 && p->layers[k].first > index)
		k--;
	*ret_piece = index - p->layers[k].first;
	return &p->layers[k];
}

static bool pulled_has(void *arg, uint32_t index)
{
	uint32_t piece;
	struct pulled_layer *l = find_layer_of_block(arg, index, &piece);

	return layer_file_has(l->file, piece);
}

static int pulled_put(void *arg, uint32_t index, const void *data,
		      const char *node, struct error *err)
{
	struct pulled *p = arg;
	uint32_t piece;
	struct pulled_layer *l = find_layer_of_block(p, index, &piece);

	if (node && liars_have(p->liars, p->host, node))
		return error_set(err, EBADMSG,
				 "node '%.100s' sent wrong bytes of a layer "
				 "lately",
				 node);
	return layer_file_put(l->file, piece, data, node, err);
}

static int pulled_open_piece(void *arg, uint32_t index, int *ret_fd,
			     uint64_t *ret_off)
{
	uint32_t piece;
	struct pulled_layer *l = find_layer_of_block(arg, index, &piece);

	*ret_off = (uint64_t)piece * LAYER_PIECE;
	return layer_file_open(l->file, piece, ret_fd);
}

static const struct p2p_pieces pulled_pieces = {
	.has = pulled_has,
	.put = pulled_put,
	.open = pulled_open_piece,
};

static char *pulled_authorization(void *arg, struct pace *pace)
{
	struct pulled *p = arg;

	return image_swarms_authorization(p->origin, &p->manifest, pace);
}

/* ------------------------------------------------------------------- map --- */

/* Name a piece by its layer and number: the swarm only needs distinct names. */
static int name_piece(const struct pulled_layer *l, uint32_t piece,
		      struct digest *ret)
{
	uint8_t text[DIGEST_SIZE + 4];

	memcpy(text, l->digest.b, DIGEST_SIZE);
	for (size_t k = 0; k < 4; k++)
		text[DIGEST_SIZE + k] = (uint8_t)(piece >> 8 * k);
	return digest_of(text, sizeof(text), ret);
}

static int add_layer(struct blockmap_writer *w, const struct pulled_layer *l,
		     uint64_t *voff, struct error *err)
{
	const struct pack pack = { .digest = l->digest, .size = l->size };
	struct block b = { .codec = BLOCK_CODEC_RAW };
	int rc = blockmap_writer_pack(w, &pack, &b.pack, err);

	for (uint32_t k = 0; rc == 0 && k < layer_pieces(l->size); k++) {
		b.voff = *voff;
		b.poff = (uint64_t)k * LAYER_PIECE;
		b.usize = b.csize = layer_piece_bytes(l->size, k);
		*voff += round_up(b.usize, BLOCK_ALIGN);
		if (name_piece(l, k, &b.digest) < 0)
			return error_nomem(err);
		rc = blockmap_writer_block(w, &b, err);
	}
	return rc;
}

static int make_map(struct pulled *p, struct error *err)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	uint64_t voff = 0;
	size_t len = 0;
	int rc = w ? 0 : error_nomem(err);

	for (size_t k = 0; rc == 0 && k < p->n_layers; k++)
		rc = add_layer(w, &p->layers[k], &voff, err);
	if (rc == 0)
		rc = blockmap_writer_finish(w, voff, &p->map_bytes, &len, err);
	return rc < 0 ? rc : blockmap_open(p->map_bytes, len, &p->map, err);
}

/* -------------------------------------------------------------- manifest --- */

static bool has_layer(const struct pulled *p, const struct digest *d)
{
	for (size_t k = 0; k < p->n_layers; k++)
		if (digest_equal(&p->layers[k].digest, d))
			return true;
	return false;
}

static int take_layers(struct pulled *p, const struct oci_image *image,
		       struct error *err)
{
	uint64_t bytes = 0, pieces = 0;
	int rc = 0;

	if (image->n_layers == 0 || image->n_layers > PULLED_LAYERS_MAX)
		return error_set(err, ENOTSUP, "it has %zu layers",
				 image->n_layers);
	p->layers = calloc(image->n_layers, sizeof(*p->layers));
	if (!p->layers)
		return error_nomem(err);
	for (size_t k = 0; rc == 0 && k < image->n_layers; k++) {
		const struct oci_descriptor *d = &image->layers[k];
		struct pulled_layer *l = &p->layers[p->n_layers];

		if (has_layer(p, &d->digest))
			continue;
		bytes += d->size;
		if (d->size == 0 || d->size > p->most || bytes > p->most)
			return error_set(err, ENOTSUP,
					 "its layers are larger than "
					 "--cache-quota");
		l->digest = d->digest;
		l->size = d->size;
		l->first = (uint32_t)pieces;
		pieces += layer_pieces(d->size);
		if (pieces > P2P_BLOCKS_MAX)
			return error_set(err, ENOTSUP, "it is too large");
		rc = layer_file_new(&l->digest, l->size, &l->file, err);
		p->n_layers += rc == 0;
	}
	return rc;
}

static int read_manifest(struct pulled *p, struct pace *pace, struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .media_type = "" };
	AUTO_FINI(oci_image) image = { .n_layers = 0 };
	char name[DIGEST_STR_MAX];
	struct store_lease *lease;
	int rc = origin_lease_paced(p->origin, pace, &lease, err);

	if (rc < 0)
		return rc;
	digest_format(&p->manifest, name);
	rc = oci_get_manifest(lease->store, name, &m, err);
	store_lease_end(lease);
	if (rc == 0 && oci_media_type_is_index(m.media_type))
		rc = error_set(err, ENOTSUP, "it is a list of images");
	if (rc == 0)
		rc = oci_image_parse(m.body.data, m.body.len, &image, err);
	if (rc == 0)
		rc = take_layers(p, &image, err);
	return rc;
}

/* ----------------------------------------------------------------- swarm --- */

static int open_sources(const struct pulled *p, struct source ***ret,
			struct error *err)
{
	AUTO_FREE struct oci_descriptor *list =
		calloc(p->n_layers, sizeof(*list));

	if (!list)
		return error_nomem(err);
	for (size_t k = 0; k < p->n_layers; k++) {
		list[k].digest = p->layers[k].digest;
		list[k].size = p->layers[k].size;
	}
	return origin_blobs(p->origin, list, p->n_layers, ret, err);
}

static int join_swarm(struct pulled *p, struct error *err)
{
	AUTO_FREE struct source **packs = NULL;
	AUTO_FREE char *repo = origin_place(p->host, p->repo);
	struct p2p_image_config cfg = {
		.image = p->manifest,
		.kind = P2P_SWARM_LAYERS,
		.map = &p->map,
		.label = repo,
		.authorization = pulled_authorization,
		.repo = repo,
		.pieces = &pulled_pieces,
		.arg = p,
	};
	int rc = repo ? open_sources(p, &packs, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	cfg.packs = packs;
	return p2p_image_open(image_swarms_p2p(p->peers), &cfg, &p->p2p, err);
}

/* Join the swarm of the layers; if that fails, the registry sends all of them. */
static void join_if_possible(struct pulled *p)
{
	struct error why = ERROR_INIT;

	if (p->peers && join_swarm(p, &why) < 0)
		log_warning("mirror",
			    "no peers for the layers image=\"%s/%s\" "
			    "reason=\"%s\"",
			    p->host, p->repo, why.msg);
}

int pulled_open(struct pulled *p, struct pace *pace, struct error *err)
{
	AUTO_FREE struct source **sources = NULL;
	int rc = origin_get(p->origins, p->host, p->repo, false, &p->origin,
			    err);

	if (rc == 0)
		rc = read_manifest(p, pace, err);
	if (rc == 0)
		rc = make_map(p, err);
	if (rc == 0)
		rc = open_sources(p, &sources, err);
	if (rc < 0)
		return error_wrap(err, rc, "%s/%s", p->host, p->repo);
	for (size_t k = 0; k < p->n_layers; k++)
		p->layers[k].registry = sources[k];
	join_if_possible(p);
	return 0;
}

void pulled_close(struct pulled *p)
{
	p2p_image_close(p->p2p);
	for (size_t k = 0; k < p->n_layers; k++) {
		source_free(p->layers[k].registry);
		layer_file_free(p->layers[k].file);
	}
	origin_put(p->origin);
	free(p->layers);
	free(p->map_bytes);
	free(p->host);
	free(p->repo);
	*p = (struct pulled){ .p2p = NULL };
}
