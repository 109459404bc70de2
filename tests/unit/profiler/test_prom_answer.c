// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "profiler/prom/prom_priv.h"

TestSuite(prom_answer, .timeout = 60);

#define MATRIX(result) \
	"{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\"," \
	"\"result\":" result "}}"

static json_t *must_read(const char *text)
{
	char warning[PROM_WARNING_MAX] = "";
	struct error err = ERROR_INIT;
	json_t *series = NULL;

	cr_assert_eq(prom_answer_read(text, strlen(text), warning, &series,
				      &err),
		     0, "%s", err.msg);
	return series;
}

Test(prom_answer, other_answers_are_refused)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"{\"status\":\"error\",\"error\":\"x\"}",
		"{\"status\":\"success\",\"data\":{\"resultType\":\"vector\","
		"\"result\":[]}}",
		MATRIX("{}"),
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char warning[PROM_WARNING_MAX] = "";
		json_t *series = NULL;

		cr_expect_eq(prom_answer_read(bad[i], strlen(bad[i]), warning,
					      &series, NULL),
			     -EBADMSG, "%s", bad[i]);
	}
}

Test(prom_answer, lists_of_names_are_read_and_no_series_are_taken_for_one)
{
	static const char names[] =
		"{\"status\":\"success\",\"data\":[\"a\",\"b\"],"
		"\"warnings\":[\"some are missing\"]}";
	static const char *const bad[] = { "{\"status\":\"success\"}",
					   "{\"status\":\"error\",\"data\":[]}",
					   MATRIX("[]") };
	char warning[PROM_WARNING_MAX] = "";
	struct error err = ERROR_INIT;
	json_t *list = NULL;

	cr_assert_eq(prom_answer_read_names(names, strlen(names), warning,
					    &list, &err),
		     0, "%s", err.msg);
	cr_expect_eq(json_array_size(list), 2);
	cr_expect_str_eq(warning, "some are missing");
	json_decref(list);
	list = NULL;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_expect_eq(prom_answer_read_names(bad[i], strlen(bad[i]),
						    warning, &list, NULL),
			     -EBADMSG, "%s", bad[i]);
}

Test(prom_answer, what_would_fill_the_memory_is_refused_before_it_is_parsed)
{
	static const char head[] =
		"{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\","
		"\"result\":[";
	const size_t n = PROM_VALUES_MAX / 3;
	AUTO_BUF text = BUF_INIT;
	char warning[PROM_WARNING_MAX] = "";
	json_t *series = NULL;

	cr_assert_eq(buf_puts(&text, head), 0);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(buf_append(&text, "[],", 3), 0);
	cr_assert_eq(buf_puts(&text, "[]]}}"), 0);
	cr_expect_lt(text.len, (size_t)PROM_ANSWER_MAX);
	cr_expect_eq(prom_answer_read(text.data, text.len, warning, &series,
				      NULL),
		     -EBADMSG);
}

Test(prom_answer, samples_of_many_nodes_are_read)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_JSON *series = NULL;

	cr_assert_eq(buf_puts(&text, "{\"status\":\"success\",\"data\":{"
				     "\"resultType\":\"matrix\",\"result\":["
				     "{\"metric\":{},\"values\":["),
		     0);
	for (int i = 0; i < 100000; i++)
		cr_assert_eq(buf_puts(&text, "[1760000000,\"0\"],"), 0);
	cr_assert_eq(buf_puts(&text, "[1,\"0\"]]}]}}"), 0);
	series = must_read(text.data);
	cr_expect_eq(json_array_size(series), 1);
}

Test(prom_answer, values_come_to_their_places_in_the_grid)
{
	AUTO_JSON *series = must_read(
		MATRIX("[{\"metric\":{},\"values\":[[70,\"9\"],[100,\"1.5\"],"
		       "[160.001,\"NaN\"],[190,\"+Inf\"],[220,\"9\"]]}]"));
	double v[4] = { 7, 7, 7, 7 };

	cr_assert_eq(prom_answer_fill(series, 100, 30, 4, v, NULL), 0);
	cr_expect_eq(v[0], 1.5);
	cr_expect_eq(v[1], 7);
	cr_expect(isnan(v[2]));
	cr_expect(isnan(v[3]));
}

Test(prom_answer, values_that_are_none_are_refused)
{
	static const char *const bad[] = {
		MATRIX("[{\"values\":[[\"1\",\"1\"]]}]"),
		MATRIX("[{\"values\":[[1,1]]}]"),
		MATRIX("[{\"values\":[[1,\"1x\"]]}]"),
		MATRIX("[{\"values\":[[1,\"\"]]}]"),
		MATRIX("[{\"values\":[[]]}]"),
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		AUTO_JSON *series = must_read(bad[i]);
		double v[2];

		cr_expect_eq(prom_answer_fill(series, 1, 1, 2, v, NULL),
			     -EBADMSG, "%s", bad[i]);
	}
}

