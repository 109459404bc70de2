// SPDX-License-Identifier: Apache-2.0
/* Finds the artifact of an image in a store, and fetches the artifact's blobs. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/thread.h"
#include "image/artifact/artifact.h"

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
		rc = oci_get_config(store, &image, ARTIFACT_CONFIG_MAX, &config,
				    err);
		oci_image_fini(&image);
	}
	if (rc == 0)
		rc = artifact_parse(m.body.data, m.body.len, config.data,
				    config.len, ret, err);
	oci_manifest_fini(&m);
	return rc < 0 ? error_wrap(err, rc, "artifact %s", text) : 0;
}

/* The search for the artifact of an image. A thread fetches the image's config, against
 * which every artifact is checked, while the first artifact is fetched. */
struct artifact_search {
	struct oci_store *store;
	const struct digest *image;
	const struct oci_image *m;
	struct artifact_judge *judge; /* or NULL */
	struct artifact_early *early; /* or NULL */
	/* the only artifact to consider, or NULL */
	const struct digest *named;
	/* receives the usable artifacts, or NULL */
	struct artifact_usable *all;
	struct thread thread;
	bool begun;
	int rc; /* result of the thread that fetches the config */
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
	int rc = oci_config_diff_ids(config->data, config->len, &diff_ids, &n,
				     err);

	if (rc < 0)
		return rc;
	if (n > ARTIFACT_CHAIN_IDS_MAX)
		return error_set(err, EFBIG,
				 "image config: %zu layers, of which no "
				 "artifact has more than %d",
				 n, ARTIFACT_CHAIN_IDS_MAX);
	ids = calloc(n + 1, sizeof(*ids));
	if (!ids || oci_chain_ids(diff_ids, n, ids) < 0)
		return error_nomem(err);
	*ret = steal_ptr(&ids);
	*ret_n = n;
	return 0;
}

static void *config_main(void *arg)
{
	struct artifact_search *s = arg;

	s->rc = oci_get_config(s->store, s->m, OCI_CONFIG_MAX, &s->config,
			       &s->err);
	if (s->rc == 0)
		s->rc = chain_ids_of(&s->config, &s->ids, &s->n_ids, &s->err);
	return NULL;
}

/* Start to fetch the image's config, once: there is an artifact to check. */
static void search_begin(struct artifact_search *s)
{
	if (s->begun)
		return;
	s->begun = true;
	if (thread_start(&s->thread, config_main, s, NULL) < 0)
		(void)config_main(s);
}

/* Snapshots are named by chain ids: an artifact that claims ids of another image could put
 * its files in place of that image's. */
static int compare_chain_ids(const struct digest *ids, size_t n,
			     const struct artifact *a, struct error *err)
{
	if (n != a->n_chain_ids ||
	    memcmp(ids, a->chain_ids, n * sizeof(*ids)) != 0)
		return error_set(err, EBADMSG,
				 "the artifact's chain ids are "
				 "not the image's");
	return 0;
}

static int check_chain_ids(struct artifact_search *s, const struct artifact *a,
			   struct error *err)
{
	thread_join(&s->thread);
	if (s->rc < 0 && err)
		*err = s->err;
	return s->rc < 0 ? s->rc : compare_chain_ids(s->ids, s->n_ids, a, err);
}

int artifact_check_image(const struct artifact *a, const struct digest *image,
			 struct error *err)
{
	AUTO_FREE struct digest *ids = NULL;
	size_t n = 0;
	int rc = digest_equal(&a->image, image)
			 ? chain_ids_of(&a->image_config, &ids, &n, err)
			 : error_set(err, EBADMSG,
				     "the artifact belongs to another image");

	return rc < 0 ? rc : compare_chain_ids(ids, n, a, err);
}

/* The judge's verdict on an artifact, fetched by a thread while the artifact itself is
 * fetched. */
struct judgement {
	const struct artifact_search *s;
	const struct digest *artifact, *subject;
	struct thread thread;
	int rc;
	struct error err;
	struct buf evidence;
};

static void *judgement_main(void *arg)
{
	struct judgement *j = arg;

	j->rc = j->s->judge->accept(j->s->judge, j->s->store, j->artifact,
				    j->subject, &j->evidence, &j->err);
	return NULL;
}

