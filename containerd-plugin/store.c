// SPDX-License-Identifier: Apache-2.0
/*
 * Opens the store, prepares its statements, and handles transactions. The operations are in
 * store_ops.c.
 *
 * Uses a write-ahead log with synchronous=FULL: a commit is one fdatasync of the log. (NORMAL
 * would lose the last commits in a power loss. containerd has them in its own database and could
 * then not use the image any more.)
 */
#include "containerd-plugin/store.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/mutex.h"
#include "containerd-plugin/store_priv.h"

#define SCHEMA_VERSION 1

static const char schema[] =
	"CREATE TABLE snapshot ("
	" id INTEGER PRIMARY KEY,"
	" name TEXT NOT NULL UNIQUE,"
	" parent INTEGER REFERENCES snapshot(id),"
	" kind INTEGER NOT NULL,"
	" created INTEGER NOT NULL,"
	" updated INTEGER NOT NULL,"
	" labels BLOB NOT NULL,"
	" size INTEGER NOT NULL DEFAULT -1,"
	" inodes INTEGER NOT NULL DEFAULT -1,"
	" remote INTEGER NOT NULL DEFAULT 0,"
	" unpacked INTEGER NOT NULL DEFAULT 0,"
	" tree BLOB,"
	" image TEXT,"
	" manifest BLOB,"
	" layer INTEGER NOT NULL DEFAULT 0);"
	"CREATE INDEX snapshot_parent ON snapshot(parent);"
	"CREATE TABLE garbage (id INTEGER PRIMARY KEY, tree BLOB);"
	"CREATE TABLE store (instance TEXT NOT NULL);"
	"INSERT INTO store VALUES (lower(hex(randomblob(16))));"
	"PRAGMA user_version = 1;";

/* This table is also added to databases of older programs; user_version is not raised, since
 * it does not disturb those programs. */
static const char last_id[] =
	"CREATE TABLE IF NOT EXISTS last (id INTEGER NOT NULL);"
	"INSERT INTO last SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM last);"
	"CREATE TRIGGER IF NOT EXISTS note_last AFTER DELETE ON garbage "
	"BEGIN UPDATE last SET id = max(id, OLD.id); END;";

#define COLUMNS \
	"s.id, s.name, p.name, s.parent, s.kind, s.created, s.updated, " \
	"s.labels, s.size, s.inodes, s.remote, s.unpacked, s.tree, " \
	"s.image, s.manifest, s.layer " \
	"FROM snapshot s LEFT JOIN snapshot p ON p.id = s.parent "

static const char *const texts[QUERY_COUNT_] = {
	[QUERY_BEGIN] = "BEGIN IMMEDIATE",
	[QUERY_BEGIN_READ] = "BEGIN",
	[QUERY_COMMIT] = "COMMIT",
	[QUERY_ROLLBACK] = "ROLLBACK",
	[QUERY_BY_NAME] = "SELECT " COLUMNS "WHERE s.name = ?1",
	[QUERY_BY_ID] = "SELECT " COLUMNS "WHERE s.id = ?1",
	[QUERY_PAGE] =
		"SELECT " COLUMNS "WHERE s.name > ?1 ORDER BY s.name LIMIT ?2",
	[QUERY_INSERT] =
		"INSERT INTO snapshot (id, name, parent, kind, created, "
		"updated, labels, size, inodes, remote, unpacked, tree, image, "
		"manifest, layer) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, "
		"?9, 0, ?10, ?11, ?12, ?13)",
	[QUERY_RENAME] = "UPDATE snapshot SET name = ?2, kind = 3, "
			 "labels = ?3, created = ?4, updated = ?4 "
			 "WHERE id = ?1",
	[QUERY_SET_LABELS] = "UPDATE snapshot SET labels = ?2, updated = ?3 "
			     "WHERE id = ?1",
	[QUERY_HAS_CHILD] = "SELECT name FROM snapshot WHERE parent = ?1 "
			    "LIMIT 1",
	[QUERY_DELETE] = "DELETE FROM snapshot WHERE id = ?1",
	[QUERY_SET_USAGE] = "UPDATE snapshot SET size = ?2, inodes = ?3 "
			    "WHERE id = ?1",
	[QUERY_SET_UNPACKED] = "UPDATE snapshot SET unpacked = 1, size = -1, "
			       "inodes = -1 WHERE id = ?1",
	[QUERY_SET_TREE] = "UPDATE snapshot SET tree = ?2 WHERE id = ?1",
	[QUERY_SET_TOP] = "UPDATE snapshot SET tree = ?2, image = ?3, "
			  "manifest = ?4, layer = ?5 WHERE id = ?1 AND tree IS "
			  "NULL",
	[QUERY_GARBAGE] = "SELECT id, tree FROM garbage",
	[QUERY_GARBAGE_ADD] = "INSERT INTO garbage SELECT id, tree "
			      "FROM snapshot WHERE id = ?1",
	[QUERY_GARBAGE_FOLDER] =
		"INSERT OR IGNORE INTO garbage SELECT ?1, NULL "
		"WHERE NOT EXISTS (SELECT 1 FROM snapshot WHERE id = ?1)",
	[QUERY_GARBAGE_DONE] = "DELETE FROM garbage WHERE id = ?1",
	[QUERY_HAS_ID] = "SELECT 1 FROM snapshot WHERE id = ?1",
	[QUERY_IDS] = "SELECT id FROM snapshot UNION SELECT id FROM garbage "
		      "ORDER BY 1",
};

