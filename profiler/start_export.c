// SPDX-License-Identifier: Apache-2.0
/*
 * Writes names of stages, nodes and jobs without escaping: stage_is_name() and similar functions
 * only accept characters that JSON and CSV need not escape.
 */
#include "profiler/start_export.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/digest.h"

#define NS_PER_US 1000
#define SPAN_INTERNAL 1 /* OTLP's SPAN_KIND_INTERNAL */
#define STATUS_ERROR 2  /* OTLP's STATUS_CODE_ERROR */
#define NEST_MAX 64u

/* Find the cause to attach to a straggler's run of the stage; NULL: the run is not of a
 * straggler. */
static const struct start_blame *find_blame_of_run(const struct start_report *r,
						   const struct start_title *n,
						   const struct start_run *run)
{
	size_t lo = 0, hi = n->n_blames;

	/* Binary search: blames are sorted like cells, by stage, then node. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct start_cell *c = &r->cells[n->blames[mid].cell];

		if (c->stage == run->stage && c->node == run->node)
			return &n->blames[mid];
		if (c->stage < run->stage ||
		    (c->stage == run->stage && c->node < run->node))
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* ------------------------------------------------------------------- chrome --- */

static int chrome_node(const struct start_report *r,
		       const struct start_title *title, size_t node,
		       struct buf *ret)
{
	const struct start_node *n = &r->nodes[node];
	int rc = buf_printf(ret,
			    ",\n{\"ph\":\"M\",\"name\":\"process_name\","
			    "\"pid\":%zu,\"args\":{\"name\":\"%s\"}}",
			    node + 1, n->name);

	for (uint32_t i = 0; rc == 0 && i < n->n_runs; i++) {
		const struct start_run *run = &r->runs[n->first_run + i];
		const struct start_blame *b;

		/* In the trace, the node as a whole is thread 0, its rank N is thread N + 1. */
		rc = buf_printf(
			ret,
			",\n{\"ph\":\"%s\",\"name\":\"%s\",\"cat\":\"stage\","
			"\"pid\":%zu,\"tid\":%" PRId64 ",\"ts\":%.3f",
			run->is_open ? "B" : "X", r->stages[run->stage].name,
			node + 1, run->rank + 1,
			(double)(run->begin_ns - r->begin_ns) / NS_PER_US);
		if (rc == 0 && !run->is_open)
			rc = buf_printf(ret, ",\"dur\":%.3f",
					(double)run->duration_ns / NS_PER_US);
		if (rc == 0)
			rc = buf_printf(ret,
					",\"args\":{\"attempt\":%" PRIu32
					",\"status\":%" PRId64,
					run->attempt,
					run->status < 0 ? 0 : run->status);
		b = find_blame_of_run(r, title, run);
		if (rc == 0 && b)
			rc = buf_printf(ret,
					",\"cause\":\"%s\",\"excess_s\":%.3f",
					start_cause_name(b->cause),
					(double)b->excess_ns / 1e9);
		if (rc == 0)
			rc = buf_puts(ret, "}}");
	}
	return rc;
}

static int write_chrome(const struct start_report *r,
			const struct start_title *n, struct buf *ret)
{
	int rc =
		buf_printf(ret,
			   "{\"displayTimeUnit\":\"ms\",\"otherData\":{"
			   "\"job\":\"%s\",\"attempt\":\"%" PRId64
			   "\",\"class\":\"%s\"},\"traceEvents\":[\n"
			   "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,"
			   "\"args\":{\"name\":\"start of %s\"}},\n"
			   "{\"ph\":\"X\",\"name\":\"start\",\"cat\":\"start\","
			   "\"pid\":0,\"tid\":0,\"ts\":0,\"dur\":%.3f}",
			   n->job, n->attempt, start_class_name(n->class),
			   n->job,
			   (double)(r->end_ns - r->begin_ns) / NS_PER_US);

	for (size_t i = 0; rc == 0 && i < r->n_nodes; i++)
		rc = chrome_node(r, n, i, ret);
	return rc == 0 ? buf_puts(ret, "\n]}\n") : rc;
}

static int write_csv(const struct start_report *r, const struct start_title *n,
		     struct buf *ret)
{
	int rc = buf_puts(ret, "job,attempt,node,rank,stage,try,begin_s,"
			       "duration_s,status,open,top,begin_unix_s,"
			       "cause,excess_s,class\n");

	for (size_t i = 0; rc == 0 && i < r->n_runs; i++) {
		const struct start_run *run = &r->runs[i];
		const struct start_blame *b = find_blame_of_run(r, n, run);

		rc = buf_printf(ret, "%s,%" PRId64 ",%s,", n->job, n->attempt,
				r->nodes[run->node].name);
		if (rc == 0 && run->rank >= 0)
			rc = buf_printf(ret, "%" PRId64, run->rank);
		if (rc == 0)
			rc = buf_printf(ret, ",%s,%" PRIu32 ",%.6f,",
					r->stages[run->stage].name,
					run->attempt,
					(double)(run->begin_ns - r->begin_ns) /
						1e9);
		if (rc == 0 && !run->is_open)
			rc = buf_printf(ret, "%.6f",
					(double)run->duration_ns / 1e9);
		if (rc == 0)
			rc = buf_puts(ret, ",");
		if (rc == 0 && run->status >= 0)
			rc = buf_printf(ret, "%" PRId64, run->status);
		if (rc == 0)
			rc = buf_printf(ret, ",%d,%d,%.3f,", run->is_open,
					run->is_top,
					(double)run->begin_ns / 1e9);
		if (rc == 0 && b)
			rc = buf_printf(ret, "%s,%.3f",
					start_cause_name(b->cause),
					(double)b->excess_ns / 1e9);
		if (rc == 0)
			rc = buf_printf(ret, "%s,%s\n", b ? "" : ",",
					start_class_name(n->class));
	}
	return rc;
}

/* --------------------------------------------------------------------- otlp --- */

/* State of writing a start as OTLP. The ids are derived from the start, so that every export has
 * the same. */
struct otlp {
	const struct start_report *r;
	const struct start_title *title;
	struct buf *ret;
	char trace[33];
	uint64_t first_span; /* id of span 0; span k has this plus k */
};

static int make_trace_id(struct otlp *o, const struct start_title *n)
{
	AUTO_BUF b = BUF_INIT;
	struct digest d;

	if (buf_printf(&b, "%s %" PRId64 " %" PRId64, n->job, n->attempt,
		       o->r->begin_ns) < 0 ||
	    digest_of(b.data, b.len, &d) < 0)
		return -ENOMEM;
	/* OTLP forbids ids of a trace or span that are 0. */
	d.b[0] |= 1;
	d.b[16] |= 1;
	for (size_t i = 0; i < 16; i++)
		(void)snprintf(o->trace + 2 * i, 3, "%02x", d.b[i]);
	for (size_t i = 0; i < 8; i++)
		o->first_span = o->first_span << 8 | d.b[16 + i];
	o->first_span &= ~UINT64_C(0xffffffff);
	return 0;
}

static int put_attribute(struct buf *b, const char *key, const char *value)
{
	return buf_printf(b,
			  "{\"key\":\"%s\",\"value\":{\"stringValue\":\"%s\"}}",
			  key, value);
}

/* Write the begin of a span, up to its attributes. */
static int open_span(struct otlp *o, uint64_t span, uint64_t parent,
		     const char *name, int64_t begin_ns, int64_t end_ns)
{
	int rc =
		buf_printf(o->ret,
			   "{\"traceId\":\"%s\",\"spanId\":\"%016" PRIx64
			   "\",\"name\":\"%s\",\"kind\":%d,",
			   o->trace, o->first_span + span, name, SPAN_INTERNAL);

	if (rc == 0 && parent)
		rc = buf_printf(o->ret, "\"parentSpanId\":\"%016" PRIx64 "\",",
				o->first_span + parent);
	if (rc == 0)
		rc = buf_printf(o->ret,
				"\"startTimeUnixNano\":\"%" PRId64
				"\",\"endTimeUnixNano\":\"%" PRId64 "\"",
				begin_ns < 0 ? 0 : begin_ns,
				end_ns < 0 ? 0 : end_ns);
	return rc;
}

static int open_resource(struct otlp *o, const struct start_title *n,
			 const char *node)
{
	int rc = buf_puts(o->ret, "{\"resource\":{\"attributes\":[");

	if (rc == 0)
		rc = put_attribute(o->ret, "service.name", n->job);
	if (rc == 0 && node)
		rc = buf_puts(o->ret, ",");
	if (rc == 0 && node)
		rc = put_attribute(o->ret, "host.name", node);
	if (rc == 0)
		rc = buf_puts(o->ret, "]},\"scopeSpans\":[{\"scope\":{\"name\":"
				      "\"bootseer\"},\"spans\":[\n");
	return rc;
}

#define ROOT 1u
static uint64_t node_span(size_t node)
{
	return ROOT + 1 + node;
}

static uint64_t run_span(const struct otlp *o, size_t run)
{
	return node_span(o->r->n_nodes) + run;
}

static int put_run(struct otlp *o, size_t i, uint64_t parent)
{
	const struct start_run *run = &o->r->runs[i];
	const struct start_blame *b = find_blame_of_run(o->r, o->title, run);
	int rc = buf_puts(o->ret, ",\n");

	if (rc == 0)
		rc = open_span(o, run_span(o, i), parent,
			       o->r->stages[run->stage].name, run->begin_ns,
			       run->end_ns);
	if (rc == 0)
		rc = buf_printf(o->ret,
				",\"attributes\":[{\"key\":"
				"\"bootseer.attempt\",\"value\":{\"intValue\":"
				"\"%" PRIu32 "\"}}",
				run->attempt);
	if (rc == 0 && run->rank >= 0)
		rc = buf_printf(o->ret,
				",{\"key\":\"bootseer.rank\",\"value\":{"
				"\"intValue\":\"%" PRId64 "\"}}",
				run->rank);
	if (rc == 0 && run->is_open)
		rc = buf_puts(o->ret, ",{\"key\":\"bootseer.open\",\"value\":{"
				      "\"boolValue\":true}}");
	if (rc == 0 && b)
		rc = buf_puts(o->ret, ",");
	if (rc == 0 && b)
		rc = put_attribute(o->ret, "bootseer.cause",
				   start_cause_name(b->cause));
	if (rc == 0)
		rc = buf_puts(o->ret, "]");
	if (rc == 0 && run->status > 0)
		rc = buf_printf(o->ret,
				",\"status\":{\"code\":%d,\"message\":\"exit "
				"status %" PRId64 "\"}",
				STATUS_ERROR, run->status);
	return rc == 0 ? buf_puts(o->ret, "}") : rc;
}

/* Write a node's runs as spans. The runs of a rank are sorted by begin, so the parent of a run is
 * the last earlier run that ends after it. */
static int put_runs(struct otlp *o, size_t node)
{
	const struct start_node *n = &o->r->nodes[node];
	size_t open[NEST_MAX], depth = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < n->n_runs; i++) {
		size_t at = n->first_run + i;
		const struct start_run *run = &o->r->runs[at];

		while (depth &&
		       (o->r->runs[open[depth - 1]].rank != run->rank ||
			o->r->runs[open[depth - 1]].end_ns < run->end_ns))
			depth--;
		rc = put_run(o, at,
			     depth ? run_span(o, open[depth - 1])
				   : node_span(node));
		if (!run->is_open && depth < NEST_MAX)
			open[depth++] = at;
	}
	return rc;
}

