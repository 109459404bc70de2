// SPDX-License-Identifier: Apache-2.0
/* What every store of objects does alike: bytes that are put and read. */
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
#include "objects/object_get.h"
#include "objects/store/backend.h"
#include "tests/unit/objects/store_fixture.h"

TestSuite(store, .init = store_test_setup, .fini = store_test_teardown,
	  .timeout = 240);

/* ------------------------------------------------------------ put and read --- */

Test(store, gives_back_what_was_put)
{
	struct object_stat put = store_put_text("dir/a", "hello"), st;
	struct error err = ERROR_INIT;

	cr_assert_eq(object_stat(store, "dir/a", &st, &err), 0, "%s", err.msg);
	cr_expect_eq(st.size, 5);
	cr_expect_str_eq(st.tag, put.tag);
	cr_expect_gt(st.modified_ms, 1600000000000);
	store_expect_text("dir/a", "hello");
	store_put_text("dir/a", "");
	store_expect_text("dir/a", "");
}

Test(store, keeps_objects_of_every_size_around_its_parts)
{
	size_t part = (size_t)object_store_caps(store).part_size;
	const size_t sizes[] = {
		1,        4095, 4096,     4097,     65537,
		part - 1, part, part + 1, 2 * part, 2 * part + 4096 + 17
	};
	char *data = store_test_noise(2 * part + 8192, 1);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		store_put_bytes(store, "o", data, sizes[i]);
		store_expect_bytes("o", data, sizes[i]);
	}
	free(data);
}

/* Laid in place as far as there is room, written from elsewhere where there is none. */
Test(store, takes_bytes_that_are_laid_into_its_room)
{
	size_t part = (size_t)object_store_caps(store).part_size;
	size_t len = 2 * part + 12345, step = part / 2, n_laid = 0;
	const struct object_put_options opts = { .size = len };
	char *data = store_test_noise(len, 7);
	struct error err = ERROR_INIT;
	struct object_put *p;

	cr_assert_eq(object_put_open(store, "o", &opts, &p, &err), 0, "%s",
		     err.msg);
	for (size_t at = 0, n; at < len; at += n) {
		char *room;

		n = len - at < step ? len - at : step;
		room = object_put_room(p, n);
		if (room)
			memcpy(room, data + at, n);
		n_laid += room != NULL;
		cr_assert_eq(object_put_write(p, room ? room : data + at, n,
					      &err),
			     0, "%s", err.msg);
	}
	cr_expect_eq(n_laid, store->ops->put_room ? 5 : 0);
	cr_expect_null(object_put_room(p, SIZE_MAX), "there is no such room");
	cr_assert_eq(object_put_commit(p, NULL, &err), 0, "%s", err.msg);
	cr_expect_null(object_put_room(p, 1), "it is over");
	object_put_free(p);
	store_expect_bytes("o", data, len);
	free(data);
}

Test(store, takes_a_stream_whose_length_nobody_knows)
{
	size_t part = (size_t)object_store_caps(store).part_size;
	size_t len = 2 * part + 12345, step = 100001;
	const struct object_put_options wrong = { .size = 10 };
	char *data = store_test_noise(len, 2);

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
		store_expect_bytes("s", data, len);
	}
	free(data);
}

