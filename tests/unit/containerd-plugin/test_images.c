// SPDX-License-Identifier: Apache-2.0
/* Against the fake bootseerd, which notes each call. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "containerd-plugin/images.h"
#include "tests/unit/containerd-plugin/node_fixture.h"

TestSuite(images, .timeout = 120);

#define CHAIN0 \
	"sha256:00000000000000000000000000000000000000000000000000000000000000aa"
#define CHAIN1 \
	"sha256:00000000000000000000000000000000000000000000000000000000000000bb"
#define DIGEST \
	"sha256:00000000000000000000000000000000000000000000000000000000000000cc"
#define OTHER \
	"sha256:00000000000000000000000000000000000000000000000000000000000000dd"

static struct image_lookup *im;

static void set_up(void)
{
	struct images_config config = { .socket = node_sock,
					.instance = "test",
					.timeout_ns = INT64_C(5000000000),
					.layer_timeout_ns =
						INT64_C(5000000000) };

	fake_node_dir();
	fake_node_write("images.json",
			"[{\"ref\": \"host/repo:tag\", \"manifest\": \"" DIGEST
			"\", \"id\": \"" DIGEST "\", \"tree\": \"/tree\", "
			"\"chain_ids\": [\"" CHAIN0 "\", \"" CHAIN1 "\"]}]");
	fake_node_start();
	cr_assert_eq(images_new(&config, &im, NULL), 0);
}

static void tear_down(void)
{
	images_free(im);
	fake_node_stop();
	fake_node_remove();
}

static int calls(const char *method)
{
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF text = BUF_INIT;
	int n = 0;

	cr_assert_eq(buf_printf(&path, "%s/calls", node_dir), 0);
	if (fs_read_file(path.data, 1 << 20, &text, NULL) < 0)
		return 0;
	for (const char *p = text.data; (p = strstr(p, method)); p++)
		n++;
	return n;
}

static enum images_answer find(const char *ref, const char *chain,
			       const char *parent, struct image_layer *ret,
			       struct error *err)
{
	struct labels l = LABELS_INIT;
	enum images_answer answer;

	if (ref)
		cr_assert_eq(labels_set(&l,
					"containerd.io/snapshot/remote/"
					"stargz.reference",
					ref, NULL),
			     0);
	cr_assert_eq(labels_set(&l, LABEL_SNAPSHOT_REF, chain, NULL), 0);
	answer = images_find(im, &l, parent, NULL, ret, err);
	labels_fini(&l);
	return answer;
}

Test(images, layers_are_lazy_at_their_place_only, .init = set_up,
     .fini = tear_down)
{
	struct image_layer got;
	struct error err = ERROR_INIT;

	cr_assert_eq(find("host/repo:tag", CHAIN0, "", &got, &err),
		     IMAGES_LAZY);
	cr_expect_str_eq(got.image, "host/repo:tag");
	cr_expect_eq(got.layer, 0);
	cr_expect_not(got.is_top);
	free(got.image);
	cr_assert_eq(find("host/repo:tag", CHAIN1, CHAIN0, &got, &err),
		     IMAGES_LAZY);
	cr_expect(got.is_top);
	free(got.image);
	cr_expect_eq(calls("image.prepare"), 1);
	cr_expect_eq(find("host/repo:tag", CHAIN1, "", &got, &err),
		     IMAGES_UNKNOWN);
	cr_expect_eq(find("host/repo:tag", CHAIN0, CHAIN1, &got, &err),
		     IMAGES_UNKNOWN);
	cr_expect_eq(find("host/repo:tag", OTHER, CHAIN1, &got, &err),
		     IMAGES_UNKNOWN);
	cr_expect(strstr(err.msg, "host/repo:tag"));
}

Test(images, what_names_no_image_or_none_with_an_artifact_is_ordinary,
     .init = set_up, .fini = tear_down)
{
	struct image_layer got;

	cr_expect_eq(find(NULL, CHAIN0, "", &got, NULL), IMAGES_ORDINARY);
	cr_expect_eq(find("host/repo:tag", "nonsense", "", &got, NULL),
		     IMAGES_ORDINARY);
	cr_expect_eq(calls("image.prepare"), 0);
	cr_expect_eq(find("host/other:tag", CHAIN0, "", &got, NULL),
		     IMAGES_ORDINARY);
	cr_expect_eq(find("host/other:tag", CHAIN1, CHAIN0, &got, NULL),
		     IMAGES_ORDINARY);
	cr_expect_eq(calls("image.prepare"), 1);
}

/* ctr-remote and nerdctl set stargz's label only: the other is the manifest's own. */
Test(images, a_layer_that_names_two_images_is_of_none, .init = set_up,
     .fini = tear_down)
{
	struct labels l = LABELS_INIT;
	struct layer_source source;
	struct image_layer got;
	struct digest manifest;

	cr_assert_eq(labels_set(&l, LABEL_SNAPSHOT_REF, CHAIN0, NULL), 0);
	cr_assert_eq(labels_set(&l, "containerd.io/snapshot/cri.image-ref",
				"host/repo:tag", NULL),
		     0);
	cr_assert_eq(labels_set(&l,
				"containerd.io/snapshot/remote/"
				"stargz.reference",
				"host/stranger:tag", NULL),
		     0);
	cr_expect_eq(images_find(im, &l, "", NULL, &got, NULL),
		     IMAGES_ORDINARY);
	cr_expect_not(images_named(&l, &manifest, &source));
	cr_expect_eq(calls("image.prepare"), 0);
	cr_assert_eq(labels_set(&l,
				"containerd.io/snapshot/remote/"
				"stargz.reference",
				"host/repo:tag", NULL),
		     0);
	cr_expect_eq(images_find(im, &l, "", NULL, &got, NULL), IMAGES_LAZY);
	free(got.image);
	labels_fini(&l);
}

