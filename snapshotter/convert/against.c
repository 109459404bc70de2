// SPDX-License-Identifier: Apache-2.0
/* Compares an artifact with the layers that its image is made of. */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "image/erofs/erofs.h"
#include "snapshotter/convert/compare.h"
#include "snapshotter/convert/convert_priv.h"

/* The image as it is in its registry. */
struct layers_image {
	struct oci_manifest manifest;
	struct oci_image image;
	struct buf config;
	struct digest *diff_ids;
	size_t n_diff_ids;
};

static void layers_image_fini(struct layers_image *l)
{
	oci_manifest_fini(&l->manifest);
	oci_image_fini(&l->image);
	buf_fini(&l->config);
	free(l->diff_ids);
}

static int layers_image_read(const struct check_target *t,
			     struct layers_image *l, struct error *err)
{
	char text[DIGEST_STR_MAX];
	int rc;

	digest_format(t->image, text);
	rc = oci_get_manifest(t->layers, text, &l->manifest, err);
	if (rc == 0)
		rc = oci_image_parse(l->manifest.body.data,
				     l->manifest.body.len, &l->image, err);
	if (rc == 0)
		rc = oci_get_blob(t->layers, &l->image.config.digest,
				  l->image.config.size, OCI_CONFIG_MAX,
				  &l->config, err);
	if (rc == 0)
		rc = oci_config_diff_ids(l->config.data, l->config.len,
					 &l->diff_ids, &l->n_diff_ids, err);
	if (rc < 0)
		return error_wrap(err, rc, "image %s", text);
	if (l->n_diff_ids != l->image.n_layers || l->n_diff_ids == 0)
		return error_set(err, EINVAL,
				 "its manifest has %zu layers but its config "
				 "%zu diff ids",
				 l->image.n_layers, l->n_diff_ids);
	return 0;
}

static int read_device(void *arg, uint64_t voff, void *buf, size_t len,
		       struct error *err)
{
	int rc = fs_pread_full(*(const int *)arg, buf, len, voff);

	return rc < 0 ? error_errno(err, -rc, "read a temporary file") : 0;
}

struct against {
	const struct check_options *opt;
	struct layers_image image;
	struct plan *plan;
};

int against_open(const struct check_target *t, const struct check_options *opt,
		 struct against **ret, struct error *err)
{
	AUTO(against) a = calloc(1, sizeof(*a));
	struct plan_config cfg = {
		.store = t->layers,
		.spool = t->spool,
		.temp_dir = opt->temp_dir,
		.progress = opt->progress,
	};
	int rc;

	if (!a)
		return error_nomem(err);
	a->opt = opt;
	rc = layers_image_read(t, &a->image, err);
	cfg.image = &a->image.image;
	cfg.diff_ids = a->image.diff_ids;
	if (rc == 0)
		rc = plan_make(&cfg, &a->plan, err);
	if (rc < 0)
		return error_wrap(err, rc, "compare with the layers");
	*ret = steal_ptr(&a);
	return 0;
}

void against_free(struct against *a)
{
	if (!a)
		return;
	plan_free(a->plan);
	layers_image_fini(&a->image);
	free(a);
}

/* Upper bound of the device's bytes that the files below a folder take; a file with several
 * names counts once. */
static uint64_t max_device_bytes(const struct inode *dir)
{
	uint64_t sum = 0, size;

	for (const struct dentry *d = dir->children; d; d = d->next) {
		const struct inode *i = d->inode;

		if (S_ISDIR(i->mode))
			sum += max_device_bytes(i);
		if (!S_ISREG(i->mode) || i->size == 0)
			continue;
		/* Rounded up, so that a part of a small file is never 0. */
		size = round_up(i->size, BLOCK_ALIGN);
		sum += (size + i->nlink - 1) / i->nlink;
	}
	return sum;
}

/* Compare the artifact with the layers; without content if `u`.data_fd < 0. */
static int compare(struct against *a, const struct unpacked *u,
		   struct error *err)
{
	struct erofs_image image;
	AUTO(tree) tree = NULL;
	int fd = u->data_fd;
	struct compare c = {
		.want = a->plan->tree,
		.read = fd >= 0 ? read_device : NULL,
		.arg = &fd,
		.report = a->opt->against_layers,
	};
	int rc = erofs_open(u->meta, u->meta_len, &image, err);

	if (rc == 0)
		rc = erofs_read_tree(&image, &tree, err);
	c.have = tree;
	if (rc == 0 && c.read)
		rc = compare_read_layers(a->plan, err);
	if (rc == 0)
		rc = compare_trees(&c, err);
	return rc < 0 ? error_wrap(err, rc, "compare with the layers") : 0;
}

int against_sizes(struct against *a, const struct unpacked *u,
		  uint64_t n_covered, bool *ret_differs, struct error *err)
{
	const struct compare_report *report = a->opt->against_layers;
	uint64_t need = max_device_bytes(tree_root(a->plan->tree));
	size_t before = report->n;
	int rc;

	*ret_differs = n_covered > need;
	if (!*ret_differs)
		return 0;
	rc = compare(a, u, err);
	if (rc == 0 && report->n == before)
		rc = error_set(err, EBADMSG,
			       "its blocks cover %" PRIu64
			       " bytes, the files of its layers have "
			       "%" PRIu64,
			       n_covered, need);
	return rc;
}

int against_compare(struct against *a, const struct unpacked *u,
		    struct error *err)
{
	return compare(a, u, err);
}
