// SPDX-License-Identifier: Apache-2.0
/*
 * Each call is a work: its message is unpacked and answered on a pool thread, and the reply is
 * sent on the loop. Calls that only touch the state have their own threads, so that containerd,
 * which waits for them inside a transaction, never waits behind a download. Calls that wait for
 * a registry use other threads, for each kind of waiting (turn.h), which the registries' hosts
 * share by net/lanes.h; a call that waits for its turn occupies no thread.
 */
#include "containerd-plugin/service.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "containerd-plugin/filter.h"
#include "containerd-plugin/service_msg.h"
#include "net/lanes.h"
#include "net/pool.h"

#define QUICK_THREADS 2
#define QUEUE_MAX 4096
#define LANE_WAITING 256 /* calls that wait for one host */
/* How long a call waits for its turn, and how often it checks that its client is still
 * connected. */
#define TURN_NS INT64_C(2000000000)
#define UNPACK_TURN_NS INT64_C(60000000000)
#define LOOK_NS INT64_C(500000000)
#define LIST_PAGE 100         /* snapshots in one message */
#define LIST_BYTES (1u << 20) /* or so many bytes, about */
#define SERVICE "/containerd.services.snapshots.v1.Snapshots/"
/* The service's other method, Diff, makes layers; containerd does that itself. */
#define APPLY "/containerd.services.diff.v1.Diff/Apply"

struct plugin_service {
	struct loop *loop;
	struct snapshots *snapshots;
	struct pool *quick;
	struct pool *slow[TURN_KINDS];
	struct lanes *lanes[TURN_KINDS]; /* NULL for TURN_LOCAL */
	/* keyed by turn.layer: lets one call for each layer run at a time */
	struct lanes *layers;
	size_t n_busy;
	bool is_stopped;
	void (*idle)(void *arg);
	void *idle_arg;
};

struct request {
	struct work work;
	struct plugin_service *service;
	struct grpc_call *call;
	const struct operation *op;
	struct buf reply;
	struct error err;
	int rc;

	/* Set from the request for a turn until the turn's end. */
	struct turn turn;
	struct lanes *lanes; /* borrowed; the lanes that `lane` is in */
	struct lane_turn lane;
	struct lane_turn layer; /* also held while it waits for `lane` */
	struct loop_timer look;
	int64_t waits_since_ns;

	/* State of List between its messages. */
	struct filter *filter;
	char *after;
	bool more;
};

struct operation {
	const char *name;
	bool slow;           /* it may wait for disks or bootseerd */
	enum turn_kind kind; /* kind of thread on which it begins, if slow */
	int (*run)(struct request *r, const uint8_t *data, size_t len);
};

/* ---- the operations, on a pool thread ---- */

static int create_snapshot(struct request *r, enum snapshot_kind kind,
			   const uint8_t *data, size_t len)
{
	AUTO_FINI(msg_create) in = { .key = NULL };
	struct mount mount = { .type = NULL };
	int rc = msg_create_read(data, len, &in, &r->err);

	if (rc == 0)
		rc = snapshots_create(r->service->snapshots,
				      &(struct create_request){
					      .kind = kind,
					      .key = in.key,
					      .parent = in.parent,
					      .labels = &in.labels },
				      &r->turn, &mount, &r->err);
	if (rc == 0)
		rc = msg_mount_write(&mount, &r->reply, &r->err);
	mount_fini(&mount);
	return rc;
}

static int run_prepare(struct request *r, const uint8_t *data, size_t len)
{
	return create_snapshot(r, SNAPSHOT_KIND_ACTIVE, data, len);
}

static int run_view(struct request *r, const uint8_t *data, size_t len)
{
	return create_snapshot(r, SNAPSHOT_KIND_VIEW, data, len);
}

static int run_mounts(struct request *r, const uint8_t *data, size_t len)
{
	AUTO_FINI(mount) mount = { .type = NULL };
	AUTO_FREE char *key = NULL;
	int rc = msg_key_read(data, len, &key, &r->err);

	if (rc == 0)
		rc = snapshots_mounts(r->service->snapshots, key, &r->turn,
				      &mount, &r->err);
	if (rc == 0)
		rc = msg_mount_write(&mount, &r->reply, &r->err);
	return rc;
}

