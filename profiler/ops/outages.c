// SPDX-License-Identifier: Apache-2.0
/* Reads outages of nodes from Slurm's accounting. */
#include <errno.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "profiler/ops/ops_priv.h"

#define COLUMNS 5

enum drain_column { NODE, START, END, STATE, REASON };

int ops_set_add_outage(struct ops_set *s, const struct ops_outage *o,
		       struct error *err)
{
	struct ops_outage *to;

	if (s->n_outages == OPS_OUTAGES_MAX)
		return error_set(err, EFBIG, "more than %u outages of nodes",
				 OPS_OUTAGES_MAX);
	if (array_grow(&s->outages, s->n_outages, &s->cap_outages, 64) < 0)
		return error_nomem(err);
	to = &s->outages[s->n_outages++];
	*to = *o;
	to->node = strdup(o->node);
	to->why = strdup(o->why);
	return to->node && to->why ? 0 : error_nomem(err);
}

/* Split "NODE|START|END|STATE|REASON"; the reason may contain the delimiter. */
static bool cut_drain(char *line, char *v[COLUMNS])
{
	for (size_t i = 0; i < COLUMNS; i++) {
		v[i] = line;
		line = i + 1 < COLUMNS ? strchr(line, '|') : NULL;
		if (line)
			*line++ = '\0';
		else if (i + 1 < COLUMNS)
			return false;
	}
	/* an event without a node is about the whole cluster */
	return *v[NODE] != '\0';
}

static int read_drain(char *line, int64_t now_s, struct ops_set *s,
		      struct error *err)
{
	struct ops_outage o;
	char *v[COLUMNS];

	if (!cut_drain(line, v))
		return 0;
	o = (struct ops_outage){ .node = v[NODE],
				 .kind = strstr(v[STATE], "DRAIN")
						 ? OPS_CORDONED
						 : OPS_AWAY,
				 .why = v[REASON] };
	text_make_printable(v[REASON]);
	if (!ops_sacct_time(v[START], &o.from_s))
		return 0;
	o.lasts = !ops_sacct_time(v[END], &o.to_s);
	if (o.lasts)
		o.to_s = now_s;
	return o.to_s > o.from_s ? ops_set_add_outage(s, &o, err) : 0;
}

int ops_read_drains(char *text, int64_t now_s, struct ops_set *s,
		    struct error *err)
{
	int rc = 0;

	for (char *line = text, *next; rc == 0 && line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		rc = read_drain(line, now_s, s, err);
	}
	return rc;
}
