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

	for (; table->name && rc == 0; table++)
		rc = format_one(table, value_of(table, values), prefix, ret);
	return rc;
}

void counter_list(const struct counter_spec *table, const char *prefix,
		  FILE *out)
{
	for (; table->name; table++)
		fprintf(out, "%s%s\n\t%s\n", prefix, table->name, table->help);
}
