// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "objects/hdfs/hdfs_store_priv.h"

#define DEPTH_MAX 64u

void hdfs_stat_fill(const struct hdfs_status *st, struct object_stat *ret)
{
	*ret = (struct object_stat){ .size = st->size,
				     .modified_ms = st->modified_ms };
	(void)snprintf(ret->tag, sizeof(ret->tag),
		       "%" PRIx64 "-%" PRIx64 "-%" PRIx64, st->id,
		       (uint64_t)st->modified_ms, st->size);
}

int hdfs_look(struct hdfs_store *s, const char *name, struct hdfs_status *ret,
	      struct error *err)
{
	struct hdfs_request r = { .method = "GET",
				  .op = "GETFILESTATUS",
				  .name = name };
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct error own = ERROR_INIT;
	int rc;

	err = err ? err : &own;
	rc = hdfs_call(s, &r, &resp, err);
	if (rc == 0 && hdfs_status_parse(resp.body.data ? resp.body.data : "",
					 resp.body.len, ret) < 0)
		rc = error_set(err, EPROTO,
			       "the answer is no file's status: is it a name "
			       "node?");
	/* A file stands where a folder would have to be. */
	if (rc == -ENOTDIR ||
	    (rc == -EACCES && strstr(err->msg, "is not a directory")))
		rc = error_set(err, ENOENT, "there is none");
	return rc;
}

int hdfs_store_stat(struct object_store *base, const char *name,
		    struct object_stat *ret, struct error *err)
{
	struct hdfs_status st;
	int rc = hdfs_look(hdfs_store_of(base), name, &st, err);

	if (rc < 0)
		return rc;
	if (!st.is_file)
		return error_set(err, ENOENT, "it is a folder");
	hdfs_stat_fill(&st, ret);
	return 0;
}

/* ------------------------------------------------------------------ folders --- */

static int list_page(struct hdfs_store *s, const char *folder,
		     hdfs_status_fn *fn, void *arg, char **last,
		     struct error *err)
{
	AUTO_BUF params = BUF_INIT;
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct hdfs_request r = { .method = "GET",
				  .op = "LISTSTATUS_BATCH",
				  .name = folder };
	int rc = 0;

	/* Name nodes of 3.5 use the first, HttpFS the second. */
	for (int i = 0; *last && i < 2 && rc == 0; i++) {
		rc = buf_puts(&params, i ? "&startAfter=" : "&startafter=");
		if (rc == 0)
			rc = store_url_encode(&params, *last, "");
	}
	if (rc < 0)
		return error_nomem(err);
	free(*last);
	*last = NULL;
	r.params = params.data;
	rc = hdfs_call(s, &r, &resp, err);
	if (rc == 0) {
		rc = hdfs_listing_parse(resp.body.data ? resp.body.data : "",
					resp.body.len, fn, arg, last);
		if (rc == -EBADMSG)
			rc = error_set(err, EPROTO,
				       "the list is not to be understood: is "
				       "it a name node?");
	}
	return rc;
}

int hdfs_list_folder(struct hdfs_store *s, const char *folder,
		     hdfs_status_fn *fn, void *arg, struct error *err)
{
	AUTO_FREE char *last = NULL;
	int rc;

	do {
		AUTO_FREE char *before = last ? strdup(last) : NULL;

		rc = list_page(s, folder, fn, arg, &last, err);
		if (rc == 0 && last && before && strcmp(last, before) == 0)
			rc = error_set(err, EPROTO,
				       "the server gives the same page of a "
				       "list again and again");
	} while (rc == 0 && last);
	return rc;
}

/* -------------------------------------------------------------------- walk --- */

/* Folders not listed yet; those of a page are kept until its end, so that no request is made
 * while parsing an answer. */
struct hdfs_walk {
	struct hdfs_store *s;
	const char *folder;
	bool deep;
	object_list_fn *fn;
	void *arg;
	struct error *err;
	char **folders;
	size_t n_folders;
};

static int keep_folder(struct hdfs_walk *w, char *name)
{
	char **more = reallocarray(w->folders, w->n_folders + 1, sizeof(*more));

	if (!more)
		return error_nomem(w->err);
	w->folders = more;
	more[w->n_folders++] = name;
	return 0;
}

