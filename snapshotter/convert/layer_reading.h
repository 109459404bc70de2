// SPDX-License-Identifier: Apache-2.0
/*
 * The results of reading a whole gzip layer that an index needs: its spans, and the headers of
 * its tar. An unpack keeps them, so that making the index does not read the layer once more.  A
 * nameless file passes them to another process of the same program.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_LAYER_READING_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_LAYER_READING_H

#include "objects/oci.h"
#include "objects/source.h"

struct span_set;

struct layer_reading {
	struct source_sink headers; /* for tar_walk(); it never fails */
	struct span_set *spans;     /* for layer_open() */
	struct digest layer;
	/* largest file in bytes; beyond it the reading is given up */
	uint64_t most;
	/* Private. */
	struct hasher *hash;
	uint64_t n_headers; /* bytes */
	int fd;
	bool is_lost;
};

int layer_reading_new(const char *temp_dir, const struct oci_descriptor *d,
		      uint64_t most, struct layer_reading **ret,
		      struct error *err) MUST_CHECK;
void layer_reading_free(struct layer_reading *r);
DEFINE_AUTO(layer_reading)

/* End the reading of a layer that was read to its end and is right.  The caller gets `*ret_fd`;
 * a process of any user that can open it by /proc may read it. */
int layer_reading_end(struct layer_reading *r, const struct digest *diff_id,
		      uint64_t plain, int *ret_fd,
		      struct error *err) MUST_CHECK;

/* The end of the file; the headers are its begin. */
struct layer_found {
	struct digest layer, diff_id;
	struct digest headers;
	uint64_t n_headers;
	uint64_t plain; /* bytes of the unpacked layer */
};
/* `spans`: as for span_set_load(). */
int layer_reading_load(int fd, struct layer_found *ret, struct span_set *spans,
		       struct error *err) MUST_CHECK;

#endif
