// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mutex.h"

#include "objects/hdfs/hdfs_spread.h"

void hdfs_spread_init(struct hdfs_spread *s)
{
	*s = (struct hdfs_spread){ .n = 0 };
	(void)pthread_mutex_init(&s->lock, NULL);
}

void hdfs_spread_fini(struct hdfs_spread *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->nodes[i].server);
	free(s->nodes);
	(void)pthread_mutex_destroy(&s->lock);
}

/* Length of "http://HOST:PORT" in a URL; 0: not a URL of WebHDFS. */
static size_t server_len(const char *url)
{
	static const char path[] = "/webhdfs/v1/";
	const char *host = strstr(url, "://");
	size_t len;

	if (!host)
		return 0;
	len = (size_t)(host + 3 - url) + strcspn(host + 3, "/?");
	return strncmp(url + len, path, sizeof(path) - 1) == 0 ? len : 0;
}

bool hdfs_spread_is_same(const char *a, const char *b)
{
	size_t len = server_len(a);

	return len && server_len(b) == len && memcmp(a, b, len) == 0;
}

static struct hdfs_spread_node *find_node(struct hdfs_spread *s,
					  const char *url, size_t len)
{
	for (size_t i = 0; i < s->n; i++) {
		const char *server = s->nodes[i].server;

		if (strlen(server) == len && memcmp(server, url, len) == 0)
			return &s->nodes[i];
	}
	return NULL;
}

/* Remember a data node. Without memory or room: NULL, and the node is used all the same. */
static struct hdfs_spread_node *add_node(struct hdfs_spread *s, const char *url,
					 size_t len)
{
	struct hdfs_spread_node *more;
	char *server;

	if (s->n == HDFS_SPREAD_NODES)
		return NULL;
	server = strndup(url, len);
	more = server ? reallocarray(s->nodes, s->n + 1, sizeof(*more)) : NULL;
	if (!more) {
		free(server);
		return NULL;
	}
	s->nodes = more;
	more[s->n] = (struct hdfs_spread_node){ .server = server };
	return &more[s->n++];
}

static bool is_fresh(const struct hdfs_spread_node *n, int64_t now_ns)
{
	return now_ns - n->named_ns < HDFS_SPREAD_FRESH_NS;
}

static unsigned int
find_least_active_count(const struct hdfs_spread *s,
			const struct hdfs_spread_node *named, int64_t now_ns)
{
	unsigned int least = named->n_active;

	for (size_t i = 0; i < s->n; i++)
		if (is_fresh(&s->nodes[i], now_ns) &&
		    s->nodes[i].n_active < least)
			least = s->nodes[i].n_active;
	return least;
}

/* The data node at this place in the row, unless it is slower than others; NULL: none can take
 * the file. */
static struct hdfs_spread_node *find_node_at_place(struct hdfs_spread *s,
						   uint64_t place,
						   unsigned int most,
						   int64_t now_ns)
{
	size_t n = 0;

	if (place == HDFS_SPREAD_ANY)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		n += is_fresh(&s->nodes[i], now_ns);
	place = n ? place % n : 0;
	for (size_t i = 0; i < s->n; i++)
		if (is_fresh(&s->nodes[i], now_ns) && place-- == 0)
			return s->nodes[i].n_active <= most ? &s->nodes[i]
							    : NULL;
	return NULL;
}

/* Choose a data node. The named one if it is idle: the name node may have reasons, such as a
 * near rack. Otherwise by place, so that adjacent blocks, which are read together, lie on
 * different nodes; a slower node has more files in flight and is left out. */
static struct hdfs_spread_node *pick_node(struct hdfs_spread *s,
					  struct hdfs_spread_node *named,
					  uint64_t place, int64_t now_ns)
{
	unsigned int least = find_least_active_count(s, named, now_ns);
	struct hdfs_spread_node *best;

	/* Use a new node at once: places are only right when all nodes are known. */
	if (!named->turn)
		return named;
	best = find_node_at_place(s, place, least + HDFS_SPREAD_SLACK, now_ns);
	if (best)
		return best;
	if (!named->n_active)
		return named;
	for (size_t i = 0; i < s->n; i++) {
		struct hdfs_spread_node *n = &s->nodes[i];

		if (is_fresh(n, now_ns) && n->n_active <= least + 1 &&
		    (!best || n->turn < best->turn))
			best = n;
	}
	return best;
}

/* Note that the name node named this data node. NULL: it cannot be remembered. */
static struct hdfs_spread_node *note_named_data_node(struct hdfs_spread *s,
						     const char *location,
						     size_t len, int64_t now_ns)
{
	struct hdfs_spread_node *n = find_node(s, location, len);

	s->n_repeats = n ? s->n_repeats + 1 : 0;
	if (!n)
		n = add_node(s, location, len);
	if (n)
		n->named_ns = now_ns;
	return n;
}

bool hdfs_spread_wants_another(struct hdfs_spread *s, const char *location,
			       int64_t now_ns)
{
	size_t len = server_len(location);
	struct hdfs_spread_node *n;
	bool wants = false;

	if (!len)
		return false;
	(void)pthread_mutex_lock(&s->lock);
	n = note_named_data_node(s, location, len, now_ns);
	if (n)
		wants = s->n_repeats < HDFS_SPREAD_REPEATS &&
			find_least_active_count(s, n, now_ns) > 0;
	(void)pthread_mutex_unlock(&s->lock);
	return wants;
}

uint64_t hdfs_spread_row(struct hdfs_spread *s)
{
	AUTO_UNLOCK held = mutex_hold(&s->lock);

	return s->n_rows++;
}

int hdfs_spread_begin(struct hdfs_spread *s, const char *location,
		      uint64_t place, int64_t now_ns, char **ret,
		      struct error *err)
{
	size_t len = server_len(location);
	struct hdfs_spread_node *n = NULL;
	int rc = 0;

	(void)pthread_mutex_lock(&s->lock);
	if (len)
		n = note_named_data_node(s, location, len, now_ns);
	if (n) {
		n = pick_node(s, n, place, now_ns);
		rc = asprintf(ret, "%s%s", n->server, location + len);
		if (rc >= 0) {
			n->n_active++;
			n->turn = ++s->n_turns;
		}
	} else {
		*ret = strdup(location);
		rc = *ret ? 0 : -1;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return rc < 0 ? error_nomem(err) : 0;
}

void hdfs_spread_end(struct hdfs_spread *s, const char *url, bool has_failed)
{
	struct hdfs_spread_node *n;

	(void)pthread_mutex_lock(&s->lock);
	n = find_node(s, url, server_len(url));
	if (n && n->n_active)
		n->n_active--;
	if (n && has_failed)
		n->named_ns = INT64_MIN / 2;
	(void)pthread_mutex_unlock(&s->lock);
}
