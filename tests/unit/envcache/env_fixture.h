// SPDX-License-Identifier: Apache-2.0
/* A folder to change things in, and what is in it. */
#ifndef BOOTSEER_TESTS_ENV_FIXTURE_H
#define BOOTSEER_TESTS_ENV_FIXTURE_H

#include "envcache/scan.h"

extern char env_dir[64]; /* of this test, a target */
extern struct env_targets env_dir_targets;

void env_setup(void);
void env_teardown(void);

/* Paths are below env_dir. */
void env_write(const char *path, const char *text);
void env_mkdir(const char *path);
char *env_path(const char *path); /* the caller's */
/* The content, the caller's; NULL: there is no such file. */
char *env_read(const char *path);

struct env_scan *env_look(void);

/* A key of a few items. */
struct env_key env_some_key(void);

#endif
