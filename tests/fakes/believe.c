// SPDX-License-Identifier: Apache-2.0
/*
 * Has the kernel believe names and attributes of a FUSE mount for an hour, of a program as it
 * is shipped:
 *
 *	LD_PRELOAD=.../test-believe.so program
 *
 * What the program lets it believe for a moment, it believes for as long as a test needs.
 * What it is not to believe, and what the program takes back, stays so.
 */
#include <stdlib.h>

#include <fuse3/fuse_lowlevel.h>

#include "next.h"

#define BELIEVED_S 3600.0

static double longer(double valid_s)
{
	return valid_s > 0 ? BELIEVED_S : 0;
}

static struct fuse_entry_param believed(const struct fuse_entry_param *e)
{
	struct fuse_entry_param ret = *e;

	ret.attr_timeout = longer(e->attr_timeout);
	ret.entry_timeout = longer(e->entry_timeout);
	return ret;
}

typedef int attr_fn(fuse_req_t, const struct stat *, double);
int fuse_reply_attr(fuse_req_t req, const struct stat *attr,
		    double attr_timeout)
{
	static attr_fn *real;

	if (!real)
		*(void **)&real = next("fuse_reply_attr");
	return real(req, attr, longer(attr_timeout));
}

typedef int entry_fn(fuse_req_t, const struct fuse_entry_param *);
int fuse_reply_entry(fuse_req_t req, const struct fuse_entry_param *e)
{
	const struct fuse_entry_param b = believed(e);
	static entry_fn *real;

	if (!real)
		*(void **)&real = next("fuse_reply_entry");
	return real(req, &b);
}

typedef int create_fn(fuse_req_t, const struct fuse_entry_param *,
		      const struct fuse_file_info *);
int fuse_reply_create(fuse_req_t req, const struct fuse_entry_param *e,
		      const struct fuse_file_info *fi)
{
	const struct fuse_entry_param b = believed(e);
	static create_fn *real;

	if (!real)
		*(void **)&real = next("fuse_reply_create");
	return real(req, &b, fi);
}

typedef size_t plus_fn(fuse_req_t, char *, size_t, const char *,
		       const struct fuse_entry_param *, off_t);
size_t fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t bufsize,
			      const char *name,
			      const struct fuse_entry_param *e, off_t off)
{
	static plus_fn *real;
	struct fuse_entry_param b;

	if (!real)
		*(void **)&real = next("fuse_add_direntry_plus");
	/* Without an entry it says how long it would be. */
	if (!e)
		return real(req, buf, bufsize, name, NULL, off);
	b = believed(e);
	return real(req, buf, bufsize, name, &b, off);
}
