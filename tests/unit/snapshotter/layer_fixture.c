// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/snapshotter/layer_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "common/fs.h"

char layer_base[40];
char layer_dir[64];
struct unpack *layer_unpack;

/* The layers below are not known. */
static const struct unpack_options options = { .lower = NULL };

void layer_setup(void)
{
	strcpy(layer_base, "/var/tmp/unpack.XXXXXX");
	cr_assert(mkdtemp(layer_base));
	snprintf(layer_dir, sizeof(layer_dir), "%s/layer", layer_base);
	cr_assert_eq(mkdir(layer_dir, 0755), 0);
	cr_assert_eq(unpack_new(layer_dir, &options, &layer_unpack, NULL), 0);
}

void layer_teardown(void)
{
	unpack_free(layer_unpack);
	cr_assert_eq(fs_remove_tree(layer_base, NULL), 0);
}

int layer_add(const struct layer_entry *e, const char *content,
	      struct error *err)
{
	struct tar_visitor *v = unpack_visitor(layer_unpack);
	bool want = false;
	int rc = v->entry(v, e, &want, err);

	if (rc == 0 && want && content)
		rc = v->data(v, 0, content, strlen(content), err);
	if (rc == 0 && want)
		rc = v->end(v, err);
	return rc;
}

int layer_add_kind(const char *path, uint32_t mode, const char *link, bool hard)
{
	const struct layer_entry e = { .path = path,
				       .mode = mode,
				       .link = link,
				       .hard = hard,
				       .mtime = 1000 };

	return layer_add(&e, NULL, NULL);
}

int layer_add_file(const char *path, const char *content)
{
	const struct layer_entry e = { .path = path,
				       .mode = S_IFREG | 0644,
				       .size = strlen(content),
				       .mtime = 1000 };

	return layer_add(&e, content, NULL);
}

int layer_add_folder(const char *path)
{
	return layer_add_kind(path, S_IFDIR | 0755, NULL, false);
}

char *layer_path(const char *path)
{
	static char out[4200];

	snprintf(out, sizeof(out), "%s/%s", layer_dir, path);
	return out;
}

bool layer_is_whiteout(const char *path)
{
	struct stat st;

	return lstat(layer_path(path), &st) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(0, 0);
}

bool layer_is_opaque(const char *path)
{
	char v[4] = "";

	return getxattr(layer_path(path), "trusted.overlay.opaque", v,
			sizeof(v)) == 1 &&
	       v[0] == 'y';
}

bool layer_has(const char *path)
{
	struct stat st;

	return lstat(layer_path(path), &st) == 0;
}

ssize_t layer_xattr(const char *path, const char *name)
{
	uint8_t v[64];

	return lgetxattr(layer_path(path), name, v, sizeof(v));
}
