// SPDX-License-Identifier: Apache-2.0
#include "cli/containerd_config.h"
#include "cli/doctor.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(doctor, .timeout = 120);

static struct containerd_config scan_config_text(const char *text)
{
	struct containerd_config c = { .proxy = false };

	containerd_config_scan(text, &c);
	return c;
}

Test(doctor, sees_all_that_a_good_configuration_says)
{
	struct containerd_config c = scan_config_text(
		"version = 2\n"
		"[proxy_plugins]\n"
		"  [proxy_plugins.'bootseer'] # ours\n"
		"    type = \"snapshot\"\n"
		"    address=\"/run/x.sock\"\n"
		"[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
		"\tsnapshotter   =\t\"bootseer\"\n"
		"\tdisable_snapshot_annotations = false");

	cr_expect(c.proxy && c.used && c.by_default && c.labels);
	cr_expect_str_eq(c.address, "/run/x.sock");
}

Test(doctor, sees_what_the_plugin_is_said_to_be_able_to)
{
	struct containerd_config c =
		scan_config_text("version = 3\n"
				 "[proxy_plugins.bootseer]\n"
				 "capabilities = ['remap-ids', \"rebase\"]\n"
				 "[plugins.'io.containerd.cri.v1.images']\n"
				 "discard_unpacked_layers = true\n");

	cr_expect(c.rebase && c.remap_ids && c.discards);
	c = scan_config_text("version = 3\n"
			     "[proxy_plugins.other]\n"
			     "capabilities = ['remap-ids', 'rebase']\n"
			     "[plugins.'io.containerd.cri.v1.images']\n"
			     "discard_unpacked_layers = false\n");
	cr_expect(!c.rebase && !c.remap_ids && !c.discards);
}

Test(doctor, sees_where_registries_are_described_and_the_old_way_of_it)
{
	struct containerd_config c = scan_config_text(
		"version = 2\n"
		"[plugins.\"io.containerd.grpc.v1.cri\".registry]\n"
		"  config_path = \"/a:/b\"\n"
		"[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors]\n"
		"[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.a.auth]\n");

	cr_expect_str_eq(c.config_path, "/a:/b");
	cr_expect_not(c.has_old_hosts);
	c = scan_config_text(
		"version = 3\n"
		"[plugins.'io.containerd.cri.v1.images'.registry.mirrors.'docker.io']\n"
		"endpoint = ['https://m']\n");
	cr_expect_str_eq(c.config_path, "");
	cr_expect(c.has_old_hosts);
	c = scan_config_text(
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\""
		".registry.configs.\"a:5000\".tls]\n");
	cr_expect(c.has_old_hosts);
}

Test(doctor, takes_no_comment_for_a_setting)
{
	struct containerd_config c = scan_config_text(
		"#[proxy_plugins.bootseer]\n"
		"# snapshotter = \"bootseer\"\n"
		"[proxy_plugins.other] # [proxy_plugins.bootseer]\n"
		"address = \"/run/other.sock\"\n"
		"snapshotter = \"overlayfs\" # \"bootseer\"\n"
		"disable_snapshot_annotations = true # = false\n");

	cr_expect(!c.proxy && !c.used && !c.labels);
	cr_expect_str_eq(c.address, "");
}

static const char proxy_1[] = "[plugins.cri.containerd]\n"
			      "snapshotter = \"bootseer\"\n"
			      "disable_snapshot_annotations = false\n";
static const char proxy_2[] =
	"[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
	"snapshotter = \"bootseer\"\n"
	"disable_snapshot_annotations = false\n";
static const char proxy_3[] = "[plugins.'io.containerd.cri.v1.images']\n"
			      "snapshotter = 'bootseer'\n"
			      "disable_snapshot_annotations = false\n";

/* Does a file that begins with `version` have CRI's snapshotter in `section`? */
static bool is_section_read(const char *version, const char *section)
{
	char text[512];
	struct containerd_config c;

	snprintf(text, sizeof(text), "%s%s", version, section);
	c = scan_config_text(text);
	cr_expect_eq(c.used, c.labels);
	cr_expect_neq(c.used, c.misplaced);
	return c.used;
}

