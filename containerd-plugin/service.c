// SPDX-License-Identifier: Apache-2.0
/*
 * Each call is a work: its message is unpacked and answered on a pool thread,
 * its reply is sent on the loop.  What only touches the state has threads of its
 * own, so that containerd, which waits for it inside a transaction, never waits
 * behind a download.
 */
#include "containerd-plugin/service.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/pool.h"
#include "containerd-plugin/filter.h"
#include "containerd-plugin/service_msg.h"

#define QUICK_THREADS 2
#define QUEUE_MAX 4096
#define LIST_PAGE 100         /* snapshots of one message */
#define LIST_BYTES (1u << 20) /* or as many as are about so long */
#define SERVICE "/containerd.services.snapshots.v1.Snapshots/"

struct service {
	struct loop *loop;
	struct snapshots *snapshots;
	struct pool *quick, *slow;
	size_t n_busy;
	void (*idle)(void *arg);
	void *idle_arg;
};

struct request {
	struct work work;
	struct service *service;
	struct grpc_call *call;
	const struct operation *op;
	struct buf reply;
	struct error err;
	int rc;

	/* List, between its messages. */
	struct filter *filter;
	char *after;
	bool more;
};

struct operation {
	const char *name;
	bool slow; /* may wait for disks or bootseerd */
	int (*run)(struct request *r, const uint8_t *data, size_t len);
};

/* ---- the operations, on a pool thread ---- */

static int create(struct request *r, enum snapshot_kind kind,
		  const uint8_t *data, size_t len)
{
	struct msg_create in = { .key = NULL };
	struct mount mount = { .type = NULL };
	int rc = msg_create_read(data, len, &in, &r->err);

	if (rc == 0)
		rc = snapshots_create(r->service->snapshots,
				      &(struct create_request){
					      .kind = kind,
					      .key = in.key,
					      .parent = in.parent,
					      .labels = &in.labels },
				      &mount, &r->err);
	if (rc == 0)
		rc = msg_mount_write(&mount, &r->reply, &r->err);
	mount_fini(&mount);
	msg_create_fini(&in);
	return rc;
}

static int run_prepare(struct request *r, const uint8_t *data, size_t len)
{
	return create(r, SNAPSHOT_KIND_ACTIVE, data, len);
}

static int run_view(struct request *r, const uint8_t *data, size_t len)
{
	return create(r, SNAPSHOT_KIND_VIEW, data, len);
}

static int run_mounts(struct request *r, const uint8_t *data, size_t len)
{
	struct mount mount = { .type = NULL };
	AUTO_FREE char *key = NULL;
	int rc = msg_key_read(data, len, &key, &r->err);

	if (rc == 0)
		rc = snapshots_mounts(r->service->snapshots, key, &mount,
				      &r->err);
	if (rc == 0)
		rc = msg_mount_write(&mount, &r->reply, &r->err);
	mount_fini(&mount);
	return rc;
}

static int run_commit(struct request *r, const uint8_t *data, size_t len)
{
	struct msg_create in = { .key = NULL };
	uint64_t id;
	int rc = msg_commit_read(data, len, &in, &r->err);

	if (rc == 0)
		rc = store_commit(snapshots_store(r->service->snapshots),
				  in.key, in.name, in.parent, &in.labels, &id,
				  &r->err);
	msg_create_fini(&in);
	return rc;
}

static int run_remove(struct request *r, const uint8_t *data, size_t len)
{
	AUTO_FREE char *key = NULL;
	int rc = msg_key_read(data, len, &key, &r->err);

	return rc < 0 ? rc
		      : store_remove(snapshots_store(r->service->snapshots),
				     key, &r->err);
}

static int run_stat(struct request *r, const uint8_t *data, size_t len)
{
	AUTO_FREE char *key = NULL;
	struct snapshot snap;
	int rc = msg_key_read(data, len, &key, &r->err);

	if (rc == 0)
		rc = store_get(snapshots_store(r->service->snapshots), key,
			       &snap, &r->err);
	if (rc < 0)
		return rc;
	rc = msg_info_write(&snap, &r->reply, &r->err);
	snapshot_fini(&snap);
	return rc;
}

