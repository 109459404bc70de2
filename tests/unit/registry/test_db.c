// SPDX-License-Identifier: Apache-2.0
/* Tests when db_run() runs a function again, on SQLite: the functions break their connection as a
 * lost database does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "registry/db.h"

static const char *const tables[] = {
	"CREATE TABLE IF NOT EXISTS version (n INTEGER NOT NULL);"
	"CREATE TABLE numbers (n INTEGER NOT NULL);",
	"INSERT INTO numbers VALUES (1), (2), (3);",
	NULL,
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
	.tables = tables,
	.version = 5,
	.statements = groups,
	.n_groups = 2,
	.n_statements = 4,
};

static char dir[] = "/tmp/db.XXXXXX";
static struct db *db;
static struct error err;

static int open_as(const struct db_schema *schema)
{
	char url[64];
	struct db_config cfg = { .url = url,
				 .schema = schema,
				 .timeout_ns = INT64_C(10000000000) };

	(void)snprintf(url, sizeof(url), "sqlite:%s/db", dir);
	return db_open(&cfg, &db, &err);
}

static void open_db(void)
{
	cr_assert(mkdtemp(dir));
	cr_assert_eq(open_as(&numbers), 0, "%s", err.msg);
}

static void close_db(void)
{
	char command[64];

	db_close(db);
	(void)snprintf(command, sizeof(command), "rm -r %s", dir);
	cr_assert_eq(system(command), 0);
}

TestSuite(db, .init = open_db, .fini = close_db, .timeout = 60);

/* How often and when a function breaks its connection, and what happened. */
struct run {
	enum { BREAK_BEFORE, BREAK_AFTER_NONE, BREAK_AFTER_ROWS } when;
	int n_breaks; /* breaks left */
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
	/* The next call gets a new connection. */
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

/* ------------------------------------------------------------------- versions --- */

static int see_sum(void *arg, const struct db_value *row)
{
	*(int64_t *)arg += row[0].n;
	return 0;
}

static int sum_numbers(struct db_conn *c, void *arg, struct error *e)
{
	return db_query(c, NUMBERS, NULL, 0, see_sum, arg, e);
}

/* The sum of the numbers in a database opened with `schema`. */
static int64_t sum_as(const struct db_schema *schema)
{
	int64_t sum = 0;

	db_close(db);
	cr_assert_eq(open_as(schema), 0, "%s", err.msg);
	cr_assert_geq(db_run(db, DB_ALONE, sum_numbers, &sum, &err), 0);
	return sum;
}

Test(db, makes_up_for_the_upgrades_that_a_database_lacks_and_once)
{
	static const char *const upgrades[] = {
		"INSERT INTO numbers VALUES (10);",
		"INSERT INTO numbers VALUES (100);",
	};
	struct db_schema later = numbers;

	later.upgrades = upgrades;
	later.n_upgrades = 1;
	cr_expect_eq(sum_as(&later), 16);
	later.n_upgrades = 2;
	cr_expect_eq(sum_as(&later), 116);
	cr_expect_eq(sum_as(&later), 116);
	/* A new database gets all upgrades at once. */
	close_db();
	(void)strcpy(dir + strlen(dir) - 6, "XXXXXX");
	cr_assert(mkdtemp(dir));
	cr_assert_eq(open_as(&later), 0, "%s", err.msg);
	cr_expect_eq(sum_as(&later), 116);
}

Test(db, refuses_a_database_of_before_its_first_version_and_of_a_newer_one)
{
	struct db_schema other = numbers;

	db_close(db);
	other.version = 6;
	cr_expect_eq(open_as(&other), -EPROTONOSUPPORT);
	cr_expect(strstr(err.msg, "of version 5, this program knows 6 to 6"),
		  "%s", err.msg);
	other.version = 4;
	cr_expect_eq(open_as(&other), -EPROTONOSUPPORT);
	cr_assert_eq(open_as(&numbers), 0, "%s", err.msg);
}
