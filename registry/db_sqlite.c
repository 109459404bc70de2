// SPDX-License-Identifier: Apache-2.0
/*
 * SQLite: a database in a local file, for a single service.
 *
 * Write-ahead log with synchronous=NORMAL: a crash of the service loses nothing that was answered,
 * a power loss may lose the last recordings (never the database), and nodes send those again.
 */
#include <errno.h>
#include <libgen.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "registry/db.h"

struct sqlite_conn {
	struct db_conn base;
	sqlite3 *db;
	sqlite3_stmt **prepared;
	size_t n_prepared;
};

static struct sqlite_conn *sqlite_of(struct db_conn *c)
{
	return container_of(c, struct sqlite_conn, base);
}

static int set_failure(struct sqlite_conn *s, struct error *err)
{
	int code = sqlite3_errcode(s->db) & 0xff;

	s->base.again = code == SQLITE_BUSY || code == SQLITE_LOCKED;
	/* The file may be gone or damaged: close the connection, so that the next one opens the
	 * file again. */
	s->base.broken = code == SQLITE_IOERR || code == SQLITE_CORRUPT ||
			 code == SQLITE_NOTADB || code == SQLITE_CANTOPEN;
	code = s->base.again             ? EBUSY
	       : code == SQLITE_NOMEM    ? ENOMEM
	       : code == SQLITE_FULL     ? ENOSPC
	       : code == SQLITE_READONLY ? EROFS
					 : EIO;
	return error_set(err, code, "sqlite: %s", sqlite3_errmsg(s->db));
}

/* Explain an error at the first use of a file, since SQLite's own message does not say what to
 * do. */
static int refuse_file(struct sqlite_conn *s, struct error *err)
{
	int code = sqlite3_errcode(s->db) & 0xff;
	int rc = set_failure(s, err);

	if (code == SQLITE_NOTADB)
		return error_set(err, -rc,
				 "it is there and no SQLite database: name "
				 "another file, or move it away first");
	if (code == SQLITE_CANTOPEN)
		return error_set(err, -rc,
				 "it cannot be opened, or made: name a file in "
				 "a folder where this service may write");
	if (code == SQLITE_FULL)
		return error_set(err, -rc,
				 "its disk is full: free some of it, or name a "
				 "file on another");
	return rc;
}

static int run_script(struct db_conn *c, const char *sql, struct error *err)
{
	struct sqlite_conn *s = sqlite_of(c);

	if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return set_failure(s, err);
	return 0;
}

static void close_conn(struct db_conn *c)
{
	struct sqlite_conn *s = sqlite_of(c);

	for (size_t i = 0; i < s->n_prepared; i++)
		sqlite3_finalize(s->prepared[i]);
	free(s->prepared);
	sqlite3_close(s->db);
	free(s);
}

