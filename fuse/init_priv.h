// SPDX-License-Identifier: Apache-2.0
/* The first steps of a FUSE mount: /dev/fuse, mount(2), the kernel's INIT request. */
#ifndef BOOTSEER_FUSE_INIT_PRIV_H
#define BOOTSEER_FUSE_INIT_PRIV_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

/* Open /dev/fuse. */
int init_open(int *ret_fd, struct error *err) MUST_CHECK;

/* Mount the file system of `fd`; `data` are options besides the protocol's, `flags` those
 * besides MS_NOSUID and MS_NODEV. Allocates no memory. */
int init_mount(int fd, const char *fstype, const char *source, const char *path,
	       const char *data, unsigned long flags,
	       struct error *err) MUST_CHECK;

/* Smallest buffer into which the kernel writes requests before INIT is answered. */
#define INIT_BUFFER FUSE_MIN_READ_BUFFER

/* Read INIT, the kernel's first request. Allocates nothing if `ret` has room for
 * INIT_BUFFER. */
int init_read(int fd, struct buf *ret, bool *ret_resend,
	      struct error *err) MUST_CHECK;

/* Check that it is an INIT request; *ret_resend: this kernel can resend requests
 * (FUSE_HAS_RESEND). */
int init_check(const struct buf *request, bool *ret_resend,
	       struct error *err) MUST_CHECK;

/* Have the kernel resend requests that were read and not answered. */
int init_resend(int fd, struct error *err) MUST_CHECK;

/* Answer that this kind of request is not supported. */
int init_refuse(int fd, uint64_t unique, struct error *err) MUST_CHECK;

/* Answer a second INIT with the answer to the first. */
int init_answer_again(int fd, uint64_t unique, const struct buf *reply,
		      struct error *err) MUST_CHECK;

#endif
