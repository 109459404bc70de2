// SPDX-License-Identifier: Apache-2.0
/* Folders without files: an empty object marks each. */
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
		       : error_set(err, ENAMETOOLONG, "'%.60s...' is too long",
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
	return rc;
}

static int refuse_other_content(void *arg, const struct object_entry *e,
				struct error *err)
{
	const char *folder = arg;
	bool is_mark = e->is_marker ? strcmp(e->name, folder) == 0
				    : !e->is_folder && name_is_mark(e->name);

	if (is_mark)
		return 0;
	if (e->is_odd)
		return error_set(err, ENOTEMPTY,
				 "'%.200s' has objects of other programs that "
				 "no file can be, which 'bootseer ckpt ls' "
				 "names",
				 folder);
	return error_set(err, ENOTEMPTY, "'%.200s' has files", folder);
}

int ckpt_folder_remove(struct object_store *s, const char *path,
		       struct error *err)
{
	struct mark_name mark;
	int rc = mark_name(path, &mark, err);

	if (rc == 0)
		rc = object_list_all(s, path, false, refuse_other_content,
				     (void *)(uintptr_t)path, err);
	if (rc == 0)
		rc = name_remove(s, mark.s, err);
	return rc == 0 ? object_folder_remove(s, path, err) : rc;
}

static int note_any_object(void *arg, const struct object_entry *e,
			   struct error *err)
{
	bool *is_there = arg;

	*is_there = true;
	return -ECANCELED;
}

int ckpt_is_folder(struct object_store *s, const char *path, struct error *err)
{
	bool is_there = false;
	int rc = object_list_all(s, path, false, note_any_object, &is_there,
				 err);

	return is_there ? 1 : rc;
}

/* Names below a folder that is renamed: objects, and folder markers of other tools. */
struct folder_move {
	struct name_list names, markers;
};

static int add_name(void *arg, const struct object_entry *e, struct error *err)
{
	struct folder_move *m = arg;

	if (e->is_odd)
		return error_set(err, ENOTSUP,
				 "'%.200s' is in it, which no object can be "
				 "named here",
				 e->name);
	return name_list_add(e->is_marker ? &m->markers : &m->names, e->name,
			     strlen(e->name), err);
}

/* Order of removal: markers last, because a folder exists as long as it contains something. */
static int compare_names_marks_last(const void *a, const void *b)
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
	return e->is_folder ? name_list_add(arg, e->name, strlen(e->name), err)
			    : 0;
}

/* Remove the real folders that are empty now, in a store that has real folders. */
static int remove_empty_folders(struct object_store *s, const char *folder,
				struct error *err)
{
	struct name_list below = { .n = 0 };
	int rc = object_list(s, folder, false, add_folder, &below, err);

	for (size_t i = 0; i < below.n && rc == 0; i++)
		rc = remove_empty_folders(s, below.all[i], err);
	name_list_fini(&below);
	return rc == 0 ? object_folder_remove(s, folder, err) : rc;
}

/* Rename a folder's marker; the new marker is in our own form. */
static int move_marker(struct object_store *s, const char *name,
		       const char *from, const char *to, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc;

	if (buf_printf(&path, "%s%s", to, name + strlen(from)) < 0)
		return error_nomem(err);
	rc = ckpt_folder_make(s, path.data, err);
	return rc == 0 || rc == -EEXIST ? object_folder_remove(s, name, err)
					: rc;
}

int ckpt_folder_rename(struct object_store *s, const char *from, const char *to,
		       struct error *err)
{
	struct error ignored = ERROR_INIT;
	struct folder_move m = { .names = { .n = 0 } };
	struct mark_name mark;
	int rc = mark_name(from, &mark, err);

	if (rc == 0)
		rc = mark_name(to, &mark, err);
	if (rc == 0)
		rc = object_list_all(s, from, true, add_name, &m, err);
	if (m.names.n)
		qsort((void *)m.names.all, m.names.n, sizeof(*m.names.all),
		      compare_names_marks_last);
	for (size_t i = 0; i < m.names.n && rc == 0; i++)
		rc = rename_below(s, m.names.all[i], from, to, err);
	for (size_t i = 0; i < m.markers.n && rc == 0; i++)
		rc = move_marker(s, m.markers.all[i], from, to, err);
	name_list_fini(&m.names);
	name_list_fini(&m.markers);
	/* Files written into the old folder in the meantime stay. */
	if (rc == 0)
		(void)!remove_empty_folders(s, from, &ignored);
	return rc;
}
