// SPDX-License-Identifier: Apache-2.0
/* A folder as the target of tests, and helpers to change and read files in it. */
#ifndef BOOTSEER_TESTS_ENV_FIXTURE_H
#define BOOTSEER_TESTS_ENV_FIXTURE_H

#include "envcache/scan.h"

extern char env_dir[64]; /* folder of this test */
extern struct env_targets env_dir_targets;

void env_setup(void);
void env_teardown(void);

/* Paths are below env_dir. */
void env_write(const char *path, const char *text);
void env_mkdir(const char *path);
char *env_path(const char *path); /* absolute path, owned by the caller */
/* A file's content, owned by the caller; NULL: there is no such file. */
char *env_read(const char *path);

struct env_scan *env_look(void);

/* A key with a few items. */
struct env_key env_some_key(void);

#endif
