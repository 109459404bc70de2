// SPDX-License-Identifier: Apache-2.0
#include "registry/named_files.h"

#include <sys/stat.h>

#include "registry/config.h"

#define FNV_OFFSET UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

static void add_number(uint64_t *sum, uint64_t v)
{
	for (unsigned int i = 0; i < sizeof(v); i++)
		*sum = (*sum ^ (v >> 8 * i & 0xff)) * FNV_PRIME;
}

static void add_file(uint64_t *sum, const char *path)
{
	struct stat st = { .st_ino = 0 };

	if (!path)
		return;
	if (stat(path, &st) < 0)
		st.st_ino = 0;
	add_number(sum, st.st_dev);
	add_number(sum, st.st_ino);
	add_number(sum, (uint64_t)st.st_size);
	add_number(sum, (uint64_t)st.st_mtim.tv_sec);
	add_number(sum, (uint64_t)st.st_mtim.tv_nsec);
}

uint64_t named_files_sum(const struct registry_config *c)
{
	uint64_t sum = FNV_OFFSET;

	add_file(&sum, c->tokens);
	add_file(&sum, c->tls_cert);
	add_file(&sum, c->tls_key);
	for (char *const *ca = c->tls_client_ca; ca && *ca; ca++)
		add_file(&sum, *ca);
	add_file(&sum, c->capability_key);
	add_file(&sum, c->capability_old_keys);
	return sum;
}
