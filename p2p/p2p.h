// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks from other nodes: a source between the cache and the origin, and a way to fetch lists of
 * blocks from any node that has them (ARCHITECTURE.md, 8).
 *
 * A node always gets its blocks: without a tracker, without peers, and without the origin if the
 * swarm has them.
 */
#ifndef BOOTSEER_P2P_P2P_H
#define BOOTSEER_P2P_P2P_H

#include "blockstore/device.h"

/* Problems that the operator of the node may have to act on. Each change of a tracker or of a
 * right is reported once; other problems once a minute, with the number left out. */
enum p2p_note {
	P2P_TRACKER_LOST, /* a tracker does not answer; about: its URL */
	/* A tracker refuses this node, or is not a tracker. */
	P2P_TRACKER_REFUSES,
	P2P_TRACKER_BACK, /* the tracker answers again */
	/* This node gets no right; about: the image's label. */
	P2P_RIGHT_REFUSED,
	P2P_RIGHT_GIVEN, /* this node has the right again */
	/* The node's certificate, or its authority's, expires soon: once a day; about: file. */
	P2P_CERT_ENDS,
	P2P_CERT_OVER, /* it expired while the node was running */
	P2P_CERT_GOOD, /* the certificate is good again */
	/* This node denied an image; about: the peer's name. */
	P2P_DENIED,
	/* A peer denied an image to this node; about: its name. */
	P2P_DENIED_US,
	P2P_LINK_REFUSED, /* no link with that node: refused, or not a node */
	/* No link: a certificate or a name is not trusted. */
	P2P_UNTRUSTED,
	P2P_UNREACHABLE, /* a node that takes part cannot be reached */
	/* Another node has this node's name; about: its address. */
	P2P_NAMESAKE,
	P2P_RDMA_FAULT, /* RDMA with that node failed: TCP goes on */
	/* The list of revoked rights cannot be read; about: "". */
	P2P_REVOKED_UNREAD,
	/* That node announced dead addresses: it is ignored for a time. */
	P2P_MADE_UP,
};
#define P2P_NOTES 17u

struct p2p_config {
	const char *listen; /* "ADDR:PORT"; port 0: a free one */
	/* Address announced to peers; NULL: the bound one. */
	const char *advertise;
	/* NULL: unknown; `node` is required. */
	const char *node, *rack, *zone, *region;
	char *const *trackers; /* URLs of bootseer-registry; NULL: none */
	/* Token and authority of the trackers. */
	const char *token_file, *tracker_ca_file;
	/* Allow unencrypted tokens and credentials to trackers. */
	bool tracker_plain_http;
	/* Certificates of nodes; NULL: no security. */
	const char *ca_file, *cert_file, *key_file;
	const char *capability_keys; /* PEM; NULL: rights are not required */
	bool signed_bulk;            /* bulk data is signed, not encrypted */
	/* RDMA beside TCP, where both ends have it: not with encrypted bulk, nor
	 * with a download_rate. */
	bool rdma;
	const char *rdma_device; /* NULL: the device of the address, or any */
	uint64_t rdma_memory;    /* bytes to register; 0: 256 MiB */
	uint64_t upload_rate, download_rate; /* bytes a second; 0: no limit */
	unsigned int neighbours;             /* number wanted: 1..64 */
	uint64_t relay_bytes; /* disk space for stored blocks to pass on */
	uint64_t memory;      /* limit of bytes of pieces in transfer */
	const char *dir;      /* folder for members file and relay; created */
	struct cache *cache;  /* borrowed */
	/* Reports a problem; any thread; `why` "": no reason. NULL: no reports. */
	void (*note)(void *arg, enum p2p_note what, const char *about,
		     const char *why);
	void *note_arg;
};

/* Can the files be read, do they match each other and the node, and are they valid today?
 * -EINVAL, -EACCES, -ENOENT, ..: names the bad file and the reason. */
int p2p_check(const struct p2p_config *cfg, struct error *err) MUST_CHECK;

struct p2p;
int p2p_open(const struct p2p_config *cfg, struct p2p **ret,
	     struct error *err) MUST_CHECK;
/* Tells peers and trackers that this node leaves. Close its images first. */
void p2p_close(struct p2p *p);
unsigned int p2p_port(const struct p2p *p);
/* May secrets be sent to a tracker of this URL: is it https://, or on this machine? */
bool p2p_tracker_is_private(const char *url);
/* Does the node announce 127.0.0.1 or [::1], which leads each peer to itself, though trackers
 * are on other machines? */
bool p2p_hides(const struct p2p_config *cfg);
/* Can peers reach this node by the listening address and the announced one (NULL: the same)?
 * -EINVAL names the option that is wrong. */
