// SPDX-License-Identifier: Apache-2.0
/* Logins that are tried next, for tests of pods' logins and of pull secrets. */
#ifndef BOOTSEER_TESTS_LOGINS_FIXTURE_H
#define BOOTSEER_TESTS_LOGINS_FIXTURE_H

#include "objects/oci_registry_auth.h"

/* A table without logins, the caller's. */
struct oci_logins *new_logins(void);
/* The password that is tried next, the caller's; NULL: none. */
char *next_password(struct oci_logins *l, const char *host, const char *repo,
		    uint64_t *ret_id);
/* Expect `want` to be tried next at host "h:1"; NULL: no password. */
void expect_next(struct oci_logins *l, const char *repo, const char *want);

#endif