static int put_node(struct otlp *o, const struct start_title *name, size_t node)
{
	const struct start_node *n = &o->r->nodes[node];
	int rc = buf_puts(o->ret, ",\n");

	if (rc == 0)
		rc = open_resource(o, name, n->name);
	if (rc == 0)
		rc = open_span(o, node_span(node), ROOT, "node", n->begin_ns,
			       n->end_ns);
	if (rc == 0)
		rc = buf_puts(o->ret, "}");
	if (rc == 0)
		rc = put_runs(o, node);
	return rc == 0 ? buf_puts(o->ret, "]}]}") : rc;
}

static int write_otlp(const struct start_report *r, const struct start_title *n,
		      struct buf *ret)
{
	struct otlp o = { .r = r, .title = n, .ret = ret };
	int rc = make_trace_id(&o, n);

	if (rc == 0)
		rc = buf_puts(ret, "{\"resourceSpans\":[\n");
	if (rc == 0)
		rc = open_resource(&o, n, NULL);
	if (rc == 0)
		rc = open_span(&o, ROOT, 0, "start", r->begin_ns, r->end_ns);
	if (rc == 0)
		rc = buf_printf(
			ret,
			",\"attributes\":[{\"key\":\"bootseer.job."
			"attempt\",\"value\":{\"intValue\":\"%" PRId64
			"\"}},{\"key\":\"bootseer.start.class\",\"value\":"
			"{\"stringValue\":\"%s\"}}]}]}]}",
			n->attempt, start_class_name(n->class));
	for (size_t i = 0; rc == 0 && i < r->n_nodes; i++)
		if (r->nodes[i].n_runs)
			rc = put_node(&o, n, i);
	return rc == 0 ? buf_puts(ret, "]}\n") : rc;
}

/* ---------------------------------------------------------------------- all --- */

static const struct start_export_kind kinds[] = {
	{ "chrome", "application/json", write_chrome },
	{ "otlp", "application/json", write_otlp },
	{ "csv", "text/csv; charset=utf-8", write_csv },
};

const struct start_export_kind *start_export_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

int start_export(const struct start_export_kind *k,
		 const struct start_report *r, const struct start_title *n,
		 struct buf *ret)
{
	return k->write(r, n, ret);
}
