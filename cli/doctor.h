// SPDX-License-Identifier: Apache-2.0
/*
 * Checks that `bootseer node doctor` makes by itself, without bootseerd. A list of checks
 * is a JSON array in the form of node.doctor (docs/formats/control.md).
 */
#ifndef BOOTSEER_CLI_DOCTOR_H
#define BOOTSEER_CLI_DOCTOR_H

#include "common/doctor.h"

/* Check kernel, programs, units and configuration of this machine.  `runs`: bootseerd answers. */
void doctor_check_host(json_t *list, bool runs);

/*
 * Check that the kernel can mount images with a page size of `size` bytes: before Linux 6.4 EROFS
 * only takes blocks of a page.
 */
void doctor_check_pages(json_t *list, long size, unsigned int major,
			unsigned int minor);

/* Facts that bootseerd reports about itself, for doctor_check_containerd(). */
struct doctor_node {
	const char
		*mirror; /* the hosts.toml of its mirror; NULL: it has none */
	/* hosts.toml of its mirror; NULL: it has no mirror */
	const char *containerd_root;
};

/*
 * Check containerd's effective configuration, as containerd itself prints it if installed: of
 * `file`; with NULL of every running containerd, or else of the usual file.  Also checks that a
 * process listens at the plugin's socket, that the plugin unpacks layers, and that containerd's
 * hosts.toml files name bootseerd's mirror.
 */
void doctor_check_containerd(json_t *list, const char *file,
			     const struct doctor_node *node);

#endif
