// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/serve.h"

#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

#define LOG_EVERY_NS INT64_C(1000000000)

/* A READ request that waits for a buffer. */
struct waiting_read {
	struct reply_wait wait;
	struct read_request ask;
};

struct read_pool {
	struct reply_pool *replies;
	struct read_slot slots[REPLY_BUFFERS]; /* by the buffer's index */
	atomic_uint refs;
	/* time of the last log line about a failed read */
	_Atomic int64_t logged_ns;
};

int read_pool_new(struct read_pool **ret, struct error *err)
{
	AUTO_FREE struct read_pool *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	rc = reply_pool_new(&p->replies, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < REPLY_BUFFERS; i++)
		p->slots[i].pool = p;
	atomic_init(&p->refs, 1);
	*ret = steal_ptr(&p);
	return 0;
}

void read_pool_ref(struct read_pool *p)
{
	atomic_fetch_add(&p->refs, 1);
}

void read_pool_unref(struct read_pool *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) > 1)
		return;
	reply_pool_free(p->replies);
	free(p);
}

static struct read_slot *arm_timer(struct read_pool *p, struct reply_buffer *b,
				   const struct read_request *ask)
{
	struct read_slot *s = &p->slots[b->index];

	s->buffer = b;
	s->ask = *ask;
	s->done = 0;
	s->rc = 0;
	s->err.msg[0] = '\0';
	return s;
}

/* Give a buffer back, and pass it to a waiting read if one may have it; NULL: there is none. */
static struct read_slot *slot_put(struct read_pool *p, struct reply_buffer *b)
{
	struct reply_wait *wait = reply_pool_put(p->replies, b, &b);
	struct waiting_read *w;
	struct read_slot *next;

	if (!wait)
		return NULL;
	w = container_of(wait, struct waiting_read, wait);
	next = arm_timer(p, b, &w->ask);
	free(w);
	return next;
}

/* Log why a read failed: the reader gets only EIO. */
static void log_failure(struct read_slot *s)
{
	struct read_pool *p = s->pool;
	int64_t now = clock_now_ns(), last = atomic_load(&p->logged_ns);

	if (last && now - last < LOG_EVERY_NS)
		return;
	if (!atomic_compare_exchange_strong(&p->logged_ns, &last, now))
		return;
	log_warning("datapath",
		    "read failed image=\"%s\" offset=%llu length=%zu: %s",
		    s->ask.image->img->name, (unsigned long long)s->ask.off,
		    s->ask.len, s->err.msg[0] ? s->err.msg : strerror(-s->rc));
}

/* Send the answer and free the slot; returns the next read to run, or NULL. */
static struct read_slot *finish_request(struct read_slot *s)
{
	struct session *session = s->ask.session;
	struct image_session *of = session_owner(session);
	struct read_pool *p = s->pool;
	struct read_slot *next;

	if (s->rc < 0)
		log_failure(s);
	reply_pool_leave(p->replies, &s->ask.image->share);
	image_put(of->images, s->ask.image);
	/* Ignore failures of the reply: the reader was killed, and libfuse has nothing to clean
	 * up. */
	if (s->rc < 0)
		(void)fuse_reply_err(s->ask.req, EIO);
	else
		(void)fuse_reply_buf(s->ask.req, s->buffer->data, s->ask.len);
	next = slot_put(p, s->buffer);
	/* This may free the session.  The pool stays if there is a next read, whose session has
	 * a use of it. */
	session_unref(session);
	return next;
}

/*
 * A piece can arrive on this thread before device_submit() returns, or later on another thread.
 * The second of both events continues the request, so that pieces need no recursion.
 */
enum { TURN_SUBMITTING, TURN_FIRST_CAME };

static void run_request(struct read_slot *s);

static void on_piece(struct device_read *r, int rc, const struct error *err)
{
	struct read_slot *s = container_of(r, struct read_slot, read);

	s->rc = rc;
	if (rc == 0)
		s->done += r->len;
	else if (err)
		s->err = *err;
	if (atomic_exchange(&s->turn, TURN_FIRST_CAME) == TURN_FIRST_CAME)
		run_request(s);
}

