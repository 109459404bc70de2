// SPDX-License-Identifier: Apache-2.0
/* Open and close; the thread of the loop, and calls into it. */
#include "p2p/engine/engine_peer.h"
#include "p2p/tracker/tracker_client.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/fs.h"
#include "p2p/rdma/rdma.h"

#define HASH_THREADS 3
#define DISK_THREADS 2
#define CALL_THREADS 4
#define MEMBERS_NS (10 * NS_PER_S)

/* ------------------------------------------------------------- waiting --- */

struct run {
	struct loop_call call;
	void (*fn)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool has_ended;
};

static void on_call_in_loop(struct loop_call *c)
{
	struct run *r = container_of(c, struct run, call);

	r->fn(r->arg);
	(void)pthread_mutex_lock(&r->lock);
	r->has_ended = true;
	(void)pthread_cond_signal(&r->ended);
	(void)pthread_mutex_unlock(&r->lock);
}

void engine_run(struct p2p *p, void (*fn)(void *arg), void *arg)
{
	struct run r = { .call.fn = on_call_in_loop,
			 .fn = fn,
			 .arg = arg,
			 .lock = PTHREAD_MUTEX_INITIALIZER,
			 .ended = PTHREAD_COND_INITIALIZER };

	assert(!pthread_equal(p->thread.id, pthread_self()));
	loop_post(p->loop, &r.call);
	(void)pthread_mutex_lock(&r.lock);
	while (!r.has_ended)
		(void)pthread_cond_wait(&r.ended, &r.lock);
	(void)pthread_mutex_unlock(&r.lock);
	(void)pthread_cond_destroy(&r.ended);
	(void)pthread_mutex_destroy(&r.lock);
}

void engine_arm(struct p2p *p, struct loop_timer *t, int64_t delay_ns)
{
	(void)!loop_timer_start(p->loop, t, delay_ns, NULL);
}

uint64_t engine_random(struct p2p *p)
{
	/* xorshift64*: it only spreads load. */
	p->random ^= p->random >> 12;
	p->random ^= p->random << 25;
	p->random ^= p->random >> 27;
	return (p->random * UINT64_C(0x2545f4914f6cdd1d)) >> 16;
}

/* -------------------------------------------------------------- memory --- */

struct bytes *bytes_new(struct p2p *p, uint32_t len, bool must)
{
	struct bytes *b;

	if (atomic_fetch_add(&p->memory, len) + len > p->cfg.memory && !must) {
		atomic_fetch_sub(&p->memory, len);
		return NULL;
	}
	b = malloc(sizeof(*b) + len);
	if (!b) {
		atomic_fetch_sub(&p->memory, len);
		return NULL;
	}
	b->p = p;
	atomic_init(&b->refs, 1);
	b->len = len;
	return b;
}

struct bytes *bytes_ref(struct bytes *b)
{
	atomic_fetch_add(&b->refs, 1);
	return b;
}

void bytes_unref(struct bytes *b)
{
	if (!b || atomic_fetch_sub(&b->refs, 1) != 1)
		return;
	atomic_fetch_sub(&b->p->memory, b->len);
	free(b);
}

/* ---------------------------------------------------------------- open --- */

/* Members of struct p2p_config that are strings. */
static const size_t texts[] = {
	offsetof(struct p2p_config, listen),
	offsetof(struct p2p_config, advertise),
	offsetof(struct p2p_config, node),
	offsetof(struct p2p_config, rack),
	offsetof(struct p2p_config, zone),
	offsetof(struct p2p_config, region),
	offsetof(struct p2p_config, dir),
	offsetof(struct p2p_config, rdma_device),
	offsetof(struct p2p_config, token_file),
	offsetof(struct p2p_config, tracker_ca_file),
	offsetof(struct p2p_config, ca_file),
	offsetof(struct p2p_config, cert_file),
	offsetof(struct p2p_config, key_file),
	offsetof(struct p2p_config, capability_keys),
};

static char **get_config_text_at(struct p2p_config *c, size_t k)
{
	return (char **)(void *)((char *)c + texts[k]);
}

static int copy_config(struct p2p_config *c, const struct p2p_config *from,
		       struct error *err)
{
	bool failed = false;

	*c = *from;
	for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
		char **text = get_config_text_at(c, k);

		if (!*text)
			continue;
		*text = strdup(*text);
		failed = failed || !*text;
	}
	return failed ? error_nomem(err) : 0;
}

static void free_config(struct p2p_config *c)
{
	for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
		free(*get_config_text_at(c, k));
}

static int check_p2p_config(const struct p2p_config *c, struct error *err)
{
	if (!c->node || !*c->node)
		return error_set(err, EINVAL, "p2p: the node has no name");
	if (c->neighbours < 1 || c->neighbours > SWARM_PEERS_MAX)
		return error_set(err, EINVAL,
				 "p2p: %u neighbours, want 1 to %u",
				 c->neighbours, SWARM_PEERS_MAX);
	if (c->memory < 4 * (uint64_t)BLOCK_USIZE_MAX)
		return error_set(err, EINVAL,
				 "p2p: needs at least %u MiB of memory",
				 4 * BLOCK_USIZE_MAX >> 20);
	return 0;
}

