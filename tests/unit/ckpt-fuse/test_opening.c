// SPDX-License-Identifier: Apache-2.0
/* Tests which file an open gets if names change at the same time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/mount/ops.h"
#include "ckpt-fuse/mount/readers.h"
#include "ckpt-fuse/mount/writers.h"
#include "common/bytes.h"
#include "common/fs.h"

static char durable[] = "durable", compare[] = "store";
static const struct ckpt_mount_config cfg = { .memory = 64 * MIB,
					      .tail = 8 * MIB,
					      .readahead = 8 * MIB,
					      .close = durable,
					      .compare = compare };
static struct ckpt_mount *m;
static char dir[] = "/var/tmp/bootseer-opening.XXXXXX";

static void setup(void)
{
	const struct ckpt_kept kept = { .journal_fd = -1, .life_fd = -1 };
	struct error err = ERROR_INIT;
	char url[sizeof(dir) + 8];

	cr_assert_not_null(mkdtemp(dir));
	(void)snprintf(url, sizeof(url), "file://%s", dir);
	cr_assert_eq(ckpt_mount_open(&cfg, url, &kept, &m, &err), 0, "%s",
		     err.msg);
}

static void teardown(void)
{
	ckpt_mount_free(m);
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}

TestSuite(opening, .init = setup, .fini = teardown, .timeout = 60);

static void put(const char *text)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(object_put(m->store, "f", text, strlen(text), NULL, NULL,
				&err),
		     0, "%s", err.msg);
}

/* Make a node with one look-up of the kernel. */
static struct ckpt_node *look_up(void)
{
	struct ckpt_node *n = node_make(m->nodes.root, "f", false);

	cr_assert_not_null(n);
	return n;
}

static void expect_text(struct reading *r, const char *want)
{
	struct error err = ERROR_INIT;
	char got[16] = "";
	uint64_t size = ckpt_file_stat(reading_file(r))->size;

	cr_assert_lt(size, sizeof(got));
	cr_assert_eq(ckpt_read(reading_file(r), 0, got, size, 0, &err), 0, "%s",
		     err.msg);
	cr_expect_str_eq(got, want);
}

static void end(struct ckpt_node *n, struct handle *h)
{
	reading_unref(h->reading);
	readers_end(n, h);
	node_put(n);
}

/* After ESTALE the kernel looks a name up once more; a second ESTALE reaches the program. */
Test(opening, of_a_name_that_is_anothers_by_then_has_what_that_is)
{
	struct error err = ERROR_INIT;
	struct handle o = { .kind = HANDLE_READER };
	struct ckpt_node *n;

	put("first");
	n = look_up();
	put("other");
	node_detach(n);
	cr_assert_eq(readers_open(m, n, &o, &err), 0, "%s", err.msg);
	expect_text(o.reading, "other");
	cr_expect_eq(node_stat(n).size, 5);
	end(n, &o);
}

Test(opening, of_a_name_that_is_nobodys_any_more_has_the_kernel_look)
{
	struct error err = ERROR_INIT;
	struct handle o = { .kind = HANDLE_READER };
	struct ckpt_node *n;

	put("first");
	n = look_up();
	cr_assert_eq(object_delete(m->store, "f", NULL, &err), 0, "%s",
		     err.msg);
	node_detach(n);
	cr_expect_eq(readers_open(m, n, &o, &err), -ESTALE);
	node_put(n);
}

Test(opening, of_what_its_readers_have_has_that_whatever_has_the_name)
{
	struct error err = ERROR_INIT;
	struct handle before = { .kind = HANDLE_READER },
		      o = { .kind = HANDLE_READER };
	struct ckpt_node *n;

	put("first");
	n = look_up();
	cr_assert_eq(readers_open(m, n, &before, &err), 0, "%s", err.msg);
	put("other");
	node_detach(n);
	cr_assert_eq(readers_open(m, n, &o, &err), 0, "%s", err.msg);
	expect_text(o.reading, "first");
	node_use(n);
	end(n, &o);
	end(n, &before);
}

Test(opening, to_write_finds_no_other_readers_when_the_kernel_looks_again)
{
	struct error err = ERROR_INIT;
	struct ckpt_node *first, *n;
	struct handle o = { .kind = HANDLE_READER };

	put("first");
	first = look_up();
	node_detach(first);
	n = look_up();
	cr_assert_eq(readers_open(m, n, &o, &err), 0, "%s", err.msg);
	cr_expect_lt(writers_open(m, first, O_WRONLY | O_TRUNC, &err), 0);
	node_put(first);
	first = look_up();
	cr_expect_neq(first, n);
	cr_assert_eq(writers_open(m, first, O_WRONLY | O_TRUNC, &err), 0, "%s",
		     err.msg);
	expect_text(o.reading, "first");
	(void)pthread_mutex_lock(&first->lock);
	writers_end(first);
	(void)pthread_mutex_unlock(&first->lock);
	node_put(first);
	end(n, &o);
}
