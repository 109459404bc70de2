// SPDX-License-Identifier: Apache-2.0
/* The node as a peer: its options, the engine of peers, and proofs of the right to pull. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/node/constants.h"
#include "snapshotter/node/peers/image_swarm_priv.h"

/* "open" (no security) is for labs only; bootseerd.conf says so. */
static bool is_open(const struct node_config *cfg)
{
	return strcmp(cfg->p2p_security, "open") == 0;
}

/* Log a message of the engine of peers for the operator. */
static void log_swarm_event(void *arg, enum p2p_note what, const char *about,
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

/* May secrets be sent to trackers by http://?  node_config_check() made sure that all trackers
 * may have them, or that there are no secrets. */
static bool is_plain(const struct node_config *cfg)
{
	for (char *const *url = cfg->p2p_trackers; url && *url; url++)
		if (node_config_is_plain(cfg, *url))
			return true;
	return false;
}

static int config_fill(const struct node_config *cfg, char name[NAME_MAX_BYTES],
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
		return error_errno(err, errno, "the machine's name");
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
		.note = log_swarm_event,
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
	rc = config_fill(cfg, name, &at, &p2p, &dir, err);
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
	int rc = config_fill(cfg, name, &at, &p2p, &dir, err);

	return rc < 0 ? rc : p2p_check_reach(&p2p, err);
}

int image_swarms_check_key(const struct node_config *cfg, struct error *err)
{
	if (!cfg->p2p_listen || is_open(cfg) || !cfg->p2p_key_file)
		return 0;
	return fs_check_private(cfg->p2p_key_file, err);
}

/* Log a file of the options of peers that cannot be used: the node does without peers until it
 * is repaired. */
static void log_peer_trouble(const struct node_config *cfg)
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

int image_swarms_open(const struct image_swarms_of *of,
		      struct image_swarms **ret, struct error *err)
{
	const struct node_config *c = of->cfg;
	AUTO_FREE char *dir = NULL;
	struct node_location at;
	struct p2p_config cfg;
	struct image_swarms *p;
	int rc;

	*ret = NULL;
	if (!c->p2p_listen)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_nomem(err);
	rc = config_fill(c, p->name, &at, &cfg, &dir, err);
	p->of = *of;
	cfg.cache = of->cache;
	if (rc == 0)
		rc = p2p_open(&cfg, &p->p2p, err);
	if (rc < 0) {
		free(p);
		return error_wrap(err, rc, "peers");
	}
	(void)pthread_mutex_init(&p->opening, NULL);
	(void)pthread_mutex_init(&p->telling, NULL);
	*ret = p;
	log_info("p2p", "listening port=%u node=\"%s\"", p2p_port(p->p2p),
		 p->name);
	if (cfg.rdma)
		log_info("p2p", "rdma %s", p2p_rdma_text(p->p2p));
	log_peer_trouble(c);
	if (!c->p2p_trackers || !c->p2p_trackers[0])
		log_warning("p2p", "no tracker is named (--service, or "
				   "--p2p-tracker): "
				   "nobody tells this node of others");
	if (p2p_hides(&cfg))
		log_warning("p2p",
			    "other nodes cannot reach \"%s\": listen on "
			    "0.0.0.0 and name an address of this machine with "
			    "--p2p-advertise",
			    cfg.advertise ? cfg.advertise : cfg.listen);
	if (c->p2p_rights && !cfg.capability_keys)
		log_info("p2p", "--p2p-rights cluster: every node with a "
				"certificate gets any image and environment "
				"that this one has");
	if (is_open(c))
		log_warning("p2p", "--p2p-security open: whoever reaches the "
				   "port gets the images");
	return 0;
}

bool image_swarms_reload(struct image_swarms *s)
{
	struct error err = ERROR_INIT;

	if (!s)
		return true;
	if (p2p_reload(s->p2p, &err) < 0) {
		log_warning("p2p",
			    "not all is reloaded, the rest stays as it was "
			    "reason=\"%s\"",
			    err.msg);
		return false;
	}
	log_peer_trouble(s->of.cfg);
	return true;
}

struct p2p *image_swarms_p2p(const struct image_swarms *s)
{
	return s->p2p;
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
