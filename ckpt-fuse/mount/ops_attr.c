// SPDX-License-Identifier: Apache-2.0
/* Names and attributes. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "ckpt-fuse/mount/manifests.h"
#include "ckpt-fuse/mount/ops.h"
#include "ckpt-fuse/mount/writers.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/log.h"

/* Changes of other nodes are seen after this, s; an open looks at once. */
#define VALID_S ((double)LISTED_VALID_NS / NS_PER_S)

/* For how long the kernel may believe attributes.  Those of a file that is written may be
 * others when it is stored: a plain object has no time of its own.  With neither lock,
 * before they are looked at. */
static double attr_valid_seconds(struct ckpt_node *n)
{
	return !n->is_folder && node_is_written(n) ? 0 : VALID_S;
}
#define FOLDER_MODE 0755u
#define SMALL_SIZE \
	(4 * MIB) /* what is not more is a plain object, if it can be */

static void log_failure(struct ckpt_mount *m, struct ckpt_node *n,
			const char *what, const char *why)
{
	AUTO_BUF path = BUF_INIT;

	if (n)
		log_warning("ckpt", "%s failed path=\"%s\" reason=\"%s\"", what,
			    node_path_shown(n, &path), why);
	else
		log_warning("ckpt", "%s failed reason=\"%s\"", what, why);
}

/* A program that was refused something may ask a million times: its first line is enough. */
static bool is_refusal_logged(fuse_req_t req, const char *what, int code)
{
	uint64_t refusal = (uint64_t)(unsigned)fuse_req_ctx(req)->pid << 32 |
			   (uint32_t)(uintptr_t)what;

	return code == EOPNOTSUPP &&
	       atomic_exchange(&mount_of(req)->refusal, refusal) == refusal;
}

void ops_fail(fuse_req_t req, const char *what, int rc, const struct error *err)
{
	ops_reply(req, NULL, what, rc, err);
}

void ops_reply(fuse_req_t req, struct ckpt_node *n, const char *what, int rc,
	       const struct error *err)
{
	int code = -rc;

	switch (code) {
	case 0:
	case ENOENT:
	case EEXIST:
	case ENOTEMPTY:
	case EISDIR:
	case ENOTDIR:
	case ENOSPC:
	case EDQUOT:
	case ESTALE:
	case ENAMETOOLONG:
	/* Calls that the documentation refuses (mknod, link, chattr): the program knows. */
	case EPERM:
		break;
	default:
		if (!is_refusal_logged(req, what, code))
			log_failure(mount_of(req), n, what,
				    err && *err->msg ? err->msg
						     : strerror(code));
	}
	if (code == EBADMSG || code == EPROTO || code == ECONNREFUSED ||
	    code == ECANCELED)
		code = EIO;
	(void)fuse_reply_err(req, code);
}

int ops_of_node(struct ckpt_mount *m, struct ckpt_node *n, int rc)
{
	AUTO_BUF path = BUF_INIT;

	if (rc != -ENOENT)
		return rc;
	/* Or a list that is older would say that it is there. */
	if (n && node_path(n, &path) == 0)
		listed_change(m->listed, path.data);
	return -ESTALE;
}

/* ----------------------------------------------------------------- attributes --- */

static void set_stat_times(int64_t ns, struct stat *st)
{
	st->st_mtim = clock_timespec(ns);
	st->st_atim = st->st_ctim = st->st_mtim;
}

/* Programs that keep their newest folders only (checkpoint-10 beside checkpoint-9) go by this
 * time; of one that did not change here it is the mount's. */
static void fill_folder_stat(const struct ckpt_mount *m,
			     const struct ckpt_node *n, struct stat *st)
{
	const int64_t changed_ns = atomic_load(&n->changed_ns);

	st->st_mode = S_IFDIR | FOLDER_MODE;
	st->st_nlink = 2;
	st->st_uid = (uid_t)m->cfg->uid;
	st->st_gid = (gid_t)m->cfg->gid;
	set_stat_times(changed_ns ? changed_ns : m->started_ns, st);
}

