// SPDX-License-Identifier: Apache-2.0
/*
 * Where a registry is asked: containerd's hosts.toml (its docs/hosts.md), which names
 * mirrors of a registry, in order, and how each is spoken to.
 */
#ifndef BOOTSEER_OBJECTS_OCI_MIRRORS_H
#define BOOTSEER_OBJECTS_OCI_MIRRORS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

#define OCI_MIRRORS_MAX 16
#define OCI_MIRROR_HEADERS_MAX 8

struct oci_mirror {
	char *origin;  /* "https://host:port"; NULL: the registry's usual one */
	char *path;    /* "/v2", or as override_path has it; NULL with origin */
	bool pulls;    /* what has a digest may be had here */
	bool resolves; /* it may say what a tag, or a list, means */
	char *headers[OCI_MIRROR_HEADERS_MAX +
		      1];           /* "Name: value"; NULL ends */
	struct buf ca;              /* PEM, beside the system's */
	char *cert_file, *key_file; /* or NULL */
	bool is_unverified;         /* skip_verify */
};

struct oci_mirrors {
	struct oci_mirror list[OCI_MIRRORS_MAX + 1];
	size_t n; /* 0: nothing is said; else the last is the registry itself */
	char ignored[160]; /* keys that are not heeded, for a person; or "" */
};

/*
 * Read the mirrors of `host` from `dirs` ("DIR:DIR...", containerd's config_path): the
 * hosts.toml of the first folder that is there of DIR/HOST_PORT_, DIR/HOST:PORT,
 * DIR/_default. -EINVAL and the like name file and line.
 */
int oci_mirrors_load(const char *dirs, const char *host,
		     struct oci_mirrors *ret, struct error *err) MUST_CHECK;
/* The same of the hosts.toml in `dir`; none is no error. */
int oci_mirrors_read(const char *dir, struct oci_mirrors *ret,
		     struct error *err) MUST_CHECK;
/* How `m` wants to be spoken to by TLS: borrowed from it. */
struct http_config;
void oci_mirror_access(const struct oci_mirror *m, struct http_config *ret);
/* Pure, but that the files of `ca` are read; relative names are of `dir`. */
int oci_mirrors_parse(const char *text, size_t len, const char *dir,
		      struct oci_mirrors *ret, struct error *err) MUST_CHECK;
void oci_mirrors_fini(struct oci_mirrors *m);

#endif
