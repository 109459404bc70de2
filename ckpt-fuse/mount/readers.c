// SPDX-License-Identifier: Apache-2.0
/* Which version of a node's file its readers have, and which one an open gets. */
#include "ckpt-fuse/mount/readers.h"

#include <errno.h>

#include "common/clock.h"
#include "common/log.h"

/* Questions to the store that a writer which begins or ends makes void; after so many, writers
 * wait. */
#define LOOKS_MAX 4u

/* With the lock: the version that a predecessor's readers have, if it is there still. */
static int open_kept(struct ckpt_mount *m, struct ckpt_node *n,
		     struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_file *f;
	int rc = node_path(n, &path);

	if (rc == 0)
		rc = ckpt_open(m->store, path.data, &f, err);
	/* Another node has removed it, or made a folder of that name. */
	if (rc == -ENOENT || rc == -EISDIR)
		return 0;
	/* To whoever asks, ESTALE would mean that it is another version. */
	if (rc == -ESTALE)
		return error_set(err, EIO, "'%s' changes all the time",
				 path.data);
	if (rc < 0)
		return rc;
	if (ckpt_file_bytes_id(f) != n->read_version) {
		ckpt_close(f);
		return 0;
	}
	rc = reading_new(&m->readings, f, &n->reading, err);
	if (rc < 0)
		return rc;
	node_set_stat(n, ckpt_file_stat(reading_file(n->reading)));
	return 0;
}

/* A predecessor's readers count as one, which is never closed: the kernel says of no handle
 * that it is the last.  So what they have stays, also when the readers of this process close
 * it. */
int readers_use_kept(struct ckpt_mount *m, struct ckpt_node *n,
		     struct error *err)
{
	int rc = 0;

	if (!n->is_kept || n->has_kept_use)
		return 0;
	if (!n->reading)
		rc = open_kept(m, n, err);
	n->has_kept_use =
		n->reading &&
		ckpt_file_bytes_id(reading_file(n->reading)) == n->read_version;
	if (!n->has_kept_use)
		return rc;
	n->n_readers++;
	n->n_cached++;
	node_set_readers_size(n,
			      ckpt_file_stat(reading_file(n->reading))->size);
	return rc;
}

/* When it cannot be opened now, the version would be gone for good. */
int readers_keep(struct ckpt_mount *m, struct ckpt_node *n, struct error *err)
{
	int rc = readers_use_kept(m, n, err);
	AUTO_BUF path = BUF_INIT;

	if (rc == 0 && n->n_peekers)
		rc = writing_keep(n->writing, err);
	/* Another node has replaced it already. */
	if (rc == -ESTALE)
		return 0;
	/* The version is damaged or unknown: no reader can use it, so it need not be kept. */
	if (rc == -EBADMSG || rc == -ENOTSUP) {
		log_warning("ckpt",
			    "readers lose their file path=\"%s\" "
			    "reason=\"%s\"",
			    node_path_shown(n, &path), err->msg);
		return 0;
	}
	return error_wrap(err, rc, "keep it for those that read it");
}

/* With the lock.  Takes `f`. */
static int set_reading(struct ckpt_mount *m, struct ckpt_node *n,
		       struct ckpt_file *f, struct error *err)
{
	const uint64_t version = ckpt_file_bytes_id(f);
	const uint64_t size = ckpt_file_stat(f)->size;
	int rc;

	reading_unref(n->reading);
	n->reading = NULL;
	rc = reading_new(&m->readings, f, &n->reading, err);
	node_set_read_version(n, rc == 0 ? version : 0, size);
	return rc;
}

/* With the lock: one more reads by the kernel's pages. */
static void use_pages(struct ckpt_node *n, struct handle *h, uint64_t id,
		      const struct ckpt_stat *st, bool is_same)
{
	const bool is_first = !atomic_exchange(&n->may_have_pages, true);

	node_set_stat(n, st);
	/* The kernel drops the pages that it has when it gets to the answer: until this
	 * one, or another of its version, reads, others are to have it do that, too.  Of the
	 * first one it has none: programs that open the file in the same moment would drop
	 * what others of them have read. */
	if (!is_same)
		n->pages_id = is_first ? id : 0;
	h->is_fresh = !is_same && !is_first;
	n->n_cached++;
	node_set_readers_size(n, st->size);
}

/* With the lock.  Takes `f`, the version that is there now.  -ESTALE: its readers have another,
 * which is another file to the kernel.  Whoever reads directly, while it is changed, has no pages
 * of the kernel's, and goes on with what the store has now. */
