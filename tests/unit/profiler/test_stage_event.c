// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/stage_lines.h"

TestSuite(stage_event, .timeout = 120);

static enum stage_found next(const char *line, struct stage_scan *pos,
			     struct stage_event *e)
{
	return stage_line_next(line, strlen(line), pos, e);
}

/* The first event of a line. */
static struct stage_event parse(const char *line)
{
	struct stage_event e;
	struct stage_scan pos = { .pos = 0 };

	cr_assert_eq(next(line, &pos, &e), STAGE_FOUND_EVENT, "%s", line);
	return e;
}

static bool is_text(struct stage_text t, const char *s)
{
	return t.n == strlen(s) && memcmp(t.s, s, t.n) == 0;
}

static bool is_junk(const char *line)
{
	struct stage_event e;
	struct stage_scan pos = { .pos = 0 };

	return next(line, &pos, &e) == STAGE_FOUND_JUNK;
}

Test(stage_event, is_what_echo_writes)
{
	struct stage_event e = parse("BOOTSEER stage=env.install ev=begin");

	cr_expect(is_text(e.stage, "env.install"));
	cr_expect_eq(e.ev, STAGE_BEGIN);
	cr_expect_eq(e.ts_ns, STAGE_NONE);
	cr_expect_eq(e.job.n, 0);
}

Test(stage_event, has_all_its_fields)
{
	struct stage_event e = parse("12% BOOTSEER ev=end stage=m.load "
				     "ts=1795000000000000001 mono=77 "
				     "boot=00ff job=team/run-1 attempt=2 "
				     "node=n-1.a rank=7 status=3 new=x");

	cr_expect_eq(e.ev, STAGE_END);
	cr_expect(is_text(e.job, "team/run-1"));
	cr_expect(is_text(e.node, "n-1.a"));
	cr_expect_eq(e.ts_ns, INT64_C(1795000000000000001));
	cr_expect_eq(e.mono_ns, 77);
	cr_expect_eq(e.boot, 0xff);
	cr_expect_eq(e.attempt, 2);
	cr_expect_eq(e.rank, 7);
	cr_expect_eq(e.status, 3);
}

Test(stage_event, ends_where_other_text_begins)
{
	struct stage_event e =
		parse("BOOTSEER stage=a ev=mark loaded stage=b rank=1");

	cr_expect(is_text(e.stage, "a"));
	cr_expect_eq(e.rank, STAGE_NONE);
}

Test(stage_event, is_cut_off_by_another)
{
	const char *line = "BOOTSEER stage=a ev=begBOOTSEER stage=b ev=begin";
	struct stage_event e;
	struct stage_scan pos = { .pos = 0 };

	cr_expect_eq(next(line, &pos, &e), STAGE_FOUND_JUNK);
	cr_assert_eq(next(line, &pos, &e), STAGE_FOUND_EVENT);
	cr_expect(is_text(e.stage, "b"));
	cr_expect_eq(next(line, &pos, &e), STAGE_FOUND_NONE);
}

Test(stage_event, takes_the_time_of_a_containers_log)
{
	cr_expect_eq(parse("2026-11-23T16:05:40.5Z stdout F "
			   "BOOTSEER stage=a ev=begin")
			     .ts_ns,
		     INT64_C(1795449940500000000));
	cr_expect_eq(parse("2026-11-23T18:05:40.000000001+02:00 stderr F "
			   "BOOTSEER stage=a ev=begin")
			     .ts_ns,
		     INT64_C(1795449940000000001));
	cr_expect_eq(parse("2026-11-23T16:05:40.5Z stdout F "
			   "BOOTSEER stage=a ev=begin ts=5")
			     .ts_ns,
		     5);
	cr_expect_eq(parse("2026-11-23 16:05 BOOTSEER stage=a ev=begin").ts_ns,
		     STAGE_NONE);
}

/* A line of 64 KiB may hold thousands of events: if the values before the first were read for each,
 * it would take a hundred times as long. */
Test(stage_event, of_several_in_a_line_has_what_is_before_the_first)
{
	const char *line = "+ echo BOOTSEER stage=a ev=begin "
			   "2026-11-23T16:05:40Z BOOTSEER stage=b ev=begin";
	struct stage_scan at = { .pos = 0 };
	struct stage_event e;

	cr_assert_eq(next(line, &at, &e), STAGE_FOUND_EVENT);
	cr_expect(is_text(e.stage, "a") && e.is_trace);
	cr_expect_eq(e.ts_ns, STAGE_NONE);
	cr_assert_eq(next(line, &at, &e), STAGE_FOUND_EVENT);
	cr_expect(is_text(e.stage, "b") && e.is_trace);
	cr_expect_eq(e.ts_ns, STAGE_NONE);
	cr_expect_eq(next(line, &at, &e), STAGE_FOUND_NONE);
}

