// SPDX-License-Identifier: Apache-2.0
/* The list of metrics by which nodes are compared: built-in, or from a file. */
#include "cli/ops_signals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/fs.h"
#include "profiler/ops/precursors.h"

#define LIST_MAX (1u << 20)
#define ERRORS_S 900
#define WORDS_MAX 4

/* Built-in list: names of node_exporter and dcgm-exporter.  According to the paper (3.4 and 4.1),
 * interrupts, processes, page-outs, NFS times, sockets and kernel memory change before the GPUs
 * report a failure. */
static const char usual[] =
	"sum rate node_intr_total\n"
	"sum rate node_context_switches_total\n"
	"max value node_procs_running\n"
	"max value node_procs_blocked\n"
	"sum rate node_vmstat_pgpgout\n"
	"sum rate node_vmstat_pgmajfault\n"
	"max value node_sockstat_TCP_alloc\n"
	"max value node_memory_Slab_bytes\n"
	"min value node_memory_MemAvailable_bytes\n"
	"sum rate node_pressure_io_waiting_seconds_total\n"
	"sum rate node_mountstats_nfs_operations_response_time_seconds_total\n"
	"sum errors node_network_receive_errs_total\n"
	"sum errors node_infiniband_link_downed_total\n"
	"sum errors node_infiniband_link_error_recovery_total\n"
	"sum errors node_edac_correctable_errors_total\n"
	"max value node_hwmon_temp_celsius\n"
	"min value DCGM_FI_DEV_SM_CLOCK low\n"
	"min value DCGM_FI_DEV_MEM_CLOCK low\n"
	"min value DCGM_FI_DEV_POWER_USAGE low\n"
	"max value DCGM_FI_DEV_GPU_TEMP\n"
	"max value DCGM_FI_DEV_MEMORY_TEMP\n"
	"min value DCGM_FI_PROF_PIPE_TENSOR_ACTIVE\n"
	"sum rate DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL\n"
	"sum errors DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL\n"
	"sum errors DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL\n"
	"sum errors DCGM_FI_DEV_PCIE_REPLAY_COUNTER\n"
	"sum errors DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS\n"
	"sum errors DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS\n";

static int refuse_line(size_t number, struct error *err)
{
	return error_set(err, EINVAL,
			 "line %zu: wanted is {sum|min|max} "
			 "{value|rate|errors} METRIC [low|high]",
			 number);
}

static int index_of(const char *const *words, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i], word) == 0)
			return (int)i;
	return -1;
}

/* Split "name{labels}" in place. */
static bool read_metric(char *word, struct ops_signal *to)
{
	char *labels = strchr(word, '{');
	size_t len = strlen(word);

	to->metric = word;
	to->labels = "";
	if (labels) {
		if (word[len - 1] != '}')
			return false;
		word[len - 1] = '\0';
		*labels = '\0';
		to->labels = labels + 1;
	}
	return prom_is_name(word);
}

static int read_line(char *line, size_t number, struct ops_signal *to,
		     struct error *err)
{
	static const char *const overs[] = { "sum", "min", "max" };
	static const char *const kinds[] = { "value", "rate", "errors" };
	static const char *const sides[] = { "low", "", "high" };
	char *words[WORDS_MAX + 1], *save = NULL;
	int over, kind, side = 1;
	size_t n = 0;

	for (char *w = strtok_r(line, " \t\r", &save); w && n <= WORDS_MAX;
	     w = strtok_r(NULL, " \t\r", &save))
		words[n++] = w;
	if (n < 3 || n > WORDS_MAX)
		return refuse_line(number, err);
	over = index_of(overs, ARRAY_SIZE(overs), words[0]);
	kind = index_of(kinds, ARRAY_SIZE(kinds), words[1]);
	if (n == WORDS_MAX)
		side = index_of(sides, ARRAY_SIZE(sides), words[3]);
	if (over < 0 || kind < 0 || side < 0 || !read_metric(words[2], to))
		return refuse_line(number, err);
	to->over = overs[over];
	to->kind = (enum ops_signal_kind)kind;
	to->slow = side - 1;
	return 0;
}

int ops_signals_read(const char *path, struct ops_signals *ret,
		     struct error *err)
{
	size_t cap = 0, number = 0;
	char *save = NULL;
	int rc;

