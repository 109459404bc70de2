// SPDX-License-Identifier: Apache-2.0
/*
 * The database: one vtable, two kinds (SQLite, PostgreSQL), one text of SQL.
 *
 * All of it blocks and is for threads of the pool.  A connection is one thread's
 * between db_begin() and db_end(); there are as many as threads want at once.
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

/* A text of a column for the caller to keep; NULL: memory is short. */
char *db_strdup(const struct db_value *v) MUST_CHECK;

/*
 * Statements of the program, prepared once for each connection.  Parameters are
 * $1, $2, ... in the order of their first use; the SQL is what both kinds
 * understand.
 */
struct db_statement {
	const char *name; /* unique, for messages too */
	const char *sql;
	const char *types; /* of its columns: 'i', 't', 'b'; "" without rows */
};

/* Statements of one owner: a sql_*.c. */
struct db_statements {
	const struct db_statement *list;
	size_t n;
};

#define DB_COLUMNS_MAX 24
#define DB_PARAMS_MAX 96

/* A new database gets `tables`, which end with NULL, and then all `upgrades`; one of before
 * gets those that it lacks.  In these scripts, each of which ends with ";", @ID@ is a key that
 * the database chooses, @BLOB@ the type of bytes. */
struct db_schema {
	const char *const *tables;
	int version; /* that they make, over 0; a database of an older one is refused */
	const char *const *upgrades; /* the first makes version + 1 */
	int n_upgrades;
	const struct db_statements *statements;
	size_t n_groups, n_statements;
};

/* Statement number `s`: by its place in the groups, one behind the other. */
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
	int64_t timeout_ns; /* of connecting, of one statement, of a lock */
};

struct db;
struct db_conn;

/* Is there a database of this scheme?  Connects to none. */
int db_check_url(const char *url, struct error *err) MUST_CHECK;

/* Connect once, to see that it works, and bring the schema up to date.
 * -EPROTONOSUPPORT: a newer version of this program made it. */
int db_open(const struct db_config *cfg, struct db **ret,
	    struct error *err) MUST_CHECK;
void db_close(struct db *db); /* no thread uses it */
const char *db_kind(const struct db *db);

enum db_mode {
	DB_ALONE, /* each statement reads for itself: no transaction */
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

/* Within fn: run statement number `s` and show its rows to `each` (values are
 * borrowed for the call; a negative result ends, and is returned).  Returns the
 * number of rows shown, or of rows changed when the statement has no columns, or
 * -errno. */
int db_query(struct db_conn *c, size_t s, const struct db_value *params,
	     size_t n, int (*each)(void *arg, const struct db_value *row),
	     void *arg, struct error *err) MUST_CHECK;

/* The same with the parameters after `err`. */
#define DB_QUERY(c, s, each, arg, err, ...) \
	db_query(c, s, (const struct db_value[]){ __VA_ARGS__ }, \
		 sizeof((const struct db_value[]){ __VA_ARGS__ }) / \
			 sizeof(struct db_value), \
		 each, arg, err)

/* For db_query(): the number in the row's first column, to an int64_t. */
int db_take_number(void *arg, const struct db_value *row);
/* The same, where it is enough that there is a row: true to a bool. */
int db_take_note(void *arg, const struct db_value *row);

struct db_stats {
	uint64_t connections, connects_total, failures_total, retries_total;
};
void db_get_stats(struct db *db, struct db_stats *ret);

/* ------------------------------------------------------------------- kinds --- */

struct db_ops {
	const char *name, *scheme; /* "postgresql", "postgresql:" */
	const char *id_type, *blob_type;
	/* After a table's columns, to keep its rows in its primary key; "" where
	 * there is no such thing. */
	const char *clustered;
	const char *schema_lock; /* first of a migration, or NULL */
	bool one_writer;         /* a second one would only wait and poll */

	/* A connection with its session set up; statements come later. */
	int (*connect)(const struct db_config *cfg, struct db_conn **ret,
		       struct error *err);
	void (*close)(struct db_conn *c);
	/* Statements may last so long from now on; NULL where they have no limit. */
	int (*set_timeout)(struct db_conn *c, int64_t ns, struct error *err);
	/* A script without parameters. */
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
	bool has_shown; /* a row, to the function that runs */
};

extern const struct db_ops db_sqlite_ops, db_pg_ops;

#endif