/* Read a piece; true: it is in the buffer, or failed, so go on. */
static bool run_piece(struct read_slot *s, const struct read_piece *p)
{
	char *buf = s->buffer->data + s->done;

	if (p->data || p->zero) {
		if (p->zero)
			memset(buf, 0, p->len);
		else
			memcpy(buf, p->data, p->len);
		s->done += p->len;
		return true;
	}
	s->read = (struct device_read){
		.off = p->voff,
		.len = p->len,
		.buf = buf,
		.done = on_piece,
	};
	atomic_store(&s->turn, TURN_SUBMITTING);
	device_submit(s->ask.image->img->device, &s->read);
	return atomic_exchange(&s->turn, TURN_FIRST_CAME) == TURN_FIRST_CAME;
}

/* Find the next piece of the answer, of at least one byte. */
static int find_next_piece(const struct read_request *a, size_t done,
			   struct read_piece *ret, struct error *err)
{
	size_t left = a->len - done;
	int rc = a->next_piece(a->image, a->local, a->off + done, left, ret,
			       err);

	if (rc == 0 && (ret->len == 0 || ret->len > left))
		return error_set(err, EIO, "no such bytes");
	return rc;
}

/*
 * Can the read be answered without waiting for an origin?  True for a read that fails.  Takes
 * some 100 ns for each block of the range.  If a block is evicted before it is read, a waiting
 * read occupies a buffer for reads that do not wait; the share's rules limit how many of these
 * an image has.
 */
static bool is_data_on_node(const struct read_request *a)
{
	struct error err;
	size_t done = 0;

	while (a->len <= SESSION_DATA_MAX && done < a->len) {
		struct read_piece p = { .voff = 0 };

		if (find_next_piece(a, done, &p, &err) < 0)
			break;
		if (!p.data && !p.zero &&
		    !device_has_bytes(a->image->img->device, p.voff, p.len))
			return false;
		done += p.len;
	}
	return true;
}

/* Run the request; false: it waits for a piece. */
static bool run_request_pieces(struct read_slot *s)
{
	/* The kernel was told the largest request, so a larger one is an error. */
	if (s->ask.len > SESSION_DATA_MAX)
		s->rc = error_set(&s->err, EIO, "a request of %zu bytes",
				  s->ask.len);
	while (s->rc == 0 && s->done < s->ask.len) {
		struct read_piece piece = { .voff = 0 };

		s->rc = find_next_piece(&s->ask, s->done, &piece, &s->err);
		if (s->rc == 0 && !run_piece(s, &piece))
			return false;
	}
	return true;
}

static void run_request(struct read_slot *s)
{
	while (s && run_request_pieces(s))
		s = finish_request(s);
}

/* Queue the read for a buffer; if one was given back meanwhile, run it now. */
static int wait_or_run(struct read_pool *p, const struct read_request *ask)
{
	enum reply_kind kind =
		is_data_on_node(ask) ? REPLY_AT_ONCE : REPLY_MAY_WAIT;
	struct waiting_read *w = malloc(sizeof(*w));
	struct reply_buffer *b;

	if (!w)
		return -ENOMEM;
	w->ask = *ask;
	b = reply_pool_take_or_wait(p->replies, ask->len, &ask->image->share,
				    kind, &w->wait);
	if (b) {
		free(w);
		run_request(arm_timer(p, b, ask));
	}
	return 0;
}

void serve_read(struct fuse_req *req, struct image_entry *image, uint64_t local,
		uint64_t off, size_t len, read_next_fn *next_piece)
{
	struct session *session = session_of(req);
	struct image_session *of = session_owner(session);
	const struct read_request ask = { .session = session,
					  .req = req,
					  .image = image,
					  .local = local,
					  .off = off,
					  .len = len,
					  .next_piece = next_piece };
	struct reply_buffer *b;

	session_ref(session);
	/* While reads have less than half of the buffers, any read may take one, and is_data_on_node()
	 * need not be called. */
	b = reply_pool_take(of->pool->replies, len, &image->share,
			    REPLY_MAY_WAIT);
	if (b) {
		run_request(arm_timer(of->pool, b, &ask));
	} else if (wait_or_run(of->pool, &ask) < 0) {
		image_put(of->images, image);
		(void)fuse_reply_err(req, ENOMEM);
		session_unref(session);
	}
}
