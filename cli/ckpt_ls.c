// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli/ckpt.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/progress.h"
#include "common/text.h"

struct ckpt_ls_config {
	struct ckpt_access access;
	bool is_long;
};

static const struct option_spec options[] = {
	{ .key = "long",
	  .letter = 'l',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct ckpt_ls_config, is_long),
	  .help = "Size, time and columns, too; reads what each striped file "
		  "is." },
	CKPT_ACCESS_OPTIONS,
	{ .key = NULL },
};

struct ckpt_ls {
	struct object_store *store;
	const char *folder;
	bool is_long;
	size_t n;
	size_t n_left_out;   /* objects whose names no file can have */
	struct buf left_out; /* names of the first of these objects */
};

#define LEFT_OUT_NAMED 3u

/* A copy of the name for the terminal, without control characters, as strangers choose names.  The
 * caller owns it. */
static char *printable_name(const char *name)
{
	char *copy = strdup(name);

	if (copy)
		text_make_printable(copy);
	return copy;
}

/* Is the file unreadable, because its manifest is damaged or of another program?  Then the rest of
 * the folder is still listed. */
static bool is_damaged(int rc)
{
	return rc == -EBADMSG || rc == -ENOTSUP;
}

static int show_long(const struct ckpt_ls *l, const struct ckpt_entry *e,
		     const char *shown, struct error *err)
{
	char size[PROGRESS_BYTES_MAX], when[32] = "-", layout[32] = "plain";
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st;
	struct tm tm;
	time_t t;
	int rc;

	if (buf_printf(&path, "%s%s%s", l->folder, *l->folder ? "/" : "",
		       e->name) < 0)
		return error_nomem(err);
	rc = ckpt_stat(l->store, path.data, &st, err);
	if (is_damaged(rc)) {
		printf("%10s  %-10s  %-16s  %s\n", "-", "damaged", "-", shown);
		fprintf(stderr, "bootseer ckpt ls: %s\n", err->msg);
		return 0;
	}
	if (rc < 0)
		return rc;
	progress_format_bytes(st.size, size);
	t = clock_timespec(st.attr.mtime_ns).tv_sec;
	if (localtime_r(&t, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
	if (st.is_striped)
		(void)snprintf(layout, sizeof(layout), "%" PRIu32 " column%s",
			       st.columns, st.columns == 1 ? "" : "s");
	printf("%10s  %-10s  %s  %s\n", size, layout, when, shown);
	return 0;
}

static int show_entry(void *arg, const struct ckpt_entry *e, struct error *err)
{
	AUTO_FREE char *shown = printable_name(e->name);
	struct ckpt_ls *l = arg;

	if (!shown)
		return error_nomem(err);
	l->n++;
	if (l->is_long && !e->is_folder)
		return show_long(l, e, shown, err);
	printf("%*s%s%s\n", l->is_long ? 42 : 0, "", shown,
	       e->is_folder ? "/" : "");
	return 0;
}

static int note_left_out_name(void *arg, const char *name, struct error *err)
{
	struct ckpt_ls *l = arg;
	AUTO_FREE char *shown = printable_name(name);

	if (!shown)
		return error_nomem(err);
	if (l->n_left_out++ >= LEFT_OUT_NAMED)
		return 0;
	return buf_printf(&l->left_out, "%s'%s'", l->left_out.len ? ", " : "",
			  shown) < 0
		       ? error_nomem(err)
		       : 0;
}

/* Print the objects that other programs put there under names that no file can have. */
static void print_left_out(const struct ckpt_ls *l)
{
	char n[PROGRESS_COUNT_MAX];

	if (!l->n_left_out)
		return;
	progress_format_count(l->n_left_out, "object", n);
	fprintf(stderr,
		"bootseer ckpt ls: %s not shown, which no file here can be: "
		"%s%s\n",
		n, l->left_out.data,
		l->n_left_out > LEFT_OUT_NAMED ? ", ..." : "");
}

/* The list was empty: show a file, or an empty folder, or report that the name does not exist. */
static int show_single_path(struct ckpt_ls *l, const char *path,
			    struct error *err)
{
	const struct ckpt_entry e = { .name = path };
	struct ckpt_stat st;
	int rc = ckpt_stat(l->store, path, &st, err);

	l->folder = "";
	if (rc == 0)
		rc = show_entry(l, &e, err);
	return rc == -EISDIR ? 0 : rc;
}

static int run_ckpt_ls(const void *config, char **args, struct error *err)
{
	const struct ckpt_ls_config *c = config;
	const char *path = args[1] ? ckpt_store_path(args[1]) : "";
	AUTO(object_store) s = c->access.store;
	struct ckpt_ls l = { .store = s,
			     .folder = path,
			     .is_long = c->is_long,
			     .left_out = BUF_INIT };
	const struct ckpt_left_out left_out = { note_left_out_name, &l };
	int rc = ckpt_list_all(s, path, SIZE_MAX, show_entry, &l, &left_out,
			       err);

	if (rc == 0)
		print_left_out(&l);
	buf_fini(&l.left_out);
	return rc == 0 && !l.n && *path ? show_single_path(&l, path, err) : rc;
}

const struct command ckpt_ls_command = {
	.brief = "List files of a store",
	.program = {
		.name = "bootseer ckpt ls",
		.usage = "[OPTIONS] STORE [PATH]",
		.summary = "List the files in a folder of the store, or the "
			   "one file: striped ones and plain objects alike.",
		.options = options,
		.min_args = 1,
		.max_args = 2,
	},
	.config_size = sizeof(struct ckpt_ls_config),
	.open = ckpt_open_first,
	.run = run_ckpt_ls,
};
