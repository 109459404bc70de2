// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "cli/ckpt.h"
#include "common/progress.h"

struct ckpt_verify_config {
	struct ckpt_access access;
};

static const struct option_spec options[] = {
	CKPT_ACCESS_OPTIONS,
	{ .key = NULL },
};

struct ckpt_verify {
	struct object_store *store;
	struct ckpt_bar bar;
	uint64_t n_files, n_plain, n_bytes;
};

static int verify(void *arg, const char *path, struct error *err)
{
	struct ckpt_verify *v = arg;
	const struct ckpt_progress progress = { ckpt_bar_step, &v->bar };
	const struct ckpt_stat *st;
	struct ckpt_file *f;
	int rc = ckpt_open(v->store, path, &f, err);

	if (rc < 0)
		return rc;
	st = ckpt_file_stat(f);
	v->bar.what = path;
	v->n_files++;
	v->n_plain += !st->is_striped;
	v->n_bytes += st->size;
	v->bar.total = 0;
	rc = ckpt_download(f, -1, 0, &progress, err);
	ckpt_close(f);
	return rc;
}

static void print_end(const struct ckpt_verify *v)
{
	char bytes[PROGRESS_BYTES_MAX], files[PROGRESS_COUNT_MAX];

	progress_format_bytes(v->n_bytes, bytes);
	progress_format_count(v->n_files, "file", files);
	printf("%s, %s: all is as it was written\n", files, bytes);
	if (v->n_plain)
		printf("%" PRIu64 " of them plain, without checksums: those "
		       "were only read\n",
		       v->n_plain);
}

static int run(const void *config, char **args, struct error *err)
{
	const struct ckpt_verify_config *c = config;
	struct ckpt_verify v = { .n_files = 0 };
	AUTO(object_store) s = NULL;
	int rc = ckpt_store_open(&c->access, args[0], &s, err);

	if (rc < 0)
		return rc;
	v.store = s;
	v.bar.bar = progress_new(stderr);
	rc = ckpt_walk(s, args[1] ? ckpt_store_path(args[1]) : "", verify, &v,
		       err);
	progress_free(v.bar.bar);
	if (rc == 0)
		print_end(&v);
	return rc;
}

const struct command ckpt_verify_command = {
	.brief = "Check every byte of files in a store",
	.program = {
		.name = "bootseer ckpt verify",
		.usage = "[OPTIONS] STORE [PATH]",
		.summary = "Read a file, or all files of a folder or of the "
			   "store, and check every chunk against the checksum "
			   "that was made when it was written.",
		.options = options,
		.see_also = "bootseer(1)",
		.min_args = 1,
		.max_args = 2,
	},
	.config_size = sizeof(struct ckpt_verify_config),
	.check = ckpt_check_first,
	.run = run,
};
