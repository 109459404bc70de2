// SPDX-License-Identifier: Apache-2.0
/*
 * The operator's rules: which volumes pods of this node may have. A namespace
 * without a rule gets nothing. No I/O.
 */
#ifndef BOOTSEER_CSI_POLICY_H
#define BOOTSEER_CSI_POLICY_H

#include "csi/request.h"

struct volume_policy;

/* Parse the rules of docs/kubernetes.md; `rules` ends with NULL, or is NULL.  -EINVAL names the
 * rule and what is wrong with it. */
int volume_policy_new(char *const *rules, struct volume_policy **ret,
		      struct error *err) MUST_CHECK;
void volume_policy_free(struct volume_policy *p);
DEFINE_AUTO(volume_policy)

enum volume_login {
	VOLUME_LOGIN_NONE, /* the store needs no login */
	/* the secret that the volume's nodePublishSecretRef names */
	VOLUME_LOGIN_SECRET,
	VOLUME_LOGIN_ROLE, /* `role`, by the pod's service account */
	VOLUME_LOGIN_NODE, /* the login of this node */
};

/* A rule's grant; `role` and `cache` are borrowed from the policy. */
struct volume_grant {
	char *store; /* URL with the rule's options; owned; NULL for an image */
	enum volume_login login;
	const char *role;
	uint64_t memory, uid, gid;
	/* memory that all ckpt volumes of the namespace may have */
	uint64_t total;
	const char *cache;   /* folder on the node's disk; NULL: none */
	uint64_t cache_size; /* 0: the default of bootseer-ckpt */
};
void volume_grant_fini(struct volume_grant *g);

/* Decide about a request.  -EACCES: no rule allows it; the message has the cure for the
 * operator or the pod. */
int volume_policy_decide(const struct volume_policy *p,
			 const struct volume_request *r,
			 struct volume_grant *ret,
			 struct error *err) MUST_CHECK;

#endif
