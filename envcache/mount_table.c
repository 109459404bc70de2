// SPDX-License-Identifier: Apache-2.0
/* Parse /proc/self/mountinfo; the format is in proc_pid_mountinfo(5). */
#include "envcache/mount_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define FIELD_PATH 4
#define UPPER_KEY "upperdir="

static bool is_octal(const char *s)
{
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' &&
	       s[2] >= '0' && s[2] <= '7';
}

/* Undo escapes such as \040, in place. */
static void unescape_octal(char *s)
{
	char *to = s;

	while (*s) {
		if (*s == '\\' && is_octal(s + 1)) {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 +
				       (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* Find the value of the option upperdir; commas in it are escaped. */
static char *find_upper(char *options)
{
	char *at = options;

	while (at && strncmp(at, UPPER_KEY, strlen(UPPER_KEY)) != 0) {
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return NULL;
	at += strlen(UPPER_KEY);
	at[strcspn(at, ",")] = '\0';
	unescape_octal(at);
	return at;
}

bool mount_row_parse(char *line, struct mount_row *ret)
{
	char *rest = strstr(line, " - ");
	char *save = NULL, *word, *options;
	int k = 0;

	if (!rest)
		return false;
	*rest = '\0';
	ret->path = NULL;
	for (word = strtok_r(line, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		if (k++ == FIELD_PATH)
			ret->path = word;
	}
	rest += strlen(" - ");
	ret->fstype = strtok_r(rest, " ", &save);
	ret->source = strtok_r(NULL, " ", &save);
	options = strtok_r(NULL, " ", &save);
	if (!ret->path || !ret->fstype || !ret->source || !options)
		return false;
	unescape_octal(ret->path);
	unescape_octal(ret->source);
	ret->upper = strcmp(ret->fstype, "overlay") == 0 ? find_upper(options)
							 : NULL;
	return true;
}

int mount_table_read(FILE *f, mount_row_fn *fn, void *arg)
{
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	int rc = 0;

	while (rc == 0 && getline(&line, &room, f) > 0) {
		struct mount_row row;

		line[strcspn(line, "\n")] = '\0';
		if (mount_row_parse(line, &row))
			rc = fn(arg, &row);
	}
	return rc;
}

int mount_table_each(mount_row_fn *fn, void *arg, struct error *err)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	int rc;

	if (!f)
		return error_errno(err, errno, "read /proc/self/mountinfo");
	rc = mount_table_read(f, fn, arg);
	(void)fclose(f);
	return rc;
}
