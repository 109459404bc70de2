// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/containerd_hosts.h"
#include "common/fs.h"

#define ENTRY \
	"[host.\"https://127.0.0.1:9745\"]\n  capabilities = [\"pull\"]\n" \
	"  [host.\"https://127.0.0.1:9745\".header]\n    x-own = \"1\"\n"
#define OTHER_ENTRY "[host.\"https://127.0.0.1:9746\"]\n"

TestSuite(containerd_hosts, .timeout = 120);

/* Add the entry to first + rest: it goes between them.  Removing it restores the text. */
static void expect_added(const char *first, const char *rest)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_BUF got = BUF_INIT;
	AUTO_BUF again = BUF_INIT;
	AUTO_BUF back = BUF_INIT;
	const char *at;

	cr_assert_eq(buf_printf(&text, "%s%s", first, rest), 0);
	cr_assert_eq(hosts_text_add(text.data, ENTRY, &got, NULL), 0);
	at = strstr(got.data, ENTRY);
	cr_assert_not_null(at);
	cr_expect_eq(strncmp(got.data, first, strlen(first)), 0, "%s",
		     got.data);
	cr_expect_str_eq(got.data + got.len - strlen(rest), rest);
	cr_expect(at < got.data + got.len - strlen(rest));
	cr_assert_eq(hosts_text_add(got.data, ENTRY, &again, NULL), 0);
	cr_expect_str_eq(again.data, got.data);
	cr_assert_eq(hosts_text_remove(got.data, &back, NULL), 0);
	cr_expect_str_eq(back.data, text.data);
}

Test(containerd_hosts, the_mirror_stands_before_other_hosts_and_behind_the_top)
{
	expect_added("", "");
	expect_added("server = \"https://a\"\n", "");
	expect_added("server = \"https://a\"\n",
		     "[host.\"https://b\"]\n  ca = \"/b\"\n");
	expect_added("",
		     "  [host.\"https://b\"] # first\n[host.\"https://c\"]\n");
}

Test(containerd_hosts, a_list_of_lists_at_the_top_is_no_table)
{
	expect_added("client = [\n  [\"/a.cert\", \"/a.key\"],\n]\n",
		     "[host.\"https://b\"]\n");
	expect_added("client = [\n[\"/a.cert\", \"/a.key\"],\n]\n", "");
}

Test(containerd_hosts, another_mirror_of_ours_takes_the_place_of_the_first)
{
	AUTO_BUF one = BUF_INIT;
	AUTO_BUF two = BUF_INIT;

	cr_assert_eq(hosts_text_add("server = \"a\"\n", ENTRY, &one, NULL), 0);
	cr_assert_eq(hosts_text_add(one.data, OTHER_ENTRY, &two, NULL), 0);
	cr_expect_null(strstr(two.data, ":9745"));
	cr_expect(strstr(two.data, OTHER_ENTRY));
}

Test(containerd_hosts, a_mirror_that_the_operator_wrote_stays_the_operators)
{
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(hosts_text_add("server = \"a\"\n" ENTRY, ENTRY, &got,
				    NULL),
		     0);
	cr_expect_str_eq(got.data, "server = \"a\"\n" ENTRY);
}

Test(containerd_hosts, what_is_not_understood_is_not_changed)
{
	AUTO_BUF got = BUF_INIT;
	AUTO_BUF cut = BUF_INIT;
	char *end;

	cr_expect_eq(hosts_text_add("server = = \"a\"\n", ENTRY, &got, NULL),
		     -EINVAL);
	cr_expect_eq(hosts_text_add("[[host]]\na = 1\n", ENTRY, &got, NULL),
		     -EINVAL);
	cr_assert_eq(hosts_text_add("", ENTRY, &got, NULL), 0);
	end = strstr(got.data, "# End");
	cr_assert_not_null(end);
	*end = '\0';
	cr_expect_eq(hosts_text_remove(got.data, &cut, NULL), -EINVAL);
}

