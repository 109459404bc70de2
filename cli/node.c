// SPDX-License-Identifier: Apache-2.0
/* `bootseer node status | gc`. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/node_ask.h"
#include "common/clock.h"
#include "common/duration.h"

/* failures to store a block in the last TROUBLE_S are printed first */
#define TROUBLE_S 600

struct node_config_cli {
	struct node_options node;
	bool json;
	bool images; /* gc */
	char *cache;
};

#define AT(member) offsetof(struct node_config_cli, member)
#define JSON_OPTION \
	{ \
		.key = "json", .type = OPTION_BOOL, .offset = AT(json), \
		.def = "no", .help = "Print bootseerd's answer as it is." \
	}

static const struct option_spec status_options[] = {
	JSON_OPTION,
	NODE_OPTIONS(struct node_config_cli),
	{ .key = NULL },
};

static const struct option_spec gc_options[] = {
	{ .key = "images",
	  .type = OPTION_BOOL,
	  .offset = AT(images),
	  .help = "Forget images that nobody mounts." },
	{ .key = "cache",
	  .type = OPTION_STRING,
	  .offset = AT(cache),
	  .arg = "SIZE",
	  .help = "Drop blocks that are not pinned until the cache is this "
		  "small." },
	JSON_OPTION,
	NODE_OPTIONS(struct node_config_cli),
	{ .key = NULL },
};

/* ------------------------------------------------------------------ status --- */

static void print_device(const json_t *d)
{
	char fetched[PROGRESS_BYTES_MAX], requests[PROGRESS_COUNT_MAX];

	printf("  blocks    %lld of %lld on the node\n",
	       reply_number(d, "blocks_held"), reply_number(d, "blocks"));
	printf("  reads     %lld, %lld waited for the registry, %lld failed\n",
	       reply_number(d, "reads"), reply_number(d, "misses"),
	       reply_number(d, "errors"));
	printf("  fetched   %s in %s\n",
	       reply_bytes(d, "fetched_bytes", fetched),
	       reply_count(d, "fetches", "request", requests));
}

/* Did the prefetch end with the blocks that starts read, not with the whole image? */
static bool is_part_done(const json_t *p)
{
	return strcmp(reply_text(p, "phase"), "done") == 0 &&
	       reply_number(p, "all_have_bytes") < reply_number(p, "all_bytes");
}

static void print_prefetch(const json_t *p)
{
	char have[PROGRESS_BYTES_MAX], all[PROGRESS_BYTES_MAX];
	bool hot = strcmp(reply_text(p, "phase"), "hot") == 0;

	if (!p || strcmp(reply_text(p, "phase"), "idle") == 0)
		return;
	printf("  prefetch  %s, %s of %s%s\n", reply_text(p, "phase"),
	       reply_bytes(p, hot ? "hot_have_bytes" : "all_have_bytes", have),
	       reply_bytes(p, hot ? "hot_bytes" : "all_bytes", all),
	       is_part_done(p) ? " of the image: what starts read; the rest "
				 "comes when it is read"
	       : hot           ? " of what starts read"
			       : " of the image");
	if (json_object_get(p, "error"))
		printf("            %s\n", reply_text(p, "error"));
}

#define RECENT_S 3600 /* failures in this time are printed first */

/* Print the image's last failure, if its being recent is equal to `recent`. */
static void print_failed(const json_t *i, bool recent, const char *name)
{
	const json_t *e = json_object_get(i, "last_error");
	int64_t age_s = time(NULL) - reply_number(e, "at");
	char age[DURATION_TEXT_MAX];

	if (!e || (age_s < RECENT_S) != recent)
		return;
	duration_format(clock_scale(age_s > 0 ? age_s : 0, NS_PER_S, 0), age);
	printf("%s%s%s%s ago: %s\n", recent ? "failed    " : "  failed    ",
	       name, *name ? ", " : "", age, reply_text(e, "message"));
}

