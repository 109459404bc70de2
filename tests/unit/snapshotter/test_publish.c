// SPDX-License-Identifier: Apache-2.0
/* Artifacts in an OCI layout: publishing, finding and reusing them. */
#include "snapshotter/convert/publish.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "image/tree.h"
#include "image/writer/metadata.h"
#include "image/writer/oci_target.h"
#include "objects/oci_store.h"
#include "snapshotter/convert/convert_priv.h"
#include "snapshotter/convert/dedup_base.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define PACK_SIZE 5000

static char dir[64];
static struct oci_store *store;
static struct error err;
/* An ordinary image of one layer, with the tag "app". */
static struct digest image, chain_id;
static size_t image_len;

static struct digest put_text(const char *text)
{
	struct digest d;

	cr_assert_eq(oci_put_bytes(store, text, strlen(text), &d, &err), 0);
	return d;
}

/* Put the image, with `more` in its manifest. */
static void put_image(const char *more)
{
	static const char config[] =
		"{\"rootfs\":{\"type\":\"layers\",\"diff_ids\":["
		"\"sha256:00000000000000000000000000000000"
		"00000000000000000000000000000000\"]}}";
	static const struct digest diff_id;
	char manifest[1024], c[DIGEST_STR_MAX], l[DIGEST_STR_MAX];
	struct digest d = put_text(config);

	digest_format(&d, c);
	digest_format(&diff_id, l);
	image_len = (size_t)snprintf(
		manifest, sizeof(manifest),
		"{\"schemaVersion\":2,%s\"mediaType\":\"" MANIFEST_TYPE "\","
		"\"config\":{\"mediaType\":\"application/"
		"vnd.oci.image.config.v1+json\",\"digest\":\"%s\","
		"\"size\":%zu},\"layers\":[{\"mediaType\":\"application/"
		"vnd.oci.image.layer.v1.tar\",\"digest\":\"%s\",\"size\":1}]}",
		more, c, sizeof(config) - 1, l);
	cr_assert_eq(digest_of(manifest, image_len, &image), 0);
	cr_assert_eq(oci_chain_id(&diff_id, 1, &chain_id), 0);
	cr_assert_eq(oci_put_manifest(store, "app", MANIFEST_TYPE, manifest,
				      image_len, &err),
		     0, "%s", err.msg);
}

static void setup(void)
{
	const struct oci_config cfg = OCI_CONFIG_INIT;
	struct oci_ref ref = { .transport = OCI_TRANSPORT_LAYOUT, .repo = dir };

	(void)snprintf(dir, sizeof(dir), "/tmp/bootseer-publish.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(oci_store_open(&ref, &cfg, true, &store, &err), 0, "%s",
		     err.msg);
	put_image("");
}

static void teardown(void)
{
	oci_store_free(store);
	cr_expect_eq(fs_remove_tree(dir, &err), 0);
}

TestSuite(publish, .init = setup, .fini = teardown, .timeout = 120);

static struct digest filled(uint8_t fill)
{
	struct digest d;

	memset(d.b, fill, sizeof(d.b));
	return d;
}

/* Make a map of one block, in a pack for which it claims `size` bytes. */
static void make_map(const struct digest *block, const struct digest *pack,
		     uint64_t size, void **ret, size_t *ret_len)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct pack p = { .digest = *pack, .size = size };
	struct block b = { .digest = *block,
			   .poff = size - 4096,
			   .csize = 4096,
			   .usize = 4096,
			   .codec = BLOCK_CODEC_RAW };

	cr_assert_not_null(w);
	cr_assert_eq(blockmap_writer_pack(w, &p, &b.pack, &err), 0);
	cr_assert_eq(blockmap_writer_block(w, &b, &err), 0, "%s", err.msg);
	cr_assert_eq(blockmap_writer_finish(w, 4096, ret, ret_len, &err), 0,
		     "%s", err.msg);
}