Test(stage_event, is_junk_when_it_is_damaged)
{
	cr_expect(is_junk("BOOTSEER "));
	cr_expect(is_junk("BOOTSEER stage=a"));
	cr_expect(is_junk("BOOTSEER ev=begin"));
	cr_expect(is_junk("BOOTSEER stage=a ev=begi"));
	cr_expect(is_junk("BOOTSEER stage=a/b ev=begin"));
	cr_expect(is_junk("BOOTSEER stage=a stage=b ev=begin"));
	cr_expect(is_junk("BOOTSEER stage=a ev=begin ts=12x"));
	cr_expect(is_junk("BOOTSEER stage=a ev=begin ts=99999999999999999999"));
	cr_expect(is_junk("BOOTSEER stage=a ev=begin rank=-1"));
	cr_expect(is_junk("BOOTSEER stage=a ev=begin node="));
}

/* Try each way to cut off a program's event, and each changed byte. */
Test(stage_event, of_a_program_is_whole_or_junk)
{
	struct stage_event e = STAGE_EVENT_INIT, again;
	AUTO_BUF line = BUF_INIT;
	struct stage_scan pos = { .pos = 0 };

	e.stage = stage_text("ckpt.open");
	e.job = stage_text("j");
	e.node = stage_text("n1");
	e.ts_ns = 1795449940000000000;
	e.mono_ns = 123456;
	e.id = 42;
	cr_assert_eq(stage_event_format(&e, &line), 0);
	cr_assert_eq(line.data[line.len - 1], '\n');
	cr_assert_eq(stage_line_next(line.data, line.len - 1, &pos, &again),
		     STAGE_FOUND_EVENT);
	cr_expect_eq(again.id, 42);
	for (size_t n = strlen("BOOTSEER stage=ckpt.open ev=begin ts=1795449940"
			       "000000000 mono=123456 job=j node=n1 id=4");
	     n < line.len - 1; n++) {
		pos.pos = 0;
		cr_expect_eq(stage_line_next(line.data, n, &pos, &again),
			     STAGE_FOUND_JUNK, "%zu", n);
	}
	strstr(line.data, "n1")[1] = '2';
	pos.pos = 0;
	cr_expect_eq(stage_line_next(line.data, line.len - 1, &pos, &again),
		     STAGE_FOUND_JUNK);
}

static int count(void *arg, const struct stage_event *e, uint64_t offset)
{
	*(uint64_t *)arg = *(uint64_t *)arg * 1000 + offset + 1;
	return 0;
}

Test(stage_lines, do_not_care_where_a_log_is_cut)
{
	static const char log[] = "noise\nBOOTSEER stage=a ev=begin\n"
				  "xBOOTSEER stage=b ev=end\nBOOTSEER junk\n"
				  "BOOTSEER stage=c ev=mark";
	uint64_t whole = 0;

	for (size_t step = sizeof(log) - 1; step > 0; step--) {
		struct stage_lines l;
		uint64_t sum = 0;

		cr_assert_eq(stage_lines_init(&l, NULL), 0);
		for (size_t i = 0; i < sizeof(log) - 1; i += step) {
			size_t n = sizeof(log) - 1 - i;

			cr_assert_eq(stage_lines_feed(&l, log + i,
						      n < step ? n : step,
						      count, &sum),
				     0);
		}
		cr_assert_eq(stage_lines_end(&l, count, &sum), 0);
		cr_expect_eq(l.events, 3);
		cr_expect_eq(l.junk, 1);
		if (!whole)
			whole = sum;
		cr_expect_eq(sum, whole);
		stage_lines_fini(&l);
	}
}

Test(stage_lines, go_on_after_a_line_without_an_end)
{
	AUTO_FREE char *junk = malloc(3 * STAGE_LINES_MAX);
	struct stage_lines l;
	uint64_t sum = 0;

	cr_assert(junk);
	memset(junk, 'x', 3 * STAGE_LINES_MAX);
	cr_assert_eq(stage_lines_init(&l, NULL), 0);
	cr_assert_eq(stage_lines_feed(&l, junk, 3 * STAGE_LINES_MAX, count,
				      &sum),
		     0);
	cr_assert_eq(stage_lines_feed(&l, "\nBOOTSEER stage=a ev=end\n", 25,
				      count, &sum),
		     0);
	cr_expect_eq(l.events, 1);
	stage_lines_fini(&l);
}

