// SPDX-License-Identifier: Apache-2.0
/*
 * Known members, and which of them to connect to. The members file keeps them for a time without
 * trackers; it is only a hint, and a wrong entry costs one failed connection.
 */
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "p2p/engine/engine_hearsay.h"
#include "p2p/engine/engine_peer.h"

#define FILE_HEAD "bootseer-members 1\n"
#define FILE_MAX (4 * MIB)
#define FILE_MEMBERS_MAX 1024u
#define BACKOFF_NS NS_PER_S
#define BACKOFF_DOUBLINGS 6u
#define DIALS_MAX 16u /* connections begun at once for an image */
/* Without a tracker: a member not heard of for the first time is considered gone; after the
 * second, counted from the opening, every known node is assumed to take part. */
#define SAID_NS (90 * NS_PER_S)
#define SETTLED_NS (5 * NS_PER_S)

/* FNV-1a with a secret seed, because the names come from other nodes, which could choose names
 * of one bucket. */
static unsigned int bucket_of(const struct p2p *p, const char *name)
{
	uint32_t h = p->name_seed;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return (h ^ h >> 16) % MEMBER_BUCKETS;
}

struct member *member_by_name(struct p2p *p, const char *name)
{
	struct member *m;

	LIST_FOREACH(m, &p->named[bucket_of(p, name)], by_name)
	if (strcmp(m->node.name, name) == 0)
		return m;
	return NULL;
}

enum swarm_distance member_distance(const struct p2p *p,
				    const struct net_node *node)
{
	if (*node->rack && strcmp(node->rack, p->self.rack) == 0 &&
	    strcmp(node->zone, p->self.zone) == 0)
		return SWARM_SAME_RACK;
	/* Without zones all nodes count as near. */
	return strcmp(node->zone, p->self.zone) == 0 ? SWARM_SAME_ZONE
						     : SWARM_REMOTE;
}

static void members_forget_old(struct p2p *p, struct member *m)
{
	TAILQ_REMOVE(&p->members, m, by_age);
	LIST_REMOVE(m, by_name);
	p->n_members--;
	hearsay_clear(m);
	free(m);
}

/* Must this member be kept, because it is in use or its quarantine or muting must be
 * remembered? */
static bool is_needed(const struct member *m, int64_t now)
{
	return m->link || m->refs || m->quarantined_until > now ||
	       hearsay_is_remembered(m, now);
}

void member_drop(struct p2p *p, struct member *m)
{
	if (!is_needed(m, clock_now_ns()))
		members_forget_old(p, m);
}

/* Remove the oldest member that is not needed; false: all are needed. A needed member is moved
 * to the newest end, so that the next search does not pass it again. */
static bool make_room(struct p2p *p)
{
	int64_t now = clock_now_ns();

	for (size_t k = p->n_members; k > 0; k--) {
		struct member *m = TAILQ_FIRST(&p->members);

		if (!is_needed(m, now)) {
			members_forget_old(p, m);
			return true;
		}
		TAILQ_REMOVE(&p->members, m, by_age);
		TAILQ_INSERT_TAIL(&p->members, m, by_age);
	}
	return false;
}

static struct member *member_add(struct p2p *p, const struct net_node *node,
				 bool is_hearsay)
{
	size_t max = is_hearsay ? MEMBERS_MAX / 2 : MEMBERS_MAX;
	struct member *m;

	if (p->n_members >= max && !make_room(p))
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->node = *node;
	m->is_vouched = !is_hearsay;
	m->said = clock_now_ns();
	TAILQ_INSERT_TAIL(&p->members, m, by_age);
	LIST_INSERT_HEAD(&p->named[bucket_of(p, m->node.name)], m, by_name);
	p->n_members++;
	p->members_changed = true;
	return m;
}

static void member_update(struct p2p *p, struct member *m,
			  const struct net_node *node)
{
	if (strcmp(m->node.addr, node->addr) != 0) {
		m->retry_at = 0;
		p->members_changed = true;
	}
	m->node = *node;
	m->is_vouched = true;
	m->told_by[0] = '\0';
	m->is_agreed = false;
}

