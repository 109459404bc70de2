// SPDX-License-Identifier: Apache-2.0
/* Connections, transactions and their retries, and the schema. */
#include "registry/db.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "common/buf.h"
#include "common/clock.h"

#define RETRY_PAUSE_NS INT64_C(20000000) /* doubled after each attempt */
/* timeout of a statement that upgrades the schema */
#define UPGRADE_NS (3600 * NS_PER_S)

static const struct db_ops *const kinds[] = { &db_sqlite_ops, &db_pg_ops };

struct db {
	const struct db_ops *ops;
	struct db_config cfg;
	char *url;
	pthread_mutex_t lock; /* protects the members below */
	/* A thread is writing; used where the database has a single writer. Others wait for
	 * `written`, because the database itself would make them poll. */
	bool writing;
	pthread_cond_t written;
	struct db_conn *free; /* idle connections */
	struct db_stats stats;
};

struct db_value db_text(const char *text)
{
	return (struct db_value){ .type = DB_TEXT,
				  .data = text,
				  .len = strlen(text) };
}

struct db_value db_blob(const void *data, size_t len)
{
	return (struct db_value){ .type = DB_BLOB, .data = data, .len = len };
}

char *db_strdup(const struct db_value *v)
{
	return strndup(v->data ? v->data : "", v->len);
}

/* -------------------------------------------------------------- connections --- */

static int connect_one(struct db *db, struct db_conn **ret, struct error *err)
{
	struct db_conn *c = NULL;
	int rc = db->ops->connect(&db->cfg, &c, err);

	if (rc < 0)
		return rc;
	c->ops = db->ops;
	c->cfg = &db->cfg;
	*ret = c;
	return 0;
}

static void close_list(struct db *db, struct db_conn *c)
{
	struct db_conn *next;

	for (; c; c = next) {
		next = c->next;
		db->ops->close(c);
	}
}

static void release_conn(struct db *db, struct db_conn *c)
{
	struct db_conn *dead = NULL;

	pthread_mutex_lock(&db->lock);
	c->next = db->free;
	db->free = c;
	if (c->broken) {
		/* The server has gone, so the idle connections are broken too: close them all. */
		dead = db->free;
		db->free = NULL;
		for (struct db_conn *d = dead; d; d = d->next)
			db->stats.connections--;
	}
	pthread_mutex_unlock(&db->lock);
	close_list(db, dead);
}

static int take_conn(struct db *db, struct db_conn **ret, struct error *err)
{
	struct db_conn *c;
	int rc;

	pthread_mutex_lock(&db->lock);
	c = db->free;
	if (c)
		db->free = c->next;
	pthread_mutex_unlock(&db->lock);
	*ret = c;
	if (c)
		return 0;
	rc = connect_one(db, &c, err);
	if (rc < 0)
		return rc;
	rc = db->ops->prepare(c, db->cfg.schema->n_statements, err);
	if (rc < 0) {
		db->ops->close(c);
		return rc;
	}
	pthread_mutex_lock(&db->lock);
	db->stats.connections++;
	db->stats.connects_total++;
	pthread_mutex_unlock(&db->lock);
	*ret = c;
	return 0;
}

/* ------------------------------------------------------------- transactions --- */

struct showing {
	struct db_conn *c;
	int (*each)(void *arg, const struct db_value *row);
	void *arg;
};

static int show_row(void *arg, const struct db_value *row)
{
	struct showing *s = arg;

	s->c->has_shown = true;
	return s->each(s->arg, row);
}

int db_query(struct db_conn *c, size_t s, const struct db_value *params,
	     size_t n, int (*each)(void *arg, const struct db_value *row),
	     void *arg, struct error *err)
{
	const struct db_statement *st = db_statement_of(c->cfg->schema, s);
	struct showing to = { c, each, arg };
	int rc = c->ops->query(c, st, s, params, n, each ? show_row : NULL, &to,
			       err);

	return rc < 0 ? error_wrap(err, rc, "%s", st->name) : rc;
}

static int run_transaction(struct db *db, struct db_conn *c, enum db_mode mode,
			   int (*fn)(struct db_conn *c, void *arg,
				     struct error *err),
			   void *arg, struct error *err)
{
	int rc, end;

	if (mode == DB_ALONE)
		return fn(c, arg, err);
	rc = db->ops->begin(c, err);
	if (rc == 0)
		rc = fn(c, arg, err);
	if (rc >= 0) {
		/* If the connection breaks during the commit, its outcome is unknown. The
		 * transaction is then repeated: all of ours can be. */
		end = db->ops->commit(c, err);
		rc = end < 0 ? end : rc;
	}
	if (rc < 0 && !c->broken)
		db->ops->rollback(c);
	return rc;
}

