// SPDX-License-Identifier: Apache-2.0
/*
 * The others: origin, trackers, who is known, links to them, their part in our images, and
 * what they are sent.  Private to engine*.c; everything is the loop's.
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_PEER_H
#define BOOTSEER_P2P_ENGINE_ENGINE_PEER_H

#include "p2p/engine/engine.h"

#define MEMBERS_MAX 4096u /* known in all; by hearsay no more than half */
/* Wrong addresses of members, one after the other, after which the node that said them is not
 * heard for a time. */
#define BAD_SAYS_MAX 16u

/* Somebody who may be connected to. */
struct member {
	TAILQ_ENTRY(member) by_age;
	LIST_ENTRY(member) by_name;
	struct net_node node;
	struct link *link;       /* up, or on its way */
	unsigned int refs;       /* images that know it */
	unsigned int failures;   /* to connect, one after the other */
	char why[ERROR_MSG_MAX]; /* the last one did */
	enum p2p_fault fault;    /* the same */
	int64_t retry_at;
	bool is_vouched; /* a tracker, or it itself, said where it is */
	int64_t said;    /* when it was heard of last, of anybody */
	int64_t quarantined_until;
	unsigned int quarantines; /* so far */
	char told_by
		[256]; /* the node by whose word it is known; "": not by hearsay */
	bool is_agreed; /* another node said the same address */
	/* Nodes that this member told of and that nobody answers for: each once. */
	char *bad_says[BAD_SAYS_MAX];
	size_t n_bad_says;
	int64_t muted_until; /* what it says of others is not heard */
	unsigned int mutes;  /* so far; the next one is longer */
};

/* The right to an image that the other side of a link has proved. */
struct right {
	LIST_ENTRY(right) by_link;
	const struct p2p_image *i;
	int64_t until; /* seconds since 1970 */
};

/* An image that there was no room for on a link. */
struct retry {
	LIST_ENTRY(retry) by_link;
	struct p2p_image *i;
	int64_t at, wait_ns;
};

struct link {
	LIST_ENTRY(link) all;
	struct p2p *p;
	struct net_link *net;
	struct member *member; /* NULL: somebody who came */
	unsigned int number;   /* for the slots */
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
	unsigned int peer;    /* its number in the swarm */
	uint64_t noted_bytes; /* that it brought, of which givers know */
	uint64_t serial;      /* no two have the same */
	int64_t quarantine_ns; /* the neighbour is to leave for so long; 0: it stays */
	const char *quarantine; /* why */
};

/* An answer to somebody. */
struct piece_upload {
	LIST_ENTRY(piece_upload) by_link;
	struct work work;
	struct p2p_image *i;
	struct link *l; /* NULL: it is gone */
	struct slot_request slot;
	bool is_begun, has_left; /* has_left: it has no slot any more */
	int64_t begun;
	struct relay_ref relay; /* .extent NULL: it is not from there */
	int fd;                 /* of the cache, or -1 */
	bool is_pinned;         /* the cache's block */
	uint64_t off;
	struct bytes *bytes; /* or NULL */
	struct net_piece piece;
	int rc;
};

/* ------------------------------------------------------ engine_serve.c --- */

extern const struct slots_config serve_slots;

/* The other side wants one of these pieces, all of one image. */
void serve_wanted(struct link *l, struct p2p_image *i, const uint32_t *pieces,
		  size_t n, enum source_priority priority);
void serve_unwanted(struct link *l, struct p2p_image *i, uint32_t piece);
/* The upload needs no slot any more; its bytes are not needed any more. */
void serve_left(struct p2p *p, uint64_t tag);
void serve_sent(struct p2p *p, uint64_t tag);
/* Close the links of those that take their answers too slowly. */
void serve_check(struct p2p *p, int64_t now);
/* Forget what waits: of a link, of an image (or NULL: all of it). */
void serve_drop(struct link *l, const struct p2p_image *i);

/* ------------------------------------------------------ engine_givers.c --- */

/* The node gave so many bytes more. */
void givers_note(struct p2p_image *i, const char *node, uint64_t bytes);
void givers_fini(struct p2p_image *i);

/* ------------------------------------------------------- engine_link.c --- */

/* Have all that neighbours brought until now noted. */
void neighbours_note_givers(struct p2p_image *i);

