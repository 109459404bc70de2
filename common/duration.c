// SPDX-License-Identifier: Apache-2.0
#include "common/duration.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/clock.h"

void duration_format(int64_t ns, char out[DURATION_TEXT_MAX])
{
	static const struct {
		int64_t below_s, unit_s, part_s;
		const char *unit, *part;
	} units[] = {
		{ 3600, 60, 1, "min", "s" },
		{ 86400, 3600, 60, "h", "min" },
		{ INT64_MAX, 86400, 3600, "d", "h" },
	};
	int64_t s = ns / NS_PER_S + (ns % NS_PER_S >= NS_PER_S / 2);
	size_t i = 0;

	/* A duration that would be rounded to 60.0 s is printed as a minute. */
	if (ns < 60 * NS_PER_S - NS_PER_S / 20) {
		(void)snprintf(out, DURATION_TEXT_MAX, "%.1f s",
			       (double)ns / (double)NS_PER_S);
		return;
	}
	while (s >= units[i].below_s)
		i++;
	s = s / units[i].part_s * units[i].part_s;
	(void)snprintf(out, DURATION_TEXT_MAX, "%" PRId64 " %s",
		       s / units[i].unit_s, units[i].unit);
	s = s % units[i].unit_s / units[i].part_s;
	if (s) {
		size_t n = 0;

		while (out[n])
			n++;
		(void)snprintf(out + n, DURATION_TEXT_MAX - n,
			       " %" PRId64 " %s", s, units[i].part);
	}
}
