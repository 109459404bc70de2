// SPDX-License-Identifier: Apache-2.0
/* Decides which version of a node's file its readers have, and which one an open gets. */
#include "ckpt-fuse/mount/readers.h"

#include <errno.h>

#include "common/clock.h"
#include "common/log.h"

/* Attempts to look at the store without the lock. A writer that begins or ends makes the answer
 * void; after so many attempts, writers must wait. */
#define LOOKS_MAX 4u

/* Open the version that readers of the previous process have, if it still exists. Called with the
 * lock held. */
static int open_file_kept_by_node(struct ckpt_mount *m, struct ckpt_node *n,
				  struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_file *f;
	int rc = node_path(n, &path);

	if (rc == 0)
		rc = ckpt_open(m->store, path.data, &f, err);
	/* Another node has removed the file, or made a folder of that name. */
	if (rc == -ENOENT || rc == -EISDIR)
		return 0;
	/* Not ESTALE, which callers take for another version. */
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

/* Open the version of the previous process's readers. They count as one reader that is never
 * closed, because the kernel does not say which of their handles is the last. So the version is
 * kept even when readers of this process close it. */
int readers_use_kept(struct ckpt_mount *m, struct ckpt_node *n,
		     struct error *err)
{
	int rc = 0;

	if (!n->is_kept || n->has_kept_use)
		return 0;
	if (!n->reading)
		rc = open_file_kept_by_node(m, n, err);
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

/* Keep the version that readers have before the file is replaced; a version that is not opened now
 * is lost to them. */
int readers_keep(struct ckpt_mount *m, struct ckpt_node *n, struct error *err)
{
	int rc = readers_use_kept(m, n, err);
	AUTO_BUF path = BUF_INIT;

	if (rc == 0 && n->n_peekers)
		rc = writing_keep(n->writing, err);
	/* Another node has replaced the file already. */
	if (rc == -ESTALE)
		return 0;
	/* The version is damaged or of an unknown format: no reader can use it, so it is not
	 * kept. */
	if (rc == -EBADMSG || rc == -ENOTSUP) {
		log_warning("ckpt",
			    "readers lose their file path=\"%s\" "
			    "reason=\"%s\"",
			    node_path_shown(n, &path), err->msg);
		return 0;
	}
	return error_wrap(err, rc, "keep it for those that read it");
}

/* Make `f` the version that the node's readers have; takes `f`. Called with the lock held. */
static int set_version_of_readers(struct ckpt_mount *m, struct ckpt_node *n,
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

/* Count a reader that uses the kernel's page cache. Called with the lock held. */
static void count_page_cache_reader(struct ckpt_node *n, struct handle *h,
				    uint64_t id, const struct ckpt_stat *st,
				    bool is_same)
{
	const bool is_first = !atomic_exchange(&n->may_have_pages, true);

	node_set_stat(n, st);
	/* The kernel drops its cached pages when it gets this answer. Until a handle of this
	 * version reads, other opens must drop them too. Not for the first open, when there are no
	 * pages: programs that open the file at the same moment would drop pages that others have
	 * just read. */
	if (!is_same)
		n->pages_id = is_first ? id : 0;
	h->is_fresh = !is_same && !is_first;
	n->n_cached++;
	node_set_readers_size(n, st->size);
}

/* Use the current version `f` for a handle; takes `f`. -ESTALE: the readers have another version,
 * which for the kernel is another file. A handle that reads directly, while the file is being
 * changed, uses no cached pages and continues with the store's current version. Called with the
 * lock held. */
static int set_handle_version(struct ckpt_mount *m, struct ckpt_node *n,
			      const char *path, struct ckpt_file *f,
			      struct handle *h, struct error *err)
{
	const struct ckpt_stat st = *ckpt_file_stat(f);
	const uint64_t id = ckpt_file_bytes_id(f);
	const bool is_here =
		n->reading && ckpt_file_is_same(reading_file(n->reading), f);
	/* The tag of a plain object may be the same for other bytes, so it is trusted only while
	 * the file is open. */
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
	/* The node's version stays noted for the next process while the kernel has pages of it. */
	else if (n->n_cached)
		rc = reading_new(&m->readings, f, &h->reading, err);
	else
		rc = set_version_of_readers(m, n, f, err);
	if (rc < 0)
		return rc;
	if (!h->reading)
		h->reading = reading_ref(n->reading);
	n->n_readers++;
	if (h->is_cached)
		count_page_cache_reader(n, h, id, &st, is_same);
	return 0;
}

/* The name now belongs to another node. The kernel would look it up after ESTALE, but only once,
 * and that node may have lost the name too by then: open it here. Called with the lock held. */
static int open_successor_version(struct ckpt_mount *m, struct ckpt_node *n,
				  struct handle *h, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_file *f;
	int rc = node_last_path(n, &path);

	if (rc == 0)
		rc = ckpt_open(m->store, path.data, &f, err);
	if (rc == 0)
		rc = set_handle_version(m, n, path.data, f, h, err);
	return rc == -ENOENT || rc == -EISDIR ? -ESTALE : rc;
}

/* Open a removed file: as its other readers have it. Without readers, the kernel meant the name:
 * fail. Called with the lock held. */
static int open_removed_file(struct ckpt_mount *m, struct ckpt_node *n,
			     struct handle *h, struct error *err)
{
	if (!n->reading)
		return n->writing ? -ESTALE
				  : open_successor_version(m, n, h, err);
	h->reading = reading_ref(n->reading);
	h->is_cached = !n->writing && n->n_cached;
	h->is_fresh = h->is_cached;
	n->n_cached += h->is_cached;
	n->n_readers++;
	return 0;
}

/* Look at the store once and open the version found. `waits`: with the lock held, so that writers
 * wait. Otherwise -EAGAIN: a writer began or ended meanwhile, so that the version may be out of
 * date. */
static int open_current_version(struct ckpt_mount *m, struct ckpt_node *n,
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
		rc = set_handle_version(m, n, path, f, h, err);
	if (rc == -ESTALE)
		node_detach(n);
	/* A file that was never committed is read through its writer. */
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

		return open_removed_file(m, n, h, err);
	}
	if (rc < 0)
		return rc;
	rc = -EAGAIN;
	for (unsigned int i = 1; i <= LOOKS_MAX && rc == -EAGAIN; i++)
		rc = open_current_version(m, n, path.data, i == LOOKS_MAX, h,
					  err);
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
