// SPDX-License-Identifier: Apache-2.0
/* `bootseer env umount`: unmount an environment that `env run` mounted. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "cli/command.h"
#include "cli/env_mount.h"
#include "cli/node_socket.h"

struct env_umount_config {
	struct node_options node;
};

static const struct option_spec options[] = {
	NODE_OPTIONS(struct env_umount_config),
	{ .key = NULL },
};

/* Unmount; files written to the mount are lost. */
static int release_mount(const struct node_options *o, const char *name,
			 struct error *err)
{
	json_t *params = json_pack("{s:s}", "name", name);
	AUTO_FREE char *text = params ? json_dumps(params, 0) : NULL;
	AUTO_FREE char *reply = NULL;
	struct node_client *c = NULL;
	int rc = text ? node_connect(o, &c, err) : error_nomem(err);

	json_decref(params);
	if (rc == 0)
		rc = node_call(c, "environment.umount", text, &reply, err);
	node_client_close(c);
	/* Another mount namespace still uses it: bootseerd's housekeeping unmounts it after that
	 * ends. */
	if (rc != -EBUSY)
		return rc;
	fprintf(stderr, "bootseer env umount: %s\n", err->msg);
	return 0;
}

static int run_env_umount(const void *config, char **args, struct error *err)
{
	const struct env_umount_config *c = config;
	int rc = 0;

	for (char **target = args; rc == 0 && *target; target++) {
		AUTO_FREE char *source = NULL;

		rc = env_part(*target, ENV_MOUNT_PREFIX, &source, err);
		if (rc == 0)
			rc = release_mount(&c->node,
					   source + strlen(ENV_MOUNT_PREFIX),
					   err);
	}
	return rc;
}

const struct command env_umount_command = {
	.brief = "Unmount environments that 'env run' mounted",
	.program = {
		.name = "bootseer env umount",
		.usage = "[OPTIONS] DIR...",
		.summary = "Unmount the environment that 'bootseer env run' "
			   "mounted at the target DIR, and at its other "
			   "targets. What was written there since is gone.",
		.options = options,
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 1,
		.max_args = -1,
	},
	.config_size = sizeof(struct env_umount_config),
	.run = run_env_umount,
};
