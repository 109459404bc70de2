// SPDX-License-Identifier: Apache-2.0
/* Finds which FUSE features this kernel has by using them. */
#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/mount.h"
#include "fuse/fuse.h"
#include "fuse/init_priv.h"

int session_probe(struct error *err)
{
	AUTO_CLOSE int fd = -1;

	return init_open(&fd, err);
}

struct resend_trial {
	const char *fstype;
	char *path;         /* where it is mounted */
	struct buf request; /* with room for INIT */
};

/* In the child of mount_isolated(), so alone. */
static int probe_resend(void *arg, struct error *err)
{
	struct resend_trial *t = arg;
	AUTO_CLOSE int fd = -1;
	bool resend = false;
	int rc;

	/* A probe that was killed may have left its mount. */
	(void)umount2(t->path, UMOUNT_NOFOLLOW | MNT_DETACH);
	rc = fs_mkdir(t->path, 0700, err);
	if (rc == 0)
		rc = init_open(&fd, err);
	if (rc == 0)
		rc = init_mount(fd, t->fstype, "probe", t->path,
				"default_permissions", MS_RDONLY | MS_NOATIME,
				err);
	if (rc == 0)
		rc = init_read(fd, &t->request, &resend, err);
	(void)umount2(t->path, UMOUNT_NOFOLLOW | MNT_DETACH);
	(void)rmdir(t->path);
	return rc < 0 ? rc : resend;
}

int session_probe_resend(const char *run_dir, const char *fstype,
			 struct error *err)
{
	AUTO_FREE char *path = fs_join(run_dir, "probe");
	struct resend_trial t = { .fstype = fstype,
				  .path = path,
				  .request = BUF_INIT };
	int rc = -ENOMEM;

	if (path && buf_reserve(&t.request, INIT_BUFFER) == 0)
		rc = mount_isolated(run_dir, MOUNT_LOCK_PROBE, probe_resend, &t,
				    err);
	else
		(void)error_nomem(err);
	buf_fini(&t.request);
	return rc;
}
