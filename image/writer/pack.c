// SPDX-License-Identifier: Apache-2.0
#include "image/writer/pack.h"

#include <errno.h>

#include "common/array.h"
#include "common/fs.h"
#include "common/temp_file.h"
#include "image/writer/upload.h"

#define SHARE 4u
#define PACKS_MAX 20000 /* of one conversion: they must fit in a manifest */

struct pack_writer {
	const char *temp_dir;
	struct pack_sizes sizes;
	uint64_t closed; /* bytes of the closed packs */
	struct upload *upload;
	int fd; /* of the open pack, or -1 */
	uint64_t size;
	struct hasher *hash;
	struct pack *packs;
	size_t n_packs, cap_packs;
};

int pack_writer_new(const char *temp_dir, const struct pack_sizes *sizes,
		    struct upload *upload, struct pack_writer **ret,
		    struct error *err)
{
	AUTO(pack_writer) w = calloc(1, sizeof(*w));

	if (!w)
		return error_nomem(err);
	w->fd = -1;
	w->temp_dir = temp_dir;
	w->sizes = *sizes;
	w->upload = upload;
	w->hash = hasher_new();
	if (!w->hash)
		return error_nomem(err);
	*ret = steal_ptr(&w);
	return 0;
}

void pack_writer_free(struct pack_writer *w)
{
	if (!w)
		return;
	fd_close(w->fd);
	hasher_free(w->hash);
	free(w->packs);
	free(w);
}

static int close_pack(struct pack_writer *w, struct error *err)
{
	struct pack pack = { .size = w->size };
	int rc = hasher_final(w->hash, &pack.digest);

	if (rc < 0)
		return error_errno(err, -rc, "hash");
	if (array_grow(&w->packs, w->n_packs, &w->cap_packs, 16) < 0)
		return error_nomem(err);
	w->packs[w->n_packs++] = pack;
	w->size = 0;
	w->closed += pack.size;
	return upload_put(w->upload, &pack.digest, pack.size, steal_fd(&w->fd),
			  err);
}

/* Size at which the open pack is closed. */
static uint64_t get_pack_size_limit(const struct pack_writer *w)
{
	uint64_t end = w->closed / SHARE;

	if (end < w->sizes.first)
		end = w->sizes.first;
	return w->sizes.first && end < w->sizes.max ? end : w->sizes.max;
}

int pack_writer_add(struct pack_writer *w, const void *data, uint32_t len,
		    uint32_t *ret_pack, uint64_t *ret_off, struct error *err)
{
	int rc = 0;

	if (w->n_packs >= PACKS_MAX)
		return error_set(err, E2BIG, "more than %d packs", PACKS_MAX);
	if (w->fd < 0)
		rc = temp_file(w->temp_dir, &w->fd, err);
	if (rc < 0)
		return rc;
	rc = fs_pwrite_full(w->fd, data, len, w->size);
	if (rc == 0)
		rc = hasher_update(w->hash, data, len);
	if (rc < 0)
		return fs_refuse_write(w->fd, rc, len, TEMP_CURE, err);
	*ret_pack = (uint32_t)w->n_packs;
	*ret_off = w->size;
	w->size += len;
	return w->size >= get_pack_size_limit(w) ? close_pack(w, err) : 0;
}

int pack_writer_finish(struct pack_writer *w, struct error *err)
{
	return w->fd >= 0 ? close_pack(w, err) : 0;
}

const struct pack *pack_writer_packs(const struct pack_writer *w, size_t *ret_n)
{
	*ret_n = w->n_packs;
	return w->packs;
}
