/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd's hosts.toml files (a folder of its config_path for each registry) and the entry of
 * bootseerd's mirror in them (docs/images.md).  The entry stands between two marks before the
 * file's own hosts, so that containerd asks the mirror first; the rest of a file is not changed.
 */
#ifndef BOOTSEER_CLI_CONTAINERD_HOSTS_H
#define BOOTSEER_CLI_CONTAINERD_HOSTS_H

#include "cli/kept_file.h"

#define HOSTS_FILES_MAX 64u

/* Changed files, with their previous content. */
struct hosts_files {
	struct kept_file list[HOSTS_FILES_MAX];
	/* The path was found by following a link; such a file is kept even when empty, so that the
	 * link does not dangle. */
	bool is_linked[HOSTS_FILES_MAX];
	size_t n;
};

struct hosts_want {
	const char *config_path; /* containerd's: "DIR:DIR" */
	const char *search;      /* config_path, and folders where a join with
	                          * other settings may have left entries */
	char *const *registries; /* ends with NULL; "_default" is allowed */
	const char *entry;       /* text of bootseerd's own hosts.toml */
};

/*
 * Put the entry into the files of `want->registries`, and remove it from all others.  `ret` lists
 * the changed files, also on failure.
 *   -EINVAL   a file cannot be changed safely, or a registry's name is malformed
 *   -EEXIST   a new file would hide the one that containerd reads for that registry now, or a
 *             dangling link is in its place
 */
int hosts_files_apply(const struct hosts_want *want, struct hosts_files *ret,
		      struct error *err) MUST_CHECK;
int hosts_files_restore(const struct hosts_files *h,
			struct error *err) MUST_CHECK;
void hosts_files_fini(struct hosts_files *h);

/* Append two lists of folders of `config_path`, with commas between names: those whose files have
 * the entry, and the others. */
int hosts_files_look(const char *config_path, const char *entry,
		     struct buf *ret_named, struct buf *ret_others,
		     struct error *err) MUST_CHECK;

/* Append `text` with the entry, or without it.  An entry without marks was written by the operator
 * and stays unchanged. */
int hosts_text_add(const char *text, const char *entry, struct buf *ret,
		   struct error *err) MUST_CHECK;
int hosts_text_remove(const char *text, struct buf *ret,
		      struct error *err) MUST_CHECK;

#endif
