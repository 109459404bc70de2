// SPDX-License-Identifier: Apache-2.0
/* Connect bootseer ops to a Kubernetes API server: a kubeconfig's, or that of the pod's own
 * cluster. */
#ifndef BOOTSEER_CLI_OPS_KUBE_H
#define BOOTSEER_CLI_OPS_KUBE_H

#include "profiler/kube/kube.h"

/*
 * Connect by the file `kubeconfig`.  NULL: by the pod's service account if there is one, else by
 * kubectl's default. kubectl reads the kubeconfig, which is YAML; a credential plugin named in it
 * is run.  Release by kube_free().
 *   -ENOENT  there is neither kubectl nor a service account
 *   -EINVAL  the kubeconfig needs features that are not supported here
 */
int ops_kube_open(const char *kubeconfig, int64_t deadline_ns,
		  struct kube **ret, struct error *err) MUST_CHECK;

#endif
