// SPDX-License-Identifier: Apache-2.0
/*
 * Restore a snapshot to its targets: unpack all of it into staging folders, in parallel; then move
 * things to their places by reversible renames, delete what the snapshot deletes, and set
 * attributes of folders.
 */
#include "envcache/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/side_by_side.h"
#include "envcache/base.h"
#include "envcache/content.h"
#include "envcache/make_target.h"
#include "envcache/merge.h"
#include "envcache/place.h"

#define THREADS_MAX 64

struct env_restoring {
	struct env_restore_request q; /* `threads` is 1 to THREADS_MAX */
	struct loaded *l;
	struct unpack_plan plan;
	struct stage stages[ENV_TARGETS_MAX];
	char **made; /* folders that were created, outermost first */
	size_t n_made, cap_made;
	struct env_restore_check *check;
	atomic_uint *n_left; /* for each node, pieces still to be written */
	atomic_size_t next;
	atomic_size_t n_put; /* pieces written so far */
	struct base_look look;
	bool is_there; /* another process restored the snapshot already */
};

/* --------------------------------------------------------------------- the targets --- */

/* Find the folder at `path` in the tree, or NULL. */
static const struct inode *tree_folder(struct tree *t, const char *path)
{
	struct inode *dir = tree_root(t);

	while (dir && *path == '/') {
		size_t len = strcspn(++path, "/");
		const struct dentry *d = tree_find(t, dir, path, len);

		dir = d && S_ISDIR(d->inode->mode) ? d->inode : NULL;
		path += len;
	}
	return dir;
}

static int note_made(struct env_restoring *r, const char *path,
		     struct error *err)
{
	if (r->n_made == r->cap_made) {
		size_t cap = r->cap_made ? r->cap_made * 2 : 16;
		char **v = realloc((void *)r->made, cap * sizeof(*v));

		if (!v)
			return error_nomem(err);
		r->made = v;
		r->cap_made = cap;
	}
	r->made[r->n_made] = strdup(path);
	return r->made[r->n_made] ? (r->n_made++, 0) : error_nomem(err);
}

/* Set the attributes of a created folder (the target, or above it) to those in the snapshot. */
static int restore_made(void *arg, int fd, const char *path, struct error *err)
{
	struct env_restoring *r = arg;
	const struct inode *i = tree_folder(r->l->tree, path);
	int rc = note_made(r, path, err);

	if (rc < 0 || !i)
		return rc;
	if ((i->uid != geteuid() || i->gid != getegid()) &&
	    fchown(fd, i->uid, i->gid) < 0)
		return error_set(err, errno, "chown '%.160s': %s", path,
				 strerror(errno));
	return fchmod(fd, i->mode & 07777) < 0
		       ? error_set(err, errno, "chmod '%.160s': %s", path,
				   strerror(errno))
		       : 0;
}

static int check_room(const struct env_restoring *r, size_t target,
		      struct error *err)
{
	struct statvfs fs;
	uint64_t room;

	if (fstatvfs(r->stages[target].root, &fs) < 0)
		return error_set(err, errno, "'%.200s': %s",
				 r->q.targets->paths[target], strerror(errno));
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (r->plan.bytes[target] > room)
		return error_set(err, ENOSPC,
				 "no space in '%.200s': the snapshot takes "
				 "%" PRIu64 " MiB of %" PRIu64,
				 r->q.targets->paths[target],
				 r->plan.bytes[target] >> 20, room >> 20);
	if (fs.f_files && r->plan.names[target] > fs.f_favail)
		return error_set(err, ENOSPC,
				 "no space in '%.200s': the snapshot has "
				 "%" PRIu64 " names, of %" PRIu64,
				 r->q.targets->paths[target],
				 r->plan.names[target], (uint64_t)fs.f_favail);
	return 0;
}

/* The index of the first target with changes; the number of targets if there is none. */
static size_t first_changed_target(const struct env_restoring *r)
{
	size_t i = 0;

	while (i < r->q.targets->n && !r->plan.folders[i])
		i++;
	return i;
}

static int put_stage_path(const struct env_restoring *r, size_t i,
			  struct buf *b)
{
	return buf_printf(b, "%s/%s", r->q.targets->paths[i],
			  r->stages[i].name);
}

static int log_leader(struct env_restoring *r, size_t i, struct error *err)
{
	AUTO_BUF leader = BUF_INIT;

	if (first_changed_target(r) == i)
		return 0;
	return put_stage_path(r, first_changed_target(r), &leader) < 0
		       ? error_nomem(err)
		       : stage_follow(&r->stages[i], leader.data, err);
}

