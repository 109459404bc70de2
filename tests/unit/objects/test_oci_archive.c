// SPDX-License-Identifier: Apache-2.0
/* Both forms of `docker save`, and what pretends to be one. */
#include <archive.h>
#include <archive_entry.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/fs.h"
#include "oci_fixture.h"

static char dir[64], path[96];
static struct error err;
static struct archive *tar;

static void setup(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/bootseer-archive.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/image.tar", dir);
	tar = archive_write_new();
	cr_assert_not_null(tar);
	archive_write_set_format_pax_restricted(tar);
	cr_assert_eq(archive_write_open_filename(tar, path), ARCHIVE_OK);
}

static void teardown(void)
{
	cr_expect_eq(fs_remove_tree(dir, &err), 0);
}

TestSuite(oci_archive, .init = setup, .fini = teardown, .timeout = 120);

static void add(const char *name, const char *link, const void *data,
		size_t len)
{
	struct archive_entry *e = archive_entry_new();

	archive_entry_set_pathname(e, name);
	archive_entry_set_filetype(e, link ? AE_IFLNK : AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, (la_int64_t)len);
	if (link)
		archive_entry_set_symlink(e, link);
	cr_assert_eq(archive_write_header(tar, e), ARCHIVE_OK);
	if (len)
		cr_assert_eq(archive_write_data(tar, data, len),
			     (la_ssize_t)len);
	archive_entry_free(e);
}

static void add_text(const char *name, const char *text)
{
	add(name, NULL, text, strlen(text));
}

static struct oci_store *open_archive(void)
{
	const struct oci_config cfg = OCI_CONFIG_INIT;
	struct oci_ref ref = { .transport = OCI_TRANSPORT_ARCHIVE,
			       .repo = path };
	struct oci_store *s = NULL;

	if (tar)
		cr_assert_eq(archive_write_free(tar), ARCHIVE_OK);
	tar = NULL;
	return oci_store_open(&ref, &cfg, false, &s, &err) == 0 ? s : NULL;
}

static const char layer_one[] = "this stands for a tar";
static const char layer_two[] = "\x1f\x8b and this for a gzip";

/* The config of an image with these two layers. */
static void add_config(const char *name)
{
	char one[DIGEST_STR_MAX];
	AUTO_BUF config = BUF_INIT;
	struct digest d;

	cr_assert_eq(digest_of(layer_one, sizeof(layer_one), &d), 0);
	digest_format(&d, one);
	cr_assert_eq(buf_printf(&config,
				"{\"rootfs\":{\"type\":\"layers\",\"diff_ids\":"
				"[\"%s\",\"%s\"]}}",
				one, one),
		     0);
	add_text(name, config.data);
}

static void add_docker_image(void)
{
	add("one/layer.tar", NULL, layer_one, sizeof(layer_one));
	add("two/layer.tar", "../real.tar", NULL, 0);
	add("real.tar", NULL, layer_two, sizeof(layer_two));
	add_config("c.json");
	add_text("./manifest.json",
		 "[{\"Config\":\"c.json\",\"RepoTags\":[\"docker.io/library/"
		 "app:1\"],\"Layers\":[\"one/layer.tar\",\"two/layer.tar\"]}]");
}

static void expect_layer(struct oci_store *s, const struct oci_descriptor *d,
			 const void *data, size_t len)
{
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(oci_get_blob(s, &d->digest, d->size, 1000, &got, &err), 0,
		     "%s", err.msg);
	cr_assert_eq(got.len, len);
	cr_expect_eq(memcmp(got.data, data, len), 0);
}

Test(oci_archive, an_image_of_docker_save_gets_a_manifest)
{
	struct oci_manifest m, named;
	struct oci_image image;
	struct oci_store *s;
	AUTO_BUF config = BUF_INIT;

	add_docker_image();
	s = open_archive();
	cr_assert_not_null(s, "%s", err.msg);
	cr_assert_eq(oci_get_manifest(s, NULL, &m, &err), 0, "%s", err.msg);
	cr_assert_eq(oci_get_manifest(s, "app:1", &named, &err), 0, "%s",
		     err.msg);
	cr_expect(digest_equal(&m.digest, &named.digest));
	cr_assert_eq(oci_image_parse(m.body.data, m.body.len, &image, &err), 0,
		     "%s", err.msg);
	cr_assert_eq(image.n_layers, 2);
	cr_expect_str_eq(image.layers[1].media_type,
			 "application/vnd.oci.image.layer.v1.tar+gzip");
	expect_layer(s, &image.layers[0], layer_one, sizeof(layer_one));
	expect_layer(s, &image.layers[1], layer_two, sizeof(layer_two));
	cr_expect_eq(oci_get_blob(s, &image.config.digest, image.config.size,
				  1000, &config, &err),
		     0, "%s", err.msg);
	oci_image_fini(&image);
	oci_manifest_fini(&m);
	oci_manifest_fini(&named);
	oci_store_free(s);
}

