// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks from other nodes: a source between the cache and the origin, and a way
 * to fetch lists of blocks from whoever has them (ARCHITECTURE.md, 8).
 *
 * The node always finishes: without tracker, without peers, and without the
 * origin for what the swarm holds.
 */
#ifndef BOOTSEER_P2P_P2P_H
#define BOOTSEER_P2P_P2P_H

#include "blockstore/device.h"

/* Trouble that the operator of the node may have to act on.  Each change of a tracker and of a
 * right is told once; others once in a minute, with how many were not. */
enum p2p_note {
	P2P_TRACKER_LOST,    /* it does not answer; about: its URL */
	P2P_TRACKER_REFUSES, /* it answers that this node takes no part, or is
			      * no tracker */
	P2P_TRACKER_BACK,    /* after one of these */
	P2P_RIGHT_REFUSED,   /* to this node; about: the image's label */
	P2P_RIGHT_GIVEN,     /* after that */
	P2P_CERT_ENDS, /* this node's, or its authority's: once a day; about: file */
	P2P_CERT_OVER,    /* it did, while we ran */
	P2P_CERT_GOOD,    /* after one of these */
	P2P_DENIED,       /* by this node; about: the other one's name */
	P2P_DENIED_US,    /* the other way round; about: the one who did */
	P2P_LINK_REFUSED, /* with that node, by either side, or by what is there */
	P2P_UNTRUSTED,    /* the same, of certificates and names */
	P2P_UNREACHABLE,    /* that node, which others say takes part */
	P2P_NAMESAKE,       /* another node has this one's name; about: where */
	P2P_RDMA_FAULT,     /* with that node: TCP goes on */
	P2P_REVOKED_UNREAD, /* what was revoked cannot be learnt; about: "" */
	P2P_MADE_UP, /* what that node says of others is not heard for a time */
};
#define P2P_NOTES 17u

struct p2p_config {
	const char *listen;    /* "ADDR:PORT"; port 0: a free one */
	const char *advertise; /* what peers are told; NULL: what is bound */
	const char *node, *rack, *zone, *region; /* NULL: unknown, but node */
	char *const *trackers; /* URLs of bootseer-registry; NULL: none */
	const char *token_file, *tracker_ca_file; /* for the trackers */
	/* Tokens and credentials may go to trackers in the clear. */
	bool tracker_plain_http;
	const char *ca_file, *cert_file, *key_file; /* of nodes; NULL: open */
	const char *capability_keys; /* PEM; NULL: no right is asked for */
	bool signed_bulk;            /* bulk is signed, not encrypted */
	/* RDMA beside TCP, where both ends have it: not with encrypted bulk, nor
	 * with a download_rate. */
	bool rdma;
	const char *rdma_device; /* NULL: that of the address, or any */
	uint64_t rdma_memory;    /* to be registered; 0: 256 MiB */
	uint64_t upload_rate, download_rate; /* bytes/s; 0 none */
	unsigned int neighbours;             /* wanted: 1..64 */
	uint64_t relay_bytes; /* stored blocks kept to be passed on, on disk */
	uint64_t memory;      /* bytes of pieces under way */
	const char *dir;      /* of p2p alone; created: members, relay */
	struct cache *cache;  /* borrowed */
	/* Any thread; `why` "": there is no reason.  NULL: nobody is told. */
	void (*note)(void *arg, enum p2p_note what, const char *about,
		     const char *why);
	void *note_arg;
};

/* Can the files be read, do they belong together and to the node, and are they good
 * today?  -EINVAL, -EACCES, -ENOENT, ..: which is not, and why. */
int p2p_check(const struct p2p_config *cfg, struct error *err) MUST_CHECK;

struct p2p;
int p2p_open(const struct p2p_config *cfg, struct p2p **ret,
	     struct error *err) MUST_CHECK;
/* Tells everybody that this node leaves. After its images. */
void p2p_close(struct p2p *p);
unsigned int p2p_port(const struct p2p *p);
/* May a tracker of this URL be told secrets: is it https://, or on this machine? */
bool p2p_tracker_is_private(const char *url);
/* Are others told of an address that leads each to himself, 127.0.0.1 or [::1],
 * though trackers are elsewhere? */
