// SPDX-License-Identifier: Apache-2.0
/*
 * OCI image layout folders (image-spec 1.1, image-layout.md): oci-layout,
 * index.json, blobs/sha256/HEX.  Writers take turns by a lock on the folder.
 */
#include "objects/oci_json.h"
#include "objects/oci_store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/json.h"

#define INDEX_MAX (64u << 20)
#define MANIFESTS_MAX 100000
#define REF_NAME "org.opencontainers.image.ref.name"
#define INDEX_TYPE "application/vnd.oci.image.index.v1+json"
#define LAYOUT_FILE "{\"imageLayoutVersion\":\"1.0.0\"}"

struct oci_layout {
	struct oci_store base;
	char *dir;
};

static struct oci_layout *layout_of(struct oci_store *s)
{
	return container_of(s, struct oci_layout, base);
}

static char *path_of(const struct oci_layout *l, const char *name)
{
	AUTO_BUF b = BUF_INIT;

	if (buf_printf(&b, "%s/%s", l->dir, name) < 0)
		return NULL;
	return buf_steal(&b);
}

static char *blob_path(const struct oci_layout *l, const struct digest *d)
{
	char text[DIGEST_STR_MAX];
	AUTO_BUF b = BUF_INIT;

	digest_format(d, text);
	if (buf_printf(&b, "blobs/sha256/%s", text + strlen("sha256:")) < 0)
		return NULL;
	return path_of(l, b.data);
}

/* ----------------------------------------------------------- index.json --- */

static int load_index(const struct oci_layout *l, json_t **ret,
		      struct error *err)
{
	AUTO_FREE char *path = path_of(l, "index.json");
	AUTO_BUF text = BUF_INIT;
	AUTO_JSON *j = NULL;
	int rc;

	if (!path)
		return error_nomem(err);
	rc = fs_read_file(path, INDEX_MAX, &text, err);
	if (rc == 0)
		rc = bounded_json_load(text.data, text.len, path, &j, err);
	if (rc < 0)
		return rc;
	if (!json_is_array(json_object_get(j, "manifests")) ||
	    json_array_size(json_object_get(j, "manifests")) > MANIFESTS_MAX)
		return error_set(err, EINVAL, "'%s' is no OCI index", path);
	*ret = steal_ptr(&j);
	return 0;
}

static int save_index(const struct oci_layout *l, const json_t *j,
		      struct error *err)
{
	AUTO_FREE char *path = path_of(l, "index.json");
	AUTO_FREE char *text =
		json_dumps(j, JSON_COMPACT | JSON_PRESERVE_ORDER);

	if (!path || !text)
		return error_nomem(err);
	return fs_replace_file(path, text, strlen(text), 0644, err);
}

static const char *entry_tag(const json_t *entry)
{
	return json_string_value(
		json_object_get(json_object_get(entry, "annotations"),
				REF_NAME));
}

static int entry_digest(const json_t *entry, struct digest *ret,
			struct error *err)
{
	const char *text = json_string_value(json_object_get(entry, "digest"));

	return digest_parse(text ? text : "", ret, err);
}

/* The entry of a tag; without one, the only entry that is no artifact of ours
 * (an artifact has no tag, so tagged ones come first). */
static const json_t *find_entry(const json_t *index, const char *tag)
{
	const json_t *list = json_object_get(index, "manifests");
	const json_t *entry, *only = NULL;
	size_t i, n = 0;

	json_array_foreach(list, i, entry)
	{
		const char *have = entry_tag(entry);

		if (tag && have && strcmp(have, tag) == 0)
			return entry;
		if (!tag && !json_object_get(entry, "artifactType")) {
			only = entry;
			n++;
		}
	}
	return !tag && n == 1 ? only : NULL;
}

static int resolve_tag(const struct oci_layout *l, const char *ref,
		       struct digest *ret, struct error *err)
{
	const json_t *entry;
	AUTO_JSON *index = NULL;
	int rc;

