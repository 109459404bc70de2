// SPDX-License-Identifier: Apache-2.0
/* Lists of a store that names what nobody asked for. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "objects/store/backend.h"

TestSuite(listing, .timeout = 60);

static const char *const *names; /* what the server says, up to a NULL */

static int list(struct object_store *s, const char *folder, bool deep,
		object_list_fn *fn, void *arg, struct error *err)
{
	int rc = 0;

	for (const char *const *n = names; rc == 0 && *n; n++) {
		const struct object_entry e = { .name = *n };

		rc = fn(arg, &e, err);
	}
	return rc;
}

static int add(void *arg, const struct object_entry *e, struct error *err)
{
	char *text = arg;

	strcat(text, e->name);
	strcat(text, " ");
	return 0;
}

static int list_of(const char *folder, const char *const *said, char text[256])
{
	static const struct object_store_ops ops = { .list = list };
	char url[] = "test://";
	struct object_store s = { .ops = &ops, .url = url };
	struct error err = ERROR_INIT;

	names = said;
	text[0] = '\0';
	return object_list(&s, folder, false, add, text, &err);
}

Test(listing, has_nothing_of_another_folder)
{
	static const char *const wrong[] = { "x", "step", "step2/a", "other/a",
					     "" };
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const char *const said[] = { "step/a", wrong[i], NULL };

		cr_expect_eq(list_of("step", said, text), -EPROTO, "'%s'",
			     wrong[i]);
		cr_expect_str_eq(text, "step/a ");
	}
}

/* As a path of this machine they would lead elsewhere. */
Test(listing, leaves_out_what_is_no_name)
{
	static const char *const said[] = { "step/..",   "step/.",
					    "step/",     "step/b\n",
					    "step/../x", "step/a//b",
					    "step/c",    NULL };
	static const char *const top[] = { "..", "/etc", "a", NULL };
	char text[256];

	cr_expect_eq(list_of("step", said, text), 0);
	cr_expect_str_eq(text, "step/c ");
	cr_expect_eq(list_of("", top, text), 0);
	cr_expect_str_eq(text, "a ");
}

static int list_marked(struct object_store *s, const char *folder, bool deep,
		       object_list_fn *fn, void *arg, struct error *err)
{
	const struct object_entry own = { .name = "step",
					  .is_folder = true,
					  .is_marker = true };
	int rc = fn(arg, &own, err);

	return rc == 0 ? list(s, folder, deep, fn, arg, err) : rc;
}

static int add_kind(void *arg, const struct object_entry *e, struct error *err)
{
	strcat(arg, e->is_marker ? "marker:" : e->is_odd ? "odd:" : "");
	return add(arg, e, err);
}

/* Or nobody could say that they are there, nor remove them. */
Test(listing, tells_of_markers_and_odd_names_to_who_asks)
{
	static const struct object_store_ops ops = { .list = list_marked };
	static const char *const said[] = { "step/a//b", "step/c", NULL };
	char url[] = "test://";
	struct object_store s = { .ops = &ops, .url = url };
	struct error err = ERROR_INIT;
	char text[256] = "";

	names = said;
	cr_expect_eq(object_list_all(&s, "step", false, add_kind, text, &err),
		     0);
	cr_expect_str_eq(text, "marker:step odd:step/a//b step/c ");
	text[0] = '\0';
	cr_expect_eq(object_list(&s, "step", false, add_kind, text, &err), 0);
	cr_expect_str_eq(text, "step/c ");
}