static int open_file(struct sqlite_conn *s, const char *path, int64_t timeout,
		     struct error *err)
{
	AUTO_FREE char *copy = strdup(path);
	int rc = copy ? fs_mkdir(dirname(copy), 0700, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	if (sqlite3_open_v2(path, &s->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
				    SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return s->db ? refuse_file(s, err) : error_nomem(err);
	sqlite3_busy_timeout(s->db, (int)(timeout / 1000000));
	rc = run_script(&s->base,
			"PRAGMA journal_mode = WAL;"
			"PRAGMA synchronous = NORMAL;"
			"PRAGMA foreign_keys = ON;"
			"PRAGMA journal_size_limit = 67108864;",
			err);
	return rc < 0 ? refuse_file(s, err) : 0;
}

static int open_conn(const struct db_config *cfg, struct db_conn **ret,
		     struct error *err)
{
	const char *path = cfg->url + strlen(db_sqlite_ops.scheme);
	struct sqlite_conn *s;
	int rc;

	if (path[0] != '/')
		return error_set(err, EINVAL, "'%s' is not an absolute path",
				 path);
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	rc = open_file(s, path, cfg->timeout_ns, err);
	if (rc < 0) {
		close_conn(&s->base);
		return error_wrap(err, rc, "'%s'", path);
	}
	*ret = &s->base;
	return 0;
}

static int prepare_statements(struct db_conn *c, size_t n, struct error *err)
{
	struct sqlite_conn *s = sqlite_of(c);

	s->prepared = calloc(n, sizeof(struct sqlite3_stmt *));
	if (!s->prepared)
		return error_nomem(err);
	for (; s->n_prepared < n; s->n_prepared++) {
		const struct db_statement *st =
			db_statement_of(c->cfg->schema, s->n_prepared);

		if (sqlite3_prepare_v3(s->db, st->sql, -1,
				       SQLITE_PREPARE_PERSISTENT,
				       &s->prepared[s->n_prepared],
				       NULL) != SQLITE_OK)
			return error_wrap(err, set_failure(s, err), "%s",
					  st->name);
	}
	return 0;
}

static int begin_transaction(struct db_conn *c, struct error *err)
{
	return run_script(c, "BEGIN IMMEDIATE", err);
}

static int commit_transaction(struct db_conn *c, struct error *err)
{
	return run_script(c, "COMMIT", err);
}

static void roll_back(struct db_conn *c)
{
	struct sqlite_conn *s = sqlite_of(c);
	bool again = c->again;

	/* Some errors end the transaction by themselves: roll back only if it is still open. */
	if (!sqlite3_get_autocommit(s->db) &&
	    sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
		c->broken = true;
	c->again = again;
}

/* Bind parameters by their names ($1, $2): SQLite numbers them in the order of appearance,
 * PostgreSQL by these names. */
static int bind_params(struct sqlite_conn *s, sqlite3_stmt *st,
		       const struct db_value *params, size_t n,
		       struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct db_value *v = &params[i];
		char name[24];
		int at, rc;

		(void)snprintf(name, sizeof(name), "$%zu", i + 1);
		at = sqlite3_bind_parameter_index(st, name);
		if (v->type == DB_INTEGER)
			rc = sqlite3_bind_int64(st, at, v->n);
		else if (v->type == DB_TEXT)
			rc = sqlite3_bind_text64(st, at, v->data, v->len,
						 SQLITE_STATIC, SQLITE_UTF8);
		else if (v->type == DB_BLOB)
			rc = sqlite3_bind_blob64(st, at, v->data, v->len,
						 SQLITE_STATIC);
		else
			rc = sqlite3_bind_null(st, at);
		if (rc != SQLITE_OK)
			return set_failure(s, err);
	}
	return 0;
}

static struct db_value read_column(sqlite3_stmt *st, int i, char type)
{
	struct db_value v = { .type = DB_NULL };

	if (sqlite3_column_type(st, i) == SQLITE_NULL)
		return v;
	if (type == 'i')
		return DB_INT(sqlite3_column_int64(st, i));
	v.type = type == 't' ? DB_TEXT : DB_BLOB;
	v.data = type == 't' ? (const void *)sqlite3_column_text(st, i)
			     : sqlite3_column_blob(st, i);
	v.len = (size_t)sqlite3_column_bytes(st, i);
	return v;
}

static int show_rows(struct sqlite_conn *s, sqlite3_stmt *st, const char *types,
		     int (*each)(void *arg, const struct db_value *row),
		     void *arg, struct error *err)
{
	struct db_value row[DB_COLUMNS_MAX];
	int n = 0, rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		for (int i = 0; types[i]; i++)
			row[i] = read_column(st, i, types[i]);
		rc = each ? each(arg, row) : 0;
		if (rc < 0)
			return error_set(err, -rc, "%s", strerror(-rc));
		n++;
	}
	if (rc != SQLITE_DONE)
		return set_failure(s, err);
	return types[0] ? n : sqlite3_changes(s->db);
}

static int run_query(struct db_conn *c, const struct db_statement *what,
		     size_t i, const struct db_value *params, size_t n,
		     int (*each)(void *arg, const struct db_value *row),
		     void *arg, struct error *err)
{
	struct sqlite_conn *s = sqlite_of(c);
	bool once = i >= s->n_prepared;
	sqlite3_stmt *st = once ? NULL : s->prepared[i];
	int rc;

	if (once &&
	    sqlite3_prepare_v2(s->db, what->sql, -1, &st, NULL) != SQLITE_OK)
		return set_failure(s, err);
	rc = bind_params(s, st, params, n, err);
	if (rc == 0)
		rc = show_rows(s, st, what->types, each, arg, err);
	/* The result of the reset is ignored: it repeats the error of the step. */
	if (once) {
		sqlite3_finalize(st);
	} else {
		sqlite3_reset(st);
		sqlite3_clear_bindings(st);
	}
	return rc;
}

const struct db_ops db_sqlite_ops = {
	.name = "sqlite",
	.scheme = "sqlite:",
	/* AUTOINCREMENT never uses an id twice; lists in memory are identified by id. */
	.id_type = "INTEGER PRIMARY KEY AUTOINCREMENT",
	.blob_type = "BLOB",
	.clustered = " WITHOUT ROWID",
	.one_writer = true,
	.connect = open_conn,
	.close = close_conn,
	.script = run_script,
	.prepare = prepare_statements,
	.begin = begin_transaction,
	.commit = commit_transaction,
	.rollback = roll_back,
	.query = run_query,
};
