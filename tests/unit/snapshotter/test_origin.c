// SPDX-License-Identifier: Apache-2.0
/* Repositories, leases of their stores, and sources of packs, with fake stores. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blockstore/blockstore.h"
#include "common/registry_host.h"
#include "objects/oci_store.h"
#include "objects/source.h"
#include "snapshotter/node/images/origin.h"

TestSuite(origin, .timeout = 120);

/* A store whose blobs tell by which store they were opened. */
struct fake_store {
	struct oci_store base;
	unsigned int number;
	/* the pace of a lease for one call; NULL: of the whole store */
	const struct pace *pace;
};

struct fake_blob {
	struct source base;
	unsigned int number; /* number of its store */
};

/* Each test has a process of its own, so these begin at 0. */
static unsigned int n_opened, n_stores, n_blobs;
static char last_host[64], last_repo[64];
static bool last_plain;
static const struct pace *node_pace;
static int open_rc;

static int fake_blob_read(struct source *s, const struct source_req *req,
			  struct source_sink *sink, struct error *err)
{
	const struct fake_blob *b = container_of(s, struct fake_blob, base);
	unsigned char byte = (unsigned char)b->number;

	return sink->put(sink, req->off, &byte, 1, err);
}

static void fake_blob_free(struct source *s)
{
	n_blobs--;
	free(container_of(s, struct fake_blob, base));
}

static int fake_open_blob(struct oci_store *s, const struct digest *d,
			  uint64_t size, struct source **ret, struct error *err)
{
	static const struct source_ops ops = { .name = "fake",
					       .read = fake_blob_read,
					       .free = fake_blob_free };
	struct fake_blob *b = calloc(1, sizeof(*b));

	cr_assert(b);
	b->base.ops = &ops;
	b->base.size = size;
	b->number = container_of(s, struct fake_store, base)->number;
	n_blobs++;
	*ret = &b->base;
	return 0;
}

static int fake_with_pace(struct oci_store *s, struct pace *pace,
			  struct oci_store **ret, struct error *err);

static void fake_free(struct oci_store *s)
{
	n_stores--;
	free(container_of(s, struct fake_store, base));
}

static const struct oci_store_ops fake_ops = { .name = "fake",
					       .open_blob = fake_open_blob,
					       .with_pace = fake_with_pace,
					       .free = fake_free };

static struct oci_store *fake_new(unsigned int number, const struct pace *pace)
{
	struct fake_store *s = calloc(1, sizeof(*s));

	cr_assert(s);
	*s = (struct fake_store){ .base = { .ops = &fake_ops },
				  .number = number,
				  .pace = pace };
	n_stores++;
	return &s->base;
}

static int fake_with_pace(struct oci_store *s, struct pace *pace,
			  struct oci_store **ret, struct error *err)
{
	*ret = fake_new(container_of(s, struct fake_store, base)->number, pace);
	return 0;
}

static int fake_open(const struct oci_ref *ref, const struct oci_config *cfg,
		     bool create, struct oci_store **ret, struct error *err)
{
	if (open_rc < 0)
		return error_set(err, -open_rc, "as the test wants");
	snprintf(last_host, sizeof(last_host), "%s", ref->host);
	snprintf(last_repo, sizeof(last_repo), "%s", ref->repo);
	last_plain = cfg->plain_http;
	node_pace = cfg->pace;
	*ret = fake_new(++n_opened, NULL);
	return 0;
}

static char plain_host[] = "plain:5000";
static char *plain_hosts[] = { plain_host, NULL };
static const struct node_config cfg = { .plain_http = plain_hosts };
static atomic_bool is_ending;

static struct origins *new_origins(void)
{
	struct origins *o = origins_new(&cfg, &is_ending, fake_open);

	cr_assert(o);
	return o;
}

static struct origin *get(struct origins *all, const char *host,
			  const char *repo)
{
	struct origin *o;

	cr_assert_eq(origin_get(all, host, repo, false, &o, NULL), 0);
	return o;
}

