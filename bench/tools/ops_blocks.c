// SPDX-License-Identifier: Apache-2.0
/*
 * bench-ops-blocks PLAN FOLDER: the metrics of what ops_plan.py has planned, 300 series of each
 * node, as blocks of Prometheus's TSDB.  They are written directly: by remote write they would
 * take hours.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/tools/ops_tsdb.h"
#include "common/array.h"

#define STEP 30
#define BLOCK_S (54 * 3600)
#define NODES_MAX 1000
#define ROWS_MAX 4096
#define NODE_SERIES 300u

/* ---------------------------------------------------------------------- plan --- */

enum moved { MOVES_NOTHING, MOVES_INTR, MOVES_RUNNING, MOVES_TEMP };

struct plan_row {
	double from, to, load_end, v;
	int node;
	enum moved what;
	bool out[NODES_MAX]; /* nodes that are out of the job */
};

struct plan_rows {
	struct plan_row *v;
	size_t n;
};

static struct {
	int nodes;
	double begin, end;
	struct plan_rows jobs, saves, xids, aways, moves, slows;
} plan;

static struct plan_row *add_row(struct plan_rows *r)
{
	if (!r->v)
		r->v = tsdb_get_memory(ROWS_MAX, sizeof(*r->v));
	if (r->n == ROWS_MAX)
		tsdb_end_with("the plan is too long");
	return &r->v[r->n++];
}

static void read_job(const char *line)
{
	struct plan_row *r = add_row(&plan.jobs);
	char list[4096];

	if (sscanf(line, "job %lf %lf %lf %4095s", &r->from, &r->load_end,
		   &r->to, list) != 4)
		tsdb_end_with("a job of the plan is none");
	for (char *p = list; *p >= '0' && *p <= '9';) {
		long n = strtol(p, &p, 10);

		if (n >= 0 && n < NODES_MAX)
			r->out[n] = true;
		p += *p == ',';
	}
}

static void read_row(const char *line)
{
	struct plan_row r = { .node = 0 };
	char what[32];

	if (sscanf(line, "save %lf %lf", &r.from, &r.to) == 2)
		*add_row(&plan.saves) = r;
	else if (sscanf(line, "xid %d %lf %lf", &r.node, &r.from, &r.v) == 3) {
		r.to = r.from + 75;
		*add_row(&plan.xids) = r;
	} else if (sscanf(line, "away %d %lf %lf", &r.node, &r.from, &r.to) ==
		   3)
		*add_row(&plan.aways) = r;
	else if (sscanf(line, "slow %d %lf %lf %lf", &r.node, &r.from, &r.to,
			&r.v) == 4)
		*add_row(&plan.slows) = r;
	else if (sscanf(line, "moved %d %lf %lf %31s", &r.node, &r.from, &r.to,
			what) == 4) {
		r.what = strcmp(what, "intr") == 0      ? MOVES_INTR
			 : strcmp(what, "running") == 0 ? MOVES_RUNNING
							: MOVES_TEMP;
		*add_row(&plan.moves) = r;
	} else
		tsdb_end_with(line);
}

static void read_plan(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[8192];

	if (!f || !fgets(line, sizeof(line), f) ||
	    sscanf(line, "cluster %d %lf %lf", &plan.nodes, &plan.begin,
		   &plan.end) != 3 ||
	    plan.nodes > NODES_MAX)
		tsdb_end_with("there is no plan");
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "job ", 4) == 0)
			read_job(line);
		else
			read_row(line);
	}
	(void)fclose(f);
}

/* The row of a node that is active at a time, or NULL. */
static const struct plan_row *row_at(const struct plan_rows *r, int node,
				     double t)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].node == node && t >= r->v[i].from && t < r->v[i].to)
			return &r->v[i];
	return NULL;
}

/* ------------------------------------------------------------------- metrics --- */

enum kind {
	OF_WRITES, /* bytes written by the node, times `busy` */
	OF_READS,
	UTILISATION,
	XID,
	CLOCK,
	/* `busy` while it trains, else `idle`; with noise of `sd` of the value */
	GAUGE,
	COUNTER, /* as GAUGE, added up per second */
	FREE_SPACE,
};

