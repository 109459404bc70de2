// SPDX-License-Identifier: Apache-2.0
/* Which data node a file is sent to.  A name node names one at random, so of eight files
 * under way to eight data nodes, five nodes have all; the block is stored where it is
 * sent, and whoever reads it later has the same five.  Any data node takes any file
 * (it stores the block itself when there is room), so one that the name node has named
 * before and that has fewer of our files under way is taken instead.
 *
 * Parts of one object have places in a row of all nodes, and the next object's begin one
 * node further on: so the columns of a striped file, which are written and read side by
 * side, are on as many nodes at each moment. */
#ifndef BOOTSEER_OBJECTS_HDFS_SPREAD_H
#define BOOTSEER_OBJECTS_HDFS_SPREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* A node that the name node has not named for so long may be on its way out of the
 * cluster. */
#define HDFS_SPREAD_FRESH_NS (INT64_C(300) * 1000000000)
#define HDFS_SPREAD_NODES 256u /* more are not remembered */

struct hdfs_spread_node {
	char *server;          /* "http://HOST:PORT" */
	unsigned int n_active; /* files under way to it */
	int64_t named_ns;      /* when a name node named it last */
	uint64_t turn;         /* of the last file that it was given; 0: none */
};

struct hdfs_spread {
	pthread_mutex_t lock; /* protects the rest */
	struct hdfs_spread_node *nodes;
	size_t n;
	uint64_t n_turns;
	uint64_t n_rows;        /* objects that have asked for a place */
	unsigned int n_repeats; /* times that a known one was named in a row */
};

void hdfs_spread_init(struct hdfs_spread *s);
void hdfs_spread_fini(struct hdfs_spread *s);

/* Name nodes name known data nodes so often in a row, then these are taken for all. */
#define HDFS_SPREAD_REPEATS 24u

/* Do both URLs lead to the same data node? */
bool hdfs_spread_is_same(const char *a, const char *b);

/* Is the name node to be asked again, because the node of `location` has a file of ours
 * under way, each other known one has as many, and there may be others? */
bool hdfs_spread_wants_another(struct hdfs_spread *s, const char *location,
			       int64_t now_ns);

#define HDFS_SPREAD_ANY UINT64_MAX
/* A node may have so many more files under way than another, and gets what has its place. */
#define HDFS_SPREAD_SLACK 4u

/* The place of an object's first part; its others have those behind it. */
uint64_t hdfs_spread_row(struct hdfs_spread *s);

/* Whither a file goes for which a name node said `location` at `now_ns`: *ret is a URL,
 * the caller's, that goes to hdfs_spread_end().  `place` in the row, or HDFS_SPREAD_ANY.  Any
 * thread. */
int hdfs_spread_begin(struct hdfs_spread *s, const char *location,
		      uint64_t place, int64_t now_ns, char **ret,
		      struct error *err) MUST_CHECK;

/* A transfer to the node has ended.  A node that failed is not chosen again until the name node
 * names it anew. */
void hdfs_spread_end(struct hdfs_spread *s, const char *url, bool has_failed);

#endif
