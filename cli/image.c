// SPDX-License-Identifier: Apache-2.0
#include "cli/image.h"

#include "common/progress.h"

void image_access_apply(const struct image_access *a, struct oci_config *ret)
{
	*ret = (struct oci_config)OCI_CONFIG_INIT;
	ret->auth_file = a->auth_file;
	ret->ca_file = a->ca_file;
	ret->plain_http = a->plain_http;
}

static void step(struct convert_progress *base, const char *what, uint64_t done,
		 uint64_t total)
{
	struct image_progress *p =
		container_of(base, struct image_progress, base);

	progress_step(p->bar, what, done, total, progress_now());
}

void image_progress_start(struct image_progress *p)
{
	p->base.step = step;
	p->bar = progress_new(stderr);
}

void image_progress_stop(struct image_progress *p)
{
	progress_free(p->bar);
	p->bar = NULL;
}
