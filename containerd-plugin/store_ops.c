// SPDX-License-Identifier: Apache-2.0
/* Operations of the store; each function is one transaction. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "containerd-plugin/store_priv.h"

#define CHAIN_MAX 1024 /* layers below a snapshot */

static void bind_text(sqlite3_stmt *st, int i, const char *text)
{
	sqlite3_bind_text(st, i, text, -1, SQLITE_TRANSIENT);
}

static void bind_id(sqlite3_stmt *st, int i, uint64_t id)
{
	if (id)
		sqlite3_bind_int64(st, i, (sqlite3_int64)id);
}

static void bind_digest(sqlite3_stmt *st, int i, const struct digest *d)
{
	sqlite3_bind_blob(st, i, d->b, DIGEST_SIZE, SQLITE_TRANSIENT);
}

static int bind_labels(sqlite3_stmt *st, int i, const struct labels *l,
		       struct error *err)
{
	AUTO_BUF b = BUF_INIT;

	if (labels_encode(l, &b) < 0)
		return error_nomem(err);
	/* A NULL pointer would bind NULL instead of an empty value. */
	sqlite3_bind_blob(st, i, b.len ? b.data : "", (int)b.len,
			  SQLITE_TRANSIENT);
	return 0;
}

/* Get the row of a query for one snapshot. */
static int get_row(struct store *s, sqlite3_stmt *st, struct snapshot *ret,
		   struct error *err)
{
	int rc = store_step(s, st, err);

	if (rc == 0)
		return -ENOENT;
	if (rc > 0)
		rc = store_row(st, ret, err);
	sqlite3_reset(st);
	return rc;
}

static int get_snapshot_by_name(struct store *s, const char *name,
				struct snapshot *ret, struct error *err)
{
	sqlite3_stmt *st = store_query(s, QUERY_BY_NAME);
	int rc;

	bind_text(st, 1, name);
	rc = get_row(s, st, ret, err);
	if (rc == -ENOENT)
		return error_set(err, ENOENT, "snapshot '%s' does not exist",
				 name);
	return rc;
}

int store_get(struct store *s, const char *name, struct snapshot *ret,
	      struct error *err)
{
	int rc = store_begin_read(s, err), end;

	if (rc < 0)
		return rc;
	rc = get_snapshot_by_name(s, name, ret, err);
	end = store_end_read(s, rc);
	if (rc == 0 && end < 0)
		snapshot_fini(ret);
	return end;
}

/* Make room for another entry in an array whose capacity is a power of two. */
static int grow_list(struct snapshot **v, size_t n, struct error *err)
{
	struct snapshot *more;

	if (n & (n - 1))
		return 0;
	more = realloc(*v, (n ? n * 2 : 1) * sizeof(**v));
	if (!more)
		return error_nomem(err);
	*v = more;
	return 0;
}

static int list_chain(struct store *s, const char *name, struct snapshot **v,
		      size_t *n, struct error *err)
{
	uint64_t next;
	int rc = grow_list(v, 0, err);

	if (rc == 0)
		rc = get_snapshot_by_name(s, name, &(*v)[0], err);
	if (rc < 0)
		return rc;
	*n = 1;
	while ((next = (*v)[*n - 1].parent_id)) {
		sqlite3_stmt *st = store_query(s, QUERY_BY_ID);

		if (*n > CHAIN_MAX)
			return error_set(err, EIO,
					 "metadata: more than %d "
					 "layers below '%s'",
					 CHAIN_MAX, name);
		rc = grow_list(v, *n, err);
		if (rc < 0)
			return rc;
		bind_id(st, 1, next);
		rc = get_row(s, st, &(*v)[*n], err);
		if (rc == -ENOENT)
			return error_set(err, EIO,
					 "metadata: a layer below "
					 "'%s' is missing",
					 name);
		if (rc < 0)
			return rc;
		(*n)++;
	}
	return 0;
}