static void judgement_begin(struct judgement *j)
{
	if (!j->s->judge)
		return;
	if (thread_start(&j->thread, judgement_main, j, NULL) < 0)
		(void)judgement_main(j);
}

static int judgement_end(struct judgement *j, struct error *err)
{
	thread_join(&j->thread);
	if (j->rc < 0 && err)
		*err = j->err;
	return j->rc;
}

static int try_artifact(struct artifact_search *s, const struct digest *d,
			bool flat, struct artifact *ret, struct error *err)
{
	static const struct digest none;
	struct judgement j = { .s = s,
			       .artifact = d,
			       .subject = flat ? &none : s->image,
			       .evidence = BUF_INIT };
	struct artifact a;
	int rc, judged;

	search_begin(s);
	judgement_begin(&j);
	rc = artifact_get(s->store, d, &a, err);
	judged = judgement_end(&j, rc < 0 ? NULL : err);
	if (rc < 0) {
		buf_fini(&j.evidence);
		return rc;
	}
	a.evidence = j.evidence;
	if (judged < 0)
		rc = judged;
	else if (!digest_equal(&a.image, j.subject))
		rc = error_set(err, EBADMSG,
			       "the artifact belongs to another image");
	else
		rc = check_chain_ids(s, &a, err);
	if (rc < 0)
		artifact_fini(&a);
	else
		*ret = a;
	return rc;
}

/* Parts of each usable artifact that the search keeps, so that many large ones are not in memory
 * together. */
struct artifact_candidate {
	struct digest digest;
	/* digests that it replaces, or NULL; borrowed from `text` or `first` */
	const char *replaces;
	char *text;
	struct buf evidence;
};

struct candidates {
	struct artifact_candidate v[ARTIFACTS_MAX];
	size_t n;
	/* v[0] whole: most often it is the artifact that is chosen */
	struct artifact first;
};

/* Add `a` to the candidates; takes over its contents. */
static void candidates_add(struct candidates *all, struct artifact *a)
{
	struct artifact_candidate *c = &all->v[all->n++];

	c->digest = a->digest;
	c->replaces = a->replaces;
	if (all->n == 1) {
		all->first = *a;
		return;
	}
	c->text = a->replaces;
	c->evidence = a->evidence;
	a->replaces = NULL;
	a->evidence = (struct buf)BUF_INIT;
	artifact_fini(a);
}

static void candidates_fini(struct candidates *all)
{
	for (size_t i = 0; i < all->n; i++) {
		free(all->v[i].text);
		buf_fini(&all->v[i].evidence);
	}
	artifact_fini(&all->first);
}

/* Index of the first candidate that no other one replaces. There always is one: an artifact
 * names the digests of the older artifacts that it replaces, so no two can replace each other. */
static size_t find_newest(const struct artifact_candidate *all, size_t n)
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

/* Load the usable artifacts of `list`, from its end. When none is usable, fail with the
 * reason of the first that was tried. */
static int load_usable_artifacts(struct artifact_search *s,
				 const struct digest *list, size_t n,
				 struct candidates *ret, struct error *err)
{
	struct error why = ERROR_INIT;
	struct artifact a;
	int first_rc = 0;

	/* Refused artifacts count towards the limit too: each costs the registry requests. */
	for (size_t i = n; i > 0 && n - i < ARTIFACTS_MAX; i--) {
		int rc = try_artifact(s, &list[i - 1], false, &a, &why);

		if (rc == 0)
			candidates_add(ret, &a);
		if (rc == 0 || first_rc)
			continue;
		first_rc = rc;
		if (err)
			*err = why;
	}
	return ret->n ? 0 : first_rc;
}

/* Load the chosen candidate whole. */
static int load_chosen_candidate(struct artifact_search *s,
				 struct candidates *all, size_t i,
				 struct artifact *ret, struct error *err)
{
	int rc;

	if (i == 0) {
		*ret = all->first;
		memset(&all->first, 0, sizeof(all->first));
		return 0;
	}
	rc = artifact_get(s->store, &all->v[i].digest, ret, err);
	if (rc < 0)
		return rc;
	ret->evidence = all->v[i].evidence;
	all->v[i].evidence = (struct buf)BUF_INIT;
	return 0;
}

