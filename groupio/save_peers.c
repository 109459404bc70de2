// SPDX-License-Identifier: Apache-2.0
/*
 * Requests between nodes about a save: docs/formats/group-save.md. A request for something that
 * does not exist yet is answered when it does, or after half of --group-wait with "not yet": so
 * a node that is silent for --group-wait is taken for dead. When a node's machine refuses
 * connections, its process has ended.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "groupio/blocks_priv.h"
#include "groupio/group_priv.h"
#include "groupio/save_peers.h"

#define CONNECTIONS_MAX 1024
#define ANSWER_MEMORY (256u << 20)
/* room for 512 tables that wait for their saves */
#define BODY_MEMORY (32u << 20)
/* libcurl keeps unused connections as long: requests of the next step then need no
 * handshake. */
#define IDLE_NS (120 * NS_PER_S)
#define TICK_NS (100 * NS_PER_MS)
#define RETRY_NS (50 * NS_PER_MS)
#define HOST_WAIT_NS (30 * NS_PER_S)
#define TAKERS 2u
/* When connections to the node are refused for so long, its process has ended: a new process
 * would use another port. Shorter refusals may come from a firewall that is being reloaded. */
#define REFUSED_NS (2 * NS_PER_S)

/* ---------------------------------------------------------------------- answers --- */

/* An answer is chosen with the lock and sent without it: sending to a client that has
 * disconnected releases the reply at once, which takes the lock. */
enum peer_answer { PEER_ANSWERED, PEER_WAITS };

static enum peer_answer set_text(struct httpd_reply *reply, int status,
				 const char *text)
{
	reply->status = status;
	if (text && *text && buf_puts(&reply->body, text) == 0)
		reply->type = "text/plain; charset=utf-8";
	return PEER_ANSWERED;
}

static void answer_text(struct httpd_request *r, int status, const char *text)
{
	struct httpd_reply reply = HTTPD_REPLY_INIT;

	(void)set_text(&reply, status, text);
	httpd_answer(r, &reply);
}

static void release_save(void *arg)
{
	save_put(arg);
}

/* Answer with bytes of the save, which is referenced until they are sent. */
static enum peer_answer set_bytes(struct httpd_reply *reply, struct save *v,
				  const void *data, size_t len)
{
	if (!len)
		return PEER_ANSWERED;
	v->refs++;
	reply->type = "application/octet-stream";
	reply->shared = data;
	reply->shared_len = len;
	reply->release = release_save;
	reply->release_arg = v;
	return PEER_ANSWERED;
}

/* Answer with chunks. Chunks of one tensor of this node's ranks are sent without a copy. */
static enum peer_answer set_chunks(struct httpd_reply *reply, struct save *v,
				   uint32_t first, uint32_t n)
{
	const struct save_chunk from = save_plan_chunk(v->plan, first);
	const struct save_chunk to = save_plan_chunk(v->plan, first + n - 1);
	uint64_t bytes = 0;
	bool is_here = true;

	for (uint32_t i = 0; i < n; i++) {
		const struct save_chunk at =
			save_plan_chunk(v->plan, first + i);

		bytes += save_chunk_len(at.entry->tensor->len, at.index);
	}
	if (bytes > SAVE_PULL_BYTES)
		return set_text(reply, HTTPD_BAD_REQUEST, "too many bytes");
	if (from.entry == to.entry && from.entry->data)
		return set_bytes(reply, v,
				 from.entry->data +
					 (size_t)from.index * SAVE_CHUNK,
				 (size_t)bytes);
	for (uint32_t i = 0; i < n && is_here; i++) {
		const struct save_chunk at =
			save_plan_chunk(v->plan, first + i);
		const char *data = chunk_here(v, at.entry, at.index);

		is_here =
			data && buf_append(&reply->body, data,
					   save_chunk_len(at.entry->tensor->len,
							  at.index)) == 0;
	}
	if (!is_here) {
		buf_fini(&reply->body);
		return set_text(reply, HTTPD_BAD_REQUEST, "not here");
	}
	reply->type = "application/octet-stream";
	return PEER_ANSWERED;
}

