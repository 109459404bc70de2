// SPDX-License-Identifier: Apache-2.0
#include "groupio/groupio.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "groupio/look_up.h"
#include "groupio/units.h"

#define TICK_NS (100 * NS_PER_MS)
/* A new member looks for the others for so long before it reads a file alone. */
#define JOINING_NS (5 * NS_PER_S)

/* Make a member name: this machine's name, as far as a certificate allows it, and a random
 * part that no other member has. */
static int make_name(struct group *g, struct error *err)
{
	char host[48] = "";
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_set(err, errno, "random bytes: %s",
				 strerror(errno));
	(void)gethostname(host, sizeof(host) - 1);
	for (char *c = host; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789.-"
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
			    *c))
			*c = '-';
	(void)snprintf(g->name, sizeof(g->name), "%s-%016" PRIx64,
		       *host ? host : "node", random);
	return 0;
}

/* ---------------------------------------------------------------------- the loop --- */

static void group_tick(struct loop_timer *t)
{
	struct group *g = container_of(t, struct group, tick);
	const int64_t now_ns = clock_now_ns();
	struct net_stats s = { .links = 0 };

	join_tick(g, now_ns);
	links_drop_faulty(g, now_ns);
	units_promise(g, now_ns);
	files_withdraw_idle(g, now_ns);
	if (g->net)
		net_get_stats(g->net, &s);
	(void)pthread_mutex_lock(&g->lock);
	g->stats.sent_bytes = s.sent_bytes_total;
	(void)pthread_mutex_unlock(&g->lock);
	(void)!loop_timer_start(g->loop, t, TICK_NS, NULL);
}

static void *group_main(void *arg)
{
	struct group *g = arg;
	struct error err = ERROR_INIT;

	if (loop_run(g->loop, &err) == 0)
		return NULL;
	log_error("group",
		  "files are read alone from now on reason=\"%s\" cure=\"mount "
		  "anew\"",
		  err.msg);
	/* The loop has failed and cannot receive messages: close the links, so that pending
	 * requests end. */
	(void)pthread_mutex_lock(&g->lock);
	g->is_dead = true;
	(void)pthread_mutex_unlock(&g->lock);
	net_free(g->net);
	g->net = NULL;
	(void)pthread_mutex_lock(&g->lock);
	(void)pthread_cond_broadcast(&g->changed);
	(void)pthread_mutex_unlock(&g->lock);
	return NULL;
}

static void group_ended(struct loop_call *c)
{
	loop_stop(container_of(c, struct group, ended)->loop);
}

/* Close the links on the loop, so that members still get the last messages. */
static void group_end(struct loop_call *c)
{
	struct group *g = container_of(c, struct group, ending);

	loop_timer_stop(&g->tick);
	net_free(g->net);
	g->net = NULL;
	g->ended.fn = group_ended;
	loop_post(g->loop, &g->ended);
}

/* --------------------------------------------------------------------- new, free --- */

static void group_free_parts(struct group *g)
{
	loop_timer_stop(&g->tick);
	pool_free(g->pool);
	for (size_t i = 0; i < g->n_places; i++)
		look_up_leave(g->places[i].look_up);
	loop_free(g->loop);
	files_fini(g);
	(void)pthread_mutex_lock(&g->lock);
	units_fini(g);
	(void)pthread_mutex_unlock(&g->lock);
	(void)pthread_cond_destroy(&g->changed);
	(void)pthread_mutex_destroy(&g->lock);
	explicit_bzero(&g->secret, sizeof(g->secret));
	free(g);
}

static int group_set_up(struct group *g, struct error *err)
{
	int rc = places_parse(g->cfg.places, g->places, &g->n_places, err);

	g->cfg.places = NULL; /* the caller's */
	if (rc == 0)
		rc = identity_read_secret(g->cfg.key_file, &g->secret, err);
	g->cfg.key_file = NULL;
	if (rc == 0 &&
	    (identity_derive(&g->secret, "bootseer group room", &g->room) < 0 ||
	     identity_derive(&g->secret, "bootseer group blocks",
			     &g->blocks_image) < 0))
		rc = error_nomem(err);
	if (rc == 0)
		rc = make_name(g, err);
	if (rc == 0)
		rc = units_init(g, err);
	if (rc == 0)
		rc = loop_new(&g->loop, err);
	if (rc == 0)
		rc = pool_new(g->loop, g->cfg.fetches, 0, &g->pool, err);
	if (rc == 0)
		rc = loop_timer_start(g->loop, &g->tick, 0, err);
	return rc;
}

int group_new(const struct group_config *cfg, struct group **ret,
	      struct error *err)
{
	struct group *g = calloc(1, sizeof(*g));
	int rc;

	if (!g)
		return error_nomem(err);
	g->cfg = *cfg;
	g->events = &group_events;
	g->is_joining = true;
	g->joins_ns = clock_now_ns() +
		      (cfg->members || cfg->wait_ns < JOINING_NS ? cfg->wait_ns
								 : JOINING_NS);
	(void)pthread_mutex_init(&g->lock, NULL);
	cond_init(&g->changed);
	LIST_INIT(&g->peers);
	TAILQ_INIT(&g->unused);
	g->tick.fn = group_tick;
	rc = group_set_up(g, err);
	if (rc == 0)
		rc = thread_start(&g->thread, group_main, g, err);
	if (rc < 0)
		group_free_parts(g);
	else
		*ret = g;
	return rc;
}

void group_free(struct group *g)
{
	if (!g)
		return;
	(void)pthread_mutex_lock(&g->lock);
	g->is_ending = true;
	(void)pthread_cond_broadcast(&g->changed);
	(void)pthread_mutex_unlock(&g->lock);
	g->ending.fn = group_end;
	loop_post(g->loop, &g->ending);
	thread_join(&g->thread);
	group_free_parts(g);
}

void group_stats(struct group *g, struct group_stats *ret)
{
	(void)pthread_mutex_lock(&g->lock);
	*ret = g->stats;
	(void)pthread_mutex_unlock(&g->lock);
}
