// SPDX-License-Identifier: Apache-2.0
/* All calls of a store go through here: checks arguments for every kind of store, and names
 * store and object in errors. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "objects/object_get.h"
#include "objects/store/backend.h"

#define PIECE_BYTES (4 * MIB) /* bytes of a file held in memory at once */

int object_store_probe(struct object_store *s, struct error *err)
{
	int rc;

	(void)store_call_begin(s);
	rc = s->ops->probe(s, err);
	store_call_end(s, rc);
	if (rc < 0)
		return error_wrap(err, rc, "%s", s->url);
	s->caps.is_probed = true;
	return 0;
}

int object_store_probe_conditions(struct object_store *s, struct error *err)
{
	int rc;

	(void)store_call_begin(s);
	rc = s->ops->probe_conditions ? s->ops->probe_conditions(s, err)
				      : s->ops->probe(s, err);
	store_call_end(s, rc);
	return rc < 0 ? error_wrap(err, rc, "%s", s->url) : 0;
}

int object_store_fence(struct object_store *s, const char *life,
		       struct error *err)
{
	int rc;

	(void)store_call_begin(s);
	rc = s->ops->fence ? s->ops->fence(s, life, err) : 0;
	store_call_end(s, rc);
	return rc < 0 ? error_wrap(err, rc, "%s", s->url) : 0;
}

void object_store_keep_private(struct object_store *s)
{
	atomic_store(&s->is_shared, false);
}

struct object_caps object_store_caps(const struct object_store *s)
{
	struct object_caps caps = s->caps;

	caps.is_remote = s->ops->is_remote;
	if (!caps.put_memory)
		caps.put_memory = s->cfg.memory;
	return caps;
}

const char *object_store_url(const struct object_store *s)
{
	return s->url;
}

static struct object_waits copy_waits(struct store_waits *w)
{
	return (struct object_waits){
		.queue_ns = atomic_load(&w->queue_ns),
		.storage_ns = atomic_load(&w->storage_ns),
		.network_ns = atomic_load(&w->network_ns),
	};
}

struct object_store_stats object_store_stats(struct object_store *s)
{
	struct store_counters *c = &s->count;
	struct object_store_stats ret = {
		.n_requests = atomic_load(&c->n_requests),
		.n_retries = atomic_load(&c->n_retries),
		.n_hedges = atomic_load(&c->n_hedges),
		.n_hedges_won = atomic_load(&c->n_hedges_won),
		.bytes_read = atomic_load(&c->bytes_read),
		.bytes_written = atomic_load(&c->bytes_written),
		.read_waits = copy_waits(&c->read_waits),
		.write_waits = copy_waits(&c->write_waits),
	};

	counter_copy_latency(&ret.read, &c->read);
	counter_copy_latency(&ret.write, &c->write);
	counter_copy_latency(&ret.name, &c->name);
	return ret;
}

static void count_request(struct store_waits *w, int64_t took_ns,
			  int64_t first_byte_ns)
{
	atomic_fetch_add(&w->storage_ns, (uint64_t)first_byte_ns);
	atomic_fetch_add(&w->network_ns, (uint64_t)(took_ns - first_byte_ns));
}

void store_count_answer(struct object_store *s, bool has_sink, bool has_body,
			int64_t took_ns, int64_t first_byte_ns)
{
	if (has_sink)
		count_request(&s->count.read_waits, took_ns, first_byte_ns);
	else if (has_body)
		count_request(&s->count.write_waits, took_ns, first_byte_ns);
}

void store_count_queue(struct object_store *s, struct store_waits *w,
		       int64_t since_ns)
{
	if (s->ops->tells_waits)
		atomic_fetch_add(&w->queue_ns,
				 (uint64_t)(clock_now_ns() - since_ns));
}

/* End a call that is about names: count and time it. */
static void end_name_call(struct object_store *s, int64_t begun_ns, int rc)
{
	store_call_end(s, rc);
	counter_add_latency(&s->count.name, clock_now_ns() - begun_ns);
}

/* End a call that transfers bytes: count and time it. */
static void end_transfer_call(struct object_store *s, struct counter_latency *l,
			      struct store_waits *w, int64_t begun_ns, int rc)
{
	int64_t ns = clock_now_ns() - begun_ns;

	store_call_end(s, rc);
	counter_add_latency(l, ns);
	if (!s->ops->tells_waits)
		count_request(w, ns, ns);
}