/* Print the starts under way that are of this image. */
static void print_starts(const json_t *starts, const char *id)
{
	const json_t *start;
	size_t k;

	json_array_foreach(starts, k, start)
	{
		long long ms = reply_number(start, "since_ms");

		if (strcmp(reply_text(start, "id"), id) == 0)
			printf("  starting  %lld: %s, %s, for %lld.%lld s%s\n",
			       reply_number(start, "start"),
			       reply_text(start, "user"),
			       reply_text(start, "workload"), ms / 1000,
			       ms % 1000 / 100,
			       reply_flag(start, "recording") ? ", recorded"
							      : "");
	}
}

static void print_image(const json_t *i, const json_t *starts)
{
	const json_t *d = json_object_get(i, "device");
	char size[PROGRESS_BYTES_MAX], packs[PROGRESS_COUNT_MAX];
	const json_t *user;
	size_t k;

	printf("\n%s\n  id        %s\n", reply_text(i, "name"),
	       reply_text(i, "id"));
	printf("  size      %s in %s\n", reply_bytes(i, "image_bytes", size),
	       reply_count(i, "packs", "pack", packs));
	printf("  mounted   %s", reply_text(i, "mode"));
	if (strcmp(reply_text(i, "mode"), "none") != 0)
		printf(" at %s", reply_text(i, "path"));
	putchar('\n');
	json_array_foreach(json_object_get(i, "users"), k, user)
		printf("  user      %s\n", json_string_value(user));
	if (d)
		print_device(d);
	print_prefetch(json_object_get(i, "prefetch"));
	print_starts(starts, reply_text(i, "id"));
	print_failed(i, false, "");
}

static void print_peers(const json_t *p)
{
	long long trackers = reply_number(p, "trackers"),
		  bad = reply_number(p, "trackers_bad"),
		  failed = reply_number(p, "links_failed");
	char nodes[PROGRESS_COUNT_MAX];

	if (!json_is_object(p)) {
		puts("peers     off: --p2p-listen of bootseerd turns them on");
		return;
	}
	printf("peers     %s", reply_count(p, "peers", "node", nodes));
	if (bad)
		printf(", %lld of %lld trackers not to be used", bad, trackers);
	if (failed)
		printf(", %lld links did not come about", failed);
	puts(bad || failed ? ": bootseer p2p status has why" : "");
}

/* Print the space that cannot be freed now, and why. */
static void print_kept(const json_t *cache)
{
	char text[PROGRESS_COUNT_MAX], unknown[PROGRESS_BYTES_MAX];

	if (reply_number(cache, "mounts_lingering"))
		printf("          %s unmounted and still in use\n",
		       reply_count(cache, "mounts_lingering", "mount", text));
	if (reply_number(cache, "frozen_files"))
		printf("          %s frozen, %s in them unknown: bootseer node "
		       "doctor has why\n",
		       reply_count(cache, "frozen_files", "file", text),
		       reply_bytes(cache, "frozen_bytes", unknown));
}

static void print_registries(const json_t *list)
{
	const json_t *one;
	size_t k;

	json_array_foreach(list, k, one)
		printf("%s %s, %s for %s%lld s: %s\n",
		       k ? "         " : "registry ",
		       reply_text(one, "registry"), reply_text(one, "state"),
		       strcmp(reply_text(one, "state"), "not asked")
			       ? ""
			       : "the next ",
		       reply_number(one, "seconds"), reply_text(one, "reason"));
}

/* Print trouble first, as an operator in a hurry reads the first lines. */
static void print_troubles(const json_t *s)
{
	const json_t *c = json_object_get(s, "cache");
	long long n = reply_number(c, "put_failed");
	long long ago = reply_number(c, "put_failed_seconds");
	const json_t *image;
	size_t k;

	print_registries(json_object_get(s, "registries"));
	/* Old failures are left out: the disk has probably got room since. */
	if (n && ago < TROUBLE_S)
		printf("disk      %lld blocks were fetched and could not be "
		       "kept, the last %lld s ago: it is full or fails "
		       "('bootseer node doctor')\n",
		       n, ago);
	json_array_foreach(json_object_get(s, "images"), k, image)
		print_failed(image, true, reply_text(image, "name"));
}

