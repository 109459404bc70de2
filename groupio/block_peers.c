// SPDX-License-Identifier: Apache-2.0
/*
 * Requests for blocks between nodes: docs/formats/blocks.md. They use the HTTP server of the
 * saves. A request for a block that is being fetched is answered when the block is here, or
 * after half of --group-wait with "not yet": so a node that is silent for --group-wait is taken
 * for dead.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "groupio/blocks_priv.h"

#define PATH_BEGIN "/v1/blocks/"
#define SEAL_HEADER "Bootseer-Block"
#define TICK_NS (100 * NS_PER_MS)
/* Limit of bytes in answers being sent; the server drops connections when their answers take
 * too much memory. */
#define SENDING_MAX (128u << 20)
#define ASK_NS (60 * NS_PER_S)

/* ------------------------------------------------------------------------ answers --- */

static void answer_status(struct httpd_request *r, int status)
{
	struct httpd_reply reply = HTTPD_REPLY_INIT;

	reply.status = status;
	httpd_answer(r, &reply);
}

static void on_block_sent(void *arg)
{
	struct kept_block *k = arg;
	struct blocks *b = k->all;

	(void)pthread_mutex_lock(&b->lock);
	b->sending -= k->len;
	(void)pthread_mutex_unlock(&b->lock);
	block_unmap(k);
	block_unref(k);
	blocks_kick(b);
}

/* Send the block; takes over the block's reference. */
static void send_block(struct httpd_request *r, struct kept_block *k)
{
	struct httpd_reply reply = HTTPD_REPLY_INIT;
	char text[BLOCK_SEAL_TEXT_MAX];
	const void *data;
	struct error err;

	block_seal_format(&k->seal, text);
	if (buf_printf(&reply.headers, SEAL_HEADER ": %s\r\n", text) < 0 ||
	    block_map(k, &data, &err) < 0) {
		httpd_reply_fini(&reply);
		answer_status(r, HTTPD_UNAVAILABLE);
		block_unref(k);
		return;
	}
	(void)pthread_mutex_lock(&k->all->lock);
	k->all->sending += k->len;
	k->all->stats.sent_bytes += k->len;
	(void)pthread_mutex_unlock(&k->all->lock);
	reply.type = "application/octet-stream";
	reply.shared = data;
	reply.shared_len = k->len;
	reply.release = on_block_sent;
	reply.release_arg = k;
	httpd_answer(r, &reply);
}

enum block_answer { BLOCK_WAITS, BLOCK_IS_HERE, BLOCK_IS_NOT, BLOCK_FAILED };

static enum block_answer get_block_answer(struct kept_block *k)
{
	struct blocks *b = k->all;
	enum block_answer a = BLOCK_WAITS;

	(void)pthread_mutex_lock(&b->lock);
	if (k->state == BLOCK_NONE)
		a = k->err.code == ENOENT ? BLOCK_IS_NOT : BLOCK_FAILED;
	else if (k->state == BLOCK_HERE && k->is_sealed &&
		 (!b->sending || b->sending + k->len <= SENDING_MAX))
		a = BLOCK_IS_HERE;
	(void)pthread_mutex_unlock(&b->lock);
	return a;
}

/* Answer with the block if its state is known, and take over its reference. `is_late`: also
 * say "not yet" while it is being fetched. Returns false if nothing was answered. */
static bool answer_block(struct httpd_request *r, struct kept_block *k,
			 bool is_late)
{
	const enum block_answer a = get_block_answer(k);

	if (a == BLOCK_WAITS && !is_late)
		return false;
	if (a == BLOCK_IS_HERE) {
		send_block(r, k);
		return true;
	}
	answer_status(r, a == BLOCK_WAITS    ? HTTPD_ACCEPTED
			 : a == BLOCK_IS_NOT ? HTTPD_NOT_FOUND
					     : HTTPD_UNAVAILABLE);
	block_unref(k);
	return true;
}