static int run_update(struct request *r, const uint8_t *data, size_t len)
{
	struct msg_update in = { .name = NULL };
	struct snapshot snap;
	int rc = msg_update_read(data, len, &in, &r->err);

	if (rc == 0)
		rc = store_update(snapshots_store(r->service->snapshots),
				  in.name, &in.labels,
				  (const char *const *)in.paths, in.n_paths,
				  &snap, &r->err);
	msg_update_fini(&in);
	if (rc < 0)
		return rc;
	rc = msg_info_write(&snap, &r->reply, &r->err);
	snapshot_fini(&snap);
	return rc;
}

static int run_usage(struct request *r, const uint8_t *data, size_t len)
{
	AUTO_FREE char *key = NULL;
	int64_t size, inodes;
	int rc = msg_key_read(data, len, &key, &r->err);

	if (rc == 0)
		rc = snapshots_usage(r->service->snapshots, key, &size, &inodes,
				     &r->err);
	return rc < 0 ? rc : msg_usage_write(size, inodes, &r->reply, &r->err);
}

static int run_cleanup(struct request *r, const uint8_t *data, size_t len)
{
	return snapshots_cleanup(r->service->snapshots, &r->err);
}

static bool matches(const struct filter *f, const struct snapshot *snap)
{
	return filter_matches(f, &(struct filter_subject){
					 .name = snap->name,
					 .parent = snap->parent,
					 .kind = snapshot_kind_name(snap->kind),
					 .labels = &snap->labels });
}

/* Read on from `after` until a message is full. */
static int list_page(struct request *r)
{
	struct store *store = snapshots_store(r->service->snapshots);
	size_t n_listed = 0, n = LIST_PAGE;
	int rc = 0;

	while (rc == 0 && n == LIST_PAGE && n_listed < LIST_PAGE &&
	       r->reply.len < LIST_BYTES) {
		struct snapshot *v = NULL;

		rc = store_list(store, r->after, LIST_PAGE, &v, &n, &r->err);
		if (rc < 0)
			return rc;
		for (size_t i = 0; i < n && rc == 0; i++) {
			if (!matches(r->filter, &v[i]))
				continue;
			rc = msg_list_add(&v[i], &r->reply, &r->err);
			n_listed++;
		}
		if (n > 0) {
			free(r->after);
			r->after = strdup(v[n - 1].name);
			if (!r->after)
				rc = error_nomem(&r->err);
		}
		snapshots_free(v, n);
	}
	r->more = n == LIST_PAGE;
	return rc;
}

static int run_list(struct request *r, const uint8_t *data, size_t len)
{
	struct msg_update in = { .name = NULL };
	int rc;

	if (r->after)
		return list_page(r);
	rc = msg_list_read(data, len, &in, &r->err);
	if (rc == 0)
		rc = filter_parse((const char *const *)in.paths, in.n_paths,
				  &r->filter, &r->err);
	msg_update_fini(&in);
	if (rc < 0)
		return rc;
	r->after = strdup("");
	return r->after ? list_page(r) : error_nomem(&r->err);
}

/* ---- calls, on the loop ---- */

static void request_free(struct request *r)
{
	struct service *s = r->service;
	void (*idle)(void *) = s->idle;

	filter_free(r->filter);
	free(r->after);
	buf_fini(&r->reply);
	free(r);
	if (--s->n_busy == 0 && idle) {
		s->idle = NULL;
		idle(s->idle_arg);
	}
}

static void finish(struct request *r)
{
	if (r->rc < 0) {
		log_debug("service", "%s failed: %s", r->op->name, r->err.msg);
		grpc_call_finish(r->call, grpc_status_of_errno(-r->rc),
				 r->err.msg);
	} else {
		grpc_call_finish(r->call, GRPC_STATUS_OK, NULL);
	}
	request_free(r);
}

