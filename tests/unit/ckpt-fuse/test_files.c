// SPDX-License-Identifier: Apache-2.0
/* Tests of striped and plain files: reading, names, replacing. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS 8

TestSuite(files, .init = ckpt_setup, .fini = ckpt_teardown, .timeout = 240);

/* ----------------------------------------------------------------- round trips --- */

Test(files, of_every_size_come_back)
{
	static const uint64_t sizes[] = { 0,
					  1,
					  4096,
					  MIB - 1,
					  MIB,
					  MIB + 1,
					  UNIT - 1,
					  UNIT,
					  UNIT + 1,
					  5 * MIB,
					  2 * UNIT - 1,
					  2 * UNIT,
					  2 * UNIT + 4097,
					  3 * UNIT,
					  3 * UNIT + 1,
					  6 * UNIT + MIB + 17 };
	static const uint32_t columns[] = { 3, 64, 0, 1 };

	/* Each striped size is tried with two of the four numbers of columns. */
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		bool is_striped = sizes[i] > UNIT;

		for (size_t k = i % 2; k < ARRAY_SIZE(columns);
		     k += is_striped ? 2 : 4) {
			struct ckpt_stat st =
				put("a/b", data + i, sizes[i], columns[k]);

			cr_expect_eq(st.size, sizes[i]);
			cr_expect_eq(st.is_striped, is_striped);
			expect_file("a/b", data + i, sizes[i]);
		}
	}
}

Test(files, say_what_they_are)
{
	struct ckpt_stat st = put("s", data, 3 * UNIT + 5, 3), again;
	struct ckpt_file *f = open_file("s");
	struct error err = ERROR_INIT;

	cr_expect(st.is_striped);
	cr_expect_eq(st.columns, 3);
	cr_expect_eq(st.n_segments, 1);
	cr_expect_eq(st.generation, 1);
	cr_expect_eq(st.chunk_size, MIB);
	cr_expect_eq(st.unit_chunks, 4);
	cr_assert_eq(ckpt_stat(store, "s", &again, &err), 0, "%s", err.msg);
	cr_expect_eq(again.size, 3 * UNIT + 5);
	cr_expect_eq(again.columns, 3);
	cr_expect_eq(again.attr.mode, 0644);
	cr_expect_eq(again.attr.uid, 7);
	cr_expect_eq(again.attr.gid, 8);
	cr_expect_eq(again.attr.mtime_ns, 9);
	cr_expect_eq(ckpt_file_stat(f)->generation, 1);
	cr_expect_eq(ckpt_file_unit(f), UNIT);
	ckpt_close(f);
	cr_expect_eq(n_columns(), 3);
	cr_expect_not(is_object("s"));
	cr_expect(is_object("s.bsm"));

	put("p", data, 100, 3);
	cr_assert_eq(ckpt_stat(store, "p", &again, &err), 0, "%s", err.msg);
	cr_expect_not(again.is_striped);
	cr_expect_eq(again.size, 100);
	cr_expect_eq(again.columns, 0);
	cr_expect_eq(again.attr.mode, 0644);
	cr_expect_gt(again.attr.mtime_ns, INT64_C(1600000000000000000));
	cr_expect(is_object("p"));
	cr_expect_not(is_object("p.bsm"));
	cr_expect_eq(n_columns(), 3, "a plain file has a column");
}

Test(files, have_one_column_while_they_are_small)
{
	cr_expect_eq(put("s", data, 5 * UNIT, 0).columns, 1);
	cr_expect_eq(put("s", data, 2 * UNIT, 64).columns, 2,
		     "more columns than units");
}

