// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/preheat.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/periodic.h"
#include "net/service_client.h"
#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/prepare.h"
#include "snapshotter/node/starts/prefetch.h"
#include "snapshotter/node/traces/trace_lookup.h"

#define ASK_NS (10 * NS_PER_S) /* between two requests for orders */
/* random delay, so that nodes do not ask all at once */
#define JITTER_NS (2 * NS_PER_S)
/* between two checks of the running prefetches */
#define LOOK_NS (1 * NS_PER_S)
#define TIMEOUT_MS 10000
#define ANSWER_MAX (256u << 10)
#define REASON_MAX 400 /* longest reason that the service takes, in bytes */

/* The snapshot that an order for an environment wants. */
struct preheat_env {
	char folder[65];
	char name[33]; /* the name under which it is open; "": it is not open */
	struct digest key, manifest;
};

struct node_preheat_order {
	int64_t id;          /* 0: this entry is free */
	struct image *image; /* a use of the image; NULL: not prepared yet */
	char ref[513];
	struct preheat_env env; /* for an order of an environment */
	bool is_env;
	bool all;
	bool wants_report; /* the state has changed since the last report */
	enum { RUNNING, DONE, FAILED } state;
	uint64_t have, total;
	char reason[REASON_MAX];
};

struct preheat {
	struct node *node;
	struct service_client *client;
	char name[256]; /* of this node */
	/* used by the thread alone */
	struct node_preheat_order orders[PREHEAT_ORDERS_MAX];
	int64_t ask_at;
	struct periodic *thread;
};

/* --------------------------------------------------------------------- service --- */

static int call_service(struct preheat *p, const char *method, const char *path,
			const char *body, struct buf *ret, struct error *err)
{
	const struct service_request r = {
		.method = method,
		.path = path,
		.headers = { body ? "Content-Type: application/json" : NULL },
		.body = body,
		.body_len = body ? strlen(body) : 0,
	};
	AUTO_FINI(service_answer) a = { .head = HTTP_RESPONSE_INIT,
					.body = { .limit = ANSWER_MAX } };
	int rc = service_client_do(p->client, &r, &a, err);

	if (rc == 0 && ret) {
		*ret = a.body;
		a.body = (struct buf)BUF_INIT;
	}
	return rc;
}

/* Report the order's state.  0, or -errno: it is reported again later; -ENOENT: the service
 * does not have the order any more. */
static int report_order(struct preheat *p, const struct node_preheat_order *o,
			struct error *err)
{
	static const char *const states[] = {
		[RUNNING] = "running", [DONE] = "done", [FAILED] = "failed"
	};
	AUTO_JSON *body =
		json_pack("{s:s, s:s, s:I, s:I, s:s}", "node", p->name, "state",
			  states[o->state], "have_bytes", (json_int_t)o->have,
			  "all_bytes", (json_int_t)o->total, "error",
			  o->reason);
	AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	char path[64];

	if (!text)
		return error_nomem(err);
	snprintf(path, sizeof(path), "/v1/preheats/%lld", (long long)o->id);
	return call_service(p, "POST", path, text, NULL, err);
}

/* ---------------------------------------------------------------------- orders --- */

static void begin_call(struct preheat *p, struct remote_call *call)
{
	remote_call_init(call, &p->node->is_ending, NULL, clock_now_ns(),
			 p->node->cfg->prepare_timeout);
}

static void drop_order(struct preheat *p, struct node_preheat_order *o)
{
	struct remote_call call;
	bool was;

	/* Fetched blocks stay in the cache as long as any other unused blocks. */
	begin_call(p, &call);
	if (o->env.name[0])
		(void)!environment_umount(&p->node->environments, o->env.name,
					  &call, &was, NULL);
	images_put(o->image);
	*o = (struct node_preheat_order){ .id = 0 };
}

static void fail_order(struct node_preheat_order *o, const struct error *why)
{
	o->state = FAILED;
	o->wants_report = true;
	/* JSON takes only UTF-8, and a cut text could end within a character: keep to ASCII. */
	for (size_t i = 0; i + 1 < REASON_MAX && why->msg[i]; i++) {
		o->reason[i] = why->msg[i] < ' ' || why->msg[i] > '~'
				       ? '?'
				       : why->msg[i];
		o->reason[i + 1] = '\0';
	}
}

static int begin_image(struct preheat *p, struct node_preheat_order *o,
		       struct remote_call *call, struct error *err)
{
	const struct image_query q = { .ref = o->ref, .call = call };
	struct prepared prepared = { .image = NULL };
	int rc = node_prepare(p->node, &q, &prepared, err);

