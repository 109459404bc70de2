// SPDX-License-Identifier: Apache-2.0
/*
 * Separate mounts for recordings (image.record): a mount has one page cache, so reads that
 * another reader of the same mount has cached would not be seen.  They end with the process and
 * are not saved; what a killed process left is unmounted at the next start.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/mount.h"
#include "snapshotter/datapath/images.h"
#include "snapshotter/node/starts/mounted.h"
#include "snapshotter/node/starts/record.h"
#include "snapshotter/node/starts/starts.h"

#define RECORDINGS_MAX 16
#define RECORD_PREFIX "record."

struct recording {
	struct recording *next;
	char *user;
	struct image *image; /* a use, so that the image is not removed */
	struct mounted *mounted;
	char *path;
	bool busy; /* a thread is mounting or unmounting it */
};

struct recordings {
	struct mounts_of of;
	struct mounts *mounts;
	pthread_mutex_t lock; /* protects the rest */
	struct recording *first;
	size_t n;
	/* Chosen far from the indexes of images and of an earlier process's recordings: a
	 * descriptor that outlives its mount must not lead to the bytes of another image. */
	uint64_t next_index;
};

static void recording_free(struct recording *r)
{
	if (!r)
		return;
	if (r->image) {
		images_lock(r->image->all);
		r->image->recordings--;
		images_unlock(r->image->all);
	}
	images_put(r->image);
	free(r->user);
	free(r->path);
	free(r);
}

/* The recording of a user.  The lock is held. */
static struct recording *find_recording(struct recordings *all,
					const char *user)
{
	struct recording *r;

	for (r = all->first; r && strcmp(r->user, user) != 0; r = r->next)
		;
	return r;
}

static void forget_recording(struct recordings *all, struct recording *r)
{
	struct recording **p;

	pthread_mutex_lock(&all->lock);
	for (p = &all->first; *p != r; p = &(*p)->next)
		;
	*p = r->next;
	all->n--;
	pthread_mutex_unlock(&all->lock);
	recording_free(r);
}

/* Add an entry to the table, marked busy. */
static int claim_user(struct recordings *all, struct image *i, const char *user,
		      struct recording **ret, uint64_t *ret_index,
		      struct error *err)
{
	struct recording *r = calloc(1, sizeof(*r));
	int rc = 0;

	if (!r)
		return error_nomem(err);
	r->busy = true;
	r->user = strdup(user);
	r->image = images_get(i->all, &i->id);
	if (r->image) {
		images_lock(i->all);
		r->image->recordings++;
		images_unlock(i->all);
	}
	pthread_mutex_lock(&all->lock);
	if (!r->user || !r->image)
		rc = error_set(err, r->user ? ENOENT : ENOMEM,
			       "image %.12s was removed", i->hex);
	else if (find_recording(all, user))
		rc = error_set(err, EBUSY, "'%s' records already", user);
	else if (all->n >= RECORDINGS_MAX)
		rc = error_set(err, EAGAIN, "%d recordings are under way",
			       RECORDINGS_MAX);
	if (rc == 0) {
		r->next = all->first;
		all->first = r;
		all->n++;
		*ret_index = all->next_index++;
	}
	pthread_mutex_unlock(&all->lock);
	if (rc < 0)
		recording_free(r);
	else
		*ret = r;
	return rc;
}

static int mount_own(struct recordings *all, struct recording *r,
		     uint64_t index, struct remote_call *call,
		     struct error *err)
{
	const struct mounted_of *opens = &all->of.opens;
	struct map_file meta = MAP_FILE_INIT;
	AUTO(mounted) m = NULL;
	int rc;

	if (asprintf(&r->path, "%s/images/%s/" RECORD_PREFIX "%llu",
		     all->of.cfg->run, r->image->hex,
		     (unsigned long long)index) < 0) {
		r->path = NULL;
		return error_nomem(err);
	}
	/* mounted_open() may fetch the image's files again, as other threads may: take the gate. */
	rc = mounted_lock_image(opens, r->image, call, err);
	if (rc < 0)
		return rc;
	rc = mounted_open(opens, r->image, call, &meta, &m, err);
	keyed_lock_leave(opens->gate, &r->image->id);
	map_file_close(&meta);
	if (rc < 0)
		return rc;
	m->image.index = index;
	m->image.mountpoint = r->path;
	rc = mounted_open_device(m, r->image, err);
	if (rc == 0)
		rc = mounts_mount_own(all->mounts, m, err);
	if (rc == 0)
		r->mounted = steal_ptr(&m);
	else
		(void)rmdir(r->path);
	return rc;
}

static int umount_own(struct recordings *all, struct recording *r,
		      struct error *err)
{
	int rc;

