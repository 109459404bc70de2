// SPDX-License-Identifier: Apache-2.0
/* The file has the tar's headers, the output of span_set_save(), and a struct layer_found. */
#include "snapshotter/convert/layer_reading.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/temp_file.h"
#include "image/spans/spans.h"

/* Keep headers in the file.  A full disk must not end the unpacking: the reading is given up
 * instead. */
static int keep_headers(struct source_sink *sink, uint64_t pos,
			const void *data, size_t len, struct error *err)
{
	struct layer_reading *r =
		container_of(sink, struct layer_reading, headers);

	(void)pos;
	(void)err;
	if (r->is_lost)
		return 0;
	r->is_lost = len > r->most - r->n_headers ||
		     fs_pwrite_full(r->fd, data, len, r->n_headers) < 0 ||
		     hasher_update(r->hash, data, len) < 0;
	r->n_headers += len;
	return 0;
}

int layer_reading_new(const char *temp_dir, const struct oci_descriptor *d,
		      uint64_t most, struct layer_reading **ret,
		      struct error *err)
{
	AUTO(layer_reading) r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return error_nomem(err);
	r->fd = -1;
	r->headers.put = keep_headers;
	r->layer = d->digest;
	r->most = most;
	r->hash = hasher_new();
	if (!r->hash)
		return error_nomem(err);
	rc = span_set_new(temp_dir, &r->spans, err);
	if (rc == 0)
		rc = span_set_begin_layer(r->spans, &d->digest, d->size, err);
	if (rc == 0)
		rc = temp_file(temp_dir, &r->fd, err);
	if (rc == 0 && fchmod(r->fd, 0444) < 0)
		rc = error_errno(err, errno, "a temporary file");
	if (rc == 0)
		*ret = steal_ptr(&r);
	return rc;
}

void layer_reading_free(struct layer_reading *r)
{
	if (!r)
		return;
	cleanup_close(&r->fd);
	span_set_free(r->spans);
	hasher_free(r->hash);
	free(r);
}

int layer_reading_end(struct layer_reading *r, const struct digest *diff_id,
		      uint64_t plain, int *ret_fd, struct error *err)
{
	struct layer_found f = { .layer = r->layer,
				 .diff_id = *diff_id,
				 .n_headers = r->n_headers,
				 .plain = plain };
	struct stat st;
	char path[32];
	int rc = 0;

	if (r->is_lost)
		return error_set(err, ENOSPC, "its headers are not kept");
	if (hasher_final(r->hash, &f.headers) < 0)
		return error_nomem(err);
	rc = span_set_end_layer(r->spans, plain, err);
	if (rc == 0)
		rc = span_set_save(r->spans, r->fd, r->n_headers, err);
	if (rc < 0)
		return rc;
	rc = fstat(r->fd, &st) < 0 ? -errno
				   : fs_pwrite_full(r->fd, &f, sizeof(f),
						    (uint64_t)st.st_size);
	if (rc < 0)
		return error_errno(err, -rc, "write a temporary file");
	/* Open the file again for reading only: the process that reads untrusted layers gets
	 * this descriptor. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", r->fd);
	rc = open(path, O_RDONLY | O_CLOEXEC);
	if (rc < 0)
		return error_errno(err, errno, "open a temporary file");
	*ret_fd = rc;
	return 0;
}

int layer_reading_load(int fd, struct layer_found *ret, struct span_set *spans,
		       struct error *err)
{
	struct stat st;
	int rc = fstat(fd, &st) < 0 ? -errno : 0;

	if (rc == 0 && st.st_size < (off_t)sizeof(*ret))
		rc = -EIO;
	if (rc == 0)
		rc = fs_pread_full(fd, ret, sizeof(*ret),
				   (uint64_t)st.st_size - sizeof(*ret));
	if (rc < 0)
		return error_errno(err, -rc, "read a kept reading");
	return span_set_load(spans, fd, ret->n_headers, err);
}
