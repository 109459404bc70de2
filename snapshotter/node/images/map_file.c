// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/images/map_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

int map_file_open(const char *path, struct map_file *ret, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open '%s'", path);
	if (st.st_size == 0)
		return error_set(err, EBADMSG, "'%s' is empty", path);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return error_errno(err, errno, "map '%s'", path);
	*ret = (struct map_file){ .data = data, .len = (size_t)st.st_size };
	return 0;
}

void map_file_close(struct map_file *f)
{
	if (f->data)
		(void)munmap(f->data, f->len);
	*f = (struct map_file){ .data = NULL };
}

void map_file_rest(const struct map_file *f)
{
	if (f->data)
		(void)madvise(f->data, f->len, MADV_DONTNEED);
}

/* Can the whole file be read?  Touching an unreadable page means SIGBUS, which would end this
 * process at each of its starts.  Kernels before 5.14 cannot tell, so the file counts as
 * readable. */
static bool is_readable(const struct map_file *f)
{
	return madvise(f->data, f->len, MADV_POPULATE_READ) == 0 ||
	       errno == EINVAL;
}

int map_file_check(const struct map_file *f, const struct digest *want,
		   const char *path, struct error *err)
{
	char text[DIGEST_STR_MAX];
	struct digest d;

	if (!is_readable(f))
		return error_set(err, EBADMSG,
				 "'%s' cannot be read from its disk: %s", path,
				 strerror(errno));
	if (digest_of(f->data, f->len, &d) < 0)
		return error_nomem(err);
	if (digest_equal(&d, want))
		return 0;
	digest_format(want, text);
	return error_set(err, EBADMSG, "'%s' is damaged: it is not %s", path,
			 text);
}