static int run_commit(struct request *r, const uint8_t *data, size_t len)
{
	AUTO_FINI(msg_create) in = { .key = NULL };
	int rc = msg_commit_read(data, len, &in, &r->err);

	if (rc == 0)
		rc = snapshots_note_shifted(in.key, &in.labels, &r->err);
	if (rc == 0)
		rc = store_commit(snapshots_store(r->service->snapshots),
				  in.key, in.name, in.parent, &in.labels,
				  &r->err);
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

static int run_apply(struct request *r, const uint8_t *data, size_t len)
{
	AUTO_FINI(msg_apply) in = { .dir = NULL };
	struct node_layer_content content;
	int rc = msg_apply_read(data, len, &in, &r->err);

	if (rc == 0)
		rc = snapshots_apply(r->service->snapshots, &in.layer, &r->turn,
				     &content, &r->err);
	if (rc == 0)
		rc = msg_applied_write(&content, &r->reply, &r->err);
	return rc;
}

static bool matches_filter(const struct filter *f, const struct snapshot *snap)
{
	return filter_matches(f, &(struct filter_subject){
					 .name = snap->name,
					 .parent = snap->parent,
					 .kind = snapshot_kind_name(snap->kind),
					 .labels = &snap->labels });
}

/* Read snapshots from `after` on until a message is full. */
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
			if (!matches_filter(r->filter, &v[i]))
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
	struct plugin_service *s = r->service;
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

static void finish_request(struct request *r)
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

/* Leave the host's lane. May start other requests, and end them. */
static void leave_lane(struct request *r, bool is_answered)
{
	loop_timer_stop(&r->look);
	if (r->lane.lane)
		lanes_leave(r->lanes, &r->lane, is_answered, clock_now_ns());
}

/* Leave the layer's lane. May start other requests, and end them. */
static void leave_layer_lane(struct request *r)
{
	r->turn.has_layer = false;
	if (r->layer.lane)
		lanes_leave(r->service->layers, &r->layer, false,
			    clock_now_ns());
}

/* Give `r` to a pool; on success the pool has it until on_done(). */
static void submit_request(struct request *r)
{
	struct plugin_service *s = r->service;
	struct pool *pool = r->op->slow ? s->slow[r->turn.kind] : s->quick;
	int rc = s->is_stopped ? -ECANCELED : pool_submit(pool, &r->work);

	if (rc < 0) {
		leave_lane(r, false);
		leave_layer_lane(r);
		r->rc = error_set(&r->err, -rc, "too many calls are waiting");
		finish_request(r);
	}
}

/* ---- turns, on the loop ---- */

static bool waits_for_layer(const struct request *r)
{
	return r->layer.lane && r->layer.is_waiting;
}

static bool is_waiting(const struct request *r)
{
	return waits_for_layer(r) || (r->lane.lane && r->lane.is_waiting);
}

static int64_t wait_limit_ns(const struct request *r)
{
	if (waits_for_layer(r))
		return r->turn.layer_patience_ns;
	return r->turn.kind == TURN_UNPACK ? UNPACK_TURN_NS : TURN_NS;
}

/* The host had no free place in time, or another call has the layer: go on without what the
 * call waited for, if it can. */
static void continue_without_wait(struct request *r)
{
	if (r->turn.kind == TURN_LOCAL)
		leave_layer_lane(r);
	turn_refuse(&r->turn);
	leave_lane(r, false);
	submit_request(r);
}

static void on_look_timer(struct loop_timer *t)
{
	struct request *r = container_of(t, struct request, look);
	bool is_gone = grpc_call_is_cancelled(r->call);

	if (is_gone) {
		atomic_store(&r->turn.is_gone, true);
		atomic_store(&r->turn.is_cut, true);
	}
	if (is_waiting(r) && is_gone) {
		leave_lane(r, false);
		leave_layer_lane(r);
		r->rc = error_set(&r->err, ECANCELED, "whoever asked has left");
		finish_request(r);
	} else if (is_waiting(r) &&
		   (clock_now_ns() - r->waits_since_ns >= wait_limit_ns(r) ||
		    loop_timer_start(r->service->loop, t, LOOK_NS, NULL) < 0)) {
		continue_without_wait(r);
	} else if (!is_waiting(r)) {
		/* If the timer fails, the call just cannot be cut short. */
		(void)!loop_timer_start(r->service->loop, t, LOOK_NS, NULL);
	}
}

static void on_lane_turn(struct lane_turn *t)
{
	submit_request(container_of(t, struct request, lane));
}

static void on_layer_turn(struct lane_turn *t)
{
	struct request *r = container_of(t, struct request, layer);

	r->turn.has_layer = true;
	submit_request(r);
}

static int enter_layer(struct request *r)
{
	int rc;

	log_debug("service", "%s waits its turn: layer=\"%s\"", r->op->name,
		  r->turn.layer);
	leave_layer_lane(r);
	r->turn.kind = TURN_LOCAL;
	r->layer.begin = on_layer_turn;
	rc = lanes_enter(r->service->layers, r->turn.layer, &r->layer,
			 r->waits_since_ns);
	r->turn.has_layer = rc == 0;
	return rc;
}

static int enter_lane(struct request *r)
{
	log_debug("service", "%s waits its turn: registry=%s", r->op->name,
		  r->turn.host);
	r->lanes = r->service->lanes[r->turn.kind];
	r->lane.begin = on_lane_turn;
	return lanes_enter(r->lanes, r->turn.host, &r->lane, r->waits_since_ns);
}

/* Run the request again on a thread that may wait for a registry: the first run ended where
 * it would have waited, and has changed nothing. */
static void take_turn(struct request *r)
{
	bool wants_layer = r->turn.layer[0] && !r->turn.has_layer;
	int rc;

	r->err = (struct error)ERROR_INIT;
	buf_reset(&r->reply);
	r->waits_since_ns = clock_now_ns();
	/* A call that asks for something else has the layer already, or does not need it
	 * yet. */
	if (!wants_layer && r->turn.kind != TURN_UNPACK) {
		leave_layer_lane(r);
		r->turn.layer[0] = '\0';
	}
	rc = wants_layer ? enter_layer(r) : enter_lane(r);
	if (rc >= 0 &&
	    loop_timer_start(r->service->loop, &r->look, LOOK_NS, &r->err) < 0)
		rc = -ENOMEM;
	if (rc < 0)
		continue_without_wait(r);
	else if (rc == 0)
		submit_request(r);
}

/* List: the peer has taken the last message, so read the next page. */
static void on_drained(struct grpc_call *c, void *arg)
{
	struct request *r = arg;

	buf_reset(&r->reply);
	if (grpc_call_is_cancelled(c))
		finish_request(r);
	else
		submit_request(r);
}

static void on_done(struct work *w)
{
	struct request *r = container_of(w, struct request, work);

	leave_lane(r, !atomic_load(&r->turn.is_gone));
	if (r->rc == -ERESTART) {
		take_turn(r);
		return;
	}
	leave_layer_lane(r);
	/* An empty message must be sent too, except for an empty List, which has no message. */
	if (r->rc == 0 && (r->reply.len > 0 || r->op->run != run_list) &&
	    grpc_call_send(r->call, r->reply.len ? r->reply.data : "",
			   r->reply.len) < 0)
		r->rc = error_nomem(&r->err);
	if (r->rc == 0 && r->more && !grpc_call_is_cancelled(r->call))
		grpc_call_when_drained(r->call, on_drained, r);
	else
		finish_request(r);
}

static void start(struct grpc_call *call, struct plugin_service *s,
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
	r->turn.kind = op->kind;
	r->look.fn = on_look_timer;
	/* If the timer fails, the call just cannot be cut short. */
	if (op->kind == TURN_UNPACK)
		(void)!loop_timer_start(s->loop, &r->look, LOOK_NS, NULL);
	s->n_busy++;
	submit_request(r);
}

/* Begin an Apply. It may take as long as a download of a layer, and can be cut short in the
 * same way. */
static void start_apply(struct grpc_call *call, void *arg)
{
	static const struct operation op = { .name = "apply",
					     .slow = true,
					     .kind = TURN_UNPACK,
					     .run = run_apply };

	start(call, arg, &op);
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
		{ APPLY, start_apply },
		{ NULL, NULL },
	};

	return methods;
}

