// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"

#define JOURNAL_MIN (1u << 20) /* bytes; a shorter journal is not rewritten */
#define JOURNAL_MAX (1u << 30) /* bytes of a journal that are read at most */
/* Look-ups of a node from the previous process: the kernel's count is unknown. */
#define LOOKUPS_UNKNOWN (UINT64_C(1) << 62)
#define KEY_PREFIX 17u /* 16 digits and a slash */

/* -------------------------------------------------------------------- the table --- */

static char *make_node_key(const struct ckpt_node *parent, const char *name)
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

static struct ckpt_node *node_new(struct nodes *t, uint64_t id, bool is_folder)
{
	struct ckpt_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->table = t;
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

/* Set the node's name; takes `key`, which no other node may have. */
static int set_name(struct ckpt_node *n, struct ckpt_node *parent, char *key)
{
	HASH_ADD_KEYPTR(by_name, n->table->by_name, key, strlen(key), n);
	if (!n->by_name.tbl) {
		free(key);
		return -ENOMEM;
	}
	n->key = key;
	n->parent = parent;
	parent->n_users++;
	return 0;
}

static void drop_node(struct ckpt_node *n);

static void unset_name(struct ckpt_node *n)
{
	struct ckpt_node *parent = n->parent;

	if (!parent)
		return;
	HASH_DELETE(by_name, n->table->by_name, n);
	n->by_name.tbl = NULL;
	n->parent = NULL;
	parent->n_users--;
	drop_node(parent);
}

/* ------------------------------------------------------------------ the journal --- */

/*
 * The journal consists of records, each ended by a NUL. If a record cannot be written, that is no
 * failure yet: the whole journal is rewritten with the next record, since the next process would
 * otherwise take old names for those of other files.
 *   A ID KIND VERSION SIZE TIME KEY   state of a node from here on
 *   D ID                              the node is gone
 *   B NUMBER, E NUMBER                a change of names was begun; was answered
 *   R                                 earlier records are void
 */
static void journal_append(struct nodes *t, const char *data, size_t len)
{
	if (t->journal_fd < 0)
		return;
	if (fs_pwrite_full(t->journal_fd, data, len, t->journal_len) == 0) {
		t->journal_len += len;
		return;
	}
	t->is_journal_behind = true;
	/* Cut off a partial record, which would be read as the begin of the next. */
	(void)!ftruncate(t->journal_fd, (off_t)t->journal_len);
}

static int record_node(const struct ckpt_node *n, struct buf *out)
{
	const char kind = n->is_folder ? 'd' : n->is_staged ? 's' : 'f';
	int rc = buf_printf(out,
			    "A%" PRIx64 " %c %" PRIx64 " %" PRIx64 " %" PRIx64
			    " %s",
			    n->id, kind, n->read_version, n->read_size,
			    (uint64_t)atomic_load(&n->changed_ns),
			    n->parent ? n->key : "");

	return rc < 0 ? rc : buf_append(out, "", 1);
}

static int record_number(char kind, uint64_t number, struct buf *out)
{
	int rc = buf_printf(out, "%c%" PRIx64, kind, number);

	return rc < 0 ? rc : buf_append(out, "", 1);
}

/* Rewrite the journal: append all that the next process needs, then free the earlier part. */
static void journal_renew(struct nodes *t)
{
	const uint64_t before = t->journal_len;
	AUTO_BUF all = BUF_INIT;
	struct ckpt_node *n, *next;
	int rc = buf_append(&all, "R", 2);

	for (size_t i = 0; i < t->n_begun && rc == 0; i++)
		rc = record_number('B', t->begun[i].request, &all);
	HASH_ITER(by_id, t->by_id, n, next)
	if (rc == 0)
		rc = record_node(n, &all);
	if (rc == 0)
		journal_append(t, all.data, all.len);
	if (t->journal_len == before)
		return;
	t->journal_live = all.len;
	t->is_journal_behind = false;
	(void)fallocate(t->journal_fd,
			FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			(off_t)before);
}

static void journal_put(struct nodes *t, const struct buf *record, bool is_live)
{
	const bool was_behind = t->is_journal_behind;

	journal_append(t, record->data, record->len);
	t->journal_live += is_live ? record->len : 0;
	if (was_behind ||
	    (t->journal_len > JOURNAL_MIN &&
	     HASH_CNT(by_id, t->by_id) * 512ull < t->journal_live))
		journal_renew(t);
}

/* Write the node's new state to the journal. */
static void journal_node(const struct ckpt_node *n)
{
	AUTO_BUF record = BUF_INIT;

	if (record_node(n, &record) == 0)
		journal_put(n->table, &record, true);
}

static void journal_number(struct nodes *t, char kind, uint64_t number)
{
	AUTO_BUF record = BUF_INIT;

	if (record_number(kind, number, &record) == 0)
		journal_put(t, &record, kind == 'B');
}

/* ------------------------------------------------------------------------- life --- */

static bool is_wanted(const struct ckpt_node *n)
{
	return n->n_users || n->n_lookups;
}

static void drop_node(struct ckpt_node *n)
{
	struct nodes *t = n->table;

	if (n == t->root || is_wanted(n))
		return;
	HASH_DELETE(by_id, t->by_id, n);
	journal_number(t, 'D', n->id);
	unset_name(n);
	node_free(n);
}

static struct ckpt_node *add_node(struct nodes *t, uint64_t id, bool is_folder)
{
	struct ckpt_node *n = node_new(t, id, is_folder);

