// SPDX-License-Identifier: Apache-2.0
/* Gives files their final names, also where a server's rename cannot replace. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "objects/hdfs/hdfs_store_priv.h"

char *hdfs_temporary(const struct hdfs_store *s)
{
	char random[25], *name;

	if (!s->life)
		return store_temporary();
	store_random(random, sizeof(random) - 1);
	return asprintf(&name, "%s/%s-%s", STORE_TMP, s->life, random) < 0
		       ? NULL
		       : name;
}

static int make_parent(struct hdfs_store *s, const char *name,
		       struct error *err)
{
	const char *slash = strrchr(name, '/');
	AUTO_FREE char *parent =
		strndup(name, slash ? (size_t)(slash - name) : 0);
	struct hdfs_request r = { .method = "PUT",
				  .op = "MKDIRS",
				  .name = parent,
				  .params = "&permission=755" };
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;

	if (!parent)
		return error_nomem(err);
	return hdfs_call(s, &r, &resp, err);
}

int hdfs_rename_once(struct hdfs_store *s, const char *from, const char *to,
		     bool replace, bool *ret_done, struct error *err)
{
	AUTO_BUF params = BUF_INIT;
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct hdfs_request r = { .method = "PUT",
				  .op = "RENAME",
				  .name = from };
	int rc = hdfs_add_path(s, &params, "destination", to, err);

	if (rc == 0 && buf_printf(&params, "&renameoptions=%s",
				  replace ? "OVERWRITE" : "NONE") < 0)
		rc = error_nomem(err);
	if (rc < 0)
		return rc;
	r.params = params.data;
	rc = hdfs_call(s, &r, &resp, err);
	*ret_done = true;
	if (rc == 0 && resp.body.len &&
	    hdfs_boolean_parse(resp.body.data, resp.body.len, ret_done) < 0)
		rc = error_set(err, EPROTO,
			       "the answer to a rename is not to be "
			       "understood");
	return rc;
}

/* Did an earlier attempt whose answer was lost move the file? libcurl repeats requests by
 * itself on reused connections. */
static bool is_moved(struct hdfs_store *s, uint64_t id, const char *to)
{
	struct hdfs_status st;

	return id && hdfs_look(s, to, &st, NULL) == 0 && st.id == id;
}

/* For a server whose rename cannot replace: remove the old file first. */
static int move_in_steps(struct hdfs_store *s, const char *from, const char *to,
			 bool replace, struct error *err)
{
	bool done = false;
	struct hdfs_status st;
	int rc = hdfs_look(s, to, &st, err);

	if (rc == 0 && !st.is_file)
		return error_set(err, ENOTDIR, "'%s' is a folder", to);
	if (rc == 0 && !replace)
		return error_set(err, EEXIST, "there is one of this name");
	if (rc == 0)
		rc = hdfs_remove_all(s, to, 0, err);
	else if (rc == -ENOENT)
		rc = make_parent(s, to, err);
	if (rc == 0)
		rc = hdfs_rename_once(s, from, to, false, &done, err);
	if (rc == 0 && !done)
		rc = error_set(err, replace ? EBUSY : EEXIST,
			       "there is one of this name");
	return rc;
}

int hdfs_move(struct hdfs_store *s, const char *from, uint64_t id,
	      const char *to, enum object_condition condition,
	      struct error *err)
{
	bool replace = condition != OBJECT_NEW, done;
	struct hdfs_status there;
	int rc = hdfs_rename_once(s, from, to, replace, &done, err);

	if (rc == 0 && done)
		return 0;
	if (rc == 0)
		return move_in_steps(s, from, to, replace, err);
	if (is_moved(s, id, to))
		return 0;
	if (rc == -ENOENT) {
		/* A parent folder is missing, or was removed meanwhile. */
		rc = make_parent(s, to, err);
		if (rc == 0)
			rc = hdfs_rename_once(s, from, to, replace, &done, err);
		if (rc == 0 && !done)
			rc = move_in_steps(s, from, to, replace, err);
	} else if (rc == -EIO && hdfs_look(s, to, &there, NULL) == 0 &&
		   !there.is_file) {
		rc = error_set(err, ENOTDIR, "'%s' is a folder", to);
	}
	if (rc == -EEXIST)
		return error_set(err, EEXIST, "there is one of this name");
	return rc;
}
