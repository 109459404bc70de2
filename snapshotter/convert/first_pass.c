// SPDX-License-Identifier: Apache-2.0
/*
 * Readers, a thread each, take the layers in order.  A reader checks the digests of a
 * layer, finds its spans and keeps what its headers say in the queue.  The caller's
 * thread takes the entries in the order of the layers, and applies them to the tree.
 */
#include "snapshotter/convert/first_pass.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/fs.h"
#include "common/memory_gate.h"
#include "common/pace.h"
#include "common/temp_file.h"
#include "common/thread.h"
#include "image/spans/spans.h"
#include "snapshotter/convert/entry_queue.h"
#include "snapshotter/convert/layer_reading.h"
#include "snapshotter/convert/layer_type.h"
#include "snapshotter/convert/tar.h"

#define NO_LAYER SIZE_MAX

/* A layer that is being read; used by its reader alone until its end is in the queue. */
struct layer_run {
	struct tar_visitor visitor;
	struct first_pass *pass;
	size_t index;
	struct layer *stream;
	uint64_t told; /* stored bytes that were added to the pass's sum */
	struct span_set *spans;
	struct memory_claim window;
	/* a failure was caused by the layer's content, if its code says so */
	bool is_blamed;
	int rc;
	struct error err;
};

struct pass_failure {
	size_t layer;
	bool is_blamed;
};

struct first_pass {
	struct plan *plan;
	const struct plan_config *cfg;
	struct entry_queue *queue;
	struct layer_run *runs;
	struct pace pace; /* of all layers */
	struct memory_gate windows;
	struct thread readers[FIRST_PASS_LAYERS];
	unsigned int n_readers;
	uint64_t total;              /* stored bytes of all layers */
	atomic_uint_fast64_t stored; /* stored bytes that were read so far */
	atomic_bool stopped;
	atomic_size_t failed; /* the layer whose reader was the first to fail */
};

/* ------------------------------------------------------------------- pace --- */

static enum pace_level first_pass_level(struct pace *p)
{
	struct first_pass *f = container_of(p, struct first_pass, pace);

	return atomic_load(&f->stopped) ? PACE_STOP : PACE_GO;
}

static void stop_readers(struct first_pass *f)
{
	atomic_store(&f->stopped, true);
	entry_queue_stop(f->queue);
}

/*
 * Called when a layer has a zstd window larger than most: it waits until all earlier layers
 * have ended, so that four windows of 512 MiB never take 2 GiB together.  The layer in turn
 * does not wait.
 */
static int first_pass_turn(struct memory_claim *c, struct error *err)
{
	struct layer_run *r = container_of(c, struct layer_run, window);

	return entry_queue_await_turn(r->pass->queue, r->index)
		       ? 0
		       : error_set(err, ECANCELED, "another layer failed");
}

/* ---------------------------------------------------------------- readers --- */

static int keep_entry(struct tar_visitor *v, const struct layer_entry *e,
		      bool *want, struct error *err)
{
	struct layer_run *r = container_of(v, struct layer_run, visitor);

	*want = false;
	return entry_queue_put(r->pass->queue, r->index, e, err);
}

static void tell_stored(struct layer_run *r, uint64_t stored)
{
	atomic_fetch_add(&r->pass->stored, stored - r->told);
	r->told = stored;
	entry_queue_wake(r->pass->queue);
}

/* Report progress: a layer may be one large file, whose bytes are skipped. */
static void report_stored_bytes(struct tar_visitor *v)
{
	struct layer_run *r = container_of(v, struct layer_run, visitor);

	tell_stored(r, layer_stored_bytes(r->stream));
}

static int check_diff_id(const struct digest *found, const struct digest *want,
			 struct error *err)
{
	char is[DIGEST_STR_MAX], text[DIGEST_STR_MAX];

