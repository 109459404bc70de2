// SPDX-License-Identifier: Apache-2.0
#include "cli/ctr.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/child.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/text.h"

#define LIST_MAX (64u << 20)
#define ERRORS_MAX (64u << 10)
/* Room past the limit, more than ctr writes at once: output that is too long ends in it, so its
 * length says so. */
#define OUTPUT_SLACK (1u << 20)

/* The line in which ctr says why it fails; those before may be warnings. */
static const char *last_line(struct buf *said)
{
	char *line;

	while (said->len && said->data[said->len - 1] == '\n')
		said->data[--said->len] = '\0';
	if (!said->len)
		return "it failed";
	line = memrchr(said->data, '\n', said->len);
	line = line ? line + 1 : said->data;
	text_make_printable(line);
	return line;
}

/* A file that takes so many bytes and a little more: what is printed may be a blob of any
 * size, which a stranger's index called a manifest. */
static int open_output(size_t limit, struct error *err)
{
	AUTO_CLOSE int fd =
		memfd_create("ctr", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)limit + OUTPUT_SLACK) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
		return error_set(err, errno, "memfd: %s", strerror(errno));
	return steal_fd(&fd);
}

/* `len` bytes of the file, as a text. */
static int read_output(int fd, size_t len, struct buf *ret, struct error *err)
{
	int rc;

	if (len == 0)
		return 0;
	if (buf_reserve(ret, len) < 0)
		return error_nomem(err);
	rc = fs_pread_full(fd, ret->data, len, 0);
	if (rc < 0)
		return error_set(err, -rc, "what ctr printed: %s",
				 strerror(-rc));
	ret->len = len;
	ret->data[len] = '\0';
	return 0;
}

int ctr_run(const struct ctr_target *at, const char *const words[], int in,
	    int64_t timeout_ms, struct buf *ret, struct error *err)
{
	const size_t limit = ret && ret->limit ? ret->limit : LIST_MAX;
	AUTO_CLOSE int out = open_output(limit, err);
	AUTO_BUF said = { .limit = ERRORS_MAX };
	const char *argv[16] = { "ctr" };
	size_t n = 1;
	int status = 0, rc;
	off_t len;

	if (out < 0)
		return out;
	if (at->address) {
		argv[n++] = "--address";
		argv[n++] = at->address;
	}
	if (at->namespace) {
		argv[n++] = "--namespace";
		argv[n++] = at->namespace;
	}
	for (size_t i = 0; words[i] && n + 1 < ARRAY_SIZE(argv); i++)
		argv[n++] = words[i];
	rc = child_capture_with((char *const *)(uintptr_t)argv, in, out,
				timeout_ms, &said, &status, err);
	if (rc < 0)
		return rc;
	/* The child wrote from the beginning, by the same open file. */
	len = lseek(out, 0, SEEK_CUR);
	if (len < 0 || (size_t)len > limit)
		return error_set(err, EFBIG,
				 "ctr %s prints more than %zu bytes", words[0],
				 limit);
	if (status != 0)
		return error_set(
			err, EIO, "ctr %s: %s%s", words[0], last_line(&said),
			strstr(last_line(&said), "failed to dial")
				? ": see that containerd runs, and name its "
				  "socket by --containerd"
				: "");
	return ret ? read_output(out, (size_t)len, ret, err) : 0;
}
