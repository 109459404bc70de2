// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <time.h>

#include "cli/env.h"
#include "common/progress.h"
#include "common/text.h"

#define NS_PER_MS 1000000
#define DAY_MS INT64_C(86400000)

struct env_gc_config {
	struct env_access access;
	int64_t older_ns;
	uint64_t keep_bytes;
	bool dry_run;
};

static const struct option_spec options[] = {
	{ .key = "older",
	  .type = OPTION_DURATION,
	  .def = "30d",
	  .min = "0s",
	  .offset = offsetof(struct env_gc_config, older_ns),
	  .help = "Remove what was not used for so long, to the hour." },
	{ .key = "keep-bytes",
	  .type = OPTION_SIZE,
	  .def = "1000T",
	  .offset = offsetof(struct env_gc_config, keep_bytes),
	  .help = "Remove what was used longest ago until the snapshots take "
		  "no more than this in the store." },
	{ .key = "dry-run",
	  .letter = 'n',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_gc_config, dry_run),
	  .help = "Say what would be removed." },
	ENV_ACCESS_OPTIONS(struct env_gc_config),
	{ .key = NULL },
};

static void say_removed(void *arg, const struct digest *key)
{
	const struct env_gc_config *c = arg;
	char hex[ENV_KEY_HEX];

	env_key_hex(key, hex);
	printf("%.12s %s\n", hex, c->dry_run ? "would be removed" : "removed");
}

static void say_doomed(const struct env_gc *gc)
{
	char bytes[PROGRESS_BYTES_MAX];

	progress_format_bytes(gc->doomed_bytes, bytes);
	printf("%llu packs, %s, that no snapshot needs go with a collection "
	       "after two days\n",
	       (unsigned long long)gc->n_doomed, bytes);
}

/* A full store takes no object that would tell the time: of our clock a day less removes
 * nothing too early. */
static int ask_time(struct object_store *s, int64_t *ret_ms, struct error *err)
{
	int rc = object_store_now(s, ret_ms, err);

	if (rc != -ENOSPC && rc != -EDQUOT && rc != -EROFS)
		return rc;
	text_make_printable(err->msg);
	fprintf(stderr,
		"bootseer env gc: this node's clock is used, less a day: %s\n",
		err->msg);
	*ret_ms = env_wall_ms() - DAY_MS;
	return 0;
}

static void say_left(struct env_gc *gc)
{
	text_make_printable(gc->unknown.msg);
	text_make_printable(gc->unswept.msg);
	if (gc->unknown.code)
		fprintf(stderr,
			"bootseer env gc: a snapshot cannot be read, so no "
			"pack that it may share is removed until it can, or "
			"until 'bootseer env rm' removed it: %s\n",
			gc->unknown.msg);
	if (gc->unswept.code)
		fprintf(stderr,
			"bootseer env gc: uploads and locks of writers that "
			"were killed may be left: %s\n",
			gc->unswept.msg);
}

static int run(const void *config, char **args, struct error *err)
{
	struct env_gc_config c = *(const struct env_gc_config *)config;
	struct env_gc gc = { .older_ms = c.older_ns / NS_PER_MS,
			     .keep_bytes = c.keep_bytes,
			     .dry_run = c.dry_run,
			     .removed = say_removed,
			     .arg = &c };
	char bytes[PROGRESS_BYTES_MAX], kept[PROGRESS_BYTES_MAX];
	AUTO(object_store) s = NULL;
	int rc = env_store_open(&c.access, args[0], &s, err);

	/* Nothing is put there to be told the time of what is removed if. */
	gc.now_ms = env_wall_ms();
	if (rc == 0 && !c.dry_run)
		rc = ask_time(s, &gc.now_ms, err);
	if (rc == 0)
		rc = env_gc(s, &gc, err);
	if (rc < 0)
		return rc;
	progress_format_bytes(gc.bytes, bytes);
	progress_format_bytes(gc.kept_bytes, kept);
	if (gc.n_doomed)
		say_doomed(&gc);
	say_left(&gc);
	printf("%llu snapshots and %llu blobs of none, %s, %s; %s left\n",
	       (unsigned long long)gc.n_snapshots,
	       (unsigned long long)gc.n_leftovers, bytes,
	       c.dry_run ? "would be removed" : "removed", kept);
	return 0;
}

const struct command env_gc_command = {
	.brief = "Remove environments that have expired",
	.program = {
		.name = "bootseer env gc",
		.usage = "[OPTIONS] STORE",
		.summary = "Remove snapshots that were not used for long or "
			   "were found bad, but none that is pinned, and what "
			   "captures that were killed left behind.",
		.options = options,
		.see_also = "bootseer(1)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct env_gc_config),
	.check = env_check_first,
	.run = run,
};
