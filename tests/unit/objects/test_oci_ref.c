// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "objects/oci.h"

TestSuite(oci_ref, .timeout = 120);

#define HEX64 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

Test(oci_ref, text_that_is_parsed_is_formatted_the_same)
{
	static const char *const good[] = {
		"docker://localhost:5000/a/b_c:v1",
		"docker://registry.example.com/a/b-c__d.e:1.0-x",
		"docker://[::1]:5000/a:latest",
		"docker://h:1/a@sha256:" HEX64,
		"docker://h:1/a:t@sha256:" HEX64,
		"oci:/some/dir:tag",
		"oci:dir",
		"oci:/a:b/c",
		"docker-archive:/x.tar",
		"docker-archive:/x.tar:app:1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct error err = ERROR_INIT;
		struct oci_ref ref;
		AUTO_FREE char *text = NULL;

		cr_assert_eq(oci_ref_parse(good[i], &ref, &err), 0, "%s",
			     err.msg);
		text = oci_ref_format(&ref);
		cr_expect_str_eq(text, good[i]);
		oci_ref_fini(&ref);
	}
}

Test(oci_ref, a_registry_reference_needs_no_transport_and_gets_a_tag)
{
	struct error err = ERROR_INIT;
	struct oci_ref ref;

	cr_assert_eq(oci_ref_parse("h.example/a/b", &ref, &err), 0);
	cr_expect_eq(ref.transport, OCI_TRANSPORT_REGISTRY);
	cr_expect_str_eq(ref.host, "h.example");
	cr_expect_str_eq(ref.repo, "a/b");
	cr_expect_str_eq(ref.tag, "latest");
	oci_ref_fini(&ref);
}

Test(oci_ref, refuses_what_is_no_reference)
{
	static const char *const bad[] = {
		"",
		"docker://",
		"docker://h",
		"docker://h/",
		"docker:///a",
		"docker://h/A",
		"docker://h/a//b",
		"docker://h/../b",
		"docker://h/a:",
		"docker://h/a:-x",
		"docker://h:x/a",
		"docker://h/a@sha256:1",
		"docker://h/a/",
		"docker://h /a",
		"oci:",
		"oci::tag",
		"docker-archive:",
		"docker://h/a:b/c",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;
		struct oci_ref ref;

		cr_expect_eq(oci_ref_parse(bad[i], &ref, &err), -EINVAL, "%s",
			     bad[i]);
	}
}
