// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
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

Test(ops_signals, copies_of_series_are_summed_apart_and_the_larger_sum_counts)
{
	static const char *const wanted[] = {
		"max by(instance)(sum by(instance,p,r)(irate(node_a{c=\"1\"}[106s])))",
		"min by(instance)(node_b{c=\"1\"})",
		"max by(instance)(sum by(instance,p,r)(increase(node_c{c=\"1\",device=\"ib0\"}[900s])))",
	};
	struct ops_signal v[] = {
		{ "sum", OPS_SIGNAL_RATE, "node_a", "", 0, true },
		{ "min", OPS_SIGNAL_VALUE, "node_b", "", 0, true },
		{ "sum", OPS_SIGNAL_ERRORS, "node_c", "device=\"ib0\"", 0,
		  true },
	};
	const struct ops_prom_config c = { .match = (char[]){ "c=\"1\"" },
					   .node_label = (char[]){ "instance" },
					   .replica_labels =
						   (char[]){ "p,r" } };

	for (size_t i = 0; i < 3; i++) {
		AUTO_BUF query = BUF_INIT;

		cr_assert_eq(ops_signal_query(&v[i], &c, 30, &query, NULL), 0);
		cr_expect_str_eq(query.data, wanted[i]);
	}
	{
		AUTO_BUF query = BUF_INIT;

		cr_assert_eq(ops_signal_growth_query(&v[2], &c, 7380, &query,
						     NULL),
			     0);
		cr_expect_not_null(strstr(query.data, "[8280s]"));
	}
}
