// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/temp_file.h"
#include "image/spans/spans.h"
#include "image/writer/upload.h"
#include "snapshotter/convert/first_pass.h"
#include "snapshotter/convert/tar.h"

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
	rc = first_pass_run(p, cfg, err);
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

struct copier {
	struct tar_visitor visitor;
	struct plan *plan;
	struct plan_layer *layer;
	struct copy_sink *sink;
	struct layer *stream;
	size_t n_files;     /* files of this layer so far */
	struct inode *file; /* the file whose bytes are read */
	uint64_t done;      /* unpacked bytes of the earlier layers */
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

static void on_copied_bytes(struct tar_visitor *v)
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

/* Read the layer to its end, for its copy and its digest. */
static int read_layer_to_end(const struct copier *c, struct error *err)
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
			rc = wanted ? plan_walk_layer(c->plan, l, c->stream,
						      &c->visitor, err)
				    : read_layer_to_end(c, err);
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
	c.visitor.came = on_copied_bytes;
	c.visitor.end = copy_end;
	for (size_t i = 0; rc == 0 && i < p->n_layers; i++) {
		rc = copy_layer(&c, &p->layers[i], missing && missing[i],
				upload, err);
		if (rc < 0)
			rc = plan_wrap_layer(p, i, rc, err);
	}
	return rc;
}