/* Wait, up to the timeout, until no other thread writes. */
static int begin_writing(struct db *db, struct error *err)
{
	int64_t until = clock_now_ns() + db->cfg.timeout_ns;
	const struct timespec t = { .tv_sec = until / NS_PER_S,
				    .tv_nsec = until % NS_PER_S };
	int late = 0;

	pthread_mutex_lock(&db->lock);
	while (db->writing && !late)
		late = pthread_cond_timedwait(&db->written, &db->lock, &t);
	late = db->writing;
	db->writing = true;
	pthread_mutex_unlock(&db->lock);
	return late ? error_set(err, EBUSY, "too many wait to write") : 0;
}

static void end_writing(struct db *db)
{
	pthread_mutex_lock(&db->lock);
	db->writing = false;
	pthread_cond_signal(&db->written);
	pthread_mutex_unlock(&db->lock);
}

static int run_once(struct db *db, enum db_mode mode,
		    int (*fn)(struct db_conn *c, void *arg, struct error *err),
		    void *arg, bool *ret_again, bool *ret_lost,
		    struct error *err)
{
	bool lock = mode == DB_WRITE && db->ops->one_writer;
	struct db_conn *c;
	int rc = take_conn(db, &c, err);

	*ret_again = *ret_lost = rc == -ECONNREFUSED;
	if (rc < 0)
		return rc;
	c->again = c->has_shown = false;
	if (lock)
		rc = begin_writing(db, err);
	if (rc == 0) {
		rc = run_transaction(db, c, mode, fn, arg, err);
		if (lock)
			end_writing(db);
	}
	*ret_lost = rc < 0 && (c->broken || c->again);
	*ret_again = *ret_lost && (mode == DB_WRITE || !c->has_shown);
	release_conn(db, c);
	return rc;
}

/* Sleep before a retry; no lock is held, so other threads go on. */
static void pause_for(int64_t ns)
{
	const struct timespec t = { .tv_sec = ns / NS_PER_S,
				    .tv_nsec = ns % NS_PER_S };

	(void)nanosleep(&t, NULL);
}

int db_run(struct db *db, enum db_mode mode,
	   int (*fn)(struct db_conn *c, void *arg, struct error *err),
	   void *arg, struct error *err)
{
	int64_t deadline = clock_now_ns() + 2 * db->cfg.timeout_ns;
	int64_t pause = RETRY_PAUSE_NS;
	bool again, is_lost;
	int rc;

	for (;;) {
		rc = run_once(db, mode, fn, arg, &again, &is_lost, err);
		if (rc >= 0 || !again || clock_now_ns() + pause > deadline)
			break;
		pthread_mutex_lock(&db->lock);
		db->stats.retries_total++;
		pthread_mutex_unlock(&db->lock);
		pause_for(pause);
		pause *= 2;
	}
	/* Count only failures of the database, not errors that fn returned. */
	if (rc < 0 && is_lost) {
		pthread_mutex_lock(&db->lock);
		db->stats.failures_total++;
		pthread_mutex_unlock(&db->lock);
	}
	return rc;
}

/* ------------------------------------------------------------------- schema --- */

/* Replace the script's placeholders (@ID@, @BLOB@) by the words of this kind of database. */
static int adapt_script(const struct db_ops *ops, const char *script,
			struct buf *ret)
{
	int rc = 0;

	while (*script && rc == 0) {
		size_t n = strcspn(script, "@");

		rc = buf_append(ret, script, n);
		script += n;
		if (rc < 0 || !*script)
			break;
		if (strncmp(script, "@ID@", 4) == 0) {
			rc = buf_puts(ret, ops->id_type);
			script += 4;
		} else if (strncmp(script, "@BLOB@", 6) == 0) {
			rc = buf_puts(ret, ops->blob_type);
			script += 6;
		} else if (strncmp(script, "@CLUSTERED@", 11) == 0) {
			rc = buf_puts(ret, ops->clustered);
			script += 11;
		} else {
			rc = buf_append(ret, script++, 1);
		}
	}
	return rc;
}

int db_take_number(void *arg, const struct db_value *row)
{
	*(int64_t *)arg = row[0].n;
	return 0;
}

int db_take_note(void *arg, const struct db_value *row)
{
	(void)row;
	*(bool *)arg = true;
	return 0;
}

static int upgrade_schema(struct db_conn *c, int from, struct error *err)
{
	const struct db_schema *schema = c->cfg->schema;
	AUTO_BUF sql = BUF_INIT;
	int rc = 0;

	/* An upgrade may change every row, so allow its statements more time. */
	if (c->ops->set_timeout)
		rc = c->ops->set_timeout(c, UPGRADE_NS, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; !from && schema->tables[i] && rc == 0; i++)
		rc = adapt_script(c->ops, schema->tables[i], &sql);
	for (int v = from ? from - schema->version : 0;
	     v < schema->n_upgrades && rc == 0; v++)
		rc = adapt_script(c->ops, schema->upgrades[v], &sql);
	if (rc < 0 || buf_printf(&sql, "UPDATE schema_version SET version = %d",
				 schema->version + schema->n_upgrades) < 0)
		return error_nomem(err);
	return c->ops->script(c, sql.data, err);
}

