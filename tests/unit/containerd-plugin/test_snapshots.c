// SPDX-License-Identifier: Apache-2.0
/* With a socket in bootseerd's place that takes connections and says nothing. */
#include "containerd-plugin/snapshots.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/fs.h"

TestSuite(snapshots, .timeout = 120);

static char dir[] = "/tmp/bootseer-snapshots.XXXXXX";
static struct sockaddr_un addr = { .sun_family = AF_UNIX };
static int silent;
static struct snapshots *s;

static void set_up_with(int64_t timeout_ns)
{
	struct snapshots_config config = {
		.root = dir,
		.node_socket = addr.sun_path,
		.node_timeout_ns = timeout_ns,
		.layer_timeout_ns = timeout_ns,
	};

	cr_assert_not_null(mkdtemp(dir));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/sock", dir);
	silent = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(silent, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(silent, 16), 0);
	cr_assert_eq(snapshots_open(&config, &s, NULL), 0);
}

static void set_up(void)
{
	set_up_with(INT64_C(100000000));
}

/* Of a bootseerd that does answer. */
static void set_up_patient(void)
{
	set_up_with(INT64_C(60000000000));
	cr_assert_eq(fcntl(silent, F_SETFL, 0), 0);
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
	/* For the two, and for the users that it has. */
	cr_expect_eq(asked(), 3);
}

/* ---- a bootseerd that knows an image and does not come round to mounting it -- */

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define CHAIN \
	"sha256:" \
	"1111111111111111111111111111111111111111111111111111111111111111"

static void *serve(void *arg)
{
	static const char prepared[] =
		"{\"bootseer\":1,\"result\":{\"id\":\"sha256:" ZEROS
		"\",\"manifest\":\"sha256:" ZEROS "\",\"chain_ids\":[\"" CHAIN
		"\"],\"source\":\"node\",\"scope\":\"\"}}\n";
	const int *fd = arg;
	char line[4096];
	int peer;

	while ((peer = accept(*fd, NULL, NULL)) >= 0) {
		ssize_t n = read(peer, line, sizeof(line) - 1);

		line[n > 0 ? n : 0] = '\0';
		if (strstr(line, "image.prepare"))
			cr_assert_eq(write(peer, prepared,
					   sizeof(prepared) - 1),
				     sizeof(prepared) - 1);
		/* Anything else is waited for in vain. */
		while (read(peer, line, sizeof(line)) > 0)
			;
		close(peer);
	}
	return NULL;
}

static void label(struct labels *l)
{
	cr_assert_eq(labels_set(l, LABEL_SNAPSHOT_REF, CHAIN, NULL), 0);
	cr_assert_eq(labels_set(l, "containerd.io/snapshot/cri.image-ref",
				"host/repo:tag", NULL),
		     0);
}

/* The layer is there as a lower one of some image; now one has it on top. */
static int prepare_top(struct error *err)
{
	struct store *store = snapshots_store(s);
	struct labels labels = LABELS_INIT;
	struct snapshot snap = {
		.id = store_next_id(store),
		.name = (char *)(uintptr_t)CHAIN,
		.parent = (char *)(uintptr_t) "",
		.kind = SNAPSHOT_KIND_COMMITTED,
		.remote = true,
		.image = (char *)(uintptr_t) "host/repo:tag",
	};
	struct create_request req = {
		.kind = SNAPSHOT_KIND_ACTIVE,
		.key = "extract",
		.parent = "",
		.labels = &labels,
	};
	struct mount m = { .type = NULL };
	int rc;

	label(&labels);
	snap.labels = labels;
	cr_assert_eq(store_insert(store, &snap, NULL), 0);
	rc = snapshots_create(s, &req, NULL, &m, err);
	mount_fini(&m);
	labels_fini(&labels);
	return rc;
}

Test(snapshots, what_may_be_mounted_is_unmounted_with_its_snapshot,
     .init = set_up, .fini = tear_down)
{
	struct garbage *left = NULL;
	struct error err = ERROR_INIT;
	pthread_t thread;
	size_t n = 0;

	cr_assert_eq(fcntl(silent, F_SETFL, 0), 0);
	cr_assert_eq(pthread_create(&thread, NULL, serve, &silent), 0);
	cr_expect_eq(prepare_top(&err), -EEXIST, "%s", err.msg);
	cr_assert_eq(store_remove(snapshots_store(s), CHAIN, NULL), 0);
	cr_assert_eq(store_garbage(snapshots_store(s), &left, &n, NULL), 0);
	cr_assert_eq(n, 1);
	cr_expect(left[0].has_tree);
	free(left);
	(void)shutdown(silent, SHUT_RDWR);
	pthread_join(thread, NULL);
}

/* ---- one that mounts when the snapshot has just been removed and cleaned up ---- */

static int n_mounts, n_umounts;

static const char *answer_to(const char *line)
{
	if (strstr(line, "image.prepare"))
		return "{\"bootseer\":1,\"result\":{\"id\":\"sha256:" ZEROS
		       "\",\"manifest\":\"sha256:" ZEROS
		       "\",\"chain_ids\":[\"" CHAIN
		       "\"],\"source\":\"node\",\"scope\":\"\"}}\n";
	if (strstr(line, "image.umount")) {
		n_umounts++;
		return "{\"bootseer\":1,\"result\":{\"released\":1}}\n";
	}
	cr_assert(strstr(line, "image.mount"), "%s", line);
	if (n_mounts++ == 0) {
		struct garbage *left = NULL;
		size_t n = 0;

		cr_assert_eq(store_remove(snapshots_store(s), CHAIN, NULL), 0);
		cr_assert_eq(store_garbage(snapshots_store(s), &left, &n, NULL),
			     0);
		cr_assert_eq(n, 1);
		cr_assert_eq(store_garbage_done(snapshots_store(s), left[0].id,
						NULL),
			     0);
		free(left);
	}
	return "{\"bootseer\":1,\"result\":{\"path\":\"/tree\",\"mode\":\"lazy\","
	       "\"scope\":\"\"}}\n";
}

static void *serve_late(void *arg)
{
	const int *fd = arg;
	char line[4096];
	int peer;

	while ((peer = accept(*fd, NULL, NULL)) >= 0) {
		ssize_t n;

		while ((n = read(peer, line, sizeof(line) - 1)) > 0) {
			const char *text;

			line[n] = '\0';
			text = answer_to(line);
			cr_assert_eq(write(peer, text, strlen(text)),
				     (ssize_t)strlen(text));
		}
		close(peer);
	}
	return NULL;
}

Test(snapshots,
     what_was_mounted_for_a_snapshot_that_went_meanwhile_is_unmounted,
     .init = set_up_patient, .fini = tear_down)
{
	struct error err = ERROR_INIT;
	struct snapshot snap;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, serve_late, &silent), 0);
	/* It is put there anew, and mounted for that one. */
	cr_expect_eq(prepare_top(&err), -EEXIST, "%s", err.msg);
	cr_expect_eq(n_mounts, 2);
	cr_expect_eq(n_umounts, 1);
	cr_assert_eq(store_get(snapshots_store(s), CHAIN, &snap, NULL), 0);
	cr_expect(snap.has_tree);
	snapshot_fini(&snap);
	(void)shutdown(silent, SHUT_RDWR);
	pthread_join(thread, NULL);
}