	if (digest_equal(found, want))
		return 0;
	digest_format(found, is);
	digest_format(want, text);
	return error_set(err, EBADMSG,
			 "its unpacked content is %s, not %s as "
			 "the image's config says",
			 is, text);
}

/* Read the second time from the spooled file, which was verified, not from the store. */
static int use_spool(struct plan_layer *l, struct error *err)
{
	char path[64];

	source_free(l->source);
	l->source = NULL;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", l->spool_fd);
	return posix_source_new(path, &l->source, err);
}

static int begin_spans(struct layer_run *r, const struct plan_layer *l,
		       struct error *err)
{
	int rc = span_set_new(r->pass->cfg->temp_dir, &r->spans, err);

	return rc < 0 ? rc
		      : span_set_begin_layer(r->spans, &l->blob->digest,
					     l->blob->size, err);
}

static int walk_stream(struct layer_run *r, struct plan_layer *l,
		       struct error *err)
{
	int rc = plan_walk_layer(r->pass->plan, l, r->stream, &r->visitor, err);

	if (rc == 0)
		rc = check_diff_id(layer_diff_id(r->stream),
				   &r->pass->cfg->diff_ids[r->index], err);
	r->is_blamed = rc < 0;
	l->plain_bytes = layer_plain_bytes(r->stream);
	return rc;
}

/* Open the layer's earlier reading and set its path; -1: there is none. */
static int open_kept(const struct first_pass *f, const struct plan_layer *l,
		     char **ret_path)
{
	char name[DIGEST_STR_MAX];

	if (!f->cfg->readings || !f->cfg->spans || f->cfg->spool)
		return -1;
	digest_format(&l->blob->digest, name);
	*ret_path = fs_join(f->cfg->readings, strchr(name, ':') + 1);
	return *ret_path ? open(*ret_path, O_RDONLY | O_CLOEXEC) : -1;
}

/* Use a kept reading instead of the layer: it has the spans, and its headers form a short tar. */
static int read_kept(struct layer_run *r, struct plan_layer *l,
		     const char *path, int fd, struct error *err)
{
	AUTO(source) headers = NULL;
	struct layer_found k;
	struct layer_input in = { .copy_fd = -1, .pace = &r->pass->pace };
	int rc = begin_spans(r, l, err);

	if (rc == 0)
		rc = layer_reading_load(fd, &k, r->spans, err);
	if (rc == 0 && !digest_equal(&k.layer, &l->blob->digest))
		rc = error_set(err, EBADMSG, "another layer's was kept");
	if (rc == 0)
		rc = check_diff_id(&k.diff_id,
				   &r->pass->cfg->diff_ids[r->index], err);
	if (rc == 0)
		rc = posix_source_new(path, &headers, err);
	if (rc < 0)
		return rc;
	l->plain_bytes = k.plain;
	in.source = headers;
	in.size = k.n_headers;
	in.digest = k.headers;
	r->visitor.is_bare = true;
	rc = layer_open(&in, &r->stream, err);
	if (rc == 0)
		rc = plan_walk_layer(r->pass->plan, l, r->stream, &r->visitor,
				     err);
	layer_close(steal_ptr(&r->stream));
	return rc;
}

static int read_whole(struct layer_run *r, struct error *err)
{
	struct first_pass *f = r->pass;
	struct plan_layer *l = &f->plan->layers[r->index];
	struct layer_input in = {
		.size = l->blob->size,
		.digest = l->blob->digest,
		.want_diff_id = true,
		.windows = &r->window,
		.pace = &f->pace,
	};
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int kept = open_kept(f, l, &path);
	int rc = oci_open_blob(f->cfg->store, &l->blob->digest, l->blob->size,
			       &l->source, err);

	r->is_blamed = rc < 0;
	if (rc == 0 && kept >= 0)
		return read_kept(r, l, path, kept, err);
	if (rc == 0 && f->cfg->spool)
		rc = temp_file(f->cfg->temp_dir, &l->spool_fd, err);
	if (rc == 0 && f->cfg->spans)
		rc = begin_spans(r, l, err);
	in.source = l->source;
	in.copy_fd = l->spool_fd;
	in.spans = r->spans;
	if (rc == 0)
		rc = layer_open(&in, &r->stream, err);
	if (rc == 0)
		rc = walk_stream(r, l, err);
	layer_close(steal_ptr(&r->stream));
	if (rc == 0 && r->spans)
		rc = span_set_end_layer(r->spans, l->plain_bytes, err);
	return rc == 0 && f->cfg->spool ? use_spool(l, err) : rc;
}

