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

/*
 * containerd's effective configuration, as containerd prints it where it is
 * installed: of `file`, or with NULL of every containerd that runs, or else of the
 * file at the usual place.  Checks too whether somebody listens where it looks for
 * the plugin; and with `mirror`, the hosts.toml of bootseerd's mirror, whether those of
 * containerd name it.
 */
void doctor_check_containerd(json_t *list, const char *file,
			     const char *mirror);

#endif