static void answer_waiters(struct blocks *b, int64_t now_ns)
{
	struct block_waiter *w, *next;

	for (w = TAILQ_FIRST(&b->waiters); w; w = next) {
		next = TAILQ_NEXT(w, of_all);
		if (!answer_block(w->request, w->block,
				  w->until_ns <= now_ns ||
					  atomic_load(&b->is_ending)))
			continue;
		TAILQ_REMOVE(&b->waiters, w, of_all);
		free(w);
	}
	if (!TAILQ_EMPTY(&b->waiters))
		(void)!loop_timer_start(b->loop, &b->tick, TICK_NS, NULL);
}

static void blocks_tick(struct loop_timer *t)
{
	answer_waiters(container_of(t, struct blocks, tick), clock_now_ns());
}

void blocks_close(struct loop_call *c)
{
	struct blocks *b = container_of(c, struct blocks, close);

	answer_waiters(b, INT64_MAX);
	loop_timer_stop(&b->tick);
	(void)pthread_mutex_lock(&b->lock);
	b->is_closed = true;
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
}

static void blocks_kicked(struct loop_call *c)
{
	struct blocks *b = container_of(c, struct blocks, kick);

	atomic_store(&b->is_kicked, false);
	answer_waiters(b, clock_now_ns());
}

void blocks_kick(struct blocks *b)
{
	if (b->loop && !atomic_exchange(&b->is_kicked, true))
		loop_post(b->loop, &b->kick);
}

/* Put the request on the list of waiting ones; takes over the block's reference. */
static void wait_for_block(struct blocks *b, struct httpd_request *r,
			   struct kept_block *k)
{
	struct block_waiter *w;

	if (answer_block(r, k, false))
		return;
	w = calloc(1, sizeof(*w));
	if (!w) {
		(void)answer_block(r, k, true);
		return;
	}
	w->request = r;
	w->block = k;
	w->until_ns = clock_now_ns() + b->cfg.wait_ns / 2;
	TAILQ_INSERT_TAIL(&b->waiters, w, of_all);
	(void)!loop_timer_start(b->loop, &b->tick, TICK_NS, NULL);
}

/* --------------------------------------------------------- what takes time, on the pool --- */

/* Work on the pool for a block that another node requests or offers. Exactly one of the
 * three is set: */
struct block_task {
	struct work work;
	struct loop_call call;
	struct blocks *all;
	struct kept_block *block; /* the block to fetch from the store */
	/* a request that only wants to know whether the store has the block */
	struct httpd_request *request;
	struct block_member from; /* the member that offers the block */
	char name[BLOCK_NAME_LEN + 1];
	int rc;
};

static void on_block_known(struct loop_call *c)
{
	struct block_task *t = container_of(c, struct block_task, call);

	answer_status(t->request, t->rc == 0         ? HTTPD_OK
				  : t->rc == -ENOENT ? HTTPD_NOT_FOUND
						     : HTTPD_UNAVAILABLE);
	free(t);
}

/* Change the count of blocks on their way, and return the new count. */
static size_t count_pending(struct blocks *b, int by)
{
	size_t n;

	(void)pthread_mutex_lock(&b->lock);
	n = b->n_tasks += (size_t)by;
	(void)pthread_mutex_unlock(&b->lock);
	return n;
}

static void run_block_task(struct work *w)
{
	struct block_task *t = container_of(w, struct block_task, work);
	struct blocks *b = t->all;

	if (t->request) {
		t->rc = block_store_has(b, t->name, NULL);
		t->call.fn = on_block_known;
		loop_post(b->loop, &t->call);
		return;
	}
	if (t->block) {
		blocks_fetch(t->block, true);
		block_unref(t->block);
	} else {
		blocks_pull(b, t->name, &t->from);
		(void)count_pending(b, -1);
	}
	free(t);
}

static bool begin_task(struct blocks *b, const struct block_task *what)
{
	struct block_task *t = malloc(sizeof(*t));

	if (!t)
		return false;
	*t = *what;
	t->all = b;
	t->work.run = run_block_task;
	if (pool_submit(b->pool, &t->work) == 0)
		return true;
	free(t);
	return false;
}

/* ----------------------------------------------------------------------- requests --- */