/* Read random ranges of a file. */
static void read_at_random(const char *path, uint64_t size, int n)
{
	struct ckpt_file *f = open_file(path);
	char *got = malloc(size + 2);
	uint64_t x = 4711;

	cr_assert_not_null(got);
	for (int i = 0; i < n; i++) {
		struct error err = ERROR_INIT;
		uint64_t off, len;

		x = x * 6364136223846793005 + 1442695040888963407;
		off = (x >> 16) % (size + 1);
		if (i % 3 == 0) /* near the boundary of a chunk */
			off = off / MIB * MIB + (x >> 7) % 3;
		if (off > size)
			off = size;
		x = x * 6364136223846793005 + 1442695040888963407;
		len = (x >> 16) % (i % 2 ? 5000 : size) % (size - off + 1);
		if (i % 5 == 0 && off + MIB <= size)
			len = MIB;
		memset(got, 0x77, len + 2);
		cr_assert_eq(ckpt_read(f, off, got + 1, len, 0, &err), 0, "%s",
			     err.msg);
		cr_assert(memcmp(got + 1, data + off, len) == 0,
			  "'%s': %zu bytes at %zu", path, (size_t)len,
			  (size_t)off);
		cr_assert(got[0] == 0x77 && got[len + 1] == 0x77,
			  "more than %zu bytes at %zu", (size_t)len,
			  (size_t)off);
	}
	ckpt_close(f);
	free(got);
}

Test(files, are_read_by_any_range)
{
	uint64_t size = 5 * UNIT + 3 * MIB + 12345;

	put("s", data, size, 3);
	read_at_random("s", size, 80);
	put("p", data, 3 * MIB + 77, 3);
	read_at_random("p", 3 * MIB + 77, 100);
	put_object("large", data, size); /* written by another program */
	read_at_random("large", size, 40);
}

Test(files, have_nothing_behind_their_end)
{
	static const char *const paths[] = { "s", "p" };
	static const uint64_t sizes[] = { UNIT + 1, 100 };

	for (size_t i = 0; i < 2; i++) {
		struct error err = ERROR_INIT;
		struct ckpt_file *f;
		char got[4];

		put(paths[i], data, sizes[i], 2);
		f = open_file(paths[i]);
		cr_expect_eq(ckpt_read(f, sizes[i], got, 0, 0, &err), 0);
		cr_expect_eq(ckpt_read(f, sizes[i], got, 1, 0, &err), -ERANGE);
		cr_expect_eq(ckpt_read(f, sizes[i] - 1, got, 2, 0, &err),
			     -ERANGE);
		cr_expect_eq(ckpt_read(f, sizes[i] + 1, got, 0, 0, &err),
			     -ERANGE);
		cr_expect_eq(ckpt_read(f, UINT64_MAX, got, 2, 0, &err),
			     -ERANGE);
		cr_expect_eq(ckpt_read(f, 1, got, SIZE_MAX, 0, &err), -ERANGE);
		ckpt_close(f);
	}
}

/* A file with holes and several segments, one of them truncated, like those of a mount. */
Test(files, of_several_segments_have_zeros_between_them)
{
	struct manifest *a, *b, *m = NULL;
	uint64_t size = 7 * UNIT + 10, start = 4 * UNIT;
	struct error err = ERROR_INIT;
	char *model = calloc(1, size);
	AUTO_BUF out = BUF_INIT;

	cr_assert_not_null(model);
	put("a", data, UNIT + MIB + 5, 2);
	put("b", data + 99, 2 * UNIT + 3, 3);
	a = manifest_of("a");
	b = manifest_of("b");
	cr_assert_eq(manifest_new(2, a->n_chunks + b->n_chunks, &m, &err), 0);
	m->chunk_size = a->chunk_size;
	m->unit_chunks = a->unit_chunks;
	m->size = size;
	m->segments[0] = a->segments[0];
	m->segments[1] = b->segments[0];
	m->segments[1].start = start;
	memcpy(m->crcs, a->crcs, a->n_chunks * sizeof(*m->crcs));
	memcpy(m->crcs + a->n_chunks, b->crcs, b->n_chunks * sizeof(*m->crcs));
	cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
	put_object("c.bsm", out.data, out.len);
	memcpy(model, data, UNIT + MIB + 5);
	memcpy(model + start, data + 99, 2 * UNIT + 3);
	expect_file("c", model, size);

	/* Cut the file within a chunk. */
	m->size = start + MIB + 17;
	out.len = 0;
	cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
	put_object("c.bsm", out.data, out.len);
	expect_file("c", model, start + MIB + 17);
	manifest_free(m);
	manifest_free(b);
	manifest_free(a);
	free(model);
}

