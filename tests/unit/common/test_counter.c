// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/counter.h"

TestSuite(counter, .timeout = 10);

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
