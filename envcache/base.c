// SPDX-License-Identifier: Apache-2.0
/*
 * The last check of the targets before a restore changes them.  Other processes of the node may
 * have changed them since the scan for the key: by restoring the same snapshot, or by running the
 * command.
 */
#include "envcache/base.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"
#include "envcache/join.h"
#include "envcache/scan.h"
#include "envcache/stage.h"

/* ------------------------------------------------------------------------ check --- */

static const struct env_item *find_base_item(const struct env_key *k)
{
	for (size_t i = 0; i < k->n; i++)
		if (strcmp(k->items[i].kind, "base") == 0)
			return &k->items[i];
	return NULL;
}

/* Does the digest equal the value in the key's item? */
static bool is_base_value(const struct digest *base, const struct env_item *it)
{
	char text[DIGEST_STR_MAX];
	struct digest d;

	digest_format(base, text);
	return digest_of(text, strlen(text), &d) == 0 &&
	       digest_equal(&d, &it->value);
}

int env_scan_is_after(const struct env_scan *s, const struct env_snapshot *snap,
		      bool *ret, struct error *err)
{
	struct digest all;
	int rc = snap->has_after ? env_scan_digest(s, &snap->targets, &all, err)
				 : 0;

	*ret = rc == 0 && snap->has_after && digest_equal(&all, &snap->after);
	return rc;
}

int base_check(const struct env_snapshot *snap, const struct env_targets *t,
	       struct error *err)
{
	const struct env_item *it = find_base_item(&snap->key);
	AUTO(env_scan) now = NULL;
	struct digest d;
	bool is_after;
	int rc = it ? env_scan_new(t, &now, err) : 0;

	if (!it)
		return 0; /* a process snapshot has no base */
	if (rc == 0)
		rc = env_scan_digest(now, t, &d, err);
	if (rc == 0 && is_base_value(&d, it))
		return 0;
	if (rc == 0)
		rc = env_scan_is_after(now, snap, &is_after, err);
	if (rc == 0 && is_after)
		return 1;
	return rc < 0 ? rc
		      : error_set(err, ESTALE,
				  "the targets are not as they were: another "
				  "process works there");
}

/* ------------------------------------------------------------------------- look --- */

/* Results older than this are not used; a check takes about as long. */
#define LOOK_OLD_NS NS_PER_S

static void *base_look_main(void *arg)
{
	struct base_look *l = arg;

	l->rc = base_check(l->snap, l->targets, &l->err);
	l->ended_ns = clock_now_ns();
	return NULL;
}

void base_look_begin(struct base_look *l)
{
	l->err = (struct error)ERROR_INIT;
	/* If no thread can be started, base_look_end() does the check itself. */
	(void)!thread_start(&l->thread, base_look_main, l, NULL);
}

void base_look_drop(struct base_look *l)
{
	thread_join(&l->thread);
}

int base_look_end(struct base_look *l, struct error *err)
{
	bool was_begun = l->thread.is_started;
	/* The only work after this time was waiting, so the result's age is measured to here. */
	int64_t now = clock_now_ns();

	base_look_drop(l);
	if (!was_begun || now - l->ended_ns > LOOK_OLD_NS)
		return base_check(l->snap, l->targets, err);
	if (l->rc < 0 && err)
		*err = l->err;
	return l->rc;
}

/* ------------------------------------------------------------------------- hold --- */

struct env_hold {
	size_t n;
	int fds[ENV_TARGETS_MAX];
};

void env_targets_release(struct env_hold *h)
{
	if (!h)
		return;
	while (h->n)
		(void)close(h->fds[--h->n]);
	free(h);
}

/* Open the target, or, if it does not exist yet, the nearest existing folder above it. */
static int open_nearest(const char *path)
{
	AUTO_FREE char *at = strdup(path);
	int fd;

	if (!at)
		return -ENOMEM;
	while ((fd = fs_openat2(AT_FDCWD, *at ? at : "/",
				O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS)) <
		       0 &&
	       errno == ENOENT && *at)
		*strrchr(at, '/') = '\0';
	return fd < 0 ? -errno : fd;
}

/* Is the folder locked already?  A lock by a second descriptor would wait for the first for
 * ever. */
static bool is_folder_locked(const struct env_hold *h, int fd)
{
	struct stat st, is;

	for (size_t i = 0; fstat(fd, &st) == 0 && i < h->n; i++)
		if (fstat(h->fds[i], &is) == 0 && st.st_ino == is.st_ino &&
		    st.st_dev == is.st_dev)
			return true;
	return false;
}

static int lock_target(struct env_hold *h, const char *path,
		       int64_t deadline_ns, struct error *err)
{
	int fd = open_nearest(path), rc = 0;

	if (fd < 0)
		return error_errno(err, -fd, "open '%.160s'", path);
	if (is_folder_locked(h, fd)) {
		(void)close(fd);
		return 0;
	}
	h->fds[h->n++] = fd;
	rc = stage_lock(fd, deadline_ns, err);
	/* A file system without locks must not prevent a mount. */
	return rc == -EBUSY ? error_wrap(err, rc, "'%.200s'", path) : 0;
}

int env_targets_hold(const struct env_snapshot *snap,
		     const struct env_targets *t, int64_t deadline_ns,
		     struct env_hold **ret, struct error *err)
{
	struct env_hold *h = calloc(1, sizeof(*h));
	int rc = h ? 0 : error_nomem(err);

	for (size_t i = 0; rc == 0 && i < t->n; i++)
		rc = lock_target(h, t->paths[i], deadline_ns, err);
	if (rc == 0)
		rc = base_check(snap, t, err);
	if (rc < 0)
		env_targets_release(h);
	else
		*ret = h;
	return rc;
}
