// SPDX-License-Identifier: Apache-2.0
/*
 * Handles requests from the head that httpd read to the answer: checks the caller, finds the route,
 * and queues the call for a thread. Runs on the loop thread.
 */
#ifndef BOOTSEER_REGISTRY_REQUESTS_H
#define BOOTSEER_REGISTRY_REQUESTS_H

#include "net/httpd.h"

/* Handler for httpd; its argument is a struct service. */
extern const struct httpd_handler requests_handler;

#endif