/* Ranges at random, in one call: each gets its own bytes. */
Test(store, reads_vectors_of_ranges)
{
	size_t len = (size_t)object_store_caps(store).read_size + 300000;
	char *data = store_test_noise(len, 3), *got = calloc(1, 4 * len);
	struct object_range r[40];
	struct error err = ERROR_INIT;
	struct object *o = NULL;
	char *to = got;

	store_put_bytes(store, "v", data, len);
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
	char *data = store_test_noise(len, 4);
	char *buf = object_buffer_take(store, len, clock_now_ns());
	struct object_range r = { .off = 4096, .len = len - 4096, .buf = buf };
	struct error err = ERROR_INIT;
	struct object *o = NULL;

	cr_assert_not_null(buf);
	store_put_bytes(store, "v", data, len);
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
	char *data = store_test_noise(len, 8), *buf = malloc(len + 1);
	struct error err = ERROR_INIT;
	struct object *o = NULL;

	store_put_bytes(store, "v", data, len);
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

Test(store, reads_small_objects_whole)
{
	static const size_t sizes[] = { 0, 1, 5000, 300000 };
	struct object_stat now = { .size = 1 }, st = { .size = 1 };
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		char *data = store_test_noise(sizes[i] + 1, 9);
		AUTO_BUF got = BUF_INIT;
		size_t n = sizes[i];

		store_put_bytes(store, "w", data, n);
		cr_assert_eq(object_get(store, "w", n, &got, &st, &err), 0,
			     "%zu: %s", n, err.msg);
		cr_assert_eq(got.len, n);
		cr_expect(n == 0 || memcmp(got.data, data, n) == 0, "%zu", n);
		cr_assert_eq(object_stat(store, "w", &now, &err), 0);
		cr_expect_eq(st.size, n);
		cr_expect_str_eq(st.tag, now.tag);
		cr_expect_eq(st.modified_ms, now.modified_ms);
		buf_reset(&got);
		if (n > 0)
			cr_expect_eq(object_get(store, "w", n - 1, &got, &st,
						NULL),
				     -EFBIG);
		free(data);
	}
}

Test(store, refuses_ranges_outside_the_object)
{
	struct object_range r = { .off = 3, .len = 3 };
	struct error err = ERROR_INIT;
	struct object *o = NULL;
	char buf[8];

	r.buf = buf;
	store_put_text("a", "hello");
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
	char *data = store_test_noise(len, 5);
	struct object_range r = { .len = len, .buf = data };
	struct error err = ERROR_INIT;
	struct object *o = NULL;

	store_put_bytes(store, "a", data, len);
	cr_assert_eq(object_open(store, "a", &o, &err), 0, "%s", err.msg);
	cr_expect_eq(object_read(o, &r, 1, 1, &err), -ETIMEDOUT, "%s", err.msg);
	cr_expect(strstr(err.msg, object_store_url(store)), "%s", err.msg);
	object_close(o);
	free(data);
}

Test(store, knows_what_is_not_there)
{
	struct error err = ERROR_INIT;
	AUTO_BUF got = BUF_INIT;
	struct object_stat st;
	struct object *o;

	store_put_text("dir/a", "x");
	store_expect_none("none");
	store_expect_none("dir");
	store_expect_none("dir/a/b");
	cr_expect_eq(object_open(store, "none", &o, &err), -ENOENT);
	cr_expect(strstr(err.msg, "'none'"), "%s", err.msg);
	cr_expect(strstr(err.msg, object_store_url(store)), "%s", err.msg);
	cr_expect_eq(object_open(store, "dir", &o, &err), -ENOENT);
	cr_expect_eq(object_get(store, "none", 10, &got, &st, &err), -ENOENT);
	cr_expect(strstr(err.msg, "'none'"), "%s", err.msg);
	cr_expect_eq(object_get(store, "dir", 10, &got, &st, NULL), -ENOENT);
	cr_expect_eq(object_delete(store, "none", NULL, &err), -ENOENT);
	cr_expect_eq(object_delete(store, "dir", NULL, &err), -ENOENT);
	store_expect_text("dir/a", "x");
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
		store_put_text(name, names[i]);
		store_expect_text(name, names[i]);
	}
	strcat(all, "odd/'q\"q'|odd/<&>|odd/[x]{y}|odd/a b|odd/a#b?c|"
		    "odd/a$b@c!|odd/a%20b|odd/a%b|odd/a+b|odd/a,b|odd/a;b|"
		    "odd/a=b&c|odd/~x|odd/ä/é|");
	store_expect_list("odd", true, all);
}

/* ------------------------------------------------------------------- whole --- */