	if (rc < 0)
		return rc;
	o->image = prepared.image;
	/* Wait for the trace, so that its hot set is prefetched first. */
	trace_lookup_prepare(p->node->traces, o->image, prepared.early);
	trace_lookup_await_hot(p->node->traces, o->image);
	return node_prefetch(p->node->prefetches, o->image,
			     o->all ? PREFETCH_ON_ORDER_ALL
				    : PREFETCH_ON_ORDER_HOT,
			     NULL, NULL, err);
}

/* Open the snapshot, which fetches all of it; environment_open() checks that the node allows
 * the store. */
static int open_ordered_snapshot(struct preheat *p,
				 struct node_preheat_order *o,
				 struct remote_call *call, struct error *err)
{
	struct environment_files files = { .meta = NULL };
	uint64_t n[2];
	int rc;

	if (getrandom(n, sizeof(n), 0) != (ssize_t)sizeof(n))
		return error_set(err, EIO, "no random bytes");
	(void)snprintf(o->env.name, sizeof(o->env.name),
		       "%016" PRIx64 "%016" PRIx64, n[0], n[1]);
	rc = environment_open(&p->node->environments,
			      &(struct environment_query){
				      .store = o->ref,
				      .folder = o->env.folder,
				      .name = o->env.name,
				      .key = o->env.key,
				      .artifact = o->env.manifest,
				      .call = call },
			      &files, err);
	if (rc == 0)
		environment_files_fini(&files);
	return rc < 0 ? rc
		      : environment_image(&p->node->environments, o->env.name,
					  &o->image, err);
}

/* Bring the ordered image or snapshot to the node, and start its prefetch. */
static void begin_order(struct preheat *p, struct node_preheat_order *o)
{
	struct remote_call call;
	struct error err = ERROR_INIT;
	int rc;

	begin_call(p, &call);
	rc = o->is_env ? open_ordered_snapshot(p, o, &call, &err)
		       : begin_image(p, o, &call, &err);
	o->wants_report = true;
	if (rc < 0)
		fail_order(o, &err);
	if (rc < 0)
		log_warning("preheat",
			    "failed order=%lld image=\"%s\" reason=\"%s\"",
			    (long long)o->id, o->ref, err.msg);
	else
		log_info("preheat", "begun order=%lld image=\"%s\"",
			 (long long)o->id, o->ref);
}

static void look_at_order(struct preheat *p, struct node_preheat_order *o)
{
	struct prefetch_stats s = { .phase = PREFETCH_IDLE };
	struct error err = ERROR_INIT;
	uint64_t have, total;

	if (o->state != RUNNING)
		return;
	/* An empty read keeps the environment open: an environment that nobody reads is closed
	 * after a while. */
	if (o->is_env) {
		struct remote_call call;

		begin_call(p, &call);
		(void)!environment_read(&p->node->environments, o->env.name,
					NULL, 0, &call, NULL);
	}
	if (!node_prefetch_stats(o->image, &s)) {
		error_set(&err, ENOENT, "the image was removed meanwhile");
		fail_order(o, &err);
		return;
	}
	have = o->all ? s.all_have_bytes : s.hot_have_bytes;
	total = o->all ? s.all_bytes : s.hot_bytes;
	o->wants_report |= have != o->have || total != o->total;
	o->have = have;
	o->total = total;
	if (s.phase == PREFETCH_DONE || (!o->all && s.phase == PREFETCH_COLD)) {
		o->state = DONE;
		o->wants_report = true;
	} else if (s.phase == PREFETCH_FAILED || s.phase == PREFETCH_STOPPED) {
		error_set(&err, EIO, "%s",
			  s.phase == PREFETCH_FAILED ? s.error.msg
						     : "somebody stopped it");
		fail_order(o, &err);
	}
}

static void advance_order(struct preheat *p, struct node_preheat_order *o)
{
	struct error err = ERROR_INIT;
	int rc;

	if (!o->id)
		return;
	if (!o->image && o->state == RUNNING)
		begin_order(p, o);
	look_at_order(p, o);
	if (!o->wants_report)
		return;
	rc = report_order(p, o, &err);
	if (rc == 0)
		o->wants_report = false;
	else if (rc != -ENOENT)
		log_debug("preheat", "report reason=\"%s\"", err.msg);
	/* An order that the service does not have any more needs no report.  The prefetch goes
	 * on. */
	if (rc == -ENOENT || (rc == 0 && o->state != RUNNING))
		drop_order(p, o);
}

