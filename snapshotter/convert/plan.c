// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/temp_file.h"
#include "image/spans/spans.h"
#include "image/writer/upload.h"
#include "snapshotter/convert/erofs_layer.h"
#include "snapshotter/convert/layer_type.h"
#include "snapshotter/convert/tar.h"

/* "layer 3 of 5 (sha256:...): " before the message. */
static int wrap_layer(const struct plan *p, size_t layer, int rc,
		      struct error *err)
{
	char text[DIGEST_STR_MAX];

	digest_format(&p->layers[layer].blob->digest, text);
	return error_wrap(err, rc, "layer %zu of %zu (%.19s)", layer + 1,
			  p->n_layers, text);
}

static int walk_layer(const struct plan *p, const struct plan_layer *l,
		      struct layer *stream, struct tar_visitor *v,
		      struct error *err)
{
	int rc;

	if (!layer_type_is_erofs(l->blob->media_type))
		return tar_walk(stream, v, err);
	rc = erofs_walk(stream, p->temp_dir, v, err);
	return rc == -ENOTSUP
		       ? error_wrap(err, rc,
				    "an EROFS image that is not read: convert "
				    "the image with ordinary layers (of an "
				    "index: the entry without os.features)")
		       : rc;
}

/* -------------------------------------------------------------- first pass --- */

struct planner {
	struct tar_visitor visitor;
	struct plan *plan;
	struct plan_layer *layer;
	struct apply *apply;
	struct layer *stream;
	uint64_t done, total; /* stored bytes, for progress */
};

static int plan_entry(struct tar_visitor *v, const struct layer_entry *e,
		      bool *want, struct error *err)
{
	struct planner *p = container_of(v, struct planner, visitor);
	struct plan_layer *l = p->layer;
	struct inode *file;
	int rc = apply_entry(p->apply, e, &file, err);

	if (rc < 0)
		return rc;
	*want = false;
	if (!S_ISREG(e->mode) || e->hard)
		return 0;
	/* Whiteouts are here too: both passes count alike. */
	if (array_grow(&l->files, l->n_files, &l->cap_files, 256) < 0)
		return error_nomem(err);
	l->files[l->n_files++] = file;
	return 0;
}

/* A layer may be one file, whose bytes are passed over. */
static void plan_came(struct tar_visitor *v)
{
	struct planner *p = container_of(v, struct planner, visitor);
	struct convert_progress *progress = p->plan->progress;

	if (progress)
		progress->step(progress, "reading layers",
			       p->done + layer_stored_bytes(p->stream),
			       p->total);
}

static int check_diff_id(const struct layer *l, const struct digest *want,
			 struct error *err)
{
	char is[DIGEST_STR_MAX], text[DIGEST_STR_MAX];

	if (digest_equal(layer_diff_id(l), want))
		return 0;
	digest_format(layer_diff_id(l), is);
	digest_format(want, text);
	return error_set(err, EBADMSG,
			 "its unpacked content is %s, not %s as "
			 "the image's config says",
			 is, text);
}

/* Read the second time what was verified, not the store. */
static int use_spool(struct plan_layer *l, struct error *err)
{
	char path[64];

	source_free(l->source);
	l->source = NULL;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", l->spool_fd);
	return posix_source_new(path, &l->source, err);
}

/* A layer is at fault, and not the way that it came or the disk. */
static int blame_layer(const struct plan_config *cfg, int rc)
{
	if (cfg->is_at_fault)
		*cfg->is_at_fault = rc == -EINVAL || rc == -ENOTSUP ||
				    rc == -ELOOP || rc == -ENOENT;
	return rc;
}