	if (!r->mounted)
		return 0;
	rc = mounts_umount_own(all->mounts, r->mounted, err);
	if (rc < 0)
		return rc;
	r->mounted = NULL;
	(void)rmdir(r->path);
	return 0;
}

int recordings_begin(struct recordings *all, const struct record_request *q,
		     struct record_reply *ret, struct error *err)
{
	static const struct wait_policy none = { .kind = WAIT_NONE };
	struct start_request req = { .user = q->user,
				     .workload = q->workload,
				     .wait = &none,
				     .window_ns = q->window_ns,
				     .call = q->call };
	struct start_reply reply = { .number = 0 };
	struct recording *r = NULL;
	struct error ignored;
	uint64_t index = 0;
	int rc;

	rc = claim_user(all, q->image, q->user, &r, &index, err);
	if (rc < 0)
		return rc;
	rc = mount_own(all, r, index, q->call, err);
	req.mount = r->mounted;
	if (rc == 0)
		rc = starts_begin(all->of.starts, q->image, &req, &reply, err);
	if (rc == 0)
		ret->path = strdup(r->path);
	if (rc == 0 && !ret->path)
		rc = error_nomem(err);
	ret->start = reply.number;
	if (rc < 0 && umount_own(all, r, &ignored) == 0) {
		forget_recording(all, r);
		return error_wrap(err, rc, "recording");
	}
	pthread_mutex_lock(&all->lock);
	r->busy = false;
	pthread_mutex_unlock(&all->lock);
	if (rc == 0)
		log_info("record", "mounted image=%.12s path=\"%s\"",
			 q->image->hex, ret->path);
	return rc;
}

int recordings_end(struct recordings *all, const char *user, bool *ret_was,
		   struct error *err)
{
	struct recording *r;
	bool busy;
	int rc;

	pthread_mutex_lock(&all->lock);
	r = find_recording(all, user);
	busy = r && r->busy;
	if (r)
		r->busy = true;
	pthread_mutex_unlock(&all->lock);
	*ret_was = false;
	if (!r)
		return 0;
	if (busy)
		return error_set(err, EBUSY,
				 "the recording of '%s' is being "
				 "set up or taken down",
				 user);
	rc = umount_own(all, r, err);
	if (rc == 0) {
		*ret_was = true;
		forget_recording(all, r);
		return 0;
	}
	pthread_mutex_lock(&all->lock);
	r->busy = false;
	pthread_mutex_unlock(&all->lock);
	return rc;
}

/* ----------------------------------------------------------- start and end --- */

/* Unmount recordings below RUN/images/HEX that a killed process left. */
static void clean_image(const char *run, const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		AUTO_FREE char *path = NULL;
		struct error err = ERROR_INIT;

		if (strncmp(e->d_name, RECORD_PREFIX, strlen(RECORD_PREFIX)) !=
		    0)
			continue;
		path = fs_join(dir, e->d_name);
		if (!path)
			continue;
		if (mount_take_down(run, IMAGE_INDEX_MAX, path, true, &err) < 0)
			log_warning("record", "leftover reason=\"%s\"",
				    err.msg);
		else
			(void)rmdir(path);
	}
	if (d)
		closedir(d);
}

static void clean_all(const char *run)
{
	AUTO_FREE char *top = fs_join(run, "images");
	DIR *d = top ? opendir(top) : NULL;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		AUTO_FREE char *dir = NULL;

		if (e->d_name[0] == '.')
			continue;
		dir = fs_join(top, e->d_name);
		if (dir)
			clean_image(run, dir);
	}
	if (d)
		closedir(d);
}

int recordings_open(const struct mounts_of *of, struct mounts *mounts,
		    struct recordings **ret, struct error *err)
{
	struct recordings *all = calloc(1, sizeof(*all));
	uint32_t random;

	if (!all)
		return error_nomem(err);
	if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
		free(all);
		return error_set(err, EIO, "no random numbers");
	}
	all->of = *of;
	all->mounts = mounts;
	pthread_mutex_init(&all->lock, NULL);
	/* Begin at random in a range that has room for more recordings than a process will make. */
	all->next_index = IMAGE_INDEX_MAX / 2 + random % (IMAGE_INDEX_MAX / 4);
	clean_all(of->cfg->run);
	*ret = all;
	return 0;
}

void recordings_close(struct recordings *all)
{
	struct recording *r;

	if (!all)
		return;
	while ((r = all->first)) {
		struct error err = ERROR_INIT;

		if (umount_own(all, r, &err) < 0)
			log_warning("record",
				    "unmount path=\"%s\" reason=\"%s\"",
				    r->path, err.msg);
		/* The mount is in use: its reads fail from now on, since no process serves them. */
		all->first = r->next;
		recording_free(r);
	}
	pthread_mutex_destroy(&all->lock);
	free(all);
}