/* ---- the service ---- */

/* Start the threads of a kind. One host may hold half of those for questions or starts, and
 * only a few of those for unpacking, as it may hold these for long. */
static int open_kind(struct plugin_service *s, enum turn_kind kind,
		     size_t n_threads, struct error *err)
{
	size_t share = kind == TURN_UNPACK ? n_threads / 8 : n_threads / 2;
	const struct lanes_config cfg = {
		.all = n_threads,
		.at_once = share ? share : 1,
		.waiting = LANE_WAITING,
		.strange_most = n_threads > 1 ? n_threads / 2 : 1,
	};

	if (kind != TURN_LOCAL) {
		s->lanes[kind] = lanes_new(&cfg);
		if (!s->lanes[kind])
			return error_nomem(err);
	}
	return pool_new(s->loop, n_threads, QUEUE_MAX, &s->slow[kind], err);
}

static int open_layers(struct plugin_service *s, struct error *err)
{
	const struct lanes_config cfg = {
		.all = SIZE_MAX,
		.at_once = 1,
		.waiting = LANE_WAITING,
		.strange_most = SIZE_MAX,
	};

	s->layers = lanes_new(&cfg);
	return s->layers ? 0 : error_nomem(err);
}

int service_new(struct loop *loop, struct snapshots *snapshots,
		size_t n_threads, struct plugin_service **ret,
		struct error *err)
{
	struct plugin_service *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->loop = loop;
	s->snapshots = snapshots;
	rc = pool_new(loop, QUICK_THREADS, QUEUE_MAX, &s->quick, err);
	if (rc == 0)
		rc = open_layers(s, err);
	for (int kind = 0; rc == 0 && kind < TURN_KINDS; kind++)
		rc = open_kind(s, kind, n_threads, err);
	if (rc < 0) {
		snapshots_service_stop(s);
		service_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void snapshots_service_stop(struct plugin_service *s)
{
	if (!s)
		return;
	s->is_stopped = true;
	pool_free(steal_ptr(&s->quick));
	for (int kind = 0; kind < TURN_KINDS; kind++)
		pool_free(steal_ptr(&s->slow[kind]));
}

void service_free(struct plugin_service *s)
{
	for (int kind = 0; s && kind < TURN_KINDS; kind++)
		lanes_free(s->lanes[kind]);
	if (s)
		lanes_free(s->layers);
	free(s);
}

size_t service_busy(const struct plugin_service *s)
{
	return s->n_busy;
}

void service_when_idle(struct plugin_service *s, void (*fn)(void *arg),
		       void *arg)
{
	if (s->n_busy == 0) {
		fn(arg);
		return;
	}
	s->idle = fn;
	s->idle_arg = arg;
}