static int list_status(void *arg, const struct hdfs_status *st)
{
	struct hdfs_walk *w = arg;
	struct object_entry e = { .is_folder = !st->is_file };
	char *name;
	int rc;

	/* Empty: the listed path is itself a file. */
	if (!*st->suffix)
		return 0;
	if (asprintf(&name, "%s%s%s", w->folder, *w->folder ? "/" : "",
		     st->suffix) < 0)
		return error_nomem(w->err);
	if (e.is_folder && w->deep) {
		rc = *w->folder || strcmp(name, STORE_OWN) != 0
			     ? keep_folder(w, name)
			     : 1;
		if (rc == 0)
			return 0;
		free(name);
		return rc < 0 ? rc : 0;
	}
	e.name = name;
	if (st->is_file)
		hdfs_stat_fill(st, &e.stat);
	rc = w->fn(w->arg, &e, w->err);
	free(name);
	return rc;
}

static int walk_folder(const struct hdfs_walk *above, const char *folder,
		       unsigned int depth, struct error *err)
{
	struct hdfs_walk w = *above;
	int rc;

	if (depth > DEPTH_MAX)
		return error_set(err, ELOOP,
				 "'%s' has too many folders in one another",
				 folder);
	w.folder = folder;
	w.folders = NULL;
	w.n_folders = 0;
	rc = hdfs_list_folder(w.s, folder, list_status, &w, err);
	if (rc == -ENOENT)
		rc = 0;
	for (size_t i = 0; i < w.n_folders; i++) {
		if (rc == 0)
			rc = walk_folder(above, w.folders[i], depth + 1, err);
		free(w.folders[i]);
	}
	free(w.folders);
	return rc;
}

int hdfs_store_list(struct object_store *base, const char *folder, bool deep,
		    object_list_fn *fn, void *arg, struct error *err)
{
	const struct hdfs_walk w = { .s = hdfs_store_of(base),
				     .deep = deep,
				     .fn = fn,
				     .arg = arg,
				     .err = err };

	return walk_folder(&w, folder, 0, err);
}

/* ------------------------------------------------------------------- sweep --- */

/* Temporary names of the running puts of a process. */
struct put_names {
	const char *life; /* id of a process; NULL: all processes */
	int64_t before_ms;
	struct buf names; /* NUL-terminated names */
	bool failed;
};

static bool is_put_of_process(const char *name, const char *life)
{
	size_t len = life ? strlen(life) : 0;

	return !life || (strncmp(name, life, len) == 0 && name[len] == '-');
}

static int note_old_put(void *arg, const struct hdfs_status *st)
{
	struct put_names *p = arg;

	if (!*st->suffix || !is_put_of_process(st->suffix, p->life) ||
	    !object_is_old(st->modified_ms, p->before_ms))
		return 0;
	p->failed = buf_printf(&p->names, "%s/%s", STORE_TMP, st->suffix) < 0 ||
		    buf_append(&p->names, "", 1) < 0;
	return p->failed ? -ENOMEM : 0;
}

static int remove_puts(struct hdfs_store *s, const char *life,
		       int64_t before_ms, size_t *ret_n, struct error *err)
{
	struct put_names p = { .life = life,
			       .before_ms = before_ms,
			       .names = BUF_INIT };
	int rc = hdfs_list_folder(s, STORE_TMP, note_old_put, &p, err);

	if (p.failed)
		rc = error_nomem(err);
	for (size_t at = 0; rc == 0 && at < p.names.len;
	     at += strlen(p.names.data + at) + 1) {
		rc = hdfs_remove_all(s, p.names.data + at, 0, err);
		*ret_n += rc == 0;
	}
	buf_fini(&p.names);
	return rc == -ENOENT ? 0 : rc;
}

int hdfs_store_sweep(struct object_store *base, const char *folder,
		     int64_t before_ms, size_t *ret_n, struct error *err)
{
	return remove_puts(hdfs_store_of(base), NULL, before_ms, ret_n, err);
}

/* Remove a process's temporary files, so that a late rename finds nothing to rename. */
int hdfs_store_fence(struct object_store *base, const char *life,
		     struct error *err)
{
	size_t ignored = 0;

	return remove_puts(hdfs_store_of(base), life, INT64_MAX, &ignored, err);
}
