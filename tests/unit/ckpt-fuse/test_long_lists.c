// SPDX-License-Identifier: Apache-2.0
/* Tests the memory of a list of very many names; the heap's size is meaningless under a
 * sanitizer. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "ckpt-fuse/mount/folder_lister.h"

#define NAMES 100000u

static size_t before, gathered;

static size_t heap(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* Linked with --wrap: the store of this test. */
int __wrap_object_list_all(struct object_store *s, const char *folder,
			   bool deep, object_list_fn *fn, void *arg,
			   struct error *err);

int __wrap_object_list_all(struct object_store *s, const char *folder,
			   bool deep, object_list_fn *fn, void *arg,
			   struct error *err)
{
	int rc = 0;

	before = heap();
	for (unsigned int i = 0; i < NAMES && rc == 0; i++) {
		char name[32];
		const struct object_entry e = { .name = name };

		(void)snprintf(name, sizeof(name), "d/file-%08u.pt", i);
		rc = fn(arg, &e, err);
	}
	gathered = heap();
	return rc;
}

Test(long_lists, take_a_few_bytes_for_each_name, .timeout = 60)
{
	struct folder_list l = { .n = 0 };
	struct error err = ERROR_INIT;
	struct listed *told;
	struct folder_lister lister;

	cr_assert_eq(listed_new(&told, &err), 0, "%s", err.msg);
	folder_lister_init(&lister, NULL, told);
	cr_assert_eq(folder_lister_list(&lister, "d", &l, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(l.n, NAMES);
	cr_expect_str_eq(folder_list_name(&l, 4711), "file-00004711.pt");
	cr_expect_not(folder_list_is_folder(&l, 4711));
	cr_expect_leq((gathered - before) / NAMES, 100, "%zu while it is made",
		      (gathered - before) / NAMES);
	cr_expect_leq((heap() - before) / NAMES, 36, "%zu while it is open",
		      (heap() - before) / NAMES);
	folder_list_fini(&l);
	folder_lister_fini(&lister);
	listed_free(told);
}
