// SPDX-License-Identifier: Apache-2.0
/* `bootseer ckpt cp`: files into a store and out of it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/ckpt.h"
#include "cli/ckpt_local.h"
#include "cli/plain_output.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/progress.h"
#include "common/side_by_side.h"

struct ckpt_cp_config {
	struct ckpt_access access;
	uint64_t columns;
	bool recursive;
};

static const struct option_spec options[] = {
	{ .key = "recursive",
	  .letter = 'r',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct ckpt_cp_config, recursive),
	  .help = "Folders, with all files below them." },
	{ .key = "columns",
	  .type = OPTION_INTEGER,
	  .def = "0",
	  .min = "0",
	  .max = "64",
	  .offset = offsetof(struct ckpt_cp_config, columns),
	  .help = "Objects that a file is striped over, which are read and "
		  "written side by side; 0: by its size, 8 from 64 MiB on." },
	CKPT_ACCESS_OPTIONS,
	{ .key = NULL },
};

struct ckpt_cp {
	const struct ckpt_cp_config *cfg;
	struct object_store *store;
	const char *from, *to;
	bool is_into; /* `to` is a folder, and the file keeps its name */
	char *folder; /* folder for which it was checked that no file has
	               * the name of one above */
	struct ckpt_bar bar;
	bool is_probed; /* the store was probed before the first write */
	uint64_t n_files, n_bytes;
};

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ------------------------------------------------------------------- into it --- */

static struct ckpt_write_options write_options_of(const struct ckpt_cp *cp,
						  const struct stat *st)
{
	return (struct ckpt_write_options){
		.size = (uint64_t)st->st_size,
		.columns = (uint32_t)cp->cfg->columns,
		.attr = { .mode = st->st_mode & 07777,
			  .uid = st->st_uid,
			  .gid = st->st_gid,
			  .mtime_ns = clock_ns_of(st->st_mtim) },
	};
}

/* Check that no file has the name of a folder above `path`: buckets would allow that. */
static int check_no_file_above(struct ckpt_cp *cp, const char *path,
			       struct error *err)
{
	AUTO_FREE char *above = strdup(path);
	struct ckpt_stat ignored;
	char *slash;
	int rc = above ? -ENOENT : error_nomem(err);

	while (rc == -ENOENT && (slash = strrchr(above, '/'))) {
		*slash = '\0';
		if (cp->folder && strcmp(cp->folder, above) == 0)
			return 0;
		rc = ckpt_stat(cp->store, above, &ignored, err);
		/* -ENOTDIR: a plain file is higher up, and the loop gets to it.  -EINVAL: no file
		 * can have such a name. */
		if (rc == -ENOTDIR || rc == -EINVAL)
			rc = -ENOENT;
		if (rc == 0)
			return error_set(err, ENOTDIR,
					 "':%.200s' is a file, and no folder",
					 above);
	}
	if (rc < 0 && rc != -ENOENT && rc != -EISDIR)
		return rc;
	free(cp->folder);
	slash = strrchr(path, '/');
	cp->folder = strndup(path, slash ? (size_t)(slash - path) : 0);
	return cp->folder ? 0 : error_nomem(err);
}

/* Get the version of the file to be replaced, so that a version that another process writes from
 * now on is kept.  A folder may not be replaced by a file. */
static int find_replaced_version(struct ckpt_cp *cp, const char *path,
				 struct ckpt_version *ret, struct error *err)
{
	int rc = ckpt_look(cp->store, path, ret, NULL, err);

	if (rc == -EISDIR)
		return error_set(err, EISDIR,
				 "':%.100s' is a folder: write ':%.100s/'",
				 path, path);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return check_no_file_above(cp, path, err);
	return rc == -EBADMSG ? 0 : rc;
}

/* Check that the store answers, and whether it can compare versions.  Only silence is an error
 * here, so as not to wait for its timeout twice; the first write reports others. */
static int probe_store_answers(struct object_store *s, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = object_store_probe(s, &why);

	if (rc != -ETIMEDOUT && rc != -ECONNREFUSED)
		return 0;
	*err = why;
	return rc;
}

/* The requests before the first byte of the first file: one for the store, one for the path. */
struct first_look {
	struct ckpt_cp *cp;
	const char *path;
	struct ckpt_version version;
	struct error err; /* error of the request for the path */
	int rc;
};

static int probe_store_or_path(void *arg, unsigned int index, struct error *err)
{
	struct first_look *l = arg;

	if (index == 0)
		return probe_store_answers(l->cp->store, err);
	l->rc = find_replaced_version(l->cp, l->path, &l->version, &l->err);
	return 0;
}