/* Even a node's own address is only its claim: if it leads to this machine or to none, the node
 * is kept without an address and not dialled. */
static struct net_node without_bad_address(const struct p2p *p,
					   const struct net_node *node)
{
	struct net_node n = *node;

	if (!hearsay_may_be(p, n.addr))
		n.addr[0] = '\0';
	return n;
}

struct member *member_know(struct p2p *p, const struct net_node *said,
			   bool is_hearsay)
{
	struct net_node own = without_bad_address(p, said);
	const struct net_node *node = is_hearsay ? said : &own;
	struct member *m;

	if (!*node->name || strcmp(node->name, p->self.name) == 0 ||
	    (is_hearsay && !hearsay_may_be(p, node->addr)))
		return NULL;
	m = member_by_name(p, node->name);
	if (!m)
		return member_add(p, node, is_hearsay);
	m->said = clock_now_ns();
	/* Hearsay does not shorten the wait until the next attempt. */
	if (!is_hearsay)
		member_update(p, m, node);
	else if (member_may_be_told(m))
		m->node = *node;
	return m;
}

bool member_may_be_told(const struct member *m)
{
	return !m->is_vouched && !m->link && m->failures;
}

/* Index for a member that is known by `word`: a free one, or that of a member that could not be
 * reached; KNOWN_MAX: none. Nodes that are known by hearsay fill only half of the places and do
 * not replace nodes that the tracker named. */
static size_t find_known_member_place(const struct p2p_image *i,
				      enum member_word word)
{
	size_t max = word < WORD_GIVEN ? KNOWN_MAX / 2 : KNOWN_MAX;

	if (i->known.n < max)
		return i->known.n;
	for (size_t k = 0; k < max; k++) {
		const struct known_member *o = &i->known.members[k];

		if (!o->m->link && o->m->failures &&
		    (o->word < WORD_GIVEN || word == WORD_GIVEN))
			return k;
	}
	return KNOWN_MAX;
}

static struct known_member *known_find(struct p2p_image *i,
				       const struct member *m)
{
	for (size_t k = 0; k < i->known.n; k++)
		if (i->known.members[k].m == m)
			return &i->known.members[k];
	return NULL;
}

bool member_is_known(const struct member *m, struct p2p_image *i)
{
	return known_find(i, m);
}

bool member_is_of_image(const struct member *m, struct p2p_image *i)
{
	const struct known_member *place = known_find(i, m);

	return place && place->word >= WORD_OF_IMAGE;
}

/* Put the member into a place; false: there is no place. */
static bool add_known_member(struct member *m, struct p2p_image *i,
			     enum member_word word)
{
	size_t at = find_known_member_place(i, word);

	if (at == KNOWN_MAX)
		return false;
	if (at == i->known.n)
		i->known.n++;
	else
		i->known.members[at].m->refs--;
	i->known.members[at] = (struct known_member){ .m = m, .word = word };
	m->refs++;
	return true;
}

void member_takes_part(struct member *m, struct p2p_image *i,
		       enum member_word word)
{
	struct known_member *place = known_find(i, m);

	if (place && place->word >= word)
		return;
	if (place)
		place->word = word;
	else if (!add_known_member(m, i, word))
		return;
	if (m->link && m->link->is_up)
		link_offer(m->link, i);
}

void members_forget(struct p2p_image *i)
{
	while (i->known.n)
		i->known.members[--i->known.n].m->refs--;
}

void members_forget_told(struct p2p_image *i, const char *teller)
{
	for (size_t k = i->known.n; k-- > 0;) {
		struct member *m = i->known.members[k].m;

		if (m->link || m->is_agreed || strcmp(m->told_by, teller) != 0)
			continue;
		m->refs--;
		i->known.members[k] = i->known.members[--i->known.n];
	}
}

