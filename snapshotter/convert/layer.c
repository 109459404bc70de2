// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/layer.h"

#include <errno.h>
#include <pthread.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/memory_gate.h"
#include "common/mutex.h"
#include "common/pace.h"
#include "common/temp_file.h"
#include "common/thread.h"
#include "snapshotter/convert/decode.h"

#define PIECE (256 * KIB) /* plain bytes handed over at once */
#define PIECES 12         /* pieces that are decoded ahead of the user */

struct layer {
	/* receives the stored bytes of the source; first for container_of */
	struct source_sink sink;
	struct layer_input in;
	struct decoder *decoder;
	struct hasher *stored_hash;
	/* bytes that were received; used by the thread alone */
	uint64_t stored;
	/* since when the thread waits for bytes; used by it alone */
	int64_t idle_ns;
	struct thread thread;

	/* Ring: the thread fills head, the user takes tail. */
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t moved;
	uint64_t head, tail;
	uint64_t stored_shown; /* copy of `stored`, for the user */
	bool ended;            /* the thread is done */
	bool stop;             /* the user needs no more */
	int rc;                /* how the thread ended */
	struct error err;

	struct {
		uint8_t *data;
		size_t len;
	} ring[PIECES];

	/* Used by the user's thread alone. */
	bool holds; /* piece `tail` is lent to the user */
	struct hasher *plain_hash;
	struct digest diff_id;
	uint64_t plain;
};

/* Wait for room in the ring; returns the piece to fill, NULL: stop. */
static uint8_t *piece_get(struct layer *l)
{
	uint8_t *p;

	pthread_mutex_lock(&l->lock);
	while (l->head - l->tail == PIECES && !l->stop)
		pthread_cond_wait(&l->moved, &l->lock);
	p = l->stop ? NULL : l->ring[l->head % PIECES].data;
	pthread_mutex_unlock(&l->lock);
	return p;
}

static void release_piece(struct layer *l)
{
	pthread_mutex_lock(&l->lock);
	l->head++;
	l->stored_shown = l->stored;
	pthread_cond_signal(&l->moved);
	pthread_mutex_unlock(&l->lock);
}

/* Decode all of `in`; give full pieces to the user. */
static int decode_layer(struct layer *l, const uint8_t *in, size_t len,
			struct error *err)
{
	for (;;) {
		size_t at = l->head % PIECES, n;
		uint8_t *out = piece_get(l);
		int rc;

		if (!out)
			return -ECANCELED;
		rc = decoder_run(l->decoder, &in, &len, out + l->ring[at].len,
				 PIECE - l->ring[at].len, &n, err);
		if (rc < 0)
			return rc;
		l->ring[at].len += n;
		if (l->ring[at].len < PIECE && len == 0)
			return 0;
		if (l->ring[at].len == PIECE)
			release_piece(l);
		else if (n == 0)
			return error_set(err, EBADMSG, "damaged stream");
	}
}

/* Take stored bytes.  Time spent here is decoding; time between two calls is the source's. */
static int take_stored(struct source_sink *sink, uint64_t pos, const void *data,
		       size_t len, struct error *err)
{
	struct layer *l = container_of(sink, struct layer, sink);
	int rc;

	if (l->in.windows) {
		rc = memory_claim_came(l->in.windows, len,
				       clock_now_ns() - l->idle_ns, err);
		if (rc < 0)
			return rc;
	}
	if (len > l->in.size - l->stored)
		return error_set(err, EBADMSG, "it is longer than %llu bytes",
				 (unsigned long long)l->in.size);
	rc = l->in.is_checked ? 0 : hasher_update(l->stored_hash, data, len);
	if (rc < 0)
		return error_errno(err, -rc, "hash");
	if (l->in.copy_fd >= 0) {
		rc = fs_pwrite_full(l->in.copy_fd, data, len, l->stored);
		if (rc < 0)
			return fs_refuse_write(l->in.copy_fd, rc,
					       l->in.size - l->stored,
					       TEMP_CURE, err);
	}
	l->stored += len;
	rc = decode_layer(l, data, len, err);
	l->idle_ns = clock_now_ns();
	return rc;
}

/* All bytes were received: check the digest. */
static int check_end(struct layer *l, struct error *err)
{
	struct digest d;
	char want[DIGEST_STR_MAX], is[DIGEST_STR_MAX];
	int rc = hasher_final(l->stored_hash, &d);

	if (rc < 0)
		return error_errno(err, -rc, "hash");
	if (l->stored != l->in.size)
		return error_set(
			err, EBADMSG,
			"it has %llu bytes, not %llu as its descriptor "
			"says",
			(unsigned long long)l->stored,
			(unsigned long long)l->in.size);
	if (!l->in.is_checked && !digest_equal(&d, &l->in.digest)) {
		digest_format(&d, is);
		digest_format(&l->in.digest, want);
		return error_set(err, EBADMSG, "its content is %s, not %s", is,
				 want);
	}
	return decoder_finish(l->decoder, err);
}

