// SPDX-License-Identifier: Apache-2.0
/* Preparing an image that is on the node: which registry requests it makes, and which answers
 * it accepts. */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "objects/oci_store.h"
#include "snapshotter/node/control/prepare.h"
#include "tests/unit/snapshotter/test_node.h"

#define D16 "0123456789abcdef"
#define D64 D16 D16 D16 D16
#define TAG "h:5000/r:t"

TestSuite(prepare, .timeout = 120);

static const char image_body[] =
	"{\"schemaVersion\":2,"
	"\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\","
	"\"config\":{\"mediaType\":\"application/vnd.oci.image.config.v1+json\","
	"\"digest\":\"sha256:" D64 "\",\"size\":2},\"layers\":[]}";

/* A fake registry with one image, which was not converted. */
static unsigned int n_asked;
static int manifest_rc;  /* result of every request for a manifest */
static int referrers_rc; /* result of the search for artifacts */
static bool is_moved;    /* every tag names another image now */
/* a manifest is sent only after the referrers were asked for */
static bool lists_first;
static unsigned int n_listed;
static sem_t listed;

static int fake_get_manifest(struct oci_store *s, const char *ref,
			     struct oci_manifest *ret, struct error *err)
{
	struct timespec until;

	n_asked++;
	cr_assert_eq(clock_gettime(CLOCK_REALTIME, &until), 0);
	until.tv_sec += 60;
	if (lists_first && sem_timedwait(&listed, &until) < 0)
		return error_set(err, ETIMEDOUT, "nobody asked for referrers");
	if (manifest_rc < 0)
		return error_set(err, -manifest_rc, "as the test wants");
	strcpy(ret->media_type, "application/vnd.oci.image.manifest.v1+json");
	cr_assert_eq(buf_puts(&ret->body, image_body), 0);
	/* With one more byte it is another image. */
	if (is_moved)
		cr_assert_eq(buf_puts(&ret->body, "\n"), 0);
	return digest_of(ret->body.data, ret->body.len, &ret->digest);
}

static int fake_open_blob(struct oci_store *s, const struct digest *d,
			  uint64_t size, struct source **ret, struct error *err)
{
	return error_set(err, ENOENT, "no blob");
}

static int fake_list_referrers(struct oci_store *s, const struct digest *d,
			       const char *artifact_type, struct digest **ret,
			       size_t *ret_n, struct error *err)
{
	*ret = NULL;
	*ret_n = 0;
	n_listed++;
	cr_assert_eq(sem_post(&listed), 0);
	return referrers_rc < 0 ? error_set(err, -referrers_rc, "no list") : 0;
}

static int fake_with_pace(struct oci_store *s, struct pace *pace,
			  struct oci_store **ret, struct error *err);

static void fake_free(struct oci_store *s)
{
	free(s);
}

static int fake_open(const struct oci_ref *ref, const struct oci_config *cfg,
		     bool create, struct oci_store **ret, struct error *err)
{
	static const struct oci_store_ops ops = {
		.name = "fake",
		.get_manifest = fake_get_manifest,
		.open_blob = fake_open_blob,
		.list_referrers = fake_list_referrers,
		.with_pace = fake_with_pace,
		.free = fake_free,
	};

	*ret = calloc(1, sizeof(**ret));
	cr_assert(*ret);
	(*ret)->ops = &ops;
	return 0;
}

static int fake_with_pace(struct oci_store *s, struct pace *pace,
			  struct oci_store **ret, struct error *err)
{
	return fake_open(NULL, NULL, false, ret, err);
}

struct prepare_fixture {
	struct test_node n;
	struct remote_call call;
	struct image *image; /* the image on the node, known by its digest */
	struct prepared got;
	struct error err;
};

static char *digest_text(const struct digest *d, const char *prefix)
{
	char hex[DIGEST_STR_MAX], *text;

	digest_format(d, hex);
	cr_assert_geq(asprintf(&text, "%s%s", prefix, hex), 0);
	return text;
}

static void setup(struct prepare_fixture *f)
{
	static char rule[] = "h:5000=registry", *rules[] = { rule, NULL };
	AUTO_FREE char *name = NULL;
	struct digest d;

	memset(f, 0, sizeof(*f));
	cr_assert_eq(sem_init(&listed, 0, 0), 0);
	test_node_open(&f->n);
	f->n.cfg.trust = rules;
	cr_assert_eq(admission_open(&f->n.cfg, NULL, &f->n.node.admission,
				    NULL),
		     0);
	f->n.node.origins =
		origins_new(&f->n.cfg, &f->n.node.is_ending, fake_open);
	cr_assert(f->n.node.origins);
	remote_call_init(&f->call, &f->n.node.is_ending, NULL, clock_now_ns(),
			 INT64_C(60000000000));
	f->image = test_node_add(&f->n, 1);
	cr_assert_eq(digest_of(image_body, strlen(image_body), &d), 0);
	name = digest_text(&d, "h:5000/r@");
	cr_assert_eq(image_set_name(f->image, name, NULL), 0);
}