static void print_status(const json_t *s)
{
	const json_t *c = json_object_get(s, "cache"), *image;
	char held[PROGRESS_BYTES_MAX], quota[PROGRESS_BYTES_MAX],
		pinned[PROGRESS_BYTES_MAX], rss[PROGRESS_BYTES_MAX];
	char blocks[PROGRESS_COUNT_MAX], hits[PROGRESS_COUNT_MAX],
		misses[PROGRESS_COUNT_MAX];
	size_t k;

	print_troubles(s);
	printf("bootseerd %s, pid %lld, data path %s, %s\n",
	       reply_text(s, "version"), reply_number(s, "pid"),
	       reply_text(s, "datapath"),
	       json_is_true(json_object_get(s, "survives_crash"))
		       ? "mounts survive its crash"
		       : "mounts do not survive its crash");
	printf("memory    %s\n", reply_bytes(s, "resident_bytes", rss));
	printf("cache     %s of %s, %s pinned, %s\n",
	       reply_bytes(c, "bytes", held), reply_bytes(c, "quota", quota),
	       reply_bytes(c, "pinned_bytes", pinned),
	       reply_count(c, "blocks", "block", blocks));
	printf("          %s, %s, %lld damaged, %lld evicted, %lld not kept\n",
	       reply_count(c, "hits", "hit", hits),
	       reply_count(c, "misses", "miss", misses),
	       reply_number(c, "damaged"), reply_number(c, "evicted"),
	       reply_number(c, "put_failed"));
	print_kept(c);
	print_peers(json_object_get(s, "p2p"));
	json_array_foreach(json_object_get(s, "images"), k, image)
		print_image(image, json_object_get(s, "starts"));
}

static int run_status(const void *config, char **args, struct error *err)
{
	const struct node_config_cli *cfg = config;

	(void)args;
	return node_show(&cfg->node, "node.status",
			 cfg->json ? reply_print : print_status, err);
}

/* ---------------------------------------------------------------------- gc --- */

static int check_gc(const void *config, char **args, struct error *err)
{
	const struct node_config_cli *cfg = config;
	uint64_t size;
	int rc;

	(void)args;
	if (!cfg->images && !cfg->cache)
		return error_set(err, EINVAL,
				 "say what to give back: --images, --cache "
				 "SIZE, or both");
	rc = cfg->cache ? option_parse_size(cfg->cache, &size, err) : 0;
	return rc < 0 ? error_wrap(err, rc, "--cache") : 0;
}

static json_t *gc_params(const struct node_config_cli *cfg)
{
	json_t *params = json_pack("{s:b}", "images", (int)cfg->images);
	uint64_t size;

	if (cfg->cache && option_parse_size(cfg->cache, &size, NULL) == 0)
		(void)json_object_set_new(params, "cache_bytes",
					  json_integer((json_int_t)size));
	return params;
}

static int run_gc(const void *config, char **args, struct error *err)
{
	const struct node_config_cli *cfg = config;
	char freed[PROGRESS_BYTES_MAX], images[PROGRESS_COUNT_MAX];
	AUTO_JSON *reply = NULL;
	int rc;

	(void)args;
	rc = node_ask(&cfg->node, "node.gc", gc_params(cfg), &reply, err);
	if (rc == 0 && cfg->json)
		reply_print(reply);
	else if (rc == 0)
		printf("%s forgotten, %s of blocks dropped\n",
		       reply_count(reply, "images", "image", images),
		       reply_bytes(reply, "freed_bytes", freed));
	return rc;
}

const struct command node_status_command = {
	.brief = "Show images, mounts, starts and cache of this node",
	.program = {
		.name = "bootseer node status",
		.usage = "[OPTIONS]",
		.summary = "Show images, mounts, cache and what went wrong "
			   "last.",
		.options = status_options,
		.see_also = "bootseerd(8)",
	},
	.config_size = sizeof(struct node_config_cli),
	.run = run_status,
};

const struct command node_gc_command = {
	.brief = "Give disk space of this node back",
	.program = {
		.name = "bootseer node gc",
		.usage = "[OPTIONS]",
		.summary = "Give disk space back.",
		.options = gc_options,
		.examples = "  bootseer node gc --images --cache 10G",
		.see_also = "bootseerd(8)",
	},
	.config_size = sizeof(struct node_config_cli),
	.check = check_gc,
	.run = run_gc,
};
