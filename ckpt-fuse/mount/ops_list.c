// SPDX-License-Identifier: Apache-2.0
/* Lists of folders: their names, and what these are where a list told it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt-fuse/mount/later.h"
#include "ckpt-fuse/mount/manifests.h"
#include "ckpt-fuse/mount/ops.h"
#include "common/clock.h"

#define KNOWN_BY_LOOKUP 0xffffffffu /* readdir(3) of a name without a node */

/* --------------------------------------------------------------------- lists --- */

struct own_files {
	struct folder_list *list;
	size_t n_stored;
	int rc;
};

static bool is_listed(const struct own_files *o, const char *name)
{
	for (size_t i = 0; i < o->n_stored; i++)
		if (strcmp(folder_list_name(o->list, i), name) == 0)
			return true;
	return false;
}

/* Files that are written for the first time are in no store yet.  That one is there is
 * all that is looked at: its lock may be held for long. */
static void add_own(void *arg, struct ckpt_node *n)
{
	struct own_files *o = arg;

	if (!n->is_folder && (n->n_writers || node_loss(n, NULL) < 0) &&
	    !is_listed(o, node_name(n)) && o->rc == 0)
		o->rc = folder_list_add(o->list, node_name(n), false);
}

static int list_names(struct ckpt_mount *m, struct ckpt_node *n,
		      struct folder_list *l, struct error *err)
{
	struct own_files own = { .list = l };
	AUTO_BUF path = BUF_INIT;
	int rc = node_path(&m->nodes, n, &path);

	if (rc < 0)
		return rc;
	rc = folder_lister_list(&m->lister, path.data, l, err);
	if (rc < 0)
		return rc;
	own.n_stored = l->n;
	nodes_each(&m->nodes, n, add_own, &own);
	return own.rc;
}

void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct ckpt_node *n = node_get(&m->nodes, ino);
	struct handle *h =
		n ? handle_new(&m->handles, HANDLE_FOLDER, n, NULL) : NULL;
	struct error err = ERROR_INIT;
	int rc;

	if (!h) {
		node_put(&m->nodes, n);
		(void)fuse_reply_err(req, n ? ENOMEM : ESTALE);
		return;
	}
	rc = list_names(m, n, &h->list, &err);
	if (rc < 0) {
		handle_free(&m->handles, &m->nodes, h);
		ops_fail(req, "opendir", rc, &err);
		return;
	}
	fi->fh = h->id;
	(void)fuse_reply_open(req, fi);
}

/* -------------------------------------------------------------------- answers --- */

/* A part of a list that is being answered. */
struct folder_reply {
	struct ckpt_mount *m;
	struct ckpt_node *folder;
	const char *path; /* of the folder; NULL: it was removed */
	const struct folder_list *list;
	fuse_req_t req;
	char *buf;
	size_t used, size;
	/* With attributes: what the kernel knows then, in use; NULL: names alone are asked for. */
	struct ckpt_node **told;
	size_t n_told;
};

/* Bytes of the shortest entry with attributes that is no dot. */
#define PLUS_MIN 152u

/* Entry `i`, with "." and ".." before those of the list; false: there is no room. */
static bool put_entry(struct folder_reply *r, size_t i)
{
	struct fuse_entry_param e = { .attr.st_ino = KNOWN_BY_LOOKUP };
	const bool is_dot = i < 2;
	const char *name = !is_dot ? folder_list_name(r->list, i - 2)
			   : i     ? ".."
				   : ".";
	char *at = r->buf + r->used;
	const size_t left = r->size - r->used;
	struct ckpt_node *n = NULL;
	size_t len;

	if (!is_dot && r->told && r->path)
		n = ops_listed(r->m, r->folder, r->path, name, &e);
	/* A node id of 0 says that the name alone is told: a look-up asks for more. */
	if (!n)
		e.attr.st_mode = is_dot || folder_list_is_folder(r->list, i - 2)
					 ? S_IFDIR
					 : S_IFREG;
	len = r->told ? fuse_add_direntry_plus(r->req, at, left, name, &e,
					       (off_t)i + 1)
		      : fuse_add_direntry(r->req, at, left, name, &e.attr,
					  (off_t)i + 1);
	if (len > left) {
		node_put(&r->m->nodes, n);
		return false;
	}
	if (n) {
		node_looked_up(&r->m->nodes, n);
		r->told[r->n_told++] = n;
	}
	r->used += len;
	return true;
}