/* Answer a request "C/N": N chunks of the plan, from chunk C on. */
static enum peer_answer handle_chunks_request(struct httpd_reply *reply,
					      struct save *v, const char *what)
{
	const struct save_plan *p = v->plan;
	unsigned int c, n;
	int end = 0;

	if (v->state < SAVE_PLANNED)
		return PEER_WAITS;
	if (sscanf(what, "%9u/%3u%n", &c, &n, &end) != 2 || what[end] ||
	    v->is_dropped || !n || n > SAVE_PULL_CHUNKS || c >= p->n_chunks ||
	    n > p->n_chunks - c)
		return set_text(reply, HTTPD_BAD_REQUEST, "no such chunks");
	return set_chunks(reply, v, c, n);
}

/* ------------------------------------------------------------- units of a dead node --- */

struct takeover {
	struct work work;
	struct save *save;
	size_t of;
};

/* Write the units of a dead node. Ends the work itself, as the pool has no loop. */
static void takeover_run(struct work *w)
{
	struct takeover *t = container_of(w, struct takeover, work);
	struct save *v = t->save;
	struct error err = ERROR_INIT;

	log_warning("save",
		    "writes for a node that is gone id=\"%s\" node=\"%s\"",
		    v->terms.id, v->terms.members[t->of]);
	if (part_write(v, t->of, &err) < 0)
		log_error("save", "not written id=\"%s\" reason=\"%s\"",
			  v->terms.id, err.msg);
	save_put(v);
	free(t);
}

static bool begin_takeover(struct save *v, size_t of)
{
	struct takeover *t;

	if (v->asked_parts >> of & 1)
		return true;
	t = calloc(1, sizeof(*t));
	if (!t)
		return false;
	*t = (struct takeover){ .work = { .run = takeover_run },
				.save = v,
				.of = of };
	v->refs++;
	v->asked_parts |= UINT64_C(1) << of;
	if (pool_submit(v->all->pool, &t->work) == 0)
		return true;
	save_unref(v);
	free(t);
	return false;
}

/* Answer a request "N": the part with the units of node N. */
static enum peer_answer handle_part_request(struct httpd_reply *reply,
					    struct save *v, const char *what)
{
	enum save_part_state state;
	unsigned int of;
	int end = 0;

	if (sscanf(what, "%2u%n", &of, &end) != 1 || what[end] ||
	    of >= v->terms.n_nodes)
		return set_text(reply, HTTPD_BAD_REQUEST, "no such part");
	if (v->state < SAVE_STAGED)
		return PEER_WAITS;
	state = v->parts[of].state;
	if (state == PART_READY)
		return set_bytes(reply, v, v->parts[of].text.data,
				 v->parts[of].text.len);
	/* A failed part of this node itself is tried again until the save is over. */
	if (!v->is_over && (of == v->terms.self ||
			    (state != PART_FAILED && begin_takeover(v, of))))
		return PEER_WAITS;
	return set_text(reply, HTTPD_INTERNAL, "the part cannot be written");
}

/* --------------------------------------------------------------------- requests --- */

/* Does the path begin with the id of this node's plan? Then move *what behind it. */
static bool is_of_plan(const struct save *v, const char **what)
{
	const size_t n = strcspn(*what, "/");

	if (n != SAVE_PLAN_LEN || memcmp(*what, v->plan_id, n) != 0)
		return false;
	*what += n + 1;
	return true;
}

static enum peer_answer refuse_plan(struct httpd_reply *reply)
{
	return set_text(reply, HTTPD_INTERNAL,
			"its ranks said another path, members or nodes, or it "
			"has other tensors of a third node, or another version "
			"of the mount");
}

/* Answer a request for "table", or for the plan's id followed by something of that plan. */
static enum peer_answer handle_save_request(struct httpd_reply *reply,
					    struct save *v, const char *what)
{
	const bool is_table = strcmp(what, "table") == 0;

