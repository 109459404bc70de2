// SPDX-License-Identifier: Apache-2.0
/* A registry wants the digest of a blob with its bytes: a put goes to a file without a
 * name first. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/temp_file.h"
#include "objects/repo/repo_store_priv.h"

struct repo_put {
	struct object_put base;
	struct hasher *hasher;
	int fd;
};

static struct repo_put *repo_put_of(struct object_put *p)
{
	return container_of(p, struct repo_put, base);
}

int repo_store_put_open(struct object_store *s, const char *name,
			const struct object_put_options *opts,
			struct object_put **ret, struct error *err)
{
	struct repo_put *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->fd = -1;
	rc = store_put_init(&p->base, s, name, opts, err);
	if (rc == 0) {
		p->hasher = hasher_new();
		rc = p->hasher ? 0 : error_nomem(err);
	}
	if (rc == 0)
		rc = temp_file(NULL, &p->fd, err);
	if (rc < 0) {
		repo_store_put_free(&p->base);
		return rc;
	}
	*ret = &p->base;
	return 0;
}

int repo_store_put_write(struct object_put *base, const void *data, size_t len,
			 struct error *err)
{
	struct repo_put *p = repo_put_of(base);
	int rc = fs_pwrite_full(p->fd, data, len, base->size);

	if (rc < 0)
		return error_set(err, -rc,
				 "keep what is on its way to the registry in a "
				 "temporary file: %s: $TMPDIR names another "
				 "folder",
				 strerror(-rc));
	return hasher_update(p->hasher, data, len) < 0 ? error_nomem(err) : 0;
}

static int publish_manifest(struct repo_put *p, const struct repo_manifest *m,
			    struct object_stat *ret, struct error *err)
{
	struct object_store *s = p->base.store;
	struct store_lock lock = { .name = NULL };
	int rc = 0;

	if (p->base.condition != OBJECT_ANY)
		rc = store_lock(s, p->base.name, &lock, err);
	if (rc < 0)
		return rc;
	rc = store_condition(s, &p->base, err);
	if (rc == 0 && lock.name)
		rc = store_lock_check(&lock, err);
	if (rc == 0)
		rc = repo_store_publish(repo_store_of(s), m, ret, err);
	store_unlock(s, &lock);
	return rc;
}

struct repo_upload {
	struct oci_progress base;
	struct object_store *store;
};

static int repo_upload_step(struct oci_progress *base, uint64_t done,
			    uint64_t total)
{
	(void)done;
	(void)total;
	store_note_answer(container_of(base, struct repo_upload, base)->store);
	return 0;
}

int repo_store_put_commit(struct object_put *base, struct object_stat *ret,
			  struct error *err)
{
	struct repo_put *p = repo_put_of(base);
	struct repo_store *s = repo_store_of(base->store);
	struct repo_upload upload = { .base.step = repo_upload_step,
				      .store = base->store };
	struct repo_manifest m = { .size = base->size };
	int rc = 0;

	if (hasher_final(p->hasher, &m.blob) < 0)
		return error_nomem(err);
	if (m.size) {
		rc = oci_put_blob(s->oci, &m.blob, m.size, p->fd, &upload.base,
				  err);
		atomic_fetch_add(&s->base.count.n_requests, 1);
	}
	if (rc < 0)
		return rc;
	/* A registry dates nothing: what is put has the time of whoever puts it. */
	m.modified_ms = clock_wall_ms();
	memcpy(m.name, base->name, strlen(base->name) + 1);
	return publish_manifest(p, &m, ret, err);
}

void repo_store_put_free(struct object_put *base)
{
	struct repo_put *p = repo_put_of(base);

	hasher_free(p->hasher);
	fd_close(p->fd);
	store_put_fini(base);
	free(p);
}
