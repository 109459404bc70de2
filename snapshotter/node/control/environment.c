// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/environment_priv.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/node/constants.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/fetch.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/parser/parser.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/peers/metadata_swarm.h"
#include "snapshotter/node/starts/mount.h"
#include "snapshotter/node/starts/starts.h"

#define USER_PREFIX "environment:"
#define OVERLAYS_MAX 64 /* overlays in one mounted environment */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_MAX 64
/* Seconds after which a mounted environment without an overlay is removed: a caller that asked
 * for the mount has made its overlays long before. */
#define GRACE_S 300

void environment_mount_fini(struct environment_mount *m)
{
	free(m->path);
	free(m->work);
	*m = (struct environment_mount){ .path = NULL };
}

/* ---------------------------------------------------------------- --- the query --- */

static size_t url_len(const char *url)
{
	size_t len = strlen(url);

	while (len > 1 && url[len - 1] == '/' && url[len - 2] != '/')
		len--;
	return len;
}

static bool is_allowed(const struct node_config *cfg, const char *store)
{
	size_t len = url_len(store);

	for (char **u = cfg->env_stores; u && *u; u++)
		if (url_len(*u) == len && strncmp(*u, store, len) == 0)
			return true;
	return false;
}

static int check_query(const struct environments *envs,
		       const struct environment_query *q, struct error *err)
{
	if (!environment_is_name(q->name) || !environment_is_name(q->folder))
		return error_set(err, EINVAL,
				 "parameters: name and folder are %d hex "
				 "digits",
				 NAME_HEX);
	if (!is_allowed(envs->cfg, q->store))
		return error_set(err, EACCES,
				 "bootseerd has no --env-store '%.120s', so "
				 "nothing of it is mounted here",
				 q->store);
	return 0;
}

/* Name the snapshot's folder in its store as origins do; the caller frees both texts. */
static int name_snapshot_place(const struct environment_query *q,
			       char **ret_store, char **ret_folder,
			       struct error *err)
{
	char hex[IMAGE_HEX_MAX];

	digest_hex(&q->key, hex);
	*ret_store = strndup(q->store, url_len(q->store));
	if (asprintf(ret_folder, "env/data/%s/%s", hex, q->folder) < 0)
		*ret_folder = NULL;
	return *ret_store && *ret_folder ? 0 : error_nomem(err);
}

/* ---------------------------------------------------- --- the snapshot's files --- */

/* Get the snapshot's manifest and check that it names the key that the caller asked for. */
static int get_artifact(struct oci_store *store,
			const struct environment_query *q, struct artifact *ret,
			struct error *err)
{
	int rc = artifact_get(store, &q->artifact, ret, err);

	if (rc == 0 && (ret->n_chain_ids != 1 ||
			!digest_equal(&ret->chain_ids[0], &q->key)))
		rc = error_set(err, EBADMSG,
			       "the snapshot is damaged: its artifact is "
			       "another key's");
	return rc;
}

/* Text for messages: the URL of the snapshot's index in the store. */
static char *format_snapshot_label(const char *url, const struct digest *key)
{
	char hex[IMAGE_HEX_MAX];
	char *label;

	digest_hex(key, hex);
	return asprintf(&label, "%.*s/env/index/%s", (int)strcspn(url, "?"),
			url, hex) < 0
		       ? NULL
		       : label;
}

static void name_environment_image(struct image *i, const char *label)
{
	struct error why = ERROR_INIT;

	if (image_set_name(i, label, &why) < 0)
		log_warning("environment",
			    "no name environment=%.12s reason=\"%s\"", i->hex,
			    why.msg);
}

static int fetch_environment(const struct environments *envs,
			     const struct environment_query *q,
			     const struct digest *id, const char *url,
			     const char *folder, struct image **ret,
			     struct error *err)
{
	struct artifact a = { .format = 0 };
	AUTO_FREE char *label = format_snapshot_label(url, &q->key);
	const struct image_place place = { .host = url, .repo = folder };
	struct fetch_request request = { .artifact = &a,
					 .id = id,
					 .place = &place,
					 .label = label,
					 .pace = &q->call->pace,
					 .disk = envs->disk,
					 .images = envs->images,
					 .parser = envs->parser,
					 .peers = envs->peers };
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	int rc;

