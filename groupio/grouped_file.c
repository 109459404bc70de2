// SPDX-License-Identifier: Apache-2.0
#include "groupio/grouped_file.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/log.h"

/* Smaller files are read alone: that is faster than a request to another member. */
#define SHARED_MIN MIB

struct grouped_file {
	struct ckpt_file *file;
	struct group_file *group;       /* NULL: it is read without a group */
	struct disk_cache_file *cached; /* NULL: its bytes are not kept */
	/* references by readers here and by the group */
	atomic_uint refs;
	void (*released)(void *arg, const struct ckpt_file *f);
	void *arg;
};

static void grouped_file_unref(struct grouped_file *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	s->released(s->arg, s->file);
	disk_cache_detach(s->cached);
	ckpt_close(s->file);
	free(s);
}

/* Read from the disk cache first: a member that has the bytes there spares all members the
 * store. */
static int shared_source_read(void *arg, uint64_t off, void *buf, size_t len,
			      struct error *err)
{
	struct grouped_file *s = arg;

	if (s->cached && disk_cache_read(s->cached, off, buf, len))
		return 0;
	return ckpt_read(s->file, off, buf, len, 0, err);
}

static int shared_source_check(void *arg, uint64_t off, const void *buf,
			       size_t len, struct error *err)
{
	return ckpt_check_bytes(((struct grouped_file *)arg)->file, off, buf,
				len, err);
}

static void shared_source_release(void *arg)
{
	grouped_file_unref(arg);
}

static const struct group_source_ops shared_source = {
	.read = shared_source_read,
	.check = shared_source_check,
	.release = shared_source_release,
};

/* Size of the units that members exchange: a whole number of chunks that divides a unit of
 * the file; 0: no size does. */
static uint32_t shared_unit(const struct ckpt_file *f)
{
	const uint64_t unit = ckpt_file_unit(f);

	if (unit % GROUP_UNIT_MAX == 0 && ckpt_file_chunk(f) <= GROUP_UNIT_MAX)
		return GROUP_UNIT_MAX;
	return unit <= GROUP_UNIT_MAX ? (uint32_t)unit : 0;
}

/* Open the file in the group; a file that cannot be shared is read alone. */
static void open_in_group(struct group *g, struct grouped_file *s)
{
	struct group_source source = {
		.ops = &shared_source,
		.arg = s,
		.size = ckpt_file_stat(s->file)->size,
		.unit = shared_unit(s->file),
	};
	struct error why = ERROR_INIT;

	if (source.size < SHARED_MIN || !source.unit ||
	    !ckpt_file_can_check(s->file) ||
	    ckpt_file_identity(s->file, &source.identity, &why) < 0)
		return;
	atomic_fetch_add(&s->refs, 1);
	if (group_file_open(g, &source, &s->group, &why) < 0)
		log_warning("ckpt", "a file is read alone reason=\"%s\"",
			    why.msg);
}

int grouped_file_new(struct group *g, struct disk_cache *cache,
		     struct ckpt_file *f,
		     void (*released)(void *arg, const struct ckpt_file *f),
		     void *arg, struct grouped_file **ret, struct error *err)
{
	struct grouped_file *s = calloc(1, sizeof(*s));

	if (!s) {
		released(arg, f);
		ckpt_close(f);
		return error_nomem(err);
	}
	s->file = f;
	s->released = released;
	s->arg = arg;
	atomic_init(&s->refs, 1);
	if (cache)
		s->cached = disk_cache_attach(cache, f);
	if (g)
		open_in_group(g, s);
	*ret = s;
	return 0;
}

void grouped_file_free(struct grouped_file *s)
{
	group_file_close(s->group);
	grouped_file_unref(s);
}

struct ckpt_file *grouped_file_get(struct grouped_file *s)
{
	return s->file;
}

/* Is the range only a hole, of which no bytes are stored anywhere? */
static bool is_hole(const struct ckpt_file *f, uint64_t off, size_t len)
{
	return ckpt_file_next_stored(f, off) >= off + len;
}

static int read_elsewhere(struct grouped_file *s, uint64_t off, void *buf,
			  size_t len, struct error *err)
{
	const uint64_t unit = ckpt_file_unit(s->file);
	char *dst = buf;

	if (!s->group)
		return ckpt_read(s->file, off, buf, len, 0, err);
	while (len) {
		const uint64_t left = unit - off % unit;
		const size_t n = left < len ? (size_t)left : len;
		int rc = is_hole(s->file, off, n)
				 ? ckpt_read(s->file, off, dst, n, 0, err)
				 : group_read(s->group, off, dst, n, err);

		if (rc < 0)
			return rc;
		off += n;
		dst += n;
		len -= n;
	}
	return 0;
}

int grouped_file_read(struct grouped_file *s, uint64_t off, void *buf,
		      size_t len, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc;

	if (s->cached && disk_cache_read(s->cached, off, buf, len))
		return 0;
	rc = read_elsewhere(s, off, buf, len, err);
	if (rc == 0 && s->cached && !is_hole(s->file, off, len) &&
	    disk_cache_keep(s->cached, off, buf, len, &why) < 0)
		log_warning("ckpt",
			    "nothing is kept for a minute reason=\"%s\"",
			    why.msg);
	return rc;
}