static void reply_entries(struct folder_reply *r, size_t off)
{
	bool is_lost;

	while (off < r->list->n + 2 && put_entry(r, off))
		off++;
	is_lost = fuse_reply_buf(r->req, r->buf, r->used) < 0;
	for (size_t i = 0; i < r->n_told; i++) {
		if (is_lost)
			node_forget(&r->m->nodes, r->told[i]->id, 1);
		node_put(&r->m->nodes, r->told[i]);
	}
}

/* The first part of every list is asked for with attributes, later ones when some were
 * looked at: then those of striped files are worth asking the store for. */
static void ask_for_more(const struct folder_reply *r, size_t off)
{
	size_t n = r->size / PLUS_MIN;

	if (!r->told || !r->path || off < 3 || off >= r->list->n + 2)
		return;
	manifests_ask(r->m->store, r->m->listed, r->path,
		      folder_list_name(r->list, off - 2),
		      n < LISTED_STRIPED_MOST ? n : LISTED_STRIPED_MOST);
}

static void reply_folder(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			 const struct fuse_file_info *fi, bool has_attributes)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_get(&m->handles, fi->fh);
	struct ckpt_node *n = node_get(&m->nodes, ino);
	struct folder_list own = { .n = 0 };
	struct error err = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_FREE char *buf = NULL;
	AUTO_FREE struct ckpt_node **told = NULL;
	struct folder_reply r;
	int rc = n ? node_path(&m->nodes, n, &path) : -ESTALE;
	bool has_path = rc == 0;

	if (size > SESSION_DATA_MAX)
		size = SESSION_DATA_MAX;
	/* Names that were listed before the folder was removed are told on. */
	if (h)
		rc = 0;
	else if (rc == 0)
		rc = list_names(m, n, &own, &err);
	buf = malloc(size + 1);
	if (has_attributes)
		told = (struct ckpt_node **)calloc(size / PLUS_MIN + 1,
						   sizeof(*told));
	if (rc == 0 && (!buf || (has_attributes && !told)))
		rc = -ENOMEM;
	r = (struct folder_reply){ .m = m,
				   .folder = n,
				   .path = has_path ? path.data : NULL,
				   .list = h ? &h->list : &own,
				   .req = req,
				   .buf = buf,
				   .size = size,
				   .told = told };
	if (rc < 0) {
		ops_fail(req, "readdir", rc, &err);
	} else {
		ask_for_more(&r, (size_t)off);
		reply_entries(&r, (size_t)off);
	}
	folder_list_fini(&own);
	node_put(&m->nodes, n);
}

void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		 struct fuse_file_info *fi)
{
	reply_folder(req, ino, size, off, fi, false);
}

void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	reply_folder(req, ino, size, off, fi, true);
}

void ops_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_get(&m->handles, fi->fh);

	if (h)
		handle_free(&m->handles, &m->nodes, h);
	(void)fuse_reply_err(req, 0);
}

void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		  struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	unsigned int n_lost;
	struct error err = ERROR_INIT;

	/* Without --close=buffered all that was answered is durable. */
	if (m->later)
		(void)later_settle(m->later, NULL);
	/* Those that a predecessor had closed are among them.  All who ask are told, until the
	 * files are replaced or removed: a checkpoint is as incomplete for the second. */
	n_lost = atomic_load(&m->nodes.n_lost);
	if (n_lost) {
		ops_fail(req, "fsync",
			 error_set(&err, EIO,
				   "%u files that were closed are not in the "
				   "store ('lost' above): write them again or "
				   "remove them",
				   n_lost),
			 &err);
		return;
	}
	(void)fuse_reply_err(req, 0);
}
