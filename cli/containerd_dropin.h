/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drop-in file that configures this project's plugin; containerd's own configuration imports
 * it.  Works on texts; nothing here reads or writes a file.
 */
#ifndef BOOTSEER_CLI_CONTAINERD_DROPIN_H
#define BOOTSEER_CLI_CONTAINERD_DROPIN_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/error.h"

enum dropin_pods {
	DROPIN_NO_PODS, /* the plugin is configured, but starts no pods */
	/* Like RUNTIME, while the node leaves; on containerd without such a handler (1.6), no
	 * pods. */
	DROPIN_LEAVING,
	DROPIN_RUNTIME, /* only pods of the runtime handler "bootseer" */
	DROPIN_ALL,     /* pods of every runtime */
};

struct dropin_want {
	enum dropin_pods pods;
	const char *address;  /* path of the plugin's socket */
	const char *root;     /* its folder, on the disk that kubelet counts */
	const char *platform; /* platform of the node: "linux/amd64" */
	bool remap_ids;       /* the node's kernel maps the ids of mounts */
	bool unpack;          /* bootseerd unpacks layers of ordinary images */
	const char *
		config_path; /* folder of hosts.toml for CRI; NULL: not changed */
};

/*
 * Append the drop-in for a containerd with the configuration `dump` (the output of `containerd
 * config dump`, made without the drop-in).  For containerd 1.x, where an imported section replaces
 * the whole section, CRI's section is repeated from `dump`.
 *   -ENOTSUP   this containerd has no snapshotters for single runtimes, or no differ besides ours
 *              to unpack layers (1.6)
 *   -ENOENT    the default runtime is not in `dump`
 */
int dropin_compose(const struct dropin_want *want, const char *dump,
		   struct buf *ret, struct error *err) MUST_CHECK;

/*
 * Append the configuration file `text`, changed so that it imports `pattern`; the new line is
 * marked.  `*ret_changed`: the file did not import it before.
 *   -EINVAL   its imports are written in a form that is not understood
 */
int dropin_import(const char *text, const char *pattern, struct buf *ret,
		  bool *ret_changed, struct error *err) MUST_CHECK;

/* Append `text` without the line that dropin_import() added. */
int dropin_unimport(const char *text, const char *pattern, struct buf *ret,
		    struct error *err) MUST_CHECK;

/*
 * Check that two dumps only differ in lines about the plugin.
 *   -EBADMSG   another line differs; `err` has it
 */
int dropin_compare(const char *before, const char *after,
		   struct error *err) MUST_CHECK;

#endif