	if (!n)
		return NULL;
	HASH_ADD(by_id, t->by_id, id, sizeof(n->id), n);
	if (!n->by_id.tbl) {
		node_free(n);
		return NULL;
	}
	return n;
}

static struct ckpt_node *add_named(struct ckpt_node *parent, const char *name,
				   bool is_folder)
{
	struct nodes *t = parent->table;
	char *key = make_node_key(parent, name);
	struct ckpt_node *n = key ? add_node(t, ++t->last_id, is_folder) : NULL;

	if (!n) {
		free(key);
		return NULL;
	}
	if (set_name(n, parent, key) < 0) {
		HASH_DELETE(by_id, t->by_id, n);
		node_free(n);
		return NULL;
	}
	journal_node(n);
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

void node_use(struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);

	n->n_users++;
}

void node_put(struct ckpt_node *n)
{
	if (!n)
		return;
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);

	n->n_users--;
	drop_node(n);
}

/* With the lock. */
static struct ckpt_node *get_node_by_key(struct nodes *t, const char *key)
{
	struct ckpt_node *n = key ? find_key(t, key) : NULL;

	if (n)
		n->n_users++;
	return n;
}

struct ckpt_node *node_find(struct ckpt_node *parent, const char *name)
{
	AUTO_FREE char *key = make_node_key(parent, name);
	AUTO_UNLOCK held = mutex_hold(&parent->table->lock);

	return get_node_by_key(parent->table, key);
}

struct ckpt_node *node_successor(const struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);

	return get_node_by_key(n->table, n->key);
}

struct ckpt_node *node_make(struct ckpt_node *parent, const char *name,
			    bool is_folder)
{
	AUTO_FREE char *key = make_node_key(parent, name);
	AUTO_UNLOCK held = mutex_hold(&parent->table->lock);
	struct ckpt_node *n = get_node_by_key(parent->table, key);

	if (n && n->is_folder != is_folder) {
		n->n_users--;
		unset_name(n);
		journal_node(n);
		n = NULL;
	}
	if (n || !key)
		return n;
	n = add_named(parent, name, is_folder);
	if (n)
		n->n_users++;
	return n;
}

void node_looked_up(struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);

	n->n_lookups++;
}

void node_forget(struct nodes *t, uint64_t id, uint64_t n_lookups)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct ckpt_node *n = find_id(t, id);

	if (n && n->n_lookups < LOOKUPS_UNKNOWN) {
		n->n_lookups -=
			n_lookups < n->n_lookups ? n_lookups : n->n_lookups;
		drop_node(n);
	}
}

/* With the lock. */
static void detach_node(struct ckpt_node *n)
{
	unset_name(n);
	journal_node(n);
}

void node_detach(struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);

	detach_node(n);
}

void node_rename(struct ckpt_node *n, struct ckpt_node *parent,
		 const char *name)
{
	struct nodes *t = n->table;
	char *key = make_node_key(parent, name);
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	struct ckpt_node *before = key ? find_key(t, key) : NULL;

	n->n_steps++;
	if (before && before != n) {
		before->n_steps++;
		detach_node(before);
	}
	unset_name(n);
	free(n->key);
	n->key = NULL;
	if (key)
		(void)set_name(n, parent, key);
	journal_node(n);
}

/* ------------------------------------------------------------------------ state --- */

/* With the lock. */
static void mark_node_lost(struct ckpt_node *n, int rc, const char *why)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	if (!n->lost_rc) {
		n->n_users++;
		atomic_fetch_add(&n->table->n_lost, 1);
	}
	/* Do not report errors of permission, which concerned another user than the one who asks
	 * now. */
	n->lost_rc = rc == -ENOSPC || rc == -EDQUOT ? rc : -EIO;
	free(n->lost_why);
	n->lost_why = strdup(why);
	if (n->lost_why) {
		text_end_whole(n->lost_why);
		text_make_printable(n->lost_why);
	}
}

