// SPDX-License-Identifier: Apache-2.0
/* Images of the node and the swarms that they are in. */
#include "snapshotter/node/peers/image_swarm.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/node/images/map_file.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/peers/metadata_swarm.h"
#include "snapshotter/node/constants.h"

#define NAME_MAX_BYTES 256
/* Images that are served again after a restart, before anybody uses them. */
#define RESUME_MAX 32

struct image_swarms {
	struct p2p *p2p;
	char name[NAME_MAX_BYTES];
	pthread_mutex_t opening; /* one image joins at a time */
	pthread_mutex_t telling; /* one start takes an image's flow at a time */
};

/* Of one image: image->peer, and each device that reads through it. */
struct image_swarm {
	struct node *node;
	struct image *image;   /* a use */
	struct origin *origin; /* a use; for the right to pull */
	struct map_file file;  /* what `map` views */
	struct blockmap map;
	struct p2p_image *p2p;
	char *label, *repo;
	unsigned int refs;             /* images_lock(), as the rest */
	struct image_swarm_bytes told; /* image_swarms.telling */
};

/* -------------------------------------------------------- open and close --- */

/* bootseerd.conf has "open" for labs only, and says so each time. */
static bool is_open(const struct node_config *cfg)
{
	return strcmp(cfg->p2p_security, "open") == 0;
}

/* What the operator is told, and how. */
static void note(void *arg, enum p2p_note what, const char *about,
		 const char *why)
{
	static const struct {
		enum log_level level;
		const char *event, *key;
	} lines[P2P_NOTES] = {
		[P2P_TRACKER_LOST] = { LOG_LEVEL_WARNING, "tracker lost",
				       "url" },
		[P2P_TRACKER_REFUSES] = { LOG_LEVEL_WARNING, "tracker refuses",
					  "url" },
		[P2P_TRACKER_BACK] = { LOG_LEVEL_INFO, "tracker back", "url" },
		[P2P_RIGHT_REFUSED] = { LOG_LEVEL_WARNING,
					"no capability, the registry is read",
					"image" },
		[P2P_RIGHT_GIVEN] = { LOG_LEVEL_INFO, "capability given",
				      "image" },
		[P2P_CERT_ENDS] = { LOG_LEVEL_WARNING, "certificate ends soon",
				    "file" },
		[P2P_CERT_OVER] = { LOG_LEVEL_WARNING, "certificate is over",
				    "file" },
		[P2P_CERT_GOOD] = { LOG_LEVEL_INFO, "certificate is good again",
				    "file" },
		[P2P_DENIED] = { LOG_LEVEL_WARNING, "denied another node",
				 "node" },
		[P2P_DENIED_US] = { LOG_LEVEL_WARNING, "denied by another node",
				    "node" },
		[P2P_UNTRUSTED] = { LOG_LEVEL_WARNING, "link refused", "node" },
		[P2P_LINK_REFUSED] = { LOG_LEVEL_WARNING, "link refused",
				       "node" },
		[P2P_UNREACHABLE] = { LOG_LEVEL_WARNING, "node unreachable",
				      "node" },
		[P2P_NAMESAKE] = { LOG_LEVEL_WARNING,
				   "another node has this node's name",
				   "node" },
		[P2P_RDMA_FAULT] = { LOG_LEVEL_WARNING,
				     "rdma failed, tcp goes on", "node" },
		[P2P_REVOKED_UNREAD] = { LOG_LEVEL_WARNING,
					 "what was revoked is not known",
					 "list" },
		[P2P_MADE_UP] = { LOG_LEVEL_WARNING,
				  "a node's word of others is not heard",
				  "node" },
	};

	(void)arg;
	log_line(lines[what].level, "p2p", "%s %s=\"%s\"%s%s%s",
		 lines[what].event, lines[what].key, about,
		 *why ? " reason=\"" : "", why, *why ? "\"" : "");
}

/* May a tracker have secrets by http://?  node_config_check() has seen that each of them
 * may, or that there are none. */
static bool is_plain(const struct node_config *cfg)
{
	for (char *const *url = cfg->p2p_trackers; url && *url; url++)
		if (node_config_is_plain(cfg, *url))
			return true;
	return false;
}

