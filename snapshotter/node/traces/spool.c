// SPDX-License-Identifier: Apache-2.0
/* A file is NUMBER.NOTE; the number counts up, so names sort by age. */
#include "snapshotter/node/traces/spool.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/registry_host.h"

#define NOTE_MAX 16

struct spool {
	pthread_mutex_t lock; /* protects the rest, and the folder's files */
	char *dir;
	uint64_t next;
	size_t n;
};

struct spooled {
	uint64_t number;
	char note[NOTE_MAX + 1];
};

/* False: the file is not one of the spool. */
static bool parse_name(const char *name, struct spooled *ret)
{
	char hex[17] = "", again[40];

	if (sscanf(name, "%16[0-9a-f].%16[a-z]", hex, ret->note) != 2)
		return false;
	ret->number = strtoull(hex, NULL, 16);
	snprintf(again, sizeof(again), "%016" PRIx64 ".%s", ret->number,
		 ret->note);
	return strcmp(name, again) == 0;
}

static char *path_of(const struct spool *s, const struct spooled *e)
{
	char *path;

	return asprintf(&path, "%s/%016" PRIx64 ".%s", s->dir, e->number,
			e->note) < 0
		       ? NULL
		       : path;
}

/* The oldest file after `after`, and the number of files.  Lock held. */
static bool oldest_file(struct spool *s, uint64_t after, struct spooled *ret,
			size_t *ret_n, uint64_t *ret_last)
{
	DIR *dir = opendir(s->dir);
	struct spooled e;
	struct dirent *d;
	bool found = false;

	*ret_n = 0;
	while (dir && (d = readdir(dir))) {
		if (!parse_name(d->d_name, &e))
			continue;
		++*ret_n;
		if (e.number > *ret_last)
			*ret_last = e.number;
		if (e.number <= after || (found && e.number > ret->number))
			continue;
		*ret = e;
		found = true;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Is it a NUMBER.NOTE.XXXXXX that a crash in fs_replace_file() left? */
static bool is_leftover(const char *name)
{
	const char *dot = strrchr(name, '.');
	AUTO_FREE char *whole = NULL;
	struct spooled e;

	if (!dot || strlen(dot) != 7)
		return false;
	whole = strndup(name, (size_t)(dot - name));
	return whole && parse_name(whole, &e);
}

static void sweep_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		if (is_leftover(d->d_name) &&
		    unlinkat(dirfd(dir), d->d_name, 0) < 0)
			log_warning("traces", "leftover path=\"%s/%s\": %s",
				    path, d->d_name, strerror(errno));
	}
	if (dir)
		closedir(dir);
}

int spool_open(const char *dir, struct spool **ret, struct error *err)
{
	struct spool *s = calloc(1, sizeof(*s));
	struct spooled e;
	int rc;

	if (!s)
		return error_nomem(err);
	pthread_mutex_init(&s->lock, NULL);
	s->dir = strdup(dir);
	rc = s->dir ? fs_mkdir_p(dir, 0700, err) : error_nomem(err);
	if (rc < 0) {
		spool_close(s);
		return rc;
	}
	sweep_folder(dir);
	(void)oldest_file(s, 0, &e, &s->n, &s->next);
	s->next++;
	*ret = s;
	return 0;
}

void spool_close(struct spool *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s->dir);
	free(s);
}

size_t spool_waiting(struct spool *s)
{
	AUTO_UNLOCK held = mutex_hold(&s->lock);

	return s->n;
}

static void remove_locked(struct spool *s, const struct spooled *e)
{
	AUTO_FREE char *path = path_of(s, e);

	if (path && unlink(path) == 0 && s->n)
		s->n--;
}

static void make_room_locked(struct spool *s)
{
	struct spooled e;
	uint64_t last = 0;

	while (oldest_file(s, 0, &e, &s->n, &last) && s->n >= SPOOL_FILES_MAX) {
		log_warning("traces",
			    "dropped path=\"%s/%016" PRIx64
			    "\" reason=\"%d traces wait for their store\"",
			    s->dir, e.number, SPOOL_FILES_MAX);
		remove_locked(s, &e);
		if (s->n >= SPOOL_FILES_MAX)
			return;
	}
}

