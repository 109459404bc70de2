// SPDX-License-Identifier: Apache-2.0
#include "cli/ops_kube.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"

TestSuite(ops_kube, .timeout = 120);

/* A fake kubectl, whose kubeconfig has a plugin that needs both variables. */
static const char kubectl[] =
	"#!/bin/sh\n"
	"cat <<'END'\n"
	"{\"clusters\": [{\"cluster\": {\"server\": \"http://127.0.0.1:1\"}}],\n"
	"\"users\": [{\"user\": {\"exec\": {\"command\": \"sh\", \"args\": [\"-c\",\n"
	"\"[ $KUBE_A$KUBE_B = made2 ] && [ $KUBERNETES_EXEC_INFO ] && "
	"echo '{\\\"status\\\": {\\\"token\\\": \\\"t\\\"}}'\"],\n"
	"\"env\": [{\"name\": \"KUBE_A\", \"value\": \"made\"},\n"
	"{\"name\": \"KUBE_B\", \"value\": \"1\"}, {\"name\": \"KUBE_B\", \"value\": \"2\"}]}}}]}\n"
	"END\n";

Test(ops_kube, keeps_no_variable_of_a_credential_plugin)
{
	char dir[] = "/tmp/ops-kube.XXXXXX";
	AUTO_FREE char *file = NULL;
	AUTO_BUF path = BUF_INIT;
	struct error err = ERROR_INIT;
	struct kube *kube = NULL;

	cr_assert_not_null(mkdtemp(dir));
	file = fs_join(dir, "kubectl");
	cr_assert_eq(fs_replace_file(file, kubectl, sizeof(kubectl) - 1, 0700,
				     &err),
		     0, "%s", err.msg);
	cr_assert_eq(buf_printf(&path, "%s:%s", dir, getenv("PATH")), 0);
	cr_assert_eq(setenv("PATH", path.data, 1), 0);
	cr_assert_eq(setenv("KUBE_B", "ours", 1), 0);
	(void)unsetenv("KUBE_A");
	(void)unsetenv("KUBERNETES_SERVICE_HOST");
	cr_expect_eq(ops_kube_open(NULL, clock_now_ns(), &kube, &err), 0, "%s",
		     err.msg);
	cr_expect_null(getenv("KUBE_A"));
	cr_expect_null(getenv("KUBERNETES_EXEC_INFO"));
	cr_expect_str_eq(getenv("KUBE_B"), "ours");
	kube_free(kube);
	cr_expect_eq(fs_remove_tree(dir, &err), 0);
}
