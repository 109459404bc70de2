// SPDX-License-Identifier: Apache-2.0
/*
 * What every store of objects does alike.  STORE_URL names the store, which is one
 * that is reached over the network in tests/stores/; without it, it is a directory,
 * with the options of STORE_OPTIONS.
 */
#include "objects/store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "objects/store/backend.h"

#define THREADS 8
#define MANY_MAX 1100

static struct object_store *store;
static char *dir; /* of a store that is a directory */

static char *store_url(void)
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

static struct object_store *open_store(const char *url, uint64_t memory)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct error err = ERROR_INIT;
	struct object_store *s = NULL;

	if (memory)
		cfg.memory = memory;
	cr_assert_eq(object_store_open(url, &cfg, &s, &err), 0, "%s", err.msg);
	cr_assert_eq(object_store_probe(s, &err), 0, "%s", err.msg);
	return s;
}

static void setup(void)
{
	char *url = store_url();

	store = open_store(url, 0);
	free(url);
}

/* What is left on a server goes with it. */
static void teardown(void)
{
	object_store_free(store);
	if (dir)
		cr_expect_eq(fs_remove_tree(dir, NULL), 0);
	free(dir);
}

TestSuite(store, .init = setup, .fini = teardown, .timeout = 240);

/* ----------------------------------------------------------------- helpers --- */

/* Bytes that differ by seed and place. */
static char *noise(size_t len, unsigned int seed)
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

static struct object_stat put_bytes(struct object_store *s, const char *name,
				    const void *data, size_t len)
{
	struct error err = ERROR_INIT;
	struct object_stat st = { .size = 0 };

	cr_assert_eq(object_put(s, name, data, len, NULL, &st, &err), 0, "%s",
		     err.msg);
	return st;
}

static struct object_stat put_text(const char *name, const char *text)
{
	return put_bytes(store, name, text, strlen(text));
}

