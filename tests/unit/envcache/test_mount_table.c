// SPDX-License-Identifier: Apache-2.0
/* Parsing of lines of mountinfo. */
#include "envcache/mount_table.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(mount_table, .timeout = 60);

static bool parse_row_copy(const char *text, char line[512],
			   struct mount_row *ret)
{
	(void)snprintf(line, 512, "%s", text);
	return mount_row_parse(line, ret);
}

Test(mount_table, takes_an_overlay_apart)
{
	char line[512];
	struct mount_row row;

	cr_assert(parse_row_copy(
		"101 95 0:42 / /opt/my\\040site rw,relatime shared:7 "
		"master:1 - overlay bootseer-env:ab "
		"rw,lowerdir=/a:/b,upperdir=/v\\054r\\134/0/upper,"
		"workdir=/v/0/work",
		line, &row));
	cr_expect_str_eq(row.path, "/opt/my site");
	cr_expect_str_eq(row.fstype, "overlay");
	cr_expect_str_eq(row.source, "bootseer-env:ab");
	cr_expect_str_eq(row.upper, "/v,r\\/0/upper");
}

Test(mount_table, has_no_upper_folder_where_none_is)
{
	char line[512];
	struct mount_row row;

	cr_assert(parse_row_copy("1 1 0:4 / / ro - overlay overlay "
				 "ro,lowerdir=/a:/b,xupperdir=/c",
				 line, &row));
	cr_expect_null(row.upper);
	cr_assert(parse_row_copy("1 1 0:4 / / ro - ext4 /dev/a rw,upperdir=/c",
				 line, &row));
	cr_expect_null(row.upper);
}

Test(mount_table, refuses_what_is_no_line)
{
	static const char *const wrong[] = {
		"",
		" - ",
		"1 1 0:4 / /mnt rw ext4 a rw",
		"1 1 0:4 / - ext4 a rw",
		"1 1 0:4 / /mnt rw - ext4 a",
		"1 1 0:4 / /mnt rw - ext4",
	};
	char line[512];
	struct mount_row row;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_not(parse_row_copy(wrong[i], line, &row), "%s",
			      wrong[i]);
}

static int count_until_root(void *arg, const struct mount_row *row)
{
	unsigned int *n = arg;

	++*n;
	return strcmp(row->path, "/") == 0 ? -4711 : 0;
}

Test(mount_table, tells_of_this_namespace_until_it_is_told_to_stop)
{
	struct error err = ERROR_INIT;
	unsigned int n = 0;

	cr_expect_eq(mount_table_each(count_until_root, &n, &err), -4711);
	cr_expect_gt(n, 0);
}
