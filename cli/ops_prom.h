// SPDX-License-Identifier: Apache-2.0
/* The metrics server of a cluster, and the metrics' names, for bootseer ops. */
#ifndef BOOTSEER_CLI_OPS_PROM_H
#define BOOTSEER_CLI_OPS_PROM_H

#include "common/option.h"
#include "profiler/ops/saves.h"
#include "profiler/prom/prom.h"

/* Member of the configuration of commands that read metrics. */
struct ops_prom_config {
	char *config; /* file with options */
	char *url, *data, *auth, *ca, *match, *node_label, *replica_labels;
	char *write, *read, *gpu, *size, *free, *requests, *queue, *response;
	char *from, *to; /* NULL: `days` before now, and now */
	int64_t timeout_ns;
	uint64_t step_s; /* 0: found from the data */
	uint64_t save_above, load_above;
};

#define OPS_PROM_NAME(config_type, name, member, metric, what) \
	{ \
		.key = name, .type = OPTION_STRING, .arg = "NAME", \
		.def = metric, .offset = offsetof(config_type, member), \
		.help = "The metric " what "." \
	}

#define OPS_PROM_OPTIONS(config_type) \
	{ .key = "prometheus", \
	  .type = OPTION_STRING, \
	  .arg = "URL", \
	  .offset = offsetof(config_type, prom.url), \
	  .help = "A Prometheus, or what answers its HTTP API: " \
		  "https://HOST[:PORT][/PREFIX]." }, \
		{ .key = "prometheus-data", \
		  .type = OPTION_STRING, \
		  .arg = "PATH", \
		  .offset = offsetof(config_type, prom.data), \
		  .help = "Metrics without a server: the folder of a " \
			  "Prometheus's snapshot, or a file of OpenMetrics or " \
			  "of an export of VictoriaMetrics (JSON lines). A " \
			  "prometheus is started on it and changes nothing of " \
			  "it." }, \
		{ .key = "prometheus-auth", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(config_type, prom.auth), \
		  .help = "A line that it asks for: a bearer token, or " \
			  "USER:PASSWORD." }, \
		{ .key = "prometheus-ca", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(config_type, prom.ca), \
		  .help = "Certificates (PEM) to trust instead of the system's." }, \
		{ .key = "prometheus-timeout", \
		  .type = OPTION_DURATION, \
		  .def = "60s", \
		  .min = "1s", \
		  .max = "10m", \
		  .offset = offsetof(config_type, prom.timeout_ns), \
		  .help = "Give up on one answer after this." }, \
		{ .key = "from", \
		  .type = OPTION_STRING, \
		  .arg = "TIME", \
		  .offset = offsetof(config_type, prom.from), \
		  .help = "Look at metrics from then on: 2025-10-01, " \
			  "2025-10-01T12:00:00Z or seconds since 1970; default " \
			  "is --days before the end." }, \
		{ .key = "to", \
		  .type = OPTION_STRING, \
		  .arg = "TIME", \
		  .offset = offsetof(config_type, prom.to), \
		  .help = "Look at metrics until then; default is now." }, \
		{ .key = "match", \
		  .type = OPTION_STRING, \
		  .arg = "LABELS", \
		  .offset = offsetof(config_type, prom.match), \
		  .help = "Take series with these labels only, as " \
			  "Prometheus writes them: 'cluster=\"a\"'." }, \
		{ .key = "node-label", \
		  .type = OPTION_STRING, \
		  .arg = "NAME", \
		  .def = "instance", \
		  .offset = offsetof(config_type, prom.node_label), \
		  .help = "The label that names the node." }, \
		{ .key = "replica-labels", \
		  .type = OPTION_STRING, \
		  .arg = "NAME,...", \
		  .def = "prometheus_replica,replica", \
		  .offset = offsetof(config_type, prom.replica_labels), \
		  .help = "Labels in which copies of a series differ; the " \
			  "copies count once." }, \
		OPS_PROM_NAME(config_type, "metric-nfs-write", prom.write, \
			      "node_mountstats_nfs_total_write_bytes_total", \
			      "of bytes that a node has written by NFS"), \
		OPS_PROM_NAME(config_type, "metric-nfs-read", prom.read, \
			      "node_mountstats_nfs_total_read_bytes_total", \
			      "of bytes that a node has read by NFS"), \
		OPS_PROM_NAME(config_type, "metric-gpu", prom.gpu, \
			      "DCGM_FI_DEV_GPU_UTIL", \
			      "of a GPU's utilisation in %"), \
		OPS_PROM_NAME(config_type, "metric-storage-size", prom.size, \
			      "node_filesystem_size_bytes", \
			      "of a file system's size"), \
		OPS_PROM_NAME(config_type, "metric-storage-free", prom.free, \
			      "node_filesystem_avail_bytes", \
			      "of what is free of it"), \
		OPS_PROM_NAME(config_type, "metric-nfs-requests", \
			      prom.requests, \
			      "node_mountstats_nfs_operations_requests_total", \
			      "of requests of NFS, by operation"), \
		OPS_PROM_NAME( \
			config_type, "metric-nfs-queue", prom.queue, \
			"node_mountstats_nfs_operations_queue_time_seconds_total", \
			"of the time that they waited to be sent"), \
		OPS_PROM_NAME( \
			config_type, "metric-nfs-response", prom.response, \
			"node_mountstats_nfs_operations_response_time_seconds_total", \
			"of the time from there to the answer"), \
		{ .key = "scrape-interval", \
		  .type = OPTION_INTEGER, \
		  .arg = "SECONDS", \
		  .min = "1", \
		  .max = "3600", \
		  .offset = offsetof(config_type, prom.step_s), \
		  .help = "The metrics' distance; default is what they say, " \
			  "for which samples of all series have to fit one answer." }, \
		{ .key = "save-above", \
		  .type = OPTION_SIZE, \
		  .min = "1", \
		  .max = "1000T", \
		  .offset = offsetof(config_type, prom.save_above), \
		  .help = "All nodes together save when they write more than " \
			  "this a second; default is what the data say." }, \
		{ .key = "load-above", \
		  .type = OPTION_SIZE, \
		  .min = "1", \
		  .max = "1000T", \
		  .offset = offsetof(config_type, prom.load_above), \
		  .help = "The same of reads, when they load." }, \
	{ \
		.key = "config", .type = OPTION_FILE, \
		.offset = offsetof(config_type, prom.config), .no_file = true, \
		.help = "Read options from this file: KEY = VALUE; lines." \
	}

