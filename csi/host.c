// SPDX-License-Identifier: Apache-2.0
#include "csi/host.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Join the mount namespace last: /proc is needed to find the others. */
static const struct {
	const char *name;
	int type;
} namespaces[] = {
	{ "net", CLONE_NEWNET },
	{ "cgroup", CLONE_NEWCGROUP },
	{ "mnt", CLONE_NEWNS },
};

static int check_host_namespace(struct error *err)
{
	struct stat ours, theirs;

	if (stat("/proc/self/ns/mnt", &ours) < 0 ||
	    stat("/proc/1/ns/mnt", &theirs) < 0)
		return error_set(err, errno,
				 "--enter-host: /proc/1/ns/mnt: %s: the pod "
				 "needs hostPID: true, the container "
				 "privileged: true",
				 strerror(errno));
	return ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev
		       ? error_set(err, EINVAL,
				   "--enter-host: process 1 has the mount "
				   "namespace of this one: the pod needs "
				   "hostPID: true; on the node itself leave it "
				   "out")
		       : 0;
}

int host_enter(struct error *err)
{
	int fds[ARRAY_SIZE(namespaces)];
	size_t n = 0;
	int rc = check_host_namespace(err);

	for (; rc == 0 && n < ARRAY_SIZE(namespaces); n++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/proc/1/ns/%s",
			       namespaces[n].name);
		fds[n] = open(path, O_RDONLY | O_CLOEXEC);
		if (fds[n] < 0) {
			rc = error_errno(err, errno, "open '%s'", path);
			break;
		}
	}
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (setns(fds[i], namespaces[i].type) < 0)
			rc = error_errno(err, errno,
					 "join the %s namespace of process 1",
					 namespaces[i].name);
	while (n > 0)
		(void)close(fds[--n]);
	if (rc == 0 && chdir("/") < 0)
		rc = error_errno(err, errno, "chdir to /");
	return rc;
}
