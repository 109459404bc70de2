// SPDX-License-Identifier: Apache-2.0
/*
 * The file: back end. An object is a file; its name is the path below the directory of the URL.
 * Until the commit, which is a rename, the file is below .bootseer/tmp/.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "common/clock.h"
#include "objects/file/file_path.h"
#include "objects/store/parts.h"

static int file_stat(struct object_store *s, const char *name,
		     struct object_stat *ret, struct error *err)
{
	struct stat st;
	int rc = file_look(file_store_of(s), name, &st, err);

	if (rc == 0)
		file_stat_fill(&st, ret);
	return rc;
}

/* ------------------------------------------------------------------- names --- */

static int file_remove(struct object_store *s, const char *name,
		       const char *tag, struct error *err)
{
	struct file_store *f = file_store_of(s);
	AUTO_CLOSE int lock = -1;
	struct stat st;
	int rc = tag ? file_lock(f, name, &lock, err)
		     : file_lock_if_any(f, name, &lock, err);

	if (rc == 0 && tag)
		rc = file_look(f, name, &st, err);
	if (rc == 0 && tag)
		rc = file_check_tag(f, name, tag, err);
	if (rc < 0)
		return rc;
	if (file_path_unlink(f, name, 0) < 0) {
		int code =
			errno == EISDIR || file_is_none(errno) ? ENOENT : errno;

		return file_error(f, code, "remove", name, err);
	}
	return file_sync_parent(f, name, err);
}

static int file_remove_folder(struct object_store *s, const char *folder,
			      struct error *err)
{
	struct file_store *f = file_store_of(s);

	if (file_path_unlink(f, folder, AT_REMOVEDIR) < 0)
		return file_error(f, errno == EEXIST ? ENOTEMPTY : errno,
				  "remove", folder, err);
	return file_sync_parent(f, folder, err);
}

static int file_rename(struct object_store *s, const char *from, const char *to,
		       enum object_condition condition, struct error *err)
{
	struct file_store *f = file_store_of(s);
	AUTO_CLOSE int first = -1, second = -1;
	struct stat st;
	int rc = file_lock_both(f, from, to, &first, &second, err);

	if (rc == 0)
		rc = file_look(f, from, &st, err);
	if (rc == 0)
		rc = file_move(f, from, to, condition, err);
	if (rc == 0)
		rc = file_sync_parent(f, to, err);
	return rc == 0 ? file_sync_parent(f, from, err) : rc;
}

static void file_free(struct object_store *s)
{
	struct file_store *f = file_store_of(s);

	file_engine_free(f->engine);
	fd_close(f->root);
	free(f->path);
	store_fini(s);
	free(f);
}

static const struct object_store_ops file_ops = {
	.probe = file_store_probe,
	.probe_conditions = file_store_probe_conditions,
	.stat = file_stat,
	.list = file_store_list,
	.open = file_store_open_object,
	.read = file_store_read,
	.close = file_store_close,
	.put_open = file_store_put_open,
	.put_write = file_store_put_write,
	.put_room = put_parts_room,
	.put_commit = file_store_put_commit,
	.put_free = file_store_put_free,
	.remove = file_remove,
	.remove_folder = file_remove_folder,
	.rename = file_rename,
	.sweep = file_store_sweep,
	.free = file_free,
};

/* -------------------------------------------------------------------- open --- */

static int open_root(struct file_store *f, const struct store_url *url,
		     struct error *err)
{
	if (*url->authority)
		return error_set(err, EINVAL,
				 "'file://%.80s': want an absolute path, as "
				 "in file:///DIR",
				 url->authority);
	if (asprintf(&f->path, "/%s", url->path) < 0) {
		f->path = NULL;
		return error_nomem(err);
	}
	f->root = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->root >= 0)
		file_share_init(f);
	if (f->root < 0)
		return error_set(err, errno, "open '%s': %s%s", f->path,
				 strerror(errno),
				 errno == ENOENT ? ": make the directory, or "
						   "mount what has it"
						 : file_cure(errno));
	return 0;
}

static int file_open(struct store_url *url,
		     const struct object_store_config *cfg,
		     struct object_store **ret, struct error *err)
{
	struct file_store *f = calloc(1, sizeof(*f));
	bool auto_io = true, auto_direct = true;
	int rc;

	if (!f)
		return error_nomem(err);
	f->root = -1;
	rc = store_init(&f->base, &file_ops, url, cfg, 0, err);
	if (rc == 0)
		rc = store_url_take_either(url, "io", "auto", "threads",
					   &auto_io, err);
	if (rc == 0)
		rc = store_url_take_either(url, "direct", "auto", "never",
					   &auto_direct, err);
	if (rc == 0)
		rc = open_root(f, url, err);
	if (rc == 0)
		rc = file_engine_new(!auto_io, f->base.memory, &f->engine, err);
	if (rc < 0) {
		file_free(&f->base);
		return rc;
	}
	f->may_direct = auto_direct;
	f->align = STORE_MEMORY_ALIGN;
	if (cfg->parallel)
		file_engine_set_depth(f->engine, cfg->parallel);
	f->base.caps = (struct object_caps){
		.has_new = true,
		.has_match = true,
		.has_match_delete = true,
		.has_rename = true,
		.has_replace = true,
		.is_uring = file_engine_is_uring(f->engine),
		.is_direct = f->may_direct,
		.parallel = file_engine_depth(f->engine),
		.read_size = FILE_PIECE,
		.part_size = FILE_PIECE,
	};
	*ret = &f->base;
	return 0;
}

static const char *const schemes[] = { "file", NULL };

const struct object_store_kind file_store_kind = {
	.schemes = schemes,
	.open = file_open,
};