static struct store_lease *lease_of(struct origin *o)
{
	struct store_lease *l;

	cr_assert_eq(origin_lease(o, &l, NULL), 0);
	return l;
}

Test(origin, is_one_for_all_images_of_a_repository)
{
	struct origins *all = new_origins();
	struct origin *a = get(all, "h:1", "r"), *b = get(all, "h:1", "r");
	struct origin *c = get(all, "h:1", "s"), *d = get(all, "h:2", "r");

	cr_expect_eq(a, b);
	cr_expect_neq(a, c);
	cr_expect_neq(a, d);
	cr_expect_eq(n_opened, 0, "nothing is opened before it is used");
	origin_put(a);
	origin_put(b);
	origin_put(c);
	origin_put(d);
	origins_free(all);
}

Test(origin, speaks_plain_http_where_the_operator_or_the_image_says_so)
{
	struct origins *all = new_origins();
	struct origin *named = get(all, "plain:5000", "r");
	struct origin *other = get(all, "h:1", "r"), *asked;
	struct store_lease *l;

	cr_assert_eq(origin_get(all, "h:1", "r", true, &asked, NULL), 0);
	cr_expect_neq(asked, other);
	l = lease_of(named);
	cr_expect_str_eq(last_host, "plain:5000");
	cr_expect_str_eq(last_repo, "r");
	cr_expect(last_plain);
	store_lease_end(l);
	l = lease_of(other);
	cr_expect_not(last_plain);
	store_lease_end(l);
	l = lease_of(asked);
	cr_expect(last_plain);
	store_lease_end(l);
	origin_put(named);
	origin_put(other);
	origin_put(asked);
	origins_free(all);
}

Test(origin, shares_one_store_until_the_last_use_is_over)
{
	struct origins *all = new_origins();
	struct origin *o = get(all, "h:1", "r");
	struct store_lease *a = lease_of(o), *b = lease_of(o);

	cr_expect_eq(n_opened, 1);
	cr_expect_eq(a->store, b->store);
	store_lease_end(a);
	origin_put(o);
	cr_expect_eq(n_stores, 1, "it is in use, though the image is gone");
	store_lease_end(b);
	cr_expect_eq(n_stores, 0);
	origins_free(all);
}

Test(origin, opens_a_new_store_after_a_reload_and_keeps_the_old_for_its_users)
{
	struct origins *all = new_origins();
	struct origin *o = get(all, "h:1", "r");
	struct store_lease *old = lease_of(o), *new;

	origins_reload(all);
	new = lease_of(o);
	cr_expect_neq(new->store, old->store);
	cr_expect_eq(n_opened, 2);
	cr_expect_eq(n_stores, 2);
	store_lease_end(old);
	cr_expect_eq(n_stores, 1);
	store_lease_end(new);
	origin_put(o);
	cr_expect_eq(n_stores, 0);
	origins_free(all);
}

Test(origin, that_cannot_be_opened_is_tried_again)
{
	struct origins *all = new_origins();
	struct origin *o = get(all, "h:1", "r");
	struct error err = ERROR_INIT;
	struct store_lease *l;

	open_rc = -EACCES;
	cr_expect_eq(origin_lease(o, &l, &err), -EACCES);
	cr_expect_str_eq(err.msg, "as the test wants");
	open_rc = 0;
	store_lease_end(lease_of(o));
	origin_put(o);
	origins_free(all);
}

Test(origin, gives_one_call_a_part_of_the_store_that_its_pace_ends)
{
	struct pace pace = { .is_urgent = true };
	struct origins *all = new_origins();
	struct origin *o = get(all, "h:1", "r");
	struct store_lease *part, *whole = lease_of(o);

	cr_assert_eq(origin_lease_paced(o, &pace, &part, NULL), 0);
	cr_expect_neq(part->store, whole->store);
	cr_expect_eq(container_of(part->store, struct fake_store, base)->pace,
		     &pace);
	cr_expect_eq(n_opened, 1);
	store_lease_end(whole);
	origin_put(o);
	cr_expect_eq(n_stores, 2);
	store_lease_end(part);
	cr_expect_eq(n_stores, 0);
	origins_free(all);
}