/* Publish an artifact of the image with this map; `others` and `used` as in struct publish. */
static struct digest publish_map(const void *map, size_t len,
				 const struct digest *others, size_t n,
				 const struct digest *used)
{
	AUTO(tree) tree = tree_new();
	struct blockmap blocks = { .device_size = 0 };
	struct artifact a = {
		.format = 1, .image = image, .chunking = "c1", .n_inodes = 1
	};
	struct oci_target target;
	struct metadata metadata = { .target = &target.target,
				     .tree = tree,
				     .temp_dir = dir,
				     .map = map,
				     .map_len = len };
	struct publish p = { .store = store,
			     .artifact = &a,
			     .image_manifest_size = image_len,
			     .image_media_type = MANIFEST_TYPE,
			     .others = others,
			     .n_others = n,
			     .used = used };
	struct digest d;

	cr_assert_eq(blockmap_open(map, len, &blocks, &err), 0, "%s", err.msg);
	metadata.device_size = blocks.device_size;
	a.chain_ids = malloc(sizeof(*a.chain_ids));
	cr_assert(tree && a.chain_ids);
	a.chain_ids[a.n_chain_ids++] = chain_id;
	oci_target_init(&target, store);
	cr_assert_eq(metadata_store(&metadata, &a, &err), 0, "%s", err.msg);
	cr_assert_eq(publish_manifest(&p, NULL, &err), 0, "%s", err.msg);
	d = a.digest;
	artifact_fini(&a);
	return d;
}

static struct digest publish_block(uint8_t fill, const struct digest *others,
				   size_t n, const struct digest *used)
{
	const struct digest pack = filled(0xee), block = filled(fill);
	AUTO_FREE void *map = NULL;
	struct digest d;
	size_t len;

	make_map(&block, &pack, PACK_SIZE, &map, &len);
	d = publish_map(map, len, others, n, used);
	return d;
}

static void expect_found(const struct digest *want)
{
	struct artifact a;

	cr_assert_eq(artifact_find(store, &image, &a, &err), 0, "%s", err.msg);
	cr_expect(digest_equal(&a.digest, want));
	artifact_fini(&a);
}

Test(publish, what_was_published_can_be_fetched)
{
	struct digest d = publish_block(1, NULL, 0, NULL);
	char meta[80], map[80];
	struct artifact a;

	(void)snprintf(meta, sizeof(meta), "%s/meta", dir);
	(void)snprintf(map, sizeof(map), "%s/map", dir);
	cr_assert_eq(artifact_get(store, &d, &a, &err), 0, "%s", err.msg);
	cr_expect_null(a.replaces);
	cr_expect_eq(a.n_packs, 1);
	cr_expect_eq(a.packs[0].size, PACK_SIZE);
	cr_expect_eq(artifact_fetch(store, &a, NULL, meta, map, &err), 0, "%s",
		     err.msg);
	artifact_fini(&a);
	expect_found(&d);
}

/* Make a map of `n` blocks; their digests do not compress. */
static void make_large_map(uint32_t n, void **ret, size_t *ret_len)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct pack p = { .digest = filled(1), .size = n * UINT64_C(4096) };
	struct block b = { .csize = 4096,
			   .usize = 4096,
			   .codec = BLOCK_CODEC_RAW };

	cr_assert_not_null(w);
	cr_assert_eq(blockmap_writer_pack(w, &p, &b.pack, &err), 0);
	for (uint32_t k = 0; k < n; k++) {
		b.voff = b.poff = k * UINT64_C(4096);
		cr_assert_eq(digest_of(&k, sizeof(k), &b.digest), 0);
		cr_assert_eq(blockmap_writer_block(w, &b, &err), 0, "%s",
			     err.msg);
	}
	cr_assert_eq(blockmap_writer_finish(w, p.size, ret, ret_len, &err), 0,
		     "%s", err.msg);
}