static int open_stages(struct env_restoring *r, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->q.targets->n; i++) {
		if (!r->plan.folders[i])
			continue; /* nothing changed in it */
		rc = make_target(r->q.targets->paths[i], restore_made, r, err);
		if (rc == 0)
			rc = stage_open(&r->stages[i], r->q.targets->paths[i],
					r->q.others_ns, err);
		if (rc == 0)
			rc = log_leader(r, i, err);
		if (rc == 0)
			rc = check_room(r, i, err);
	}
	return rc;
}

/* ------------------------------------------------------------------------- unpacking --- */

/* Open a file in the stage.  If several threads write it, it gets a mode that allows that. */
static int open_node(struct env_restoring *r, uint32_t node, struct error *err)
{
	const struct unpack_node *n = &r->plan.nodes[node];
	const mode_t mode = n->n_pieces > 1 ? 0600 : n->inode->mode & 0777;
	char path[PLACE_PATH_MAX];
	int fd;

	place_node_path(&r->plan, node, path);
	fd = openat(r->stages[n->target].new_fd, path,
		    O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode);
	/* -ENOENT is reserved for objects missing in the store. */
	return fd < 0 ? error_set(err, errno == ENOENT ? ESTALE : errno,
				  "create a file: %s", strerror(errno))
		      : fd;
}

/* Start the second check of the targets when three quarters of the contents are written: listing a
 * whole system takes about as long as the rest. */
static void count_written_piece(struct env_restoring *r)
{
	size_t n = atomic_fetch_add(&r->n_put, 1) + 1;

	if (n == r->plan.n_pieces - r->plan.n_pieces / 4 &&
	    n < r->plan.n_pieces)
		base_look_begin(&r->look);
}

/* Write a piece of a file; the thread that writes the last piece finishes the file. */
static int restore_bytes(void *arg, uint32_t node, uint64_t off,
			 const void *data, size_t len, struct error *err)
{
	struct env_restoring *r = arg;
	AUTO_CLOSE int fd = -1;
	int rc;

	if (r->q.stop && atomic_load(r->q.stop))
		return error_set(err, ECANCELED, "it is not needed any more");
	fd = open_node(r, node, err);
	rc = fd < 0 ? fd : fs_pwrite_full(fd, data, len, off);
	if (fd >= 0 && rc < 0)
		return fs_refuse_write(fd, rc, len, "", err);
	if (rc == 0)
		count_written_piece(r);
	if (rc < 0 || atomic_fetch_sub(&r->n_left[node], 1) > 1)
		return rc;
	return place_attributes(fd, r->plan.nodes[node].inode, err);
}

/* Make a file that has no pieces. */
static int make_file(struct env_restoring *r, uint32_t node, struct error *err)
{
	const struct inode *i = r->plan.nodes[node].inode;
	AUTO_CLOSE int fd = open_node(r, node, err);
	int rc = fd < 0 ? fd : 0;

	if (rc == 0 && i->data == INODE_DATA_INLINE)
		rc = fs_pwrite_full(fd, i->bytes, (size_t)i->size, 0);
	if (fd >= 0 && rc < 0)
		return fs_refuse_write(fd, rc, i->size, "", err);
	return rc < 0 ? rc : place_attributes(fd, i, err);
}

static int make_node(struct env_restoring *r, uint32_t node, struct error *err)
{
	const struct unpack_node *n = &r->plan.nodes[node];
	char path[PLACE_PATH_MAX];

	if (S_ISREG(n->inode->mode))
		return n->n_pieces ? 0 : make_file(r, node, err);
	place_node_path(&r->plan, node, path);
	return place_special(&r->stages[n->target], path, n->inode, err);
}

/* Each thread takes the next node, until all are made. */
static int restore_side(void *arg, unsigned int index, struct error *err)
{
	struct env_restoring *r = arg;
	int rc = 0;

	while (rc == 0) {
		size_t n = atomic_fetch_add(&r->next, 1);

		if (n >= r->plan.n_nodes)
			return 0;
		rc = make_node(r, (uint32_t)n, err);
	}
	atomic_store(&r->next, r->plan.n_nodes);
	return rc;
}

static int prepare_stages(struct env_restoring *r, struct error *err)
{
	struct placing p = { .plan = &r->plan,
			     .tree = r->l->tree,
			     .stages = r->stages };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->q.targets->n; i++)
		if (r->plan.folders[i])
			rc = place_prepare(&p, i, err);
	r->n_left = calloc(r->plan.n_nodes + 1, sizeof(*r->n_left));
	if (rc == 0 && !r->n_left)
		rc = error_nomem(err);
	for (size_t i = 0; rc == 0 && i < r->plan.n_nodes; i++)
		atomic_init(&r->n_left[i], r->plan.nodes[i].n_pieces);
	return rc;
}

