// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>

#include "cli/env.h"
#include "cli/env_give.h"
#include "cli/preheat.h"
#include "common/json.h"
#include "common/progress.h"
#include "snapshotter/client.h"

struct env_prefetch_config {
	struct store_access access;
	struct env_service_access service;
	char *socket;
	char **nodes;
	int64_t wait;
	bool by_name, quiet;
};

static const struct option_spec options[] = {
	{ .key = "name",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_prefetch_config, by_name),
	  .help = "It is no key, but what 'bootseer env run --name' was told: "
		  "the snapshot that it had last." },
	{ .key = "socket",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct env_prefetch_config, socket),
	  .arg = "PATH",
	  .help = "Where bootseerd listens; else $BOOTSEER_SOCKET, "
		  "else " NODE_SOCKET_DEFAULT "." },
	{ .key = "quiet",
	  .letter = 'q',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_prefetch_config, quiet),
	  .help = "Say nothing when all goes well." },
	{ .key = "nodes",
	  .type = OPTION_LIST,
	  .offset = offsetof(struct env_prefetch_config, nodes),
	  .arg = "NAME[,NAME...]",
	  .help = "Order it of these nodes, or of all, at --service, whose "
		  "token needs the role admin, instead of doing it here. The "
		  "key is looked up in the store." },
	{ .key = "wait",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct env_prefetch_config, wait),
	  .def = "0s",
	  .help = "With --nodes: wait so long at most until all have it, and "
		  "show the progress; the token needs the role read, too." },
	ENV_SERVICE_OPTIONS(struct env_prefetch_config),
	ENV_ACCESS_OPTIONS(struct env_prefetch_config),
	{ .key = NULL },
};

static int find_key(const struct env_prefetch_config *c,
		    const struct env_opened *o, const char *text,
		    struct digest *ret, struct error *err)
{
	return c->by_name ? env_named_get(o->store, text, ret, err)
			  : env_catalog_find(o->catalog, text, ret, err);
}

static int order_fetch(const struct env_prefetch_config *c, const char *url,
		       const struct env_snapshot *snap, struct error *err)
{
	const char *named = getenv("BOOTSEER_SOCKET");
	const struct env_mount_job job = {
		.socket = c->socket ? c->socket
			  : named   ? named
				    : NODE_SOCKET_DEFAULT,
		.store = url,
		.snap = snap,
	};
	char hex[ENV_KEY_HEX], bytes[PROGRESS_BYTES_MAX];
	int rc = env_give_order(&job, err);

	if (rc < 0 || c->quiet)
		return rc;
	env_key_hex(&snap->key.digest, hex);
	progress_format_bytes(snap->bytes, bytes);
	printf("%.12s: %s, on its way to this node\n", hex, bytes);
	return 0;
}

/* Send other nodes the request that this node's own bootseerd would get. */
static int order_of_nodes(const struct env_prefetch_config *c, const char *url,
			  const struct env_snapshot *snap, struct error *err)
{
	char key[DIGEST_STR_MAX], manifest[DIGEST_STR_MAX];
	AUTO_JSON *env = NULL;

	digest_format(&snap->key.digest, key);
	digest_format(&snap->manifest, manifest);
	env = json_pack("{s:s, s:s, s:s}", "folder", snap->folder, "key", key,
			"manifest", manifest);
	if (!env)
		return error_nomem(err);
	return preheat_order(
		&(struct preheat_options){ .service = c->service.service,
					   .token_file = c->service.token_file,
					   .ca_file = c->service.ca_file,
					   .ref = url,
					   .what = "env",
					   .env = env,
					   .nodes = c->nodes,
					   .wait_ns = c->wait },
		err);
}

static int check_nodes(const void *config, char **args, struct error *err)
{
	const struct env_prefetch_config *c = config;

	if (c->nodes && !c->service.service)
		return error_set(err, EINVAL, "--nodes wants --service");
	if (c->wait && (!c->nodes || preheat_is_all(c->nodes)))
		return error_set(err, EINVAL,
				 "--wait wants --nodes with names");
	return env_check_first(config, args, err);
}

static int run_env_prefetch(const void *config, char **args, struct error *err)
{
	const struct env_prefetch_config *c = config;
	AUTO_FINI(env_opened) o = { .store = NULL };
	struct env_snapshot snap;
	struct digest key;
	const struct env_service_access none = { .service = NULL };
	int rc = env_open(&c->access, c->nodes ? &none : &c->service, args[0],
			  "bootseer env prefetch", 0, &o, err);

	if (rc == 0)
		rc = find_key(c, &o, args[1], &key, err);
	if (rc == 0)
		rc = env_catalog_get(o.catalog, &key, &snap, err);
	if (rc == 0) {
		rc = c->nodes ? order_of_nodes(c, args[0], &snap, err)
			      : order_fetch(c, args[0], &snap, err);
		env_snapshot_fini(&snap);
	}
	return rc;
}

const struct command env_prefetch_command = {
	.brief = "Bring an environment to this node",
	.program = {
		.name = "bootseer env prefetch",
		.usage = "[OPTIONS] STORE KEY",
		.summary = "Have bootseerd, which was told of the store, fetch "
			   "a snapshot, and return at once. 'bootseer env "
			   "run' finds it on the node; what nobody has used "
			   "after five minutes is not fetched any more. With "
			   "--nodes other nodes do it, and have all of it when "
			   "they are done.",
		.examples = "bootseer env prefetch --nodes gpu1,gpu2 --wait 10m "
			    "--service https://boot.example:9730 "
			    "s3://bucket/env 3f2a9c",
		.options = options,
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 2,
	},
	.config_size = sizeof(struct env_prefetch_config),
	.check = check_nodes,
	.run = run_env_prefetch,
};