static int set_text(char *to, size_t room, const char *what, const char *text,
		    struct error *err)
{
	if (text && strlen(text) >= room)
		return error_set(err, EINVAL, "p2p: %s '%s' is too long", what,
				 text);
	(void)snprintf(to, room, "%s", text ? text : "");
	return 0;
}

static int set_self(struct p2p *p, struct error *err)
{
	struct net_node *s = &p->self;
	int rc = set_text(s->name, sizeof(s->name), "node", p->cfg.node, err);

	if (rc == 0)
		rc = set_text(s->addr, sizeof(s->addr), "address",
			      p->cfg.advertise, err);
	if (rc == 0)
		rc = set_text(s->rack, sizeof(s->rack), "rack", p->cfg.rack,
			      err);
	if (rc == 0)
		rc = set_text(s->zone, sizeof(s->zone), "zone", p->cfg.zone,
			      err);
	if (rc == 0)
		rc = set_text(s->region, sizeof(s->region), "region",
			      p->cfg.region, err);
	return rc;
}

static int start_pools(struct p2p *p, struct error *err)
{
	struct {
		struct pool **pool;
		size_t threads;
	} all[] = {
		{ &p->hash, HASH_THREADS },
		{ &p->disk, DISK_THREADS },
		{ &p->calls, CALL_THREADS },
	};
	int rc = host_jobs_start(p, err);

	for (size_t i = 0; i < ARRAY_SIZE(all) && rc == 0; i++)
		rc = pool_new(p->loop, all[i].threads, 0, all[i].pool, err);
	return rc;
}

static int start_net(struct p2p *p, struct error *err)
{
	const struct rdma_config rdma = { .device = p->cfg.rdma_device,
					  .slab = p->cfg.rdma_memory };
	struct net_config cfg = {
		.loop = p->loop,
		.listen = p->cfg.listen,
		.self = p->self,
		.security = !p->cfg.ca_file      ? NET_OPEN
			    : p->cfg.signed_bulk ? NET_SIGNED_BULK
						 : NET_MUTUAL_TLS,
		.ca_file = p->cfg.ca_file,
		.cert_file = p->cfg.cert_file,
		.key_file = p->cfg.key_file,
		.upload_rate = p->cfg.upload_rate,
		.download_rate = p->cfg.download_rate,
		.rdma = p->cfg.rdma ? &rdma : NULL,
		.events = &link_events,
		.arg = p,
	};
	int rc = net_new(&cfg, &p->net, err);

	if (rc == 0)
		p->self = *net_self(p->net); /* now with this node's address */
	return rc;
}

static void on_members(struct loop_timer *t)
{
	struct p2p *p = container_of(t, struct p2p, members_timer);

	members_save(p);
	serve_check(p, clock_now_ns());
	retries_check(p, clock_now_ns());
	rights_check(p, time(NULL));
	fault_check_cert(p, time(NULL), false);
	engine_arm(p, t, MEMBERS_NS);
}

static void on_tracker(void *arg, const char *url, enum tracker_state state,
		       const char *why)
{
	static const enum p2p_note notes[] = {
		[TRACKER_GOOD] = P2P_TRACKER_BACK,
		[TRACKER_LOST] = P2P_TRACKER_LOST,
		[TRACKER_REFUSES] = P2P_TRACKER_REFUSES,
	};
	const struct p2p *p = arg;

	if (p->cfg.note)
		p->cfg.note(p->cfg.note_arg, notes[state], url, why);
}

static int start_trackers(struct p2p *p, struct error *err)
{
	struct tracker_client_config cfg = {
		.urls = p->cfg.trackers,
		.token_file = p->cfg.token_file,
		.ca_file = p->cfg.tracker_ca_file,
		.cert_file = p->cfg.cert_file,
		.key_file = p->cfg.key_file,
		.plain_http = p->cfg.tracker_plain_http,
		.changed = on_tracker,
		.arg = p,
	};

	if (!p->cfg.trackers || !p->cfg.trackers[0])
		return 0;
	p->tracker_is_there = true; /* until a call to a tracker fails */
	return tracker_client_new(&cfg, &p->trackers, err);
}