	if (!label)
		return error_nomem(err);
	rc = keyed_lock_enter_paced(envs->gate, id, NODE_GATE_TIMEOUT_NS,
				    &q->call->pace, err);
	if (rc < 0)
		return rc;
	*ret = images_get(envs->images, id);
	if (!*ret) {
		rc = origin_get(envs->origins, url, folder, false, &origin,
				err);
		if (rc == 0)
			rc = origin_lease(origin, &lease, err);
		if (rc == 0)
			rc = get_artifact(lease->store, q, &a, err);
		if (rc == 0)
			rc = gc_make_place(envs->gc, err);
		if (rc == 0) {
			request.store = lease->store;
			rc = fetch_image(&request, ret, err);
		}
		if (rc == 0)
			name_environment_image(*ret, label);
		artifact_fini(&a);
		store_lease_end(lease);
		origin_put(origin);
	}
	keyed_lock_leave(envs->gate, id);
	return rc;
}

/* Take a use of the snapshot's image.  The same artifact in two stores counts as two images, so
 * that data read with one store's credentials is never given to a user of the other store. */
static int find_image(const struct environments *envs,
		      const struct environment_query *q, struct image **ret,
		      struct error *err)
{
	AUTO_FREE char *url = NULL;
	AUTO_FREE char *folder = NULL;
	struct digest id;
	int rc = name_snapshot_place(q, &url, &folder, err);

	if (rc == 0 && image_id_of(&q->artifact, url, folder, &id) < 0)
		rc = error_nomem(err);
	if (rc < 0)
		return rc;
	*ret = images_get(envs->images, &id);
	if (*ret)
		return 0;
	if (q->call->is_local)
		return error_set(err, EINPROGRESS, "the store is needed");
	rc = fetch_environment(envs, q, &id, url, folder, ret, err);
	return error_wrap(err, remote_call_why(q->call, url, rc, err),
			  "environment");
}

int environment_find(const struct environments *envs,
		     const struct environment_query *q, struct image **ret,
		     struct error *err)
{
	int rc = check_query(envs, q, err);

	return rc < 0 ? rc : find_image(envs, q, ret, err);
}

/* --------------------------------------------------------------- the mount's folder --- */

static int read_boot(struct buf *ret, struct error *err)
{
	return fs_read_file(BOOT_ID, BOOT_ID_MAX, ret, err);
}

