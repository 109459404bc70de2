// SPDX-License-Identifier: Apache-2.0
/* The parts of a bootseerd that unit tests of its folders need, in a temporary folder. */
#ifndef BOOTSEER_TESTS_UNIT_TEST_NODE_H
#define BOOTSEER_TESTS_UNIT_TEST_NODE_H

#include <semaphore.h>

#include "recorder/recorder.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/images.h"

/* The config of each image of test_node_add(), with the command that it starts. */
#define TEST_NODE_CONFIG "{\"config\":{\"Cmd\":[\"python\",\"train.py\"]}}"

struct test_node {
	char dir[32];
	struct node_config cfg; /* may be changed before it is used */
	struct node node;       /* has cfg, gate and images */
};

void test_node_open(struct test_node *t);
void test_node_close(struct test_node *t);

/* Open node.cache and node.prefetches by the present config. */
void test_node_open_prefetches(struct test_node *t);

/* Add image number `k` of "h:5000/r"; returns a use. */
struct image *test_node_add(struct test_node *t, size_t k);
/* Add an image of another repository, without a config. */
struct image *test_node_add_from(struct test_node *t, size_t k,
				 const char *host, const char *repo);

/* ------------------------------------------------------------ store of traces --- */

/* A store that has one trace, or none, for every query. */
struct fake_traces {
	struct trace_store base;
	int rc; /* result of a query; 0: there is a trace */
	enum trace_match match;
	bool wanted;
	uint32_t ready_ms;
	bool is_held; /* queries wait until `go` is posted */
	sem_t asked;  /* posted by each query */
	sem_t go;     /* to be posted once for each query, if `is_held` */
	unsigned int n_asked, n_kept;
	char workload[TRACE_WORKLOAD_MAX + 1]; /* of the last query */
	char repo[TRACE_REPO_MAX + 1];         /* of the last query */
	/* result of storing a recording */
	int put_rc;
};
/* The store is freed by fake_traces_fini(), not by its user. */
void fake_traces_init(struct fake_traces *f);
void fake_traces_fini(struct fake_traces *f);

#endif
