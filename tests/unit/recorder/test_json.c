// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/recorder/make.h"

TestSuite(trace_json, .timeout = 120);

#define SHA \
	"sha256:" \
	"00000000000000000000000000000000" \
	"00000000000000000000000000000001"
#define HEAD \
	"\"version\":1,\"image\":\"" SHA \
	"\",\"repo\":\"\",\"workload\":\"w\"," \
	"\"created_at\":5,\"window_ms\":6,\"ready_ms\":0,\"runs\":1," \
	"\"truncated\":false"
#define ENTRY(path) \
	"{\"path\":\"" path "\",\"off\":1,\"len\":2,\"at_ms\":3,\"csize\":4," \
	"\"confidence\":500,\"block\":\"" SHA "\"}"

static int parse(const char *text, struct trace **ret, struct error *err)
{
	return trace_from_json(text, strlen(text), ret, err);
}

/* A trace of one entry with this path comes back, and its text holds `as`. */
static void expect_path(const char *path, const char *as)
{
	struct trace_info info = make_info();
	struct trace_entry e = { .path = path, .len = 1, .confidence = 1 };
	AUTO(trace_builder) b = NULL;
	AUTO(trace) t = NULL;
	AUTO(trace) back = NULL;
	AUTO_BUF text = BUF_INIT;
	struct error err = ERROR_INIT;

	cr_assert_eq(trace_builder_new(&info, &b, &err), 0);
	cr_assert_eq(trace_builder_add(b, &e, &err), 0);
	cr_assert_eq(trace_builder_finish(steal_ptr(&b), &t, &err), 0);
	cr_assert_eq(trace_to_json(t, &text, &err), 0);
	cr_expect(strstr(text.data, as), "%s", text.data);
	cr_assert_eq(trace_from_json(text.data, text.len, &back, &err), 0, "%s",
		     err.msg);
	expect_same(t, back);
}

Test(trace_json, random_traces_come_back_as_they_were)
{
	static const size_t sizes[] = { 0, 1, 2, 500 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		AUTO(trace) t = make_trace(i + 1, sizes[i]);
		AUTO(trace) back = NULL;
		AUTO_BUF text = BUF_INIT;
		struct error err = ERROR_INIT;

		t->info.truncated = i % 2;
		cr_assert_eq(trace_to_json(t, &text, &err), 0);
		cr_assert_eq(trace_from_json(text.data, text.len, &back, &err),
			     0, "%s", err.msg);
		expect_same(t, back);
	}
}

Test(trace_json, paths_of_any_bytes_come_back)
{
	char all[257] = "/";

	expect_path("/usr/lib", "\"/usr/lib\"");
	expect_path("/caf\xc3\xa9 \xf0\x9f\x90\xa7", "/caf\xc3\xa9 \xf0\x9f");
	expect_path("/50%", "\"/50%25\"");
	expect_path("/%41", "\"/%2541\"");
	expect_path("/latin\xe9x", "\"/latin%E9x\"");
	expect_path("/cut\xf0\x9f\x90", "\"/cut%F0%9F%90\"");
	expect_path("/overlong\xc0\xaf", "\"/overlong%C0%AF\"");
	expect_path("/surrogate\xed\xa0\x80", "\"/surrogate%ED%A0%80\"");
	expect_path("/beyond\xf4\x90\x80\x80", "\"/beyond%F4%90%80%80\"");
	expect_path("/\"\\\n\x01", "\"/\\\"\\\\\\n\\u0001\"");
	for (size_t i = 1; i < 256; i++)
		all[i] = (char)i;
	expect_path(all, "%FF");
}

Test(trace_json, a_document_of_another_program_is_read)
{
	static const char text[] =
		" {\n\"entries\" : [ " ENTRY("/a\\u0041%42%c3%a9") " ,\n" ENTRY(
			"/]},") " ] ,\n " HEAD " }\n";
	AUTO(trace) t = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(parse(text, &t, &err), 0, "%s", err.msg);
	cr_assert_eq(t->n, 2);
	cr_expect_str_eq(t->entries[0].path, "/aAB\xc3\xa9");
	cr_expect_str_eq(t->entries[1].path, "/]},");
	cr_expect_eq(t->entries[0].off, 1);
	cr_expect_eq(t->entries[0].len, 2);
	cr_expect_eq(t->entries[0].at_ms, 3);
	cr_expect_eq(t->entries[0].csize, 4);
	cr_expect_eq(t->entries[0].confidence, 500);
	cr_expect_eq(t->entries[0].block.b[31], 1);
	cr_expect_eq(t->info.window_ms, 6);
	cr_expect_str_eq(t->info.repo, "");
}

