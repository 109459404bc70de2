// SPDX-License-Identifier: Apache-2.0
/* bootseer ops restart: how long loads take, and where NFS requests wait. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/ops.h"
#include "cli/ops_server.h"
#include "common/progress.h"

/* With this share of the time in one place, improving the other would change little. */
#define SHARE_MUCH 0.5
#define SHARE_LITTLE 0.1

static const struct option_spec options[] = {
	OPS_DAYS_OPTION,
	OPS_RESTART_OPTIONS,
	OPS_PROM_OPTIONS(struct ops_config),
	OPS_JSON_OPTION,
	{ .key = NULL },
};

/* The lengths of loads, and the mean bytes per second of all nodes together. */
struct restart_loads {
	struct ops_spread length_s;
	double mean_s, rate;
};

static int measure_loads(const struct ops_phases *p, struct restart_loads *ret)
{
	AUTO_FREE double *v = calloc(p->n_loads + 1, sizeof(*v));
	double sum = 0, bytes = 0;

	*ret = (struct restart_loads){ .rate = 0 };
	if (!v)
		return -1;
	for (size_t i = 0; i < p->n_loads; i++) {
		v[i] = p->loads[i].end_s - p->loads[i].begin_s;
		sum += v[i];
		bytes += p->loads[i].bytes;
	}
	ret->length_s = ops_spread_of(v, p->n_loads);
	if (sum > 0) {
		ret->mean_s = sum / (double)p->n_loads;
		ret->rate = bytes / sum;
	}
	return 0;
}

static double used_share(const struct ops_config *c,
			 const struct ops_metrics *m, double rate)
{
	return rate / (m->nodes * (double)c->bandwidth);
}

/* ---------------------------------------------------------------------- text --- */

static void print_loads(FILE *out, const struct ops_config *c,
			const struct ops_metrics *m)
{
	struct restart_loads l;
	char rate[PROGRESS_BYTES_MAX], count[PROGRESS_COUNT_MAX];

	if (measure_loads(&m->phases, &l) < 0 || !l.length_s.n) {
		fprintf(out, "no load was found\n");
		return;
	}
	progress_format_bytes((uint64_t)l.rate, rate);
	progress_format_count(l.length_s.n, "load", count);
	fprintf(out,
		"%s: %.1f min in the mean, median %.1f min, %.1f to "
		"%.1f min; all nodes read %s/s",
		count, l.mean_s / 60, l.length_s.median / 60,
		l.length_s.min / 60, l.length_s.max / 60, rate);
	if (c->bandwidth)
		fprintf(out, ", %.1f %% of their links",
			100 * used_share(c, m, l.rate));
	(void)fputc('\n', out);
}

/* Print the advice for the operator, in one sentence. */
static void print_advice(FILE *out, const struct ops_config *c,
			 const struct ops_request *r)
{
	char rate[PROGRESS_BYTES_MAX];

	if (r->wait_share >= SHARE_MUCH)
		fprintf(out,
			"  more bandwidth would help little: %.0f %% of the "
			"time is spent waiting in the client for a slot; more "
			"slots (sunrpc.tcp_slot_table_entries, nconnect), "
			"larger requests (wsize, rsize, read-ahead) or faster "
			"answers would\n",
			100 * r->wait_share);
	else if (r->wait_share <= SHARE_LITTLE)
		fprintf(out,
			"  more slots would not help: %.0f %% of the time "
			"is the network's and the server's\n",
			100 * (1 - r->wait_share));
	if (!c->slots)
		return;
	progress_format_bytes((uint64_t)fmin(1e19,
					     ops_slots_rate(r,
							    (double)c->slots)),
			      rate);
	fprintf(out,
		"  %.0f of %llu slots were in use in the mean; at this time of "
		"an answer they allow %s/s a node",
		r->in_flight, (unsigned long long)c->slots, rate);
	if (c->bandwidth)
		fprintf(out, ", %.0f %% of its link",
			100 * ops_slots_rate(r, (double)c->slots) /
				(double)c->bandwidth);
	(void)fputc('\n', out);
}