	if (!is_table && !strchr(what, '/'))
		return set_text(reply, HTTPD_BAD_REQUEST, "no such thing");
	if (v->state == SAVE_FAILED && !v->were_all_staged)
		return set_text(reply, HTTPD_INTERNAL, v->err.msg);
	if (is_table)
		return v->state < SAVE_TABLED
			       ? PEER_WAITS
			       : set_bytes(reply, v, v->text.data, v->text.len);
	if (v->state < SAVE_PLANNED)
		return PEER_WAITS;
	if (!is_of_plan(v, &what))
		return refuse_plan(reply);
	/* A late node must be told that all units were staged, even if the save failed
	 * since: else it would take the failure for one before `buffered`. */
	if (v->were_all_staged && strcmp(what, "staged") == 0)
		return PEER_ANSWERED;
	if (v->state == SAVE_FAILED)
		return set_text(reply, HTTPD_INTERNAL, v->err.msg);
	if (strcmp(what, "staged") == 0)
		return v->state < SAVE_STAGED ? PEER_WAITS : PEER_ANSWERED;
	if (strncmp(what, "chunks/", 7) == 0)
		return handle_chunks_request(reply, v, what + 7);
	if (strncmp(what, "part/", 5) == 0)
		return handle_part_request(reply, v, what + 5);
	return set_text(reply, HTTPD_BAD_REQUEST, "no such thing");
}

static bool have_all_nodes_told(const struct save *v, uint64_t told)
{
	for (size_t i = 0; i < v->terms.n_nodes; i++)
		if (i != v->terms.self && !(told >> i & 1) &&
		    !atomic_load(&v->gone[i]))
			return false;
	return true;
}

/* Keep a message of node `n`; a repeated one is the same and is ignored. */
static bool keep_node_message(struct save *v, size_t n, uint64_t *told,
			      struct buf *to, size_t *last,
			      const struct httpd_request *r)
{
	const size_t len = (size_t)r->head.content_length;

	if (*told >> n & 1)
		return true;
	if (to && len && buf_append(to, r->body, len) < 0)
		return false;
	*told |= UINT64_C(1) << n;
	if (last)
		*last = n;
	atomic_store(&v->was_seen[n], true);
	/* The leading thread is woken only for a text to fetch and for the last message. */
	if ((to && !len) || have_all_nodes_told(v, *told))
		(void)pthread_cond_broadcast(&v->all->changed);
	return true;
}

/* Answer with the list of nodes that the save goes on without. */
static enum peer_answer set_gone_nodes_answer(struct httpd_reply *reply,
					      struct save *v)
{
	int rc = 0;

	for (size_t i = 0; i < v->terms.n_nodes && rc == 0; i++)
		if (atomic_load(&v->gone[i]))
			rc = buf_printf(&reply->body, "%zu ", i);
	if (rc < 0)
		return PEER_WAITS;
	if (reply->body.len)
		reply->type = "text/plain; charset=utf-8";
	return PEER_ANSWERED;
}

static void note_failure(struct save *v, size_t n,
			 const struct httpd_request *r)
{
	if (v->told.failures >> n & 1)
		return;
	(void)error_set(&v->told.why, EREMOTEIO, "%.*s",
			(int)r->head.content_length, r->body ? r->body : "");
	for (char *c = v->told.why.msg; *c; c++)
		if (!isprint((unsigned char)*c) || *c == '"')
			*c = '.';
	v->told.failures |= UINT64_C(1) << n;
	(void)pthread_cond_broadcast(&v->all->changed);
}

/* Node `n` has written its units; it gets an answer when the file is in the store. */
static enum peer_answer handle_part_written(struct httpd_reply *reply,
					    struct save *v, size_t n,
					    const struct httpd_request *r)
{
	if (v->state == SAVE_DURABLE)
		return PEER_ANSWERED;
	if (v->state == SAVE_FAILED)
		return set_text(reply, HTTPD_INTERNAL, v->err.msg);
	(void)!keep_node_message(v, n, &v->told.parts, &v->told.part[n], NULL,
				 r);
	return PEER_WAITS;
}