	*ret = (struct ops_signals){ .n = 0 };
	rc = path ? fs_read_file(path, LIST_MAX, &ret->text, err)
		  : buf_puts(&ret->text, usual);
	if (rc == -ENOMEM || (rc == 0 && buf_puts(&ret->text, "\n") < 0))
		rc = error_nomem(err);
	for (char *line = rc == 0 ? ret->text.data : NULL; rc == 0 && line;
	     line = save) {
		save = strchr(line, '\n');
		if (save)
			*save++ = '\0';
		number++;
		if (line[strspn(line, " \t\r")] == '\0' || *line == '#')
			continue;
		if (ret->n == OPS_SIGNALS_MAX)
			rc = error_set(err, EFBIG, "more than %u metrics",
				       OPS_SIGNALS_MAX);
		else if (array_grow(&ret->v, ret->n, &cap, 32) < 0)
			rc = error_nomem(err);
		else
			rc = read_line(line, number, &ret->v[ret->n++], err);
	}
	if (rc == 0 && !ret->n)
		rc = error_set(err, EINVAL, "names no metric");
	return rc < 0 && path ? error_wrap(err, rc, "%s", path) : rc;
}

void ops_signals_fini(struct ops_signals *s)
{
	buf_fini(&s->text);
	free(s->v);
}

static bool has_namesake(const struct ops_signals *s, size_t index)
{
	for (size_t k = 0; k < s->n; k++)
		if (k != index &&
		    strcmp(s->v[k].metric, s->v[index].metric) == 0)
			return true;
	return false;
}

void ops_signal_name(const struct ops_signals *s, size_t index,
		     char out[OPS_SIGNAL_NAME_MAX])
{
	const struct ops_signal *v = &s->v[index];

	if (*v->labels || has_namesake(s, index))
		(void)snprintf(out, OPS_SIGNAL_NAME_MAX, "%.120s:%zu",
			       v->metric, index + 1);
	else
		(void)snprintf(out, OPS_SIGNAL_NAME_MAX, "%.120s", v->metric);
}

/* Append "metric{labels}" to the query. */
static int ops_signal_select(const struct ops_signal *s,
			     const struct ops_prom_config *c, struct buf *ret,
			     struct error *err)
{
	const char *match = c->match ? c->match : "";

	return buf_printf(ret, "%s{%s%s%s}", s->metric, match,
			  *match && *s->labels ? "," : "", s->labels) < 0
		       ? error_nomem(err)
		       : 0;
}

/* Several servers may store copies of a series.  Sum each server's copies separately and take the
 * larger sum, which needs few groups and so makes a cheap query. min and max are not changed by
 * copies. */
static int write_query(const struct ops_signal *s,
		       const struct ops_prom_config *c, uint32_t span_s,
		       struct buf *ret, struct error *err)
{
	static const char *const functions[] = { "", "irate(", "increase(" };
	bool is_sum = strcmp(s->over, "sum") == 0;
	int rc;

	if ((is_sum && buf_printf(ret, "max by(%s)(", c->node_label) < 0) ||
	    buf_printf(ret, "%s by(%s%s%s)(%s", s->over, c->node_label,
		       is_sum ? "," : "", is_sum ? c->replica_labels : "",
		       functions[s->kind]) < 0)
		return error_nomem(err);
	rc = ops_signal_select(s, c, ret, err);
	if (rc == 0 && s->kind != OPS_SIGNAL_VALUE &&
	    buf_printf(ret, "[%" PRIu32 "s])", span_s) < 0)
		rc = error_nomem(err);
	if (rc == 0 && buf_puts(ret, is_sum ? "))" : ")") < 0)
		rc = error_nomem(err);
	return rc;
}

int ops_signal_query(const struct ops_signal *s,
		     const struct ops_prom_config *c, uint32_t step_s,
		     struct buf *ret, struct error *err)
{
	return write_query(s, c,
			   s->kind == OPS_SIGNAL_ERRORS ? ERRORS_S
							: step_s * 7 / 2 + 1,
			   ret, err);
}

int ops_signal_growth_query(const struct ops_signal *s,
			    const struct ops_prom_config *c, uint32_t length_s,
			    struct buf *ret, struct error *err)
{
	return write_query(s, c, length_s + ERRORS_S, ret, err);
}