static int fill(const struct node_config *cfg, char name[NAME_MAX_BYTES],
		struct node_location *at, struct p2p_config *ret,
		char **ret_dir, struct error *err)
{
	bool open = is_open(cfg);
	const char *device;
	bool is_rdma = node_config_rdma(cfg, &device);
	int rc;

	if (cfg->node_name)
		snprintf(name, NAME_MAX_BYTES, "%s", cfg->node_name);
	else if (gethostname(name, NAME_MAX_BYTES - 1) < 0)
		return error_set(err, errno, "the machine's name: %s",
				 strerror(errno));
	rc = node_location_parse(cfg->location, at, err);
	if (rc < 0)
		return rc;
	if (asprintf(ret_dir, "%s/p2p", cfg->root) < 0) {
		*ret_dir = NULL;
		return error_nomem(err);
	}
	*ret = (struct p2p_config){
		.listen = cfg->p2p_listen,
		.advertise = cfg->p2p_advertise,
		.node = name,
		.rack = at->rack,
		.zone = at->zone,
		.region = at->region,
		.trackers = cfg->p2p_trackers,
		.token_file = cfg->service_token_file,
		.tracker_ca_file = cfg->service_ca_file,
		.tracker_plain_http = is_plain(cfg),
		.ca_file = open ? NULL : cfg->p2p_ca_file,
		.cert_file = open ? NULL : cfg->p2p_cert_file,
		.key_file = open ? NULL : cfg->p2p_key_file,
		.capability_keys = node_config_capability_keys(cfg),
		.signed_bulk = strcmp(cfg->p2p_security, "signed") == 0,
		.rdma = is_rdma,
		.rdma_device = device,
		.rdma_memory = NODE_P2P_RDMA_MEMORY,
		.upload_rate = cfg->p2p_rate,
		.download_rate = is_rdma ? 0 : cfg->p2p_rate,
		.neighbours = NODE_P2P_NEIGHBOURS,
		.relay_bytes = NODE_P2P_RELAY,
		.memory = NODE_P2P_MEMORY,
		.dir = *ret_dir,
		.note = note,
	};
	return 0;
}

int image_swarms_check(const struct node_config *cfg, struct error *err)
{
	char name[NAME_MAX_BYTES] = "";
	AUTO_FREE char *dir = NULL;
	struct node_location at;
	struct p2p_config p2p;
	int rc;

	if (!cfg->p2p_listen)
		return 0;
	rc = fill(cfg, name, &at, &p2p, &dir, err);
	if (rc == 0)
		rc = p2p_check(&p2p, err);
	return rc < 0 ? error_wrap(err, rc, "peers") : 0;
}

int image_swarms_check_reach(const struct node_config *cfg, struct error *err)
{
	char name[NAME_MAX_BYTES] = "";
	AUTO_FREE char *dir = NULL;
	struct node_location at;
	struct p2p_config p2p;
	int rc = fill(cfg, name, &at, &p2p, &dir, err);

	return rc < 0 ? rc : p2p_check_reach(&p2p, err);
}

int image_swarms_check_key(const struct node_config *cfg, struct error *err)
{
	if (!cfg->p2p_listen || is_open(cfg) || !cfg->p2p_key_file)
		return 0;
	return fs_check_private(cfg->p2p_key_file, err);
}

/* The node does without peers until the first of these is mended. */
static void tell_doubts(const struct node_config *cfg)
{
	struct error why = ERROR_INIT;

	if (image_swarms_check(cfg, &why) < 0)
		log_warning("p2p",
			    "others will not believe this node "
			    "reason=\"%s\"",
			    why.msg);
	if (image_swarms_check_key(cfg, &why) < 0)
		log_warning("p2p",
			    "the key is not this node's alone "
			    "reason=\"%s: chmod 600 %s\"",
			    why.msg, cfg->p2p_key_file);
}

