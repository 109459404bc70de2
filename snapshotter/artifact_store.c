// SPDX-License-Identifier: Apache-2.0
/* Artifacts in stores: which one belongs to an image, and its blobs. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "common/fs.h"
#include "snapshotter/artifact.h"

int artifact_get(struct oci_store *store, const struct digest *artifact,
		 struct artifact *ret, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	AUTO_BUF config = BUF_INIT;
	char text[DIGEST_STR_MAX];
	struct oci_image image;
	int rc;

	digest_format(artifact, text);
	rc = oci_get_manifest(store, text, &m, err);
	if (rc < 0)
		return error_wrap(err, rc, "artifact %s", text);
	rc = oci_image_parse(m.body.data, m.body.len, &image, err);
	if (rc == 0) {
		rc = oci_get_blob(store, &image.config.digest,
				  image.config.size, OCI_CONFIG_MAX, &config,
				  err);
		oci_image_fini(&image);
	}
	if (rc == 0)
		rc = artifact_parse(m.body.data, m.body.len, config.data,
				    config.len, ret, err);
	oci_manifest_fini(&m);
	return rc < 0 ? error_wrap(err, rc, "artifact %s", text) : 0;
}

/* The search for the artifact of an image.  The image's config, which every
 * artifact is held against, comes beside the first: round trips at once. */
struct search {
	struct oci_store *store;
	const struct digest *image;
	const struct oci_image *m;
	pthread_t beside;
	bool begun, has_thread;
	int rc; /* of the config */
	struct error err;
	struct buf config;
	struct digest *ids; /* chain ids of the image's layers */
	size_t n_ids;
};

static int chain_ids_of(const struct buf *config, struct digest **ret,
			size_t *ret_n, struct error *err)
{
	AUTO_FREE struct digest *diff_ids = NULL, *ids = NULL;
	size_t n = 0;
	int rc;

	rc = oci_config_diff_ids(config->data, config->len, &diff_ids, &n, err);
	if (rc < 0)
		return rc;
	ids = calloc(n + 1, sizeof(*ids));
	if (!ids)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++)
		if (oci_chain_id(diff_ids, i + 1, &ids[i]) < 0)
			return error_nomem(err);
	*ret = steal_ptr(&ids);
	*ret_n = n;
	return 0;
}

static void *config_main(void *arg)
{
	struct search *s = arg;

	s->rc = oci_get_blob(s->store, &s->m->config.digest, s->m->config.size,
			     OCI_CONFIG_MAX, &s->config, &s->err);
	if (s->rc == 0)
		s->rc = chain_ids_of(&s->config, &s->ids, &s->n_ids, &s->err);
	return NULL;
}

/* There is an artifact to look at. */
static void search_begin(struct search *s)
{
	if (s->begun)
		return;
	s->begun = true;
	s->has_thread = pthread_create(&s->beside, NULL, config_main, s) == 0;
	if (!s->has_thread)
		(void)config_main(s);
}

static void search_join(struct search *s)
{
	if (s->has_thread)
		(void)pthread_join(s->beside, NULL);
	s->has_thread = false;
}

/* Snapshots are named by chain ids, so an artifact that claims others could
 * put its files under another image's name. */
static int check_chain_ids(struct search *s, const struct artifact *a,
			   struct error *err)
{
	search_join(s);
	if (s->rc < 0 && err)
		*err = s->err;
	if (s->rc < 0)
		return s->rc;
	if (s->n_ids != a->n_chain_ids ||
	    memcmp(s->ids, a->chain_ids, s->n_ids * sizeof(*s->ids)) != 0)
		return error_set(err, EBADMSG,
				 "the artifact's chain ids are "
				 "not the image's");
	return 0;
}

static int try_artifact(struct search *s, const struct digest *d, bool flat,
			struct artifact *ret, struct error *err)
{
	static const struct digest none;
	struct artifact a;
	int rc;

	search_begin(s);
	rc = artifact_get(s->store, d, &a, err);
	if (rc < 0)
		return rc;
	if (!digest_equal(&a.image, flat ? &none : s->image))
		rc = error_set(err, EBADMSG,
			       "the artifact belongs to another image");
	if (rc == 0)
		rc = check_chain_ids(s, &a, err);
	if (rc < 0)
		artifact_fini(&a);
	else
		*ret = a;
	return rc;
}

/* The first that no other one replaces.  There is one: what an artifact
 * replaces was there before it, as its digest depends on theirs. */
static size_t find_newest(const struct artifact *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char name[DIGEST_STR_MAX];
		size_t k = 0;

		digest_format(&all[i].digest, name);
		while (k < n &&
		       !(all[k].replaces && strstr(all[k].replaces, name)))
			k++;
		if (k == n)
			return i;
	}
	return 0;
}

