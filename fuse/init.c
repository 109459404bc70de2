// SPDX-License-Identifier: Apache-2.0
#include "fuse/init_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/uio.h>

#include "common/cleanup.h"
#include "common/mount.h"
#include "fuse/fuse.h"

/* From protocol 7.40, which the headers of the build systems lack. */
#define INIT_FLAGS2_HAS_RESEND (1u << (39 - 32))
#define NOTIFY_RESEND 7

#define INIT_TIMEOUT_MS 5000

int init_open(int *ret_fd, struct error *err)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno,
				 "open /dev/fuse: %s (modprobe fuse, or a"
				 " kernel with CONFIG_FUSE_FS)",
				 strerror(errno));
	*ret_fd = fd;
	return 0;
}

int init_mount(int fd, const char *fstype, const char *source, const char *path,
	       const char *data, unsigned long flags, struct error *err)
{
	struct mount_options o = MOUNT_OPTIONS_INIT;
	int rc = mount_options_add(
		&o, err, "fd=%d,rootmode=40000,user_id=0,group_id=0,%s", fd,
		data);

	if (rc < 0)
		return rc;
	/* Sends no request that this process would wait for, as INIT is answered later. */
	if (mount(source, path, fstype, MS_NOSUID | MS_NODEV | flags, o.text) <
	    0)
		return error_set(err, errno, "mount FUSE on '%s': %s%s", path,
				 strerror(errno),
				 errno == EPERM ? " (needs CAP_SYS_ADMIN)"
						: "");
	return 0;
}

int init_check(const struct buf *request, bool *ret_resend, struct error *err)
{
	struct fuse_in_header in;
	struct fuse_init_in init = { .major = 0 };
	size_t len = request->len;

	if (len < sizeof(in))
		return error_set(err, EPROTO, "%zu bytes as first request",
				 len);
	memcpy(&in, request->data, sizeof(in));
	if (in.opcode != FUSE_INIT)
		return error_set(err, EPROTO, "first request is %u, not INIT",
				 in.opcode);
	len -= sizeof(in);
	memcpy(&init, request->data + sizeof(in),
	       len < sizeof(init) ? len : sizeof(init));
	*ret_resend = (init.flags & FUSE_INIT_EXT) &&
		      (init.flags2 & INIT_FLAGS2_HAS_RESEND);
	return 0;
}

int init_read(int fd, struct buf *ret, bool *ret_resend, struct error *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;

	if (buf_reserve(ret, INIT_BUFFER) < 0)
		return error_nomem(err);
	if (poll(&p, 1, INIT_TIMEOUT_MS) <= 0)
		return error_set(err, ETIMEDOUT, "the kernel sends no INIT");
	n = read(fd, ret->data, INIT_BUFFER);
	if (n < 0)
		return error_errno(err, errno, "read /dev/fuse");
	ret->len = (size_t)n;
	return init_check(ret, ret_resend, err);
}

int init_resend(int fd, struct error *err)
{
	const struct fuse_out_header out = { .len = sizeof(out),
					     .error = NOTIFY_RESEND };

	if (write(fd, &out, sizeof(out)) < 0)
		return error_errno(err, errno, "ask the kernel to send again");
	return 0;
}

int init_refuse(int fd, uint64_t unique, struct error *err)
{
	const struct fuse_out_header out = { .len = sizeof(out),
					     .error = -ENOSYS,
					     .unique = unique };

	if (write(fd, &out, sizeof(out)) < 0)
		return error_errno(err, errno, "refuse a request");
	return 0;
}

int init_answer_again(int fd, uint64_t unique, const struct buf *reply,
		      struct error *err)
{
	struct fuse_out_header out;
	struct iovec iov[2] = {
		{ &out, sizeof(out) },
		{ reply->data + sizeof(out), reply->len - sizeof(out) },
	};

	memcpy(&out, reply->data, sizeof(out));
	out.unique = unique;
	if (writev(fd, iov, 2) < 0)
		return error_errno(err, errno, "answer INIT");
	return 0;
}

int session_probe(struct error *err)
{
	AUTO_CLOSE int fd = -1;

	return init_open(&fd, err);
}