Test(store, shows_nothing_of_a_put_without_commit)
{
	size_t part = (size_t)object_store_caps(store).part_size;
	char *data = store_test_noise(2 * part + 1, 6);
	struct error err = ERROR_INIT;
	struct object_put *p = NULL;
	size_t n = 0;

	store_put_text("w", "old");
	cr_assert_eq(object_put_open(store, "w", NULL, &p, &err), 0);
	cr_assert_eq(object_put_write(p, data, 2 * part + 1, &err), 0, "%s",
		     err.msg);
	store_expect_text("w", "old");
	store_expect_list("", true, "w|");
	object_put_free(p);
	store_expect_text("w", "old");
	store_expect_list("", true, "w|");
	/* Nothing is left of it that would have to be swept up. */
	cr_expect_eq(object_store_sweep(store, 0, &n, &err), 0, "%s", err.msg);
	cr_expect_eq(n, 0);
	free(data);
}

struct swapper {
	atomic_bool is_over, is_broken;
	atomic_uint n;
	size_t len;
	int rc;
	struct error err;
};

static void *swap(void *arg)
{
	struct swapper *s = arg;
	char *data = malloc(s->len);

	cr_assert_not_null(data);
	while (!atomic_load(&s->is_over) && s->rc == 0) {
		memset(data, 'a' + (int)(atomic_load(&s->n) % 26), s->len);
		s->rc = object_put(store, "x", data, s->len, NULL, NULL,
				   &s->err);
		if (s->rc == 0)
			atomic_fetch_add(&s->n, 1);
	}
	atomic_store(&s->is_broken, s->rc != 0);
	free(data);
	return NULL;
}

Test(store, shows_readers_one_version_or_the_other)
{
	struct swapper s = { .len = 300000 };
	unsigned int n_whole = 0;
	char *data = malloc(s.len);
	pthread_t writer;

	memset(data, 'z', s.len);
	store_put_bytes(store, "x", data, s.len);
	free(data);
	cr_assert_eq(pthread_create(&writer, NULL, swap, &s), 0);
	/* However long one of the two has to wait for a processor. */
	while (!atomic_load(&s.is_broken) &&
	       (n_whole < 30 || atomic_load(&s.n) < 3)) {
		struct error err = ERROR_INIT;
		char *got = NULL;
		size_t n = 0;
		int rc = store_read_all(store, "x", &got, &n, &err);

		/* Where a replacement is two steps, there is a moment
		 * without any. */
		if (rc == -ESTALE ||
		    (rc == -ENOENT && !object_store_caps(store).has_replace))
			continue;
		cr_assert_eq(rc, 0, "%s", err.msg);
		cr_expect_eq(n, s.len);
		for (size_t k = 1; k < n; k++)
			cr_assert_eq(got[k], got[0], "byte %zu", k);
		free(got);
		n_whole++;
	}
	atomic_store(&s.is_over, true);
	pthread_join(writer, NULL);
	cr_expect_eq(s.rc, 0, "%s", s.err.msg);
}

/* ------------------------------------------------------------------ memory --- */

Test(store, writes_large_objects_with_little_memory)
{
	size_t part = (size_t)object_store_caps(store).part_size;
	size_t memory = part > 16 * MIB ? 2 * part : 32 * MIB;
	char *url = store_test_url(), *data = store_test_noise(part, 7);
	struct object_store *small = store_test_open(url, memory);
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

struct put_and_reader {
	unsigned int id;
	int rc;
	struct error err;
};

static void *put_and_read(void *arg)
{
	struct put_and_reader *c = arg;
	size_t len = 9 * MIB + c->id * 1001, n = 0;
	char *data = store_test_noise(len, 100 + c->id), *got = NULL, name[32];

	(void)snprintf(name, sizeof(name), "p/%u", c->id);
	c->rc = object_put(store, name, data, len, NULL, NULL, &c->err);
	if (c->rc == 0)
		c->rc = store_read_all(store, name, &got, &n, &c->err);
	if (c->rc == 0 && (n != len || memcmp(data, got, len) != 0))
		c->rc = error_set(&c->err, EBADMSG, "%s differs", name);
	free(got);
	free(data);
	return NULL;
}

Test(store, serves_many_threads)
{
	struct put_and_reader c[THREADS] = { { .id = 0 } };

	for (unsigned int i = 0; i < THREADS; i++)
		c[i].id = i;
	store_run_threads(put_and_read, c, sizeof(*c));
	for (unsigned int i = 0; i < THREADS; i++)
		cr_expect_eq(c[i].rc, 0, "%s", c[i].err.msg);
}
