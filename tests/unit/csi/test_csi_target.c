// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "csi/target.h"

#define BETWEEN "/volumes/kubernetes.io~csi/"

TestSuite(csi_target, .timeout = 120);

static int open_path(const char *path)
{
	struct target t;
	int rc = target_open("/k", path, &t, NULL);

	target_close(&t);
	return rc;
}

Test(csi_target, takes_only_the_kubelets_paths)
{
	static const char *const wrong[] = {
		"",
		"/k",
		"/etc",
		"k/pods/u" BETWEEN "v/mount",
		"/k/pods/u" BETWEEN "v",
		"/k/pods/u" BETWEEN "v/mount/",
		"/k/pods/u" BETWEEN "v/mount/x",
		"/k/pods/u" BETWEEN "/mount",
		"/k/pods/u" BETWEEN "../mount",
		"/k/pods/.." BETWEEN "v/mount",
		"/k/pods/" BETWEEN "v/mount",
		"/k/pods/u/x" BETWEEN "v/mount",
		"/k/pods/u" BETWEEN "v w/mount",
		"/k/../k/pods/u" BETWEEN "v/mount",
		"/kk/pods/u" BETWEEN "v/mount",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		cr_expect_eq(open_path(wrong[i]), -EINVAL, "%s", wrong[i]);
}

Test(csi_target, follows_no_link_and_says_when_the_pod_is_gone)
{
	char dir[] = "/tmp/csi-target.XXXXXX";
	AUTO_FREE char *pods = NULL;
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *link = NULL;
	struct error err = ERROR_INIT;
	struct target t;

	cr_assert_not_null(mkdtemp(dir));
	cr_assert(asprintf(&pods, "%s/pods/u/volumes/kubernetes.io~csi/v",
			   dir) > 0);
	cr_assert(asprintf(&path, "%s/mount", pods) > 0);
	cr_assert(asprintf(&link, "%s/pods/l", dir) > 0);
	cr_expect_eq(target_open(dir, path, &t, &err), -ENOENT);
	cr_expect_str_eq(t.name, "u/v");
	cr_expect_eq(strlen(t.id), 16);
	cr_assert_eq(fs_mkdir_p(pods, 0700, NULL), 0);
	cr_assert_eq(target_open(dir, path, &t, &err), 0, "%s", err.msg);
	cr_expect_eq(target_is_mounted(&t, &err), 0);
	/* Unmounting is no error if nothing is there. */
	cr_expect_eq(target_unmount(&t, &err), 0);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_expect_eq(target_unmount(&t, &err), 0);
	cr_expect_eq(access(path, F_OK), -1);
	/* Only a mount may be bound: this folder would be one of the node. */
	cr_expect_eq(target_mount(&t, pods, 0, &err), -ESTALE, "%s", err.msg);
	cr_expect_eq(access(path, F_OK), -1);
	target_close(&t);
	cr_assert_eq(target_open_name(dir, "u/v", &t, &err), 0);
	target_close(&t);
	cr_expect_eq(target_open_name(dir, "u", &t, &err), -EINVAL);
	cr_expect_eq(target_open_name(dir, "u/v/w", &t, &err), -EINVAL);
	cr_assert_eq(symlink("u", link), 0);
	cr_expect_eq(target_open_name(dir, "l/v", &t, &err), -EINVAL);
	cr_expect_not_null(strstr(err.msg, "a link is in it"));
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}
