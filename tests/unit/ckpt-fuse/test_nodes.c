// SPDX-License-Identifier: Apache-2.0
/* Tests which node belongs to which file, in this process and the next. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt-fuse/mount/nodes.h"

static struct nodes t;
static int journal;

static void setup(void)
{
	struct error err = ERROR_INIT;

	journal = memfd_create("test", MFD_CLOEXEC);
	cr_assert_geq(journal, 0);
	cr_assert_eq(nodes_init(&t, journal, &err), 0, "%s", err.msg);
}

static void teardown(void)
{
	nodes_fini(&t);
	(void)close(journal);
}

TestSuite(nodes, .init = setup, .fini = teardown, .timeout = 60);

/* Make a node with one look-up of the kernel; returns its id. */
static uint64_t look_up(uint64_t parent, const char *name, bool is_folder)
{
	struct ckpt_node *p = node_get(&t, parent), *n;
	uint64_t id;

	cr_assert(p);
	n = node_make(p, name, is_folder);
	cr_assert(n);
	node_looked_up(n);
	id = n->id;
	node_put(n);
	node_put(p);
	return id;
}

static void expect_path(uint64_t id, const char *want)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_node *n = node_get(&t, id);

	cr_assert(n, "no node for %s", want);
	cr_assert_eq(node_path(n, &path), 0);
	cr_expect_str_eq(path.data, want);
	node_put(n);
}

static void expect_none(uint64_t id)
{
	cr_expect_null(node_get(&t, id));
}

static void restart(void)
{
	struct error err = ERROR_INIT;

	nodes_fini(&t);
	cr_assert_eq(nodes_init(&t, journal, &err), 0, "%s", err.msg);
}

/* 0: the folder did not change. */
static int64_t time_of(uint64_t id)
{
	struct ckpt_node *n = node_get(&t, id);
	int64_t ns;

	cr_assert(n);
	ns = atomic_load(&n->changed_ns);
	node_put(n);
	return ns;
}

static int64_t change(uint64_t id)
{
	struct ckpt_node *n = node_get(&t, id);

	cr_assert(n);
	node_note_change(n);
	node_put(n);
	return time_of(id);
}

Test(nodes, folders_have_their_times_in_a_successor)
{
	uint64_t d = look_up(NODE_ROOT, "d", true);
	uint64_t e = look_up(NODE_ROOT, "e", true);
	int64_t of_root, of_d;

	(void)change(d);
	of_root = change(NODE_ROOT);
	of_d = change(d);
	cr_expect_neq(of_root, 0);
	/* The second restart reads a rewritten journal. */
	for (unsigned int i = 0; i < 2; i++) {
		restart();
		cr_expect_eq(time_of(NODE_ROOT), of_root);
		cr_expect_eq(time_of(d), of_d);
		cr_expect_eq(time_of(e), 0);
	}
}

Test(nodes, have_paths_and_one_id_for_a_name)
{
	uint64_t d = look_up(NODE_ROOT, "d", true), f = look_up(d, "f", false);

	expect_path(NODE_ROOT, "");
	expect_path(d, "d");
	expect_path(f, "d/f");
	cr_expect_eq(look_up(d, "f", false), f);
	cr_expect_neq(look_up(NODE_ROOT, "f", false), f);
}

Test(nodes, go_when_the_kernel_forgets_them_and_what_is_in_them)
{
	uint64_t d = look_up(NODE_ROOT, "d", true), f = look_up(d, "f", false);

	node_forget(&t, d, 1);
	expect_path(f, "d/f");
	node_forget(&t, f, 1);
	expect_none(f);
	expect_none(d);
}

Test(nodes, are_others_when_a_file_becomes_a_folder)
{
	uint64_t f = look_up(NODE_ROOT, "x", false);
	struct ckpt_node *n = node_get(&t, f);
	AUTO_BUF path = BUF_INIT;

	cr_expect_neq(look_up(NODE_ROOT, "x", true), f);
	cr_expect_eq(node_path(n, &path), -ENOENT);
	node_put(n);
}

Test(nodes, are_renamed_with_what_is_in_them)
{
	uint64_t d = look_up(NODE_ROOT, "d", true), f = look_up(d, "f", false);
	uint64_t over = look_up(NODE_ROOT, "e", true);
	struct ckpt_node *n = node_get(&t, d), *o = node_get(&t, over);
	AUTO_BUF path = BUF_INIT;

	node_rename(n, t.root, "e");
	expect_path(f, "e/f");
	cr_expect_eq(node_path(o, &path), -ENOENT);
	node_put(o);
	node_put(n);
}

Test(nodes, are_known_to_a_successor)
{
	uint64_t d = look_up(NODE_ROOT, "d", true),
		 f = look_up(d, "f\n", false);
	uint64_t gone = look_up(d, "gone", false), g = look_up(d, "g", false);
	uint64_t moved = look_up(NODE_ROOT, "moved", false);
	struct ckpt_node *n = node_get(&t, g), *p = node_get(&t, d);

	node_forget(&t, gone, 1);
	node_detach(n);
	node_put(n);
	n = node_get(&t, moved);
	node_rename(n, p, "there");
	node_put(n);
	node_put(p);
	restart();
	expect_path(d, "d");
	expect_path(f, "d/f\n");
	expect_path(moved, "d/there");
	expect_none(gone);
	cr_expect_neq(look_up(d, "g", false), g);
	/* New ids were never used before. */
	cr_expect_gt(look_up(d, "new", false), moved);
	restart();
	expect_path(moved, "d/there");
}

#define READ_SIZE 77u