Test(stage_event, has_the_same_id_at_the_same_place_only)
{
	struct stage_event e = parse("BOOTSEER stage=a ev=begin ts=1");
	struct stage_event f = parse("BOOTSEER stage=a ev=begin ts=2");

	cr_expect_geq(stage_event_make_id(&e, 0), 0);
	cr_expect_eq(stage_event_make_id(&e, 7), stage_event_make_id(&e, 7));
	cr_expect_neq(stage_event_make_id(&e, 7), stage_event_make_id(&e, 8));
	cr_expect_neq(stage_event_make_id(&e, 7), stage_event_make_id(&f, 7));
}

Test(stage_event, says_what_its_stage_counted)
{
	struct stage_event e = parse("BOOTSEER stage=a ev=end misses=3 "
				     "other=4 disk_ms=20 image=h/a:1@b "
				     "label=team.x gpus=8 storage_ms=7");
	uint64_t again[STAGE_FACTS];
	AUTO_BUF text = BUF_INIT;

	cr_expect_eq(e.facts[STAGE_FACT_MISSES], 3);
	cr_expect_eq(e.facts[STAGE_FACT_DISK_MS], 20);
	cr_expect_eq(e.facts[STAGE_FACT_RETRIES], 0);
	cr_expect_eq(e.image.n, strlen("h/a:1@b"));
	cr_expect_eq(e.label.n, strlen("team.x"));
	cr_assert_eq(stage_facts_format(e.facts, &text), 0);
	cr_expect_str_eq(text.data, "gpus=8 misses=3 disk_ms=20 storage_ms=7");
	cr_expect(stage_facts_parse(text.data, again));
	cr_expect_arr_eq(again, e.facts, sizeof(again));
	cr_expect_not(stage_facts_parse("", again));
	cr_expect_not(stage_facts_parse("misses 3=misses x=1", again));
}

/* ------------------------------------------------------- forms of programs' logs --- */

/* Lines in the formats of programs and collectors. %s is the event; the time is 16:05:40 on
 * 2026-11-23, in UTC (the test's time zone). */