static void end(struct prepare_fixture *f)
{
	images_put(f->image);
	origins_free(f->n.node.origins);
	admission_close(f->n.node.admission);
	test_node_close(&f->n);
}

static int ask(struct prepare_fixture *f, const char *ref,
	       struct remote_call *call)
{
	const struct image_query q = { .ref = ref, .call = call };

	f->err = (struct error)ERROR_INIT;
	return node_prepare(&f->n.node, &q, &f->got, &f->err);
}

static unsigned int count(const atomic_uint_fast64_t *figure)
{
	return (unsigned int)atomic_load(figure);
}

Test(prepare, of_a_digest_that_is_here_needs_no_registry)
{
	AUTO_FREE char *ref = NULL;
	struct prepare_fixture f;
	struct digest d;

	setup(&f);
	cr_assert_eq(digest_of(image_body, strlen(image_body), &d), 0);
	ref = digest_text(&d, "h:5000/r@");
	cr_assert_eq(ask(&f, ref, NULL), 0, "%s", f.err.msg);
	cr_expect_eq(f.got.image, f.image);
	cr_expect_eq(f.got.source, PREPARE_NODE);
	cr_expect(digest_equal(&f.got.manifest, &d));
	cr_expect_str_eq(f.got.scope, "h:5000");
	cr_expect_eq(n_asked, 0);
	images_put(f.got.image);
	end(&f);
}

Test(prepare, of_a_tag_is_for_a_thread_that_may_wait)
{
	struct prepare_fixture f;

	setup(&f);
	cr_expect_eq(ask(&f, TAG, NULL), -EINPROGRESS);
	cr_expect_eq(n_asked, 0);
	cr_expect_eq(count(&f.n.node.events.prepares), 0,
		     "it is asked again, and counted then");
	end(&f);
}

Test(prepare, asks_the_registry_what_a_tag_means_and_remembers_it)
{
	struct prepare_fixture f;
	struct image *i;

	setup(&f);
	cr_assert_eq(ask(&f, TAG, &f.call), 0, "%s", f.err.msg);
	cr_expect_eq(f.got.image, f.image);
	cr_expect_eq(f.got.source, PREPARE_NODE);
	cr_expect(f.got.answered);
	cr_expect_eq(n_asked, 1);
	images_put(f.got.image);
	i = images_by_name(f.n.node.images, TAG);
	cr_expect_eq(i, f.image);
	images_put(i);
	end(&f);
}

Test(prepare, takes_what_a_tag_meant_while_the_registry_is_out_of_reach)
{
	static const int out_of_reach[] = { EIO,        ETIMEDOUT,
					    EBUSY,      ECONNREFUSED,
					    ECONNRESET, EHOSTUNREACH,
					    ENETUNREACH };
	struct prepare_fixture f;

	setup(&f);
	cr_assert_eq(image_set_name(f.image, TAG, NULL), 0);
	for (size_t k = 0; k < ARRAY_SIZE(out_of_reach); k++) {
		manifest_rc = -out_of_reach[k];
		cr_assert_eq(ask(&f, TAG, &f.call), 0, "%s", f.err.msg);
		cr_expect_eq(f.got.image, f.image);
		cr_expect_eq(f.got.source, PREPARE_STALE);
		cr_expect(strstr(f.got.warning.msg, "as the test wants"), "%s",
			  f.got.warning.msg);
		images_put(f.got.image);
	}
	cr_expect_eq(count(&f.n.node.events.prepares_stale),
		     ARRAY_SIZE(out_of_reach));
	cr_expect_eq(count(&f.n.node.events.prepares_failed), 0);
	end(&f);
}

Test(prepare, obeys_a_registry_that_says_no)
{
	static const int no[] = { ENOENT, EACCES, EPROTO };
	struct prepare_fixture f;

	setup(&f);
	cr_assert_eq(image_set_name(f.image, TAG, NULL), 0);
	for (size_t k = 0; k < ARRAY_SIZE(no); k++) {
		manifest_rc = -no[k];
		cr_expect_eq(ask(&f, TAG, &f.call), -no[k]);
		cr_expect(strstr(f.err.msg, "image " TAG), "%s", f.err.msg);
	}
	cr_expect_eq(count(&f.n.node.events.prepares_stale), 0);
	cr_expect_eq(count(&f.n.node.events.prepares_failed), 2,
		     "that there is no such image is an answer");
	end(&f);
}

Test(prepare, fails_where_a_tag_was_never_heard_of)
{
	struct prepare_fixture f;

	setup(&f);
	manifest_rc = -EIO;
	cr_expect_eq(ask(&f, "h:5000/r:other", &f.call), -EIO);
	cr_expect_eq(count(&f.n.node.events.prepares_failed), 1);
	end(&f);
}