const char *snapshot_kind_name(enum snapshot_kind kind)
{
	return kind == SNAPSHOT_KIND_VIEW     ? "view"
	       : kind == SNAPSHOT_KIND_ACTIVE ? "active"
					      : "committed";
}

void snapshot_fini(struct snapshot *s)
{
	free(s->name);
	free(s->parent);
	free(s->image);
	labels_fini(&s->labels);
	memset(s, 0, sizeof(*s));
}

void snapshots_free(struct snapshot *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		snapshot_fini(&v[i]);
	free(v);
}

static int store_fail(struct store *s, struct error *err)
{
	int code = sqlite3_errcode(s->db) & 0xff;

	/* Map to codes that clients cannot mistake for an answer (such as ENOENT). */
	code = code == SQLITE_NOMEM  ? ENOMEM
	       : code == SQLITE_FULL ? ENOSPC
				     : EIO;
	return error_set(err, code, "metadata: %s", sqlite3_errmsg(s->db));
}

sqlite3_stmt *store_query(struct store *s, enum query q)
{
	sqlite3_reset(s->queries[q]);
	sqlite3_clear_bindings(s->queries[q]);
	return s->queries[q];
}

int store_step(struct store *s, sqlite3_stmt *st, struct error *err)
{
	int rc = sqlite3_step(st);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		rc = store_fail(s, err);
	else
		rc = 0;
	sqlite3_reset(st);
	return rc;
}

int store_run(struct store *s, sqlite3_stmt *st, struct error *err)
{
	int rc = store_step(s, st, err);

	sqlite3_reset(st);
	return rc < 0 ? rc : 0;
}

static int begin_transaction(struct store *s, enum query q, struct error *err)
{
	int rc;

	pthread_mutex_lock(&s->lock);
	rc = store_run(s, store_query(s, q), err);
	if (rc < 0)
		pthread_mutex_unlock(&s->lock);
	return rc;
}

int store_begin(struct store *s, struct error *err)
{
	return begin_transaction(s, QUERY_BEGIN, err);
}

int store_begin_read(struct store *s, struct error *err)
{
	return begin_transaction(s, QUERY_BEGIN_READ, err);
}