static const struct log_form {
	const char *name, *form;
	/* nanoseconds behind the second; STAGE_NONE: the line has no time */
	int64_t ns;
	const char *source; /* NULL: none */
	int64_t rank;
} forms[] = {
	{ "cri", "2026-11-23T16:05:40.123456789Z stdout F %s", 123456789, NULL,
	  STAGE_NONE },
	{ "kubectl logs --timestamps", "2026-11-23T16:05:40.5Z %s", 500000000,
	  NULL, STAGE_NONE },
	{ "kubectl logs --prefix",
	  "[pod/train-0/main] 2026-11-23T16:05:40.5Z %s", 500000000, "train-0",
	  STAGE_NONE },
	{ "journalctl -o short-iso",
	  "2026-11-23T16:05:40+0000 gpu7 train[123]: %s", 0, "gpu7",
	  STAGE_NONE },
	{ "journalctl -o short-iso-precise",
	  "2026-11-23T18:05:40.123456+0200 gpu7 train[123]: %s", 123456000,
	  "gpu7", STAGE_NONE },
	{ "journalctl -o json",
	  "{\"_HOSTNAME\":\"gpu7\",\"__REALTIME_TIMESTAMP\":"
	  "\"1795449940123456\",\"PRIORITY\":\"6\",\"MESSAGE\":\"%s\"}",
	  123456000, "gpu7", STAGE_NONE },
	{ "Docker's json-file",
	  "{\"log\":\"%s\\n\",\"stream\":\"stdout\",\"time\":"
	  "\"2026-11-23T16:05:40.123456789Z\"}",
	  123456789, NULL, STAGE_NONE },
	{ "json-file with colours",
	  "{\"log\":\"\\u001b[32m%s\\u001b[0m\\r\\n\",\"stream\":\"stdout\","
	  "\"time\":\"2026-11-23T16:05:40Z\"}",
	  0, NULL, STAGE_NONE },
	{ "a logger of JSON",
	  "{\"asctime\": \"2026-11-23 16:05:40,123\", \"level\": \"INFO\", "
	  "\"message\": \"%s\"}",
	  123000000, NULL, STAGE_NONE },
	{ "zap", "{\"level\":\"info\",\"ts\":1795449940.25,\"msg\":\"%s\"}",
	  250000000, NULL, STAGE_NONE },
	{ "Python's logging", "2026-11-23 16:05:40,123 INFO root: %s",
	  123000000, NULL, STAGE_NONE },
	{ "logfmt", "time=\"2026-11-23T16:05:40Z\" level=info msg=\"%s\"", 0,
	  NULL, STAGE_NONE },
	{ "torchrun --tee", "[default3]:%s", STAGE_NONE, NULL, 3 },
	{ "torchrun --tee of a second node", "[default3]:[rank11]:%s",
	  STAGE_NONE, NULL, 11 },
	{ "ranks", "[rank12]: %s", STAGE_NONE, NULL, 12 },
	{ "srun --label", " 3: %s", STAGE_NONE, NULL, 3 },
	{ "srun --label of a logger", "12: 2026-11-23 16:05:40,123 INFO: %s",
	  123000000, NULL, 12 },
	{ "mpirun --output tag", "[1,7]<stdout>:%s", STAGE_NONE, NULL, 7 },
	{ "torchrun --tee of a logger",
	  "[default3]:2026-11-23 16:05:40,123 INFO root: %s", 123000000, NULL,
	  3 },
	{ "glog", "I20261123 16:05:40.123456    42 train.cc:7] %s", 123456000,
	  NULL, STAGE_NONE },
	{ "c10d", "[rank5]:[W20261123 16:05:40.123456789 Utils.cpp:7] %s",
	  123456789, NULL, 5 },
	{ "Ray", "(train pid=4242, ip=10.0.0.7) %s", STAGE_NONE, "10.0.0.7",
	  STAGE_NONE },
	{ "Ray in colours",
	  "[36m(RayTrainWorker pid=4242, ip=10.0.0.7)[0m %s", STAGE_NONE,
	  "10.0.0.7", STAGE_NONE },
	{ "Ray of the driver's node", "(train pid=4242) %s", STAGE_NONE, NULL,
	  STAGE_NONE },
	{ "pdsh", "gpu7: %s", STAGE_NONE, "gpu7", STAGE_NONE },
	{ "pdsh of a logger", "gpu-7.rack2: 2026-11-23 16:05:40,123 INFO: %s",
	  123000000, "gpu-7.rack2", STAGE_NONE },
	{ "Docker's compose", "train-1  | %s", STAGE_NONE, "train-1",
	  STAGE_NONE },
	{ "Docker's compose with times",
	  "train-1     | 2026-11-23T16:05:40.123456789Z %s", 123456789,
	  "train-1", STAGE_NONE },
	{ "a level is no host", "INFO1: %s", STAGE_NONE, NULL, STAGE_NONE },
	{ "a level is no container", "info | %s", STAGE_NONE, NULL,
	  STAGE_NONE },
	{ "a rank is no host", "rank3: %s", STAGE_NONE, NULL, STAGE_NONE },
	{ "times that are no labels", "[12:30:11] 7:%s", STAGE_NONE, NULL,
	  STAGE_NONE },
	{ "colours", "\033[1;32m%s\033[0m", STAGE_NONE, NULL, STAGE_NONE },
	{ "a line of Windows", "%s\r", STAGE_NONE, NULL, STAGE_NONE },
	{ "set -x", "+ echo '%s'", STAGE_NONE, NULL, STAGE_NONE },
	{ "quotes", "said \"%s\" to all", STAGE_NONE, NULL, STAGE_NONE },
	{ "a comma", "%s, done", STAGE_NONE, NULL, STAGE_NONE },
	{ "a period", "%s.", STAGE_NONE, NULL, STAGE_NONE },
	{ "a period and more", "%s. Next", STAGE_NONE, NULL, STAGE_NONE },
	{ "brackets", "(%s)", STAGE_NONE, NULL, STAGE_NONE },
};