	if (ref && digest_parse(ref, ret, NULL) == 0)
		return 0;
	rc = load_index(l, &index, err);
	if (rc < 0)
		return rc;
	entry = find_entry(index, ref);
	if (entry)
		rc = entry_digest(entry, ret, err);
	else if (ref)
		rc = error_set(err, ENOENT,
			       "layout '%s' has no tag '%s': 'bootseer image "
			       "ls oci:DIR' lists its tags",
			       l->dir, ref);
	else
		rc = error_set(err, ENOENT,
			       "layout '%s' does not hold exactly one image: "
			       "name one, as in oci:%s:TAG",
			       l->dir, l->dir);
	return rc;
}

/* ----------------------------------------------------------------- reads --- */

static int layout_get_manifest(struct oci_store *s, const char *ref,
			       struct oci_manifest *ret, struct error *err)
{
	struct oci_layout *l = layout_of(s);
	AUTO_FREE char *path = NULL;
	int rc = resolve_tag(l, ref, &ret->digest, err);

	if (rc < 0)
		return rc;
	path = blob_path(l, &ret->digest);
	if (!path)
		return error_nomem(err);
	ret->body.limit = 0;
	rc = fs_read_file(path, OCI_MANIFEST_MAX, &ret->body, err);
	if (rc == 0 && ret->body.len == 0)
		rc = error_set(err, EBADMSG, "'%s' is empty", path);
	if (rc < 0)
		return rc;
	return oci_json_media_type(ret->body.data, ret->body.len, NULL,
				   ret->media_type, sizeof(ret->media_type),
				   err);
}

static int layout_open_blob(struct oci_store *s, const struct digest *d,
			    uint64_t size, struct source **ret,
			    struct error *err)
{
	AUTO_FREE char *path = blob_path(layout_of(s), d);
	AUTO(source) src = NULL;
	int rc;

	if (!path)
		return error_nomem(err);
	rc = posix_source_new(path, &src, err);
	if (rc < 0)
		return rc;
	if (src->size != size)
		return error_set(err, EBADMSG,
				 "'%s' has %llu bytes, its descriptor says "
				 "%llu",
				 path, (unsigned long long)src->size,
				 (unsigned long long)size);
	*ret = steal_ptr(&src);
	return 0;
}

static int layout_find_blob(struct oci_store *s, const struct digest *d,
			    bool *ret, uint64_t *ret_size, struct error *err)
{
	AUTO_FREE char *path = blob_path(layout_of(s), d);
	struct stat st;

	if (!path)
		return error_nomem(err);
	*ret = stat(path, &st) == 0 && S_ISREG(st.st_mode);
	if (*ret)
		*ret_size = (uint64_t)st.st_size;
	return 0;
}

