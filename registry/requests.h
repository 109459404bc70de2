// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of the service, from the head that httpd read to the answer: who calls, which
 * route it is, and whose turn it is on the threads.  The loop's.
 */
#ifndef BOOTSEER_REGISTRY_REQUESTS_H
#define BOOTSEER_REGISTRY_REQUESTS_H

#include "net/httpd.h"

/* Its argument is a struct service. */
extern const struct httpd_handler requests_handler;

#endif
