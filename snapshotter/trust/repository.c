// SPDX-License-Identifier: Apache-2.0
/* Names of repositories in signatures, and patterns of them. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/text.h"
#include "snapshotter/trust/trust_priv.h"

/* Is it one of Docker Hub's host names? */
static bool is_docker_hub(const char *host)
{
	return strcmp(host, "docker.io") == 0 ||
	       strcmp(host, "index.docker.io") == 0 ||
	       strcmp(host, "registry-1.docker.io") == 0;
}

int trust_repository(const struct oci_ref *ref, char ret[TRUST_PATTERN_MAX + 1],
		     struct error *err)
{
	const char *host = ref->host, *middle = "/";
	char lower[TRUST_PATTERN_MAX + 1];
	size_t n = 0;
	int len;

	if (ref->transport != OCI_TRANSPORT_REGISTRY)
		return error_set(err, EINVAL,
				 "a folder is no repository of a registry: "
				 "--repository says which one it is for");
	for (; host[n] && n < TRUST_PATTERN_MAX; n++)
		lower[n] = (char)tolower((unsigned char)host[n]);
	lower[n] = '\0';
	if (is_docker_hub(lower)) {
		(void)snprintf(lower, sizeof(lower), "docker.io");
		if (!strchr(ref->repo, '/'))
			middle = "/library/";
	}
	len = snprintf(ret, TRUST_PATTERN_MAX + 1, "%s%s%s", lower, middle,
		       ref->repo);
	if (host[n] || len > TRUST_PATTERN_MAX)
		return error_set(err, EINVAL,
				 "a repository of more than %d bytes",
				 TRUST_PATTERN_MAX);
	return 0;
}

bool trust_normalise(const char *text, char ret[TRUST_PATTERN_MAX + 1])
{
	AUTO_FINI(oci_ref) ref = { .host = NULL };
	AUTO_BUF whole = BUF_INIT;
	bool ok = false;

	/* Append a tag, so that a tag in the text makes the name invalid. */
	if (!text_is_word(text, TRUST_PATTERN_MAX) || strchr(text, '@') ||
	    buf_printf(&whole, "docker://%s:x", text) < 0)
		return false;
	if (oci_ref_parse(whole.data, &ref, NULL) == 0)
		ok = trust_repository(&ref, ret, NULL) == 0;
	return ok;
}

/* Length of the pattern before its asterisk; 0: it has none. */
static size_t prefix_len(const char *pattern)
{
	size_t len = strlen(pattern);

	return len >= 2 && strcmp(pattern + len - 2, "/*") == 0 ? len - 1 : 0;
}

int trust_pattern_check(const char *pattern, struct error *err)
{
	char name[TRUST_PATTERN_MAX + 3], normal[TRUST_PATTERN_MAX + 1];
	size_t len = strlen(pattern), prefix = prefix_len(pattern);

	if (len > TRUST_PATTERN_MAX)
		return error_set(err, EINVAL,
				 "a repository pattern of more than %d bytes",
				 TRUST_PATTERN_MAX);
	/* Test a prefix with a name appended, which the pattern has to match. */
	if (prefix)
		(void)snprintf(name, sizeof(name), "%.*sx/x", (int)prefix,
			       pattern);
	else
		(void)snprintf(name, sizeof(name), "%s", pattern);
	if (!trust_normalise(name, normal))
		return error_set(err, EINVAL,
				 "'%.100s' is no repository pattern: want "
				 "HOST[:PORT]/PATH, or the same with /* behind "
				 "it for all below",
				 pattern);
	if (strcmp(name, normal) == 0)
		return 0;
	if (prefix)
		return error_set(err, EINVAL,
				 "the repository pattern '%.100s' has to be "
				 "written in lower case, and Docker Hub as "
				 "docker.io",
				 pattern);
	return error_set(err, EINVAL,
			 "the repository '%.100s' has to be written '%.100s'",
			 pattern, normal);
}

bool trust_pattern_matches(const char *pattern, const char *repository)
{
	size_t prefix = prefix_len(pattern);

	if (prefix)
		return strncmp(pattern, repository, prefix) == 0 &&
		       repository[prefix];
	return strcmp(pattern, repository) == 0;
}
