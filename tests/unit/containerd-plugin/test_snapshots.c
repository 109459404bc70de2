// SPDX-License-Identifier: Apache-2.0
/* With a socket in bootseerd's place that takes connections and says nothing. */
#include "containerd-plugin/snapshots.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

static void answer_call(int peer, const char *json)
{
	cr_assert_gt(dprintf(peer,
			     "HTTP/1.1 200 OK\r\nContent-Length: %zu"
			     "\r\n\r\n%s",
			     strlen(json), json),
		     0);
}

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
			answer_call(peer, prepared);
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

static atomic_int n_mounts, n_umounts; /* by the thread that answers */

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
			line[n] = '\0';
			answer_call(peer, answer_to(line));
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

/* ---- user namespaces ---- */

#define MAP "0:100000:65536"

/* An ordinary layer, whose folder is there. */
static void add_layer(const char *name)
{
	struct snapshot snap;
	char path[128];

	add(name, false);
	cr_assert_eq(store_get(snapshots_store(s), name, &snap, NULL), 0);
	snprintf(path, sizeof(path), "%s/snapshots/%" PRIu64, dir, snap.id);
	cr_assert_eq(mkdir(path, 0700), 0);
	strcat(path, "/fs");
	cr_assert_eq(mkdir(path, 0755), 0);
	snapshot_fini(&snap);
}

/* The options of the mount of a new snapshot, with blanks behind each; `labels` are
 * the names of labels of the mapping, with NULL behind the last. */
static char *options_of(enum snapshot_kind kind, const char *key,
			const char *parent, const char *const labels[])
{
	struct labels l = LABELS_INIT;
	struct create_request req = {
		.kind = kind, .key = key, .parent = parent, .labels = &l
	};
	struct error err = ERROR_INIT;
	struct mount m = { .type = NULL };
	AUTO_BUF text = BUF_INIT;

	for (; *labels; labels++)
		cr_assert_eq(labels_set(&l, *labels, MAP, NULL), 0);
	cr_assert_eq(snapshots_create(s, &req, NULL, &m, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(buf_printf(&text, "%s ", m.type), 0);
	for (size_t i = 0; i < m.n_options; i++)
		cr_assert_eq(buf_printf(&text, "%s ", m.options[i]), 0);
	mount_fini(&m);
	labels_fini(&l);
	return buf_steal(&text);
}

static const char *const mapped[] = { "containerd.io/snapshot/uidmapping",
				      "containerd.io/snapshot/gidmapping",
				      NULL };

Test(snapshots, a_container_in_a_user_namespace_has_its_layers_mapped,
     .init = set_up, .fini = tear_down)
{
	AUTO_FREE char *of_container = NULL;
	AUTO_FREE char *of_view = NULL;

	add_layer("base");
	of_container = options_of(SNAPSHOT_KIND_ACTIVE, "c", "base", mapped);
	cr_expect(strstr(of_container, "overlay ") == of_container &&
			  strstr(of_container, " uidmap=" MAP " ") &&
			  strstr(of_container, " gidmap=" MAP " ") &&
			  !strstr(of_container, " ro "),
		  "%s", of_container);
	/* containerd maps no bind mount that is read-only. */
	of_view = options_of(SNAPSHOT_KIND_VIEW, "v", "base", mapped);
	cr_expect(strstr(of_view, "overlay ") == of_view &&
			  strstr(of_view, " uidmap=" MAP " ") &&
			  strstr(of_view, " gidmap=" MAP " ") &&
			  strstr(of_view, " ro "),
		  "%s", of_view);
}

/* What lies in it is the container's, and has the host's ids. */
Test(snapshots, nothing_is_mapped_where_no_layer_is, .init = set_up,
     .fini = tear_down)
{
	AUTO_FREE char *options =
		options_of(SNAPSHOT_KIND_ACTIVE, "c", "", mapped);

	cr_expect(!strstr(options, "uidmap"), "%s", options);
}

/* Else what a manifest says would give a layer of many images a stranger's owner. */
Test(snapshots, a_layer_is_unpacked_without_the_mappings_that_its_image_names,
     .init = set_up, .fini = tear_down)
{
	static const char *const labels[] = {
		"containerd.io/snapshot.ref",
		"containerd.io/snapshot/uidmapping",
		"containerd.io/snapshot/gidmapping", NULL
	};
	AUTO_FREE char *with_ref = NULL;
	AUTO_FREE char *without = NULL;
	struct stat st;
	char path[128];

	add_layer("base");
	with_ref = options_of(SNAPSHOT_KIND_ACTIVE,
			      "default/1/extract-1 sha256:x", "base", labels);
	without = options_of(SNAPSHOT_KIND_ACTIVE,
			     "default/2/extract-2 sha256:x", "", labels + 1);
	cr_expect(!strstr(with_ref, "uidmap"), "%s", with_ref);
	cr_expect(!strstr(without, "uidmap"), "%s", without);
	for (int id = 2; id <= 3; id++) {
		snprintf(path, sizeof(path), "%s/snapshots/%d/fs", dir, id);
		cr_assert_eq(stat(path, &st), 0);
		cr_expect_eq(st.st_uid, 0);
	}
}

/* By a client that knows of no mapping: what it made has the host's ids already. */
Test(snapshots, an_image_that_was_chowned_is_not_mapped_once_more,
     .init = set_up, .fini = tear_down)
{
	static const char *const none[] = { NULL };
	struct labels labels = LABELS_INIT;
	AUTO_FREE char *in_between = NULL;
	AUTO_FREE char *options = NULL;

	add_layer("base");
	in_between = options_of(SNAPSHOT_KIND_ACTIVE, "ns/1/sha256:x-remap",
				"base", none);
	cr_assert_eq(snapshots_note_shifted("ns/1/sha256:x-remap", &labels,
					    NULL),
		     0);
	cr_assert_eq(store_commit(snapshots_store(s), "ns/1/sha256:x-remap",
				  "ns/2/sha256:x", "", &labels, NULL),
		     0);
	options =
		options_of(SNAPSHOT_KIND_ACTIVE, "c", "ns/2/sha256:x", mapped);
	cr_expect(!strstr(options, "uidmap"), "%s", options);
	labels_fini(&labels);
	/* That of a container is not one of these. */
	cr_assert_eq(snapshots_note_shifted("ns/1/my-remap", &labels, NULL), 0);
	cr_expect_eq(labels.n, 0);
	labels_fini(&labels);
}
