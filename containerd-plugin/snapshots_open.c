// SPDX-License-Identifier: Apache-2.0
/* Opens and closes a snapshotter: its folder and state, and mounts to restore. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "containerd-plugin/snapshots_priv.h"

#define RESTORE_PAGE 100

/* Mount a page of snapshots again. Goes on after a snapshot that cannot be mounted; `why`
 * has the first failure. */
static int restore_page(struct snapshots *s, const struct snapshot *v, size_t n,
			int64_t deadline, struct error *why, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		AUTO_FREE char *path = NULL;
		struct error later;
		int64_t left;

		if (!v[i].has_tree)
			continue;
		left = deadline - clock_now_ns();
		if (left <= 0)
			return error_set(err, ETIMEDOUT,
					 "bootseerd takes too "
					 "long; the rest is mounted on use");
		(void)!images_mount(s->images, &v[i].tree, v[i].id, left, &path,
				    why->code ? &later : why);
	}
	return 0;
}

static void release_strays(struct snapshots *s, int64_t left_ns)
{
	struct error why = ERROR_INIT;

	if (left_ns > 0 && snapshots_release_strays(s, left_ns, &why) < 0)
		log_info("snapshots",
			 "users are looked at with the next Cleanup: "
			 "reason=\"%s\"",
			 why.msg);
}

int snapshots_restore(struct snapshots *s, int64_t timeout_ns,
		      struct error *err)
{
	int64_t deadline = clock_now_ns() + timeout_ns;
	AUTO_FREE char *after = strdup("");
	struct error why = ERROR_INIT;
	size_t n = RESTORE_PAGE;
	int rc = 0;

	while (rc == 0 && after && n == RESTORE_PAGE) {
		struct snapshot *v = NULL;

		rc = store_list(s->store, after, RESTORE_PAGE, &v, &n, err);
		if (rc < 0)
			return rc;
		rc = restore_page(s, v, n, deadline, &why, err);
		if (n > 0) {
			free(after);
			after = strdup(v[n - 1].name);
		}
		snapshots_free(v, n);
	}
	if (!after)
		return error_nomem(err);
	release_strays(s, deadline - clock_now_ns());
	if (rc == 0 && why.code)
		rc = error_set(err, why.code, "%s", why.msg);
	return rc;
}

static int lock_root(struct snapshots *s, struct error *err)
{
	AUTO_BUF path = BUF_INIT;

	if (buf_printf(&path, "%s/lock", s->config.root) < 0)
		return error_nomem(err);
	s->lock_fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		return error_set(err, errno, "'%s': %s%s", path.data,
				 strerror(errno), error_root_hint(errno));
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, EBUSY,
				 "another bootseer-snapshotter "
				 "uses '%s'",
				 s->config.root);
	return 0;
}

/* Note folders without a snapshot, which a crash may leave, for Cleanup. */
static int find_strays(struct snapshots *s, struct error *err)
{
	DIR *dir = opendir(s->folder);
	struct dirent *e;
	int rc = 0;

	if (!dir)
		return error_set(err, EIO, "'%s': %s", s->folder,
				 strerror(errno));
	while (rc == 0 && (e = readdir(dir))) {
		char *end;
		uint64_t id = strtoull(e->d_name, &end, 10);

		if (!isdigit((unsigned char)*e->d_name) || *end || id == 0)
			continue;
		if (store_is_new(s->store))
			rc = error_set(err, ENODATA,
				       "'%s' holds snapshots, but "
				       "their metadata.db is gone: restore it, "
				       "or move that folder away and remove "
				       "the images from containerd",
				       s->folder);
		else
			rc = store_garbage_add(s->store, id, err);
	}
	closedir(dir);
	return rc;
}

static int open_root(struct snapshots *s, struct error *err)
{
	static const char *const ours[] = { "lock", "metadata.db", "snapshots",
					    NULL };
	AUTO_BUF folder = BUF_INIT;
	AUTO_BUF db = BUF_INIT;
	int rc;

	if (buf_printf(&folder, "%s/snapshots", s->config.root) < 0 ||
	    buf_printf(&db, "%s/metadata.db", s->config.root) < 0)
		return error_nomem(err);
	s->folder = buf_steal(&folder);
	if (!s->folder)
		return error_nomem(err);
	/* A comma or colon in the path would break overlayfs' options. */
	if (strpbrk(s->folder, ",:\\"))
		return error_set(err, EINVAL,
				 "root '%s': no comma, colon or "
				 "backslash may be in it",
				 s->config.root);
	rc = fs_mkdir_private(s->config.root, ours, err);
	if (rc == 0)
		rc = lock_root(s, err);
	if (rc == 0)
		rc = fs_mkdir_private(s->folder, NULL, err);
	if (rc == 0)
		rc = store_open(db.data, &s->store, err);
	if (rc == 0)
		rc = find_strays(s, err);
	if (rc == 0)
		rc = fs_sync_dir(s->config.root, err);
	return rc;
}

int snapshots_open(const struct snapshots_config *config,
		   struct snapshots **ret, struct error *err)
{
	struct snapshots *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->config = *config;
	s->lock_fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	s->has_index_option =
		access("/sys/module/overlay/parameters/index", F_OK) == 0;
	rc = open_root(s, err);
	if (rc == 0)
		rc = images_new(
			&(struct images_config){
				.socket = config->node_socket,
				.scope = config->scope,
				.instance = store_instance(s->store),
				.timeout_ns = config->node_timeout_ns,
				.layer_timeout_ns = config->layer_timeout_ns,
				.start_timeout_ns = config->start_timeout_ns },
			&s->images, err);
	if (rc < 0) {
		snapshots_close(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void snapshots_close(struct snapshots *s)
{
	if (!s)
		return;
	images_free(s->images);
	store_close(s->store);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	pthread_mutex_destroy(&s->lock);
	free(s->folder);
	free(s);
}