void node_set_staged(struct ckpt_node *n, bool is_staged)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);

	if (n->is_staged == is_staged)
		return;
	n->is_staged = is_staged;
	journal_node(n);
}

void node_set_read_version(struct ckpt_node *n, uint64_t version, uint64_t size)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);

	if (n->is_kept || n->read_version == version)
		return;
	n->read_version = version;
	n->read_size = size;
	journal_node(n);
}

void node_note_change(struct ckpt_node *folder)
{
	AUTO_UNLOCK held = mutex_hold(&folder->table->lock);

	atomic_store(&folder->changed_ns, clock_wall_ns());
	journal_node(folder);
}

void node_lose(struct ckpt_node *n, int rc, const char *why)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);

	mark_node_lost(n, rc, why);
}

void node_forget_loss(struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);
	AUTO_UNLOCK held_seen = mutex_hold(&n->seen);

	if (n->lost_rc) {
		n->n_users--;
		atomic_fetch_sub(&n->table->n_lost, 1);
	}
	n->lost_rc = 0;
	free(steal_ptr(&n->lost_why));
	if (n->is_staged) {
		n->is_staged = false;
		journal_node(n);
	}
}

/* ------------------------------------------------------ changes that were begun --- */

/* Index of the change, or n_begun: not found. Called with the lock held. */
static size_t find_begun_change(const struct nodes *t, uint64_t request)
{
	size_t i = 0;

	while (i < t->n_begun && t->begun[i].request != request)
		i++;
	return i;
}

/* With the lock. */
static void drop_begun_change(struct nodes *t, size_t i)
{
	t->n_begun--;
	memmove(&t->begun[i], &t->begun[i + 1],
		(t->n_begun - i) * sizeof(t->begun[0]));
}

/* Note a begun change; the oldest is dropped if there is no room, since the kernel no longer asks
 * for one that was answered at the moment of a kill. A change begun by an earlier process keeps
 * that property for each later process. False: it is noted already. Called with the lock held. */
static bool add_begun_change(struct nodes *t, uint64_t request,
			     bool is_predecessors)
{
	if (!request || find_begun_change(t, request) < t->n_begun)
		return false;
	if (t->n_begun == NODES_BEGUN_MAX)
		drop_begun_change(t, 0);
	t->begun[t->n_begun++] =
		(struct begun_change){ .request = request,
				       .is_predecessors = is_predecessors };
	return true;
}

void nodes_begin_change(struct nodes *t, uint64_t request)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	if (add_begun_change(t, request, false))
		journal_number(t, 'B', request);
}

bool nodes_was_begun(struct nodes *t, uint64_t request)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	const size_t i = find_begun_change(t, request);

	return i < t->n_begun && t->begun[i].is_predecessors;
}

void nodes_end_change(struct nodes *t, uint64_t request)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	const size_t i = find_begun_change(t, request);

	if (i == t->n_begun)
		return;
	drop_begun_change(t, i);
	journal_number(t, 'E', request);
}

/* ------------------------------------------------------------------------ paths --- */

static int path_of(const struct ckpt_node *n, struct buf *out)
{
	int rc;

	if (n == n->table->root)
		return 0;
	if (!n->parent)
		return -ENOENT;
	rc = path_of(n->parent, out);
	if (rc == 0 && out->len)
		rc = buf_puts(out, "/");
	return rc < 0 ? rc : buf_puts(out, node_name(n));
}

int nodes_path_locked(const struct ckpt_node *n, struct buf *out)
{
	int rc = path_of(n, out);

	/* Terminate the text also if the path is empty. */
	return rc < 0 ? rc : buf_puts(out, "");
}

int node_path(struct ckpt_node *n, struct buf *out)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);

	return nodes_path_locked(n, out);
}

int node_path_below(struct ckpt_node *n, const char *name, struct buf *out)
{
	int rc = node_path(n, out);

	if (rc == 0 && out->len)
		rc = buf_puts(out, "/");
	return rc < 0 ? rc : buf_puts(out, name);
}

int node_last_path(struct ckpt_node *n, struct buf *out)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->lock);
	struct ckpt_node *parent =
		n->key ? find_id(n->table, strtoull(n->key, NULL, 16)) : NULL;
	int rc = parent ? path_of(parent, out) : -ENOENT;

	if (rc == 0 && out->len)
		rc = buf_puts(out, "/");
	return rc < 0 ? rc : buf_puts(out, node_name(n));
}

