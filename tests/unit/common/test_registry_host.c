// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "common/registry_host.h"

TestSuite(registry_host, .timeout = 120);

static void expect_host(const char *text, const char *want)
{
	char got[REGISTRY_HOST_MAX];

	registry_host_name(text, got);
	cr_expect_str_eq(got, want, "'%s': '%s'", text, got);
}

Test(registry_host, one_host_has_one_name_whatever_its_port_and_spelling)
{
	expect_host("r.example/img:v1", "r.example");
	expect_host("R.Example/img:v1", "r.example");
	expect_host("r.example:443/img:v1", "r.example");
	expect_host("r.example:0443/img:v1", "r.example");
	expect_host("r.example.:5000/img", "r.example");
	expect_host("r.example:", "r.example");
	expect_host("127.0.0.1:5000/a/b@sha256:0", "127.0.0.1");
}

Test(registry_host, an_ipv6_address_keeps_its_colons)
{
	expect_host("[FE80::1]:5000/img", "fe80::1");
	expect_host("[fe80::1]/img", "fe80::1");
	expect_host("[fe80::1", "fe80::1");
}

Test(registry_host, other_hosts_have_other_names)
{
	expect_host("a.r.example/img", "a.r.example");
	expect_host("127.0.0.2:5000/img", "127.0.0.2");
}

Test(registry_host, what_has_no_host_has_no_name)
{
	expect_host("", "");
	expect_host("/img", "");
	expect_host(":5000/img", "");
	expect_host("[]/img", "");
	expect_host("...", "");
}

Test(registry_host, of_a_stores_url_it_is_what_follows_the_scheme)
{
	expect_host("s3://Bucket/env?region=x", "bucket");
	expect_host("hdfs://nn:8020/env", "nn");
	expect_host("docker://r.example:5000/env", "r.example");
	expect_host("file:///mnt/env", "");
	/* "://" after the host does not begin a scheme. */
	expect_host("r.example/a?from=s3://b", "r.example");
	expect_host("r.example:1?s3://b", "r.example");
}

Test(registry_host, a_long_name_is_cut)
{
	char text[2 * REGISTRY_HOST_MAX], got[REGISTRY_HOST_MAX];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	registry_host_name(text, got);
	cr_expect_eq(strlen(got), REGISTRY_HOST_MAX - 1);
}

Test(registry_host, a_stores_url_is_told_from_a_registrys_name)
{
	cr_expect(registry_host_is_store("s3://bucket/env"));
	cr_expect(registry_host_is_store("docker://r.example:5000/env"));
	cr_expect(registry_host_is_store("file:///mnt/env"));
	cr_expect(registry_host_is_store("file:/mnt/env"));
	cr_expect_not(registry_host_is_store("r.example:5000/env"));
	cr_expect_not(registry_host_is_store("file:5000/env"));
	cr_expect_not(registry_host_is_store("env/a.tar"));
	cr_expect_not(registry_host_is_store(""));
}

Test(registry_host, a_repository_is_below_whole_names_alone)
{
	cr_expect(registry_host_is_below("r.example/a", "r.example", 9));
	cr_expect(registry_host_is_below("r.example/a", "r.example/a=off", 11));
	cr_expect(registry_host_is_below("r.example/a", "", 0));
	cr_expect_not(
		registry_host_is_below("r.example/ab", "r.example/a", 11));
	cr_expect_not(
		registry_host_is_below("r.example.evil/a", "r.example", 9));
	cr_expect_not(registry_host_is_below("r.example", "r.example/a", 11));
}
