// SPDX-License-Identifier: Apache-2.0
#include "cli/ckpt.h"
#include "common/clock.h"
#include "common/progress.h"

struct ckpt_gc_config {
	struct ckpt_access access;
	int64_t older_ns;
	bool dry_run;
};

static const struct option_spec options[] = {
	{ .key = "older",
	  .type = OPTION_DURATION,
	  .def = "24h",
	  .min = "0s",
	  .offset = offsetof(struct ckpt_gc_config, older_ns),
	  .help = "Only what was written longer ago, and what no file has "
		  "needed for so long, as an earlier gc saw. Whoever takes "
		  "longer to write or to read one file loses it. 0 is all, at "
		  "once." },
	{ .key = "dry-run",
	  .letter = 'n',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct ckpt_gc_config, dry_run),
	  .help = "Say what would be removed." },
	CKPT_ACCESS_OPTIONS,
	{ .key = NULL },
};

static void print_rest(size_t n, uint64_t n_bytes, const char *one,
		       const char *several)
{
	char bytes[PROGRESS_BYTES_MAX], objects[PROGRESS_COUNT_MAX];

	if (!n)
		return;
	progress_format_bytes(n_bytes, bytes);
	progress_format_count(n, "object", objects);
	printf("%s, %s that no file needs %s\n", objects, bytes,
	       n == 1 ? one : several);
}

static int run_ckpt_gc(const void *config, char **args, struct error *err)
{
	const struct ckpt_gc_config *c = config;
	struct ckpt_gc gc = { .older_ms = (uint64_t)c->older_ns / NS_PER_MS,
			      .dry_run = c->dry_run };
	char bytes[PROGRESS_BYTES_MAX], objects[PROGRESS_COUNT_MAX];
	AUTO(object_store) s = c->access.store;
	size_t n_swept = 0;
	int rc = ckpt_gc(s, &gc, err);

	if (rc == 0 && !c->dry_run)
		rc = object_store_sweep(s, gc.older_ms, &n_swept, err);
	if (rc < 0)
		return rc;
	progress_format_bytes(gc.bytes, bytes);
	progress_format_count(gc.n_objects + n_swept, "object", objects);
	printf("%s, %s %s\n", objects, bytes,
	       c->dry_run ? "would be removed" : "removed");
	print_rest(gc.n_waiting, gc.bytes_waiting, "waits for a later gc",
		   "wait for a later gc");
	print_rest(gc.n_young, gc.bytes_young, "is younger than --older",
		   "are younger than --older");
	return 0;
}

const struct command ckpt_gc_command = {
	.brief = "Give back the space of files that are gone",
	.program = {
		.name = "bootseer ckpt gc",
		.usage = "[OPTIONS] STORE",
		.summary = "Remove from the store the data of files that were "
			   "removed or replaced, and what writers that were "
			   "killed left behind.",
		.options = options,
		.min_args = 1,
	},
	.config_size = sizeof(struct ckpt_gc_config),
	.open = ckpt_open_first,
	.run = run_ckpt_gc,
};
