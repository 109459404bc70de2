/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of this project's plugin in a configuration of containerd. A look at the lines
 * of TOML, section by section, which is enough for what `containerd config dump` prints;
 * in a file written by hand an inline table is not seen.
 */
#ifndef BOOTSEER_CLI_CONTAINERD_CONFIG_H
#define BOOTSEER_CLI_CONTAINERD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

/* The plugin's name as one that unpacks layers. */
#define CONTAINERD_DIFFER "bootseer-diff"

struct containerd_config {
	unsigned int version; /* of the file; 0: it says none, which means 1 */
	bool proxy;           /* the plugin is named */
	bool used;            /* pods use it, if only those of some runtime */
	bool by_default;      /* pods of every runtime that says nothing else */
	bool labels;          /* CRI tells the plugin what it pulls */
	bool cri_off;         /* CRI is among disabled_plugins */
	bool misplaced; /* snapshotter = "bootseer" where this version looks not */
	bool rebase;    /* layers are unpacked beside each other */
	bool remap_ids;        /* ids of user namespaces are mapped by mounts */
	bool discards;         /* layers are deleted once they are unpacked */
	bool has_old_hosts;    /* registry.mirrors, which exclude config_path */
	bool differ_listed;    /* containerd may have bootseerd unpack layers */
	bool differ_first;     /* ... and asks it before others */
	char config_path[512]; /* "DIR:DIR" of hosts.toml for CRI; "" */
	char address[108];     /* of the plugin's socket; "" */
	char differ[108];      /* the same, as one that unpacks layers; "" */
	char root[256];        /* containerd's own folder; "" */
	char imports[8][256];
	size_t n_imports;
};

/* Add to `ret` what `text` says.  A text without a version is of the version that
 * `ret` has. */
void containerd_config_scan(const char *text, struct containerd_config *ret);

/* The section where CRI reads its snapshotter in files of this version, as it is
 * written. */
const char *containerd_config_section(unsigned int version);

/* The configuration file that a command line (words, NUL after each) names, in
 * `text`; NULL: none. */
const char *containerd_config_of(const char *text, size_t len);

#endif
