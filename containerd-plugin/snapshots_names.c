// SPDX-License-Identifier: Apache-2.0
/* Names that containerd and its clients give snapshots, and the folders of snapshots. */
#include <inttypes.h>
#include <string.h>

#include "common/buf.h"
#include "containerd-plugin/snapshots_priv.h"

#define EXTRACT_PREFIX "extract-"
#define REMAP_SUFFIX "-remap"

char *snapshots_path(struct snapshots *s, uint64_t id, const char *name)
{
	AUTO_BUF b = BUF_INIT;

	if (buf_printf(&b, "%s/%" PRIu64 "%s%s", s->folder, id,
		       *name ? "/" : "", name) < 0)
		return NULL;
	return buf_steal(&b);
}

const char *snapshots_client_key(const char *name)
{
	const char *p = strchr(name, '/');

	p = p ? strchr(p + 1, '/') : NULL;
	return p ? p + 1 : NULL;
}

bool snapshots_is_layer(const struct snapshot *snap)
{
	const char *key = snapshots_client_key(snap->name);

	if (labels_get(&snap->labels, LABEL_SNAPSHOT_REF))
		return true;
	return strncmp(key ? key : snap->name, EXTRACT_PREFIX,
		       strlen(EXTRACT_PREFIX)) == 0;
}

bool snapshots_is_remap_key(const char *key)
{
	const char *slash = strrchr(key, '/');
	const char *name = slash ? slash + 1 : key;
	size_t n = strlen(name), len = strlen(REMAP_SUFFIX);

	/* The name must also begin with a digest, since a container's may end in "-remap"
	 * too. */
	return strncmp(name, "sha256:", 7) == 0 && n > len &&
	       strcmp(name + n - len, REMAP_SUFFIX) == 0;
}
