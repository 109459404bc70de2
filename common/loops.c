// SPDX-License-Identifier: Apache-2.0
#include "common/loops.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/cleanup.h"

/* Other processes may take the free device first; each lost race costs one try. */
#define TRIES 64

/* Attach `file` to the loop device `fd`.  -EBUSY: another process took the device first. */
static int loops_configure(int fd, int file_fd, const char *file,
			   bool is_writable, struct error *err)
{
	struct loop_config c = {
		.fd = (uint32_t)file_fd,
		.block_size = 4096,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO },
	};

	if (!is_writable)
		c.info.lo_flags |= LO_FLAGS_READ_ONLY;

	/* Tools only display this name, so it may be cut. */
	(void)snprintf((char *)c.info.lo_file_name, LO_NAME_SIZE, "%s", file);
	if (ioctl(fd, LOOP_CONFIGURE, &c) == 0)
		return 0;
	/* Direct I/O is refused: the disk's sectors are larger than we ask for, or the file system
	 * has no direct I/O. Without it the page cache has the data twice. */
	if (errno == EINVAL) {
		c.info.lo_flags &= ~(uint32_t)LO_FLAGS_DIRECT_IO;
		if (ioctl(fd, LOOP_CONFIGURE, &c) == 0)
			return 0;
	}
	if (errno == EBUSY)
		return -EBUSY;
	return error_set(err, errno, "make a loop device of '%s': %s%s", file,
			 strerror(errno),
			 errno == EINVAL || errno == ENOTTY
				 ? " (LOOP_CONFIGURE needs Linux 5.8)"
				 : "");
}

static int open_loop(const char *file, bool is_writable,
		     char path[LOOP_PATH_MAX], int *ret_fd, struct error *err)
{
	const int flags = (is_writable ? O_RDWR : O_RDONLY) | O_CLOEXEC;
	AUTO_CLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	AUTO_CLOSE int file_fd = open(file, flags);

	if (control < 0)
		return error_set(err, errno,
				 "open /dev/loop-control: %s (modprobe loop, or"
				 " a kernel with CONFIG_BLK_DEV_LOOP)",
				 strerror(errno));
	if (file_fd < 0)
		return error_errno(err, errno, "open '%s'", file);
	for (int i = 0; i < TRIES; i++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE), rc;
		AUTO_CLOSE int fd = -1;

		if (n < 0)
			return error_errno(err, errno, "no free loop device");
		(void)snprintf(path, LOOP_PATH_MAX, "/dev/loop%d", n);
		fd = open(path, flags);
		if (fd < 0)
			return error_errno(err, errno, "open '%s'", path);
		rc = loops_configure(fd, file_fd, file, is_writable, err);
		if (rc == 0) {
			*ret_fd = steal_fd(&fd);
			return 0;
		}
		if (rc != -EBUSY)
			return rc;
	}
	return error_set(err, EBUSY, "others took every free loop device");
}

int loop_open(const char *file, char path[LOOP_PATH_MAX], int *ret_fd,
	      struct error *err)
{
	return open_loop(file, false, path, ret_fd, err);
}

int loop_open_writable(const char *file, char path[LOOP_PATH_MAX], int *ret_fd,
		       struct error *err)
{
	return open_loop(file, true, path, ret_fd, err);
}

bool loop_is_of(const char *path, const char *file)
{
	char name[64], got[PATH_MAX + 16];
	AUTO_CLOSE int fd = -1;
	const char *tail;
	ssize_t n;
	int len;

	if (strncmp(path, "/dev/loop", 9) != 0)
		return false;
	len = snprintf(name, sizeof(name), "/sys/block/%s/loop/backing_file",
		       path + 5);
	if (len < 0 || (size_t)len >= sizeof(name))
		return false;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, got, sizeof(got) - 1);
	if (n < 0)
		return false;
	got[n] = '\0';
	got[strcspn(got, "\n")] = '\0';
	if (strncmp(got, file, strlen(file)) != 0)
		return false;
	tail = got + strlen(file);
	return !*tail || strcmp(tail, " (deleted)") == 0;
}