struct reading {
	struct ckpt_file *f;
	uint64_t size;
	unsigned int index;
	int rc;
	bool is_other;
};

static void *read_part(void *arg)
{
	struct reading *r = arg;
	char *got = malloc(r->size);
	uint64_t step = 300000 + 40000 * r->index;

	for (uint64_t off = r->index; got && r->rc == 0 && off < r->size;
	     off += step) {
		uint64_t len = r->size - off < step ? r->size - off : step;

		r->rc = ckpt_read(r->f, off, got, len, 0, NULL);
		r->is_other |= memcmp(got, data + off, len) != 0;
	}
	free(got);
	return NULL;
}

Test(files, are_read_by_many_threads)
{
	uint64_t size = 3 * UNIT + MIB + 3;
	struct reading r[THREADS] = { { .rc = 0 } };
	pthread_t threads[THREADS];
	struct ckpt_file *f;

	put("s", data, size, 3);
	f = open_file("s");
	for (unsigned int i = 0; i < THREADS; i++) {
		r[i] = (struct reading){ .f = f, .size = size, .index = i };
		cr_assert_eq(pthread_create(&threads[i], NULL, read_part,
					    &r[i]),
			     0);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		cr_expect_eq(r[i].rc, 0);
		cr_expect_not(r[i].is_other);
	}
	ckpt_close(f);
}

/* -------------------------------------------------------------------- replaced --- */

Test(files, of_either_kind_replace_the_other)
{
	struct ckpt_file *old;
	char byte = 0;

	put("f", data, 100, 0);
	cr_expect_eq(put("f", data + 1, UNIT + 1, 0).generation, 1);
	cr_expect_not(is_object("f"));
	expect_file("f", data + 1, UNIT + 1);
	cr_expect_eq(put("f", data + 2, UNIT + 2, 0).generation, 2);
	expect_file("f", data + 2, UNIT + 2);
	/* A file that was open keeps its version. */
	old = open_file("f");
	put("f", data + 3, 50, 0);
	cr_expect_not(is_object("f.bsm"));
	expect_file("f", data + 3, 50);
	cr_expect_eq(ckpt_file_stat(old)->size, UNIT + 2);
	cr_expect_eq(ckpt_read(old, UNIT, &byte, 1, 0, NULL), 0);
	cr_expect_eq(byte, data[2 + UNIT]);
	ckpt_close(old);
}

Test(files, are_the_manifest_when_both_are_there)
{
	struct ckpt_stat st;
	struct error err = ERROR_INIT;

	put("f", data, UNIT + 1, 0);
	put_object("f", "plain", 5);
	cr_assert_eq(ckpt_stat(store, "f", &st, &err), 0, "%s", err.msg);
	cr_expect(st.is_striped);
	expect_file("f", data, UNIT + 1);
}

Test(files, replace_one_that_is_damaged)
{
	put_object("f.bsm", "BSEERCKP and what not", 21);
	cr_expect_eq(put("f", data, UNIT + 1, 0).generation, 1);
	expect_file("f", data, UNIT + 1);
}

/* A manifest of a newer version must not be replaced. */
Test(files, do_not_replace_one_of_another_version)
{
	char head[96] = "BSEERCKP\4";
	struct ckpt_writer *w = begin("f", UNIT + 1, 2);
	struct error err = ERROR_INIT;

	put_object("f.bsm", head, sizeof(head));
	write_units(w, data, UNIT + 1);
	cr_expect_eq(ckpt_commit(w, NULL, &err), -ENOTSUP, "%s", err.msg);
	ckpt_writer_free(w);
	cr_expect_eq(n_columns(), 0);
	cr_expect_eq(ckpt_stat(store, "f", &(struct ckpt_stat){ 0 }, &err),
		     -ENOTSUP);
}

