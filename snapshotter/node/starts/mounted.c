// SPDX-License-Identifier: Apache-2.0
/* The files of one mount of an image, and the device that serves it. */
#include "snapshotter/node/starts/mounted.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "blockstore/cache_mount.h"
#include "common/clock.h"
#include "common/log.h"
#include "snapshotter/node/constants.h"
#include "snapshotter/node/images/offer_file.h"
#include "snapshotter/node/parser/parser.h"
#include "snapshotter/node/peers/image_swarm.h"

/* How long a thread for local calls waits for other work on the same image. */
#define LOCAL_GATE_NS (INT64_C(30) * 1000000000)

bool mounted_is_complete(const struct mounted *m)
{
	return !m->device;
}

bool mounted_stats(const struct mounted *m, struct device_stats *ret)
{
	if (!m->device)
		return false;
	device_get_stats(m->device, ret);
	return true;
}

struct mounted *mounted_hold(struct image *i)
{
	struct mounted *m;

	images_lock(i->all);
	m = i->mounted && i->mounted->device ? i->mounted : NULL;
	/* Never waits: the only writer locks after `m` cannot be found any more. */
	if (m)
		(void)pthread_rwlock_rdlock(&m->in_use);
	images_unlock(i->all);
	return m;
}

void mounted_release(struct mounted *m)
{
	if (m)
		(void)pthread_rwlock_unlock(&m->in_use);
}

void mounted_free(struct mounted *m)
{
	if (!m)
		return;
	/* Nobody can find the mount any more; wait for those that still hold it. */
	(void)pthread_rwlock_wrlock(&m->in_use);
	(void)pthread_rwlock_unlock(&m->in_use);
	(void)pthread_rwlock_destroy(&m->in_use);
	device_free(m->device);
	image_swarm_put(m->peer);
	if (m->kept)
		cache_mount_drop(m->of->cache, m->hex);
	complete_fini(&m->complete);
	map_file_close(&m->map_file);
	free(m->label);
	free(m->meta_path);
	free(m);
}

/* ---------------------------------------------------------------- opening --- */

/* Open a file of the image and check its digest, since the disk may have damaged it. */
static int open_checked(const struct image *i, const char *name,
			const struct digest *want, char **ret_path,
			struct map_file *ret, struct error *err)
{
	AUTO_FREE char *path = image_path(i, name);
	int rc;

	if (!path)
		return error_nomem(err);
	rc = map_file_open(path, ret, err);
	if (rc == 0)
		rc = map_file_check(ret, want, path, err);
	if (rc < 0)
		return rc;
	map_file_rest(ret);
	if (ret_path)
		*ret_path = steal_ptr(&path);
	return 0;
}

/* Fetch the two files again: the disk lost them. */
static int refetch_files(const struct mounted_of *of, const struct image *i,
			 struct remote_call *call, struct error *err)
{
	AUTO_FREE char *meta = image_path(i, "meta.erofs");
	AUTO_FREE char *map = image_path(i, "blockmap");
	AUTO_FREE char *new_meta = image_path(i, "meta.erofs.new");
	AUTO_FREE char *new_map = image_path(i, "blockmap.new");
	AUTO(source) meta_source = NULL;
	AUTO(source) map_source = NULL;
	struct artifact_sources from = {
		.parser = parser_of_artifacts(of->parser),
	};
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	int rc;

	if (!meta || !map || !new_meta || !new_map)
		return error_nomem(err);
	rc = offer_file_members(i->dir, &meta_source, &map_source, err);
	from.meta = meta_source;
	from.map = map_source;
	if (rc == 0)
		rc = origin_get(of->origins, i->state.host, i->state.repo,
				i->state.plain_http, &origin, err);
	if (rc == 0)
		rc = origin_lease_paced(origin, &call->pace, &lease, err);
	if (rc == 0 && ((unlink(new_meta) < 0 && errno != ENOENT) ||
			(unlink(new_map) < 0 && errno != ENOENT)))
		rc = error_set(err, errno, "remove '%s': %s", new_meta,
			       strerror(errno));
	/* Keep the old files until both new ones are complete: each old file may still be good. */
	if (rc == 0)
		rc = artifact_fetch(lease->store, &i->artifact, &from, new_meta,
				    new_map, err);
	if (rc == 0 && (rename(new_meta, meta) < 0 || rename(new_map, map) < 0))
		rc = error_set(err, errno, "rename to '%s': %s", meta,
			       strerror(errno));
	store_lease_end(lease);
	origin_put(origin);
	return remote_call_why(call, i->state.host, rc, err);
}

/* Check the content once for each image and process.  The digests do not change, but the
 * bootseerd that wrote the files may have checked less than this one. */
static int check_content(const struct mounted_of *of, struct image *i,
			 bool may_wait, const char *meta, struct error *err)
{
	AUTO_FREE char *map = image_path(i, "blockmap");
	int rc;

	if (i->is_checked)
		return 0;
	if (!may_wait)
		return error_set(err, EINPROGRESS, "the parser is needed");
	if (!map)
		return error_nomem(err);
	rc = parser_check(of->parser, meta, map, err);
	i->is_checked = rc == 0;
	return rc;
}

static int open_once(const struct mounted_of *of, struct image *i,
		     bool may_wait, struct map_file *ret_meta,
		     struct mounted **ret, struct error *err)
{
	AUTO(mounted) m = calloc(1, sizeof(*m));
	const struct artifact *a = &i->artifact;
	int rc;