static void expect_form(const struct log_form *f, const char *event,
			bool has_ts)
{
	AUTO_BUF line = BUF_INIT, room = BUF_INIT;
	const char *at = strstr(f->form, "%s"), *plain;
	struct stage_event e;
	struct stage_scan pos = { .pos = 0 };
	size_t len;

	cr_assert_eq(buf_append(&line, f->form, (size_t)(at - f->form)), 0);
	cr_assert_eq(buf_puts(&line, event), 0);
	cr_assert_eq(buf_puts(&line, at + 2), 0);
	len = line.len;
	plain = stage_line_plain(line.data, &len, &room);
	cr_assert_not_null(plain);
	cr_assert_eq(stage_line_next(plain, len, &pos, &e), STAGE_FOUND_EVENT,
		     "%s: %s", f->name, line.data);
	cr_expect(e.stage.n == 11 && memcmp(e.stage.s, "env.install", 11) == 0,
		  "%s", f->name);
	cr_expect_eq(e.ev, STAGE_END, "%s", f->name);
	if (!has_ts)
		cr_expect_eq(e.ts_ns,
			     f->ns == STAGE_NONE
				     ? STAGE_NONE
				     : INT64_C(1795449940000000000) + f->ns,
			     "%s: %lld", f->name, (long long)e.ts_ns);
	cr_expect_eq(e.rank, f->rank, "%s", f->name);
	cr_expect(f->source ? e.source.n == strlen(f->source) &&
				      memcmp(e.source.s, f->source,
					     e.source.n) == 0
			    : !e.source.n,
		  "%s", f->name);
	cr_expect_eq(e.is_trace, strcmp(f->name, "set -x") == 0, "%s", f->name);
}

Test(stage_event, is_found_in_each_form_of_log)
{
	struct stage_event e = STAGE_EVENT_INIT;
	AUTO_BUF whole = BUF_INIT;

	(void)setenv("TZ", "UTC", 1);
	tzset();
	e.stage = stage_text("env.install");
	e.ev = STAGE_END;
	e.ts_ns = 5;
	e.id = 7;
	cr_assert_eq(stage_event_format(&e, &whole), 0);
	whole.data[--whole.len] = '\0'; /* the newline */
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		expect_form(&forms[i], "BOOTSEER stage=env.install ev=end",
			    false);
		expect_form(&forms[i], "BOOTSEER ev=end stage=env.install",
			    false);
		expect_form(&forms[i], whole.data, true);
	}
}

Test(stage_event, has_the_year_that_journald_leaves_out)
{
	time_t then = time(NULL) - 3600;
	char line[128];
	struct stage_event e;
	struct tm tm;
	struct stage_scan pos = { .pos = 0 };

	cr_assert_not_null(localtime_r(&then, &tm));
	(void)strftime(line, sizeof(line),
		       "%b %d %H:%M:%S gpu7 train[1]: BOOTSEER stage=a ev=end",
		       &tm);
	if (line[4] == '0')
		line[4] = ' ';
	cr_assert_eq(stage_line_next(line, strlen(line), &pos, &e),
		     STAGE_FOUND_EVENT);
	cr_expect_eq(e.ts_ns, (int64_t)then * 1000000000);
	cr_expect(e.source.n == 4 && memcmp(e.source.s, "gpu7", 4) == 0);
	/* A future month belongs to the year before. */
	then = time(NULL) + 40 * 86400;
	cr_assert_not_null(localtime_r(&then, &tm));
	(void)strftime(line, sizeof(line), "%b %d %H:%M:%S ", &tm);
	cr_expect_lt(stage_logged_at(line, strlen(line)),
		     (int64_t)time(NULL) * 1000000000);
}

/* c10d writes no zero before the month. */
Test(stage_event, has_the_year_that_glog_leaves_out)
{
	for (int back = 0; back < 12; back++) {
		const time_t then = time(NULL) - (time_t)back * 30 * 86400;
		char line[128];
		struct stage_scan pos = { .pos = 0 };
		struct stage_event e;
		struct tm tm;

		cr_assert_not_null(localtime_r(&then, &tm));
		(void)snprintf(line, sizeof(line),
			       "[rank3]:[W%s%d%02d %02d:%02d:%02d.5 "
			       "Utils.cpp:7] BOOTSEER stage=a ev=end",
			       back % 2 && tm.tm_mon < 9 ? "0" : "",
			       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
			       tm.tm_sec);
		cr_assert_eq(stage_line_next(line, strlen(line), &pos, &e),
			     STAGE_FOUND_EVENT);
		cr_expect_eq(e.ts_ns, (int64_t)then * 1000000000 + 500000000,
			     "%s", line);
		cr_expect_eq(e.rank, 3);
	}
}

