// SPDX-License-Identifier: Apache-2.0
/* Reading of several layers at once, from a store in memory. */
#include "snapshotter/convert/first_pass.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/buf.h"
#include "common/fs.h"
#include "image/spans/spans.h"
#include "objects/oci_store.h"
#include "snapshotter/convert/apply.h"
#include "snapshotter/convert/layer_reading.h"
#include "snapshotter/convert/tar.h"
#include "tests/fakes/fault_source.h"
#include "tests/unit/failures.h"

TestSuite(first_pass, .timeout = 120);

#define LAYERS 7u
#define FILES 300u

static struct error err;

/* ------------------------------------------------------------------ image --- */

struct image_case {
	struct oci_store store; /* first for container_of */
	struct buf stored[LAYERS];
	struct oci_descriptor layers[LAYERS];
	struct digest diff_ids[LAYERS];
	struct oci_image image;
	/* the first layer ends only when all other readers have ended */
	bool held;
};

static int case_open_blob(struct oci_store *s, const struct digest *d,
			  uint64_t size, struct source **ret, struct error *e)
{
	struct image_case *c = container_of(s, struct image_case, store);
	const struct fault_plan plan = { .held = c->held, .heeds_pace = true };
	struct fault_source *f;
	size_t i = 0;

	while (i < LAYERS && !digest_equal(&c->layers[i].digest, d))
		i++;
	if (i == LAYERS)
		return error_set(e, ENOENT, "no such blob");
	*ret = memory_source_new(c->stored[i].data, size, 10000);
	cr_assert_not_null(*ret);
	if (i)
		return 0;
	f = fault_source_new(*ret);
	cr_assert_not_null(f);
	fault_set(f, &plan);
	*ret = &f->base;
	return 0;
}

static const struct oci_store_ops case_ops = { .name = "memory",
					       .open_blob = case_open_blob };

static void add_file(struct buf *tar, const char *name, const struct buf *body)
{
	uint8_t block[512] = { 0 };
	unsigned int sum = 8 * ' ';

	(void)snprintf((char *)block, 100, "%s", name);
	memcpy(block + 100, "0000644\0000000000\0000000000", 23);
	(void)snprintf((char *)block + 124, 12, "%011o",
		       (unsigned int)body->len);
	memcpy(block + 136, "00000000000", 11);
	block[156] = '0';
	memcpy(block + 257, "ustar\00000", 8);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", sum);
	cr_assert_eq(buf_append(tar, block, sizeof(block)), 0);
	cr_assert_eq(buf_append(tar, body->data, body->len), 0);
	memset(block, 0, sizeof(block));
	if (body->len % 512)
		cr_assert_eq(buf_append(tar, block, 512 - body->len % 512), 0);
}

/* Make layer `i`: new files, some files of the layer below, and whiteouts of others. */
static void make_tar(struct buf *tar, unsigned int i)
{
	static const uint8_t zeros[1024];
	AUTO_BUF body = BUF_INIT;
	uint32_t seed = i;
	char name[64];

	for (unsigned int k = 0; k < FILES; k++) {
		bool hides = i && k % 7 == 1, replaces = i && k % 5 == 0;

		(void)snprintf(name, sizeof(name), "d%u/%sf%u",
			       hides || replaces ? i - 1 : i,
			       hides ? WHITEOUT_PREFIX : "", k);
		buf_reset(&body);
		while (!hides && body.len < 8000) {
			seed = seed * 1664525 + 1013904223;
			cr_assert_eq(buf_printf(&body, "line %x of %u\n",
						seed >> 20, k),
				     0);
		}
		add_file(tar, name, &body);
	}
	cr_assert_eq(buf_append(tar, zeros, sizeof(zeros)), 0);
}

static void pack_gzip(struct buf *to, const struct buf *plain)
{
	z_stream z = { .next_in = (Bytef *)plain->data,
		       .avail_in = (uInt)plain->len };

	cr_assert_eq(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, 0), Z_OK);
	cr_assert_eq(buf_reserve(to, plain->len + 4096), 0);
	z.next_out = (Bytef *)to->data;
	z.avail_out = (uInt)plain->len + 4096;
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	to->len = plain->len + 4096 - z.avail_out;
	(void)deflateEnd(&z);
}

/* Compress with a large window, which only the layer in turn may have, however small the frame. */
static void pack_zstd(struct buf *to, const struct buf *plain)
{
	ZSTD_CCtx *z = ZSTD_createCCtx();
	ZSTD_inBuffer in = { plain->data, plain->len, 0 };
	ZSTD_outBuffer out = { NULL, plain->len + 4096, 0 };

	cr_assert_eq(buf_reserve(to, out.size), 0);
	out.dst = to->data;
	cr_assert(
		!ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, 24)));
	cr_assert_eq(ZSTD_compressStream2(z, &out, &in, ZSTD_e_flush), 0);
	cr_assert_eq(ZSTD_compressStream2(z, &out, &in, ZSTD_e_end), 0);
	to->len = out.pos;
	ZSTD_freeCCtx(z);
}

