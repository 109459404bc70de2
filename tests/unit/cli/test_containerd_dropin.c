// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "cli/containerd_dropin.h"
#include "common/buf.h"

#define OURS "/etc/containerd/bootseer.toml"
#define MARKED \
	"imports = [\"/etc/containerd/bootseer.toml\"] # by 'bootseer node join'\n"
#define CRI "plugins.\"io.containerd.grpc.v1.cri\".containerd"
#define DUMP_1 \
	"version = 2\n[" CRI "]\n" \
	"  default_runtime_name = \"runc\"\n" \
	"  disable_snapshot_annotations = true\n" \
	"  snapshotter = \"overlayfs\"\n" \
	"[" CRI ".runtimes.runc]\n" \
	"  runtime_type = \"io.containerd.runc.v2\"\n"

TestSuite(containerd_dropin, .timeout = 120);

static void expect_import(const char *text, const char *want, bool want_changed)
{
	AUTO_BUF got = BUF_INIT;
	bool is_changed;

	cr_assert_eq(dropin_import(text, OURS, &got, &is_changed, NULL), 0);
	cr_expect_str_eq(got.data, want);
	cr_expect_eq(is_changed, want_changed);
}

static void expect_unimport(const char *text, const char *want)
{
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(dropin_unimport(text, OURS, &got, NULL), 0);
	cr_expect_str_eq(got.data ? got.data : "", want);
}

Test(containerd_dropin, a_file_without_imports_gets_a_marked_line_and_loses_it)
{
	expect_import("version = 2\n", MARKED "version = 2\n", true);
	expect_import(MARKED "version = 2\n", MARKED "version = 2\n", false);
	expect_unimport(MARKED "version = 2\n", "version = 2\n");
}

Test(containerd_dropin, what_a_file_imported_before_it_imports_afterwards)
{
	expect_import("imports = [\"/own\"]\nversion = 2\n",
		      "imports = [\"" OURS "\", \"/own\"]\nversion = 2\n",
		      true);
	expect_unimport("imports = [\"" OURS "\", \"/own\"]\nversion = 2\n",
			"imports = [\"/own\"]\nversion = 2\n");
	expect_import("imports = []\n", "imports = [\"" OURS "\", ]\n", true);
	expect_unimport("imports = [\"" OURS "\", ]\n", "imports = []\n");
	expect_unimport("imports = [\"/own\"]\n", "imports = [\"/own\"]\n");
}

Test(containerd_dropin, a_file_that_somebody_added_to_our_line_stays)
{
	expect_unimport("imports = [\"" OURS
			"\", \"/own\"] # by 'bootseer node join'\n",
			"imports = [\"/own\"] # by 'bootseer node join'\n");
}

Test(containerd_dropin, imports_of_a_section_or_a_comment_are_not_the_files)
{
	expect_import("# imports = [\"/a\"]\n[x]\nimports = [\"/b\"]\n",
		      MARKED "# imports = [\"/a\"]\n[x]\nimports = [\"/b\"]\n",
		      true);
}

Test(containerd_dropin, imports_that_are_not_understood_are_left_alone)
{
	AUTO_BUF got = BUF_INIT;
	bool is_changed;

	cr_expect_eq(dropin_import("imports =\n[\"/own\"]\n", OURS, &got,
				   &is_changed, NULL),
		     -EINVAL);
}

Test(containerd_dropin,
     containerd_1_gets_its_section_again_with_the_plugin_in_it)
{
	const struct dropin_want want = { .pods = DROPIN_ALL,
					  .address = "/run/b.sock",
					  .root = "/var/lib/b",
					  .platform = "linux/amd64" };
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(dropin_compose(&want, DUMP_1, &got, NULL), 0);
	cr_expect(strstr(got.data, "version = 2\n[proxy_plugins.bootseer]\n"));
	cr_expect(strstr(got.data, "  address = \"/run/b.sock\"\n"));
	cr_expect(strstr(got.data, "  snapshotter = \"bootseer\"\n"));
	cr_expect(strstr(got.data, "  disable_snapshot_annotations = false\n"));
	cr_expect(strstr(got.data, "  default_runtime_name = \"runc\"\n"));
	cr_expect(strstr(got.data, "[" CRI ".runtimes.runc]\n"));
	cr_expect_null(strstr(got.data, "snapshotter = \"overlayfs\""));
}

Test(containerd_dropin,
     pods_of_one_runtime_are_refused_where_all_have_one_snapshotter)
{
	const struct dropin_want want = { .pods = DROPIN_RUNTIME,
					  .address = "/run/b.sock",
					  .root = "/var/lib/b",
					  .platform = "linux/amd64" };
	AUTO_BUF got = BUF_INIT;
	struct error err = ERROR_INIT;

	cr_expect_eq(dropin_compose(&want, DUMP_1, &got, &err), -ENOTSUP);
	cr_expect(strstr(err.msg, "--pods all"), "%s", err.msg);
	cr_expect_eq(dropin_compose(&want, "version = 2\n", &got, &err),
		     -ENOENT);
}

