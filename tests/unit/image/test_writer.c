// SPDX-License-Identifier: Apache-2.0
/* A tree to a store and back: names, attributes and every byte. */
#include "image/writer/writer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "image/artifact/packs.h"
#include "image/erofs/erofs.h"
#include "image/writer/oci_target.h"
#include "tree_diff.h"

#define HOLE_OFF (1u << 20) /* of the large file */
#define HOLE_END (2u << 20)
#define LARGE (5u << 20)
#define SMALL 10000u
#define TINY 300u
#define DEVICE_MAX (32u << 20)

static char dir[64];
static struct oci_store *store;
static struct error err;

static void setup(void)
{
	const struct oci_config cfg = OCI_CONFIG_INIT;
	struct oci_ref ref = { .transport = OCI_TRANSPORT_LAYOUT, .repo = dir };

	(void)snprintf(dir, sizeof(dir), "/tmp/bootseer-writer.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(oci_store_open(&ref, &cfg, true, &store, &err), 0, "%s",
		     err.msg);
}

static void teardown(void)
{
	oci_store_free(store);
	cr_expect_eq(fs_remove_tree(dir, &err), 0);
}

TestSuite(writer, .init = setup, .fini = teardown, .timeout = 120);

/* -------------------------------------------------------- a tree of changes --- */

