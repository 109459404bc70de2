// SPDX-License-Identifier: Apache-2.0
/*
 * Members find one another. Each looks up the addresses of --group, listens at the one that is
 * its own, and links with the others; linked members send each other the addresses of all
 * members they know.
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "groupio/group_priv.h"
#include "groupio/look_up.h"

#define LOOK_UP_AGAIN_NS (2 * NS_PER_S)
#define DIAL_AGAIN_NS NS_PER_S
#define TELL_EVERY_NS (3 * NS_PER_S)
/* A newly linked member sends the addresses it knows within so long. */
#define QUIET_NS (300 * NS_PER_MS)

/* ---------------------------------------------------------------------- the text --- */

static int place_parse(const char *text, size_t len, struct group_place *ret,
		       struct error *err)
{
	const char *colon = memrchr(text, ':', len);
	const char *host = text;
	size_t n_host = colon ? (size_t)(colon - text) : 0;
	size_t n_port = colon ? len - n_host - 1 : 0;

	if (n_host > 2 && host[0] == '[' && host[n_host - 1] == ']') {
		host++;
		n_host -= 2;
	}
	if (!n_host || n_host >= sizeof(ret->host) || !n_port || n_port > 5 ||
	    strspn(colon + 1, "0123456789") < n_port || atoi(colon + 1) < 1 ||
	    atoi(colon + 1) > 65535)
		return error_set(err, EINVAL,
				 "--group '%.*s': not HOST:PORT, as "
				 "'10.0.0.1:29600' or 'job-0.job:29600'",
				 (int)len, text);
	(void)snprintf(ret->host, sizeof(ret->host), "%.*s", (int)n_host, host);
	(void)snprintf(ret->port, sizeof(ret->port), "%.*s", (int)n_port,
		       colon + 1);
	return 0;
}

int places_parse(const char *text, struct group_place *places, size_t *ret_n,
		 struct error *err)
{
	size_t n = 0;

	while (*text) {
		const size_t len = strcspn(text, ",");
		int rc;

		if (n == GROUP_PLACES_MAX)
			return error_set(err, EINVAL,
					 "--group: %u addresses at most",
					 GROUP_PLACES_MAX);
		rc = place_parse(text, len, &places[n++], err);
		if (rc < 0)
			return rc;
		text += len + (text[len] == ',');
	}
	*ret_n = n;
	return n ? 0 : error_set(err, EINVAL, "--group: no address");
}

/* --------------------------------------------------------------------- listening --- */

static bool listen_at(struct group *g, const char *addr,
		      const struct identity_files *files, struct error *err)
{
	struct net_config c = { .loop = g->loop,
				.listen = addr,
				.security = NET_MUTUAL_TLS,
				.ca_file = files->ca,
				.cert_file = files->cert,
				.key_file = files->key,
				.dscp = g->cfg.dscp,
				.upload_rate = g->cfg.rate,
				.events = g->events,
				.arg = g };

	(void)snprintf(c.self.name, sizeof(c.self.name), "%s", g->name);
	return net_new(&c, &g->net, err) == 0;
}

/* Find this machine's own address on the route to the place; port 0. */
static bool find_own_address(const struct group_place *p, char ret[64])
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	AUTO_CLOSE int fd =
		socket(p->found.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* connect() of a datagram socket only chooses a route; nothing is sent. */
	if (fd < 0 ||
	    connect(fd, (const struct sockaddr *)&p->found, p->found_len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&own, &len) < 0)
		return false;
	net_addr_set_port(&own, 0);
	net_addr_format(&own, ret, 64);
	return true;
}

static bool is_own_place(const struct group_place *p)
{
	return p->addr[0] && (net_addr_is_loopback(&p->found) ||
			      net_addr_is_own(&p->found, p->found_len));
}

/* Publish the address that the group listens at; the server for saves listens there too. */
static void publish_own_host(struct group *g)
{
	const char *addr = net_self(g->net)->addr;
	const char *colon = strrchr(addr, ':');

	(void)pthread_mutex_lock(&g->lock);
	(void)snprintf(g->host, sizeof(g->host), "%.*s",
		       colon ? (int)(colon - addr) : 0, addr);
	(void)pthread_cond_broadcast(&g->changed);
	(void)pthread_mutex_unlock(&g->lock);
}