struct metric {
	const char *name;
	int port;
	const char *label,
		*values;  /* "a,b", or "7": 0 to 6; NULL: one series */
	const char *more; /* labels, "name=value,..." */
	enum kind kind;
	double idle, busy, sd, quantum;
	enum moved moves;
};

#define MOUNT "export=nas:/ckpt,mountaddr=10.0.0.1,protocol=tcp"
#define DISK "device=nas:/ckpt,fstype=nfs4,mountpoint=/ckpt"
#define NFS "node_mountstats_nfs_"
#define OPS NFS "operations_"
#define SOME_OPS \
	"GETATTR,SETATTR,LOOKUP,ACCESS,CREATE,REMOVE,RENAME,READDIR,COMMIT," \
	"OPEN,CLOSE,LOCK,LOCKU,FSINFO,PATHCONF,STATFS,READLINK,MKDIR,RMDIR," \
	"SEQUENCE"
#define DISKS "eth0,eth1,ib0,ib1,ib2,ib3,ib4,ib5,ib6,ib7"
#define MIB 1048576.0
#define GPUS "gpu", "8", NULL

#define LEVELS(idle_, busy_, sd_, quantum_) \
	.idle = (idle_), .busy = (busy_), .sd = (sd_), .quantum = (quantum_)

static const struct metric metrics[] = {
	{ NFS "total_write_bytes_total", 9100, NULL, NULL, MOUNT, OF_WRITES,
	  .busy = 1 },
	{ NFS "total_read_bytes_total", 9100, NULL, NULL, MOUNT, OF_READS,
	  .busy = 1 },
	{ OPS "requests_total", 9100, "operation", "WRITE", MOUNT, OF_WRITES,
	  .busy = 1 / MIB },
	{ OPS "queue_time_seconds_total", 9100, "operation", "WRITE", MOUNT,
	  OF_WRITES, .busy = 1.495 / MIB },
	{ OPS "response_time_seconds_total", 9100, "operation", "WRITE", MOUNT,
	  OF_WRITES, .busy = 0.126 / MIB },
	{ OPS "requests_total", 9100, "operation", "READ", MOUNT, OF_READS,
	  .busy = 1 / MIB },
	{ OPS "queue_time_seconds_total", 9100, "operation", "READ", MOUNT,
	  OF_READS, .busy = 0.032 / MIB },
	{ OPS "response_time_seconds_total", 9100, "operation", "READ", MOUNT,
	  OF_READS, .busy = 0.027 / MIB },
	{ OPS "requests_total", 9100, "operation", SOME_OPS, MOUNT, COUNTER,
	  LEVELS(0.1, 2, 0.1, 1) },
	{ OPS "queue_time_seconds_total", 9100, "operation", SOME_OPS, MOUNT,
	  COUNTER, LEVELS(1e-4, 1e-3, 0.1, 1e-3) },
	{ OPS "response_time_seconds_total", 9100, "operation", SOME_OPS, MOUNT,
	  COUNTER, LEVELS(1e-4, 1e-3, 0.1, 1e-3) },
	{ "node_filesystem_size_bytes", 9100, NULL, NULL, DISK, GAUGE,
	  LEVELS(2252e12, 2252e12, 0, 1) },
	{ "node_filesystem_avail_bytes", 9100, NULL, NULL, DISK, FREE_SPACE,
	  .busy = 1 },
	{ "DCGM_FI_DEV_GPU_UTIL", 9400, GPUS, UTILISATION,
	  LEVELS(0, 98, 0.01, 1) },
	{ "DCGM_FI_DEV_XID_ERRORS", 9400, GPUS, XID, .quantum = 1 },
	{ "DCGM_FI_DEV_SM_CLOCK", 9400, GPUS, CLOCK,
	  LEVELS(345, 1830, 0.002, 15) },
	{ "DCGM_FI_DEV_MEM_CLOCK", 9400, GPUS, GAUGE,
	  LEVELS(3996, 3996, 0, 1) },
	{ "DCGM_FI_DEV_GPU_TEMP", 9400, GPUS, GAUGE, LEVELS(32, 62, 0.024, 1),
	  .moves = MOVES_TEMP },
	{ "DCGM_FI_DEV_MEMORY_TEMP", 9400, GPUS, GAUGE,
	  LEVELS(36, 70, 0.02, 1) },
	{ "DCGM_FI_DEV_POWER_USAGE", 9400, GPUS, GAUGE,
	  LEVELS(140, 930, 0.02, 0.001) },
	{ "DCGM_FI_DEV_FB_USED", 9400, GPUS, GAUGE,
	  LEVELS(4, 171300, 0.0001, 2) },
	{ "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 9400, GPUS, GAUGE,
	  LEVELS(0, 0.41, 0.03, 1e-6) },
	{ "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 9400, GPUS, COUNTER,
	  LEVELS(0, 250e3, 0.03, 1) },
	{ "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", 9400, GPUS, COUNTER,
	  .quantum = 1 },
	{ "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", 9400, GPUS, COUNTER,
	  .quantum = 1 },
	{ "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 9400, GPUS, COUNTER,
	  .quantum = 1 },
	{ "node_intr_total", 9100, NULL, NULL, NULL, COUNTER,
	  LEVELS(9e3, 3e5, 0.02, 1), .moves = MOVES_INTR },
	{ "node_context_switches_total", 9100, NULL, NULL, NULL, COUNTER,
	  LEVELS(4e3, 4e5, 0.03, 1) },
	{ "node_procs_running", 9100, NULL, NULL, NULL, GAUGE,
	  LEVELS(1, 100, 0.02, 1), .moves = MOVES_RUNNING },
	{ "node_procs_blocked", 9100, NULL, NULL, NULL, GAUGE,
	  LEVELS(0, 0, 0, 1) },
	{ "node_vmstat_pgpgout", 9100, NULL, NULL, NULL, COUNTER,
	  LEVELS(40, 2e3, 0.1, 1) },
	{ "node_vmstat_pgmajfault", 9100, NULL, NULL, NULL, COUNTER,
	  LEVELS(0.01, 0.1, 0.3, 1) },
	{ "node_sockstat_TCP_alloc", 9100, NULL, NULL, NULL, GAUGE,
	  LEVELS(60, 900, 0.01, 1) },
	{ "node_memory_Slab_bytes", 9100, NULL, NULL, NULL, GAUGE,
	  LEVELS(4e9, 9e9, 0.01, 4096) },
	{ "node_memory_MemAvailable_bytes", 9100, NULL, NULL, NULL, GAUGE,
	  LEVELS(2e12, 1.4e12, 0.005, 4096) },
	{ "node_pressure_io_waiting_seconds_total", 9100, NULL, NULL, NULL,
	  COUNTER, LEVELS(1e-4, 2e-3, 0.2, 1e-6) },
	{ "node_network_receive_errs_total", 9100, "device", DISKS, NULL,
	  COUNTER, .quantum = 1 },
	{ "node_network_receive_bytes_total", 9100, "device", DISKS, NULL,
	  COUNTER, LEVELS(1e4, 6e6, 0.1, 1) },
	{ "node_network_transmit_bytes_total", 9100, "device", DISKS, NULL,
	  COUNTER, LEVELS(1e4, 6e6, 0.1, 1) },
	{ "node_infiniband_link_downed_total", 9100, "device", "8", "port=1",
	  COUNTER, .quantum = 1 },
	{ "node_infiniband_link_error_recovery_total", 9100, "device", "8",
	  "port=1", COUNTER, .quantum = 1 },
	{ "node_edac_correctable_errors_total", 9100, "controller", "4", NULL,
	  COUNTER, .quantum = 1 },
	{ "node_hwmon_temp_celsius", 9100, "sensor", "20", "chip=pci0", GAUGE,
	  LEVELS(35, 55, 0.01, 1) },
	{ "node_cpu_seconds_total", 9100, "cpu", "45", "mode=user", COUNTER,
	  LEVELS(0.02, 0.4, 0.05, 0.01) },
	{ "node_load1", 9100, NULL, NULL, NULL, GAUGE,
	  LEVELS(1, 100, 0.05, 0.01) },
};