Test(containerd_dropin, a_plugin_without_pods_has_no_runtime)
{
	struct dropin_want want = { .pods = DROPIN_LEAVING,
				    .address = "/run/b.sock",
				    .root = "/var/lib/b",
				    .platform = "linux/amd64" };
	const char *dump =
		"version = 3\n"
		"[plugins.'io.containerd.cri.v1.runtime'.containerd]\n"
		"  default_runtime_name = 'runc'\n"
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes"
		".runc]\n"
		"  snapshotter = ''\n";
	AUTO_BUF leaving = BUF_INIT;
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(dropin_compose(&want, dump, &leaving, NULL), 0);
	cr_expect(strstr(leaving.data, ".runtimes.bootseer]\n"));
	cr_expect(strstr(leaving.data, ".runtime_platforms.bootseer]\n"));
	want.pods = DROPIN_NO_PODS;
	cr_assert_eq(dropin_compose(&want, dump, &got, NULL), 0);
	cr_expect(strstr(got.data, "[proxy_plugins.bootseer]\n"));
	cr_expect_null(strstr(got.data, ".runtime"), "%s", got.data);
}

Test(containerd_dropin, containerd_reads_hosts_toml_where_that_is_wanted)
{
	struct dropin_want want = { .pods = DROPIN_ALL,
				    .address = "/run/b.sock",
				    .root = "/var/lib/b",
				    .platform = "linux/amd64",
				    .config_path = "/etc/containerd/certs.d" };
	AUTO_BUF one = BUF_INIT;
	AUTO_BUF two = BUF_INIT;
	AUTO_BUF same = BUF_INIT;
	const char *dump =
		DUMP_1 "[plugins.\"io.containerd.grpc.v1.cri\".registry]\n"
		       "  config_path = \"\"\n";

	cr_assert_eq(dropin_compose(&want, dump, &one, NULL), 0);
	cr_expect(strstr(one.data, ".registry]\n  config_path = "
				   "\"/etc/containerd/certs.d\"\n"));
	cr_assert_eq(dropin_compose(&want, "version = 3\n", &two, NULL), 0);
	cr_expect(strstr(two.data,
			 "[plugins.\"io.containerd.cri.v1.images\".registry]\n"
			 "  config_path = \"/etc/containerd/certs.d\"\n"));
	want.config_path = NULL;
	cr_assert_eq(dropin_compose(&want, dump, &same, NULL), 0);
	cr_expect(strstr(same.data, "  config_path = \"\"\n"));
	cr_expect_eq(dropin_compare("[plugins.'io.containerd.cri.v1.images'."
				    "registry]\n  config_path = ''\n",
				    "[plugins.'io.containerd.cri.v1.images'."
				    "registry]\n  config_path = '/a'\n",
				    NULL),
		     0);
}

#define SERVICE \
	"[plugins.\"io.containerd.service.v1.diff-service\"]\n" \
	"  default = [\"walking\"]\n" \
	"  sync_fs = false\n"
#define TRANSFER \
	"[plugins.\"io.containerd.transfer.v1.local\"]\n" \
	"  config_path = \"/c\"\n" \
	"[[plugins.\"io.containerd.transfer.v1.local\".unpack_config]]\n" \
	"  differ = \"\"\n" \
	"  platform = \"linux/amd64\"\n" \
	"  snapshotter = \"zfs\"\n" \
	"[[plugins.\"io.containerd.transfer.v1.local\".unpack_config]]\n" \
	"  differ = \"own\"\n" \
	"  snapshotter = \"bootseer\"\n" \
	"[[plugins.\"io.containerd.transfer.v1.local\".unpack_config]]\n" \
	"  differ = \"own\"\n" \
	"  snapshotter = \"native\"\n"

static struct dropin_want want_unpacking(void)
{
	return (struct dropin_want){ .pods = DROPIN_ALL,
				     .address = "/run/b.sock",
				     .root = "/var/lib/b",
				     .platform = "linux/amd64",
				     .unpack = true };
}

static size_t count_words(const char *text, const char *words)
{
	size_t n = 0;

	while ((text = strstr(text, words))) {
		n++;
		text++;
	}
	return n;
}

