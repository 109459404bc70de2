// SPDX-License-Identifier: Apache-2.0
/* The file that says what a job needs: docs/jobs.md. */
#ifndef BOOTSEER_CLI_JOB_FILE_H
#define BOOTSEER_CLI_JOB_FILE_H

#include <jansson.h>
#include <stdbool.h>

#include "common/cleanup.h"
#include "common/error.h"

#define JOB_CKPTS_MAX 16u
/* Marks in a checkpoint's texts, replaced by this node's rank and by MASTER_ADDR. */
#define JOB_RANK "{rank}"
#define JOB_MASTER "{master}"

/* All texts and lists borrow from the file; a list ends with NULL, and is NULL if missing. */
struct job_image {
	char *reference; /* NULL: no image, the program runs on the host */
	char *workload, *wait, *ready_file;
	char **env, **mounts, **pull, **run;
	bool plain_http;
};

struct job_environment {
	char *store; /* NULL: no environment */
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
	json_t *text; /* the document, which owns the strings below */
	char *name;   /* from the file or environment, else the file's name */
	char *rank;   /* rank of this node; "0" if nothing sets it */
	bool stops;   /* a failed part ends the job */
	char **command;
	struct job_image image;
	struct job_environment environment;
	struct job_stages stages;
	struct job_ckpt ckpts[JOB_CKPTS_MAX];
	size_t n_ckpts;
	char *names[2]; /* texts of the node and the rank; owned */
};

/* Read the file.  -EINVAL: the message has the key and its mistake. */
int job_file_read(const char *path, struct job_file *ret,
		  struct error *err) MUST_CHECK;
/* The job's first node, as the launcher set it; NULL: not set. */
const char *job_master(void);
void job_file_fini(struct job_file *f);

#endif