static void *find_in_thread(void *arg)
{
	struct image_layer got = { .image = NULL };

	cr_expect_eq(find("host/repo:tag", CHAIN0, "", &got, NULL),
		     IMAGES_LAZY);
	free(got.image);
	return NULL;
}

Test(images, many_threads_ask_once, .init = set_up, .fini = tear_down)
{
	pthread_t threads[16];

	for (int i = 0; i < 16; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, find_in_thread,
					    NULL),
			     0);
	for (int i = 0; i < 16; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(calls("image.prepare"), 1);
}

Test(images, more_images_than_are_remembered_are_answered, .init = set_up,
     .fini = tear_down)
{
	struct image_layer got;
	char ref[32];

	for (int i = 0; i < 300; i++) {
		snprintf(ref, sizeof(ref), "host/repo:%d", i);
		cr_assert_eq(find(ref, CHAIN0, "", &got, NULL),
			     IMAGES_ORDINARY);
	}
	cr_expect_eq(calls("image.prepare"), 300);
}

/* A thread that is for nobody's registry is not held up by one. */
Test(images, what_has_to_be_asked_is_asked_in_the_turn_of_its_host,
     .init = set_up, .fini = tear_down)
{
	struct turn turn = { .kind = TURN_LOCAL };
	struct labels l = LABELS_INIT;
	struct image_layer got = { .image = NULL };
	struct error err = ERROR_INIT;

	cr_assert_eq(labels_set(&l,
				"containerd.io/snapshot/remote/"
				"stargz.reference",
				"HOST:1/repo:tag", NULL),
		     0);
	cr_assert_eq(labels_set(&l, LABEL_SNAPSHOT_REF, CHAIN0, NULL), 0);
	cr_expect_eq(images_find(im, &l, "", &turn, &got, &err), IMAGES_LATER);
	cr_expect_eq(turn.kind, TURN_ASK);
	cr_expect_str_eq(turn.host, "host");
	cr_expect_eq(calls("image.prepare"), 0);
	turn_refuse(&turn);
	cr_expect_eq(turn.kind, TURN_LOCAL);
	cr_expect_eq(images_find(im, &l, "", &turn, &got, &err),
		     IMAGES_UNKNOWN);
	cr_expect(strstr(err.msg, "registry host already"), "%s", err.msg);
	turn.kind = TURN_ASK;
	cr_expect_eq(images_find(im, &l, "", &turn, &got, &err),
		     IMAGES_ORDINARY);
	/* What is remembered needs no turn. */
	turn.kind = TURN_LOCAL;
	cr_expect_eq(images_find(im, &l, "", &turn, &got, &err),
		     IMAGES_ORDINARY);
	cr_expect_eq(calls("image.prepare"), 1);
	labels_fini(&l);
}