bool p2p_hides(const struct p2p_config *cfg);
/* Do what is listened on, and what others are told (NULL: the same), lead others
 * here?  -EINVAL: which does not, by the name of its option. */
int p2p_check_addrs(const char *listen, const char *advertise,
		    struct error *err) MUST_CHECK;
/* Is what others are told an address of this machine?  -EADDRNOTAVAIL: it is not, so
 * that somebody has to translate it. */
int p2p_check_reach(const struct p2p_config *cfg, struct error *err) MUST_CHECK;
/* For a log line: the RDMA device, or why there is none. */
const char *p2p_rdma_text(const struct p2p *p);
/* Certificates, keys and tokens as they are on disk now, and what was revoked. */
/* On failure: why some of it stays as it was. */
int p2p_reload(struct p2p *p, struct error *err) MUST_CHECK;

/* An image that this node has, gets or serves; or what is needed of one before it has a block
 * map: the parts of metadata image and block map, as blocks of a map that the manifest gives.
 * That is a swarm of its own, for nodes that have the right to the image.  Any thread. */
enum p2p_swarm_kind {
	P2P_SWARM_BLOCKS,
	P2P_SWARM_METADATA, /* pieces are the parts that the manifest names */
	/* The same, and blobs without parts are one piece each.  Nodes number the pieces
	 * otherwise, so those that know of parts alone must not meet them. */
	P2P_SWARM_METADATA_WHOLE,
	/* Layers of an ordinary image, whose manifest `image` is: each is a pack, whose
	 * pieces have no digest of their own. */
	P2P_SWARM_LAYERS,
};
#define P2P_SWARM_KINDS 4

/*
 * Pieces without a digest of their own, which are verified with all that they are part of
 * or not at all.  Their user keeps them, not the cache.  Pieces of a peer go to no other
 * node before p2p_image_vouch(), so that each wrong byte came from the node that gave it.
 * `index` is a block of the map, whose digest says nothing.  Any thread; none waits long.
 */
struct p2p_pieces {
	bool (*has)(void *arg, uint32_t index);
	/* Keep the bytes of the block, from `node`, or the origin (NULL).  1: what is
	 * kept of it is, or may be, a peer's.  -EBADMSG: that node is not believed
	 * any more. */
	int (*put)(void *arg, uint32_t index, const void *data,
		   const char *node, struct error *err);
	/* A file that has it from *ret_off on, the caller's to close.  -ENOENT: not here. */
	int (*open)(void *arg, uint32_t index, int *ret_fd, uint64_t *ret_off);
};
struct p2p_image_config {
	struct digest image; /* the artifact's manifest */
	enum p2p_swarm_kind kind;
	const struct blockmap *map; /* borrowed until it is closed */
	const char *label;          /* for messages; copied */
	/* The origin's proof of the right to pull it: asked on a thread of p2p, may block
	 * until `pace` says to stop: the value of an Authorization header, the caller's to
	 * free; NULL: none is needed. */
	char *(*authorization)(void *arg, struct pace *pace);
	/* "HOST/REPOSITORY" that the node got it from, copied.  The same image
	 * in another repository is another swarm, with rights of its own. */
	const char *repo;
	/* Pieces of P2P_SWARM_LAYERS; with `arg`. NULL: the cache has the pieces. */
	const struct p2p_pieces *pieces;
	void *arg;
	/* Stored bytes of each pack, not verified; taken, also on failure. */
	struct source **packs;
};
struct p2p_image;
/* Name of the swarm at nodes and trackers. */
int p2p_swarm_name(const struct digest *image, const char *repo,
		   enum p2p_swarm_kind kind, struct digest *ret,
		   struct error *err) MUST_CHECK;
/* -E2BIG: its map has more than P2P_BLOCKS_MAX blocks, so that it is read without
 * peers: what is kept for each of them, and looked through, costs all other images. */
#define P2P_BLOCKS_MAX (1u << 20)
int p2p_image_open(struct p2p *p, const struct p2p_image_config *cfg,
		   struct p2p_image **ret, struct error *err) MUST_CHECK;
/* No source of it is left, no fetch under way. */
void p2p_image_close(struct p2p_image *i);

/* The blocks of pack `pack`: peers first, then the origin.  Borrows `i`. */
int p2p_image_source(struct p2p_image *i, uint32_t pack,
		     struct block_source **ret, struct error *err) MUST_CHECK;

