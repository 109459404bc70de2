// SPDX-License-Identifier: Apache-2.0
/* Commits a write: makes the columns durable, then puts one object, which is the commit. The
 * version that existed at the open is compared; if another writer has written the file since, that
 * writer's file stays: docs/decisions/0017-two-writers.md. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt-fuse/writer.h"

/* attempts, since others may change attributes again and again */
#define TRIES 8u

static int check_all_units_written(const struct ckpt_writer *w,
				   struct error *err)
{
	uint64_t unit = manifest_unit(w->manifest);

	for (uint32_t c = 0; c < ckpt_writer_columns(w); c++)
		if (w->next_unit[c] * unit < w->manifest->size)
			return error_set(err, EINVAL,
					 "'%.200s': unit %" PRIu64
					 " was not written",
					 w->path, w->next_unit[c]);
	return 0;
}

/* ------------------------------------------------------------------ what is there --- */

static int set_conflict(const struct ckpt_writer *w, struct error *err)
{
	return error_set(err, ESTALE,
			 "'%.200s' was written by another since it was opened "
			 "here, and is the other one's: write under another "
			 "name, or have one of the two stopped",
			 w->path);
}

/* Remove this version only. Another version belongs to another writer that commits at the same
 * time, and that removes what we have put: if each removed the other's, no file would be left. */
static int remove_replaced_object(struct object_store *s, const char *name,
				  const char *tag, struct error *err)
{
	int rc = *tag ? object_delete(s, name, tag, err) : 0;

	return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
}

/* Check that one of the concurrent writers' files is left. A store without conditional deletes
 * compares the version and then removes the name, so a file that is put in between is lost to
 * ckpt_gc() or another writer. */
static int check_not_removed(struct ckpt_writer *w, struct error *err)
{
	struct object_stat o;
	int rc = object_stat(w->store, w->path, &o, err);

	if (rc == -ENOENT)
		rc = object_stat(w->store, w->name.s, &o, err);
	if (rc != -ENOENT)
		return rc;
	return error_set(err, ESTALE,
			 "'%.200s' was removed while it was written: write it "
			 "again",
			 w->path);
}

/* -------------------------------------------------------------------- striped files --- */

/* Look at the plain object of the same name, just before the manifest appears. */
static int look_at_plain(struct ckpt_writer *w, char ret_tag[OBJECT_TAG_MAX],
			 struct error *err)
{
	int rc = version_tag_now(w->store, w->path, ret_tag, err);

	/* A missing object was removed or renamed, so nothing is lost by going on. */
	if (rc == 0 && w->version && *ret_tag &&
	    strcmp(ret_tag, w->version->plain) != 0)
		rc = set_conflict(w, err);
	return rc;
}

/* The manifest to replace is gone. The plain object that it hid, or a file written in its place,
 * belongs to others. */
static int handle_gone_manifest(struct ckpt_writer *w, struct error *err)
{
	struct ckpt_version *v = w->version;
	char tag[OBJECT_TAG_MAX];
	int rc = version_tag_now(w->store, w->path, tag, err);

	if (rc == 0 && *v->striped && *tag)
		rc = set_conflict(w, err);
	v->striped[0] = '\0';
	v->generation = 0;
	w->is_base_gone = true;
	return rc;
}

/* The manifest differs from the one at the open. 1: it is ours, from a request whose answer was
 * lost; 0: it names the same bytes as at the open, so the next try replaces it; -ESTALE: another
 * writer's. */
static int look_at_manifest(struct ckpt_writer *w, struct error *err)
{
	struct ckpt_version *v = w->version;
	char tag[OBJECT_TAG_MAX];
	AUTO(manifest) m = NULL;
	uint64_t id;
	int rc = manifest_load_tag(w->store, w->name.s, &m, tag, err);

	if (rc == -ENOENT)
		return handle_gone_manifest(w, err);
	if (rc < 0)
		return rc == -EBADMSG ? set_conflict(w, err) : rc;
	id = manifest_bytes_id(m);
	if (*v->striped && id == v->bytes_id) {
		version_set_tag(v->striped, tag);
		v->generation = m->generation;
		return 0;
	}
	if (!w->is_plain && id == manifest_bytes_id(w->manifest)) {
		version_set_tag(v->striped, tag);
		version_set_manifest(v, m);
		version_set_tag(w->put_tag, tag);
		return 1;
	}
	/* Another writer has continued from our manifest and needs our columns: keep them. */
	if (!w->is_plain && !writer_is_named(w, m))
		w->is_sent = false;
	return set_conflict(w, err);
}