/* ------------------------------------------------------------- connect --- */

void member_failed(struct member *m, int64_t now)
{
	unsigned int doublings = m->failures < BACKOFF_DOUBLINGS
					 ? m->failures
					 : BACKOFF_DOUBLINGS;

	m->failures++;
	m->retry_at = now + (BACKOFF_NS << doublings);
}

static bool can_dial(const struct member *m, int64_t now)
{
	return !m->link && *m->node.addr && m->retry_at <= now &&
	       m->quarantined_until <= now;
}

/* Choose the distance of the next neighbour: half of them from the rack, a third from the zone,
 * and some always from far away, so that pieces leave the rack. */
static enum swarm_distance wanted_distance(struct p2p *p)
{
	uint64_t k = engine_random(p) % 10;

	if (k < 5)
		return SWARM_SAME_RACK;
	return k < 8 ? SWARM_SAME_ZONE : SWARM_REMOTE;
}

/* Choose a member at random, preferably at the wanted distance. */
static void choose_random_member(struct p2p *p, struct member *m,
				 enum swarm_distance want, struct member **best,
				 unsigned int *n)
{
	bool fits = member_distance(p, &m->node) == want;
	bool best_fits = *best && member_distance(p, &(*best)->node) == want;

	if (best_fits && !fits)
		return;
	*n = fits && !best_fits ? 1 : *n + 1;
	if (engine_random(p) % *n == 0)
		*best = m;
}

static struct member *members_choose_dial(struct p2p_image *i, int64_t now)
{
	enum swarm_distance want = wanted_distance(i->p);
	struct member *best = NULL, *m;
	unsigned int n = 0;

	for (size_t k = 0; k < i->known.n; k++)
		if (can_dial(i->known.members[k].m, now))
			choose_random_member(i->p, i->known.members[k].m, want,
					     &best, &n);
	if (best || i->p->tracker_is_there)
		return best;
	/* Without a tracker nobody says which nodes take part: try all known nodes. */
	TAILQ_FOREACH(m, &i->p->members, by_age)
	if (can_dial(m, now))
		choose_random_member(i->p, m, want, &best, &n);
	return best;
}

static void member_dial(struct p2p *p, struct member *m, int64_t now)
{
	struct error err = ERROR_INIT;
	struct net_link *net;

	if (net_connect(p->net, m->node.addr, m->node.name, &net, &err) < 0) {
		fault_dial(p, m, &err);
		member_failed(m, now);
		if (!fault_is_own(&err))
			hearsay_failed(p, m, now);
		return;
	}
	if (!link_make(p, net, m)) {
		net_close(net, "out of memory");
		member_failed(m, now);
	}
}

void members_connect(struct p2p_image *i, int64_t now)
{
	struct p2p *p = i->p;
	unsigned int wanted = neighbours_wanted(i), n = neighbours_count(i);
	const struct link *l;

	LIST_FOREACH(l, &p->links, all)
	n += !l->is_up;
	for (unsigned int k = 0; k < DIALS_MAX && n < wanted; k++, n++) {
		struct member *m = members_choose_dial(i, now);

		if (!m)
			return;
		member_dial(p, m, now);
	}
}

/* ---------------------------------------------------------------- turns --- */

/* Did any node name the member since `since`, and has no connection to it failed? */
static bool member_is_present(const struct member *m, int64_t since,
			      int64_t now)
{
	return m->said >= since && (m->link || !m->failures) &&
	       m->quarantined_until <= now;
}

bool member_is_missed(const struct member *m, int64_t now)
{
	return !m->link && m->failures && m->said >= now - SAID_NS;
}