static void set_digest(struct image_case *c, unsigned int i)
{
	c->layers[i].size = c->stored[i].len;
	cr_assert_eq(digest_of(c->stored[i].data, c->stored[i].len,
			       &c->layers[i].digest),
		     0);
}

static void case_init(struct image_case *c)
{
	*c = (struct image_case){ .store.ops = &case_ops };
	for (unsigned int i = 0; i < LAYERS; i++) {
		AUTO_BUF tar = BUF_INIT;

		make_tar(&tar, i);
		c->stored[i] = (struct buf)BUF_INIT;
		pack_gzip(&c->stored[i], &tar);
		cr_assert_eq(digest_of(tar.data, tar.len, &c->diff_ids[i]), 0);
		(void)snprintf(c->layers[i].media_type,
			       sizeof(c->layers[i].media_type),
			       "application/vnd.oci.image.layer.v1.tar+gzip");
		set_digest(c, i);
	}
	c->image.layers = c->layers;
	c->image.n_layers = LAYERS;
}

static void case_fini(struct image_case *c)
{
	for (unsigned int i = 0; i < LAYERS; i++)
		buf_fini(&c->stored[i]);
}

static char readings[64]; /* folder of kept readings; "": none */

static int make_plan(struct image_case *c, unsigned int jobs,
		     struct span_set *spans, struct plan **ret)
{
	const struct plan_config cfg = { .store = &c->store,
					 .image = &c->image,
					 .diff_ids = c->diff_ids,
					 .spans = spans,
					 .jobs = jobs,
					 .readings =
						 *readings ? readings : NULL };

	*ret = NULL;
	err = (struct error)ERROR_INIT;
	return plan_make(&cfg, ret, &err);
}

/* ------------------------------------------------------------------ result --- */

static void list_tree(struct buf *to, const struct inode *dir, const char *path)
{
	for (const struct dentry *d = dir->children; d; d = d->next) {
		AUTO_BUF name = BUF_INIT;

		cr_assert_eq(buf_printf(&name, "%s/%s", path, d->name), 0);
		cr_assert_eq(buf_printf(to, "%s %o %llu %llu\n", name.data,
					d->inode->mode,
					(unsigned long long)d->inode->size,
					(unsigned long long)d->inode->user),
			     0);
		if (S_ISDIR(d->inode->mode))
			list_tree(to, d->inode, name.data);
	}
}

/* Print everything that a plan and its spans contain. */
static void list_plan(struct buf *to, struct plan *p, struct span_set *spans)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct pack windows;
	int fd;

	list_tree(to, tree_root(p->tree), "");
	for (size_t i = 0; i < p->n_layers; i++) {
		size_t n_kept = 0;

		for (size_t k = 0; k < p->layers[i].n_files; k++)
			n_kept += p->layers[i].files[k] &&
				  p->layers[i].files[k]->nlink;
		cr_assert_eq(buf_printf(to, "%zu %zu %llu\n", n_kept,
					p->layers[i].n_files,
					(unsigned long long)p->layers[i]
						.plain_bytes),
			     0);
	}
	cr_assert_eq(span_set_windows(spans, &windows, &fd, &err), 0);
	cr_assert_gt(windows.size, 0);
	cr_assert_eq(span_set_finish(spans, w, NULL, 0, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(buf_append(to, windows.digest.b, DIGEST_SIZE), 0);
	cr_assert_eq(buf_printf(to, "%llu %llu\n",
				(unsigned long long)p->plain_bytes,
				(unsigned long long)p->image_bytes),
		     0);
}

Test(first_pass, makes_the_same_of_layers_however_many_are_read_at_once)
{
	static const unsigned int jobs[] = { 1, 2, 4, 64 };
	static struct image_case c;
	AUTO_BUF want = BUF_INIT;

	case_init(&c);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		AUTO(span_set) spans = NULL;
		AUTO(plan) p = NULL;
		AUTO_BUF is = BUF_INIT;

		cr_assert_eq(span_set_new(NULL, &spans, &err), 0);
		cr_assert_eq(make_plan(&c, jobs[i], spans, &p), 0, "%s",
			     err.msg);
		list_plan(&is, p, spans);
		if (i == 0)
			want = is, is = (struct buf)BUF_INIT;
		else
			cr_assert(is.len == want.len &&
				  memcmp(is.data, want.data, is.len) == 0);
	}
	case_fini(&c);
}

