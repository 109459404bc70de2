// SPDX-License-Identifier: Apache-2.0
/* Expands Slurm's lists of nodes: "rack[1-2]gpu[01-08],login" (slurm.conf(5), NodeName). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "profiler/ops/ops_priv.h"

#define NAME_MAX_LEN 255u
#define BRACKETS_MAX 4 /* brackets in one name */

static int refuse_places(struct error *err)
{
	return error_set(err, EFBIG,
			 "more than %u nodes in all sessions: ask sacct for "
			 "fewer days",
			 OPS_PLACES_MAX);
}

static int add_name(struct ops_places *p, const char *name, size_t len,
		    struct error *err)
{
	struct ops_set *s = p->set;
	struct ops_place_name *found;
	char *copy;

	HASH_FIND(hh, p->names, name, len, found);
	if (!found) {
		if (s->n_nodes == OPS_NODES_MAX)
			return error_set(err, EFBIG, "more than %u nodes",
					 OPS_NODES_MAX);
		copy = strndup(name, len);
		found = calloc(1, sizeof(*found) + len + 1);
		if (!copy || !found ||
		    array_grow(&s->nodes, s->n_nodes, &p->cap_nodes, 64) < 0) {
			free(copy);
			free(found);
			return error_nomem(err);
		}
		found->number = (uint32_t)s->n_nodes;
		memcpy(found->name, name, len);
		HASH_ADD(hh, p->names, name, len, found);
		if (!hash_has_added(found)) {
			free(copy);
			free(found);
			return error_nomem(err);
		}
		s->nodes[s->n_nodes++] = copy;
	}
	if (s->n_places == OPS_PLACES_MAX)
		return refuse_places(err);
	if (array_grow(&s->places, s->n_places, &p->cap_places, 1024) < 0)
		return error_nomem(err);
	s->places[s->n_places++] = found->number;
	return 0;
}

/* Read a number of a range and its count of digits. False: there is none. */
static bool read_number(const char **at, const char *end, unsigned *ret,
			int *digits)
{
	*ret = 0;
	*digits = 0;
	for (; *at < end && **at >= '0' && **at <= '9'; ++*at, ++*digits)
		if (*digits == 9)
			return false;
		else
			*ret = *ret * 10 + (unsigned)(**at - '0');
	return *digits > 0;
}

static int expand_name(struct ops_places *p, char *name, size_t len,
		       const char *rest, const char *end, int depth,
		       struct error *err);

/* Expand the ranges in a bracket, such as "071-074,080": each number goes between `name` and the
 * text behind the bracket. */
static int expand_ranges(struct ops_places *p, char *name, size_t len,
			 const char *at, const char *close, const char *end,
			 int depth, struct error *err)
{
	int rc = 0;

	while (rc == 0 && at < close) {
		unsigned first, last;
		int digits, more;

		if (!read_number(&at, close, &first, &digits))
			return 0;
		last = first;
		if (at < close && *at == '-' &&
		    (at++, !read_number(&at, close, &last, &more)))
			return 0;
		if (last < first || last - first >= OPS_NODES_MAX ||
		    (at < close && *at++ != ','))
			return 0;
		for (; rc == 0 && first <= last; first++) {
			int n;

			/* Count names that turn out to be too long as well: they cost time too. */
			if (++p->steps > OPS_PLACES_MAX)
				return refuse_places(err);
			n = snprintf(name + len, NAME_MAX_LEN + 1 - len, "%0*u",
				     digits, first);
			if (n < 0 || len + (size_t)n > NAME_MAX_LEN)
				return 0;
			rc = expand_name(p, name, len + (size_t)n, close + 1,
					 end, depth + 1, err);
		}
	}
	return rc;
}

/* Expand names that begin with the `len` bytes of `name` and continue with `rest`. */
static int expand_name(struct ops_places *p, char *name, size_t len,
		       const char *rest, const char *end, int depth,
		       struct error *err)
{
	const char *open = memchr(rest, '[', (size_t)(end - rest));
	size_t plain = (size_t)((open ? open : end) - rest);
	const char *close;

	if (len + plain > NAME_MAX_LEN || depth > BRACKETS_MAX)
		return 0;
	memcpy(name + len, rest, plain);
	len += plain;
	if (!open)
		return len ? add_name(p, name, len, err) : 0;
	close = memchr(open, ']', (size_t)(end - open));
	return close ? expand_ranges(p, name, len, open + 1, close, end, depth,
				     err)
		     : 0;
}

/* Find the comma that ends a name, skipping those in brackets. */
static const char *find_name_end(const char *s)
{
	int depth = 0;

	for (; *s && (*s != ',' || depth > 0); s++)
		depth += *s == '[' ? 1 : *s == ']' ? -1 : 0;
	return s;
}

int ops_places_compare(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return (a > b) - (a < b);
}

/* Remove nodes that the list names twice. */
static void drop_doubles(struct ops_set *s, size_t first)
{
	size_t n = first;

	if (s->n_places > first)
		qsort(s->places + first, s->n_places - first,
		      sizeof(*s->places), ops_places_compare);
	for (size_t i = first; i < s->n_places; i++)
		if (i == first || s->places[i] != s->places[n - 1])
			s->places[n++] = s->places[i];
	s->n_places = n;
}

int ops_places_add(struct ops_places *p, const char *list,
		   struct ops_session *session, struct error *err)
{
	size_t first = p->set->n_places;
	char name[NAME_MAX_LEN + 1];
	int rc = 0;

	/* "None assigned": the job was cancelled while it waited, so it has no nodes. */
	if (strchr(list, ' '))
		list = "";
	while (rc == 0 && *list) {
		const char *end = find_name_end(list);

		rc = expand_name(p, name, 0, list, end, 0, err);
		list = *end ? end + 1 : end;
	}
	drop_doubles(p->set, first);
	session->first = (uint32_t)first;
	session->n_nodes = (uint32_t)(p->set->n_places - first);
	return rc;
}

void ops_places_fini(struct ops_places *p)
{
	struct ops_place_name *n, *next;

	HASH_ITER(hh, p->names, n, next)
	{
		HASH_DEL(p->names, n);
		free(n);
	}
}
