// SPDX-License-Identifier: Apache-2.0
/* The beginning of a FUSE mount: /dev/fuse, mount(2), the kernel's INIT. */
#ifndef BOOTSEER_FUSE_INIT_PRIV_H
#define BOOTSEER_FUSE_INIT_PRIV_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

/* Open /dev/fuse. */
int init_open(int *ret_fd, struct error *err) MUST_CHECK;

/* Mount it; `data` are options beside those of the protocol, `flags` those beside
 * MS_NOSUID and MS_NODEV.  Allocates nothing. */
int init_mount(int fd, const char *fstype, const char *source, const char *path,
	       const char *data, unsigned long flags,
	       struct error *err) MUST_CHECK;

/* The kernel refuses to write into less, before it knows better. */
#define INIT_BUFFER FUSE_MIN_READ_BUFFER

/* Read INIT, which the kernel sends first of all.  Where `ret` has room for INIT_BUFFER
 * already, nothing is allocated. */
int init_read(int fd, struct buf *ret, bool *ret_resend,
	      struct error *err) MUST_CHECK;

/* Is it INIT, and can this kernel send requests again (FUSE_HAS_RESEND)? */
int init_check(const struct buf *request, bool *ret_resend,
	       struct error *err) MUST_CHECK;

/* Ask the kernel to send again what was read of it and never answered. */
int init_resend(int fd, struct error *err) MUST_CHECK;

/* Tell the kernel that this kind of request is not known here, ever. */
int init_refuse(int fd, uint64_t unique, struct error *err) MUST_CHECK;

/* Answer a second INIT with the answer to the first. */
int init_answer_again(int fd, uint64_t unique, const struct buf *reply,
		      struct error *err) MUST_CHECK;

#endif
