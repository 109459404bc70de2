// SPDX-License-Identifier: Apache-2.0
/*
 * A filter that tries again after errors that may pass, going on at the first
 * byte that was not delivered: a cut in the middle of a large range costs only
 * what was lost.
 */
#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "blockstore/blockstore.h"

#define ATTEMPTS_MAX 100u
#define NS_PER_MS 1000000LL
#define NS_PER_S 1000000000LL

struct retry_source {
	struct source base;
	struct retry_config cfg;
};

/* Passes on, and remembers how far it came. */
struct retry_sink {
	struct source_sink base;
	struct source_sink *next;
	uint64_t pos; /* first byte not delivered */
	bool refused; /* the taker failed: that is not ours to repeat */
};

static int retry_put(struct source_sink *sink, uint64_t pos, const void *data,
		     size_t len, struct error *err)
{
	struct retry_sink *r = container_of(sink, struct retry_sink, base);
	int rc = r->next->put(r->next, pos, data, len, err);

	if (rc < 0)
		r->refused = true;
	else
		r->pos = pos + len;
	return rc;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* Jitter keeps the nodes of a cluster from coming back all at once. */
static int64_t backoff_ns(const struct retry_config *cfg, unsigned int tried)
{
	uint64_t ms = cfg->backoff_ms;
	uint32_t r = 0;

	for (unsigned int i = 1; i < tried && ms < cfg->backoff_max_ms; i++)
		ms *= 2;
	if (ms > cfg->backoff_max_ms)
		ms = cfg->backoff_max_ms;
	if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != sizeof(r))
		r = tried * 2654435761u;
	return (int64_t)(ms - ms / 2 + (ms / 2 ? r % (ms / 2 + 1) : 0)) *
	       NS_PER_MS;
}

static void wait_until(int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / NS_PER_S,
			       .tv_nsec = ns % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) ==
	       EINTR)
		;
}

/* What is left of `req` from byte `pos` on.  Inside a block there are no whole
 * blocks to name any more. */
static void trim(struct source_req *req, uint64_t pos)
{
	req->len -= pos - req->off;
	req->off = pos;
	while (req->n_blocks && req->blocks->poff < pos) {
		req->blocks++;
		req->n_blocks--;
	}
	if (!req->n_blocks || req->blocks->poff != pos) {
		req->blocks = NULL;
		req->n_blocks = 0;
	}
}

static int retry_read(struct source *s, const struct source_req *whole,
		      struct source_sink *sink, struct error *err)
{
	struct retry_source *r = container_of(s, struct retry_source, base);
	struct retry_sink rs = { .base.put = retry_put,
				 .next = sink,
				 .pos = whole->off };
	struct source_req req = *whole;

	for (unsigned int tried = 1;; tried++) {
		int rc = source_read(s->next, &req, &rs.base, err);
		int64_t next;

		if (rc == 0 || rs.refused || (rc != -EIO && rc != -ETIMEDOUT))
			return rc;
		next = now_ns() + backoff_ns(&r->cfg, tried);
		if (tried == r->cfg.attempts ||
		    (req.deadline_ns && next >= req.deadline_ns))
			return error_wrap(err, rc, "gave up after attempt %u",
					  tried);
		trim(&req, rs.pos);
		wait_until(next);
	}
}

static void retry_free(struct source *s)
{
	source_free(s->next);
	free(container_of(s, struct retry_source, base));
}

static const struct source_ops retry_ops = {
	.name = "retry",
	.read = retry_read,
	.free = retry_free,
};

int retry_source_new(struct source *next, const struct retry_config *cfg,
		     struct source **ret, struct error *err)
{
	AUTO(source) owned = next;
	struct retry_source *r;

	if (!cfg->attempts || cfg->attempts > ATTEMPTS_MAX)
		return error_set(err, EINVAL, "%u attempts, want 1 to %u",
				 cfg->attempts, ATTEMPTS_MAX);
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_nomem(err);
	r->cfg = *cfg;
	r->base.ops = &retry_ops;
	r->base.size = next->size;
	r->base.next = steal_ptr(&owned);
	*ret = &r->base;
	return 0;
}