/* The artifacts of `list` that can be used, from its end.  When there is none,
 * why the first one cannot. */
static int load_all(struct search *s, const struct digest *list, size_t n,
		    struct artifact *ret, size_t *ret_n, struct error *err)
{
	struct error why = ERROR_INIT;
	int first_rc = 0;

	for (size_t i = n; i > 0 && *ret_n < ARTIFACTS_MAX; i--) {
		int rc = try_artifact(s, &list[i - 1], false, &ret[*ret_n],
				      &why);

		if (rc == 0)
			(*ret_n)++;
		if (rc == 0 || first_rc)
			continue;
		first_rc = rc;
		if (err)
			*err = why;
	}
	return *ret_n ? 0 : first_rc;
}

/* Form F2: its subject is the image. */
static int find_beside(struct search *s, struct artifact *ret,
		       struct error *err)
{
	AUTO_FREE struct artifact *all = calloc(ARTIFACTS_MAX, sizeof(*all));
	AUTO_FREE struct digest *list = NULL;
	size_t n = 0, n_all = 0, newest;
	int rc;

	if (!all)
		return error_nomem(err);
	rc = oci_list_referrers(s->store, s->image, ARTIFACT_TYPE, &list, &n,
				err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	rc = load_all(s, list, n, all, &n_all, err);
	if (rc < 0)
		return rc;
	if (n_all == 0)
		return error_set(err, ENOENT,
				 "the image has no artifact: it was not "
				 "converted (bootseer image convert)");
	newest = find_newest(all, n_all);
	*ret = all[newest];
	memset(&all[newest], 0, sizeof(all[newest]));
	for (size_t i = 0; i < n_all; i++)
		artifact_fini(&all[i]);
	return 0;
}

static int find_either(struct search *s, struct artifact *ret,
		       struct error *err)
{
	AUTO_FREE char *text = NULL;
	struct digest d;
	int rc;

	/* Form F1: the artifact is named on the image's only layer. */
	if (s->m->n_layers == 1)
		text = oci_annotation(s->m->layers[0].annotations,
				      ARTIFACT_ANNOTATION);
	if (!text)
		return find_beside(s, ret, err);
	rc = digest_parse(text, &d, err);
	if (rc < 0)
		return error_wrap(err, rc, "annotation " ARTIFACT_ANNOTATION);
	return try_artifact(s, &d, true, ret, err);
}

int artifact_find_of(struct oci_store *store, const struct oci_manifest *image,
		     struct artifact *ret, struct error *err)
{
	struct oci_image parsed;
	struct search s = { .store = store,
			    .image = &image->digest,
			    .m = &parsed,
			    .config = BUF_INIT };
	char text[DIGEST_STR_MAX];
	int rc;

	digest_format(&image->digest, text);
	rc = oci_image_parse(image->body.data, image->body.len, &parsed, err);
	if (rc < 0)
		return error_wrap(err, rc, "image %s", text);
	rc = find_either(&s, ret, err);
	search_join(&s);
	if (rc == 0) {
		ret->image_config = s.config;
		s.config = (struct buf)BUF_INIT;
	}
	buf_fini(&s.config);
	free(s.ids);
	oci_image_fini(&parsed);
	return rc < 0 ? error_wrap(err, rc, "image %s", text) : 0;
}

int artifact_find(struct oci_store *store, const struct digest *image,
		  struct artifact *ret, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	char text[DIGEST_STR_MAX];
	int rc;

	digest_format(image, text);
	rc = oci_get_manifest(store, text, &m, err);
	if (rc < 0)
		return error_wrap(err, rc, "image %s", text);
	rc = artifact_find_of(store, &m, ret, err);
	oci_manifest_fini(&m);
	return rc;
}

/* ------------------------------------------------------------------- blobs --- */

/* Unpacks a zstd blob into a file as it arrives. */
struct unpack {
	struct source_sink sink;
	ZSTD_DStream *zstd;
	struct hasher *hash;
	int fd;
	uint64_t done, size; /* bytes unpacked, and how many there must be */
	bool inside;         /* of a frame */
	uint8_t out[131072];
};

static int put_unpacked(struct source_sink *sink, uint64_t pos,
			const void *data, size_t len, struct error *err)
{
	struct unpack *u = container_of(sink, struct unpack, sink);
	ZSTD_inBuffer in = { .src = data, .size = len };
	bool more = true;

	while (in.pos < in.size || more) {
		ZSTD_outBuffer out = { .dst = u->out, .size = sizeof(u->out) };
		size_t n = ZSTD_decompressStream(u->zstd, &out, &in);
		int rc;

		if (ZSTD_isError(n))
			return error_set(err, EBADMSG, "damaged zstd: %s",
					 ZSTD_getErrorName(n));
		u->inside = n != 0;
		if (out.pos > u->size - u->done)
			return error_set(err, EBADMSG,
					 "it unpacks to more than %llu bytes",
					 (unsigned long long)u->size);
		rc = fs_write_full(u->fd, out.dst, out.pos);
		if (rc == 0)
			rc = hasher_update(u->hash, out.dst, out.pos);
		if (rc < 0)
			return error_set(err, -rc, "write: %s", strerror(-rc));
		u->done += out.pos;
		/* With nothing to give, a call after a frame's end would begin
		 * another one. */
		more = out.pos == out.size && u->inside;
	}
	return 0;
}

/* One of the two files. */
struct fetch {
	struct oci_store *store;
	struct source *from; /* or NULL */
	const struct oci_descriptor *blob;
	const struct digest *want;
	uint64_t size;
	const char *path;
	int rc;
	struct error err;
};

static int read_blob(const struct fetch *f, struct source_sink *sink,
		     struct error *err)
{
	struct source_req req = { .len = f->blob->size,
				  .priority = SOURCE_DEMAND };
	AUTO(source) opened = NULL;
	int rc = 0;

