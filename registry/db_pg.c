// SPDX-License-Identifier: Apache-2.0
/*
 * PostgreSQL, for several services on one database.  libpq is driven without
 * blocking, so that every wait has a deadline, also when the server is alive but
 * silent.
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <string.h>

#include "common/buf.h"
#include "common/clock.h"
#include "registry/db.h"

#define NAME_MAX_ 64

struct pg_conn {
	struct db_conn base;
	PGconn *pg;
	size_t n_prepared;
	int64_t timeout_ns;
};

static struct pg_conn *get_pg_conn(struct db_conn *c)
{
	return container_of(c, struct pg_conn, base);
}

/* -------------------------------------------------------------------- errors --- */

/* Keep the first line of libpq's message: the others add nothing. */
static int set_message(struct error *err, int code, const char *text)
{
	return error_set(err, code, "postgresql: %.*s",
			 (int)strcspn(text, "\n"), text);
}

static int set_conn_broken(struct pg_conn *p, struct error *err)
{
	p->base.broken = true;
	return set_message(err, ECONNREFUSED, PQerrorMessage(p->pg));
}

static int fail_deadline(struct pg_conn *p, struct error *err)
{
	p->base.broken = true;
	return set_message(err, ECONNREFUSED, "it does not answer in time");
}

/* SQLSTATE, or the start of it: PostgreSQL's documentation, appendix A. */
static const struct {
	const char *state;
	int code;
	bool again, broken;
} states[] = {
	{ "40", EBUSY, true, false }, /* deadlock, serialization */
	/* two inserted the same key at once */
	{ "23505", EBUSY, true, false },
	{ "55P03", EBUSY, false, false },      /* lock_timeout */
	{ "57014", EBUSY, false, false },      /* statement_timeout */
	{ "25006", ECONNREFUSED, true, true }, /* a standby, which only reads */
	{ "53", ENOSPC, false, false },        /* disk, memory, connections */
	/* the server shuts down or starts */
	{ "57P", ECONNREFUSED, true, true },
	{ "08", ECONNREFUSED, true, true },
};

static int fail_result(struct pg_conn *p, const PGresult *r, struct error *err)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	int code = EIO;

	if (PQstatus(p->pg) != CONNECTION_OK)
		return set_conn_broken(p, err);
	for (size_t i = 0; state && i < ARRAY_SIZE(states); i++) {
		if (strncmp(state, states[i].state, strlen(states[i].state)) !=
		    0)
			continue;
		code = states[i].code;
		p->base.again = states[i].again;
		p->base.broken = states[i].broken;
		break;
	}
	return set_message(err, code, PQresultErrorMessage(r));
}

/* -------------------------------------------------------------------- waiting --- */

static int wait_socket(struct pg_conn *p, short events, int64_t deadline,
		       struct error *err)
{
	struct pollfd fd = { .fd = PQsocket(p->pg), .events = events };
	int64_t left;
	int rc;

	do {
		left = (deadline - clock_now_ns()) / NS_PER_MS;
		if (left <= 0)
			return fail_deadline(p, err);
		rc = poll(&fd, 1, (int)left + 1);
	} while (rc == 0 || (rc < 0 && errno == EINTR));
	return rc < 0 ? set_conn_broken(p, err) : 0;
}

static int flush_query(struct pg_conn *p, int64_t deadline, struct error *err)
{
	int more, rc;

	while ((more = PQflush(p->pg)) > 0) {
		rc = wait_socket(p, POLLIN | POLLOUT, deadline, err);
		if (rc < 0)
			return rc;
		if (!PQconsumeInput(p->pg))
			return set_conn_broken(p, err);
	}
	return more < 0 ? set_conn_broken(p, err) : 0;
}

/* Read all results of a query, and keep the last: it holds the outcome of the whole. */
static int collect_result(struct pg_conn *p, int sent, PGresult **ret,
			  struct error *err)
{
	/* Wait longer than the server's own time limits, which leave a usable connection. */
	int64_t deadline = clock_now_ns() + p->timeout_ns * 3 / 2;
	PGresult *r, *last = NULL;
	int rc = sent ? flush_query(p, deadline, err) : set_conn_broken(p, err);

	while (rc == 0) {
		while (rc == 0 && PQisBusy(p->pg)) {
			rc = wait_socket(p, POLLIN, deadline, err);
			if (rc == 0 && !PQconsumeInput(p->pg))
				rc = set_conn_broken(p, err);
		}
		if (rc < 0)
			break;
		r = PQgetResult(p->pg);
		if (!r)
			break;
		/* Keep the first failure of a script. */
		if (last && PQresultStatus(last) == PGRES_FATAL_ERROR) {
			PQclear(r);
			continue;
		}
		PQclear(last);
		last = r;
	}
	if (rc == 0 && !last)
		rc = set_conn_broken(p, err);
	if (rc == 0 && PQresultStatus(last) != PGRES_COMMAND_OK &&
	    PQresultStatus(last) != PGRES_TUPLES_OK)
		rc = fail_result(p, last, err);
	if (rc < 0) {
		PQclear(last);
		return rc;
	}
	*ret = last;
	return 0;
}