struct series {
	struct tsdb_series base;
	const struct metric *m;
	int node;
	uint64_t random;
	double offset, walk, total;
};

static struct series *all;
static struct tsdb_series **sorted;
static size_t n_all;

static char *copy_text(const char *s, size_t n)
{
	char *p = tsdb_get_memory(n + 1, 1);

	memcpy(p, s, n);
	return p;
}

static void add_label(struct series *s, const char *name, size_t n,
		      const char *value, size_t n_value)
{
	if (s->base.n_labels == TSDB_PAIRS_MAX)
		tsdb_end_with("too many labels");
	s->base.labels[s->base.n_labels++] =
		(struct tsdb_pair){ copy_text(name, n),
				    copy_text(value, n_value) };
}

static int by_label(const void *x, const void *y)
{
	return strcmp(((const struct tsdb_pair *)x)->name,
		      ((const struct tsdb_pair *)y)->name);
}

static double next_noise(uint64_t *s)
{
	uint64_t x = *s;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*s = x;
	/* The sum of four even numbers is nearly normal. */
	return ((double)((x & 0xffff) + (x >> 16 & 0xffff) +
			 (x >> 32 & 0xffff) + (x >> 48)) -
		131070) /
	       37837;
}

static void add_series(const struct metric *m, int node, const char *value,
		       size_t n)
{
	struct series *s = &all[n_all];
	char instance[32];

	(void)snprintf(instance, sizeof(instance), "gpu%03d:%d", node, m->port);
	*s = (struct series){ .m = m,
			      .node = node,
			      .random = 88172645463325252u +
					n_all * UINT64_C(0x9e3779b97f4a7c15) };
	n_all++;
	for (int i = 0; i < 20; i++)
		s->offset = next_noise(&s->random);
	add_label(s, "__name__", 8, m->name, strlen(m->name));
	add_label(s, "instance", 8, instance, strlen(instance));
	add_label(s, "job", 3, "node", 4);
	if (m->label)
		add_label(s, m->label, strlen(m->label), value, n);
	for (const char *p = m->more; p && *p;) {
		size_t name = strcspn(p, "="), end = strcspn(p, ",");

		add_label(s, p, name, p + name + 1, end - name - 1);
		p += end + (p[end] == ',');
	}
	qsort(s->base.labels, s->base.n_labels, sizeof(s->base.labels[0]),
	      by_label);
}

