// SPDX-License-Identifier: Apache-2.0
/* Traces that wait for their store. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/traces/spool.h"

TestSuite(spool, .timeout = 120);

static char dir[32];

static struct spool *open_spool(void)
{
	struct error err = ERROR_INIT;
	struct spool *s = NULL;

	if (!dir[0]) {
		strcpy(dir, "/tmp/spool.XXXXXX");
		cr_assert(mkdtemp(dir));
	}
	cr_assert_eq(spool_open(dir, &s, &err), 0, "%s", err.msg);
	return s;
}

static void end(struct spool *s)
{
	spool_close(s);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

/* Make a trace; its workload "w<number>" identifies it. */
static struct trace *make_trace(unsigned int number, const char *repo)
{
	char workload[16];
	struct trace_info info = { .workload = workload, .runs = 1 };
	struct trace_entry e = { .path = "/f", .len = 1, .confidence = 1000 };
	struct trace_builder *b = NULL;
	struct error err = ERROR_INIT;
	struct trace *t = NULL;

	info.repo = (char *)(uintptr_t)repo;
	snprintf(workload, sizeof(workload), "w%u", number);
	cr_assert_eq(trace_builder_new(&info, &b, &err), 0, "%s", err.msg);
	cr_assert_eq(trace_builder_add(b, &e, &err), 0, "%s", err.msg);
	cr_assert_eq(trace_builder_finish(b, &t, &err), 0, "%s", err.msg);
	return t;
}

static void add_of(struct spool *s, unsigned int number, const char *note,
		   const char *repo)
{
	AUTO(trace) t = make_trace(number, repo);
	struct error err = ERROR_INIT;

	cr_assert_eq(spool_add(s, t, note, &err), 0, "%s", err.msg);
}

static void add(struct spool *s, unsigned int number, const char *note)
{
	add_of(s, number, note, "h/r");
}

/* A store that notes the traces it got, as "w1 plain;". */
struct sent {
	enum spool_target target;
	struct buf text;
	int rc;         /* the store's result */
	const char *at; /* `rc` is for this workload only; others get 0 */
	unsigned int tries;
};

static int take(void *arg, const struct trace *t, const char *note,
		struct error *err)
{
	struct sent *s = arg;

	s->tries++;
	if (s->rc && (!s->at || strcmp(t->info.workload, s->at) == 0))
		return error_set(err, -s->rc, "told to fail");
	return buf_printf(&s->text, "%s %s;", t->info.workload, note);
}

static void expect_sent(struct spool *s, struct sent *sent, int rc,
			const char *want)
{
	buf_reset(&sent->text);
	cr_assert_eq(buf_puts(&sent->text, ""), 0);
	cr_expect_eq(spool_drain(s, sent->target, take, sent, NULL), rc);
	cr_expect_str_eq(sent->text.data, want);
}

Test(spool, sends_in_order_and_once)
{
	struct spool *s = open_spool();
	struct sent sent = { .text = BUF_INIT };

	add(s, 1, "plain");
	add(s, 2, "tls");
	cr_expect_eq(spool_waiting(s), 2);
	expect_sent(s, &sent, 0, "w1 plain;w2 tls;");
	cr_expect_eq(spool_waiting(s), 0);
	expect_sent(s, &sent, 0, "");
	buf_fini(&sent.text);
	end(s);
}

Test(spool, keeps_what_was_not_sent_over_a_restart)
{
	struct spool *s = open_spool();
	struct sent sent = { .text = BUF_INIT, .rc = -EIO, .at = "w2" };

	for (unsigned int i = 1; i <= 3; i++)
		add(s, i, "tls");
	expect_sent(s, &sent, -EIO, "w1 tls;");
	spool_close(s);
	s = open_spool();
	cr_expect_eq(spool_waiting(s), 2);
	add(s, 4, "tls");
	sent.rc = 0;
	expect_sent(s, &sent, 0, "w2 tls;w3 tls;w4 tls;");
	buf_fini(&sent.text);
	end(s);
}