Test(files, are_gone_when_they_were_removed)
{
	struct error err = ERROR_INIT;

	put("f", data, UNIT + 1, 0);
	cr_expect_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	expect_no_file("f");
	cr_expect_eq(ckpt_remove(store, "f", &err), -ENOENT);
	put("f", data, 5, 0);
	cr_expect_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	expect_no_file("f");
	/* A hidden plain object does not reappear. */
	put("f", data, UNIT + 1, 0);
	put_object("f", "plain", 5);
	cr_expect_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	expect_no_file("f");
}

/* The plain object is removed first: if that fails, the striped file stays. */
Test(files, are_removed_plain_object_first)
{
	struct error err = ERROR_INIT;
	AUTO_FREE char *manifest = local("d/f.bsm");

	put("d/f", data, UNIT + 1, 0);
	put_object("d/f", "plain", 5);
	/* Make the manifest a folder, so that its removal fails. */
	cr_assert_eq(unlink(manifest), 0);
	cr_assert_eq(mkdir(manifest, 0755), 0);
	(void)!ckpt_remove(store, "d/f", &err);
	cr_expect_not(is_object("d/f"));
}

/* ----------------------------------------------------------------------- names --- */

struct seen {
	char text[4096];
};

static int add_entry(void *arg, const struct ckpt_entry *e, struct error *err)
{
	struct seen *s = arg;
	size_t at = strlen(s->text);

	(void)snprintf(s->text + at, sizeof(s->text) - at, "%s%s|", e->name,
		       e->is_folder    ? "/"
		       : e->is_striped ? "*"
				       : "");
	return 0;
}

static void expect_list(const char *folder, const char *want)
{
	struct error err = ERROR_INIT;
	struct seen s = { .text = "" };

	cr_expect_eq(ckpt_list(store, folder, add_entry, &s, &err), 0, "%s",
		     err.msg);
	cr_expect_str_eq(s.text, want);
}

Test(files, are_listed_by_name_and_each_once)
{
	expect_list("", "");
	put("d/x", data, UNIT + 1, 0);
	put("d/w", data, 1, 0);
	put("top", data, UNIT + 1, 0);
	put_object("top", "hidden", 6);
	put_object("to", "", 0);
	put_object("top.bs", "", 0);
	put_object("topp", "", 0);
	put_object("d/.bsm", "a name, and no manifest's", 5);
	expect_list("", "d/|to|top*|top.bs|topp|");
	expect_list("d", ".bsm|w|x*|");
	expect_list("none", "");
}

static int refuse(void *arg, const struct ckpt_entry *e, struct error *err)
{
	++*(int *)arg;
	return -ENFILE;
}

Test(files, listing_ends_when_whoever_is_told_wants_that)
{
	struct error err = ERROR_INIT;
	int n = 0;

	put("a", data, 1, 0);
	put("b", data, 1, 0);
	cr_expect_eq(ckpt_list(store, "", refuse, &n, &err), -ENFILE);
	cr_expect_eq(n, 1);
	cr_expect_eq(ckpt_list(store, ".bootseer", refuse, &n, &err), -EINVAL);
	cr_expect_eq(ckpt_list(store, ".bootseer/data", refuse, &n, &err),
		     -EINVAL);
	cr_expect_eq(ckpt_list(store, "a/", refuse, &n, &err), -EINVAL);
	cr_expect_eq(ckpt_list(store, "/", refuse, &n, &err), -EINVAL);
	cr_expect_eq(n, 1);
}

