// SPDX-License-Identifier: Apache-2.0
/*
 * Peers of this node: origin, trackers, known members, links to them, their part in this node's
 * images, and answers sent to them. Private to engine*.c; used on the loop only.
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_PEER_H
#define BOOTSEER_P2P_ENGINE_ENGINE_PEER_H

#include "p2p/engine/engine.h"

#define MEMBERS_MAX 4096u /* members known in all; at most half by hearsay */
/* After this many dead addresses in a row from one neighbour, its announcements are ignored for
 * a time. */
#define BAD_SAYS_MAX 16u

/* A node that this node may connect to. */
struct member {
	TAILQ_ENTRY(member) by_age;
	LIST_ENTRY(member) by_name;
	struct net_node node;
	/* Link that is up or being made; NULL: none. */
	struct link *link;
	unsigned int refs;       /* images with this member in their list */
	unsigned int failures;   /* failed connections in a row */
	char why[ERROR_MSG_MAX]; /* reason of the last failure */
	enum p2p_fault fault;    /* kind of the last failure */
	int64_t retry_at;
	/* The address was given by a tracker or by the node itself. */
	bool is_vouched;
	int64_t said; /* when any node last named this member */
	int64_t quarantined_until;
	unsigned int quarantines; /* so far */
	/* Neighbour that announced this member; "": not known by hearsay. */
	char told_by[256];
	bool is_agreed; /* another neighbour announced the same address */
	/* Nodes that this member announced and that do not answer, each once. */
	char *bad_says[BAD_SAYS_MAX];
	size_t n_bad_says;
	int64_t muted_until; /* its announcements are ignored until then */
	unsigned int mutes;  /* times muted so far; each lasts longer */
};

/* The right to an image that the other side of a link has proved. */
struct right {
	LIST_ENTRY(right) by_link;
	const struct p2p_image *i;
	int64_t until; /* seconds since 1970 */
};

/* An image for which a link had no room. */
struct retry {
	LIST_ENTRY(retry) by_link;
	struct p2p_image *i;
	int64_t at, wait_ns;
};

struct link {
	LIST_ENTRY(link) all;
	struct p2p *p;
	struct net_link *net;
	struct member *member; /* NULL: an incoming link of an unknown node */
	unsigned int number;   /* number of this peer for the upload slots */
	bool is_up;
	LIST_HEAD(, right) rights;
	LIST_HEAD(, retry) retries;
	LIST_HEAD(, neighbour) neighbours;
	LIST_HEAD(, piece_upload) uploads;
};

/* A link's part in one image. */
struct neighbour {
	LIST_ENTRY(neighbour) by_link;
	struct link *l;
	struct p2p_image *i;
	unsigned int peer; /* peer number in the swarm */
	/* Bytes received that engine_givers.c has counted. */
	uint64_t noted_bytes;
	uint64_t serial; /* unique number */
	/* Drop the neighbour and keep it away this long; 0: no. */
	int64_t quarantine_ns;
	const char *quarantine; /* reason of the quarantine */
};

/* A piece that is sent to a peer. */
struct piece_upload {
	LIST_ENTRY(piece_upload) by_link;
	struct work work;
	struct p2p_image *i;
	struct link *l; /* NULL: the link is closed */
	struct slot_request slot;
	bool is_begun, has_left; /* has_left: the slot was given up */
	int64_t begun;
	struct relay_ref relay; /* .extent NULL: not from the relay */
	int fd;                 /* file of the cache, or -1 */
	bool is_pinned;         /* the cache's block is pinned */
	uint64_t off;
	struct bytes *bytes; /* or NULL */
	struct net_piece piece;
	int rc;
};

/* ------------------------------------------------------ engine_serve.c --- */

extern const struct slots_config serve_slots;

/* The peer asks for one of these pieces of an image. */
void serve_wanted(struct link *l, struct p2p_image *i, const uint32_t *pieces,
		  size_t n, enum source_priority priority);
void serve_unwanted(struct link *l, struct p2p_image *i, uint32_t piece);
/* serve_left(): the upload needs no slot any more; serve_sent(): its bytes are not needed any
 * more. */
void serve_left(struct p2p *p, uint64_t tag);
void serve_sent(struct p2p *p, uint64_t tag);
/* Close the links of peers that take their answers too slowly. */
void serve_check(struct p2p *p, int64_t now);
/* Forget waiting requests of a link, of one image or (NULL) of all. */
void serve_drop(struct link *l, const struct p2p_image *i);

/* ------------------------------------------------------ engine_givers.c --- */