/* The first layer never ends: unless another layer's failure stops it, this test hangs. */
Test(first_pass, ends_the_layers_that_still_come_when_another_one_fails)
{
	static struct image_case c;
	struct plan *p;

	case_init(&c);
	c.held = true;
	c.stored[2].data[c.stored[2].len / 2] ^= 0x55;
	set_digest(&c, 2);
	for (unsigned int i = 0; i < 50; i++) {
		cr_assert_eq(make_plan(&c, 4, NULL, &p), -EBADMSG, "%s",
			     err.msg);
		cr_assert_eq(strncmp(err.msg, "layer 3 of 7 (sha256:", 21), 0,
			     "%s", err.msg);
		cr_assert_null(p);
	}
	case_fini(&c);
}

static void set_bad_zstd(struct image_case *c, unsigned int i)
{
	AUTO_BUF tar = BUF_INIT, body = BUF_INIT;

	add_file(&tar, "../bad", &body);
	buf_reset(&c->stored[i]);
	pack_zstd(&c->stored[i], &tar);
	set_digest(c, i);
}

/* The first layer never ends, and the fourth one fails.  The second and third have a bad name,
 * but large windows too, so that they must not be read before their turn. */
Test(first_pass, has_one_large_zstd_window_at_a_time)
{
	static struct image_case c;
	struct plan *p;

	case_init(&c);
	set_bad_zstd(&c, 1);
	set_bad_zstd(&c, 2);
	c.stored[3].data[c.stored[3].len - 5] ^= 0x55;
	set_digest(&c, 3);
	c.held = true;
	for (unsigned int i = 0; i < 20; i++) {
		cr_assert_eq(make_plan(&c, 4, NULL, &p), -EBADMSG, "%s",
			     err.msg);
		cr_assert_eq(strncmp(err.msg, "layer 4 of 7 ", 13), 0, "%s",
			     err.msg);
	}
	c.held = false;
	c.image.n_layers = 3;
	cr_assert_eq(make_plan(&c, 4, NULL, &p), -EINVAL, "%s", err.msg);
	cr_assert_eq(strncmp(err.msg, "layer 2 of 3 ", 13), 0, "%s", err.msg);
	case_fini(&c);
}

Test(first_pass, reads_layers_that_all_have_large_zstd_windows)
{
	static struct image_case c;

	case_init(&c);
	for (unsigned int i = 0; i < LAYERS; i++) {
		AUTO_BUF tar = BUF_INIT;

		make_tar(&tar, i);
		buf_reset(&c.stored[i]);
		pack_zstd(&c.stored[i], &tar);
		set_digest(&c, i);
	}
	for (unsigned int jobs = 1; jobs <= 4; jobs++) {
		AUTO(plan) p = NULL;

		cr_assert_eq(make_plan(&c, jobs, NULL, &p), 0, "%s", err.msg);
	}
	case_fini(&c);
}

/* A fault in a layer's entries is reported, not a fault in the bytes after them. */
Test(first_pass, tells_the_first_fault_of_a_layer)
{
	static struct image_case c;
	AUTO_BUF tar = BUF_INIT, body = BUF_INIT;
	struct plan *p;

	case_init(&c);
	add_file(&tar, "good", &body);
	add_file(&tar, "../bad", &body);
	add_file(&tar, "fine", &body);
	cr_assert_eq(buf_append(&tar, "cut", 3), 0);
	buf_reset(&c.stored[0]);
	pack_gzip(&c.stored[0], &tar);
	set_digest(&c, 0);
	c.image.n_layers = 1;
	for (unsigned int i = 0; i < 50; i++) {
		cr_assert_eq(make_plan(&c, 4, NULL, &p), -EINVAL, "%s",
			     err.msg);
		cr_assert(strstr(err.msg, "entry '../bad'"), "%s", err.msg);
	}
	case_fini(&c);
}

Test(first_pass, reads_with_the_threads_that_can_be_begun)
{
	struct failures f = { .kind = FAIL_THREAD };
	static struct image_case c;

	case_init(&c);
	while (failures_next(&f)) {
		struct plan *p;
		int rc = make_plan(&c, 4, NULL, &p);

		if (failures_hit(&f) && f.n == 1)
			cr_assert_eq(rc, -EAGAIN, "%s", err.msg);
		else
			cr_assert_eq(rc, 0, "%s", err.msg);
		plan_free(p);
	}
	cr_assert_gt(f.n, 4);
	case_fini(&c);
}

/* --------------------------------------------------------- kept readings --- */

static int want_nothing(struct tar_visitor *v, const struct layer_entry *e,
			bool *want, struct error *err_)
{
	(void)v;
	(void)e;
	(void)err_;
	*want = false;
	return 0;
}

