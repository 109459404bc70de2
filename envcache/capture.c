// SPDX-License-Identifier: Apache-2.0
/*
 * Capture a command's changes: scan the targets again, find the differences, store tree and
 * contents in the form of an image, and scan once more.  The snapshot is published, by one
 * conditional write, only if nothing changed meanwhile.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/fs.h"
#include "common/side_by_side.h"
#include "envcache/changes.h"
#include "envcache/catalog_priv.h"
#include "envcache/read_ahead.h"
#include "envcache/usual_targets.h"
#include "envcache/xattrs.h"
#include "image/writer/oci_target.h"
#include "image/writer/writer.h"
#include "objects/oci.h"

#define ATTEMPTS 3 /* if a target changes during the capture */
/* attempts after shared packs turned out damaged or were removed */
#define SHARED_ATTEMPTS 2
/* Garbage collection removes unreferenced blobs and packs after two days; an attempt must end well
 * before. */
#define ATTEMPT_MAX_S (12 * 3600)
#define READ_PIECE (1u << 20)
#define JOBS_MAX 16
#define READERS 4u /* enough for a remote file system; more would only wait */
/* Compression level.  The node's command waits for the capture, and level 5 takes twice the time
 * of level 3 for 4 % fewer bytes. */
#define LEVEL 3
/* Level 12 takes 3.6 times the time of 9 for 0.1 % fewer bytes of metadata. */
#define META_LEVEL 9
/* Sizes of packs: each is stored while the next is made; a small first pack starts that early,
 * large later ones keep their number low. */
#define PACK_FIRST (4u << 20)
#define PACK_BYTES (32u << 20)
#define PROGRAM_MAX 200
#define CHECKERS 4u /* threads that check whether blobs are stored */

/* The targets before and after the command, whose differences are captured. */
struct capture {
	const struct env_targets *targets;
	const struct env_scan *before;
	bool may_be_empty;
};

/* The folder of blobs, and the artifact that is made of them. */
struct deposit {
	struct object_store *store;
	bool shares;            /* packs may be shared with other snapshots */
	struct env_digests bad; /* packs with wrong content */
	/* State of the present attempt. */
	struct oci_store *blobs; /* folder of the artifact's blobs */
	struct env_digests doomed;
	struct shared_target packs;
	struct bases *bases;
	struct artifact artifact;
	time_t begun_s;    /* CLOCK_BOOTTIME, which also counts the time
	                    * that a machine sleeps */
	bool may_be_there; /* the write's reply was lost, so the snapshot
	                    * may be published */
};

/* ------------------------------------------------------------------------ contents --- */

/* Store the bytes from the data at `*off` to the next hole. */
static int read_data(struct tree_writer *w, const struct env_entry *e, int fd,
		     char *piece, uint64_t *off, struct error *err)
{
	off_t from = lseek(fd, (off_t)*off, SEEK_DATA), end;
	int rc = 0;

	if (from < 0 && errno == ENXIO) {
		*off = e->size; /* the rest of the file is a hole */
		return 0;
	}
	end = from < 0 ? -1 : lseek(fd, from, SEEK_HOLE);
	if (end < 0)
		return error_errno(err, errno, "seek");
	*off = (uint64_t)from;
	while (rc == 0 && *off < (uint64_t)end && *off < e->size) {
		uint64_t n = (uint64_t)end - *off;

		n = n < READ_PIECE ? n : READ_PIECE;
		n = n < e->size - *off ? n : e->size - *off;
		rc = fs_pread_full(fd, piece, (size_t)n, *off);
		rc = rc < 0 ? error_set(err, rc == -EIO ? ESTALE : -rc,
					"read: %s", strerror(-rc))
			    : tree_writer_data(w, *off, piece, (size_t)n, err);
		*off += n;
	}
	return rc;
}

/* Store a file's content in pieces, skipping its holes. */
static int store_pieces(struct tree_writer *w, const struct env_entry *e,
			int fd, char *piece, struct error *err)
{
	uint64_t off = 0;
	int rc = 0;

	while (rc == 0 && off < e->size)
		rc = read_data(w, e, fd, piece, &off, err);
	if (rc == 0 && !env_entry_is_still(e, fd))
		rc = error_set(err, ESTALE, "it changes");
	return rc;
}