static void *first_pass_main(void *arg)
{
	struct first_pass *f = arg;
	size_t i;

	while (entry_queue_begin(f->queue, &i)) {
		struct layer_run *r = &f->runs[i];
		size_t none = NO_LAYER;

		r->rc = read_whole(r, &r->err);
		if (r->rc == 0)
			tell_stored(r, f->plan->layers[i].blob->size);
		else
			(void)atomic_compare_exchange_strong(&f->failed, &none,
							     i);
		/* Put the entries into the queue before the failure is seen. */
		entry_queue_end(f->queue, i);
		if (r->rc < 0)
			stop_readers(f);
	}
	return NULL;
}

/* ------------------------------------------------------------------- tree --- */

static int apply_kept(struct plan_layer *l, struct apply *apply,
		      const struct layer_entry *e, struct error *err)
{
	char name[TAR_NAME_MAX];
	struct inode *file;
	int rc = apply_entry(apply, e, &file, err);

	if (rc < 0) {
		tar_format_name(e->path, name);
		return error_wrap(err, rc, "entry '%s'", name);
	}
	if (!S_ISREG(e->mode) || e->hard)
		return 0;
	/* Count whiteouts too, so that both passes number the entries alike. */
	if (array_grow(&l->files, l->n_files, &l->cap_files, 256) < 0)
		return error_nomem(err);
	l->files[l->n_files++] = file;
	return 0;
}

static void show_read(struct first_pass *f)
{
	struct convert_progress *progress = f->cfg->progress;

	if (progress)
		progress->step(progress, "reading layers",
			       atomic_load(&f->stored), f->total);
}

/* Report the failure of the layer that failed first: others ended because of it. */
static int take_failure(struct first_pass *f, struct pass_failure *ret,
			struct error *err)
{
	size_t i = atomic_load(&f->failed);
	const struct layer_run *r = &f->runs[i];

	*ret = (struct pass_failure){ .layer = i, .is_blamed = r->is_blamed };
	if (err)
		*err = r->err;
	return r->rc;
}

/* Called after the last entry of a layer that was read without failure. */
static int end_layer(struct first_pass *f, struct layer_run *r,
		     struct error *err)
{
	int rc = 0;

	f->plan->plain_bytes += f->plan->layers[r->index].plain_bytes;
	if (r->spans)
		rc = span_set_append(f->cfg->spans, r->spans, err);
	span_set_free(steal_ptr(&r->spans));
	return rc;
}

static int apply_layer(struct first_pass *f, struct apply *apply, size_t i,
		       struct pass_failure *failure, struct error *err)
{
	struct layer_run *r = &f->runs[i];
	const struct layer_entry *e;
	int rc = 0;

	apply_next_layer(apply);
	*failure = (struct pass_failure){ .layer = i };
	while (rc == 0) {
		switch (entry_queue_take(f->queue, &e)) {
		case ENTRY_TAKEN:
			rc = apply_kept(&f->plan->layers[i], apply, e, err);
			failure->is_blamed = rc < 0;
			break;
		case ENTRY_WAKE:
			show_read(f);
			break;
		case ENTRY_END:
			return r->rc < 0 ? take_failure(f, failure, err)
					 : end_layer(f, r, err);
		case ENTRY_STOPPED:
			return take_failure(f, failure, err);
		}
	}
	return rc;
}