static void expect_kept(uint64_t id, uint64_t version)
{
	struct ckpt_node *n = node_get(&t, id);

	cr_assert(n);
	cr_expect_eq(n->read_version, version);
	cr_expect_eq(n->is_kept, version != 0);
	/* The kernel is given only the size of this version. */
	if (version > 1)
		cr_expect_eq(n->readers_size, READ_SIZE);
	/* The end of the previous process's readers is unknown, so their version stays noted. */
	node_set_read_version(n, 1, 1);
	cr_expect_eq(n->read_version, version ? version : 1);
	node_put(n);
}

static void read_by_some(uint64_t id, uint64_t version)
{
	struct ckpt_node *n = node_get(&t, id);

	cr_assert(n);
	node_set_read_version(n, version, READ_SIZE);
	node_put(n);
}

Test(nodes, are_known_to_a_successor_by_the_version_that_is_read)
{
	uint64_t read = look_up(NODE_ROOT, "read", false),
		 closed = look_up(NODE_ROOT, "closed", false);

	read_by_some(read, 5);
	read_by_some(read, UINT64_MAX);
	read_by_some(closed, 6);
	read_by_some(closed, 0);
	restart();
	expect_kept(read, UINT64_MAX);
	expect_kept(closed, 0);
	restart(); /* reads the rewritten journal */
	expect_kept(read, UINT64_MAX);
	expect_kept(closed, 1);
}

Test(nodes, are_not_known_by_half_a_name)
{
	static const char half[] = "f 0 0 0 0000000000000001/th";
	uint64_t there = look_up(NODE_ROOT, "there", false);
	char record[64];
	int n = snprintf(record, sizeof(record), "A%llx %s",
			 (unsigned long long)there, half);

	/* The process is killed within a write of a record, twice. */
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(pwrite(journal, record, (size_t)n,
				    (off_t)t.journal_len),
			     n);
		restart();
		expect_path(there, "there");
	}
	cr_expect_gt(look_up(NODE_ROOT, "new", false), there);
}

Test(nodes, are_written_down_in_bounded_memory)
{
	struct stat st;
	char name[64];
	uint64_t kept = look_up(NODE_ROOT, "kept", false);

	for (int i = 0; i < 200000; i++) {
		(void)snprintf(name, sizeof(name), "file-%d", i);
		node_forget(&t, look_up(NODE_ROOT, name, false), 1);
	}
	cr_assert_eq(fstat(journal, &st), 0);
	cr_expect_lt(st.st_blocks * 512, 4 << 20);
	restart();
	expect_path(kept, "kept");
	cr_expect_eq(HASH_CNT(by_id, t.by_id), 2);
}

/* Make the journal as long as after months. */
static void grow_old(void)
{
	t.journal_len = UINT64_C(3) << 30;
}

Test(nodes, are_known_to_a_successor_however_long_the_mount_was_there)
{
	uint64_t kept = look_up(NODE_ROOT, "kept", false);
	char name[64];

	grow_old();
	for (int i = 0; i < 40000; i++) {
		(void)snprintf(name, sizeof(name), "file-%d", i);
		node_forget(&t, look_up(NODE_ROOT, name, false), 1);
	}
	restart();
	expect_path(kept, "kept");
}

/* For a while there is no memory for the journal's records. */
Test(nodes, have_their_own_names_in_a_successor_where_memory_was_short)
{
	const uint64_t was_a = look_up(NODE_ROOT, "a", false);
	struct ckpt_node *n = node_get(&t, was_a);
	struct rlimit all, few;
	struct stat st;
	uint64_t is_a;

	(void)signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &all), 0);
	cr_assert_eq(fstat(journal, &st), 0);
	few = all;
	few.rlim_cur = (rlim_t)st.st_size + 10;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
	node_rename(n, t.root, "b");
	node_put(n);
	is_a = look_up(NODE_ROOT, "a", false);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &all), 0);
	(void)look_up(NODE_ROOT, "c", false);
	restart();
	expect_path(was_a, "b");
	expect_path(is_a, "a");
}

Test(nodes, never_get_an_id_that_the_kernel_has_of_one_that_is_not_known)
{
	uint64_t a = look_up(NODE_ROOT, "a", false), b;

	grow_old();
	b = look_up(NODE_ROOT, "b", false);
	restart(); /* the journal is too long to be read */
	expect_none(a);
	expect_none(b);
	cr_expect_gt(look_up(NODE_ROOT, "c", false), b);
}

/* The store's message may fill the whole room of an error. */
Test(nodes, say_all_of_why_they_were_lost)
{
	char why[ERROR_MSG_MAX];
	struct ckpt_node *n;
	struct error err = ERROR_INIT;
	AUTO_BUF text = BUF_INIT;
	uint64_t id = look_up(NODE_ROOT, "lost", false);

	memset(why, 'x', sizeof(why) - 2);
	/* The message is cut within a character. */
	why[sizeof(why) - 2] = '\xc3';
	why[sizeof(why) - 1] = '\0';
	memcpy(why, "line\n", 5);
	n = node_get(&t, id);
	cr_assert(n);
	cr_expect_eq(node_loss_text(n, &text), 0);
	node_lose(n, -EACCES, why);
	cr_expect_eq(node_loss_text(n, &text), 1);
	why[4] = '?';
	why[sizeof(why) - 2] = '\0';
	cr_assert_gt(text.len, strlen(why));
	cr_expect_str_eq(text.data + text.len - strlen(why), why);
	/* A message that is too long still has the advice. */
	cr_expect_eq(node_loss(n, &err), -EIO);
	cr_expect(strstr(err.msg, "remove or replace the file"));
	node_forget_loss(n);
	cr_expect_eq(node_loss(n, &err), 0);
	node_put(n);
}