/* Expect that all calls refuse the path with this error. */
static void expect_refused(const char *path, int want)
{
	const struct ckpt_write_options o = { .size = 1, .attr.mode = 0644 };
	struct error err = ERROR_INIT;
	struct ckpt_writer *w = NULL;
	struct ckpt_file *f = NULL;
	struct ckpt_stat st;
	int rc = ckpt_write_open(store, path, &o, &w, &err);

	cr_expect_eq(ckpt_open(store, path, &f, &err), want, "'%.80s': %s",
		     path, err.msg);
	cr_expect_eq(ckpt_stat(store, path, &st, &err), want, "'%.80s': %s",
		     path, err.msg);
	cr_expect_lt(ckpt_remove(store, path, &err), 0, "'%.80s'", path);
	if (rc == 0)
		rc = ckpt_write_unit(w, 0, "x", &err);
	if (rc == 0)
		rc = ckpt_commit(w, NULL, &err);
	cr_expect_lt(rc, 0, "'%.80s'", path);
	ckpt_writer_free(w);
}

Test(files, folders_are_none)
{
	put("d/e/f", data, 1, 0);
	expect_refused("d", -EISDIR);
	expect_refused("d/e", -EISDIR);
	expect_file("d/e/f", data, 1);
	expect_no_file("d/e/f/g");
}

Test(files, have_paths_that_a_file_can_have)
{
	static const char *const bad[] = {
		"",
		"/",
		"/a",
		"a/",
		"a//b",
		".",
		"..",
		"../a",
		"a/../b",
		"a/./b",
		"a.bsm",
		"d/a.bsm",
		"a\nb",
		"a\x7f",
		".bootseer",
		".bootseer/data/x",
		".bootseer/tmp",
	};
	char longest[OBJECT_NAME_MAX + 10];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect_refused(bad[i], -EINVAL);
	/* The manifest's name, which is longer, must fit too. */
	for (; n < OBJECT_NAME_MAX - 3; n++)
		longest[n] = n % 100 == 99 ? '/' : 'x';
	longest[n] = '\0';
	expect_refused(longest, -ENAMETOOLONG);
	longest[n - 1] = '\0';
	put(longest, data, UNIT + 1, 0);
	expect_file(longest, data, UNIT + 1);
	put(".bootseers", data, 1, 0);
	expect_file(".bootseers", data, 1);
	put(".bsm", data, UNIT + 1, 0);
	expect_file(".bsm", data, UNIT + 1);
}

static int note_name(void *arg, const struct ckpt_entry *e, struct error *err)
{
	return buf_printf(arg, "%s ", e->name);
}

static int note_left_out(void *arg, const char *name, struct error *err)
{
	return buf_printf(arg, "%s ", name);
}

/* Names such as "..": as a local file it would be the parent folder. */
Test(files, that_no_path_can_name_are_left_out_of_lists)
{
	static const char *const odd[] = { "d/..bsm", "d/...bsm", "d/x.bsm.bsm",
					   "d/a.bsm/b", ".bootseer.bsm" };
	AUTO_BUF names = BUF_INIT, rest = BUF_INIT;
	const struct ckpt_left_out left_out = { note_left_out, &rest };
	struct error err = ERROR_INIT;
	size_t len;

	put("d/good", data, UNIT + 1, 0);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		put_object(odd[i], "x", 1);
		cr_expect_not(manifest_is_name(odd[i], &len), "%s", odd[i]);
	}
	cr_assert_eq(ckpt_list(store, "", note_name, &names, &err), 0);
	cr_expect_str_eq(names.data, "d ");
	buf_reset(&names);
	cr_assert_eq(ckpt_list_all(store, "d", SIZE_MAX, note_name, &names,
				   &left_out, &err),
		     0);
	cr_expect_str_eq(names.data, "good ");
	for (size_t i = 0; i < 3; i++)
		cr_expect_not_null(strstr(rest.data, odd[i]), "%s", odd[i]);
	cr_expect_not_null(strstr(rest.data, "d/a.bsm "));
	/* The folder is not empty, so it is not removed. */
	cr_assert_eq(ckpt_remove(store, "d/good", &err), 0);
	cr_expect_eq(ckpt_folder_remove(store, "d", &err), -ENOTEMPTY);
}

