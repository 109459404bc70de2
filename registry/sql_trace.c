// SPDX-License-Identifier: Apache-2.0
/* Statements of trace_db.c and hot.c: recordings of starts, and their merged lists. */
#include "registry/sql.h"

#define FIND \
	"SELECT id, repo, image, workload, version, votes, newest, used " \
	"FROM start "
#define FIND_TYPES "itttiiii"
#define LIST \
	"SELECT repo, image, workload, votes, bytes, newest, used, " \
	"created, window_ms, ready_ms, entries, truncated FROM start "
#define LIST_TYPES "tttiiiiiiiii"

#define AT(s) (s - SQL_OF_TRACE)

const struct db_statement sql_trace[SQL_OF_TRUST - SQL_OF_TRACE] = {
	[AT(SQL_PING)] = { "ping", "SELECT 1", "i" },
	/* Parameters: image, workload, prefix, repo */
	[AT(SQL_FIND_OWN)] = { "find own",
			       FIND
			       "WHERE image = $1 AND workload = $2 AND " SEES_OF(
				       "CAST($3 AS TEXT)",
				       "$4") "ORDER BY CASE WHEN repo = $4 THEN 0 ELSE 1 END, "
					     "newest DESC LIMIT 1",
			       FIND_TYPES },
	/* Parameters: repo, workload */
	[AT(SQL_FIND_RELATIVE)] = { "find relative",
				    FIND "WHERE repo = $1 AND workload = $2 "
					 "ORDER BY newest DESC LIMIT 1",
				    FIND_TYPES },
	/* Parameters: image, prefix, repo */
	[AT(SQL_FIND_WORKLOAD)] = { "find workload",
				    FIND "WHERE image = $1 AND " SEES_OF(
					    "CAST($2 AS TEXT)",
					    "$3") "ORDER BY CASE WHEN repo = $3 THEN 0 ELSE 1 "
						  "END, newest DESC LIMIT 1",
				    FIND_TYPES },
	[AT(SQL_FIND_FAR)] = { "find far",
			       FIND "WHERE repo = $1 "
				    "ORDER BY newest DESC LIMIT 1",
			       FIND_TYPES },
	/* Parameters: image, prefix, repo or '', limit */
	[AT(SQL_LIST_IMAGE)] = { "list image",
				 LIST "WHERE image = $1 AND " SEES_OF(
					 "CAST($2 AS TEXT)",
					 "$3") "AND (CAST($3 AS TEXT) = '' OR repo = $3) "
					       "ORDER BY newest DESC, id DESC "
					       "LIMIT CAST($4 AS BIGINT)",
				 LIST_TYPES },
	[AT(SQL_LIST_REPO)] = { "list repo",
				LIST "WHERE repo = $1 "
				     "ORDER BY newest DESC, id DESC "
				     "LIMIT CAST($2 AS BIGINT)",
				LIST_TYPES },
	/* Parameters: limit. One pass over the index start_relative, which has all columns that are
	 * grouped. */
	[AT(SQL_LIST_DONORS)] = { "list donors",
				  "SELECT s.id, s.repo, s.image, s.workload, "
				  "s.version, s.votes, s.newest, s.used "
				  "FROM (SELECT repo, workload, "
				  "max(newest) AS newest FROM start "
				  "WHERE repo <> '' AND repo NOT LIKE '%://%' "
				  "GROUP BY repo, workload "
				  "ORDER BY max(newest) DESC "
				  "LIMIT CAST($1 AS BIGINT)) AS m "
				  "CROSS JOIN start AS s "
				  "WHERE s.repo = m.repo AND "
				  "s.workload = m.workload AND "
				  "s.newest = m.newest "
				  "ORDER BY s.newest DESC, s.id DESC "
				  "LIMIT CAST($1 AS BIGINT)",
				  FIND_TYPES },
	/* Parameters: repo, image, workload, now, time of use for a new row. Locks the start's
	 * row. */
	[AT(SQL_TOUCH)] = { "touch",
			    "INSERT INTO start (repo, image, workload, version, "
			    "votes, bytes, newest, used, created, window_ms, "
			    "ready_ms, entries, truncated) "
			    "VALUES ($1, $2, $3, 1, 0, 0, $4, $5, 0, 0, 0, 0, 0) "
			    "ON CONFLICT (image, workload, repo) "
			    "DO UPDATE SET version = start.version + 1 "
			    "RETURNING id",
			    "i" },
	[AT(SQL_USED)] = { "used", "UPDATE start SET used = $1 WHERE id = $2",
			   "" },
	[AT(SQL_VOTES)] = { "votes",
			    "SELECT token, node, received, memory FROM vote "
			    "WHERE start = $1 ORDER BY memory, received DESC, "
			    "token, node",
			    "ttii" },
	[AT(SQL_VOTE)] = { "vote",
			   "SELECT trace FROM vote "
			   "WHERE start = $1 AND token = $2 AND node = $3",
			   "b" },
	/* Parameters: start, token, node, received, bytes, memory, trace */
	[AT(SQL_VOTE_PUT)] = { "put vote",
			       "INSERT INTO vote (start, token, node, received, "
			       "bytes, memory, trace) "
			       "VALUES ($1, $2, $3, $4, $5, $6, $7) "
			       "ON CONFLICT (start, token, node) DO UPDATE SET "
			       "received = excluded.received, "
			       "bytes = excluded.bytes, memory = excluded.memory, "
			       "trace = excluded.trace",
			       "" },
	[AT(SQL_VOTE_REMOVE)] = { "remove vote",
				  "DELETE FROM vote "
				  "WHERE start = $1 AND token = $2 AND node = $3",
				  "" },
	/* Parameters: newest, created, window_ms, ready_ms, entries, truncated, start */
	[AT(SQL_SUMMARY)] = { "summary",
			      "UPDATE start SET newest = $1, created = $2, "
			      "window_ms = $3, ready_ms = $4, entries = $5, "
			      "truncated = $6 WHERE id = $7",
			      "" },
	[AT(SQL_SUM)] = { "sum",
			  "UPDATE start SET "
			  "votes = (SELECT count(*) FROM vote WHERE start = $1), "
			  "bytes = (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) "
			  "FROM vote WHERE start = $1) + "
			  "coalesce((SELECT bytes FROM hot WHERE start = $1), 0) "
			  "WHERE id = $1",
			  "" },
	/* Parameters: since, token, node. The node's recordings since then, and the bytes of all of
	 * them. */
	[AT(SQL_VOTER)] = { "voter",
			    "SELECT CAST(coalesce(sum(CASE WHEN received > "
			    "CAST($1 AS BIGINT) THEN 1 ELSE 0 END), 0) AS BIGINT), "
			    "CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM vote "
			    "WHERE token = $2 AND node = $3",
			    "ii" },
	[AT(SQL_VOTER_OLDEST)] = { "oldest vote of a node",
				   "SELECT start FROM vote WHERE token = $1 AND "
				   "node = $2 AND start <> $3 "
				   "ORDER BY received, start LIMIT 1",
				   "i" },
	[AT(SQL_REPO_BYTES)] = { "bytes of a repository",
				 "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) "
				 "FROM start WHERE repo = $1",
				 "i" },
	/* Parameters: repo, start to leave out */
	[AT(SQL_REPO_OLDEST)] = { "least used of a repository",
				  "SELECT id FROM start WHERE repo = $1 AND "
				  "id <> $2 ORDER BY used, id LIMIT 1",
				  "i" },
	[AT(SQL_REPO_LARGEST)] = { "largest repository",
				   "SELECT repo FROM start GROUP BY repo "
				   "ORDER BY sum(bytes) DESC, repo LIMIT 1",
				   "t" },
	[AT(SQL_REMOVE)] = { "remove", "DELETE FROM start WHERE id = $1", "" },
	[AT(SQL_REMOVE_EMPTY)] = { "remove empty",
				   "DELETE FROM start WHERE id = $1 AND NOT EXISTS "
				   "(SELECT 1 FROM vote WHERE start = $1)",
				   "" },
	/* Parameters: image, workload or '', repo or '', prefix */
	[AT(SQL_FORGET)] = { "forget",
			     "DELETE FROM start WHERE image = $1 AND "
			     "(CAST($2 AS TEXT) = '' OR workload = $2) AND "
			     "(CAST($3 AS TEXT) = '' OR repo = $3) AND " SEES(
				     "CAST($4 AS TEXT)"),
			     "" },
	[AT(SQL_HOT)] = { "hot",
			  "SELECT version, made_ms, votes, trace FROM hot "
			  "WHERE start = $1",
			  "iiib" },
	/* Parameters: start, version, made_ms, votes, bytes, trace */
	[AT(SQL_HOT_PUT)] = { "put hot",
			      "INSERT INTO hot (start, version, made_ms, votes, "
			      "bytes, trace) VALUES ($1, $2, $3, $4, $5, $6) "
			      "ON CONFLICT (start) DO UPDATE SET "
			      "version = excluded.version, "
			      "made_ms = excluded.made_ms, "
			      "votes = excluded.votes, bytes = excluded.bytes, "
			      "trace = excluded.trace "
			      "WHERE excluded.version >= hot.version",
			      "" },
	/* Parameters: before, limit */
	[AT(SQL_EXPIRE)] = { "expire",
			     "DELETE FROM start WHERE id IN (SELECT id FROM start "
			     "WHERE used < $1 ORDER BY used "
			     "LIMIT CAST($2 AS BIGINT))",
			     "" },
	[AT(SQL_TOTAL)] = { "total",
			    "SELECT CAST(count(*) AS BIGINT), "
			    "CAST(coalesce(sum(votes), 0) AS BIGINT), "
			    "CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM start",
			    "iii" },
};
