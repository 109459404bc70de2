// SPDX-License-Identifier: Apache-2.0
#include "csi/volumes.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mount.h"
#include "csi/charge.h"
#include "csi/volumes_priv.h"

#define ANSWER_MS 2000
/* Volumes of one namespace, and of all together, that are published or unpublished at once, of
 * the 128 threads of service.c.  So a store that does not answer delays no other tenant's pods,
 * and some threads stay free for quick calls. */
#define NAMESPACE_MAX 16
#define BUSY_MAX 96
/* File in STATE/ID with the name of the target. */
#define NAME_FILE "target"

static bool does_folder_exist(const char *dir)
{
	return access(dir, F_OK) == 0;
}

/* ---- one call at a time ---- */

static bool is_same_text(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static int mark_volume_busy(struct volumes *v, struct busy_volume *b,
			    const struct target *t, const char *namespace,
			    struct error *err)
{
	size_t n = 0, n_all = 0;
	int rc = 0;

	*b = (struct busy_volume){ .id = t->id, .namespace = namespace };
	(void)pthread_mutex_lock(&v->lock);
	for (struct busy_volume *o = v->busy; o; o = o->next) {
		if (strcmp(o->id, t->id) == 0)
			rc = -EALREADY;
		n += is_same_text(o->namespace, namespace);
		n_all++;
	}
	if (rc == 0 && (n >= NAMESPACE_MAX || n_all >= BUSY_MAX))
		rc = -EAGAIN;
	if (rc == 0) {
		b->next = v->busy;
		v->busy = b;
	}
	(void)pthread_mutex_unlock(&v->lock);
	if (rc == -EAGAIN)
		return error_set(err, EAGAIN,
				 "%zu volumes of namespace %.63s, and %zu in "
				 "all, are being made or ended: the kubelet "
				 "asks again",
				 n, namespace ? namespace : "(unknown)", n_all);
	return rc < 0 ? error_set(err, EALREADY,
				  "another call for volume %s is under way",
				  t->name)
		      : 0;
}

static void unmark_volume_busy(struct volumes *v, struct busy_volume *b)
{
	(void)pthread_mutex_lock(&v->lock);
	for (struct busy_volume **p = &v->busy; *p; p = &(*p)->next)
		if (*p == b) {
			*p = b->next;
			break;
		}
	(void)pthread_mutex_unlock(&v->lock);
}

/* ---- the end of a volume ---- */

/* End the volume's process or its use of an image.  Only volumes with a process have a folder
 * in --state. */
static int close_kinds(struct volumes *v, const struct target *t,
		       struct error *err)
{
	AUTO_FREE char *dir = NULL;
	struct error why = ERROR_INIT;
	int rc = volume_dir(v, t->id, &dir, err);

	if (rc < 0)
		return rc;
	if (does_folder_exist(dir)) {
		rc = volume_ckpt_close(v, dir, t->id, err);
		if (rc == 0)
			rc = volume_env_close(v, dir, t->id, err);
		return rc < 0 ? rc : fs_remove_tree(dir, err);
	}
	/* The pod need not wait for it: volumes_sweep() tries again. */
	if (volume_image_close(v, t->name, &why) < 0)
		log_warning("csi",
			    "an image stays with bootseerd for now: "
			    "volume=%s reason=\"%s\"",
			    t->name, why.msg);
	return 0;
}

int volumes_unpublish(struct volumes *v, const char *target_path,
		      struct error *err)
{
	AUTO_FREE char *namespace = NULL;
	struct busy_volume busy;
	struct target t;
	int rc = target_open(v->cfg.kubelet_dir, target_path, &t, err);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	namespace = charge_namespace(v->cfg.state, t.id);
	rc = mark_volume_busy(v, &busy, &t, namespace, err);
	if (rc == 0) {
		if (t.parent >= 0)
			rc = target_unmount(&t, err);
		if (rc == 0)
			rc = close_kinds(v, &t, err);
		unmark_volume_busy(v, &busy);
	}
	if (rc == 0)
		log_info("csi", "unpublished: volume=%s", t.name);
	target_close(&t);
	return rc;
}

/* ---- the beginning ---- */

/* Charge the volume's memory to its namespace.  Images are not charged: they have no process,
 * and bootseerd limits their disk. */
static int charge_volume(const struct volume_job *j, bool is_mounted,
			 struct error *err)
{
	const struct volume_charge c = {
		.id = j->target->id,
		.namespace = j->request->namespace,
		.kind = j->request->kind,
		.memory = j->request->kind == VOLUME_KIND_CKPT
				  ? j->grant->memory
				  : 0,
		.total = j->grant->total,
	};
	int rc;

	if (c.kind == VOLUME_KIND_IMAGE)
		return 0;
	(void)pthread_mutex_lock(&j->volumes->charges);
	rc = charge_take(j->volumes->cfg.state, &c, is_mounted, err);
	(void)pthread_mutex_unlock(&j->volumes->charges);
	return rc;
}

static int make_dir(const struct volume_job *j, struct error *err)
{
	AUTO_FREE char *name = fs_join(j->dir, NAME_FILE);
	int rc = fs_mkdir(j->dir, 0700, err);

	if (rc == 0 && !name)
		rc = error_nomem(err);
	if (rc == 0)
		rc = fs_replace_file(name, j->target->name,
				     strlen(j->target->name), 0600, err);
	if (rc == 0)
		rc = login_write(j->dir, j->volumes->cfg.audience, j->publish,
				 j->request, j->grant, err);
	return rc;
}

static int open_kind(const struct volume_job *j, char **ret, struct error *err)
{
	int rc;

	if (j->request->kind == VOLUME_KIND_IMAGE)
		return volume_image_open(j, ret, err);
	if (*j->request->selinux_context && access("/sys/fs/selinux", F_OK) < 0)
		return error_set(err, EINVAL,
				 "mountOptions: context=: this node has no "
				 "SELinux");
	rc = make_dir(j, err);
	if (rc < 0)
		return rc;
	return j->request->kind == VOLUME_KIND_ENV
		       ? volume_env_open(j, ret, err)
		       : volume_ckpt_open(j, ret, err);
}

/* Bind the source at the target, replacing the mount of a dead process. */
static int bind_target(const struct volume_job *j, const char *source,
		       int is_mounted, struct error *err)
{
	int rc = is_mounted ? target_shows(j->target, source, err) : 0;

	if (is_mounted && rc == 0)
		rc = target_unmount(j->target, err);
	else if (is_mounted)
		return rc < 0 ? rc : 0;
	return rc < 0 ? rc
		      : target_mount(j->target, source,
				     j->request->mount_attributes, err);
}

static int publish_job(const struct volume_job *j, struct error *err)
{
	AUTO_FREE char *source = NULL;
	struct error ignored = ERROR_INIT;
	int is_mounted = target_is_mounted(j->target, err);
	int rc;

	/* A mounted image needs nothing: bootseerd keeps it mounted, and its tag is not
	 * resolved again. */
	if (is_mounted < 0 ||
	    (is_mounted && j->request->kind == VOLUME_KIND_IMAGE))
		return is_mounted < 0 ? is_mounted : 0;
	rc = charge_volume(j, is_mounted, err);
	if (rc < 0)
		return rc;
	rc = open_kind(j, &source, err);
	if (rc == 0)
		rc = bind_target(j, source, is_mounted, err);
	/* Clean up here: the kubelet does not unpublish a volume that could not be published. */
	if (rc < 0 && !is_mounted) {
		if (target_unmount(j->target, &ignored) < 0 ||
		    close_kinds(j->volumes, j->target, &ignored) < 0)
			log_warning("csi", "%s", ignored.msg);
	}
	return rc;
}

static int publish_target(struct volumes *v, const struct csi_publish *p,
			  const struct volume_request *r,
			  const struct volume_grant *g, const struct target *t,
			  struct error *err)
{
	AUTO_FREE char *dir = NULL;
	struct busy_volume busy;
	struct volume_job j = { .volumes = v,
				.publish = p,
				.request = r,
				.grant = g,
				.target = t };
	int rc;

	/* A pod that forges these attributes cannot know its own UID beforehand. */
	if (strcmp(r->pod_uid, t->uid) != 0)
		return error_set(err, EINVAL,
				 "the target_path is not of the pod that the "
				 "kubelet names: set podInfoOnMount: true in "
				 "the CSIDriver csi.bootseer");
	rc = volume_dir(v, t->id, &dir, err);
	if (rc == 0)
		rc = mark_volume_busy(v, &busy, t, r->namespace, err);
	if (rc < 0)
		return rc;
	j.dir = dir;
	rc = publish_job(&j, err);
	unmark_volume_busy(v, &busy);
	return rc;
}

int volumes_publish(struct volumes *v, const struct csi_publish *p,
		    struct error *err)
{
	struct volume_request r;
	struct volume_grant g = { .store = NULL };
	struct target t = { .parent = -1 };
	int rc = volume_request_read(p, &r, err);

	if (rc == 0)
		rc = volume_policy_decide(v->policy, &r, &g, err);
	if (rc == 0)
		rc = target_open(v->cfg.kubelet_dir, p->target_path, &t, err);
	if (rc == 0)
		rc = publish_target(v, p, &r, &g, &t, err);
	if (rc == 0)
		log_debug("csi", "published: volume=%s kind=%s namespace=%s",
			  t.name, volume_kind_name(r.kind), r.namespace);
	target_close(&t);
	volume_grant_fini(&g);
	return rc;
}

/* --- statistics */

static void fill_stats(const struct statfs *s, struct volume_stats *ret)
{
	uint64_t size =
		s->f_frsize ? (uint64_t)s->f_frsize : (uint64_t)s->f_bsize;

	ret->bytes = (struct csi_usage){
		.available = s->f_bavail * size,
		.total = s->f_blocks * size,
		.used = (s->f_blocks - s->f_bfree) * size,
	};
	ret->files = (struct csi_usage){ .available = s->f_ffree,
					 .total = s->f_files,
					 .used = s->f_files - s->f_ffree };
}

/* Get statistics.  A child process asks the file system, since a dead one may never answer. */
static int get_mount_stats(struct volumes *v, const struct target *t,
			   const char *path, struct volume_stats *ret,
			   struct error *err)
{
	AUTO_FREE char *dir = NULL;
	struct target_path at = target_path(t);
	struct statfs s;
	int code = mount_ask(path, ANSWER_MS);
	int rc = volume_dir(v, t->id, &dir, err);

	if (rc < 0)
		return rc;
	ret->is_abnormal = true;
	if (code != 0) {
		(void)error_set(&ret->why, EIO, "it does not answer: %s",
				code > 0 ? strerror(code)
					 : "its process is started again, or "
					   "waits for its store");
		return 0;
	}
	ret->is_abnormal = volume_env_check(dir, &ret->why) < 0;
	if (statfs(at.text, &s) < 0)
		return error_set(err, errno, "statfs of volume %s: %s", t->name,
				 strerror(errno));
	fill_stats(&s, ret);
	return 0;
}

int volumes_stats(struct volumes *v, const char *path, struct volume_stats *ret,
		  struct error *err)
{
	struct target t;
	int rc = target_open(v->cfg.kubelet_dir, path, &t, err);

	*ret = (struct volume_stats){ .is_abnormal = false };
	/* No volume can be at a path that is not the kubelet's. */
	if (rc == -EINVAL)
		return error_set(err, ENOENT, "no volume is at '%.200s'", path);
	if (rc == 0)
		rc = target_is_mounted(&t, err);
	if (rc == 0)
		rc = error_set(err, ENOENT, "no volume is at '%.200s'", path);
	else if (rc == 1)
		rc = get_mount_stats(v, &t, path, ret, err);
	target_close(&t);
	return rc;
}

/* --- abandoned volumes */

static void sweep_name(struct volumes *v, const char *name)
{
	struct error err = ERROR_INIT;
	struct busy_volume busy;
	struct target t;
	int rc = target_open_name(v->cfg.kubelet_dir, name, &t, &err);

	target_close(&t);
	/* The pod's folder exists, or cannot be looked up. */
	if (rc != -ENOENT || mark_volume_busy(v, &busy, &t, NULL, &err) < 0)
		return;
	/* Look again under the lock: the pod may have come back with this volume. */
	rc = target_open_name(v->cfg.kubelet_dir, name, &t, &err);
	target_close(&t);
	rc = rc == -ENOENT ? close_kinds(v, &t, &err) : -EEXIST;
	unmark_volume_busy(v, &busy);
	if (rc == -EEXIST)
		return;
	if (rc < 0)
		log_warning("csi",
			    "what a pod left stays for now: volume=%s "
			    "reason=\"%s\"",
			    name, err.msg);
	else
		log_info("csi", "ended what a pod left: volume=%s", name);
}

static void sweep_state(struct volumes *v)
{
	DIR *d = opendir(v->cfg.state);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		AUTO_FREE char *dir = NULL;
		AUTO_FREE char *name = NULL;
		AUTO_BUF text = BUF_INIT;

		if (*e->d_name == '.' ||
		    volume_dir(v, e->d_name, &dir, NULL) < 0)
			continue;
		name = fs_join(dir, NAME_FILE);
		if (name &&
		    fs_read_file(name, TARGET_NAME_MAX, &text, NULL) == 0 &&
		    text.data)
			sweep_name(v, text.data);
	}
	if (d)
		(void)closedir(d);
}

