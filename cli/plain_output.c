// SPDX-License-Identifier: Apache-2.0
#include "cli/plain_output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"

#define PIECE 4096u

struct plain_stream {
	struct plain_text text;
	int fd;
};

/* stdout and stderr of this process. */
static struct plain_stream out = { .fd = STDOUT_FILENO },
			   error = { .fd = STDERR_FILENO };
static FILE *bar;

static unsigned int bytes_after(unsigned char lead)
{
	if (lead >= 0xc2 && lead <= 0xdf)
		return 1;
	if ((lead & 0xf0) == 0xe0)
		return 2;
	return lead >= 0xf0 && lead <= 0xf4 ? 3 : 0;
}

static bool is_control(unsigned char c)
{
	return (c < ' ' && c != '\n' && c != '\t') || c == 0x7f ||
	       (c >= 0x80 && c <= 0x9f);
}

void plain_text_make(struct plain_text *s, char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (s->n_left && (c & 0xc0) == 0x80) {
			/* In U+0080 to U+009F: overwrite both bytes. */
			if (s->lead == 0xc2 && c <= 0x9f) {
				text[i] = '?';
				if (i > 0)
					text[i - 1] = '?';
			}
			s->n_left--;
			s->lead = 0;
			continue;
		}
		s->n_left = bytes_after(c);
		s->lead = c;
		if (is_control(c))
			text[i] = '?';
	}
}

static ssize_t write_plain(void *cookie, const char *data, size_t len)
{
	struct plain_stream *s = cookie;
	char piece[PIECE];
	size_t done = 0;

	while (done < len) {
		size_t n = len - done < PIECE ? len - done : PIECE;
		int rc;

		memcpy(piece, data + done, n);
		plain_text_make(&s->text, piece, n);
		rc = fs_write_full(s->fd, piece, n);
		if (rc < 0) {
			errno = -rc;
			return 0;
		}
		done += n;
	}
	return (ssize_t)len;
}

/* Open a filtered stream; NULL: no memory, and the stream stays unfiltered. */
static FILE *open_plain(struct plain_stream *s, int mode)
{
	FILE *f = fopencookie(s, "w",
			      (cookie_io_functions_t){ .write = write_plain });

	if (f)
		(void)setvbuf(f, NULL, mode, BUFSIZ);
	return f;
}

void plain_output_begin(void)
{
	FILE *to = open_plain(&out, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
	FILE *err = open_plain(&error, _IONBF);

	bar = stderr;
	if (to)
		stdout = to;
	if (err)
		stderr = err;
}

FILE *plain_output_bar(void)
{
	return bar ? bar : stderr;
}
