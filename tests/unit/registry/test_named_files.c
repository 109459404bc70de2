// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "common/fs.h"
#include "registry/config.h"
#include "registry/named_files.h"

TestSuite(named_files, .timeout = 60);

#define N_FILES 4

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	cr_assert_geq(fputs(text, f), 0);
	cr_assert_eq(fclose(f), 0);
}

Test(named_files, are_others_after_each_that_is_replaced)
{
	char dir[] = "/tmp/bootseer-named.XXXXXX";
	char path[N_FILES][64], new[64];
	char *cas[] = { path[3], NULL };
	const struct registry_config cfg = { .tokens = path[0],
					     .tls_cert = path[1],
					     .tls_key = path[2],
					     .tls_client_ca = cas };
	struct error err = ERROR_INIT;
	uint64_t before;

	cr_assert_not_null(mkdtemp(dir));
	(void)snprintf(new, sizeof(new), "%s/new", dir);
	for (size_t i = 0; i < N_FILES; i++) {
		(void)snprintf(path[i], sizeof(path[i]), "%s/%zu", dir, i);
		write_file(path[i], "x");
	}
	for (size_t i = 0; i < N_FILES; i++) {
		before = named_files_sum(&cfg);
		cr_expect_eq(named_files_sum(&cfg), before);
		/* Replace the file by another of the same size, as is done for secrets. */
		write_file(new, "y");
		cr_assert_eq(rename(new, path[i]), 0);
		cr_expect_neq(named_files_sum(&cfg), before, "%zu", i);
	}
	before = named_files_sum(&cfg);
	cr_assert_eq(unlink(path[1]), 0);
	cr_expect_neq(named_files_sum(&cfg), before);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}
