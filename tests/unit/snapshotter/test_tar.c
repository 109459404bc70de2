// SPDX-License-Identifier: Apache-2.0
/* Entries that tar_walk() gives for a tar in memory. */
#include "snapshotter/convert/tar.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "tests/fakes/fault_source.h"

TestSuite(tar, .timeout = 120);

static struct error err;

static int walk(const struct buf *tar, struct tar_visitor *v)
{
	AUTO(source)
	source = memory_source_new(tar->data, tar->len, tar->len + 1);
	struct layer_input in = { .source = source,
				  .size = tar->len,
				  .copy_fd = -1 };
	AUTO(layer) l = NULL;
	int rc;

	cr_assert_eq(digest_of(tar->data, tar->len, &in.digest), 0);
	cr_assert_eq(layer_open(&in, &l, &err), 0);
	rc = tar_walk(l, v, &err);
	layer_close(steal_ptr(&l));
	return rc;
}

/* Append a header and `body`, padded. */
static void add(struct buf *tar, const char *name, char type, const char *body)
{
	uint8_t block[512] = { 0 };
	size_t len = strlen(body);
	unsigned int sum = 8 * ' ';

	snprintf((char *)block, 100, "%s", name);
	memcpy(block + 100,
	       "0000644\0"
	       "0000000\0"
	       "0000000",
	       23);
	snprintf((char *)block + 124, 12, "%011o", (unsigned int)len);
	memcpy(block + 136, "00000000000", 11);
	block[156] = (uint8_t)type;
	memcpy(block + 257,
	       "ustar\0"
	       "00",
	       8);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += block[i];
	snprintf((char *)block + 148, 8, "%06o", sum);
	cr_assert_eq(buf_append(tar, block, sizeof(block)), 0);
	memset(block, 0, sizeof(block));
	cr_assert_eq(buf_append(tar, body, len), 0);
	if (len % 512)
		cr_assert_eq(buf_append(tar, block, 512 - len % 512), 0);
}

static void finish(struct buf *tar)
{
	static const uint8_t zeros[1024];

	cr_assert_eq(buf_append(tar, zeros, sizeof(zeros)), 0);
}

struct counter {
	struct tar_visitor visitor;
	unsigned int n, n_before, n_xattrs;
};

static int count_entry(struct tar_visitor *v, const struct layer_entry *e,
		       bool *want, struct error *why)
{
	struct counter *c = container_of(v, struct counter, visitor);

	*want = false;
	c->n++;
	c->n_before += e->mtime == -1 && e->mtime_nsec == 250000000;
	for (const struct xattr *x = e->xattrs; x; x = x->next)
		c->n_xattrs++;
	return 0;
}

/* So many entries that headers cross the borders of the layer's pieces. */
Test(tar, keeps_times_within_a_second_before_1970)
{
	struct counter c = { .visitor.entry = count_entry };
	AUTO_BUF tar = BUF_INIT;

	for (unsigned int i = 0; i < 3000; i++) {
		add(&tar, "x", 'x', "15 mtime=-0.75\n");
		add(&tar, "file", '0', i % 7 ? "" : "some content");
		add(&tar, "x", 'x', "14 mtime=0.75\n");
		add(&tar, "file", '0', "");
	}
	finish(&tar);
	cr_assert_eq(walk(&tar, &c.visitor), 0, "%s", err.msg);
	cr_expect_eq(c.n, 6000);
	cr_expect_eq(c.n_before, 3000, "%u", c.n_before);
}

struct watcher {
	struct tar_visitor visitor;
	unsigned int n_came;
};

static int pass_entry_over(struct tar_visitor *v, const struct layer_entry *e,
			   bool *want, struct error *why)
{
	*want = false;
	return 0;
}

static void count_came(struct tar_visitor *v)
{
	container_of(v, struct watcher, visitor)->n_came++;
}

/* A layer may be one file that is skipped; came() is then the only sign of progress. */
Test(tar, tells_that_bytes_come_which_nobody_wants)
{
	struct watcher w = { .visitor = { .entry = pass_entry_over,
					  .came = count_came } };
	static char body[(4 << 20) + 1];
	AUTO_BUF tar = BUF_INIT;

	memset(body, 'x', sizeof(body) - 1);
	add(&tar, "file", '0', body);
	finish(&tar);
	cr_assert_eq(walk(&tar, &w.visitor), 0, "%s", err.msg);
	cr_expect_geq(w.n_came, 16, "%u", w.n_came);
}

struct reader {
	struct tar_visitor visitor;
	/* "name kind size\
	 * " of each entry, with its content if it has some */
	struct buf text;
	unsigned int n;
};

static int note_entry(struct tar_visitor *v, const struct layer_entry *e,
		      bool *want, struct error *why)
{
	struct reader *r = container_of(v, struct reader, visitor);

	r->n++;
	*want = S_ISREG(e->mode) && e->size &&
		strcmp(e->path, "unwanted/") != 0;
	return buf_printf(&r->text, "%s %s %llu\n", e->path,
			  S_ISDIR(e->mode) ? "dir" : "file",
			  (unsigned long long)e->size);
}

static int note_data(struct tar_visitor *v, uint64_t off, const void *data,
		     size_t len, struct error *why)
{
	struct reader *r = container_of(v, struct reader, visitor);

	return buf_append(&r->text, data, len);
}

static int note_end(struct tar_visitor *v, struct error *why)
{
	struct reader *r = container_of(v, struct reader, visitor);

	return buf_puts(&r->text, "\n");
}

static const struct tar_visitor noting = { .entry = note_entry,
					   .data = note_data,
					   .end = note_end };

