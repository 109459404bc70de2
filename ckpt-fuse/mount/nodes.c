// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"

#define JOURNAL_MIN (1u << 20) /* bytes; a shorter one is never written anew */
#define JOURNAL_MAX (1u << 30) /* bytes that are read */
/* The kernel has it, how often nobody knows. */
#define LOOKUPS_UNKNOWN (UINT64_C(1) << 62)
#define KEY_PREFIX 17u /* 16 digits and a slash */

/* -------------------------------------------------------------------- the table --- */

static char *key_of(const struct ckpt_node *parent, const char *name)
{
	char *key;

	if (asprintf(&key, "%016" PRIx64 "/%s", parent->id, name) < 0)
		return NULL;
	return key;
}

const char *node_name(const struct ckpt_node *n)
{
	return n->key ? n->key + KEY_PREFIX : "";
}

static struct ckpt_node *node_new(uint64_t id, bool is_folder)
{
	struct ckpt_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->id = id;
	n->is_folder = is_folder;
	n->last_size = n->told_size = n->readers_size = SIZE_UNKNOWN;
	(void)pthread_mutex_init(&n->lock, NULL);
	(void)pthread_mutex_init(&n->seen, NULL);
	return n;
}

static void node_free(struct ckpt_node *n)
{
	writing_free(n->writing);
	reading_unref(n->reading);
	(void)pthread_mutex_destroy(&n->lock);
	(void)pthread_mutex_destroy(&n->seen);
	free(n->lost_why);
	free(n->key);
	free(n);
}

static struct ckpt_node *find_id(struct nodes *t, uint64_t id)
{
	struct ckpt_node *n;

	HASH_FIND(by_id, t->by_id, &id, sizeof(id), n);
	return n;
}

static struct ckpt_node *find_key(struct nodes *t, const char *key)
{
	struct ckpt_node *n;

	HASH_FIND(by_name, t->by_name, key, strlen(key), n);
	return n;
}

/* Takes `key`, which no node has. */
static int set_name(struct nodes *t, struct ckpt_node *n,
		    struct ckpt_node *parent, char *key)
{
	HASH_ADD_KEYPTR(by_name, t->by_name, key, strlen(key), n);
	if (!n->by_name.tbl) {
		free(key);
		return -ENOMEM;
	}
	n->key = key;
	n->parent = parent;
	parent->n_users++;
	return 0;
}

static void drop_node(struct nodes *t, struct ckpt_node *n);

static void unset_name(struct nodes *t, struct ckpt_node *n)
{
	struct ckpt_node *parent = n->parent;

	if (!parent)
		return;
	HASH_DELETE(by_name, t->by_name, n);
	n->by_name.tbl = NULL;
	n->parent = NULL;
	parent->n_users--;
	drop_node(t, parent);
}

/* ------------------------------------------------------------------ the journal --- */

/* Append a record. One that cannot be written is not known to a successor, which is no
 * failure now. */
static void journal_append(struct nodes *t, const struct buf *record)
{
	if (t->journal_fd < 0)
		return;
	if (fs_pwrite_full(t->journal_fd, record->data, record->len,
			   t->journal_len) == 0)
		t->journal_len += record->len;
}

static int record_version(const struct ckpt_node *n, struct buf *out)
{
	int rc = buf_printf(out, "V%" PRIx64 " %" PRIx64 " %" PRIx64, n->id,
			    n->read_version, n->read_size);

	return rc < 0 ? rc : buf_append(out, "", 1);
}

static int record_change(const struct ckpt_node *n, struct buf *out)
{
	int rc = buf_printf(out, "T%" PRIx64 " %" PRIx64, n->id,
			    (uint64_t)atomic_load(&n->changed_ns));

	return rc < 0 ? rc : buf_append(out, "", 1);
}

static int record_of(const struct ckpt_node *n, struct buf *out)
{
	char kind = n->is_folder ? 'd' : n->is_staged ? 's' : 'f';
	int rc = buf_printf(out, "A%" PRIx64 " %c %s", n->id, kind,
			    n->parent ? n->key : "");

	if (rc == 0)
		rc = buf_append(out, "", 1);
	if (rc == 0 && atomic_load(&n->changed_ns))
		rc = record_change(n, out);
	return rc == 0 && n->read_version ? record_version(n, out) : rc;
}

