// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/version.h"
#include "common/array.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "objects/object_get.h"

#define OWN_FOLDER ".bootseer"
#define PLAIN_MODE 0644u
#define TRIES 5u

_Static_assert(CKPT_NAME_MAX + sizeof(MANIFEST_SUFFIX) - 1 == 255,
	       "the longest name has a manifest");

/* The length of a name without the manifest suffix; 0: it has no suffix, or is nothing else. */
static size_t get_length_without_suffix(const char *name, size_t len)
{
	size_t suffix = strlen(MANIFEST_SUFFIX);

	if (len <= suffix ||
	    strncmp(name + len - suffix, MANIFEST_SUFFIX, suffix) != 0 ||
	    name[len - suffix - 1] == '/')
		return 0;
	return len - suffix;
}

/* Is the last part "." or ".."? The names of their manifests would be valid. */
static bool ends_in_dots(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;

	return strcmp(last, ".") == 0 || strcmp(last, "..") == 0;
}

static bool is_in_own_folder(const char *path)
{
	size_t len = strlen(OWN_FOLDER);

	return strncmp(path, OWN_FOLDER, len) == 0 &&
	       (!path[len] || path[len] == '/');
}

bool name_is_mark(const char *name)
{
	const char *slash = strrchr(name, '/');

	return strcmp(slash ? slash + 1 : name, FOLDER_MARK) == 0;
}

/* May a file have the path? */
static int check_path(const char *path, struct error *err)
{
	if (!*path || *path == '/')
		return error_set(err, EINVAL,
				 "'%.200s': a path in the store is not empty "
				 "and begins without a slash",
				 path);
	if (is_in_own_folder(path))
		return error_set(err, EINVAL,
				 "'%.200s': " OWN_FOLDER
				 " is for the data of striped files",
				 path);
	if (name_is_mark(path))
		return error_set(err, EINVAL,
				 "'%.200s': " FOLDER_MARK
				 " marks a folder, and is no file",
				 path);
	if (ends_in_dots(path))
		return error_set(err, EINVAL,
				 "'%.200s': no file is named '.' or '..'",
				 path);
	if (get_length_without_suffix(path, strlen(path)))
		return error_set(err, EINVAL,
				 "'%.200s': names that end in " MANIFEST_SUFFIX
				 " are for the manifests of striped files",
				 path);
	if (strlen(path) + strlen(MANIFEST_SUFFIX) > OBJECT_NAME_MAX)
		return error_set(err, ENAMETOOLONG,
				 "'%.60s...' is longer than %zu bytes", path,
				 OBJECT_NAME_MAX - strlen(MANIFEST_SUFFIX));
	return 0;
}

int manifest_name(const char *path, struct manifest_name *ret,
		  struct error *err)
{
	int rc = check_path(path, err);

	if (rc < 0)
		return rc;
	(void)snprintf(ret->s, sizeof(ret->s), "%s" MANIFEST_SUFFIX, path);
	return 0;
}

bool manifest_is_name(const char *name, size_t *ret_len)
{
	size_t len = get_length_without_suffix(name, strlen(name));
	char path[OBJECT_NAME_MAX + 1];

	if (!len || len >= sizeof(path))
		return false;
	memcpy(path, name, len);
	path[len] = '\0';
	/* Names like "..bsm" or "x.bsm.bsm" were not made by us. */
	if (check_path(path, NULL) < 0)
		return false;
	*ret_len = len;
	return true;
}

/* Can an object of this name be a file, or a folder marker? */
static bool is_usable(const char *name)
{
	const char *slash = strrchr(name, '/');

	return strlen(slash ? slash + 1 : name) <= CKPT_NAME_MAX &&
	       check_path(name, NULL) == 0;
}

/* Larger manifests are read into the store's memory, which bounds their total. */
#define MANIFEST_SMALL MIB
#define MEMORY_WAIT_NS (60 * NS_PER_S)

/* The bytes of a manifest. */
struct manifest_bytes {
	struct object_store *lender; /* NULL: allocated from the heap */
	char *data;
	size_t len;
};