/* List the referrers of the image (form F2). The list that was begun early is used, unless
 * the registry may not have had the image then: a mirror has an image only after its manifest
 * was requested. */
static int list_artifacts(struct artifact_search *s, struct oci_referrers *ret,
			  struct error *err)
{
	const struct oci_referrers_query q = {
		.subject = s->image,
		.artifact_type = ARTIFACT_TYPE,
	};
	int rc;

	if (!artifact_early_is_of(s->early, s->image))
		return oci_list_noted(s->store, &q, ret, err);
	rc = artifact_early_take(s->early, ret, err);
	if (rc < 0 || !ret->is_doubtful)
		return rc;
	oci_referrers_fini(ret);
	return oci_list_noted(s->store, &q, ret, err);
}

/* Fail: the registry lists artifacts that it then does not have. */
static int fail_listed_artifact_gone(struct error *err)
{
	const struct error why = err ? *err : (struct error)ERROR_INIT;

	return error_set(err, ENOENT,
			 "its artifact is listed, but gone, as garbage "
			 "collection of untagged manifests leaves it: convert "
			 "it anew (%.120s)",
			 why.msg);
}

static int find_among_referrers(struct artifact_search *s, struct artifact *ret,
				struct error *err)
{
	AUTO_FREE struct candidates *all = calloc(1, sizeof(*all));
	struct oci_referrers list = { .n = 0 };
	int rc;

	if (!all)
		return error_nomem(err);
	rc = list_artifacts(s, &list, err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	rc = load_usable_artifacts(s, list.digests, list.n, all, err);
	/* -ENOENT here means that the registry's list was wrong: neither a judge nor an
	 * existing artifact gives that code. */
	if (rc == -ENOENT)
		rc = fail_listed_artifact_gone(err);
	if (s->all)
		s->all->is_by_tag = list.is_by_tag;
	oci_referrers_fini(&list);
	for (size_t i = 0; s->all && i < all->n; i++)
		s->all->v[s->all->n++] = all->v[i].digest;
	if (rc == 0 && all->n == 0)
		rc = error_set(err, ENOENT,
			       "the image has no artifact: it was not "
			       "converted (bootseer image convert)");
	if (rc == 0)
		rc = load_chosen_candidate(s, all, find_newest(all->v, all->n),
					   ret, err);
	candidates_fini(all);
	return rc;
}

static int find_named_or_referring(struct artifact_search *s,
				   struct artifact *ret, struct error *err)
{
	AUTO_FREE char *text = NULL;
	struct digest d;
	int rc;

	/* Form F1: the artifact is named on the image's only layer. */
	if (s->m->n_layers == 1)
		text = oci_annotation(s->m->layers[0].annotations,
				      ARTIFACT_ANNOTATION);
	if (!text)
		return s->named ? try_artifact(s, s->named, false, ret, err)
				: find_among_referrers(s, ret, err);
	rc = digest_parse(text, &d, err);
	if (rc < 0)
		return error_wrap(err, rc, "annotation " ARTIFACT_ANNOTATION);
	if (s->named && !digest_equal(s->named, &d))
		return error_set(err, EBADMSG,
				 "the flat image names another artifact, %s",
				 text);
	rc = try_artifact(s, &d, true, ret, err);
	if (rc == 0 && s->all)
		s->all->v[s->all->n++] = d;
	return rc;
}

/* Run a search in which everything but the image's manifest is set. */
static int find_artifact_of_image(struct artifact_search *s,
				  const struct oci_manifest *image,
				  struct artifact *ret, struct error *err)
{
	struct oci_image parsed;
	char text[DIGEST_STR_MAX];
	int rc;

	digest_format(&image->digest, text);
	rc = oci_image_parse(image->body.data, image->body.len, &parsed, err);
	if (rc < 0)
		return error_wrap(err, rc, "image %s", text);
	s->image = &image->digest;
	s->m = &parsed;
	rc = find_named_or_referring(s, ret, err);
	thread_join(&s->thread);
	if (rc == 0) {
		ret->image_config = s->config;
		s->config = (struct buf)BUF_INIT;
	}
	buf_fini(&s->config);
	free(s->ids);
	oci_image_fini(&parsed);
	return rc < 0 ? error_wrap(err, rc, "image %s", text) : 0;
}

int artifact_find_of(struct oci_store *store, const struct oci_manifest *image,
		     struct artifact_judge *judge, struct artifact_early *early,
		     struct artifact *ret, struct error *err)
{
	struct artifact_search s = { .store = store,
				     .judge = judge,
				     .early = early };

