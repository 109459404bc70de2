// SPDX-License-Identifier: Apache-2.0
/*
 * Rights to images: this node's own, which the trackers give for a time; those of peers, which
 * they prove and renew; and revoked rights. Format: docs/formats/capability.md.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/tracker/tracker_client.h"

/* Renew this long before the end, or a quarter of the lifetime. */
#define RENEW_S 300
#define LOST_S 1          /* retry a failed request after this */
#define LOST_DOUBLINGS 6u /* doublings of LOST_S, at most */
/* Time to get the origin's authorization; without it, a tracker that demands it refuses. */
#define PERMIT_NS (10 * NS_PER_S)
#define REVOKED_NS (60 * NS_PER_S)

/* --------------------------------------------------------- this node's --- */

struct permit {
	struct host_job job;
	struct pace pace;
	struct p2p_image *i;
	int64_t until;
	/* Used on the loop: the request's input may have been corrected since. */
	bool is_stale;
	atomic_bool stop;
	struct tracker_capability right;
	int rc;
	struct error err;
};

static enum pace_level rights_level(struct pace *p)
{
	const struct permit *t = container_of(p, struct permit, pace);

	return atomic_load(&t->stop) || clock_now_ns() >= t->until ? PACE_STOP
								   : PACE_GO;
}

static void run_right_request(struct host_job *e)
{
	struct permit *t = container_of(e, struct permit, job);
	struct p2p_image *i = t->i;
	AUTO_FREE char *authorization = NULL;

	t->until = clock_now_ns() + PERMIT_NS;
	if (i->authorization)
		authorization = i->authorization(i->arg, &t->pace);
	if (atomic_load(&t->stop)) /* the request was cancelled */
		return;
	t->rc = tracker_client_capability(i->p->trackers, &i->image, i->repo,
					  i->p->self.name, authorization,
					  &t->right, &t->err);
}

/* Is this a refusal of the tracker, not just a missing answer? */
static bool answer_is_refusal(int rc)
{
	return rc != -ECONNREFUSED && rc != -EAGAIN && rc != -ENOMEM;
}

static void handle_failed_right_request(struct p2p_image *i,
					const struct permit *t, int64_t now_s)
{
	unsigned int doublings = i->right.n_lost < LOST_DOUBLINGS
					 ? i->right.n_lost
					 : LOST_DOUBLINGS;

	i->right.renew_at = now_s + LOST_S;
	if (answer_is_refusal(t->rc)) {
		i->right.n_lost++;
		i->right.renew_at = now_s + (LOST_S << doublings);
		if (!*i->right.refusal)
			engine_note(i->p, P2P_RIGHT_REFUSED, i->label,
				    t->err.msg);
		(void)snprintf(i->right.refusal, sizeof(i->right.refusal), "%s",
			       t->err.msg);
	}
	/* Do not show an expired right: it would be refused. */
	if (i->right.until <= now_s)
		i->right.len = 0;
}

/* Show the image's new right to the peers. */
static void show_right_to_peers(struct p2p_image *i)
{
	struct link *l;

	i->right.n_lost = 0;
	if (*i->right.refusal)
		engine_note(i->p, P2P_RIGHT_GIVEN, i->label, "");
	*i->right.refusal = '\0';
	LIST_FOREACH(l, &i->p->links, all)
	net_renew_image(l->net, &i->digest, i->right.capability, i->right.len);
	links_offer(i);
}

/* Blocks and metadata of an image are two swarms with one right. */
static bool has_same_right(const struct p2p_image *a, const struct p2p_image *b)
{
	return a != b && digest_equal(&a->image, &b->image) &&
	       strcmp(a->repo, b->repo) == 0;
}

static void copy_right_to_image(const struct p2p_image *from,
				struct p2p_image *i)
{
	memcpy(i->right.capability, from->right.capability, from->right.len);
	i->right.len = from->right.len;
	i->right.until = from->right.until;
	i->right.renew_at = from->right.renew_at;
	show_right_to_peers(i);
}

/* Has another swarm of the same image the right, or is it asking for it? */
static bool find_shared_right(struct p2p_image *i, int64_t now_s)
{
	const struct p2p_image *o;

	LIST_FOREACH(o, &i->p->images, all)
	{
		if (!has_same_right(o, i))
			continue;
		if (o->right.permit)
			return true;
		if (now_s < o->right.renew_at && o->right.len &&
		    i->right.until < o->right.until) {
			copy_right_to_image(o, i);
			return true;
		}
	}
	return false;
}

