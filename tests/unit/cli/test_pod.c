// SPDX-License-Identifier: Apache-2.0
/* Checks of a pod's name, and the job that its start belongs to. */
#include "cli/pod.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "cli/ops_figure.h"

TestSuite(pod, .timeout = 20);

static char pod[] = "team/app-0";
static const struct pod_options asked = { .pod = pod };

static json_t *containers_of(const char *text)
{
	json_t *v = json_loads(text, 0, NULL);

	cr_assert(v, "%s", text);
	return v;
}

static void expect_job(const char *containers, const char *want)
{
	json_t *v = containers_of(containers);
	char job[STAGE_JOB_MAX + 1];

	cr_assert_eq(pod_job_name(&asked, v, job, NULL), 0);
	cr_expect_str_eq(job, want, "%s", containers);
	json_decref(v);
}

Test(pod, is_named_or_an_argument_is_and_never_both_or_neither)
{
	static char *none[] = { NULL }, *image[] = { pod, NULL };
	char *const bad[] = { (char[]){ "app" }, (char[]){ "team/" },
			      (char[]){ "/app" }, (char[]){ "a/b/c" },
			      (char[]){ "team/\"x\"" } };
	const struct pod_options no_pod = { .pod = NULL };

	cr_expect_eq(pod_check(&asked, none, "an image", NULL), 0);
	cr_expect_eq(pod_check(&no_pod, image, "an image", NULL), 0);
	cr_expect_eq(pod_check(&asked, image, "an image", NULL), -EINVAL);
	cr_expect_eq(pod_check(&no_pod, none, "an image", NULL), -EINVAL);
	/* A pod's name becomes part of a filter for containerd, so these must be refused. */
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct pod_options o = { .pod = bad[i] };

		cr_expect_eq(pod_check(&o, none, "an image", NULL), -EINVAL,
			     "%s", bad[i]);
	}
}

Test(pod, names_the_job_that_a_container_says_within_its_own_namespace)
{
	expect_job("[]", "team/app-0");
	expect_job("[{\"Spec\":{\"process\":{\"env\":[\"A=b\"]}}}]",
		   "team/app-0");
	expect_job("[{},{\"Spec\":{\"process\":{\"env\":[\"A=b\","
		   "\"BOOTSEER_JOB=train\"]}}}]",
		   "team/train");
	/* A job name that is invalid, or of another namespace, is ignored. */
	expect_job("[{\"Spec\":{\"process\":{\"env\":[\"BOOTSEER_JOB=\"]}}}]",
		   "team/app-0");
	expect_job("[{\"Spec\":{\"process\":{\"env\":[7,null]}}}]",
		   "team/app-0");
	expect_job("[{\"Spec\":[]}]", "team/app-0");
}

Test(pod, a_container_has_the_name_in_its_labels)
{
	json_t *v = containers_of(
		"{\"Labels\":{\"io.kubernetes.container.name\":\"main\"}}");

	cr_expect_str_eq(pod_container_name(v), "main");
	json_decref(v);
}

Test(pod, a_strangers_text_is_no_markup_in_a_report)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	cr_assert(out);
	ops_figure_text("<b a=\"x\">&\033[2J\x80\n", out);
	cr_assert_eq(fclose(out), 0);
	cr_expect_null(strpbrk(text, "<>\"\033"));
	cr_expect(strstr(text, "&lt;b a=&quot;x&quot;&gt;&amp;?[2J"));
	free(text);
}
