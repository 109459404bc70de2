// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/fetch.h"

#include <errno.h>

#include "blockstore/span_map.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/side_by_side.h"
#include "image/erofs/erofs.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/images/map_file.h"
#include "snapshotter/node/offers/offers.h"
#include "snapshotter/node/parser/parser.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/peers/metadata_swarm.h"

/* Do the metadata image, the block map and the artifact agree? */
static int check_files(const struct artifact *a, const char *meta_path,
		       const char *map_path, struct error *err)
{
	struct map_file meta = MAP_FILE_INIT, map = MAP_FILE_INIT;
	struct erofs_image image;
	struct blockmap blocks;
	struct pack p;
	size_t i;
	int rc = map_file_open(meta_path, &meta, err);

	if (rc == 0)
		rc = erofs_open(meta.data, meta.len, &image, err);
	if (rc == 0 &&
	    (image.n_devices != 1 || image.device_size != a->device_size))
		rc = error_set(err, EBADMSG,
			       "metadata image: its device is not the "
			       "artifact's");
	if (rc == 0 && image.n_inodes != a->n_inodes)
		rc = error_set(err, EBADMSG,
			       "metadata image: %llu inodes, the artifact "
			       "says %llu",
			       (unsigned long long)image.n_inodes,
			       (unsigned long long)a->n_inodes);
	if (rc == 0)
		rc = map_file_open(map_path, &map, err);
	if (rc == 0)
		rc = blockmap_open(map.data, map.len, &blocks, err);
	if (rc == 0 && (blocks.device_size != a->device_size ||
			blocks.n_packs != a->n_packs ||
			blockmap_is_index(&blocks) !=
				(a->format == ARTIFACT_FORMAT_INDEX)))
		rc = error_set(err, EBADMSG,
			       "block map: its form, size or number of packs "
			       "is not the artifact's");
	for (i = 0; rc == 0 && i < a->n_packs; i++) {
		blockmap_pack(&blocks, i, &p);
		if (!digest_equal(&p.digest, &a->packs[i].digest) ||
		    p.size != a->packs[i].size)
			rc = error_set(err, EBADMSG,
				       "block map: pack %zu is not the "
				       "artifact's",
				       i);
	}
	map_file_close(&meta);
	map_file_close(&map);
	return rc;
}

/* Join the swarm of the artifact's metadata; NULL: the files come without peers. */
static struct metadata_swarm *join_metadata(const struct fetch_request *r)
{
	const struct metadata_swarm_of of = {
		.artifact = r->artifact,
		.host = r->place->host,
		.repo = r->place->repo,
		.label = r->label,
		.plain_http = r->place->plain_http,
	};
	struct error err = ERROR_INIT;
	struct metadata_swarm *m;

	if (metadata_swarm_open(r->peers, &of, &m, &err) < 0) {
		log_warning("p2p",
			    "image=\"%s\" metadata without peers "
			    "reason=\"%s\"",
			    r->label, err.msg);
		return NULL;
	}
	return m;
}

/* Read the files from peers, if there are any; if that fails, whatever the reason, read them
 * without peers, unless the node is ending. */
static int read_files(struct metadata_swarm *m, const struct fetch_request *r,
		      const char *meta, const char *map, struct error *err)
{
	const struct artifact_sources from = {
		.parser = parser_of_artifacts(r->parser),
	};
	struct error why = ERROR_INIT;
	int rc = m ? metadata_swarm_fetch(m, r->store, r->artifact, r->pace,
					  meta, map, &why)
		   : 0;

	if (rc == -ECANCELED)
		return error_set(err, ECANCELED, "%s", why.msg);
	if (m && rc == 0)
		return 0;
	if (m)
		log_warning("fetch",
			    "metadata came from no peer reason=\"%s\" "
			    "action=\"read from the registry\"",
			    why.msg);
	return artifact_fetch(r->store, r->artifact, &from, meta, map, err);
}

/* A new image's folder that is being filled with the files and texts. */
struct folder_filling {
	struct metadata_swarm *m; /* or NULL */
	const struct fetch_request *request;
	const char *dir;
	char *meta, *map;
};

/* Two tasks at once: task 0 waits for the registry, task 1 writes the texts to the disk. */
static int fetch_fill(void *arg, unsigned int index, struct error *err)
{
	const struct folder_filling *f = arg;

	return index == 0
		       ? read_files(f->m, f->request, f->meta, f->map, err)
		       : images_stage_texts(f->dir, f->request->artifact, err);
}

static int fetch_by_network(const struct fetch_request *r,
			    struct metadata_swarm *m, const char *dir,
			    char *meta, char *map, struct error *err)
{
	return side_by_side(2, fetch_fill,
			    &(struct folder_filling){ .m = m,
						      .request = r,
						      .dir = dir,
						      .meta = meta,
						      .map = map },
			    err);
}

/* Fill the folder from an index that the service had: both files are in memory or on the disk
 * already. */
static int fetch_by_offer(const struct fetch_request *r, const char *dir,
			  const char *meta, const char *map, struct error *err)
{
	AUTO(source) meta_source = NULL;
	AUTO(source) map_source = NULL;
	struct artifact_sources from = {
		.parser = parser_of_artifacts(r->parser),
	};
	int rc = offer_found_keep(r->offer, dir, err);

	if (rc == 0)
		rc = offer_file_members(dir, &meta_source, &map_source, err);
	from.meta = meta_source;
	from.map = map_source;
	if (rc == 0)
		rc = artifact_fetch(r->store, r->artifact, &from, meta, map,
				    err);
	return rc < 0 ? rc : images_stage_texts(dir, r->artifact, err);
}

/* `ret_swarm` gets the swarm that the files came by, or NULL. */
static int fetch_files(const struct fetch_request *r, const char *dir,
		       struct metadata_swarm **ret_swarm, struct error *err)
{
	AUTO_FREE char *meta = fs_join(dir, "meta.erofs");
	AUTO_FREE char *map = fs_join(dir, "blockmap");
	int rc;

	if (!meta || !map)
		return error_nomem(err);
	*ret_swarm = r->offer ? NULL : join_metadata(r);
	rc = r->offer ? fetch_by_offer(r, dir, meta, map, err)
		      : fetch_by_network(r, *ret_swarm, dir, meta, map, err);
	return rc < 0 ? rc : check_files(r->artifact, meta, map, err);
}

int fetch_image(const struct fetch_request *r, struct image **ret,
		struct error *err)
{
	const uint64_t room = artifact_disk_bytes(r->artifact);
	struct metadata_swarm *m = NULL;
	AUTO_FREE char *staged = NULL;
	struct image *i = NULL;
	int rc = disk_reserve(r->disk, room, err);

	if (rc < 0)
		return rc;
	rc = images_stage(r->images, r->id, &staged, err);
	if (rc == 0)
		rc = fetch_files(r, staged, &m, err);
	if (rc == 0)
		rc = images_add(r->images, staged, r->artifact, r->place, &i,
				err);
	if (rc < 0 && staged && fs_remove_tree(staged, NULL) < 0)
		log_warning("fetch", "leftover path=\"%s\"", staged);
	if (rc == 0) {
		i->is_checked = true;
		image_swarm_keep_metadata(i, steal_ptr(&m));
		*ret = i;
	}
	metadata_swarm_close(m);
	disk_settle(r->disk, room, rc == 0 ? i->dir : NULL);
	return rc;
}
