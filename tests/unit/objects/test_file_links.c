// SPDX-License-Identifier: Apache-2.0
/*
 * A directory is a store of whoever may use it, root too, and others may write into it:
 * what they put there leads nobody out of it, and keeps nobody waiting.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "objects/store.h"

static char dir[] = "/var/tmp/bootseer-links.XXXXXX";
static struct object_store *store;
static char path[128];

/* A path below the test's folder, until the next one. */
static const char *at(const char *name)
{
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void write_text(const char *name, const char *text)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

static void setup(void)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct error err = ERROR_INIT;
	char url[128];

	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(mkdir(at("store"), 0700), 0);
	cr_assert_eq(mkdir(at("outside"), 0700), 0);
	write_text("outside/secret", "secret");
	(void)snprintf(url, sizeof(url), "file://%s/store", dir);
	cr_assert_eq(object_store_open(url, &cfg, &store, &err), 0, "%s",
		     err.msg);
}

static void teardown(void)
{
	object_store_free(store);
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}

TestSuite(file_links, .init = setup, .fini = teardown, .timeout = 60);

static void lead(const char *name, const char *target)
{
	cr_assert_eq(symlink(target, at(name)), 0);
}

static void expect_outside(const char *name, bool is_there)
{
	cr_expect_eq(access(at(name), F_OK) == 0, is_there, "%s", name);
}

static int put(const char *name)
{
	struct object_stat st;

	return object_put(store, name, "new", 3, NULL, &st, NULL);
}

static void expect_none(const char *name)
{
	struct object_stat st;
	struct object *o;
	int rc = object_open(store, name, &o, NULL);

	cr_expect_eq(object_stat(store, name, &st, NULL), -ENOENT, "%s", name);
	cr_expect_eq(rc, -ENOENT, "%s", name);
	if (rc == 0)
		object_close(o);
}

Test(file_links, lead_no_reader_out_of_the_store)
{
	lead("store/x", "../outside/secret");
	lead("store/d", "../outside");
	expect_none("x");
	expect_none("d/secret");
}

Test(file_links, lead_no_writer_out_of_the_store)
{
	lead("store/d", "../outside");
	cr_expect_lt(put("d/new"), 0);
	cr_expect_lt(put("d/below/new"), 0);
	expect_outside("outside/new", false);
	expect_outside("outside/below", false);
	cr_expect_eq(put("mine"), 0);
	cr_expect_lt(object_rename(store, "mine", "d/new", OBJECT_ANY, NULL),
		     0);
	expect_outside("outside/new", false);
}

Test(file_links, are_replaced_and_not_written_through)
{
	struct stat st;

	lead("store/x", "../outside/secret");
	cr_expect_eq(put("x"), 0);
	cr_expect_eq(stat(at("outside/secret"), &st), 0);
	cr_expect_eq(st.st_size, 6);
}

Test(file_links, have_nothing_removed_elsewhere)
{
	struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	size_t n = 0;

	lead("store/d", "../outside");
	(void)!object_delete(store, "d/secret", NULL, NULL);
	expect_outside("outside/secret", true);
	/* What a put of long ago left, it seems. */
	cr_assert_eq(utimensat(AT_FDCWD, at("outside/secret"), old, 0), 0);
	cr_assert(mkdir(at("store/.bootseer"), 0700) == 0 || errno == EEXIST);
	lead("store/.bootseer/tmp", "../../outside");
	cr_expect_eq(object_store_sweep(store, 0, &n, NULL), 0);
	cr_expect_eq(n, 0);
	expect_outside("outside/secret", true);
	cr_expect_lt(put("mine"), 0);
}

Test(file_links, and_fifos_keep_nobody_waiting)
{
	cr_assert_eq(mkfifo(at("store/fifo"), 0600), 0);
	expect_none("fifo");
}
