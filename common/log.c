// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text.h"

#define LINE_MAX_BYTES 2048

static const char *const names[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARNING] = "warning",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

static atomic_int current_level = LOG_LEVEL_INFO;
static atomic_uint_fast64_t file_max;

void log_set_level(enum log_level level)
{
	atomic_store(&current_level, (int)level);
}

void log_set_file_max(uint64_t most)
{
	atomic_store(&file_max, most);
}

bool log_has_room(enum log_level level)
{
	uint64_t most = atomic_load(&file_max);
	int saved = errno;
	struct stat st;
	bool is_full;

	if (!most)
		return true;
	if (level == LOG_LEVEL_ERROR)
		most *= 2;
	is_full = fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) &&
		  (uint64_t)st.st_size > most;
	errno = saved;
	return !is_full;
}

int log_level_parse(const char *text, enum log_level *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void log_line(enum log_level level, const char *module, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	int saved = errno;
	size_t len;
	va_list ap;
	int n;

	if ((int)level > atomic_load(&current_level) || !log_has_room(level))
		return;
	n = snprintf(line, sizeof(line), "%s %s: ", names[level], module);
	if (n < 0)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	text_make_printable(line);
	len = strlen(line);
	line[len++] = '\n';
	/* The line is one write, so that lines of several threads never mix. */
	if (write(STDERR_FILENO, line, len) < 0)
		errno = saved;
	errno = saved;
}
