// SPDX-License-Identifier: Apache-2.0
/*
 * Writes an object. When a connection breaks, a data node keeps what has arrived as a complete
 * file. So each part goes to a file of its own, with another name for each attempt, in a folder of
 * the put; when all have their lengths they are joined, and the file gets its name by a rename.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "objects/hdfs/hdfs_store_priv.h"
#include "objects/store/parts.h"

/* Files of one CONCAT, because their names are in the URL. */
#define JOIN_MAX 64u

struct hdfs_part {
	uint64_t len;
	unsigned int attempt; /* attempt whose file is complete */
};

struct hdfs_put {
	struct object_put base;
	char *folder;
	pthread_mutex_t lock;   /* protects the rest */
	struct hdfs_part *sent; /* by number */
	size_t n_sent;
	bool has_folder; /* the folder may hold parts */
	/* Attempts to send the object as one file, beside the folder. */
	unsigned int n_whole;
	bool is_moved;  /* the last attempt's file has its final name */
	uint64_t place; /* data node of the first part */
};

/* A file to be created in the store: its name, first bytes and block size. */
struct hdfs_file {
	const char *name;
	const void *data;
	size_t len;
	size_t block;   /* bytes of a block; 0: the usual size */
	uint64_t place; /* preferred data node */
};

static struct hdfs_put *hdfs_put_of(struct object_put *p)
{
	return container_of(p, struct hdfs_put, base);
}

static int part_name(const struct hdfs_put *p, size_t n, unsigned int attempt,
		     struct buf *ret, struct error *err)
{
	int rc = p->n_whole ? buf_printf(ret, "%s.%u", p->folder, attempt)
			    : buf_printf(ret, "%s/%05zu.%u", p->folder, n,
					 attempt);

	return rc < 0 ? error_nomem(err) : 0;
}

/* ------------------------------------------------------------------- parts --- */

/* Parts to be joined are created with a block size of their own length. Otherwise the joined
 * file would claim the usual 128 MiB blocks, and a reader would ask the data node of the first
 * part for sixteen parts of 8 MiB, most of which it does not have. */
static int create_params(struct hdfs_store *s, size_t block, struct buf *ret,
			 struct error *err)
{
	int rc = buf_puts(ret, "&overwrite=false&permission=644");

	if (rc == 0 && block && block >= atomic_load(&s->block_min))
		rc = buf_printf(ret, "&blocksize=%zu", block);
	return rc < 0 ? error_nomem(err) : 0;
}

/* If the cluster refuses blocks this small, use the usual block size from now on. */
static void note_refused_block_size(struct hdfs_store *s, size_t block,
				    const struct error *err,
				    struct retry_verdict *v)
{
	if (!block || !hdfs_refuses_block(err))
		return;
	atomic_store(&s->block_min, block + 1);
	v->can_retry = v->at_once = true;
}

static int create_file(struct hdfs_store *s, const struct hdfs_file *f,
		       struct retry_verdict *v, struct error *err)
{
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	AUTO_BUF params = BUF_INIT;
	struct hdfs_request r = { .method = "PUT",
				  .op = "CREATE",
				  .name = f->name,
				  .body = f->data,
				  .body_len = f->len,
				  .is_new_file = true,
				  .place = f->place };
	int rc = create_params(s, f->block, &params, err);

	if (rc < 0)
		return rc;
	r.params = params.data;
	rc = hdfs_try(s, &r, &resp, v, err);
	if (rc < 0)
		note_refused_block_size(s, f->block, err, v);
	if (rc == 0 && resp.status != 201)
		rc = error_set(err, EPROTO,
			       "the server answered %ld to a file that was "
			       "created",
			       resp.status);
	return rc;
}

static int note_part(struct hdfs_put *p, unsigned int n,
		     const struct hdfs_part *part, struct error *err)
{
	struct hdfs_part *more;
	int rc = 0;

	(void)pthread_mutex_lock(&p->lock);
	if (n >= p->n_sent) {
		more = reallocarray(p->sent, n + 1, sizeof(*more));
		if (more) {
			memset(more + p->n_sent, 0,
			       (n + 1 - p->n_sent) * sizeof(*more));
			p->sent = more;
			p->n_sent = n + 1;
		} else {
			rc = error_nomem(err);
		}
	}
	if (rc == 0)
		p->sent[n] = *part;
	(void)pthread_mutex_unlock(&p->lock);
	return rc;
}

