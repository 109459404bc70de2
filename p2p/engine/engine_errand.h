// SPDX-License-Identifier: Apache-2.0
/*
 * Works of images that may hang as long as an image's registry does: each kind has
 * threads of its own, of which no registry's host and no image gets all, and an image's
 * works that wait can be taken back.  The loop's, but for errand.run().
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_ERRAND_H
#define BOOTSEER_P2P_ENGINE_ENGINE_ERRAND_H

#include <sys/queue.h>

#include "net/pool.h"

struct p2p;
struct p2p_image;

enum errand_kind {
	ERRAND_URGENT, /* reads of the origin that readers wait for */
	ERRAND_BULK,   /* the others */
	ERRAND_PERMIT, /* questions for a right */
};
#define ERRANDS 3u

/* The submitter embeds it and keeps it until done(). */
struct errand {
	TAILQ_ENTRY(errand) link; /* while it waits */
	struct work work;         /* while it runs */
	struct p2p_image *i;
	enum errand_kind kind;
	bool waits;
	int64_t begun_ns;              /* of run() */
	void (*run)(struct errand *e); /* on a thread of the kind; may block */
	/* On the loop, exactly once; `has_run` false: it was taken back. */
	void (*done)(struct errand *e, bool has_run);
};
TAILQ_HEAD(errand_list, errand);

/* A registry's host, while images of it are open. */
struct errand_host {
	LIST_ENTRY(errand_host) link;
	unsigned int n_images;
	unsigned int n_errands[ERRANDS]; /* that run */
	/* A request brought nothing for long: until then the registry has one thread of a
	 * kind. */
	int64_t hangs_until;
	char name[];
};

struct errand_threads {
	struct pool *pool;
	unsigned int n_running;
	struct errand_list waiting;
};

int errands_start(struct p2p *p, struct error *err) MUST_CHECK;
/* Nothing waits any more.  Not the loop. */
void errands_free(struct p2p *p);

/* The image takes part, by the host in its i->repo. */
int errands_join(struct p2p_image *i, struct error *err) MUST_CHECK;
/* None of its errands is left; one that did not join is allowed. */
void errands_leave(struct p2p_image *i);

/* Run e->run() when it is the image's turn. */
void errand_submit(struct p2p_image *i, enum errand_kind kind,
		   struct errand *e);
/* If it waits still, end it at once, with a call of its done(). */
void errand_take_back(struct errand *e);

#endif