static void fill_file_stat(const struct ckpt_mount *m, struct ckpt_node *n,
			   const struct ckpt_stat *s, struct stat *st)
{
	const uint64_t size = node_tell_size(n, s->size);

	st->st_mode = S_IFREG | (s->attr.mode & 07777);
	st->st_nlink = 1;
	/* A plain object has no owner: use the mount's. */
	st->st_uid = s->is_striped ? s->attr.uid : (uid_t)m->cfg->uid;
	st->st_gid = s->is_striped ? s->attr.gid : (gid_t)m->cfg->gid;
	st->st_size = (off_t)size;
	st->st_blocks = (blkcnt_t)((size + 511) / 512);
	st->st_blksize = (blksize_t)MIB;
	set_stat_times(s->attr.mtime_ns, st);
}

/* Get the attributes of the version being written; false: there is none, or it does not differ from
 * the store's. */
static bool stat_writer(struct ckpt_node *n, struct ckpt_stat *ret)
{
	struct ckpt_stat st = { .is_striped = true };
	AUTO_UNLOCK held = mutex_hold(&n->seen);
	bool is_known =
		n->writing && writing_stat(n->writing, &st.size, &st.attr);

	if (is_known)
		n->stat = st;
	if (is_known || n->lost_rc)
		*ret = n->stat;
	return is_known || n->lost_rc;
}

int ops_is_gone(struct error *err)
{
	return error_set(err, ESTALE,
			 "the file that it has open was replaced or removed "
			 "before the mount was restarted, or since: open it "
			 "again");
}

/* Get the current attributes of the file, without waiting for writers. */
static int stat_file(struct ckpt_mount *m, struct ckpt_node *n,
		     struct ckpt_stat *ret, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	bool has_name;
	int rc;

	if (stat_writer(n, ret))
		return 0;
	rc = node_path(n, &path);
	has_name = rc == 0;
	if (has_name)
		rc = ckpt_stat(m->store, path.data, ret, err);
	/* An open file that was removed keeps its last attributes. */
	if (rc == -ENOENT && n->n_readers + n->n_writers + n->n_peekers) {
		*ret = node_stat(n);
		return 0;
	}
	/* Another node has replaced the file. Processes that have it open keep their version; a new
	 * look-up gets another node. */
	if (rc == 0 && node_size_differs(n, ret->size)) {
		/* Readers of the previous process have a version that this process never opened. */
		if (n->is_kept && !n->n_readers)
			return ops_is_gone(err);
		*ret = node_stat(n);
		return 0;
	}
	if (rc == 0)
		node_set_stat(n, ret);
	/* Answer ESTALE, so that the kernel looks up the file that has the name now. */
	if (rc == -ENOENT && (n->is_kept || !has_name))
		return ops_is_gone(err);
	return rc;
}

int ops_stat(struct ckpt_mount *m, struct ckpt_node *n, struct stat *ret,
	     struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st;
	int rc;

	*ret = (struct stat){ .st_ino = n->id };
	if (n->is_folder) {
		fill_folder_stat(m, n, ret);
		return 0;
	}
	rc = stat_file(m, n, &st, err);
	if (rc == 0)
		fill_file_stat(m, n, &st, ret);
	/* A link count of 0 tells programs that have the file open that it was removed or
	 * replaced. */
	if (rc == 0 && node_path(n, &path) == -ENOENT)
		ret->st_nlink = 0;
	return rc;
}

void ops_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE n = node_get(&m->nodes, ino);
	struct error err = ERROR_INIT;
	struct stat st;
	double valid = n ? attr_valid_seconds(n) : 0;
	int rc = n ? ops_stat(m, n, &st, &err) : -ESTALE;

	rc = ops_of_node(m, n, rc);
	if (rc < 0)
		ops_fail(req, "getattr", rc, &err);
	else
		(void)fuse_reply_attr(req, &st, valid);
}