/* Handle a request for a block of which this node should be the owner. */
static void handle_block_request(struct blocks *b, struct httpd_request *r,
				 const char *name)
{
	struct block_task t = { .rc = 0 };
	struct error busy = ERROR_INIT;
	bool is_new;

	t.block = block_join(b, name, &is_new);
	if (!t.block) {
		answer_status(r, HTTPD_UNAVAILABLE);
		return;
	}
	if (is_new) {
		struct kept_block *mine = block_find(b, name);

		if (!begin_task(b, &t)) {
			(void)error_set(&busy, EBUSY, "too much is asked for");
			block_end(t.block, -EBUSY, &busy);
			block_unref(t.block);
		}
		t.block = mine;
	}
	wait_for_block(b, r, t.block);
}

static void handle_memory_request(struct blocks *b, struct httpd_request *r,
				  const char *name)
{
	/* Blocks that are being fetched do not count: their bytes may come from the node
	 * that sent this request. */
	struct kept_block *k = block_find_here(b, name);

	if (k)
		wait_for_block(b, r, k);
	else
		answer_status(r, HTTPD_NOT_FOUND);
}

static void handle_head_request(struct blocks *b, struct httpd_request *r,
				const char *name)
{
	struct block_task t = { .request = r };

	memcpy(t.name, name, sizeof(t.name));
	if (block_is_here(b, name))
		answer_status(r, HTTPD_OK);
	else if (!begin_task(b, &t))
		answer_status(r, HTTPD_UNAVAILABLE);
}

static void handle_block_offer(struct blocks *b, struct httpd_request *r,
			       const char *name)
{
	struct block_task t = { .rc = 0 };
	bool ok;

	memcpy(t.name, name, sizeof(t.name));
	ok = count_pending(b, 1) <= BLOCK_TASKS_MAX &&
	     blocks_find_member(b, r->peer_node, &t.from) && begin_task(b, &t);
	if (!ok)
		(void)count_pending(b, -1);
	answer_status(r, ok ? HTTPD_ACCEPTED : HTTPD_UNAVAILABLE);
}

bool blocks_is_path(const char *path)
{
	return strncmp(path, PATH_BEGIN, strlen(PATH_BEGIN)) == 0;
}

void blocks_answer(struct blocks *b, struct httpd_request *r)
{
	const char *path = r->head.path + strlen(PATH_BEGIN);
	char name[BLOCK_NAME_LEN + 1];
	const char *what;

	(void)snprintf(name, sizeof(name), "%s", path);
	if (!block_name_is_valid(name)) {
		answer_status(r, HTTPD_BAD_REQUEST);
		return;
	}
	what = path + BLOCK_NAME_LEN;
	if (atomic_load(&b->is_ending))
		answer_status(r, HTTPD_UNAVAILABLE);
	else if (!*what)
		handle_block_request(b, r, name);
	else if (strcmp(what, "/memory") == 0)
		handle_memory_request(b, r, name);
	else if (strcmp(what, "/head") == 0)
		handle_head_request(b, r, name);
	else if (strcmp(what, "/offer") == 0)
		handle_block_offer(b, r, name);
	else
		answer_status(r, HTTPD_BAD_REQUEST);
}

void blocks_begin(struct blocks *b, struct loop *loop, struct http *http,
		  const char *addr)
{
	b->http = http;
	b->tick.fn = blocks_tick;
	b->kick.fn = blocks_kicked;
	(void)snprintf(b->addr, sizeof(b->addr), "%s", addr);
	b->loop = loop;
	blocks_announce(b);
}

/* ------------------------------------------------------------------------- asking --- */

struct member_sink {
	struct http_sink base;
	struct kept_block *block;
	struct block_fill fill;
	struct block_seal seal;
};

/* Prepare memory for the answer after its seal was checked: an unchecked length could make
 * this node allocate too much. */
static int begin_sink(struct member_sink *s, const struct http_response *r,
		      struct error *err)
{
	AUTO_FREE char *text = http_header(r, SEAL_HEADER);