static void bytes_fini(struct manifest_bytes *b)
{
	if (b->lender)
		object_buffer_give(b->lender, b->data, b->len);
	else
		free(b->data);
	*b = (struct manifest_bytes){ .len = 0 };
}

static int alloc_manifest_bytes(struct object_store *s, uint64_t size,
				struct manifest_bytes *b, struct error *err)
{
	if (size > MANIFEST_MAX)
		return error_set(err, EBADMSG,
				 "a manifest has no %" PRIu64 " bytes", size);
	b->len = (size_t)size;
	if (size <= MANIFEST_SMALL) {
		b->data = malloc(b->len + 1);
		return b->data ? 0 : error_nomem(err);
	}
	b->data =
		object_buffer_take(s, b->len, clock_now_ns() + MEMORY_WAIT_NS);
	if (!b->data)
		return error_set(err, ENOBUFS,
				 "a manifest of %" PRIu64
				 " MiB has no room in the store's memory: give "
				 "it more (--memory)",
				 (size + MIB - 1) / MIB);
	b->lender = s;
	return 0;
}

static int read_whole(struct object_store *s, struct object *o,
		      struct manifest_bytes *b, struct error *err)
{
	struct object_range r = { .len = object_opened_stat(o)->size };
	int rc;

	bytes_fini(b);
	rc = alloc_manifest_bytes(s, r.len, b, err);
	r.buf = b->data;
	return rc == 0 && r.len ? object_read(o, &r, 1, 0, err) : rc;
}

static int read_large(struct object_store *s, const char *name,
		      struct manifest_bytes *b, char ret_tag[OBJECT_TAG_MAX],
		      struct error *err)
{
	struct object *o;
	int rc = object_open(s, name, &o, err);

	if (rc < 0)
		return rc;
	version_set_tag(ret_tag, object_opened_stat(o)->tag);
	rc = read_whole(s, o, b, err);
	object_close(o);
	return rc;
}

static void take_small_manifest(struct manifest_bytes *b, struct buf *text)
{
	bytes_fini(b);
	b->len = text->len;
	b->data = buf_steal(text);
}

static int read_object(struct object_store *s, const char *name,
		       struct manifest_bytes *b, char ret_tag[OBJECT_TAG_MAX],
		       struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct object_stat st;
	int rc = object_get(s, name, MANIFEST_SMALL, &text, &st, err);

	if (rc == -EFBIG)
		return read_large(s, name, b, ret_tag, err);
	if (rc < 0)
		return rc;
	version_set_tag(ret_tag, st.tag);
	take_small_manifest(b, &text);
	return 0;
}

static int decode_manifest(struct object_store *s, const char *name,
			   const struct manifest_bytes *b,
			   struct manifest **ret, struct error *err)
{
	int rc = manifest_decode(b->data, b->len, ret, err);

	return rc < 0 ? error_wrap(err, rc, "%s: '%.200s'", object_store_url(s),
				   name)
		      : 0;
}

int manifest_load_tag(struct object_store *s, const char *name,
		      struct manifest **ret, char ret_tag[OBJECT_TAG_MAX],
		      struct error *err)
{
	struct manifest_bytes b = { .len = 0 };
	int rc = -ESTALE;

	/* Retry if the object was replaced during the read: some stores then drop the old
	 * version. */
	for (unsigned int i = 0; i < TRIES && rc == -ESTALE; i++)
		rc = read_object(s, name, &b, ret_tag, err);
	if (rc == 0)
		rc = decode_manifest(s, name, &b, ret, err);
	bytes_fini(&b);
	return rc;
}

int manifest_load(struct object_store *s, const char *name,
		  struct manifest **ret, struct error *err)
{
	char tag[OBJECT_TAG_MAX];

	return manifest_load_tag(s, name, ret, tag, err);
}

static int read_generation(struct object_store *s, const char *name,
			   uint64_t *ret, struct error *err)
{
	uint8_t head[MANIFEST_HEADER];
	struct object_range r = { .len = sizeof(head), .buf = head };
	struct manifest m;
	struct object *o;
	uint64_t len;
	int rc = object_open(s, name, &o, err);

	if (rc < 0)
		return rc;
	if (object_opened_stat(o)->size < sizeof(head))
		rc = -EBADMSG;
	else
		rc = object_read(o, &r, 1, 0, err);
	object_close(o);
	if (rc == 0)
		rc = manifest_decode_header(head, sizeof(head), &m, &len, err);
	if (rc == 0)
		*ret = m.generation;
	return rc;
}