static void *read_thread(void *arg)
{
	struct layer *l = arg;
	struct source_req req = { .len = l->in.size,
				  .priority = SOURCE_COLD,
				  .pace = l->in.pace };
	struct error err = ERROR_INIT;
	int rc = 0;

	l->idle_ns = clock_now_ns();
	if (req.len)
		rc = source_read(l->in.source, &req, &l->sink, &err);
	if (rc == 0)
		rc = check_end(l, &err);
	if (rc == 0 && l->ring[l->head % PIECES].len)
		release_piece(l);
	pthread_mutex_lock(&l->lock);
	l->ended = true;
	l->rc = rc;
	l->err = err;
	pthread_cond_signal(&l->moved);
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

int layer_open(const struct layer_input *in, struct layer **ret,
	       struct error *err)
{
	AUTO(layer) l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return error_nomem(err);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->moved, NULL);
	l->sink.put = take_stored;
	l->in = *in;
	l->decoder = decoder_new(in->windows, in->spans);
	l->stored_hash = hasher_new();
	l->plain_hash = hasher_new();
	if (!l->decoder || !l->stored_hash || !l->plain_hash)
		return error_nomem(err);
	for (size_t i = 0; i < PIECES; i++) {
		l->ring[i].data = malloc(PIECE);
		if (!l->ring[i].data)
			return error_nomem(err);
	}
	rc = thread_start(&l->thread, read_thread, l, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&l);
	return 0;
}

void layer_close(struct layer *l)
{
	if (!l)
		return;
	if (l->thread.is_started) {
		pthread_mutex_lock(&l->lock);
		l->stop = true;
		pthread_cond_signal(&l->moved);
		pthread_mutex_unlock(&l->lock);
		thread_join(&l->thread);
	}
	for (size_t i = 0; i < PIECES; i++)
		free(l->ring[i].data);
	decoder_free(l->decoder);
	hasher_free(l->stored_hash);
	hasher_free(l->plain_hash);
	pthread_cond_destroy(&l->moved);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int read_end(struct layer *l, int rc, size_t *ret_n, struct error *err)
{
	if (rc < 0) {
		if (err)
			*err = l->err;
		return rc;
	}
	if (l->in.want_diff_id) {
		rc = hasher_final(l->plain_hash, &l->diff_id);
		if (rc < 0)
			return error_errno(err, -rc, "hash");
		l->in.want_diff_id = false;
	}
	*ret_n = 0;
	return 0;
}

int layer_read(struct layer *l, const void **ret, size_t *ret_n,
	       struct error *err)
{
	const uint8_t *data = NULL;
	size_t len = 0;
	int rc;

	if (pace_level(l->in.pace) == PACE_STOP)
		return error_set(err, ECANCELED,
				 "nobody waits for it any more");
	pthread_mutex_lock(&l->lock);
	if (l->holds) {
		l->ring[l->tail % PIECES].len = 0;
		l->tail++;
		l->holds = false;
		pthread_cond_signal(&l->moved);
	}
	while (l->head == l->tail && !l->ended)
		pthread_cond_wait(&l->moved, &l->lock);
	if (l->head != l->tail) {
		data = l->ring[l->tail % PIECES].data;
		len = l->ring[l->tail % PIECES].len;
		l->holds = true;
	}
	rc = l->rc;
	pthread_mutex_unlock(&l->lock);
	if (!data)
		return read_end(l, rc, ret_n, err);

	l->plain += len;
	if (l->plain > LAYER_PLAIN_MAX)
		return error_set(err, EFBIG, "it unpacks to more than %llu GiB",
				 (unsigned long long)(LAYER_PLAIN_MAX / GIB));
	if (l->in.want_diff_id) {
		rc = hasher_update(l->plain_hash, data, len);
		if (rc < 0)
			return error_errno(err, -rc, "hash");
	}
	*ret = data;
	*ret_n = len;
	return 0;
}

const struct digest *layer_diff_id(const struct layer *l)
{
	return &l->diff_id;
}

uint64_t layer_plain_bytes(const struct layer *l)
{
	return l->plain;
}

uint64_t layer_stored_bytes(struct layer *l)
{
	AUTO_UNLOCK held = mutex_hold(&l->lock);

	return l->stored_shown;
}
