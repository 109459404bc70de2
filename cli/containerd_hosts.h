/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd's hosts.toml files, a folder of its config_path for each registry, and the entry
 * of bootseerd's mirror in them (docs/images.md).  The entry stands between two marks before
 * the file's own hosts, so containerd asks it first; nothing else of a file is changed.
 */
#ifndef BOOTSEER_CLI_CONTAINERD_HOSTS_H
#define BOOTSEER_CLI_CONTAINERD_HOSTS_H

#include "cli/kept_file.h"

#define HOSTS_FILES_MAX 64u

/* Files that were changed, as they were before. */
struct hosts_files {
	struct kept_file list[HOSTS_FILES_MAX];
	/* The path is where a link leads: nothing may be left that leads nowhere. */
	bool is_linked[HOSTS_FILES_MAX];
	size_t n;
};

struct hosts_want {
	const char *config_path; /* containerd's: "DIR:DIR" */
	const char *search; /* the same, and where entries may be from before */
	char *const *registries; /* NULL ends; "_default"; NULL: none */
	const char *entry;       /* what bootseerd's own hosts.toml says */
};

/*
 * Have the files of `want->registries` begin with the entry, and no other.  `ret` has what was
 * changed, also when that fails.
 *   -EINVAL   a file is written in a way that cannot be changed safely, or a name is none
 *   -EEXIST   a new file would hide what containerd reads for that registry now, or stands
 *             where a link leads to nothing
 */
int hosts_files_apply(const struct hosts_want *want, struct hosts_files *ret,
		      struct error *err) MUST_CHECK;
int hosts_files_restore(const struct hosts_files *h,
			struct error *err) MUST_CHECK;
void hosts_files_fini(struct hosts_files *h);

/* Append the names of folders of `config_path` whose files have the entry, and those of the
 * others, with commas between them. */
int hosts_files_look(const char *config_path, const char *entry,
		     struct buf *ret_named, struct buf *ret_others,
		     struct error *err) MUST_CHECK;

/* Append `text` with the entry, or without it.  A text that has the entry without marks is the
 * operator's, and stays as it is. */
int hosts_text_add(const char *text, const char *entry, struct buf *ret,
		   struct error *err) MUST_CHECK;
int hosts_text_remove(const char *text, struct buf *ret,
		      struct error *err) MUST_CHECK;

#endif