static void store_received_right(struct p2p_image *i,
				 const struct tracker_capability *right,
				 int64_t now_s)
{
	int64_t left = right->not_after - now_s;
	struct p2p_image *o;

	memcpy(i->right.capability, right->data, right->len);
	i->right.len = right->len;
	i->right.until = right->not_after;
	i->right.renew_at =
		right->not_after - (left / 4 < RENEW_S ? left / 4 : RENEW_S);
	/* The right has expired on arrival, so one of the two clocks is wrong. */
	if (i->right.renew_at <= now_s)
		i->right.renew_at = now_s + (LOST_S << LOST_DOUBLINGS);
	show_right_to_peers(i);
	LIST_FOREACH(o, &i->p->images, all)
	if (has_same_right(o, i))
		copy_right_to_image(i, o);
}

/* Ask again at once: the cause of a refusal may have been corrected. */
static void ask_for_right_anew(struct p2p_image *i)
{
	if (i->right.permit) {
		i->right.permit->is_stale = true;
	} else if (i->right.n_lost || !i->right.len) {
		i->right.n_lost = 0;
		i->right.renew_at = 0;
		rights_renew(i);
	}
}

/* A request that was taken back belongs to a closing image. */
static void end_right_request(struct host_job *e, bool has_run)
{
	struct permit *t = container_of(e, struct permit, job);
	struct p2p_image *i = t->i;
	int64_t now_s = time(NULL);

	(void)has_run;
	i->right.permit = NULL;
	if (!i->is_closing && t->rc == 0)
		store_received_right(i, &t->right, now_s);
	else if (!i->is_closing)
		handle_failed_right_request(i, t, now_s);
	if (!i->is_closing && t->rc < 0 && t->is_stale)
		ask_for_right_anew(i);
	image_release(i);
	free(t);
}

void rights_renew(struct p2p_image *i)
{
	struct permit *t;

	if (!i->p->keys || i->right.permit || i->is_closing ||
	    time(NULL) < i->right.renew_at || find_shared_right(i, time(NULL)))
		return;
	t = calloc(1, sizeof(*t));
	if (!t)
		return;
	t->i = i;
	t->job.run = run_right_request;
	t->job.done = end_right_request;
	t->pace = (struct pace){ .level = rights_level, .is_urgent = true };
	i->right.permit = t;
	image_hold(i);
	host_job_submit(i, HOST_JOB_PERMIT, &t->job);
}

const void *rights_shown(const struct p2p_image *i, size_t *ret_len)
{
	*ret_len = i->right.len;
	return i->right.capability;
}

const char *rights_refusal(const struct p2p_image *i)
{
	return i->right.refusal;
}

void rights_leave(struct p2p_image *i)
{
	if (!i->right.permit)
		return;
	atomic_store(&i->right.permit->stop, true);
	host_job_take_back(&i->right.permit->job);
}

/* ------------------------------------------------------------- others' --- */

static struct right *right_find(const struct link *l, const struct p2p_image *i)
{
	struct right *r;

	LIST_FOREACH(r, &l->rights, by_link)
	if (r->i == i)
		return r;
	return NULL;
}

static int check_not_revoked(const struct p2p *p, const struct digest *image,
			     const char *node, struct error *err)
{
	if (revoked_has(p->revoked, image, node))
		return error_set(err, EACCES, "capability: it was revoked");
	return 0;
}

/* Is the swarm one of the image and repository that the capability names? */
static int check_capability_of_swarm(const struct capability *c,
				     const struct digest *swarm,
				     struct error *err)
{
	struct digest name;
	int rc;

	for (int kind = 0; kind < P2P_SWARM_KINDS; kind++) {
		rc = p2p_swarm_name(&c->image, c->repo, kind, &name, err);
		if (rc < 0)
			return rc;
		if (digest_equal(&name, swarm))
			return 0;
	}
	return error_set(err, EACCES,
			 "capability: not of what it opens, but of an image in "
			 "repository '%.100s'",
			 c->repo);
}

int rights_prove(const struct link *l, const struct digest *swarm,
		 const void *proof, size_t len, int64_t *ret_until,
		 struct error *err)
{
	const struct p2p *p = l->p;
	const char *node = net_peer(l->net)->name;
	struct capability c;
	int rc;

	if (!p->keys) {
		*ret_until = INT64_MAX;
		return 0;
	}
	rc = capability_decode(proof, len, &c, err);
	if (rc == 0)
		rc = capability_check(p->keys, proof, len, &c.image, c.repo,
				      node, time(NULL), &c, err);
	if (rc == 0)
		rc = check_capability_of_swarm(&c, swarm, err);
	if (rc == 0)
		rc = check_not_revoked(p, &c.image, node, err);
	if (rc == 0)
		*ret_until = c.not_after;
	return rc;
}

int rights_keep(struct link *l, const struct p2p_image *i, int64_t until,
		struct error *err)
{
	struct right *r = right_find(l, i);

	if (!l->p->keys)
		return 0;
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return error_nomem(err);
		r->i = i;
		LIST_INSERT_HEAD(&l->rights, r, by_link);
	}
	r->until = until;
	return 0;
}

