// SPDX-License-Identifier: Apache-2.0
/* `bootseer image prefetch`: bootseerd fetches; this command shows the progress. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/image.h"
#include "cli/node_ask.h"
#include "cli/plain_output.h"
#include "cli/preheat.h"
#include "common/clock.h"
#include "common/json.h"

/* between two requests for the progress */
#define STEP_MS 500
#define PAUSED_MAX_NS (30 * NS_PER_S) /* waiting ends after such a pause */

struct image_prefetch_config {
	struct node_options node;
	struct preheat_options preheat;
	char **nodes;
	bool plain_http, hot, all, stop, wait;
};

#define FLAG(name, text) \
	{ \
		.key = #name, .type = OPTION_BOOL, \
		.offset = offsetof(struct image_prefetch_config, name), \
		.def = "no", .help = text \
	}

static const struct option_spec options[] = {
	FLAG(hot, "Only what a recorded start has read."),
	FLAG(all, "The whole image; this is the default."),
	FLAG(stop, "Stop what is under way."),
	FLAG(wait, "Wait until it is there, and show the progress; with "
		   "--nodes for --timeout at most."),
	IMAGE_PLAIN_HTTP_OPTION(
		offsetof(struct image_prefetch_config, plain_http)),
	{ .key = "nodes",
	  .type = OPTION_LIST,
	  .offset = offsetof(struct image_prefetch_config, nodes),
	  .arg = "NAME[,NAME...]",
	  .help = "Order it of these nodes, or of all, at --service instead of "
		  "doing it here." },
	{ .key = "service",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct image_prefetch_config, preheat.service),
	  .arg = "URL",
	  .help = "The bootseer-registry that the nodes ask for orders." },
	{ .key = "token-file",
	  .type = OPTION_FILE,
	  .offset = offsetof(struct image_prefetch_config, preheat.token_file),
	  .help = "The bearer token for --service; it needs the role "
		  "admin, and read for --wait." },
	{ .key = "ca-file",
	  .type = OPTION_FILE,
	  .offset = offsetof(struct image_prefetch_config, preheat.ca_file),
	  .help = "Certificates (PEM) that --service is trusted by instead of "
		  "the system's." },
	NODE_OPTIONS(struct image_prefetch_config),
	{ .key = NULL },
};

/* Request a prefetch; with `what` NULL only its state.  `*ret` is replaced. */
static int request_prefetch(struct node_client *c, const char *id,
			    const char *what, int wait_ms, json_t **ret,
			    struct error *err)
{
	json_t *reply = NULL;
	int rc = node_ask_on(c, "image.prefetch",
			     json_pack("{s:s, s:s*, s:i}", "id", id, "what",
				       what, "wait_ms", wait_ms),
			     &reply, err);

	if (rc < 0)
		return rc;
	json_decref(*ret);
	*ret = reply;
	return 0;
}

static bool is_phase(const json_t *a, const char *phase)
{
	return strcmp(reply_text(a, "phase"), phase) == 0;
}

/* Is the hot set fetched now, or next after a retry? */
static bool is_hot_set_next(const json_t *a)
{
	return is_phase(a, "hot") || (is_phase(a, "retrying") &&
				      reply_number(a, "hot_have_bytes") <
					      reply_number(a, "hot_bytes"));
}

/* The key with the number of bytes fetched in this phase. */
static const char *fetched_bytes_key(const json_t *a)
{
	return is_hot_set_next(a) ? "hot_have_bytes" : "all_have_bytes";
}

static const char *wanted_bytes_key(const json_t *a)
{
	return is_hot_set_next(a) ? "hot_bytes" : "all_bytes";
}

/* Has the prefetch ended?  0: well; 1: not yet; or an error. */
static int judge_phase(const json_t *a, int64_t paused_ns, struct error *err)
{
	if (is_phase(a, "done") || is_phase(a, "idle"))
		return 0;
	if (is_phase(a, "stopped"))
		return error_set(err, ECANCELED, "somebody stopped it");
	if (is_phase(a, "failed"))
		return error_set(err, EIO, "%s", reply_text(a, "error"));
	if (is_phase(a, "paused") && paused_ns > PAUSED_MAX_NS)
		return error_set(err, EAGAIN,
				 "paused, and goes on by itself: %s",
				 reply_text(a, "error"));
	return 1;
}

/* Print why the prefetch is retried; once for each reason. */
static void print_retry_reason(struct progress *bar, const json_t *a,
			       struct buf *said)
{
	AUTO_BUF line = BUF_INIT;

	if (!is_phase(a, "retrying") ||
	    buf_printf(&line, "retrying: %s", reply_text(a, "error")) < 0 ||
	    (said->data && strcmp(said->data, line.data) == 0))
		return;
	progress_say(bar, line.data);
	buf_reset(said);
	if (buf_puts(said, line.data) < 0)
		buf_reset(said); /* the reason will be printed a second time */
}

static int wait_for_end(struct node_client *c, const char *id, json_t **a,
			struct error *err)
{
	AUTO(progress) bar = progress_new(plain_output_bar());
	AUTO_BUF said = BUF_INIT;
	int64_t now = clock_now_ns(), running = now;
	int rc;

