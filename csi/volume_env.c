// SPDX-License-Identifier: Apache-2.0
/* Volumes of kind env: the socket of `bootseer env socket`, in a folder that the pod gets. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/log.h"
#include "csi/volumes_priv.h"
#include "net/unix_connect.h"

#define START_MS 30000
#define LIST_MAX 65536
#define NAME_LEN 32 /* hex digits of a mount's name */
#define MOST_DEFAULT 16
/* Small: the file system has to hold a socket, and no files of a container. */
#define TMPFS "size=64k,nr_inodes=16,mode=755"
#define READY "bootseer env socket: ready"

/* The path of the socket's folder: STATE/ID/env/pod. */
static int socket_folder_path(const char *dir, char **ret, struct error *err)
{
	if (asprintf(ret, "%s/env/pod", dir) < 0) {
		*ret = NULL;
		return error_nomem(err);
	}
	return 0;
}

/* Open the socket without following a link, which root of a container may have put in its place. */
static int open_socket(const char *folder)
{
	AUTO_FREE char *path = fs_join(folder, "env.sock");
	int fd = path ? open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static bool is_served(const char *folder)
{
	AUTO_CLOSE int at = open_socket(folder);
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	return at >= 0 && unix_is_served(path);
}

/* Mount a small file system for the pod: a container may be able to write to it, because
 * runtimes mount it again without our "read only", and must not fill another file system. */
static int mount_folder(const char *dir, const char *folder,
			const char *context, struct error *err)
{
	AUTO_FREE char *above = fs_join(dir, "env");
	char options[sizeof(TMPFS) + MOUNT_CONTEXT_MAX + 16];
	int rc = volume_is_mounted(folder, err);

	if (rc != 0 || !above)
		return rc < 0 ? rc : rc == 1 ? 0 : error_nomem(err);
	rc = fs_mkdir(above, 0700, err);
	if (rc == 0)
		rc = fs_mkdir(folder, 0755, err);
	(void)snprintf(options, sizeof(options), "%s%s%s%s", TMPFS,
		       *context ? ",context=\"" : "", context,
		       *context ? "\"" : "");
	if (rc == 0 && mount("bootseer-env", folder, "tmpfs",
			     MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
		rc = error_set(err, errno, "mount a tmpfs at '%s': %s", folder,
			       strerror(errno));
	return rc;
}

/* Unmount the socket's folder; containers keep their own mounts of it until they end. */
static int unmount_folder(const char *dir, struct error *err)
{
	AUTO_FREE char *folder = NULL;
	int rc = socket_folder_path(dir, &folder, err);

	if (rc == 0 && umount2(folder, UMOUNT_NOFOLLOW | MNT_DETACH) < 0 &&
	    errno != EINVAL && errno != ENOENT)
		rc = error_set(err, errno, "unmount '%s': %s", folder,
			       strerror(errno));
	return rc;
}

static int start_socket(const struct volume_job *j, struct error *err)
{
	const struct volumes_config *cfg = &j->volumes->cfg;
	const struct volume_request *r = j->request;
	AUTO_FREE char *program = fs_join(cfg->programs, "bootseer");
	AUTO_FREE char *dir = fs_join(j->dir, "env");
	AUTO_FREE char *log = fs_join(j->dir, "log");
	char **env = NULL;
	char most[24];
	char *argv[] = { program,
			 (char *)(uintptr_t) "env",
			 (char *)(uintptr_t) "socket",
			 (char *)(uintptr_t) "--store",
			 j->grant->store,
			 (char *)(uintptr_t) "--most",
			 most,
			 (char *)(uintptr_t) "--socket",
			 (char *)(uintptr_t)cfg->node_socket,
			 dir,
			 NULL };
	struct helper_job h = { .id = j->target->id,
				.argv = argv,
				.log = log,
				.memory = VOLUME_MEMORY_SLACK };
	int rc;

	if (!program || !dir || !log)
		return error_nomem(err);
	(void)snprintf(most, sizeof(most), "%llu",
		       (unsigned long long)(r->has_most ? r->most
							: MOST_DEFAULT));
	rc = login_env(j->dir, j->grant, &env, err);
	if (rc < 0)
		return rc;
	h.env = env;
	rc = helper_start(&h, READY, START_MS, err);
	login_env_free(env);
	return error_wrap(err, rc, "environments of '%.120s'",
			  j->request->store);
}

int volume_env_open(const struct volume_job *j, char **ret, struct error *err)
{
	AUTO_FREE char *folder = NULL;
	int rc = socket_folder_path(j->dir, &folder, err);

	/* Start a process that died again, but keep its folder, which containers have mounted. */
	if (rc == 0 && !is_served(folder)) {
		rc = helper_kill(j->target->id, err);
		if (rc == 0)
			rc = mount_folder(j->dir, folder,
					  j->request->selinux_context, err);
		if (rc == 0)
			rc = start_socket(j, err);
	}
	if (rc == 0)
		*ret = steal_ptr(&folder);
	return rc;
}

int volume_env_check(const char *dir, struct error *err)
{
	AUTO_FREE char *above = fs_join(dir, "env");
	AUTO_FREE char *folder = NULL;
	int rc = socket_folder_path(dir, &folder, err);

	if (rc < 0 || !above || access(above, F_OK) < 0 || is_served(folder))
		return rc;
	return error_set(err, ENOTCONN,
			 "nobody serves the socket: the kubelet has it started "
			 "again within two minutes (requiresRepublish)");
}

/* ---- the end ---- */

static bool is_name(const char *s)
{
	return strlen(s) == NAME_LEN &&
	       strspn(s, "0123456789abcdef") == NAME_LEN;
}

/* Release the mounts of the list; bootseerd itself ends those that are still in use. */
static void release_mounts(const struct volumes *v, char *list)
{
	struct node_client *c = NULL;
	char *save = NULL;
	struct error err = ERROR_INIT;

	if (volume_node_open(v, 0, &c, &err) < 0) {
		log_warning("csi",
			    "environments stay with bootseerd for now: "
			    "reason=\"%s\"",
			    err.msg);
		return;
	}
	for (char *w = strtok_r(list, "\n", &save); w;
	     w = strtok_r(NULL, "\n", &save)) {
		AUTO_FREE char *reply = NULL;
		char params[64];

		if (!is_name(w))
			continue;
		(void)snprintf(params, sizeof(params), "{\"name\":\"%s\"}", w);
		if (node_call(c, "environment.umount", params, &reply, &err) <
		    0)
			log_debug("csi", "%s", err.msg);
	}
	node_client_close(c);
}

int volume_env_close(const struct volumes *v, const char *dir, const char *id,
		     struct error *err)
{
	AUTO_FREE char *list = NULL;
	AUTO_BUF text = BUF_INIT;
	int rc = helper_kill(id, err);

	if (rc == 0 && asprintf(&list, "%s/env/mounts", dir) < 0) {
		list = NULL;
		rc = error_nomem(err);
	}
	if (rc == 0 && fs_read_file(list, LIST_MAX, &text, NULL) == 0 &&
	    text.data)
		release_mounts(v, text.data);
	return rc < 0 ? rc : unmount_folder(dir, err);
}