Test(containerd_dropin, bootseerd_is_asked_before_those_that_unpack_by_now)
{
	const struct dropin_want want = want_unpacking();
	AUTO_BUF one = BUF_INIT;
	AUTO_BUF two = BUF_INIT;
	AUTO_BUF own = BUF_INIT;

	cr_assert_eq(dropin_compose(&want, DUMP_1 SERVICE TRANSFER, &one, NULL),
		     0);
	cr_expect(strstr(one.data, "[proxy_plugins.bootseer-diff]\n"
				   "  type = \"diff\"\n"
				   "  address = \"/run/b.sock\"\n"));
	/* containerd 1.x loses lines of the section that are not repeated. */
	cr_expect(strstr(one.data,
			 "  default = [\"bootseer-diff\", \"walking\"]\n"
			 "  sync_fs = false\n"),
		  "%s", one.data);
	cr_expect(strstr(one.data, "  config_path = \"/c\"\n"));
	cr_assert_eq(dropin_compose(&want, "version = 3\n" SERVICE TRANSFER,
				    &two, NULL),
		     0);
	cr_expect(strstr(two.data,
			 "  default = [\"bootseer-diff\", \"walking\"]\n"));
	cr_expect_null(strstr(two.data, "sync_fs"));
	/* The list already has bootseer-diff, in a line by the administrator. */
	cr_assert_eq(dropin_compose(&want,
				    "version = 3\n" TRANSFER
				    "[plugins.'io.containerd.service.v1"
				    ".diff-service']\n"
				    "  default = ['bootseer-diff', 'a']\n",
				    &own, NULL),
		     0);
	cr_expect(strstr(own.data, "  default = ['bootseer-diff', 'a']\n"));
}

Test(containerd_dropin, the_transfer_service_has_one_differ_and_keeps_its_list)
{
	struct dropin_want want = want_unpacking();
	AUTO_BUF got = BUF_INIT;
	AUTO_BUF built_in = BUF_INIT;
	AUTO_BUF plain = BUF_INIT;

	cr_assert_eq(dropin_compose(&want, "version = 3\n" SERVICE TRANSFER,
				    &got, NULL),
		     0);
	cr_expect_eq(count_words(got.data, "unpack_config]]"), 3, "%s",
		     got.data);
	cr_expect(strstr(got.data, "  differ = \"walking\"\n"
				   "  platform = \"linux/amd64\"\n"
				   "  snapshotter = \"zfs\"\n"));
	cr_expect(strstr(got.data, "  differ = \"own\"\n"
				   "  snapshotter = \"native\"\n"));
	cr_expect(strstr(got.data, "  platform = \"linux/amd64\"\n"
				   "  snapshotter = \"bootseer\"\n"
				   "  differ = \"walking\"\n"));
	want.unpack = false;
	cr_assert_eq(dropin_compose(&want, "version = 3\n" TRANSFER, &plain,
				    NULL),
		     0);
	cr_expect(strstr(plain.data, "  differ = \"\"\n"
				     "  platform = \"linux/amd64\"\n"
				     "  snapshotter = \"zfs\"\n"));
	cr_expect_null(strstr(plain.data, "bootseer-diff"));
	/* The drop-in's list replaces the built-in one, so both built-in entries must be
	 * repeated. */
	cr_assert_eq(dropin_compose(&want, "version = 4\n", &built_in, NULL),
		     0);
	cr_expect_eq(count_words(built_in.data, "unpack_config]]"), 3);
	cr_expect(strstr(built_in.data, "  snapshotter = \"overlayfs\"\n"));
	cr_expect(strstr(built_in.data, "  platform = \"linux(+erofs)/amd64\"\n"
					"  snapshotter = \"erofs\"\n"));
}

Test(containerd_dropin, a_containerd_that_asks_nobody_to_unpack_is_told_apart)
{
	const struct dropin_want want = want_unpacking();
	AUTO_BUF got = BUF_INIT;
	struct error err = ERROR_INIT;

	cr_expect_eq(dropin_compose(&want, DUMP_1 SERVICE, &got, &err),
		     -ENOTSUP);
	cr_expect(strstr(err.msg, "leave out --unpack"), "%s", err.msg);
}

Test(containerd_dropin, a_change_that_is_not_the_plugins_is_named)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(dropin_compare(DUMP_1,
				    DUMP_1 "[proxy_plugins.bootseer]\n"
					   "  type = \"snapshot\"\n",
				    &err),
		     0, "%s", err.msg);
	cr_expect_eq(dropin_compare(DUMP_1, DUMP_1 "[debug]\n  level = 1\n",
				    &err),
		     -EBADMSG);
	cr_expect(strstr(err.msg, "containerd would get [debug]"), "%s",
		  err.msg);
	cr_expect_eq(dropin_compare(DUMP_1 "[debug]\n  level = 1\n", DUMP_1,
				    &err),
		     -EBADMSG);
	cr_expect(strstr(err.msg, "containerd would lose"), "%s", err.msg);
}
