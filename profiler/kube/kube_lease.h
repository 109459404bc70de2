// SPDX-License-Identifier: Apache-2.0
/*
 * A Lease of Kubernetes, by which one recovery at a time counts nodes and takes them out: a
 * budget that two count at once would be exceeded.
 */
#ifndef BOOTSEER_PROFILER_KUBE_KUBE_LEASE_H
#define BOOTSEER_PROFILER_KUBE_KUBE_LEASE_H

#include "profiler/kube/kube.h"

#define KUBE_LEASE_NAMESPACE "kube-system"
#define KUBE_LEASE_NAME "bootseer-recover"
/* A holder that died is waited for so long; calls of a living one end before. */
#define KUBE_LEASE_S 300

/*
 * Times are by the server's clock, so that those of callers need not agree.  `holder` is a
 * text that no other caller has.
 *   -EBUSY  somebody else holds it; the message says who and until when
 *   or as kube_do()
 */
int kube_lease_take(struct kube *k, const char *holder,
		    struct error *err) MUST_CHECK;
/* Give it back, where it is still this holder's. */
int kube_lease_drop(struct kube *k, const char *holder,
		    struct error *err) MUST_CHECK;

/* Is a Lease held at this time of the server, ms since 1970?  One that cannot be read is. */
bool kube_lease_is_held(const json_t *lease, int64_t now_ms);

#endif
