// SPDX-License-Identifier: Apache-2.0
/* Folders that are there without files: an empty object in each marks it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/names.h"
#include "common/buf.h"

int mark_name(const char *folder, struct mark_name *ret, struct error *err)
{
	struct manifest_name ignored;
	int rc = *folder ? manifest_name(folder, &ignored, err) : 0;
	int n;

	if (rc < 0)
		return rc;
	n = snprintf(ret->s, sizeof(ret->s), "%s%s" FOLDER_MARK, folder,
		     *folder ? "/" : "");
	return n < (int)sizeof(ret->s)
		       ? 0
		       : error_set(err, EINVAL, "'%.60s...' is too long",
				   folder);
}

int ckpt_folder_make(struct object_store *s, const char *path,
		     struct error *err)
{
	static const struct object_put_options fresh = { .condition =
								 OBJECT_NEW };
	struct mark_name mark;
	int rc = mark_name(path, &mark, err);

	if (rc == 0)
		rc = object_put(s, mark.s, "", 0, &fresh, NULL, err);
	return rc == -EEXIST ? 0 : rc;
}

static int found_file(void *arg, const struct ckpt_entry *e, struct error *err)
{
	return -ENOTEMPTY; /* one is enough */
}

int ckpt_folder_remove(struct object_store *s, const char *path,
		       struct error *err)
{
	struct mark_name mark;
	int rc = mark_name(path, &mark, err);

	if (rc == 0)
		rc = ckpt_list(s, path, found_file, NULL, err);
	if (rc == -ENOTEMPTY)
		return error_set(err, ENOTEMPTY, "'%.200s' has files", path);
	if (rc == 0)
		rc = name_remove(s, mark.s, err);
	return rc == 0 ? object_folder_remove(s, path, err) : rc;
}

static int found_any(void *arg, const struct object_entry *e, struct error *err)
{
	bool *is_there = arg;

	*is_there = true;
	return -ECANCELED;
}

int ckpt_is_folder(struct object_store *s, const char *path, struct error *err)
{
	bool is_there = false;
	int rc = object_list(s, path, false, found_any, &is_there, err);

	return is_there ? 1 : rc;
}

/* --------------------------------------------------------------------- rename --- */

static int add_name(void *arg, const struct object_entry *e, struct error *err)
{
	return name_list_add(arg, e->name, strlen(e->name), err);
}

/* What it marks goes last: the folder is there as long as something is in it. */
static int by_mark(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return (int)name_is_mark(*x) - (int)name_is_mark(*y);
}

static int rename_below(struct object_store *s, const char *name,
			const char *from, const char *to, struct error *err)
{
	AUTO_BUF path = BUF_INIT;

	if (buf_printf(&path, "%s%s", to, name + strlen(from)) < 0)
		return error_nomem(err);
	return object_rename(s, name, path.data, OBJECT_ANY, err);
}

static int add_folder(void *arg, const struct object_entry *e,
		      struct error *err)
{
	return e->is_folder ? add_name(arg, e, err) : 0;
}

/* Where folders are real those that are empty now are left. */
static int remove_empty(struct object_store *s, const char *folder,
			struct error *err)
{
	struct name_list below = { .n = 0 };
	int rc = object_list(s, folder, false, add_folder, &below, err);

	for (size_t i = 0; i < below.n && rc == 0; i++)
		rc = remove_empty(s, below.all[i], err);
	name_list_fini(&below);
	return rc == 0 ? object_folder_remove(s, folder, err) : rc;
}

int ckpt_folder_rename(struct object_store *s, const char *from, const char *to,
		       struct error *err)
{
	struct error ignored = ERROR_INIT;
	struct name_list l = { .n = 0 };
	struct mark_name mark;
	int rc = mark_name(from, &mark, err);

	if (rc == 0)
		rc = mark_name(to, &mark, err);
	if (rc == 0)
		rc = object_list(s, from, true, add_name, &l, err);
	if (l.n)
		qsort((void *)l.all, l.n, sizeof(*l.all), by_mark);
	for (size_t i = 0; i < l.n && rc == 0; i++)
		rc = rename_below(s, l.all[i], from, to, err);
	name_list_fini(&l);
	/* Files that were written meanwhile stay. */
	if (rc == 0)
		(void)!remove_empty(s, from, &ignored);
	return rc;
}
