// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "cli/ckpt.h"
#include "common/buf.h"
#include "common/progress.h"

struct ckpt_rm_config {
	struct ckpt_access access;
	bool recursive;
};

static const struct option_spec options[] = {
	{ .key = "recursive",
	  .letter = 'r',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct ckpt_rm_config, recursive),
	  .help = "Folders, with all files below them." },
	CKPT_ACCESS_OPTIONS,
	{ .key = NULL },
};

struct ckpt_rm {
	struct object_store *store;
	uint64_t n;
};

static int remove_and_count(void *arg, const char *path, struct error *err)
{
	struct ckpt_rm *r = arg;
	int rc = ckpt_remove(r->store, path, err);

	r->n += rc == 0;
	return rc;
}

static int remove_folders(struct object_store *s, const char *folder,
			  struct error *err);

struct ckpt_rm_below {
	struct object_store *store;
	const char *folder;
};

static int remove_below(void *arg, const struct ckpt_entry *e,
			struct error *err)
{
	const struct ckpt_rm_below *b = arg;
	AUTO_BUF path = BUF_INIT;

	if (!e->is_folder)
		return 0; /* a file was written there meanwhile */
	if (buf_printf(&path, "%s/%s", b->folder, e->name) < 0)
		return error_nomem(err);
	return remove_folders(b->store, path.data, err);
}

/* Remove the folders below and the folder itself: those made by a mount exist even when empty. */
static int remove_folders(struct object_store *s, const char *folder,
			  struct error *err)
{
	struct ckpt_rm_below b = { .store = s, .folder = folder };
	struct error ignored = ERROR_INIT;
	int rc = ckpt_list(s, folder, remove_below, &b, err);

	/* A folder that got a file meanwhile is not empty and stays. */
	if (rc == 0)
		(void)!ckpt_folder_remove(s, folder, &ignored);
	return rc;
}

static int check_ckpt_rm(const void *config, char **args, struct error *err)
{
	if (!*ckpt_store_path(args[1]))
		return error_set(err, EINVAL,
				 "that is the whole store: name a file or a "
				 "folder");
	return 0;
}

static int run_ckpt_rm(const void *config, char **args, struct error *err)
{
	const struct ckpt_rm_config *c = config;
	const char *path = ckpt_store_path(args[1]);
	char files[PROGRESS_COUNT_MAX];
	AUTO(object_store) s = c->access.store;
	struct ckpt_rm r = { .store = s };
	int rc = c->recursive ? ckpt_walk(s, path, remove_and_count, &r, err)
			      : remove_and_count(&r, path, err);
	if (rc == 0 && c->recursive)
		rc = remove_folders(s, path, err);
	if (rc == -EISDIR)
		rc = error_wrap(err, rc, "remove it with -r");
	if (rc < 0)
		return rc;
	progress_format_count(r.n, "file", files);
	printf("%s removed; 'bootseer ckpt gc' gives the space back: run it "
	       "when a day has passed since it was written, and again a day "
	       "later\n",
	       files);
	return 0;
}

const struct command ckpt_rm_command = {
	.brief = "Remove files from a store",
	.program = {
		.name = "bootseer ckpt rm",
		.usage = "[OPTIONS] STORE PATH",
		.summary = "Remove a file from the store. The data of a striped "
			   "one stays for those who read it, until 'bootseer "
			   "ckpt gc'.",
		.options = options,
		.min_args = 2,
	},
	.config_size = sizeof(struct ckpt_rm_config),
	.check = check_ckpt_rm,
	.open = ckpt_open_first,
	.run = run_ckpt_rm,
};