int p2p_check_addrs(const char *listen, const char *advertise,
		    struct error *err) MUST_CHECK;
/* Is the announced address one of this machine? -EADDRNOTAVAIL: it is not, so it has to be
 * translated on the way. */
int p2p_check_reach(const struct p2p_config *cfg, struct error *err) MUST_CHECK;
/* For a log line: the RDMA device, or why there is none. */
const char *p2p_rdma_text(const struct p2p *p);
/* Reload certificates, keys and tokens from disk, and the list of revoked rights. */
/* On failure, `err` says which of them stays as it was. */
int p2p_reload(struct p2p *p, struct error *err) MUST_CHECK;

/* A swarm of an image that this node has, gets or serves: its blocks; or, before the block map
 * is there, the parts of metadata image and block map, as blocks of a map that the manifest
 * gives. The latter is a separate swarm with the same right. Any thread. */
enum p2p_swarm_kind {
	P2P_SWARM_BLOCKS,
	P2P_SWARM_METADATA, /* pieces are the parts that the manifest names */
	/* As P2P_SWARM_METADATA, and blobs without parts are one piece each. This numbers
	 * pieces differently, so nodes that know only parts must not join this swarm. */
	P2P_SWARM_METADATA_WHOLE,
	/* Layers of an ordinary image with manifest `image`: each layer is a pack, whose pieces
	 * have no digest of their own. */
	P2P_SWARM_LAYERS,
};
#define P2P_SWARM_KINDS 4

/*
 * Pieces without a digest of their own, verified only with the whole that they are part of, or
 * never. Their user stores them, not the cache. Pieces from a peer are sent to other nodes only
 * after p2p_image_vouch(), so that wrong bytes always come from their true source. `index` is a
 * block of the map, whose digest has no meaning. Any thread; no call waits long.
 */
struct p2p_pieces {
	bool (*has)(void *arg, uint32_t index);
	/* Store the bytes of the block, from `node` or the origin (NULL). 1: what is stored may
	 * be a peer's. -EBADMSG: the node is not trusted any more. */
	int (*put)(void *arg, uint32_t index, const void *data,
		   const char *node, struct error *err);
	/* Open a file that has the block from *ret_off on; the caller closes it. -ENOENT: not
	 * here. */
	int (*open)(void *arg, uint32_t index, int *ret_fd, uint64_t *ret_off);
};
struct p2p_image_config {
	struct digest image; /* the artifact's manifest */
	enum p2p_swarm_kind kind;
	const struct blockmap *map; /* borrowed until the image is closed */
	const char *label;          /* for messages; copied */
	/* Get the proof for the origin that this node may pull: the value of an Authorization
	 * header, which the caller frees; NULL: none is needed. Called on a thread of p2p; may
	 * block until `pace` says to stop. */
	char *(*authorization)(void *arg, struct pace *pace);
	/* "HOST/REPOSITORY" that the node got the image from, copied. The same image in another
	 * repository is another swarm with its own rights. */
	const char *repo;
	/* Functions of P2P_SWARM_LAYERS, called with `arg`. NULL: the cache has the pieces. */
	const struct p2p_pieces *pieces;
	void *arg;
	/* Stored bytes of each pack, not verified; taken, also on failure. */
	struct source **packs;
};
struct p2p_image;
/* Digest by which nodes and trackers name the swarm. */
int p2p_swarm_name(const struct digest *image, const char *repo,
		   enum p2p_swarm_kind kind, struct digest *ret,
		   struct error *err) MUST_CHECK;
/* -E2BIG: the map has more than P2P_BLOCKS_MAX blocks; the image is then read without peers,
 * because the data kept for each block would slow all images down. */
#define P2P_BLOCKS_MAX (1u << 20)
int p2p_image_open(struct p2p *p, const struct p2p_image_config *cfg,
		   struct p2p_image **ret, struct error *err) MUST_CHECK;
/* Call when no source of the image is left and no fetch is running. */
void p2p_image_close(struct p2p_image *i);

/* The blocks of pack `pack`: peers first, then the origin.  Borrows `i`. */
int p2p_image_source(struct p2p_image *i, uint32_t pack,
		     struct block_source **ret, struct error *err) MUST_CHECK;

/* Fetch a list through the swarm, with the contract of device_fetch_list(); list->streams, gap
 * and range_max have no effect. Wrong metadata from the origin ends it with -EBADMSG. */
int p2p_image_fetch(struct p2p_image *i, const struct device_list *list,
		    struct error *err) MUST_CHECK;

/* The caller read block `index` of the map from the origin itself; it is verified and in the
 * cache. */
void p2p_image_came(struct p2p_image *i, uint32_t index);