void image_turns(struct p2p_image *i, int64_t now)
{
	bool is_new = now - i->opened < SETTLED_NS;
	uint64_t names[SWARM_MEMBERS_MAX];
	const struct member *m;
	size_t n = 0;

	for (size_t k = 0; k < i->known.n && n < SWARM_MEMBERS_MAX; k++) {
		m = i->known.members[k].m;
		if (neighbours_have(i, m) ||
		    member_is_present(m, now - SAID_NS, now))
			names[n++] = swarm_name(m->node.name);
	}
	/* While the image's members are not known yet, any known node may be one. */
	TAILQ_FOREACH(m, &i->p->members, by_age)
	if (is_new && n < SWARM_MEMBERS_MAX && !member_is_known(m, i) &&
	    member_is_present(m, 0, now))
		names[n++] = swarm_name(m->node.name);
	swarm_members(i->swarm, names, n);
}

/* ---------------------------------------------------------------- file --- */

/* Cut the next field off the line; false: there is none, or it is too long. */
static bool addr_cut(char **line, char *to, size_t room)
{
	char *field = strsep(line, "\t");

	if (!field || strlen(field) >= room)
		return false;
	(void)snprintf(to, room, "%s", field);
	return true;
}

static void load_line(struct p2p *p, char *line)
{
	struct net_node n = { .name = "" };

	if (addr_cut(&line, n.name, sizeof(n.name)) &&
	    addr_cut(&line, n.addr, sizeof(n.addr)) &&
	    addr_cut(&line, n.rack, sizeof(n.rack)) &&
	    addr_cut(&line, n.zone, sizeof(n.zone)) &&
	    addr_cut(&line, n.region, sizeof(n.region)) && !line)
		(void)member_know(p, &n, true);
}

void members_load(struct p2p *p)
{
	AUTO_BUF text = BUF_INIT;
	char *rest, *line;

	if (fs_read_file(p->members_path, FILE_MAX, &text, NULL) < 0 ||
	    text.len < strlen(FILE_HEAD) ||
	    memcmp(text.data, FILE_HEAD, strlen(FILE_HEAD)) != 0)
		return;
	rest = text.data + strlen(FILE_HEAD);
	while ((line = strsep(&rest, "\n")) && rest &&
	       p->n_members < FILE_MEMBERS_MAX)
		load_line(p, line);
	p->members_changed = false;
}

static bool is_plain(const char *text)
{
	return !text[strcspn(text, "\t\n")];
}

static int write_members(struct p2p *p, struct buf *text)
{
	const struct member *m;
	unsigned int n = 0;
	int rc = buf_puts(text, FILE_HEAD);

	/* Newest first: these are most likely still up. */
	TAILQ_FOREACH_REVERSE(m, &p->members, member_list, by_age)
	{
		const struct net_node *d = &m->node;

		if (rc < 0 || n++ == FILE_MEMBERS_MAX)
			break;
		if (is_plain(d->name) && is_plain(d->addr) &&
		    is_plain(d->rack) && is_plain(d->zone) &&
		    is_plain(d->region))
			rc = buf_printf(text, "%s\t%s\t%s\t%s\t%s\n", d->name,
					d->addr, d->rack, d->zone, d->region);
	}
	return rc;
}

static void run_save(struct work *w)
{
	struct p2p *p = container_of(w, struct p2p, save_work);

	/* Without the file a node knows no members when it starts again. */
	(void)!fs_replace_file(p->members_path, p->members_text,
			       strlen(p->members_text), 0600, NULL);
}

static void end_save(struct work *w)
{
	struct p2p *p = container_of(w, struct p2p, save_work);

	free(p->members_text);
	p->members_text = NULL;
}

void members_save(struct p2p *p)
{
	AUTO_BUF text = BUF_INIT;

	if (!p->members_changed || p->members_text ||
	    write_members(p, &text) < 0)
		return;
	p->members_text = buf_steal(&text);
	if (!p->members_text)
		return;
	p->members_changed = false;
	p->save_work = (struct work){ .run = run_save, .done = end_save };
	/* Cannot fail: the queue has no limit. */
	(void)!pool_submit(p->disk, &p->save_work);
}

void members_free(struct p2p *p)
{
	struct member *m;

	while ((m = TAILQ_FIRST(&p->members)))
		members_forget_old(p, m);
}