/* Handle a message of node N: "failure/N", "table/N", or the plan's id and "staged/N" or
 * "part/N": it has failed, has its table, has all its units in memory, has written them. */
static enum peer_answer handle_step_message(struct httpd_reply *reply,
					    struct save *v, const char *what,
					    const struct httpd_request *r)
{
	const char *node = strrchr(what, '/');
	unsigned int n;
	int end = 0;

	if (!node || sscanf(node, "/%2u%n", &n, &end) != 1 || node[end] ||
	    n >= v->terms.n_nodes || n == v->terms.self)
		return set_text(reply, HTTPD_BAD_REQUEST, "no such thing");
	if (strncmp(what, "failure/", 8) == 0) {
		note_failure(v, n, r);
		return PEER_ANSWERED;
	}
	if (v->state == SAVE_FAILED && !v->were_all_staged)
		return set_text(reply, HTTPD_INTERNAL, v->err.msg);
	if (strncmp(what, "table/", 6) == 0) {
		(void)!keep_node_message(v, n, &v->told.tables,
					 &v->told.table[n], &v->last_table, r);
		return v->bundle.len ? set_bytes(reply, v, v->bundle.data,
						 v->bundle.len)
				     : PEER_WAITS;
	}
	if (v->state < SAVE_PLANNED)
		return PEER_WAITS;
	if (!is_of_plan(v, &what))
		return refuse_plan(reply);
	if (strncmp(what, "part/", 5) == 0)
		return handle_part_written(reply, v, n, r);
	if (strncmp(what, "staged/", 7) != 0)
		return set_text(reply, HTTPD_BAD_REQUEST, "no such thing");
	(void)!keep_node_message(v, n, &v->told.staged, NULL, &v->last_staged,
				 r);
	return v->were_all_staged ? set_gone_nodes_answer(reply, v)
				  : PEER_WAITS;
}

#define PATH_BEGIN "/v1/saves/"

static enum peer_answer choose_answer(struct saves *s,
				      const struct httpd_request *r,
				      bool is_late, struct httpd_reply *reply)
{
	const char *path = r->head.path;
	enum peer_answer a = PEER_WAITS;
	char id[SAVE_ID_MAX], job[SAVE_JOB_LEN + 1];
	uint32_t number;
	struct save *v;
	size_t n;

	if (strncmp(path, PATH_BEGIN, strlen(PATH_BEGIN)) != 0)
		return set_text(reply, HTTPD_BAD_REQUEST, "no save");
	path += strlen(PATH_BEGIN);
	n = strcspn(path, "/");
	(void)snprintf(id, sizeof(id), "%.*s", (int)(n < sizeof(id) ? n : 0),
		       path);
	if (!path[n] || !save_id_parse(id, job, &number))
		return set_text(reply, HTTPD_BAD_REQUEST, "no save");
	path += n + 1;
	(void)pthread_mutex_lock(&s->lock);
	v = saves_find(s, id);
	if (v)
		a = r->head.method == HTTPD_POST
			    ? handle_step_message(reply, v, path, r)
			    : handle_save_request(reply, v, path);
	else if (saves_have_later(s, job, number))
		a = set_text(reply, HTTPD_NOT_FOUND,
			     "its ranks have left the save out");
	(void)pthread_mutex_unlock(&s->lock);
	if (a == PEER_WAITS && is_late)
		a = set_text(reply, v ? HTTPD_ACCEPTED : HTTPD_NOT_FOUND, NULL);
	return a;
}

static enum peer_answer answer_request(struct saves *s, struct httpd_request *r,
				       bool is_late)
{
	struct httpd_reply reply = HTTPD_REPLY_INIT;
	const enum peer_answer a = choose_answer(s, r, is_late, &reply);

	if (a == PEER_ANSWERED)
		httpd_answer(r, &reply);
	return a;
}

static void park_timer_start(struct saves *s)
{
	if (!TAILQ_EMPTY(&s->parked))
		(void)!loop_timer_start(s->loop, &s->tick, TICK_NS, NULL);
}

