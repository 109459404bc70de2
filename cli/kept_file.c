// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"

#define FILE_MAX (1u << 20)

int kept_file_read(struct kept_file *f, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = fs_read_file(f->path, FILE_MAX, &f->text, &why);

	f->is_there = rc == 0;
	if (rc == 0 || rc == -ENOENT)
		return f->text.data || buf_puts(&f->text, "") == 0
			       ? 0
			       : error_nomem(err);
	*err = why;
	return rc;
}

int kept_file_put(const struct kept_file *f, const char *text,
		  struct error *err)
{
	struct stat st = { .st_mode = 0644 };

	if (text) {
		(void)stat(f->path, &st);
		return fs_replace_file(f->path, text, strlen(text),
				       st.st_mode & 07777, err);
	}
	if (unlink(f->path) < 0 && errno != ENOENT)
		return error_errno(err, errno, "remove '%s'", f->path);
	return 0;
}

int kept_file_restore(const struct kept_file *f, struct error *err)
{
	return kept_file_put(f, f->is_there ? f->text.data : NULL, err);
}

void kept_file_fini(struct kept_file *f)
{
	free(f->path);
	buf_fini(&f->text);
}
