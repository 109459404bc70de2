// SPDX-License-Identifier: Apache-2.0
/* Users of an image whose mount fails. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "snapshotter/node/starts/mount.h"
#include "tests/unit/snapshotter/test_node.h"

TestSuite(image_mounts, .timeout = 120);

struct mounts_fixture {
	struct test_node n;
	struct mounts *mounts;
	/* a local call: it may wait, but not for a registry */
	struct remote_call call;
	struct mount_request request;
	bool is_complete;
	struct error err;
};

static void setup(struct mounts_fixture *f)
{
	struct mounts_of of;

	memset(f, 0, sizeof(*f));
	test_node_open(&f->n);
	of = (struct mounts_of){ .cfg = &f->n.cfg,
				 .images = f->n.node.images,
				 .opens = { .gate = f->n.node.gate,
					    .is_ending =
						    &f->n.node.is_ending } };
	cr_assert_eq(mounts_open(&of, &f->mounts, NULL), 0);
	remote_call_init(&f->call, &f->n.node.is_ending, NULL, clock_now_ns(),
			 60 * NS_PER_S);
	f->call.is_local = true;
	f->request = (struct mount_request){ .image = test_node_add(&f->n, 1),
					     .user = "user",
					     .call = &f->call };
}

static void end(struct mounts_fixture *f)
{
	mounts_close(f->mounts);
	images_put(f->request.image);
	test_node_close(&f->n);
}

static int try_mount(struct mounts_fixture *f)
{
	return mounts_mount(f->mounts, &f->request, &f->is_complete, &f->err);
}

static uint64_t n_failed(struct mounts_fixture *f)
{
	struct mounts_stats s;

	mounts_get_stats(f->mounts, &s);
	return s.failed;
}

Test(image_mounts, of_an_image_that_was_removed_are_refused)
{
	struct mounts_fixture f;

	setup(&f);
	cr_assert_eq(images_remove(f.request.image, NULL), 0);
	cr_expect_eq(try_mount(&f), -ENOENT);
	cr_expect(strstr(f.err.msg, "it was removed meanwhile"), "%s",
		  f.err.msg);
	cr_expect_not(image_has_user(f.request.image, "user"));
	end(&f);
}

Test(image_mounts, without_a_call_wait_for_no_parser)
{
	struct mounts_fixture f;

	setup(&f);
	f.request.call = NULL;
	cr_expect_eq(try_mount(&f), -EINPROGRESS);
	cr_expect_not(image_has_user(f.request.image, "user"));
	end(&f);
}

Test(image_mounts, whose_files_a_registry_has_to_give_again_leave_no_user)
{
	struct mounts_fixture f;

	setup(&f);
	cr_expect_eq(try_mount(&f), -EINPROGRESS);
	cr_expect_str_eq(f.err.msg, "the registry is needed");
	cr_expect_not(image_has_user(f.request.image, "user"));
	cr_expect_eq(n_failed(&f), 0, "it is tried again by another thread");
	end(&f);
}

Test(image_mounts, that_fail_keep_a_user_of_before)
{
	struct mounts_fixture f;

	setup(&f);
	cr_assert_eq(image_add_user(f.request.image, "user", NULL), 0);
	cr_expect_eq(try_mount(&f), -EINPROGRESS);
	cr_expect(image_has_user(f.request.image, "user"));
	end(&f);
}
