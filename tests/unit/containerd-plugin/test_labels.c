// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "containerd-plugin/labels.h"

TestSuite(labels, .timeout = 120);

Test(labels, an_empty_value_removes)
{
	struct labels l = LABELS_INIT;

	cr_assert_eq(labels_set(&l, "a", "1", NULL), 0);
	cr_assert_eq(labels_set(&l, "b", "2", NULL), 0);
	cr_assert_eq(labels_set(&l, "a", "3", NULL), 0);
	cr_expect_str_eq(labels_get(&l, "a"), "3");
	cr_assert_eq(labels_set(&l, "a", "", NULL), 0);
	cr_assert_eq(labels_set(&l, "none", "", NULL), 0);
	cr_expect_null(labels_get(&l, "a"));
	cr_expect_str_eq(labels_get(&l, "b"), "2");
	cr_expect_eq(l.n, 1);
	labels_fini(&l);
}

Test(labels, stored_labels_come_back)
{
	struct labels l = LABELS_INIT, got = LABELS_INIT;
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(labels_set(&l, "a", "1", NULL), 0);
	cr_assert_eq(labels_set(&l, "b/c", "x y", NULL), 0);
	cr_assert_eq(labels_encode(&l, &b), 0);
	cr_assert_eq(labels_decode(b.data, b.len, &got, NULL), 0);
	cr_expect_eq(got.n, 2);
	cr_expect_str_eq(labels_get(&got, "b/c"), "x y");
	labels_fini(&got);
	for (size_t cut = 1; cut < 4; cut++)
		cr_expect_eq(labels_decode(b.data, b.len - cut, &got, NULL),
			     -EBADMSG);
	cr_expect_eq(labels_decode(NULL, 0, &got, NULL), 0);
	labels_fini(&l);
}

Test(labels, size_and_number_have_bounds)
{
	struct labels l = LABELS_INIT;
	char value[LABEL_SIZE_MAX + 1], key[16];

	memset(value, 'x', sizeof(value));
	value[LABEL_SIZE_MAX] = '\0';
	cr_expect_eq(labels_set(&l, "k", value, NULL), -EINVAL);
	value[LABEL_SIZE_MAX - 1] = '\0';
	cr_expect_eq(labels_set(&l, "k", value, NULL), 0);
	for (int i = 1; i < LABELS_MAX; i++) {
		snprintf(key, sizeof(key), "%d", i);
		cr_assert_eq(labels_set(&l, key, "v", NULL), 0);
	}
	cr_expect_eq(labels_set(&l, "one more", "v", NULL), -EINVAL);
	labels_fini(&l);
}
