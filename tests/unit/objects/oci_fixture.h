// SPDX-License-Identifier: Apache-2.0
/* A private fake registry and small images for tests of the image stores. */
#ifndef BOOTSEER_TESTS_OCI_FIXTURE_H
#define BOOTSEER_TESTS_OCI_FIXTURE_H

#include <sys/types.h>

#include "objects/oci.h"

struct registry_fixture {
	char dir[64]; /* temporary; holds the layout "lay" and the log "log" */
	pid_t pid;
	unsigned int port, control;
	struct oci_config cfg;
	struct oci_store *store; /* of "test/image" in the fake */
	struct http *http;       /* for the control port */
};

/* Each fails the test when it cannot do what it says. */
void fixture_start(struct registry_fixture *f);
void fixture_stop(struct registry_fixture *f);

/* Open the repository anew, after a change of f->cfg. */
void fixture_reopen(struct registry_fixture *f);

/* "drop=1&times=2": see tests/fakes/registry.h. */
void fixture_fault(struct registry_fixture *f, const char *query);

/* How many lines of the fake's log contain all of a, b (NULL: any). */
size_t fixture_count(struct registry_fixture *f, const char *a, const char *b);

/* Store `len` bytes (which depend on `seed`) in the layout behind the fake's
 * back; the bytes are the caller's. */
char *fixture_blob(struct registry_fixture *f, size_t len, unsigned int seed,
		   struct digest *ret);

/* A file in f->dir with these bytes, open for reading. */
int fixture_file(struct registry_fixture *f, const void *data, size_t len);

/* A manifest without layers; `subject` may be NULL.  The text is the caller's. */
char *fixture_manifest(const struct digest *config,
		       const struct digest *subject, const char *artifact_type);
/* The same, annotated with `note` as "n"; which may be NULL. */
char *fixture_noted(const struct digest *config, const struct digest *subject,
		    const char *artifact_type, const char *note);

#define IMAGE_TYPE "application/vnd.oci.image.manifest.v1+json"
#define INDEX_TYPE "application/vnd.oci.image.index.v1+json"

#endif
