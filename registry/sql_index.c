// SPDX-License-Identifier: Apache-2.0
/* The statements of index_db.c: indexes of images that nodes offer. */
#include "registry/sql.h"

#define AT(s) (s - SQL_OF_INDEX)
/* Values of the state column: 0 being made, 1 complete, 2 withdrawn. */

const struct db_statement sql_index[SQL_OF_CONVERSION - SQL_OF_INDEX] = {
	/* Parameters: node, image, repo, owner. A claim is found before an existing offer. */
	[AT(SQL_INDEX_OF)] = { "index of an owner",
			       "SELECT id, state, until, bytes, "
			       "CAST(CASE WHEN node = CAST($1 AS TEXT) THEN 1 "
			       "ELSE 0 END AS BIGINT) FROM image_index "
			       "WHERE image = $2 AND repo = $3 AND owner = $4 "
			       "ORDER BY state LIMIT 1",
			       "iiiii" },
	/* Parameters: image, repo, owner, node, now, end of the claim, most offers, time since when
	 * an offer is too young to be made again. The claim replaces one that has ended or is the
	 * node's own; an existing offer stays until it is replaced. */
	[AT(SQL_INDEX_CLAIM)] = { "claim an index",
				  "INSERT INTO image_index (image, repo, owner, "
				  "node, artifact, signature, parts, bytes, "
				  "state, changed, used, until) "
				  "SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), "
				  "CAST($3 AS TEXT), CAST($4 AS TEXT), '', '', "
				  "0, 0, 0, CAST($5 AS BIGINT), "
				  "CAST($5 AS BIGINT), CAST($6 AS BIGINT) "
				  "WHERE (SELECT count(*) FROM image_index "
				  "WHERE owner = CAST($3 AS TEXT)) < "
				  "CAST($7 AS BIGINT) AND NOT EXISTS (SELECT 1 "
				  "FROM image_index AS o WHERE o.image = "
				  "CAST($1 AS TEXT) AND o.repo = "
				  "CAST($2 AS TEXT) AND o.owner = "
				  "CAST($3 AS TEXT) AND (o.state = 2 OR "
				  "(o.state = 1 AND o.changed >= "
				  "CAST($8 AS BIGINT)))) "
				  "ON CONFLICT (image, repo, owner) "
				  "WHERE state = 0 DO UPDATE "
				  "SET node = excluded.node, bytes = 0, "
				  "changed = excluded.changed, "
				  "used = excluded.used, "
				  "until = excluded.until "
				  "WHERE image_index.until <= "
				  "excluded.changed OR "
				  "image_index.node = excluded.node "
				  "RETURNING id",
				  "i" },
	/* Parameters: image, repo, owner, now. Claims of other owners that make the same index. */
	[AT(SQL_INDEX_HELD)] = { "claims of others to an index",
				 "SELECT count(*) FROM image_index WHERE "
				 "image = $1 AND repo = $2 AND owner <> $3 AND "
				 "state = 0 AND until > $4",
				 "i" },
	[AT(SQL_INDEX_DROP_PARTS)] = { "drop parts of an index",
				       "DELETE FROM image_index_part "
				       "WHERE offer = $1",
				       "" },
	/* Parameters: offer, part, bytes, data */
	[AT(SQL_INDEX_PUT_PART)] = { "put a part of an index",
				     "INSERT INTO image_index_part (offer, part, "
				     "bytes, data) VALUES ($1, $2, $3, $4) "
				     "ON CONFLICT (offer, part) DO UPDATE SET "
				     "bytes = excluded.bytes, "
				     "data = excluded.data",
				     "" },
	/* Parameters: id, until */
	[AT(SQL_INDEX_SUM)] = { "sum up an index",
				"UPDATE image_index SET bytes = (SELECT "
				"CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM "
				"image_index_part WHERE offer = $1), until = $2 "
				"WHERE id = $1",
				"" },
	/* Parameters: artifact, signature, parts, now, id */
	[AT(SQL_INDEX_PUBLISH)] = { "publish an index",
				    "UPDATE image_index SET artifact = $1, "
				    "signature = $2, parts = $3, changed = $4, "
				    "used = $4, state = 1 WHERE id = $5 AND "
				    "CAST($3 AS BIGINT) = (SELECT count(*) FROM "
				    "image_index_part WHERE offer = $5) AND "
				    "CAST($3 AS BIGINT) = (SELECT max(part) + 1 "
				    "FROM image_index_part WHERE offer = $5)",
				    "" },
	/* Parameters: image, repo, owner. The owner's earlier offer. */
	[AT(SQL_INDEX_REPLACE)] = { "replace an index",
				    "DELETE FROM image_index WHERE image = $1 "
				    "AND repo = $2 AND owner = $3 AND state = 1",
				    "" },
	/* Parameters: image, repo, artifact */
	[AT(SQL_INDEX_IS_WRONG)] = { "was an index withdrawn",
				     "SELECT count(*) FROM image_index WHERE "
				     "image = $1 AND repo = $2 AND "
				     "artifact = $3 AND state = 2",
				     "i" },
	/* Parameters: artifact, now, id. For a claim whose artifact was withdrawn in the
	 * meantime. */
	[AT(SQL_INDEX_REFUSE)] = { "refuse an index",
				   "UPDATE image_index SET artifact = $1, "
				   "bytes = 0, state = 2, changed = $2, "
				   "used = $2 WHERE id = $3",
				   "" },
	/* Parameters: image, repo, limit */
	[AT(SQL_INDEX_LIST)] = { "list indexes",
				 "SELECT artifact, signature, bytes, parts, "
				 "changed, id FROM image_index WHERE image = $1 "
				 "AND repo = $2 AND state = 1 ORDER BY changed "
				 "DESC, id DESC LIMIT CAST($3 AS BIGINT)",
				 "ttiiii" },
	/* Parameters: offer, image, repo, artifact, part */
	[AT(SQL_INDEX_PART)] = { "part of an index",
				 "SELECT data FROM image_index_part WHERE offer = "
				 "(SELECT id FROM image_index WHERE id = $1 AND "
				 "image = $2 AND repo = $3 AND artifact = $4 "
				 "AND state = 1) AND part = $5",
				 "b" },
	/* Parameters: now, offer */
	[AT(SQL_INDEX_USED)] = { "note the use of an index",
				 "UPDATE image_index SET used = $1 WHERE "
				 "id = $2 AND state = 1",
				 "" },
	/* Parameters: image, repo, artifact */
	[AT(SQL_INDEX_DROP_WRONG)] = { "drop parts of a wrong index",
				       "DELETE FROM image_index_part WHERE offer IN "
				       "(SELECT id FROM image_index WHERE "
				       "image = $1 AND repo = $2 AND "
				       "artifact = $3 AND state = 1)",
				       "" },
	/* Parameters: now, image, repo, artifact */
	[AT(SQL_INDEX_WITHDRAW)] = { "withdraw an index",
				     "UPDATE image_index SET state = 2, "
				     "bytes = 0, parts = 0, signature = '', "
				     "changed = $1, used = $1 WHERE image = $2 "
				     "AND repo = $3 AND artifact = $4 AND "
				     "state = 1",
				     "" },
	[AT(SQL_INDEX_FORGET)] = { "forget indexes",
				   "DELETE FROM image_index WHERE image = $1 "
				   "AND repo = $2",
				   "" },
	/* Parameters: before, now */
	[AT(SQL_INDEX_EXPIRE)] = { "expire indexes",
				   "DELETE FROM image_index WHERE used < $1 OR "
				   "(state = 0 AND until < $2)",
				   "" },
	[AT(SQL_INDEX_TOTAL)] = { "bytes of indexes",
				  "SELECT CAST(coalesce(sum(bytes), 0) AS "
				  "BIGINT) FROM image_index",
				  "i" },
	/* Parameters: offer to keep, bytes to free. Of the owner with the most bytes, deletes the
	 * least recently used offers, as many as needed. */
	[AT(SQL_INDEX_BOUND)] = { "bound indexes",
				  "DELETE FROM image_index WHERE id IN (SELECT "
				  "id FROM (SELECT id, sum(bytes) OVER (ORDER BY "
				  "used, id) - bytes AS freed FROM image_index "
				  "WHERE bytes > 0 AND id <> $1 "
				  "AND owner = (SELECT owner FROM image_index "
				  "WHERE id <> $1 GROUP BY owner "
				  "ORDER BY sum(bytes) DESC, owner LIMIT 1)) "
				  "AS o WHERE freed < CAST($2 AS BIGINT))",
				  "" },
};