static int set_generation(struct ckpt_writer *w, struct error *err)
{
	uint64_t before = 0;
	int rc = 0;

	if (w->version)
		before = w->version->generation;
	else
		rc = manifest_load_generation(w->store, w->name.s, &before,
					      err);
	/* Without comparison, the base may have been replaced. */
	w->is_base_gone = w->is_base_gone || before == 0 ||
			  (!w->version && before != w->base_generation);
	w->manifest->generation = before + 1;
	return rc;
}

static int try_put_manifest(struct ckpt_writer *w, struct error *err)
{
	struct ckpt_version *v = w->version;
	struct object_put_options o = { .condition = OBJECT_ANY };
	AUTO_BUF data = BUF_INIT;
	struct object_stat st;
	int rc = set_generation(w, err);

	if (rc == 0)
		rc = manifest_encode(w->manifest, &data, err);
	if (rc < 0)
		return rc;
	if (v) {
		o.condition = *v->striped ? OBJECT_MATCH : OBJECT_NEW;
		o.tag = v->striped;
	}
	w->is_sent = true;
	rc = object_put(w->store, w->name.s, data.data, data.len, &o, &st, err);
	if (rc == 0)
		version_set_tag(w->put_tag, st.tag);
	if (rc == 0 && v) {
		version_set_tag(v->striped, st.tag);
		version_set_manifest(v, w->manifest);
	}
	return rc;
}

static int put_manifest(struct ckpt_writer *w, struct error *err)
{
	int rc = -ESTALE;

	for (unsigned int i = 0; i < TRIES && rc == -ESTALE; i++) {
		int there;

		rc = try_put_manifest(w, err);
		if (rc == -EEXIST)
			rc = -ESTALE;
		if (rc != -ESTALE || !w->version)
			return rc;
		there = look_at_manifest(w, err);
		if (there != 0)
			return there == 1 ? 0 : there;
	}
	return rc;
}

/* Another writer, which saw no manifest, has replaced the plain object and was told that it is
 * stored: that object is the file, so ours gives way. */
static int yield_to_plain_object(struct ckpt_writer *w, struct error *err)
{
	struct ckpt_version *v = w->version;
	int rc = object_delete(w->store, w->name.s, v->striped, err);

	if (rc < 0)
		return error_wrap(err, rc,
				  "'%.200s' hides what another has written",
				  w->path);
	w->is_sent = false;
	return set_conflict(w, err);
}

static int fail_base_gone(const struct ckpt_writer *w, struct error *err)
{
	return error_set(err, ESTALE,
			 "'%.200s' was removed while it was written, and 'ckpt "
			 "gc' has given its space back: write all of it again",
			 w->path);
}

/* Check the base again after our put: either gc has seen our manifest, or we see gc's mark. */
static int check_base(struct ckpt_writer *w, struct error *err)
{
	struct error ignored = ERROR_INIT;
	int rc = writer_look_at_base(w, BASE_MARK_TAKEN, err);

	if (rc != -ENOENT)
		return rc;
	if (object_delete(w->store, w->name.s, w->put_tag, &ignored) == 0)
		w->is_sent = false;
	return fail_base_gone(w, err);
}

/* Check the base before the put as well if a file would be replaced: if check_base() failed after
 * the put, our manifest would be taken back and the earlier one would be gone. Parts always have a
 * base that may be gone; for other writers this is known only if nothing is compared. */
static int check_base_before_put(struct ckpt_writer *w, struct error *err)
{
	bool is_replaced = w->version && *w->version->striped;
	int rc = 0;

	if (!w->is_base_gone && (w->version || !w->base_generation))
		return 0;
	if (!w->version) {
		rc = set_generation(w, err);
		is_replaced = w->base_generation || w->manifest->generation > 1;
	}
	if (rc == 0 && w->is_base_gone && is_replaced)
		rc = writer_look_at_base(w, BASE_MARK_LEFT, err);
	return rc == -ENOENT ? fail_base_gone(w, err) : rc;
}

