// SPDX-License-Identifier: Apache-2.0
/*
 * A store of objects, one for each test.  STORE_URL names the store, which is one
 * that is reached over the network in tests/stores/; without it, it is a directory,
 * with the options of STORE_OPTIONS.
 */
#ifndef BOOTSEER_TESTS_STORE_FIXTURE_H
#define BOOTSEER_TESTS_STORE_FIXTURE_H

#include "objects/store.h"

#define THREADS 8

extern struct object_store *store;

void store_test_setup(void);
void store_test_teardown(void);
/* Of the test's own folder, the caller's; one more that is there. */
char *store_test_url(void);
struct object_store *store_test_open(const char *url, uint64_t memory);
/* Bytes that differ by seed and place, the caller's. */
char *store_test_noise(size_t len, unsigned int seed);
struct object_stat store_put_bytes(struct object_store *s, const char *name,
				   const void *data, size_t len);
struct object_stat store_put_text(const char *name, const char *text);
int store_read_all(struct object_store *s, const char *name, char **ret,
		   size_t *ret_len, struct error *err);
void store_expect_bytes(const char *name, const void *data, size_t len);
void store_expect_text(const char *name, const char *text);
void store_expect_none(const char *name);
/* Names in order, one '|' behind each. */
void store_expect_list(const char *folder, bool deep, const char *want);
/* fn() of THREADS arguments of `size` bytes each, on a thread each. */
void store_run_threads(void *(*fn)(void *), void *args, size_t size);

#endif
