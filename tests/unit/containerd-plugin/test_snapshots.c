// SPDX-License-Identifier: Apache-2.0
/* With a socket in bootseerd's place that takes connections and says nothing. */
#include "containerd-plugin/snapshots.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/fs.h"

TestSuite(snapshots, .timeout = 60);

static char dir[] = "/tmp/bootseer-snapshots.XXXXXX";
static struct sockaddr_un addr = { .sun_family = AF_UNIX };
static int silent;
static struct snapshots *s;

static void set_up(void)
{
	struct snapshots_config config = {
		.root = dir,
		.node_socket = addr.sun_path,
		.node_timeout_ns = INT64_C(100000000),
		.layer_timeout_ns = INT64_C(100000000),
	};

	cr_assert_not_null(mkdtemp(dir));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/sock", dir);
	silent = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(silent, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(silent, 16), 0);
	cr_assert_eq(snapshots_open(&config, &s, NULL), 0);
}

static void tear_down(void)
{
	snapshots_close(s);
	close(silent);
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}

static void add(const char *name, bool has_tree)
{
	struct store *store = snapshots_store(s);
	struct snapshot snap = {
		.id = store_next_id(store),
		.name = (char *)(uintptr_t)name,
		.parent = (char *)(uintptr_t) "",
		.kind = SNAPSHOT_KIND_COMMITTED,
		.remote = has_tree,
		.has_tree = has_tree,
		.image = (char *)(uintptr_t) "host/repo:tag",
	};

	cr_assert_eq(store_insert(store, &snap, NULL), 0);
}

static void add_and_remove(const char *name, bool has_tree)
{
	add(name, has_tree);
	cr_assert_eq(store_remove(snapshots_store(s), name, NULL), 0);
}

/* Calls that came so far. */
static int asked(void)
{
	int n = 0;

	for (int fd; (fd = accept(silent, NULL, NULL)) >= 0; n++)
		close(fd);
	return n;
}

Test(snapshots, cleanup_waits_once_for_a_bootseerd_that_hangs, .init = set_up,
     .fini = tear_down)
{
	struct garbage *left = NULL;
	size_t n = 0;

	add_and_remove("a", true);
	add_and_remove("b", true);
	add_and_remove("c", false);
	add_and_remove("d", true);
	cr_assert_eq(snapshots_cleanup(s, NULL), 0);
	cr_expect_eq(asked(), 1);
	/* What needs no bootseerd went, the rest is tried again. */
	cr_assert_eq(store_garbage(snapshots_store(s), &left, &n, NULL), 0);
	cr_expect_eq(n, 3);
	free(left);
}

Test(snapshots, one_image_that_cannot_be_mounted_keeps_no_other_from_it,
     .init = set_up, .fini = tear_down)
{
	struct error err = ERROR_INIT;

	add("a", true);
	add("b", false);
	add("c", true);
	cr_expect_lt(snapshots_restore(s, INT64_C(30000000000), &err), 0);
	cr_expect(strstr(err.msg, "cannot mount the lazy image"), "%s",
		  err.msg);
	cr_expect_eq(asked(), 2);
}