static void answer_parked(struct saves *s, int64_t now_ns)
{
	struct save_parked *p, *next;

	for (p = TAILQ_FIRST(&s->parked); p; p = next) {
		next = TAILQ_NEXT(p, of_all);
		if (answer_request(s, p->request, p->until_ns <= now_ns) ==
		    PEER_WAITS)
			continue;
		TAILQ_REMOVE(&s->parked, p, of_all);
		free(p);
	}
}

static void peers_tick(struct loop_timer *t)
{
	struct saves *s = container_of(t, struct saves, tick);

	answer_parked(s, clock_now_ns());
	park_timer_start(s);
}

static void peers_kicked(struct loop_call *c)
{
	struct saves *s = container_of(c, struct saves, kick);

	atomic_store(&s->is_kicked, false);
	answer_parked(s, clock_now_ns());
}

void peers_kick(struct saves *s)
{
	if (atomic_load(&s->is_serving) &&
	    !atomic_exchange(&s->is_kicked, true))
		loop_post(s->loop, &s->kick);
}

static uint64_t peers_head(void *arg, struct httpd_request *r)
{
	(void)arg;
	if (!r->peer_node[0])
		answer_text(r, HTTPD_FORBIDDEN, "no member of the group");
	else if (r->head.method == HTTPD_POST && !blocks_is_path(r->head.path))
		return SAVE_TOLD_MAX;
	else if (r->head.method != HTTPD_GET)
		answer_text(r, HTTPD_METHOD_NOT_ALLOWED, "GET alone");
	return 0;
}

static void peers_request(void *arg, struct httpd_request *r)
{
	struct saves *s = arg;
	struct save_parked *p;

	if (s->cfg.blocks && blocks_is_path(r->head.path)) {
		blocks_answer(s->cfg.blocks, r);
		return;
	}
	if (answer_request(s, r, strcmp(r->head.query, "now") == 0) ==
	    PEER_ANSWERED)
		return;
	p = calloc(1, sizeof(*p));
	if (!p) {
		answer_text(r, HTTPD_ACCEPTED, NULL);
		return;
	}
	p->request = r;
	p->until_ns = clock_now_ns() + s->cfg.wait_ns / 2;
	TAILQ_INSERT_TAIL(&s->parked, p, of_all);
	park_timer_start(s);
}

static void peers_drop(void *arg, struct httpd_request *r)
{
	/* Nothing to free: a request has no data of its own. */
	(void)arg;
	(void)r;
}

static int peers_error(void *arg, int status, const char *message,
		       struct buf *ret)
{
	(void)arg;
	(void)status;
	return buf_printf(ret, "%s\n", message);
}

static const struct httpd_handler peers_handler = {
	.head = peers_head,
	.request = peers_request,
	.drop = peers_drop,
	.error_type = "text/plain; charset=utf-8",
	.error = peers_error,
};

/* ---------------------------------------------------------------- begin and end --- */

static void *peers_main(void *arg)
{
	struct saves *s = arg;
	struct error err = ERROR_INIT;

	if (loop_run(s->loop, &err) < 0)
		log_error("save", "other nodes are not answered reason=\"%s\"",
			  err.msg);
	return NULL;
}

static int begin_server(struct saves *s, const char *host, struct error *err)
{
	char listen[80];
	const struct httpd_config cfg = {
		.loop = s->loop,
		.name = "saves",
		.option = "--group",
		.listen = listen,
		.tls = s->tls,
		.connections_max = CONNECTIONS_MAX,
		.body_memory = BODY_MEMORY,
		.answer_memory = ANSWER_MEMORY,
		.dscp = s->cfg.group->cfg.dscp,
		.send_rate = s->cfg.group->cfg.rate,
		.idle_ns = IDLE_NS,
		.request_ns = 30 * NS_PER_S,
		.handler = &peers_handler,
		.arg = s,
	};
	int rc;

	(void)snprintf(listen, sizeof(listen), "%s:0", host);
	rc = httpd_new(&cfg, &s->httpd, err);
	if (rc == 0)
		(void)snprintf(s->addr, sizeof(s->addr), "%.56s:%u", host,
			       httpd_port(s->httpd));
	return rc;
}

