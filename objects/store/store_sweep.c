// SPDX-License-Identifier: Apache-2.0
/* Removes leftovers of interrupted uploads, and old locks. */
#include "objects/store/backend.h"
#include "objects/store/store_lock.h"

static int64_t time_before(int64_t now_ms, uint64_t older_ms)
{
	return now_ms > 0 && older_ms < (uint64_t)now_ms
		       ? now_ms - (int64_t)older_ms
		       : 0;
}

static int sweep_folder(struct object_store *s, const char *folder,
			int64_t before_ms, int64_t locks_before_ms,
			size_t *ret_n, struct error *err)
{
	size_t n_locks = 0;
	int rc;

	*ret_n = 0;
	(void)store_call_begin(s);
	rc = s->ops->sweep(s, folder, before_ms, ret_n, err);
	if (rc == 0)
		rc = store_lock_sweep(s, locks_before_ms, &n_locks, err);
	store_call_end(s, rc);
	*ret_n += n_locks;
	return rc < 0 ? error_wrap(err, rc, "%s: sweep '%s'", s->url, STORE_TMP)
		      : rc;
}

int object_store_sweep(struct object_store *s, uint64_t older_ms, size_t *ret_n,
		       struct error *err)
{
	/* Age 0 means all uploads: by a store's clock of whole seconds, one just left may seem
	 * to be from the future. But locks of age 0 are in use. */
	int64_t now_ms = 0, before_ms = INT64_MAX, locks_before_ms = 0;
	int rc = older_ms ? object_store_now(s, &now_ms, err) : 0;

	*ret_n = 0;
	if (rc < 0)
		return rc;
	if (older_ms) {
		before_ms = time_before(now_ms, older_ms);
		locks_before_ms =
			time_before(now_ms, older_ms > STORE_LOCK_LEFT_MS
						    ? older_ms
						    : STORE_LOCK_LEFT_MS);
	}
	return sweep_folder(s, "", before_ms, locks_before_ms, ret_n, err);
}

int object_store_sweep_folder(struct object_store *s, const char *folder,
			      int64_t before_ms, size_t *ret_n,
			      struct error *err)
{
	return sweep_folder(s, folder, before_ms, before_ms, ret_n, err);
}
