// SPDX-License-Identifier: Apache-2.0
/* Renames files, and changes their attributes. */
#include <errno.h>
#include <string.h>

#include "ckpt-fuse/names.h"
#include "common/buf.h"
#include "common/bytes.h"

#define TRIES 8u
#define COPY_AT_ONCE (1 * MIB)

/* Rename a striped file by renaming its manifest in one step; then remove the plain object that it
 * hides. */
static int rename_striped(struct object_store *s,
			  const struct manifest_name *from,
			  const struct manifest_name *to, const char *to_path,
			  struct error *err)
{
	struct error ignored = ERROR_INIT;
	int rc = object_rename(s, from->s, to->s, OBJECT_ANY, err);

	/* The plain object is hidden now. If it cannot be removed, ckpt_gc() will do so. */
	if (rc == 0)
		(void)!name_remove(s, to_path, &ignored);
	return rc;
}

static int copy_bytes(struct object *o, struct object_put *p, struct error *err)
{
	AUTO_FREE char *data = malloc(COPY_AT_ONCE);
	uint64_t size = object_opened_stat(o)->size;
	int rc = data ? 0 : error_nomem(err);

	for (uint64_t at = 0; rc == 0 && at < size; at += COPY_AT_ONCE) {
		struct object_range r = { .off = at,
					  .len = COPY_AT_ONCE,
					  .buf = data };

		if (size - at < r.len)
			r.len = size - at;
		rc = object_read(o, &r, 1, 0, err);
		if (rc == 0)
			rc = object_put_write(p, data, r.len, err);
	}
	return rc;
}

static int copy_object(struct object_store *s, const char *from, const char *to,
		       struct error *err)
{
	AUTO(object_put) p = NULL;
	struct object *o;
	int rc = object_open(s, from, &o, err);

	if (rc < 0)
		return rc;
	rc = object_put_open(s, to, NULL, &p, err);
	if (rc == 0)
		rc = copy_bytes(o, p, err);
	if (rc == 0)
		rc = object_put_commit(p, NULL, err);
	object_close(o);
	return rc;
}

/* Rename a plain file to a name that has a manifest. The old file stays visible until its manifest
 * is removed, and the renamed one keeps its old name until all is done. */
static int rename_below(struct object_store *s, const char *from,
			const char *to, const struct manifest_name *hiding,
			struct error *err)
{
	int rc = copy_object(s, from, to, err);

	if (rc == 0)
		rc = name_remove(s, hiding->s, err);
	return rc == 0 ? name_remove(s, from, err) : rc;
}

static int rename_plain(struct object_store *s, const char *from,
			const char *to, const struct manifest_name *to_name,
			struct error *err)
{
	struct object_stat o;
	int rc = object_stat(s, to_name->s, &o, err);

	if (rc == 0)
		return rename_below(s, from, to, to_name, err);
	if (rc == -ENOENT)
		rc = object_rename(s, from, to, OBJECT_ANY, err);
	return rc == -ENOENT ? names_missing(s, from, err) : rc;
}

int ckpt_rename(struct object_store *s, const char *from, const char *to,
		struct error *err)
{
	struct manifest_name from_name, to_name;
	struct object_stat o;
	int rc = manifest_name(from, &from_name, err);

	if (rc == 0)
		rc = manifest_name(to, &to_name, err);
	if (rc < 0 || strcmp(from, to) == 0)
		return rc;
	rc = object_stat(s, from_name.s, &o, err);
	if (rc == -ENOENT)
		return rename_plain(s, from, to, &to_name, err);
	/* Remove the plain object hidden by the manifest, which would become visible. */
	if (rc == 0)
		rc = name_remove(s, from, err);
	return rc == 0 ? rename_striped(s, &from_name, &to_name, to, err) : rc;
}

/* Set the attributes in one attempt. -ESTALE: the file was replaced meanwhile; the new file stays
 * as it is. */
static int set_attr_once(struct object_store *s, const char *name,
			 const struct ckpt_attr *attr, struct error *err)
{
	char tag[OBJECT_TAG_MAX];
	struct object_put_options o = { .condition = OBJECT_MATCH, .tag = tag };
	AUTO(manifest) m = NULL;
	AUTO_BUF data = BUF_INIT;
	int rc = manifest_load_tag(s, name, &m, tag, err);

	if (rc < 0)
		return rc;
	m->attr = *attr;
	m->attr.mode &= 07777;
	m->generation++;
	rc = manifest_encode(m, &data, err);
	return rc == 0 ? object_put(s, name, data.data, data.len, &o, NULL, err)
		       : rc;
}