static void add_metric(const struct metric *m, int node)
{
	char number[16];
	long n = m->values ? strtol(m->values, NULL, 10) : 1;

	for (long i = 0; i < n; i++) {
		int len = snprintf(number, sizeof(number), "%ld", i);

		add_series(m, node, number, (size_t)len);
	}
	for (const char *p = m->values; !n && *p;) {
		size_t len = strcspn(p, ",");

		add_series(m, node, p, len);
		p += len + (p[len] == ',');
	}
}

static int by_labels(const void *x, const void *y)
{
	const struct series *a = x, *b = y;

	for (size_t i = 0; i < a->base.n_labels && i < b->base.n_labels; i++) {
		int rc = strcmp(a->base.labels[i].name, b->base.labels[i].name);

		rc = rc ? rc
			: strcmp(a->base.labels[i].value,
				 b->base.labels[i].value);
		if (rc)
			return rc;
	}
	return (a->base.n_labels > b->base.n_labels) -
	       (a->base.n_labels < b->base.n_labels);
}

static void make_series(void)
{
	all = tsdb_get_memory((size_t)plan.nodes * NODE_SERIES, sizeof(*all));
	for (int node = 0; node < plan.nodes; node++) {
		for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
			add_metric(&metrics[i], node);
		if (n_all != (size_t)(node + 1) * NODE_SERIES)
			tsdb_end_with("a node has not 300 series");
	}
	qsort(all, n_all, sizeof(*all), by_labels);
	sorted = tsdb_get_memory(n_all, sizeof(*sorted));
	for (size_t i = 0; i < n_all; i++)
		sorted[i] = &all[i].base;
}

/* --------------------------------------------------------------------- nodes --- */

enum state { IDLE, LOADS, TRAINS };

