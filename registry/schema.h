// SPDX-License-Identifier: Apache-2.0
/* Tables and statements of the service; the columns are told in schema.c. */
#ifndef BOOTSEER_REGISTRY_SCHEMA_H
#define BOOTSEER_REGISTRY_SCHEMA_H

#include "registry/db.h"

enum statement {
	SQL_PING,
	SQL_FIND_OWN,
	SQL_FIND_RELATIVE,
	SQL_FIND_WORKLOAD,
	SQL_FIND_FAR,
	SQL_LIST_IMAGE,
	SQL_LIST_REPO,
	SQL_TOUCH,
	SQL_USED,
	SQL_VOTES,
	SQL_VOTE,
	SQL_VOTE_PUT,
	SQL_VOTE_REMOVE,
	SQL_SUMMARY,
	SQL_SUM,
	SQL_VOTER,
	SQL_VOTER_OLDEST,
	SQL_REPO_BYTES,
	SQL_REPO_OLDEST,
	SQL_REPO_LARGEST,
	SQL_REMOVE,
	SQL_REMOVE_EMPTY,
	SQL_FORGET,
	SQL_HOT,
	SQL_HOT_PUT,
	SQL_EXPIRE,
	SQL_TOTAL,
	SQL_COUNT_,
};

extern const struct db_schema schema;

#endif