int store_end(struct store *s, int rc, struct error *err)
{
	if (rc == 0)
		rc = store_run(s, store_query(s, QUERY_COMMIT), err);
	/* A failed commit may have rolled back already. */
	if (rc < 0 && !sqlite3_get_autocommit(s->db) &&
	    store_run(s, store_query(s, QUERY_ROLLBACK), NULL) < 0)
		rc = error_wrap(err, rc, "cannot roll back");
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int store_end_read(struct store *s, int rc)
{
	if (store_run(s, store_query(s, QUERY_ROLLBACK), NULL) < 0 && rc == 0)
		rc = -EIO;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* ---- rows ---- */

static int column_text(sqlite3_stmt *st, int i, char **ret, struct error *err)
{
	const unsigned char *text = sqlite3_column_text(st, i);

	*ret = strdup(text ? (const char *)text : "");
	return *ret ? 0 : error_nomem(err);
}

static bool column_digest(sqlite3_stmt *st, int i, struct digest *ret)
{
	const void *data = sqlite3_column_blob(st, i);

	if (!data || sqlite3_column_bytes(st, i) != DIGEST_SIZE)
		return false;
	memcpy(ret->b, data, DIGEST_SIZE);
	return true;
}

int store_row(sqlite3_stmt *st, struct snapshot *ret, struct error *err)
{
	int rc;

	*ret = (struct snapshot){ .id = (uint64_t)sqlite3_column_int64(st, 0) };
	rc = column_text(st, 1, &ret->name, err);
	if (rc == 0)
		rc = column_text(st, 2, &ret->parent, err);
	if (rc == 0)
		rc = column_text(st, 13, &ret->image, err);
	ret->parent_id = (uint64_t)sqlite3_column_int64(st, 3);
	ret->kind = (enum snapshot_kind)sqlite3_column_int(st, 4);
	ret->created_ns = sqlite3_column_int64(st, 5);
	ret->updated_ns = sqlite3_column_int64(st, 6);
	if (rc == 0)
		rc = labels_decode(sqlite3_column_blob(st, 7),
				   (size_t)sqlite3_column_bytes(st, 7),
				   &ret->labels, err);
	ret->size = sqlite3_column_int64(st, 8);
	ret->inodes = sqlite3_column_int64(st, 9);
	ret->remote = sqlite3_column_int(st, 10);
	ret->unpacked = sqlite3_column_int(st, 11);
	ret->has_tree = column_digest(st, 12, &ret->tree);
	column_digest(st, 14, &ret->manifest);
	ret->layer = (uint32_t)sqlite3_column_int64(st, 15);
	if (rc < 0)
		snapshot_fini(ret);
	return rc;
}

/* ---- open ---- */

/* The number or text of a statement's first row. */
static int read_first_row(struct store *s, const char *sql, int64_t *ret_n,
			  char *ret_text, size_t size, struct error *err)
{
	sqlite3_stmt *st = NULL;
	int rc;

	if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK)
		return store_fail(s, err);
	rc = sqlite3_step(st) == SQLITE_ROW ? 0 : store_fail(s, err);
	if (rc == 0 && ret_n)
		*ret_n = sqlite3_column_int64(st, 0);
	if (rc == 0 && ret_text)
		snprintf(ret_text, size, "%s",
			 (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	return rc;
}

static int run_text(struct store *s, const char *sql, struct error *err)
{
	if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_fail(s, err);
	return 0;
}

static int check_version(struct store *s, struct error *err)
{
	char answer[64] = "";
	int64_t version = 0;
	int rc = read_first_row(s, "PRAGMA user_version", &version, NULL, 0,
				err);

	if (rc == 0 && version == 0) {
		s->is_new = true;
		rc = run_text(s, "BEGIN IMMEDIATE", err);
		if (rc == 0)
			rc = run_text(s, schema, err);
		return rc < 0 ? rc : run_text(s, "COMMIT", err);
	}
	if (rc == 0 && version != SCHEMA_VERSION)
		return error_set(err, EPROTONOSUPPORT,
				 "it is of version %" PRId64 ", this program "
				 "reads %d",
				 version, SCHEMA_VERSION);
	if (rc == 0)
		rc = read_first_row(s, "PRAGMA quick_check(1)", NULL, answer,
				    sizeof(answer), err);
	if (rc == 0 && strcmp(answer, "ok") != 0)
		rc = error_set(err, EBADMSG, "it is damaged: %s", answer);
	return rc;
}

static int open_db(struct store *s, const char *path, struct error *err)
{
	int64_t last = 0;
	int rc;

	if (sqlite3_open_v2(path, &s->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
				    SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return store_fail(s, err);
	rc = run_text(s,
		      "PRAGMA journal_mode = WAL;"
		      "PRAGMA synchronous = FULL;"
		      "PRAGMA foreign_keys = ON;"
		      "PRAGMA locking_mode = NORMAL;",
		      err);
	if (rc == 0)
		rc = check_version(s, err);
	if (rc == 0)
		rc = read_first_row(s, "SELECT instance FROM store", NULL,
				    s->instance, sizeof(s->instance), err);
	if (rc == 0)
		rc = run_text(s, last_id, err);
	if (rc == 0)
		rc = read_first_row(
			s,
			"SELECT max((SELECT ifnull(max(id), 0) FROM "
			"snapshot), (SELECT ifnull(max(id), 0) FROM "
			"garbage), (SELECT max(id) FROM last))",
			&last, NULL, 0, err);
	s->next_id = (uint64_t)last + 1;
	for (int i = 0; i < QUERY_COUNT_ && rc == 0; i++)
		if (sqlite3_prepare_v3(s->db, texts[i], -1,
				       SQLITE_PREPARE_PERSISTENT,
				       &s->queries[i], NULL) != SQLITE_OK)
			rc = store_fail(s, err);
	return rc;
}

int store_open(const char *path, struct store **ret, struct error *err)
{
	struct store *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	pthread_mutex_init(&s->lock, NULL);
	rc = open_db(s, path, err);
	if (rc < 0) {
		store_close(s);
		return error_wrap(err, rc, "'%s'", path);
	}
	*ret = s;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	for (int i = 0; i < QUERY_COUNT_; i++)
		sqlite3_finalize(s->queries[i]);
	sqlite3_close(s->db);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

bool store_is_new(const struct store *s)
{
	return s->is_new;
}

const char *store_instance(const struct store *s)
{
	return s->instance;
}

uint64_t store_next_id(struct store *s)
{
	AUTO_UNLOCK held = mutex_hold(&s->lock);

	return s->next_id++;
}
