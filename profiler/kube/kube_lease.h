// SPDX-License-Identifier: Apache-2.0
/*
 * A Kubernetes Lease, which lets one recovery at a time count nodes and take some out: two at once
 * could exceed the budget.
 */
#ifndef BOOTSEER_PROFILER_KUBE_KUBE_LEASE_H
#define BOOTSEER_PROFILER_KUBE_KUBE_LEASE_H

#include "profiler/kube/kube.h"

#define KUBE_LEASE_NAMESPACE "kube-system"
#define KUBE_LEASE_NAME "bootseer-recover"
/* After this time the lease of a dead holder may be taken; the calls of a live one end earlier. */
#define KUBE_LEASE_S 300

/*
 * Take the lease. Times are the server's, so that callers' clocks need not agree. `holder` is a
 * text that no other caller uses.
 *   -EBUSY  somebody else holds it; the message says who and until when
 *   or as kube_do()
 */
int kube_lease_take(struct kube *k, const char *holder,
		    struct error *err) MUST_CHECK;
/* Give the lease back, if this holder still has it. */
int kube_lease_drop(struct kube *k, const char *holder,
		    struct error *err) MUST_CHECK;

/* Is the Lease held at `now_ms`, server time in ms since 1970? One that cannot be read counts as
 * held. */
bool kube_lease_is_held(const json_t *lease, int64_t now_ms);

#endif