/* ------------------------------------------------------------------- pass --- */

/* Note whether the layer's content was wrong, as opposed to the transfer or the disk. */
static int mark_layer_at_fault(const struct plan_config *cfg, int rc)
{
	if (cfg->is_at_fault)
		*cfg->is_at_fault = rc == -EINVAL || rc == -ENOTSUP ||
				    rc == -ELOOP || rc == -ENOENT;
	return rc;
}

static int explain_failure(struct first_pass *f,
			   const struct pass_failure *failure, int rc,
			   struct error *err)
{
	const struct plan_layer *l = &f->plan->layers[failure->layer];

	if (failure->is_blamed)
		(void)mark_layer_at_fault(f->cfg, rc);
	rc = layer_type_explain(l->blob->media_type, l->source, rc, err);
	if (rc == -ENOTSUP)
		(void)mark_layer_at_fault(f->cfg, rc);
	return plan_wrap_layer(f->plan, failure->layer, rc, err);
}

/* Check the types of all layers before any byte is read. */
static int check_types(struct first_pass *f, struct error *err)
{
	struct plan *p = f->plan;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < p->n_layers; i++) {
		f->total += p->layers[i].blob->size;
		rc = mark_layer_at_fault(f->cfg,
					 layer_type_check(p->layers[i].blob,
							  err));
		if (rc < 0)
			rc = plan_wrap_layer(p, i, rc, err);
	}
	return rc;
}

static int start_readers(struct first_pass *f, struct error *err)
{
	size_t n = f->cfg->jobs ? f->cfg->jobs : 1;
	int rc = 0;

	if (n > FIRST_PASS_LAYERS)
		n = FIRST_PASS_LAYERS;
	if (n > f->plan->n_layers)
		n = f->plan->n_layers;
	for (size_t i = 0; i < f->plan->n_layers; i++)
		f->runs[i] = (struct layer_run){
			.visitor = { .entry = keep_entry,
				     .came = report_stored_bytes },
			.pass = f,
			.index = i,
			.window = { .gate = &f->windows },
		};
	while (rc == 0 && f->n_readers < n) {
		rc = thread_start(&f->readers[f->n_readers], first_pass_main, f,
				  err);
		f->n_readers += rc == 0;
	}
	/* Fewer readers only take longer. */
	return f->n_readers ? 0 : rc;
}

static int apply_layers(struct first_pass *f, struct error *err)
{
	AUTO(apply) apply = apply_new(f->plan->tree);
	struct pass_failure failure = { .layer = 0 };
	int rc = apply ? start_readers(f, err) : error_nomem(err);
	bool started = rc == 0;

	for (size_t i = 0; rc == 0 && i < f->plan->n_layers; i++)
		rc = apply_layer(f, apply, i, &failure, err);
	stop_readers(f);
	while (f->n_readers)
		thread_join(&f->readers[--f->n_readers]);
	return rc < 0 && started ? explain_failure(f, &failure, rc, err) : rc;
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

int first_pass_run(struct plan *p, const struct plan_config *cfg,
		   struct error *err)
{
	AUTO_FREE struct layer_run *runs =
		calloc(p->n_layers + 1, sizeof(*runs));
	AUTO(entry_queue) queue = entry_queue_new(p->n_layers);
	struct first_pass f = {
		.plan = p,
		.cfg = cfg,
		.queue = queue,
		.runs = runs,
		.pace = { .level = first_pass_level },
		.windows = { .turn = first_pass_turn },
		.failed = NO_LAYER,
	};
	int rc = runs && queue ? check_types(&f, err) : error_nomem(err);

	if (rc == 0)
		rc = apply_layers(&f, err);
	for (size_t i = 0; runs && i < p->n_layers; i++)
		span_set_free(runs[i].spans);
	if (rc == 0)
		sum_files(p);
	return rc;
}
