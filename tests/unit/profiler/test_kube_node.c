// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "profiler/kube/kube.h"
#include "profiler/kube/kube_lease.h"
#include "profiler/kube/kube_node.h"

TestSuite(kube_node, .timeout = 60);
TestSuite(kube_lease, .timeout = 60);

static json_t *parse_json(const char *text)
{
	json_t *v = json_loads(text, 0, NULL);

	cr_assert(v, "%s", text);
	return v;
}

/* Make a node with this spec and record. */
static json_t *make_node(const char *spec, const char *record)
{
	AUTO_JSON *s = parse_json(spec);

	return json_pack("{s:{s:s,s:s,s:s,s:{s:s*}},s:O,s:{s:[{s:s,s:s}]}}",
			 "metadata", "name", "n1", "uid", "u",
			 "resourceVersion", "7", "annotations",
			 KUBE_NODE_RECORD, record, "spec", s, "status",
			 "conditions", "type", "Ready", "status", "True");
}

static void expect_json(json_t *got, const char *wanted)
{
	AUTO_JSON *g = got, *w = parse_json(wanted);
	AUTO_FREE char *text = json_dumps(g, 0);

	cr_expect(json_equal(g, w), "%s", text);
}

Test(kube_node, names_of_objects_make_no_other_path)
{
	static const char *const bad[] = { "",        "../x",  "a/b",  "a?b",
					   "a..b",    ".a",    "a.",   "-a",
					   "a-",      "a%2fb", "A",    "a b",
					   "a\n",     "a.-b",  "a-.b", "a#b",
					   "\xc3\xa4" };
	char longest[255];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_not(kube_is_name(bad[i]), "%s", bad[i]);
	cr_expect(kube_is_name("gpu-017.rack3.example"));
	memset(longest, 'a', 254);
	longest[254] = '\0';
	cr_expect_not(kube_is_name(longest));
	longest[253] = '\0';
	cr_expect(kube_is_name(longest));
}

Test(kube_node, what_is_no_node_is_refused)
{
	static const char *const bad[] = {
		"{}", "{\"metadata\": []}", "{\"metadata\": {\"name\": \"a\"}}",
		"{\"metadata\": {\"name\": \"../a\", \"resourceVersion\": \"1\"}}",
		"{\"metadata\": {\"name\": 1, \"resourceVersion\": \"1\"}}"
	};
	struct kube_node n;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_JSON *v = parse_json(bad[i]);

		cr_expect_eq(kube_node_read(v, &n, NULL), -EBADMSG, "%s",
			     bad[i]);
	}
}

