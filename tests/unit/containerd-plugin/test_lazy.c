// SPDX-License-Identifier: Apache-2.0
/* Two images with a layer in common, which is the upper one of one of them alone,
 * against the fake bootseerd. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "containerd-plugin/snapshots_priv.h"
#include "tests/unit/containerd-plugin/node_fixture.h"

TestSuite(lazy, .timeout = 120);

#define ZEROS "00000000000000000000000000000000000000000000000000000000000000"
#define BASE "sha256:" ZEROS "a0"
#define MORE "sha256:" ZEROS "a1"
#define SMALL "sha256:" ZEROS "b0" /* manifest and tree of BASE alone */
#define BIG "sha256:" ZEROS "b1"   /* of both */

static struct snapshots *s;

static void write_images(void)
{
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(
		buf_printf(&text,
			   "[{\"ref\": \"host/small:1\", \"manifest\": \"" SMALL
			   "\", \"id\": \"" SMALL "\", \"tree\": \"%s/small\", "
			   "\"chain_ids\": [\"" BASE "\"], \"layers\": "
			   "[\"%s/base\"]}, {\"ref\": \"host/big:1\", "
			   "\"manifest\": \"" BIG "\", \"id\": \"" BIG
			   "\", \"tree\": \"%s/big\", \"chain_ids\": [\"" BASE
			   "\", \"" MORE "\"], \"layers\": [\"%s/base\", "
			   "\"%s/base\"]}]",
			   node_dir, node_dir, node_dir, node_dir, node_dir),
		0);
	fake_node_write("images.json", text.data);
}

static void set_up(void)
{
	struct snapshots_config config = {
		.root = node_dir,
		.node_socket = node_sock,
		.node_timeout_ns = INT64_C(30000000000),
		.layer_timeout_ns = INT64_C(30000000000),
		.start_timeout_ns = INT64_C(30000000000),
		.containerd_state = "",
		.scope = ""
	};
	static const char *const folders[] = { "base", "small", "big" };

	fake_node_dir();
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		AUTO_FREE char *path = fs_join(node_dir, folders[i]);

		cr_assert_eq(mkdir(path, 0755), 0);
	}
	write_images();
	fake_node_start();
	cr_assert_eq(snapshots_open(&config, &s, NULL), 0);
}

static void tear_down(void)
{
	snapshots_close(s);
	fake_node_stop();
	fake_node_remove();
}

/* The layer BASE of a pull of this image: -EEXIST, it is left out. */
static int pull_base(const char *image, const char *manifest)
{
	struct labels labels = LABELS_INIT;
	struct create_request req = { .kind = SNAPSHOT_KIND_ACTIVE,
				      .key = "extract",
				      .parent = "",
				      .labels = &labels };
	struct mount m = { .type = NULL };
	int rc;

	cr_assert_eq(labels_set(&labels, LABEL_SNAPSHOT_REF, BASE, NULL), 0);
	cr_assert_eq(labels_set(&labels, "containerd.io/snapshot/cri.image-ref",
				image, NULL),
		     0);
	cr_assert_eq(labels_set(&labels,
				"containerd.io/snapshot/cri.manifest-digest",
				manifest, NULL),
		     0);
	rc = snapshots_create(s, &req, NULL, &m, NULL);
	mount_fini(&m);
	labels_fini(&labels);
	return rc;
}

/* What a container on BASE has below it, in a user namespace when `maps` is not NULL;
 * the caller's. */
static char *lower_of_container(const char *maps)
{
	static const char key[] = "lowerdir=";
	struct labels labels = LABELS_INIT;
	struct create_request req = { .kind = SNAPSHOT_KIND_ACTIVE,
				      .key = "container",
				      .parent = BASE,
				      .labels = &labels };
	struct error err = ERROR_INIT;
	struct mount m = { .type = NULL };
	char *lower = NULL;

	if (maps) {
		cr_assert_eq(labels_set(&labels,
					"containerd.io/snapshot/uidmapping",
					maps, NULL),
			     0);
		cr_assert_eq(labels_set(&labels,
					"containerd.io/snapshot/gidmapping",
					maps, NULL),
			     0);
	}
	cr_assert_eq(snapshots_create(s, &req, NULL, &m, &err), 0, "%s",
		     err.msg);
	for (size_t i = 0; i < m.n_options; i++)
		if (strncmp(m.options[i], key, sizeof(key) - 1) == 0)
			lower = strdup(m.options[i] + sizeof(key) - 1);
	mount_fini(&m);
	labels_fini(&labels);
	cr_assert_not_null(lower);
	return lower;
}

/* The fake mounts nothing, so its trees are folders of an ordinary file system. */
Test(lazy, where_ids_of_a_tree_cannot_be_mapped_its_layers_are_used,
     .init = set_up, .fini = tear_down)
{
	AUTO_FREE char *lower = NULL;

	cr_assert_eq(pull_base("host/small:1", SMALL), -EEXIST);
	lower = lower_of_container("0:100000:65536");
	cr_expect(strstr(lower, "/snapshots/"), "%s", lower);
}

