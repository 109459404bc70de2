// SPDX-License-Identifier: Apache-2.0
/* An image with an inode of each kind, of which tests break one rule after the other. */
#ifndef BOOTSEER_TESTS_EROFS_SAMPLE_H
#define BOOTSEER_TESTS_EROFS_SAMPLE_H

#include "image/erofs/erofs.h"
#include "image/erofs/format.h"

struct sample_image {
	uint8_t *data;
	size_t len;
	struct erofs_image img;
};

/* The inodes of the tree that every rule is tried on. */
enum {
	ROOT,
	DIR,    /* /dir, with two files */
	BIG,    /* /big, a folder of whole blocks and a tail */
	EMPTY,  /* /dir/empty, also /dir/second */
	SMALL,  /* /small, inline */
	BLOCKS, /* /blocks, a block of the image */
	RUN,    /* /run, a block of a device */
	SPLIT,  /* /split, chunks with a hole */
	LINK,   /* /link, a symlink */
	FIFO,
	CHAR,
	XATTRS, /* /xattrs, with shared and own ones */
	N_INODES
};

struct sample {
	struct sample_image i;
	uint64_t nid[N_INODES];
};

/* Written, and found right; its bytes may be changed. */
void sample_write(struct sample *s);
void sample_fini(struct sample *s);
#define AUTO_SAMPLE __attribute__((cleanup(sample_fini))) struct sample

/* For trees of a test's own: an inode more, and the image. */
struct inode *sample_add(struct tree *t, struct inode *dir, const char *name,
			 uint32_t mode);
void sample_write_image(struct tree *t, struct sample_image *i);

uint8_t *sample_super(struct sample *s);
uint8_t *sample_inode(struct sample *s, int which);
/* What lies behind an inode without xattrs. */
uint8_t *sample_tail(struct sample *s, int which);
/* The k-th entry of a folder in its inode's block. */
uint8_t *sample_entry(struct sample *s, int which, size_t k);

#endif