static int note_series(void *arg, const struct prom_series *s,
		       struct error *err)
{
	struct buf *b = arg;

	(void)err;
	return buf_printf(b, "%s|%s|%zu|%.0f;", s->node, s->id, s->n,
			  s->n ? s->v[s->n - 1] : 0);
}

Test(prom_answer, copies_of_a_series_have_one_id)
{
	const struct prom_samples s = { .node_label = "instance",
					.replica_labels = "replica,b" };
	AUTO_JSON *series = must_read(
		MATRIX("[{\"metric\":{\"instance\":\"n1\",\"z\":\"1\","
		       "\"a\":\"2\",\"replica\":\"x\"},"
		       "\"values\":[[1,\"3\"],[2,\"4\"]]},"
		       "{\"metric\":{\"b\":\"y\",\"a\":\"2\",\"z\":\"1\","
		       "\"instance\":\"n1\"},\"values\":[]},"
		       "{\"metric\":{},\"values\":[[1,\"3\"]]}]"));
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(prom_answer_each(series, &s, note_series, &got, NULL), 0);
	cr_expect_str_eq(got.data,
			 "n1|a=2\nz=1\n|2|4;n1|a=2\nz=1\n|0|0;||1|3;");
}

Test(prom_answer, servers_words_write_nothing_to_a_terminal)
{
	static const char text[] = "{\"status\":\"error\",\"error\":"
				   "\"bad\\u001b[31m\\n\"}";
	static const char warned[] =
		"{\"status\":\"success\",\"warnings\":[\"part\\u0007\",\"b\"],"
		"\"data\":{\"resultType\":\"matrix\",\"result\":[]}}";
	char out[64], warning[PROM_WARNING_MAX] = "";
	AUTO_JSON *series = NULL;

	prom_answer_reason(text, strlen(text), out, sizeof(out));
	cr_expect_str_eq(out, ": bad?[31m?");
	prom_answer_reason("<html>", 6, out, sizeof(out));
	cr_expect_str_eq(out, "");
	cr_assert_eq(prom_answer_read(warned, strlen(warned), warning, &series,
				      NULL),
		     0);
	cr_expect_str_eq(warning, "part?");
}

Test(prom_answer, names_are_letters)
{
	cr_expect(prom_is_name("node:x_1"));
	cr_expect_not(prom_is_name(""));
	cr_expect_not(prom_is_name("1x"));
	cr_expect_not(prom_is_name("a{b"));
}

static int keep_row(void *arg, const char *node, float **ret, struct error *err)
{
	float(*rows)[4] = arg;

	(void)err;
	*ret = rows[strncmp(node, "b", 1) == 0];
	return strcmp(node, "c") == 0 ? -EFBIG : 0;
}

Test(prom_answer, each_node_has_a_row_of_what_is_finite)
{
	float rows[2][4] = { { -1, -1, -1, -1 }, { -1, -1, -1, -1 } };
	const struct prom_nodes q = { .node_label = "instance",
				      .step_s = 30,
				      .row = keep_row,
				      .arg = rows };
	json_t *series = must_read(MATRIX(
		"[{\"metric\":{\"instance\":\"a:9100\"},\"values\":["
		"[100,\"1\"],[130,\"NaN\"],[160,\"1e300\"],[190,\"4\"]]},"
		"{\"metric\":{\"instance\":\"b\"},\"values\":[[130,\"7\"]]},"
		"{\"metric\":{},\"values\":[[100,\"9\"]]}]"));

	/* Fill the last two values of the rows. */
	cr_assert_eq(prom_answer_fill_nodes(series, &q, 100, 2, 2, NULL), 0);
	cr_expect(rows[0][0] == -1 && rows[0][1] == -1 && rows[0][2] == 1 &&
		  rows[0][3] == -1);
	cr_expect(rows[1][2] == -1 && rows[1][3] == 7);
	json_decref(series);
	series = must_read(MATRIX("[{\"metric\":{\"instance\":\"c\"},"
				  "\"values\":[]}]"));
	cr_expect_eq(prom_answer_fill_nodes(series, &q, 100, 2, 2, NULL),
		     -EFBIG);
	json_decref(series);
}

Test(prom_answer, a_node_has_its_name_without_a_port)
{
	cr_expect_eq(prom_node_length("gpu1:9100"), 4);
	cr_expect_eq(prom_node_length("gpu1"), 4);
	cr_expect_eq(prom_node_length("gpu1:"), 5);
	cr_expect_eq(prom_node_length(":9100"), 5);
	cr_expect_eq(prom_node_length("gpu1:a9"), 7);
	cr_expect_eq(prom_node_length("[::1]:9100"), 5);
	cr_expect_eq(prom_node_length("fd00::12"), 8);
	cr_expect_eq(prom_node_length("[fd00::12]"), 10);
}