Test(images, a_bootseerd_that_is_away_is_told, .init = set_up,
     .fini = tear_down)
{
	struct error err = ERROR_INIT;
	struct image_layer got;
	struct digest d;
	char *path;

	cr_assert_eq(digest_parse(DIGEST, &d, NULL), 0);
	fake_node_stop();
	cr_expect_eq(find("host/repo:tag", CHAIN0, "", &got, &err),
		     IMAGES_UNKNOWN);
	cr_expect(strstr(err.msg, "bootseerd"));
	cr_expect_eq(images_mount(im, &d, 7, 0, &path, &err), -EHOSTDOWN);
	fake_node_start();
	cr_assert_eq(images_mount(im, &d, 7, 0, &path, &err), 0, "%s", err.msg);
	cr_expect_str_eq(path, "/tree");
	free(path);
	cr_expect_eq(images_umount(im, &d, 7, &err), 0);
	cr_expect_eq(calls("snapshotter/test/7"), 2);
	fake_node_write("fault", "image.mount 5 it is gone");
	cr_expect_eq(images_mount(im, &d, 7, 0, &path, &err), -EHOSTDOWN);
	cr_expect(strstr(err.msg, "it is gone"));
}

Test(images, what_bootseerd_has_forgotten_is_asked_for_again, .init = set_up,
     .fini = tear_down)
{
	struct error err = ERROR_INIT;
	struct image_layer got;
	struct digest d;
	char *path;

	cr_assert_eq(digest_parse(DIGEST, &d, NULL), 0);
	cr_assert_eq(find("host/repo:tag", CHAIN0, "", &got, &err),
		     IMAGES_LAZY);
	free(got.image);
	fake_node_write("fault", "image.mount 2 node gc took it");
	cr_expect_eq(images_mount(im, &d, 7, 0, &path, &err), -ESTALE);
	cr_expect_eq(err.code, ESTALE);
	cr_expect(strstr(err.msg, "node gc took it"));
	cr_assert_eq(find("host/repo:tag", CHAIN0, "", &got, &err),
		     IMAGES_LAZY);
	free(got.image);
	cr_expect_eq(calls("image.prepare"), 2);
}

Test(images, a_mount_without_an_answer_is_an_open_question, .init = set_up,
     .fini = tear_down)
{
	struct error err = ERROR_INIT;
	struct digest d;
	char *path;

	cr_assert_eq(digest_parse(DIGEST, &d, NULL), 0);
	fake_node_write("fault", "image.mount hang");
	cr_expect_eq(images_mount(im, &d, 7, INT64_C(50000000), &path, &err),
		     -EINPROGRESS);
	cr_expect_eq(err.code, EINPROGRESS);
	cr_expect(strstr(err.msg, "no answer"), "%s", err.msg);
}

Test(turn, a_host_without_a_place_is_no_reason_to_do_without_another)
{
	struct turn t = { .kind = TURN_LOCAL };
	struct error err = ERROR_INIT;
	char host[32];

	cr_expect_eq(turn_need(&t, TURN_UNPACK, "one/app:1", &err), -ERESTART);
	turn_refuse(&t);
	cr_expect_eq(turn_need(&t, TURN_UNPACK, "one/app:1", &err), -EHOSTDOWN);
	cr_expect_eq(turn_need(&t, TURN_ASK, "one/app:1", &err), -ERESTART);
	cr_expect_eq(turn_need(&t, TURN_UNPACK, "two/app:1", &err), -ERESTART);
	cr_expect_eq(turn_need(&t, TURN_UNPACK, "two/app:1", &err), 0);
	t.kind = TURN_LOCAL;
	cr_expect_eq(turn_need_layer(&t, 5, "one/app:1", 1, &err), -ERESTART);
	turn_refuse(&t);
	cr_expect_eq(turn_need_layer(&t, 5, "one/app:1", 1, &err), -EHOSTDOWN);
	cr_expect_eq(turn_need_layer(&t, 5, "two/app:1", 1, &err), -ERESTART);
	cr_expect_eq(turn_need_layer(&t, 6, "one/app:1", 1, &err), -ERESTART);
	/* However many hosts there are, it comes to an end. */
	for (int i = 0; i < TURN_REFUSED_MAX; i++) {
		snprintf(host, sizeof(host), "many%d/app:1", i);
		if (turn_need(&t, TURN_START, host, &err) == -ERESTART)
			turn_refuse(&t);
	}
	cr_expect_eq(turn_need(&t, TURN_START, "else/app:1", &err), -EHOSTDOWN);
}