Test(origin, requests_that_nobody_would_stop_end_with_the_node)
{
	struct origins *all = new_origins();
	struct origin *o = get(all, "h:1", "r");
	struct pace *pace;

	store_lease_end(lease_of(o));
	pace = (struct pace *)(uintptr_t)node_pace;
	cr_assert(pace);
	cr_expect_eq(pace_level(pace), PACE_GO);
	atomic_store(&is_ending, true);
	cr_expect_eq(pace_level(pace), PACE_STOP);
	origin_put(o);
	origins_free(all);
}

struct byte_sink {
	struct source_sink base;
	unsigned int byte;
};

static int byte_put(struct source_sink *s, uint64_t pos, const void *data,
		    size_t len, struct error *err)
{
	container_of(s, struct byte_sink, base)->byte =
		*(const unsigned char *)data;
	return 0;
}

/* Read from the pack; returns the number of the store that was read. */
static unsigned int read_pack(struct source *s)
{
	struct byte_sink sink = { .base = { .put = byte_put } };
	const struct source_req req = { .off = 0, .len = 1 };

	cr_assert_eq(source_read(s, &req, &sink.base, NULL), 0);
	return sink.byte;
}

Test(origin, packs_follow_it_to_a_new_store_and_open_their_blob_once)
{
	struct oci_descriptor packs[] = { { .size = 10 }, { .size = 20 } };
	const struct artifact a = { .packs = packs, .n_packs = 2 };
	struct origins *all = new_origins();
	struct origin *o = get(all, "h:1", "r");
	const struct blockmap map = { .n_packs = 2 };
	struct source **s;

	cr_assert_eq(origin_packs(o, &a, "/nowhere", &map, &s, NULL), 0);
	origin_put(o);
	cr_expect_eq(s[0]->size, 10);
	cr_expect_eq(s[1]->size, 20);
	cr_expect_eq(n_opened, 0, "nothing is opened before it is read");
	cr_expect_eq(read_pack(s[0]), 1);
	cr_expect_eq(read_pack(s[0]), 1);
	cr_expect_eq(n_blobs, 1);
	origins_reload(all);
	cr_expect_eq(read_pack(s[0]), 2);
	cr_expect_eq(n_blobs, 1, "that of the store before is closed");
	cr_expect_eq(n_stores, 1);
	source_free(s[0]);
	source_free(s[1]);
	free(s);
	cr_expect_eq(n_stores, 0);
	cr_expect_eq(n_blobs, 0);
	origins_free(all);
}

static void expect_place(const char *host, const char *repo, const char *want)
{
	AUTO_FREE char *got = origin_place(host, repo);

	cr_assert(got);
	cr_expect_str_eq(got, want, "%s", host);
}

Test(origin, of_which_rights_speak_is_a_repository_or_a_whole_store)
{
	expect_place("h:5000", "team/app", "h:5000/team/app");
	expect_place("s3://b/env", "f", "s3://b/env");
	expect_place("s3://b/env//", "f", "s3://b/env");
	/* Options may contain secrets, and are not part of the store's name. */
	expect_place("s3://b/env?endpoint=http://h:1&key=k", "f", "s3://b/env");
	/* '#' is an ordinary character of the path: another store than "s3://b/env". */
	expect_place("s3://b/env#secret", "f", "s3://b/env#secret");
	expect_place("file:///a/b", "f", "file:///a/b");
	expect_place("file:/a/b/", "f", "file:///a/b");
	cr_expect(registry_host_is_store("file:/a/b"));
	cr_expect_not(registry_host_is_store("h:5000"));
}