int group_wait_host(struct group *g, int64_t until_ns, char ret[64],
		    struct error *err)
{
	bool in_time = true, is_unawaited;

	(void)pthread_mutex_lock(&g->lock);
	while (!g->host[0] && !g->is_unawaited && !g->is_ending &&
	       !g->is_dead && in_time)
		in_time = cond_wait_until(&g->changed, &g->lock, until_ns);
	(void)snprintf(ret, 64, "%s", g->host);
	is_unawaited = g->is_unawaited;
	(void)pthread_mutex_unlock(&g->lock);
	if (*ret)
		return 0;
	if (is_unawaited)
		return error_set(err, ECANCELED, "the mount ends");
	return error_set(err, ETIMEDOUT,
			 "no address of --group is known yet: look "
			 "whether its hosts' names are");
}

void group_cancel_waits(struct group *g)
{
	(void)pthread_mutex_lock(&g->lock);
	g->is_unawaited = true;
	(void)pthread_cond_broadcast(&g->changed);
	(void)pthread_mutex_unlock(&g->lock);
}

/* Begin to listen, once each place was looked up or its look-up failed. */
static void begin_to_listen(struct group *g)
{
	const struct group_place *any = NULL;
	struct identity_files files;
	struct error err = ERROR_INIT;
	char addr[64];
	bool ok = false;

	for (size_t i = 0; i < g->n_places; i++) {
		if (!g->places[i].is_looked_up)
			return;
		if (g->places[i].addr[0])
			any = &g->places[i];
	}
	if (!any ||
	    identity_make(&g->secret, g->name, NULL, &files, &err) < 0) {
		if (any)
			log_warning("group", "no group reason=\"%s\"", err.msg);
		return;
	}
	/* Several addresses may be this machine's, and another mount may listen at one: take
	 * the first that is free. */
	for (size_t i = 0; i < g->n_places && !ok; i++)
		ok = is_own_place(&g->places[i]) &&
		     listen_at(g, g->places[i].addr, &files, &err);
	if (!ok)
		ok = find_own_address(any, addr) &&
		     listen_at(g, addr, &files, &err);
	identity_close(&files);
	if (ok)
		publish_own_host(g);
	if (ok)
		log_info("group", "listens addr=\"%s\" name=\"%s\"",
			 net_self(g->net)->addr, g->name);
	else
		log_warning("group", "no group reason=\"%s\"", err.msg);
}

/* -------------------------------------------------------------------- looking up --- */

static void start_address_look_up(struct group_place *p, int64_t now_ns)
{
	struct error err = ERROR_INIT;

	if (look_up_start(p->host, p->port, &p->look_up, &err) == 0)
		return;
	log_warning("group",
		    "a host is not looked up name=\"%s\" reason=\"%s\"",
		    p->host, err.msg);
	p->next_ns = now_ns + LOOK_UP_AGAIN_NS;
}

static void take_looked_up_address(struct group_place *p, int64_t now_ns)
{
	const int rc =
		look_up_take(steal_ptr(&p->look_up), &p->found, &p->found_len);

	p->is_looked_up = true;
	if (rc == 0) {
		net_addr_format(&p->found, p->addr, sizeof(p->addr));
		p->next_ns = 0;
		return;
	}
	p->next_ns = now_ns + LOOK_UP_AGAIN_NS;
	if (!p->was_told)
		log_warning("group",
			    "no such host name=\"%s\" reason=\"%s\" "
			    "note=\"looked for again\"",
			    p->host, gai_strerror(rc));
	p->was_told = true;
}

/* ----------------------------------------------------------------------- linking --- */

/* Called on the loop, where peers may be read without the lock. */
static bool is_linked_with(const struct group *g, const char *name,
			   const char *addr)
{
	const struct group_peer *p;

	LIST_FOREACH(p, &g->peers, of_group)
	if ((*name && strcmp(p->name, name) == 0) || strcmp(p->addr, addr) == 0)
		return true;
	return false;
}

struct group_peer *peer_new(struct net_link *l)
{
	struct group_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->link = l;
	TAILQ_INIT(&p->sends);
	net_set_user(l, p);
	return p;
}

