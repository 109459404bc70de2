// SPDX-License-Identifier: Apache-2.0
/* Handles lists of folders. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt-fuse/mount/ops.h"

/* inode number in readdir(3) of a name without a node */
#define KNOWN_BY_LOOKUP 0xffffffffu

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

/* Add files that are written for the first time and are not in the store yet. Only the existence of
 * the writing is checked, because its lock may be held for long. */
static void add_own_file(void *arg, struct ckpt_node *n)
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
	int rc = node_path(n, &path);

	if (rc < 0)
		return rc;
	rc = folder_lister_list(&m->lister, path.data, l, err);
	if (rc < 0)
		return rc;
	own.n_stored = l->n;
	nodes_each(&m->nodes, n, add_own_file, &own);
	return own.rc;
}

void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE n = node_get(&m->nodes, ino);
	struct folder_list list = { .n = 0 };
	struct handle *h = handle_new(HANDLE_FOLDER);
	struct error err = ERROR_INIT;
	int rc = !n ? -ESTALE : h ? list_names(m, n, &list, &err) : -ENOMEM;

	if (rc < 0) {
		folder_list_fini(&list);
		free(h);
		ops_fail(req, "opendir", rc, &err);
		return;
	}
	h->list = list;
	handle_add(&m->handles, h, n);
	fi->fh = h->id;
	(void)fuse_reply_open(req, fi);
}

/* -------------------------------------------------------------------- answers --- */

/* A part of a list, for the answer to one request. */
struct folder_reply {
	const struct folder_list *list;
	fuse_req_t req;
	char *buf;
	size_t used, size;
};

/* Add entry `i`, counting "." and ".." first; false: the answer is full. */
static bool put_entry(struct folder_reply *r, size_t i)
{
	const bool is_dot = i < 2;
	const char *name = !is_dot ? folder_list_name(r->list, i - 2)
			   : i     ? ".."
				   : ".";
	const struct stat st = {
		.st_ino = KNOWN_BY_LOOKUP,
		.st_mode = is_dot || folder_list_is_folder(r->list, i - 2)
				   ? S_IFDIR
				   : S_IFREG,
	};
	const size_t left = r->size - r->used;
	const size_t len = fuse_add_direntry(r->req, r->buf + r->used, left,
					     name, &st, (off_t)i + 1);

	if (len > left)
		return false;
	r->used += len;
	return true;
}

static void reply_entries(fuse_req_t req, const struct folder_list *l,
			  size_t size, size_t off)
{
	AUTO_FREE char *buf = malloc(size + 1);
	struct folder_reply r = {
		.list = l, .req = req, .buf = buf, .size = size
	};

	while (buf && off < l->n + 2 && put_entry(&r, off))
		off++;
	if (buf)
		(void)fuse_reply_buf(req, buf, r.used);
	else
		(void)fuse_reply_err(req, ENOMEM);
}

/* Make the list again for a handle of the previous process. */
static void list_again(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE n = node_get(&m->nodes, ino);
	struct folder_list l = { .n = 0 };
	struct error err = ERROR_INIT;
	int rc = n ? list_names(m, n, &l, &err) : -ESTALE;

	if (rc < 0)
		ops_fail(req, "readdir", rc, &err);
	else
		reply_entries(req, &l, size, (size_t)off);
	folder_list_fini(&l);
}

void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		 struct fuse_file_info *fi)
{
	const struct handle *h = handle_get(&mount_of(req)->handles, fi->fh);

	if (size > SESSION_DATA_MAX)
		size = SESSION_DATA_MAX;
	if (h)
		reply_entries(req, &h->list, size, (size_t)off);
	else
		list_again(req, ino, size, off);
}

void ops_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_get(&m->handles, fi->fh);

	if (h)
		handle_free(&m->handles, h);
	(void)fuse_reply_err(req, 0);
}

void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		  struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct error err = ERROR_INIT;
	unsigned int n_lost;
	int rc = 0;

	/* Wait for closed files; without --close=buffered all are stored already. */
	(void)nodes_wait_commits(&m->nodes, NULL, true);
	/* Count lost files, also those of the previous process. Every caller gets the error until
	 * they are replaced or removed, because the checkpoint stays incomplete. */
	n_lost = atomic_load(&m->nodes.n_lost);
	if (n_lost)
		rc = error_set(
			&err, EIO,
			"%u files that were closed are not in the store "
			"('lost' above): write them again or remove them",
			n_lost);
	ops_reply(req, NULL, "fsync", rc, &err);
}