/* As in Go: a slash at the end of the name makes a folder only if the header has no type flag. */
Test(tar, a_slash_makes_a_folder_only_of_what_has_no_flag)
{
	struct reader r = { .visitor = noting, .text = BUF_INIT };
	AUTO_BUF tar = BUF_INIT;

	add(&tar, "empty/", '0', "");
	add(&tar, "full/", '0', "what looks like a header");
	add(&tar, "unwanted/", '0', "the same");
	add(&tar, "x", 'x', "15 mtime=-0.75\n");
	add(&tar, "old/", '\0', "");
	add(&tar, "folder/", '5', "");
	add(&tar, "last/", '0', "end");
	finish(&tar);
	cr_assert_eq(walk(&tar, &r.visitor), 0, "%s", err.msg);
	cr_expect_str_eq(r.text.data, "empty/ file 0\n"
				      "full/ file 24\n"
				      "what looks like a header\n"
				      "unwanted/ file 8\n"
				      "old/ dir 0\n"
				      "folder/ dir 0\n"
				      "last/ file 3\n"
				      "end\n");
	buf_fini(&r.text);
}

/* Contents and headers cross the borders of the layer's pieces. */
Test(tar, passes_on_content_across_pieces)
{
	struct reader r = { .visitor = noting, .text = BUF_INIT };
	AUTO_BUF tar = BUF_INIT;
	AUTO_BUF body = BUF_INIT;
	size_t n = 0;

	for (unsigned int i = 0; i < 700; i++)
		cr_assert_eq(buf_printf(&body, "line %u\n", i), 0);
	for (unsigned int i = 0; i < 400; i++)
		add(&tar, i % 3 ? "slash/" : "plain", '0',
		    body.data + i * (body.len / 800));
	finish(&tar);
	cr_assert_eq(walk(&tar, &r.visitor), 0, "%s", err.msg);
	cr_expect_eq(r.n, 400);
	for (const char *p = r.text.data; (p = strstr(p, "line 699\n\n")); p++)
		n++;
	cr_expect_eq(n, 400, "%zu", n);
	buf_fini(&r.text);
}

/* containerd removes a file of this name. */
Test(tar, refuses_a_file_by_the_name_of_a_global_header)
{
	static const char global[] = "pax_global_header",
			  su[] = "usr/bin/pax_global_header";

	for (int order = 0; order < 2; order++) {
		struct reader r = { .visitor = noting, .text = BUF_INIT };
		AUTO_BUF tar = BUF_INIT;

		add(&tar, order ? global : su, order ? 'g' : '0', "");
		add(&tar, order ? su : global, order ? '0' : 'g', "");
		finish(&tar);
		cr_expect_eq(walk(&tar, &r.visitor), -EINVAL);
		buf_fini(&r.text);
	}
}

Test(tar, a_file_with_a_slash_may_lack_its_last_blocks_padding)
{
	struct reader r = { .visitor = noting, .text = BUF_INIT };
	AUTO_BUF tar = BUF_INIT;

	add(&tar, "f/", '0', "text");
	tar.len -= 508;
	cr_assert_eq(walk(&tar, &r.visitor), 0, "%s", err.msg);
	cr_expect_str_eq(r.text.data, "f/ file 4\ntext\n");
	tar.len--;
	cr_expect_eq(walk(&tar, &r.visitor), -EBADMSG);
	cr_expect(strstr(err.msg, "entry 'f/': the tar is cut off"), "%s",
		  err.msg);
	buf_fini(&r.text);
}

Test(tar, leaves_acls_of_symlinks_out)
{
	struct counter c = { .visitor.entry = count_entry };
	AUTO_BUF tar = BUF_INIT;

	add(&tar, "x", 'x', "42 SCHILY.xattr.system.posix_acl_access=y\n");
	add(&tar, "link", '2', "");
	finish(&tar);
	cr_assert_eq(walk(&tar, &c.visitor), 0, "%s", err.msg);
	cr_expect_eq(c.n, 1);
	cr_expect_eq(c.n_xattrs, 0);
	buf_reset(&tar);
	add(&tar, "x", 'x', "42 SCHILY.xattr.system.posix_acl_access=y\n");
	add(&tar, "file", '0', "");
	finish(&tar);
	cr_assert_eq(walk(&tar, &c.visitor), 0, "%s", err.msg);
	cr_expect_eq(c.n_xattrs, 1);
}

Test(tar, leaves_overlayfs_own_xattrs_out)
{
	struct counter c = { .visitor.entry = count_entry };
	AUTO_BUF tar = BUF_INIT;

	add(&tar, "x", 'x',
	    "39 SCHILY.xattr.trusted.overlay.opq=yy\n"
	    "32 SCHILY.xattr.trusted.other=y\n"
	    "35 SCHILY.xattr.trusted.overlay.=y\n");
	add(&tar, "file", '0', "");
	finish(&tar);
	cr_assert_eq(walk(&tar, &c.visitor), 0, "%s", err.msg);
	cr_expect_eq(c.n_xattrs, 1);
}

/* Almost as many extended headers as allowed, which take few bytes in a registry. */
Test(tar, looks_at_many_extended_headers_a_few_times_each)
{
	struct counter c = { .visitor.entry = count_entry };
	AUTO_BUF tar = BUF_INIT;

	for (unsigned int i = 0; i < 16000; i++)
		add(&tar, "x", 'x', "");
	add(&tar, "file", '0', "");
	finish(&tar);
	cr_expect_eq(walk(&tar, &c.visitor), -EINVAL);
}