bool rights_hold(const struct link *l, const struct p2p_image *i, int64_t now_s)
{
	const struct right *r = right_find(l, i);

	if (!l->p->keys)
		return true;
	return r && now_s < r->until &&
	       check_not_revoked(l->p, &i->image, net_peer(l->net)->name,
				 NULL) == 0;
}

/* Why a right does not hold any more. */
static const char *tell_why_right_ended(const struct link *l,
					const struct p2p_image *i)
{
	return revoked_has(l->p->revoked, &i->image, net_peer(l->net)->name)
		       ? "capability: it was revoked"
		       : "capability: it has ended, and no new one came";
}

void rights_check(struct p2p *p, int64_t now_s)
{
	struct neighbour *nb, *next;
	struct link *l;

	LIST_FOREACH(l, &p->links, all)
	{
		for (nb = LIST_FIRST(&l->neighbours); nb; nb = next) {
			next = LIST_NEXT(nb, by_link);
			if (rights_hold(l, nb->i, now_s))
				continue;
			fault_denied(p, net_peer(l->net), true,
				     tell_why_right_ended(l, nb->i));
			net_close_image(l->net, &nb->i->digest, SWARM_DENIED);
			neighbour_leave(nb);
		}
	}
}

void rights_drop(struct link *l, const struct p2p_image *i)
{
	struct right *r, *next;

	for (r = LIST_FIRST(&l->rights); r; r = next) {
		next = LIST_NEXT(r, by_link);
		if (i && r->i != i)
			continue;
		LIST_REMOVE(r, by_link);
		free(r);
	}
}

/* ------------------------------------------------------------- revoked --- */

struct rights_reading {
	struct work work;
	struct p2p *p;
	/* Stale: read again when this reading ends. */
	bool is_under_way, is_stale;
	char etag[TRACKER_ETAG_MAX]; /* HTTP ETag of p->revoked */
	struct revoked *revoked;     /* the new list; NULL: unchanged */
	int rc;
	struct error err;
};

static void read_revoked_list(struct work *w)
{
	struct rights_reading *r = container_of(w, struct rights_reading, work);

	/* While no tracker answers, the known list stays in force. */
	r->rc = tracker_client_revoked(r->p->trackers, r->etag, &r->revoked,
				       &r->err);
	if (r->rc < 0)
		r->revoked = NULL;
}

static void on_revoked_list_read(struct work *w)
{
	struct rights_reading *r = container_of(w, struct rights_reading, work);
	struct p2p *p = r->p;
	int64_t wait_ns = REVOKED_NS / 4 * 3 +
			  (int64_t)(engine_random(p) % (REVOKED_NS / 2));

	r->is_under_way = false;
	if (!p->net) /* the node is closing */
		return;
	if (r->revoked) {
		revoked_free(p->revoked);
		p->revoked = steal_ptr(&r->revoked);
		rights_check(p, time(NULL));
	}
	/* If the token may not read the list, waiting does not help: tell the operator. */
	if (r->rc < 0 && answer_is_refusal(r->rc))
		engine_note(p, P2P_REVOKED_UNREAD, "revocations", r->err.msg);
	engine_arm(p, &p->revoked_timer, r->is_stale ? 0 : wait_ns);
	r->is_stale = false;
}

static void on_revoked(struct loop_timer *t)
{
	struct p2p *p = container_of(t, struct p2p, revoked_timer);
	struct rights_reading *r = p->reading;

	r->is_stale = r->is_under_way;
	if (r->is_under_way)
		return;
	r->is_under_way = true;
	/* Cannot fail: the queue has no limit. */
	(void)!pool_submit(p->calls, &r->work);
}

int rights_start(struct p2p *p, struct error *err)
{
	if (!p->keys || !p->trackers)
		return 0;
	p->reading = calloc(1, sizeof(*p->reading));
	if (!p->reading)
		return error_nomem(err);
	p->reading->p = p;
	p->reading->work.run = read_revoked_list;
	p->reading->work.done = on_revoked_list_read;
	p->revoked_timer.fn = on_revoked;
	return loop_timer_start(p->loop, &p->revoked_timer, 0, err);
}

void rights_reload(struct p2p *p)
{
	struct p2p_image *i;

	if (!p->reading)
		return;
	engine_arm(p, &p->revoked_timer, 0);
	LIST_FOREACH(i, &p->images, all)
	ask_for_right_anew(i);
}

void rights_stop(struct p2p *p)
{
	if (p->revoked_timer.fn)
		loop_timer_stop(&p->revoked_timer);
}

void rights_free(struct p2p *p)
{
	if (p->reading)
		revoked_free(p->reading->revoked);
	free(p->reading);
	revoked_free(p->revoked);
}