/* State of a node that its series share in one block. */
struct node {
	size_t n;
	int64_t *at_ms;
	uint8_t *state;
	float *moved[MOVES_TEMP + 1], *slow, *xid;
	double *written, *read;
	/* sample at which its counters restart; SIZE_MAX: none */
	size_t restart;
	uint64_t random;
	double phase, written_base, read_base;
};

static struct node *nodes;

/* Bytes of a node until `t`; `k` counts its finished bursts. */
static double bytes_at(const struct plan_rows *r, bool of_jobs, int node,
		       double t, double size, size_t *k, double *sum)
{
	while (*k < r->n) {
		const struct plan_row *v = &r->v[*k];
		double to = of_jobs ? v->load_end : v->to;
		double rate = of_jobs ? size : size / (v->to - v->from);
		bool has = of_jobs ? !v->out[node] : true;

		if (t < to)
			return *sum +
			       (has && t > v->from ? (t - v->from) * rate : 0);
		*sum += has ? (to - v->from) * rate : 0;
		(*k)++;
	}
	return *sum;
}

static const struct plan_row *job_at(double t)
{
	for (size_t i = 0; i < plan.jobs.n; i++)
		if (t >= plan.jobs.v[i].from && t < plan.jobs.v[i].to)
			return &plan.jobs.v[i];
	return NULL;
}

/* The saves that concern a node: those of the jobs that it belongs to. */
static struct plan_rows saves_of(int node)
{
	struct plan_rows r = {
		tsdb_get_memory(plan.saves.n + 1, sizeof(struct plan_row)), 0
	};

	for (size_t i = 0; i < plan.saves.n; i++) {
		const struct plan_row *j = job_at(plan.saves.v[i].from);

		if (j && !j->out[node])
			r.v[r.n++] = plan.saves.v[i];
	}
	return r;
}

static void fill_node(int id, double begin, double end)
{
	struct node *o = &nodes[id];
	struct plan_rows saves = saves_of(id);
	size_t k_save = 0, k_load = 0, was = SIZE_MAX;
	double written = 0, read = 0;
	int64_t first = (int64_t)ceil((begin - plan.begin - o->phase) / STEP);

	o->n = 0;
	o->restart = SIZE_MAX;
	for (int64_t i = first < 0 ? 0 : first;; i++) {
		double t = plan.begin + o->phase + (double)i * STEP;
		const struct plan_row *job = job_at(t), *row;
		bool is_away = row_at(&plan.aways, id, t) != NULL;

		if (t >= end)
			break;
		if (is_away)
			was = o->n;
		if (is_away || next_noise(&o->random) > 3.0) /* a lost scrape */
			continue;
		if (was == o->n)
			o->restart = o->n;
		o->at_ms[o->n] = (int64_t)llround(t * 1000);
		o->state[o->n] = !job || job->out[id] ? IDLE
				 : t < job->load_end  ? LOADS
						      : TRAINS;
		for (int w = 1; w <= MOVES_TEMP; w++) {
			row = row_at(&plan.moves, id, t);
			o->moved[w][o->n] = row && (int)row->what == w ? 25 : 0;
		}
		row = row_at(&plan.slows, id, t);
		o->slow[o->n] = row ? (float)row->v : 0;
		row = row_at(&plan.xids, id, t);
		o->xid[o->n] = row ? (float)row->v : 0;
		o->written[o->n] = bytes_at(&saves, false, id, t, 20.55e9,
					    &k_save, &written) +
				   5e6 * (t - plan.begin);
		o->read[o->n] = bytes_at(&plan.jobs, true, id, t, 2.5e9,
					 &k_load, &read) +
				2e4 * (t - plan.begin);
		o->n++;
	}
	free(saves.v);
}