int manifest_load_generation(struct object_store *s, const char *name,
			     uint64_t *ret, struct error *err)
{
	int rc = -ESTALE;

	*ret = 0;
	for (unsigned int i = 0; i < TRIES && rc == -ESTALE; i++)
		rc = read_generation(s, name, ret, err);
	/* A damaged manifest may be replaced. */
	return rc == -ENOENT || rc == -EBADMSG ? 0 : rc;
}

void manifest_stat(const struct manifest *m, struct ckpt_stat *ret)
{
	*ret = (struct ckpt_stat){
		.is_striped = true,
		.size = m->size,
		.bytes_id = manifest_bytes_id(m),
		.attr = m->attr,
		.generation = m->generation,
		.chunk_size = m->chunk_size,
		.unit_chunks = m->unit_chunks,
		.columns = m->n_segments ? m->segments[0].columns : 0,
		.n_segments = m->n_segments,
		.xattrs_len = m->xattrs.len,
	};
}

struct ckpt_stat ckpt_plain_stat(uint64_t size, int64_t mtime_ns)
{
	return (struct ckpt_stat){
		.size = size,
		.attr = { .mode = PLAIN_MODE, .mtime_ns = mtime_ns },
	};
}

void plain_stat(const struct object_stat *o, struct ckpt_stat *ret)
{
	*ret = ckpt_plain_stat(o->size,
			       clock_scale(o->modified_ms, NS_PER_MS, 0));
	ret->bytes_id = tag_bytes_id(o->tag);
}

static int note_first_object(void *arg, const struct object_entry *e,
			     struct error *err)
{
	bool *is_there = arg;

	*is_there = true;
	return -ECANCELED; /* stop: one object is enough */
}

int names_missing(struct object_store *s, const char *path, struct error *err)
{
	struct error ignored = ERROR_INIT;
	bool is_there = false;

	if (object_list_all(s, path, false, note_first_object, &is_there,
			    &ignored) < 0 &&
	    !is_there)
		is_there = false; /* report the first error */
	if (is_there)
		return error_set(err, EISDIR, "%s: '%.200s' is a folder",
				 object_store_url(s), path);
	return error_set(err, ENOENT, "%s: there is no '%.200s'",
			 object_store_url(s), path);
}

int name_remove(struct object_store *s, const char *name, struct error *err)
{
	int rc = object_delete(s, name, NULL, err);

	return rc == -ENOENT ? 0 : rc;
}

/* Open the current version in one attempt; -ESTALE: the manifest was replaced meanwhile. */
static int try_open_current_version(struct object_store *s, const char *name,
				    const char *path, size_t head,
				    struct manifest_bytes *b,
				    struct object **ret_plain,
				    struct ckpt_version *v, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct object_seen hidden;
	struct object_stat st;
	int rc = object_get_first(s, name, MANIFEST_SMALL, &text, &st, path,
				  head, ret_plain, &hidden, err);

	v->knows_hidden = hidden.is_known;
	version_set_tag(v->plain, hidden.tag);
	if (rc == -EFBIG)
		return read_large(s, name, b, v->striped, err);
	if (rc < 0)
		return rc == -ENOENT ? names_missing(s, path, err) : rc;
	if (rc > 0) {
		version_set_tag(v->plain, object_opened_stat(*ret_plain)->tag);
		return 0;
	}
	version_set_tag(v->striped, st.tag);
	take_small_manifest(b, &text);
	return 0;
}

int names_open(struct object_store *s, const char *path, size_t head,
	       struct manifest **ret, struct object **ret_plain,
	       struct ckpt_version *v, struct error *err)
{
	struct manifest_bytes b = { .len = 0 };
	struct manifest_name name;
	int rc = manifest_name(path, &name, err);

