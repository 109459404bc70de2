// SPDX-License-Identifier: Apache-2.0
#include "common/mountinfo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "/proc/self/mountinfo"

/* Space, tab, newline and backslash are written as \ooo. */
static char *unescape(char *text)
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
	ret->root = unescape(root);
	ret->path = unescape(path);
	ret->fstype = fstype;
	ret->source = source ? unescape(source) : "";
	return true;
}

int mountinfo_each(mountinfo_fn *fn, void *arg, struct error *err)
{
	AUTO_FCLOSE FILE *f = fopen(FILE_NAME, "re");
	AUTO_FREE char *line = NULL;
	struct mountinfo m;
	size_t cap = 0;
	int rc = 0;

	if (!f)
		return error_set(err, errno, "open " FILE_NAME ": %s",
				 strerror(errno));
	while (rc == 0 && getline(&line, &cap, f) >= 0)
		if (mountinfo_parse(line, &m))
			rc = fn(arg, &m, err);
	return rc;
}