/* Check a name, by the same rules for every kind of store. */
static int check_name(const char *name, struct error *err)
{
	if (strlen(name) > OBJECT_NAME_MAX)
		return error_set(err, EINVAL,
				 "'%.60s...' is longer than %d bytes", name,
				 OBJECT_NAME_MAX);
	for (const char *at = name;; at++) {
		size_t len = strcspn(at, "/");

		if (len == 0 || len > 255 ||
		    (len <= 2 && strncmp(at, "..", len) == 0))
			return error_set(err, EINVAL,
					 "'%.200s' is not a name: each part "
					 "has 1 to 255 bytes, and is not '.' "
					 "or '..'",
					 name);
		for (size_t i = 0; i < len; i++)
			if ((unsigned char)at[i] < 0x20 || at[i] == 0x7f)
				return error_set(err, EINVAL,
						 "a name cannot have control "
						 "characters");
		at += len;
		if (!*at)
			return 0;
	}
}

bool store_is_name(const char *name)
{
	return check_name(name, NULL) == 0;
}

bool object_is_old(int64_t modified_ms, int64_t before_ms)
{
	return modified_ms < 0 ? before_ms == INT64_MAX
			       : modified_ms < before_ms;
}

static int check_free_name(const char *name, struct error *err)
{
	int rc = check_name(name, err);

	if (rc == 0 && store_is_own(name))
		return error_set(err, EINVAL,
				 "'%.200s' is kept for uploads and locks",
				 name);
	return rc;
}

/* Put "store: verb 'name': " before the message. */
static int wrap_error(const struct object_store *s, const char *verb,
		      const char *name, int rc, struct error *err)
{
	if (rc < 0)
		return error_wrap(err, rc, "%s: %s '%.200s'", s->url, verb,
				  name);
	return rc;
}

int object_store_authorization(struct object_store *s, const char *name,
			       struct pace *pace, char **ret, struct error *err)
{
	int rc = check_name(name, err);

	*ret = NULL;
	if (rc == 0 && s->ops->authorization) {
		(void)store_call_begin(s);
		rc = s->ops->authorization(s, name, pace, ret, err);
		store_call_end(s, rc);
	}
	return wrap_error(s, "prove the right to", name, rc, err);
}

int object_stat(struct object_store *s, const char *name,
		struct object_stat *ret, struct error *err)
{
	int64_t begun_ns;
	int rc = check_name(name, err);

	if (rc == 0) {
		begun_ns = store_call_begin(s);
		rc = s->ops->stat(s, name, ret, err);
		end_name_call(s, begun_ns, rc);
	}
	return wrap_error(s, "look up", name, rc, err);
}

/* Filter of a list: passes on valid names in the folder that are not the store's own objects. */
struct list_filter {
	struct object_store *store;
	object_list_fn *fn;
	void *arg;
	const char *folder;
	bool is_all; /* also pass on names that are not valid here */
	int64_t begun_ns;
};

static bool name_is_in_folder(const char *folder, const char *name)
{
	size_t len = strlen(folder);

	return len == 0 ||
	       (strncmp(name, folder, len) == 0 && name[len] == '/');
}

/* Filter one entry: a server may list foreign names, or anything at all. */
static int list_filtered(void *arg, const struct object_entry *e,
			 struct error *err)
{
	const struct list_filter *f = arg;
	struct object_entry dated = *e;
	int rc;

	if (!(e->is_marker ? store_is_below(e->name, f->folder)
			   : name_is_in_folder(f->folder, e->name)))
		return error_set(err, EPROTO,
				 "the server lists '%.100s', which was not "
				 "asked for",
				 e->name);
	if (store_is_own(e->name) ||
	    (!*f->folder && store_is_below(e->name, STORE_OWN)))
		return 0;
	dated.is_odd = e->is_odd || check_name(e->name, NULL) < 0;
	if ((dated.is_odd || e->is_marker) && !f->is_all)
		return 0;
	if (!dated.asked_ns)
		dated.asked_ns = f->begun_ns;
	/* While `fn` runs, the store is not being waited for. */
	store_call_end(f->store, 0);
	rc = f->fn(f->arg, &dated, err);
	(void)store_call_begin(f->store);
	return rc;
}

static int list_with_filter(struct list_filter *f, bool deep, struct error *err)
{
	struct object_store *s = f->store;
	int rc = *f->folder ? check_name(f->folder, err) : 0;

	if (rc == 0) {
		f->begun_ns = store_call_begin(s);
		rc = s->ops->list(s, f->folder, deep, list_filtered, f, err);
		end_name_call(s, f->begun_ns, rc);
	}
	return wrap_error(s, "list", f->folder, rc, err);
}

