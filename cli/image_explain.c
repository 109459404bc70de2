// SPDX-License-Identifier: Apache-2.0
/* `bootseer image explain`: how the last starts of an image went, and why. */
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/explain.h"
#include "cli/node_ask.h"
#include "cli/pod.h"
#include "common/json.h"

struct explain_config {
	struct node_options node;
	struct pod_options pod;
	bool json;
};

static const struct option_spec options[] = {
	{ .key = "json",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct explain_config, json),
	  .help = "Print bootseerd's figures as they are." },
	POD_OPTIONS(struct explain_config,
		    "Explain the images of this pod's containers. The pod is "
		    "on this node; containerd is asked, by ctr."),
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

/* Print registries that do not answer, as a start that hangs may wait for one of them. */
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

/* Entries of node.status (borrowed): `image` if the image starts lazily here, else `ordinary`,
 * with the reason. */
struct explain_found {
	const json_t *image, *ordinary;
};

static bool find_image_status(const json_t *status, const char *ref,
			      struct explain_found *ret)
{
	ret->image = explain_find(status, ref);
	ret->ordinary = explain_ordinary(status, ref);
	return ret->image || ret->ordinary;
}

/* Look for the image under its name, then under the other names that containerd has for it, as
 * bootseerd may know a pod's image by one of those. */
static int find_image_by_any_name(const json_t *status,
				  const struct pod_options *pod,
				  const char *ref, struct explain_found *ret,
				  struct error *err)
{
	AUTO_BUF name = BUF_INIT;

	if (find_image_status(status, ref, ret))
		return 0;
	if (pod_image_name(pod, ref, &name, NULL) == 0 &&
	    find_image_status(status, name.data, ret))
		return 0;
	return error_set(err, ENOENT,
			 "the node has no lazy image '%s': none was asked "
			 "for here, it has no artifact ('bootseer image "
			 "check' tells), or its registry hides it from "
			 "nodes without a login; 'bootseer node status' "
			 "lists what the node has",
			 ref);
}

static int explain_image(struct node_client *c,
			 const struct explain_config *cfg, const json_t *status,
			 const char *ref, struct error *err)
{
	struct explain_found found = { .image = NULL };
	AUTO_JSON *reply = NULL;
	int rc = find_image_by_any_name(status, &cfg->pod, ref, &found, err);

	if (rc == 0 && found.ordinary && !cfg->json)
		printf("%s starts the ordinary way: %s\n  cure: %s\n", ref,
		       reply_text(found.ordinary, "reason"),
		       reply_text(found.ordinary, "cure"));
	if (rc < 0 || !found.image)
		return rc;
	rc = node_ask_on(c, "image.explain",
			 json_pack("{s:s}", "id",
				   reply_text(found.image, "id")),
			 &reply, err);
	if (rc == 0 && cfg->json)
		reply_print(reply);
	else if (rc == 0)
		print_all(found.image, json_object_get(reply, "starts"));
	return rc;
}

/* Is this a restart: did an earlier container of the list have the same name and image? */
static bool is_container_restarted(const json_t *containers, size_t at)
{
	const json_t *one = json_array_get(containers, at), *before;
	size_t k;

	json_array_foreach(containers, k, before)
	{
		if (k < at &&
		    strcmp(pod_container_name(before),
			   pod_container_name(one)) == 0 &&
		    strcmp(reply_text(before, "Image"),
			   reply_text(one, "Image")) == 0)
			return true;
	}
	return false;
}

/* Explain each container of a pod.  Images that do not start lazily are only mentioned, as pods
 * have some that were never converted. */
static int explain_pod(struct node_client *c, const struct explain_config *cfg,
		       const json_t *status, struct error *err)
{
	AUTO_JSON *containers = NULL;
	const json_t *one;
	size_t k;
	int rc = pod_containers(&cfg->pod, &containers, err);

	if (rc < 0)
		return rc;
	json_array_foreach(containers, k, one)
	{
		const char *image = reply_text(one, "Image");
		struct error why = ERROR_INIT;

		if (is_container_restarted(containers, k))
			continue;
		printf("%scontainer %s, %s\n", k ? "\n" : "",
		       pod_container_name(one), image);
		rc = explain_image(c, cfg, status, image, &why);
		if (rc == -ENOENT)
			printf("%s\n", why.msg);
		else if (rc < 0)
			return error_set(err, -rc, "%s", why.msg);
	}
	return 0;
}

/* Only bootseerd is asked, not the registry, as that may be the cause of the trouble. */
static int run_image_explain(const void *config, char **args, struct error *err)
{
	const struct explain_config *cfg = config;
	struct node_client *c = NULL;
	AUTO_JSON *status = NULL;
	int rc = node_connect(&cfg->node, &c, err);

	if (rc == 0)
		rc = node_ask_on(c, "node.status", json_object(), &status, err);
	if (rc == 0 && !cfg->json)
		print_troubles(json_object_get(status, "registries"));
	if (rc == 0)
		rc = cfg->pod.pod ? explain_pod(c, cfg, status, err)
				  : explain_image(c, cfg, status, args[0], err);
	node_client_close(c);
	return rc;
}

static int check_explain(const void *config, char **args, struct error *err)
{
	const struct explain_config *cfg = config;

	if (cfg->pod.pod && cfg->json)
		return error_set(err, EINVAL,
				 "--json is for an image, not for --pod");
	return pod_check(&cfg->pod, args, "REF", err);
}

const struct command image_explain_command = {
	.brief = "Tell how the last starts of an image on this node went",
	.program = {
		.name = "bootseer image explain",
		.usage = "[OPTIONS] REF|--pod NAMESPACE/NAME",
		.summary = "Tell how the last starts of an image on this node "
			   "went: what they waited for, what was prefetched "
			   "and what was missed, and what to do about it. REF "
			   "is a name of the image, or 12 digits or more of "
			   "its digest.",
		.options = options,
		.examples = "  bootseer image explain registry.example/ml:1\n"
			    "  bootseer image explain --pod team-a/train-0",
		.see_also = "bootseerd(8)",
		.max_args = 1,
	},
	.config_size = sizeof(struct explain_config),
	.check = check_explain,
	.run = run_image_explain,
};