int image_swarms_open(struct node *n, struct error *err)
{
	AUTO_FREE char *dir = NULL;
	struct node_location at;
	struct p2p_config cfg;
	struct image_swarms *p;
	int rc;

	if (!n->cfg->p2p_listen)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_nomem(err);
	rc = fill(n->cfg, p->name, &at, &cfg, &dir, err);
	cfg.cache = n->cache;
	if (rc == 0)
		rc = p2p_open(&cfg, &p->p2p, err);
	if (rc < 0) {
		free(p);
		return error_wrap(err, rc, "peers");
	}
	(void)pthread_mutex_init(&p->opening, NULL);
	(void)pthread_mutex_init(&p->telling, NULL);
	n->peers = p;
	log_info("p2p", "listening port=%u node=\"%s\"", p2p_port(p->p2p),
		 p->name);
	if (cfg.rdma)
		log_info("p2p", "rdma %s", p2p_rdma_text(p->p2p));
	tell_doubts(n->cfg);
	if (!n->cfg->p2p_trackers || !n->cfg->p2p_trackers[0])
		log_warning("p2p", "no tracker is named (--service, or "
				   "--p2p-tracker): "
				   "nobody tells this node of others");
	if (p2p_hides(&cfg))
		log_warning("p2p",
			    "other nodes cannot reach \"%s\": listen on "
			    "0.0.0.0 and name an address of this machine with "
			    "--p2p-advertise",
			    cfg.advertise ? cfg.advertise : cfg.listen);
	if (n->cfg->p2p_rights && !cfg.capability_keys)
		log_info("p2p", "--p2p-rights cluster: every node with a "
				"certificate gets any image and environment "
				"that this one has");
	if (is_open(n->cfg))
		log_warning("p2p", "--p2p-security open: whoever reaches the "
				   "port gets the images");
	return 0;
}

void image_swarms_close(struct node *n)
{
	struct image_swarms *p = n->peers;
	struct image **list;
	size_t len, k;

	if (!p)
		return;
	if (images_list(n->images, &list, &len, NULL) == 0) {
		for (k = 0; k < len; k++)
			image_swarm_drop(n, list[k]);
		images_list_free(list, len);
	}
	p2p_close(p->p2p);
	(void)pthread_mutex_destroy(&p->opening);
	(void)pthread_mutex_destroy(&p->telling);
	free(p);
	n->peers = NULL;
}

bool image_swarms_reload(struct node *n)
{
	struct error err = ERROR_INIT;

	if (!n->peers)
		return true;
	if (p2p_reload(n->peers->p2p, &err) < 0) {
		log_warning("p2p",
			    "not all is reloaded, the rest stays as it was "
			    "reason=\"%s\"",
			    err.msg);
		return false;
	}
	tell_doubts(n->cfg);
	return true;
}

/* --------------------------------------------------------------- one image --- */

struct p2p *image_swarms_p2p(const struct node *n)
{
	return n->peers->p2p;
}

const char *image_swarms_name(const struct node *n)
{
	return n->peers->name;
}

char *image_swarms_authorization(struct origin *o,
				 const struct digest *artifact,
				 struct pace *pace)
{
	struct error err = ERROR_INIT;
	struct store_lease *lease;
	char hex[IMAGE_HEX_MAX];
	char *header = NULL;

	if (origin_lease(o, &lease, &err) < 0)
		return NULL;
	if (oci_authorization(lease->store, artifact, pace, &header, &err) <
	    0) {
		digest_hex(artifact, hex);
		log_warning("p2p", "image=%.12s right=unknown reason=\"%s\"",
			    hex, err.msg);
	}
	store_lease_end(lease);
	return header;
}

static char *authorization(void *arg, struct pace *pace)
{
	const struct image_swarm *p = arg;

	return image_swarms_authorization(p->origin, &p->image->artifact.digest,
					  pace);
}

static void destroy(struct image_swarm *p)
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

static int join(struct image_swarm *p, struct error *err)
{
	struct image *i = p->image;
	struct node *n = p->node;
	struct p2p_image_config cfg = {
		.image = i->artifact.digest,
		.map = &p->map,
		.authorization = authorization,
		.arg = p,
	};
	int rc;

	p->label = image_label(i);
	p->repo = origin_place(i->state.host, i->state.repo);
	if (!p->label || !p->repo)
		return error_nomem(err);
	rc = open_map(p, err);
	if (rc == 0)
		rc = origin_get(n->origins, i->state.host, i->state.repo,
				i->state.plain_http, &p->origin, err);
	if (rc == 0)
		rc = origin_packs(p->origin, &i->artifact, i->dir, &p->map,
				  &cfg.packs, err);
	if (rc < 0)
		return rc;
	cfg.label = p->label;
	cfg.repo = p->repo;
	rc = p2p_image_open(n->peers->p2p, &cfg, &p->p2p, err);
	free(cfg.packs);
	map_file_rest(&p->file);
	return rc;
}