Test(lazy, a_tree_that_was_lost_comes_back_and_no_other_images, .init = set_up,
     .fini = tear_down)
{
	AUTO_FREE char *lower = NULL;

	/* So far it is a lower layer of the other one. */
	cr_assert_eq(pull_base("host/big:1", BIG), -EEXIST);
	cr_assert_eq(pull_base("host/small:1", SMALL), -EEXIST);
	fake_node_write("fault", "image.mount once 2 lost");
	lower = lower_of_container(NULL);
	cr_expect(strstr(lower, "/small"), "%s", lower);
}

/* As an earlier version left it. */
Test(lazy, a_tree_of_more_layers_is_never_taken_for_one_of_fewer,
     .init = set_up, .fini = tear_down)
{
	AUTO_FREE char *lower = NULL;
	struct snapshot snap;
	struct digest tree;

	cr_assert_eq(pull_base("host/big:1", BIG), -EEXIST);
	cr_assert_eq(store_get(snapshots_store(s), BASE, &snap, NULL), 0);
	cr_assert_eq(digest_parse(SMALL, &tree, NULL), 0);
	cr_assert_eq(store_set_tree(snapshots_store(s), snap.id, &tree, NULL),
		     0);
	snapshot_fini(&snap);
	fake_node_write("fault", "image.mount once 2 lost");
	lower = lower_of_container(NULL);
	cr_expect(strstr(lower, "/snapshots/"), "%s", lower);
}

/* What bootseerd has of users, by the snapshots' names and as the rest of a name. */
static void write_users(const uint64_t *ids, size_t n)
{
	const char *instance = store_instance(snapshots_store(s));
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(buf_printf(&text,
				"snapshotter/%s/x\nsnapshotter/%s/\n"
				"snapshotter/other/99\nsomebody\n",
				instance, instance),
		     0);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(buf_printf(&text, "snapshotter/%s/%llu\n",
					instance, (unsigned long long)ids[i]),
			     0);
	fake_node_write("users", text.data);
}

/* The calls of this method so far, one a line. */
static void calls_of(const char *method, struct buf *ret)
{
	AUTO_FREE char *path = fs_join(node_dir, "calls");
	AUTO_BUF all = BUF_INIT;

	buf_reset(ret);
	cr_assert_eq(buf_puts(ret, ""), 0);
	cr_assert_eq(fs_read_file(path, 1 << 20, &all, NULL), 0);
	for (char *rest = all.data, *line; (line = strsep(&rest, "\n"));)
		if (strncmp(line, method, strlen(method)) == 0)
			cr_assert_eq(buf_printf(ret, "%s\n", line), 0);
}

Test(lazy, what_bootseerd_has_mounted_for_nobody_is_released, .init = set_up,
     .fini = tear_down)
{
	const char *instance = store_instance(snapshots_store(s));
	AUTO_BUF calls = BUF_INIT;
	AUTO_BUF want = BUF_INIT;
	struct snapshot snap;
	uint64_t ids[3] = { 0, 0, 4711 };

	cr_assert_eq(pull_base("host/small:1", SMALL), -EEXIST);
	cr_assert_eq(store_get(snapshots_store(s), BASE, &snap, NULL), 0);
	ids[0] = snap.id;
	snapshot_fini(&snap);
	/* Removed, and Cleanup did not come round to it. */
	ids[1] = 4710;
	cr_assert_eq(store_garbage_add(snapshots_store(s), 4710, NULL), 0);
	write_users(ids, 3);
	cr_assert_eq(snapshots_restore(s, INT64_C(30000000000), NULL), 0);
	calls_of("image.umount", &calls);
	cr_assert_eq(buf_printf(&want,
				"image.umount {\"user\": "
				"\"snapshotter/%s/4711\"}\n",
				instance),
		     0);
	cr_expect_str_eq(calls.data, want.data);
	/* The next one, while the program runs. */
	ids[2] = 4712;
	write_users(ids, 3);
	cr_assert_eq(store_remove(snapshots_store(s), BASE, NULL), 0);
	cr_assert_eq(snapshots_cleanup(s, NULL), 0);
	calls_of("image.umount", &calls);
	cr_expect(strstr(calls.data, "/4712\"}\n"), "%s", calls.data);
}

Test(lazy, one_that_is_busy_keeps_no_other_from_its_release, .init = set_up,
     .fini = tear_down)
{
	const uint64_t ids[] = { 4711, 4712 };
	struct error err = ERROR_INIT;
	AUTO_BUF calls = BUF_INIT;

	write_users(ids, ARRAY_SIZE(ids));
	fake_node_write("fault", "image.umount once 16 somebody uses it");
	cr_expect_eq(snapshots_release_strays(s, INT64_C(30000000000), &err),
		     -EBUSY);
	cr_expect(strstr(err.msg, "somebody uses it"), "%s", err.msg);
	calls_of("image.umount", &calls);
	cr_expect(strstr(calls.data, "/4711"), "%s", calls.data);
	cr_expect(strstr(calls.data, "/4712"), "%s", calls.data);
}

Test(lazy, a_bootseerd_that_does_not_tell_its_users_is_no_failure,
     .init = set_up, .fini = tear_down)
{
	AUTO_BUF calls = BUF_INIT;

	fake_node_write("fault", "image.users 38 no such method");
	cr_assert_eq(snapshots_restore(s, INT64_C(30000000000), NULL), 0);
	cr_assert_eq(snapshots_cleanup(s, NULL), 0);
	calls_of("image.users", &calls);
	cr_expect(*calls.data);
}
