// SPDX-License-Identifier: Apache-2.0
#include "cli/ckpt_local.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"

struct ckpt_local {
	const char *path; /* borrowed */
	struct buf tmp;   /* name of the temporary file until commit; empty:
	                   * none */
	int fd;
};

/* Temporary file that exists now ("": none), for the handler of a signal that ends the process. */
static char unfinished[PATH_MAX];

static void remove_unfinished(int signal_number)
{
	(void)unlink(unfinished);
	(void)raise(
		signal_number); /* SA_RESETHAND: as if there were no handler */
}

/* Catch a signal, unless it is ignored (nohup). */
static void catch_signal(int signal_number)
{
	const struct sigaction a = { .sa_handler = remove_unfinished,
				     .sa_flags = (int)SA_RESETHAND };
	struct sigaction old;

	if (sigaction(signal_number, NULL, &old) == 0 &&
	    old.sa_handler != SIG_IGN)
		(void)sigaction(signal_number, &a, NULL);
}

/* Block the signals that end the process, so that none comes between the creation of a file and
 * noting its name in `unfinished`. */
static void hold_signals(sigset_t *ret_before)
{
	sigset_t ends;

	(void)sigemptyset(&ends);
	(void)sigaddset(&ends, SIGTERM);
	(void)sigaddset(&ends, SIGINT);
	(void)sigaddset(&ends, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &ends, ret_before);
}

int ckpt_local_new(const char *path, struct ckpt_local **ret, struct error *err)
{
	AUTO(ckpt_local) l = calloc(1, sizeof(*l));
	sigset_t before;
	int code;

	if (!l)
		return error_nomem(err);
	catch_signal(SIGTERM);
	catch_signal(SIGINT);
	catch_signal(SIGHUP);
	l->path = path;
	l->fd = -1;
	if (buf_printf(&l->tmp, "%s.XXXXXX", path) < 0)
		return error_nomem(err);
	hold_signals(&before);
	l->fd = mkostemp(l->tmp.data, O_CLOEXEC);
	code = errno;
	if (l->fd >= 0)
		(void)snprintf(unfinished, sizeof(unfinished), "%s",
			       l->tmp.data);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (l->fd < 0) {
		buf_fini(&l->tmp);
		return error_errno(err, code, "cannot be made");
	}
	*ret = steal_ptr(&l);
	return 0;
}

int ckpt_local_fd(const struct ckpt_local *l)
{
	return l->fd;
}

int ckpt_local_commit(struct ckpt_local *l, const struct ckpt_attr *a,
		      struct error *err)
{
	const struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT },
		clock_timespec(a->mtime_ns),
	};

	/* The file gets a new owner, so set-user-id bits are dropped. */
	if (fchmod(l->fd, a->mode & 0777) < 0 || futimens(l->fd, times) < 0 ||
	    fsync(l->fd) < 0 || rename(l->tmp.data, l->path) < 0)
		return error_errno(err, errno, "cannot be made");
	unfinished[0] = '\0';
	buf_fini(&l->tmp);
	return 0;
}

void ckpt_local_free(struct ckpt_local *l)
{
	if (!l)
		return;
	fd_close(l->fd);
	if (l->tmp.data)
		(void)unlink(l->tmp.data);
	unfinished[0] = '\0';
	buf_fini(&l->tmp);
	free(l);
}

static int visit_local_entry(const FTSENT *e, size_t skip, ckpt_local_fn *fn,
			     void *arg, struct error *err)
{
	const char *below = e->fts_path + skip;

	while (*below == '/')
		below++;
	switch (e->fts_info) {
	case FTS_D:
	case FTS_DP:
		return 0;
	case FTS_F:
		return fn(arg, e->fts_path, below, err);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		return error_errno(err, e->fts_errno, "'%s'", e->fts_path);
	default:
		return error_set(err, EINVAL,
				 "'%s' is no file and no folder: stores keep "
				 "nothing else",
				 e->fts_path);
	}
}

int ckpt_local_walk(const char *folder, ckpt_local_fn *fn, void *arg,
		    struct error *err)
{
	AUTO_FREE char *top = strdup(folder);
	char *const tops[] = { top, NULL };
	size_t skip = strlen(folder);
	FTS *fts;
	FTSENT *e;
	int rc = 0;

	if (!top)
		return error_nomem(err);
	fts = fts_open(tops, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
	if (!fts)
		return error_errno(err, errno, "'%s'", folder);
	while (rc == 0 && (e = fts_read(fts)))
		rc = visit_local_entry(e, skip, fn, arg, err);
	(void)fts_close(fts);
	return rc;
}