int store_chain(struct store *s, const char *name, struct snapshot **ret,
		size_t *ret_n, struct error *err)
{
	struct snapshot *v = NULL;
	size_t n = 0;
	int rc = store_begin_read(s, err);

	if (rc < 0)
		return rc;
	rc = store_end_read(s, list_chain(s, name, &v, &n, err));
	if (rc < 0) {
		snapshots_free(v, n);
		return rc;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

static int list_page(struct store *s, const char *after, size_t max,
		     struct snapshot **v, size_t *n, struct error *err)
{
	sqlite3_stmt *st = store_query(s, QUERY_PAGE);
	int rc;

	bind_text(st, 1, after);
	sqlite3_bind_int64(st, 2, (sqlite3_int64)max);
	while ((rc = store_step(s, st, err)) > 0) {
		rc = grow_list(v, *n, err);
		if (rc == 0)
			rc = store_row(st, &(*v)[*n], err);
		if (rc < 0)
			break;
		(*n)++;
	}
	sqlite3_reset(st);
	return rc;
}

int store_list(struct store *s, const char *after, size_t max,
	       struct snapshot **ret, size_t *ret_n, struct error *err)
{
	struct snapshot *v = NULL;
	size_t n = 0;
	int rc = store_begin_read(s, err);

	if (rc < 0)
		return rc;
	rc = store_end_read(s, list_page(s, after, max, &v, &n, err));
	if (rc < 0) {
		snapshots_free(v, n);
		return rc;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

static int has_id(struct store *s, uint64_t id, struct error *err)
{
	sqlite3_stmt *st = store_query(s, QUERY_HAS_ID);
	int rc;

	bind_id(st, 1, id);
	rc = store_step(s, st, err);
	sqlite3_reset(st);
	return rc;
}

int store_has(struct store *s, uint64_t id, struct error *err)
{
	int rc = store_begin_read(s, err), has;

	if (rc < 0)
		return rc;
	has = has_id(s, id, err);
	rc = store_end_read(s, has < 0 ? has : 0);
	return rc < 0 ? rc : has;
}

static int list_all_ids(struct store *s, uint64_t **v, size_t *n,
			struct error *err)
{
	sqlite3_stmt *st = store_query(s, QUERY_IDS);
	size_t room = 0;
	int rc;

	while ((rc = store_step(s, st, err)) > 0) {
		if (*n == room) {
			uint64_t *more;

			room = room ? room * 2 : 64;
			more = realloc(*v, room * sizeof(*more));
			if (!more) {
				rc = error_nomem(err);
				break;
			}
			*v = more;
		}
		(*v)[(*n)++] = (uint64_t)sqlite3_column_int64(st, 0);
	}
	sqlite3_reset(st);
	return rc;
}

int store_ids(struct store *s, uint64_t **ret, size_t *ret_n, struct error *err)
{
	uint64_t *v = NULL;
	size_t n = 0;
	int rc = store_begin_read(s, err);

	if (rc < 0)
		return rc;
	rc = store_end_read(s, list_all_ids(s, &v, &n, err));
	if (rc < 0) {
		free(v);
		return rc;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

static int check_name_is_free(struct store *s, const char *name,
			      struct error *err)
{
	struct snapshot found;
	int rc = get_snapshot_by_name(s, name, &found, err);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return rc;
	snapshot_fini(&found);
	return error_set(err, EEXIST, "snapshot '%s' already exists", name);
}

/* Get the id of the committed snapshot `name`; 0 for "". */
static int find_parent(struct store *s, const char *name, uint64_t *ret,
		       struct error *err)
{
	struct snapshot parent;
	int rc;

	*ret = 0;
	if (!*name)
		return 0;
	rc = get_snapshot_by_name(s, name, &parent, err);
	if (rc < 0)
		return error_wrap(err, rc, "parent");
	*ret = parent.id;
	rc = 0;
	if (parent.kind != SNAPSHOT_KIND_COMMITTED)
		rc = error_set(err, EINVAL, "parent '%s' is not committed",
			       name);
	snapshot_fini(&parent);
	return rc;
}

static int insert_snapshot(struct store *s, struct snapshot *snap,
			   struct error *err)
{
	sqlite3_stmt *st;
	int rc = find_parent(s, snap->parent, &snap->parent_id, err);

	if (rc == 0)
		rc = check_name_is_free(s, snap->name, err);
	if (rc < 0)
		return rc;
	snap->created_ns = clock_wall_ns();
	snap->updated_ns = snap->created_ns;
	st = store_query(s, QUERY_INSERT);
	bind_id(st, 1, snap->id);
	bind_text(st, 2, snap->name);
	bind_id(st, 3, snap->parent_id);
	sqlite3_bind_int(st, 4, (int)snap->kind);
	sqlite3_bind_int64(st, 5, snap->created_ns);
	rc = bind_labels(st, 6, &snap->labels, err);
	sqlite3_bind_int64(st, 7, snap->size);
	sqlite3_bind_int64(st, 8, snap->inodes);
	sqlite3_bind_int(st, 9, snap->remote);
	if (snap->has_tree)
		bind_digest(st, 10, &snap->tree);
	if (snap->remote) {
		bind_text(st, 11, snap->image);
		bind_digest(st, 12, &snap->manifest);
	}
	sqlite3_bind_int64(st, 13, snap->layer);
	return rc < 0 ? rc : store_run(s, st, err);
}

int store_insert(struct store *s, struct snapshot *snap, struct error *err)
{
	int rc = store_begin(s, err);

	if (rc < 0)
		return rc;
	return store_end(s, insert_snapshot(s, snap, err), err);
}

/*
 * Refuse a parent that comes only with Commit. containerd does that when it unpacks several
 * layers at the same time, each without those below. Then attributes that a layer leaves to
 * lower layers are missing, and whiteouts had no overlay: the tree would be wrong without
 * notice.
 */
static int check_commit(const struct snapshot *active, const char *parent,
			struct error *err)
{
	if (active->kind != SNAPSHOT_KIND_ACTIVE)
		return error_set(err, EBUSY, "snapshot '%s' is not active",
				 active->name);
	if (!parent || !*parent || strcmp(parent, active->parent) == 0)
		return 0;
	if (active->parent_id)
		return error_set(err, EINVAL,
				 "snapshot '%s' has another "
				 "parent",
				 active->name);
	return error_set(err, EBUSY,
			 "the layer was unpacked without those below it, which "
			 "loses its whiteouts: take \"rebase\" out of the "
			 "capabilities of this proxy plugin in containerd's "
			 "configuration, restart containerd, pull again");
}

static int commit_snapshot(struct store *s, const char *key, const char *name,
			   const char *parent, const struct labels *labels,
			   struct error *err)
{
	struct snapshot active;
	sqlite3_stmt *st;
	uint64_t id;
	int rc = get_snapshot_by_name(s, key, &active, err);

	if (rc < 0)
		return rc;
	rc = check_commit(&active, parent, err);
	id = active.id;
	snapshot_fini(&active);
	if (rc == 0)
		rc = check_name_is_free(s, name, err);
	if (rc < 0)
		return rc;
	st = store_query(s, QUERY_RENAME);
	bind_id(st, 1, id);
	bind_text(st, 2, name);
	rc = bind_labels(st, 3, labels, err);
	sqlite3_bind_int64(st, 4, clock_wall_ns());
	return rc < 0 ? rc : store_run(s, st, err);
}

int store_commit(struct store *s, const char *key, const char *name,
		 const char *parent, const struct labels *labels,
		 struct error *err)
{
	int rc = store_begin(s, err);

	if (rc < 0)
		return rc;
	return store_end(s, commit_snapshot(s, key, name, parent, labels, err),
			 err);
}

static int copy_labels(struct labels *to, const struct labels *from,
		       struct error *err)
{
	int rc = 0;

	labels_fini(to);
	for (size_t i = 0; i < from->n && rc == 0; i++)
		rc = labels_set(to, from->v[i].key, from->v[i].value, err);
	return rc;
}

static int change_labels(struct snapshot *snap, const struct labels *labels,
			 const char *const *paths, size_t n_paths,
			 struct error *err)
{
	static const char prefix[] = "labels.";
	int rc = 0;

	if (n_paths == 0)
		return copy_labels(&snap->labels, labels, err);
	for (size_t i = 0; i < n_paths && rc == 0; i++) {
		const char *key = paths[i] + sizeof(prefix) - 1, *value;

		if (strcmp(paths[i], "labels") == 0) {
			rc = copy_labels(&snap->labels, labels, err);
		} else if (strncmp(paths[i], prefix, sizeof(prefix) - 1) == 0) {
			value = labels_get(labels, key);
			rc = labels_set(&snap->labels, key, value ? value : "",
					err);
		} else {
			rc = error_set(err, EINVAL,
				       "cannot update '%s' of "
				       "snapshot '%s'",
				       paths[i], snap->name);
		}
	}
	return rc;
}

static int update_labels(struct store *s, const char *name,
			 const struct labels *labels, const char *const *paths,
			 size_t n_paths, struct snapshot *ret,
			 struct error *err)
{
	sqlite3_stmt *st;
	int rc = get_snapshot_by_name(s, name, ret, err);

	if (rc < 0)
		return rc;
	rc = change_labels(ret, labels, paths, n_paths, err);
	if (rc == 0) {
		ret->updated_ns = clock_wall_ns();
		st = store_query(s, QUERY_SET_LABELS);
		bind_id(st, 1, ret->id);
		rc = bind_labels(st, 2, &ret->labels, err);
		sqlite3_bind_int64(st, 3, ret->updated_ns);
		if (rc == 0)
			rc = store_run(s, st, err);
	}
	if (rc < 0)
		snapshot_fini(ret);
	return rc;
}

int store_update(struct store *s, const char *name, const struct labels *labels,
		 const char *const *paths, size_t n_paths, struct snapshot *ret,
		 struct error *err)
{
	int rc = store_begin(s, err), end;

	if (rc < 0)
		return rc;
	rc = update_labels(s, name, labels, paths, n_paths, ret, err);
	end = store_end(s, rc, err);
	if (rc == 0 && end < 0)
		snapshot_fini(ret);
	return end;
}

static int remove_snapshot(struct store *s, const char *name, struct error *err)
{
	struct snapshot snap;
	sqlite3_stmt *st;
	uint64_t id;
	int rc = get_snapshot_by_name(s, name, &snap, err);

	if (rc < 0)
		return rc;
	id = snap.id;
	snapshot_fini(&snap);
	st = store_query(s, QUERY_HAS_CHILD);
	bind_id(st, 1, id);
	rc = store_step(s, st, err);
	sqlite3_reset(st);
	if (rc > 0)
		return error_set(err, EBUSY,
				 "cannot remove snapshot '%s': "
				 "others are on top of it",
				 name);
	if (rc < 0)
		return rc;
	st = store_query(s, QUERY_GARBAGE_ADD);
	bind_id(st, 1, id);
	rc = store_run(s, st, err);
	if (rc < 0)
		return rc;
	st = store_query(s, QUERY_DELETE);
	bind_id(st, 1, id);
	return store_run(s, st, err);
}

int store_remove(struct store *s, const char *name, struct error *err)
{
	int rc = store_begin(s, err);

	if (rc < 0)
		return rc;
	return store_end(s, remove_snapshot(s, name, err), err);
}

/* Run a transaction of one statement that is bound already. */
static int run_single_statement(struct store *s, sqlite3_stmt *st,
				struct error *err)
{
	return store_end(s, store_run(s, st, err), err);
}

int store_set_usage(struct store *s, uint64_t id, int64_t size, int64_t inodes,
		    struct error *err)
{
	sqlite3_stmt *st;
	int rc = store_begin(s, err);

	if (rc < 0)
		return rc;
	st = store_query(s, QUERY_SET_USAGE);
	bind_id(st, 1, id);
	sqlite3_bind_int64(st, 2, size);
	sqlite3_bind_int64(st, 3, inodes);
	return run_single_statement(s, st, err);
}

static int run_with_id(struct store *s, enum query q, uint64_t id,
		       const struct digest *d, struct error *err)
{
	sqlite3_stmt *st;
	int rc = store_begin(s, err);

	if (rc < 0)
		return rc;
	st = store_query(s, q);
	bind_id(st, 1, id);
	if (d)
		bind_digest(st, 2, d);
	return run_single_statement(s, st, err);
}

int store_set_unpacked(struct store *s, uint64_t id, struct error *err)
{
	return run_with_id(s, QUERY_SET_UNPACKED, id, NULL, err);
}

int store_set_tree(struct store *s, uint64_t id, const struct digest *tree,
		   struct error *err)
{
	return run_with_id(s, QUERY_SET_TREE, id, tree, err);
}

int store_set_top(struct store *s, uint64_t id, const struct snapshot *top,
		  struct error *err)
{
	sqlite3_stmt *st;
	int rc = store_begin(s, err);

	if (rc < 0)
		return rc;
	st = store_query(s, QUERY_SET_TOP);
	bind_id(st, 1, id);
	bind_digest(st, 2, &top->tree);
	bind_text(st, 3, top->image);
	bind_digest(st, 4, &top->manifest);
	sqlite3_bind_int64(st, 5, top->layer);
	rc = store_run(s, st, err);
	if (rc == 0 && sqlite3_changes(s->db) == 0)
		rc = error_set(err, EBUSY, "it is a top already");
	return store_end(s, rc, err);
}

int store_garbage_add(struct store *s, uint64_t id, struct error *err)
{
	int rc = run_with_id(s, QUERY_GARBAGE_FOLDER, id, NULL, err);

	/* No new snapshot may get an id whose folder exists. */
	pthread_mutex_lock(&s->lock);
	if (s->next_id <= id)
		s->next_id = id + 1;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int store_garbage_done(struct store *s, uint64_t id, struct error *err)
{
	return run_with_id(s, QUERY_GARBAGE_DONE, id, NULL, err);
}

static int list_garbage(struct store *s, struct garbage **v, size_t *n,
			struct error *err)
{
	sqlite3_stmt *st = store_query(s, QUERY_GARBAGE);
	const void *tree;
	struct garbage *more;
	int rc;

	while ((rc = store_step(s, st, err)) > 0) {
		more = realloc(*v, (*n + 1) * sizeof(*more));
		if (!more) {
			rc = error_nomem(err);
			break;
		}
		*v = more;
		more += (*n)++;
		*more = (struct garbage){
			.id = (uint64_t)sqlite3_column_int64(st, 0)
		};
		tree = sqlite3_column_blob(st, 1);
		if (tree && sqlite3_column_bytes(st, 1) == DIGEST_SIZE) {
			more->has_tree = true;
			memcpy(more->tree.b, tree, DIGEST_SIZE);
		}
	}
	sqlite3_reset(st);
	return rc;
}

int store_garbage(struct store *s, struct garbage **ret, size_t *ret_n,
		  struct error *err)
{
	struct garbage *v = NULL;
	size_t n = 0;
	int rc = store_begin_read(s, err);

	if (rc < 0)
		return rc;
	rc = store_end_read(s, list_garbage(s, &v, &n, err));
	if (rc < 0) {
		free(v);
		return rc;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}
