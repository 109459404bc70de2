// SPDX-License-Identifier: Apache-2.0
/* What tar_walk() finds in each tar, in the form of main.go beside this. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "snapshotter/convert/layer.h"
#include "snapshotter/convert/tar.h"
#include "tests/fakes/fault_source.h"

#define TAR_MAX (16u << 20)

struct lister {
	struct tar_visitor base;
	struct buf out;
	struct buf content; /* of the entry; holes are zeros */
};

static char kind_of(const struct layer_entry *e)
{
	if (e->hard)
		return 'h';
	switch (e->mode & S_IFMT) {
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	case S_IFIFO:
		return 'p';
	default:
		return 'f';
	}
}

static int put_text(struct buf *out, const char *text, size_t len)
{
	int rc = buf_puts(out, "\"");

	for (size_t i = 0; i < len && rc == 0; i++)
		rc = text[i] == '"' || text[i] == '\\'
			     ? buf_printf(out, "\\%c", text[i])
			     : buf_printf(out, "%c", text[i]);
	return rc == 0 ? buf_puts(out, "\"") : rc;
}

static int put_hash(struct lister *l)
{
	struct digest d;
	int rc = digest_of(l->content.data, l->content.len, &d);

	if (rc == 0)
		rc = buf_printf(&l->out, "%zu:", l->content.len);
	for (size_t i = 0; i < 8 && rc == 0; i++)
		rc = buf_printf(&l->out, "%02x", d.b[i]);
	return rc;
}

/* A hard link's are the file's own. */
static int put_attributes(struct buf *out, const struct layer_entry *e)
{
	int rc = buf_printf(out, "%o,%u,%u,%lld.%09u,%u,%u|", e->mode & 07777,
			    e->uid, e->gid, (long long)e->mtime, e->mtime_nsec,
			    e->major, e->minor);

	for (const struct xattr *x = e->xattrs; x && rc == 0; x = x->next) {
		rc = buf_printf(out, "%s=", x->name);
		for (uint32_t i = 0; i < x->size && rc == 0; i++)
			rc = buf_printf(out, "%02x",
					((const uint8_t *)x->value)[i]);
		if (rc == 0)
			rc = buf_puts(out, ",");
	}
	return rc == 0 ? buf_puts(out, "|") : rc;
}

static int on_entry(struct tar_visitor *v, const struct layer_entry *e,
		    bool *want, struct error *err)
{
	struct lister *l = container_of(v, struct lister, base);
	bool has_target = e->link && (e->hard || S_ISLNK(e->mode));
	size_t len = strlen(e->path);
	int rc;

	if (e->size > TAR_MAX)
		return error_set(err, EFBIG, "a file of more than %u bytes",
				 TAR_MAX);
	while (len && e->path[len - 1] == '/')
		len--;
	buf_reset(&l->content);
	*want = S_ISREG(e->mode) && !e->hard;
	rc = buf_printf(&l->out, " %c|", kind_of(e));
	if (rc == 0)
		rc = put_text(&l->out, e->path, len);
	if (rc == 0)
		rc = buf_puts(&l->out, "|");
	if (rc == 0)
		rc = put_text(&l->out, has_target ? e->link : "",
			      has_target ? strlen(e->link) : 0);
	if (rc == 0)
		rc = buf_puts(&l->out, "|");
	if (rc == 0 && *want) {
		rc = buf_reserve(&l->content, e->size);
		if (rc == 0 && e->size)
			memset(l->content.data, 0, e->size);
		l->content.len = e->size;
	}
	if (rc == 0)
		rc = put_attributes(&l->out, e);
	if (rc == 0 && !*want)
		rc = put_hash(l);
	return rc < 0 ? error_nomem(err) : 0;
}

static int on_data(struct tar_visitor *v, uint64_t off, const void *data,
		   size_t len, struct error *err)
{
	struct lister *l = container_of(v, struct lister, base);

	memcpy((char *)l->content.data + off, data, len);
	return 0;
}

static int on_end(struct tar_visitor *v, struct error *err)
{
	struct lister *l = container_of(v, struct lister, base);

	return put_hash(l) < 0 ? error_nomem(err) : 0;
}

static int list(const struct buf *tar, struct lister *l, struct error *err)
{
	AUTO(source) source = memory_source_new(tar->data, tar->len, TAR_MAX);
	struct layer_input in = { .source = source,
				  .size = tar->len,
				  .copy_fd = -1 };
	struct layer *layer;
	int rc = source ? digest_of(tar->data, tar->len, &in.digest)
			: error_nomem(err);

	if (rc == 0)
		rc = layer_open(&in, &layer, err);
	if (rc < 0)
		return rc;
	rc = tar_walk(layer, &l->base, err);
	layer_close(layer);
	return rc;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct lister l = { .base = { .entry = on_entry,
					      .data = on_data,
					      .end = on_end },
				    .out = BUF_INIT,
				    .content = BUF_INIT };
		struct error err = ERROR_INIT;
		AUTO_BUF tar = BUF_INIT;

		if (fs_read_file(argv[i], TAR_MAX, &tar, &err) < 0) {
			(void)fprintf(stderr, "%s\n", err.msg);
			return EXIT_FAILURE;
		}
		if (list(&tar, &l, &err) < 0)
			(void)printf("%s refused\n", argv[i]);
		else
			(void)printf("%s%s\n", argv[i],
				     l.out.len ? l.out.data : "");
		buf_fini(&l.out);
		buf_fini(&l.content);
	}
	return EXIT_SUCCESS;
}
