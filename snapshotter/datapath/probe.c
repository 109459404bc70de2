// SPDX-License-Identifier: Apache-2.0
/* What this kernel can do, found by doing it; and the cure where it cannot. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "snapshotter/datapath/kinds.h"

int probe_plain_fuse(const struct datapath_config *cfg, struct error *err)
{
	AUTO_CLOSE int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno,
				 "open /dev/fuse: %s (modprobe fuse, or a"
				 " kernel with CONFIG_FUSE_FS)",
				 strerror(errno));
	return 0;
}

int probe_erofs_fuse(const struct datapath_config *cfg, struct error *err)
{
	return probe_plain_fuse(cfg, err);
}

int probe_erofs_loop(const struct datapath_config *cfg, struct error *err)
{
	return probe_plain_fuse(cfg, err);
}
