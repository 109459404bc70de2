// SPDX-License-Identifier: Apache-2.0
/*
 * bench-group-plan NODES RANKS TENSORS COPIES: milliseconds that a node takes for the plan of a
 * save, once it has the tables of all: RANKS on NODES, each with so many tensors of 2 MiB, which
 * COPIES ranks have alike.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "groupio/save_plan.h"

#define CHUNKS 2u

static int fail(const struct error *err)
{
	fprintf(stderr, "bench-group-plan: %s\n", err->msg);
	return 1;
}

static int add_tensor(struct save_table *t, unsigned int rank, unsigned int k,
		      unsigned int copies, struct error *err)
{
	const uint64_t len = CHUNKS * SAVE_CHUNK;
	const unsigned int shard = rank / copies;
	char name[64];
	int rc;

	(void)snprintf(name, sizeof(name), "layers.%u.shard.%u.weight", k,
		       shard);
	rc = save_table_add(t, name, "U8", &len, 1, len, err);
	if (rc < 0)
		return rc;
	t->tensors[t->n - 1].rank = rank;
	for (uint32_t c = 0; c < CHUNKS; c++) {
		struct digest *d = &t->tensors[t->n - 1].chunks[c];

		memcpy(d->b, &(uint32_t[4]){ shard, k, c, 1 }, 16);
	}
	return 0;
}

static int fill_tables(struct save_table *tables, unsigned int nodes,
		       unsigned int ranks, unsigned int tensors,
		       unsigned int copies, struct error *err)
{
	int rc = 0;

	for (unsigned int r = 0; r < ranks; r++)
		for (unsigned int k = 0; k < tensors && rc == 0; k++)
			rc = add_tensor(&tables[(size_t)r * nodes / ranks], r,
					k, copies, err);
	for (unsigned int i = 0; i < nodes && rc == 0; i++)
		rc = save_table_finish(&tables[i], err);
	return rc;
}

int main(int argc, char **argv)
{
	static struct save_table tables[SAVE_NODES_MAX];
	struct error err = ERROR_INIT;
	struct save_plan *p = NULL;
	unsigned int n[4] = { 0 };
	int64_t begun_ns;
	int rc;

	for (int i = 1; i < argc && i <= 4; i++)
		n[i - 1] = (unsigned int)strtoul(argv[i], NULL, 10);
	if (argc != 5 || !n[0] || n[0] > SAVE_NODES_MAX || !n[3]) {
		fputs("bench-group-plan NODES RANKS TENSORS COPIES\n", stderr);
		return 2;
	}
	if (fill_tables(tables, n[0], n[1], n[2], n[3], &err) < 0)
		return fail(&err);
	begun_ns = clock_now_ns();
	rc = save_plan_make(tables, n[0], 0, &p, &err);
	if (rc < 0)
		return fail(&err);
	printf("%.3f\n", (double)(clock_now_ns() - begun_ns) / 1e6);
	save_plan_free(p);
	for (unsigned int i = 0; i < n[0]; i++)
		save_table_fini(&tables[i]);
	return 0;
}