static int begin_client(struct saves *s, struct error *err)
{
	const int64_t stall_ms = s->cfg.wait_ns / NS_PER_MS;
	const struct http_config cfg = {
		.ca_file = s->identity.ca,
		.cert_file = s->identity.cert,
		.key_file = s->identity.key,
		.stays = true,
		.is_direct = true,
		.connect_timeout_ms = (uint32_t)stall_ms,
		.stall_timeout_ms =
			(uint32_t)(stall_ms < 1000 ? 1000 : stall_ms),
		.dscp = s->cfg.group->cfg.dscp,
		.max_idle = SAVE_NODES_MAX,
	};

	return http_new(&cfg, &s->http, err);
}

/* Copy a host without the brackets of an IPv6 address. */
static void copy_host_without_brackets(const char *host, char ret[64])
{
	const size_t n = strlen(host);

	if (n > 2 && host[0] == '[')
		(void)snprintf(ret, 64, "%.*s", (int)(n - 2), host + 1);
	else
		(void)snprintf(ret, 64, "%s", host);
}

static int start_peer_server_and_client(struct saves *s, const char *host,
					struct error *err)
{
	struct group *g = s->cfg.group;
	char bare[64];
	int rc;

	copy_host_without_brackets(host, bare);
	s->tick.fn = peers_tick;
	s->kick.fn = peers_kicked;
	rc = identity_make(&g->secret, g->name, bare, &s->identity, err);
	if (rc < 0)
		return rc;
	s->client_cas[0] = s->identity.ca;
	rc = httpd_tls_new(s->identity.cert, s->identity.key, s->client_cas,
			   &s->tls, err);
	if (rc == 0)
		rc = loop_new(&s->loop, err);
	if (rc == 0)
		rc = pool_new(NULL, TAKERS, 0, &s->pool, err);
	if (rc == 0)
		rc = begin_client(s, err);
	if (rc == 0)
		rc = begin_server(s, host, err);
	if (rc == 0)
		rc = thread_start(&s->serving, peers_main, s, err);
	if (rc == 0) {
		if (s->cfg.blocks)
			blocks_begin(s->cfg.blocks, s->loop, s->http, s->addr);
		atomic_store(&s->is_serving, true);
		log_info("save", "listens addr=\"%s\"", s->addr);
		return 0;
	}
	if (s->httpd)
		httpd_abort(s->httpd);
	httpd_free(s->httpd);
	s->httpd = NULL;
	http_free(s->http);
	s->http = NULL;
	pool_free(s->pool);
	s->pool = NULL;
	loop_free(s->loop);
	s->loop = NULL;
	httpd_tls_free(s->tls);
	s->tls = NULL;
	identity_close(&s->identity);
	return rc;
}

int peers_begin(struct saves *s, struct error *err)
{
	char host[64];
	int rc;

	if (atomic_load(&s->is_serving))
		return 0;
	rc = group_wait_host(s->cfg.group, clock_now_ns() + HOST_WAIT_NS, host,
			     err);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&s->peers_lock);
	if (!atomic_load(&s->is_serving))
		rc = start_peer_server_and_client(s, host, err);
	(void)pthread_mutex_unlock(&s->peers_lock);
	return rc;
}

static void peers_stopped(struct loop_call *c)
{
	loop_stop(container_of(c, struct saves, stopped)->loop);
}

static void peers_stop(struct loop_call *c)
{
	struct saves *s = container_of(c, struct saves, stop);
	struct save_parked *p;

	loop_timer_stop(&s->tick);
	httpd_abort(s->httpd);
	while ((p = TAILQ_FIRST(&s->parked))) {
		TAILQ_REMOVE(&s->parked, p, of_all);
		answer_text(p->request, HTTPD_UNAVAILABLE, NULL);
		free(p);
	}
	s->stopped.fn = peers_stopped;
	loop_post(s->loop, &s->stopped);
}