	return find_artifact_of_image(&s, image, ret, err);
}

int artifact_find_among(struct oci_store *store, const struct digest *image,
			const struct digest *named,
			struct artifact_judge *judge,
			struct artifact_usable *all, struct artifact *ret,
			struct error *err)
{
	struct artifact_search s = {
		.store = store, .judge = judge, .named = named, .all = all
	};
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	char text[DIGEST_STR_MAX];
	int rc;

	digest_format(image, text);
	rc = oci_get_manifest(store, text, &m, err);
	if (rc < 0)
		return error_wrap(err, rc, "image %s", text);
	return find_artifact_of_image(&s, &m, ret, err);
}

int artifact_find(struct oci_store *store, const struct digest *image,
		  struct artifact *ret, struct error *err)
{
	return artifact_find_among(store, image, NULL, NULL, NULL, ret, err);
}

/* ------------------------------------------------------------------- blobs --- */

/* A fetch of the metadata image or of the block map. */
struct file_fetch {
	struct oci_store *store;
	struct source *from;            /* or NULL */
	struct artifact_parser *parser; /* or NULL */
	enum artifact_file file;
	const struct oci_descriptor *blob;
	const struct digest *want;
	uint64_t size;
	const char *path;
	int rc;
	struct error err;
};

static int read_blob(const struct file_fetch *f, struct source_sink *sink,
		     struct error *err)
{
	struct source_req req = { .len = f->blob->size,
				  .priority = SOURCE_DEMAND };
	AUTO(source) open_blob = NULL;
	int rc = 0;

	if (f->blob->size == 0)
		return 0;
	if (!f->from)
		rc = oci_open_blob(f->store, &f->blob->digest, f->blob->size,
				   &open_blob, err);
	return rc < 0 ? rc
		      : source_read(f->from ? f->from : open_blob, &req, sink,
				    err);
}

/* Unpacks a blob in this process while it arrives. */
struct stream_unpacking {
	struct source_sink sink;
	struct artifact_unpack *u;
};

static int put_unpacked(struct source_sink *sink, uint64_t pos,
			const void *data, size_t len, struct error *err)
{
	struct stream_unpacking *h =
		container_of(sink, struct stream_unpacking, sink);

	return artifact_unpack_put(h->u, data, len, err);
}

static int unpack_in_this_process(const struct file_fetch *f, int fd,
				  struct error *err)
{
	AUTO(artifact_unpack) u = NULL;
	struct stream_unpacking h = { .sink.put = put_unpacked };
	int rc = artifact_unpack_new(fd, f->size, &u, err);

	h.u = u;
	if (rc == 0)
		rc = read_blob(f, &h.sink, err);
	return rc < 0 ? rc : artifact_unpack_end(u, err);
}

/* Passes a blob on to the parser's process while it arrives. */
struct handing {
	struct source_sink sink;
	struct artifact_parser *parser;
	struct artifact_job job;
	bool has_failed; /* the parser refused more bytes */
};

static int hand_data_to_parser(struct source_sink *sink, uint64_t pos,
			       const void *data, size_t len, struct error *err)
{
	struct handing *h = container_of(sink, struct handing, sink);
	int rc = h->parser->put(h->parser, &h->job, data, len, err);

	h->has_failed = rc < 0;
	return rc;
}

static int unpack_in_parser(const struct file_fetch *f, int fd,
			    struct error *err)
{
	struct handing h = { .sink.put = hand_data_to_parser,
			     .parser = f->parser };
	struct error why = ERROR_INIT;
	int rc = h.parser->unpack(h.parser, fd, f->size, &h.job, err), end;