/* Make a reading of layer `i`, as an unpack does. */
static int keep_reading(struct image_case *c, unsigned int i, uint64_t most,
			int *ret_fd)
{
	struct source *source =
		memory_source_new(c->stored[i].data, c->stored[i].len, 10000);
	struct tar_visitor v = { .entry = want_nothing };
	struct layer_input in = { .source = source,
				  .size = c->stored[i].len,
				  .digest = c->layers[i].digest,
				  .want_diff_id = true,
				  .copy_fd = -1 };
	struct layer_reading *r;
	struct layer *l;
	int rc;

	cr_assert_eq(layer_reading_new(NULL, &c->layers[i], most, &r, &err), 0);
	in.spans = r->spans;
	v.headers = &r->headers;
	cr_assert_eq(layer_open(&in, &l, &err), 0);
	cr_assert_eq(tar_walk(l, &v, &err), 0, "%s", err.msg);
	rc = layer_reading_end(r, layer_diff_id(l), layer_plain_bytes(l),
			       ret_fd, &err);
	/* The process that reads untrusted layers gets this descriptor, and must not be able to
	 * write. */
	cr_expect(rc < 0 || (fcntl(*ret_fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
	layer_close(l);
	layer_reading_free(r);
	source_free(source);
	return rc;
}

/* Link a reading into the folder of readings as that of layer `as`. */
static void name_reading(struct image_case *c, int fd, unsigned int as)
{
	char name[DIGEST_STR_MAX], to[64], path[160];

	digest_format(&c->layers[as].digest, name);
	(void)snprintf(to, sizeof(to), "/proc/self/fd/%d", fd);
	(void)snprintf(path, sizeof(path), "%s/%s", readings,
		       strchr(name, ':') + 1);
	cr_assert_eq(symlink(to, path), 0);
}

static void begin_readings(void)
{
	strcpy(readings, "/tmp/bootseer-readings.XXXXXX");
	cr_assert_not_null(mkdtemp(readings));
}

/* Layers with a kept reading are not read: their stored bytes are wrong by then. */
Test(first_pass, makes_the_same_of_layers_that_were_read_before)
{
	static struct image_case c;
	AUTO_BUF want = BUF_INIT, is = BUF_INIT;
	AUTO(span_set) spans = NULL;
	AUTO(span_set) again = NULL;
	AUTO(plan) p = NULL;
	struct plan *q;
	int fds[LAYERS];

	case_init(&c);
	cr_assert_eq(span_set_new(NULL, &spans, &err), 0);
	cr_assert_eq(make_plan(&c, 4, spans, &p), 0, "%s", err.msg);
	list_plan(&want, p, spans);
	begin_readings();
	/* The last layer has no reading, so it is read. */
	for (unsigned int i = 0; i + 1 < LAYERS; i++) {
		cr_assert_eq(keep_reading(&c, i, 1 << 20, &fds[i]), 0, "%s",
			     err.msg);
		name_reading(&c, fds[i], i);
		memset(c.stored[i].data, 'x', c.stored[i].len);
	}
	cr_assert_eq(span_set_new(NULL, &again, &err), 0);
	cr_assert_eq(make_plan(&c, 4, again, &q), 0, "%s", err.msg);
	list_plan(&is, q, again);
	cr_assert(is.len == want.len &&
		  memcmp(is.data, want.data, is.len) == 0);
	plan_free(q);
	/* Without spans the kept readings are not used. */
	cr_assert_eq(make_plan(&c, 4, NULL, &q), -EBADMSG, "%s", err.msg);
	for (unsigned int i = 0; i + 1 < LAYERS; i++)
		close(fds[i]);
	cr_assert_eq(fs_remove_tree(readings, NULL), 0);
	case_fini(&c);
}

Test(first_pass, takes_no_reading_of_another_layer)
{
	static struct image_case c;
	AUTO(span_set) spans = NULL;
	struct plan *p;
	int fd, other;

	case_init(&c);
	begin_readings();
	cr_assert_eq(keep_reading(&c, 1, 1 << 20, &fd), 0, "%s", err.msg);
	name_reading(&c, fd, 0);
	cr_assert_eq(span_set_new(NULL, &spans, &err), 0);
	cr_assert_eq(make_plan(&c, 4, spans, &p), -EBADMSG);
	cr_assert(strstr(err.msg, "layer 1 of 7 "), "%s", err.msg);
	cr_assert_eq(fs_remove_tree(readings, NULL), 0);
	/* The layer's content differs from the config's diff id. */
	begin_readings();
	name_reading(&c, fd, 1);
	c.diff_ids[1].b[0] ^= 1;
	cr_assert_eq(make_plan(&c, 1, spans, &p), -EBADMSG);
	cr_assert(strstr(err.msg, "layer 2 of 7 ") &&
			  strstr(err.msg, "as the image's config says"),
		  "%s", err.msg);
	cr_assert_eq(fs_remove_tree(readings, NULL), 0);
	close(fd);
	cr_assert_eq(keep_reading(&c, 1, 1000, &other), -ENOSPC);
	case_fini(&c);
}