static int plan_layer(struct planner *p, size_t i,
		      const struct plan_config *cfg, struct error *err)
{
	struct plan_layer *l = &p->plan->layers[i];
	struct layer_input in = {
		.size = l->blob->size,
		.digest = l->blob->digest,
		.want_diff_id = true,
		.spans = cfg->spans,
	};
	int rc = oci_open_blob(cfg->store, &l->blob->digest, l->blob->size,
			       &l->source, err);

	if (rc < 0)
		return blame_layer(cfg, rc);
	if (rc == 0 && cfg->spool)
		rc = temp_file(cfg->temp_dir, &l->spool_fd, err);
	if (rc < 0)
		return rc;
	in.source = l->source;
	in.copy_fd = l->spool_fd;
	apply_next_layer(p->apply);
	p->layer = l;
	if (cfg->spans)
		rc = span_set_begin_layer(cfg->spans, &l->blob->digest,
					  l->blob->size, err);
	if (rc == 0)
		rc = layer_open(&in, &p->stream, err);
	if (rc == 0)
		rc = blame_layer(cfg, walk_layer(p->plan, l, p->stream,
						 &p->visitor, err));
	if (rc == 0)
		rc = blame_layer(cfg, check_diff_id(p->stream,
						    &cfg->diff_ids[i], err));
	if (rc == 0)
		l->plain_bytes = layer_plain_bytes(p->stream);
	layer_close(p->stream);
	p->stream = NULL;
	if (rc == 0 && cfg->spans)
		rc = span_set_end_layer(cfg->spans, l->plain_bytes, err);
	p->plan->plain_bytes += l->plain_bytes;
	p->done += l->blob->size;
	if (rc == 0 && cfg->spool)
		rc = use_spool(l, err);
	return rc;
}

static void sum_files(struct plan *p)
{
	for (size_t i = 0; i < p->n_layers; i++)
		for (size_t k = 0; k < p->layers[i].n_files; k++) {
			const struct inode *f = p->layers[i].files[k];

			if (f && f->nlink)
				p->image_bytes += f->size;
		}
}

static int plan_layers(struct plan *p, const struct plan_config *cfg,
		       struct error *err)
{
	AUTO(apply) apply = apply_new(p->tree);
	struct planner planner = { .plan = p, .apply = apply };
	int rc = apply ? 0 : error_nomem(err);

	planner.visitor.entry = plan_entry;
	planner.visitor.came = plan_came;
	/* All kinds before any byte. */
	for (size_t i = 0; rc == 0 && i < p->n_layers; i++) {
		planner.total += p->layers[i].blob->size;
		rc = blame_layer(cfg, layer_type_check(p->layers[i].blob, err));
		if (rc < 0)
			rc = wrap_layer(p, i, rc, err);
	}
	for (size_t i = 0; rc == 0 && i < p->n_layers; i++) {
		rc = plan_layer(&planner, i, cfg, err);
		if (rc < 0)
			rc = layer_type_explain(p->layers[i].blob->media_type,
						p->layers[i].source, rc, err);
		if (rc == -ENOTSUP)
			(void)blame_layer(cfg, rc);
		if (rc < 0)
			rc = wrap_layer(p, i, rc, err);
	}
	if (rc == 0)
		sum_files(p);
	return rc;
}

int plan_make(const struct plan_config *cfg, struct plan **ret,
	      struct error *err)
{
	AUTO(plan) p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	if (cfg->image->n_layers > PLAN_LAYERS_MAX)
		return error_set(err, E2BIG, "%zu layers; %d are the most",
				 cfg->image->n_layers, PLAN_LAYERS_MAX);
	p->store = cfg->store;
	p->temp_dir = cfg->temp_dir;
	p->progress = cfg->progress;
	p->spans = cfg->spans;
	p->tree = tree_new();
	p->layers = calloc(cfg->image->n_layers + 1, sizeof(*p->layers));
	if (!p->tree || !p->layers)
		return error_nomem(err);
	p->n_layers = cfg->image->n_layers;
	for (size_t i = 0; i < p->n_layers; i++) {
		p->layers[i].blob = &cfg->image->layers[i];
		p->layers[i].spool_fd = -1;
	}
	rc = plan_layers(p, cfg, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&p);
	return 0;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_layers; i++) {
		source_free(p->layers[i].source);
		cleanup_close(&p->layers[i].spool_fd);
		free(p->layers[i].files);
	}
	free(p->layers);
	tree_free(p->tree);
	free(p);
}

/* ------------------------------------------------------------- second pass --- */

struct copier {
	struct tar_visitor visitor;
	struct plan *plan;
	struct plan_layer *layer;
	struct copy_sink *sink;
	struct layer *stream;
	size_t n_files;     /* of this layer, so far */
	struct inode *file; /* whose bytes come */
	uint64_t done;      /* unpacked bytes of the layers before */
};