Test(trace_json, what_is_no_trace_is_refused_and_why)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "no JSON object" },
		{ "[]", "no JSON object" },
		{ "{" HEAD "}", "no JSON object with 'entries'" },
		{ "{\"entries\":[]}", "version" },
		{ "{\"entries\":[]", "not JSON" },
		{ "{" HEAD ",\"entries\":[}}", "entry 0" },
		{ "{" HEAD ",\"entries\":7}", "no list" },
		{ "{" HEAD ",\"entries\":[" ENTRY("/a") "}}", "does not end" },
		{ "{" HEAD ",\"entries\":[" ENTRY("/a") ",]}", "entry 1" },
		{ "{" HEAD ",\"entries\":[1]}", "entry 0" },
		{ "{" HEAD ",\"entries\":[[]]}", "entry 0" },
		{ "{" HEAD ",\"entries\":[{}]}", "path" },
		{ "{" HEAD ",\"entries\":[]7}", "text after" },
		{ "{" HEAD ",\"entries\":[],\"entries\":[]}", "duplicate" },
		{ "{" HEAD ",\"more\":1,\"entries\":[]}", "more" },
		{ "{" HEAD ",\"entries\":[" ENTRY("a") "]}", "absolute" },
		{ "{" HEAD ",\"entries\":[" ENTRY("") "]}", "bytes" },
		{ "{" HEAD ",\"entries\":[" ENTRY("/%") "]}", "digits" },
		{ "{" HEAD ",\"entries\":[" ENTRY("/%4") "]}", "digits" },
		{ "{" HEAD ",\"entries\":[" ENTRY("/%00") "]}", "digits" },
		{ "{" HEAD ",\"entries\":[" ENTRY("/\\u0000") "]}", "NUL" },
		{ "{" HEAD ",\"entries\":[" ENTRY("/\xff") "]}", "0xff" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(trace) t = NULL;
		struct error err = ERROR_INIT;

		cr_expect_eq(parse(cases[i].text, &t, &err), -EINVAL,
			     "case %zu", i);
		cr_expect(strstr(err.msg, cases[i].says), "case %zu: %s", i,
			  err.msg);
	}
}

Test(trace_json, numbers_out_of_bounds_are_refused)
{
	static const char *const numbers[] = {
		"\"off\":-1",        "\"off\":4611686018427387905",
		"\"len\":-1",        "\"len\":0",
		"\"len\":4194305",   "\"at_ms\":4294967296",
		"\"csize\":4194305", "\"confidence\":0",
		"\"confidence\":-1", "\"confidence\":1001",
		"\"off\":1.5",       "\"len\":99999999999999999999",
	};
	static const char *const names[] = { "off", "len", "at_ms", "csize",
					     "confidence" };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		AUTO(trace) t = NULL;
		AUTO_BUF text = BUF_INIT;
		struct error err = ERROR_INIT;

		cr_assert_eq(buf_printf(&text,
					"{" HEAD ",\"entries\":[{\"path\":"
					"\"/a\",\"block\":\"" SHA "\",%s",
					numbers[i]),
			     0);
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (strncmp(numbers[i] + 1, names[k],
				    strlen(names[k])) != 0)
				cr_assert_eq(buf_printf(&text, ",\"%s\":1",
							names[k]),
					     0);
		cr_assert_eq(buf_puts(&text, "}]}"), 0);
		cr_expect_eq(parse(text.data, &t, &err), -EINVAL, "case %zu",
			     i);
	}
}

/* Neither an entry nor the rest makes the parser's tree large. */
Test(trace_json, long_parts_are_refused_before_they_are_parsed)
{
	AUTO_BUF text = BUF_INIT;
	AUTO(trace) t = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(buf_puts(&text, "{" HEAD ",\"entries\":[["), 0);
	for (size_t i = 0; i < 100000; i++)
		cr_assert_eq(buf_puts(&text, "1,"), 0);
	cr_assert_eq(buf_puts(&text, "1]]}"), 0);
	cr_expect_eq(parse(text.data, &t, &err), -EFBIG, "%s", err.msg);
	buf_reset(&text);
	cr_assert_eq(buf_puts(&text, "{\"entries\":[],\"x\":[1"), 0);
	for (size_t i = 0; i < 100000; i++)
		cr_assert_eq(buf_puts(&text, ",1"), 0);
	cr_assert_eq(buf_puts(&text, "]}"), 0);
	cr_expect_eq(parse(text.data, &t, &err), -EFBIG, "%s", err.msg);
}