/* All living nodes once more, behind what is there; that is given back then. */
static void journal_renew(struct nodes *t)
{
	uint64_t before = t->journal_len;
	AUTO_BUF all = BUF_INIT;
	struct ckpt_node *n, *next;

	if (buf_append(&all, "R", 2) < 0)
		return;
	HASH_ITER(by_id, t->by_id, n, next)
	if (n != t->root && record_of(n, &all) < 0)
		return;
	if (atomic_load(&t->root->changed_ns) &&
	    record_change(t->root, &all) < 0)
		return;
	journal_append(t, &all);
	if (t->journal_len == before)
		return;
	t->journal_live = all.len;
	(void)fallocate(t->journal_fd,
			FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			(off_t)before);
}

static void journal_put(struct nodes *t, const struct buf *record, bool is_live)
{
	journal_append(t, record);
	t->journal_live += is_live ? record->len : 0;
	if (t->journal_len > JOURNAL_MIN &&
	    HASH_CNT(by_id, t->by_id) * 512ull < t->journal_live)
		journal_renew(t);
}

static void journal_node(struct nodes *t, const struct ckpt_node *n,
			 bool is_there)
{
	AUTO_BUF record = BUF_INIT;
	int rc;

	if (is_there) {
		rc = record_of(n, &record);
	} else {
		rc = buf_printf(&record, "D%" PRIx64, n->id);
		if (rc == 0)
			rc = buf_append(&record, "", 1);
	}
	if (rc == 0)
		journal_put(t, &record, is_there);
}

/* ------------------------------------------------------------------------- life --- */

static bool is_wanted(const struct ckpt_node *n)
{
	return n->n_users || n->n_lookups;
}

static void drop_node(struct nodes *t, struct ckpt_node *n)
{
	if (n == t->root || is_wanted(n))
		return;
	journal_node(t, n, false);
	HASH_DELETE(by_id, t->by_id, n);
	unset_name(t, n);
	node_free(n);
}

static struct ckpt_node *add_node(struct nodes *t, uint64_t id, bool is_folder)
{
	struct ckpt_node *n = node_new(id, is_folder);

	if (!n)
		return NULL;
	HASH_ADD(by_id, t->by_id, id, sizeof(n->id), n);
	if (!n->by_id.tbl) {
		node_free(n);
		return NULL;
	}
	return n;
}

static struct ckpt_node *add_named(struct nodes *t, struct ckpt_node *parent,
				   const char *name, bool is_folder)
{
	char *key = key_of(parent, name);
	struct ckpt_node *n = key ? add_node(t, ++t->last_id, is_folder) : NULL;

	if (!n) {
		free(key);
		return NULL;
	}
	if (set_name(t, n, parent, key) < 0) {
		HASH_DELETE(by_id, t->by_id, n);
		node_free(n);
		return NULL;
	}
	journal_node(t, n, true);
	return n;
}

struct ckpt_node *node_get(struct nodes *t, uint64_t id)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct ckpt_node *n = find_id(t, id);

	if (n)
		n->n_users++;
	return n;
}

void node_use(struct nodes *t, struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	n->n_users++;
}

void node_put(struct nodes *t, struct ckpt_node *n)
{
	if (!n)
		return;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	n->n_users--;
	drop_node(t, n);
}

struct ckpt_node *node_find(struct nodes *t, struct ckpt_node *parent,
			    const char *name)
{
	AUTO_FREE char *key = key_of(parent, name);
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct ckpt_node *n = key ? find_key(t, key) : NULL;

	if (n)
		n->n_users++;
	return n;
}

struct ckpt_node *node_make(struct nodes *t, struct ckpt_node *parent,
			    const char *name, bool is_folder)
{
	AUTO_FREE char *key = key_of(parent, name);
	struct ckpt_node *n;

	if (!key)
		return NULL;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	n = find_key(t, key);
	if (n && n->is_folder != is_folder) {
		unset_name(t, n);
		journal_node(t, n, true);
		n = NULL;
	}
	if (!n)
		n = add_named(t, parent, name, is_folder);
	if (n)
		n->n_users++;
	return n;
}

