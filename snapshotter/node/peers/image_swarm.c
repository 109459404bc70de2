// SPDX-License-Identifier: Apache-2.0
/* Images of the node and the swarms that they are in. */

#include "common/log.h"
#include "snapshotter/node/images/map_file.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/peers/image_swarm_priv.h"
#include "snapshotter/node/peers/metadata_swarm.h"

/* Number of images that are served to peers again after a restart without a request. */
#define RESUME_MAX 32

/* The swarm of an image, used by image->peer and by each device that reads
 * through it. */
struct image_swarm {
	struct image_swarms *all;
	struct image *image;   /* a use of the image */
	struct origin *origin; /* a use; shows the right to pull */
	struct map_file file;  /* bytes that `map` refers to */
	struct blockmap map;
	struct p2p_image *p2p;
	char *label, *repo;
	unsigned int refs; /* images_lock(), as for other counts */
	/* bytes that were already reported; under image_swarms.telling */
	struct image_swarm_bytes told;
};

static char *image_swarm_authorization(void *arg, struct pace *pace)
{
	const struct image_swarm *p = arg;

	return image_swarms_authorization(p->origin, &p->image->artifact.digest,
					  pace);
}

static void image_swarm_free(struct image_swarm *p)
{
	if (!p)
		return;
	p2p_image_close(p->p2p);
	map_file_close(&p->file);
	origin_put(p->origin);
	images_put(p->image);
	free(p->label);
	free(p->repo);
	free(p);
}

static int open_map(struct image_swarm *p, struct error *err)
{
	AUTO_FREE char *path = image_path(p->image, "blockmap");
	int rc;

	if (!path)
		return error_nomem(err);
	rc = map_file_open(path, &p->file, err);
	if (rc == 0)
		rc = map_file_check(&p->file, &p->image->artifact.map_raw, path,
				    err);
	if (rc == 0)
		rc = blockmap_open(p->file.data, p->file.len, &p->map, err);
	return rc;
}

static int image_swarm_join(struct image_swarm *p, struct error *err)
{
	struct image *i = p->image;
	struct p2p_image_config cfg = {
		.image = i->artifact.digest,
		.map = &p->map,
		.authorization = image_swarm_authorization,
		.arg = p,
	};
	int rc;

	p->label = image_label(i);
	p->repo = origin_place(i->state.host, i->state.repo);
	if (!p->label || !p->repo)
		return error_nomem(err);
	rc = open_map(p, err);
	if (rc == 0)
		rc = origin_get(p->all->of.origins, i->state.host,
				i->state.repo, i->state.plain_http, &p->origin,
				err);
	if (rc == 0)
		rc = origin_packs(p->origin, &i->artifact, i->dir, &p->map,
				  &cfg.packs, err);
	if (rc < 0)
		return rc;
	cfg.label = p->label;
	cfg.repo = p->repo;
	rc = p2p_image_open(p->all->p2p, &cfg, &p->p2p, err);
	free(cfg.packs);
	map_file_rest(&p->file);
	return rc;
}

static struct image_swarm *image_swarm_use(struct image *i)
{
	struct image_swarm *p;

	images_lock(i->all);
	p = i->peer;
	if (p)
		p->refs++;
	images_unlock(i->all);
	return p;
}

static uint64_t counter_growth(uint64_t *told, uint64_t now)
{
	uint64_t was = *told;

	if (now <= was)
		return 0;
	*told = now;
	return now - was;
}

void image_flow_count(struct image_swarm_bytes *told,
		      const struct image_swarm_bytes *now,
		      struct image_flow *ret)
{
	ret->peer_bytes = counter_growth(&told->peers, now->peers);
	ret->origin_bytes = counter_growth(&told->origin, now->origin);
}

void image_swarm_take_flow(struct image_swarms *s, struct image *i,
			   struct image_flow *ret)
{
	struct image_swarm *p = s ? image_swarm_use(i) : NULL;
	struct image_swarm_bytes now;

	*ret = (struct image_flow){ .n = 0 };
	if (!p)
		return;
	/* If two starts end at once, the first one gets the peers' names and bytes. */
	(void)pthread_mutex_lock(&s->telling);
	ret->n = p2p_image_take_givers(p->p2p, ret->givers, IMAGE_FLOW_GIVERS);
	image_swarm_get_bytes(s, i, &now);
	image_flow_count(&p->told, &now, ret);
	(void)pthread_mutex_unlock(&s->telling);
	image_swarm_put(p);
}

static int image_swarm_new(struct image_swarms *s, struct image *i,
			   struct image_swarm **ret, struct error *err)
{
	struct image_swarm *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->all = s;
	p->image = i;
	images_ref(i);
	rc = image_swarm_join(p, err);
	if (rc < 0) {
		image_swarm_free(p);
		return error_wrap(err, rc, "peers of image %.12s", i->hex);
	}
	images_lock(i->all);
	/* A use for the caller, and another for the image unless it was removed meanwhile. */
	p->refs = 1 + !i->removed;
	i->peer = i->removed ? NULL : p;
	images_unlock(i->all);
	*ret = p;
	return 0;
}

int image_swarm_get(struct image_swarms *s, struct image *i,
		    struct image_swarm **ret, struct error *err)
{
	int rc = 0;