Test(spool, lets_no_refused_one_hold_up_the_others)
{
	struct spool *s = open_spool();
	struct sent sent = { .text = BUF_INIT, .rc = -EACCES, .at = "w1" };

	for (unsigned int i = 1; i <= 3; i++)
		add(s, i, "tls");
	expect_sent(s, &sent, -EACCES, "w2 tls;w3 tls;");
	cr_expect_eq(spool_waiting(s), 1);
	sent.rc = 0;
	expect_sent(s, &sent, 0, "w1 tls;");
	buf_fini(&sent.text);
	end(s);
}

Test(spool, a_registry_that_is_down_holds_up_its_own_alone)
{
	struct spool *s = open_spool();
	struct sent sent = { .target = SPOOL_TO_REGISTRY,
			     .text = BUF_INIT,
			     .rc = -ETIMEDOUT,
			     .at = "w1" };

	add_of(s, 1, "tls", "dead:5000/a");
	add_of(s, 2, "tls", "h/r");
	add_of(s, 3, "tls", "DEAD:443/b");
	add_of(s, 4, "tls", "h/r");
	expect_sent(s, &sent, -ETIMEDOUT, "w2 tls;w4 tls;");
	/* The host of the failing trace was tried once. */
	cr_expect_eq(sent.tries, 3);
	cr_expect_eq(spool_waiting(s), 2);
	/* -ECANCELED (bootseerd ends) stops all. */
	add(s, 5, "tls");
	sent.rc = -ECANCELED;
	expect_sent(s, &sent, -ECANCELED, "");
	sent.rc = 0;
	expect_sent(s, &sent, 0, "w1 tls;w3 tls;w5 tls;");
	buf_fini(&sent.text);
	end(s);
}

Test(spool, drops_what_nobody_takes_and_goes_on)
{
	struct spool *s = open_spool();
	struct sent sent = { .text = BUF_INIT, .rc = -EINVAL, .at = "w1" };
	char path[64];

	add(s, 1, "tls");
	add(s, 2, "tls");
	/* A damaged file, and a file that is not the spool's. */
	snprintf(path, sizeof(path), "%s/00000000000000ff.tls", dir);
	cr_assert_eq(fs_replace_file(path, "x", 1, 0600, NULL), 0);
	snprintf(path, sizeof(path), "%s/README", dir);
	cr_assert_eq(fs_replace_file(path, "x", 1, 0600, NULL), 0);
	expect_sent(s, &sent, 0, "w2 tls;");
	cr_expect_eq(spool_waiting(s), 0);
	cr_expect_eq(access(path, F_OK), 0);
	buf_fini(&sent.text);
	end(s);
}

Test(spool, is_bounded_and_forgets_the_oldest)
{
	struct spool *s = open_spool();
	struct sent sent = { .text = BUF_INIT };

	for (unsigned int i = 0; i < SPOOL_FILES_MAX + 2; i++)
		add(s, i, "tls");
	cr_expect_eq(spool_waiting(s), SPOOL_FILES_MAX);
	cr_assert_eq(spool_drain(s, sent.target, take, &sent, NULL), 0);
	cr_expect_eq(strncmp(sent.text.data, "w2 tls;", 7), 0);
	buf_fini(&sent.text);
	end(s);
}

static bool has_file(const char *name)
{
	AUTO_BUF path = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/%s", dir, name), 0);
	return access(path.data, F_OK) == 0;
}

static void make_file(const char *name)
{
	AUTO_BUF path = BUF_INIT;

	cr_assert_eq(buf_printf(&path, "%s/%s", dir, name), 0);
	cr_assert_eq(fs_replace_file(path.data, "x", 1, 0600, NULL), 0);
}

Test(spool, sweeps_what_a_crash_left_and_nothing_else)
{
	struct spool *s = open_spool();

	add(s, 1, "plain");
	spool_close(s);
	make_file("0000000000000001.plain.AbCd12");
	make_file("0000000000000002.tls.xxxxxx");
	make_file("0000000000000001.plain.kept");
	make_file("notes.xxxxxx");
	s = open_spool();
	cr_expect_not(has_file("0000000000000001.plain.AbCd12"));
	cr_expect_not(has_file("0000000000000002.tls.xxxxxx"));
	cr_expect(has_file("0000000000000001.plain.kept"));
	cr_expect(has_file("notes.xxxxxx"));
	cr_expect_eq(spool_waiting(s), 1);
	end(s);
}
