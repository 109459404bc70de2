// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/mirror/layer_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"

enum piece_state {
	PIECE_AWAY,
	PIECE_WRITING,
	PIECE_OWN, /* the registry sent it */
	/* a peer sent it: this value stands for the first sender, the next ones for the others */
	PIECE_FOREIGN = 3,
};

struct layer_sender {
	char *name;
	bool is_liar;
};

struct layer_file {
	struct digest digest;
	uint64_t size;
	uint32_t n;
	int fd;
	struct hasher *hasher; /* hasher of the layer, and ... */
	/* ... the number of pieces that it has hashed */
	uint32_t hashed;
	pthread_mutex_t lock;   /* all below */
	pthread_cond_t written; /* a piece was written, or could not be */
	volatile bool *broken;
	uint16_t *state; /* of each piece, enum piece_state */
	uint32_t n_here;
	bool is_verified;
	struct layer_sender senders[LAYER_SENDERS_MAX];
	size_t n_senders;
	struct layer_counts counts;
};

uint32_t layer_pieces(uint64_t size)
{
	return (uint32_t)((size + LAYER_PIECE - 1) / LAYER_PIECE);
}

uint32_t layer_piece_bytes(uint64_t size, uint32_t piece)
{
	uint64_t left = size - (uint64_t)piece * LAYER_PIECE;

	return left < LAYER_PIECE ? (uint32_t)left : LAYER_PIECE;
}

static uint64_t offset_of(uint32_t piece)
{
	return (uint64_t)piece * LAYER_PIECE;
}

int layer_file_new(const struct digest *digest, uint64_t size,
		   struct layer_file **ret, struct error *err)
{
	struct layer_file *f = calloc(1, sizeof(*f));

	if (!f)
		return error_nomem(err);
	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_cond_init(&f->written, NULL);
	f->fd = -1;
	f->digest = *digest;
	f->size = size;
	f->n = layer_pieces(size);
	f->state = calloc(f->n + 1, sizeof(*f->state));
	f->hasher = hasher_new();
	if (!f->state || !f->hasher) {
		layer_file_free(f);
		return error_nomem(err);
	}
	*ret = f;
	return 0;
}

void layer_file_begin(struct layer_file *f, int fd, volatile bool *broken)
{
	(void)pthread_mutex_lock(&f->lock);
	f->fd = fd;
	f->broken = broken;
	(void)pthread_mutex_unlock(&f->lock);
}

void layer_file_free(struct layer_file *f)
{
	if (!f)
		return;
	for (size_t k = 0; k < f->n_senders; k++)
		free(f->senders[k].name);
	fd_close(f->fd);
	hasher_free(f->hasher);
	(void)pthread_cond_destroy(&f->written);
	(void)pthread_mutex_destroy(&f->lock);
	free(f->state);
	free(f);
}

/* ----------------------------------------------- --- pieces of the layer --- */

/* The piece state that stands for a sender, which is added if new.  The lock is held. */
static int find_sender(struct layer_file *f, const char *name, uint16_t *ret,
		       struct error *err)
{
	size_t k = 0;

	*ret = PIECE_OWN;
	if (!name)
		return 0;
	while (k < f->n_senders && strcmp(f->senders[k].name, name) != 0)
		k++;
	if (k == LAYER_SENDERS_MAX)
		return error_set(err, EUSERS,
				 "a layer comes from too many nodes");
	if (k == f->n_senders) {
		f->senders[k].name = strdup(name);
		if (!f->senders[k].name)
			return error_nomem(err);
		f->n_senders++;
	}
	if (f->senders[k].is_liar)
		return error_set(
			err, EBADMSG,
			"node '%.100s' sent a wrong piece of the layer "
			"before",
			name);
	*ret = (uint16_t)(PIECE_FOREIGN + k);
	return 0;
}

int layer_file_put(struct layer_file *f, uint32_t piece, const void *data,
		   const char *sender, struct error *err)
{
	uint32_t len = layer_piece_bytes(f->size, piece);
	uint16_t from;
	bool is_new;
	int rc;

	(void)pthread_mutex_lock(&f->lock);
	rc = find_sender(f, sender, &from, err);
	/* Wait for a piece that another thread is writing: only then its bytes are kept, and
	 * its sender is known. */
	while (rc == 0 && f->state[piece] == PIECE_WRITING)
		(void)pthread_cond_wait(&f->written, &f->lock);
	is_new = rc == 0 && f->state[piece] == PIECE_AWAY;
	if (is_new)
		f->state[piece] = PIECE_WRITING;
	else if (rc == 0)
		rc = f->state[piece] != PIECE_OWN;
	(void)pthread_mutex_unlock(&f->lock);
	if (!is_new)
		return rc;
	rc = fs_pwrite_full(f->fd, data, len, offset_of(piece));
	(void)pthread_mutex_lock(&f->lock);
	f->state[piece] = rc == 0 ? from : PIECE_AWAY;
	if (rc == 0) {
		f->n_here++;
		if (sender)
			f->counts.peers_bytes += len;
		else
			f->counts.registry_bytes += len;
	}
	(void)pthread_cond_broadcast(&f->written);
	(void)pthread_mutex_unlock(&f->lock);
	if (rc == 0)
		return from != PIECE_OWN;
	__atomic_store_n(f->broken, true, __ATOMIC_RELAXED);
	return error_errno(err, -rc, "write a layer");
}

