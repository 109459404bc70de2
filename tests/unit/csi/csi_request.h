// SPDX-License-Identifier: Apache-2.0
/* Test helper: the kubelet's request for a pod of namespace "a". */
#ifndef BOOTSEER_TESTS_CSI_REQUEST_H
#define BOOTSEER_TESTS_CSI_REQUEST_H

#include "csi/request.h"

#define PAIRS_ROOM 24

struct test_publish {
	struct csi_publish p;
	struct csi_pair pairs[PAIRS_ROOM];
};

static inline void test_publish_add(struct test_publish *t, const char *key,
				    const char *value)
{
	t->pairs[t->p.n_attributes++] =
		(struct csi_pair){ .key = key, .value = value };
}

/* A request for an ephemeral volume with the attributes in `words`: key, value, ..., NULL. */
static inline void test_publish_init(struct test_publish *t,
				     const char *const *words)
{
	*t = (struct test_publish){ .p = { .fs_type = "",
					   .group = "",
					   .access = CSI_ACCESS_NODE_WRITER } };
	t->p.attributes = t->pairs;
	for (; *words; words += 2)
		test_publish_add(t, words[0], words[1]);
	test_publish_add(t, "csi.storage.k8s.io/pod.namespace", "a");
	test_publish_add(t, "csi.storage.k8s.io/pod.uid", "uid-p");
	test_publish_add(t, "csi.storage.k8s.io/ephemeral", "true");
}

#define WORDS(...) \
	(const char *const[]) \
	{ \
		__VA_ARGS__, NULL \
	}

#endif
