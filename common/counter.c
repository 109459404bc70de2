// SPDX-License-Identifier: Apache-2.0
/* Prometheus text exposition format 0.0.4, as far as plain numbers need it. */
#include "common/counter.h"

#include <inttypes.h>
#include <string.h>

#include "common/clock.h"

static uint64_t get_counter_value(const struct counter_spec *c,
				  const void *values)
{
	uint64_t v;

	memcpy(&v, (const char *)values + c->offset, sizeof(v));
	return v;
}

static const unsigned int bounds_s[COUNTER_BOUNDS - 1] = { 1,  2,  5,  10,
							   30, 60, 120 };

void counter_add_ms(struct counter_seconds *c, uint64_t ms)
{
	for (size_t i = 0; i < COUNTER_BOUNDS - 1; i++)
		c->within[i] += ms <= bounds_s[i] * UINT64_C(1000);
	c->within[COUNTER_BOUNDS - 1]++;
	c->sum_ms += ms;
}

/* Print a histogram, whose buckets are cumulative. */
static int format_seconds(const struct counter_spec *c, const void *values,
			  const char *prefix, struct buf *ret)
{
	struct counter_seconds v;
	int rc;

	memcpy(&v, (const char *)values + c->offset, sizeof(v));
	rc = buf_printf(ret, "# HELP %s%s %s\n# TYPE %s%s histogram\n", prefix,
			c->name, c->help, prefix, c->name);
	for (size_t i = 0; i < COUNTER_BOUNDS - 1 && rc == 0; i++)
		rc = buf_printf(ret, "%s%s_bucket{le=\"%u\"} %" PRIu64 "\n",
				prefix, c->name, bounds_s[i], v.within[i]);
	if (rc < 0)
		return rc;
	return buf_printf(ret,
			  "%s%s_bucket{le=\"+Inf\"} %" PRIu64
			  "\n%s%s_sum %" PRIu64 ".%03u\n%s%s_count %" PRIu64
			  "\n",
			  prefix, c->name, v.within[COUNTER_BOUNDS - 1], prefix,
			  c->name, v.sum_ms / 1000,
			  (unsigned int)(v.sum_ms % 1000), prefix, c->name,
			  v.within[COUNTER_BOUNDS - 1]);
}

static const unsigned int bounds_ms[COUNTER_LATENCIES - 1] = {
	1, 3, 10, 30, 100, 200, 300, 500, 1000, 3000, 5000, 10000, 30000
};

void counter_add_latency(struct counter_latency *c, int64_t ns)
{
	size_t i = 0;

	while (i < COUNTER_LATENCIES - 1 &&
	       ns > bounds_ms[i] * (NS_PER_S / 1000))
		i++;
	atomic_fetch_add(&c->n[i], 1);
	atomic_fetch_add(&c->sum_ns, ns > 0 ? (uint64_t)ns : 0);
}

void counter_copy_latency(struct counter_latency *to,
			  struct counter_latency *from)
{
	for (size_t i = 0; i < COUNTER_LATENCIES; i++)
		atomic_init(&to->n[i], atomic_load(&from->n[i]));
	atomic_init(&to->sum_ns, atomic_load(&from->sum_ns));
}

/* Print nanoseconds as seconds with nine decimals. */
static int put_ns_as_seconds(struct buf *ret, uint64_t ns)
{
	return buf_printf(ret, "%" PRIu64 ".%09" PRIu64 "\n",
			  ns / (uint64_t)NS_PER_S, ns % (uint64_t)NS_PER_S);
}

static int format_latency(const struct counter_spec *c, const void *values,
			  const char *prefix, struct buf *ret)
{
	struct counter_latency v;
	uint64_t n = 0;
	int rc;

	memcpy(&v, (const char *)values + c->offset, sizeof(v));
	rc = buf_printf(ret, "# HELP %s%s %s\n# TYPE %s%s histogram\n", prefix,
			c->name, c->help, prefix, c->name);
	for (size_t i = 0; i < COUNTER_LATENCIES - 1 && rc == 0; i++) {
		n += atomic_load(&v.n[i]);
		rc = buf_printf(ret,
				"%s%s_bucket{le=\"%u.%03u\"} %" PRIu64 "\n",
				prefix, c->name, bounds_ms[i] / 1000,
				bounds_ms[i] % 1000, n);
	}
	n += atomic_load(&v.n[COUNTER_LATENCIES - 1]);
	if (rc == 0)
		rc = buf_printf(ret,
				"%s%s_bucket{le=\"+Inf\"} %" PRIu64
				"\n%s%s_count %" PRIu64 "\n%s%s_sum ",
				prefix, c->name, n, prefix, c->name, n, prefix,
				c->name);
	return rc == 0 ? put_ns_as_seconds(ret, atomic_load(&v.sum_ns)) : rc;
}

static int format_ns(const struct counter_spec *c, uint64_t ns,
		     const char *prefix, struct buf *ret)
{
	int rc = buf_printf(ret, "# HELP %s%s %s\n# TYPE %s%s counter\n%s%s ",
			    prefix, c->name, c->help, prefix, c->name, prefix,
			    c->name);

	return rc == 0 ? put_ns_as_seconds(ret, ns) : rc;
}

static int format_plain_value(const struct counter_spec *c, uint64_t value,
			      const char *prefix, struct buf *ret)
{
	const char *kind = c->kind == COUNTER_TOTAL ? "counter" : "gauge";

	return buf_printf(ret,
			  "# HELP %s%s %s\n# TYPE %s%s %s\n%s%s %" PRIu64 "\n",
			  prefix, c->name, c->help, prefix, c->name, kind,
			  prefix, c->name, value);
}

int counter_format(const struct counter_spec *table, const void *values,
		   const char *prefix, struct buf *ret)
{
	int rc = 0;

	for (; table->name && rc == 0; table++) {
		if (table->kind == COUNTER_SECONDS)
			rc = format_seconds(table, values, prefix, ret);
		else if (table->kind == COUNTER_LATENCY)
			rc = format_latency(table, values, prefix, ret);
		else if (table->kind == COUNTER_NS)
			rc = format_ns(table, get_counter_value(table, values),
				       prefix, ret);
		else
			rc = format_plain_value(table,
						get_counter_value(table,
								  values),
						prefix, ret);
	}
	return rc;
}

void counter_list(const struct counter_spec *table, const char *prefix,
		  FILE *out)
{
	for (; table->name; table++)
		fprintf(out, "%s%s\n\t%s\n", prefix, table->name, table->help);
}
