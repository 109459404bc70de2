// SPDX-License-Identifier: Apache-2.0
/*
 * A version of a file, as its readers here have it, and the group of mounts that read it
 * together, which may need it for longer.  Any thread.
 */
#ifndef BOOTSEER_GROUPIO_GROUPED_FILE_H
#define BOOTSEER_GROUPIO_GROUPED_FILE_H

#include "ckpt-fuse/ckpt.h"
#include "ckpt-fuse/disk_cache.h"
#include "groupio/groupio.h"

struct grouped_file;

/* Takes `f`, also on failure.  When nobody needs it, before it is closed, released(arg) is
 * called.  `g` NULL: there is no group; `cache` NULL: nothing is kept on the disk. */
int grouped_file_new(struct group *g, struct disk_cache *cache,
		     struct ckpt_file *f,
		     void (*released)(void *arg, const struct ckpt_file *f),
		     void *arg, struct grouped_file **ret,
		     struct error *err) MUST_CHECK;
void grouped_file_free(
	struct grouped_file *s); /* its readers need it no more */
struct ckpt_file *grouped_file_get(struct grouped_file *s);

/* As ckpt_read(), without a deadline; of the disk or another mount where it has the bytes. */
int grouped_file_read(struct grouped_file *s, uint64_t off, void *buf,
		      size_t len, struct error *err) MUST_CHECK;

#endif
