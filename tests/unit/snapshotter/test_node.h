// SPDX-License-Identifier: Apache-2.0
/* The parts of a bootseerd that units of its rooms need, in a folder of their own. */
#ifndef BOOTSEER_TESTS_UNIT_TEST_NODE_H
#define BOOTSEER_TESTS_UNIT_TEST_NODE_H

#include <semaphore.h>

#include "recorder/recorder.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/images.h"

/* What the config of each image of test_node_add() starts. */
#define TEST_NODE_CONFIG "{\"config\":{\"Cmd\":[\"python\",\"train.py\"]}}"

struct test_node {
	char dir[32];
	struct node_config cfg; /* may be changed before it is used */
	struct node node;       /* cfg, gate, images */
};

void test_node_open(struct test_node *t);
void test_node_close(struct test_node *t);

/* Give it node.cache and node.prefetches, by what its config says now. */
void test_node_open_prefetches(struct test_node *t);

/* The image number `k` of "h:5000/r"; a use. */
struct image *test_node_add(struct test_node *t, size_t k);
/* Of another place; without a config. */
struct image *test_node_add_from(struct test_node *t, size_t k,
				 const char *host, const char *repo);

/* ------------------------------------------------------------ store of traces --- */

/* A store that has one trace, or none, of whatever is asked for. */
struct fake_traces {
	struct trace_store base;
	int rc; /* of a question; 0: it has one */
	enum trace_match match;
	bool wanted;
	uint32_t ready_ms;
	bool is_held; /* a question is answered when `go` was posted */
	sem_t asked;  /* posted by each question */
	sem_t go;     /* one each question, when it is held */
	unsigned int n_asked, n_kept;
	char workload[TRACE_WORKLOAD_MAX + 1]; /* of the last question */
	char repo[TRACE_REPO_MAX + 1];         /* the same */
	int put_rc;                            /* of a recording */
};
/* The store is not freed by its user: fake_traces_fini() does. */
void fake_traces_init(struct fake_traces *f);
void fake_traces_fini(struct fake_traces *f);

#endif
