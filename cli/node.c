// SPDX-License-Identifier: Apache-2.0
/* `bootseer node status | doctor | gc`. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/node_socket.h"
#include "common/progress.h"

struct node_config_cli {
	struct node_options node;
	bool json;
	char *registry, *containerd; /* doctor */
	bool images;                 /* gc */
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

static const struct option_spec doctor_options[] = {
	{ .key = "registry",
	  .type = OPTION_STRING,
	  .offset = AT(registry),
	  .arg = "HOST[:PORT]",
	  .help = "Also ask whether this registry "
		  "answers." },
	{ .key = "containerd",
	  .type = OPTION_STRING,
	  .offset = AT(containerd),
	  .arg = "FILE",
	  .help = "containerd's configuration, if not in the usual place." },
	JSON_OPTION,
	NODE_OPTIONS(struct node_config_cli),
	{ .key = NULL },
};

static const struct option_spec gc_options[] = {
	{ .key = "images",
	  .type = OPTION_BOOL,
	  .offset = AT(images),
	  .def = "no",
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

/* Call with `params` (taken, NULL when memory is short); the answer parsed. */
static int ask(const struct node_options *o, const char *method, json_t *params,
	       json_t **ret, struct error *err)
{
	AUTO_FREE char *text = params ? json_dumps(params, 0) : NULL;
	AUTO_FREE char *reply = NULL;
	struct node_client *c = NULL;
	int rc;

	json_decref(params);
	if (!text)
		return error_nomem(err);
	rc = node_connect(o, &c, err);
	if (rc == 0)
		rc = node_call(c, method, text, &reply, err);
	node_client_close(c);
	if (rc < 0)
		return rc;
	*ret = json_loads(reply, 0, NULL);
	return *ret ? 0 : error_nomem(err);
}

static void print_json(const json_t *j)
{
	AUTO_FREE char *text = json_dumps(j, JSON_INDENT(2));

	puts(text ? text : "{}");
}

static const char *text_at(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "-";
}

static long long number_at(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

static const char *bytes_at(const json_t *j, const char *key,
			    char out[PROGRESS_BYTES_MAX])
{
	progress_format_bytes((uint64_t)number_at(j, key), out);
	return out;
}

/* ------------------------------------------------------------------ status --- */

static void print_device(const json_t *d)
{
	char fetched[PROGRESS_BYTES_MAX];

	printf("  blocks    %lld of %lld on the node\n",
	       number_at(d, "blocks_held"), number_at(d, "blocks"));
	printf("  reads     %lld, %lld waited for the registry, %lld failed\n",
	       number_at(d, "reads"), number_at(d, "misses"),
	       number_at(d, "errors"));
	printf("  fetched   %s in %lld requests\n",
	       bytes_at(d, "fetched_bytes", fetched), number_at(d, "fetches"));
}

static void print_image(const json_t *i)
{
	const json_t *e = json_object_get(i, "last_error");
	const json_t *d = json_object_get(i, "device");
	char size[PROGRESS_BYTES_MAX];
	const json_t *user;
	size_t k;

	printf("\n%s\n  id        %s\n", text_at(i, "name"), text_at(i, "id"));
	printf("  size      %s in %lld packs\n",
	       bytes_at(i, "image_bytes", size), number_at(i, "packs"));
	printf("  mounted   %s", text_at(i, "mode"));
	if (strcmp(text_at(i, "mode"), "none") != 0)
		printf(" at %s", text_at(i, "path"));
	putchar('\n');
	json_array_foreach(json_object_get(i, "users"), k, user)
		printf("  user      %s\n", json_string_value(user));
	if (d)
		print_device(d);
	if (e)
		printf("  failed    %s\n", text_at(e, "message"));
}

static void print_status(const json_t *s)
{
	const json_t *c = json_object_get(s, "cache"), *image;
	char held[PROGRESS_BYTES_MAX], quota[PROGRESS_BYTES_MAX],
		pinned[PROGRESS_BYTES_MAX], rss[PROGRESS_BYTES_MAX];
	size_t k;

	printf("bootseerd %s, pid %lld, data path %s, %s\n",
	       text_at(s, "version"), number_at(s, "pid"),
	       text_at(s, "datapath"),
	       json_is_true(json_object_get(s, "survives_crash"))
		       ? "mounts survive its crash"
		       : "mounts do not survive its crash");
	printf("memory    %s\n", bytes_at(s, "resident_bytes", rss));
	printf("cache     %s of %s, %s pinned, %lld blocks\n",
	       bytes_at(c, "bytes", held), bytes_at(c, "quota", quota),
	       bytes_at(c, "pinned_bytes", pinned), number_at(c, "blocks"));
	printf("          %lld hits, %lld misses, %lld damaged, %lld evicted, "
	       "%lld not kept\n",
	       number_at(c, "hits"), number_at(c, "misses"),
	       number_at(c, "damaged"), number_at(c, "evicted"),
	       number_at(c, "put_failed"));
	json_array_foreach(json_object_get(s, "images"), k, image)
		print_image(image);
}

static int run_status(const void *config, char **args, struct error *err)
{
	const struct node_config_cli *cfg = config;
	json_t *reply = NULL;
	int rc;

	(void)args;
	rc = ask(&cfg->node, "node.status", json_object(), &reply, err);
	if (rc == 0 && cfg->json)
		print_json(reply);
	else if (rc == 0)
		print_status(reply);
	json_decref(reply);
	return rc;
}

/* ------------------------------------------------------------------ doctor --- */

/* Returns whether all that is needed is there. */
static bool print_checks(const json_t *reply)
{
	const json_t *check;
	bool well = true, ok;
	size_t k;

	json_array_foreach(json_object_get(reply, "checks"), k, check)
	{
		ok = json_is_true(json_object_get(check, "ok"));
		printf("%-8s %-26s %s\n", ok ? "ok" : "missing",
		       text_at(check, "name"), text_at(check, "detail"));
		if (!ok)
			printf("%-8s %-26s %s\n", "",
			       "  cure:", text_at(check, "cure"));
		well = well &&
		       (ok || !json_is_true(json_object_get(check, "needed")));
	}
	return well;
}

static int run_doctor(const void *config, char **args, struct error *err)
{
	const struct node_config_cli *cfg = config;
	json_t *reply = NULL, *params = json_object();
	int rc;

	(void)args;
	if (params && cfg->registry)
		(void)json_object_set_new(params, "registry",
					  json_string(cfg->registry));
	if (params && cfg->containerd)
		(void)json_object_set_new(params, "containerd",
					  json_string(cfg->containerd));
	rc = ask(&cfg->node, "node.doctor", params, &reply, err);
	if (rc == 0 && cfg->json)
		print_json(reply);
	else if (rc == 0 && !print_checks(reply))
		rc = error_set(err, ENOENT,
			       "the node cannot do its work, see what is "
			       "missing");
	json_decref(reply);
	return rc;
}

/* ---------------------------------------------------------------------- gc --- */

static json_t *gc_params(const struct node_config_cli *cfg, struct error *err)
{
	json_t *params = json_pack("{s:b}", "images", (int)cfg->images);
	uint64_t size;

	if (!params) {
		error_nomem(err);
		return NULL;
	}
	if (cfg->cache) {
		if (option_parse_size(cfg->cache, &size, err) < 0) {
			error_wrap(err, -EINVAL, "--cache");
			json_decref(params);
			return NULL;
		}
		(void)json_object_set_new(params, "cache_bytes",
					  json_integer((json_int_t)size));
	}
	return params;
}

static int run_gc(const void *config, char **args, struct error *err)
{
	const struct node_config_cli *cfg = config;
	char freed[PROGRESS_BYTES_MAX];
	json_t *reply = NULL, *params;
	int rc;

	(void)args;
	params = gc_params(cfg, err);
	rc = params ? ask(&cfg->node, "node.gc", params, &reply, err) : -EINVAL;
	if (rc == 0 && cfg->json)
		print_json(reply);
	else if (rc == 0)
		printf("%lld images forgotten, %s of blocks dropped\n",
		       number_at(reply, "images"),
		       bytes_at(reply, "freed_bytes", freed));
	json_decref(reply);
	return rc;
}

const struct command node_status_command = {
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

const struct command node_doctor_command = {
	.program = {
		.name = "bootseer node doctor",
		.usage = "[OPTIONS]",
		.summary = "Tell what the node lacks and how to get it.",
		.options = doctor_options,
		.see_also = "bootseerd(8)",
	},
	.config_size = sizeof(struct node_config_cli),
	.run = run_doctor,
};

const struct command node_gc_command = {
	.program = {
		.name = "bootseer node gc",
		.usage = "[OPTIONS]",
		.summary = "Give disk space back.",
		.options = gc_options,
		.examples = "  bootseer node gc --images --cache 10G",
		.see_also = "bootseerd(8)",
	},
	.config_size = sizeof(struct node_config_cli),
	.run = run_gc,
};
