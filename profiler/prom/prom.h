// SPDX-License-Identifier: Apache-2.0
/*
 * Series of a server that answers Prometheus's HTTP API (/api/v1/query, query_range).  One
 * request has at most PROM_POINTS_MAX points of a series, PROM_PARALLEL are under way at
 * once, each has a deadline, and what fails in passing is asked for again.
 *
 * Times are seconds since 1970.
 */
#ifndef BOOTSEER_PROFILER_PROM_PROM_H
#define BOOTSEER_PROFILER_PROM_PROM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define PROM_POINTS_MAX 10000u /* Prometheus gives 11,000 */
#define PROM_PARALLEL 2u
#define PROM_ANSWER_MAX (16u << 20)
#define PROM_WARNING_MAX 200

struct prom;

struct prom_config {
	const char *url; /* "https://HOST[:PORT][/PREFIX]" */
	const char
		*auth_file; /* a line: a bearer token, or USER:PASSWORD; NULL */
	const char *ca_file; /* PEM; NULL: the system's */
	/* The options that name these two, for messages. */
	const char *auth_option, *ca_option;
	uint32_t timeout_ms; /* of one request */
};

/* Nothing is contacted.  -EINVAL: no address, or one that would get the password in the
 * clear.  One thread at a time uses a client. */
int prom_new(const struct prom_config *cfg, struct prom **ret,
	     struct error *err) MUST_CHECK;
void prom_free(struct prom *p);
DEFINE_AUTO(prom)

/* The server's warning beside a result, such as that parts are missing; or "". */
const char *prom_warning(const struct prom *p);
/* Requests that were sent. */
size_t prom_requests(const struct prom *p);

/*
 * Put the values of `query`, an expression with one series, at `begin_s` and each `step_s`
 * after it into `v`, which has room for `n`; NAN where there is none.  With several series
 * the result is undefined; with none all are NAN.
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

/* Room for the values of a node, in the order of the range's times.  A result other than 0 is
 * returned. */
typedef int prom_row_fn(void *arg, const char *node, float **ret,
			struct error *err);

struct prom_nodes {
	const char *query,
		*node_label; /* an expression with a series for each node */
	int64_t begin_s;
	uint32_t step_s;
	size_t n;
	prom_row_fn *row;
	void *arg;
};

/* prom_range() of a series for each node; what has no value, or none that is finite as a float,
 * stays as it was in its row.  Of several series of a node the last one counts. */
int prom_ask_nodes(struct prom *p, const struct prom_nodes *q,
		   struct error *err) MUST_CHECK;

/* A series as it was scraped. */
struct prom_series {
	const char *
		node; /* value of a label that the caller names; "" without it */
	const char *id; /* its other labels, without those that name replicas */
	const double *at_s, *v;
	size_t n;
};

/* Called for each series; a result other than 0 is returned. */
typedef int prom_series_fn(void *arg, const struct prom_series *s,
			   struct error *err);

struct prom_samples {
	const char *selector; /* "name{label="value"}" */
	double end_s;
	uint32_t length_s;
	const char *node_label;
	const char *replica_labels; /* "replica,prometheus_replica" */
};

/* The samples of the last `length_s` before `end_s`, of all series.  Errors as above. */
int prom_samples(struct prom *p, const struct prom_samples *s,
		 prom_series_fn *fn, void *arg, struct error *err) MUST_CHECK;

/* Called for each name; a result other than 0 is returned. */
typedef int prom_name_fn(void *arg, const char *name, struct error *err);

/* The names of all metrics that have samples in about that time, by `match` ("cluster="a"", NULL:
 * all).  It costs the server a look at an index, and none at samples.  Errors as above. */
int prom_each_name(struct prom *p, const char *match, int64_t from_s,
		   int64_t to_s, prom_name_fn *fn, void *arg,
		   struct error *err) MUST_CHECK;

/* Send JSON to `path` ("/api/v2/alerts") of the server, such as an Alertmanager's; what it
 * answers is not read.  Errors as of prom_range(). */
int prom_post(struct prom *p, const char *path, const char *json, size_t len,
	      struct error *err) MUST_CHECK;

/* The length of a node's name without the port that an `instance` has at its end. */
size_t prom_node_length(const char *node);

/* Is it a name of a metric or label, in letters that need no quotes? */
bool prom_is_name(const char *s);

#endif