int spool_add(struct spool *s, const struct trace *t, const char *note,
	      struct error *err)
{
	AUTO_BUF bytes = BUF_INIT;
	struct spooled e = { .number = 0 };
	int rc = trace_encode(t, &bytes, err);

	if (rc < 0)
		return rc;
	snprintf(e.note, sizeof(e.note), "%s", note);
	pthread_mutex_lock(&s->lock);
	make_room_locked(s);
	e.number = s->next++;
	{
		AUTO_FREE char *path = path_of(s, &e);

		rc = path ? fs_replace_file(path, bytes.data, bytes.len, 0600,
					    err)
			  : error_nomem(err);
	}
	if (rc == 0)
		s->n++;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static int load_trace(struct spool *s, const struct spooled *e,
		      struct trace **ret, struct error *err)
{
	AUTO_FREE char *path = path_of(s, e);
	AUTO_BUF bytes = BUF_INIT;
	int rc;

	if (!path)
		return error_nomem(err);
	rc = fs_read_file(path, TRACE_BYTES_MAX, &bytes, err);
	return rc < 0 ? rc : trace_decode(bytes.data, bytes.len, ret, err);
}

static bool is_final(int rc)
{
	return rc == 0 || rc == -EINVAL || rc == -EFBIG || rc == -EBADMSG ||
	       rc == -ENOTSUP;
}

/* Does the store work, but refuse this trace for now? */
static bool is_refused(int rc)
{
	return rc == -EACCES || rc == -EPERM || rc == -ENOENT;
}

/* The failures of this drain, and the hosts of the traces. */
struct failures {
	char hosts[SPOOL_FILES_MAX][REGISTRY_HOST_MAX];
	size_t n;
	int rc; /* of the first failure */
	struct error why;
};

static void note_failure(struct failures *f, int rc, const struct error *why)
{
	if (f->rc)
		return;
	f->rc = rc;
	f->why = *why;
}

static bool has_failed(const struct failures *f, const struct trace *t)
{
	char host[REGISTRY_HOST_MAX];

	registry_host_name(t->info.repo, host);
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->hosts[i], host) == 0)
			return true;
	return false;
}

/* After a failure, may traces for other hosts still be sent? */
static bool note_host(struct failures *f, enum spool_target target, int rc,
		      const struct trace *t)
{
	if (target != SPOOL_TO_REGISTRY || rc == -ECANCELED ||
	    f->n == SPOOL_FILES_MAX)
		return false;
	registry_host_name(t->info.repo, f->hosts[f->n++]);
	return true;
}

static int end_drain(const struct failures *f, struct error *err)
{
	return f->rc ? error_set(err, -f->rc, "%s", f->why.msg) : 0;
}

static void drop_file(struct spool *s, const struct spooled *e)
{
	pthread_mutex_lock(&s->lock);
	remove_locked(s, e);
	pthread_mutex_unlock(&s->lock);
}

int spool_drain(struct spool *s, enum spool_target target,
		int (*send)(void *arg, const struct trace *t, const char *note,
			    struct error *err),
		void *arg, struct error *err)
{
	AUTO_FREE struct failures *f = calloc(1, sizeof(*f));
	struct spooled e = { .number = 0 };
	uint64_t after = 0, last = 0;
	bool more;
	int rc;

	if (!f)
		return error_nomem(err);
	for (;; after = e.number) {
		struct error why = ERROR_INIT;
		AUTO(trace) t = NULL;

		pthread_mutex_lock(&s->lock);
		more = oldest_file(s, after, &e, &s->n, &last);
		pthread_mutex_unlock(&s->lock);
		if (!more)
			return end_drain(f, err);
		rc = load_trace(s, &e, &t, &why);
		/* removed to make room for another trace */
		if (rc == -ENOENT || (rc == 0 && has_failed(f, t)))
			continue;
		if (rc == 0)
			rc = send(arg, t, e.note, &why);
		if (is_final(rc)) {
			if (rc < 0)
				log_warning("traces", "dropped reason=\"%s\"",
					    why.msg);
			drop_file(s, &e);
			continue;
		}
		note_failure(f, rc, &why);
		if (!is_refused(rc) && (!t || !note_host(f, target, rc, t)))
			return end_drain(f, err);
	}
}