static int read_all(struct object_store *s, const char *name, char **ret,
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

static void expect_bytes(const char *name, const void *data, size_t len)
{
	struct error err = ERROR_INIT;
	char *got = NULL;
	size_t n = 0;

	cr_assert_eq(read_all(store, name, &got, &n, &err), 0, "%s", err.msg);
	cr_expect_eq(n, len, "'%s' has %zu bytes, not %zu", name, n, len);
	cr_expect(n == len && memcmp(got, data, len) == 0,
		  "'%s' has other bytes", name);
	free(got);
}

static void expect_text(const char *name, const char *text)
{
	expect_bytes(name, text, strlen(text));
}

static void expect_none(const char *name)
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
static void expect_list(const char *folder, bool deep, const char *want)
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

static void run_threads(void *(*fn)(void *), void *args, size_t size)
{
	pthread_t threads[THREADS];

	for (size_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, fn,
					    (char *)args + i * size),
			     0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* ------------------------------------------------------------ put and read --- */

Test(store, gives_back_what_was_put)
{
	struct object_stat put = put_text("dir/a", "hello"), st;
	struct error err = ERROR_INIT;

	cr_assert_eq(object_stat(store, "dir/a", &st, &err), 0, "%s", err.msg);
	cr_expect_eq(st.size, 5);
	cr_expect_str_eq(st.tag, put.tag);
	cr_expect_gt(st.modified_ms, 1600000000000);
	expect_text("dir/a", "hello");
	put_text("dir/a", "");
	expect_text("dir/a", "");
}

Test(store, keeps_objects_of_every_size_around_its_parts)
{
	size_t part = (size_t)object_store_caps(store).part_size;
	const size_t sizes[] = {
		1,        4095, 4096,     4097,     65537,
		part - 1, part, part + 1, 2 * part, 2 * part + 4096 + 17
	};
	char *data = noise(2 * part + 8192, 1);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		put_bytes(store, "o", data, sizes[i]);
		expect_bytes("o", data, sizes[i]);
	}
	free(data);
}

Test(store, takes_a_stream_whose_length_nobody_knows)
{
	size_t part = (size_t)object_store_caps(store).part_size;
	size_t len = 2 * part + 12345, step = 100001;
	const struct object_put_options wrong = { .size = 10 };
	char *data = noise(len, 2);

	for (int i = 0; i < 2; i++) {
		struct error err = ERROR_INIT;
		struct object_put *p = NULL;

		cr_assert_eq(object_put_open(store, "s", i ? &wrong : NULL, &p,
					     &err),
			     0, "%s", err.msg);
		for (size_t at = 0; at < len; at += step)
			cr_assert_eq(object_put_write(p, data + at,
						      len - at < step ? len - at
								      : step,
						      &err),
				     0, "%s", err.msg);
		cr_assert_eq(object_put_commit(p, NULL, &err), 0, "%s",
			     err.msg);
		cr_expect_lt(object_put_commit(p, NULL, NULL), 0);
		object_put_free(p);
		expect_bytes("s", data, len);
	}
	free(data);
}

/* Ranges at random, in one call: each gets its own bytes. */
Test(store, reads_vectors_of_ranges)
{
	size_t len = (size_t)object_store_caps(store).read_size + 300000;
	char *data = noise(len, 3), *got = calloc(1, 4 * len);
	struct object_range r[40];
	struct error err = ERROR_INIT;
	struct object *o = NULL;
	char *to = got;

	put_bytes(store, "v", data, len);
	cr_assert_eq(object_open(store, "v", &o, &err), 0, "%s", err.msg);
	for (size_t i = 0; i < 40; i++) {
		uint64_t x = 0;

		cr_assert_eq(getrandom(&x, sizeof(x), 0), sizeof(x));
		/* Some follow the one before, some have no byte. */
		r[i].off = i % 3 ? r[i - 1].off + r[i - 1].len : x % len;
		r[i].len = i % 7 == 6 ? 0 : (x >> 32) % (len / 20);
		if (r[i].off + r[i].len > len)
			r[i].len = len - r[i].off;
		r[i].buf = to;
		to += r[i].len;
	}
	cr_assert_eq(object_read(o, r, 40, 0, &err), 0, "%s", err.msg);
	for (size_t i = 0; i < 40; i++)
		cr_expect_eq(memcmp(r[i].buf, data + r[i].off, r[i].len), 0,
			     "range %zu: %zu bytes at %zu", i, r[i].len,
			     (size_t)r[i].off);
	object_close(o);
	free(got);
	free(data);
}

Test(store, reads_aligned_ranges_into_its_own_memory)
{
	size_t len = 8 * MIB + 5000;
	char *data = noise(len, 4);
	char *buf = object_buffer_take(store, len, clock_now_ns());
	struct object_range r = { .off = 4096, .len = len - 4096, .buf = buf };
	struct error err = ERROR_INIT;
	struct object *o = NULL;

	cr_assert_not_null(buf);
	put_bytes(store, "v", data, len);
	cr_assert_eq(object_open(store, "v", &o, &err), 0, "%s", err.msg);
	cr_assert_eq(object_read(o, &r, 1, 0, &err), 0, "%s", err.msg);
	cr_expect_eq(memcmp(buf, data + 4096, r.len), 0);
	object_close(o);
	object_buffer_give(store, buf, len);
	free(data);
}

/* Memory, offset and length that no direct read takes. */
Test(store, reads_ranges_that_are_not_aligned)
{
	size_t len = 9 * MIB + 777;
	char *data = noise(len, 8), *buf = malloc(len + 1);
	struct error err = ERROR_INIT;
	struct object *o = NULL;

	put_bytes(store, "v", data, len);
	cr_assert_eq(object_open(store, "v", &o, &err), 0, "%s", err.msg);
	for (size_t off = 0; off < 3; off++) {
		struct object_range r[] = {
			{ .off = off, .len = 5 * MIB + 1, .buf = buf + 1 },
			{ .off = off + 5 * MIB + 1 },
		};

		r[1].len = len - (size_t)r[1].off;
		r[1].buf = buf + 1 + r[0].len;
		memset(buf, 0, len + 1);
		cr_assert_eq(object_read(o, r, 2, 0, &err), 0, "%s", err.msg);
		cr_expect_eq(memcmp(buf + 1, data + off, len - off), 0);
	}
	object_close(o);
	free(buf);
	free(data);
}

Test(store, refuses_ranges_outside_the_object)
{
	struct object_range r = { .off = 3, .len = 3 };
	struct error err = ERROR_INIT;
	struct object *o = NULL;
	char buf[8];

	r.buf = buf;
	put_text("a", "hello");
	cr_assert_eq(object_open(store, "a", &o, &err), 0, "%s", err.msg);
	cr_expect_eq(object_read(o, &r, 1, 0, &err), -ERANGE);
	cr_expect(strstr(err.msg, "'a'"), "%s", err.msg);
	r = (struct object_range){ .off = 5, .len = 0, .buf = buf };
	cr_expect_eq(object_read(o, &r, 1, 0, &err), 0);
	r.off = UINT64_MAX;
	r.len = 2;
	cr_expect_eq(object_read(o, &r, 1, 0, &err), -ERANGE);
	object_close(o);
}

Test(store, says_that_a_deadline_is_over)
{
	size_t len = 32 * MIB;
	char *data = noise(len, 5);
	struct object_range r = { .len = len, .buf = data };
	struct error err = ERROR_INIT;
	struct object *o = NULL;

	put_bytes(store, "a", data, len);
	cr_assert_eq(object_open(store, "a", &o, &err), 0, "%s", err.msg);
	cr_expect_eq(object_read(o, &r, 1, 1, &err), -ETIMEDOUT, "%s", err.msg);
	cr_expect(strstr(err.msg, object_store_url(store)), "%s", err.msg);
	object_close(o);
	free(data);
}

Test(store, knows_what_is_not_there)
{
	struct error err = ERROR_INIT;
	struct object *o;

	put_text("dir/a", "x");
	expect_none("none");
	expect_none("dir");
	expect_none("dir/a/b");
	cr_expect_eq(object_open(store, "none", &o, &err), -ENOENT);
	cr_expect(strstr(err.msg, "'none'"), "%s", err.msg);
	cr_expect(strstr(err.msg, object_store_url(store)), "%s", err.msg);
	cr_expect_eq(object_open(store, "dir", &o, &err), -ENOENT);
	cr_expect_eq(object_delete(store, "none", NULL, &err), -ENOENT);
	cr_expect_eq(object_delete(store, "dir", NULL, &err), -ENOENT);
	expect_text("dir/a", "x");
}

Test(store, refuses_names_that_are_none)
{
	static const char *const names[] = {
		"",
		"/a",
		"a/",
		"a//b",
		".",
		"..",
		"a/../b",
		"a/./b",
		"a\nb",
		"\x7f",
		"../x",
		".bootseer/tmp/x",
		".bootseer/lock/x",
		".bootseer/tmp",
	};
	char longest[OBJECT_NAME_MAX + 2];
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		cr_expect_eq(object_put(store, names[i], "x", 1, NULL, NULL,
					&err),
			     -EINVAL, "'%s'", names[i]);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	cr_expect_eq(object_put(store, longest, "x", 1, NULL, NULL, &err),
		     -EINVAL);
}

Test(store, takes_names_of_any_other_characters)
{
	static const char *const names[] = {
		"a b", "a+b", "a%b",    "a%20b",  "a=b&c", "a;b",    "a#b?c",
		"ä/é", "a,b", "'q\"q'", "[x]{y}", "~x",    "a$b@c!", "<&>",
	};
	char all[256] = "";

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "odd/%s", names[i]);
		put_text(name, names[i]);
		expect_text(name, names[i]);
	}
	strcat(all, "odd/'q\"q'|odd/<&>|odd/[x]{y}|odd/a b|odd/a#b?c|"
		    "odd/a$b@c!|odd/a%20b|odd/a%b|odd/a+b|odd/a,b|odd/a;b|"
		    "odd/a=b&c|odd/~x|odd/ä/é|");
	expect_list("odd", true, all);
}

