// SPDX-License-Identifier: Apache-2.0
#include "net/places.h"

#include <ctype.h>
#include <string.h>

#define ID_DIGITS 32 /* shortest container id, in hex digits */

/* Length of the path up to the end of the first component with a container id. */
static size_t group_len(const char *text)
{
	size_t run = 0, n;

	for (n = 0; text[n] && text[n] != '\n'; n++) {
		run = isxdigit((unsigned char)text[n]) ? run + 1 : 0;
		if (run == ID_DIGITS)
			return n + strcspn(text + n, "/\n");
	}
	return n;
}

/* Hash the control group (FNV-1a). With several hierarchies, the last line is cgroup v2's. */
uint64_t places_group(const char *cgroups)
{
	const char *line = strstr(cgroups, "0::");
	uint64_t h = UINT64_C(14695981039346656037);
	size_t n;

	if (!line)
		line = cgroups;
	n = group_len(line);
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)line[i]) * UINT64_C(1099511628211);
	return h;
}

static size_t count_group(const struct place *v, size_t n, uint64_t group)
{
	size_t have = 0;

	for (size_t i = 0; i < n; i++)
		have += v[i].group == group;
	return have;
}

size_t places_choose(const struct place *v, size_t n)
{
	size_t best = n, most = 0;

	for (size_t i = n; i-- > 0;) {
		size_t have;

		if (!v[i].is_silent)
			continue;
		have = count_group(v, n, v[i].group);
		if (have > most) {
			most = have;
			best = i;
		}
	}
	return best;
}
