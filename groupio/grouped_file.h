// SPDX-License-Identifier: Apache-2.0
/*
 * A version of a file, shared by its readers here and by the group of mounts that read it
 * together; the group may need it for longer than the readers. Any thread.
 */
#ifndef BOOTSEER_GROUPIO_GROUPED_FILE_H
#define BOOTSEER_GROUPIO_GROUPED_FILE_H

#include "ckpt-fuse/ckpt.h"
#include "ckpt-fuse/disk_cache.h"
#include "groupio/groupio.h"

struct grouped_file;

/* Takes `f`, also on failure. When neither readers nor the group need it, released(arg) is
 * called and then `f` is closed. `g` NULL: no group; `cache` NULL: no disk cache. */
int grouped_file_new(struct group *g, struct disk_cache *cache,
		     struct ckpt_file *f,
		     void (*released)(void *arg, const struct ckpt_file *f),
		     void *arg, struct grouped_file **ret,
		     struct error *err) MUST_CHECK;
void grouped_file_free(
	struct grouped_file *s); /* its readers are done with it */
struct ckpt_file *grouped_file_get(struct grouped_file *s);

/* As ckpt_read(), without a deadline; reads from the disk cache or another mount where that
 * has the bytes. */
int grouped_file_read(struct grouped_file *s, uint64_t off, void *buf,
		      size_t len, struct error *err) MUST_CHECK;

#endif