static int send_file(struct hdfs_put *p, unsigned int n, const void *data,
		     size_t len, struct error *err)
{
	struct hdfs_store *s = hdfs_store_of(p->base.store);
	struct hdfs_part part = { .len = len };
	struct hdfs_file f = { .data = data,
			       .len = len,
			       .place = HDFS_SPREAD_ANY };
	struct retry_budget retry;
	int rc;

	retry_init(&retry, &s->base, 0);
	if (!p->n_whole)
		f.place = p->place + n;
	/* An appended part is not a block of its own, and a growing file may have 10,000 of
	 * them. */
	if (!p->n_whole && !s->by_append)
		f.block = (size_t)s->base.caps.part_size;
	for (;; part.attempt++, f.place = HDFS_SPREAD_ANY) {
		struct retry_verdict v = { .can_retry = false };
		AUTO_BUF name = BUF_INIT;

		if (p->n_whole)
			p->n_whole = part.attempt + 1;

		rc = part_name(p, n, part.attempt, &name, err);
		if (rc < 0)
			return rc;
		atomic_fetch_add(&s->base.count.n_requests, 1);
		f.name = name.data;
		rc = create_file(s, &f, &v, err);
		if (rc == 0)
			return note_part(p, n, &part, err);
		/* The file exists: an earlier attempt made it, repeated by libcurl on a reused
		 * connection. */
		if (rc == -EEXIST)
			v.can_retry = v.at_once = true;
		if (!retry_again(&retry, &v, err))
			return rc;
	}
}

static int append_part(struct hdfs_store *s, const char *name, const char *data,
		       size_t len, struct retry_verdict *v, struct error *err)
{
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct hdfs_request r = { .method = "POST",
				  .op = "APPEND",
				  .name = name,
				  .body = data,
				  .body_len = len };

	return hdfs_try(s, &r, &resp, v, err);
}

/* Append the part. Bytes of a broken attempt are in the file already; the rest is appended
 * behind them. */
static int send_behind(struct hdfs_put *p, const struct part *part,
		       struct error *err)
{
	struct hdfs_store *s = hdfs_store_of(p->base.store);
	AUTO_BUF name = BUF_INIT;
	struct retry_budget retry;
	bool is_said_done = false;
	int rc = part_name(p, 0, p->sent[0].attempt, &name, err);

	retry_init(&retry, &s->base, 0);
	while (rc == 0) {
		struct retry_verdict v = { .can_retry = false };
		struct hdfs_status st;
		uint64_t have;

		rc = hdfs_look(s, name.data, &st, err);
		if (rc < 0)
			return rc;
		have = st.size - part->off;
		if (st.size < part->off || have > part->len)
			return error_set(err, EIO,
					 "'%s' has %" PRIu64
					 " bytes: another writes it",
					 name.data, st.size);
		if (have == part->len)
			return 0;
		/* Without this check the part would be sent for ever. */
		if (is_said_done)
			return error_set(err, EIO,
					 "'%s' has %" PRIu64 " bytes after "
					 "all of a part were appended",
					 name.data, st.size);
		atomic_fetch_add(&s->base.count.n_requests, 1);
		rc = append_part(s, name.data, (const char *)part->data + have,
				 part->len - (size_t)have, &v, err);
		is_said_done = rc == 0;
		if (rc < 0 && retry_again(&retry, &v, err))
			rc = 0;
	}
	return rc;
}

static int send_part(const struct part *part, struct error *err)
{
	struct hdfs_put *p = hdfs_put_of(part->put);

	(void)pthread_mutex_lock(&p->lock);
	p->has_folder = true;
	(void)pthread_mutex_unlock(&p->lock);
	if (part->n && hdfs_store_of(p->base.store)->by_append)
		return send_behind(p, part, err);
	return send_file(p, part->n, part->data, part->len, err);
}

int hdfs_store_put_open(struct object_store *base, const char *name,
			const struct object_put_options *opts,
			struct object_put **ret, struct error *err)
{
	const struct hdfs_store *s = hdfs_store_of(base);
	const struct put_parts_way way = {
		.send = send_part,
		.part_size = (size_t)base->caps.part_size,
		.max_parallel = s->by_append ? 1 : base->caps.parallel,
	};
	struct hdfs_put *p;
	int rc;

	if (strchr(name, ':'))
		return error_set(err, EINVAL,
				 "names in HDFS cannot have a colon");
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_nomem(err);
	(void)pthread_mutex_init(&p->lock, NULL);
	p->folder = hdfs_temporary(s);
	p->place = hdfs_spread_row(&hdfs_store_of(base)->spread);
	rc = p->folder ? store_put_init(&p->base, base, name, opts, err)
		       : error_nomem(err);
	if (rc == 0)
		rc = put_parts_new(&p->base, &way, &p->base.parts, err);
	if (rc < 0)
		hdfs_store_put_free(&p->base);
	else
		*ret = &p->base;
	return rc;
}

/* ------------------------------------------------------------------ commit --- */

struct part_check {
	const struct hdfs_put *p;
	size_t n_whole;
};

static int check_part(void *arg, const struct hdfs_status *st)
{
	struct part_check *c = arg;
	char *end;
	unsigned long n = strtoul(st->suffix, &end, 10);

	if (*end == '.' && n < c->p->n_sent &&
	    strtoul(end + 1, NULL, 10) == c->p->sent[n].attempt &&
	    st->size == c->p->sent[n].len)
		c->n_whole++;
	return 0;
}

/* Compare the lengths of all parts with those that the name node has, by one list of the
 * folder. */
static int check_parts(struct hdfs_store *s, const struct hdfs_put *p,
		       struct error *err)
{
	struct part_check c = { .p = p };
	int rc = hdfs_list_folder(s, p->folder, check_part, &c, err);

