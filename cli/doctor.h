// SPDX-License-Identifier: Apache-2.0
/*
 * What `bootseer node doctor` finds out by itself, without bootseerd.  A list
 * of checks is a JSON array in the form of node.doctor (docs/formats/control.md).
 */
#ifndef BOOTSEER_CLI_DOCTOR_H
#define BOOTSEER_CLI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>

#include "common/error.h"

/* Can images be mounted without it? */
enum doctor_need { DOCTOR_ADVICE, DOCTOR_NEEDED };

/* Append a check; `cure` is left out when all is well. */
void doctor_add(json_t *list, const char *name, bool ok, enum doctor_need need,
		const char *cure, const char *fmt, ...) PRINTF(6, 7);

/* Kernel, programs, units and configuration of this machine; `runs`: bootseerd
 * answers. */
void doctor_check_host(json_t *list, bool runs);

/*
 * containerd's configuration: `file`, or with NULL that of every containerd
 * that runs, or else the one at the usual place.  Checks too whether somebody
 * listens where it looks for the plugin.
 */
void doctor_check_containerd(json_t *list, const char *file);

/* ---- pure, for tests ---- */

/* What a configuration of containerd says on us. */
struct containerd_config {
	bool proxy;        /* the plugin is named */
	bool used;         /* some pods or clients use it by default */
	bool labels;       /* CRI tells the plugin what it pulls */
	char address[108]; /* of the plugin's socket; "" */
	char imports[8][256];
	size_t n_imports;
};

/* Add to `ret` what `text` says: a look at its lines, not a parser of TOML. */
void containerd_config_scan(const char *text, struct containerd_config *ret);

/* The configuration file that a command line (words, NUL after each) names, in
 * `text`; NULL: none. */
const char *containerd_config_of(const char *text, size_t len);

#endif