/* Byte `off` of what is called `seed`: no two seeds have a page in common. */
static uint8_t byte_of(unsigned int seed, uint64_t off)
{
	uint64_t v = (off + 1) * UINT64_C(0x9e3779b97f4a7c15) + seed;

	return (uint8_t)((v ^ v >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 56);
}

static struct inode *add(struct tree *t, struct inode *in, const char *name,
			 uint32_t mode)
{
	struct inode *i = tree_inode_new(t, mode);

	cr_assert_not_null(i);
	i->mtime = 1700000000;
	i->mtime_nsec = 123456789;
	i->uid = 1000;
	i->gid = 70000;
	cr_assert_eq(tree_link(t, in, name, strlen(name), i), 0);
	return i;
}

static struct inode *add_file(struct tree *t, struct inode *in,
			      const char *name, uint64_t size,
			      unsigned int seed)
{
	struct inode *i = add(t, in, name, S_IFREG | 0644);

	i->size = size;
	i->user = seed;
	return i;
}

/* What an overlay's upper folder may hold: files of each size, a hole, a hard
 * link, whiteouts and an opaque folder. */
static struct tree *make_changes(void)
{
	struct tree *t = tree_new();
	struct inode *venv, *link, *large;

	cr_assert_not_null(t);
	venv = add(t, tree_root(t), "venv", S_IFDIR | 0755);
	cr_assert_eq(tree_set_xattr(t, venv, "trusted.overlay.opaque", "y", 1),
		     0);
	(void)add(t, tree_root(t), "removed", S_IFCHR); /* 0:0, a whiteout */
	(void)add_file(t, venv, "tiny.py", TINY, 1);
	(void)add_file(t, venv, "small.py", SMALL, 2);
	(void)add_file(t, venv, "same.py", SMALL, 2);
	(void)add_file(t, venv, "empty", 0, 3);
	large = add_file(t, venv, "large.so", LARGE, 4);
	cr_assert_eq(tree_set_xattr(t, large, "user.origin", "pip", 3), 0);
	cr_assert_eq(tree_link(t, tree_root(t), "hard", 4, large), 0);
	link = add(t, venv, "link", S_IFLNK | 0777);
	link->target = "large.so";
	link->size = 8;
	return t;
}

static void write_file(struct tree_writer *w, struct inode *i, int *rc)
{
	static uint8_t piece[65536];
	unsigned int seed = (unsigned int)i->user;

	*rc = tree_writer_begin(w, i, &err);
	for (uint64_t off = 0; *rc == 0 && off < i->size;) {
		size_t n = sizeof(piece);

		if (i->size == LARGE && off == HOLE_OFF)
			off = HOLE_END;
		if (n > i->size - off)
			n = (size_t)(i->size - off);
		for (size_t k = 0; k < n; k++)
			piece[k] = byte_of(seed, off + k);
		*rc = tree_writer_data(w, off, piece, n, &err);
		off += n;
	}
	if (*rc == 0)
		*rc = tree_writer_end(w, &err);
}

/* The files of a folder and those below; of a file with two names the first. */
static int write_files(struct tree_writer *w, struct inode *folder)
{
	int rc = 0;

	for (struct dentry *d = folder->children; rc == 0 && d; d = d->next) {
		struct inode *i = d->inode;

		if (S_ISDIR(i->mode))
			rc = write_files(w, i);
		else if (S_ISREG(i->mode) && strcmp(d->name, "hard") != 0)
			write_file(w, i, &rc);
	}
	return rc;
}

static int store_by(const struct tree_writer_config *cfg,
		    struct tree_writer **ret, struct artifact *a)
{
	struct tree_writer_stats stats;
	int rc;

	cr_assert_eq(tree_writer_new(cfg, ret, &err), 0, "%s", err.msg);
	rc = write_files(*ret, tree_root(cfg->tree));
	if (rc == 0)
		rc = tree_writer_finish(*ret, a, &stats, &err);
	if (rc == 0)
		cr_expect(stats.blocks && stats.new_blocks == stats.blocks);
	return rc;
}

static int store_tree(struct tree *t, struct upload_target *to,
		      unsigned int jobs, struct tree_writer **ret,
		      struct artifact *a)
{
	const struct tree_writer_config cfg = {
		.tree = t, .target = to, .temp_dir = dir, .jobs = jobs
	};

	return store_by(&cfg, ret, a);
}

/* ---------------------------------------------------------------- and back --- */

struct device {
	struct packs_sink sink;
	uint8_t *bytes;
};

static int put_block(struct packs_sink *s, const struct block *b,
		     const void *data, struct error *e)
{
	struct device *d = container_of(s, struct device, sink);

	cr_assert_leq(b->voff + b->usize, DEVICE_MAX);
	if (data)
		memcpy(d->bytes + b->voff, data, b->usize);
	return 0;
}

/* Every byte of a file that was read back. */
static void expect_bytes(const struct inode *i, const struct device *d,
			 unsigned int seed)
{
	uint8_t *got = calloc(1, i->size);

	if (i->data == INODE_DATA_INLINE)
		memcpy(got, i->bytes, i->size);
	for (uint32_t k = 0; i->data == INODE_DATA_EXTENTS && k < i->n_extents;
	     k++) {
		const struct extent *x = &i->extents[k];
		uint64_t len = x->len;

		if (len > i->size - x->off)
			len = i->size - x->off;
		memcpy(got + x->off, d->bytes + x->voff, len);
	}
	for (uint64_t off = 0; off < i->size; off++) {
		bool hole =
			i->size == LARGE && off >= HOLE_OFF && off < HOLE_END;

		cr_assert_eq(got[off], hole ? 0 : byte_of(seed, off),
			     "byte %llu of %llu", (unsigned long long)off,
			     (unsigned long long)i->size);
	}
	free(got);
}

static struct inode *find(struct tree *t, struct inode *in, const char *name)
{
	struct dentry *d = tree_find(t, in, name, strlen(name));

	cr_assert_not_null(d, "%s", name);
	return d->inode;
}

static void expect_contents(struct tree *got, const struct artifact *a,
			    const void *map_bytes, size_t len)
{
	struct device d = { .sink.put = put_block };
	struct inode *venv = find(got, tree_root(got), "venv");
	struct blockmap map;

	d.bytes = calloc(1, DEVICE_MAX);
	cr_assert_eq(blockmap_open(map_bytes, len, &map, &err), 0);
	cr_assert_eq(packs_check_map(a, &map, &err), 0, "%s", err.msg);
	cr_assert_eq(packs_read(store, a, &map, &d.sink, &err), 0, "%s",
		     err.msg);
	expect_bytes(find(got, venv, "tiny.py"), &d, 1);
	expect_bytes(find(got, venv, "small.py"), &d, 2);
	expect_bytes(find(got, venv, "same.py"), &d, 2);
	expect_bytes(find(got, venv, "large.so"), &d, 4);
	cr_expect_eq(find(got, tree_root(got), "hard"),
		     find(got, venv, "large.so"));
	free(d.bytes);
}

/* The two files of an artifact in memory. */
static void fetch(const struct artifact *a, struct buf *meta, struct buf *map)
{
	char meta_path[96], map_path[96];

	(void)snprintf(meta_path, sizeof(meta_path), "%s/meta", dir);
	(void)snprintf(map_path, sizeof(map_path), "%s/map", dir);
	cr_assert_eq(artifact_fetch(store, a, NULL, meta_path, map_path, &err),
		     0, "%s", err.msg);
	cr_assert_eq(fs_read_file(meta_path, 1u << 20, meta, &err), 0);
	cr_assert_eq(fs_read_file(map_path, 1u << 20, map, &err), 0);
}

Test(writer, gives_back_a_tree_of_changes_with_every_byte)
{
	AUTO(tree) tree = make_changes();
	AUTO(tree) got = NULL;
	AUTO(tree_writer) w = NULL;
	AUTO_BUF meta = BUF_INIT;
	AUTO_BUF map = BUF_INIT;
	struct artifact a = { .format = 0 };
	struct erofs_image image;
	struct oci_target to;
	char *diff;

	oci_target_init(&to, store);
	cr_assert_eq(store_tree(tree, &to.target, 2, &w, &a), 0, "%s", err.msg);
	cr_expect_eq(a.image_size, TINY + 2 * SMALL + LARGE);
	cr_expect_eq(a.n_inodes, tree_n_inodes(tree));
	cr_expect_str_eq(a.chunking, "c1");
	fetch(&a, &meta, &map);
	/* erofs_check() is for what is mounted as it is: an overlay would believe
	 * the opaque folder. */
	cr_assert_eq(erofs_open(meta.data, meta.len, &image, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(erofs_read_tree(&image, &got, &err), 0, "%s", err.msg);
	diff = tree_diff(tree, got, true);
	cr_expect_null(diff, "%s", diff);
	free(diff);
	expect_contents(got, &a, map.data, map.len);
	artifact_fini(&a);
}

Test(writer, stores_the_same_with_any_number_of_jobs)
{
	struct artifact first = { .format = 0 };

	for (unsigned int jobs = 1; jobs <= 5; jobs++) {
		AUTO(tree) tree = make_changes();
		AUTO(tree_writer) w = NULL;
		struct artifact a = { .format = 0 };
		struct oci_target to;

		oci_target_init(&to, store);
		cr_assert_eq(store_tree(tree, &to.target, jobs, &w, &a), 0,
			     "%s", err.msg);
		if (jobs == 1) {
			first = a;
			continue;
		}
		cr_expect(digest_equal(&a.meta.digest, &first.meta.digest));
		cr_expect(digest_equal(&a.map.digest, &first.map.digest));
		cr_assert_eq(a.n_packs, first.n_packs);
		for (size_t k = 0; k < a.n_packs; k++)
			cr_expect(digest_equal(&a.packs[k].digest,
					       &first.packs[k].digest));
		artifact_fini(&a);
	}
	artifact_fini(&first);
}

/* ---------------------------------------------------------------- failures --- */

static int refuse(struct upload_target *t, const struct digest *d,
		  uint64_t size, int fd, struct error *e)
{
	return error_set(e, EDQUOT, "the store is full");
}

Test(writer, returns_what_the_target_failed_with)
{
	struct upload_target full = { .store = refuse };
	AUTO(tree) tree = make_changes();
	AUTO(tree_writer) w = NULL;
	struct artifact a = { .format = 0 };

	cr_assert_eq(store_tree(tree, &full, 2, &w, &a), -EDQUOT);
	cr_expect_str_eq(err.msg, "the store is full");
	cr_expect_eq(a.n_packs, 0);
	artifact_fini(&a);
}

/* Packs go where nothing moves until the two blobs of metadata are there. */
struct late_packs {
	struct upload_target packs, target;
	pthread_mutex_t lock; /* for `n` */
	pthread_cond_t moved;
	unsigned int n;
	int rc; /* of the packs then */
};

static int count_blob(struct upload_target *t, const struct digest *d,
		      uint64_t size, int fd, struct error *e)
{
	struct late_packs *l = container_of(t, struct late_packs, target);

	(void)pthread_mutex_lock(&l->lock);
	l->n++;
	(void)pthread_cond_signal(&l->moved);
	(void)pthread_mutex_unlock(&l->lock);
	return 0;
}

static int store_late(struct upload_target *t, const struct digest *d,
		      uint64_t size, int fd, struct error *e)
{
	struct late_packs *l = container_of(t, struct late_packs, packs);
	struct timespec until;
	int rc = 0;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 30;
	(void)pthread_mutex_lock(&l->lock);
	while (l->n < 2 && rc == 0)
		rc = pthread_cond_timedwait(&l->moved, &l->lock, &until);
	(void)pthread_mutex_unlock(&l->lock);
	if (rc)
		return error_set(e, rc, "no metadata came");
	return l->rc ? error_set(e, -l->rc, "the store is full") : 0;
}

static int store_with_late_packs(struct late_packs *l, struct artifact *a)
{
	AUTO(tree) tree = make_changes();
	AUTO(tree_writer) w = NULL;
	const struct tree_writer_config cfg = { .tree = tree,
						.target = &l->target,
						.packs = &l->packs,
						.temp_dir = dir,
						.jobs = 2 };

	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_cond_init(&l->moved, NULL);
	l->target.store = count_blob;
	l->packs.store = store_late;
	return store_by(&cfg, &w, a);
}

Test(writer, stores_metadata_while_packs_are_on_their_way)
{
	struct late_packs late = { .rc = 0 };
	struct artifact a = { .format = 0 };

	cr_expect_eq(store_with_late_packs(&late, &a), 0, "%s", err.msg);
	cr_expect_eq(late.n, 2);
	cr_expect_gt(a.n_packs, 0);
	artifact_fini(&a);
}

Test(writer, fails_with_a_pack_that_is_not_stored_when_metadata_is)
{
	struct late_packs late = { .rc = -EDQUOT };
	struct artifact a = { .format = 0 };

	cr_expect_eq(store_with_late_packs(&late, &a), -EDQUOT);
	cr_expect_str_eq(err.msg, "the store is full");
	artifact_fini(&a);
}

/* A pack of other bytes, and a map that is another artifact's. */
Test(writer, contents_that_changed_in_the_store_are_not_given_back)
{
	AUTO(tree) tree = make_changes();
	AUTO(tree_writer) w = NULL;
	AUTO_BUF meta = BUF_INIT;
	AUTO_BUF map_bytes = BUF_INIT;
	struct artifact a = { .format = 0 };
	struct device d = { .sink.put = put_block };
	char name[DIGEST_STR_MAX], path[192];
	struct oci_target to;
	struct blockmap map;
	FILE *f;

	oci_target_init(&to, store);
	cr_assert_eq(store_tree(tree, &to.target, 1, &w, &a), 0, "%s", err.msg);
	fetch(&a, &meta, &map_bytes);
	cr_assert_eq(blockmap_open(map_bytes.data, map_bytes.len, &map, &err),
		     0);
	digest_format(&a.packs[0].digest, name);
	(void)snprintf(path, sizeof(path), "%s/blobs/sha256/%s", dir, name + 7);
	cr_assert_eq(chmod(path, 0600), 0);
	f = fopen(path, "r+");
	cr_assert(f && fseek(f, 5000, SEEK_SET) == 0);
	cr_assert(fputc(fgetc(f) ^ 1, f) != EOF && fclose(f) == 0);
	d.bytes = calloc(1, DEVICE_MAX);
	cr_expect_eq(packs_read(store, &a, &map, &d.sink, &err), -EBADMSG);
	cr_expect_not_null(strstr(err.msg, name), "%s", err.msg);
	a.device_size += 4096;
	cr_expect_eq(packs_check_map(&a, &map, &err), -EBADMSG);
	a.device_size -= 4096;
	a.packs[0].size++;
	cr_expect_eq(packs_check_map(&a, &map, &err), -EBADMSG);
	free(d.bytes);
	artifact_fini(&a);
}