/* Count bytes that the node sent. */
void givers_note(struct p2p_image *i, const char *node, uint64_t bytes);
void givers_fini(struct p2p_image *i);

/* ------------------------------------------------------- engine_link.c --- */

/* Count for engine_givers.c all bytes that neighbours have sent until now. */
void neighbours_note_givers(struct p2p_image *i);

extern const struct net_events link_events;

/* `m` NULL: an incoming link of an unknown node. */
struct link *link_make(struct p2p *p, struct net_link *net, struct member *m);
/* Open the image on this link. */
void link_open(struct link *l, struct p2p_image *i);
/* Open the image on this link, or on all links, whose node may see it unasked. */
void link_offer(struct link *l, struct p2p_image *i);
void links_offer(struct p2p_image *i);
/* Allocate for the number of pieces that the image has. */
int neighbours_init(struct p2p_image *i, struct error *err) MUST_CHECK;
void neighbours_fini(struct p2p_image *i);
/* Remove the neighbour, or all neighbours of the image. */
void neighbour_leave(struct neighbour *nb);
void neighbours_leave(struct p2p_image *i);
/* The neighbour's number, if `peer` is still the same neighbour (`serial`); else SWARM_NONE. */
unsigned int neighbour_still(const struct p2p_image *i, unsigned int peer,
			     uint64_t serial);
bool neighbours_have(const struct p2p_image *i, const struct member *m);
unsigned int neighbours_count(const struct p2p_image *i);
/* How many neighbours the image should have: as many as fit, if pieces only spread from the
 * node that read them to its neighbours. */
unsigned int neighbours_wanted(const struct p2p_image *i);
/* When the first neighbour came, and when one last announced pieces; 0: not yet. */
int64_t neighbours_met(const struct p2p_image *i);
int64_t neighbours_heard(const struct p2p_image *i); /* any thread */
/* Calls of the core for a neighbour. */
void neighbour_ask(void *image, unsigned int peer, const uint32_t *pieces,
		   size_t n, enum source_priority priority);
void neighbour_cancel(void *image, unsigned int peer, uint32_t piece);
void neighbour_quarantine(void *image, unsigned int peer, int64_t ns,
			  const char *why);
/* Close the links of neighbours that were put in quarantine. */
void neighbours_check(struct p2p_image *i, int64_t now);
/* Without a tracker, announce the neighbours to each other now and then. */
void neighbours_meet(struct p2p_image *i, int64_t now);
/* Send the neighbours what is new; true: there is more. */
bool neighbours_tell(struct p2p_image *i, int64_t now);

/* ------------------------------------------------------ engine_retry.c --- */

/* The link had no room for the image: open it there later, after twice the previous time. */
void retry_later(struct link *l, struct p2p_image *i);
/* Stop retrying an image that is open, closed, or refused for good; NULL: all images. */
void retry_drop(struct link *l, const struct p2p_image *i);
/* Open the images whose retry time has come. */
void retries_check(struct p2p *p, int64_t now);

/* ----------------------------------------------------- engine_rights.c --- */

/* Ask for this node's right to the image, if it has none or the right ends soon. */
void rights_renew(struct p2p_image *i);
/* The capability that this node may show for the image; 0 bytes: none.  Borrowed until the
 * loop goes on. */
const void *rights_shown(const struct p2p_image *i, size_t *ret_len);
/* Why this node has no right, as reported; "": not known. */
const char *rights_refusal(const struct p2p_image *i);
/* Stop a running request for a closed image's right. */
void rights_leave(struct p2p_image *i);
/* May the peer take part in the swarm with this proof, and until when (seconds since 1970)? The
 * answer does not depend on the images that are here, so it does not reveal them. 0, or -errno. */
int rights_prove(const struct link *l, const struct digest *swarm,
		 const void *proof, size_t len, int64_t *ret_until,
		 struct error *err) MUST_CHECK;
/* Remember that the peer may have the image until then. */
int rights_keep(struct link *l, const struct p2p_image *i, int64_t until,
		struct error *err) MUST_CHECK;
/* May the peer still have the image? */
bool rights_hold(const struct link *l, const struct p2p_image *i,
		 int64_t now_s);
/* Stop serving peers whose right has ended or was revoked. */
void rights_check(struct p2p *p, int64_t now_s);
/* Forget the rights of a closed image, or (`i` NULL) of a closed link. */
void rights_drop(struct link *l, const struct p2p_image *i);
/* Start asking the trackers for revoked rights. */
int rights_start(struct p2p *p, struct error *err) MUST_CHECK;
/* Ask for revoked rights now. */
void rights_reload(struct p2p *p);
/* rights_stop(): stop asking, on the loop. rights_free(): free the rest when the loop is gone. */
void rights_stop(struct p2p *p);
void rights_free(struct p2p *p);