/* Holes may make a file larger than any disk. */
Test(files, keep_their_holes_when_they_are_copied_out)
{
	static const struct ckpt_progress quiet = { .fn = NULL };
	const uint64_t size = (uint64_t)13 << 40, at = (uint64_t)5 << 40;
	char name[] = "/tmp/ckpt-hole.XXXXXX";
	AUTO_CLOSE int fd = mkostemp(name, O_CLOEXEC);
	struct manifest *a, *m = NULL;
	struct error err = ERROR_INIT;
	AUTO_FREE char *got = malloc(UNIT);
	AUTO_BUF out = BUF_INIT;
	struct ckpt_file *f;
	struct stat st;

	cr_assert(fd >= 0 && got && unlink(name) == 0);
	put("a", data, UNIT + MIB + 5, 2);
	a = manifest_of("a");
	cr_assert_eq(manifest_new(1, a->n_chunks, &m, &err), 0);
	m->chunk_size = a->chunk_size;
	m->unit_chunks = a->unit_chunks;
	m->size = size;
	m->segments[0] = a->segments[0];
	m->segments[0].start = at;
	memcpy(m->crcs, a->crcs, a->n_chunks * sizeof(*m->crcs));
	cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
	put_object("c.bsm", out.data, out.len);
	f = open_file("c");
	cr_expect_eq(ckpt_file_stored(f), UNIT + MIB + 5);
	cr_assert_eq(ckpt_download(f, fd, 0, &quiet, &err), 0, "%s", err.msg);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq((uint64_t)st.st_size, size);
	cr_expect_lt((uint64_t)st.st_blocks * 512, 3 * UNIT);
	cr_assert_eq(pread(fd, got, UNIT, (off_t)at), UNIT);
	cr_expect_arr_eq(got, data, UNIT);
	cr_assert_eq(pread(fd, got, MIB + 6, (off_t)(at + UNIT)), MIB + 6);
	cr_expect_arr_eq(got, data + UNIT, MIB + 5);
	cr_expect_eq(got[MIB + 5], 0);
	ckpt_close(f);
	/* Check without writing: only stored bytes are read. */
	f = open_file("c");
	cr_expect_eq(ckpt_download(f, -1, 0, NULL, &err), 0, "%s", err.msg);
	ckpt_close(f);
	manifest_free(m);
	manifest_free(a);
}

Test(files, that_are_larger_than_a_disk_are_not_begun_there)
{
	char name[] = "/tmp/ckpt-room.XXXXXX";
	AUTO_CLOSE int fd = mkostemp(name, O_CLOEXEC);
	struct error err = ERROR_INIT;
	const uint64_t n = 1u << 22; /* number of chunks of 16 MiB: 64 TiB */
	struct manifest *m = NULL;
	AUTO_BUF out = BUF_INIT;
	struct ckpt_file *f;
	struct stat st;

	cr_assert(fd >= 0 && unlink(name) == 0);
	cr_assert_eq(manifest_new(1, n, &m, &err), 0);
	m->chunk_size = 16u << 20;
	m->unit_chunks = 4;
	m->size = n * m->chunk_size;
	m->segments[0].length = m->size;
	m->segments[0].columns = 1;
	cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
	put_object("c.bsm", out.data, out.len);
	f = open_file("c");
	cr_expect_eq(ckpt_download(f, fd, 0, NULL, &err), -ENOSPC);
	cr_expect_not_null(strstr(err.msg, "70368744177664"), "%s", err.msg);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_size, 0);
	ckpt_close(f);
	manifest_free(m);
}

/* --------------------------------------------------------------------- damage --- */