static void expect_part(struct source *blob, const struct parts *p, uint32_t k)
{
	uint64_t off = (uint64_t)k * p->size;
	uint64_t left = blob->size - off;
	size_t len = left < p->size ? left : p->size;
	AUTO_FREE void *data = malloc(len);
	struct digest d;

	cr_assert_not_null(data);
	cr_assert_eq(source_read_buf(blob, off, data, len, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(digest_of(data, len, &d), 0);
	cr_expect(digest_equal(&d, &p->digests[k]), "part %u", k);
}

Test(publish, a_large_blob_has_parts_and_a_small_one_none)
{
	AUTO_FREE void *map = NULL;
	AUTO(source) blob = NULL;
	struct artifact a;
	struct digest d;
	size_t len;

	make_large_map(16384, &map, &len);
	d = publish_map(map, len, NULL, 0, NULL);
	cr_assert_eq(artifact_get(store, &d, &a, &err), 0, "%s", err.msg);
	cr_expect_eq(a.meta_parts.n, 0);
	cr_assert_gt(a.map.size, PARTS_SIZE_MIN);
	cr_assert_eq(a.map_parts.size, PARTS_SIZE_MIN);
	cr_assert_eq(oci_open_blob(store, &a.map.digest, a.map.size, &blob,
				   &err),
		     0, "%s", err.msg);
	for (uint32_t k = 0; k < a.map_parts.n; k++)
		expect_part(blob, &a.map_parts, k);
	artifact_fini(&a);
}

Test(publish, the_same_content_has_the_same_digest)
{
	struct digest a = publish_block(1, NULL, 0, NULL);
	struct digest b = publish_block(1, NULL, 0, NULL);

	cr_expect(digest_equal(&a, &b));
	/* The artifact exists and is used, so it replaces nothing. */
	b = publish_block(1, &a, 1, &a);
	cr_expect(digest_equal(&a, &b));
}

Test(publish, what_replaces_the_others_is_found_whichever_comes_last)
{
	struct digest all[3];

	all[0] = publish_block(1, NULL, 0, NULL);
	all[1] = publish_block(2, all, 1, &all[0]);
	expect_found(&all[1]);
	/* Publish the first artifact again: it gets a new digest, as it now replaces the second. */
	all[2] = publish_block(1, all, 2, &all[1]);
	cr_expect(!digest_equal(&all[2], &all[0]));
	expect_found(&all[2]);
	/* An artifact that does not know the others does not replace them. */
	cr_assert_eq(oci_remove_manifest(store, &all[0], &err), 0);
	(void)publish_block(1, NULL, 0, NULL);
	expect_found(&all[2]);
	/* The replaced artifacts stay, for nodes that use them. */
	cr_assert_eq(oci_remove_manifest(store, &all[2], &err), 0);
	expect_found(&all[1]);
}

/* Otherwise files of this artifact could be used for other layers. */
Test(publish, an_artifact_that_claims_chain_ids_of_other_layers_is_refused)
{
	struct artifact a;

	chain_id = filled(3);
	(void)publish_block(1, NULL, 0, NULL);
	cr_expect_eq(artifact_find(store, &image, &a, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "chain ids"), "%s", err.msg);
}

static struct digest listed;

static int pass_manifest(struct oci_store *s, const char *ref,
			 struct oci_manifest *ret, struct error *e)
{
	(void)s;
	return oci_get_manifest(store, ref, ret, e);
}

static int pass_blob(struct oci_store *s, const struct digest *d, uint64_t size,
		     struct source **ret, struct error *e)
{
	(void)s;
	return oci_open_blob(store, d, size, ret, e);
}

static int list_other(struct oci_store *s, const struct digest *d,
		      const char *artifact_type, struct digest **ret,
		      size_t *ret_n, struct error *e)
{
	(void)s;
	(void)d;
	(void)artifact_type;
	*ret = malloc(sizeof(**ret));
	if (!*ret)
		return error_nomem(e);
	**ret = listed;
	*ret_n = 1;
	return 0;
}

Test(publish, an_artifact_that_a_registry_lists_for_another_image_is_refused)
{
	static const struct oci_store_ops ops = { .name = "liar",
						  .get_manifest = pass_manifest,
						  .open_blob = pass_blob,
						  .list_referrers =
							  list_other };
	struct oci_store liar = { .ops = &ops };
	struct digest other;
	struct artifact a;

	listed = publish_block(1, NULL, 0, NULL);
	/* Another image with the same layers. */
	put_image("\"annotations\":{},");
	other = image;
	cr_expect_eq(artifact_find(&liar, &other, &a, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "another image"), "%s", err.msg);
}

/* ------------------------------------------------------------------ dedup base --- */

static uint8_t pack_bytes[PACK_SIZE];

/* Put a blob of PACK_SIZE bytes. */
static struct digest put_pack(void)
{
	struct digest d;

	for (size_t i = 0; i < sizeof(pack_bytes); i++)
		pack_bytes[i] = (uint8_t)(i * i >> 5);
	cr_assert_eq(oci_put_bytes(store, pack_bytes, sizeof(pack_bytes), &d,
				   &err),
		     0);
	return d;
}

/* The digest of the block at the end of a pack of `size` bytes. */
static struct digest last_block(uint64_t size)
{
	struct digest d = filled(9);

	if (size <= PACK_SIZE)
		cr_assert_eq(digest_of(pack_bytes + size - 4096, 4096, &d), 0);
	return d;
}

/* Would a conversion refer to this block instead of storing it? */
static bool is_known(const struct sign_terms *own, const struct digest *d)
{
	AUTO(dedup_base) base = NULL;
	struct block b;

	cr_assert_eq(dedup_base_load(store, own, &base, &err), 0, "%s",
		     err.msg);
	return dedup_base_index(base)->find(dedup_base_index(base), d, &b);
}

/* Publish an artifact whose map claims that `block` is at the end of a pack of `size` bytes. */
static struct digest publish_claim(const struct digest *block,
				   const struct digest *pack, uint64_t size)
{
	AUTO_FREE void *map = NULL;
	size_t len;

	make_map(block, pack, size, &map, &len);
	return publish_map(map, len, NULL, 0, NULL);
}

Test(publish, blocks_of_packs_that_are_there_are_used_again)
{
	struct digest pack = put_pack(), block = last_block(PACK_SIZE);
	struct digest other = filled(2);

	(void)publish_claim(&block, &pack, PACK_SIZE);
	cr_expect(is_known(NULL, &block));
	cr_expect(!is_known(NULL, &other));
}

Test(publish, blocks_beyond_the_end_of_a_pack_are_not_used_again)
{
	struct digest pack = put_pack();
	struct digest beyond = last_block(PACK_SIZE + 4096);
	struct digest shorter = last_block(PACK_SIZE - 1);
	struct digest right = last_block(PACK_SIZE);

	(void)publish_claim(&beyond, &pack, PACK_SIZE + 4096);
	(void)publish_claim(&shorter, &pack, PACK_SIZE - 1);
	(void)publish_claim(&right, &pack, PACK_SIZE);
	cr_expect(!is_known(NULL, &beyond));
	cr_expect(!is_known(NULL, &shorter));
	cr_expect(is_known(NULL, &right), "another's lie must not hide it");
}

Test(publish, blocks_of_a_pack_that_is_gone_are_not_used_again)
{
	struct digest pack = filled(7), block = filled(1);

	(void)publish_claim(&block, &pack, PACK_SIZE);
	cr_expect(!is_known(NULL, &block));
}

static void sign_claim(const struct sign_terms *terms,
		       const struct digest *artifact)
{
	struct artifact a;

	cr_assert_eq(artifact_get(store, artifact, &a, &err), 0, "%s", err.msg);
	cr_assert_eq(sign_artifact(store, &a, a.manifest_json.len, terms,
				   TRUST_CLAIM_SIGNED, &err),
		     0, "%s", err.msg);
	artifact_fini(&a);
}

Test(publish, a_block_that_is_not_at_its_place_is_only_believed_to_the_own_key)
{
	struct digest pack = put_pack(), lie = filled(1), artifact;
	AUTO(sign_key) own_key = NULL;
	AUTO(sign_key) other_key = NULL;
	struct sign_terms own = { .repository = "reg.example/app" };
	struct sign_terms wide = { .repository = "reg.example/*" };
	struct sign_terms other = own,
			  elsewhere = { .repository = "r.example/b" };

	cr_assert_eq(sign_key_new(&own_key, &err), 0);
	cr_assert_eq(sign_key_new(&other_key, &err), 0);
	own.key = elsewhere.key = wide.key = own_key;
	other.key = other_key;
	artifact = publish_claim(&lie, &pack, PACK_SIZE);
	cr_expect(!is_known(NULL, &lie));
	cr_expect(!is_known(&own, &lie));
	sign_claim(&other, &artifact);
	sign_claim(&elsewhere, &artifact);
	cr_expect(!is_known(&own, &lie), "not ours, or not for here");
	/* A map that this key signed is trusted without reading the block. */
	sign_claim(&wide, &artifact);
	cr_expect(is_known(&own, &lie));
	cr_expect(is_known(&wide, &lie));
	cr_expect(!is_known(NULL, &lie));
}

Test(publish, a_block_that_the_own_key_vouches_for_is_not_hidden_by_others)
{
	struct digest pack = put_pack(), block = last_block(PACK_SIZE);
	struct digest artifact;
	AUTO(sign_key) own_key = NULL;
	struct sign_terms own = { .repository = "reg.example/app" };

	cr_assert_eq(sign_key_new(&own_key, &err), 0);
	own.key = own_key;
	for (uint8_t k = 100; k <= 120; k++) {
		struct digest gone = filled(k);

		(void)publish_claim(&block, &gone, PACK_SIZE);
	}
	artifact = publish_claim(&block, &pack, PACK_SIZE);
	sign_claim(&own, &artifact);
	cr_expect(is_known(&own, &block));
}
