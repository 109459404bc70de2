// SPDX-License-Identifier: Apache-2.0
/* Stores the events of one start, and converts their times to the service's clock. */
#include <errno.h>
#include <string.h>

#include "common/compare.h"
#include "profiler/start_priv.h"

#define WALL_OFFSET_MAX_NS INT64_C(1000000000000000)

void start_sort(void *v, size_t n, size_t size,
		int (*order)(const void *x, const void *y, void *arg),
		void *arg)
{
	const char *p = v;

	for (size_t i = 1; i < n; i++, p += size) {
		if (order(p, p + size, arg) > 0) {
			qsort_r(v, n, size, order, arg);
			return;
		}
	}
}

/* -------------------------------------------------------------------- names --- */

/* Make room for one more element, by doubling the capacity. */
static int grow_array(void **v, size_t *cap, size_t n, size_t size)
{
	size_t more = *cap ? 2 * *cap : 64;
	void *p;

	if (n < *cap)
		return 0;
	p = realloc(*v, more * size);
	if (!p)
		return -ENOMEM;
	*v = p;
	*cap = more;
	return 0;
}

static int names_add(struct start_labels *t, const char *s,
		     struct start_label **ret)
{
	size_t len = strlen(s);
	struct start_label *e;
	void *v = t->v;
	int rc;

	if (t->n == t->max)
		return -EFBIG;
	rc = grow_array(&v, &t->cap, t->n, sizeof(struct start_label *));
	t->v = v;
	e = rc == 0 ? calloc(1, sizeof(*e) + len + 1) : NULL;
	if (!e)
		return -ENOMEM;
	memcpy(e->s, s, len + 1);
	HASH_ADD_KEYPTR(hh, t->by_text, e->s, len, e);
	if (!hash_has_added(e)) {
		free(e);
		return -ENOMEM;
	}
	e->i = t->n;
	t->v[t->n++] = e;
	*ret = e;
	return 0;
}

/* Get the number of a name; a new name is added. */
static int find_or_add_name(struct start_labels *t, const char *s,
			    uint32_t *ret)
{
	struct start_label *e;
	int rc = 0;

	HASH_FIND_STR(t->by_text, s, e);
	if (!e)
		rc = names_add(t, s, &e);
	if (rc == 0)
		*ret = e->i;
	return rc;
}

/* Get the number of a stage. A new name counts for the node that sends it: a node that invents
 * names cannot use up the room for those of others. */
static int find_or_add_stage_name(struct start_set *s, uint32_t node,
				  const char *stage, uint32_t *ret)
{
	struct start_label *by = s->nodes.v[node];
	uint32_t before = s->stages.n;
	struct start_label *e;
	int rc;

	/* Shortcut: most events have the same stage as the one before. */
	if (s->n_events) {
		*ret = s->events[s->n_events - 1].stage;
		if (strcmp(s->stages.v[*ret]->s, stage) == 0)
			return 0;
	}
	HASH_FIND_STR(s->stages.by_text, stage, e);
	if (!e && by->n_stages == START_STAGES_NODE_MAX)
		return -EFBIG;
	rc = find_or_add_name(&s->stages, stage, ret);
	by->n_stages += s->stages.n - before;
	return rc;
}

static void names_fini(struct start_labels *t)
{
	HASH_CLEAR(hh, t->by_text);
	for (uint32_t i = 0; i < t->n; i++)
		free(t->v[i]);
	free(t->v);
}

/* ---------------------------------------------------------------------- set --- */

int start_set_new(struct start_set **ret, struct error *err)
{
	struct start_set *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	s->stages.max = START_STAGES_MAX;
	s->nodes.max = START_NODES_MAX;
	*ret = s;
	return 0;
}

void start_set_free(struct start_set *s)
{
	if (!s)
		return;
	names_fini(&s->stages);
	names_fini(&s->nodes);
	free(s->events);
	free(s->clocks);
	free(s->facts);
	free(s);
}

static int refuse_event(struct error *err, int rc)
{
	return rc == -EFBIG
		       ? error_set(
				 err, EFBIG,
				 "the start has too many events, nodes or "
				 "stages: %u, %u and %u at most, of a node %u "
				 "stages that others have not",
				 START_EVENTS_MAX, START_NODES_MAX,
				 START_STAGES_MAX, START_STAGES_NODE_MAX)
		       : error_nomem(err);
}

/* Few events have facts, so facts are stored separately. */
static int facts_take(struct start_set *s, const uint64_t *facts, uint32_t *ret)
{
	void *v = s->facts;
	int rc;

	*ret = 0;
	if (!facts)
		return 0;
	rc = grow_array(&v, &s->cap_facts, s->n_facts, sizeof(*s->facts));
	s->facts = v;
	if (rc < 0)
		return rc;
	memcpy(s->facts[s->n_facts].v, facts, sizeof(s->facts->v));
	*ret = (uint32_t)++s->n_facts;
	return 0;
}

