// SPDX-License-Identifier: Apache-2.0
/* A request to bootseerd and its reply, for commands. */
#ifndef BOOTSEER_CLI_NODE_ASK_H
#define BOOTSEER_CLI_NODE_ASK_H

#include "cli/node_socket.h"
#include "common/json.h"
#include "common/progress.h"

/* Connect and call with `params` (taken; NULL means no memory).  The caller owns the reply; `ret`
 * may be NULL if only success matters. */
int node_ask(const struct node_options *o, const char *method, json_t *params,
	     json_t **ret, struct error *err) MUST_CHECK;

/* Call without parameters, and print the reply by `print`. */
int node_show(const struct node_options *o, const char *method,
	      void (*print)(const json_t *reply), struct error *err) MUST_CHECK;

/* node_ask() on an open connection. */
int node_ask_on(struct node_client *c, const char *method, json_t *params,
		json_t **ret, struct error *err) MUST_CHECK;

/* Print a reply as JSON. */
void reply_print(const json_t *j);
/* Print a reply as JSON if `json`, else by `print`. */
void reply_show(const json_t *j, bool json, void (*print)(const json_t *reply));

/* Members of a reply; a missing one is "-", 0 or false. reply_text() makes the text printable, as
 * names of files and errors come from strangers; reply_raw() returns it unchanged. */
const char *reply_text(const json_t *j, const char *key);
const char *reply_raw(const json_t *j, const char *key);
long long reply_number(const json_t *j, const char *key);
bool reply_flag(const json_t *j, const char *key);

/* A number of bytes as text, in `out`, which is returned. */
const char *reply_bytes(const json_t *j, const char *key,
			char out[PROGRESS_BYTES_MAX]);

/* A number with its noun ("1 block", "2 blocks"), in `out`, which is returned. */
const char *reply_count(const json_t *j, const char *key, const char *noun,
			char out[PROGRESS_COUNT_MAX]);

#endif