/* Blocks [first, first + n) of the map are verified: other nodes may have them. */
void p2p_image_vouch(struct p2p_image *i, uint32_t first, uint32_t n);

/* Last times that bytes of the image came, that a neighbour announced anything of it, and that
 * a tracker named other members: CLOCK_MONOTONIC ns, 0: never. Cheap. */
struct p2p_progress {
	int64_t moved_ns, heard_ns, told_ns;
};
void p2p_image_progress(const struct p2p_image *i, struct p2p_progress *ret);

/* Nodes that sent blocks of the image since the last call, largest first: at most `max` of the
 * P2P_GIVERS_MAX remembered. Returns their number. Any thread but the loop's. */
#define P2P_GIVERS_MAX 64u
struct p2p_giver {
	char node[256];
	uint64_t bytes; /* stored bytes */
};
size_t p2p_image_take_givers(struct p2p_image *i, struct p2p_giver *ret,
			     size_t max);

/* --------------------------------------------------------------------- figures --- */

struct p2p_stats {
	uint64_t peers, images;
	/* Open images for which this node got no right. */
	uint64_t images_refused;
	uint64_t rack_bytes_total, zone_bytes_total, remote_bytes_total;
	uint64_t origin_bytes_total, served_bytes_total, rdma_bytes_total;
	uint64_t twice_bytes_total, dropped_bytes_total;
	uint64_t wrong_total, strikes_total, stalls_total;
	uint64_t hedges_total, hedges_won_total, refused_total, denied_total;
	/* Links that could not be made: no answer, untrusted certificate or name, another
	 * p2p-security, this node's own name, and the rest. */
	uint64_t links_unreachable_total, links_untrusted_total;
	uint64_t links_unlike_total, links_namesake_total, links_refused_total;
	uint64_t leases_total, tracker_calls_total, tracker_failures_total;
	/* Trackers configured; that work, do not answer, and refuse. The others were not called
	 * yet. */
	uint64_t trackers, trackers_good, trackers_lost, trackers_refusing;
	uint64_t relay_bytes, memory_bytes;
	uint64_t cert_not_after; /* seconds since 1970; 0: no certificate */
};
void p2p_get_stats(struct p2p *p, struct p2p_stats *ret);

struct p2p_peer_info {
	char node[256], addr[64], rack[64], zone[64];
	const char *distance; /* "rack", "zone", "remote" */
	bool is_up, is_rdma;
	uint64_t received_bytes, sent_bytes, rate;
	int64_t rtt_ns, quarantine_ns; /* quarantine_ns: time left */
	unsigned int strikes;
	unsigned int failures;   /* failed connections in a row */
	char why[ERROR_MSG_MAX]; /* reason of the last one; "": none */
	enum p2p_fault {
		P2P_FAULT_UNREACHABLE,
		P2P_FAULT_UNTRUSTED,
		P2P_FAULT_UNLIKE,
		P2P_FAULT_NAMESAKE,
		P2P_FAULT_REFUSED,
	} fault; /* kind of the last failure, as in struct p2p_stats */
};
#define P2P_FAULTS 5u
struct p2p_image_info {
	struct digest image;
	bool is_metadata;
	char label[256];
	uint32_t pieces, have, peers;
	uint64_t from_peers, from_origin;
	/* Why the right was refused; "": it was not. */
	char refusal[ERROR_MSG_MAX];
};
/* The last link that failed or on which an image was denied; false: none. */
struct p2p_failure_info {
	char node[256], addr[64], why[ERROR_MSG_MAX]; /* node "": unknown */
	int64_t ago_ns;
	bool is_outgoing;
};
bool p2p_last_failure(struct p2p *p, struct p2p_failure_info *ret);

struct p2p_tracker_info {
	const char *url;
	const char *state; /* "good", "lost", "refuses", "new": not asked yet */
	const char *why;   /* "": there is no reason */
};
/* Calls `each` for each tracker, on the caller's thread, with a copy. */
void p2p_each_tracker(struct p2p *p,
		      void (*each)(void *arg, const struct p2p_tracker_info *i),
		      void *arg);
/* Ask each tracker now whether it accepts this node, by a call that changes nothing; blocks
 * some seconds if one does not answer. `why` "": it does. */
void p2p_probe_trackers(struct p2p *p,
			void (*each)(void *arg, const char *url,
				     const char *why),
			void *arg);
int p2p_each_peer(struct p2p *p,
		  void (*each)(void *arg, const struct p2p_peer_info *i),
		  void *arg, struct error *err) MUST_CHECK;
int p2p_each_image(struct p2p *p,
		   void (*each)(void *arg, const struct p2p_image_info *i),
		   void *arg, struct error *err) MUST_CHECK;

#endif
