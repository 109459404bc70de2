// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <time.h>

#include "cli/env.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/progress.h"
#include "common/text.h"
#include "envcache/gc.h"

#define DAY_MS INT64_C(86400000)

struct env_gc_config {
	struct store_access access;
	int64_t older_ns;
	uint64_t keep_bytes;
	bool dry_run;
	bool json;
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
	{ .key = "json",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_gc_config, json),
	  .help = "Print JSON." },
	ENV_ACCESS_OPTIONS(struct env_gc_config),
	{ .key = NULL },
};

/* State of a collection; n[] counts the snapshots by fate. */
struct env_gc_run {
	const struct env_gc_config *config;
	json_t *list; /* NULL: print lines instead */
	bool is_full; /* no memory was left for the list */
	uint64_t n[ENV_GC_FATES];
};

static const struct {
	const char *name; /* name of the fate in JSON */
	const char *text; /* reason that is printed for users */
} fates[ENV_GC_FATES] = {
	[ENV_GC_UNUSED] = { "unused", "not used for as long as --older says" },
	[ENV_GC_BAD] = { "bad", "found bad by a --verify command" },
	[ENV_GC_SPACE] = { "space", "used longest ago, and all have more than "
				    "--keep-bytes" },
	[ENV_GC_IN_USE] = { "used", "used more recently than --older" },
	[ENV_GC_PINNED] = { "pinned", "pinned, until 'bootseer env unpin'" },
	[ENV_GC_CHANGED] = { "changed",
			     "pinned, used, removed or made again just now" },
	[ENV_GC_UNREADABLE] = { "unreadable", "cannot be read" },
};

static void print_gone_snapshot(const struct env_gc_run *r,
				const struct env_gc_told *t, const char *hex)
{
	char when[ENV_TIME_ROOM];

	if (t->fate >= ENV_GC_FIRST_KEPT)
		return; /* summed up by print_kept() */
	env_format_time(t->used_ms, when);
	printf("%.12s %s: %s; last used %s\n", hex,
	       r->config->dry_run ? "would be removed" : "removed",
	       fates[t->fate].text, when);
}

static void report_snapshot_fate(void *arg, const struct env_gc_told *t)
{
	struct env_gc_run *r = arg;
	char hex[ENV_KEY_HEX];

	env_key_hex(t->key, hex);
	r->n[t->fate]++;
	if (!r->list) {
		print_gone_snapshot(r, t, hex);
		return;
	}
	if (json_array_append_new(r->list,
				  json_pack("{s:s, s:b, s:s, s:I}", "key", hex,
					    "removed",
					    t->fate < ENV_GC_FIRST_KEPT, "why",
					    fates[t->fate].name, "used_ms",
					    (json_int_t)t->used_ms)) < 0)
		r->is_full = true;
}

/* Print "3 snapshots stay: WHY"; nothing if the count is 0. */
static void print_staying(uint64_t n, const char *noun, const uint64_t *size,
			  const char *why)
{
	char count[PROGRESS_COUNT_MAX], bytes[PROGRESS_BYTES_MAX] = "";

	if (!n)
		return;
	progress_format_count(n, noun, count);
	if (size)
		progress_format_bytes(*size, bytes);
	printf("%s%s%s %s: %s\n", count, size ? ", " : "", bytes,
	       n == 1 && !size ? "stays" : "stay", why);
}

/* Print the snapshots that stay, and why. */
static void print_kept(const struct env_gc_run *r, const struct env_gc *gc)
{
	for (int i = ENV_GC_FIRST_KEPT; i < ENV_GC_FATES; i++)
		print_staying(r->n[i], "snapshot", NULL, fates[i].text);
	print_staying(gc->n_young, "object", &gc->young_bytes,
		      "of no snapshot, but younger than two days: a run in "
		      "progress may need them");
	print_staying(gc->n_doomed, "pack", &gc->doomed_bytes,
		      "no snapshot needs them, and an 'env gc' two days after "
		      "the first that finds them so removes them");
}

