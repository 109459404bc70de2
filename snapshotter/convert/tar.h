// SPDX-License-Identifier: Apache-2.0
/* Reads the entries of a layer that is a tar. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_TAR_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_TAR_H

#include "snapshotter/convert/apply.h"
#include "snapshotter/convert/layer.h"

/* Receives the entries of a layer in order.  Returns 0 to go on, or -errno. */
struct tar_visitor {
	/* Called for each entry.  `*want` false: its bytes are skipped.  `e` is borrowed until
	 * end(). */
	int (*entry)(struct tar_visitor *v, const struct layer_entry *e,
		     bool *want, struct error *err);
	/* Called with bytes of the entry, in the order of the archive; bytes that are left out
	 * are a hole. */
	int (*data)(struct tar_visitor *v, uint64_t off, const void *data,
		    size_t len, struct error *err);
	/* Called after the last byte of an entry that was wanted. */
	int (*end)(struct tar_visitor *v, struct error *err);
	/* Called when more bytes of the layer came, also skipped ones; may be NULL. */
	void (*came)(struct tar_visitor *v);
	uint64_t plain; /* set for data(): offset of its bytes in the layer */
	/* Receives the unchanged headers of all entries; or NULL. */
	struct source_sink *headers;
	/* The layer consists of headers alone, without content; no entry's bytes may be wanted. */
	bool is_bare;
};

/*
 * Read the layer to its end.  The message of a failure names the entry.
 *   -EBADMSG  not a tar, damaged, or data behind its end
 *   or what layer_read() or the visitor returned
 */
int tar_walk(struct layer *l, struct tar_visitor *v,
	     struct error *err) MUST_CHECK;

/* Would Linux keep the xattr on an inode of the kind `type` (S_IF*)?  For a hard link (`hard`)
 * the kind is not known. */
bool tar_keeps_xattr(const char *name, uint32_t type, bool hard);

/* `path` for a message: at most 200 bytes, unprintable ones escaped. */
#define TAR_NAME_MAX 208
void tar_format_name(const char *path, char out[TAR_NAME_MAX]);

#endif
