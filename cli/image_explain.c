// SPDX-License-Identifier: Apache-2.0
/* `bootseer image explain`: how the last starts of an image went, and why. */
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/explain.h"
#include "cli/node_ask.h"
#include "common/json.h"

struct explain_config {
	struct node_options node;
	bool json;
};

static const struct option_spec options[] = {
	{ .key = "json",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct explain_config, json),
	  .def = "no",
	  .help = "Print bootseerd's figures as they are." },
	NODE_OPTIONS(struct explain_config),
	{ .key = NULL },
};

static void print_all(const json_t *image, const json_t *starts)
{
	const json_t *start;
	size_t k;

	printf("%s\n%s\n", reply_text(image, "name"), explain_verdict(starts));
	json_array_foreach(starts, k, start)
	{
		putchar('\n');
		explain_print(start, stdout);
	}
}

/* Registries in trouble, which a start that hangs may wait for. */
static void print_troubles(const json_t *registries)
{
	const json_t *one;
	size_t k;

	json_array_foreach(registries, k, one)
	{
		const char *state = reply_text(one, "state");

		printf("now: registry %s, %s for %s%lld s: %s\n  cure: %s\n",
		       reply_text(one, "registry"), state,
		       strcmp(state, "not asked") ? "" : "the next ",
		       reply_number(one, "seconds"), reply_text(one, "reason"),
		       reply_text(one, "cure"));
	}
}

/* The node knows its images by itself: no registry is asked, as it may be what
 * is down. */
static int explain(struct node_client *c, const char *ref, bool json,
		   struct error *err)
{
	AUTO_JSON *status = NULL;
	AUTO_JSON *reply = NULL;
	const json_t *image = NULL;
	const json_t *ordinary = NULL;
	int rc = node_ask_on(c, "node.status", json_object(), &status, err);

	if (rc == 0)
		image = explain_find(status, ref);
	if (rc == 0)
		ordinary = explain_ordinary(status, ref);
	if (rc == 0 && !json)
		print_troubles(json_object_get(status, "registries"));
	if (rc == 0 && ordinary && !json)
		printf("%s starts the ordinary way: %s\n  cure: %s\n", ref,
		       reply_text(ordinary, "reason"),
		       reply_text(ordinary, "cure"));
	if (rc == 0 && !image && !ordinary)
		rc = error_set(
			err, ENOENT,
			"the node has no lazy image '%s': none was asked "
			"for here, it has no artifact ('bootseer image "
			"check' tells), or its registry hides it from "
			"nodes without a login; 'bootseer node status' "
			"lists what the node has",
			ref);
	if (rc == 0 && image)
		rc = node_ask_on(c, "image.explain",
				 json_pack("{s:s}", "id",
					   reply_text(image, "id")),
				 &reply, err);
	if (rc == 0 && json && image)
		reply_print(reply);
	else if (rc == 0 && image)
		print_all(image, json_object_get(reply, "starts"));
	return rc;
}

static int run(const void *config, char **args, struct error *err)
{
	const struct explain_config *cfg = config;
	struct node_client *c = NULL;
	int rc = node_connect(&cfg->node, &c, err);

	if (rc == 0)
		rc = explain(c, args[0], cfg->json, err);
	node_client_close(c);
	return rc;
}

const struct command image_explain_command = {
	.brief = "Tell how the last starts of an image on this node went",
	.program = {
		.name = "bootseer image explain",
		.usage = "[OPTIONS] REF",
		.summary = "Tell how the last starts of an image on this node "
			   "went: what they waited for, what was prefetched "
			   "and what was missed, and what to do about it. REF "
			   "is a name of the image, or 12 digits or more of "
			   "its digest.",
		.options = options,
		.examples = "  bootseer image explain registry.example/ml:1",
		.see_also = "bootseerd(8)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct explain_config),
	.run = run,
};