static int start_parts(struct p2p *p, struct error *err)
{
	int rc = fs_mkdir_p(p->cfg.dir, 0700, err);

	if (rc == 0 && asprintf(&p->members_path, "%s/members", p->cfg.dir) < 0)
		rc = error_nomem(err);
	if (rc == 0 && p->cfg.relay_bytes)
		rc = relay_open(p->cfg.dir, p->cfg.relay_bytes, &p->relay, err);
	if (rc == 0)
		rc = slots_new(&serve_slots, &p->slots, err);
	if (rc == 0 && p->cfg.capability_keys)
		rc = capability_keys_load(p->cfg.capability_keys, &p->keys,
					  err);
	if (rc == 0)
		rc = start_trackers(p, err);
	if (rc == 0)
		rc = loop_new(&p->loop, err);
	if (rc == 0)
		rc = start_pools(p, err);
	if (rc == 0)
		rc = start_net(p, err);
	p->members_timer.fn = on_members;
	if (rc == 0)
		rc = loop_timer_start(p->loop, &p->members_timer, MEMBERS_NS,
				      err);
	if (rc == 0)
		rc = rights_start(p, err);
	if (rc == 0)
		rc = probe_start(p, err);
	if (rc < 0)
		return rc;
	members_load(p);
	fault_check_cert(p, time(NULL), true);
	return 0;
}

static void *loop_main(void *arg)
{
	struct p2p *p = arg;

	/* The loop can only fail before it has run. Readers then time out, but engine_run()
	 * would wait for ever. */
	(void)!loop_run(p->loop, NULL);
	return NULL;
}

static struct p2p *p2p_new(void)
{
	struct p2p *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	LIST_INIT(&p->images);
	LIST_INIT(&p->links);
	TAILQ_INIT(&p->members);
	(void)pthread_mutex_init(&p->lock, NULL);
	cond_init(&p->changed);
	if (getrandom(&p->random, sizeof(p->random), 0) < 0 || !p->random)
		p->random = (uint64_t)clock_now_ns() | 1;
	p->name_seed = (unsigned int)engine_random(p);
	p->run = engine_random(p) | 1;
	return p;
}

int p2p_open(const struct p2p_config *cfg, struct p2p **ret, struct error *err)
{
	struct p2p *p = p2p_new();
	int rc;

	if (!p)
		return error_nomem(err);
	rc = copy_config(&p->cfg, cfg, err);
	if (rc == 0)
		rc = check_p2p_config(&p->cfg, err);
	if (rc == 0)
		rc = set_self(p, err);
	if (rc == 0)
		rc = start_parts(p, err);
	if (rc == 0)
		rc = thread_start(&p->thread, loop_main, p, err);
	if (rc < 0) {
		p2p_close(p);
		return rc;
	}
	*ret = p;
	return 0;
}

/* --------------------------------------------------------------- close --- */

static void stop_links(void *arg)
{
	struct p2p *p = arg;

	loop_timer_stop(&p->members_timer);
	rights_stop(p);
	probe_stop(p);
	members_save(p);
	net_free(p->net);
	p->net = NULL;
}

void p2p_close(struct p2p *p)
{
	if (!p)
		return;
	if (p->thread.is_started) {
		engine_run(p, stop_links, p);
	} else if (p->loop) {
		loop_timer_stop(&p->members_timer);
		rights_stop(p);
		probe_stop(p);
		if (p->net)
			net_free(p->net);
		p->net = NULL; /* jobs that end after this check it */
	}
	pool_free(p->hash);
	host_jobs_free(p);
	pool_free(p->disk);
	pool_free(p->calls);
	if (p->thread.is_started) {
		loop_stop(p->loop);
		thread_join(&p->thread);
	}
	loop_free(p->loop);
	members_free(p);
	rights_free(p);
	probe_free(p);
	tracker_client_free(p->trackers);
	capability_keys_free(p->keys);
	slots_free(p->slots);
	relay_free(p->relay);
	free(p->members_path);
	(void)pthread_cond_destroy(&p->changed);
	(void)pthread_mutex_destroy(&p->lock);
	free_config(&p->cfg);
	free(p);
}

unsigned int p2p_port(const struct p2p *p)
{
	return net_port(p->net);
}

const char *p2p_rdma_text(const struct p2p *p)
{
	return net_rdma_text(p->net);
}

struct reloading {
	struct p2p *p;
	int rc;
	struct error err;
};

static void engine_reload(void *arg)
{
	struct reloading *r = arg;
	struct p2p *p = r->p;
	struct capability_keys *keys = NULL;
	int rc = 0;

	/* If a file cannot be read, the node keeps the old contents. */
	if (p->cfg.ca_file)
		r->rc = net_reload(p->net, &r->err);
	fault_check_cert(p, time(NULL), true);
	if (p->cfg.capability_keys)
		rc = capability_keys_load(p->cfg.capability_keys, &keys,
					  r->rc < 0 ? NULL : &r->err);
	if (keys) {
		capability_keys_free(p->keys);
		p->keys = keys;
	}
	if (r->rc == 0)
		r->rc = rc;
	rights_reload(p);
	probe_reload(p);
}

int p2p_reload(struct p2p *p, struct error *err)
{
	struct reloading r = { .p = p };

	engine_run(p, engine_reload, &r);
	if (r.rc < 0 && err)
		*err = r.err;
	return r.rc;
}