static int run_script(struct db_conn *c, const char *sql, struct error *err)
{
	struct pg_conn *p = get_pg_conn(c);
	PGresult *r = NULL;
	int rc = collect_result(p, PQsendQuery(p->pg, sql), &r, err);

	PQclear(r);
	return rc;
}

/* ----------------------------------------------------------------- connecting --- */

static void close_conn(struct db_conn *c)
{
	struct pg_conn *p = get_pg_conn(c);

	PQfinish(p->pg);
	free(p);
}

static int connect_wait(struct pg_conn *p, struct error *err)
{
	int64_t deadline = clock_now_ns() + p->timeout_ns;
	PostgresPollingStatusType what = PGRES_POLLING_WRITING;
	int rc;

	if (PQstatus(p->pg) == CONNECTION_BAD)
		return set_conn_broken(p, err);
	while (what != PGRES_POLLING_OK) {
		rc = wait_socket(p,
				 what == PGRES_POLLING_READING ? POLLIN
							       : POLLOUT,
				 deadline, err);
		if (rc < 0)
			return rc;
		what = PQconnectPoll(p->pg);
		if (what == PGRES_POLLING_FAILED)
			return set_conn_broken(p, err);
	}
	return PQsetnonblocking(p->pg, 1) == 0 ? 0 : set_conn_broken(p, err);
}

/* Set the server's time limits, for when this client is gone or waits. */
static int set_session(struct pg_conn *p, struct error *err)
{
	int64_t ms = p->timeout_ns / NS_PER_MS;
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "SET statement_timeout = %" PRId64 ";"
		 "SET lock_timeout = %" PRId64 ";"
		 "SET idle_in_transaction_session_timeout = %" PRId64 ";"
		 "SET client_min_messages = warning;"
		 "SET client_encoding = 'UTF8'",
		 ms, ms, 2 * ms);
	return run_script(&p->base, sql, err);
}

/* Change the limit of statements only. The limits of locks and idle sessions stay, also while a
 * statement may take long: a client that is gone or blocks others must not do so for longer. */
static int set_timeout(struct db_conn *c, int64_t ns, struct error *err)
{
	struct pg_conn *p = get_pg_conn(c);
	char sql[64];

	p->timeout_ns = ns;
	snprintf(sql, sizeof(sql), "SET statement_timeout = %" PRId64,
		 ns / NS_PER_MS);
	return run_script(c, sql, err);
}

static void ignore_notice(void *arg, const PGresult *r)
{
}

static int open_conn(const struct db_config *cfg, struct db_conn **ret,
		     struct error *err)
{
	static const char *const keys[] = { "dbname", "application_name",
					    NULL };
	const char *const values[] = { cfg->url, "bootseer-registry", NULL };
	struct pg_conn *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->timeout_ns = cfg->timeout_ns;
	/* An application_name in the URL overrides ours. */
	p->pg = PQconnectStartParams(keys, values, 1);
	rc = p->pg ? connect_wait(p, err) : error_nomem(err);
	if (rc == 0) {
		PQsetNoticeReceiver(p->pg, ignore_notice, NULL);
		rc = set_session(p, err);
	}
	if (rc < 0) {
		close_conn(&p->base);
		return rc;
	}
	*ret = &p->base;
	return 0;
}

static void statement_name(size_t i, char out[NAME_MAX_])
{
	snprintf(out, NAME_MAX_, "s%zu", i);
}

static int prepare_statements(struct db_conn *c, size_t n, struct error *err)
{
	struct pg_conn *p = get_pg_conn(c);

	for (; p->n_prepared < n; p->n_prepared++) {
		const struct db_statement *st =
			db_statement_of(c->cfg->schema, p->n_prepared);
		char name[NAME_MAX_];
		PGresult *r = NULL;
		int rc;

		statement_name(p->n_prepared, name);
		rc = collect_result(p,
				    PQsendPrepare(p->pg, name, st->sql, 0,
						  NULL),
				    &r, err);
		PQclear(r);
		if (rc < 0)
			return error_wrap(err, rc, "%s", st->name);
	}
	return 0;
}

/* --------------------------------------------------------------- transactions --- */

static int begin_transaction(struct db_conn *c, struct error *err)
{
	return run_script(c, "BEGIN", err);
}