int object_list(struct object_store *s, const char *folder, bool deep,
		object_list_fn *fn, void *arg, struct error *err)
{
	struct list_filter f = {
		.store = s, .fn = fn, .arg = arg, .folder = folder
	};

	return list_with_filter(&f, deep, err);
}

int object_list_all(struct object_store *s, const char *folder, bool deep,
		    object_list_fn *fn, void *arg, struct error *err)
{
	struct list_filter f = { .store = s,
				 .fn = fn,
				 .arg = arg,
				 .folder = folder,
				 .is_all = true };

	return list_with_filter(&f, deep, err);
}

int store_object_init(struct object *o, struct object_store *s,
		      const char *name, struct error *err)
{
	o->store = s;
	o->name = strdup(name);
	return o->name ? 0 : error_nomem(err);
}

void store_object_fini(struct object *o)
{
	free(o->name);
	buf_fini(&o->head);
}

int object_open(struct object_store *s, const char *name, struct object **ret,
		struct error *err)
{
	return store_open_head(s, name, 0, ret, err);
}

int store_open_head(struct object_store *s, const char *name, size_t most,
		    struct object **ret, struct error *err)
{
	int64_t begun_ns;
	int rc = check_name(name, err);

	if (rc == 0) {
		begun_ns = store_call_begin(s);
		rc = most && s->ops->open_head
			     ? s->ops->open_head(s, name, most, ret, err)
			     : s->ops->open(s, name, ret, err);
		end_name_call(s, begun_ns, rc);
	}
	return wrap_error(s, "open", name, rc, err);
}

int object_open_unasked(struct object_store *s, const char *name,
			struct object **ret, struct error *err)
{
	int rc;

	if (!s->ops->open_unasked)
		return object_open(s, name, ret, err);
	rc = check_name(name, err);
	if (rc == 0)
		rc = s->ops->open_unasked(s, name, ret, err);
	return wrap_error(s, "open", name, rc, err);
}

void store_object_ref(struct object *o)
{
	atomic_fetch_add(&o->n_refs, 1);
}

void object_close(struct object *o)
{
	if (o && atomic_fetch_sub(&o->n_refs, 1) == 0)
		o->store->ops->close(o);
}

const struct object_stat *object_opened_stat(const struct object *o)
{
	return &o->stat;
}

/* Copy the part of a range that came with the open; returns the rest. */
static struct object_range copy_head(const struct object *o,
				     const struct object_range *r)
{
	const size_t left = o->head.len - (size_t)r->off;
	const size_t n = left < r->len ? left : r->len;

	memcpy(r->buf, o->head.data + r->off, n);
	return (struct object_range){ .off = r->off + n,
				      .len = r->len - n,
				      .buf = (char *)r->buf + n };
}

int object_read(struct object *o, const struct object_range *ranges, size_t n,
		int64_t deadline_ns, struct error *err)
{
	struct object_range rest;
	int64_t begun_ns;
	uint64_t sum = 0;
	int rc;

	for (size_t i = 0; i < n; i++) {
		const struct object_range *r = &ranges[i];

		if (r->off > o->stat.size || r->len > o->stat.size - r->off)
			return wrap_error(o->store, "read", o->name,
					  error_set(err, ERANGE,
						    "%zu bytes at %" PRIu64
						    " lie outside its %" PRIu64,
						    r->len, r->off,
						    o->stat.size),
					  err);
		sum += r->len;
	}
	if (sum == 0)
		return 0;
	if (deadline_ns && clock_now_ns() >= deadline_ns)
		return wrap_error(o->store, "read", o->name,
				  error_set(err, ETIMEDOUT,
					    "the deadline is over"),
				  err);
	if (n == 1 && ranges->off < o->head.len) {
		rest = copy_head(o, ranges);
		ranges = &rest;
		n = rest.len > 0;
	}
	begun_ns = store_call_begin(o->store);
	rc = n ? o->store->ops->read(o, ranges, n, deadline_ns, err) : 0;
	end_transfer_call(o->store, &o->store->count.read,
			  &o->store->count.read_waits, begun_ns, rc);
	if (rc == 0)
		atomic_fetch_add(&o->store->count.bytes_read, sum);
	return wrap_error(o->store, "read", o->name, rc, err);
}