static void sweep_users(struct volumes *v)
{
	struct node_users users = { .names = NULL };
	struct node_client *c = NULL;
	struct error err = ERROR_INIT;
	int rc = volume_node_open(v, 0, &c, &err);

	if (rc == 0)
		rc = node_image_users(c, VOLUME_USER_PREFIX, &users, &err);
	node_client_close(c);
	if (rc < 0)
		log_debug("csi", "bootseerd is not asked: %s", err.msg);
	for (size_t i = 0; rc == 0 && i < users.n; i++)
		sweep_name(v, users.names[i] + strlen(VOLUME_USER_PREFIX));
	node_users_fini(&users);
}

void volumes_sweep(struct volumes *v)
{
	sweep_state(v);
	sweep_users(v);
}

/* --- all volumes */

int volumes_new(const struct volumes_config *cfg, struct volume_policy *policy,
		struct volumes **ret, struct error *err)
{
	static const char *const ours[] = { NULL };
	struct volumes *v = calloc(1, sizeof(*v));
	int rc;

	if (!v) {
		volume_policy_free(policy);
		return error_nomem(err);
	}
	v->cfg = *cfg;
	v->policy = policy;
	(void)pthread_mutex_init(&v->lock, NULL);
	(void)pthread_mutex_init(&v->charges, NULL);
	rc = fs_mkdir_private(cfg->state, ours, err);
	if (rc < 0) {
		volumes_free(v);
		return rc;
	}
	*ret = v;
	return 0;
}

void volumes_free(struct volumes *v)
{
	if (!v)
		return;
	volume_policy_free(v->policy);
	(void)pthread_mutex_destroy(&v->charges);
	(void)pthread_mutex_destroy(&v->lock);
	free(v);
}