static int commit_transaction(struct db_conn *c, struct error *err)
{
	return run_script(c, "COMMIT", err);
}

static void roll_back(struct db_conn *c)
{
	bool again = c->again;

	if (run_script(c, "ROLLBACK", NULL) < 0)
		c->broken = true;
	c->again = again;
}

/* ----------------------------------------------------------------------- rows --- */

struct pg_params {
	const char *values[DB_PARAMS_MAX];
	int lengths[DB_PARAMS_MAX], formats[DB_PARAMS_MAX];
	char numbers[DB_PARAMS_MAX][24];
};

static void bind_params(const struct db_value *params, size_t n,
			struct pg_params *ret)
{
	for (size_t i = 0; i < n; i++) {
		const struct db_value *v = &params[i];

		ret->values[i] = v->type == DB_NULL ? NULL : v->data;
		ret->lengths[i] = (int)v->len;
		ret->formats[i] = v->type == DB_BLOB;
		if (v->type == DB_INTEGER) {
			snprintf(ret->numbers[i], sizeof(ret->numbers[i]),
				 "%" PRId64, v->n);
			ret->values[i] = ret->numbers[i];
		} else if (v->type == DB_BLOB && !v->data) {
			ret->values[i] = "";
		}
	}
}

/* Read a binary integer of 2, 4 or 8 bytes, the size of the column's type. */
static int64_t read_integer(const void *data, size_t len)
{
	uint16_t n2;
	uint32_t n4;
	uint64_t n8;

	switch (len) {
	case sizeof(n2):
		memcpy(&n2, data, len);
		return (int16_t)be16toh(n2);
	case sizeof(n4):
		memcpy(&n4, data, len);
		return (int32_t)be32toh(n4);
	case sizeof(n8):
		memcpy(&n8, data, len);
		return (int64_t)be64toh(n8);
	default:
		return 0;
	}
}

static struct db_value read_column(const PGresult *r, int row, int i, char type)
{
	struct db_value v = { .type = DB_NULL };

	if (PQgetisnull(r, row, i))
		return v;
	v.type = type == 't' ? DB_TEXT : DB_BLOB;
	v.data = PQgetvalue(r, row, i);
	v.len = (size_t)PQgetlength(r, row, i);
	return type == 'i' ? DB_INT(read_integer(v.data, v.len)) : v;
}

static int show_rows(const PGresult *r, const char *types,
		     int (*each)(void *arg, const struct db_value *row),
		     void *arg, struct error *err)
{
	struct db_value row[DB_COLUMNS_MAX];
	int n = PQntuples(r), rc;

	if ((size_t)PQnfields(r) != strlen(types))
		return error_set(err, EPROTO, "postgresql: %d columns came",
				 PQnfields(r));
	for (int k = 0; k < n && each; k++) {
		for (int i = 0; types[i]; i++)
			row[i] = read_column(r, k, i, types[i]);
		rc = each(arg, row);
		if (rc < 0)
			return error_set(err, -rc, "%s", strerror(-rc));
	}
	return n;
}

static int run_query(struct db_conn *c, const struct db_statement *what,
		     size_t i, const struct db_value *params, size_t n,
		     int (*each)(void *arg, const struct db_value *row),
		     void *arg, struct error *err)
{
	struct pg_conn *p = get_pg_conn(c);
	struct pg_params b;
	char name[NAME_MAX_];
	PGresult *r = NULL;
	int sent, rc;

	bind_params(params, n, &b);
	statement_name(i, name);
	if (i < p->n_prepared)
		sent = PQsendQueryPrepared(p->pg, name, (int)n, b.values,
					   b.lengths, b.formats, 1);
	else
		sent = PQsendQueryParams(p->pg, what->sql, (int)n, NULL,
					 b.values, b.lengths, b.formats, 1);
	rc = collect_result(p, sent, &r, err);
	if (rc == 0)
		rc = what->types[0] ? show_rows(r, what->types, each, arg, err)
				    : atoi(PQcmdTuples(r));
	PQclear(r);
	return rc;
}

const struct db_ops db_pg_ops = {
	.name = "postgresql",
	.scheme = "postgresql:",
	.id_type = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
	.blob_type = "BYTEA",
	.clustered = "",
	/* The number is arbitrary; no other program on this database may use it. */
	.schema_lock = "SELECT pg_advisory_xact_lock(4771520190125)",
	.connect = open_conn,
	.close = close_conn,
	.set_timeout = set_timeout,
	.script = run_script,
	.prepare = prepare_statements,
	.begin = begin_transaction,
	.commit = commit_transaction,
	.rollback = roll_back,
	.query = run_query,
};