	if (rc < 0)
		return rc;
	*ret_plain = NULL;
	rc = -ESTALE;
	for (unsigned int i = 0; i < TRIES && rc == -ESTALE; i++) {
		*v = (struct ckpt_version){ .is_known = true };
		rc = try_open_current_version(s, name.s, path, head, &b,
					      ret_plain, v, err);
	}
	if (rc == 0 && !*ret_plain) {
		rc = decode_manifest(s, name.s, &b, ret, err);
		if (rc == 0)
			version_set_manifest(v, *ret);
	}
	bytes_fini(&b);
	return rc;
}

int ckpt_stat(struct object_store *s, const char *path, struct ckpt_stat *ret,
	      struct error *err)
{
	AUTO(manifest) m = NULL;
	struct ckpt_version ignored;
	struct object *plain;
	int rc = names_open(s, path, 0, &m, &plain, &ignored, err);

	if (rc < 0)
		return rc;
	if (!plain) {
		manifest_stat(m, ret);
		return 0;
	}
	plain_stat(object_opened_stat(plain), ret);
	object_close(plain);
	return 0;
}

/* Remove the plain object first. If the manifest were removed first, an old plain object would
 * become visible, permanently if the process stopped there. */
int ckpt_remove(struct object_store *s, const char *path, struct error *err)
{
	struct manifest_name name;
	int plain, striped;

	plain = manifest_name(path, &name, err);
	if (plain < 0)
		return plain;
	plain = object_delete(s, path, NULL, err);
	if (plain < 0 && plain != -ENOENT)
		return plain;
	striped = object_delete(s, name.s, NULL, err);
	if (striped == -ENOENT)
		return plain == 0 ? 0 : names_missing(s, path, err);
	return striped;
}

/* ---------------------------------------------------------------------- lists --- */

struct names_listing {
	/* names are set after all entries are known */
	struct ckpt_entry *entries;
	size_t n, cap;
	struct buf text; /* the names, one behind the other */
	size_t *at;      /* offset of each name in `text` */
	size_t at_cap;
	size_t skip; /* bytes of the folder at the begin of each name */
	size_t most;
	const struct ckpt_left_out *left_out;
};

static void listing_fini(struct names_listing *l)
{
	free(l->entries);
	free(l->at);
	buf_fini(&l->text);
}

static int listing_add(void *arg, const struct object_entry *e,
		       struct error *err)
{
	struct names_listing *l = arg;
	struct ckpt_entry entry = { .is_folder = e->is_folder,
				    .size = e->stat.size,
				    .modified_ms = e->stat.modified_ms,
				    .asked_ns = e->asked_ns };
	size_t len = strlen(e->name);

	if (e->is_marker || (!e->is_folder && name_is_mark(e->name)))
		return 0;
	if (l->n >= l->most)
		return error_set(err, E2BIG, "more than %zu names", l->most);
	entry.is_striped =
		!e->is_folder && !e->is_odd && manifest_is_name(e->name, &len);
	if (e->is_odd || (!entry.is_striped && !is_usable(e->name)))
		return l->left_out->fn
			       ? l->left_out->fn(l->left_out->arg, e->name, err)
			       : 0;
	if (array_grow(&l->entries, l->n, &l->cap, 64) < 0 ||
	    array_grow(&l->at, l->n, &l->at_cap, 64) < 0)
		return error_nomem(err);
	l->at[l->n] = l->text.len;
	if (buf_append(&l->text, e->name + l->skip, len - l->skip) < 0 ||
	    buf_append(&l->text, "", 1) < 0)
		return error_nomem(err);
	l->entries[l->n++] = entry;
	return 0;
}

/* Order by name; for the same name, the striped file comes before the plain object it hides, and a
 * folder last. */
static int compare_listed_entries(const void *x, const void *y)
{
	const struct ckpt_entry *a = x, *b = y;
	int by_name = strcmp(a->name, b->name);

	if (by_name || a->is_folder != b->is_folder)
		return by_name ? by_name
			       : (int)a->is_folder - (int)b->is_folder;
	return (int)b->is_striped - (int)a->is_striped;
}

/* Set the names, since `text` no longer moves, and sort. */
static void listing_sort(struct names_listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		l->entries[i].name = l->text.data + l->at[i];
	if (l->n)
		qsort(l->entries, l->n, sizeof(*l->entries),
		      compare_listed_entries);
}

