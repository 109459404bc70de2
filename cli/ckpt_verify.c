// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>

#include "cli/ckpt.h"
#include "cli/plain_output.h"
#include "common/progress.h"
#include "common/text.h"

struct ckpt_verify_config {
	struct ckpt_access access;
};

static const struct option_spec options[] = {
	CKPT_ACCESS_OPTIONS,
	{ .key = NULL },
};

#define TRIES 4u
#define NO_NAME \
	"bootseer-verify" /* read from a store only to see whether it answers */

struct ckpt_verify {
	struct object_store *store;
	struct ckpt_bar bar;
	uint64_t n_files, n_plain, n_damaged, n_changing, n_bytes;
};

static bool is_silence(int rc)
{
	return rc == -EIO || rc == -ETIMEDOUT || rc == -ECONNREFUSED;
}

/* Does the store not answer?  Then stop, as otherwise each file would be reported as damaged. */
static bool is_store_away(struct object_store *s)
{
	struct error ignored = ERROR_INIT;
	struct object_stat st;

	return is_silence(object_stat(s, NO_NAME, &st, &ignored));
}

/* Report a damaged file and go on with the others; other errors end the run. */
static int count_fault(struct ckpt_verify *v, int rc, struct error *err)
{
	if (rc == -ENOENT)
		return 0; /* removed since it was listed */
	if (rc != -EBADMSG && rc != -ESTALE && rc != -EIO)
		return rc;
	if (rc == -EIO && is_store_away(v->store))
		return error_wrap(err, rc, "the store is away");
	text_make_printable(err->msg);
	progress_say(v->bar.bar, err->msg);
	if (rc == -ESTALE)
		v->n_changing++;
	else
		v->n_damaged++;
	return 0;
}

static bool is_same_version(const struct ckpt_stat *a,
			    const struct ckpt_stat *b)
{
	return a->is_striped == b->is_striped && a->size == b->size &&
	       a->generation == b->generation &&
	       a->attr.mtime_ns == b->attr.mtime_ns;
}

/* Find out whether a damaged file was replaced while it was read, after which `gc` may remove its
 * old columns.  Then return -ESTALE: it is not damaged. */
static int judge_file(struct object_store *s, const char *path,
		      const struct ckpt_stat *read, int rc)
{
	struct error ignored = ERROR_INIT;
	struct ckpt_stat now;
	int there =
		rc == -EBADMSG ? ckpt_stat(s, path, &now, &ignored) : -EAGAIN;

	if (there == -ENOENT || (there == 0 && !is_same_version(read, &now)))
		return there == 0 ? -ESTALE : there;
	return rc;
}

static int read_all(struct ckpt_verify *v, const char *path, struct error *err)
{
	const struct ckpt_progress progress = { ckpt_bar_step, &v->bar };
	struct ckpt_stat st;
	struct ckpt_file *f;
	int rc = ckpt_open(v->store, path, &f, err);

	if (rc < 0)
		return rc;
	st = *ckpt_file_stat(f);
	v->bar.what = path;
	v->bar.total = 0;
	rc = ckpt_download(f, -1, 0, &progress, err);
	ckpt_close(f);
	if (rc < 0)
		return judge_file(v->store, path, &st, rc);
	v->n_plain += !st.is_striped;
	v->n_bytes += st.size;
	return 0;
}

/* Verify a file.  If it is replaced meanwhile, verify the new version. */
static int verify_file(void *arg, const char *path, struct error *err)
{
	struct ckpt_verify *v = arg;
	int rc = -ESTALE;

	for (unsigned int i = 0; i < TRIES && rc == -ESTALE; i++)
		rc = read_all(v, path, err);
	v->n_files += rc != -ENOENT;
	return rc < 0 ? count_fault(v, rc, err) : 0;
}

static int print_verified(const struct ckpt_verify *v, struct error *err)
{
	char bytes[PROGRESS_BYTES_MAX], files[PROGRESS_COUNT_MAX];

	progress_format_bytes(v->n_bytes, bytes);
	progress_format_count(v->n_files, "file", files);
	if (v->n_damaged)
		return error_set(err, EBADMSG,
				 "%" PRIu64 " of %s %s damaged, or cannot be "
				 "read",
				 v->n_damaged, files,
				 v->n_damaged == 1 ? "is" : "are");
	if (v->n_changing)
		return error_set(err, EBUSY,
				 "%" PRIu64 " of %s %s replaced again and "
				 "again: try those again",
				 v->n_changing, files,
				 v->n_changing == 1 ? "was" : "were");
	printf("%s, %s: all is as it was written\n", files, bytes);
	if (v->n_plain)
		printf("%" PRIu64 " of them plain, without checksums: those "
		       "were only read\n",
		       v->n_plain);
	return 0;
}

static int run_ckpt_verify(const void *config, char **args, struct error *err)
{
	const struct ckpt_verify_config *c = config;
	AUTO(object_store) s = c->access.store;
	struct ckpt_verify v = { .store = s };
	int rc;

	v.bar.bar = progress_new(plain_output_bar());
	rc = ckpt_walk(s, args[1] ? ckpt_store_path(args[1]) : "", verify_file,
		       &v, err);
	progress_free(v.bar.bar);
	return rc == 0 ? print_verified(&v, err) : rc;
}

const struct command ckpt_verify_command = {
	.brief = "Check every byte of files in a store",
	.program = {
		.name = "bootseer ckpt verify",
		.usage = "[OPTIONS] STORE [PATH]",
		.summary = "Read a file, or all files of a folder or of the "
			   "store, and check every chunk against the checksum "
			   "that was made when it was written. Each file that "
			   "is damaged is named.",
		.options = options,
		.min_args = 1,
		.max_args = 2,
	},
	.config_size = sizeof(struct ckpt_verify_config),
	.open = ckpt_open_first,
	.run = run_ckpt_verify,
};