/* -------------------------------------------------------------- conditions --- */

Test(store, creates_only_what_is_not_there)
{
	const struct object_put_options new = { .condition = OBJECT_NEW };
	struct error err = ERROR_INIT;

	cr_expect_eq(object_put(store, "n", "one", 3, &new, NULL, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(object_put(store, "n", "two", 3, &new, NULL, &err),
		     -EEXIST);
	cr_expect(strstr(err.msg, "'n'"), "%s", err.msg);
	expect_text("n", "one");
}

struct contender {
	pthread_barrier_t *start;
	unsigned int id, n_won;
	int rc;
	struct error err;
};

static void *create(void *arg)
{
	const struct object_put_options new = { .condition = OBJECT_NEW };
	struct contender *c = arg;
	int rc;

	pthread_barrier_wait(c->start);
	rc = object_put(store, "n", &c->id, sizeof(c->id), &new, NULL, &c->err);
	c->n_won = rc == 0;
	c->rc = rc == -EEXIST ? 0 : rc;
	return NULL;
}

Test(store, lets_one_of_many_create)
{
	pthread_barrier_t start;
	struct contender c[THREADS] = { { .id = 0 } };
	unsigned int won = 0, winner = 0;

	pthread_barrier_init(&start, NULL, THREADS);
	for (unsigned int i = 0; i < THREADS; i++)
		c[i] = (struct contender){ .start = &start, .id = i };
	run_threads(create, c, sizeof(*c));
	for (unsigned int i = 0; i < THREADS; i++) {
		cr_expect_eq(c[i].rc, 0, "%s", c[i].err.msg);
		won += c[i].n_won;
		if (c[i].n_won)
			winner = i;
	}
	cr_expect_eq(won, 1);
	expect_bytes("n", &winner, sizeof(winner));
	pthread_barrier_destroy(&start);
}

Test(store, replaces_only_the_version_that_was_seen)
{
	struct object_stat one = put_text("m", "one"), two;
	struct object_put_options match = { .condition = OBJECT_MATCH,
					    .tag = one.tag };
	struct error err = ERROR_INIT;

	cr_expect_eq(object_put(store, "m", "two", 3, &match, &two, &err), 0,
		     "%s", err.msg);
	cr_expect_str_neq(one.tag, two.tag);
	cr_expect_eq(object_put(store, "m", "3rd", 3, &match, NULL, &err),
		     -ESTALE, "%s", err.msg);
	expect_text("m", "two");
	cr_expect_eq(object_put(store, "none", "x", 1, &match, NULL, &err),
		     -ESTALE, "%s", err.msg);
	expect_none("none");
	match.tag = NULL;
	cr_expect_eq(object_put(store, "m", "x", 1, &match, NULL, &err),
		     -EINVAL);
}

static int add_one(struct error *err)
{
	struct object_put_options match = { .condition = OBJECT_MATCH };
	struct object_range r = { .len = sizeof(uint64_t) };
	struct object *o;
	uint64_t n = 0;
	int rc;

	r.buf = &n;
	rc = object_open(store, "count", &o, err);
	if (rc < 0)
		return rc;
	rc = object_read(o, &r, 1, 0, err);
	if (rc == 0) {
		n++;
		match.tag = object_opened_stat(o)->tag;
		rc = object_put(store, "count", &n, sizeof(n), &match, NULL,
				err);
	}
	object_close(o);
	return rc;
}

static void *count_up(void *arg)
{
	struct contender *c = arg;

	pthread_barrier_wait(c->start);
	while (c->n_won < 5) {
		int rc = add_one(&c->err);

		if (rc == 0) {
			c->n_won++;
		} else if (rc != -ESTALE &&
			   (rc != -ENOENT ||
			    object_store_caps(store).has_replace)) {
			c->rc = rc;
			break;
		}
	}
	return NULL;
}

Test(store, loses_no_update_of_writers_that_compare)
{
	struct contender c[THREADS];
	pthread_barrier_t start;
	uint64_t n = 0;

	put_bytes(store, "count", &n, sizeof(n));
	pthread_barrier_init(&start, NULL, THREADS);
	for (unsigned int i = 0; i < THREADS; i++)
		c[i] = (struct contender){ .start = &start, .id = i };
	run_threads(count_up, c, sizeof(*c));
	for (unsigned int i = 0; i < THREADS; i++)
		cr_expect_eq(c[i].rc, 0, "%s", c[i].err.msg);
	n = (uint64_t)THREADS * 5;
	expect_bytes("count", &n, sizeof(n));
	pthread_barrier_destroy(&start);
}

Test(store, removes_only_the_version_that_was_seen)
{
	struct object_stat one = put_text("d", "one");
	struct object_stat two = put_text("d", "two");
	struct error err = ERROR_INIT;

	cr_expect_eq(object_delete(store, "d", one.tag, &err), -ESTALE, "%s",
		     err.msg);
	expect_text("d", "two");
	cr_expect_eq(object_delete(store, "d", two.tag, &err), 0, "%s",
		     err.msg);
	expect_none("d");
	cr_expect_eq(object_delete(store, "d", two.tag, &err), -ENOENT);
}

/* ------------------------------------------------------------------- whole --- */

Test(store, shows_nothing_of_a_put_without_commit)
{
	size_t part = (size_t)object_store_caps(store).part_size;
	char *data = noise(2 * part + 1, 6);
	struct error err = ERROR_INIT;
	struct object_put *p = NULL;
	size_t n = 0;

	put_text("w", "old");
	cr_assert_eq(object_put_open(store, "w", NULL, &p, &err), 0);
	cr_assert_eq(object_put_write(p, data, 2 * part + 1, &err), 0, "%s",
		     err.msg);
	expect_text("w", "old");
	expect_list("", true, "w|");
	object_put_free(p);
	expect_text("w", "old");
	expect_list("", true, "w|");
	/* Nothing is left of it that would have to be swept up. */
	cr_expect_eq(object_store_sweep(store, 0, &n, &err), 0, "%s", err.msg);
	cr_expect_eq(n, 0);
	free(data);
}

struct swapper {
	atomic_bool is_over;
	size_t len;
	unsigned int n;
	int rc;
	struct error err;
};

static void *swap(void *arg)
{
	struct swapper *s = arg;
	char *data = malloc(s->len);

	cr_assert_not_null(data);
	for (; !atomic_load(&s->is_over) && s->rc == 0; s->n++) {
		memset(data, 'a' + (int)(s->n % 26), s->len);
		s->rc = object_put(store, "x", data, s->len, NULL, NULL,
				   &s->err);
	}
	free(data);
	return NULL;
}

Test(store, shows_readers_one_version_or_the_other)
{
	struct swapper s = { .len = 300000 };
	unsigned int n_stale = 0;
	char *data = malloc(s.len);
	pthread_t writer;

	memset(data, 'z', s.len);
	put_bytes(store, "x", data, s.len);
	free(data);
	cr_assert_eq(pthread_create(&writer, NULL, swap, &s), 0);
	for (int i = 0; i < 60; i++) {
		struct error err = ERROR_INIT;
		char *got = NULL;
		size_t n = 0;
		int rc = read_all(store, "x", &got, &n, &err);

		/* Where a replacement is two steps, there is a moment
		 * without any. */
		if (rc == -ESTALE ||
		    (rc == -ENOENT && !object_store_caps(store).has_replace)) {
			n_stale++;
			continue;
		}
		cr_assert_eq(rc, 0, "%s", err.msg);
		cr_expect_eq(n, s.len);
		for (size_t k = 1; k < n; k++)
			cr_assert_eq(got[k], got[0], "byte %zu", k);
		free(got);
	}
	atomic_store(&s.is_over, true);
	pthread_join(writer, NULL);
	cr_expect_eq(s.rc, 0, "%s", s.err.msg);
	cr_expect_gt(s.n, 1);
	cr_expect_lt(n_stale, 60);
}

/* ------------------------------------------------------------------- names --- */

Test(store, lists_folders_and_what_is_below_them)
{
	put_text("a", "1");
	put_text("ab/x", "22");
	put_text("ab/y/z", "333");
	put_text("abc", "4444");
	expect_list("", false, "a|ab/|abc|");
	expect_list("", true, "a|ab/x|ab/y/z|abc|");
	expect_list("ab", false, "ab/x|ab/y/|");
	expect_list("ab/y", true, "ab/y/z|");
	expect_list("none", true, "");
	expect_list("none", false, "");
	expect_list("a", true, "");
}

static int check_entry(void *arg, const struct object_entry *e,
		       struct error *err)
{
	struct object_stat *want = arg;

	cr_expect_eq(e->stat.size, want->size);
	cr_expect_str_eq(e->stat.tag, want->tag);
	want->modified_ms = 0;
	return 0;
}

static int stop(void *arg, const struct object_entry *e, struct error *err)
{
	return error_set(err, EXDEV, "enough");
}

Test(store, lists_sizes_and_tags)
{
	struct object_stat st = put_text("l/a", "hello");
	struct error err = ERROR_INIT;

	cr_expect_eq(object_list(store, "l", false, check_entry, &st, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(st.modified_ms, 0, "nothing was listed");
	cr_expect_eq(object_list(store, "l", false, stop, NULL, &err), -EXDEV);
}

/* A tenth more than a page of the server has: STORE_PAGE, or 1,000. */
static unsigned int many(void)
{
	const char *page = getenv("STORE_PAGE");
	unsigned long n = page ? strtoul(page, NULL, 10) : 1000;

	return (unsigned int)(n + n / 10);
}

static void *put_many(void *arg)
{
	struct contender *c = arg;

	for (unsigned int i = c->id; i < many() && c->rc == 0; i += THREADS) {
		char name[32];

		(void)snprintf(name, sizeof(name), "many/%04u", i);
		c->rc = object_put(store, name, "x", 1, NULL, NULL, &c->err);
	}
	return NULL;
}

static int count_entries(void *arg, const struct object_entry *e,
			 struct error *err)
{
	unsigned char *seen = arg;
	unsigned int n = (unsigned int)strtoul(e->name + 5, NULL, 10);

	cr_assert_lt(n, many());
	cr_expect_eq(seen[n]++, 0, "%s is listed twice", e->name);
	return 0;
}

Test(store, lists_more_than_a_page)
{
	struct contender c[THREADS] = { { .id = 0 } };
	unsigned char seen[MANY_MAX] = { 0 };
	struct error err = ERROR_INIT;
	unsigned int n = 0;

	for (unsigned int i = 0; i < THREADS; i++)
		c[i].id = i;
	run_threads(put_many, c, sizeof(*c));
	for (unsigned int i = 0; i < THREADS; i++)
		cr_assert_eq(c[i].rc, 0, "%s", c[i].err.msg);
	cr_assert_eq(object_list(store, "many", false, count_entries, seen,
				 &err),
		     0, "%s", err.msg);
	for (unsigned int i = 0; i < many(); i++)
		n += seen[i];
	cr_expect_eq(n, many());
}

Test(store, renames)
{
	struct error err = ERROR_INIT;

	put_text("from/a", "one");
	put_text("b", "two");
	cr_expect_eq(object_rename(store, "from/a", "to/deep/c", OBJECT_ANY,
				   &err),
		     0, "%s", err.msg);
	expect_none("from/a");
	expect_text("to/deep/c", "one");
	cr_expect_eq(object_rename(store, "to/deep/c", "b", OBJECT_NEW, &err),
		     -EEXIST, "%s", err.msg);
	expect_text("b", "two");
	expect_text("to/deep/c", "one");
	cr_expect_eq(object_rename(store, "to/deep/c", "b", OBJECT_ANY, &err),
		     0, "%s", err.msg);
	expect_text("b", "one");
	expect_none("to/deep/c");
	cr_expect_eq(object_rename(store, "none", "x", OBJECT_ANY, &err),
		     -ENOENT, "%s", err.msg);
	cr_expect_eq(object_rename(store, "b", "x", OBJECT_MATCH, &err),
		     -EINVAL);
}

/* ------------------------------------------------------------------ leases --- */

static struct object_lease *lease(const char *owner, uint32_t ttl_ms)
{
	const struct object_lease_options opts = { .owner = owner,
						   .ttl_ms = ttl_ms };
	struct error err = ERROR_INIT;
	struct object_lease *l = NULL;

	cr_assert_eq(object_lease_take(store, "lease", &opts, &l, &err), 0,
		     "%s", err.msg);
	return l;
}

Test(store, leases_to_one_at_a_time)
{
	const struct object_lease_options opts = { .owner = "node-b",
						   .ttl_ms = 60000 };
	struct object_lease *l = lease("node-a", 60000), *other;
	uint64_t first = object_lease_generation(l);
	struct error err = ERROR_INIT;

	cr_expect_eq(object_lease_take(store, "lease", &opts, &other, &err),
		     -EBUSY);
	cr_expect(strstr(err.msg, "held by 'node-a'"), "%s", err.msg);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(object_lease_renew(l, &err), 0, "%s", err.msg);
	cr_expect_eq(object_lease_drop(l, &err), 0, "%s", err.msg);
	l = lease("node-b", 60000);
	cr_expect_gt(object_lease_generation(l), first);
	cr_expect_eq(object_lease_drop(l, &err), 0, "%s", err.msg);
}

Test(store, gives_the_lease_of_the_dead_to_another)
{
	const struct object_lease_options opts = {
		.owner = "node-b",
		.ttl_ms = 1000,
		.deadline_ns = clock_now_ns() + 60 * CLOCK_NS_PER_S,
	};
	struct object_lease *dead = lease("node-a", 1000), *l = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(object_lease_take(store, "lease", &opts, &l, &err), 0,
		     "%s", err.msg);
	cr_expect_gt(object_lease_generation(l), object_lease_generation(dead));
	cr_expect_eq(object_lease_renew(dead, &err), -ESTALE, "%s", err.msg);
	cr_expect_eq(object_lease_renew(l, &err), 0, "%s", err.msg);
	cr_expect_eq(object_lease_drop(dead, &err), -ESTALE, "%s", err.msg);
	cr_expect_eq(object_lease_drop(l, &err), 0, "%s", err.msg);
}

Test(store, takes_no_other_object_for_a_lease)
{
	const struct object_lease_options opts = { .owner = "a",
						   .ttl_ms = 1000 };
	struct object_lease *l;
	struct error err = ERROR_INIT;

	put_text("lease", "{\"owner\": 3}");
	cr_expect_eq(object_lease_take(store, "lease", &opts, &l, &err),
		     -EINVAL);
	expect_text("lease", "{\"owner\": 3}");
}

/* ------------------------------------------------------------------ memory --- */

Test(store, writes_large_objects_with_little_memory)
{
	size_t part = (size_t)object_store_caps(store).part_size;
	size_t memory = part > 16 * MIB ? 2 * part : 32 * MIB;
	char *url = store_url(), *data = noise(part, 7);
	struct object_store *small = open_store(url, memory);
	struct object_put *p[2] = { NULL, NULL };
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(object_put_open(small, i ? "b" : "a", NULL, &p[i],
					     &err),
			     0, "%s", err.msg);
	/* In turns, from one thread: neither waits for the other. */
	for (size_t k = 0; k < 12; k++)
		for (size_t i = 0; i < 2; i++)
			cr_assert_eq(object_put_write(p[i], data, part / 2,
						      &err),
				     0, "%s", err.msg);
	for (size_t i = 0; i < 2; i++) {
		struct object_stat st = { .size = 0 };

		cr_assert_eq(object_put_commit(p[i], &st, &err), 0, "%s",
			     err.msg);
		cr_expect_eq(st.size, 6 * part);
		object_put_free(p[i]);
		cr_expect_eq(object_delete(small, i ? "b" : "a", NULL, &err), 0,
			     "%s", err.msg);
	}
	object_store_free(small);
	free(url);
	free(data);
}

static void *put_and_read(void *arg)
{
	struct contender *c = arg;
	size_t len = 9 * MIB + c->id * 1001, n = 0;
	char *data = noise(len, 100 + c->id), *got = NULL, name[32];

	(void)snprintf(name, sizeof(name), "p/%u", c->id);
	c->rc = object_put(store, name, data, len, NULL, NULL, &c->err);
	if (c->rc == 0)
		c->rc = read_all(store, name, &got, &n, &c->err);
	if (c->rc == 0 && (n != len || memcmp(data, got, len) != 0))
		c->rc = error_set(&c->err, EBADMSG, "%s differs", name);
	free(got);
	free(data);
	return NULL;
}

Test(store, serves_many_threads)
{
	struct contender c[THREADS] = { { .id = 0 } };

	for (unsigned int i = 0; i < THREADS; i++)
		c[i].id = i;
	run_threads(put_and_read, c, sizeof(*c));
	for (unsigned int i = 0; i < THREADS; i++)
		cr_expect_eq(c[i].rc, 0, "%s", c[i].err.msg);
}