int start_set_add(struct start_set *s, const struct start_event *e,
		  struct error *err)
{
	struct set_event *to;
	void *v = s->events;
	int rc;

	if ((e->ts_ns < 0 && e->mono_ns < 0) || e->ts_ns > STAGE_TS_MAX ||
	    e->mono_ns > STAGE_MONO_MAX)
		return error_set(err, EINVAL, "an event has no time");
	if (s->n_events == START_EVENTS_MAX)
		return refuse_event(err, -EFBIG);
	rc = grow_array(&v, &s->cap_events, s->n_events, sizeof(*s->events));
	s->events = v;
	if (rc < 0)
		return refuse_event(err, rc);
	to = &s->events[s->n_events];
	*to = (struct set_event){ .rank = e->rank,
				  .ts_ns = e->ts_ns,
				  .mono_ns = e->mono_ns,
				  .status = e->status,
				  .boot = e->boot,
				  .ev = e->ev };
	/* Shortcut: events mostly come node by node. */
	if (s->n_events && strcmp(s->nodes.v[to[-1].node]->s, e->node) == 0)
		to->node = to[-1].node;
	else
		rc = find_or_add_name(&s->nodes, e->node, &to->node);
	if (rc == 0)
		rc = find_or_add_stage_name(s, to->node, e->stage, &to->stage);
	if (rc == 0)
		rc = facts_take(s, e->facts, &to->facts);
	if (rc < 0)
		return refuse_event(err, rc);
	s->n_events++;
	return 0;
}

bool start_clock_is_sane(const struct start_clock *c)
{
	return c->mono_offset_ns >= -STAGE_TS_MAX &&
	       c->mono_offset_ns <= STAGE_TS_MAX &&
	       c->wall_offset_ns >= -WALL_OFFSET_MAX_NS &&
	       c->wall_offset_ns <= WALL_OFFSET_MAX_NS && c->rtt_ns >= 0;
}

int start_set_clock(struct start_set *s, const char *node,
		    const struct start_clock *c, struct error *err)
{
	void *v = s->clocks;
	uint32_t n;
	int rc;

	if (!start_clock_is_sane(c))
		return error_set(err, EINVAL, "the clock of '%s' is none",
				 node);
	rc = find_or_add_name(&s->nodes, node, &n);
	if (rc == 0 && s->n_clocks >= 2 * (size_t)START_NODES_MAX)
		rc = -EFBIG;
	if (rc == 0)
		rc = grow_array(&v, &s->cap_clocks, s->n_clocks,
				sizeof(*s->clocks));
	s->clocks = v;
	if (rc < 0)
		return refuse_event(err, rc);
	s->clocks[s->n_clocks++] = (struct set_clock){ .node = n, .c = *c };
	return 0;
}

static int labels_copy(const struct start_labels *from, struct start_labels *to)
{
	struct start_label *e;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < from->n; i++) {
		rc = names_add(to, from->v[i]->s, &e);
		if (rc == 0)
			e->n_stages = from->v[i]->n_stages;
	}
	return rc;
}

static int events_copy(const struct start_set *s, const bool *is_without,
		       struct start_set *to)
{
	to->events = calloc(s->n_events + 1, sizeof(*to->events));
	to->facts = calloc(s->n_facts + 1, sizeof(*to->facts));
	if (!to->events || !to->facts)
		return -ENOMEM;
	to->cap_events = s->n_events + 1;
	to->cap_facts = s->n_facts + 1;
	for (size_t i = 0; i < s->n_events; i++) {
		const struct set_event *e = &s->events[i];

		if (is_without[e->node])
			continue;
		to->events[to->n_events] = *e;
		if (e->facts) {
			to->facts[to->n_facts] = s->facts[e->facts - 1];
			to->events[to->n_events].facts =
				(uint32_t)++to->n_facts;
		}
		to->n_events++;
	}
	return 0;
}

int start_set_copy(const struct start_set *s, const char *const *without,
		   size_t n, struct start_set **ret, struct error *err)
{
	AUTO_FREE bool *is_without = calloc(s->nodes.n + 1, sizeof(bool));
	AUTO(start_set) to = NULL;
	struct start_label *e;
	int rc = is_without ? start_set_new(&to, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n; i++) {
		HASH_FIND_STR(s->nodes.by_text, without[i], e);
		if (e)
			is_without[e->i] = true;
	}
	if (labels_copy(&s->stages, &to->stages) < 0 ||
	    labels_copy(&s->nodes, &to->nodes) < 0 ||
	    events_copy(s, is_without, to) < 0)
		return error_nomem(err);
	*ret = steal_ptr(&to);
	return 0;
}

size_t start_set_bytes(const struct start_set *s)
{
	return s->cap_events * sizeof(*s->events) +
	       s->cap_facts * sizeof(*s->facts) +
	       s->cap_clocks * sizeof(*s->clocks) +
	       (s->nodes.n + s->stages.n) * 256;
}