	if (!m)
		return error_nomem(err);
	(void)pthread_rwlock_init(&m->in_use, NULL);
	m->of = of;
	m->label = image_label(i);
	memcpy(m->hex, i->hex, sizeof(m->hex));
	if (!m->label)
		return error_nomem(err);
	rc = open_checked(i, "meta.erofs", &a->meta_raw, &m->meta_path,
			  ret_meta, err);
	if (rc == 0)
		rc = open_checked(i, "blockmap", &a->map_raw, NULL,
				  &m->map_file, err);
	if (rc == 0)
		rc = check_content(of, i, may_wait, m->meta_path, err);
	if (rc == 0)
		rc = blockmap_open(m->map_file.data, m->map_file.len, &m->map,
				   err);
	if (rc < 0) {
		map_file_close(ret_meta);
		return rc;
	}
	map_file_rest(&m->map_file);
	m->image = (struct datapath_image){
		.index = i->state.index,
		.name = m->label,
		.meta_path = m->meta_path,
		.mountpoint = i->mountpoint,
		.device_size = a->device_size,
	};
	*ret = steal_ptr(&m);
	return 0;
}

static int lock_image(const struct mounted_of *of, const struct image *i,
		      struct remote_call *call, int64_t timeout_ns,
		      struct error *err)
{
	int rc = keyed_lock_enter_paced(of->gate, &i->id, call ? timeout_ns : 0,
					call ? &call->pace : NULL, err);

	if (rc == -ETIMEDOUT && !call)
		return error_set(err, EINPROGRESS, "others work on it");
	return call ? remote_call_why(call, i->state.host, rc, err) : rc;
}

int mounted_lock_image(const struct mounted_of *of, const struct image *i,
		       struct remote_call *call, struct error *err)
{
	bool is_local = call && call->is_local;
	int rc = lock_image(of, i, call,
			    is_local ? LOCAL_GATE_NS : NODE_GATE_TIMEOUT_NS,
			    err);

	/* Do not occupy a thread for local calls: a thread of the image's registry has to wait. */
	if (rc == -ETIMEDOUT && is_local)
		return error_set(err, EINPROGRESS, "others work on it");
	return rc;
}

int mounted_lock_image_long(const struct mounted_of *of, const struct image *i,
			    struct remote_call *call, struct error *err)
{
	return lock_image(of, i, call, NODE_GATE_TIMEOUT_NS, err);
}

void mounted_call_init(const struct mounted_of *of, struct remote_call *ret)
{
	remote_call_init(ret, of->is_ending, NULL, clock_now_ns(),
			 of->prepare_timeout_ns);
}

int mounted_open(const struct mounted_of *of, struct image *i,
		 struct remote_call *call, struct map_file *ret_meta,
		 struct mounted **ret, struct error *err)
{
	int rc = open_once(of, i, call, ret_meta, ret, err);

	if (rc != -EBADMSG && rc != -ENOENT)
		return rc;
	if (!call || call->is_local)
		return error_set(err, EINPROGRESS, "the registry is needed");
	log_warning("mount",
		    "damaged image=%.12s reason=\"%s\" "
		    "action=\"fetching it again\"",
		    i->hex, err->msg);
	rc = refetch_files(of, i, call, err);
	return rc < 0 ? rc : open_once(of, i, true, ret_meta, ret, err);
}

int mounted_make_dir(const struct mounted *m, struct error *err)
{
	AUTO_FREE char *dir = strdup(m->image.mountpoint);

	if (!dir)
		return error_nomem(err);
	/* Do not look at the last folder: a hanging mount may be there. */
	*strrchr(dir, '/') = '\0';
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return error_set(err, errno, "create '%s': %s", dir,
				 strerror(errno));
	if (mkdir(m->image.mountpoint, 0755) < 0 && errno != EEXIST)
		return error_set(err, errno, "create '%s': %s",
				 m->image.mountpoint, strerror(errno));
	return 0;
}

/* Open the sources of the device's blocks: peers, which fall back to the origin, or the origin
 * itself. */
static int open_packs(struct mounted *m, struct image *i,
		      struct block_source ***ret, struct error *err)
{
	struct error why = ERROR_INIT;
	AUTO_FREE struct source **stored = NULL;
	struct origin *origin = NULL;
	int rc;

	/* Without peers the image is still mounted. */
	if (image_swarm_get(m->of->peers, i, &m->peer, &why) < 0)
		log_warning("p2p", "image=%.12s without peers reason=\"%s\"",
			    i->hex, why.msg);
	if (m->peer)
		return image_swarm_packs(m->peer, ret, err);
	rc = origin_get(m->of->origins, i->state.host, i->state.repo,
			i->state.plain_http, &origin, err);
	if (rc == 0)
		rc = origin_packs(origin, &i->artifact, i->dir, &m->map,
				  &stored, err);
	if (rc == 0)
		rc = verify_sources_new(stored, i->artifact.n_packs, ret, err);
	origin_put(origin);
	return rc;
}

int mounted_open_device(struct mounted *m, struct image *i, struct error *err)
{
	struct block_source **packs = NULL;
	int rc;

	rc = open_packs(m, i, &packs, err);
	if (rc == 0)
		rc = device_new(m->of->fetcher, &m->map, m->label,
				i->state.host, packs, &m->device, err);
	free(packs);
	m->image.device = m->device;
	return rc;
}

void mounted_close_device(struct mounted *m)
{
	device_free(m->device);
	image_swarm_put(m->peer);
	m->device = m->image.device = NULL;
	m->peer = NULL;
}
