// SPDX-License-Identifier: Apache-2.0
/* Volumes of kind ckpt: mounts of bootseer-ckpt, which are bound into the pod's folder. */
#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/mount.h"
#include "csi/volumes_priv.h"

#define START_MS 105000 /* the kubelet repeats its call after two minutes */
#define END_MS 900000   /* files that were closed are stored before the end */
#define ANSWER_MS 2000
#define ARGS_MAX 20
#define LAYERS_MAX 8 /* mounts on top of each other */

/* The path STATE/ID/ckpt, where bootseer-ckpt mounts. */
static int ckpt_mount_path(const char *dir, char **ret, struct error *err)
{
	*ret = fs_join(dir, "ckpt");
	return *ret ? 0 : error_nomem(err);
}

/* Is the mount dead, because its processes were killed? */
static bool is_dead(const char *path)
{
	return mount_ask(path, ANSWER_MS) == ENOTCONN;
}

/* Kill the processes and remove the mount that a dead volume, or a plugin that was killed while
 * starting it, has left.  Processes first, since they may still be mounting. */
static int clear_dead_mount(const char *path, const char *id, struct error *err)
{
	int rc = helper_kill(id, err);

	for (int i = 0; rc == 0 && i < LAYERS_MAX; i++)
		if (umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH) < 0)
			return errno == EINVAL || errno == ENOENT
				       ? 0
				       : error_set(err, errno,
						   "unmount '%s': %s", path,
						   strerror(errno));
	return rc < 0 ? rc
		      : error_set(err, EBUSY, "over %d mounts lie on '%s'",
				  LAYERS_MAX, path);
}

struct ckpt_args {
	char *argv[ARGS_MAX];
	char text[4][48];
	size_t n;
};

static void add_arg(struct ckpt_args *a, const char *arg)
{
	a->argv[a->n++] = (char *)(uintptr_t)arg;
}

static int run_bootseer(const struct volumes *v, const char *dir,
			const char *id, const struct volume_grant *g,
			struct ckpt_args *a, int64_t timeout_ms,
			struct error *err)
{
	AUTO_FREE char *program = fs_join(v->cfg.programs, "bootseer");
	AUTO_FREE char *log = fs_join(dir, "log");
	struct helper_job h = {
		.id = id,
		.argv = a->argv,
		.log = log,
		.memory = g->memory ? g->memory + VOLUME_MEMORY_SLACK : 0
	};
	char **env = NULL;
	int rc;

	if (!program || !log)
		return error_nomem(err);
	a->argv[0] = program;
	rc = login_env(dir, g, &env, err);
	if (rc < 0)
		return rc;
	h.env = env;
	rc = helper_run(&h, timeout_ms, err);
	login_env_free(env);
	return rc;
}

static int start_mount(const struct volume_job *j, const char *path,
		       struct error *err)
{
	const struct volume_grant *g = j->grant;
	AUTO_FREE char *run = fs_join(j->dir, "run");
	struct ckpt_args a = { .n = 1 };
	int rc;

	if (!run)
		return error_nomem(err);
	(void)snprintf(a.text[0], sizeof(a.text[0]), "--memory=%llu",
		       (unsigned long long)g->memory);
	(void)snprintf(a.text[1], sizeof(a.text[1]), "--uid=%llu",
		       (unsigned long long)g->uid);
	(void)snprintf(a.text[2], sizeof(a.text[2]), "--gid=%llu",
		       (unsigned long long)g->gid);
	add_arg(&a, "ckpt");
	add_arg(&a, "mount");
	add_arg(&a, "--run");
	add_arg(&a, run);
	for (size_t i = 0; i < 3; i++)
		add_arg(&a, a.text[i]);
	if (j->request->is_read_only)
		add_arg(&a, "--read-only");
	if (g->cache) {
		add_arg(&a, "--cache");
		add_arg(&a, g->cache);
	}
	if (g->cache_size) {
		(void)snprintf(a.text[3], sizeof(a.text[3]),
			       "--cache-size=%llu",
			       (unsigned long long)g->cache_size);
		add_arg(&a, a.text[3]);
	}
	if (*j->request->selinux_context) {
		add_arg(&a, "--selinux-context");
		add_arg(&a, j->request->selinux_context);
	}
	add_arg(&a, g->store);
	add_arg(&a, path);
	rc = run_bootseer(j->volumes, j->dir, j->target->id, g, &a, START_MS,
			  err);
	return error_wrap(err, rc, "checkpoints of '%.120s'",
			  j->request->store);
}

int volume_ckpt_open(const struct volume_job *j, char **ret, struct error *err)
{
	AUTO_FREE char *path = NULL;
	int rc = ckpt_mount_path(j->dir, &path, err);

	if (rc < 0)
		return rc;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_set(err, errno, "make '%s': %s", path,
				 strerror(errno));
	rc = volume_is_mounted(path, err);
	if (rc < 0)
		return rc;
	if (rc == 0 || is_dead(path)) {
		if (rc == 1)
			log_warning("csi",
				    "a checkpoint mount is dead, and made "
				    "anew: volume=%s",
				    j->target->id);
		rc = clear_dead_mount(path, j->target->id, err);
		if (rc == 0)
			rc = start_mount(j, path, err);
	}
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&path);
	return 0;
}

int volume_ckpt_close(const struct volumes *v, const char *dir, const char *id,
		      struct error *err)
{
	const struct volume_grant none = { .login = VOLUME_LOGIN_NONE };
	AUTO_FREE char *run = fs_join(dir, "run");
	AUTO_FREE char *path = NULL;
	struct ckpt_args a = { .n = 1 };
	int rc = ckpt_mount_path(dir, &path, err);

	if (rc == 0 && !run)
		rc = error_nomem(err);
	if (rc == 0)
		rc = volume_is_mounted(path, err);
	if (rc == 1 && !is_dead(path)) {
		add_arg(&a, "ckpt");
		add_arg(&a, "umount");
		add_arg(&a, "--run");
		add_arg(&a, run);
		add_arg(&a, path);
		rc = run_bootseer(v, dir, id, &none, &a, END_MS, err);
	}
	return rc < 0 ? rc : clear_dead_mount(path, id, err);
}
