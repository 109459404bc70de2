// SPDX-License-Identifier: Apache-2.0
#include "profiler/emit/emit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"

#define FILE_MAX (1 << 20)

/* ------------------------------------------------------------- this machine --- */

const char *stage_this_node(void)
{
	static char host[STAGE_NODE_MAX + 1];
	const char *node = getenv("BOOTSEER_NODE");

	if (node && stage_is_node(stage_text(node)))
		return node;
	if (gethostname(host, sizeof(host) - 1) < 0 ||
	    !stage_is_node(stage_text(host)))
		return "";
	return host;
}

/* Slurm counts how often a job was requeued; torchrun how often its workers were restarted. */
void stage_this_attempt(int64_t *ret)
{
	static const char *const names[] = { "BOOTSEER_ATTEMPT",
					     "SLURM_RESTART_COUNT",
					     "TORCHELASTIC_RESTART_COUNT" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (stage_read_count(getenv(names[i]), ret))
			return;
}

uint64_t stage_this_boot(void)
{
	AUTO_BUF text = BUF_INIT;
	uint64_t boot = 0;
	int n = 0;

	if (fs_read_file("/proc/sys/kernel/random/boot_id", 64, &text, NULL) <
	    0)
		return 0;
	for (const char *p = text.data; p && *p && n < 16; p++) {
		const char *digits = "0123456789abcdef";
		const char *at = strchr(digits, *p);

		if (!at)
			continue;
		boot = boot << 4 | (uint64_t)(at - digits);
		n++;
	}
	return boot;
}

/* -------------------------------------------------------------------- events --- */

void stage_make(const char *name, enum stage_ev ev, int64_t mono_ns,
		struct stage_event *ret)
{
	int64_t now = clock_now_ns();
	uint64_t id;

	*ret = (struct stage_event)STAGE_EVENT_INIT;
	ret->stage = stage_text(name);
	ret->ev = ev;
	ret->mono_ns = mono_ns ? mono_ns : now;
	ret->ts_ns = clock_wall_ns() - (now - ret->mono_ns);
	ret->boot = stage_this_boot();
	if (getrandom(&id, sizeof(id), 0) == sizeof(id))
		ret->id = (int64_t)(id & INT64_MAX);
}

bool stage_read_count(const char *s, int64_t *ret)
{
	size_t n = s ? strspn(s, "0123456789") : 0;

	if (n < 1 || n > 9 || s[n])
		return false;
	*ret = strtoll(s, NULL, 10);
	return true;
}

void stage_own_by_env(struct stage_event *e)
{
	const char *job = getenv("BOOTSEER_JOB");

	if (!e->job.n && stage_is_job(stage_text(job)))
		e->job = stage_text(job);
	if (!e->node.n)
		e->node = stage_text(stage_this_node());
	if (e->attempt == STAGE_NONE)
		stage_this_attempt(&e->attempt);
	if (e->rank == STAGE_NONE &&
	    !stage_read_count(getenv("BOOTSEER_RANK"), &e->rank))
		(void)stage_read_count(getenv("RANK"), &e->rank);
}

/* ------------------------------------------------------------------- emitter --- */

struct stage_emitter {
	char *path, *old;
	pthread_mutex_t lock; /* protects `fd` */
	int fd;               /* -1: not open yet */
};

static int open_file(struct stage_emitter *e)
{
	if (e->fd < 0)
		e->fd = open(e->path,
			     O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW |
				     O_CLOEXEC,
			     0600);
	return e->fd < 0 ? -errno : 0;
}

int stage_emitter_new(const char *dir, const char *name,
		      struct stage_emitter **ret, struct error *err)
{
	AUTO(stage_emitter) e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return error_nomem(err);
	e->fd = -1;
	(void)pthread_mutex_init(&e->lock, NULL);
	if (asprintf(&e->path, "%s/%s" STAGE_EMIT_SUFFIX, dir, name) < 0) {
		e->path = NULL;
		return error_nomem(err);
	}
	if (asprintf(&e->old, "%s.1", e->path) < 0) {
		e->old = NULL;
		return error_nomem(err);
	}
	rc = open_file(e);
	if (rc < 0)
		return error_errno(err, -rc, "'%s'", e->path);
	*ret = steal_ptr(&e);
	return 0;
}

void stage_emitter_free(struct stage_emitter *e)
{
	if (!e)
		return;
	if (e->fd >= 0)
		close(e->fd);
	(void)pthread_mutex_destroy(&e->lock);
	free(e->path);
	free(e->old);
	free(e);
}

/* Rename a full file, so that a new one is begun; the reader still has the old one open. Lock
 * held. */
static int make_room(struct stage_emitter *e)
{
	struct stat st;

	if (e->fd >= 0 && fstat(e->fd, &st) == 0 && st.st_size < FILE_MAX &&
	    st.st_nlink > 0)
		return 0;
	if (e->fd >= 0) {
		(void)rename(e->path, e->old);
		close(e->fd);
		e->fd = -1;
	}
	return open_file(e);
}

bool stage_emit(struct stage_emitter *e, const struct stage_event *ev)
{
	AUTO_BUF line = BUF_INIT;
	bool is_written = false;

	if (!e)
		return false;
	if (stage_event_format(ev, &line) == 0) {
		(void)pthread_mutex_lock(&e->lock);
		is_written =
			make_room(e) == 0 &&
			write(e->fd, line.data, line.len) == (ssize_t)line.len;
		(void)pthread_mutex_unlock(&e->lock);
	}
	return is_written;
}