/* The contract of device_fetch_list(), by the swarm; list->streams, gap and
 * range_max do not matter.  Of metadata, what the origin has wrong ends it, with
 * -EBADMSG. */
int p2p_image_fetch(struct p2p_image *i, const struct device_list *list,
		    struct error *err) MUST_CHECK;

/* The caller had block `index` of the map from the origin by himself: it is checked,
 * and the cache has it. */
void p2p_image_came(struct p2p_image *i, uint32_t index);

/* Blocks [first, first + n) of the map are verified: others may have them. */
void p2p_image_vouch(struct p2p_image *i, uint32_t first, uint32_t n);

/* When bytes of it came last, when a neighbour told anything of it, and when a tracker
 * said that others take part in it: CLOCK_MONOTONIC ns, 0: never.  Cheap. */
struct p2p_progress {
	int64_t moved_ns, heard_ns, told_ns;
};
void p2p_image_progress(const struct p2p_image *i, struct p2p_progress *ret);

/* Nodes that gave blocks of it since this was asked last, the most generous first: `max` of
 * P2P_GIVERS_MAX that are remembered.  Any thread but the loop's; returns their number. */
#define P2P_GIVERS_MAX 64u
struct p2p_giver {
	char node[256];
	uint64_t bytes; /* stored ones */
};
size_t p2p_image_take_givers(struct p2p_image *i, struct p2p_giver *ret,
			     size_t max);

/* --------------------------------------------------------------------- figures --- */

struct p2p_stats {
	uint64_t peers, images;
	uint64_t images_refused; /* of them, that no right was given for */
	uint64_t rack_bytes_total, zone_bytes_total, remote_bytes_total;
	uint64_t origin_bytes_total, served_bytes_total, rdma_bytes_total;
	uint64_t twice_bytes_total, dropped_bytes_total;
	uint64_t wrong_total, strikes_total, stalls_total;
	uint64_t hedges_total, hedges_won_total, refused_total, denied_total;
	/* Links that did not come about: nobody answers, a certificate or name is
	 * not believed, another p2p-security, this node's name, the rest. */
	uint64_t links_unreachable_total, links_untrusted_total;
	uint64_t links_unlike_total, links_namesake_total, links_refused_total;
	uint64_t leases_total, tracker_calls_total, tracker_failures_total;
	/* Named; that do what they are asked, do not answer, and refuse.  The
	 * rest was not asked yet, which lasts a moment. */
	uint64_t trackers, trackers_good, trackers_lost, trackers_refusing;
	uint64_t relay_bytes, memory_bytes;
	uint64_t cert_not_after; /* seconds since 1970; 0: there is none */
};
void p2p_get_stats(struct p2p *p, struct p2p_stats *ret);

struct p2p_peer_info {
	char node[256], addr[64], rack[64], zone[64];
	const char *distance; /* "rack", "zone", "remote" */
	bool is_up, is_rdma;
	uint64_t received_bytes, sent_bytes, rate;
	int64_t rtt_ns, quarantine_ns; /* left */
	unsigned int strikes;
	unsigned int failures;   /* to connect, in a row */
	char why[ERROR_MSG_MAX]; /* the last of them; "": none */
	enum p2p_fault {
		P2P_FAULT_UNREACHABLE,
		P2P_FAULT_UNTRUSTED,
		P2P_FAULT_UNLIKE,
		P2P_FAULT_NAMESAKE,
		P2P_FAULT_REFUSED,
	} fault; /* that is so of it, as in struct p2p_stats */
};
#define P2P_FAULTS 5u
struct p2p_image_info {
	struct digest image;
	bool is_metadata;
	char label[256];
	uint32_t pieces, have, peers;
	uint64_t from_peers, from_origin;
	char refusal[ERROR_MSG_MAX]; /* of the right; "": it was not refused */
};
/* The last link that did not come about, or that an image was denied on; false: there is
 * none. */
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
/* Calls for each, on the caller's thread, from a copy. */
void p2p_each_tracker(struct p2p *p,
		      void (*each)(void *arg, const struct p2p_tracker_info *i),
		      void *arg);
/* Ask each now whether it does what this node asks, by a call that changes nothing:
 * blocks for some seconds where one does not answer.  `why` "": it does. */
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
