// SPDX-License-Identifier: Apache-2.0
/* When a function is run again, on SQLite: the functions here break their connection as
 * a database that goes away does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "registry/db.h"

static const char *const scripts[] = {
	"CREATE TABLE IF NOT EXISTS version (n INTEGER NOT NULL);"
	"CREATE TABLE numbers (n INTEGER NOT NULL);"
	"INSERT INTO numbers VALUES (1), (2), (3);",
};

enum { NUMBERS, NONE, ADD, BETWEEN };
static const struct db_statement statements[] = {
	[NUMBERS] = { "numbers", "SELECT n FROM numbers ORDER BY n", "i" },
	[NONE] = { "none", "SELECT n FROM numbers WHERE n < 0", "i" },
	[ADD] = { "add", "INSERT INTO numbers VALUES ($1)", "" },
	[BETWEEN] = { "between",
		      "SELECT n FROM numbers WHERE n < $2 AND n >= $1", "i" },
};
static const struct db_statements groups[] = {
	{ statements, 2 },
	{ statements + 2, 2 },
};
static const struct db_schema numbers = {
	.scripts = scripts,
	.n = 1,
	.statements = groups,
	.n_groups = 2,
	.n_statements = 4,
};

static char dir[] = "/tmp/db.XXXXXX";
static struct db *db;
static struct error err;

static void open_db(void)
{
	char url[64];
	struct db_config cfg = { .url = url,
				 .schema = &numbers,
				 .timeout_ns = INT64_C(10000000000) };

	cr_assert(mkdtemp(dir));
	(void)snprintf(url, sizeof(url), "sqlite:%s/db", dir);
	cr_assert_eq(db_open(&cfg, &db, &err), 0, "%s", err.msg);
}

static void close_db(void)
{
	char command[64];

	db_close(db);
	(void)snprintf(command, sizeof(command), "rm -r %s", dir);
	cr_assert_eq(system(command), 0);
}

TestSuite(db, .init = open_db, .fini = close_db, .timeout = 60);

/* What a function is to do, and what became of it. */
struct run {
	enum { BREAK_BEFORE, BREAK_AFTER_NONE, BREAK_AFTER_ROWS } when;
	int n_breaks; /* still to come */
	int n_runs, n_rows;
};

static int count_row(void *arg, const struct db_value *row)
{
	struct run *r = arg;

	(void)row;
	r->n_rows++;
	return 0;
}

static int lose(struct db_conn *c, struct run *r)
{
	r->n_breaks--;
	c->broken = true;
	return error_set(&err, ECONNREFUSED, "the database went away");
}

static int list(struct db_conn *c, void *arg, struct error *e)
{
	struct run *r = arg;
	int n;

	r->n_runs++;
	if (r->n_breaks && r->when == BREAK_BEFORE)
		return lose(c, r);
	n = db_query(c, NONE, NULL, 0, count_row, r, e);
	if (r->n_breaks && r->when == BREAK_AFTER_NONE)
		return lose(c, r);
	if (n == 0)
		n = db_query(c, NUMBERS, NULL, 0, count_row, r, e);
	if (r->n_breaks && r->when == BREAK_AFTER_ROWS)
		return lose(c, r);
	return n;
}

Test(db, reads_again_what_nothing_was_shown_of)
{
	struct run before = { .when = BREAK_BEFORE, .n_breaks = 2 };
	struct run none = { .when = BREAK_AFTER_NONE, .n_breaks = 1 };

	cr_assert_eq(db_run(db, DB_ALONE, list, &before, &err), 3);
	cr_assert_eq(before.n_runs, 3);
	cr_assert_eq(before.n_rows, 3);
	cr_assert_eq(db_run(db, DB_ALONE, list, &none, &err), 3);
	cr_assert_eq(none.n_runs, 2);
	cr_assert_eq(none.n_rows, 3);
}

Test(db, shows_no_reader_a_row_twice)
{
	struct run r = { .when = BREAK_AFTER_ROWS, .n_breaks = 1 };
	struct db_stats stats;

	cr_assert_eq(db_run(db, DB_ALONE, list, &r, &err), -ECONNREFUSED);
	cr_assert_eq(r.n_runs, 1);
	cr_assert_eq(r.n_rows, 3);
	db_get_stats(db, &stats);
	cr_assert_eq(stats.failures_total, 1);
	cr_assert_eq(stats.retries_total, 0);
	/* The next one has a connection of its own. */
	cr_assert_eq(db_run(db, DB_ALONE, list, &r, &err), 3);
}

static int add(struct db_conn *c, void *arg, struct error *e)
{
	const struct db_value four = DB_INT(4);
	struct run *r = arg;
	int n;

	r->n_runs++;
	r->n_rows = 0;
	n = db_query(c, ADD, &four, 1, NULL, NULL, e);
	if (n == 1)
		n = db_query(c, NUMBERS, NULL, 0, count_row, r, e);
	return r->n_breaks ? lose(c, r) : n;
}

Test(db, writes_again_from_the_start)
{
	struct run r = { .n_breaks = 1 };
	struct db_stats stats;

	cr_assert_eq(db_run(db, DB_WRITE, add, &r, &err), 4);
	cr_assert_eq(r.n_runs, 2);
	cr_assert_eq(r.n_rows, 4);
	db_get_stats(db, &stats);
	cr_assert_eq(stats.retries_total, 1);
	cr_assert_eq(stats.failures_total, 0);
}

static int count_between(struct db_conn *c, void *arg, struct error *e)
{
	return DB_QUERY(c, BETWEEN, count_row, arg, e, DB_INT(2), DB_INT(3));
}

Test(db, finds_parameters_by_their_numbers_in_any_order)
{
	struct run r = { .n_rows = 0 };

	cr_assert_geq(db_run(db, DB_ALONE, count_between, &r, &err), 0, "%s",
		      err.msg);
	cr_expect_eq(r.n_rows, 1);
}
