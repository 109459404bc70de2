/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds this project's settings in a configuration of containerd.  Reads TOML line by line and
 * section by section, which suffices for the output of `containerd config dump`; inline tables in
 * a hand-written file are not seen.
 */
#ifndef BOOTSEER_CLI_CONTAINERD_CONFIG_H
#define BOOTSEER_CLI_CONTAINERD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

/* The plugin's name where containerd configures it to unpack layers (a "differ"). */
#define CONTAINERD_DIFFER "bootseer-diff"

struct containerd_config {
	unsigned int version;  /* version of the file; 0: unset, meaning 1 */
	bool proxy;            /* the plugin is configured as a proxy plugin */
	bool used;             /* CRI uses it for pods, perhaps of one
	                        * runtime only */
	bool by_default;       /* default snapshotter of all runtimes */
	bool labels;           /* CRI passes the image's name with each pull */
	bool cri_off;          /* CRI is among disabled_plugins */
	bool misplaced;        /* snapshotter = "bootseer" is in a section that
	                        * this version ignores */
	bool rebase;           /* layers are unpacked in parallel */
	bool remap_ids;        /* ids of user namespaces are mapped by mounts */
	bool discards;         /* containerd deletes layers once unpacked */
	bool has_old_hosts;    /* has registry.mirrors, excludes config_path */
	bool differ_listed;    /* bootseer-diff is one that unpacks layers */
	bool differ_first;     /* ... and the first of them */
	char config_path[512]; /* folders of hosts.toml for CRI, "DIR:DIR";
	                        * "": not set */
	char address[108];     /* path of the plugin's socket; "": not set */
	char differ[108];      /* path of bootseer-diff's socket; "": not set */
	char root[256];        /* containerd's own data folder; "": not set */
	char imports[8][256];
	size_t n_imports;
};

/* Add the settings in `text` to `ret`.  A text that states no version has the version in `ret`. */
void containerd_config_scan(const char *text, struct containerd_config *ret);

/* The section header in which CRI looks for its snapshotter in files of this version. */
const char *containerd_config_section(unsigned int version);

/* The configuration file that a command line (NUL after each word) names; borrowed from `text`;
 * NULL: none. */
const char *containerd_config_of(const char *text, size_t len);

#endif
