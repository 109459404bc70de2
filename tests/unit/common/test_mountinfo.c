// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/mountinfo.h"

TestSuite(mountinfo, .timeout = 10);

Test(mountinfo, takes_a_line_apart)
{
	char line[] = "36 35 98:7 /a\\040b /mnt/c\\134d rw,noatime master:1 "
		      "shared:2 - erofs /x\\011y ro,errors=continue\n";
	struct mountinfo m;

	cr_assert(mountinfo_parse(line, &m));
	cr_expect_eq(m.major, 98);
	cr_expect_eq(m.minor, 7);
	cr_expect_str_eq(m.root, "/a b");
	cr_expect_str_eq(m.path, "/mnt/c\\d");
	cr_expect_str_eq(m.fstype, "erofs");
	cr_expect_str_eq(m.source, "/x\ty");
}

Test(mountinfo, a_mount_may_have_no_tags)
{
	char line[] = "1 2 0:3 / / rw - tmpfs tmpfs rw\n";
	struct mountinfo m;

	cr_assert(mountinfo_parse(line, &m));
	cr_expect_str_eq(m.source, "tmpfs");
}

Test(mountinfo, what_is_no_line_is_passed_over)
{
	static const char *const bad[] = { "",
					   "\n",
					   "1 2 3 / / rw - a b c\n",
					   "1 2 0:3 / / rw tmpfs x y\n",
					   "1 2 0:3 /\n",
					   "1 2 0:3 / / rw -\n" };
	char line[64];
	struct mountinfo m;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		strcpy(line, bad[i]);
		cr_expect_not(mountinfo_parse(line, &m), "%s", bad[i]);
	}
}

static int find_proc(void *arg, const struct mountinfo *m, struct error *err)
{
	int *n = arg;

	(*n)++;
	return strcmp(m->fstype, "proc") == 0
		       ? error_set(err, EEXIST, "%s", m->path)
		       : 0;
}

Test(mountinfo, mounts_are_told_until_one_is_enough)
{
	struct error err = ERROR_INIT;
	int n = 0;

	cr_expect_eq(mountinfo_each(find_proc, &n, &err), -EEXIST);
	cr_expect_gt(n, 0);
	cr_expect(strstr(err.msg, "/proc"), "%s", err.msg);
}

struct seen {
	unsigned int n;
	char paths[64];
};

static int note_path(void *arg, const struct mountinfo *m, struct error *err)
{
	struct seen *s = arg;

	s->n++;
	strcat(strcat(s->paths, m->path), " ");
	cr_expect_str_eq(m->source, "x");
	return 0;
}

/* Long lines that end shortly before, at and after the end of a 64 KiB read. */
Test(mountinfo, the_end_of_a_long_line_is_passed_over)
{
	static const size_t lengths[] = { 10,     65400,  65450,  65500,
					  131000, 131072, 200000, 400000 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		FILE *f = tmpfile();
		struct seen seen = { .n = 0 };
		struct error err = ERROR_INIT;

		cr_assert_not_null(f);
		fprintf(f, "1 1 0:1 / /a rw - tmpfs x rw\n"
			   "2 1 0:2 / /b rw - overlay x rw,lowerdir=");
		for (size_t k = 0; k < lengths[i]; k++)
			fputc(k % 100 ? 'l' : ' ', f);
		/* The end of the long line looks like a mount, and must not be taken for one. */
		fprintf(f, " 3 1 0:3 / /no rw - tmpfs no rw\n"
			   "4 1 0:4 / /c rw - tmpfs x rw\n"
			   "5 1 0:5 / /d rw - tmpfs x rw");
		rewind(f);
		cr_expect_eq(mountinfo_read(fileno(f), note_path, &seen, &err),
			     0, "%s", err.msg);
		cr_expect_str_eq(seen.paths, "/a /b /c /d ", "%zu: %s",
				 lengths[i], seen.paths);
		fclose(f);
	}
}
