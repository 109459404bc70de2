// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs of images that may hang as long as an image's registry does.  Each kind has threads of
 * its own, of which no registry's host and no image gets all; jobs that wait can be taken back.
 * All is the loop's, but for host_job.run().
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_HOST_JOB_H
#define BOOTSEER_P2P_ENGINE_ENGINE_HOST_JOB_H

#include <sys/queue.h>

#include "net/pool.h"

struct p2p;
struct p2p_image;

enum host_job_kind {
	HOST_JOB_URGENT, /* reads of the origin that readers wait for */
	HOST_JOB_BULK,   /* the others */
	HOST_JOB_PERMIT, /* questions for a right */
};
#define HOST_JOBS 3u

/* The submitter embeds it and keeps it until done(). */
struct host_job {
	TAILQ_ENTRY(host_job) link; /* while it waits */
	struct work work;           /* while it runs */
	struct p2p_image *i;
	enum host_job_kind kind;
	bool waits;
	int64_t begun_ns; /* of run() */
	/* On a thread of the kind; may block. */
	void (*run)(struct host_job *e);
	/* On the loop, exactly once; `has_run` false: it was taken back. */
	void (*done)(struct host_job *e, bool has_run);
};
TAILQ_HEAD(host_job_list, host_job);

/* A registry's host, while images of it are open. */
struct job_host {
	LIST_ENTRY(job_host) link;
	unsigned int n_images;
	unsigned int n_jobs[HOST_JOBS]; /* that run */
	/* A request brought nothing for long: until then the registry has one thread of a
	 * kind. */
	int64_t hangs_until;
	char name[];
};

struct host_job_threads {
	struct pool *pool;
	unsigned int n_running;
	struct host_job_list waiting;
};

int host_jobs_start(struct p2p *p, struct error *err) MUST_CHECK;
/* Nothing waits any more.  Not the loop. */
void host_jobs_free(struct p2p *p);

/* The image takes part, by the host in its i->repo. */
int host_jobs_join(struct p2p_image *i, struct error *err) MUST_CHECK;
/* None of its jobs is left; one that did not join is allowed. */
void host_jobs_leave(struct p2p_image *i);

/* Run e->run() when it is the image's turn. */
void host_job_submit(struct p2p_image *i, enum host_job_kind kind,
		     struct host_job *e);
/* If it waits still, end it at once, with a call of its done(). */
void host_job_take_back(struct host_job *e);

#endif
