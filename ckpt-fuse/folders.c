// SPDX-License-Identifier: Apache-2.0
/* Folders that are there without files: an empty object in each marks it. */
#include <errno.h>
#include <string.h>

#include "ckpt-fuse/names.h"

struct mark_name {
	char s[OBJECT_NAME_MAX + 1];
};

static int mark_name(const char *folder, struct mark_name *ret,
		     struct error *err)
{
	struct manifest_name ignored;
	int rc = manifest_name(folder, &ignored, err);
	int n;

	if (rc < 0)
		return rc;
	n = snprintf(ret->s, sizeof(ret->s), "%s/" FOLDER_MARK, folder);
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
		rc = names_remove(s, mark.s, err);
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
