// SPDX-License-Identifier: Apache-2.0
/* Certificates as an operator's CA makes them, in a folder of the test. */
#ifndef BOOTSEER_TESTS_P2P_CERTS_H
#define BOOTSEER_TESTS_P2P_CERTS_H

struct ca;

/* Writes DIR/NAME.pem. */
struct ca *ca_new(const char *dir, const char *name);
/* An authority that another one signed; its file has that one's certificate, too. */
struct ca *ca_below(struct ca *above, const char *name);
void ca_free(struct ca *ca);

/* Writes DIR/NAME.pem and DIR/NAME.key; `san` as in openssl's configuration:
 * "URI:bootseer://node/a"; valid for so many seconds from now, or over. */
void ca_issue(struct ca *ca, const char *name, const char *san, long seconds);

#endif