static struct image_swarm *find(struct image *i)
{
	struct image_swarm *p;

	images_lock(i->all);
	p = i->peer;
	if (p)
		p->refs++;
	images_unlock(i->all);
	return p;
}

static uint64_t count_since(uint64_t *told, uint64_t now)
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
	ret->peer_bytes = count_since(&told->peers, now->peers);
	ret->origin_bytes = count_since(&told->origin, now->origin);
}

void image_swarm_take_flow(struct node *n, struct image *i,
			   struct image_flow *ret)
{
	struct image_swarm *p = n->peers ? find(i) : NULL;
	struct image_swarm_bytes now;

	*ret = (struct image_flow){ .n = 0 };
	if (!p)
		return;
	/* Of two starts that end together, one has the givers and their bytes. */
	(void)pthread_mutex_lock(&n->peers->telling);
	ret->n = p2p_image_take_givers(p->p2p, ret->givers, IMAGE_FLOW_GIVERS);
	image_swarm_get_bytes(n, i, &now);
	image_flow_count(&p->told, &now, ret);
	(void)pthread_mutex_unlock(&n->peers->telling);
	image_swarm_put(p);
}

static int make(struct node *n, struct image *i, struct image_swarm **ret,
		struct error *err)
{
	struct image_swarm *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->node = n;
	p->image = i;
	images_ref(i);
	rc = join(p, err);
	if (rc < 0) {
		destroy(p);
		return error_wrap(err, rc, "peers of image %.12s", i->hex);
	}
	images_lock(i->all);
	/* One use is the image's own, unless it was removed meanwhile. */
	p->refs = 1 + !i->removed;
	i->peer = i->removed ? NULL : p;
	images_unlock(i->all);
	*ret = p;
	return 0;
}

int image_swarm_get(struct node *n, struct image *i, struct image_swarm **ret,
		    struct error *err)
{
	int rc = 0;

	*ret = NULL;
	if (!n->peers)
		return 0;
	*ret = find(i);
	if (*ret)
		return 0;
	(void)pthread_mutex_lock(&n->peers->opening);
	*ret = find(i);
	if (!*ret)
		rc = make(n, i, ret, err);
	(void)pthread_mutex_unlock(&n->peers->opening);
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
		destroy(p);
}

void image_swarm_drop(struct node *n, struct image *i)
{
	struct image_swarm *p;
	struct metadata_swarm *m;

	(void)n;
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

/* ----------------------------------------------------------------- restart --- */

static int by_users(const void *a, const void *b)
{
	const struct image *const *x = a, *const *y = b;
	size_t m = (*x)->state.users.n, n = (*y)->state.users.n;

	return m > n ? -1 : m < n;
}

static void resume_metadata(struct node *n, struct image *i)
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
	int rc = label ? metadata_swarm_open(n, &of, &m, &err)
		       : error_nomem(&err);

	if (rc < 0)
		log_warning("p2p",
			    "image=%.12s its metadata is not served "
			    "reason=\"%s\"",
			    i->hex, err.msg);
	image_swarm_keep_metadata(i, m);
}

void image_swarms_resume(struct node *n)
{
	struct error err = ERROR_INIT;
	struct image_swarm *p;
	struct image **list;
	size_t len, k;

	if (!n->peers || images_list(n->images, &list, &len, NULL) < 0)
		return;
	images_lock(n->images);
	qsort(list, len, sizeof(struct image *), by_users);
	images_unlock(n->images);
	for (k = 0; k < len && k < RESUME_MAX; k++) {
		if (image_swarm_get(n, list[k], &p, &err) < 0)
			log_warning("p2p",
				    "image=%.12s not served reason=\"%s\"",
				    list[k]->hex, err.msg);
		image_swarm_put(p);
		resume_metadata(n, list[k]);
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

void image_swarm_get_bytes(struct node *n, const struct image *i,
			   struct image_swarm_bytes *ret)
{
	struct bytes_of_image of = { .image = &i->artifact.digest, .ret = ret };

	*ret = (struct image_swarm_bytes){ .peers = 0 };
	if (n->peers)
		(void)!p2p_each_image(image_swarms_p2p(n), add_bytes, &of,
				      NULL);
}