Test(prepare, is_not_stale_when_the_registry_said_that_the_tag_moved)
{
	struct prepare_fixture f;

	setup(&f);
	cr_assert_eq(image_set_name(f.image, TAG, NULL), 0);
	is_moved = true;
	referrers_rc = -EIO;
	cr_expect_eq(ask(&f, TAG, &f.call), -EIO);
	cr_expect_eq(count(&f.n.node.events.prepares_stale), 0);
	cr_expect_eq(count(&f.n.node.events.prepares_failed), 1);
	end(&f);
}

Test(prepare, of_an_image_that_was_not_converted_is_no_failure)
{
	struct prepare_fixture f;

	setup(&f);
	cr_expect_eq(ask(&f, "h:5000/plain:t", &f.call), -ENOENT);
	cr_expect_eq(count(&f.n.node.events.prepares), 1);
	cr_expect_eq(count(&f.n.node.events.prepares_failed), 0);
	end(&f);
}

Test(prepare, asks_no_registry_that_no_rule_trusts)
{
	struct prepare_fixture f;
	json_t *refusals;

	setup(&f);
	cr_expect_eq(ask(&f, "elsewhere:5000/r:t", &f.call),
		     -ADMISSION_REFUSED);
	cr_expect_eq(n_asked, 0);
	cr_expect_eq(count(&f.n.node.events.prepares_untrusted), 1);
	cr_expect_eq(count(&f.n.node.events.prepares_failed), 0);
	refusals = admission_refusals(f.n.node.admission);
	cr_assert_eq(json_array_size(refusals), 1);
	cr_expect_str_eq(json_string_value(
				 json_object_get(json_array_get(refusals, 0),
						 "image")),
			 "elsewhere:5000/r:t");
	json_decref(refusals);
	end(&f);
}

Test(prepare, is_of_registries_only)
{
	struct prepare_fixture f;

	setup(&f);
	cr_expect_eq(ask(&f, "oci:/tmp/layout", &f.call), -EINVAL);
	cr_expect(strstr(f.err.msg, "a node mounts images of registries only"),
		  "%s", f.err.msg);
	end(&f);
}

/* A round trip is saved: the digest of the image that containerd pulls is known before its
 * manifest. */
Test(prepare, of_a_known_digest_asks_for_referrers_beside_the_manifest)
{
	struct image_query q = { .ref = TAG };
	struct prepare_fixture f;
	struct digest d;
	char other[sizeof(image_body) + 1];

	setup(&f);
	/* The digest of an image that is not on the node. */
	(void)snprintf(other, sizeof(other), "%s\n", image_body);
	cr_assert_eq(digest_of(other, strlen(other), &d), 0);
	is_moved = lists_first = true;
	q.manifest = &d;
	q.call = &f.call;
	cr_expect_eq(node_prepare(&f.n.node, &q, &f.got, &f.err), -ENOENT, "%s",
		     f.err.msg);
	cr_expect(strstr(f.err.msg, "not converted"), "%s", f.err.msg);
	cr_expect_eq(n_listed, 1, "and once");
	/* If the manifest cannot be read, the search for referrers ends too. */
	manifest_rc = -EACCES;
	cr_expect_eq(node_prepare(&f.n.node, &q, &f.got, &f.err), -EACCES, "%s",
		     f.err.msg);
	end(&f);
}

Test(prepare, asks_no_registry_while_no_key_could_be_believed)
{
	static char all[] = "*=sign", *rules[] = { all, NULL };
	struct prepare_fixture f;

	setup(&f);
	admission_close(f.n.node.admission);
	f.n.cfg.trust = rules;
	f.n.cfg.trust_keys = (char *)(uintptr_t) "/nonexistent/keys.pem";
	cr_assert_eq(admission_open(&f.n.cfg, NULL, &f.n.node.admission, NULL),
		     0);
	cr_expect_eq(ask(&f, TAG, &f.call), -EKEYREJECTED, "%s", f.err.msg);
	cr_expect(strstr(f.err.msg, "no keys"), "%s", f.err.msg);
	cr_expect_eq(n_asked, 0);
	cr_expect_eq(n_listed, 0);
	end(&f);
}

static void expect_note(struct prepare_fixture *f, int rc, const char *cure)
{
	json_t *list;

	manifest_rc = rc;
	cr_expect_eq(ask(f, TAG, &f->call), rc);
	list = admission_refusals(f->n.node.admission);
	cr_assert_eq(json_array_size(list), 1);
	cr_expect(strstr(json_string_value(
				 json_object_get(json_array_get(list, 0),
						 "cure")),
			 cure));
	json_decref(list);
}

Test(prepare, notes_why_an_image_starts_the_ordinary_way)
{
	struct prepare_fixture f;
	json_t *list;

	setup(&f);
	expect_note(&f, -EACCES, "pull secrets of pods");
	expect_note(&f, -ETIMEDOUT, "can be reached");
	expect_note(&f, -EBUSY, "can be reached");
	manifest_rc = 0;
	cr_assert_eq(ask(&f, TAG, &f.call), 0, "%s", f.err.msg);
	images_put(f.got.image);
	list = admission_refusals(f.n.node.admission);
	cr_expect_eq(json_array_size(list), 0);
	json_decref(list);
	end(&f);
}
