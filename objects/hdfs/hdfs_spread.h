// SPDX-License-Identifier: Apache-2.0
/* Chooses the data node that a file is sent to. A name node chooses at random, so of eight
 * files to eight data nodes, about five nodes get all; the blocks stay there, so later readers
 * use only these five. Any data node accepts any file, and stores it itself if it has room. So
 * a known node with fewer files in flight is used instead of the named one.
 *
 * The parts of an object have places in a row of all nodes, and the next object begins one node
 * further on. So the columns of a striped file, written and read side by side, are on different
 * nodes at any moment. */
#ifndef BOOTSEER_OBJECTS_HDFS_SPREAD_H
#define BOOTSEER_OBJECTS_HDFS_SPREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* A node that the name node has not named for this long may be leaving the cluster, and is not
 * chosen. */
#define HDFS_SPREAD_FRESH_NS (INT64_C(300) * 1000000000)
#define HDFS_SPREAD_NODES 256u /* data nodes remembered, at most */

struct hdfs_spread_node {
	char *server;          /* "http://HOST:PORT" */
	unsigned int n_active; /* files being sent to it */
	int64_t named_ns;      /* when a name node last named it */
	uint64_t turn;         /* turn in which it last got a file; 0: none */
};

struct hdfs_spread {
	pthread_mutex_t lock; /* protects the rest */
	struct hdfs_spread_node *nodes;
	size_t n;
	uint64_t n_turns;
	uint64_t n_rows; /* objects that asked for a place */
	/* How often in a row a known node was named. */
	unsigned int n_repeats;
};

void hdfs_spread_init(struct hdfs_spread *s);
void hdfs_spread_fini(struct hdfs_spread *s);

/* After this many known nodes in a row, all data nodes are taken as known. */
#define HDFS_SPREAD_REPEATS 24u

/* Do both URLs lead to the same data node? */
bool hdfs_spread_is_same(const char *a, const char *b);

/* Should the name node be asked again? Yes, if the node of `location` and all other known nodes
 * are busy, and there may be unknown ones. */
bool hdfs_spread_wants_another(struct hdfs_spread *s, const char *location,
			       int64_t now_ns);

#define HDFS_SPREAD_ANY UINT64_MAX
/* A node may have this many more files in flight than another and still gets the files of its
 * place. */
#define HDFS_SPREAD_SLACK 4u

/* Place of an object's first part; its further parts have the places after it. */
uint64_t hdfs_spread_row(struct hdfs_spread *s);

/* Choose where to send a file, after a name node named `location` at `now_ns`: *ret is a URL,
 * which the caller frees after hdfs_spread_end(). `place`: in the row, or HDFS_SPREAD_ANY. Any
 * thread. */
int hdfs_spread_begin(struct hdfs_spread *s, const char *location,
		      uint64_t place, int64_t now_ns, char **ret,
		      struct error *err) MUST_CHECK;

/* A transfer to the node has ended.  A node that failed is not chosen again until the name node
 * names it anew. */
void hdfs_spread_end(struct hdfs_spread *s, const char *url, bool has_failed);

#endif