static int add_tag(char ***list, size_t *n, const char *tag)
{
	char **grown = realloc(*list, (*n + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*list = grown;
	grown[*n] = strdup(tag);
	if (!grown[*n])
		return -ENOMEM;
	(*n)++;
	return 0;
}

static int layout_list_tags(struct oci_store *s, size_t max, char ***ret,
			    size_t *ret_n, struct error *err)
{
	AUTO_JSON *index = NULL;
	char **tags = NULL;
	json_t *entry;
	size_t i, n = 0;
	int rc = load_index(layout_of(s), &index, err);

	if (rc < 0)
		return rc;
	json_array_foreach(json_object_get(index, "manifests"), i, entry)
	{
		const char *tag = entry_tag(entry);

		if (!tag || n == max)
			continue;
		if (add_tag(&tags, &n, tag) < 0) {
			rc = error_nomem(err);
			break;
		}
	}
	if (rc < 0) {
		while (n)
			free(tags[--n]);
		free(tags);
		return rc;
	}
	*ret = tags;
	*ret_n = n;
	return 0;
}

/* Does the manifest of this entry refer to `subject`? */
static bool refers_to(struct oci_store *s, const struct digest *d,
		      const struct digest *subject, const char *type)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	struct oci_image image = { .n_layers = 0 };
	char name[DIGEST_STR_MAX];
	bool yes = false;

	digest_format(d, name);
	if (layout_get_manifest(s, name, &m, NULL) == 0 &&
	    oci_image_parse(m.body.data, m.body.len, &image, NULL) == 0) {
		yes = image.has_subject &&
		      digest_equal(&image.subject, subject) &&
		      (!type || strcmp(image.artifact_type, type) == 0);
		oci_image_fini(&image);
	}
	return yes;
}

static int layout_list_referrers(struct oci_store *s, const struct digest *d,
				 const char *artifact_type, struct digest **ret,
				 size_t *ret_n, struct error *err)
{
	AUTO_FREE struct digest *found = NULL;
	AUTO_JSON *index = NULL;
	json_t *entry;
	size_t i, n = 0;
	int rc = load_index(layout_of(s), &index, err);

	if (rc < 0)
		return rc;
	found = calloc(json_array_size(json_object_get(index, "manifests")) + 1,
		       sizeof(*found));
	if (!found)
		return error_nomem(err);
	json_array_foreach(json_object_get(index, "manifests"), i, entry)
	{
		/* A stranger's entry that we cannot read is none of ours. */
		if (entry_digest(entry, &found[n], NULL) == 0 &&
		    refers_to(s, &found[n], d, artifact_type))
			n++;
	}
	*ret = steal_ptr(&found);
	*ret_n = n;
	return 0;
}

/* ---------------------------------------------------------------- writes --- */

/* A descriptor of the folder that holds the writers' lock until closed. */
static int lock_layout(const struct oci_layout *l, struct error *err)
{
	AUTO_CLOSE int fd = open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return error_errno(err, errno, "lock layout '%s'", l->dir);
	return steal_fd(&fd);
}

/* `to` -1: only check. */
static int copy_checked(int from, int to, uint64_t size,
			const struct digest *want, struct oci_progress *p,
			struct error *err)
{
	AUTO_FREE char *chunk = malloc(1u << 20);
	AUTO(hasher) h = hasher_new();
	struct digest have;
	int rc = 0;

	if (!chunk || !h)
		return error_nomem(err);
	for (uint64_t off = 0; off < size && rc == 0;) {
		size_t n = size - off < (1u << 20) ? (size_t)(size - off)
						   : (1u << 20);

		rc = fs_pread_full(from, chunk, n, off);
		if (rc == 0 && to >= 0)
			rc = fs_write_full(to, chunk, n);
		if (rc == 0)
			rc = hasher_update(h, chunk, n);
		if (rc < 0)
			return error_errno(err, -rc, "write a blob");
		off += n;
		if (p && p->step(p, off, size))
			return error_set(err, ECANCELED, "cancelled");
	}
	if (hasher_final(h, &have) < 0)
		return error_nomem(err);
	if (!digest_equal(&have, want))
		return error_set(err, EBADMSG,
				 "the content of a blob is not what its "
				 "digest says");
	return 0;
}

/*
 * Give a nameless file of the same file system (O_TMPFILE) its name here, so
 * that a blob of gigabytes is not written twice.  1: done.
 */
static int link_blob(struct oci_layout *l, int fd, uint64_t size,
		     const char *path, const struct digest *d,
		     struct oci_progress *p, struct error *err)
{
	char self[64];
	struct stat file, dir;
	int rc;

	if (fstat(fd, &file) < 0 || stat(l->dir, &dir) < 0 ||
	    !S_ISREG(file.st_mode) || file.st_nlink != 0 ||
	    file.st_dev != dir.st_dev || (uint64_t)file.st_size != size)
		return 0;
	rc = copy_checked(fd, -1, size, d, p, err);
	if (rc < 0)
		return rc;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (fchmod(fd, 0644) < 0 || fsync(fd) < 0)
		return error_errno(err, errno, "store '%s'", path);
	/* Another one stored it meanwhile: as good.  Or /proc is not there. */
	if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		return errno == EEXIST ? 1 : 0;
	return 1;
}

static int layout_put_blob(struct oci_store *s, const struct digest *d,
			   uint64_t size, int fd, struct oci_progress *p,
			   struct error *err)
{
	struct oci_layout *l = layout_of(s);
	AUTO_FREE char *path = blob_path(l, d);
	AUTO_FREE char *dir = path_of(l, "blobs/sha256");
	AUTO_BUF tmp = BUF_INIT;
	AUTO_CLOSE int out = -1;
	bool have = false;
	int rc;

	if (!path || !dir || buf_printf(&tmp, "%s.XXXXXX", path) < 0)
		return error_nomem(err);
	rc = oci_has_blob(s, d, &have, err);
	if (rc < 0 || have)
		return rc;
	rc = link_blob(l, fd, size, path, d, p, err);
	if (rc)
		return rc < 0 ? rc : fs_sync_dir(dir, err);
	out = mkostemp(tmp.data, O_CLOEXEC);
	if (out < 0)
		return error_errno(err, errno, "create '%s'", tmp.data);
	rc = copy_checked(fd, out, size, d, p, err);
	if (rc == 0 && (fchmod(out, 0644) < 0 || fsync(out) < 0 ||
			rename(tmp.data, path) < 0))
		rc = error_errno(err, errno, "store '%s'", path);
	if (rc < 0) {
		(void)unlink(tmp.data);
		return rc;
	}
	return fs_sync_dir(dir, err);
}

/* The entry that stands for a manifest in index.json. */
static json_t *make_entry(const char *tag, const char *media_type,
			  const struct digest *d, const json_t *manifest,
			  size_t len)
{
	const char *type =
		json_string_value(json_object_get(manifest, "artifactType"));
	json_t *entry = json_descriptor(media_type, d, len);

	if (entry && type)
		(void)json_object_set_new(entry, "artifactType",
					  json_string(type));
	if (entry && tag)
		(void)json_object_set_new(entry, "annotations",
					  json_pack("{s:s}", REF_NAME, tag));
	return entry;
}

/* An index speaks for its manifests: an entry without a name that it has too
 * would only make the folder look like one of many images. */
static void drop_entries_of_children(json_t *list, const json_t *children)
{
	const json_t *child;
	struct digest a, b;
	size_t i;

	json_array_foreach(children, i, child)
	{
		if (entry_digest(child, &a, NULL) < 0)
			continue;
		for (size_t k = json_array_size(list); k-- > 0;) {
			const json_t *e = json_array_get(list, k);

			/* Referrers are found through the list: they stay. */
			if (!entry_tag(e) &&
			    !json_object_get(e, "artifactType") &&
			    entry_digest(e, &b, NULL) == 0 &&
			    digest_equal(&a, &b))
				(void)json_array_remove(list, k);
		}
	}
}

static int set_tag_in_index(struct oci_layout *l, const char *tag,
			    json_t *entry, const json_t *children,
			    struct error *err)
{
	AUTO_CLOSE int lock = lock_layout(l, err);
	AUTO_JSON *index = NULL;
	struct digest d, other;
	json_t *list, *e;
	size_t i;
	int rc;

	if (lock < 0)
		return lock;
	rc = load_index(l, &index, err);
	if (rc < 0)
		return rc;
	list = json_object_get(index, "manifests");
	rc = entry_digest(entry, &d, err);
	json_array_foreach(list, i, e)
	{
		const char *have = entry_tag(e);
		bool same = tag ? have && strcmp(have, tag) == 0
				: !have && entry_digest(e, &other, NULL) == 0 &&
					    digest_equal(&d, &other);

		if (same) {
			(void)json_array_remove(list, i);
			break;
		}
	}
	drop_entries_of_children(list, children);
	if (rc == 0 && json_array_append(list, entry) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = save_index(l, index, err);
	return rc;
}

static int layout_put_manifest(struct oci_store *s, const char *ref,
			       const char *media_type, const void *body,
			       size_t len, struct error *err)
{
	struct oci_layout *l = layout_of(s);
	const char *tag = ref && strchr(ref, ':') ? NULL : ref;
	AUTO_FREE char *path = NULL;
	AUTO_JSON *manifest = NULL;
	AUTO_JSON *entry = NULL;
	struct digest d;
	int rc;

	if (digest_of(body, len, &d) < 0)
		return error_nomem(err);
	path = blob_path(l, &d);
	if (!path)
		return error_nomem(err);
	rc = bounded_json_load(body, len, "the manifest", &manifest, err);
	if (rc < 0)
		return rc;
	entry = make_entry(tag, media_type, &d, manifest, len);
	rc = entry ? fs_replace_file(path, body, len, 0644, err)
		   : error_nomem(err);
	if (rc == 0)
		rc = set_tag_in_index(l, tag, entry,
				      json_object_get(manifest, "manifests"),
				      err);
	return rc;
}

static int layout_remove_manifest(struct oci_store *s, const struct digest *d,
				  struct error *err)
{
	struct oci_layout *l = layout_of(s);
	AUTO_CLOSE int lock = lock_layout(l, err);
	AUTO_FREE char *path = blob_path(l, d);
	char name[DIGEST_STR_MAX];
	AUTO_JSON *index = NULL;
	struct digest have;
	json_t *list;
	size_t removed = 0;
	int rc;

	if (lock < 0)
		return lock;
	if (!path)
		return error_nomem(err);
	rc = load_index(l, &index, err);
	if (rc < 0)
		return rc;
	list = json_object_get(index, "manifests");
	for (size_t i = json_array_size(list); i-- > 0;) {
		if (entry_digest(json_array_get(list, i), &have, NULL) < 0 ||
		    !digest_equal(&have, d))
			continue;
		(void)json_array_remove(list, i);
		removed++;
	}
	digest_format(d, name);
	if (removed == 0 && access(path, F_OK) < 0)
		rc = error_set(err, ENOENT, "layout '%s' has no manifest %s",
			       l->dir, name);
	if (rc == 0 && removed)
		rc = save_index(l, index, err);
	if (rc == 0 && unlink(path) < 0 && errno != ENOENT)
		rc = error_errno(err, errno, "remove '%s'", path);
	return rc;
}

/* ------------------------------------------------------------------ open --- */

static void layout_free(struct oci_store *s)
{
	struct oci_layout *l = layout_of(s);

	free(l->dir);
	free(l);
}

static const struct oci_store_ops layout_ops = {
	.name = "oci",
	.get_manifest = layout_get_manifest,
	.open_blob = layout_open_blob,
	.find_blob = layout_find_blob,
	.put_blob = layout_put_blob,
	.put_manifest = layout_put_manifest,
	.remove_manifest = layout_remove_manifest,
	.list_tags = layout_list_tags,
	.list_referrers = layout_list_referrers,
	.free = layout_free,
};

static int make_layout(const struct oci_layout *l, struct error *err)
{
	static const char index[] =
		"{\"schemaVersion\":2,\"mediaType\":\"" INDEX_TYPE "\","
		"\"manifests\":[]}";
	AUTO_FREE char *blobs = path_of(l, "blobs/sha256");
	AUTO_FREE char *list = path_of(l, "index.json");
	AUTO_FREE char *mark = path_of(l, "oci-layout");
	AUTO_CLOSE int lock = -1;
	int rc;

	if (!blobs || !list || !mark)
		return error_nomem(err);
	rc = fs_mkdir_p(blobs, 0755, err);
	if (rc == -ENOTDIR)
		return error_set(err, ENOTDIR,
				 "layout '%s': it, or a part of its path, is a "
				 "file: name a folder",
				 l->dir);
	if (rc < 0)
		return rc;
	/* Another process may be making it too. */
	lock = lock_layout(l, err);
	if (lock < 0)
		return lock;
	if (access(list, F_OK) < 0)
		rc = fs_replace_file(list, index, sizeof(index) - 1, 0644, err);
	if (rc == 0)
		rc = fs_replace_file(mark, LAYOUT_FILE, strlen(LAYOUT_FILE),
				     0644, err);
	return rc;
}

int oci_layout_new(const struct oci_ref *ref, const struct oci_config *cfg,
		   bool create, struct oci_store **ret, struct error *err)
{
	struct oci_layout *l = calloc(1, sizeof(*l));
	AUTO_FREE char *mark = NULL;
	int rc = 0;

	(void)cfg;
	if (!l)
		return error_nomem(err);
	l->base.ops = &layout_ops;
	l->dir = strdup(ref->repo);
	if (l->dir)
		mark = path_of(l, "oci-layout");
	if (!mark)
		rc = error_nomem(err);
	else if (access(mark, F_OK) < 0 && create)
		rc = make_layout(l, err);
	else if (access(mark, F_OK) < 0)
		rc = error_set(err, ENOENT,
			       "'%s' is %s: mend the path, or make one with "
			       "'skopeo copy'",
			       l->dir,
			       access(l->dir, F_OK) < 0
				       ? "not there"
				       : "no OCI layout: it has no file "
					 "'oci-layout'");
	if (rc < 0) {
		layout_free(&l->base);
		return rc;
	}
	*ret = &l->base;
	return 0;
}