	if (rc < 0)
		return rc;
	rc = read_blob(f, &h.sink, err);
	end = h.parser->end(h.parser, &h.job, &why);
	/* A parser that stopped reading knows the reason better than the reader that could
	 * not write to it. */
	if (end < 0 && (rc == 0 || h.has_failed)) {
		if (err)
			*err = why;
		return end;
	}
	return rc;
}

static int hash_content(const struct file_fetch *f, int fd, struct error *err)
{
	struct digest is = { .b = { 0 } };
	struct stat st;
	void *p;
	int rc;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "stat");
	/* The parser's process wrote the file and has read hostile input, so the file's size
	 * is checked like a stranger's. */
	if ((uint64_t)st.st_size != f->size || f->size == 0)
		return error_set(err, EBADMSG,
				 "its content is not what the artifact names");
	p = mmap(NULL, f->size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return error_errno(err, errno, "map");
	rc = digest_of(p, f->size, &is);
	(void)munmap(p, f->size);
	if (rc < 0)
		return error_nomem(err);
	return digest_equal(&is, f->want)
		       ? 0
		       : error_set(err, EBADMSG,
				   "its content is not what the artifact "
				   "names");
}

static int hash_and_sync(const struct file_fetch *f, int fd, struct error *err)
{
	int rc = hash_content(f, fd, err);

	if (rc == 0 && fsync(fd) < 0)
		rc = error_errno(err, errno, "sync");
	return rc;
}

/* Let a process that can only read the file check it, while this one hashes and syncs it: a
 * container waits until all of that is done. */
static int check_file_in_parser(const struct file_fetch *f, int fd,
				struct error *err)
{
	AUTO_CLOSE int only_read = open(f->path, O_RDONLY | O_CLOEXEC);
	struct error why = ERROR_INIT;
	struct artifact_job job;
	int rc, end;

	if (only_read < 0)
		return error_errno(err, errno, "open '%s'", f->path);
	rc = f->parser->check(f->parser, f->file, only_read, f->size, &job,
			      err);
	if (rc < 0)
		return rc;
	rc = hash_and_sync(f, fd, err);
	end = f->parser->end(f->parser, &job, &why);
	if (rc == 0 && end < 0) {
		if (err)
			*err = why;
		return end;
	}
	return rc;
}

static int fetch_blob(const struct file_fetch *f, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int rc;

	fd = open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "create '%s'", f->path);
	/* On failure the file is removed, so `path` must not be a device node. */
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "'%s' is no regular file",
				 f->path);
	rc = f->parser ? unpack_in_parser(f, fd, err)
		       : unpack_in_this_process(f, fd, err);
	if (rc == 0)
		rc = f->parser ? check_file_in_parser(f, fd, err)
			       : hash_and_sync(f, fd, err);
	if (rc < 0)
		(void)unlink(f->path);
	return rc;
}

static void *fetch_main(void *arg)
{
	struct file_fetch *f = arg;

	f->rc = fetch_blob(f, &f->err);
	return NULL;
}

static int end_fetch(const struct file_fetch *f, const char *what,
		     struct error *err)
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
	struct file_fetch map = { .store = store,
				  .from = from ? from->map : NULL,
				  .parser = from ? from->parser : NULL,
				  .file = ARTIFACT_MAP,
				  .blob = &a->map,
				  .want = &a->map_raw,
				  .size = a->map_size,
				  .path = map_path };
	struct file_fetch meta = { .store = store,
				   .from = from ? from->meta : NULL,
				   .parser = from ? from->parser : NULL,
				   .file = ARTIFACT_META,
				   .blob = &a->meta,
				   .want = &a->meta_raw,
				   .size = a->meta_size,
				   .path = meta_path };
	struct thread thread;
	int rc;

	/* Fetch both files at the same time, since a container waits for both. */
	if (thread_start(&thread, fetch_main, &map, NULL) < 0)
		(void)fetch_main(&map);
	(void)fetch_main(&meta);
	thread_join(&thread);
	rc = end_fetch(&map, "block map", err);
	if (rc == 0)
		rc = end_fetch(&meta, "metadata image", err);
	if (rc == 0)
		rc = sync_folder_of(meta_path, err);
	if (rc == 0)
		rc = sync_folder_of(map_path, err);
	/* Neither file is of use without the other. A file that was there
	 * before this call is not removed. */
	if (rc < 0 && map.rc == 0)
		(void)unlink(map_path);
	if (rc < 0 && meta.rc == 0)
		(void)unlink(meta_path);
	return rc;
}