void start_set_drop_events(struct start_set *s)
{
	free(s->events);
	free(s->clocks);
	s->events = NULL;
	s->clocks = NULL;
	s->n_events = s->cap_events = 0;
	s->n_clocks = s->cap_clocks = 0;
}

void start_set_drop_facts(struct start_set *s)
{
	free(s->facts);
	s->facts = NULL;
	s->n_facts = s->cap_facts = 0;
}

/* ---------------------------------------------------------------- alignment --- */

/* Order by node and boot, the best exchange first. */
static int compare_clocks(const void *x, const void *y)
{
	const struct set_clock *a = x, *b = y;

	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	if (a->c.boot != b->c.boot)
		return a->c.boot < b->c.boot ? -1 : 1;
	return (a->c.rtt_ns > b->c.rtt_ns) - (a->c.rtt_ns < b->c.rtt_ns);
}

static int compare_events_by_boot(const void *x, const void *y, void *arg)
{
	const struct set_event *a = x, *b = y;

	(void)arg;

	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	return (a->boot > b->boot) - (a->boot < b->boot);
}

/* Find the exchange of the event's node and boot; `any`: else the node's first exchange. */
static const struct start_clock *find_clock(const struct start_set *s,
					    const struct set_event *e, bool any)
{
	size_t lo = 0, hi = s->n_clocks;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct set_clock *c = &s->clocks[mid];

		if (c->node < e->node ||
		    (!any && c->node == e->node && c->c.boot < e->boot))
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == s->n_clocks || s->clocks[lo].node != e->node ||
	    (!any && s->clocks[lo].c.boot != e->boot))
		return NULL;
	return &s->clocks[lo].c;
}

/*
 * Estimate the offset from the monotonic clock to the node's wall clock, from events of one boot.
 * The median is not affected if the wall clock is set in between.
 */
static bool guess_offset(const struct set_event *e, size_t n, int64_t *room,
			 int64_t *ret)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (e[i].mono_ns >= 0 && e[i].ts_ns >= 0)
			room[k++] = e[i].ts_ns - e[i].mono_ns;
	if (!k)
		return false;
	qsort(room, k, sizeof(*room), compare_i64);
	*ret = room[k / 2];
	return true;
}

static void align_boot(const struct start_set *s, struct set_event *e, size_t n,
		       int64_t *room)
{
	const struct start_clock *any = find_clock(s, e, true);
	const struct start_clock *own =
		e->boot ? find_clock(s, e, false) : NULL;
	int64_t wall = any ? any->wall_offset_ns : 0, mono = 0;
	bool has_mono = own || guess_offset(e, n, room, &mono);

	mono = own ? own->mono_offset_ns : mono + wall;
	for (size_t i = 0; i < n; i++) {
		bool by_mono = e[i].mono_ns >= 0 && has_mono;

		e[i].at_ns = by_mono          ? e[i].mono_ns + mono
			     : e[i].ts_ns < 0 ? e[i].mono_ns
					      : e[i].ts_ns + wall;
	}
}

/* Group events by node with a counting sort, since there are many. */
static int group_by_node(struct start_set *s)
{
	AUTO_FREE size_t *at = calloc(s->nodes.n + 1, sizeof(*at));
	struct set_event *v;
	size_t i = 1;

	while (i < s->n_events && s->events[i - 1].node <= s->events[i].node)
		i++;
	if (!at || i >= s->n_events)
		return at ? 0 : -ENOMEM;
	v = calloc(s->n_events, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (i = 0; i < s->n_events; i++)
		at[s->events[i].node + 1]++;
	for (i = 1; i < s->nodes.n; i++)
		at[i] += at[i - 1];
	for (i = 0; i < s->n_events; i++)
		v[at[s->events[i].node]++] = s->events[i];
	free(s->events);
	s->events = v;
	s->cap_events = s->n_events;
	return 0;
}

int start_set_align(struct start_set *s)
{
	AUTO_FREE int64_t *room = calloc(s->n_events + 1, sizeof(*room));
	size_t from = 0;

	if (!room)
		return -ENOMEM;
	if (group_by_node(s) < 0)
		return -ENOMEM;
	if (s->n_clocks)
		qsort(s->clocks, s->n_clocks, sizeof(*s->clocks),
		      compare_clocks);
	for (size_t i = 1; i <= s->n_events; i++) {
		if (i < s->n_events &&
		    s->events[i].node == s->events[from].node)
			continue;
		start_sort(s->events + from, i - from, sizeof(*s->events),
			   compare_events_by_boot, NULL);
		from = i;
	}
	from = 0;
	for (size_t i = 1; i <= s->n_events; i++) {
		if (i < s->n_events &&
		    compare_events_by_boot(&s->events[from], &s->events[i],
					   NULL) == 0)
			continue;
		align_boot(s, s->events + from, i - from, room);
		from = i;
	}
	return 0;
}
