// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/objects/store_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "objects/store/backend.h"

struct object_store *store;
static char *dir; /* of a store that is a directory */

char *store_test_url(void)
{
	const char *base = getenv("STORE_URL"), *options = "";
	char unique[17], *url;

	store_random(unique, 16);
	if (base) {
		/* Each test has a folder of its own. */
		size_t end = strcspn(base, "?");

		cr_assert_geq(asprintf(&url, "%.*s/%s%s", (int)end, base,
				       unique, base + end),
			      0);
		return url;
	}
	if (getenv("STORE_OPTIONS"))
		options = getenv("STORE_OPTIONS");
	if (!dir) {
		/* /tmp may have no O_DIRECT. */
		dir = strdup("/var/tmp/bootseer-store.XXXXXX");
		cr_assert_not_null(mkdtemp(dir));
	}
	cr_assert_geq(asprintf(&url, "file://%s?%s", dir, options), 0);
	return url;
}

/* io_uring takes all of it when it is registered, in each of the many processes. */
#define STORE_TEST_MEMORY (UINT64_C(32) << 20)

struct object_store *store_test_open(const char *url, uint64_t memory)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct error err = ERROR_INIT;
	struct object_store *s = NULL;

	cfg.memory = memory ? memory : STORE_TEST_MEMORY;
	cr_assert_eq(object_store_open(url, &cfg, &s, &err), 0, "%s", err.msg);
	cr_assert_eq(object_store_probe(s, &err), 0, "%s", err.msg);
	return s;
}

void store_test_setup(void)
{
	char *url = store_test_url();

	store = store_test_open(url, 0);
	free(url);
}

/* What is left on a server goes with it. */
void store_test_teardown(void)
{
	object_store_free(store);
	if (dir)
		cr_expect_eq(fs_remove_tree(dir, NULL), 0);
	free(dir);
}

/* Bytes that differ by seed and place. */
char *store_test_noise(size_t len, unsigned int seed)
{
	char *data = malloc(len + 8);
	uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;

	cr_assert_not_null(data);
	for (size_t i = 0; i < len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(data + i, &x, 8);
	}
	return data;
}

struct object_stat store_put_bytes(struct object_store *s, const char *name,
				   const void *data, size_t len)
{
	struct error err = ERROR_INIT;
	struct object_stat st = { .size = 0 };

	cr_assert_eq(object_put(s, name, data, len, NULL, &st, &err), 0, "%s",
		     err.msg);
	return st;
}

struct object_stat store_put_text(const char *name, const char *text)
{
	return store_put_bytes(store, name, text, strlen(text));
}

int store_read_all(struct object_store *s, const char *name, char **ret,
		   size_t *ret_len, struct error *err)
{
	struct object *o;
	int rc = object_open(s, name, &o, err);

	if (rc < 0)
		return rc;
	*ret_len = (size_t)object_opened_stat(o)->size;
	*ret = calloc(1, *ret_len + 1);
	cr_assert_not_null(*ret);
	struct object_range r = { .len = *ret_len, .buf = *ret };

	rc = object_read(o, &r, 1, 0, err);
	object_close(o);
	if (rc < 0)
		free(*ret);
	return rc;
}

void store_expect_bytes(const char *name, const void *data, size_t len)
{
	struct error err = ERROR_INIT;
	char *got = NULL;
	size_t n = 0;

	cr_assert_eq(store_read_all(store, name, &got, &n, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(n, len, "'%s' has %zu bytes, not %zu", name, n, len);
	cr_expect(n == len && memcmp(got, data, len) == 0,
		  "'%s' has other bytes", name);
	free(got);
}

void store_expect_text(const char *name, const char *text)
{
	store_expect_bytes(name, text, strlen(text));
}

void store_expect_none(const char *name)
{
	struct error err = ERROR_INIT;
	struct object_stat st;

	cr_expect_eq(object_stat(store, name, &st, &err), -ENOENT,
		     "'%s' is there: %s", name, err.msg);
}

struct names {
	char text[8192];
	size_t n, n_folders;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(void *arg, const struct object_entry *e, struct error *err)
{
	struct names *l = arg;
	size_t at = strlen(l->text);

	l->n++;
	l->n_folders += e->is_folder;
	(void)snprintf(l->text + at, sizeof(l->text) - at, "%s%s\n", e->name,
		       e->is_folder ? "/" : "");
	return 0;
}

/* Names in order, a space behind each. */
void store_expect_list(const char *folder, bool deep, const char *want)
{
	struct error err = ERROR_INIT;
	struct names l = { .text = "" };
	char got[8192] = "", *names[64], *save = NULL;
	size_t n = 0;

	cr_assert_eq(object_list(store, folder, deep, add_name, &l, &err), 0,
		     "%s", err.msg);
	for (char *t = strtok_r(l.text, "\n", &save); t && n < 64;
	     t = strtok_r(NULL, "\n", &save))
		names[n++] = t;
	qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 0; i < n; i++) {
		strcat(got, names[i]);
		strcat(got, "|");
	}
	cr_expect_str_eq(got, want);
}

void store_run_threads(void *(*fn)(void *), void *args, size_t size)
{
	pthread_t threads[THREADS];

	for (size_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, fn,
					    (char *)args + i * size),
			     0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}
