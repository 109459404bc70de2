// SPDX-License-Identifier: Apache-2.0
#include "common/registry_host.h"

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

	/* Stores of one kind have only the host of their URLs in common. */
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