/* ------------------------------------------------------------------- files --- */

static char dir[64], path[192];

static void begin_folders(void)
{
	strcpy(dir, "/tmp/hosts.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chdir(dir), 0);
	snprintf(path, sizeof(path), "%s/one:%s/two", dir, dir);
}

static void end_folders(void)
{
	cr_assert_eq(chdir("/"), 0);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

TestSuite(containerd_hosts_files, .init = begin_folders, .fini = end_folders,
	  .timeout = 120);

static void write_hosts(const char *folder, const char *name, const char *text)
{
	char at[256];

	cr_assert_eq(fs_mkdir_p(folder, 0755, NULL), 0);
	snprintf(at, sizeof(at), "%s/%s/%s", dir, folder, name);
	cr_assert_eq(fs_replace_file(at, text, strlen(text), 0640, NULL), 0);
}

static bool is_there(const char *name)
{
	return access(name, F_OK) == 0;
}

static bool has_mirror(const char *folder)
{
	AUTO_BUF text = BUF_INIT;
	char at[256];

	/* If hosts.toml is a link, the file that it leads to. */
	snprintf(at, sizeof(at), "%s/%s/hosts.toml", dir, folder);
	return fs_read_file(at, 65536, &text, NULL) == 0 && text.data &&
	       strstr(text.data, ENTRY);
}

/* Apply the mirror for just the registries `a` and `b` (NULL: none), with the changes kept in
 * `h`. */
static int apply_hosts(const char *a, const char *b, struct hosts_files *h)
{
	char *list[] = { (char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL };
	const struct hosts_want want = { .config_path = path,
					 .search = path,
					 .registries = list,
					 .entry = ENTRY };

	*h = (struct hosts_files){ .n = 0 };
	return hosts_files_apply(&want, h, NULL);
}

static void apply_all(const char *a, const char *b)
{
	struct hosts_files h;

	cr_assert_eq(apply_hosts(a, b, &h), 0);
	hosts_files_fini(&h);
}

static void expect_refused(const char *registry, int want)
{
	struct hosts_files h;

	cr_expect_eq(apply_hosts(registry, NULL, &h), want, "%s", registry);
	cr_expect_eq(hosts_files_restore(&h, NULL), 0);
	hosts_files_fini(&h);
}

Test(containerd_hosts_files, the_folder_that_containerd_reads_is_taken)
{
	write_hosts("one/a.example", "hosts.toml", "server = \"https://a\"\n");
	write_hosts("two/b.example_5000_", "hosts.toml", "# own\n");
	apply_all("a.example", "b.example:5000");
	cr_expect(has_mirror("one/a.example"));
	cr_expect(has_mirror("two/b.example_5000_"));
	apply_all("_default", "c.example");
	/* `_default` in the first root would hide b.example in the second. */
	cr_expect(has_mirror("two/_default"));
	cr_expect(has_mirror("one/c.example"));
	cr_expect_not(has_mirror("one/a.example"));
	cr_expect(is_there("one/a.example/hosts.toml"));
	apply_all(NULL, NULL);
	cr_expect_not(is_there("two/_default"));
	cr_expect_not(is_there("one/c.example"));
}

Test(containerd_hosts_files, what_was_changed_is_again_as_it_was)
{
	struct hosts_files h;
	struct stat st;

	write_hosts("one/a.example", "hosts.toml", "server = \"https://a\"\n");
	apply_all("_default", NULL);
	cr_expect(has_mirror("one/_default"));
	cr_assert_eq(apply_hosts("a.example", "c.example", &h), 0);
	cr_expect_not(is_there("one/_default"));
	cr_expect_eq(hosts_files_restore(&h, NULL), 0);
	hosts_files_fini(&h);
	cr_expect(has_mirror("one/_default"));
	cr_expect_not(has_mirror("one/a.example"));
	cr_expect_not(is_there("one/c.example"));
	cr_assert_eq(stat("one/a.example/hosts.toml", &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0640);
}

Test(containerd_hosts_files, a_new_file_hides_nothing_that_containerd_reads)
{
	write_hosts("one/a.example", "ca.crt", "certificate");
	expect_refused("a.example", -EEXIST);
	cr_expect_not(is_there("one/a.example/hosts.toml"));
	write_hosts("two/_default", "hosts.toml", "server = \"https://m\"\n");
	expect_refused("c.example", -EEXIST);
	cr_expect_not(is_there("one/c.example"));
	apply_all("_default", NULL);
	expect_refused("c.example", -EEXIST);
}

Test(containerd_hosts_files, a_name_that_is_none_of_a_registry_is_refused)
{
	expect_refused("", -EINVAL);
	expect_refused("../x", -EINVAL);
	expect_refused("a.example/team", -EINVAL);
}

Test(containerd_hosts_files, a_link_stays_one_and_its_file_has_the_mirror)
{
	struct stat st;

	write_hosts("kept", "a.toml", "server = \"https://a\"\n");
	cr_assert_eq(fs_mkdir_p("one/a.example", 0755, NULL), 0);
	cr_assert_eq(symlink("../../kept/a.toml", "one/a.example/hosts.toml"),
		     0);
	apply_all("a.example", NULL);
	cr_assert_eq(lstat("one/a.example/hosts.toml", &st), 0);
	cr_expect(S_ISLNK(st.st_mode));
	cr_expect(has_mirror("one/a.example"));
}

/* The link's target was empty, so without the entry it is empty again, and not removed. */
Test(containerd_hosts_files, no_link_is_left_that_leads_to_nothing)
{
	struct hosts_files h;
	struct stat st;

	write_hosts("kept", "a.toml", "");
	cr_assert_eq(fs_mkdir_p("one/a.example", 0755, NULL), 0);
	cr_assert_eq(symlink("../../kept/a.toml", "one/a.example/hosts.toml"),
		     0);
	apply_all("a.example", NULL);
	apply_all(NULL, NULL);
	cr_assert_eq(stat("one/a.example/hosts.toml", &st), 0);
	cr_expect_eq(st.st_size, 0);
	cr_assert_eq(apply_hosts("a.example", NULL, &h), 0);
	cr_expect(has_mirror("one/a.example"));
	cr_assert_eq(hosts_files_restore(&h, NULL), 0);
	hosts_files_fini(&h);
	cr_assert_eq(stat("one/a.example/hosts.toml", &st), 0);
	cr_expect_eq(st.st_size, 0);
	/* A link that dangled before was made by the operator, and is kept. */
	cr_assert_eq(unlink("kept/a.toml"), 0);
	expect_refused("a.example", -EEXIST);
	cr_assert_eq(lstat("one/a.example/hosts.toml", &st), 0);
	cr_expect(S_ISLNK(st.st_mode));
}

/* containerd uses `_default` of the first root for all registries without a folder there. */
Test(containerd_hosts_files, a_folder_behind_a_default_is_not_taken)
{
	write_hosts("one/_default", "hosts.toml", "server = \"https://m\"\n");
	write_hosts("two/a.example", "hosts.toml", "server = \"https://a\"\n");
	expect_refused("a.example", -EEXIST);
	cr_expect_not(has_mirror("two/a.example"));
	apply_all("_default", NULL);
	cr_expect(has_mirror("one/_default"));
}

Test(containerd_hosts_files, registries_with_the_mirror_are_told_from_others)
{
	AUTO_BUF named = BUF_INIT;
	AUTO_BUF others = BUF_INIT;

	write_hosts("one/b.example", "hosts.toml", "server = \"https://b\"\n");
	apply_all("_default", NULL);
	cr_assert_eq(hosts_files_look(path, ENTRY, &named, &others, NULL), 0);
	cr_expect_str_eq(named.data, "_default");
	cr_expect_str_eq(others.data, "b.example");
}