static int copy_entry(struct tar_visitor *v, const struct layer_entry *e,
		      bool *want, struct error *err)
{
	struct copier *c = container_of(v, struct copier, visitor);
	struct inode *i;

	*want = false;
	if (!S_ISREG(e->mode) || e->hard)
		return 0;
	if (c->n_files == c->layer->n_files)
		return error_set(err, EBADMSG,
				 "the layer has changed between "
				 "two readings");
	i = c->layer->files[c->n_files++];
	if (!i || i->nlink == 0 || i->size == 0)
		return 0;
	if (i->size != e->size)
		return error_set(err, EBADMSG,
				 "the layer has changed between "
				 "two readings");
	*want = true;
	c->file = i;
	return c->sink->begin(c->sink, i, err);
}

static void show_copied(const struct copier *c)
{
	struct convert_progress *progress = c->plan->progress;

	if (progress)
		progress->step(progress, "storing blocks",
			       c->done + layer_plain_bytes(c->stream),
			       c->plan->plain_bytes);
}

static void copy_came(struct tar_visitor *v)
{
	show_copied(container_of(v, struct copier, visitor));
}

static int copy_data(struct tar_visitor *v, uint64_t off, const void *data,
		     size_t len, struct error *err)
{
	struct copier *c = container_of(v, struct copier, visitor);

	if (c->plan->spans) {
		int rc = span_set_add_file(c->plan->spans, c->file, off, len,
					   (size_t)(c->layer - c->plan->layers),
					   v->plain, err);

		if (rc < 0)
			return rc;
	}
	return c->sink->data(c->sink, off, data, len, err);
}

static int copy_end(struct tar_visitor *v, struct error *err)
{
	struct copier *c = container_of(v, struct copier, visitor);

	return c->sink->end(c->sink, err);
}

static bool has_files(const struct plan_layer *l)
{
	for (size_t i = 0; i < l->n_files; i++)
		if (l->files[i] && l->files[i]->nlink && l->files[i]->size)
			return true;
	return false;
}

/* Read to the end, for the copy and the digest. */
static int pass_over(const struct copier *c, struct error *err)
{
	const void *data;
	size_t n = 1;
	int rc = 0;

	while (rc == 0 && n) {
		rc = layer_read(c->stream, &data, &n, err);
		show_copied(c);
	}
	return rc;
}

static int copy_layer(struct copier *c, struct plan_layer *l, bool missing,
		      struct upload *upload, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	struct layer_input in = {
		.source = l->source,
		.size = l->blob->size,
		.digest = l->blob->digest,
		.copy_fd = -1,
	};
	bool wanted = has_files(l);
	int rc = 0;

	if (missing && l->spool_fd >= 0) {
		fd = fcntl(l->spool_fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			return error_set(err, errno,
					 "duplicate a descriptor: "
					 "%s",
					 strerror(errno));
	} else if (missing) {
		rc = temp_file(c->plan->temp_dir, &fd, err);
		in.copy_fd = fd;
	}
	if (rc < 0)
		return rc;
	if (wanted || in.copy_fd >= 0) {
		c->layer = l;
		c->n_files = 0;
		rc = layer_open(&in, &c->stream, err);
		if (rc == 0)
			rc = wanted ? walk_layer(c->plan, l, c->stream,
						 &c->visitor, err)
				    : pass_over(c, err);
		layer_close(c->stream);
		c->stream = NULL;
	}
	c->done += l->plain_bytes;
	if (rc == 0 && missing)
		rc = upload_put(upload, &l->blob->digest, l->blob->size,
				steal_fd(&fd), err);
	return rc;
}

int plan_copy(struct plan *p, struct copy_sink *sink, const bool *missing,
	      struct upload *upload, struct error *err)
{
	struct copier c = { .plan = p, .sink = sink };
	int rc = 0;

	c.visitor.entry = copy_entry;
	c.visitor.data = copy_data;
	c.visitor.came = copy_came;
	c.visitor.end = copy_end;
	for (size_t i = 0; rc == 0 && i < p->n_layers; i++) {
		rc = copy_layer(&c, &p->layers[i], missing && missing[i],
				upload, err);
		if (rc < 0)
			rc = wrap_layer(p, i, rc, err);
	}
	return rc;
}