int environment_make_work(const char *work, struct error *err)
{
	AUTO_FREE char *none = fs_join(work, "none");
	AUTO_FREE char *boot = fs_join(work, "boot");
	AUTO_BUF id = BUF_INIT;
	int rc = none && boot ? read_boot(&id, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	if ((mkdir(work, 0700) < 0 && errno != EEXIST) ||
	    (mkdir(none, 0700) < 0 && errno != EEXIST))
		return error_errno(err, errno, "make '%s'", work);
	return fs_replace_file(boot, id.data, id.len, 0600, err);
}

/* Was the mount's folder made since the machine booted? */
static bool was_made_in_this_boot(const char *work)
{
	AUTO_FREE char *path = fs_join(work, "boot");
	AUTO_BUF now = BUF_INIT;
	AUTO_BUF was = BUF_INIT;

	return path && read_boot(&now, NULL) == 0 &&
	       fs_read_file(path, BOOT_ID_MAX, &was, NULL) == 0 &&
	       now.len == was.len && memcmp(now.data, was.data, now.len) == 0;
}

/*
 * Are the mount's folders in use by an overlay, in whatever mount namespace?  The kernel marks
 * an overlay's folders, and with index=on it refuses a second user: EBUSY.  If the kernel does
 * make this probe's overlay, it is mounted nowhere and removed at once.
 */
static bool is_overlay_in_use(const char *none, const char *folder,
			      unsigned int number)
{
	AUTO_BUF upper = BUF_INIT;
	AUTO_BUF inner = BUF_INIT;
	AUTO_CLOSE int fd = -1;

	if (buf_printf(&upper, "%s/%u/upper", folder, number) < 0 ||
	    buf_printf(&inner, "%s/%u/work", folder, number) < 0)
		return true;
	if (access(inner.data, F_OK) < 0)
		return errno != ENOENT;
	fd = fsopen("overlay", FSOPEN_CLOEXEC);
	if (fd < 0 ||
	    fsconfig(fd, FSCONFIG_SET_STRING, "lowerdir", none, 0) < 0 ||
	    fsconfig(fd, FSCONFIG_SET_STRING, "upperdir", upper.data, 0) < 0 ||
	    fsconfig(fd, FSCONFIG_SET_STRING, "workdir", inner.data, 0) < 0 ||
	    fsconfig(fd, FSCONFIG_SET_STRING, "index", "on", 0) < 0)
		return true;
	/* The kernel checks its marks before it writes anything.  ENOSPC comes after that
	 * check, from an upper file system that is full, so the folders are free. */
	return fsconfig(fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 &&
	       errno != ENOSPC;
}

static bool is_joined(const struct environments *envs, const char *name)
{
	AUTO_FREE char *work = environment_work(envs, name);
	AUTO_FREE char *none = work ? fs_join(work, "none") : NULL;
	AUTO_FREE char *upper = environment_upper_path(envs, name);

	if (!none || !upper)
		return true;
	for (unsigned int i = 0; i < OVERLAYS_MAX; i++)
		if (is_overlay_in_use(none, upper, i) ||
		    is_overlay_in_use(none, work, i))
			return true;
	return false;
}

/* ------------------------------------------------------------ --- users of images --- */

char *environment_user(const char *name)
{
	char *user;

	return asprintf(&user, USER_PREFIX "%s", name) < 0 ? NULL : user;
}

/* Called for each image that the user has, until a call fails. */
typedef int environment_image_fn(const struct environments *envs,
				 struct image *i, const char *user,
				 struct remote_call *call, bool *ret_was,
				 struct error *err);

static int each_image_of(const struct environments *envs, const char *name,
			 environment_image_fn *fn, struct remote_call *call,
			 bool *ret_was, struct error *err)
{
	AUTO_FREE char *user = environment_user(name);
	struct image **list;
	size_t len;
	int rc = user ? images_list(envs->images, &list, &len, err)
		      : error_nomem(err);

	*ret_was = false;
	if (rc < 0)
		return rc;
	for (size_t k = 0; rc == 0 && k < len; k++) {
		bool was = false;

		if (image_has_user(list[k], user))
			rc = fn(envs, list[k], user, call, &was, err);
		*ret_was = *ret_was || was;
	}
	images_list_free(list, len);
	return rc;
}

static int environment_count(const struct environments *envs, struct image *i,
			     const char *user, struct remote_call *call,
			     bool *ret_was, struct error *err)
{
	*ret_was = true;
	return 0;
}

static int environment_forget(const struct environments *envs, struct image *i,
			      const char *user, struct remote_call *call,
			      bool *ret_was, struct error *err)
{
	return image_remove_user(i, user, ret_was, err);
}

static int environment_release(const struct environments *envs, struct image *i,
			       const char *user, struct remote_call *call,
			       bool *ret_was, struct error *err)
{
	const struct mount_request r = { .image = i,
					 .user = user,
					 .call = call };

	starts_end(envs->starts, user);
	return mounts_umount(envs->mounts, &r, ret_was, err);
}

/* ---------------------------------------------------------- --- mount and unmount --- */

/*
 * The mount of an environment is a start: the blocks that a trace names are prefetched first,
 * then the rest, so that the store is soon not needed any more; reads meanwhile are recorded.
 * Nobody says when the program in the environment is ready, so the start lasts for the time of
 * --record.  The caller still has to make the overlays, so it does not wait for the hot set.
 */
static int begin_start(const struct environments *envs, struct image *i,
		       const char *user, struct remote_call *call,
		       struct error *err)
{
	static const struct wait_policy none = { .kind = WAIT_NONE };
	const struct start_request r = { .user = user,
					 .wait = &none,
					 .call = call };
	struct start_reply reply;
	struct error why = ERROR_INIT;
	int rc = starts_begin(envs->starts, i, &r, &reply, &why);

	if (rc == -EINPROGRESS)
		return error_set(err, EINPROGRESS, "%s", why.msg);
	if (rc < 0)
		log_warning("environment",
			    "no start environment=%.12s reason=\"%s\"", i->hex,
			    why.msg);
	return 0;
}

/* Remove the folder of a mount that failed. */
static void remove_failed_mount(const struct environments *envs,
				const char *name, const char *work)
{
	environment_upper_end(envs, name);
	(void)!fs_remove_tree(work, NULL);
	disk_refresh(envs->disk);
}

static int mount_environment_image(const struct environments *envs,
				   struct image *i,
				   const struct environment_query *q,
				   struct environment_mount *ret,
				   struct error *err)
{
	AUTO_FREE char *work = environment_work(envs, q->name);
	AUTO_FREE char *user = environment_user(q->name);
	const struct mount_request r = {
		.image = i, .user = user, .why = MOUNT_START, .call = q->call
	};
	bool is_known = false;
	int rc;

	if (!user || !work || !ret->work || !ret->path)
		return error_nomem(err);
	/* Make the folder first: a user without a folder is removed at the next start of
	 * bootseerd. */
	rc = environment_make_work(work, err);
	if (rc == 0)
		rc = environment_upper_make(envs, q->name, err);
	if (rc == 0)
		rc = mounts_mount(envs->mounts, &r, &ret->is_complete, err);
	if (rc < 0) {
		/* Keep the folder if it belongs to an earlier mount of the same name. */
		if (rc != -EINPROGRESS &&
		    each_image_of(envs, q->name, environment_count, NULL,
				  &is_known, NULL) == 0 &&
		    !is_known)
			remove_failed_mount(envs, q->name, work);
		return rc;
	}
	/* The kernel reads a complete mount by itself: bootseerd sees no reads, and no block is
	 * missing. */
	return ret->is_complete ? 0 : begin_start(envs, i, user, q->call, err);
}

int environment_mount(const struct environments *envs,
		      const struct environment_query *q,
		      struct environment_mount *ret, struct error *err)
{
	struct image *i = NULL;
	int rc = environment_find(envs, q, &i, err);

	if (rc < 0)
		return rc;
	*ret = (struct environment_mount){
		.path = strdup(i->mountpoint),
		.work = environment_upper_path(envs, q->name)
	};
	rc = mount_environment_image(envs, i, q, ret, err);
	if (rc == 0)
		image_touch(i);
	else
		environment_mount_fini(ret);
	images_put(i);
	return rc;
}

int environment_umount(const struct environments *envs, const char *name,
		       struct remote_call *call, bool *ret_was,
		       struct error *err)
{
	AUTO_FREE char *work = NULL;
	int rc;

	*ret_was = false;
	if (!environment_is_name(name))
		return error_set(err, EINVAL,
				 "parameters: name is %d hex digits", NAME_HEX);
	work = environment_work(envs, name);
	if (!work)
		return error_nomem(err);
	if (access(work, F_OK) == 0 && is_joined(envs, name))
		return error_set(err, EBUSY,
				 "environment %.12s is mounted elsewhere "
				 "still: it ends when that is unmounted",
				 name);
	rc = each_image_of(envs, name, environment_release, call, ret_was, err);
	if (rc == 0)
		environment_upper_end(envs, name);
	/* Remove the folder last: at the next start of bootseerd a name without a folder is
	 * forgotten, with whatever is left of the mount. */
	if (rc == 0)
		rc = fs_remove_tree(work, err);
	if (rc == 0)
		disk_refresh(envs->disk);
	return rc == -ENOENT ? 0 : rc;
}

/* --------------------------------------------------------- --- clean-up of mounts --- */

/* Called with the name of each mount; call_for_each_work() returns the -errno of reading the
 * folder. */
typedef void environment_name_fn(const struct environments *envs,
				 const char *name, const char *work,
				 int64_t now);

static int call_for_each_work(const struct environments *envs,
			      environment_name_fn *fn, int64_t now,
			      struct error *err)
{
	AUTO_FREE char *all = environment_work(envs, "");
	struct dirent *e;
	DIR *dir;

	if (!all)
		return error_nomem(err);
	dir = opendir(all);
	if (!dir)
		return error_errno(err, errno, "open '%s'", all);
	while ((e = readdir(dir))) {
		AUTO_FREE char *work = fs_join(all, e->d_name);

		if (work && environment_is_name(e->d_name))
			fn(envs, e->d_name, work, now);
	}
	closedir(dir);
	return 0;
}

static void end_old_boot(const struct environments *envs, const char *name,
			 const char *work, int64_t now)
{
	struct error err = ERROR_INIT;
	bool was;
	int rc;

	if (was_made_in_this_boot(work))
		return;
	rc = each_image_of(envs, name, environment_forget, NULL, &was, &err);
	if (rc == 0)
		rc = fs_remove_tree(work, &err);
	if (rc < 0)
		log_warning("environment", "leftover path=\"%s\" reason=\"%s\"",
			    work, err.msg);
}

/* Remove environment users whose folder is gone: their unmount was interrupted. */
static int remove_stray_users(const struct environments *envs, struct image *i,
			      struct error *err)
{
	int rc = 0;

	/* bootseerd is starting, with no other thread yet: no lock. */
	for (size_t k = i->state.users.n; rc == 0 && k-- > 0;) {
		const char *user = i->state.users.v[k];
		AUTO_FREE char *copy = NULL;
		AUTO_FREE char *work = NULL;
		bool was;

		if (strncmp(user, USER_PREFIX, strlen(USER_PREFIX)) != 0)
			continue;
		copy = strdup(user);
		work = environment_work(envs, user + strlen(USER_PREFIX));
		if (!copy || !work)
			return error_nomem(err);
		if (access(work, F_OK) < 0 && errno == ENOENT)
			rc = image_remove_user(i, copy, &was, err);
	}
	return rc;
}

int environments_open(const struct environments *envs, struct error *err)
{
	AUTO_FREE char *all = environment_work(envs, "");
	struct image **list;
	size_t len;
	int rc = all ? fs_mkdir_private(all, NULL, err) : error_nomem(err);

	if (rc == 0)
		rc = environment_uppers_open(envs, err);
	if (rc == 0)
		rc = call_for_each_work(envs, end_old_boot, 0, err);
	if (rc == 0)
		rc = images_list(envs->images, &list, &len, err);
	if (rc < 0)
		return rc;
	for (size_t k = 0; rc == 0 && k < len; k++)
		rc = remove_stray_users(envs, list[k], err);
	images_list_free(list, len);
	return rc;
}

static void end_orphan(const struct environments *envs, const char *name,
		       const char *work, int64_t now)
{
	struct remote_call call;
	struct error err = ERROR_INIT;
	struct stat st;
	bool was;

	if (stat(work, &st) < 0 || now - st.st_mtime < GRACE_S ||
	    is_joined(envs, name))
		return;
	remote_call_init(&call, envs->is_ending, NULL, clock_now_ns(),
			 envs->cfg->prepare_timeout);
	if (environment_umount(envs, name, &call, &was, &err) == 0)
		log_info("environment",
			 "ended name=%.12s reason=\"nothing has "
			 "it mounted any more\"",
			 name);
	else
		log_warning("environment", "not ended name=%.12s reason=\"%s\"",
			    name, err.msg);
}

void environments_collect(const struct environments *envs, int64_t now)
{
	struct error err = ERROR_INIT;

	if (call_for_each_work(envs, end_orphan, now, &err) < 0)
		log_warning("environment", "reason=\"%s\"", err.msg);
}