void peers_end(struct saves *s)
{
	if (!atomic_load(&s->is_serving))
		return;
	/* finishes the units of dead nodes that are being written */
	pool_free(s->pool);
	atomic_store(&s->is_serving, false);
	s->stop.fn = peers_stop;
	loop_post(s->loop, &s->stop);
	thread_join(&s->serving);
	httpd_free(s->httpd);
	loop_free(s->loop);
	httpd_tls_free(s->tls);
	http_free(s->http);
	identity_close(&s->identity);
}

/* ----------------------------------------------------------------------- asking --- */

void note_gone(struct save *v, size_t node, const char *why)
{
	if (!atomic_exchange(&v->gone[node], true))
		log_warning("save",
			    "node gone id=\"%s\" node=\"%s\" reason=\"%s\"",
			    v->terms.id, v->terms.members[node], why);
}

/* Make a text from another node safe to print. */
static void clean_text(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)text[i]) || text[i] == '"')
			text[i] = '.';
}

bool save_is_to_stop(const struct save *v)
{
	return v->is_given_up || (v->is_doomed && v->state < SAVE_PLANNED) ||
	       (atomic_load(&v->all->is_ending) && v->state < SAVE_STAGED);
}

static bool is_save_to_stop(struct save *v)
{
	bool is;

	(void)pthread_mutex_lock(&v->all->lock);
	is = save_is_to_stop(v);
	(void)pthread_mutex_unlock(&v->all->lock);
	return is;
}

void peer_pause(struct saves *s)
{
	(void)pthread_mutex_lock(&s->lock);
	(void)cond_wait_until(&s->changed, &s->lock, clock_now_ns() + RETRY_NS);
	(void)pthread_mutex_unlock(&s->lock);
}

/* Use an answer; 1: send the request again. */
static int take_answer(struct save *v, size_t node, struct http_response *r,
		       struct buf *ret, struct error *err)
{
	switch (r->status) {
	case HTTPD_OK:
		atomic_store(&v->was_seen[node], true);
		if (ret) {
			*ret = r->body;
			r->body = (struct buf)BUF_INIT;
		}
		return 0;
	case HTTPD_ACCEPTED:
		atomic_store(&v->was_seen[node], true);
		return 1;
	case HTTPD_NOT_FOUND:
		if (!atomic_load(&v->was_seen[node]) && r->body.len) {
			clean_text(r->body.data, r->body.len);
			return error_set(err, EREMOTEIO, "%.160s",
					 r->body.data);
		}
		if (!atomic_load(&v->was_seen[node]))
			return 1;
		note_gone(v, node, "it knows the save no more");
		return error_set(err, ENOTCONN, "it was started anew");
	case HTTPD_BAD_REQUEST:
		return error_set(err, EINVAL, "it has it not");
	case HTTPD_UNAVAILABLE:
	case HTTPD_TOO_MANY:
	case HTTPD_TIMEOUT:
		return error_set(err, EIO, "it asks for patience");
	default:
		if (r->body.data)
			clean_text(r->body.data, r->body.len);
		return error_set(err, EREMOTEIO, "%.160s",
				 r->body.data
					 ? r->body.data
					 : "it refused, and did not say why");
	}
}

/* Note a refused connection. Returns whether connections were refused for long enough,
 * without an answer in between, that the node counts as dead. */
bool peer_is_refused(struct save *v, size_t node, int64_t now_ns)
{
	int_fast64_t first = 0;

	return !atomic_compare_exchange_strong(&v->first_refused_ns[node],
					       &first, now_ns) &&
	       now_ns - first >= REFUSED_NS;
}