static void make_nodes(void)
{
	size_t n = BLOCK_S / STEP + 2;

	nodes = tsdb_get_memory((size_t)plan.nodes, sizeof(*nodes));
	for (int i = 0; i < plan.nodes; i++) {
		struct node *o = &nodes[i];

		o->random = 4101842887655102017u + (uint64_t)i * 7919;
		o->phase = round(STEP * 1000 * fmod(0.618034 * i, 1)) / 1000;
		o->at_ms = tsdb_get_memory(n, sizeof(*o->at_ms));
		o->state = tsdb_get_memory(n, 1);
		for (int w = 1; w <= MOVES_TEMP; w++)
			o->moved[w] = tsdb_get_memory(n, sizeof(float));
		o->slow = tsdb_get_memory(n, sizeof(float));
		o->xid = tsdb_get_memory(n, sizeof(float));
		o->written = tsdb_get_memory(n, sizeof(double));
		o->read = tsdb_get_memory(n, sizeof(double));
	}
}

/* -------------------------------------------------------------------- values --- */

static double next_deviation(struct series *s)
{
	double now = next_noise(&s->random);

	s->walk = 0.97 * s->walk + 0.243 * now;
	/* A jump from time to time, as on healthy nodes. */
	return s->offset + s->walk + (now > 3.1 ? 22 * (now - 3.1) : 0);
}

static double round_to_quantum(double v, double quantum)
{
	return round(v / quantum) * quantum;
}

static double level_at(struct series *s, const struct node *o, size_t i)
{
	const struct metric *m = s->m;
	double level = o->state[i] == TRAINS ? m->busy : m->idle;
	double off = m->sd > 0 ? next_deviation(s) : 0;

	if (m->moves)
		off += (m->moves == MOVES_TEMP ? 1 : -1) *
		       (double)o->moved[m->moves][i];
	return level * (1 + m->sd * off);
}

/* Value of sample `i` of the block. */
static double value_at(struct tsdb_series *base, size_t i)
{
	struct series *s = (struct series *)base;
	const struct node *o = &nodes[s->node];
	const struct metric *m = s->m;
	double v, past_s;

	switch (m->kind) {
	case OF_WRITES:
		return (o->written[i] - (i >= o->restart
						 ? o->written[o->restart]
						 : o->written_base)) *
		       m->busy;
	case OF_READS:
		return (o->read[i] - (i >= o->restart ? o->read[o->restart]
						      : o->read_base)) *
		       m->busy;
	case FREE_SPACE:
		return round_to_quantum(1802e12 - plan.nodes * o->written[i],
					4096);
	case XID:
		return s->base.labels[1].value[0] == '0' ? (double)o->xid[i]
							 : 0;
	case CLOCK:
		v = level_at(s, o, i);
		return round_to_quantum(v * (1 - (double)o->slow[i]),
					m->quantum);
	case UTILISATION:
		v = round_to_quantum(level_at(s, o, i), 1);
		return o->state[i] == LOADS ? 2 : v > 100 ? 100 : v;
	case GAUGE:
		v = round_to_quantum(level_at(s, o, i), m->quantum);
		return v < 0 ? 0 : v;
	case COUNTER:
		past_s = i ? (double)(o->at_ms[i] - o->at_ms[i - 1]) / 1000
			   : STEP;
		if (i == o->restart)
			s->total = 0;
		v = level_at(s, o, i);
		s->total += v > 0 ? v * past_s : 0;
		return round_to_quantum(s->total, m->quantum);
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int number = 0;

	if (argc != 3)
		tsdb_end_with("wanted are PLAN FOLDER");
	read_plan(argv[1]);
	make_series();
	make_nodes();
	if (mkdir(argv[2], 0755) != 0)
		tsdb_end_with(argv[2]);
	for (double at = plan.begin; at < plan.end; at += BLOCK_S) {
		double end = fmin(at + BLOCK_S, plan.end);

		for (int i = 0; i < plan.nodes; i++)
			fill_node(i, at, end);
		for (size_t i = 0; i < n_all; i++) {
			all[i].base.at_ms = nodes[all[i].node].at_ms;
			all[i].base.n = nodes[all[i].node].n;
		}
		tsdb_write_block(argv[2], ++number, (int64_t)at, (int64_t)end,
				 sorted, n_all, value_at);
		for (int i = 0; i < plan.nodes; i++) {
			struct node *o = &nodes[i];

			if (o->restart != SIZE_MAX) {
				o->written_base = o->written[o->restart];
				o->read_base = o->read[o->restart];
			}
		}
	}
	return 0;
}
