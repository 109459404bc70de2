// SPDX-License-Identifier: Apache-2.0
/*
 * Reads series from a server with Prometheus's HTTP API (/api/v1/query, query_range). A request
 * asks for at most PROM_POINTS_MAX points of a series, PROM_PARALLEL requests run at once, each has
 * a deadline, and temporary failures are retried.
 *
 * Times are seconds since 1970.
 */
#ifndef BOOTSEER_PROFILER_PROM_PROM_H
#define BOOTSEER_PROFILER_PROM_PROM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* points of a series; Prometheus allows 11,000 */
#define PROM_POINTS_MAX 10000u
#define PROM_PARALLEL 2u
#define PROM_ANSWER_MAX (16u << 20)
#define PROM_WARNING_MAX 200

struct prom;

struct prom_config {
	const char *url; /* "https://HOST[:PORT][/PREFIX]" */
	/* file with a line: a bearer token, or USER:PASSWORD; NULL: none */
	const char *auth_file;
	const char *ca_file; /* PEM file of authorities; NULL: the system's */
	/* Names of the options for these two files, for messages. */
	const char *auth_option, *ca_option;
	uint32_t timeout_ms; /* timeout of one request */
};

/* Create a client; makes no request. -EINVAL: the address is invalid, or would receive the password
 * unencrypted. One thread at a time may use a client. */
int prom_new(const struct prom_config *cfg, struct prom **ret,
	     struct error *err) MUST_CHECK;
void prom_free(struct prom *p);
DEFINE_AUTO(prom)

/* The server's first warning, such as that data is incomplete; "": none. */
const char *prom_warning(const struct prom *p);
/* Number of requests sent. */
size_t prom_requests(const struct prom *p);

/*
 * Store the values of `query`, an expression with one series, at `begin_s` and every `step_s` after
 * it in `v`, which has room for `n`; NAN: no value. With several series the result is undefined;
 * with none all values are NAN.
 *   -EINVAL     the server does not understand the query
 *   -EACCES     it wants another password or token
 *   -ENOENT     there is no such API at this address
 *   -EBUSY, -ETIMEDOUT, -EIO, -ECONNREFUSED: passing, and not over in time
 *   -EBADMSG    the answer is none of this API
 *   -EFBIG, -ENOMEM, as http_do()
 */
int prom_range(struct prom *p, const char *query, int64_t begin_s,
	       uint32_t step_s, size_t n, double *v,
	       struct error *err) MUST_CHECK;

/* Called for each node: sets `*ret` to room for its values, in the order of time. A result other
 * than 0 ends the query and is returned. */
typedef int prom_row_fn(void *arg, const char *node, float **ret,
			struct error *err);

struct prom_nodes {
	const char *query,
		/* query: an expression with a series for each node */
		*node_label;
	int64_t begin_s;
	uint32_t step_s;
	size_t n;
	prom_row_fn *row;
	void *arg;
};

/* As prom_range(), but with a series for each node. A missing value, or one that is not finite as a
 * float, leaves the row's element unchanged. Of several series of a node the last one counts. */
int prom_ask_nodes(struct prom *p, const struct prom_nodes *q,
		   struct error *err) MUST_CHECK;

/* A series of raw samples. */
struct prom_series {
	/* value of the label `node_label`; "": the series has no such label */
	const char *node;
	const char *id; /* all other labels except those of replicas */
	const double *at_s, *v;
	size_t n;
};

/* Called for each series; a result other than 0 ends the query and is returned. */
typedef int prom_series_fn(void *arg, const struct prom_series *s,
			   struct error *err);

struct prom_samples {
	const char *selector; /* "name{label="value"}" */
	double end_s;
	uint32_t length_s;
	const char *node_label;
	const char *replica_labels; /* "replica,prometheus_replica" */
};

/* Get the samples of the `length_s` before `end_s`, of all series. Errors as above. */
int prom_samples(struct prom *p, const struct prom_samples *s,
		 prom_series_fn *fn, void *arg, struct error *err) MUST_CHECK;

/* Called for each name; a result other than 0 ends the query and is returned. */
typedef int prom_name_fn(void *arg, const char *name, struct error *err);

/* Get the names of all metrics with samples in about that time, selected by `match` ("cluster="a"",
 * NULL: all). The server reads only its index, no samples. Errors as above. */
int prom_each_name(struct prom *p, const char *match, int64_t from_s,
		   int64_t to_s, prom_name_fn *fn, void *arg,
		   struct error *err) MUST_CHECK;

/* Post JSON to `path` ("/api/v2/alerts") of the server, such as an Alertmanager; the answer is
 * ignored. Errors as for prom_range(). */
int prom_post(struct prom *p, const char *path, const char *json, size_t len,
	      struct error *err) MUST_CHECK;

/* Length of a node's name without the port that an `instance` label ends with. */
size_t prom_node_length(const char *node);

/* Is it a metric or label name that needs no quotes? */
bool prom_is_name(const char *s);

#endif
