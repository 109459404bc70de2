// SPDX-License-Identifier: Apache-2.0
#include "env_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "envcache/key.h"

char env_dir[64];
struct env_targets env_dir_targets;

void env_setup(void)
{
	char *given[] = { env_dir, NULL };
	struct error err = ERROR_INIT;

	(void)snprintf(env_dir, sizeof(env_dir), "/var/tmp/bootseer-t.XXXXXX");
	cr_assert_not_null(mkdtemp(env_dir));
	cr_assert_eq(env_targets_make(given, &env_dir_targets, &err), 0, "%s",
		     err.msg);
}

void env_teardown(void)
{
	env_targets_fini(&env_dir_targets);
	cr_expect_eq(fs_remove_tree(env_dir, NULL), 0);
}

char *env_path(const char *path)
{
	char *p = fs_join(env_dir, path);

	cr_assert_not_null(p);
	return p;
}

void env_write(const char *path, const char *text)
{
	AUTO_FREE char *p = env_path(path);
	FILE *f = fopen(p, "w");

	cr_assert_not_null(f);
	cr_assert_geq(fputs(text, f), 0);
	cr_assert_eq(fclose(f), 0);
}

void env_mkdir(const char *path)
{
	AUTO_FREE char *p = env_path(path);

	cr_assert_eq(mkdir(p, 0755), 0);
}

char *env_read(const char *path)
{
	AUTO_FREE char *p = env_path(path);
	AUTO_BUF text = BUF_INIT;

	if (fs_read_file(p, 1000, &text, NULL) < 0)
		return NULL;
	return buf_steal(&text);
}

struct env_scan *env_look(void)
{
	struct error err = ERROR_INIT;
	struct env_scan *s = NULL;

	cr_assert_eq(env_scan_new(&env_dir_targets, &s, &err), 0, "%s",
		     err.msg);
	return s;
}

struct env_key env_some_key(void)
{
	static char *command[] = { (char *)(uintptr_t) "pip",
				   (char *)(uintptr_t) "secret", NULL };
	static char *values[] = { (char *)(uintptr_t) "CUDA=12", NULL };
	const struct env_spec spec = { .command = command, .values = values };
	struct error err = ERROR_INIT;
	AUTO(env_scan) s = env_look();
	struct env_key k;

	cr_assert_eq(env_key_make(&spec, &env_dir_targets, s, &k, &err), 0,
		     "%s", err.msg);
	return k;
}
