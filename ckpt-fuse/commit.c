// SPDX-License-Identifier: Apache-2.0
/* The end of a write: the columns durable, then one put, which is the commit.  What was
 * there when the file was opened is compared, and whoever else has written it since
 * keeps it: docs/decisions/0017-two-writers.md. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt-fuse/writer.h"

#define TRIES 8u /* others may change attributes meanwhile, again and again */

static int is_whole(const struct ckpt_writer *w, struct error *err)
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

/* No other version: that is of a writer who commits, too, and who removes what we
 * have put.  If each took what the other one put, no file would be left. */
static int remove_before(struct object_store *s, const char *name,
			 const char *tag, struct error *err)
{
	int rc = *tag ? object_delete(s, name, tag, err) : 0;

	return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
}

/* A store without a conditional delete looks at the version and then removes the name:
 * a file that is put in between goes, for ckpt_gc() or for another writer.  So whoever
 * is one of several looks whether any is left. */
static int check_left(struct ckpt_writer *w, struct error *err)
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

/* The plain object of the name, just before the manifest appears. */
static int look_at_plain(struct ckpt_writer *w, char ret_tag[OBJECT_TAG_MAX],
			 struct error *err)
{
	int rc = version_tag_now(w->store, w->path, ret_tag, err);

	/* An object that is gone was removed, or renamed: nothing of it is lost here. */
	if (rc == 0 && w->version && *ret_tag &&
	    strcmp(ret_tag, w->version->plain) != 0)
		rc = set_conflict(w, err);
	return rc;
}

/* The manifest that we replace is gone.  What it hid, or what was written instead of
 * it, is somebody's file. */
static int manifest_is_gone(struct ckpt_writer *w, struct error *err)
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

/* The manifest is another than the one that was there.  1: it is ours, by a request
 * whose answer was lost; 0: it names the same bytes as before, so that the next try
 * replaces it; -ESTALE: it is somebody else's. */
static int look_at_manifest(struct ckpt_writer *w, struct error *err)
{
	struct ckpt_version *v = w->version;
	char tag[OBJECT_TAG_MAX];
	AUTO(manifest) m = NULL;
	uint64_t id;
	int rc = manifest_load_tag(w->store, w->name.s, &m, tag, err);

	if (rc == -ENOENT)
		return manifest_is_gone(w, err);
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
	/* A writer that went on from our manifest needs its columns. */
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
	/* Where nothing is compared, it may have been replaced. */
	w->is_base_gone = w->is_base_gone || before == 0 ||
			  (!w->version && before != w->base_generation);
	w->manifest->generation = before + 1;
	return rc;
}

static int put_once(struct ckpt_writer *w, struct error *err)
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

		rc = put_once(w, err);
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

/* A plain object was written over the one that we saw, by somebody who saw no manifest
 * and was told that it is stored: it is the file. */
static int give_way(struct ckpt_writer *w, struct error *err)
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

static int say_base_gone(const struct ckpt_writer *w, struct error *err)
{
	return error_set(err, ESTALE,
			 "'%.200s' was removed while it was written, and 'ckpt "
			 "gc' has given its space back: write all of it again",
			 w->path);
}

/* Behind our put: either gc has seen that, or we see what it says. */
static int check_base(struct ckpt_writer *w, struct error *err)
{
	struct error ignored = ERROR_INIT;
	int rc = writer_look_at_base(w, BASE_MARK_TAKEN, err);

	if (rc != -ENOENT)
		return rc;
	if (object_delete(w->store, w->name.s, w->put_tag, &ignored) == 0)
		w->is_sent = false;
	return say_base_gone(w, err);
}

/* A file that is there is not replaced by one that nobody can read: the manifest behind which
 * check_base() looks is then taken back, and the one before it is gone.  Parts always have a base
 * that may be gone; of other writers this is known where nothing is compared. */
static int look_before_put(struct ckpt_writer *w, struct error *err)
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
	return rc == -ENOENT ? say_base_gone(w, err) : rc;
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
		rc = look_before_put(w, err);
	if (rc == 0)
		rc = put_manifest(w, err);
	if (rc == 0 && w->is_base_gone)
		rc = check_base(w, err);
	if (rc < 0 || !*plain)
		return rc;
	/* The plain object is hidden already; one that stays is ckpt_gc()'s. */
	rc = object_delete(w->store, w->path, plain, &ignored);
	if (rc == -ESTALE && w->version && !was_striped)
		return give_way(w, err);
	if (rc == 0 && w->version)
		w->version->plain[0] = '\0';
	return check_left(w, err);
}

/* ---------------------------------------------------------------------- plain files --- */

/* The manifest, just before the plain object appears below it. */
static int look_at_striped(struct ckpt_writer *w, char ret_tag[OBJECT_TAG_MAX],
			   struct error *err)
{
	struct ckpt_version *v = w->version;
	int rc = version_tag_now(w->store, w->name.s, ret_tag, err);

	if (rc < 0 || !v || strcmp(ret_tag, v->striped) == 0)
		return rc;
	if (!*ret_tag)
		return manifest_is_gone(w, err);
	rc = look_at_manifest(w, err);
	version_set_tag(ret_tag, v->striped);
	return rc;
}

/* The plain object is not the one that was there. */
static int plain_refused(struct ckpt_writer *w, struct error *err)
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

/* The file is there when its manifest is not.  Whoever put another one meanwhile has
 * the file, and what we have put goes. */
static int remove_manifest(struct ckpt_writer *w, const char *own_tag,
			   const char *tag, struct error *err)
{
	struct error ignored = ERROR_INIT;
	int rc = w->version ? -ESTALE
			    : remove_before(w->store, w->name.s, tag, err);

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
	/* A column of an empty file has nothing to be sent. */
	int rc = writer_column_put(w, 0, err);

	if (rc == 0)
		rc = look_at_striped(w, striped, err);
	if (rc < 0)
		return rc;
	rc = object_put_commit(w->puts[0], &o, err);
	if (v && (rc == -ESTALE || rc == -EEXIST))
		rc = plain_refused(w, err);
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
	return *striped ? check_left(w, err) : 0;
}

int ckpt_commit(struct ckpt_writer *w, struct ckpt_stat *ret, struct error *err)
{
	struct ckpt_stat st;
	int rc = w->is_growing ? 0 : is_whole(w, err);

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