static bool is_hidden_by_striped_file(const struct names_listing *l, size_t i)
{
	const struct ckpt_entry *e = &l->entries[i];

	return i && !e->is_folder && e[-1].is_striped &&
	       strcmp(e[-1].name, e->name) == 0;
}

int ckpt_list(struct object_store *s, const char *folder, ckpt_list_fn *fn,
	      void *arg, struct error *err)
{
	return ckpt_list_short(s, folder, SIZE_MAX, fn, arg, err);
}

int ckpt_list_short(struct object_store *s, const char *folder, size_t most,
		    ckpt_list_fn *fn, void *arg, struct error *err)
{
	const struct ckpt_left_out nobody = { .fn = NULL };

	return ckpt_list_all(s, folder, most, fn, arg, &nobody, err);
}

int ckpt_list_all(struct object_store *s, const char *folder, size_t most,
		  ckpt_list_fn *fn, void *arg,
		  const struct ckpt_left_out *left_out, struct error *err)
{
	struct names_listing l = { .skip = *folder ? strlen(folder) + 1 : 0,
				   .most = most,
				   .left_out = left_out,
				   .text = BUF_INIT };
	int rc = 0;

	if (is_in_own_folder(folder))
		return error_set(err, EINVAL,
				 "'%.200s' has the data of striped files",
				 folder);
	rc = object_list_all(s, folder, false, listing_add, &l, err);
	listing_sort(&l);
	for (size_t i = 0; i < l.n && rc == 0; i++)
		if (!is_hidden_by_striped_file(&l, i))
			rc = fn(arg, &l.entries[i], err);
	listing_fini(&l);
	return rc;
}

/* ------------------------------------------------------------------------- a list --- */

int name_list_add(struct name_list *l, const char *name, size_t len,
		  struct error *err)
{
	if (array_grow(&l->all, l->n, &l->cap, 64) < 0)
		return error_nomem(err);
	l->all[l->n] = strndup(name, len);
	return l->all[l->n] ? (l->n++, 0) : error_nomem(err);
}

void name_list_fini(struct name_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->all[i]);
	free((void *)l->all);
}

/* -------------------------------------------------------------------------- versions --- */

void version_set_tag(char tag[OBJECT_TAG_MAX], const char *from)
{
	(void)snprintf(tag, OBJECT_TAG_MAX, "%s", from);
}

int version_tag_now(struct object_store *s, const char *name,
		    char ret[OBJECT_TAG_MAX], struct error *err)
{
	struct object_stat o;
	int rc = object_stat(s, name, &o, err);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	version_set_tag(ret, rc == 0 ? o.tag : "");
	return 0;
}

/* See also the plain object that the manifest hides. */
int version_see_hidden(struct object_store *s, const char *path,
		       struct ckpt_version *v, struct error *err)
{
	return *v->striped && !v->knows_hidden
		       ? version_tag_now(s, path, v->plain, err)
		       : 0;
}

void version_set_manifest(struct ckpt_version *v, const struct manifest *m)
{
	v->generation = m->generation;
	v->bytes_id = manifest_bytes_id(m);
}

int ckpt_look(struct object_store *s, const char *path,
	      struct ckpt_version *ret_version, struct ckpt_stat *ret,
	      struct error *err)
{
	struct ckpt_version v = { .is_known = true };
	struct error ignored = ERROR_INIT;
	AUTO(manifest) m = NULL;
	struct object *plain = NULL;
	struct ckpt_stat st = { .size = 0 };
	int rc = names_open(s, path, 0, &m, &plain, &v, err), hidden;

	if (rc == 0 && plain)
		plain_stat(object_opened_stat(plain), &st);
	else if (rc == 0)
		manifest_stat(m, &st);
	if (plain)
		object_close(plain);
	if (rc < 0 && rc != -ENOENT && rc != -EISDIR && rc != -EBADMSG)
		return rc;
	hidden = version_see_hidden(s, path, &v, rc == 0 ? err : &ignored);
	if (hidden < 0)
		return rc < 0 ? rc : hidden;
	*ret_version = v;
	if (rc == 0 && ret)
		*ret = st;
	return rc;
}