static void print_sum(const struct env_gc_run *r, const struct env_gc *gc)
{
	char snapshots[PROGRESS_COUNT_MAX], leftovers[PROGRESS_COUNT_MAX];
	char bytes[PROGRESS_BYTES_MAX], kept[PROGRESS_BYTES_MAX];

	print_kept(r, gc);
	progress_format_count(gc->n_snapshots, "snapshot", snapshots);
	progress_format_count(gc->n_leftovers, "leftover object", leftovers);
	progress_format_bytes(gc->bytes, bytes);
	progress_format_bytes(gc->kept_bytes, kept);
	printf("%s: %s and %s, %s; the snapshots that stay have %s\n",
	       r->config->dry_run ? "would be removed" : "removed", snapshots,
	       leftovers, bytes, kept);
}

static int print_json(const struct env_gc_run *r, const struct env_gc *gc,
		      struct error *err)
{
	AUTO_JSON *o = json_pack(
		"{s:b, s:O, s:I, s:I, s:I, s:{s:I, s:I}, s:{s:I, s:I}}",
		"dry_run", (int)r->config->dry_run, "snapshots", r->list,
		"leftovers", (json_int_t)gc->n_leftovers, "removed_bytes",
		(json_int_t)gc->bytes, "kept_bytes", (json_int_t)gc->kept_bytes,
		"young", "objects", (json_int_t)gc->n_young, "bytes",
		(json_int_t)gc->young_bytes, "waiting", "packs",
		(json_int_t)gc->n_doomed, "bytes",
		(json_int_t)gc->doomed_bytes);
	AUTO_FREE char *text =
		o && !r->is_full
			? json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER)
			: NULL;

	if (!text)
		return error_nomem(err);
	puts(text);
	return 0;
}

/* Get the store's time by writing an object.  A full or read-only store refuses it; then use our
 * clock less a day, so that nothing is removed too early. */
static int get_store_time(struct object_store *s, int64_t *ret_ms,
			  struct error *err)
{
	int rc = object_store_now(s, ret_ms, err);

	if (rc != -ENOSPC && rc != -EDQUOT && rc != -EROFS)
		return rc;
	text_make_printable(err->msg);
	fprintf(stderr,
		"bootseer env gc: this node's clock is used, less a day: %s\n",
		err->msg);
	*ret_ms = clock_wall_ms() - DAY_MS;
	return 0;
}

static void print_uncollected(struct env_gc *gc)
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

static int run_env_gc(const void *config, char **args, struct error *err)
{
	const struct env_gc_config *c = config;
	AUTO_JSON *list = c->json ? json_array() : NULL;
	struct env_gc_run r = { .config = c, .list = list };
	struct env_gc gc = { .older_ms = c->older_ns / NS_PER_MS,
			     .keep_bytes = c->keep_bytes,
			     .dry_run = c->dry_run,
			     .told = report_snapshot_fate,
			     .arg = &r };
	AUTO(object_store) s = NULL;
	int rc = c->json && !list
			 ? error_nomem(err)
			 : env_store_open(&c->access, args[0], &s, err);

	/* A dry run writes nothing, so it uses our own clock, not the store's. */
	gc.now_ms = clock_wall_ms();
	if (rc == 0 && !c->dry_run)
		rc = get_store_time(s, &gc.now_ms, err);
	if (rc == 0)
		rc = env_gc(s, &gc, err);
	if (rc < 0)
		return rc;
	print_uncollected(&gc);
	if (list)
		return print_json(&r, &gc, err);
	print_sum(&r, &gc);
	return 0;
}

const struct command env_gc_command = {
	.brief = "Remove environments that have expired",
	.program = {
		.name = "bootseer env gc",
		.usage = "[OPTIONS] STORE",
		.summary = "Remove snapshots that were not used for long or "
			   "were found bad, but none that is pinned, and what "
			   "captures that were killed left behind. Says what "
			   "stays, too, and why.",
		.options = options,
		.see_also = "bootseer(1)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct env_gc_config),
	.check = env_check_first,
	.run = run_env_gc,
};