const char *node_path_shown(struct ckpt_node *n, struct buf *room)
{
	buf_reset(room);
	if (node_path(n, room) == 0 && room->len)
		return room->data;
	buf_reset(room);
	return node_last_path(n, room) == 0 && room->len ? room->data : "?";
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

static void free_all_nodes(struct nodes *t)
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

/* Restore a node. Names are set after all nodes are restored, because a moved node may come before
 * its new parent. */
static void replay_node(struct nodes *t, const char *text)
{
	uint64_t id = 0, version, size, changed;
	struct ckpt_node *n;
	int key_at = 0;
	char kind;

	/* Restore the version's size: the kernel must not be given another one, at which it would
	 * end reads. */
	if (sscanf(text,
		   "%" SCNx64 " %c %" SCNx64 " %" SCNx64 " %" SCNx64 " %n", &id,
		   &kind, &version, &size, &changed, &key_at) < 5 ||
	    !id || !key_at)
		return;
	n = find_id(t, id);
	if (!n)
		n = add_node(t, id, kind == 'd');
	if (!n)
		return;
	atomic_store(&n->changed_ns, (int64_t)changed);
	if (n == t->root)
		return;
	free(n->key);
	n->key = strlen(text + key_at) > KEY_PREFIX ? strdup(text + key_at)
						    : NULL;
	n->n_lookups = LOOKUPS_UNKNOWN;
	n->is_staged = kind == 's';
	n->is_inherited = true;
	n->may_have_pages = true;
	n->read_version = version;
	n->is_kept = version != 0;
	n->read_size = size;
	n->readers_size = n->is_kept ? size : SIZE_UNKNOWN;
	if (id > t->last_id)
		t->last_id = id;
}

static void replay_remove(struct nodes *t, uint64_t id)
{
	struct ckpt_node *n = id == NODE_ROOT ? NULL : find_id(t, id);

	if (!n)
		return;
	HASH_DELETE(by_id, t->by_id, n);
	node_free(n);
}

static void replay_renewal(struct nodes *t)
{
	struct ckpt_node *n, *next;

	t->n_begun = 0;
	HASH_ITER(by_id, t->by_id, n, next)
	replay_remove(t, n->id);
}

static void replay_node_names(struct nodes *t)
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
		else if (set_name(n, parent, key) < 0)
			continue;
		if (n->is_staged && n->parent)
			mark_node_lost(
				n, -EIO,
				"the mount was restarted before it was stored");
	}
}

static void replay_record(struct nodes *t, const char *record)
{
	const uint64_t number = strtoull(record + 1, NULL, 16);

	if (*record == 'A')
		replay_node(t, record + 1);
	else if (*record == 'D')
		replay_remove(t, number);
	else if (*record == 'B')
		(void)add_begun_change(t, number, true);
	else if (*record == 'E' && find_begun_change(t, number) < t->n_begun)
		drop_begun_change(t, find_begun_change(t, number));
	else if (*record == 'R')
		replay_renewal(t);
}

/* Find the start of the journal. The part freed by the last rewrite is a hole, so the file's size
 * is not the number of bytes to read. */
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
	/* The journal's length exceeds every id given so far, since each took some bytes. So no id
	 * is reused even if the journal is damaged; the kernel would confuse two files. */
	t->last_id = t->journal_len;
	start = journal_start(t->journal_fd, t->journal_len);
	len = t->journal_len - start;
	if (len > JOURNAL_MAX)
		return 0;
	if (buf_reserve(&data, (size_t)len) < 0)
		return error_nomem(err);
	rc = fs_pread_full(t->journal_fd, data.data, (size_t)len, start);
	if (rc < 0)
		return error_errno(err, -rc, "kept names");
	/* Ignore an incomplete last record of a killed process: half a name may be another
	 * file's. */
	last = memrchr(data.data, '\0', (size_t)len);
	len = last ? (uint64_t)(last - data.data) + 1 : 0;
	t->journal_len = start + len;
	if (ftruncate(t->journal_fd, (off_t)t->journal_len) < 0)
		return error_errno(err, errno, "kept names");
	for (size_t at = 0; at < len; at += strlen(data.data + at) + 1)
		replay_record(t, data.data + at);
	replay_node_names(t);
	return 0;
}

/* Initialise `paths` so that a waiting rename is preferred to later readers. */
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
	TAILQ_INIT(&t->under_way);
	init_paths(t);
	t->root = add_node(t, NODE_ROOT, true);
	rc = t->root ? read_journal(t, err) : error_nomem(err);
	if (rc == 0)
		journal_renew(t);
	return rc;
}

void nodes_fini(struct nodes *t)
{
	free_all_nodes(t);
	(void)pthread_rwlock_destroy(&t->paths);
	(void)pthread_cond_destroy(&t->committed);
	(void)pthread_mutex_destroy(&t->commits);
	(void)pthread_mutex_destroy(&t->lock);
}
