// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "profiler/cri_lines.h"
#include "profiler/pod_log.h"

TestSuite(cri_lines, .timeout = 60);

#define T "2026-11-23T10:00:00.000000001Z "

static int note(void *arg, const char *line, size_t len, uint64_t offset)
{
	char *said = arg;

	(void)sprintf(said + strlen(said), "%.*s@%u;", (int)len, line,
		      (unsigned int)offset);
	return 0;
}

static void feed(struct cri_lines *c, const char *line, uint64_t at, char *said)
{
	cr_assert_eq(cri_lines_feed(c, line, strlen(line), at, note, said), 0);
}

Test(cri_lines, pieces_of_both_streams_are_put_together)
{
	struct cri_lines c = { .lines = 0 };
	char said[512] = "";

	feed(&c, T "stdout P one ", 0, said);
	feed(&c, T "stderr P two ", 100, said);
	cr_expect_eq(cri_lines_begin(&c, 200), 0);
	feed(&c, T "stdout F end", 200, said);
	cr_expect_str_eq(said, T "stdout P one end@0;");
	cr_expect_eq(cri_lines_begin(&c, 300), 100);
	cri_lines_fini(&c);
}

Test(cri_lines, what_is_no_line_of_a_runtime_is_skipped)
{
	struct cri_lines c = { .lines = 0 };
	char said[512] = "";

	feed(&c, "BOOTSEER stage=a ev=begin", 0, said);
	feed(&c, T "stdin F x", 0, said);
	feed(&c, T "stdout FX x", 0, said);
	cr_expect_str_eq(said, "");
	cr_expect_eq(c.foreign, 3);
	feed(&c, T "stdout F:tag x", 7, said);
	cr_expect_str_eq(said, T "stdout F:tag x@7;");
	cri_lines_fini(&c);
}

Test(cri_lines, an_endless_line_is_bounded)
{
	struct cri_lines c = { .lines = 0 };
	static char said[8 * CRI_LINE_MAX], line[16000];

	(void)memset(line, 'x', sizeof(line) - 1);
	(void)memcpy(line, T "stdout P ", strlen(T "stdout P "));
	for (unsigned int i = 0; i < 100; i++) {
		feed(&c, line, i * 16000u, said);
		cr_assert(c.pieces[0].line.len <= CRI_LINE_MAX);
		said[0] = '\0';
	}
	cr_expect_gt(c.lines, 20);
	cri_lines_fini(&c);
}

Test(pod_log, names_are_those_of_the_kubelet, .timeout = 60)
{
	struct pod_log_name n;
	struct pod_name p;

	cr_assert(pod_name_parse("team-a_train.0_0f-3c", &p));
	cr_expect_str_eq(p.namespace, "team-a");
	cr_expect_str_eq(p.pod, "train.0");
	cr_expect_str_eq(p.uid, "0f-3c");
	cr_expect(!pod_name_parse("team-a_train", &p));
	cr_expect(!pod_name_parse("team.a_train_1", &p));
	cr_expect(!pod_name_parse(".._train_1", &p));
	cr_expect(!pod_name_parse("a_b_c_d", &p));
	cr_expect(pod_log_name_parse("12.log", &n) && n.restart == 12);
	cr_expect(pod_log_name_parse("0.log.20261123-192439.gz", &n) &&
		  n.is_gz && strcmp(n.rotated, "20261123-192439") == 0);
	cr_expect(!pod_log_name_parse("0.log.20261123-192439.tmp", &n));
	cr_expect(!pod_log_name_parse("x.log", &n));
}

Test(pod_log, a_pod_has_jobs_of_its_namespace_alone, .timeout = 60)
{
	struct pod_name p = { .namespace = "ns", .pod = "pod", .uid = "u" };
	char job[STAGE_JOB_MAX + 1], longest[STAGE_JOB_MAX + 1];

	cr_expect(pod_job(&p, stage_text(NULL), job) == 0);
	cr_expect_str_eq(job, "ns/pod");
	cr_expect(pod_job(&p, stage_text("other/j"), job) == 0);
	cr_expect_str_eq(job, "ns/other/j");
	cr_expect(pod_job(&p, stage_text("ns/j"), job) == 0);
	cr_expect_str_eq(job, "ns/j");
	(void)memset(longest, 'j', STAGE_JOB_MAX);
	longest[STAGE_JOB_MAX] = '\0';
	cr_expect(pod_job(&p, stage_text(longest), job) == 0);
	cr_expect(stage_is_job(stage_text(job)) &&
		  strncmp(job, "ns/jj", 5) == 0);
}