Test(oci_archive, an_image_that_is_not_there_is_named_with_those_that_are)
{
	struct oci_manifest m;
	struct oci_store *s;

	add_docker_image();
	s = open_archive();
	cr_assert_not_null(s, "%s", err.msg);
	cr_expect_eq(oci_get_manifest(s, "app:2", &m, &err), -ENOENT);
	cr_expect(strstr(err.msg, "library/app:1"), "%s", err.msg);
	oci_store_free(s);
}

Test(oci_archive, an_archive_is_read_only)
{
	struct oci_store *s;
	struct digest d = { .b = { 1 } };

	add_docker_image();
	s = open_archive();
	cr_assert_not_null(s, "%s", err.msg);
	cr_expect_eq(oci_put_blob(s, &d, 1, 0, NULL, &err), -EROFS);
	cr_expect_eq(oci_put_manifest(s, "t", IMAGE_TYPE, "{}", 2, &err),
		     -EROFS);
	cr_expect_eq(oci_remove_manifest(s, &d, &err), -EROFS);
	oci_store_free(s);
}

Test(oci_archive, a_layout_inside_is_preferred)
{
	static const char manifest[] = "{\"schemaVersion\":2}";
	char name[DIGEST_STR_MAX], file[128];
	AUTO_BUF index = BUF_INIT;
	struct oci_manifest m;
	struct oci_store *s;
	struct digest d;

	cr_assert_eq(digest_of(manifest, strlen(manifest), &d), 0);
	digest_format(&d, name);
	cr_assert_eq(buf_printf(&index,
				"{\"manifests\":[{\"digest\":\"%s\",\"size\":"
				"19,\"annotations\":{\"org.opencontainers."
				"image.ref.name\":\"v9\"}}]}",
				name),
		     0);
	snprintf(file, sizeof(file), "blobs/sha256/%s", name + 7);
	add_text(file, manifest);
	add_text("index.json", index.data);
	add_text("oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
	add_text("manifest.json", "[]");
	s = open_archive();
	cr_assert_not_null(s, "%s", err.msg);
	cr_assert_eq(oci_get_manifest(s, "v9", &m, &err), 0, "%s", err.msg);
	cr_expect(digest_equal(&m.digest, &d));
	oci_manifest_fini(&m);
	oci_store_free(s);
}

Test(oci_archive, bad_archives_are_refused_with_a_reason)
{
	static const struct {
		const char *manifest, *reason;
	} bad[] = {
		{ "{}", "list" },
		{ "[{}]", "names no config" },
		{ "[{\"Config\":\"c.json\",\"Layers\":[]}]", "lists 0 layers" },
		{ "[{\"Config\":\"c.json\",\"Layers\":[\"x\",\"y\"]}]",
		  "no layer 'x'" },
		{ "[{\"Config\":\"c.json\",\"Layers\":[\"loop\",\"loop\"]}]",
		  "no layer 'loop'" },
		{ "[{\"Config\":\"../c.json\",\"Layers\":[]}]", "no file" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (i) {
			tar = archive_write_new();
			archive_write_set_format_pax_restricted(tar);
			cr_assert_eq(archive_write_open_filename(tar, path),
				     ARCHIVE_OK);
		}
		add_config("c.json");
		add("loop", "loop2", NULL, 0);
		add("loop2", "loop", NULL, 0);
		add_text("manifest.json", bad[i].manifest);
		cr_expect_null(open_archive());
		cr_expect(strstr(err.msg, bad[i].reason) &&
				  strstr(err.msg, path),
			  "%s", err.msg);
	}
}

Test(oci_archive, cut_compressed_or_foreign_files_are_refused)
{
	add_docker_image();
	cr_assert_not_null(tar);
	{
		struct oci_store *s = open_archive();

		oci_store_free(s);
	}
	cr_assert_eq(truncate(path, 700), 0);
	cr_expect_null(open_archive());
	cr_assert_eq(fs_replace_file(path, "\x1f\x8b\x08\0", 4, 0600, &err), 0);
	cr_expect_null(open_archive());
	cr_expect(strstr(err.msg, "gunzip"), "%s", err.msg);
	cr_assert_eq(fs_replace_file(path, "hello", 5, 0600, &err), 0);
	cr_expect_null(open_archive());
}

/* The file without a name is there, but nobody named it. */
Test(oci_archive, a_file_without_a_name_is_no_config)
{
	add_text("c.json", "{\"rootfs\":{\"diff_ids\":[]}}");
	add("./", "c.json", NULL, 0);
	add_text("manifest.json", "[{\"Layers\":[]}]");
	cr_expect_null(open_archive());
	cr_expect(strstr(err.msg, "names no config"), "%s", err.msg);
}