/* ------------------------------------------------------- extended attributes --- */

/* The name of the object that stores the attributes: a file's manifest, or a folder's marker, which
 * is empty or a manifest without bytes. */
static int get_xattr_record_name(const char *path, bool is_folder,
				 struct manifest_name *ret, struct error *err)
{
	struct mark_name mark;
	int rc;

	if (!is_folder)
		return manifest_name(path, ret, err);
	rc = mark_name(path, &mark, err);
	if (rc == 0)
		(void)snprintf(ret->s, sizeof(ret->s), "%s", mark.s);
	return rc;
}

/* Load the object with the attributes; `ret_tag` "": there is none. */
static int load_record(struct object_store *s, const char *name, bool is_folder,
		       struct manifest **ret, char ret_tag[OBJECT_TAG_MAX],
		       struct error *err)
{
	struct object_stat o;
	int rc;

	ret_tag[0] = '\0';
	if (!is_folder)
		return manifest_load_tag(s, name, ret, ret_tag, err);
	rc = object_stat(s, name, &o, err);
	if (rc == 0 && o.size)
		return manifest_load_tag(s, name, ret, ret_tag, err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (rc == 0)
		(void)snprintf(ret_tag, OBJECT_TAG_MAX, "%s", o.tag);
	rc = manifest_new(0, 0, ret, err);
	if (rc < 0)
		return rc;
	(*ret)->chunk_size = (uint32_t)MIB;
	(*ret)->unit_chunks = 1;
	(*ret)->attr.mode = 0755;
	return 0;
}

int ckpt_get_xattrs(struct object_store *s, const char *path, bool is_folder,
		    struct buf *ret, struct error *err)
{
	char tag[OBJECT_TAG_MAX];
	struct manifest_name name;
	AUTO(manifest) m = NULL;
	int rc = get_xattr_record_name(path, is_folder, &name, err);

	if (rc == 0)
		rc = load_record(s, name.s, is_folder, &m, tag, err);
	buf_reset(ret);
	if (rc == -ENOENT)
		return 0;
	if (rc == 0 && m->xattrs.len &&
	    buf_append(ret, m->xattrs.data, m->xattrs.len) < 0)
		return error_nomem(err);
	return rc;
}

static int change_once(struct object_store *s, const char *name, bool is_folder,
		       const struct xattr_change *c, struct error *err)
{
	char tag[OBJECT_TAG_MAX];
	struct object_put_options o = { .condition = OBJECT_NEW, .tag = tag };
	AUTO(manifest) m = NULL;
	AUTO_BUF data = BUF_INIT;
	int rc = load_record(s, name, is_folder, &m, tag, err);

	if (rc == 0)
		rc = xattrs_change(&m->xattrs, c, err);
	if (rc < 0)
		return rc;
	m->generation++;
	if (*tag)
		o.condition = OBJECT_MATCH;
	rc = manifest_encode(m, &data, err);
	if (rc == 0)
		rc = object_put(s, name, data.data, data.len, &o, NULL, err);
	return rc == -EEXIST ? -ESTALE : rc;
}

int ckpt_change_xattr(struct object_store *s, const char *path, bool is_folder,
		      const struct xattr_change *c, struct error *err)
{
	struct manifest_name name;
	struct object_stat o;
	int rc = get_xattr_record_name(path, is_folder, &name, err);

	if (rc == 0 && !is_folder)
		rc = object_stat(s, name.s, &o, err);
	if (rc == -ENOENT)
		return error_set(err, ENOTSUP,
				 "'%.200s' is a plain object, which has no "
				 "attributes",
				 path);
	if (rc < 0)
		return rc;
	rc = -ESTALE;
	for (unsigned int i = 0; i < TRIES && rc == -ESTALE; i++)
		rc = change_once(s, name.s, is_folder, c, err);
	return rc;
}

int ckpt_set_attr(struct object_store *s, const char *path,
		  const struct ckpt_attr *attr, struct error *err)
{
	struct manifest_name name;
	int rc = manifest_name(path, &name, err);

	if (rc < 0)
		return rc;
	rc = -ESTALE;
	for (unsigned int i = 0; i < TRIES && rc == -ESTALE; i++)
		rc = set_attr_once(s, name.s, attr, err);
	return rc == -ENOENT
		       ? error_set(err, ENOTSUP,
				   "'%.200s' is a plain object, which has "
				   "no attributes",
				   path)
		       : rc;
}
