// SPDX-License-Identifier: Apache-2.0
/* The cluster whose API server bootseer ops recover talks to: a kubeconfig's, or a pod's own. */
#ifndef BOOTSEER_CLI_OPS_KUBE_H
#define BOOTSEER_CLI_OPS_KUBE_H

#include "profiler/kube/kube.h"

/*
 * `kubeconfig` is --kubeconfig, or NULL: then a pod's service account where there is one, else
 * what kubectl uses.  kubectl reads kubeconfigs, which are YAML; a credential plugin that the user
 * of the kubeconfig has is run.  Release by kube_free().
 *   -ENOENT  there is no kubectl, and no service account
 *   -EINVAL  the kubeconfig wants what is not done here
 */
int ops_kube_open(const char *kubeconfig, int64_t deadline_ns,
		  struct kube **ret, struct error *err) MUST_CHECK;

#endif