	if (!text || block_seal_parse(text, &s->seal) < 0 ||
	    !block_seal_is_ours(&s->block->all->secret, s->block->name,
				&s->seal))
		return error_set(err, EBADMSG, "no member sealed it");
	return block_fill_begin(&s->fill, s->block, s->seal.len, err);
}

static int sink_put(struct http_sink *base, const struct http_response *r,
		    const void *data, size_t len, struct error *err)
{
	struct member_sink *s = container_of(base, struct member_sink, base);
	int rc = s->fill.map ? 0 : begin_sink(s, r, err);

	if (rc < 0)
		return rc;
	if (len > s->fill.len - s->fill.got)
		return error_set(err, EBADMSG, "a block of another length");
	memcpy(s->fill.map + s->fill.got, data, len);
	s->fill.got += len;
	return 0;
}

static int make_request(struct blocks *b, const struct block_member *m,
			const char *name, const char *what, int64_t until_ns,
			struct http_sink *sink, struct http_response *r,
			struct error *err)
{
	char url[256];
	const struct http_request req = { .method = "GET",
					  .url = url,
					  .sink = sink,
					  .pace = &b->pace,
					  .is_greedy = true,
					  .deadline_ns = until_ns };

	(void)snprintf(url, sizeof(url), "https://%s" PATH_BEGIN "%s%s",
		       m->addr, name, what);
	return http_do(b->http, &req, r, err);
}

static int status_error(const struct http_response *r, struct error *err)
{
	if (r->status == HTTPD_NOT_FOUND)
		return error_set(err, ENOENT, "no node has it");
	if (r->status == HTTPD_UNAVAILABLE || r->status == HTTPD_TOO_MANY)
		return error_set(err, EBUSY, "it asks for patience");
	return error_set(err, EIO, "it answers %ld", r->status);
}

/* Request the block once; 1: the member has it not yet, so request it again. */
static int try_fetch_block(struct kept_block *k, const struct block_member *m,
			   const char *what, int64_t until_ns,
			   struct error *err)
{
	struct member_sink s = { .base = { .put = sink_put },
				 .block = k,
				 .fill = { .fd = -1 } };
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	int rc = make_request(k->all, m, k->name, what, until_ns, &s.base, &r,
			      err);

	if (rc == 0 && r.status == HTTPD_ACCEPTED)
		rc = 1;
	else if (rc == 0 && r.status != HTTPD_OK)
		rc = status_error(&r, err);
	else if (rc == 0 && !s.fill.map)
		rc = error_set(err, EBADMSG, "it sent no block");
	if (rc == 0)
		rc = block_fill_end(&s.fill, &s.seal, err);
	block_fill_fini(&s.fill);
	return rc;
}

int block_peer_fetch(struct kept_block *k, const struct block_member *m,
		     const char *what, struct error *err)
{
	struct blocks *b = k->all;
	const int64_t until_ns = clock_now_ns() + ASK_NS;
	/* The server breaks off answers when all answers together take too much memory. */
	bool was_cut = false, is_again;
	int rc;

	do {
		rc = try_fetch_block(k, m, what, until_ns, err);
		is_again = rc == 1 || (rc == -EIO && !was_cut);
		was_cut = was_cut || rc == -EIO;
	} while (is_again && clock_now_ns() < until_ns &&
		 !atomic_load(&b->is_ending));
	if (rc == 1)
		rc = error_set(err, ETIMEDOUT, "it has not come in time");
	(void)pthread_mutex_lock(&b->lock);
	if (rc == 0)
		b->stats.received_bytes += k->len;
	b->stats.wrong_total += rc == -EBADMSG;
	(void)pthread_mutex_unlock(&b->lock);
	return rc;
}

int block_peer_tell(struct blocks *b, const struct block_member *m,
		    const char *name, const char *what, struct error *err)
{
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	int rc = make_request(b, m, name, what, clock_now_ns() + ASK_NS, NULL,
			      &r, err);

	if (rc == 0 && r.status != HTTPD_OK && r.status != HTTPD_ACCEPTED)
		rc = status_error(&r, err);
	return rc;
}