static int store_file(const struct changes *found, struct tree_writer *w,
		      const struct changed_file *f,
		      const struct file_ahead *ahead, char *piece,
		      struct error *err)
{
	const struct env_entry *e = f->entry;
	int rc = 0;

	if (ahead->has_xattrs)
		rc = xattrs_read(ahead->fd, found->tree, f->inode, err);
	if (rc == 0 && e->size)
		rc = tree_writer_begin(w, f->inode, err);
	if (rc == 0 && e->size)
		rc = ahead->data ? tree_writer_data(w, 0, ahead->data,
						    (size_t)e->size, err)
				 : store_pieces(w, e, ahead->fd, piece, err);
	if (rc == 0 && e->size)
		rc = tree_writer_end(w, err);
	return rc < 0 ? error_wrap(err, rc, "'%.160s'", e->path) : 0;
}

static int store_files(const struct changes *found, struct tree_writer *w,
		       struct error *err)
{
	AUTO_FREE char *piece = malloc(READ_PIECE);
	AUTO(read_ahead) ahead = NULL;
	int rc = piece ? read_ahead_new(found->files, found->n_files, READERS,
					&ahead, err)
		       : error_nomem(err);

	for (size_t i = 0; rc == 0 && i < found->n_files; i++) {
		struct file_ahead file;

		rc = read_ahead_next(ahead, &file, err);
		if (rc == 0)
			rc = store_file(found, w, &found->files[i], &file,
					piece, err);
	}
	return rc;
}

static unsigned int n_jobs(void)
{
	cpu_set_t set;
	int n = 1;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n = CPU_COUNT(&set);
	return n > JOBS_MAX ? JOBS_MAX : (unsigned int)n;
}

static int store_tree(struct deposit *d, const struct changes *found,
		      struct error *err)
{
	struct oci_target target;
	const struct tree_writer_config cfg = {
		.tree = found->tree,
		.target = &target.target,
		.packs = d->shares ? &d->packs.target : NULL,
		.index = d->bases ? bases_index(d->bases) : NULL,
		.jobs = n_jobs(),
		.level = LEVEL,
		.meta_level = META_LEVEL,
		.pack_first = PACK_FIRST,
		.pack_max = PACK_BYTES
	};
	AUTO(tree_writer) w = NULL;
	struct tree_writer_stats stats;
	int rc;

	oci_target_init(&target, d->blobs);
	rc = tree_writer_new(&cfg, &w, err);
	if (rc == 0)
		rc = store_files(found, w, err);
	if (rc == 0)
		rc = tree_writer_finish(w, &d->artifact, &stats, err);
	return rc == 0 && d->bases
		       ? bases_check(d->bases, n_jobs(), &d->bad, err)
		       : rc;
}

/* -------------------------------------------------------------------- the artifact --- */

/* The objects may be stored in any order: readers only find them through the index, which is
 * last. */
struct texts_put {
	struct oci_store *store;
	const struct buf *texts[2];
	struct digest *digests[2];
};

static int put_text(void *arg, unsigned int i, struct error *err)
{
	const struct texts_put *p = arg;

	return oci_put_bytes(p->store, p->texts[i]->data, p->texts[i]->len,
			     p->digests[i], err);
}

/* Store config and manifest in the form of an image with a single layer, whose chain id is the
 * key. */
static int store_texts(struct deposit *d, const struct digest *key,
		       struct digest *ret_manifest, struct error *err)
{
	struct artifact *a = &d->artifact;
	AUTO_BUF text = BUF_INIT;
	AUTO_BUF manifest = BUF_INIT;
	struct digest config;
	struct texts_put put = {
		.store = d->blobs,
		.texts = { &text, &manifest },
		.digests = { &config, ret_manifest },
	};
	int rc;

