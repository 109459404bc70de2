// SPDX-License-Identifier: Apache-2.0
/*
 * Which members of the group serve blocks, and at which addresses. To announce its address, a
 * member opens an image reserved for blocks on each link, and sends the address where other
 * images have a capability (docs/formats/p2p.md).
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "groupio/blocks_priv.h"
#include "groupio/group_priv.h"

/* A member that failed gets no requests for blocks for so many times --group-wait. */
#define SILENT_WAITS 12

void members_tell_blocks(struct group *g, struct group_peer *p)
{
	char addr[sizeof(g->blocks_addr)];

	(void)pthread_mutex_lock(&g->lock);
	memcpy(addr, g->blocks_addr, sizeof(addr));
	(void)pthread_mutex_unlock(&g->lock);
	if (addr[0])
		(void)!net_open_image(p->link, &g->blocks_image, 1, addr,
				      strlen(addr), NULL);
}

/* Note where the member serves blocks. The address is checked, since it goes into URLs. */
int members_note_blocks(struct group *g, struct group_peer *p, const void *addr,
			size_t len, struct error *err)
{
	char text[sizeof(p->blocks_addr)] = "";
	bool has_blocks;

	if (!p || !len || len >= sizeof(text))
		return error_set(err, EACCES, "no address of blocks");
	memcpy(text, addr, len);
	if (strspn(text, "0123456789abcdefABCDEF.:[]") != len)
		return error_set(err, EACCES, "no address of blocks");
	(void)pthread_mutex_lock(&g->lock);
	memcpy(p->blocks_addr, text, sizeof(text));
	p->blocks_seed = block_member_seed(p->name);
	has_blocks = g->blocks_addr[0];
	(void)pthread_mutex_unlock(&g->lock);
	if (!has_blocks)
		return error_set(err, ENOENT, "no blocks here");
	members_tell_blocks(g, p);
	return 0;
}

static void announce_blocks(struct loop_call *c)
{
	struct group *g = container_of(c, struct group, announce);
	struct group_peer *p;

	LIST_FOREACH(p, &g->peers, of_group)
	if (p->is_up)
		members_tell_blocks(g, p);
}

void blocks_announce(struct blocks *b)
{
	struct group *g = b->cfg.group;

	(void)pthread_mutex_lock(&g->lock);
	memcpy(g->blocks_addr, b->addr, sizeof(g->blocks_addr));
	(void)pthread_mutex_unlock(&g->lock);
	g->announce.fn = announce_blocks;
	loop_post(g->loop, &g->announce);
}

/* May the member be sent requests for blocks now? Called with the group's lock. */
static bool is_asked(const struct group_peer *p, int64_t now_ns)
{
	return p->is_up && p->blocks_addr[0] && p->blocks_silent_ns <= now_ns &&
	       p->shunned_ns <= now_ns;
}

static void copy_member(const struct group_peer *p, struct block_member *ret)
{
	memcpy(ret->name, p->name, sizeof(ret->name));
	memcpy(ret->addr, p->blocks_addr, sizeof(ret->addr));
}

bool blocks_owner(struct blocks *b, const char *name, struct block_member *ret)
{
	struct group *g = b->cfg.group;
	const int64_t now_ns = clock_now_ns();
	const struct group_peer *p, *best = NULL;
	uint64_t most = block_weight(name, block_member_seed(g->name));

	(void)pthread_mutex_lock(&g->lock);
	LIST_FOREACH(p, &g->peers, of_group)
	{
		const uint64_t weight = block_weight(name, p->blocks_seed);

		if (!is_asked(p, now_ns) || weight <= most)
			continue;
		most = weight;
		best = p;
	}
	if (best)
		copy_member(best, ret);
	(void)pthread_mutex_unlock(&g->lock);
	return best != NULL;
}

bool blocks_find_member(struct blocks *b, const char *member,
			struct block_member *ret)
{
	struct group *g = b->cfg.group;
	const struct group_peer *p;
	bool is_there = false;

	(void)pthread_mutex_lock(&g->lock);
	LIST_FOREACH(p, &g->peers, of_group)
	{
		if (!is_asked(p, clock_now_ns()) ||
		    strcmp(p->name, member) != 0)
			continue;
		copy_member(p, ret);
		is_there = true;
	}
	(void)pthread_mutex_unlock(&g->lock);
	return is_there;
}

void blocks_silence(struct blocks *b, const struct block_member *m,
		    const char *why)
{
	struct group *g = b->cfg.group;
	struct group_peer *p;

	(void)pthread_mutex_lock(&g->lock);
	LIST_FOREACH(p, &g->peers, of_group)
	if (strcmp(p->name, m->name) == 0)
		p->blocks_silent_ns =
			clock_now_ns() + SILENT_WAITS * b->cfg.wait_ns;
	(void)pthread_mutex_unlock(&g->lock);
	log_warning("blocks", "member left out name=\"%s\" reason=\"%s\"",
		    m->name, why);
}

size_t blocks_count_members(struct blocks *b)
{
	struct group *g = b->cfg.group;
	const struct group_peer *p;
	size_t n = 0;

	(void)pthread_mutex_lock(&g->lock);
	LIST_FOREACH(p, &g->peers, of_group)
	n += is_asked(p, clock_now_ns());
	(void)pthread_mutex_unlock(&g->lock);
	return n;
}
