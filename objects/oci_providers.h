// SPDX-License-Identifier: Apache-2.0
/*
 * The kubelet's credential provider plugins (kubelet.config.k8s.io CredentialProviderConfig,
 * credentialprovider.kubelet.k8s.io): programs that give a login for an image, as those of
 * ECR, GAR and ACR do.  Private to this folder.  Any thread.
 */
#ifndef BOOTSEER_OBJECTS_OCI_PROVIDERS_H
#define BOOTSEER_OBJECTS_OCI_PROVIDERS_H

#include <jansson.h>

#include "objects/oci_registry_auth.h"

struct oci_providers;

/* `places` is "CONFIG:BINDIR".  -EINVAL. */
int oci_providers_new(const char *places, struct oci_providers **ret,
		      struct error *err) MUST_CHECK;
void oci_providers_free(struct oci_providers *p);

/*
 * A login for host/repo by the first plugin that has one.  The configuration is read anew
 * each time.  An answer is used for as long as the plugin said, unless `anew`; then
 * `*ret_kept` is false.  Blocks while the plugin runs.  -ENOENT: none has one.
 */
int oci_providers_ask(struct oci_providers *p, const char *host,
		      const char *repo, bool anew, struct pace *pace,
		      struct credentials *ret, bool *ret_kept,
		      struct error *err) MUST_CHECK;

/* ---- without I/O ---- */

/* Does a pattern as in matchImages ("*.dkr.ecr.*.amazonaws.com", "host:5000/team") fit, and
 * how long is it?  0: it does not. */
size_t provider_pattern_fits(const char *pattern, const char *host,
			     const char *repo);

/* For what an answer is good. */
enum provider_use {
	PROVIDER_USE_IMAGE,
	PROVIDER_USE_REGISTRY,
	PROVIDER_USE_ALL
};

struct provider_answer {
	json_t *auth; /* pattern -> username, password; owned */
	enum provider_use use;
	int64_t kept_ns; /* -1: as the configuration says */
};

int provider_answer_parse(const void *text, size_t len,
			  struct provider_answer *ret,
			  struct error *err) MUST_CHECK;
/* 0: `ret` is the login of the longest pattern that fits; -ENOENT. */
int provider_answer_pick(const json_t *auth, const char *host, const char *repo,
			 struct credentials *ret, struct error *err) MUST_CHECK;

/* "1h30m", "12h0m0s", "0s" in ns; -1: it is none. */
int64_t provider_duration_parse(const char *text);

/* The providers of a configuration's text, a list; the caller's.  -EINVAL. */
int provider_config_parse(const void *text, size_t len, json_t **ret,
			  struct error *err) MUST_CHECK;

#endif
