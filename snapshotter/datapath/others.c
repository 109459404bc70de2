// SPDX-License-Identifier: Apache-2.0
/* Removes sessions that an earlier bootseerd with another data path left behind. */
#include <string.h>

#include "common/fs.h"
#include "snapshotter/datapath/image_session.h"

static bool is_name_in_list(const char *name, const char *const list[])
{
	while (*list && strcmp(*list, name) != 0)
		list++;
	return *list != NULL;
}

void image_session_drop_others(const struct datapath_config *cfg,
			       const char *const mine[])
{
	static const char *const all[] = {
		IMAGE_SESSION_CARRIER,
		IMAGE_SESSION_CARRIER_LOOP,
		IMAGE_SESSION_PLAIN,
		IMAGE_SESSION_NO_XATTR,
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		AUTO_FREE char *path = fs_join(cfg->run_dir, all[i]);
		const struct session_config other = { .name = all[i],
						      .path = path,
						      .run_dir = cfg->run_dir,
						      .keeper = cfg->keeper,
						      .log = "datapath" };

		if (path && !is_name_in_list(all[i], mine))
			session_drop(&other);
	}
}