static int get_at_once(struct object_store *s, const char *name, size_t max,
		       struct buf *ret, struct object_stat *ret_stat,
		       struct error *err)
{
	int64_t begun_ns = store_call_begin(s);
	int rc = s->ops->get ? s->ops->get(s, name, max, ret, ret_stat, err)
			     : -ENOTSUP;

	if (rc == -ENOTSUP) {
		store_call_end(s, rc);
		return rc;
	}
	end_transfer_call(s, &s->count.read, &s->count.read_waits, begun_ns,
			  rc);
	if (rc == 0)
		atomic_fetch_add(&s->count.bytes_read, ret->len);
	return wrap_error(s, "read", name, rc, err);
}

static int read_whole(struct object *o, size_t max, struct buf *ret,
		      struct error *err)
{
	struct object_range all = { .len = (size_t)o->stat.size };
	int rc;

	if (o->stat.size > max)
		return wrap_error(o->store, "read", o->name,
				  error_set(err, EFBIG,
					    "it is longer than %zu bytes", max),
				  err);
	if (buf_reserve(ret, all.len + 1) < 0)
		return error_nomem(err);
	all.buf = ret->data;
	rc = object_read(o, &all, 1, 0, err);
	if (rc == 0)
		ret->len = all.len;
	return rc;
}

int object_get(struct object_store *s, const char *name, size_t max,
	       struct buf *ret, struct object_stat *ret_stat, struct error *err)
{
	struct object *o;
	int rc = check_name(name, err);

	if (rc < 0)
		return wrap_error(s, "read", name, rc, err);
	rc = get_at_once(s, name, max, ret, ret_stat, err);
	if (rc != -ENOTSUP)
		return rc;
	buf_reset(ret);
	rc = object_open(s, name, &o, err);
	if (rc < 0)
		return rc;
	*ret_stat = o->stat;
	rc = read_whole(o, max, ret, err);
	object_close(o);
	return rc;
}

int store_put_init(struct object_put *p, struct object_store *s,
		   const char *name, const struct object_put_options *opts,
		   struct error *err)
{
	p->store = s;
	p->condition = opts->condition;
	p->size_hint = opts->size;
	p->name = strdup(name);
	if (opts->condition == OBJECT_MATCH)
		p->tag = strdup(opts->tag);
	return p->name && (p->tag || opts->condition != OBJECT_MATCH)
		       ? 0
		       : error_nomem(err);
}

void store_put_fini(struct object_put *p)
{
	free(p->name);
	free(p->tag);
}

int object_put_open(struct object_store *s, const char *name,
		    const struct object_put_options *opts,
		    struct object_put **ret, struct error *err)
{
	static const struct object_put_options none = { .size = 0 };
	int rc = check_free_name(name, err);

	if (!opts)
		opts = &none;
	if (rc == 0 && opts->condition == OBJECT_MATCH && !opts->tag)
		rc = error_set(err, EINVAL, "OBJECT_MATCH needs a tag");
	if (rc == 0) {
		(void)store_call_begin(s);
		rc = s->ops->put_open(s, name, opts, ret, err);
		store_call_end(s, rc);
	}
	return wrap_error(s, "put", name, rc, err);
}

void *object_put_room(struct object_put *p, size_t len)
{
	void *room;

	if (p->rc < 0 || !len || !p->store->ops->put_room)
		return NULL;
	(void)store_call_begin(p->store);
	room = p->store->ops->put_room(p, len);
	store_call_end(p->store, 0);
	return room;
}

int object_put_write(struct object_put *p, const void *data, size_t len,
		     struct error *err)
{
	int64_t begun_ns;
	int rc;

	if (len == 0)
		return 0;
	if (p->rc < 0)
		return error_set(err, -p->rc, "the put has failed before");
	begun_ns = store_call_begin(p->store);
	rc = p->store->ops->put_write(p, data, len, err);
	end_transfer_call(p->store, &p->store->count.write,
			  &p->store->count.write_waits, begun_ns, rc);
	if (rc < 0) {
		p->rc = rc;
		return wrap_error(p->store, "put", p->name, rc, err);
	}
	p->size += len;
	return 0;
}

int object_put_fd(struct object_put *p, int fd, uint64_t size,
		  struct error *err)
{
	AUTO_FREE char *own = NULL;
	int rc = 0;

