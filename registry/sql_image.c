// SPDX-License-Identifier: Apache-2.0
/* Statements of image_db.c: nodes' reports on starts of images. */
#include "registry/sql.h"

/* Sum of bytes over reports, counting at most 2^43 of each (IMAGE_REPORT_BYTES_MAX). Rows stored
 * before that limit existed could otherwise overflow the sum and make the list fail. */
#define IMAGE_BYTES(column) \
	"CAST(sum(CASE WHEN " column " > 8796093022208 THEN 8796093022208 " \
	"ELSE " column " END) AS BIGINT)"

#define AT(s) (s - SQL_OF_IMAGE)

const struct db_statement sql_image[SQL_OF_STAGE - SQL_OF_IMAGE] = {
	/* Parameters: image, repo, workload, node, job, attempt */
	[AT(SQL_IMAGE_DROP)] = { "drop a node's start of an image",
				 "DELETE FROM image_start WHERE image = $1 AND "
				 "repo = $2 AND workload = $3 AND node = $4 AND "
				 "job = $5 AND attempt = $6",
				 "" },
	[AT(SQL_IMAGE_PUT)] = { "put a node's start of an image",
				"INSERT INTO image_start (image, repo, workload, "
				"node, job, attempt, name, received, peer_bytes, "
				"origin_bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, "
				"$8, $9, $10) RETURNING id",
				"i" },
	[AT(SQL_IMAGE_PUT_TEXT)] = { "put figures of a start of an image",
				     "INSERT INTO image_start_text (start, "
				     "figures, peers) VALUES ($1, $2, $3)",
				     "" },
	/* Parameters: node, number to keep */
	[AT(SQL_IMAGE_TRIM)] = { "trim a node's starts of images",
				 "DELETE FROM image_start WHERE node = $1 AND "
				 "id <= (SELECT id FROM image_start WHERE "
				 "node = $1 ORDER BY id DESC LIMIT 1 "
				 "OFFSET CAST($2 AS BIGINT))",
				 "" },
	/* Parameters: prefix, repo or '', limit. If there are more images, those that only one node
	 * reported are left out first, beyond 16 of each node: invented images do not crowd out
	 * others. */
	[AT(SQL_IMAGE_LIST)] = { "list images",
				 "SELECT image, repo, workload, name, starts, "
				 "nodes, received, peer_bytes, origin_bytes FROM "
				 "(SELECT * FROM (SELECT i.*, CASE WHEN nodes > 1 "
				 "THEN 1 ELSE row_number() OVER "
				 "(PARTITION BY nodes > 1, node ORDER BY "
				 "received DESC, image, repo, workload) END AS turn "
				 "FROM (SELECT image, repo, workload, "
				 "max(name) AS name, "
				 "CAST(count(*) AS BIGINT) AS starts, "
				 "CAST(count(DISTINCT node) AS BIGINT) AS nodes, "
				 "max(received) AS received, " IMAGE_BYTES("peer_bytes") " AS peer_bytes, " IMAGE_BYTES(
					 "origin_bytes") " AS origin_bytes, max(node) AS node "
							 "FROM image_start WHERE " SEES_OF(
								 "CAST($1 AS TEXT)",
								 "CAST($2 AS TEXT)") "AND (CAST($2 AS TEXT) = '' OR repo = $2) "
										     "GROUP BY 1, 2, 3) AS i) AS t ORDER BY "
										     "CASE WHEN turn > 16 THEN 1 ELSE 0 END, "
										     "received DESC, image, repo, workload "
										     "LIMIT CAST($3 AS BIGINT)) AS u "
										     "ORDER BY received DESC, image, repo, workload",
				 "ttttiiiii" },
	/* Parameters: image, repo, workload, limit. At most the last 8 starts of each node. */
	[AT(SQL_IMAGE_STARTS)] = { "starts of an image",
				   "SELECT node, job, attempt, name, received, "
				   "peer_bytes, origin_bytes, figures "
				   "FROM (SELECT s.*, row_number() OVER "
				   "(PARTITION BY node ORDER BY id DESC) AS turn "
				   "FROM image_start AS s WHERE image = $1 AND "
				   "repo = $2 AND workload = $3) AS i "
				   "JOIN image_start_text ON start = id "
				   "WHERE turn <= 8 ORDER BY id DESC "
				   "LIMIT CAST($4 AS BIGINT)",
				   "ttitiiit" },
	/* Parameters: since, image or '', limit */
	[AT(SQL_IMAGE_PEERS)] = { "peers of all starts",
				  "SELECT node, image, repo, workload, "
				  "peer_bytes, origin_bytes, peers "
				  "FROM image_start JOIN image_start_text "
				  "ON start = id WHERE received >= $1 AND "
				  "(CAST($2 AS TEXT) = '' OR image = $2) "
				  "ORDER BY id DESC LIMIT CAST($3 AS BIGINT)",
				  "ttttiit" },
	/* Parameters: job, attempt, limit */
	[AT(SQL_IMAGE_JOB_PEERS)] = { "peers of a start",
				      "SELECT node, image, repo, workload, "
				      "peer_bytes, origin_bytes, peers "
				      "FROM image_start JOIN image_start_text "
				      "ON start = id WHERE job = $1 AND "
				      "attempt = $2 ORDER BY id DESC "
				      "LIMIT CAST($3 AS BIGINT)",
				      "ttttiit" },
	/* Parameters: before, limit */
	[AT(SQL_IMAGE_EXPIRE)] = { "expire starts of images",
				   "DELETE FROM image_start WHERE id IN (SELECT id "
				   "FROM image_start WHERE received < $1 "
				   "LIMIT CAST($2 AS BIGINT))",
				   "" },
	/* Parameters: number to keep */
	[AT(SQL_IMAGE_BOUND)] = { "bound starts of images",
				  "DELETE FROM image_start WHERE id <= (SELECT id "
				  "FROM image_start ORDER BY id DESC LIMIT 1 "
				  "OFFSET CAST($1 AS BIGINT))",
				  "" },
};