/* A cluster's metrics over a span of time, and the phases found in them. */
struct ops_metrics {
	int64_t from_s, to_s;
	uint32_t step_s;
	double nodes;  /* most series of writes at any time */
	double jitter; /* interquartile range of sample distances / median */
	size_t requests;
	struct ops_series write, read, gpu, used; /* `used` has its own step */
	struct ops_phases phases;
	size_t n_measured;  /* saves whose nodes' samples were read */
	size_t n_too_large; /* queries about a burst whose reply would have
	                     * been too large */
	struct ops_rpc saving,
		loading; /* requests during the last saves and loads */
	char warning[PROM_WARNING_MAX];
};

/* -EINVAL: an option is not a name, a time or a set of labels. */
int ops_prom_check(const struct ops_prom_config *c,
		   struct error *err) MUST_CHECK;

/* Read all metrics.  `days` is --days.  Release by ops_metrics_free(). */
int ops_read_metrics(const struct ops_prom_config *c, uint64_t days,
		     struct ops_metrics **ret, struct error *err) MUST_CHECK;
void ops_metrics_free(struct ops_metrics *m);
DEFINE_AUTO(ops_metrics)

int ops_prom_open(const struct ops_prom_config *c, struct prom **ret,
		  struct error *err) MUST_CHECK;

/* The time in which data exist, and the distance of samples. */
struct ops_span {
	int64_t from_s, to_s;
	uint32_t step_s;
};

/* Find the span of the first of the metrics that exists.  -ENOENT: none of them exists. */
int ops_prom_survey(const struct ops_prom_config *c, struct prom *p,
		    uint64_t days, const char *const *names, size_t n,
		    struct ops_span *ret, struct error *err) MUST_CHECK;
/* Parse a time in the form of --from. */
int ops_read_time(const char *text, int64_t *ret, struct error *err) MUST_CHECK;

/* Format a time as "2025-10-01 12:00Z". */
const char *ops_time_text(double at_s, char out[32]);

#endif