/* ---------------------------------------------------------------------- names --- */

int ops_entry(struct ckpt_mount *m, struct ckpt_node *n,
	      struct fuse_entry_param *ret, struct error *err)
{
	*ret = (struct fuse_entry_param){ .ino = n->id,
					  .generation = 1,
					  .attr_timeout = attr_valid_seconds(n),
					  .entry_timeout = VALID_S };
	return ops_stat(m, n, &ret->attr, err);
}

static void reply_entry(fuse_req_t req, struct ckpt_node *n,
			const struct fuse_entry_param *e)
{
	node_looked_up(n);
	if (fuse_reply_entry(req, e) < 0)
		node_forget(n->table, n->id, 1);
}

void ops_reply_entry(fuse_req_t req, struct ckpt_mount *m, struct ckpt_node *n)
{
	struct fuse_entry_param e;
	struct error err = ERROR_INIT;
	int rc = ops_entry(m, n, &e, &err);

	if (rc < 0)
		ops_fail(req, "lookup", rc, &err);
	else
		reply_entry(req, n, &e);
}

/* A look-up of a name in the store. */
struct name_look {
	const char *folder, *name; /* folder and name together are the path */
	char *path;
	bool is_folder;
	bool is_absent;        /* the store has nothing of this name */
	struct ckpt_stat stat; /* attributes of a file */
	int64_t asked_ns;
};

/* Ask the store for the name. 0: it exists; or -errno. */
static int ask_store(struct ckpt_mount *m, const struct ckpt_node *known,
		     struct name_look *l, struct error *err)
{
	int rc = 0;

	l->asked_ns = clock_now_ns();
	if (known && known->is_folder)
		rc = ckpt_is_folder(m->store, l->path, err);
	l->is_folder = rc == 1;
	if (rc != 0)
		return rc == 1 ? 0 : rc;
	rc = ckpt_stat(m->store, l->path, &l->stat, err);
	l->is_folder = rc == -EISDIR;
	l->is_absent = rc == -ENOENT;
	if (l->is_folder)
		return 0;
	/* The name is not valid for a file, so it does not exist. */
	return rc == -EINVAL ? -ENOENT : rc;
}

/* Answer from a cached list. The list has the attributes of a plain file; of a striped file only if
 * its manifest was read. */
static bool look_up_in_cached_list(struct ckpt_mount *m,
				   const struct ckpt_node *known,
				   struct name_look *l)
{
	struct listed_name e;

	if (known && known->is_folder &&
	    listed_has_folder(m->listed, l->path, clock_now_ns(),
			      &l->asked_ns)) {
		l->is_folder = true;
		return true;
	}
	if (!listed_find(m->listed, l->folder, l->name, clock_now_ns(), &e) ||
	    (!e.is_folder && !e.has_stat))
		return false;
	l->is_folder = e.is_folder;
	l->stat = e.stat;
	l->asked_ns = e.asked_ns;
	return true;
}

static int add_to_cached_list(void *arg, const struct ckpt_entry *e,
			      struct error *err)
{
	listed_add(arg, e);
	return 0;
}

/* Many names of a folder are looked up one by one: list the folder once instead. */
static void list_folder(struct ckpt_mount *m, const char *folder)
{
	struct listed_list *told = listed_begin(m->listed, folder);
	struct error ignored = ERROR_INIT;
	int rc = -ENOMEM;

	if (told)
		rc = ckpt_list_short(m->store, folder, LISTED_SHORT,
				     add_to_cached_list, told, &ignored);
	listed_end(m->listed, told, rc, clock_now_ns());
}

/* Striped files of a list are looked up one by one: read the manifests of several at once. */
static void read_listed_manifests(struct ckpt_mount *m,
				  const struct name_look *l)
{
	struct listed_name e;
	size_t n;

	if (!listed_find(m->listed, l->folder, l->name, clock_now_ns(), &e) ||
	    !e.is_striped || e.has_stat)
		return;
	n = listed_n_striped(m->listed, l->folder);
	if (n > 1)
		manifests_ask(m->store, m->listed, l->folder, l->name, n);
}