extern const struct net_events link_events;

/* `m` NULL: somebody came. */
struct link *link_make(struct p2p *p, struct net_link *net, struct member *m);
/* Take part in the image over this link. */
void link_open(struct link *l, struct p2p_image *i);
/* The same over this link, or over all, to whom that may be shown unasked. */
void link_offer(struct link *l, struct p2p_image *i);
void links_offer(struct p2p_image *i);
/* For so many pieces as the image has. */
int neighbours_init(struct p2p_image *i, struct error *err) MUST_CHECK;
void neighbours_fini(struct p2p_image *i);
/* The neighbour takes part no more; no neighbour does. */
void neighbour_leave(struct neighbour *nb);
void neighbours_leave(struct p2p_image *i);
/* SWARM_NONE: this one is not neighbour number `peer` any more. */
unsigned int neighbour_still(const struct p2p_image *i, unsigned int peer,
			     uint64_t serial);
bool neighbours_have(const struct p2p_image *i, const struct member *m);
unsigned int neighbours_count(const struct p2p_image *i);
/* How many it should have: all that there is room for where only neighbours of the node that
 * read a piece get it. */
unsigned int neighbours_wanted(const struct p2p_image *i);
/* When the first came, and when one last said what it has; 0: not yet. */
int64_t neighbours_met(const struct p2p_image *i);
int64_t neighbours_heard(const struct p2p_image *i); /* any thread */
/* Calls of the core for a neighbour. */
void neighbour_ask(void *image, unsigned int peer, const uint32_t *pieces,
		   size_t n, enum source_priority priority);
void neighbour_cancel(void *image, unsigned int peer, uint32_t piece);
void neighbour_quarantine(void *image, unsigned int peer, int64_t ns,
			  const char *why);
/* Close the links of those that are in quarantine since. */
void neighbours_check(struct p2p_image *i, int64_t now);
/* Tell the neighbours of each other, as often as makes sense without a tracker. */
void neighbours_meet(struct p2p_image *i, int64_t now);
/* Tell the neighbours what is new; true: there is more. */
bool neighbours_tell(struct p2p_image *i, int64_t now);

/* ------------------------------------------------------ engine_retry.c --- */

/* There was no room for the image on the link: open it there in a while, after twice
 * the time than before. */
void retry_later(struct link *l, struct p2p_image *i);
/* The image is open there, closed, or refused for good; NULL: all images are. */
void retry_drop(struct link *l, const struct p2p_image *i);
/* Open those whose time has come. */
void retries_check(struct p2p *p, int64_t now);

/* ----------------------------------------------------- engine_rights.c --- */

/* Ask for this node's right to the image, when it has none for long any more. */
void rights_renew(struct p2p_image *i);
/* The capability that this node may show for the image; 0 bytes: none.  Borrowed until the
 * loop goes on. */
const void *rights_shown(const struct p2p_image *i, size_t *ret_len);
/* Why it has none, as was told; "": it was not. */
const char *rights_refusal(const struct p2p_image *i);
/* The image is closed: an answer about its right is not waited for. */
void rights_leave(struct p2p_image *i);
/* May the other side take part in the swarm, with what it brought, and until when
 * (seconds since 1970)?  What is here does not matter, so the answer says nothing of it.
 * 0, or -errno. */
int rights_prove(const struct link *l, const struct digest *swarm,
		 const void *proof, size_t len, int64_t *ret_until,
		 struct error *err) MUST_CHECK;
/* Remember that it may have the image until then. */
int rights_keep(struct link *l, const struct p2p_image *i, int64_t until,
		struct error *err) MUST_CHECK;
/* May it still? */
bool rights_hold(const struct link *l, const struct p2p_image *i,
		 int64_t now_s);
/* Stop serving those who may not have it any more. */
void rights_check(struct p2p *p, int64_t now_s);
/* The image, or the link (`i` NULL), is gone. */
void rights_drop(struct link *l, const struct p2p_image *i);
/* Ask the trackers what was revoked, from now on. */
int rights_start(struct p2p *p, struct error *err) MUST_CHECK;
/* Ask now. */
void rights_reload(struct p2p *p);
/* Not any more: on the loop; the rest when it is gone. */
void rights_stop(struct p2p *p);
void rights_free(struct p2p *p);