void node_looked_up(struct nodes *t, struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	n->n_lookups++;
}

void node_forget(struct nodes *t, uint64_t id, uint64_t n_lookups)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct ckpt_node *n = find_id(t, id);

	if (n && n->n_lookups < LOOKUPS_UNKNOWN) {
		n->n_lookups -=
			n_lookups < n->n_lookups ? n_lookups : n->n_lookups;
		drop_node(t, n);
	}
}

void node_detach(struct nodes *t, struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	unset_name(t, n);
	journal_node(t, n, true);
}

void node_rename(struct nodes *t, struct ckpt_node *n, struct ckpt_node *parent,
		 const char *name)
{
	char *key = key_of(parent, name);
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct ckpt_node *before = key ? find_key(t, key) : NULL;

	n->n_steps++;
	if (before && before != n) {
		before->n_steps++;
		unset_name(t, before);
		journal_node(t, before, true);
	}
	unset_name(t, n);
	free(n->key);
	n->key = NULL;
	if (key)
		(void)set_name(t, n, parent, key);
	journal_node(t, n, true);
}

/* ------------------------------------------------------------------------ state --- */

/* With the lock. */
static void lose_node(struct nodes *t, struct ckpt_node *n, int rc,
		      const char *why)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	if (!n->lost_rc) {
		n->n_users++;
		atomic_fetch_add(&t->n_lost, 1);
	}
	/* Errors of rights are not passed on: the store has looked at another's than
	 * those of who asks now. */
	n->lost_rc = rc == -ENOSPC || rc == -EDQUOT ? rc : -EIO;
	free(n->lost_why);
	n->lost_why = strdup(why);
	if (n->lost_why) {
		text_end_whole(n->lost_why);
		text_make_printable(n->lost_why);
	}
}

void node_set_staged(struct nodes *t, struct ckpt_node *n, bool is_staged)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	if (n->is_staged != is_staged) {
		n->is_staged = is_staged;
		journal_node(t, n, true);
	}
}

void node_set_read_version(struct nodes *t, struct ckpt_node *n,
			   uint64_t version, uint64_t size)
{
	AUTO_BUF record = BUF_INIT;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	if (!n->is_kept && n->read_version != version) {
		n->read_version = version;
		n->read_size = size;
		if (record_version(n, &record) == 0)
			journal_put(t, &record, true);
	}
}

void node_note_change(struct nodes *t, struct ckpt_node *folder)
{
	AUTO_BUF record = BUF_INIT;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	atomic_store(&folder->changed_ns, clock_wall_ns());
	if (record_change(folder, &record) == 0)
		journal_put(t, &record, true);
}

void node_lose(struct nodes *t, struct ckpt_node *n, int rc, const char *why)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	lose_node(t, n, rc, why);
}

void node_forget_loss(struct nodes *t, struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	AUTO_UNLOCK held_seen = mutex_hold(&n->seen);

	if (n->lost_rc) {
		n->n_users--;
		atomic_fetch_sub(&t->n_lost, 1);
	}
	n->lost_rc = 0;
	free(steal_ptr(&n->lost_why));
	if (n->is_staged) {
		n->is_staged = false;
		journal_node(t, n, true);
	}
}

/* ------------------------------------------------------------------------ paths --- */

static int path_of(struct nodes *t, const struct ckpt_node *n, struct buf *out)
{
	int rc;

	if (n == t->root)
		return 0;
	if (!n->parent)
		return -ENOENT;
	rc = path_of(t, n->parent, out);
	if (rc == 0 && out->len)
		rc = buf_puts(out, "/");
	return rc < 0 ? rc : buf_puts(out, node_name(n));
}

int nodes_path_locked(struct nodes *t, const struct ckpt_node *n,
		      struct buf *out)
{
	int rc = path_of(t, n, out);

	/* An empty path is text, too. */
	return rc < 0 ? rc : buf_puts(out, "");
}

int node_path(struct nodes *t, struct ckpt_node *n, struct buf *out)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	return nodes_path_locked(t, n, out);
}