static void print_request(FILE *out, const struct ops_config *c,
			  const char *what, const struct ops_rpc *rpc)
{
	struct ops_request r;
	char bytes[PROGRESS_BYTES_MAX];

	if (!ops_find_request(rpc, &r)) {
		fprintf(out,
			"%s: unknown, for the counters of requests are "
			"missing (--metric-nfs-requests, -queue, -response)\n",
			what);
		return;
	}
	progress_format_bytes((uint64_t)r.bytes, bytes);
	fprintf(out,
		"%s: %.0f requests of %s; each waits %.1f ms for a slot (%.0f "
		"%%) and %.1f ms for network and server\n",
		what, rpc->requests, bytes, 1e3 * r.wait_s, 100 * r.wait_share,
		1e3 * r.serve_s);
	print_advice(out, c, &r);
}

void ops_print_restart(FILE *out, const struct ops_config *c,
		       const struct ops_metrics *m)
{
	print_loads(out, c, m);
	print_request(out, c, "saves", &m->saving);
	print_request(out, c, "loads", &m->loading);
	if (m->n_too_large)
		fprintf(out,
			"missing: counters around a save or load, %zu times, for "
			"they are more than one answer may have; --match takes "
			"fewer series\n",
			m->n_too_large);
}

/* ---------------------------------------------------------------------- JSON --- */

static json_t *request_json(const struct ops_rpc *rpc)
{
	struct ops_request r;

	if (!ops_find_request(rpc, &r))
		return json_null();
	return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f}", "requests", rpc->requests,
			 "wait_s", r.wait_s, "serve_s", r.serve_s, "wait_share",
			 r.wait_share, "bytes", r.bytes, "in_flight",
			 r.in_flight);
}

json_t *ops_restart_json(const struct ops_config *c,
			 const struct ops_metrics *m)
{
	struct restart_loads l;

	if (measure_loads(&m->phases, &l) < 0)
		return NULL;
	return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o}", "loads",
			 (json_int_t)l.length_s.n, "mean_s", l.mean_s,
			 "median_s", l.length_s.median, "min_s", l.length_s.min,
			 "max_s", l.length_s.max, "rate", l.rate, "used_share",
			 c->bandwidth ? ops_number(used_share(c, m, l.rate))
				      : json_null(),
			 "save_requests", request_json(&m->saving),
			 "load_requests", request_json(&m->loading));
}

static int run_restart(const void *config, char **args, struct error *err)
{
	struct ops_config own;
	const struct ops_config *c = &own;
	AUTO(ops_server) server = NULL;
	AUTO(ops_metrics) m = NULL;
	int rc = ops_server_open(config, &own, &server, err);

	(void)args;
	if (rc == 0)
		rc = ops_read_metrics(&c->prom, c->days, &m, err);
	if (rc < 0)
		return rc;
	if (c->json)
		return ops_print_json(ops_restart_json(c, m), err);
	ops_print_restart(stdout, c, m);
	return 0;
}

const struct command ops_restart_command = {
	.brief = "Show how long loads take, and where NFS waits",
	.check = ops_check_metrics,
	.program = {
		.name = "bootseer ops restart",
		.usage = "--prometheus URL [OPTIONS]",
		.summary = "Show by the metrics that a Prometheus has of a "
			   "cluster on NFS how long it loads, and where the "
			   "requests of saves and loads spend their time: in the "
			   "client, which has so many slots for them, or in "
			   "network and server; and what would help.",
		.options = options,
		.examples = "bootseer ops restart --prometheus https://prom:9090 "
			    "--rpc-slots 128 --node-bandwidth 23G\n",
	},
	.config_size = sizeof(struct ops_config),
	.run = run_restart,
};
