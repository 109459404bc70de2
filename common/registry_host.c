// SPDX-License-Identifier: Apache-2.0
#include "common/registry_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Not tolower(): that depends on the locale. */
static char registry_host_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

void registry_host_name(const char *text, char ret[REGISTRY_HOST_MAX])
{
	const char *scheme = strstr(text, "://");
	size_t len, i;

	/* Cut the scheme: URLs of object stores are compared by their host only. */
	if (scheme && scheme == text + strcspn(text, ":/"))
		text = scheme + 3;
	if (*text == '[') {
		text++;
		len = strcspn(text, "]/");
	} else {
		len = strcspn(text, ":/");
	}
	while (len > 0 && text[len - 1] == '.')
		len--;
	if (len >= REGISTRY_HOST_MAX)
		len = REGISTRY_HOST_MAX - 1;
	for (i = 0; i < len; i++)
		ret[i] = registry_host_lower(text[i]);
	ret[len] = '\0';
}

bool registry_host_is_store(const char *text)
{
	return strstr(text, "://") || strncmp(text, "file:/", 6) == 0;
}

bool registry_host_is_below(const char *repo, const char *prefix, size_t len)
{
	return len == 0 || (strncmp(repo, prefix, len) == 0 &&
			    (repo[len] == '/' || !repo[len]));
}

/* Is the first word a host?  The rule is containerd's. */
static bool registry_host_leads(const char *name, size_t len)
{
	return name[len] == '/' &&
	       (memchr(name, '.', len) || memchr(name, ':', len) ||
		(len == 9 && strncmp(name, "localhost", 9) == 0));
}

int registry_name_complete(const char *name, char **ret, struct error *err)
{
	size_t first = strcspn(name, "/");
	bool has_host = registry_host_leads(name, first);
	const char *rest = has_host ? name + first + 1 : name;
	int rc;

	if (strlen(name) > REGISTRY_NAME_MAX)
		return error_set(err, EINVAL, "the image's name is too long");
	if (has_host && !(first == 9 && strncmp(name, "docker.io", 9) == 0) &&
	    !(first == 15 && strncmp(name, "index.docker.io", 15) == 0)) {
		*ret = strdup(name);
		return *ret ? 0 : error_nomem(err);
	}
	rc = asprintf(ret, "docker.io/%s%s",
		      strchr(rest, '/') ? "" : "library/", rest);
	if (rc < 0)
		*ret = NULL;
	return rc < 0 ? error_nomem(err) : 0;
}
