// SPDX-License-Identifier: Apache-2.0
/* The statements of conversion_db.c: images to convert. */
#include "registry/sql.h"

#define AT(s) (s - SQL_OF_CONVERSION)
/* Values of the state column: 0 waiting, 1 running at a worker, 2 done, 3 failed. */

#define COLUMNS \
	"id, repo, image, tag, form, state, tries, queued, due, worker, error "

const struct db_statement sql_conversion[SQL_OF_DOCTOR - SQL_OF_CONVERSION] = {
	/* Parameters: repo, image */
	[AT(SQL_CONVERSION_KNOWN)] = { "is a conversion known",
				       "SELECT state, form FROM conversion "
				       "WHERE repo = $1 AND image = $2",
				       "it" },
	/* Parameters: repo, host, owner, image, tag, form, now, limit. An owner may fill at most as
	 * many places as stay free, a registry three times as many. */
	[AT(SQL_CONVERSION_PUT)] = { "queue a conversion",
				     "INSERT INTO conversion (repo, host, "
				     "owner, image, tag, form, state, tries, "
				     "queued, taken, due, worker, error) "
				     "SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), "
				     "CAST($3 AS TEXT), CAST($4 AS TEXT), "
				     "CAST($5 AS TEXT), CAST($6 AS TEXT), 0, 0, "
				     "CAST($7 AS BIGINT), 0, "
				     "CAST($7 AS BIGINT), '', '' "
				     "FROM (SELECT CAST($8 AS BIGINT) - count(*) "
				     "AS n FROM conversion WHERE state < 2) AS "
				     "room WHERE room.n > 0 AND "
				     "(SELECT count(*) FROM conversion WHERE "
				     "owner = CAST($3 AS TEXT) AND state < 2) "
				     "< room.n AND "
				     "(SELECT count(*) FROM conversion WHERE "
				     "host = CAST($2 AS TEXT) AND state < 2) "
				     "< 3 * room.n "
				     "ON CONFLICT (repo, image) DO UPDATE SET "
				     "tag = excluded.tag, "
				     "form = excluded.form, state = 0, "
				     "tries = 0, queued = excluded.queued, "
				     "due = excluded.due, worker = '', "
				     "error = '' WHERE conversion.state >= 2",
				     "" },
	/* Parameters: time since when an owner's tries are counted, now, most such tries of an
	 * owner, most tries of a conversion, prefix of repositories to take from, token's prefix */
	[AT(SQL_CONVERSION_NEXT)] = { "next conversion",
				      "SELECT id FROM conversion AS j "
				      "JOIN (SELECT owner, max(taken) AS last, "
				      "sum(CASE WHEN taken > CAST($1 AS BIGINT) "
				      "THEN 1 ELSE 0 END) AS n FROM conversion "
				      "GROUP BY owner) AS o "
				      "ON o.owner = j.owner "
				      "JOIN (SELECT host, max(taken) AS last "
				      "FROM conversion GROUP BY host) AS h "
				      "ON h.host = j.host WHERE j.state < 2 "
				      "AND j.due <= CAST($2 AS BIGINT) "
				      "AND o.n < CAST($3 AS BIGINT) "
				      "AND j.tries < CAST($4 AS BIGINT) AND " SEES("CAST($5 AS TEXT)") "AND " SEES(
					      "CAST($6 AS TEXT)") "ORDER BY h.last, "
								  "o.last, j.due, j.id "
								  "LIMIT 1",
				      "i" },
	/* Parameters: now, until, worker, id */
	[AT(SQL_CONVERSION_TAKE)] = { "take a conversion",
				      "UPDATE conversion SET state = 1, "
				      "tries = tries + 1, taken = $1, due = $2, "
				      "worker = $3 WHERE id = $4 AND state < 2 "
				      "AND due <= $1 RETURNING " COLUMNS,
				      "itttt"
				      "iiiitt" },
	/* Parameters: state, due, error, id, tries, worker, token's prefix */
	[AT(SQL_CONVERSION_SAY)] = { "note a conversion",
				     "UPDATE conversion SET state = $1, "
				     "due = $2, error = $3 WHERE id = $4 "
				     "AND tries = $5 AND worker = $6 "
				     "AND state = 1 AND " SEES(
					     "CAST($7 AS TEXT)"),
				     "" },
	/* Parameters: token's prefix, limit */
	[AT(SQL_CONVERSION_LIST)] = { "list conversions",
				      "SELECT " COLUMNS
				      "FROM conversion WHERE " SEES(
					      "CAST($1 AS TEXT)") "ORDER BY CASE state WHEN 1 THEN 0 "
								  "WHEN 3 THEN 1 WHEN 0 THEN 2 ELSE 3 END, "
								  "due DESC, id DESC LIMIT CAST($2 AS BIGINT)",
				      "itttt"
				      "iiiitt" },
	/* Parameters: now, token's prefix */
	[AT(SQL_CONVERSION_COUNT)] = { "count conversions",
				       "SELECT state, count(*), "
				       "CAST(coalesce(min(CASE WHEN due <= "
				       "CAST($1 AS BIGINT) THEN due END), 0) AS "
				       "BIGINT) FROM conversion WHERE " SEES(
					       "CAST($2 AS TEXT)") "GROUP BY state",
				       "iii" },
	/* Parameters: now, most tries */
	[AT(SQL_CONVERSION_SILENT)] = { "end silent conversions",
					"UPDATE conversion SET state = 3, "
					"error = 'its worker fell silent each "
					"time: was it killed, as for memory?' "
					"WHERE state = 1 AND due <= $1 "
					"AND tries >= $2",
					"" },
	/* Parameters: delete those done before, failed before, queued before */
	[AT(SQL_CONVERSION_EXPIRE)] = { "expire conversions",
					"DELETE FROM conversion WHERE "
					"(state = 2 AND due < $1) OR "
					"(state = 3 AND due < $2) OR "
					"(state < 2 AND queued < $3)",
					"" },
	/* Parameters: limit */
	[AT(SQL_CONVERSION_BOUND)] = { "bound conversions that are over",
				       "DELETE FROM conversion WHERE state >= 2 "
				       "AND due <= (SELECT due FROM conversion "
				       "WHERE state >= 2 ORDER BY due DESC "
				       "LIMIT 1 OFFSET CAST($1 AS BIGINT))",
				       "" },
};