/* Report missing objects: if the snapshot was removed meanwhile, that is no damage; if its index
 * exists without its blobs, it is damaged until somebody removes it. */
static int refuse_missing(struct object_store *s,
			  const struct env_snapshot *snap, int rc,
			  struct error *err)
{
	struct env_snapshot now;
	bool is_there;

	if (rc != -ENOENT ||
	    env_snapshot_get(s, &snap->key.digest, &now, NULL) < 0)
		return rc;
	is_there = strcmp(now.folder, snap->folder) == 0;
	env_snapshot_fini(&now);
	if (!is_there)
		return rc;
	if (err)
		err->code = EBADMSG;
	return error_wrap(err, -EBADMSG, "the snapshot is damaged");
}

static int unpack_contents(struct env_restoring *r, struct error *err)
{
	int rc = prepare_stages(r, err);

	if (rc == 0)
		rc = content_read(r->l, &r->plan, r->q.threads, restore_bytes,
				  r, err);
	free(steal_ptr(&r->n_left));
	return rc < 0 ? refuse_missing(r->q.store, r->q.snap, rc, err)
		      : side_by_side(r->q.threads, restore_side, r, err);
}

/* --------------------------------------------------------------------------- commit --- */

static int place_all(struct env_restoring *r, struct error *err)
{
	struct placing p = { .plan = &r->plan,
			     .tree = r->l->tree,
			     .stages = r->stages,
			     .merges = env_key_merges(&r->q.snap->key) };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->q.targets->n; i++)
		if (r->plan.folders[i])
			rc = place_things(&p, i, err);
	for (size_t i = 0; rc == 0 && i < r->q.targets->n; i++)
		if (r->plan.folders[i])
			rc = place_deletions(&p, i, err);
	for (size_t i = 0; rc == 0 && i < r->q.targets->n; i++)
		if (r->plan.folders[i])
			rc = place_folder_attributes(&p, i, err);
	return rc;
}

/* Undo everything, in reverse order. */
static void undo_all(struct env_restoring *r, bool keeps_others,
		     struct error *err)
{
	struct error why = ERROR_INIT;

	for (size_t i = r->q.targets->n; i-- > 0;) {
		struct stage *s = &r->stages[i];

		if (s->log_fd < 0)
			continue;
		if (stage_undo(s, keeps_others, &why) == 0) {
			if (s->has_kept)
				error_wrap(
					err, 0,
					"others have put something at places "
					"of what is in '%s/old'",
					s->name);
			continue;
		}
		error_wrap(err, 0,
			   "what was changed could not be taken back "
			   "(%.100s)",
			   why.msg);
	}
}

/* Commit all targets at once: the first target's commit decides. */
static int commit_all(struct env_restoring *r, struct error *err)
{
	AUTO_BUF others = BUF_INIT;
	size_t first = first_changed_target(r);
	int rc = 0;

	for (size_t i = first + 1; rc == 0 && i < r->q.targets->n; i++)
		if (r->plan.folders[i])
			rc = put_stage_path(r, i, &others) < 0 ||
					     buf_append(&others, "", 1) < 0
				     ? error_nomem(err)
				     : 0;
	if (rc < 0 || first == r->q.targets->n)
		return rc;
	if (!others.len)
		return stage_commit(&r->stages[first], err);
	rc = stage_commit_leader(&r->stages[first], &others, err);
	/* The first target's commit is done, and lists the others, so that failures here do not
	 * matter. */
	for (size_t i = r->q.targets->n; rc == 0 && i-- > first;)
		if (r->plan.folders[i])
			(void)!stage_commit(&r->stages[i], NULL);
	return rc;
}

/* Place everything, run the check, then commit or undo.  Signals are blocked meanwhile, except
 * during the check. */
static int commit_stages(struct env_restoring *r, struct error *err)
{
	bool was_checked = false;
	sigset_t all, old;
	int rc;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = place_all(r, err);
	/* If the process is killed here, env_recover() undoes the logged steps. */
	if (rc == 0 && r->check) {
		was_checked = true;
		(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
		rc = r->check->is_good(r->check, err);
		(void)pthread_sigmask(SIG_SETMASK, &all, NULL);
	}
	if (rc == 0)
		rc = commit_all(r, err);
	if (rc < 0)
		undo_all(r, !was_checked, err);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

/* Remove the staging folders, which is the last change to the targets' times. */
static void close_stages(struct env_restoring *r, bool is_good)
{
	for (size_t i = 0; i < r->q.targets->n; i++) {
		AUTO_CLOSE int root = -1;

		if (r->stages[i].root >= 0)
			root = fcntl(r->stages[i].root, F_DUPFD_CLOEXEC, 0);
		stage_close(&r->stages[i]);
		if (is_good && root >= 0)
			place_times(root, r->plan.folders[i]);
	}
	while (r->n_made) {
		char *path = r->made[--r->n_made];

		if (!is_good)
			(void)rmdir(path);
		free(path);
	}
	free((void *)r->made);
}

static bool same_targets(const struct env_targets *a,
			 const struct env_targets *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->paths[i], b->paths[i]) != 0)
			return false;
	return true;
}

