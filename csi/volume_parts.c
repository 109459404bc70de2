// SPDX-License-Identifier: Apache-2.0
/* Functions that all kinds of volumes use. */
#include "common/clock.h"
#include "common/fs.h"
#include "common/mount.h"
#include "csi/volumes_priv.h"

int volume_node_open(const struct volumes *v, uint32_t wait_ms,
		     struct node_client **ret, struct error *err)
{
	return node_client_open_within(v->cfg.node_socket,
				       (uint32_t)(v->cfg.node_timeout_ns /
						  NS_PER_MS),
				       wait_ms, ret, err);
}

int volume_dir(const struct volumes *v, const char *id, char **ret,
	       struct error *err)
{
	*ret = fs_join(v->cfg.state, id);
	return *ret ? 0 : error_nomem(err);
}

int volume_is_mounted(const char *path, struct error *err)
{
	struct mount_line l = { .major = 0 };
	int rc = mount_find(path, &l, err);

	if (rc == 1)
		mount_line_fini(&l);
	return rc;
}
