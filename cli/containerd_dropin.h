/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that tells containerd of this project's plugin, beside containerd's own, which
 * imports it.  Texts alone: nothing here reads or writes a file.
 */
#ifndef BOOTSEER_CLI_CONTAINERD_DROPIN_H
#define BOOTSEER_CLI_CONTAINERD_DROPIN_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/error.h"

enum dropin_pods {
	DROPIN_NO_PODS, /* the plugin is known, and no pod starts on it */
	/* As RUNTIME; where containerd has no such handler (1.6) no pod at all. */
	DROPIN_LEAVING,
	DROPIN_RUNTIME, /* pods of the runtime handler "bootseer" */
	DROPIN_ALL,     /* pods of every runtime */
};

struct dropin_want {
	enum dropin_pods pods;
	const char *address;  /* of the plugin's socket */
	const char *root;     /* its folder, whose disk the kubelet counts */
	const char *platform; /* of the node: "linux/amd64" */
	bool remap_ids;       /* its kernel maps ids of mounts */
	bool unpack;          /* bootseerd unpacks layers of ordinary images */
	const char
		*config_path; /* folder of hosts.toml for CRI; NULL: as it is */
};

/*
 * Append the drop-in for a containerd whose configuration, without it, is `dump`, as
 * `containerd config dump` prints it.  Where an imported file replaces whole sections
 * (containerd 1.x), it repeats CRI's from there.
 *   -ENOTSUP   this containerd has no snapshotter for one runtime alone, or has nobody else
 *              unpack layers (1.6)
 *   -ENOENT    the default runtime is not in `dump`
 */
int dropin_compose(const struct dropin_want *want, const char *dump,
		   struct buf *ret, struct error *err) MUST_CHECK;

/*
 * Append the configuration file `text` such that it imports `pattern`; the line that is
 * new is marked.  `*ret_changed`: it did not do so before.
 *   -EINVAL   its imports are written in a way that is not understood
 */
int dropin_import(const char *text, const char *pattern, struct buf *ret,
		  bool *ret_changed, struct error *err) MUST_CHECK;

/* Append `text` without what dropin_import() put there. */
int dropin_unimport(const char *text, const char *pattern, struct buf *ret,
		    struct error *err) MUST_CHECK;

/*
 * Compare two dumps: lines that either has alone must be about the plugin.
 *   -EBADMSG   one is not; `err` has it
 */
int dropin_compare(const char *before, const char *after,
		   struct error *err) MUST_CHECK;

#endif