	if (rc == 0 && c.n_whole != p->n_sent)
		rc = error_set(err, EIO,
			       "%zu of %zu parts have not the length that was "
			       "sent",
			       p->n_sent - c.n_whole, p->n_sent);
	return rc;
}

/* Join parts [from, to) to the first one. */
static int join_part_range(struct hdfs_store *s, const struct hdfs_put *p,
			   const char *first, size_t from, size_t to,
			   struct error *err)
{
	AUTO_BUF params = BUF_INIT;
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct hdfs_request r = { .method = "POST",
				  .op = "CONCAT",
				  .name = first };
	int rc = buf_puts(&params, "&sources=");

	for (size_t i = from; i < to && rc == 0; i++) {
		AUTO_BUF name = BUF_INIT;

		if (i > from)
			rc = buf_puts(&params, ",");
		if (rc == 0)
			rc = part_name(p, i, p->sent[i].attempt, &name, err);
		if (rc == 0)
			rc = buf_puts(&params, s->root);
		if (rc == 0)
			rc = buf_printf(&params, "/%s", name.data);
	}
	if (rc < 0)
		return error_nomem(err);
	r.params = params.data;
	rc = hdfs_call(s, &r, &resp, err);
	http_response_fini(&resp);
	/* The sources are gone if an earlier attempt has joined them; the length will show. */
	return rc == -ENOENT ? 0 : rc;
}

static int join_parts(struct hdfs_store *s, const struct hdfs_put *p,
		      const char *first, struct error *err)
{
	int rc = check_parts(s, p, err);

	for (size_t i = 1; i < p->n_sent && rc == 0; i += JOIN_MAX) {
		size_t end = i + JOIN_MAX;

		rc = join_part_range(s, p, first, i,
				     end < p->n_sent ? end : p->n_sent, err);
	}
	return rc;
}

/* Make the object's file: the single part where there is one, else all parts joined. The
 * file has the right length. */
static int make_file(struct hdfs_store *s, struct hdfs_put *p,
		     struct buf *ret_name, struct hdfs_status *ret,
		     struct error *err)
{
	const void *data;
	size_t len;
	int rc = put_parts_finish(p->base.parts, err);

	if (rc == 0 && put_parts_count(p->base.parts, &data, &len) == 0) {
		p->n_whole = 1;
		rc = send_file(p, 0, data, len, err);
	}
	if (rc == 0)
		rc = part_name(p, 0, p->sent[0].attempt, ret_name, err);
	if (rc == 0 && p->n_sent > 1)
		rc = join_parts(s, p, ret_name->data, err);
	if (rc == 0)
		rc = hdfs_look(s, ret_name->data, ret, err);
	if (rc == 0 && ret->size != p->base.size)
		rc = error_set(err, EIO,
			       "the server has %" PRIu64 " bytes of %" PRIu64
			       " that were sent",
			       ret->size, p->base.size);
	return rc;
}

int hdfs_store_put_commit(struct object_put *base, struct object_stat *ret,
			  struct error *err)
{
	struct hdfs_put *p = hdfs_put_of(base);
	struct hdfs_store *s = hdfs_store_of(base->store);
	struct store_lock lock = { .name = NULL };
	AUTO_BUF name = BUF_INIT;
	struct hdfs_status st;
	int rc = make_file(s, p, &name, &st, err);

	if (rc == 0 && base->condition == OBJECT_MATCH)
		rc = store_lock(base->store, base->name, &lock, err);
	if (rc == 0 && base->condition == OBJECT_MATCH)
		rc = store_condition(base->store, base, err);
	if (rc == 0 && base->condition == OBJECT_MATCH)
		rc = store_lock_check(&lock, err);
	if (rc == 0)
		rc = hdfs_move(s, name.data, st.id, base->name, base->condition,
			       err);
	p->is_moved = rc == 0;
	store_unlock(base->store, &lock);
	/* A rename keeps inode and time. */
	if (rc == 0)
		hdfs_stat_fill(&st, ret);
	return rc;
}

/* Remove the put's temporary files. Those that cannot be removed now are left to
 * object_store_sweep(). */
static void remove_parts(struct hdfs_store *s, const struct hdfs_put *p)
{
	int64_t until = store_tidy_deadline(&s->base);
	int rc = 0;

	if (p->has_folder)
		rc = hdfs_remove_all(s, p->folder, until, NULL);
	for (unsigned int i = 0; i + p->is_moved < p->n_whole && rc == 0; i++) {
		AUTO_BUF name = BUF_INIT;

		rc = part_name(p, 0, i, &name, NULL);
		if (rc == 0)
			rc = hdfs_remove_all(s, name.data, until, NULL);
	}
}

void hdfs_store_put_free(struct object_put *base)
{
	struct hdfs_put *p = hdfs_put_of(base);

	put_parts_free(p->base.parts);
	remove_parts(hdfs_store_of(base->store), p);
	free(p->folder);
	free(p->sent);
	(void)pthread_mutex_destroy(&p->lock);
	store_put_fini(base);
	free(p);
}