	*ret = NULL;
	if (!s)
		return 0;
	*ret = image_swarm_use(i);
	if (*ret)
		return 0;
	(void)pthread_mutex_lock(&s->opening);
	*ret = image_swarm_use(i);
	if (!*ret)
		rc = image_swarm_new(s, i, ret, err);
	(void)pthread_mutex_unlock(&s->opening);
	return rc;
}

void image_swarm_put(struct image_swarm *p)
{
	struct images *all;
	bool last;

	if (!p)
		return;
	all = p->image->all;
	images_lock(all);
	last = --p->refs == 0;
	images_unlock(all);
	if (last)
		image_swarm_free(p);
}

void image_swarm_drop(struct image *i)
{
	struct image_swarm *p;
	struct metadata_swarm *m;

	images_lock(i->all);
	p = i->peer;
	m = i->metadata;
	i->peer = NULL;
	i->metadata = NULL;
	images_unlock(i->all);
	image_swarm_put(p);
	metadata_swarm_close(m);
}

void image_swarm_keep_metadata(struct image *i, struct metadata_swarm *m)
{
	images_lock(i->all);
	if (!i->removed && !i->metadata)
		i->metadata = steal_ptr(&m);
	images_unlock(i->all);
	metadata_swarm_close(m);
}

int image_swarm_packs(struct image_swarm *p, struct block_source ***ret,
		      struct error *err)
{
	size_t n = p->image->artifact.n_packs, k;
	struct block_source **packs =
		(struct block_source **)calloc(n + 1,
					       sizeof(struct block_source *));
	int rc = 0;

	if (!packs)
		return error_nomem(err);
	for (k = 0; k < n && rc == 0; k++)
		rc = p2p_image_source(p->p2p, (uint32_t)k, &packs[k], err);
	if (rc < 0) {
		for (k = 0; k < n; k++)
			block_source_free(packs[k]);
		free(packs);
		return rc;
	}
	*ret = packs;
	return 0;
}

int image_swarm_fetch(void *peer_image, const struct device_list *list,
		      struct error *err)
{
	struct image_swarm *p = peer_image;

	return p2p_image_fetch(p->p2p, list, err);
}

void image_swarms_close(struct image_swarms *s)
{
	struct image **list;
	size_t len, k;

	if (!s)
		return;
	if (images_list(s->of.images, &list, &len, NULL) == 0) {
		for (k = 0; k < len; k++)
			image_swarm_drop(list[k]);
		images_list_free(list, len);
	}
	p2p_close(s->p2p);
	(void)pthread_mutex_destroy(&s->opening);
	(void)pthread_mutex_destroy(&s->telling);
	free(s);
}

/* ----------------------------------------------------------------- restart --- */

static int compare_images_by_users(const void *a, const void *b)
{
	const struct image *const *x = a, *const *y = b;
	size_t m = (*x)->state.users.n, n = (*y)->state.users.n;

	return m > n ? -1 : m < n;
}

static void resume_metadata(struct image_swarms *s, struct image *i)
{
	AUTO_FREE char *label = image_label(i);
	const struct metadata_swarm_of of = {
		.artifact = &i->artifact,
		.host = i->state.host,
		.repo = i->state.repo,
		.label = label,
		.plain_http = i->state.plain_http,
		.must_hold = true,
	};
	struct error err = ERROR_INIT;
	struct metadata_swarm *m = NULL;
	int rc = label ? metadata_swarm_open(s, &of, &m, &err)
		       : error_nomem(&err);

	if (rc < 0)
		log_warning("p2p",
			    "image=%.12s its metadata is not served "
			    "reason=\"%s\"",
			    i->hex, err.msg);
	image_swarm_keep_metadata(i, m);
}

void image_swarms_resume(struct image_swarms *s)
{
	struct error err = ERROR_INIT;
	struct image_swarm *p;
	struct image **list;
	size_t len, k;

	if (!s || images_list(s->of.images, &list, &len, NULL) < 0)
		return;
	images_lock(s->of.images);
	qsort(list, len, sizeof(struct image *), compare_images_by_users);
	images_unlock(s->of.images);
	for (k = 0; k < len && k < RESUME_MAX; k++) {
		if (image_swarm_get(s, list[k], &p, &err) < 0)
			log_warning("p2p",
				    "image=%.12s not served reason=\"%s\"",
				    list[k]->hex, err.msg);
		image_swarm_put(p);
		resume_metadata(s, list[k]);
	}
	images_list_free(list, len);
}

struct bytes_of_image {
	const struct digest *image;
	struct image_swarm_bytes *ret;
};

static void add_bytes(void *arg, const struct p2p_image_info *info)
{
	const struct bytes_of_image *of = arg;

	if (info->is_metadata || !digest_equal(&info->image, of->image))
		return;
	of->ret->peers += info->from_peers;
	of->ret->origin += info->from_origin;
}

void image_swarm_get_bytes(struct image_swarms *s, const struct image *i,
			   struct image_swarm_bytes *ret)
{
	struct bytes_of_image of = { .image = &i->artifact.digest, .ret = ret };

	*ret = (struct image_swarm_bytes){ .peers = 0 };
	if (s)
		(void)!p2p_each_image(s->p2p, add_bytes, &of, NULL);
}
