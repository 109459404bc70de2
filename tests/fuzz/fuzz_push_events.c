// SPDX-License-Identifier: Apache-2.0
/* Registries' words on pushes: no name that is taken leads anywhere but into a repository. */
#include <stdint.h>
#include <string.h>

#include "registry/push_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static int check_push(void *arg, const struct push_event *e)
{
	const char *p = e->repository;

	++*(size_t *)arg;
	must(*p && *p != '/' && !strstr(p, "//") && !strstr(p, "/.") &&
	     *p != '.' && !strpbrk(p, ":@%?# \\") && p[strlen(p) - 1] != '/');
	must(strncmp(e->digest, "sha256:", 7) == 0);
	must(*e->tag && !strchr(e->tag, ':') && !strchr(e->tag, '/'));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct push_events sums;
	size_t n = 0;

	if (push_events_parse(data, len, check_push, &n, &sums, NULL) == 0)
		must(n == sums.n_pushes && n <= PUSH_EVENTS_MAX);
	return 0;
}
