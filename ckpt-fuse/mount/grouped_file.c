// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/grouped_file.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/log.h"

/* Smaller files are there before others could be asked. */
#define SHARED_MIN MIB

struct grouped_file {
	struct ckpt_file *file;
	struct group_file *group; /* NULL: it is read alone */
	atomic_uint refs;         /* its readers', and the group's */
	void (*released)(void *arg, const struct ckpt_file *f);
	void *arg;
};

static void grouped_file_unref(struct grouped_file *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	s->released(s->arg, s->file);
	ckpt_close(s->file);
	free(s);
}

static int shared_source_read(void *arg, uint64_t off, void *buf, size_t len,
			      struct error *err)
{
	return ckpt_read(((struct grouped_file *)arg)->file, off, buf, len, 0,
			 err);
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

/* A file that cannot be shared is read alone. */
static void open_in_group(struct group *g, struct grouped_file *s)
{
	struct group_source source = {
		.ops = &shared_source,
		.arg = s,
		.size = ckpt_file_stat(s->file)->size,
	};
	const uint64_t unit = ckpt_file_unit(s->file);
	struct error why = ERROR_INIT;

	if (source.size < SHARED_MIN || unit > GROUP_UNIT_MAX ||
	    !ckpt_file_can_check(s->file) ||
	    ckpt_file_identity(s->file, &source.identity, &why) < 0)
		return;
	source.unit = (uint32_t)unit;
	atomic_fetch_add(&s->refs, 1);
	if (group_file_open(g, &source, &s->group, &why) < 0)
		log_warning("ckpt", "a file is read alone reason=\"%s\"",
			    why.msg);
}

int grouped_file_new(struct group *g, struct ckpt_file *f,
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

/* Holes are nowhere. */
static bool is_hole(const struct ckpt_file *f, uint64_t off, size_t len)
{
	return ckpt_file_next_stored(f, off) >= off + len;
}

int grouped_file_read(struct grouped_file *s, uint64_t off, void *buf,
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
