// SPDX-License-Identifier: Apache-2.0
/* A store in a directory of its own for each test, and helpers for files in it. */
#ifndef BOOTSEER_TESTS_UNIT_CKPT_FUSE_CKPT_FIXTURE_H
#define BOOTSEER_TESTS_UNIT_CKPT_FUSE_CKPT_FIXTURE_H

#include "ckpt-fuse/names.h"
#include "common/bytes.h"

#define UNIT (4 * MIB)
#define DATA_MAX (26 * MIB)
/* Memory of the store; small, because io_uring registers all of it in each process. */
#define CKPT_TEST_MEMORY (32 * MIB)
#define LONG_AGO 1600000000 /* seconds */

extern struct object_store *store;
extern char *data; /* noise, DATA_MAX bytes and some */

void ckpt_setup(void);
void ckpt_teardown(void);

struct ckpt_writer *begin(const char *path, uint64_t size, uint32_t columns);
void write_units(struct ckpt_writer *w, const char *from, uint64_t size);
/* Write the first `size` bytes of `from`. */
struct ckpt_stat put(const char *path, const char *from, uint64_t size,
		     uint32_t columns);
/* Write the same file as two parts, in units of a MiB. */
void put_by_parts(const char *path, const char *from, uint64_t size);
void put_object(const char *name, const void *bytes, size_t len);
struct ckpt_file *open_file(const char *path);
void expect_file(const char *path, const char *want, uint64_t size);
void expect_no_file(const char *path);
bool is_object(const char *name);
size_t n_columns(void);
/* The path of an object's file in the store's directory. */
char *local(const char *name);
struct manifest *manifest_of(const char *path);
/* Change a byte of a stored chunk; sets its column's name. */
void damage(const char *path, uint64_t chunk, uint32_t at,
	    char ret_column[COLUMN_NAME_MAX]);
void make_old(const char *name);
void make_columns_old(void);
void make_columns_young(void); /* date them into the next hour */

#endif