static void expect_damaged(const char *path, uint64_t off, size_t len,
			   const char *what, const char *and_what)
{
	struct ckpt_file *f = open_file(path);
	struct error err = ERROR_INIT;
	char *got = malloc(len);

	cr_assert_not_null(got);
	cr_expect_eq(ckpt_read(f, off, got, len, 0, &err), -EBADMSG, "%s",
		     err.msg);
	cr_expect_not_null(strstr(err.msg, path), "%s", err.msg);
	cr_expect_not_null(strstr(err.msg, what), "%s", err.msg);
	cr_expect_not_null(strstr(err.msg, and_what), "%s", err.msg);
	cr_expect_eq(ckpt_download(f, -1, 0, NULL, &err), -EBADMSG);
	ckpt_close(f);
	free(got);
}

Test(files, with_a_byte_that_is_another_are_not_read)
{
	char column[COLUMN_NAME_MAX];
	struct ckpt_file *f;
	char byte;

	put("model.pt", data, 3 * UNIT + 100, 3);
	damage("model.pt", 9, 4711, column);
	/* Read the whole file, some bytes of the chunk, and the byte itself. */
	expect_damaged("model.pt", 0, 3 * UNIT + 100, "chunk 9", column);
	expect_damaged("model.pt", 10 * MIB - 1, 2, "chunk 9", "byte 9437184");
	expect_damaged("model.pt", 9 * MIB + 4711, 1, "chunk 9", column);
	/* Other chunks are not damaged. */
	f = open_file("model.pt");
	cr_expect_eq(ckpt_read(f, 9 * MIB - 1, &byte, 1, 0, NULL), 0);
	cr_expect_eq(byte, data[9 * MIB - 1]);
	cr_expect_eq(ckpt_read(f, 10 * MIB, &byte, 1, 0, NULL), 0);
	ckpt_close(f);
	damage("model.pt", 12, 99, column); /* the last byte of the file */
	expect_damaged("model.pt", 3 * UNIT, 1, "chunk 12", column);
}

Test(files, with_a_column_that_is_shorter_or_gone_are_not_read)
{
	struct error err = ERROR_INIT;
	char column[COLUMN_NAME_MAX], got[1];
	struct ckpt_file *f;

	put("f", data, 2 * UNIT + 100, 1);
	damage("f", 8, 0, column);
	AUTO_FREE char *path = local(column);

	cr_assert_eq(truncate(path, 2 * UNIT + 99), 0);
	expect_damaged("f", 2 * UNIT, 1, "shorter", column);
	cr_assert_eq(truncate(path, 0), 0);
	expect_damaged("f", 0, 1, "shorter", column);
	cr_assert_eq(unlink(path), 0);
	expect_damaged("f", 0, 1, "missing", column);
	/* A missing column of a replaced file is not reported as damage. */
	f = open_file("f");
	put("f", data, 2 * UNIT + 101, 1);
	cr_expect_eq(ckpt_read(f, 0, got, 1, 0, &err), -ESTALE, "%s", err.msg);
	cr_expect_not_null(strstr(err.msg, "'f'"), "%s", err.msg);
	ckpt_close(f);
}

Test(files, with_a_manifest_that_is_cut_are_not_opened)
{
	AUTO_FREE char *path = local("f.bsm");
	struct error err = ERROR_INIT;
	struct ckpt_file *f = NULL;
	struct stat st;

	put("f", data, UNIT + 1, 1);
	put_object("f", "plain", 5);
	cr_assert_eq(stat(path, &st), 0);
	for (off_t len = st.st_size - 1; len >= 0; len -= 7) {
		struct ckpt_stat out;

		cr_assert_eq(truncate(path, len), 0);
		cr_expect_eq(ckpt_open(store, "f", &f, &err), -EBADMSG);
		cr_expect_not_null(strstr(err.msg, "f.bsm"), "%s", err.msg);
		cr_expect_eq(ckpt_stat(store, "f", &out, &err), -EBADMSG);
	}
	cr_assert_eq(truncate(path, 0), 0);
	cr_expect_eq(ckpt_open(store, "f", &f, &err), -EBADMSG);
	cr_assert_eq(truncate(path, MANIFEST_MAX + 1), 0);
	cr_expect_eq(ckpt_open(store, "f", &f, &err), -EBADMSG);
	cr_expect_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	expect_no_file("f");
}
