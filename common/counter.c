// SPDX-License-Identifier: Apache-2.0
/* Prometheus text exposition format 0.0.4, as far as plain numbers need it. */
#include "common/counter.h"

#include <inttypes.h>
#include <string.h>

static uint64_t value_of(const struct counter_spec *c, const void *values)
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

/* A histogram: buckets are cumulative. */
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

static int format_one(const struct counter_spec *c, uint64_t value,
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
		else
			rc = format_one(table, value_of(table, values), prefix,
					ret);
	}
	return rc;
}

void counter_list(const struct counter_spec *table, const char *prefix,
		  FILE *out)
{
	for (; table->name; table++)
		fprintf(out, "%s%s\n\t%s\n", prefix, table->name, table->help);
}