static int look_up_name(struct ckpt_mount *m, const struct ckpt_node *known,
			struct name_look *l, struct error *err)
{
	int rc;

	if (look_up_in_cached_list(m, known, l))
		return 0;
	read_listed_manifests(m, l);
	if (look_up_in_cached_list(m, known, l))
		return 0;
	if (listed_is_wanted(m->listed, l->folder, clock_now_ns())) {
		list_folder(m, l->folder);
		if (look_up_in_cached_list(m, known, l))
			return 0;
	}
	rc = ask_store(m, known, l, err);
	/* Count only names that exist, since a list would not help for missing names. */
	if (rc == 0)
		listed_count(m->listed, l->folder, clock_now_ns());
	return rc;
}

/* The kernel has one size for a node, that of the version its readers have. Detach the node if the
 * file was replaced, so that the new file gets a node of its own. */
static void detach_replaced_node(struct ckpt_node *n,
				 const struct ckpt_stat *now)
{
	if (node_size_differs(n, now->size) || node_is_peeked(n))
		node_detach(n);
}

/* Find the node of a name. `l` may be NULL; it must be zeros, and is filled in if the store or a
 * cached list knows the name. */
static int find_name(struct ckpt_mount *m, struct ckpt_node *parent,
		     const char *name, bool may_be_listed, struct name_look *l,
		     struct ckpt_node **ret, struct error *err)
{
	struct name_look asked = { .name = name };
	AUTO_BUF folder = BUF_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_NODE n = NULL;
	int rc;

	if (strlen(name) > CKPT_NAME_MAX)
		return -ENAMETOOLONG;
	n = node_find(parent, name);
	if (n && !n->is_folder &&
	    (node_is_written(n) || node_loss(n, NULL) < 0)) {
		*ret = steal_ptr(&n);
		return 0;
	}
	rc = node_path(parent, &folder);
	if (rc == 0)
		rc = node_path_below(parent, name, &path);
	asked.folder = folder.data;
	asked.path = path.data;
	if (rc == 0)
		rc = may_be_listed ? look_up_name(m, n, &asked, err)
				   : ask_store(m, n, &asked, err);
	if (rc == 0 && n && !asked.is_folder)
		detach_replaced_node(n, &asked.stat);
	asked.folder = asked.path = NULL;
	if (l)
		*l = asked;
	if (rc < 0)
		return rc;
	*ret = node_make(parent, name, asked.is_folder);
	return *ret ? 0 : error_nomem(err);
}

int ops_find(struct ckpt_mount *m, struct ckpt_node *parent, const char *name,
	     struct ckpt_node **ret, struct error *err)
{
	return find_name(m, parent, name, false, NULL, ret, err);
}

/* Fill in the answer to a look-up. It was true when the store was asked, so the kernel may cache it
 * for the rest of that second. */
static void fill_looked_up_entry(struct ckpt_mount *m, struct ckpt_node *n,
				 const struct name_look *l,
				 struct fuse_entry_param *e)
{
	int64_t left = l->asked_ns + LISTED_VALID_NS - clock_now_ns();
	double valid = left > 0 ? (double)left / NS_PER_S : 0;
	struct ckpt_stat st = l->stat;

	*e = (struct fuse_entry_param){
		.ino = n->id,
		.generation = 1,
		.attr.st_ino = n->id,
		.attr_timeout = attr_valid_seconds(n) > 0 ? valid : 0,
		.entry_timeout = valid
	};
	if (n->is_folder) {
		fill_folder_stat(m, n, &e->attr);
		return;
	}
	/* A writer may have begun since the look-up. */
	if (!stat_writer(n, &st))
		node_set_stat(n, &st);
	fill_file_stat(m, n, &st, &e->attr);
}