bool layer_file_has(struct layer_file *f, uint32_t piece)
{
	bool is_here;

	(void)pthread_mutex_lock(&f->lock);
	is_here = f->state[piece] >= PIECE_OWN;
	(void)pthread_mutex_unlock(&f->lock);
	return is_here;
}

uint64_t layer_file_readable(struct layer_file *f, uint64_t pos, uint64_t max)
{
	uint32_t piece = (uint32_t)(pos / LAYER_PIECE);
	uint64_t end = f->size;

	if (pos >= f->size)
		return 0;
	if (max < f->size - pos)
		end = pos + max;
	(void)pthread_mutex_lock(&f->lock);
	while (offset_of(piece) < end &&
	       (f->is_verified || f->state[piece] == PIECE_OWN))
		piece++;
	(void)pthread_mutex_unlock(&f->lock);
	if (offset_of(piece) < end)
		end = offset_of(piece);
	return end > pos ? end - pos : 0;
}

int layer_file_read(struct layer_file *f, uint64_t pos, void *buf, size_t len)
{
	return fs_pread_full(f->fd, buf, len, pos);
}

int layer_file_open(struct layer_file *f, uint32_t piece, int *ret_fd)
{
	if (!layer_file_has(f, piece))
		return -ENOENT;
	*ret_fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	return *ret_fd < 0 ? -errno : 0;
}

/* ----------------------------------------------- --- the layer's digest --- */

static int hash_piece(struct layer_file *f, uint8_t *room, struct error *err)
{
	uint32_t len = layer_piece_bytes(f->size, f->hashed);
	int rc = fs_pread_full(f->fd, room, len, offset_of(f->hashed));

	if (rc < 0)
		return error_errno(err, -rc, "read a layer");
	if (hasher_update(f->hasher, room, len) < 0)
		return error_nomem(err);
	f->hashed++;
	return 0;
}

int layer_file_hash(struct layer_file *f, struct error *err)
{
	/* The buffer is allocated for each call: many layers stay for minutes, and none should
	 * keep one. */
	AUTO_FREE uint8_t *room = NULL;
	int rc = 0;

	while (rc == 0 && f->hashed < f->n && layer_file_has(f, f->hashed)) {
		if (!room)
			room = malloc(LAYER_PIECE);
		rc = room ? hash_piece(f, room, err) : error_nomem(err);
	}
	return rc;
}

int layer_file_verify(struct layer_file *f, struct error *err)
{
	struct digest found;
	char name[DIGEST_STR_MAX];
	int rc = layer_file_hash(f, err);

	if (rc < 0)
		return rc;
	if (f->hashed < f->n)
		return error_set(err, EIO,
				 "piece %u of %u of a layer is not here",
				 f->hashed, f->n);
	if (hasher_final(f->hasher, &found) < 0)
		return error_nomem(err);
	f->hashed = 0;
	digest_format(&f->digest, name);
	if (!digest_equal(&found, &f->digest))
		return error_set(err, EBADMSG, "layer %s: other bytes came",
				 name);
	(void)pthread_mutex_lock(&f->lock);
	f->is_verified = true;
	(void)pthread_mutex_unlock(&f->lock);
	return 0;
}

bool layer_file_is_doubtful(struct layer_file *f, uint32_t piece)
{
	bool yes;

	(void)pthread_mutex_lock(&f->lock);
	yes = f->state[piece] >= PIECE_FOREIGN;
	(void)pthread_mutex_unlock(&f->lock);
	return yes;
}

int layer_file_mend(struct layer_file *f, uint32_t piece, const void *data,
		    const char **ret_liar, struct error *err)
{
	uint32_t len = layer_piece_bytes(f->size, piece);
	AUTO_FREE uint8_t *room = malloc(LAYER_PIECE);
	bool is_wrong;
	int rc;

	*ret_liar = NULL;
	if (!room)
		return error_nomem(err);
	rc = fs_pread_full(f->fd, room, len, offset_of(piece));
	is_wrong = rc == 0 && memcmp(room, data, len) != 0;
	if (is_wrong)
		rc = fs_pwrite_full(f->fd, data, len, offset_of(piece));
	if (rc < 0)
		return error_errno(err, -rc, "mend a layer");
	(void)pthread_mutex_lock(&f->lock);
	if (is_wrong && f->state[piece] >= PIECE_FOREIGN) {
		struct layer_sender *s =
			&f->senders[f->state[piece] - PIECE_FOREIGN];

		*ret_liar = s->is_liar ? NULL : s->name;
		s->is_liar = true;
	}
	f->state[piece] = PIECE_OWN;
	(void)pthread_mutex_unlock(&f->lock);
	return 0;
}

void layer_file_drop(struct layer_file *f)
{
	(void)pthread_mutex_lock(&f->lock);
	for (uint32_t k = 0; k < f->n; k++)
		f->state[k] = PIECE_AWAY;
	(void)pthread_mutex_unlock(&f->lock);
}

void layer_file_count(struct layer_file *f, struct layer_counts *ret)
{
	(void)pthread_mutex_lock(&f->lock);
	*ret = f->counts;
	(void)pthread_mutex_unlock(&f->lock);
}