int node_path_below(struct nodes *t, struct ckpt_node *n, const char *name,
		    struct buf *out)
{
	int rc = node_path(t, n, out);

	if (rc == 0 && out->len)
		rc = buf_puts(out, "/");
	return rc < 0 ? rc : buf_puts(out, name);
}

int node_last_path(struct nodes *t, struct ckpt_node *n, struct buf *out)
{
	struct ckpt_node *parent = NULL;
	int rc = -ENOENT;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	if (n->key)
		parent = find_id(t, strtoull(n->key, NULL, 16));
	if (parent)
		rc = path_of(t, parent, out);
	if (rc == 0 && out->len)
		rc = buf_puts(out, "/");
	if (rc == 0)
		rc = buf_puts(out, node_name(n));
	return rc;
}

const char *node_path_shown(struct nodes *t, struct ckpt_node *n,
			    struct buf *room)
{
	buf_reset(room);
	if (node_path(t, n, room) == 0 && room->len)
		return room->data;
	buf_reset(room);
	return node_last_path(t, n, room) == 0 && room->len ? room->data : "?";
}

struct ckpt_node *node_successor(struct nodes *t, const struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct ckpt_node *now = n->key ? find_key(t, n->key) : NULL;

	if (now)
		now->n_users++;
	return now;
}

void nodes_each(struct nodes *t, const struct ckpt_node *parent, nodes_fn *fn,
		void *arg)
{
	struct ckpt_node *n, *next;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	HASH_ITER(by_name, t->by_name, n, next)
	if (!parent || n->parent == parent)
		fn(arg, n);
}

/* ---------------------------------------------------------------------- restart --- */

static void forget_all(struct nodes *t)
{
	struct ckpt_node *n, *next;

	HASH_ITER(by_id, t->by_id, n, next)
	{
		HASH_DELETE(by_id, t->by_id, n);
		if (n->parent)
			HASH_DELETE(by_name, t->by_name, n);
		node_free(n);
	}
}

/* "ID KIND KEY": parents come before what is in them, but for those that were moved:
 * names are set when all nodes are there. */
static void replay_add(struct nodes *t, const char *text)
{
	char *end;
	uint64_t id = strtoull(text, &end, 16);
	struct ckpt_node *n = find_id(t, id);

	if (!id || id == NODE_ROOT || end[0] != ' ' || !end[1] || end[2] != ' ')
		return;
	if (!n)
		n = add_node(t, id, end[1] == 'd');
	if (!n)
		return;
	free(n->key);
	n->key = strlen(end + 3) > KEY_PREFIX ? strdup(end + 3) : NULL;
	n->n_lookups = LOOKUPS_UNKNOWN;
	n->is_staged = end[1] == 's';
	n->is_inherited = true;
	if (id > t->last_id)
		t->last_id = id;
}

/* "ID VERSION SIZE".  The kernel is told no other size: it would end reads there. */
static void replay_version(struct nodes *t, const char *text)
{
	char *end;
	struct ckpt_node *n = find_id(t, strtoull(text, &end, 16));

	if (!n || n == t->root || *end != ' ')
		return;
	n->read_version = strtoull(end + 1, &end, 16);
	n->is_kept = n->read_version != 0;
	n->read_size = strtoull(end, NULL, 16);
	n->readers_size = n->is_kept ? n->read_size : SIZE_UNKNOWN;
}

/* "ID TIME" */
static void replay_change(struct nodes *t, const char *text)
{
	char *end;
	struct ckpt_node *n = find_id(t, strtoull(text, &end, 16));

	if (n && *end == ' ')
		atomic_store(&n->changed_ns,
			     (int64_t)strtoull(end + 1, NULL, 16));
}

static void replay_remove(struct nodes *t, const char *text)
{
	uint64_t id = strtoull(text, NULL, 16);
	struct ckpt_node *n = id == NODE_ROOT ? NULL : find_id(t, id);

	if (!n)
		return;
	HASH_DELETE(by_id, t->by_id, n);
	node_free(n);
}

