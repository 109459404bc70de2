// SPDX-License-Identifier: Apache-2.0
#include "cli/image.h"
#include "cli/plain_output.h"

#include <sys/sysinfo.h>

#include "common/clock.h"
#include "common/progress.h"

int image_target_new(const char *ref, const struct image_access *a,
		     struct image_target **ret, struct error *err)
{
	AUTO_FREE struct image_target *t = calloc(1, sizeof(*t));
	int rc = t ? oci_ref_parse(ref, &t->ref, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	t->config = (struct oci_config)OCI_CONFIG_INIT;
	t->config.auth_file = a->auth_file;
	t->config.ca_file = a->ca_file;
	t->config.plain_http = a->plain_http;
	*ret = steal_ptr(&t);
	return 0;
}

void image_target_free(struct image_target *t)
{
	if (!t)
		return;
	oci_ref_fini(&t->ref);
	free(t);
}

int image_ref_check(const char *ref, struct error *err)
{
	struct oci_ref parsed;
	int rc = oci_ref_parse(ref, &parsed, err);

	if (rc == 0)
		oci_ref_fini(&parsed);
	return rc;
}

int image_artifact_parse(const char *option, struct digest *room,
			 const struct digest **ret, struct error *err)
{
	int rc = option ? digest_parse(option, room, err) : 0;

	*ret = option ? room : NULL;
	return rc < 0 ? error_wrap(err, rc, "--artifact") : 0;
}

void image_others_print(size_t n)
{
	if (n)
		fprintf(stderr,
			"it has %zu other artifact%s: 'bootseer image inspect' "
			"lists them, --artifact chooses\n",
			n, n == 1 ? "" : "s");
}

int image_check_first(const void *config, char **args, struct error *err)
{
	(void)config;
	return image_ref_check(args[0], err);
}

/* A job for each processor, 8 at most: each takes some 15 MiB. */
unsigned int image_default_jobs(void)
{
	int n = get_nprocs();

	return n < 1 ? 1 : n > 8 ? 8 : (unsigned int)n;
}

static void show_progress_step(struct convert_progress *base, const char *what,
			       uint64_t done, uint64_t total)
{
	struct image_progress *p =
		container_of(base, struct image_progress, base);

	progress_step(p->bar, what, done, total, clock_now_ns());
}

void image_progress_start(struct image_progress *p)
{
	p->base.step = show_progress_step;
	p->bar = progress_new(plain_output_bar());
}

void image_progress_stop(struct image_progress *p)
{
	progress_free(p->bar);
	p->bar = NULL;
}