	while ((rc = judge_phase(*a, now - running, err)) > 0) {
		print_retry_reason(bar, *a, &said);
		progress_step(bar, reply_text(*a, "phase"),
			      (uint64_t)reply_number(*a, fetched_bytes_key(*a)),
			      (uint64_t)reply_number(*a, wanted_bytes_key(*a)),
			      now);
		rc = request_prefetch(c, id, NULL, STEP_MS, a, err);
		if (rc < 0)
			return rc;
		now = clock_now_ns();
		if (!is_phase(*a, "paused"))
			running = now;
	}
	return rc;
}

/* Print how much is there after a prefetch of a part of the image. */
static void print_part(const json_t *a)
{
	char hot[PROGRESS_BYTES_MAX], have[PROGRESS_BYTES_MAX];
	char all[PROGRESS_BYTES_MAX];

	if (reply_number(a, "hot_bytes") == 0)
		printf("done: no start of it was recorded, so there is nothing "
		       "to have before one");
	else
		printf("done: %s, what recorded starts read, are on the node",
		       reply_bytes(a, "hot_bytes", hot));
	printf("; of the whole image %s of %s: --all fetches the rest, else "
	       "it comes when it is read\n",
	       reply_bytes(a, "all_have_bytes", have),
	       reply_bytes(a, "all_bytes", all));
}

static void print_answer(const json_t *a)
{
	char have[PROGRESS_BYTES_MAX], all[PROGRESS_BYTES_MAX];
	bool has_error = json_object_get(a, "error") != NULL;

	if (is_phase(a, "done") && !has_error &&
	    reply_number(a, "all_have_bytes") < reply_number(a, "all_bytes")) {
		print_part(a);
		return;
	}
	printf("%s: %s of %s are on the node%s%s\n", reply_text(a, "phase"),
	       reply_bytes(a, fetched_bytes_key(a), have),
	       reply_bytes(a, wanted_bytes_key(a), all), has_error ? ": " : "",
	       has_error ? reply_text(a, "error") : "");
}

static int prefetch_image(const struct image_prefetch_config *cfg,
			  struct node_client *c, const char *ref, json_t **a,
			  struct error *err)
{
	const struct node_image_query q = { .ref = ref,
					    .plain_http = cfg->plain_http };
	const char *what = cfg->stop ? "stop" : cfg->hot ? "hot" : "all";
	struct node_image image = { .chain_ids = NULL };
	char id[DIGEST_STR_MAX];
	int rc = node_image_prepare(c, &q, &image, err);

	if (rc < 0)
		return rc;
	digest_format(&image.id, id);
	node_image_fini(&image);
	rc = request_prefetch(c, id, what, 0, a, err);
	if (rc == 0 && cfg->wait && !cfg->stop)
		rc = wait_for_end(c, id, a, err);
	return error_wrap(err, rc, "image %s", ref);
}

static int check_image_prefetch(const void *config, char **args,
				struct error *err)
{
	const struct image_prefetch_config *cfg = config;

	if (cfg->hot + cfg->all + cfg->stop > 1)
		return error_set(err, EINVAL,
				 "only one of --hot, --all and --stop");
	if (!cfg->nodes != !cfg->preheat.service)
		return error_set(err, EINVAL,
				 "--nodes and --service want each other");
	if (cfg->nodes && cfg->stop)
		return error_set(err, EINVAL,
				 "--stop is for this node: a node that was "
				 "ordered to is stopped there");
	if (cfg->nodes && cfg->wait && preheat_is_all(cfg->nodes))
		return error_set(err, EINVAL,
				 "--wait wants names: which nodes are all is "
				 "not known beforehand");
	return image_ref_check(args[0], err);
}

static int order_preheat(const struct image_prefetch_config *cfg,
			 const char *ref, struct error *err)
{
	struct preheat_options o = cfg->preheat;

	o.ref = ref;
	o.nodes = cfg->nodes;
	o.what = cfg->hot ? "hot" : "all";
	o.wait_ns = cfg->wait ? cfg->node.timeout : 0;
	return preheat_order(&o, err);
}

static int run_image_prefetch(const void *config, char **args,
			      struct error *err)
{
	const struct image_prefetch_config *cfg = config;
	struct node_client *c = NULL;
	AUTO_JSON *answer = NULL;
	int rc;

	if (cfg->nodes)
		return order_preheat(cfg, args[0], err);
	rc = node_connect(&cfg->node, &c, err);
	if (rc == 0)
		rc = prefetch_image(cfg, c, args[0], &answer, err);
	node_client_close(c);
	if (rc == 0)
		print_answer(answer);
	return rc;
}

const struct command image_prefetch_command = {
	.brief = "Have the blocks of an image on this node before it starts",
	.program = {
		.name = "bootseer image prefetch",
		.usage = "[OPTIONS] REF",
		.summary = "Have the blocks of the image REF on this node before "
			   "they are read: what a recorded start has read, in "
			   "its order, then the rest. bootseerd does it in the "
			   "background, over restarts; --wait waits for it. "
			   "With --nodes other nodes do it.",
		.options = options,
		.examples =
			"bootseer image prefetch registry.example/team/ml:1\n"
			"bootseer image prefetch --hot --wait "
			"registry.example/team/ml:1\n"
			"bootseer image prefetch --nodes gpu1,gpu2 --service "
			"https://traces.example:9730 "
			"registry.example/team/ml:1",
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 1,
	},
	.config_size = sizeof(struct image_prefetch_config),
	.check = check_image_prefetch,
	.run = run_image_prefetch,
};