static void on_run(struct work *w)
{
	struct request *r = container_of(w, struct request, work);
	size_t len;
	const uint8_t *data = grpc_call_request(r->call, &len);

	r->rc = r->op->run(r, data, len);
}

/* On success `r` belongs to the pool until on_done(). */
static void submit(struct request *r)
{
	struct service *s = r->service;
	int rc = pool_submit(r->op->slow ? s->slow : s->quick, &r->work);

	if (rc < 0) {
		r->rc = error_set(&r->err, -rc, "too many calls are waiting");
		finish(r);
	}
}

/* List: the peer took the last message. */
static void on_drained(struct grpc_call *c, void *arg)
{
	struct request *r = arg;

	buf_reset(&r->reply);
	if (grpc_call_is_cancelled(c))
		finish(r);
	else
		submit(r);
}

static void on_done(struct work *w)
{
	struct request *r = container_of(w, struct request, work);

	/* An empty message is a message, but an empty List has none. */
	if (r->rc == 0 && (r->reply.len > 0 || r->op->run != run_list) &&
	    grpc_call_send(r->call, r->reply.len ? r->reply.data : "",
			   r->reply.len) < 0)
		r->rc = error_nomem(&r->err);
	if (r->rc == 0 && r->more && !grpc_call_is_cancelled(r->call))
		grpc_call_when_drained(r->call, on_drained, r);
	else
		finish(r);
}

static void start(struct grpc_call *call, struct service *s,
		  const struct operation *op)
{
	struct request *r = calloc(1, sizeof(*r));

	if (!r) {
		grpc_call_finish(call, GRPC_STATUS_RESOURCE_EXHAUSTED,
				 "out of memory");
		return;
	}
	r->service = s;
	r->call = call;
	r->op = op;
	r->work.run = on_run;
	r->work.done = on_done;
	s->n_busy++;
	submit(r);
}

#define OPERATION(method, is_slow) \
	static void start_##method(struct grpc_call *call, void *arg) \
	{ \
		static const struct operation op = { .name = #method, \
						     .slow = (is_slow), \
						     .run = run_##method }; \
\
		start(call, arg, &op); \
	}

OPERATION(prepare, true)
OPERATION(view, true)
OPERATION(mounts, true)
OPERATION(commit, false)
OPERATION(remove, false)
OPERATION(stat, false)
OPERATION(update, false)
OPERATION(list, false)
OPERATION(usage, true)
OPERATION(cleanup, true)

const struct grpc_method *service_methods(void)
{
	static const struct grpc_method methods[] = {
		{ SERVICE "Prepare", start_prepare },
		{ SERVICE "View", start_view },
		{ SERVICE "Mounts", start_mounts },
		{ SERVICE "Commit", start_commit },
		{ SERVICE "Remove", start_remove },
		{ SERVICE "Stat", start_stat },
		{ SERVICE "Update", start_update },
		{ SERVICE "List", start_list },
		{ SERVICE "Usage", start_usage },
		{ SERVICE "Cleanup", start_cleanup },
		{ NULL, NULL },
	};

	return methods;
}

/* ---- the service ---- */

int service_new(struct loop *loop, struct snapshots *snapshots,
		size_t n_threads, struct service **ret, struct error *err)
{
	struct service *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->loop = loop;
	s->snapshots = snapshots;
	rc = pool_new(loop, QUICK_THREADS, QUEUE_MAX, &s->quick, err);
	if (rc == 0)
		rc = pool_new(loop, n_threads, QUEUE_MAX, &s->slow, err);
	if (rc < 0) {
		service_stop(s);
		service_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void service_stop(struct service *s)
{
	if (!s)
		return;
	pool_free(steal_ptr(&s->quick));
	pool_free(steal_ptr(&s->slow));
}

void service_free(struct service *s)
{
	free(s);
}

size_t service_busy(const struct service *s)
{
	return s->n_busy;
}

void service_when_idle(struct service *s, void (*fn)(void *arg), void *arg)
{
	if (s->n_busy == 0) {
		fn(arg);
		return;
	}
	s->idle = fn;
	s->idle_arg = arg;
}