static unsigned int choose_threads(unsigned int wanted)
{
	cpu_set_t set;
	int n = (int)wanted;

	if (n == 0 && sched_getaffinity(0, sizeof(set), &set) == 0)
		n = CPU_COUNT(&set);
	if (n < 1)
		return 1;
	return n > THREADS_MAX ? THREADS_MAX : (unsigned int)n;
}

/* Only run the check: a restore by another process cannot be undone by us. */
static int check_restored_by_other(struct env_restore_check *check,
				   struct error *err)
{
	int rc = check ? check->is_good(check, err) : 0;

	return rc < 0 ? rc : 1;
}

static void restoring_free(struct env_restoring *r, bool is_good)
{
	base_look_drop(&r->look);
	close_stages(r, is_good);
	unpack_plan_fini(&r->plan);
	loaded_free(r->l);
	free(r);
}

/* The first step: lock the targets and unpack everything into the stages. */
static int begin_restore(struct env_restoring *r, struct error *err)
{
	int64_t begun_ns = clock_now_ns();
	int rc = open_stages(r, err);

	/* After waiting for another process, check whether it restored the snapshot. */
	if (rc == 0 && clock_now_ns() - begun_ns >= STAGE_LOOK_NS)
		rc = base_check(r->q.snap, r->q.targets, err);
	r->is_there = rc == 1;
	r->look = (struct base_look){ .snap = r->q.snap,
				      .targets = r->q.targets };
	return rc == 0 ? unpack_contents(r, err) : rc;
}

int env_restore_begin(const struct env_restore_request *q,
		      struct env_restoring **ret, struct error *err)
{
	const struct env_snapshot *snap = q->snap;
	struct env_restoring *r;
	int rc;

	if (!same_targets(&snap->targets, q->targets))
		return error_set(err, EBADMSG,
				 "the snapshot is of other targets");
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_nomem(err);
	r->q = *q;
	r->q.threads = choose_threads(q->threads);
	for (size_t i = 0; i < ENV_TARGETS_MAX; i++)
		stage_init(&r->stages[i]);
	rc = loaded_open(q->store, snap, q->giver, &r->l, err);
	if (rc < 0)
		rc = refuse_missing(q->store, snap, rc, err);
	if (rc == 0 && env_key_merges(&snap->key))
		rc = merge_prune(r->l->tree, err);
	if (rc == 0)
		rc = unpack_plan_make(r->l, q->targets, &r->plan, err);
	if (rc == 0)
		rc = begin_restore(r, err);
	if (rc < 0)
		restoring_free(r, false);
	else
		*ret = r;
	return rc < 0 ? rc : 0;
}

int env_restore_end(struct env_restoring *r, struct env_restore_check *check,
		    struct error *err)
{
	/* Check again: unpacking may take minutes, and not all processes in the targets respect
	 * the lock. */
	int rc = r->is_there ? 1 : base_look_end(&r->look, err);

	r->check = check;
	if (rc == 0)
		rc = commit_stages(r, err);
	if (rc == 1)
		rc = check_restored_by_other(check, err);
	restoring_free(r, rc >= 0);
	return rc;
}

void env_restore_drop(struct env_restoring *r)
{
	if (r)
		restoring_free(r, false);
}

int env_restore(const struct env_restore_request *q,
		struct env_restore_check *check, struct error *err)
{
	struct env_restoring *r = NULL;
	int rc = env_restore_begin(q, &r, err);

	return rc < 0 ? rc : env_restore_end(r, check, err);
}

/* ----------------------------------------------------------------------------- verify --- */

static int drop_bytes(void *arg, uint32_t node, uint64_t off, const void *data,
		      size_t len, struct error *err)
{
	return 0;
}

int env_snapshot_verify(struct object_store *s, const struct env_snapshot *snap,
			struct error *err)
{
	AUTO(loaded) l = NULL;
	struct unpack_plan p;
	int rc = loaded_open(s, snap, NULL, &l, err);

	if (rc == 0)
		rc = unpack_plan_make(l, &snap->targets, &p, err);
	if (rc < 0)
		return rc;
	rc = content_read(l, &p, choose_threads(0), drop_bytes, NULL, err);
	unpack_plan_fini(&p);
	return rc;
}