static int ask_once(struct save *v, size_t node, const struct peer_question *q,
		    const char *query, int64_t until_ns, struct buf *ret,
		    struct error *err)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	/* Messages about a failure carry no plan id: different plans may be its reason. */
	const bool is_of_plan =
		v->plan_id[0] && strncmp(q->what, "failure/", 8) != 0;
	char url[256];
	const struct http_request req = {
		.method = q->is_told ? "POST" : "GET",
		.url = url,
		.body = q->len ? q->text : NULL,
		.body_len = q->len,
		.sink = q->sink,
		.deadline_ns = until_ns,
	};
	int rc;

	(void)snprintf(url, sizeof(url), "https://%s" PATH_BEGIN "%s/%s%s%s%s",
		       v->terms.members[node], v->terms.id,
		       is_of_plan ? v->plan_id : "", is_of_plan ? "/" : "",
		       q->what, query);
	if (q->sink)
		*q->n_sunk = 0;
	rc = http_do(v->all->http, &req, &r, err);
	if (rc == 0) {
		atomic_store(&v->first_refused_ns[node], 0);
		rc = take_answer(v, node, &r, ret, err);
	} else if (r.is_refused && peer_is_refused(v, node, clock_now_ns())) {
		note_gone(v, node, err->msg);
		rc = error_set(err, ENOTCONN, "its process has ended");
	} else if (rc == -EINVAL || rc == -EREMOTEIO || rc == -ENOTCONN) {
		rc = -EIO;
	}
	http_response_fini(&r);
	return rc;
}

static bool is_final_answer_code(int rc)
{
	return rc == 0 || rc == -EINVAL || rc == -EREMOTEIO ||
	       rc == -ENOTCONN || rc == -ENOMEM || rc == -EFBIG;
}

int peer_ask(struct save *v, size_t node, const struct peer_question *q,
	     struct buf *ret, struct error *err)
{
	const int64_t wait_ns = v->all->cfg.wait_ns;
	int64_t heard_ns = clock_now_ns();

	for (;;) {
		const int64_t asked_ns = clock_now_ns();
		const int rc = ask_once(v, node, q, "", v->until_ns, ret, err);
		const int64_t now_ns = clock_now_ns();

		if (is_final_answer_code(rc))
			return rc;
		if (is_save_to_stop(v))
			return error_set(err, ECANCELED,
					 "the save was given up");
		if (now_ns >= v->until_ns)
			return error_set(err, ETIMEDOUT,
					 "it has not answered '%s' in time",
					 q->what);
		if (rc == 1) {
			heard_ns = now_ns;
			/* Pause if the node answered at once, or requests to it would keep
			 * this node busy. */
			if (now_ns - asked_ns < wait_ns / 4)
				peer_pause(v->all);
			continue;
		}
		if (now_ns - heard_ns >= wait_ns) {
			note_gone(v, node, err->msg);
			return error_set(err, ENOTCONN, "it is gone");
		}
		peer_pause(v->all);
	}
}

int peer_get(struct save *v, size_t node, const char *what, struct buf *ret,
	     struct error *err)
{
	const struct peer_question q = { .what = what };

	return peer_ask(v, node, &q, ret, err);
}

int peer_look(struct save *v, size_t node, const char *what, int64_t *heard_ns,
	      struct buf *ret, struct error *err)
{
	const struct peer_question q = { .what = what };
	const int rc = ask_once(v, node, &q, "?now", v->until_ns, ret, err);
	const int64_t now_ns = clock_now_ns();

	if (rc >= 0)
		*heard_ns = now_ns;
	if (rc == 1 || is_final_answer_code(rc))
		return rc;
	if (now_ns - *heard_ns < v->all->cfg.wait_ns)
		return -EAGAIN;
	note_gone(v, node, err->msg);
	return error_set(err, ENOTCONN, "it is gone");
}

void peer_tell_failure(struct save *v, size_t node)
{
	struct error ignored = ERROR_INIT;
	char what[16];
	const struct peer_question q = { .what = what,
					 .is_told = true,
					 .text = v->err.msg,
					 .len = strlen(v->err.msg) };

	(void)snprintf(what, sizeof(what), "failure/%zu", v->terms.self);
	(void)!ask_once(v, node, &q, "?now",
			clock_now_ns() + v->all->cfg.wait_ns, NULL, &ignored);
}