/* Remember that the name is absent: the next request may be an open that creates the file. */
static void remember_absent_name(fuse_req_t req, struct ckpt_node *parent,
				 const char *name, const struct name_look *l)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_BUF path = BUF_INIT;
	const pid_t thread = fuse_req_ctx(req)->pid; /* 0: not visible */

	if (l->is_absent && thread && node_path_below(parent, name, &path) == 0)
		recent_names_add(&m->absent, thread, path.data, l->asked_ns);
}

void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE p = node_get(&m->nodes, parent);
	AUTO_NODE n = NULL;
	struct name_look looked = { .asked_ns = 0 };
	struct error err = ERROR_INIT;
	struct fuse_entry_param e;
	int rc = p ? find_name(m, p, name, true, &looked, &n, &err) : -ESTALE;

	if (p)
		remember_absent_name(req, p, name, &looked);
	if (rc < 0) {
		ops_fail(req, "lookup", rc, &err);
	} else if (looked.asked_ns) {
		fill_looked_up_entry(m, n, &looked, &e);
		reply_entry(req, n, &e);
	} else {
		ops_reply_entry(req, m, n);
	}
}

void ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	node_forget(&mount_of(req)->nodes, ino, n);
	fuse_reply_none(req);
}

void ops_forget_multi(fuse_req_t req, size_t count,
		      struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		node_forget(&mount_of(req)->nodes, forgets[i].ino,
			    forgets[i].nlookup);
	fuse_reply_none(req);
}

/* -------------------------------------------------------------------- changes --- */

/* With the locks of writers_commit(). */
static int set_size(struct ckpt_mount *m, struct ckpt_node *n, uint64_t size,
		    struct error *err)
{
	/* If another process still writes the file, its close commits the new size. One that has
	 * closed it counts as done, even if the kernel has not released it yet. */
	const bool is_others = n->n_open && node_is_being_changed(n);
	int rc = writers_begin_now(m, n, size == 0, err);

	if (rc < 0)
		return rc;
	rc = writing_truncate(n->writing, size, err);
	if (rc == 0 && !is_others)
		return writers_commit(m, n, true, err);
	writers_end(n);
	return rc;
}

static int64_t mtime_of(const struct stat *attr, int to_set)
{
	return to_set & FUSE_SET_ATTR_MTIME_NOW ? clock_wall_ns()
						: clock_ns_of(attr->st_mtim);
}

static void merge_attr(const struct stat *attr, int to_set, struct ckpt_attr *a)
{
	if (to_set & FUSE_SET_ATTR_MODE)
		a->mode = attr->st_mode & 07777;
	if (to_set & FUSE_SET_ATTR_UID)
		a->uid = attr->st_uid;
	if (to_set & FUSE_SET_ATTR_GID)
		a->gid = attr->st_gid;
	if (to_set & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW))
		a->mtime_ns = mtime_of(attr, to_set);
}

/* Does the mode change between private and readable by all for a small file? A private file cannot
 * be a plain object, so it must be rewritten. */
static bool is_to_be_rewritten(const struct ckpt_stat *was,
			       const struct ckpt_attr *now)
{
	return was->size && was->size <= SMALL_SIZE && !was->xattrs_len &&
	       ckpt_attr_is_secret(&was->attr) != ckpt_attr_is_secret(now);
}

/* With the locks of writers_commit(). */
static int rewrite_file_with_attr(struct ckpt_mount *m, struct ckpt_node *n,
				  const struct ckpt_attr *attr,
				  struct error *err)
{
	int rc = writers_begin_now(m, n, false, err);

	if (rc < 0)
		return rc;
	rc = writing_keep_attr(n->writing, attr, err);
	if (rc == 0)
		return writers_commit(m, n, true, err);
	writers_end(n);
	return rc;
}

