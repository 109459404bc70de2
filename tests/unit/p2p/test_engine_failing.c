// SPDX-License-Identifier: Apache-2.0
/* A node of the swarm that cannot begin. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "common/fs.h"
#include "p2p/p2p.h"
#include "tests/unit/failures.h"

TestSuite(engine_failing, .timeout = 120);

static void open_all(struct failures *f, int code)
{
	char dir[] = "/tmp/bootseer-failing.XXXXXX";
	char url[] = "http://127.0.0.1:1";
	char *const trackers[] = { url, NULL };
	struct p2p_config cfg = { .listen = "127.0.0.1:0",
				  .node = "n",
				  .dir = dir,
				  .trackers = trackers,
				  .tracker_plain_http = true,
				  .neighbours = 1,
				  .relay_bytes = 64 << 20,
				  .memory = 64 << 20 };

	cr_assert(mkdtemp(dir));
	while (failures_next(f)) {
		struct error err = ERROR_INIT;
		struct p2p *p = NULL;
		int rc = p2p_open(&cfg, &p, &err);

		cr_expect_eq(rc, failures_hit(f) ? -code : 0, "round %u: %d %s",
			     f->n, rc, err.msg);
		cr_expect_eq(err.msg[0] != '\0', rc < 0, "round %u", f->n);
		p2p_close(p);
	}
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}

Test(engine_failing, a_node_ends_the_threads_that_it_has)
{
	struct failures f = { .kind = FAIL_THREAD };

	open_all(&f, EAGAIN);
	cr_expect_gt(f.n, 4);
}

Test(engine_failing, a_node_frees_what_it_had_when_memory_is_short)
{
	struct failures f = { .kind = FAIL_MEMORY };

	open_all(&f, ENOMEM);
	cr_expect_gt(f.n, 20);
}
