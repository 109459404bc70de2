// SPDX-License-Identifier: Apache-2.0
/* Ordinary layers, for images that share one with a lazy image. */
#include <errno.h>
#include <string.h>

#include "snapshotter/node/node.h"
#include "snapshotter/node/unpack.h"

/* The descriptor of the layer and what its plain bytes must hash to. */
static int find_layer(struct oci_store *store, const struct oci_manifest *m,
		      size_t layer, struct oci_descriptor *ret,
		      struct digest *ret_diff_id, struct error *err)
{
	struct oci_image image = { .n_layers = 0 };
	AUTO_FREE struct digest *diff_ids = NULL;
	AUTO_BUF config = BUF_INIT;
	size_t n = 0;
	int rc;

	rc = oci_image_parse(m->body.data, m->body.len, &image, err);
	if (rc < 0)
		return rc;
	rc = oci_get_blob(store, &image.config.digest, image.config.size,
			  OCI_CONFIG_MAX, &config, err);
	if (rc == 0)
		rc = oci_config_diff_ids(config.data, config.len, &diff_ids, &n,
					 err);
	if (rc == 0 && n != image.n_layers)
		rc = error_set(err, EBADMSG,
			       "%zu layers in the manifest, %zu in the config",
			       image.n_layers, n);
	if (rc == 0 && layer >= n)
		rc = error_set(err, EINVAL, "layer %zu of %zu", layer, n);
	if (rc == 0) {
		*ret = image.layers[layer];
		ret->annotations = NULL;
		*ret_diff_id = diff_ids[layer];
	}
	oci_image_fini(&image);
	return rc;
}

static int apply_layer(struct oci_store *store, const struct oci_descriptor *d,
		       const struct digest *diff_id, const char *dir,
		       uint64_t *ret_bytes, struct error *err)
{
	struct layer_input in = {
		.size = d->size,
		.digest = d->digest,
		.want_diff_id = true,
		.copy_fd = -1,
	};
	AUTO(source) source = NULL;
	AUTO(unpack) u = NULL;
	AUTO(layer) l = NULL;
	int rc;

	rc = oci_open_blob(store, &d->digest, d->size, &source, err);
	in.source = source;
	if (rc == 0)
		rc = unpack_new(dir, &u, err);
	if (rc == 0)
		rc = layer_open(&in, &l, err);
	if (rc == 0)
		rc = tar_walk(l, unpack_visitor(u), err);
	if (rc == 0 && !digest_equal(layer_diff_id(l), diff_id))
		rc = error_set(err, EBADMSG,
			       "its content is not what the config says");
	if (rc == 0)
		rc = unpack_finish(u, err);
	if (rc == 0)
		*ret_bytes = layer_plain_bytes(l);
	layer_close(steal_ptr(&l)); /* before its source goes */
	return rc;
}

int node_layer_apply(struct node *n, const struct image_query *q, size_t layer,
		     const char *dir, uint64_t *ret_bytes, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_descriptor d = { .size = 0 };
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	struct digest diff_id;
	int rc;

	rc = node_manifest(n, q, &origin, &m, err);
	if (rc < 0)
		return rc;
	rc = origin_lease(origin, &lease, err);
	if (rc == 0)
		rc = find_layer(lease->store, &m, layer, &d, &diff_id, err);
	if (rc == 0)
		rc = apply_layer(lease->store, &d, &diff_id, dir, ret_bytes,
				 err);
	store_lease_end(lease);
	origin_put(origin);
	oci_manifest_fini(&m);
	return error_wrap(err, rc, "image %s: layer %zu", q->ref, layer);
}
