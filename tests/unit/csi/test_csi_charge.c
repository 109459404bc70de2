// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "csi/charge.h"

TestSuite(csi_charge, .timeout = 120);

static char state[] = "/tmp/csi-charge.XXXXXX";

static void make_state(void)
{
	cr_assert_not_null(mkdtemp(state));
}

static void remove_state(void)
{
	cr_expect_eq(fs_remove_tree(state, NULL), 0);
}

/* Charge a volume of 64 MiB to a namespace that may have 128 MiB. */
static int take_ckpt(const char *namespace, const char *id, bool is_there,
		     struct error *err)
{
	const struct volume_charge c = { .id = id,
					 .namespace = namespace,
					 .kind = VOLUME_KIND_CKPT,
					 .memory = 64 * MIB,
					 .total = 128 * MIB };

	return charge_take(state, &c, is_there, err);
}

static void remove_volume(const char *id)
{
	AUTO_FREE char *dir = fs_join(state, id);

	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

Test(csi_charge, refuses_a_namespace_past_its_total_with_the_cure,
     .init = make_state, .fini = remove_state)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(take_ckpt("a", "1", false, &err), 0);
	cr_expect_eq(take_ckpt("a", "2", false, &err), 0);
	cr_expect_eq(take_ckpt("a", "3", false, &err), -EDQUOT);
	cr_expect_not_null(strstr(err.msg, "have 128Mi of this node, its "
					   "rule's total is 128Mi"));
	cr_expect_not_null(strstr(err.msg, "raise total="), "%s", err.msg);
	/* Charging a volume again, or one of another namespace, is not refused. */
	cr_expect_eq(take_ckpt("a", "2", false, &err), 0);
	cr_expect_eq(take_ckpt("b", "4", false, &err), 0);
	/* The end of a volume gives its share back. */
	remove_volume("1");
	cr_expect_eq(take_ckpt("a", "3", false, &err), 0);
}

Test(csi_charge, counts_what_is_mounted_already_and_refuses_it_not,
     .init = make_state, .fini = remove_state)
{
	struct error err = ERROR_INIT;
	AUTO_FREE char *namespace = NULL;

	for (int i = 0; i < 4; i++) {
		const char id[] = { (char)('1' + i), '\0' };

		cr_expect_eq(take_ckpt("a", id, true, &err), 0);
	}
	cr_expect_eq(take_ckpt("a", "5", false, &err), -EDQUOT);
	namespace = charge_namespace(state, "4");
	cr_expect_str_eq(namespace, "a");
	cr_expect_null(charge_namespace(state, "5"));
}

Test(csi_charge, bounds_the_number_of_env_volumes, .init = make_state,
     .fini = remove_state)
{
	struct error err = ERROR_INIT;
	struct volume_charge c = { .namespace = "a", .kind = VOLUME_KIND_ENV };
	char id[8];

	c.id = id;
	cr_expect_eq(take_ckpt("a", "c", false, &err), 0);
	for (int i = 0; i < 32; i++) {
		(void)snprintf(id, sizeof(id), "%d", i);
		cr_expect_eq(charge_take(state, &c, false, &err), 0, "%d", i);
	}
	(void)snprintf(id, sizeof(id), "more");
	cr_expect_eq(charge_take(state, &c, false, &err), -EDQUOT);
	cr_expect_not_null(strstr(err.msg, "32 env volumes"), "%s", err.msg);
}
