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

static void add_and_remove(const char *name, bool has_tree)
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
	cr_assert_eq(store_remove(store, name, NULL), 0);
}

Test(snapshots, cleanup_waits_once_for_a_bootseerd_that_hangs, .init = set_up,
     .fini = tear_down)
{
	struct garbage *left = NULL;
	size_t n = 0;
	int asked = 0;

	add_and_remove("a", true);
	add_and_remove("b", true);
	add_and_remove("c", false);
	add_and_remove("d", true);
	cr_assert_eq(snapshots_cleanup(s, NULL), 0);
	for (int fd; (fd = accept(silent, NULL, NULL)) >= 0; asked++)
		close(fd);
	cr_expect_eq(asked, 1);
	/* What needs no bootseerd went, the rest is tried again. */
	cr_assert_eq(store_garbage(snapshots_store(s), &left, &n, NULL), 0);
	cr_expect_eq(n, 3);
	free(left);
}
