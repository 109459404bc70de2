// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "cli/env.h"
#include "cli/env_give.h"
#include "common/progress.h"
#include "snapshotter/client.h"

struct env_prefetch_config {
	struct store_access access;
	struct env_service_access service;
	char *socket;
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

static int run(const void *config, char **args, struct error *err)
{
	const struct env_prefetch_config *c = config;
	struct env_opened o = { .store = NULL };
	struct env_snapshot snap;
	struct digest key;
	int rc = env_open(&c->access, &c->service, args[0],
			  "bootseer env prefetch", 0, &o, err);

	if (rc == 0)
		rc = find_key(c, &o, args[1], &key, err);
	if (rc == 0)
		rc = env_catalog_get(o.catalog, &key, &snap, err);
	if (rc == 0) {
		rc = order_fetch(c, args[0], &snap, err);
		env_snapshot_fini(&snap);
	}
	env_opened_fini(&o);
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
			   "after five minutes is not fetched any more.",
		.options = options,
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 2,
		.max_args = 2,
	},
	.config_size = sizeof(struct env_prefetch_config),
	.check = env_check_first,
	.run = run,
};