static struct node_preheat_order *find_order_place(struct preheat *p,
						   int64_t id)
{
	struct node_preheat_order *free_one = NULL;

	for (size_t i = 0; i < PREHEAT_ORDERS_MAX; i++) {
		if (p->orders[i].id == id)
			return NULL; /* under way */
		if (!p->orders[i].id && !free_one)
			free_one = &p->orders[i];
	}
	return free_one;
}

/* Read the snapshot that an order names; false: it names none. */
static bool read_env(const json_t *env, struct preheat_env *ret)
{
	const char *folder = json_string_value(json_object_get(env, "folder"));
	const char *key = json_string_value(json_object_get(env, "key"));
	const char *manifest =
		json_string_value(json_object_get(env, "manifest"));

	if (!folder || strlen(folder) >= sizeof(ret->folder) || !key ||
	    !manifest || digest_parse(key, &ret->key, NULL) < 0 ||
	    digest_parse(manifest, &ret->manifest, NULL) < 0)
		return false;
	strcpy(ret->folder, folder);
	return true;
}

static void take_order(struct preheat *p, const json_t *one)
{
	const char *ref = json_string_value(json_object_get(one, "ref"));
	const char *what = json_string_value(json_object_get(one, "what"));
	int64_t id = json_integer_value(json_object_get(one, "id"));
	struct node_preheat_order *o = id > 0 ? find_order_place(p, id) : NULL;

	/* An order without a free entry is skipped: the service lists it again next time. */
	if (!o || !ref || !what || strlen(ref) >= sizeof(o->ref))
		return;
	*o = (struct node_preheat_order){ .id = id,
					  .all = strcmp(what, "hot") != 0 };
	strcpy(o->ref, ref);
	o->is_env = strcmp(what, "env") == 0;
	if (o->is_env && !read_env(json_object_get(one, "env"), &o->env)) {
		struct error err = ERROR_INIT;

		error_set(&err, EINVAL, "the order names no snapshot");
		fail_order(o, &err);
	}
}

static void ask_orders(struct preheat *p)
{
	struct error err = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF answer = BUF_INIT;
	AUTO_JSON *all = NULL;
	const json_t *one;
	size_t k;
	int rc = buf_puts(&path, "/v1/preheats");

	if (rc == 0)
		rc = service_client_param(&path, "node", p->name);
	rc = rc < 0 ? error_nomem(&err)
		    : call_service(p, "GET", path.data, NULL, &answer, &err);
	if (rc < 0) {
		/* Log this at debug level only: trace_lookup logs it when the service is away. */
		log_debug("preheat", "no orders reason=\"%s\"", err.msg);
		return;
	}
	all = json_loadb(answer.data ? answer.data : "", answer.len, 0, NULL);
	json_array_foreach(json_object_get(all, "preheats"), k, one)
		take_order(p, one);
}

/* ---------------------------------------------------------------------- thread --- */

static int64_t jitter_ns(void)
{
	uint32_t random = 0;

	(void)!getrandom(&random, sizeof(random), 0);
	return (int64_t)(random % 1000) * (JITTER_NS / 1000);
}

static int64_t preheat_round(void *arg)
{
	struct preheat *p = arg;
	bool busy = false;

	if (clock_now_ns() >= p->ask_at) {
		ask_orders(p);
		p->ask_at =
			clock_now_ns() + ASK_NS - JITTER_NS / 2 + jitter_ns();
	}
	for (size_t i = 0; i < PREHEAT_ORDERS_MAX; i++) {
		advance_order(p, &p->orders[i]);
		busy |= p->orders[i].id != 0;
	}
	return busy ? clock_now_ns() + LOOK_NS : p->ask_at;
}

int preheat_open(struct node *n, struct preheat **ret, struct error *err)
{
	const struct node_config *cfg = n->cfg;
	const struct service_client_config client =
		node_config_service(cfg, TIMEOUT_MS);
	struct preheat *p;
	int rc;

	*ret = NULL;
	if (!cfg->service)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_nomem(err);
	p->node = n;
	if (cfg->node_name)
		snprintf(p->name, sizeof(p->name), "%s", cfg->node_name);
	else
		(void)!gethostname(p->name, sizeof(p->name) - 1);
	rc = service_client_new(&client, &p->client, err);
	if (rc == 0)
		rc = periodic_start(preheat_round, p, 0, &p->thread, err);
	if (rc < 0) {
		preheat_close(p);
		return error_wrap(err, rc, "preheat");
	}
	*ret = p;
	return 0;
}

void preheat_close(struct preheat *p)
{
	if (!p)
		return;
	periodic_stop(p->thread);
	for (size_t i = 0; i < PREHEAT_ORDERS_MAX; i++)
		drop_order(p, &p->orders[i]);
	service_client_free(p->client);
	free(p);
}