	for (uint64_t off = 0; rc == 0 && off < size;) {
		size_t n = size - off < PIECE_BYTES ? (size_t)(size - off)
						    : PIECE_BYTES;
		char *piece = object_put_room(p, n);

		if (!piece && !own)
			own = malloc(PIECE_BYTES);
		piece = piece ? piece : own;
		if (!piece)
			return error_nomem(err);

		rc = fs_pread_full(fd, piece, n, off);
		rc = rc < 0 ? error_errno(err, -rc, "read what is to be put")
			    : object_put_write(p, piece, n, err);
		off += n;
	}
	return rc;
}

int object_put_commit(struct object_put *p, struct object_stat *ret,
		      struct error *err)
{
	int64_t begun_ns;
	struct object_stat own;
	int rc;

	if (p->rc < 0)
		return error_set(err, -p->rc, "the put has failed before");
	begun_ns = store_call_begin(p->store);
	rc = p->store->ops->put_commit(p, ret ? ret : &own, err);
	end_transfer_call(p->store, &p->store->count.write,
			  &p->store->count.write_waits, begun_ns, rc);
	/* Allow no second commit, whatever the result. */
	p->rc = rc < 0 ? rc : -EALREADY;
	if (rc == 0)
		atomic_fetch_add(&p->store->count.bytes_written, p->size);
	return wrap_error(p->store, "commit", p->name, rc, err);
}

void object_put_free(struct object_put *p)
{
	if (p)
		p->store->ops->put_free(p);
}

void *object_buffer_take(struct object_store *s, size_t size,
			 int64_t deadline_ns)
{
	return store_memory_take(s->memory, size, deadline_ns);
}

void object_buffer_give(struct object_store *s, void *buf, size_t size)
{
	store_memory_give(s->memory, buf, size);
}

int object_put(struct object_store *s, const char *name, const void *data,
	       size_t len, const struct object_put_options *opts,
	       struct object_stat *ret, struct error *err)
{
	struct object_put_options sized = { .size = 0 };
	AUTO(object_put) p = NULL;
	int rc;

	if (opts)
		sized = *opts;
	sized.size = len ? len : 1;
	rc = object_put_open(s, name, &sized, &p, err);
	if (rc == 0)
		rc = object_put_write(p, data, len, err);
	return rc < 0 ? rc : object_put_commit(p, ret, err);
}

int object_delete(struct object_store *s, const char *name, const char *tag,
		  struct error *err)
{
	int64_t begun_ns;
	int rc = check_free_name(name, err);

	if (rc == 0) {
		begun_ns = store_call_begin(s);
		rc = s->ops->remove(s, name, tag, err);
		end_name_call(s, begun_ns, rc);
	}
	return wrap_error(s, "delete", name, rc, err);
}

int object_folder_remove(struct object_store *s, const char *folder,
			 struct error *err)
{
	int rc = check_free_name(folder, err);

	if (rc == 0 && s->ops->remove_folder) {
		(void)store_call_begin(s);
		rc = s->ops->remove_folder(s, folder, err);
		store_call_end(s, rc);
	}
	return rc == -ENOENT ? 0 : wrap_error(s, "delete", folder, rc, err);
}

int object_rename(struct object_store *s, const char *from, const char *to,
		  enum object_condition condition, struct error *err)
{
	int64_t begun_ns;
	int rc = check_free_name(from, err);

	if (rc == 0)
		rc = check_free_name(to, err);
	if (rc == 0 && condition == OBJECT_MATCH)
		rc = error_set(err, EINVAL, "a rename has no tag");
	if (rc == 0) {
		begun_ns = store_call_begin(s);
		rc = s->ops->rename(s, from, to, condition, err);
		end_name_call(s, begun_ns, rc);
	}
	return wrap_error(s, "rename", from, rc, err);
}

int object_store_now(struct object_store *s, int64_t *ret_ms, struct error *err)
{
	const struct object_put_options opts = { .size = 1 };
	AUTO_FREE char *name = store_temporary();
	AUTO(object_put) p = NULL;
	struct object_stat st;
	int rc;

	if (!name)
		return error_nomem(err);
	(void)store_call_begin(s);
	rc = s->ops->put_open(s, name, &opts, &p, err);
	if (rc == 0)
		rc = s->ops->put_commit(p, &st, err);
	/* A put's answer may lack the time. */
	if (rc == 0)
		rc = s->ops->stat(s, name, &st, err);
	if (rc == 0)
		rc = s->ops->remove(s, name, NULL, err);
	store_call_end(s, rc);
	if (rc == -ENOENT) /* removed by another process's sweep */
		rc = 0;
	if (rc == 0)
		*ret_ms = st.modified_ms;
	return wrap_error(s, "ask the time by", name, rc, err);
}