Test(doctor, reads_the_section_of_the_files_version_alone)
{
	cr_expect(is_section_read("", proxy_1) &&
		  is_section_read("version = 1\n", proxy_1));
	cr_expect(is_section_read("version = 2\n", proxy_2));
	cr_expect(is_section_read("version = 3\n", proxy_3));
	cr_expect(is_section_read("version = 4\n", proxy_3));
	cr_expect(!is_section_read("version = 3\n", proxy_2));
	cr_expect(!is_section_read("version = 2\n", proxy_3));
	cr_expect(!is_section_read("version = 2\n", proxy_1));
	cr_expect(!is_section_read("", proxy_2));
}

Test(doctor, reads_dotted_keys_and_snapshotters_of_a_runtime)
{
	struct containerd_config c = scan_config_text(
		"version=3\n"
		"plugins.\"io.containerd.cri.v1.images\".snapshotter = 'bootseer'\n"
		"proxy_plugins.bootseer.address = '/a'\n"
		"disabled_plugins = ['x', 'io.containerd.grpc.v1.cri']\n");

	cr_expect(c.used && c.proxy && c.cri_off);
	cr_expect_str_eq(c.address, "/a");
	c = scan_config_text(
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\""
		".containerd.runtimes.runc]\nsnapshotter = \"bootseer\"\n");
	cr_expect(c.used && !c.by_default);
	c = scan_config_text(
		"version = 2\n[other]\nsnapshotter = \"bootseer\"\n");
	cr_expect(!c.used && !c.misplaced);
}

Test(doctor, lists_imports)
{
	struct containerd_config c = scan_config_text(
		"imports = [\"/etc/containerd/conf.d/*.toml\", '/b']\n");

	cr_assert_eq(c.n_imports, 2);
	cr_expect_str_eq(c.imports[0], "/etc/containerd/conf.d/*.toml");
	cr_expect_str_eq(c.imports[1], "/b");
}

Test(doctor, survives_lines_that_are_cut_short)
{
	struct containerd_config c = scan_config_text(
		"address\naddress =\naddress = \"\nimports = [\"a\nsnapshotter"
		"\n[\n[proxy_plugins.bootseer]\naddress = \"");

	cr_expect(c.proxy && !c.used);
	cr_expect_str_eq(c.address, "");
	cr_expect_eq(c.n_imports, 0);
}

Test(doctor, finds_the_file_that_a_command_line_names)
{
	static const char long_way[] = "containerd\0-l\0debug\0--config\0/a";
	static const char equals[] = "containerd\0--config=/b\0-l\0x";
	static const char letter[] = "containerd\0-c\0/c";
	static const char none[] = "containerd\0-l\0x";
	static const char cut[] = "containerd\0-c";

	cr_expect_str_eq(containerd_config_of(long_way, sizeof(long_way)),
			 "/a");
	cr_expect_str_eq(containerd_config_of(equals, sizeof(equals)), "/b");
	cr_expect_str_eq(containerd_config_of(letter, sizeof(letter)), "/c");
	cr_expect_null(containerd_config_of(none, sizeof(none)));
	cr_expect_null(containerd_config_of(cut, sizeof(cut)));
	cr_expect_null(containerd_config_of(NULL, 0));
}

/* Images have blocks of 4096 bytes; kernels for Arm may have larger pages. */
Test(doctor, says_where_erofs_has_no_blocks_smaller_than_a_page)
{
	const struct {
		long size;
		unsigned int major, minor;
		bool ok;
	} kernels[] = { { 4096, 5, 15, true },   { 65536, 6, 3, false },
			{ 16384, 5, 15, false }, { 65536, 6, 4, true },
			{ 65536, 6, 12, true },  { 16384, 7, 0, true } };
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		doctor_check_pages(list, kernels[i].size, kernels[i].major,
				   kernels[i].minor);
		cr_expect_eq(json_is_true(
				     json_object_get(json_array_get(list, i),
						     "ok")),
			     kernels[i].ok, "kernel %zu", i);
	}
	json_decref(list);
}