Test(stage_event, is_found_where_a_logger_colours_each_word)
{
	const char line[] = "\033[2mINFO\033[0m \033[1mBOOTSEER\033[0m "
			    "\033[33mstage\033[0m=env.\033[1;36m1\033[0m "
			    "\033[33mev\033[0m=\033[35mbegin\033[0m";
	struct stage_scan pos = { .pos = 0 };
	size_t len = sizeof(line) - 1;
	AUTO_BUF room = BUF_INIT;
	const char *plain = stage_line_plain(line, &len, &room);
	struct stage_event e;

	cr_assert_eq(stage_line_next(plain, len, &pos, &e), STAGE_FOUND_EVENT);
	cr_expect(e.stage.n == 5 && memcmp(e.stage.s, "env.1", 5) == 0);
}

static bool is_found_plain(const char *line, struct stage_event *ret,
			   struct buf *room)
{
	size_t len = strlen(line);
	const char *plain = stage_line_plain(line, &len, room);
	struct stage_scan at = { .pos = 0 };

	cr_assert_not_null(plain);
	return stage_line_next(plain, len, &at, ret) == STAGE_FOUND_EVENT;
}

/* The line of `printf '\33[32mBOOTSEER stage=a ev=end\33[0m "\n' | systemd-cat`. */
Test(stage_event, is_found_where_journald_lists_the_bytes_of_a_message)
{
	static const char bytes[] =
		"27,91,51,50,109,66,79,79,84,83,69,69,82,32,115,116,97,103,101,"
		"61,97,32,101,118,61,101,110,100,27,91,48,109,32,34";
	AUTO_BUF line = BUF_INIT, room = BUF_INIT;
	struct stage_event e;

	cr_assert_eq(buf_printf(&line,
				"{\"_HOSTNAME\":\"gpu7\",\"MESSAGE\":[%s],"
				"\"__REALTIME_TIMESTAMP\":"
				"\"1795449940123456\"}",
				bytes),
		     0);
	cr_assert(is_found_plain(line.data, &e, &room));
	cr_expect(is_text(e.stage, "a") && e.ev == STAGE_END);
	cr_expect(is_text(e.source, "gpu7"));
	cr_expect_eq(e.ts_ns, INT64_C(1795449940123456000));
	/* A list that is cut off, or holds no bytes, is ignored. */
	for (size_t n = line.len - 1; n > 0; n--) {
		line.data[n] = '\0';
		(void)is_found_plain(line.data, &e, &room);
	}
	cr_expect_not(is_found_plain("{\"MESSAGE\":[66,79,256]}", &e, &room));
	cr_expect_not(is_found_plain("{\"MESSAGE\":[[66]]}", &e, &room));
	cr_expect_not(is_found_plain("{\"MESSAGE\":[]}", &e, &room));
	cr_expect_not(is_found_plain("{\"MESSAGE\":[66,,79]}", &e, &room));
}

struct counted {
	unsigned int begins, ends;
};

static int count_kinds(void *arg, const struct stage_event *e, uint64_t offset)
{
	struct counted *c = arg;

	(void)offset;
	c->begins += e->ev == STAGE_BEGIN;
	c->ends += e->ev == STAGE_END;
	return 0;
}

Test(stage_event, counts_once_what_a_shell_traces_and_says)
{
	static const char log[] = "+ echo 'BOOTSEER stage=a ev=begin'\n"
				  "BOOTSEER stage=a ev=begin\n"
				  "BOOTSEER stage=a ev=end\n"
				  "++ echo BOOTSEER stage=a ev=end\n"
				  "+ echo 'BOOTSEER stage=a ev=begin'\n"
				  "BOOTSEER stage=a ev=begin\n"
				  "BOOTSEER stage=a ev=begin\n";
	struct counted c = { 0, 0 };
	struct stage_lines l;

	cr_assert_eq(stage_lines_init(&l, NULL), 0);
	cr_assert_eq(stage_lines_feed(&l, log, sizeof(log) - 1, count_kinds,
				      &c),
		     0);
	cr_expect_eq(c.begins, 3);
	cr_expect_eq(c.ends, 1);
	stage_lines_fini(&l);
}

Test(stage_event, is_junk_with_a_fact_twice_or_that_is_no_number)
{
	const char *const lines[] = {
		"BOOTSEER stage=a ev=end misses=3 misses=3",
		"BOOTSEER stage=a ev=end misses=x",
		"BOOTSEER stage=a ev=end misses=9223372036854775807",
		"BOOTSEER stage=a ev=end image=a,b",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct stage_event e;
		struct stage_scan pos = { .pos = 0 };

		cr_expect_eq(stage_line_next(lines[i], strlen(lines[i]), &pos,
					     &e),
			     STAGE_FOUND_JUNK);
	}
}
