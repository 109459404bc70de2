// SPDX-License-Identifier: Apache-2.0
/*
 * The database: one vtable, two kinds (SQLite, PostgreSQL), the same SQL text for both.
 *
 * All functions block: call them on pool threads only. One thread uses a connection at a time,
 * during db_run(); as many connections are opened as threads need at once.
 */
#ifndef BOOTSEER_REGISTRY_DB_H
#define BOOTSEER_REGISTRY_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum db_type {
	DB_NULL,
	DB_INTEGER,
	DB_TEXT,
	DB_BLOB,
};

/* A parameter or a column; texts and blobs are borrowed. */
struct db_value {
	enum db_type type;
	int64_t n;
	const void *data; /* DB_TEXT: NUL-terminated too */
	size_t len;
};

#define DB_INT(v) ((struct db_value){ .type = DB_INTEGER, .n = (int64_t)(v) })
struct db_value db_text(const char *text);
struct db_value db_blob(const void *data, size_t len);

/* Copy a column's text; the caller frees the copy. NULL: memory is short. */
char *db_strdup(const struct db_value *v) MUST_CHECK;

/*
 * Statements of the program, prepared once for each connection.  Parameters are
 * $1, $2, ... in the order of their first use; the SQL is what both kinds
 * understand.
 */
struct db_statement {
	const char *name; /* unique, for messages too */
	const char *sql;
	/* types of its columns: 'i', 't', 'b'; "": it returns no rows */
	const char *types;
};

/* The statements of one sql_*.c file. */
struct db_statements {
	const struct db_statement *list;
	size_t n;
};

#define DB_COLUMNS_MAX 24
#define DB_PARAMS_MAX 96

/* A new database runs `tables`, which end with NULL, then all `upgrades`; an existing one only the
 * upgrades that it lacks. Each script ends with ";". In it, @ID@ stands for a key that the database
 * chooses, @BLOB@ for the type of bytes. */
struct db_schema {
	const char *const *tables;
	/* version that `tables` make, over 0; an older database is refused */
	int version;
	const char *const *upgrades; /* upgrades[0] makes `version` + 1 */
	int n_upgrades;
	const struct db_statements *statements;
	size_t n_groups, n_statements;
};

/* Statement number `s`, counting through the groups one after another. */
static inline const struct db_statement *
db_statement_of(const struct db_schema *schema, size_t s)
{
	const struct db_statements *g = schema->statements;

	while (s >= g->n)
		s -= g++->n;
	return &g->list[s];
}

struct db_config {
	const char *url; /* "sqlite:PATH" or "postgresql://..." */
	const struct db_schema *schema;
	int64_t timeout_ns; /* for connecting, one statement, or a lock */
};

struct db;
struct db_conn;

/* Check that the URL's scheme is a supported kind of database. Does not connect. */
int db_check_url(const char *url, struct error *err) MUST_CHECK;

/* Connect once to check the database, and bring its schema up to date. -EPROTONOSUPPORT: a newer
 * version of this program made the database. */
int db_open(const struct db_config *cfg, struct db **ret,
	    struct error *err) MUST_CHECK;
void db_close(struct db *db); /* no other thread may use it */
const char *db_kind(const struct db *db);

enum db_mode {
	DB_ALONE, /* no transaction: each statement reads on its own */
	DB_WRITE,
};

/*
 * Run `fn`, in a transaction if it writes; it is committed when fn returns 0 or more, else
 * rolled back.  fn may be run again, from the start, when the database asks for
 * that (a deadlock) or the connection was found broken before anything was
 * committed, until twice the timeout is over: one that writes at any time, so it
 * begins with what it had; one that only reads as long as no row was shown to it,
 * so it never sees a row twice.  Returns what fn does;
 *   -EBUSY         others hold what it needs
 *   -ECONNREFUSED  the database does not answer
 *   -ENOSPC, -EIO, -ENOMEM
 */
int db_run(struct db *db, enum db_mode mode,
	   int (*fn)(struct db_conn *c, void *arg, struct error *err),
	   void *arg, struct error *err) MUST_CHECK;

/* Call within fn: run statement number `s` and call `each` with every row (values are borrowed for
 * the call; a negative result ends it, and is returned). Returns the number of rows shown, or of
 * rows changed when the statement has no columns, or -errno. */
int db_query(struct db_conn *c, size_t s, const struct db_value *params,
	     size_t n, int (*each)(void *arg, const struct db_value *row),
	     void *arg, struct error *err) MUST_CHECK;

/* db_query() with the parameters listed after `err`. */
#define DB_QUERY(c, s, each, arg, err, ...) \
	db_query(c, s, (const struct db_value[]){ __VA_ARGS__ }, \
		 sizeof((const struct db_value[]){ __VA_ARGS__ }) / \
			 sizeof(struct db_value), \
		 each, arg, err)

/* Callback for db_query(): stores the row's first column in the int64_t that `arg` points to. */
int db_take_number(void *arg, const struct db_value *row);
/* Callback for db_query(): sets the bool that `arg` points to, to note that there is a row. */
int db_take_note(void *arg, const struct db_value *row);

struct db_stats {
	uint64_t connections, connects_total, failures_total, retries_total;
};
void db_get_stats(struct db *db, struct db_stats *ret);

/* ------------------------------------------------------------------- kinds --- */

struct db_ops {
	const char *name, *scheme; /* "postgresql", "postgresql:" */
	const char *id_type, *blob_type;
	/* SQL after a table's columns that stores its rows in the primary key's index; "": not
	 * supported. */
	const char *clustered;
	/* SQL that a migration runs first, to lock the schema; NULL: not needed */
	const char *schema_lock;
	bool one_writer; /* the database allows one writer at a time */

	/* Connect and set up the session; statements are prepared later. */
	int (*connect)(const struct db_config *cfg, struct db_conn **ret,
		       struct error *err);
	void (*close)(struct db_conn *c);
	/* Set the time limit of later statements; NULL: the kind has no such limit. */
	int (*set_timeout)(struct db_conn *c, int64_t ns, struct error *err);
	/* Run a script that has no parameters. */
	int (*script)(struct db_conn *c, const char *sql, struct error *err);
	int (*prepare)(struct db_conn *c, size_t n_statements,
		       struct error *err);
	int (*begin)(struct db_conn *c, struct error *err);
	int (*commit)(struct db_conn *c, struct error *err);
	void (*rollback)(struct db_conn *c);
	int (*query)(struct db_conn *c, const struct db_statement *st, size_t i,
		     const struct db_value *params, size_t n,
		     int (*each)(void *arg, const struct db_value *row),
		     void *arg, struct error *err);
};

/* First member of every connection. */
struct db_conn {
	const struct db_ops *ops;
	const struct db_config *cfg;
	struct db_conn *next;
	bool broken;    /* must be closed; set by the kind */
	bool again;     /* the transaction failed, but may be tried again */
	bool has_shown; /* the running function has been shown a row */
};

extern const struct db_ops db_sqlite_ops, db_pg_ops;

#endif