static int use_version(struct ckpt_mount *m, struct ckpt_node *n,
		       const char *path, struct ckpt_file *f, struct handle *h,
		       struct error *err)
{
	const struct ckpt_stat st = *ckpt_file_stat(f);
	const uint64_t id = ckpt_file_bytes_id(f);
	const bool is_here =
		n->reading && ckpt_file_is_same(reading_file(n->reading), f);
	/* The tag of a plain object may be the same when its bytes are not, so that only
	 * those that have it open believe it. */
	const bool is_same =
		n->pages_id == id && (st.is_striped || n->n_cached);
	int rc = 0;

	h->is_cached = !node_is_being_changed(n) &&
		       !recent_names_has(&m->coming, 0, path, clock_now_ns());
	if (n->is_kept && id != n->read_version)
		rc = -ESTALE;
	else if (!is_here && n->n_cached && h->is_cached)
		rc = -ESTALE;
	if (rc < 0 || is_here)
		ckpt_close(f);
	/* A successor is to know the version that the kernel has pages of. */
	else if (n->n_cached)
		rc = reading_new(&m->readings, f, &h->reading, err);
	else
		rc = set_reading(m, n, f, err);
	if (rc < 0)
		return rc;
	if (!h->reading)
		h->reading = reading_ref(n->reading);
	n->n_readers++;
	if (h->is_cached)
		use_pages(n, h, id, &st, is_same);
	return 0;
}

/* With the lock.  What has the name now is another node's, which the kernel would look up
 * for ESTALE, but only once: that may have lost the name, too, when the open comes. */
static int use_successor(struct ckpt_mount *m, struct ckpt_node *n,
			 struct handle *h, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_file *f;
	int rc = node_last_path(n, &path);

	if (rc == 0)
		rc = ckpt_open(m->store, path.data, &f, err);
	if (rc == 0)
		rc = use_version(m, n, path.data, f, h, err);
	return rc == -ENOENT || rc == -EISDIR ? -ESTALE : rc;
}

/* With the lock.  A file that was removed is open still: as its readers have it.  If there
 * are none, the kernel had its name, and has asked to open that. */
static int use_removed(struct ckpt_mount *m, struct ckpt_node *n,
		       struct handle *h, struct error *err)
{
	if (!n->reading)
		return n->writing ? -ESTALE : use_successor(m, n, h, err);
	h->reading = reading_ref(n->reading);
	h->is_cached = !n->writing && n->n_cached;
	h->is_fresh = h->is_cached;
	n->n_cached += h->is_cached;
	n->n_readers++;
	return 0;
}

/* Looks at the store once, with the lock when it `waits` for writers; else -EAGAIN: some of
 * them began or ended meanwhile, so that the look may be of the version before. */
static int look_and_use(struct ckpt_mount *m, struct ckpt_node *n,
			const char *path, bool waits, struct handle *h,
			struct error *err)
{
	const unsigned int steps = n->n_steps;
	struct ckpt_file *f;
	int rc;

	if (waits)
		(void)pthread_mutex_lock(&n->lock);
	rc = ckpt_open(m->store, path, &f, err);
	if (!waits)
		(void)pthread_mutex_lock(&n->lock);
	if (n->n_steps != steps && !waits) {
		if (rc == 0)
			ckpt_close(f);
		rc = -EAGAIN;
	}
	if (rc == 0)
		rc = use_version(m, n, path, f, h, err);
	if (rc == -ESTALE)
		node_detach(n);
	/* A file that nobody has committed yet is read by way of its writer. */
	if (rc == -ENOENT && n->writing) {
		h->kind = HANDLE_PEEKER;
		n->n_peekers++;
		rc = 0;
	}
	(void)pthread_mutex_unlock(&n->lock);
	return rc;
}

int readers_open(struct ckpt_mount *m, struct ckpt_node *n, struct handle *h,
		 struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = node_path(n, &path);

	if (rc == -ENOENT) {
		AUTO_UNLOCK held = mutex_hold(&n->lock);

		return use_removed(m, n, h, err);
	}
	if (rc < 0)
		return rc;
	rc = -EAGAIN;
	for (unsigned int i = 1; i <= LOOKS_MAX && rc == -EAGAIN; i++)
		rc = look_and_use(m, n, path.data, i == LOOKS_MAX, h, err);
	return rc;
}

void readers_end(struct ckpt_node *n, const struct handle *h)
{
	AUTO_UNLOCK held = mutex_hold(&n->lock);

	if (h->is_cached && --n->n_cached == 0 && !n->is_kept)
		node_set_readers_size(n, SIZE_UNKNOWN);
	if (--n->n_readers == 0) {
		reading_unref(n->reading);
		n->reading = NULL;
		node_set_read_version(n, 0, 0);
	}
}

void readers_have_pages(struct handle *h)
{
	h->is_fresh = false;
	h->node->pages_id = ckpt_file_bytes_id(reading_file(h->reading));
}