	a->chain_ids = malloc(sizeof(*a->chain_ids));
	if (!a->chain_ids)
		return error_nomem(err);
	a->chain_ids[0] = *key;
	a->n_chain_ids = 1;
	rc = artifact_format_config(a, &text, err);

	if (rc == 0)
		rc = artifact_format_manifest(a, &text, 0, "", &manifest, err);
	return rc < 0 ? rc
		      : side_by_side(ARRAY_SIZE(put.texts), put_text, &put,
				     err);
}

/* Bytes of this snapshot that the store did not have before. */
static uint64_t stored_bytes(const struct deposit *d)
{
	const struct artifact *a = &d->artifact;
	uint64_t n = a->meta.size + a->map.size;

	if (d->shares)
		return n + d->packs.added;
	for (size_t i = 0; i < a->n_packs; i++)
		n += a->packs[i].size;
	return n;
}

/* Refuse a snapshot without changes: the command must have changed something outside the
 * targets. */
static int check_changed(const struct capture *c, const struct changes *found,
			 struct error *err)
{
	if (c->may_be_empty || found->n_changed || found->n_deleted)
		return 0;
	return error_set(err, ENODATA, "%s",
			 c->targets->is_usual
				 ? "nothing changed where programs are "
				   "installed: name what the command changes "
				   "by --target DIR"
				 : "nothing changed in the targets: does the "
				   "command install to another --target?");
}

/* Scan, store the differences, and scan again to check that nothing changed meanwhile. */
static int store_changes(const struct capture *c, struct deposit *d,
			 struct env_snapshot *snap, struct error *err)
{
	AUTO_FINI(changes) found = { .n_files = 0 };
	AUTO(env_scan) after = NULL;
	AUTO(env_scan) again = NULL;
	int rc = env_scan_new(c->targets, &after, err);

	if (rc == 0)
		rc = changes_find(c->before, after, c->targets, &found, err);
	if (rc == 0 && c->targets->is_usual)
		rc = usual_targets_check(&found, after, err);
	if (rc == 0)
		rc = check_changed(c, &found, err);
	if (rc == 0)
		rc = store_tree(d, &found, err);
	if (rc == 0)
		rc = store_texts(d, &snap->key.digest, &snap->manifest, err);
	if (rc == 0)
		rc = env_scan_new(c->targets, &again, err);
	if (rc == 0 && !env_scan_is_same(after, again))
		rc = error_set(err, ESTALE, "a target changes");
	if (rc == 0)
		rc = env_scan_digest(after, c->targets, &snap->after, err);
	snap->has_after = rc == 0;
	snap->n_changed = found.n_changed;
	snap->n_deleted = found.n_deleted;
	snap->bytes = found.bytes;
	snap->stored = stored_bytes(d);
	return rc;
}

/* ------------------------------------------------------------------------- attempts --- */

static time_t boot_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec;
}

/* Read the store's other snapshots to share blocks with; `passed_over` is one more of them. */
static int index_other_snapshots(struct deposit *d, const struct env_key *key,
				 const struct env_base *passed_over,
				 struct error *err)
{
	struct env_base list[ENV_BASES_MAX + 1];
	size_t n = 0;
	int rc = env_doomed_list(d->store, &d->doomed, err);

	if (rc == 0)
		rc = env_bases_choose(d->store, key, list, &n, err);
	if (rc == 0 && passed_over)
		list[n++] = *passed_over;
	return rc < 0 ? rc
		      : bases_new(d->store, list, n, &d->doomed, &d->bad,
				  &d->bases, err);
}

struct own_check {
	struct oci_store *blobs;
	const struct digest **own;
	size_t n;
};

/* Check every CHECKERSth blob, beginning with number `from`. */
static int check_some_blobs(void *arg, unsigned int from, struct error *err)
{
	const struct own_check *o = arg;
	int rc = 0;

	for (size_t i = from; rc == 0 && i < o->n; i += CHECKERS) {
		bool is_there = false;

		rc = oci_has_blob(o->blobs, o->own[i], &is_there, err);
		if (rc == 0 && !is_there)
			rc = error_set(err, EAGAIN, "it was removed meanwhile");
	}
	return rc;
}