static void dial_member(struct group *g, const char *addr, const char *name)
{
	struct group_peer *p;
	struct net_link *l;

	if (net_connect(g->net, addr, name, &l, NULL) < 0)
		return;
	p = peer_new(l);
	if (!p) {
		net_close(l, "out of memory");
		return;
	}
	(void)snprintf(p->name, sizeof(p->name), "%s", name ? name : "");
	(void)snprintf(p->addr, sizeof(p->addr), "%s", addr);
	(void)pthread_mutex_lock(&g->lock);
	LIST_INSERT_HEAD(&g->peers, p, of_group);
	(void)pthread_mutex_unlock(&g->lock);
}

static void advance_place(struct group *g, struct group_place *p,
			  int64_t now_ns)
{
	if (p->look_up && look_up_is_over(p->look_up))
		take_looked_up_address(p, now_ns);
	if (p->look_up || now_ns < p->next_ns)
		return;
	if (!p->addr[0]) {
		start_address_look_up(p, now_ns);
		return;
	}
	if (!g->net || strcmp(net_self(g->net)->addr, p->addr) == 0 ||
	    is_linked_with(g, "", p->addr))
		return;
	p->next_ns = now_ns + DIAL_AGAIN_NS;
	dial_member(g, p->addr, NULL);
}

static void tell_next_member(struct group *g, int64_t now_ns)
{
	const struct group_peer *p;
	unsigned int n = 0;

	if (now_ns - g->told_ns < TELL_EVERY_NS)
		return;
	g->told_ns = now_ns;
	LIST_FOREACH(p, &g->peers, of_group)
	n += p->is_up;
	if (!n)
		return;
	g->told_turn = (g->told_turn + 1) % n;
	n = 0;
	LIST_FOREACH(p, &g->peers, of_group)
	if (p->is_up && n++ == g->told_turn)
		join_tell(g, p);
}

/* Does this new node still look for the others? It has found them when the expected number
 * is linked; if no number is known, when it is itself at a place or linked with one, and linked
 * with all members it was told of. */
static bool is_looking_for_members(const struct group *g, int64_t now_ns)
{
	bool has_met = false;
	const struct group_peer *p;

	if (g->cfg.members)
		return g->stats.members + 1 < g->cfg.members;
	if (!g->net || now_ns - g->linked_ns < QUIET_NS)
		return true;
	for (size_t i = 0; i < g->n_places; i++)
		has_met = has_met || strcmp(net_self(g->net)->addr,
					    g->places[i].addr) == 0;
	LIST_FOREACH(p, &g->peers, of_group)
	{
		if (!p->is_up)
			return true;
		has_met = true;
	}
	return !has_met;
}

static void look_joined(struct group *g, int64_t now_ns)
{
	const int64_t settles_ns = now_ns + GROUP_SETTLE_NS;

	(void)pthread_mutex_lock(&g->lock);
	if (g->is_joining &&
	    (now_ns > g->joins_ns || !is_looking_for_members(g, now_ns))) {
		g->is_joining = false;
		if (g->joins_ns > settles_ns)
			g->joins_ns = settles_ns;
		(void)pthread_cond_broadcast(&g->changed);
	}
	(void)pthread_mutex_unlock(&g->lock);
}

void join_tick(struct group *g, int64_t now_ns)
{
	look_joined(g, now_ns);
	for (size_t i = 0; i < g->n_places; i++)
		advance_place(g, &g->places[i], now_ns);
	if (!g->net)
		begin_to_listen(g);
	else
		tell_next_member(g, now_ns);
}

void join_tell(struct group *g, const struct group_peer *p)
{
	struct net_node *nodes = calloc(64, sizeof(*nodes));
	const struct group_peer *other;
	size_t n = 0;

	if (!nodes)
		return;
	LIST_FOREACH(other, &g->peers, of_group)
	{
		if (!other->is_up || other == p)
			continue;
		nodes[n++] = *net_peer(other->link);
		if (n == 64) {
			net_members(p->link, &g->room, nodes, n);
			n = 0;
		}
	}
	if (n)
		net_members(p->link, &g->room, nodes, n);
	free(nodes);
}

/* Link with the members in a received list, in which a name may stand twice. */
void join_heard(struct group *g, const struct net_node *nodes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(nodes[i].name, g->name) != 0 &&
		    !is_linked_with(g, nodes[i].name, nodes[i].addr))
			dial_member(g, nodes[i].addr, nodes[i].name);
}