/* Probe the store and look at the path: in parallel for a remote store, where each is a round
 * trip; a local directory is probed first. */
static int probe_before_write(struct ckpt_cp *cp, const char *path,
			      struct ckpt_version *ret, struct error *err)
{
	struct first_look l = { .cp = cp, .path = path };
	int rc = 0;

	if (!cp->is_probed && object_store_caps(cp->store).is_remote) {
		rc = side_by_side(2, probe_store_or_path, &l, err);
	} else {
		rc = cp->is_probed ? 0 : probe_store_or_path(&l, 0, err);
		if (rc == 0)
			rc = probe_store_or_path(&l, 1, err);
	}
	if (rc < 0)
		return rc;
	cp->is_probed = true;
	if (l.rc < 0)
		*err = l.err;
	else if (ckpt_store_compares(cp->store))
		*ret = l.version;
	return l.rc;
}

static int upload_file(struct ckpt_cp *cp, const char *local, const char *path,
		       struct error *err)
{
	const struct ckpt_progress progress = { ckpt_bar_step, &cp->bar };
	AUTO_CLOSE int fd = open(local, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct ckpt_version version = { .is_known = false };
	struct ckpt_write_options o;
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "'%s'", local);
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL,
				 "'%s' is no file%s: only files are kept in "
				 "stores",
				 local,
				 S_ISDIR(st.st_mode) ? ", but a folder (-r)"
						     : "");
	o = write_options_of(cp, &st);
	cp->bar.what = local;
	rc = probe_before_write(cp, path, &version, err);
	o.version = &version;
	if (rc == 0)
		rc = ckpt_upload(cp->store, fd, path, &o, &progress, NULL, err);
	if (rc < 0)
		return error_wrap(err, rc, "'%s'", local);
	cp->bar.before += o.size;
	cp->n_bytes += o.size;
	cp->n_files++;
	return 0;
}

static int upload_found_file(void *arg, const char *local, const char *below,
			     struct error *err)
{
	struct ckpt_cp *cp = arg;
	AUTO_BUF path = BUF_INIT;

	if (buf_printf(&path, "%s%s%s", cp->to, *cp->to && *below ? "/" : "",
		       below) < 0)
		return error_nomem(err);
	return upload_file(cp, local, path.data, err);
}

static int copy_in(struct ckpt_cp *cp, struct error *err)
{
	AUTO_BUF to = BUF_INIT;
	struct stat st;

	if (stat(cp->from, &st) < 0)
		return error_errno(err, errno, "'%s'", cp->from);
	if (cp->cfg->recursive && S_ISDIR(st.st_mode))
		return ckpt_local_walk(cp->from, upload_found_file, cp, err);
	if (buf_puts(&to, cp->to) < 0 ||
	    (cp->is_into && buf_printf(&to, "%s%s", *cp->to ? "/" : "",
				       last_part(cp->from)) < 0))
		return error_nomem(err);
	return upload_file(cp, cp->from, to.data, err);
}

/* ------------------------------------------------------------------- out of it --- */

static int download_opened(struct ckpt_cp *cp, struct ckpt_file *f,
			   const char *path, const char *local,
			   struct error *err)
{
	const struct ckpt_progress progress = { ckpt_bar_step, &cp->bar };
	const struct ckpt_stat st = *ckpt_file_stat(f);
	AUTO(ckpt_local) out = NULL;
	int rc = ckpt_local_new(local, &out, err);

	cp->bar.what = path;
	if (rc == 0)
		rc = ckpt_download(f, ckpt_local_fd(out), 0, &progress, err);
	if (rc == 0)
		rc = ckpt_local_commit(out, &st.attr, err);
	if (rc < 0)
		return error_wrap(err, rc, "'%s'", local);
	cp->bar.before += st.size;
	cp->n_bytes += st.size;
	cp->n_files++;
	return 0;
}

static int get_file(struct ckpt_cp *cp, const char *path, const char *local,
		    struct error *err)
{
	struct ckpt_file *f;
	int rc = ckpt_open_whole(cp->store, path, &f, err);

	if (rc < 0)
		return rc;
	rc = download_opened(cp, f, path, local, err);
	ckpt_close(f);
	return rc;
}

static int download_found_file(void *arg, const char *path, struct error *err)
{
	struct ckpt_cp *cp = arg;
	AUTO_BUF local = BUF_INIT;
	size_t skip = strlen(cp->from);
	char *slash;
	int rc;

	while (path[skip] == '/')
		skip++;
	if (buf_printf(&local, "%s/%s", cp->to, path + skip) < 0)
		return error_nomem(err);
	slash = strrchr(local.data, '/');
	*slash = '\0';
	rc = fs_mkdir_p(local.data, 0777, err);
	*slash = '/';
	return rc < 0 ? rc : get_file(cp, path, local.data, err);
}