/* Check that nobody removed the key's blobs during the capture. */
static int check_own_blobs(const struct deposit *d,
			   const struct digest *manifest, struct error *err)
{
	const struct artifact *a = &d->artifact;
	const struct digest **own =
		(const struct digest **)calloc(a->n_packs + 3, sizeof(*own));
	struct own_check check = { .blobs = d->blobs, .own = own };
	int rc;

	if (!own)
		return error_nomem(err);
	own[check.n++] = manifest;
	own[check.n++] = &a->map.digest;
	own[check.n++] = &a->meta.digest;
	for (size_t i = 0; i < a->n_packs; i++)
		if (!d->shares ||
		    shared_target_is_own(&d->packs, &a->packs[i].digest))
			own[check.n++] = &a->packs[i].digest;
	rc = side_by_side(CHECKERS, check_some_blobs, &check, err);
	free((void *)own);
	return rc;
}

/* Check everything just before the snapshot is published. */
static int check_stored(const struct deposit *d, struct env_snapshot *snap,
			struct error *err)
{
	int rc = 0;

	snap->is_shared =
		d->shares && shared_target_shares(&d->packs, &d->artifact);
	if (snap->is_shared)
		rc = shared_target_check(&d->packs, &d->artifact, err);
	if (rc == 0)
		rc = check_own_blobs(d, &snap->manifest, err);
	if (rc == 0 && boot_s() - d->begun_s > ATTEMPT_MAX_S)
		rc = error_set(err, EAGAIN, "it took too long");
	return rc;
}

static int begin_attempt(struct deposit *d, const struct env_snapshot *snap,
			 const struct env_base *passed_over, struct error *err)
{
	char folder[ENV_NAME_ROOM];
	int rc;

	d->begun_s = boot_s();
	env_blob_folder(&snap->key.digest, snap->folder, folder);
	rc = oci_objects_new(d->store, folder, NULL, &d->blobs, err);
	shared_target_init(&d->packs, d->store, d->blobs, &d->doomed);
	if (rc == 0 && d->shares &&
	    index_other_snapshots(d, &snap->key, passed_over, NULL) < 0)
		d->shares = false;
	return rc;
}

static void end_attempt(struct deposit *d)
{
	bases_free(steal_ptr(&d->bases));
	shared_target_fini(&d->packs);
	env_digests_fini(&d->doomed);
	artifact_fini(&d->artifact);
	d->artifact = (struct artifact){ .n_packs = 0 };
	oci_store_free(steal_ptr(&d->blobs));
}

static int try_capture(const struct capture *c, struct deposit *d,
		       struct env_catalog *catalog, struct env_snapshot *snap,
		       struct error *err)
{
	const struct env_base *passed_over =
		catalog->has_passed_over ? &catalog->passed_over : NULL;
	int rc = env_folder_new(snap->folder, err);

	if (rc < 0)
		return rc;
	rc = begin_attempt(d, snap, passed_over, err);
	if (rc == 0)
		rc = store_changes(c, d, snap, err);
	if (rc == 0)
		rc = check_stored(d, snap, err);
	end_attempt(d);
	if (rc == 0) {
		rc = env_catalog_commit(catalog, snap, err);
		d->may_be_there = rc < 0 && rc != -EEXIST;
	}
	/* If the blobs cannot be removed now, env_snapshot_remove() or env_gc() will do so
	 * later. */
	if (rc < 0 && !d->may_be_there)
		(void)!env_blobs_remove(d->store, &snap->key.digest,
					snap->folder, NULL);
	return rc;
}

/* Would an attempt without shared packs fail as well? */
static bool fails_without_sharing(int rc)
{
	static const int codes[] = { EEXIST,    ENOSPC,  ECONNREFUSED,
				     ETIMEDOUT, EROFS,   EBUSY,
				     ENOTSUP,   ENODATA, EPERM };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (rc == -codes[i])
			return true;
	return false;
}