/* ----------------------------------------------------- engine_probe.c --- */

/* Check now and then whether the trackers accept this node's calls. On the loop, except start
 * and free; stop also ends a running check soon. */
int probe_start(struct p2p *p, struct error *err) MUST_CHECK;
void probe_reload(struct p2p *p);
void probe_stop(struct p2p *p);
void probe_free(struct p2p *p);

/* ----------------------------------------------------- engine_arrive.c --- */

/* Take in a piece that came from the neighbour `from`, or from the origin (NULL); takes `in`.
 * Checks, stores and announces it. Any thread when from the origin. -ENOMEM: the piece is lost;
 * if it came from a neighbour, the core knows. */
int arrive(struct p2p_image *i, const struct neighbour *from, uint32_t piece,
	   enum net_form form, enum source_priority why, struct bytes *in);

/* ----------------------------------------------------- engine_origin.c --- */

/* Takes ownership of the sources and copies their array, also on failure. */
int origin_open(struct p2p_image *i, struct source *const *packs, size_t n,
		struct error *err) MUST_CHECK;
void origin_close(struct p2p_image *i); /* an unopened one is allowed */
void origin_start(struct p2p_image *i, const uint32_t *pieces, size_t n,
		  enum source_priority priority);
/* origin_failed(): the origin sent wrong bytes. origin_error(): the last failure; code 0: none. */
void origin_failed(struct p2p_image *i, const struct error *err);
const struct error *origin_error(const struct p2p_image *i);
/* End reads of pieces that are not wanted any more, soon; origin_stop(): all reads of a closing
 * image. */
void origin_stop_unwanted(struct p2p_image *i);
void origin_stop(struct p2p_image *i);

/* ---------------------------------------------------- engine_tracker.c --- */

void tracker_want(struct p2p_image *i, const uint32_t *pieces, size_t n,
		  enum source_priority priority);
/* The core reads the leased piece from the origin. */
void tracker_reads(struct p2p_image *i, uint32_t piece);
/* The leased piece is here, or cannot be had. */
void tracker_done(struct p2p_image *i, uint32_t piece, int rc);
/* The origin gives no more for this long. */
void tracker_wait(struct p2p_image *i, int64_t ns);
/* Start calls to the trackers; stop them; make a last call that says that the image is left. */
int tracker_start(struct p2p_image *i, struct error *err) MUST_CHECK;
void tracker_stop(struct p2p_image *i);
void tracker_leave(struct p2p_image *i);

/* ----------------------------------------------------- engine_member.c --- */

struct member *member_by_name(struct p2p *p, const char *name);
/* Note a node. `is_hearsay`: neither the node itself nor a tracker named it. NULL: it is this
 * node, there is no room, or hearsay of an impossible address. */
struct member *member_know(struct p2p *p, const struct net_node *node,
			   bool is_hearsay);
/* May hearsay change the member's address? Not while it is connected, nor if a tracker or the
 * member itself gave the address. */
bool member_may_be_told(const struct member *m);
/* Note that the member takes part in the image. */
void member_takes_part(struct member *m, struct p2p_image *i,
		       enum member_word word);
bool member_is_known(const struct member *m, struct p2p_image *i);
/* Did a node that knows this image name the member, so that the member may be shown the image? */
bool member_is_of_image(const struct member *m, struct p2p_image *i);
void members_forget(struct p2p_image *i);
/* Connect to as many members as neighbours are missing. */
void members_connect(struct p2p_image *i, int64_t now);
/* Give the core the names of the nodes that take part, for turns without a tracker. */
void image_turns(struct p2p_image *i, int64_t now);
/* Forget, for the image, members that only `teller` announced and that have no link;
 * member_drop() frees one that is not needed any more. */
void members_forget_told(struct p2p_image *i, const char *teller);
void member_drop(struct p2p *p, struct member *m);
/* A connection to the member failed, or the link went. */
void member_failed(struct member *m, int64_t now);
enum swarm_distance member_distance(const struct p2p *p,
				    const struct net_node *node);
/* The member cannot be reached, though a node lately said that it takes part. */
bool member_is_missed(const struct member *m, int64_t now);
/* Read the members file; a missing or damaged one counts as empty. */
void members_load(struct p2p *p);
/* Write the members file if the members changed. */
void members_save(struct p2p *p);
void members_free(struct p2p *p);

#endif
