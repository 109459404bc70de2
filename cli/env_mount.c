// SPDX-License-Identifier: Apache-2.0
#include "cli/env_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/env_pod.h"
#include "cli/node_ask.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"

/* timeout of calls to bootseerd; then the snapshot is unpacked instead */
#define CALL_MS 60000

int env_mount_choose_name(char ret[ENV_MOUNT_NAME_ROOM], struct error *err)
{
	uint64_t n[2];

	if (getrandom(n, sizeof(n), 0) != sizeof(n))
		return error_set(err, EIO, "no random bytes");
	(void)snprintf(ret, ENV_MOUNT_NAME_ROOM, "%016" PRIx64 "%016" PRIx64,
		       n[0], n[1]);
	return 0;
}

/* If no socket was named and none exists, the error has no message: that is normal. */
int env_node_connect(const char *socket, uint32_t timeout_ms,
		     struct node_client **ret, struct error *err)
{
	const char *named = socket ? socket : getenv("BOOTSEER_SOCKET");
	const char *path = named ? named : NODE_SOCKET_DEFAULT;
	int rc;

	if (!named && access(path, R_OK | W_OK) < 0) {
		*err = (struct error){ .code = ENOENT };
		return -ENOENT;
	}
	rc = node_client_open(path, timeout_ms, NULL, ret, err);
	return rc;
}

static int join_targets(const struct env_mount_job *job, const char *source,
			const json_t *mounted, struct error *err)
{
	struct env_join j = {
		.targets = job->targets,
		.tree = json_string_value(json_object_get(mounted, "path")),
		.work = json_string_value(json_object_get(mounted, "work")),
		.source = source,
	};

	return env_join(&j, err);
}

static int check_joined(const struct env_mount_job *job, const char *source,
			struct error *err)
{
	int rc = job->check ? job->check->is_good(job->check, err) : 0;
	struct error why = ERROR_INIT;

	/* Unmount; processes that the check started may still use the mount, and then it stays. */
	if (rc < 0 && env_part_all(source, &why) < 0)
		error_wrap(err, rc, "what was mounted stays (%.100s)", why.msg);
	return rc;
}

/* Mark the mount as unconfirmed: if this process is killed, the next run removes the mount. */
static int begin_unconfirmed(const char *work, char **ret_path, int *ret,
			     struct error *err)
{
	AUTO_FREE char *path = fs_join(work, ENV_UNCONFIRMED);
	AUTO_CLOSE int fd = -1;

	if (!path)
		return error_nomem(err);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return error_errno(err, errno, "make '%.200s'", path);
	*ret_path = steal_ptr(&path);
	*ret = steal_fd(&fd);
	return 0;
}

static int join_and_check(const struct env_mount_job *job, const char *source,
			  const json_t *mounted, struct error *err)
{
	const char *work = json_string_value(json_object_get(mounted, "work"));
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int fd = -1;
	int rc = begin_unconfirmed(work, &path, &fd, err);

	if (rc == 0)
		rc = join_targets(job, source, mounted, err);
	if (rc == 0)
		rc = check_joined(job, source, err);
	if (rc == 0 && unlink(path) < 0) {
		rc = error_errno(err, errno, "remove '%.200s'", path);
		(void)!env_part_all(source, NULL);
	}
	return rc;
}

static int mount_by_bootseerd(struct node_client *c, struct env_mount_job *job,
			      struct error *err)
{
	char name[ENV_MOUNT_NAME_ROOM];
	char source[sizeof(ENV_MOUNT_PREFIX) + ENV_MOUNT_NAME_ROOM];
	AUTO_JSON *mounted = NULL;
	json_t *params;
	int rc = env_mount_choose_name(name, err);

	if (rc < 0)
		return rc;
	params = env_params_with(env_snapshot_params(job->store, job->snap),
				 "name", json_string(name));
	rc = params ? node_ask_on(c, "environment.mount", params, &mounted, err)
		    : error_set(err, EINVAL,
				"no memory, or the store's URL is not UTF-8");
	if (rc < 0)
		return rc;
	job->is_answered = true;
	if (!json_string_value(json_object_get(mounted, "path")) ||
	    !json_string_value(json_object_get(mounted, "work")))
		return error_set(err, EPROTO,
				 "bootseerd does not say where it mounted it");
	(void)snprintf(source, sizeof(source), ENV_MOUNT_PREFIX "%s", name);
	rc = join_and_check(job, source, mounted, err);
	if (rc < 0) /* an error here does not matter: bootseerd notices by
	             * itself */
		(void)!node_ask_on(c, "environment.umount",
				   json_pack("{s:s}", "name", name), NULL,
				   NULL);
	return rc;
}

int env_mount(struct env_mount_job *job, struct error *err)
{
	const char *pod = job->socket ? NULL : env_pod_socket();
	struct env_hold *hold = NULL;
	struct node_client *c = NULL;
	int rc = pod ? 0 : env_node_connect(job->socket, CALL_MS, &c, err);

	if (rc < 0)
		return rc;
	rc = env_targets_hold(job->snap, job->targets, job->others_ns, &hold,
			      err);
	job->is_over = rc == -ESTALE || rc == -EBUSY || rc > 0;
	if (rc == 0)
		rc = pod ? env_pod_mount(pod, job, err)
			 : mount_by_bootseerd(c, job, err);
	else if (rc > 0 && job->check &&
		 job->check->is_good(job->check, err) < 0)
		rc = -err->code;
	env_targets_release(hold);
	node_client_close(c);
	return rc;
}
