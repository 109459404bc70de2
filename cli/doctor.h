// SPDX-License-Identifier: Apache-2.0
/*
 * Checks that `bootseer node doctor` makes by itself, without bootseerd. A list of checks
 * is a JSON array in the form of node.doctor (docs/formats/control.md).
 */
#ifndef BOOTSEER_CLI_DOCTOR_H
#define BOOTSEER_CLI_DOCTOR_H

#include "common/doctor.h"

/* Kernel, programs, units and configuration of this machine; `runs`: bootseerd
 * answers. */
void doctor_check_host(json_t *list, bool runs);

/*
 * Can the kernel mount images with pages of `size` bytes?  Until Linux 6.4 EROFS took no blocks
 * but of a page.
 */
void doctor_check_pages(json_t *list, long size, unsigned int major,
			unsigned int minor);

/* Answers of bootseerd about itself, for doctor_check_containerd(). */
struct doctor_node {
	const char
		*mirror; /* the hosts.toml of its mirror; NULL: it has none */
	/* Where it reads containerd's layers; NULL: it does not answer. */
	const char *containerd_root;
};

/*
 * containerd's effective configuration, as containerd prints it where it is
 * installed: of `file`, or with NULL of every containerd that runs, or else of the
 * file at the usual place.  Checks too whether somebody listens where it looks for
 * the plugin, whether that unpacks layers for it, and whether its hosts.toml name bootseerd's
 * mirror.
 */
void doctor_check_containerd(json_t *list, const char *file,
			     const struct doctor_node *node);

#endif
