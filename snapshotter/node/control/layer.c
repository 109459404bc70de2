// SPDX-License-Identifier: Apache-2.0
/* Unpacking of ordinary layers, for images that share a layer with a lazy image. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "common/fs.h"
#include "common/registry_host.h"
#include "snapshotter/convert/layer_reading.h"
#include "snapshotter/convert/layer_type.h"
#include "snapshotter/node/control/layer.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/content.h"
#include "snapshotter/node/layers/unpack.h"
#include "snapshotter/node/offers/offers.h"

/* Find the layer's descriptor, and the digest that its uncompressed bytes must have. */
static int find_layer(struct oci_store *store, const struct oci_manifest *m,
		      size_t layer, const struct digest *want_chain,
		      struct oci_descriptor *ret, struct digest *ret_diff_id,
		      struct error *err)
{
	AUTO_FINI(oci_image) image = { .n_layers = 0 };
	struct digest chain;
	AUTO_FREE struct digest *diff_ids = NULL;
	AUTO_BUF config = BUF_INIT;
	size_t n = 0;
	int rc = oci_image_parse(m->body.data, m->body.len, &image, err);

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
	if (rc == 0 && want_chain) {
		rc = oci_chain_id(diff_ids, layer + 1, &chain);
		if (rc < 0)
			rc = error_set(err, -rc, "chain id");
		else if (!digest_equal(&chain, want_chain))
			rc = error_set(err, EBADMSG,
				       "the image has other layers there");
	}
	if (rc == 0)
		rc = layer_type_check(&image.layers[layer], err);
	if (rc == 0 && layer_type_is_erofs(image.layers[layer].media_type))
		rc = error_set(
			err, ENOTSUP,
			"layer %zu is an EROFS image (%.100s): only tars "
			"are unpacked",
			layer + 1, image.layers[layer].media_type);
	if (rc == 0) {
		*ret = image.layers[layer];
		ret->annotations = NULL;
		*ret_diff_id = diff_ids[layer];
	}
	return rc;
}

/* `diff_id`: the digest that the uncompressed bytes must have; NULL: any, for containerd, which
 * ignores the entry of the root folder.  `reading` may be NULL. */
static int unpack_layer_source(struct source *source,
			       const struct oci_descriptor *d,
			       const struct digest *diff_id,
			       const struct layer_place *place, bool sync,
			       struct memory_claim *windows,
			       struct layer_reading *reading,
			       struct layer_content *ret, struct error *err)
{
	const struct unpack_options options = { .lower = place->lower,
						.n_lower = place->n_lower,
						.keeps_root = !diff_id,
						.pace = windows->pace };
	const struct layer_input in = {
		.source = source,
		.size = d->size,
		.digest = d->digest,
		/* Without `diff_id` the bytes count as checked: containerd stores only blobs
		 * that match their digest, and compares the diff id itself. */
		.is_checked = !diff_id,
		.want_diff_id = true,
		.copy_fd = -1,
		.windows = windows,
		.spans = reading ? reading->spans : NULL,
		.pace = windows->pace,
	};
	AUTO(unpack) u = NULL;
	AUTO(layer) l = NULL;
	int rc = unpack_new(place->dir, &options, &u, err);

	if (rc == 0)
		rc = layer_open(&in, &l, err);
	if (rc == 0 && reading)
		unpack_visitor(u)->headers = &reading->headers;
	if (rc == 0)
		rc = tar_walk(l, unpack_visitor(u), err);
	if (rc == 0 && diff_id && !digest_equal(layer_diff_id(l), diff_id))
		rc = error_set(err, EBADMSG,
			       "its content is not what the config says");
	if (rc == 0 && sync)
		rc = unpack_finish(u, err);
	if (rc == 0)
		*ret = (struct layer_content){ .diff_id = *layer_diff_id(l),
					       .bytes = layer_plain_bytes(l) };
	return rc;
}

