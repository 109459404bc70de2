// SPDX-License-Identifier: Apache-2.0
/* A database for one test, in a temporary folder that is removed with it. */
#ifndef BOOTSEER_TESTS_REGISTRY_OWN_DB_H
#define BOOTSEER_TESTS_REGISTRY_OWN_DB_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "registry/schema.h"

static char own_db_dir[] = "/tmp/registry_db.XXXXXX";

/* Open an empty SQLite database, or the one that `given` names, which may hold rows of earlier
 * tests. */
static struct db *own_db_open(const char *given)
{
	char url[64];
	const struct db_config cfg = { .url = given ? given : url,
				       .schema = &schema,
				       .timeout_ns = INT64_C(10000000000) };
	struct error err = ERROR_INIT;
	struct db *db = NULL;

	cr_assert(mkdtemp(own_db_dir));
	(void)snprintf(url, sizeof(url), "sqlite:%s/db", own_db_dir);
	cr_assert_eq(db_open(&cfg, &db, &err), 0, "%s", err.msg);
	return db;
}

static void own_db_close(struct db *db)
{
	char command[64];

	db_close(db);
	(void)snprintf(command, sizeof(command), "rm -r %s", own_db_dir);
	cr_assert_eq(system(command), 0);
}

#endif
