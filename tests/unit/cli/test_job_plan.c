// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "cli/job_run.h"
#include "job_text.h"

TestSuite(job_plan, .timeout = 120, .init = job_text_forget_launcher);

#define ENVIRONMENT \
	"[environment]\nstore = 's3://b/env'\ncommand = 'x'\n" \
	"targets = ['/opt/site']\n"
#define IMAGE "name = 'j'\n[image]\nreference = 'r.example/a:1'\n"
#define CHECKPOINT \
	"[checkpoint.a]\nstore = 'file:///c'\ndir = '/none/c'\n" \
	"prefetch = ['s{rank}/m', 'whole/']\n"

static struct job_file file;
static char self[] = "bootseer";

static int make_plan(const char *text, struct job_plan *ret)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(job_text_read(text, &file, &err), 0, "%s", err.msg);
	*ret = (struct job_plan){ .file = &file, .self = self };
	return job_plan_make(ret, &err);
}

static void end_plan(struct job_plan *p)
{
	job_plan_fini(p);
	job_file_fini(&file);
}

static void expect_step(const struct job_way *w, size_t i, const char *want)
{
	AUTO_BUF text = BUF_INIT;

	cr_assert_lt(i, w->n);
	cr_assert_eq(job_words_quote(w->steps[i].v, &text), 0);
	cr_expect_str_eq(text.data, want);
}

Test(job_plan, sets_up_the_environment_beside_checkpoints_without_an_image)
{
	struct job_plan p;

	cr_assert_eq(make_plan(ENVIRONMENT CHECKPOINT, &p), 0);
	cr_expect_eq(p.n, 2);
	cr_expect_null(p.image);
	cr_expect_eq(p.go[0], 0); /* checkpoints are read without waiting */
	cr_expect_str_eq(p.parts[0].stage, "env");
	cr_expect_not(p.parts[0].is_ahead);
	expect_step(&p.parts[0].way, 0,
		    "bootseer env run --store=s3://b/env --target /opt/site "
		    "-- /bin/sh -c x");
	cr_expect_eq(p.mounts[0], &p.parts[1]);
	end_plan(&p);
}

Test(job_plan, has_the_first_nodes_address_in_options_of_a_mount)
{
	struct error err = ERROR_INIT;
	struct job_plan p;

	(void)setenv("MASTER_ADDR", "node-0", 1);
	cr_assert_eq(make_plan(CHECKPOINT
			       "options = ['--group={master}:29600']\n",
			       &p),
		     0);
	expect_step(&p.parts[0].way, 0,
		    "bootseer ckpt mount --group=node-0:29600 file:///c "
		    "/none/c");
	end_plan(&p);
	(void)unsetenv("MASTER_ADDR");
	cr_expect_eq(job_text_read(CHECKPOINT
				   "options = ['--group={master}:1']\n",
				   &file, &err),
		     -EINVAL);
	cr_expect(strstr(err.msg,
			 "checkpoint.a.options: '--group={master}:1' is "
			 "of MASTER_ADDR, which is not set"),
		  "%s", err.msg);
}

Test(job_plan, puts_an_ipv6_address_before_a_port_in_brackets)
{
	static const char *const addresses[] = { "fd00::7", "[fd00::7]" };
	struct job_plan p;

	for (size_t i = 0; i < 2; i++) {
		(void)setenv("MASTER_ADDR", addresses[i], 1);
		cr_assert_eq(make_plan(CHECKPOINT
				       "options = ['--group={master}:29600']\n",
				       &p),
			     0);
		expect_step(&p.parts[0].way, 0,
			    "bootseer ckpt mount '--group=[fd00::7]:29600' "
			    "file:///c /none/c");
		end_plan(&p);
	}
	(void)unsetenv("MASTER_ADDR");
}

Test(job_plan, waits_for_no_environment_that_the_container_looks_for_itself)
{
	struct job_plan p;

	cr_assert_eq(make_plan(IMAGE ENVIRONMENT
			       "options = ['--ttl=1d', '--service=https://s', "
			       "'--token-file=/t']\n",
			       &p),
		     0);
	cr_expect_eq(p.n, 2);
	cr_expect_eq(p.image, &p.parts[0]);
	cr_expect_gt(p.go[0], 0);
	cr_expect(p.parts[1].is_ahead);
	cr_expect_eq(p.parts[1].otherwise.n, 0);
	expect_step(&p.parts[1].way, 0,
		    "bootseer env prefetch --quiet --service=https://s "
		    "--token-file=/t --name s3://b/env 'j r.example/a:1'");
	end_plan(&p);
}

Test(job_plan, copies_only_what_is_read_and_named)
{
	struct job_plan p;

	(void)setenv("BOOTSEER_RANK", "3", 1);
	cr_assert_eq(make_plan(CHECKPOINT "read-only = true\n"
					  "options = ['--ca-file=/a', "
					  "'--threads=2']\n",
			       &p),
		     0);
	expect_step(&p.parts[0].way, 0,
		    "bootseer ckpt mount --read-only --ca-file=/a --threads=2 "
		    "file:///c /none/c");
	cr_expect_eq(p.parts[0].way.n, 2);
	cr_assert_eq(p.parts[0].otherwise.n, 4);
	expect_step(&p.parts[0].otherwise, 0, "mkdir -p /none/c/s3");
	expect_step(&p.parts[0].otherwise, 1,
		    "bootseer ckpt cp --ca-file=/a file:///c :s3/m "
		    "/none/c/s3/m");
	expect_step(&p.parts[0].otherwise, 2, "mkdir -p /none/c/whole/");
	end_plan(&p);
	/* If the mount fails there is no alternative: files saved into a plain folder would be
	 * lost. */
	cr_assert_eq(make_plan(CHECKPOINT, &p), 0);
	cr_expect_eq(p.parts[0].otherwise.n, 0);
	end_plan(&p);
}

Test(job_plan, refuses_more_names_than_it_has_steps_for)
{
	AUTO_BUF text = BUF_INIT;
	struct job_plan p;

	cr_assert_eq(buf_puts(&text, "[checkpoint.a]\nstore = 'file:///c'\n"
				     "dir = '/none/c'\nread-only = true\n"
				     "prefetch = ["),
		     0);
	for (int i = 0; i < 33; i++)
		cr_assert_eq(buf_printf(&text, "'f%d',", i), 0);
	cr_assert_eq(buf_puts(&text, "]\n"), 0);
	cr_expect_eq(make_plan(text.data, &p), -E2BIG);
	end_plan(&p);
}

/* A reader's open files would prevent the unmount, so its end is waited for. */
Test(job_plan, waits_for_the_end_of_a_reader)
{
	const struct job_file none = { .name = NULL };
	struct job_say say = { .file = &none, .sender_fd = -1 };
	struct job_part part = { .stage = "ckpt.mount" };
	struct job_words *w = job_way_step(&part.way);
	struct error err = ERROR_INIT;
	struct pollfd p = { .events = POLLIN };
	int signal;

	job_words_add(w, "/bin/sh");
	job_words_add(w, "-c");
	job_words_add(w, "tail -f /dev/null >/dev/null 2>&1 & echo $!");
	cr_assert_eq(job_parts_run(&part, 1, &say, -1, true, &signal, &err), 0,
		     "%s", err.msg);
	cr_assert_gt(part.reader, 0);
	p.fd = dup(part.reader);
	cr_expect_eq(poll(&p, 1, 0), 0);
	job_part_end_group(&part);
	cr_expect_eq(poll(&p, 1, 0), 1);
	(void)close(p.fd);
	job_part_fini(&part);
}
