// SPDX-License-Identifier: Apache-2.0
/* The file that says what a job needs: docs/jobs.md. */
#ifndef BOOTSEER_CLI_JOB_FILE_H
#define BOOTSEER_CLI_JOB_FILE_H

#include <jansson.h>
#include <stdbool.h>

#include "common/cleanup.h"
#include "common/error.h"

#define JOB_CKPTS_MAX 16u
/* Marks in a checkpoint's texts: this node's rank, and MASTER_ADDR. */
#define JOB_RANK "{rank}"
#define JOB_MASTER "{master}"

/* Texts and lists are the file's; a list ends with NULL, and is NULL when it is not there. */
struct job_image {
	char *reference; /* NULL: there is none, and the program runs here */
	char *workload, *wait, *ready_file;
	char **env, **mounts, **pull, **run;
	bool plain_http;
};

struct job_environment {
	char *store; /* NULL: there is none */
	char **command, **targets, **keys, **key_files, **options;
};

struct job_ckpt {
	char *store; /* NULL: the folder is mounted already, by others */
	char *dir;
	char **prefetch, **options;
	bool read_only;
};

struct job_stages {
	bool is_there;
	char *service, *token_file, *ca_file, *ready_file;
};

struct job_file {
	json_t *text; /* whose strings the others are */
	char *name;   /* by the file, the environment or the file's name */
	char *rank;   /* of this node, "0" when nothing says it */
	bool stops;   /* where a part fails */
	char **command;
	struct job_image image;
	struct job_environment environment;
	struct job_stages stages;
	struct job_ckpt ckpts[JOB_CKPTS_MAX];
	size_t n_ckpts;
	char *names[2]; /* of the node and the rank; owned */
};

/* -EINVAL: what is wrong in it, with the key. */
int job_file_read(const char *path, struct job_file *ret,
		  struct error *err) MUST_CHECK;
/* The job's first node by its launcher; NULL: nobody says it. */
const char *job_master(void);
void job_file_fini(struct job_file *f);

#endif