static int apply_layer(struct oci_store *store, const struct oci_descriptor *d,
		       const struct digest *diff_id,
		       const struct layer_place *place,
		       struct memory_claim *windows, uint64_t *ret_bytes,
		       struct error *err)
{
	AUTO(source) source = NULL;
	struct layer_content content;
	int rc = oci_open_blob(store, &d->digest, d->size, &source, err);

	if (rc == 0)
		rc = unpack_layer_source(source, d, diff_id, place, true,
					 windows, NULL, &content, err);
	if (rc == 0)
		*ret_bytes = content.bytes;
	return rc;
}

int layer_apply(struct node *n, const struct image_query *q, size_t layer,
		const struct layer_place *place, uint64_t *ret_bytes,
		struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_descriptor d = { .size = 0 };
	struct memory_claim windows = { .gate = &n->windows,
					.pace = &q->call->pace };
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	char name[REGISTRY_HOST_MAX];
	struct digest diff_id;
	int rc = resolve_manifest(n->origins, q, &origin, &m, err);

	if (rc < 0)
		return rc;
	/* Windows are shared by host, without its port, as lanes are. */
	registry_host_name(q->ref, name);
	windows.name = name;
	rc = origin_lease_paced(origin, &q->call->pace, &lease, err);
	if (rc == 0)
		rc = find_layer(lease->store, &m, layer, place->chain_id, &d,
				&diff_id, err);
	/* Unpacking takes as long as the layer's size needs; a transfer that stands still is
	 * ended by LEAST_RATE. */
	if (rc == 0)
		remote_call_no_deadline(q->call);
	if (rc == 0)
		rc = apply_layer(lease->store, &d, &diff_id, place, &windows,
				 ret_bytes, err);
	rc = remote_call_why(q->call, q->ref, rc, err);
	store_lease_end(lease);
	origin_put(origin);
	oci_manifest_fini(&m);
	return error_wrap(err, rc, "image %s: layer %zu", q->ref, layer);
}

/* Lock the empty folder: a process that finds it unlocked knows that the writer has ended. */
static int lock_folder(const char *dir, int *ret, struct error *err)
{
	AUTO_CLOSE int fd =
		open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return error_errno(err, errno, "open '%s'", dir);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || !fs_is_empty(fd))
		return error_set(err, ENOTEMPTY, "somebody else writes to '%s'",
				 dir);
	*ret = steal_fd(&fd);
	return 0;
}

int layer_unpack(struct node *n, const struct oci_descriptor *d,
		 const struct layer_place *place, bool sync, struct pace *pace,
		 struct layer_content *ret, struct error *err)
{
	/* The name is empty, so the bytes count for no registry: they come from containerd's
	 * store. */
	struct memory_claim windows = { .gate = &n->windows,
					.name = "",
					.pace = pace };
	AUTO_FREE char *path =
		content_path(n->cfg->containerd_root, &d->digest);
	struct layer_reading *reading;
	AUTO(source) source = NULL;
	AUTO_CLOSE int folder = -1;
	int rc = layer_type_check(d, err);

	if (rc == 0 && layer_type_is_erofs(d->media_type))
		rc = error_set(err, ENOTSUP, "an EROFS image is no tar");
	if (rc == 0)
		rc = path ? posix_source_new(path, &source, err)
			  : error_nomem(err);
	if (rc == 0)
		rc = lock_folder(place->dir, &folder, err);
	if (rc < 0)
		return rc;
	reading = offers_reading_begin(n->offers, d);
	rc = unpack_layer_source(source, d, NULL, place, sync, &windows,
				 reading, ret, err);
	offers_reading_end(n->offers, reading, rc < 0 ? NULL : &ret->diff_id,
			   rc < 0 ? 0 : ret->bytes);
	/* Unlock explicitly: a child process that is being forked may still hold the descriptor. */
	(void)flock(folder, LOCK_UN);
	return rc;
}
