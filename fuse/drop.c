// SPDX-License-Identifier: Apache-2.0
/* Removes mounts of an earlier process that nobody will serve again. */
#include <stdio.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mount.h"
#include "fuse/fuse.h"

static void drop_kept(struct fd_keeper *keeper, const char *name)
{
	AUTO_CLOSE int fd = fd_keeper_take(keeper, name);

	if (fd >= 0)
		(void)!fd_keeper_drop(keeper, name, NULL);
}

static void drop_mount(const struct session_config *cfg)
{
	AUTO_FREE char *path = NULL;
	struct mount_line line = { .major = 0 };
	struct error err = ERROR_INIT;

	if (mount_canonical(cfg->path, &path, &err) < 0 ||
	    mount_find(path, &line, &err) <= 0)
		return;
	mount_line_fini(&line);
	log_warning(cfg->log, "dropped a mount path=\"%s\"", path);
	if (mount_take_down(cfg->run_dir, MOUNT_LOCK_SESSION, path, true,
			    &err) < 0)
		log_warning(cfg->log, "left mounted: %s", err.msg);
}

void session_drop(const struct session_config *cfg)
{
	AUTO_FREE char *init_name = NULL;

	drop_kept(cfg->keeper, cfg->name);
	if (asprintf(&init_name, "%s-init", cfg->name) < 0)
		init_name = NULL;
	else
		drop_kept(cfg->keeper, init_name);
	drop_mount(cfg);
}
