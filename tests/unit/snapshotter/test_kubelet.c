// SPDX-License-Identifier: Apache-2.0
/* How much free disk the kubelet wants, by its configuration. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/cleanup.h"
#include "snapshotter/node/control/kubelet.h"

TestSuite(kubelet, .timeout = 30);

static const struct kubelet_disk both = { .has_pods = true,
					  .has_images = true,
					  .bytes = 100ull << 30 };
static const struct kubelet_disk pods = { .has_pods = true,
					  .bytes = 100ull << 30 };
static const struct kubelet_disk none = { .bytes = 100ull << 30 };

Test(kubelet, has_defaults_of_its_own)
{
	cr_expect_eq(kubelet_percent(NULL, &both), 15);
	cr_expect_eq(kubelet_percent("kind: KubeletConfiguration\n", &both),
		     15);
	cr_expect_eq(kubelet_percent(NULL, &pods), 10);
	cr_expect_eq(kubelet_percent(NULL, &none), 0);
}

Test(kubelet, says_in_yaml_and_json_what_it_wants_free)
{
	static const char yaml[] = "evictionHard:\n"
				   "  memory.available: 100Mi\n"
				   "  nodefs.available: \"12%\"\n"
				   "  imagefs.available: 7.5%\n"
				   "imageGCHighThresholdPercent: 90\n";
	static const char json[] =
		"{\"evictionHard\":{\"imagefs.available\":\"20Gi\","
		"\"nodefs.available\":\"1Gi\"}}";

	cr_expect_eq(kubelet_percent(yaml, &both), 12);
	cr_expect_eq(kubelet_percent(yaml, &pods), 12);
	cr_expect_eq(kubelet_percent(json, &both), 20);
	cr_expect_eq(kubelet_percent(json, &pods), 1);
}

Test(kubelet, removes_images_before_it_evicts)
{
	cr_expect_eq(kubelet_percent("imageGCHighThresholdPercent: 70\n",
				     &both),
		     30);
	cr_expect_eq(kubelet_percent("imageGCHighThresholdPercent: 70\n",
				     &pods),
		     10);
}

Test(kubelet, counts_the_most_of_several_and_no_comment)
{
	static const char text[] = "# nodefs.available: 40%\n"
				   "evictionHard: {nodefs.available: 5%}\n"
				   "evictionSoft:\n"
				   "  nodefs.available: '25%'\n";

	cr_expect_eq(kubelet_percent(text, &pods), 25);
}

Test(kubelet, takes_what_is_no_figure_for_nothing)
{
	cr_expect_eq(kubelet_percent("nodefs.available: a lot\n", &pods), 0);
	cr_expect_eq(kubelet_percent("nodefs.available: 900Gi\n", &pods), 0);
	cr_expect_eq(kubelet_percent("nodefs.available:", &pods), 0);
	cr_expect_eq(kubelet_percent("imageGCHighThresholdPercent: x\n", &both),
		     15);
}

Test(kubelet, pulls_by_the_socket_that_it_is_told)
{
	static const struct {
		const char *config, *flags, *want;
	} cases[] = {
		{ "a: b\nimageServiceEndpoint: unix:///run/x.sock\n", NULL,
		  "/run/x.sock" },
		{ "a: b\nimageServiceEndpoint: \"/run/x.sock\"\n", "",
		  "/run/x.sock" },
		{ "a: b\nimageServiceEndpoint: ''\n", NULL, NULL },
		{ "a: b\n#imageServiceEndpoint: /run/x.sock\n", NULL, NULL },
		{ "a: b\nimageServiceEndpoint: /run/x.sock\n",
		  "ARGS=\"--image-service-endpoint=unix:///run/y.sock --v=2\"",
		  "/run/y.sock" },
		{ NULL, NULL, NULL },
	};

	for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
		AUTO_FREE char *got =
			kubelet_image_service(cases[k].config, cases[k].flags);

		if (cases[k].want)
			cr_expect(got && strcmp(got, cases[k].want) == 0, "%zu",
				  k);
		else
			cr_expect_null(got, "%zu", k);
	}
}
