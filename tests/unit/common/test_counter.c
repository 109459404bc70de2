// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/counter.h"

TestSuite(counter, .timeout = 120);

struct figures {
	uint64_t hits;
	uint64_t held;
};

static const struct counter_spec table[] = {
	{ "hits_total", COUNTER_TOTAL, offsetof(struct figures, hits),
	  "Reads answered." },
	{ "held_bytes", COUNTER_GAUGE, offsetof(struct figures, held),
	  "Bytes held." },
	{ NULL, 0, 0, NULL },
};

Test(counter, writes_the_prometheus_text_of_a_table)
{
	const struct figures f = { .hits = 7, .held = UINT64_MAX };
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(counter_format(table, &f, "x_", &text), 0);
	cr_expect_str_eq(text.data, "# HELP x_hits_total Reads answered.\n"
				    "# TYPE x_hits_total counter\n"
				    "x_hits_total 7\n"
				    "# HELP x_held_bytes Bytes held.\n"
				    "# TYPE x_held_bytes gauge\n"
				    "x_held_bytes 18446744073709551615\n");
}

Test(counter, stops_at_the_limit_of_the_buffer)
{
	const struct figures f = { .hits = 7 };
	AUTO_BUF text = { .limit = 16 };

	cr_expect_eq(counter_format(table, &f, "x_", &text), -EFBIG);
}

Test(counter, lists_names_with_their_sentences)
{
	AUTO_FREE char *out = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&out, &len);

	cr_assert(f);
	counter_list(table, "x_", f);
	fclose(f);
	cr_expect_str_eq(out, "x_hits_total\n\tReads answered.\n"
			      "x_held_bytes\n\tBytes held.\n");
}

Test(counter, formats_times_as_a_histogram)
{
	static const struct counter_spec specs[] = {
		{ "wait_seconds", COUNTER_SECONDS, 0, "Waits." },
		{ NULL, 0, 0, NULL },
	};
	struct counter_seconds v = { .sum_ms = 0 };
	AUTO_BUF text = BUF_INIT;

	counter_add_ms(&v, 1000);
	counter_add_ms(&v, 1001);
	counter_add_ms(&v, 900000);
	cr_assert_eq(counter_format(specs, &v, "p_", &text), 0);
	cr_expect_str_eq(text.data, "# HELP p_wait_seconds Waits.\n"
				    "# TYPE p_wait_seconds histogram\n"
				    "p_wait_seconds_bucket{le=\"1\"} 1\n"
				    "p_wait_seconds_bucket{le=\"2\"} 2\n"
				    "p_wait_seconds_bucket{le=\"5\"} 2\n"
				    "p_wait_seconds_bucket{le=\"10\"} 2\n"
				    "p_wait_seconds_bucket{le=\"30\"} 2\n"
				    "p_wait_seconds_bucket{le=\"60\"} 2\n"
				    "p_wait_seconds_bucket{le=\"120\"} 2\n"
				    "p_wait_seconds_bucket{le=\"+Inf\"} 3\n"
				    "p_wait_seconds_sum 902.001\n"
				    "p_wait_seconds_count 3\n");
}

Test(counter, latencies_are_counted_up_to_each_bound)
{
	static struct {
		struct counter_latency took;
		uint64_t waited;
	} v = { .waited = UINT64_C(2000000003) };
	static const struct counter_spec specs[] = {
		{ "took_seconds", COUNTER_LATENCY, 0, "Time." },
		{ "waited_seconds_total", COUNTER_NS,
		  sizeof(struct counter_latency), "Time." },
		{ .name = NULL },
	};
	AUTO_BUF out = BUF_INIT;

	counter_add_latency(&v.took, 1000000);
	counter_add_latency(&v.took, 1000001);
	counter_add_latency(&v.took, INT64_C(40000000000));
	cr_assert_eq(counter_format(specs, &v, "x_", &out), 0);
	cr_expect(strstr(out.data, "x_took_seconds_bucket{le=\"0.001\"} 1\n"));
	cr_expect(strstr(out.data, "x_took_seconds_bucket{le=\"0.003\"} 2\n"));
	cr_expect(strstr(out.data, "x_took_seconds_bucket{le=\"30.000\"} 2\n"));
	cr_expect(strstr(out.data, "x_took_seconds_bucket{le=\"+Inf\"} 3\n"));
	cr_expect(strstr(out.data, "x_took_seconds_count 3\n"));
	cr_expect(strstr(out.data, "x_took_seconds_sum 40.002000001\n"));
	cr_expect(strstr(out.data, "x_waited_seconds_total 2.000000003\n"));
}