/* Repeat the capture; after failures with shared packs, without sharing. */
static int retry_capture(const struct capture *c, struct deposit *d,
			 struct env_catalog *catalog, struct env_snapshot *snap,
			 struct error *err)
{
	unsigned int n_moved = 0, n_shared = 0;

	for (;;) {
		int rc = try_capture(c, d, catalog, snap, err);

		if (d->may_be_there) {
			return rc;
		} else if (rc == -ESTALE) {
			if (++n_moved == ATTEMPTS)
				return rc;
		} else if (rc == 0 || !d->shares || fails_without_sharing(rc)) {
			return rc;
		} else if (rc != -EAGAIN || ++n_shared == SHARED_ATTEMPTS) {
			d->shares = false;
		}
	}
}

static int copy_key(const struct env_key *from, struct env_key *ret,
		    struct error *err)
{
	*ret = (struct env_key){ .digest = from->digest };
	ret->items = calloc(from->n + 1, sizeof(*ret->items));
	if (!ret->items)
		return error_nomem(err);
	for (; ret->n < from->n; ret->n++) {
		const struct env_item *it = &from->items[ret->n];

		ret->items[ret->n] = (struct env_item){
			.kind = strdup(it->kind),
			.name = strdup(it->name),
			.value = it->value,
			.shown = it->shown ? strdup(it->shown) : NULL,
		};
	}
	for (size_t i = 0; i < ret->n; i++)
		if (!ret->items[i].kind || !ret->items[i].name ||
		    (from->items[i].shown && !ret->items[i].shown))
			return error_nomem(err);
	return 0;
}

static int copy_targets(const struct env_targets *from, struct env_targets *ret,
			struct error *err)
{
	ret->n = 0;
	ret->paths = (char **)calloc(from->n + 1, sizeof(char *));
	if (!ret->paths)
		return error_nomem(err);
	for (; ret->n < from->n; ret->n++) {
		ret->paths[ret->n] = strdup(from->paths[ret->n]);
		if (!ret->paths[ret->n])
			return error_nomem(err);
	}
	return 0;
}

/* A program's base name, as UTF-8 for JSON. */
static char *printable_name(const char *name)
{
	const char *slash = strrchr(name, '/');
	char *out = strndup(slash ? slash + 1 : name, PROGRAM_MAX);

	for (char *p = out; p && *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return out;
}

static int describe_snapshot(const struct env_key *key,
			     const struct env_targets *t, const char *program,
			     struct env_snapshot *s, struct error *err)
{
	char host[256] = "";
	int rc = copy_key(key, &s->key, err);

	if (rc == 0)
		rc = copy_targets(t, &s->targets, err);
	if (rc < 0)
		return rc;
	(void)gethostname(host, sizeof(host) - 1);
	s->by = printable_name(host);
	s->program = printable_name(program);
	return s->by && s->program ? 0 : error_nomem(err);
}

int env_capture(struct env_catalog *catalog, const struct env_key *key,
		const struct env_targets *t, const struct env_scan *before,
		const struct env_capture_options *opts,
		struct env_snapshot *ret, struct error *err)
{
	const struct env_scan nothing = { .entries = &(struct env_entry){ 0 } };
	struct env_snapshot snap = { .n_changed = 0 };
	const struct capture c = { .targets = t,
				   .before = before ? before : &nothing,
				   .may_be_empty = opts->may_be_empty };
	struct deposit d = { .store = catalog->store,
			     .shares = !opts->is_alone };
	int rc = describe_snapshot(key, t, opts->program, &snap, err);

	catalog->replaces = opts->replaces ? opts->replaces->tag : NULL;
	if (rc == 0)
		rc = retry_capture(&c, &d, catalog, &snap, err);
	catalog->replaces = NULL;
	env_digests_fini(&d.bad);
	if (rc == -ESTALE) {
		if (err)
			err->code = EBUSY;
		rc = error_wrap(err, -EBUSY, "the targets do not keep still");
	}
	if (rc < 0)
		env_snapshot_fini(&snap);
	else
		*ret = snap;
	return rc;
}
