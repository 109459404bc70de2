// SPDX-License-Identifier: Apache-2.0
#include "common/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "/proc/self/mountinfo"

/* Root, mount point and source have up to 4 KiB each, and each byte may be escaped as four.  The
 * options of the file system, which follow, are not needed. */
#define LINE_MAX_BYTES (64u << 10)

/* Undo the escapes: space, tab, newline and backslash are written as \ooo. */
static char *mountinfo_unescape(char *text)
{
	char *out = text;

	for (char *s = text; *s;) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] &&
		    s[3]) {
			*out++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
					(s[3] - '0'));
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
	return text;
}

/* "36 35 98:0 /root /path opts [tags...] - fstype source super-opts" */
bool mountinfo_parse(char *line, struct mountinfo *ret)
{
	char *save = NULL, *root, *path, *fstype, *source, *word;

	if (!strtok_r(line, " ", &save) || !strtok_r(NULL, " ", &save))
		return false;
	word = strtok_r(NULL, " ", &save);
	if (!word || sscanf(word, "%u:%u", &ret->major, &ret->minor) != 2)
		return false;
	root = strtok_r(NULL, " ", &save);
	path = strtok_r(NULL, " ", &save);
	do
		word = strtok_r(NULL, " ", &save);
	while (word && strcmp(word, "-") != 0);
	fstype = strtok_r(NULL, " \n", &save);
	source = strtok_r(NULL, " \n", &save);
	if (!root || !path || !word || !fstype)
		return false;
	ret->root = mountinfo_unescape(root);
	ret->path = mountinfo_unescape(path);
	ret->fstype = fstype;
	ret->source = source ? mountinfo_unescape(source) : "";
	return true;
}

/* The part of the file that has been read and not yet parsed. */
struct window {
	size_t n;         /* bytes of `text` */
	bool is_middle;   /* the text begins inside a line whose beginning
	                   * was parsed already */
	mountinfo_fn *fn; /* called with `arg` */
	void *arg;
	char text[LINE_MAX_BYTES + 1];
};

static int take_line(struct window *w, char *line, struct error *err)
{
	bool is_middle = w->is_middle;
	struct mountinfo m;

	w->is_middle = false;
	return !is_middle && mountinfo_parse(line, &m) ? w->fn(w->arg, &m, err)
						       : 0;
}

/* Parse the whole lines in the window; with `is_end` also the rest without a newline. */
static int take_lines(struct window *w, bool is_end, struct error *err)
{
	char *line = w->text, *end = w->text + w->n, *nl;
	int rc = 0;

	while (rc == 0 && (nl = memchr(line, '\n', (size_t)(end - line)))) {
		*nl = '\0';
		rc = take_line(w, line, err);
		line = nl + 1;
	}
	*end = '\0';
	if (rc == 0 && line < end &&
	    (is_end || (size_t)(end - line) == LINE_MAX_BYTES)) {
		rc = take_line(w, line, err);
		w->is_middle = !is_end;
		line = end;
	}
	w->n = (size_t)(end - line);
	memmove(w->text, line, w->n);
	return rc;
}

int mountinfo_read(int fd, mountinfo_fn *fn, void *arg, struct error *err)
{
	struct window w;
	ssize_t n;
	int rc = 0;

	/* Only the small members are set: zeroing `text` would cost time for nothing. */
	w.n = 0;
	w.is_middle = false;
	w.fn = fn;
	w.arg = arg;
	do {
		n = read(fd, w.text + w.n, LINE_MAX_BYTES - w.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "read " FILE_NAME);
		w.n += (size_t)n;
		rc = take_lines(&w, n == 0, err);
	} while (rc == 0 && n != 0);
	return rc;
}

int mountinfo_each(mountinfo_fn *fn, void *arg, struct error *err)
{
	AUTO_CLOSE int fd = open(FILE_NAME, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return error_errno(err, errno, "open " FILE_NAME);
	return mountinfo_read(fd, fn, arg, err);
}
