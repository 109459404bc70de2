// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs of images that may hang as long as the image's registry does. Each kind has threads of its
 * own, and no registry host and no image gets all of them. Waiting jobs can be taken back.
 * Everything is used on the loop, except host_job.run().
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_HOST_JOB_H
#define BOOTSEER_P2P_ENGINE_ENGINE_HOST_JOB_H

#include <sys/queue.h>

#include "net/pool.h"

struct p2p;
struct p2p_image;

enum host_job_kind {
	HOST_JOB_URGENT, /* reads of the origin that readers wait for */
	HOST_JOB_BULK,   /* other reads of the origin */
	HOST_JOB_PERMIT, /* requests for a right to an image */
};
#define HOST_JOBS 3u

/* The submitter embeds it and keeps it until done(). */
struct host_job {
	TAILQ_ENTRY(host_job) link; /* while it waits */
	struct work work;           /* while it runs */
	struct p2p_image *i;
	enum host_job_kind kind;
	bool waits;
	int64_t begun_ns; /* when run() began */
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
	unsigned int n_jobs[HOST_JOBS]; /* running jobs */
	/* A request brought nothing for long; until this time the host gets one thread of each
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
/* Stop the threads when no job waits any more. Not on the loop. */
void host_jobs_free(struct p2p *p);

/* Register the image under the host in its i->repo. */
int host_jobs_join(struct p2p_image *i, struct error *err) MUST_CHECK;
/* Unregister an image without jobs; one that did not join is allowed. */
void host_jobs_leave(struct p2p_image *i);

/* Run e->run() when it is the image's turn. */
void host_job_submit(struct p2p_image *i, enum host_job_kind kind,
		     struct host_job *e);
/* End the job at once if it still waits, by calling its done(). */
void host_job_take_back(struct host_job *e);

#endif
