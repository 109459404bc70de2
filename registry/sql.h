// SPDX-License-Identifier: Apache-2.0
/*
 * The statements of each sql_*.c file, with the types of their columns (db.h); schema.c has the
 * tables, and joins the groups.
 */
#ifndef BOOTSEER_REGISTRY_SQL_H
#define BOOTSEER_REGISTRY_SQL_H

#include "registry/schema.h"

/* Condition: the row's repository is within the prefix that the token is bound to; parameter `p`,
 * '': no bound. */
#define SEES(p) \
	"(" p " = '' OR repo = " p " OR " \
	"substr(repo, 1, length(" p ") + 1) = " p " || '/') "

/* The same condition for a start requested for repository `r`: starts of a store are shown only
 * when `r` names the store (call_check_trace_repo()). */
#define SEES_OF(p, r) SEES(p) "AND (repo = " r " OR repo NOT LIKE '%://%') "

extern const struct db_statement sql_trace[SQL_OF_TRUST - SQL_OF_TRACE];
extern const struct db_statement sql_trust[SQL_OF_PREHEAT - SQL_OF_TRUST];
extern const struct db_statement sql_preheat[SQL_OF_IMAGE - SQL_OF_PREHEAT];
extern const struct db_statement sql_image[SQL_OF_STAGE - SQL_OF_IMAGE];
extern const struct db_statement sql_stage[SQL_OF_HISTORY - SQL_OF_STAGE];
extern const struct db_statement sql_history[SQL_OF_CKPT - SQL_OF_HISTORY];
extern const struct db_statement sql_ckpt[SQL_OF_ENV - SQL_OF_CKPT];
extern const struct db_statement sql_env[SQL_OF_INDEX - SQL_OF_ENV];
extern const struct db_statement sql_index[SQL_OF_CONVERSION - SQL_OF_INDEX];
extern const struct db_statement
	sql_conversion[SQL_OF_DOCTOR - SQL_OF_CONVERSION];
extern const struct db_statement sql_doctor[SQL_COUNT_ - SQL_OF_DOCTOR];

#endif