static int copy_file_out(struct ckpt_cp *cp, struct ckpt_file *f,
			 struct error *err)
{
	AUTO_BUF to = BUF_INIT;
	struct stat local;

	if (buf_puts(&to, cp->to) < 0)
		return error_nomem(err);
	if (stat(cp->to, &local) == 0 && S_ISDIR(local.st_mode) &&
	    buf_printf(&to, "/%s", last_part(cp->from)) < 0)
		return error_nomem(err);
	return download_opened(cp, f, cp->from, to.data, err);
}

/* Opening the path as a file first saves a request: its manifest is fetched once. */
static int copy_out(struct ckpt_cp *cp, struct error *err)
{
	struct ckpt_file *f;
	int rc = *cp->from ? ckpt_open_whole(cp->store, cp->from, &f, err)
			   : -EISDIR;

	if (rc == -EISDIR && cp->cfg->recursive)
		return ckpt_walk(cp->store, cp->from, download_found_file, cp,
				 err);
	if (rc == -EISDIR)
		return error_set(err, EISDIR,
				 "':%s' is a folder: copy it with -r",
				 cp->from);
	if (rc < 0)
		return rc;
	rc = copy_file_out(cp, f, err);
	ckpt_close(f);
	return rc;
}

/* ---------------------------------------------------------------------- the command --- */

static int check_ckpt_cp(const void *config, char **args, struct error *err)
{
	bool from = *args[1] == ':', to = *args[2] == ':';

	if (!*args[1] || !*args[2])
		return error_set(err, EINVAL,
				 "a path is empty: want FROM and TO");
	if (from == to)
		return error_set(
			err, EINVAL,
			"one of '%.100s' and '%.100s' is in the store, "
			"and begins with a colon",
			args[1], args[2]);
	return 0;
}

static void print_copied(const struct ckpt_cp *cp, int64_t began_ns)
{
	char bytes[PROGRESS_BYTES_MAX], rate[PROGRESS_BYTES_MAX];
	char files[PROGRESS_COUNT_MAX];
	int64_t ns = clock_now_ns() - began_ns + 1;

	progress_format_bytes(cp->n_bytes, bytes);
	progress_format_bytes((uint64_t)((double)cp->n_bytes * NS_PER_S /
					 (double)ns),
			      rate);
	progress_format_count(cp->n_files, "file", files);
	printf("%s, %s in %.1f s (%s/s)\n", files, bytes, (double)ns / NS_PER_S,
	       rate);
}

static int run_ckpt_cp(const void *config, char **args, struct error *err)
{
	struct ckpt_cp cp = { .cfg = config };
	bool is_in = *args[2] == ':';
	char end = args[2][strlen(args[2]) - 1];
	int64_t began_ns = clock_now_ns();
	AUTO(object_store) s = cp.cfg->access.store;
	int rc;

	cp.store = s;
	cp.from = is_in ? args[1] : ckpt_store_path(args[1]);
	cp.to = is_in ? ckpt_store_path(args[2]) : args[2];
	cp.is_into = end == ':' || end == '/';
	cp.bar.bar = progress_new(plain_output_bar());
	rc = is_in ? copy_in(&cp, err) : copy_out(&cp, err);
	progress_free(cp.bar.bar);
	free(cp.folder);
	if (rc == 0)
		print_copied(&cp, began_ns);
	return rc;
}

const struct command ckpt_cp_command = {
	.brief = "Copy files into a store, striped, or out of it",
	.program = {
		.name = "bootseer ckpt cp",
		.usage = "[OPTIONS] STORE FROM TO",
		.summary = "Copy a file into the store or out of it. That of "
			   "FROM and TO which is in the store begins with a "
			   "colon. What is larger than 4 MiB is striped over "
			   "several objects; every chunk is checked when it is "
			   "read. A file is there when it is whole, or the one "
			   "before still is. With a slash at its end TO is a "
			   "folder, and is written into.",
		.options = options,
		.examples = "bootseer ckpt cp s3://bucket/run7 model.pt "
			    ":step-100/model.pt\n"
			    "bootseer ckpt cp -r hdfs://namenode:9870/ckpt "
			    ":step-100 ./step-100\n",
		.min_args = 3,
	},
	.config_size = sizeof(struct ckpt_cp_config),
	.check = check_ckpt_cp,
	.open = ckpt_open_first,
	.run = run_ckpt_cp,
};
