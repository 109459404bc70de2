// SPDX-License-Identifier: Apache-2.0
/* A question to bootseerd and its answer, for commands. */
#ifndef BOOTSEER_CLI_NODE_ASK_H
#define BOOTSEER_CLI_NODE_ASK_H

#include "cli/node_socket.h"
#include "common/json.h"
#include "common/progress.h"

/* Connect and call with `params` (taken, NULL when memory is short); the
 * caller owns the answer.  `ret` may be NULL: a failure is what counts. */
int node_ask(const struct node_options *o, const char *method, json_t *params,
	     json_t **ret, struct error *err) MUST_CHECK;

/* Ask without parameters, and have the answer printed by `print`. */
int node_show(const struct node_options *o, const char *method,
	      void (*print)(const json_t *reply), struct error *err) MUST_CHECK;

/* The same as node_ask() on a connection that is open. */
int node_ask_on(struct node_client *c, const char *method, json_t *params,
		json_t **ret, struct error *err) MUST_CHECK;

/* Print an answer as it is. */
void reply_print(const json_t *j);
/* The same if `json` is wanted; else `print` does it for people. */
void reply_show(const json_t *j, bool json, void (*print)(const json_t *reply));

/* Members of an answer: "-", 0 and false when they are not there.  A text is for
 * people: what a file or an error is called is a stranger's, and nothing in it is an
 * order to a terminal; a raw one is as it came. */
const char *reply_text(const json_t *j, const char *key);
const char *reply_raw(const json_t *j, const char *key);
long long reply_number(const json_t *j, const char *key);
bool reply_flag(const json_t *j, const char *key);

/* Bytes for people, in `out`, which is returned. */
const char *reply_bytes(const json_t *j, const char *key,
			char out[PROGRESS_BYTES_MAX]);

/* "1 block", "2 blocks" for a number, in `out`, which is returned. */
const char *reply_count(const json_t *j, const char *key, const char *noun,
			char out[PROGRESS_COUNT_MAX]);

#endif