static void replay_names(struct nodes *t)
{
	struct ckpt_node *n, *next;

	HASH_ITER(by_id, t->by_id, n, next)
	{
		char *key = n->key;
		struct ckpt_node *parent =
			key ? find_id(t, strtoull(key, NULL, 16)) : NULL;

		n->key = NULL;
		if (!key || !parent || find_key(t, key))
			free(key);
		else if (set_name(t, n, parent, key) < 0)
			continue;
		if (n->is_staged && n->parent)
			lose_node(
				t, n, -EIO,
				"the mount was restarted before it was stored");
	}
}

static void replay_journal(struct nodes *t, const char *data, size_t len)
{
	struct ckpt_node *n, *next;

	for (size_t at = 0; at < len; at += strlen(data + at) + 1) {
		if (data[at] == 'A')
			replay_add(t, data + at + 1);
		else if (data[at] == 'V')
			replay_version(t, data + at + 1);
		else if (data[at] == 'T')
			replay_change(t, data + at + 1);
		else if (data[at] == 'D')
			replay_remove(t, data + at + 1);
		if (data[at] != 'R')
			continue;
		HASH_ITER(by_id, t->by_id, n, next)
		{
			if (n == t->root)
				continue;
			HASH_DELETE(by_id, t->by_id, n);
			node_free(n);
		}
	}
	replay_names(t);
}

/* The start of the journal. Nodes given back before the last renewal are a hole at its
 * begin, so that its size says nothing of what there is to read. */
static uint64_t journal_start(int fd, uint64_t size)
{
	off_t start = lseek(fd, 0, SEEK_DATA);

	return start < 0 ? size : (uint64_t)start;
}

static int read_journal(struct nodes *t, struct error *err)
{
	AUTO_BUF data = BUF_INIT;
	uint64_t start, len;
	const char *last;
	struct stat st;
	int rc;

	if (t->journal_fd < 0 || fstat(t->journal_fd, &st) < 0 ||
	    st.st_size == 0)
		return 0;
	t->journal_len = (uint64_t)st.st_size;
	/* Each id that was given took some bytes: none is given twice, whatever can be
	 * read, for the kernel would take one file for the other. */
	t->last_id = t->journal_len;
	start = journal_start(t->journal_fd, t->journal_len);
	len = t->journal_len - start;
	if (len > JOURNAL_MAX)
		return 0;
	if (buf_reserve(&data, (size_t)len) < 0)
		return error_nomem(err);
	rc = fs_pread_full(t->journal_fd, data.data, (size_t)len, start);
	if (rc < 0)
		return error_set(err, -rc, "kept names: %s", strerror(-rc));
	/* The last record is cut when its writer was killed: half a name is another
	 * file's. */
	last = memrchr(data.data, '\0', (size_t)len);
	len = last ? (uint64_t)(last - data.data) + 1 : 0;
	t->journal_len = start + len;
	if (ftruncate(t->journal_fd, (off_t)t->journal_len) < 0)
		return error_set(err, errno, "kept names: %s", strerror(errno));
	replay_journal(t, data.data, (size_t)len);
	return 0;
}

/* A rename does not wait for those that come after it. */
static void init_paths(struct nodes *t)
{
	pthread_rwlockattr_t attr;

	(void)pthread_rwlockattr_init(&attr);
	(void)pthread_rwlockattr_setkind_np(
		&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	(void)pthread_rwlock_init(&t->paths, &attr);
	(void)pthread_rwlockattr_destroy(&attr);
}

int nodes_init(struct nodes *t, int journal_fd, struct error *err)
{
	int rc;

	*t = (struct nodes){ .journal_fd = journal_fd, .last_id = NODE_ROOT };
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_mutex_init(&t->commits, NULL);
	(void)pthread_cond_init(&t->committed, NULL);
	init_paths(t);
	t->root = add_node(t, NODE_ROOT, true);
	rc = t->root ? read_journal(t, err) : error_nomem(err);
	if (rc == 0)
		journal_renew(t);
	return rc;
}

void nodes_fini(struct nodes *t)
{
	forget_all(t);
	(void)pthread_rwlock_destroy(&t->paths);
	(void)pthread_cond_destroy(&t->committed);
	(void)pthread_mutex_destroy(&t->commits);
	(void)pthread_mutex_destroy(&t->lock);
}