static int commit_striped(struct ckpt_writer *w, struct error *err)
{
	bool was_striped = w->version && *w->version->striped;
	struct error ignored = ERROR_INIT;
	char plain[OBJECT_TAG_MAX];
	int rc = w->is_growing ? ckpt_writer_end_segment(w, err)
			       : writer_commit_columns(w, err);

	if (rc == 0 && w->is_growing)
		rc = writer_fill_manifest(w, err);
	if (rc == 0)
		rc = look_at_plain(w, plain, err);
	if (rc == 0)
		rc = check_base_before_put(w, err);
	if (rc == 0)
		rc = put_manifest(w, err);
	if (rc == 0 && w->is_base_gone)
		rc = check_base(w, err);
	if (rc < 0 || !*plain)
		return rc;
	/* The plain object is hidden by the manifest. If it cannot be removed, ckpt_gc() will do
	 * so. */
	rc = object_delete(w->store, w->path, plain, &ignored);
	if (rc == -ESTALE && w->version && !was_striped)
		return yield_to_plain_object(w, err);
	if (rc == 0 && w->version)
		w->version->plain[0] = '\0';
	return check_not_removed(w, err);
}

/* ---------------------------------------------------------------------- plain files --- */

/* Look at the manifest just before the plain object is put, which the manifest hides. */
static int look_at_striped(struct ckpt_writer *w, char ret_tag[OBJECT_TAG_MAX],
			   struct error *err)
{
	struct ckpt_version *v = w->version;
	int rc = version_tag_now(w->store, w->name.s, ret_tag, err);

	if (rc < 0 || !v || strcmp(ret_tag, v->striped) == 0)
		return rc;
	if (!*ret_tag)
		return handle_gone_manifest(w, err);
	rc = look_at_manifest(w, err);
	version_set_tag(ret_tag, v->striped);
	return rc;
}

/* The put was refused, because the plain object is another than the one at the open. */
static int handle_refused_plain_put(struct ckpt_writer *w, struct error *err)
{
	char tag[OBJECT_TAG_MAX];
	int rc = version_tag_now(w->store, w->path, tag, err);

	if (rc == 0 && *tag)
		rc = set_conflict(w, err);
	if (rc < 0)
		return rc;
	w->version->plain[0] = '\0';
	return error_set(err, EAGAIN,
			 "'%.200s' was removed while it was written: write it "
			 "again",
			 w->path);
}

/* Remove the manifest, which makes the plain object visible. If another writer has put a manifest,
 * that is the file, and our object is removed. */
static int remove_manifest(struct ckpt_writer *w, const char *own_tag,
			   const char *tag, struct error *err)
{
	struct error ignored = ERROR_INIT;
	int rc = w->version ? -ESTALE
			    : remove_replaced_object(w->store, w->name.s, tag,
						     err);

	for (unsigned int i = 0; i < TRIES && rc == -ESTALE; i++) {
		int there;

		if (!*tag)
			return 0;
		rc = object_delete(w->store, w->name.s, tag, err);
		if (rc != -ESTALE)
			break;
		there = look_at_manifest(w, err);
		if (there < 0) {
			(void)!object_delete(w->store, w->path, own_tag,
					     &ignored);
			return there;
		}
		tag = w->version->striped;
	}
	if (rc == 0 || rc == -ENOENT)
		return 0;
	return error_wrap(err, rc,
			  "'%.200s' is written, and readers still see the file "
			  "before",
			  w->path);
}

static int commit_plain(struct ckpt_writer *w, struct ckpt_stat *ret,
			struct error *err)
{
	struct ckpt_version *v = w->version;
	char striped[OBJECT_TAG_MAX];
	struct object_stat o;
	/* The column of an empty file needs no request. */
	int rc = writer_column_put(w, 0, err);

	if (rc == 0)
		rc = look_at_striped(w, striped, err);
	if (rc < 0)
		return rc;
	rc = object_put_commit(w->puts[0], &o, err);
	if (v && (rc == -ESTALE || rc == -EEXIST))
		rc = handle_refused_plain_put(w, err);
	if (rc < 0)
		return rc;
	plain_stat(&o, ret);
	rc = remove_manifest(w, o.tag, striped, err);
	if (rc < 0)
		return rc;
	if (v) {
		*v = (struct ckpt_version){ .is_known = true };
		version_set_tag(v->plain, o.tag);
	}
	return *striped ? check_not_removed(w, err) : 0;
}

int ckpt_commit(struct ckpt_writer *w, struct ckpt_stat *ret, struct error *err)
{
	struct ckpt_stat st;
	int rc = w->is_growing ? 0 : check_all_units_written(w, err);

	if (rc < 0)
		return rc;
	if (writer_is_plain(w)) {
		rc = commit_plain(w, &st, err);
	} else {
		rc = commit_striped(w, err);
		manifest_stat(w->manifest, &st);
	}
	if (rc == 0 && ret)
		*ret = st;
	return rc;
}
