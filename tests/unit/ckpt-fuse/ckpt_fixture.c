// SPDX-License-Identifier: Apache-2.0
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ckpt-fuse/parts.h"
#include "common/fs.h"

#define SLACK (64 * KIB)

struct object_store *store;
char *data;
static char *dir;

/* Allocate bytes that differ from place to place. */
static char *noise(size_t len)
{
	char *p = malloc(len);
	uint64_t x = 88172645463325252;

	cr_assert_not_null(p);
	for (size_t i = 0; i < len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(p + i, &x, 8);
	}
	return p;
}

/* Run before any test's process is started, so that all share the bytes. */
__attribute__((constructor)) static void make_data(void)
{
	data = noise(DATA_MAX + SLACK);
}

void ckpt_setup(void)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct error err = ERROR_INIT;
	char *url = NULL;

	cfg.memory = CKPT_TEST_MEMORY;
	dir = strdup("/var/tmp/bootseer-ckpt.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_geq(asprintf(&url, "file://%s", dir), 0);
	cr_assert_eq(object_store_open(url, &cfg, &store, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(object_store_probe(store, &err), 0, "%s", err.msg);
	free(url);
}

void ckpt_teardown(void)
{
	object_store_free(store);
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
	free(dir);
}

/* -------------------------------------------------------------------- helpers --- */

struct ckpt_writer *begin(const char *path, uint64_t size, uint32_t columns)
{
	struct ckpt_write_options o = {
		.size = size,
		.columns = columns,
		.attr = { .mode = 0644, .uid = 7, .gid = 8, .mtime_ns = 9 }
	};
	struct ckpt_writer *w = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_write_open(store, path, &o, &w, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(ckpt_writer_unit(w), UNIT);
	return w;
}

void write_units(struct ckpt_writer *w, const char *from, uint64_t size)
{
	struct error err = ERROR_INIT;

	for (uint64_t u = 0; u * UNIT < size; u++)
		cr_assert_eq(ckpt_write_unit(w, u, from + u * UNIT, &err), 0,
			     "%s", err.msg);
}

/* Write the first `size` bytes of `from`. */
struct ckpt_stat put(const char *path, const char *from, uint64_t size,
		     uint32_t columns)
{
	struct ckpt_writer *w = begin(path, size, columns);
	struct error err = ERROR_INIT;
	struct ckpt_stat st = { .size = 0 };

	write_units(w, from, size);
	cr_assert_eq(ckpt_commit(w, &st, &err), 0, "%s", err.msg);
	ckpt_writer_free(w);
	return st;
}

static void put_part(const char *path, const char *from, uint64_t size,
		     uint64_t first, struct buf *ret)
{
	const struct ckpt_write_options o = { .size = CKPT_SIZE_UNKNOWN,
					      .unit_chunks = 1 };
	struct error err = ERROR_INIT;
	AUTO(ckpt_writer) w = NULL;
	uint32_t place;

	cr_assert_eq(ckpt_write_open(store, path, &o, &w, &err), 0);
	cr_assert_eq(ckpt_writer_begin_segment(w, 2, &err), 0);
	for (uint64_t at = first * MIB; at < size; at += 2 * MIB) {
		const size_t n = size - at < MIB ? size - at : MIB;

		cr_assert_eq(ckpt_writer_add(w, at / MIB, n, &place, &err), 0);
		cr_assert_eq(ckpt_write_placed(w, at / MIB, place, from + at, n,
					       &err),
			     0);
	}
	cr_assert_eq(ckpt_writer_give_part(w, size, ret, &err), 0, "%s",
		     err.msg);
}

void put_by_parts(const char *path, const char *from, uint64_t size)
{
	struct buf parts[2] = { BUF_INIT, BUF_INIT };
	uint32_t stored[DATA_MAX / MIB];
	const struct ckpt_file_parts p = { .parts = parts,
					   .n = 2,
					   .size = size,
					   .unit = MIB,
					   .stored = stored,
					   .attr = { .mode = 0644 } };
	struct error err = ERROR_INIT;

	for (uint64_t at = 0; at < size; at += MIB)
		stored[at / MIB] =
			(uint32_t)(size - at < MIB ? size - at : MIB);
	for (uint64_t i = 0; i < 2; i++)
		put_part(path, from, size, i, &parts[i]);
	cr_assert_eq(ckpt_commit_parts(store, path, &p, &err), 0, "%s",
		     err.msg);
	for (uint64_t i = 0; i < 2; i++)
		buf_fini(&parts[i]);
}

void put_object(const char *name, const void *bytes, size_t len)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(object_put(store, name, bytes, len, NULL, NULL, &err), 0,
		     "%s", err.msg);
}

struct ckpt_file *open_file(const char *path)
{
	struct ckpt_file *f = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_open(store, path, &f, &err), 0, "%s", err.msg);
	return f;
}

void expect_file(const char *path, const char *want, uint64_t size)
{
	struct ckpt_file *f = open_file(path);
	struct error err = ERROR_INIT;
	char *got = malloc(size + 1);

	cr_assert_not_null(got);
	cr_assert_eq(ckpt_file_stat(f)->size, size, "'%s'", path);
	cr_expect_eq(ckpt_read(f, 0, got, size, 0, &err), 0, "%s", err.msg);
	cr_expect(memcmp(got, want, size) == 0, "'%s' has other bytes", path);
	ckpt_close(f);
	free(got);
}

void expect_no_file(const char *path)
{
	struct error err = ERROR_INIT;
	struct ckpt_file *f = NULL;
	struct ckpt_stat st;

	cr_expect_eq(ckpt_stat(store, path, &st, &err), -ENOENT, "%s", err.msg);
	cr_expect_eq(ckpt_open(store, path, &f, &err), -ENOENT);
}

bool is_object(const char *name)
{
	struct error err = ERROR_INIT;
	struct object_stat st;
	int rc = object_stat(store, name, &st, &err);

	cr_assert(rc == 0 || rc == -ENOENT, "%s", err.msg);
	return rc == 0;
}

static int count_one(void *arg, const struct object_entry *e, struct error *err)
{
	size_t *n = arg;
	uint8_t id[SEGMENT_ID];

	*n += column_parse(e->name, id);
	return 0;
}

size_t n_columns(void)
{
	struct error err = ERROR_INIT;
	size_t n = 0;

	cr_assert_eq(object_list(store, ".bootseer/data", true, count_one, &n,
				 &err),
		     0, "%s", err.msg);
	return n;
}

/* The path of an object's file in the store's directory. */
char *local(const char *name)
{
	char *path = fs_join(dir, name);

	cr_assert_not_null(path);
	return path;
}

struct manifest *manifest_of(const char *path)
{
	struct manifest_name name;
	struct error err = ERROR_INIT;
	struct manifest *m = NULL;

	cr_assert_eq(manifest_name(path, &name, &err), 0, "%s", err.msg);
	cr_assert_eq(manifest_load(store, name.s, &m, &err), 0, "%s", err.msg);
	return m;
}

/* Change a byte of a stored chunk; sets its column's name. */
void damage(const char *path, uint64_t chunk, uint32_t at,
	    char ret_column[COLUMN_NAME_MAX])
{
	struct manifest *m = manifest_of(path);
	struct chunk_place p = chunk_place(m, &m->segments[0], chunk);
	AUTO_FREE char *file = NULL;
	char byte;

	column_name(&m->segments[0], p.column, ret_column);
	file = local(ret_column);
	AUTO_CLOSE int fd = open(file, O_RDWR);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fs_pread_full(fd, &byte, 1, p.off + at), 0);
	byte ^= 1;
	cr_assert_eq(fs_pwrite_full(fd, &byte, 1, p.off + at), 0);
	manifest_free(m);
}

static void make_of(const char *name, time_t when)
{
	const struct timespec times[2] = { { .tv_sec = when },
					   { .tv_sec = when } };
	AUTO_FREE char *path = local(name);

	cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0, "%s", path);
}

void make_old(const char *name)
{
	make_of(name, LONG_AGO);
}

static int age_one(void *arg, const struct object_entry *e, struct error *err)
{
	make_of(e->name, *(const time_t *)arg);
	return 0;
}

static void make_columns_of(time_t when)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(object_list(store, ".bootseer/data", true, age_one, &when,
				 &err),
		     0, "%s", err.msg);
}

void make_columns_old(void)
{
	make_columns_of(LONG_AGO);
}

void make_columns_young(void)
{
	make_columns_of(time(NULL) + 3600);
}
