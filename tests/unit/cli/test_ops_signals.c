// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/ops_signals.h"

TestSuite(ops_signals, .timeout = 60);

Test(ops_signals, each_has_a_name_of_its_own)
{
	static const char lines[] = "sum value node_a\n"
				    "min value node_b low\n"
				    "max value node_b\n"
				    "sum errors node_c{device=\"ib0\"}\n";
	static const char *const names[] = { "node_a", "node_b:2", "node_b:3",
					     "node_c:4" };
	char path[] = "/tmp/ops-signals.XXXXXX", name[OPS_SIGNAL_NAME_MAX];
	struct error err = ERROR_INIT;
	struct ops_signals s;
	int fd = mkstemp(path);

	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, lines, sizeof(lines) - 1), sizeof(lines) - 1);
	cr_assert_eq(ops_signals_read(path, &s, &err), 0, "%s", err.msg);
	cr_assert_eq(s.n, 4);
	for (size_t i = 0; i < s.n; i++) {
		ops_signal_name(&s, i, name);
		cr_expect_str_eq(name, names[i]);
	}
	ops_signals_fini(&s);
	(void)close(fd);
	(void)unlink(path);
}