/* ----------------------------------------------------- engine_probe.c --- */

/* Ask the trackers what becomes of this node's calls, now and then.  On the loop,
 * but for start and free; stop ends what is under way, soon. */
int probe_start(struct p2p *p, struct error *err) MUST_CHECK;
void probe_reload(struct p2p *p);
void probe_stop(struct p2p *p);
void probe_free(struct p2p *p);

/* ----------------------------------------------------- engine_arrive.c --- */

/* A piece as it came from `from`, or from the origin (NULL); takes `in`.
 * Everything else happens by itself.  Any thread when from the origin.  -ENOMEM:
 * it is lost; the core was told when it came from somebody. */
int arrive(struct p2p_image *i, const struct neighbour *from, uint32_t piece,
	   enum net_form form, enum source_priority why, struct bytes *in);

/* ----------------------------------------------------- engine_origin.c --- */

/* Takes the sources, whose array it copies, also when that fails. */
int origin_open(struct p2p_image *i, struct source *const *packs, size_t n,
		struct error *err) MUST_CHECK;
void origin_close(struct p2p_image *i); /* one that was not opened is allowed */
void origin_start(struct p2p_image *i, const uint32_t *pieces, size_t n,
		  enum source_priority priority);
/* The bytes that the origin sent are wrong; and the last failure, or one whose code is 0. */
void origin_failed(struct p2p_image *i, const struct error *err);
const struct error *origin_error(const struct p2p_image *i);
/* End those of which nothing is wanted any more, soon; of a closing image: all. */
void origin_stop_unwanted(struct p2p_image *i);
void origin_stop(struct p2p_image *i);

/* ---------------------------------------------------- engine_tracker.c --- */

void tracker_want(struct p2p_image *i, const uint32_t *pieces, size_t n,
		  enum source_priority priority);
/* The core reads it from the origin. */
void tracker_reads(struct p2p_image *i, uint32_t piece);
/* The piece of a lease is here, or is not to be had. */
void tracker_done(struct p2p_image *i, uint32_t piece, int rc);
/* The origin says that it can give no more for so long. */
void tracker_wait(struct p2p_image *i, int64_t ns);
/* Call from now on; not any more; once more, to say that the image is left. */
int tracker_start(struct p2p_image *i, struct error *err) MUST_CHECK;
void tracker_stop(struct p2p_image *i);
void tracker_leave(struct p2p_image *i);

/* ----------------------------------------------------- engine_member.c --- */

struct member *member_by_name(struct p2p *p, const char *name);
/* Somebody is known now; `is_hearsay`: not said by himself, nor by a tracker.  NULL:
 * this node, or there is no room, or hearsay of an address where nobody may be. */
struct member *member_know(struct p2p *p, const struct net_node *node,
			   bool is_hearsay);
/* May hearsay say anew where it is?  Not of one that is reached, and of none whose
 * address a tracker or it itself gave. */
bool member_may_be_told(const struct member *m);
/* Note that the member takes part in the image. */
void member_takes_part(struct member *m, struct p2p_image *i,
		       enum member_word word);
bool member_is_known(const struct member *m, struct p2p_image *i);
/* Is the member known by the word of somebody who knows of this image, so that it may be shown
 * the image? */
bool member_is_of_image(const struct member *m, struct p2p_image *i);
void members_forget(struct p2p_image *i);
/* Connect to as many as are missing. */
void members_connect(struct p2p_image *i, int64_t now);
/* Tell the core who takes part, in case there is no tracker. */
void image_turns(struct p2p_image *i, int64_t now);
/* Those that are known by the word of that node alone, and are not linked, take part in
 * the image no more; or one of them is known no more, unless somebody needs it. */
void members_forget_told(struct p2p_image *i, const char *teller);
void member_drop(struct p2p *p, struct member *m);
/* A connection to the member failed, or the link went. */
void member_failed(struct member *m, int64_t now);
enum swarm_distance member_distance(const struct p2p *p,
				    const struct net_node *node);
/* The member cannot be reached, and somebody said lately that it takes part. */
bool member_is_missed(const struct member *m, int64_t now);
/* The members file: missing or spoilt is as empty. */
void members_load(struct p2p *p);
/* If they changed. */
void members_save(struct p2p *p);
void members_free(struct p2p *p);

#endif
