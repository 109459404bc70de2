// SPDX-License-Identifier: Apache-2.0
/* Statements of env_db.c: keys of environments. */
#include "registry/sql.h"

#define ENV \
	"SELECT env, generation, holder, until_ms, failures, capture, " \
	"description, stored, made_by, program, token, made_ms, used_ms, " \
	"expires_ms, pinned, bad FROM env_key "
#define ENV_TYPES "titiittitttiiiit"
/* Condition: the lease of this repo, key, generation and owner was neither taken over nor dropped.
 * Its end does not matter: a late renewal is accepted if no other captor took the lease. */
#define ENV_HELD(a, b, c, d) \
	"WHERE repo = $" #a " AND env = $" #b " AND generation = $" #c \
	" AND owner = $" #d " AND until_ms > 0"

#define AT(s) (s - SQL_OF_ENV)

const struct db_statement sql_env[SQL_OF_INDEX - SQL_OF_ENV] = {
	/* Parameters: repo, key */
	[AT(SQL_ENV_GET)] = { "environment", ENV "WHERE repo = $1 AND env = $2",
			      ENV_TYPES },
	/* Parameters: repo, first digits of keys or '', key to begin after or '', now, limit */
	[AT(SQL_ENV_LIST)] = { "environments",
			       ENV
			       "WHERE repo = $1 AND capture <> '' AND "
			       "(CAST($2 AS TEXT) = '' OR "
			       "substr(env, 8, length(CAST($2 AS TEXT))) = $2) "
			       "AND env > $3 AND (pinned = 1 OR "
			       "expires_ms = 0 OR expires_ms > $4) "
			       "ORDER BY env LIMIT CAST($5 AS BIGINT)",
			       ENV_TYPES },
	/* Parameters: holder, owner, ttl_ms, now, repo, key, longest lease, snapshot that will not
	 * do. For a key that is known. */
	[AT(SQL_ENV_TAKE)] = { "take the lease of an environment",
			       "UPDATE env_key SET generation = generation + 1, "
			       "holder = $1, owner = $2, "
			       "ttl_ms = CAST($3 AS BIGINT), "
			       "until_ms = CAST($4 AS BIGINT) + CAST($3 AS BIGINT), "
			       "touched_ms = CAST($4 AS BIGINT) "
			       "WHERE repo = $5 AND env = $6 AND "
			       "(until_ms <= CAST($4 AS BIGINT) OR "
			       "until_ms > CAST($4 AS BIGINT) + CAST($7 AS BIGINT)) "
			       "AND (capture = '' OR (pinned = 0 AND "
			       "(capture = CAST($8 AS TEXT) OR "
			       "(expires_ms > 0 AND "
			       "expires_ms <= CAST($4 AS BIGINT))))) "
			       "RETURNING generation",
			       "i" },
	/* Parameters: repo, key, now, holder, owner, ttl_ms. For a key that is new. */
	[AT(SQL_ENV_NEW)] = { "put an environment's key",
			      "INSERT INTO env_key (repo, env, generation, "
			      "holder, owner, first_owner, ttl_ms, until_ms, "
			      "failures, touched_ms) VALUES ($1, $2, "
			      "CAST($3 AS BIGINT), $4, $5, $5, "
			      "CAST($6 AS BIGINT), "
			      "CAST($3 AS BIGINT) + CAST($6 AS BIGINT), 0, "
			      "CAST($3 AS BIGINT)) "
			      "ON CONFLICT (repo, env) DO NOTHING "
			      "RETURNING generation",
			      "i" },
	/* Parameters: name of the counter, which grows by one */
	[AT(SQL_ENV_COUNT)] = { "count an environment's key",
				"INSERT INTO env_count (what, n) VALUES ($1, 1) "
				"ON CONFLICT (what) DO UPDATE SET "
				"n = env_count.n + 1 RETURNING n",
				"i" },
	[AT(SQL_ENV_COUNT_NONE)] = { "forget counts of environments",
				     "DELETE FROM env_count", "" },
	[AT(SQL_ENV_COUNT_ALL)] = { "count environments", ENV_COUNT_ALL, "" },
	/* Parameters: now, then the four of ENV_HELD */
	[AT(SQL_ENV_RENEW)] = { "renew the lease of an environment",
				"UPDATE env_key SET "
				"until_ms = CAST($1 AS BIGINT) + ttl_ms, "
				"touched_ms = CAST($1 AS BIGINT) " ENV_HELD(2,
									    3,
									    4,
									    5),
				"" },
	/* Parameters: now, failures to add, then the four of ENV_HELD */
	[AT(SQL_ENV_DROP)] = { "drop the lease of an environment",
			       "UPDATE env_key SET until_ms = 0, touched_ms = $1, "
			       "failures = failures + CAST($2 AS BIGINT) " ENV_HELD(
				       3, 4, 5, 6),
			       "" },
	/* Parameters: now, capture, description, stored, by, program, expires_ms, then the four of
	 * ENV_HELD. A snapshot that was pinned during the lease stays. */
	[AT(SQL_ENV_PUBLISH)] = { "publish an environment",
				  "UPDATE env_key SET token = owner, made_ms = $1, "
				  "used_ms = $1, touched_ms = $1, capture = $2, "
				  "description = $3, stored = $4, made_by = $5, "
				  "program = $6, expires_ms = $7, "
				  "bad = '' " ENV_HELD(
					  8, 9, 10,
					  11) " AND (pinned = 0 OR capture = '' OR capture = $2)",
				  "" },
	/* Parameters: now, repo, key, capture, latest earlier use at which the row is updated */
	[AT(SQL_ENV_USED)] = { "note the use of an environment",
			       "UPDATE env_key SET used_ms = $1 "
			       "WHERE repo = $2 AND env = $3 AND capture = $4 AND "
			       "used_ms <= $5",
			       "" },
	/* Parameters: reason, repo, key, capture. The first reason is kept. */
	[AT(SQL_ENV_BAD)] = { "mark an environment bad",
			      "UPDATE env_key SET bad = CASE WHEN bad = '' THEN "
			      "CAST($1 AS TEXT) ELSE bad END "
			      "WHERE repo = $2 AND env = $3 AND capture = $4",
			      "" },
	/* Parameters: pinned, repo, key */
	[AT(SQL_ENV_PIN)] = { "pin an environment",
			      "UPDATE env_key SET pinned = $1 WHERE repo = $2 AND "
			      "env = $3 AND capture <> ''",
			      "" },
	/* Parameters: now, repo, key. A pinned snapshot stays. */
	[AT(SQL_ENV_REMOVE)] = { "remove an environment",
				 "UPDATE env_key SET capture = '', "
				 "description = '', pinned = 0, bad = '', "
				 "until_ms = 0, generation = generation + 1, "
				 "touched_ms = $1 WHERE repo = $2 AND env = $3 AND "
				 "(capture <> '' OR until_ms > 0) AND "
				 "(pinned = 0 OR capture = '')",
				 "" },
	/* Parameters: a day ago, time since when unused snapshots are removed */
	[AT(SQL_ENV_SWEEP)] = { "sweep environments",
				"DELETE FROM env_key WHERE touched_ms < $1 AND "
				"until_ms < $1 AND "
				"(capture = '' OR (pinned = 0 AND "
				"(used_ms < $2 OR (expires_ms > 0 AND "
				"expires_ms < $1))))",
				"" },
};