static int migrate_in(struct db_conn *c, struct error *err)
{
	static const struct db_statement ask = {
		.name = "schema_version",
		.sql = "SELECT version FROM schema_version",
		.types = "i",
	};
	const struct db_schema *schema = c->cfg->schema;
	int newest = schema->version + schema->n_upgrades, rc = 0;
	int64_t version = -1;

	if (c->ops->schema_lock)
		rc = c->ops->script(c, c->ops->schema_lock, err);
	if (rc == 0)
		rc = c->ops->script(
			c,
			"CREATE TABLE IF NOT EXISTS schema_version ("
			" one INTEGER PRIMARY KEY CHECK (one = 1),"
			" version INTEGER NOT NULL);"
			"INSERT INTO schema_version VALUES (1, 0)"
			" ON CONFLICT DO NOTHING",
			err);
	if (rc == 0)
		rc = c->ops->query(c, &ask, SIZE_MAX, NULL, 0, db_take_number,
				   &version, err);
	if (rc < 0)
		return rc;
	if (version && (version < schema->version || version > newest))
		return error_set(err, EPROTONOSUPPORT,
				 "its schema is of version %" PRId64
				 ", this program knows %d to %d: run the "
				 "program that made it, or begin with an empty "
				 "database",
				 version, schema->version, newest);
	return version < newest ? upgrade_schema(c, (int)version, err) : 0;
}

static int migrate_schema(struct db *db, struct error *err)
{
	struct db_conn *c = NULL;
	int rc = connect_one(db, &c, err);

	if (rc < 0)
		return rc;
	rc = db->ops->begin(c, err);
	if (rc == 0)
		rc = migrate_in(c, err);
	if (rc == 0)
		rc = db->ops->commit(c, err);
	else if (!c->broken)
		db->ops->rollback(c);
	db->ops->close(c);
	return error_wrap(err, rc, "schema");
}

/* -------------------------------------------------------------------- open --- */

static int choose_kind(const char *url, const struct db_ops **ret,
		       struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t n = strlen(kinds[i]->scheme);

		if (strncmp(url, kinds[i]->scheme, n) == 0) {
			*ret = kinds[i];
			return 0;
		}
	}
	return error_set(err, EINVAL,
			 "--db '%.*s' is neither sqlite:/PATH nor "
			 "postgresql://HOST/NAME",
			 (int)strcspn(url, ":@/"), url);
}

int db_check_url(const char *url, struct error *err)
{
	const struct db_ops *ops;
	int rc = choose_kind(url, &ops, err);

	if (rc == 0 && ops == &db_sqlite_ops && url[strlen(ops->scheme)] != '/')
		return error_set(
			err, EINVAL,
			"--db '%s' has no absolute path: begin it with "
			"/, as sqlite:/srv/traces.db",
			url);
	return rc;
}

static int refuse_open(int rc, struct error *err)
{
	struct error why = ERROR_INIT;

	if (rc != -ECONNREFUSED || !err)
		return error_wrap(err, rc, "database (--db)");
	why = *err;
	return error_set(err, -rc,
			 "database (--db): %.150s: check host, port, name and "
			 "user of --db, and that PostgreSQL runs there",
			 why.msg);
}

int db_open(const struct db_config *cfg, struct db **ret, struct error *err)
{
	struct db *db = calloc(1, sizeof(*db));
	pthread_condattr_t attr;
	struct db_conn *c;
	int rc;

	if (!db)
		return error_nomem(err);
	pthread_mutex_init(&db->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&db->written, &attr);
	pthread_condattr_destroy(&attr);
	db->cfg = *cfg;
	db->cfg.url = db->url = strdup(cfg->url);
	rc = db->url ? choose_kind(db->url, &db->ops, err) : error_nomem(err);
	if (rc == 0)
		rc = migrate_schema(db, err);
	if (rc == 0)
		rc = take_conn(db, &c, err);
	if (rc < 0) {
		db_close(db);
		return refuse_open(rc, err);
	}
	release_conn(db, c);
	*ret = db;
	return 0;
}

void db_close(struct db *db)
{
	if (!db)
		return;
	close_list(db, db->free);
	pthread_cond_destroy(&db->written);
	pthread_mutex_destroy(&db->lock);
	free(db->url);
	free(db);
}

const char *db_kind(const struct db *db)
{
	return db->ops->name;
}

void db_get_stats(struct db *db, struct db_stats *ret)
{
	pthread_mutex_lock(&db->lock);
	*ret = db->stats;
	pthread_mutex_unlock(&db->lock);
}
