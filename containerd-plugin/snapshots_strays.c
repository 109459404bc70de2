// SPDX-License-Identifier: Apache-2.0
/*
 * Releases users that bootseerd has for this snapshotter but that are no snapshots: leftovers of
 * a crash, a full disk or an unanswered call would keep an image mounted over reboots.
 */
#include <errno.h>
#include <inttypes.h>

#include "common/clock.h"
#include "common/compare.h"
#include "common/log.h"
#include "containerd-plugin/snapshots_priv.h"

static bool has_id(const uint64_t *sorted, size_t n, uint64_t id)
{
	return n > 0 && bsearch(&id, sorted, n, sizeof(*sorted), compare_u64);
}

static int release_stray(struct snapshots *s, uint64_t id, struct error *err)
{
	int rc = images_umount(s->images, NULL, id, err);

	if (rc == 0)
		log_warning("snapshots",
			    "released an image that bootseerd kept for nobody: "
			    "snapshot=%" PRIu64
			    " reason=\"it was removed before\"",
			    id);
	return rc;
}

/* Release the mounts of `ids`. Goes on after a mount that cannot be released now, such as a
 * busy one, but stops when bootseerd hangs or does not run. */
static int release_all(struct snapshots *s, const uint64_t *ids, size_t n,
		       int64_t deadline, struct error *err)
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		int rc;

		if (clock_now_ns() > deadline)
			return first < 0 ? first
					 : error_set(err, ETIMEDOUT,
						     "bootseerd takes too "
						     "long");
		rc = release_stray(s, ids[i], first < 0 ? NULL : err);
		if (first == 0)
			first = rc;
		if (rc == -ETIMEDOUT || rc == -EHOSTDOWN)
			return first;
	}
	return first;
}

int snapshots_release_strays(struct snapshots *s, int64_t timeout_ns,
			     struct error *err)
{
	int64_t deadline = clock_now_ns() + timeout_ns;
	AUTO_FREE uint64_t *users = NULL;
	AUTO_FREE uint64_t *known = NULL;
	size_t n_users = 0, n_known = 0, n = 0;
	int rc = images_users(s->images, timeout_ns, &users, &n_users, err);

	/* Users were listed before snapshots: a snapshot is noted before bootseerd hears of
	 * it, so a listed user that is no snapshot now is gone for good. */
	if (rc == 0)
		rc = store_ids(s->store, &known, &n_known, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n_users; i++)
		if (!has_id(known, n_known, users[i]))
			users[n++] = users[i];
	return release_all(s, users, n, deadline, err);
}

int snapshots_mount_tree(struct snapshots *s, const struct digest *tree,
			 uint64_t id, char **ret_path, struct error *err)
{
	AUTO_FREE char *path = NULL;
	struct error why = ERROR_INIT;
	int rc = images_mount(s->images, tree, id, 0, &path, err);

	if (rc < 0)
		return rc;
	rc = store_has(s->store, id, err);
	if (rc > 0) {
		*ret_path = steal_ptr(&path);
		return 0;
	}
	/* containerd removed the snapshot while this call waited for bootseerd, and Cleanup
	 * may have unmounted before the mount: so unmount it here. */
	if (rc == 0 && images_umount(s->images, tree, id, &why) < 0)
		log_warning("snapshots",
			    "unmounted later: snapshot=%" PRIu64
			    " reason=\"%s\"",
			    id, why.msg);
	return rc < 0 ? rc
		      : error_set(err, ENOENT,
				  "its snapshot was removed meanwhile");
}