Test(kube_node, a_node_is_held_where_its_record_says_what_is_so)
{
	static const struct {
		const char *spec, *record;
		bool is_out, is_held;
	} cases[] = {
		{ "{}", NULL, false, false },
		{ "{\"unschedulable\": true}", NULL, true, false },
		{ "{\"unschedulable\": true}", "{\"did\": \"cordon\"}", true,
		  true },
		{ "{\"unschedulable\": true}", "{\"did\": \"taint\"}", true,
		  false },
		{ "{}", "{\"did\": \"cordon\"}", false, false },
		{ "{\"unschedulable\": true}", "{{{", true, false },
		{ "{\"taints\": [{\"key\": \"bootseer.io/suspect\"}]}",
		  "{\"did\": \"taint\"}", true, true },
		{ "{\"taints\": [{\"key\": \"other\"}, 7]}", "[]", false,
		  false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_JSON *v = make_node(cases[i].spec, cases[i].record);
		struct kube_node n;

		cr_assert_eq(kube_node_read(v, &n, NULL), 0);
		cr_expect_eq(kube_node_is_out(&n), cases[i].is_out, "%zu", i);
		cr_expect_eq(kube_node_is_held(&n), cases[i].is_held, "%zu", i);
	}
}

Test(kube_node, patches_change_one_version_and_keep_the_taints_of_others)
{
	AUTO_JSON *plain = make_node(
		"{\"taints\": [{\"key\": \"gpu\", \"effect\": \"NoExecute\"}]}",
		NULL);
	AUTO_JSON *held = make_node(
		"{\"unschedulable\": true, \"taints\": [{\"key\": \"gpu\"}, "
		"{\"key\": \"bootseer.io/suspect\"}]}",
		"{\"did\": \"taint\"}");
	AUTO_JSON *cordoned =
		make_node("{\"unschedulable\": true}", "{\"did\": \"cordon\"}");

	expect_json(
		kube_node_take(plain, KUBE_CORDON, "r"),
		"{\"metadata\": {\"resourceVersion\": \"7\", \"annotations\": "
		"{\"bootseer.io/recover\": \"r\"}}, \"spec\": "
		"{\"unschedulable\": true}}");
	expect_json(
		kube_node_take(plain, KUBE_TAINT, "r"),
		"{\"metadata\": {\"resourceVersion\": \"7\", \"annotations\": "
		"{\"bootseer.io/recover\": \"r\"}}, \"spec\": {\"taints\": "
		"[{\"key\": \"gpu\", \"effect\": \"NoExecute\"}, {\"key\": "
		"\"bootseer.io/suspect\", \"effect\": \"NoSchedule\"}]}}");
	/* A cordon that the record does not name stays. */
	expect_json(
		kube_node_give_back(held),
		"{\"metadata\": {\"resourceVersion\": \"7\", \"annotations\": "
		"{\"bootseer.io/recover\": null}}, \"spec\": {\"taints\": "
		"[{\"key\": \"gpu\"}]}}");
	expect_json(
		kube_node_give_back(cordoned),
		"{\"metadata\": {\"resourceVersion\": \"7\", \"annotations\": "
		"{\"bootseer.io/recover\": null}}, \"spec\": "
		"{\"unschedulable\": null}}");
}

Test(kube_node, a_record_is_short_and_printable)
{
	char why[2000], out[64];
	AUTO_FREE char *record = NULL;

	memset(why, 'x', sizeof(why));
	why[0] = '\x1b';
	why[sizeof(why) - 1] = '\0';
	record = kube_record_new(KUBE_TAINT, "a\xff\"b", "t", why);
	cr_assert(record && strlen(record) < 400);
	kube_record_read(record, "why", out, sizeof(out));
	cr_expect(strlen(out) == 63 && strncmp(out, "?x", 2) == 0, "%s", out);
	kube_record_read(record, "did", out, sizeof(out));
	cr_expect_str_eq(out, "taint");
	kube_record_read("[", "did", out, sizeof(out));
	cr_expect_str_eq(out, "");
}

Test(kube_lease, it_is_held_until_its_time_is_over)
{
	static const struct {
		const char *spec;
		bool is_held;
	} cases[] = {
		{ "{}", false },
		{ "{\"holderIdentity\": \"\"}", false },
		{ "{\"holderIdentity\": \"a\"}", true },
		{ "{\"holderIdentity\": \"a\", \"renewTime\": \"soon\", "
		  "\"leaseDurationSeconds\": 1}",
		  true },
		{ "{\"holderIdentity\": \"a\", \"leaseDurationSeconds\": "
		  "99999999999, \"renewTime\": \"2025-10-01T00:00:00.000000Z\"}",
		  true },
		{ "{\"holderIdentity\": \"a\", \"leaseDurationSeconds\": "
		  "-9223372036854775808, "
		  "\"renewTime\": \"2025-10-01T00:00:00.000000Z\"}",
		  true },
		{ "{\"holderIdentity\": \"a\", \"leaseDurationSeconds\": 60, "
		  "\"renewTime\": \"2025-10-01T00:00:00.123456Z\"}",
		  true },
		{ "{\"holderIdentity\": \"a\", \"leaseDurationSeconds\": 30, "
		  "\"renewTime\": \"2025-10-01T00:00:00Z\"}",
		  false },
	};
	const int64_t now_ms = INT64_C(1759276830000); /* 00:00:30 */

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_JSON *spec = parse_json(cases[i].spec);
		AUTO_JSON *lease = json_pack("{s:O}", "spec", spec);

		cr_expect_eq(kube_lease_is_held(lease, now_ms),
			     cases[i].is_held, "%zu", i);
	}
}
