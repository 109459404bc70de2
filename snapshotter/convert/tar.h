// SPDX-License-Identifier: Apache-2.0
/* The entries of a layer. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_TAR_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_TAR_H

#include "snapshotter/convert/apply.h"
#include "snapshotter/convert/layer.h"

/* Takes the entries of a layer in order.  0 to go on, or -errno. */
struct tar_visitor {
	/* `*want` false: the bytes of this entry are passed over.  `e` is
	 * borrowed until end(). */
	int (*entry)(struct tar_visitor *v, const struct layer_entry *e,
		     bool *want, struct error *err);
	/* Bytes of the entry, in the order of the archive; what is left out
	 * is a hole. */
	int (*data)(struct tar_visitor *v, uint64_t off, const void *data,
		    size_t len, struct error *err);
	/* After the last byte of an entry that was wanted. */
	int (*end)(struct tar_visitor *v, struct error *err);
	/* More of the layer came, whoever wants it; may be NULL. */
	void (*came)(struct tar_visitor *v);
	uint64_t plain; /* set for data(): where its bytes are in the layer */
	/* Takes the headers of all entries as they are; or NULL. */
	struct source_sink *headers;
	/* The layer is these headers alone, without any content; none may be wanted. */
	bool is_bare;
};

/*
 * Read the layer to its end.  The message of a failure names the entry.
 *   -EBADMSG  not a tar, damaged, or data behind its end
 *   or what layer_read() or the visitor returned
 */
int tar_walk(struct layer *l, struct tar_visitor *v,
	     struct error *err) MUST_CHECK;

/* Is it an xattr that Linux would keep on an inode of the kind `type` (S_IF*)?  Of a hard
 * link the kind is not known. */
bool tar_keeps_xattr(const char *name, uint32_t type, bool hard);

/* `path` for a message: at most 200 bytes, unprintable ones escaped. */
#define TAR_NAME_MAX 208
void tar_format_name(const char *path, char out[TAR_NAME_MAX]);

#endif
