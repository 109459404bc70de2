// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mount.h>

#include "tests/unit/csi/csi_request.h"

TestSuite(csi_request, .timeout = 120);

static int read_words(const char *const *words, struct error *err)
{
	struct test_publish t;
	struct volume_request r;

	test_publish_init(&t, words);
	return volume_request_read(&t.p, &r, err);
}

Test(csi_request, takes_what_is_documented)
{
	static const char *const fine[][8] = {
		{ "kind", "image", "image", "h/a:1", "workload", "train" },
		{ "image", "h:5000/a@sha256:ff", "kind", "image" },
		{ "kind", "env", "store", "s3://b/env", "most", "64" },
		{ "kind", "ckpt", "store", "s3://b/x", "memory", "2Gi" },
		{ "kind", "ckpt", "store", "s3://b/x", "uid", "4294967294" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
		struct error err = ERROR_INIT;

		cr_expect_eq(read_words(fine[i], &err), 0, "%zu: %s", i,
			     err.msg);
	}
}

Test(csi_request, refuses_all_else_and_says_what)
{
	static const struct {
		const char *words[8], *why;
	} wrong[] = {
		{ { "image", "h/a" }, "which kind" },
		{ { "kind", "disk" }, "wanted is image, env or ckpt" },
		{ { "kind", "image" }, "which image" },
		{ { "kind", "ckpt" }, "which store" },
		{ { "kind", "image", "image", "h/a", "kind", "env" }, "twice" },
		{ { "kind", "image", "image", "h/a", "store", "s3://b" },
		  "has no 'store'" },
		{ { "kind", "image", "image", "h/a", "memory", "1Gi" },
		  "has no 'memory'" },
		{ { "kind", "image", "image", "h/a b" }, "HOST" },
		{ { "kind", "image", "image", "h/\x1b[2J" }, "HOST" },
		{ { "kind", "env", "store", "s3://b", "most", "65" },
		  "1 to 64" },
		{ { "kind", "env", "store", "s3://b", "most", "0" },
		  "1 to 64" },
		{ { "kind", "ckpt", "store", "s3://b", "uid", "-1" },
		  "number" },
		{ { "kind", "ckpt", "store", "s3://b", "uid", "4294967295" },
		  "number" },
		{ { "kind", "ckpt", "store", "s3://b", "gid", "1x" },
		  "number" },
		{ { "kind", "ckpt", "store", "s3://b", "memory", "much" },
		  "size" },
		{ { "kind", "ckpt", "store", "" }, "URL" },
		{ { "kind", "ckpt", "store", "s3://b", "close", "buffered" },
		  "there is no 'close'" },
		{ { "kind", "ckpt", "store", "s3://b", "\n\x1b[2J", "x" },
		  "there is no '??[2J'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct error err = ERROR_INIT;

		cr_expect_eq(read_words(wrong[i].words, &err), -EINVAL);
		cr_expect_not_null(strstr(err.msg, wrong[i].why), "%zu: %s", i,
				   err.msg);
	}
}

static int read_capability(const struct test_publish *t,
			   struct volume_request *r, struct error *err)
{
	*r = (struct volume_request){ .namespace = NULL };
	return volume_request_read(&t->p, r, err);
}

Test(csi_request, honours_or_refuses_each_mount_option)
{
	static char ro[] = "ro", noexec[] = "noexec", bind[] = "bind";
	char *flags[] = { ro, noexec };
	struct error err = ERROR_INIT;
	struct volume_request r;
	struct test_publish t;

	test_publish_init(&t, WORDS("kind", "ckpt", "store", "s3://b"));
	cr_assert_eq(read_capability(&t, &r, &err), 0);
	cr_expect_eq(r.mount_attributes, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	cr_expect_not(r.is_read_only);
	t.p.mount_flags = flags;
	t.p.n_mount_flags = 2;
	cr_assert_eq(read_capability(&t, &r, &err), 0);
	cr_expect_eq(r.mount_attributes, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
						 MOUNT_ATTR_RDONLY |
						 MOUNT_ATTR_NOEXEC);
	cr_expect(r.is_read_only);
	flags[0] = bind;
	cr_expect_eq(read_capability(&t, &r, &err), -EINVAL);
	cr_expect_not_null(strstr(err.msg, "there is no 'bind'"));
	t.p.n_mount_flags = 0;
	t.p.fs_type = "ext4";
	cr_expect_eq(read_capability(&t, &r, &err), -EINVAL);
	cr_expect_not_null(strstr(err.msg, "fsType 'ext4'"));
}

#define LABEL "system_u:object_r:container_file_t:s0:c10,c20"

/* An SELinux label belongs to a file system, and the file system of an image is shared by all
 * pods. */
Test(csi_request,
     honours_a_context_where_the_volume_has_a_file_system_of_its_own)
{
	static const struct {
		const char *kind, *flag, *want; /* NULL: refused */
	} cases[] = {
		{ "ckpt", "context=\"" LABEL "\"", LABEL },
		{ "ckpt", "context=" LABEL, LABEL },
		{ "env", "context=\"" LABEL "\"", LABEL },
		{ "env", "context=u:r:t", "u:r:t" },
		{ "image", "context=\"" LABEL "\"", NULL },
		{ "ckpt", "context=", NULL },
		{ "ckpt", "context=\"\"", NULL },
		{ "ckpt", "context=\"", NULL },
		{ "ckpt", "context=x", NULL },
		{ "ckpt", "context=\"u:r:t", NULL },
		{ "ckpt", "context=\"u:r:t\",dev", NULL },
		{ "ckpt", "context=u:r:t dev", NULL },
		{ "ckpt", "context=u:r:t\\", NULL },
		{ "ckpt", "fscontext=\"" LABEL "\"", NULL },
		{ "ckpt", "rootcontext=\"" LABEL "\"", NULL },
	};
	/* A label that is one byte too long is refused: a truncated one would be another label. */
	char long_flag[600] = "context=u:r:t";

	memset(long_flag + strlen(long_flag), 'a', MOUNT_CONTEXT_MAX - 5);
	for (size_t i = 0; i <= ARRAY_SIZE(cases); i++) {
		bool is_long = i == ARRAY_SIZE(cases);
		const char *kind = is_long ? "ckpt" : cases[i].kind;
		const char *want = is_long ? NULL : cases[i].want;
		char *flag = strdup(is_long ? long_flag : cases[i].flag);
		struct error err = ERROR_INIT;
		struct volume_request r;
		struct test_publish t;
		int rc;

		if (strcmp(kind, "image") == 0)
			test_publish_init(&t, WORDS("kind", "image", "image",
						    "r.example/a:1"));
		else
			test_publish_init(&t, WORDS("kind", kind, "store",
						    "s3://b"));
		t.p.mount_flags = &flag;
		t.p.n_mount_flags = 1;
		rc = read_capability(&t, &r, &err);
		cr_expect_eq(rc, want ? 0 : -EINVAL, "%s: %s", flag, err.msg);
		if (want)
			cr_expect_str_eq(r.selinux_context, want);
		free(flag);
	}
}

Test(csi_request, is_read_only_where_anything_says_so)
{
	struct error err = ERROR_INIT;
	struct volume_request r;
	struct test_publish t;

	test_publish_init(&t, WORDS("kind", "ckpt", "store", "s3://b"));
	t.p.access = CSI_ACCESS_NODES_READER;
	cr_assert_eq(read_capability(&t, &r, &err), 0);
	cr_expect(r.is_read_only);
	t.p.access = CSI_ACCESS_NODES_WRITER;
	t.p.is_read_only = true;
	cr_assert_eq(read_capability(&t, &r, &err), 0);
	cr_expect(r.is_read_only);
	test_publish_init(&t, WORDS("kind", "image", "image", "h/a"));
	cr_assert_eq(read_capability(&t, &r, &err), 0);
	cr_expect(r.mount_attributes & MOUNT_ATTR_RDONLY);
	/* In a PersistentVolume the user sets the access mode, so a mode that allows writing is
	 * refused. */
	t.p.n_attributes--;
	cr_expect_eq(read_capability(&t, &r, &err), -EINVAL);
	cr_expect_not_null(strstr(err.msg, "[ReadOnlyMany]"));
	t.p.access = CSI_ACCESS_NODES_READER;
	cr_expect_eq(read_capability(&t, &r, &err), 0);
	t.p.access = (enum csi_access)99;
	cr_expect_eq(read_capability(&t, &r, &err), -EINVAL);
}

Test(csi_request, takes_the_group_of_a_pod_for_checkpoints)
{
	struct error err = ERROR_INIT;
	struct volume_request r;
	struct test_publish t;

	test_publish_init(&t, WORDS("kind", "ckpt", "store", "s3://b"));
	t.p.group = "7";
	cr_assert_eq(read_capability(&t, &r, &err), 0);
	cr_expect(r.has_gid && r.is_group && r.gid == 7);
	test_publish_add(&t, "gid", "8");
	cr_assert_eq(read_capability(&t, &r, &err), 0);
	cr_expect(r.has_gid && !r.is_group && r.gid == 8);
}

Test(csi_request, wants_to_be_told_whose_pod_it_is)
{
	struct error err = ERROR_INIT;
	struct volume_request r;
	struct test_publish t;

	test_publish_init(&t, WORDS("kind", "image", "image", "h/a"));
	t.p.n_attributes = 2;
	cr_expect_eq(read_capability(&t, &r, &err), -EINVAL);
	cr_expect_not_null(strstr(err.msg, "podInfoOnMount: true"));
}