/* Set attributes. A plain object cannot store them: that is documented, and no failure. */
static int set_attrs(struct ckpt_mount *m, struct ckpt_node *n,
		     const struct stat *attr, int to_set, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st, was;
	int rc = stat_file(m, n, &st, err);

	if (rc < 0)
		return rc;
	was = st;
	merge_attr(attr, to_set, &st.attr);
	node_set_stat(n, &st);
	if (n->writing)
		writing_set_attr(n->writing, &st.attr,
				 to_set & FUSE_SET_ATTR_MTIME);
	if (n->writing && writing_is_dirty(n->writing))
		return 0;
	/* A striped file that is being read stays striped: rewriting it would take it from its
	 * readers (rsync has it open). */
	if (is_to_be_rewritten(&was, &st.attr) &&
	    !(was.is_striped && n->n_readers + n->n_peekers))
		return rewrite_file_with_attr(m, n, &st.attr, err);
	rc = node_path(n, &path);
	if (rc == 0)
		rc = ckpt_set_attr(m->store, path.data, &st.attr, err);
	if (path.data)
		listed_change(m->listed, path.data);
	return rc == -ENOTSUP || rc == -ENOENT ? 0 : rc;
}

#define SET_ATTRS \
	(FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | \
	 FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW)

void ops_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		 struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE n = node_get(&m->nodes, ino);
	struct error err = ERROR_INIT;
	struct stat st;
	double valid = 0;
	struct handle *h = fi ? handle_get(&m->handles, fi->fh) : NULL;
	const bool is_new = (to_set & FUSE_SET_ATTR_SIZE) && attr->st_size == 0;
	int rc = n ? 0 : -ESTALE;

	/* The handle's bytes are lost. The file in the store, to which the handle does not belong,
	 * stays unchanged. */
	if (rc == 0 && fi && !h && (to_set & FUSE_SET_ATTR_SIZE) &&
	    handle_kind_of(fi->fh) == HANDLE_WRITER)
		rc = error_set(&err, EIO,
			       "what was written was lost when the mount was "
			       "restarted");
	if (rc == 0 && !n->is_folder) {
		AUTO_PATHS_STAY stay = writers_lock_settled(
			m, n,
			WRITERS_IDLE |
				(to_set & FUSE_SET_ATTR_SIZE ? WRITERS_STORED
							     : 0));

		rc = writers_leave(m, n, is_new, false, &err);
		if (rc == 0 && (to_set & FUSE_SET_ATTR_SIZE))
			rc = set_size(m, n, (uint64_t)attr->st_size, &err);
		if (h && h->kind == HANDLE_WRITER &&
		    (to_set & FUSE_SET_ATTR_SIZE))
			writers_note_write(h);
		if (rc == 0 && (to_set & SET_ATTRS))
			rc = set_attrs(m, n, attr, to_set, &err);
		(void)pthread_mutex_unlock(&n->lock);
		if ((rc == -ESTALE || rc == -ENOENT) &&
		    (to_set & FUSE_SET_ATTR_SIZE))
			writers_leave_successor(m, n, is_new);
	}
	if (rc == 0)
		valid = attr_valid_seconds(n);
	if (rc == 0)
		rc = ops_stat(m, n, &st, &err);
	rc = ops_of_node(m, n, rc);
	if (rc < 0)
		ops_fail(req, "setattr", rc, &err);
	else
		(void)fuse_reply_attr(req, &st, valid);
}

/* File system statistics: for a directory, its own; other stores report no limits. */
void ops_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct ckpt_mount *m = mount_of(req);
	struct statvfs st = { .f_bsize = MIB,
			      .f_frsize = MIB,
			      .f_blocks = GIB,
			      .f_bfree = GIB,
			      .f_bavail = GIB };

	if (m->local && statvfs(m->local, &st) < 0) {
		(void)fuse_reply_err(req, errno);
		return;
	}
	st.f_namemax = CKPT_NAME_MAX;
	(void)fuse_reply_statfs(req, &st);
}