	if (f->blob->size == 0)
		return 0;
	if (!f->from)
		rc = oci_open_blob(f->store, &f->blob->digest, f->blob->size,
				   &opened, err);
	return rc < 0 ? rc
		      : source_read(f->from ? f->from : opened, &req, sink,
				    err);
}

static int unpack_blob(struct unpack *u, const struct fetch *f,
		       struct error *err)
{
	struct digest is;
	int rc = read_blob(f, &u->sink, err);

	if (rc < 0)
		return rc;
	if (hasher_final(u->hash, &is) < 0)
		return error_nomem(err);
	if (u->inside || u->done != u->size || !digest_equal(&is, f->want))
		return error_set(err, EBADMSG,
				 "its content is not what the artifact names");
	if (fsync(u->fd) < 0)
		return error_set(err, errno, "sync: %s", strerror(errno));
	return 0;
}

static int fetch_blob(const struct fetch *f, struct error *err)
{
	AUTO_FREE struct unpack *u = calloc(1, sizeof(*u));
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int rc;

	if (!u)
		return error_nomem(err);
	fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "create '%s': %s", f->path,
				 strerror(errno));
	/* A failure removes it, which must never be somebody's device. */
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "'%s' is no regular file",
				 f->path);
	u->sink.put = put_unpacked;
	u->zstd = ZSTD_createDStream();
	u->hash = hasher_new();
	u->fd = fd;
	u->size = f->size;
	rc = u->zstd && u->hash ? unpack_blob(u, f, err) : error_nomem(err);
	ZSTD_freeDStream(u->zstd);
	hasher_free(u->hash);
	if (rc < 0)
		(void)unlink(f->path);
	return rc;
}

static void *fetch_main(void *arg)
{
	struct fetch *f = arg;

	f->rc = fetch_blob(f, &f->err);
	return NULL;
}

static int end_fetch(const struct fetch *f, const char *what, struct error *err)
{
	if (f->rc < 0 && err)
		*err = f->err;
	return f->rc < 0 ? error_wrap(err, f->rc, "%s", what) : 0;
}

static int sync_folder_of(const char *path, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);

	return copy ? fs_sync_dir(dirname(copy), err) : error_nomem(err);
}

int artifact_fetch(struct oci_store *store, const struct artifact *a,
		   const struct artifact_sources *from, const char *meta_path,
		   const char *map_path, struct error *err)
{
	struct fetch map = { .store = store,
			     .from = from ? from->map : NULL,
			     .blob = &a->map,
			     .want = &a->map_raw,
			     .size = a->map_size,
			     .path = map_path };
	struct fetch meta = { .store = store,
			      .from = from ? from->meta : NULL,
			      .blob = &a->meta,
			      .want = &a->meta_raw,
			      .size = a->meta_size,
			      .path = meta_path };
	pthread_t beside;
	bool is_beside;
	int rc;

	/* Their round trips and syncs at once: a container waits for both. */
	is_beside = pthread_create(&beside, NULL, fetch_main, &map) == 0;
	(void)fetch_main(&meta);
	if (is_beside)
		(void)pthread_join(beside, NULL);
	else
		(void)fetch_main(&map);
	rc = end_fetch(&map, "block map", err);
	if (rc == 0)
		rc = end_fetch(&meta, "metadata image", err);
	if (rc == 0)
		rc = sync_folder_of(meta_path, err);
	if (rc == 0)
		rc = sync_folder_of(map_path, err);
	/* One without the other is of no use; what was there before this call
	 * is not its to remove. */
	if (rc < 0 && map.rc == 0)
		(void)unlink(map_path);
	if (rc < 0 && meta.rc == 0)
		(void)unlink(meta_path);
	return rc;
}
