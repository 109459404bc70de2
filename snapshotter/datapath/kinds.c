// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/kinds.h"

#include <string.h>

const struct datapath_ops *const datapath_kinds[] = {
	&datapath_erofs_fuse,
	&datapath_erofs_loop,
	&datapath_plain_fuse,
	NULL,
};

const struct datapath_ops *datapath_kind(const char *name)
{
	for (size_t i = 0; datapath_kinds[i]; i++)
		if (strcmp(datapath_kinds[i]->name, name) == 0)
			return datapath_kinds[i];
	return NULL;
}
