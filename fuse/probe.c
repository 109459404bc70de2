// SPDX-License-Identifier: Apache-2.0
/* What this kernel's FUSE can do, found by doing it. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mount.h>
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
	const char *run_dir, *fstype;
};

/* In the child of mount_isolated(), so alone. */
static int probe_resend(void *arg, struct error *err)
{
	const struct resend_trial *t = arg;
	AUTO_FREE char *path = fs_join(t->run_dir, "probe");
	AUTO_BUF request = BUF_INIT;
	AUTO_CLOSE int fd = -1;
	bool resend = false;
	int rc;

	if (!path)
		return error_nomem(err);
	/* Of one that was killed. */
	(void)umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH);
	rc = fs_mkdir_p(path, 0700, err);
	if (rc == 0)
		rc = init_open(&fd, err);
	if (rc == 0)
		rc = init_mount(fd, t->fstype, "probe", path,
				"default_permissions", MS_RDONLY | MS_NOATIME,
				err);
	if (rc == 0)
		rc = init_read(fd, &request, &resend, err);
	(void)umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH);
	(void)rmdir(path);
	return rc < 0 ? rc : resend;
}

int session_probe_resend(const char *run_dir, const char *fstype,
			 struct error *err)
{
	struct resend_trial t = { run_dir, fstype };

	return mount_isolated(run_dir, MOUNT_LOCK_PROBE, probe_resend, &t, err);
}
