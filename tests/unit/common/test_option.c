// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/option.h"

TestSuite(option, .timeout = 120);

struct config {
	char *config, *name, *kind, *secret;
	char *link, *rights;
	char **hosts;
	uint64_t quota, jobs;
	int64_t timeout;
	bool force;
};

#define AT(m) .offset = offsetof(struct config, m)
static const char *const kinds[] = { "auto", "loop", NULL };
static const char *const rights[] = { "all", NULL };

static const struct option_spec options[] = {
	{ .key = "config",
	  .letter = 'c',
	  .type = OPTION_STRING,
	  AT(config),
	  .help = "File.",
	  .no_file = true },
	{ .key = "name", .type = OPTION_STRING, AT(name), .help = "Name." },
	{ .key = "secret", .type = OPTION_FILE, AT(secret), .help = "Secret." },
	{ .key = "kind",
	  .type = OPTION_ENUM,
	  AT(kind),
	  .values = kinds,
	  .def = "auto",
	  .help = "Kind." },
	{ .key = "link",
	  .type = OPTION_STRING,
	  AT(link),
	  .def = "no",
	  .arg = "DEVICE",
	  .bare = "yes",
	  .help = "Link." },
	{ .key = "rights",
	  .type = OPTION_FILE,
	  AT(rights),
	  .values = rights,
	  .absent = "name a file",
	  .help = "Rights." },
	{ .key = "host", .type = OPTION_LIST, AT(hosts), .help = "Hosts." },
	{ .key = "quota",
	  .type = OPTION_SIZE,
	  AT(quota),
	  .def = "1G",
	  .min = "1M",
	  .max = "1T",
	  .help = "Quota." },
	{ .key = "jobs",
	  .letter = 'j',
	  .type = OPTION_INTEGER,
	  AT(jobs),
	  .def = "1",
	  .min = "1",
	  .max = "64",
	  .help = "Jobs." },
	{ .key = "timeout",
	  .type = OPTION_DURATION,
	  AT(timeout),
	  .def = "5s",
	  .help = "Time." },
	{ .key = "force",
	  .letter = 'f',
	  .type = OPTION_BOOL,
	  AT(force),
	  .help = "Force." },
	{ 0 },
};

static const struct option_program prog = {
	.name = "prog",
	.usage = "[OPTIONS] SRC DST",
	.summary = "Does it.",
	.options = options,
	.min_args = 0,
	.max_args = 2,
};

static int parse(struct config *cfg, struct error *err, int *args,
		 const char *const *words)
{
	enum option_action action;
	char *argv[16];
	int argc = 0, rc;

	argv[argc++] = strdup("prog");
	for (; *words; words++)
		argv[argc++] = strdup(*words);
	argv[argc] = NULL;
	rc = option_parse(&prog, cfg, argc, argv, &action, args, err);
	while (argc)
		free(argv[--argc]);
	return rc;
}

#define PARSE(cfg, err, args, ...) \
	parse(cfg, err, args, (const char *const[]){ __VA_ARGS__, NULL })

Test(option, defaults_hold_until_the_command_line_says_otherwise)
{
	struct config cfg = { 0 };
	struct error err = ERROR_INIT;
	int args;

	cr_assert_eq(PARSE(&cfg, &err, &args, "-j4", "a", "--quota", "2G",
			   "--force", "b"),
		     0, "%s", err.msg);
	cr_expect_eq(cfg.jobs, 4);
	cr_expect_eq(cfg.quota, UINT64_C(2) << 30);
	cr_expect_eq(cfg.timeout, INT64_C(5000000000));
	cr_expect(cfg.force);
	cr_expect_str_eq(cfg.kind, "auto");
	cr_expect_eq(args, 5, "operands stand behind the options");
	option_fini(options, &cfg);
}

Test(option, reads_times_in_all_units)
{
	static const struct {
		const char *text;
		int64_t ns;
	} rows[] = {
		{ "7ns", 7 },
		{ "7us", 7000 },
		{ "250ms", 250000000 },
		{ "5s", INT64_C(5000000000) },
		{ "2m", INT64_C(120000000000) },
		{ "3h", INT64_C(10800000000000) },
		{ "90d", INT64_C(7776000000000000) },
		{ "0s", 0 },
		{ "0", 0 }, /* zero needs no unit */
	};
	int64_t ns;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cr_assert_eq(option_parse_duration(rows[i].text, &ns, NULL), 0,
			     "%s", rows[i].text);
		cr_expect_eq(ns, rows[i].ns, "%s", rows[i].text);
	}
	cr_expect_eq(option_parse_duration("200000d", &ns, NULL), -ERANGE);
	cr_expect_eq(option_parse_duration("1w", &ns, NULL), -EINVAL);
	cr_expect_eq(option_parse_duration("1", &ns, NULL), -EINVAL);
	cr_expect_eq(option_parse_duration("01", &ns, NULL), -EINVAL);
	cr_expect_eq(option_parse_duration("", &ns, NULL), -EINVAL);
}

Test(option, refuses_what_it_does_not_know_and_names_it)
{
	static const struct {
		const char *word, *says;
	} bad[] = {
		{ "--nope", "--nope" },
		{ "--quota=5X", "5X" },
		{ "--quota=1K", "least" },
		{ "--quota=2T", "most" },
		{ "--jobs=0", "least" },
		{ "--jobs=x", "whole number" },
		{ "--timeout=5", "as in" },
		{ "--kind=x", "auto, loop" },
		{ "--force=maybe", "yes" },
		{ "--secret=/no/such", "'--secret': '/no/such': No such" },
		{ "--name", "wants a value" },
		{ "-z", "-z" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct config cfg = { 0 };
		struct error err = ERROR_INIT;
		int args;

		cr_expect_lt(PARSE(&cfg, &err, &args, bad[i].word), 0);
		cr_expect(strstr(err.msg, bad[i].says), "'%s' lacks '%s'",
			  err.msg, bad[i].says);
		option_fini(options, &cfg);
	}
}

static char *config_file(const char *text)
{
	char *path = strdup("/tmp/bootseer-option.XXXXXX");
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fs_write_full(fd, text, strlen(text)), 0);
	close(fd);
	return path;
}

Test(option, the_command_line_wins_over_the_file_wherever_it_stands)
{
	AUTO_FREE char *path =
		config_file("quota = \"3G\"; jobs = 2;\n"
			    "# a comment\nhost = [\"a\", \"b\"]\n"
			    "timeout = \"250ms\"; force = true;\n");
	struct config cfg = { 0 };
	struct error err = ERROR_INIT;
	int args;

	cr_assert_eq(PARSE(&cfg, &err, &args, "--jobs=9", "--host", "z", "-c",
			   path),
		     0, "%s", err.msg);
	cr_expect_eq(cfg.quota, UINT64_C(3) << 30);
	cr_expect_eq(cfg.jobs, 9);
	cr_expect_eq(cfg.timeout, INT64_C(250000000));
	cr_expect(cfg.force);
	cr_assert_str_eq(cfg.hosts[0], "z");
	cr_expect_null(cfg.hosts[1]);
	option_fini(options, &cfg);
	unlink(path);
}

Test(option, the_file_is_refused_for_unknown_keys_and_wrong_syntax)
{
	static const char *const bad[] = {
		"nope = 1;",           "quota = 10G;",   "jobs = [1, 2];",
		"@include \"x\"",      "jobs = {a = 1}", "config = \"x\";",
		"jobs = 1; jobs = 2;", "jobs = \"",      "jobs 99",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_FREE char *path = config_file(bad[i]);
		struct config cfg = { 0 };
		struct error err = ERROR_INIT;
		int args;

		cr_expect_lt(PARSE(&cfg, &err, &args, "--config", path), 0,
			     "%s", bad[i]);
		option_fini(options, &cfg);
		unlink(path);
	}
}

Test(option, a_value_that_may_be_left_out_is_no_word_after_it)
{
	AUTO_FREE char *file = config_file("link = true;");
	struct config cfg = { 0 };
	struct error err = ERROR_INIT;
	int args;

	cr_assert_eq(PARSE(&cfg, &err, &args, "--link", "a"), 0, "%s", err.msg);
	cr_expect_str_eq(cfg.link, "yes");
	cr_expect_eq(args, 2, "the word is an operand");
	option_fini(options, &cfg);
	cfg = (struct config){ 0 };
	cr_assert_eq(PARSE(&cfg, &err, &args, "--config", file), 0, "%s",
		     err.msg);
	cr_expect_str_eq(cfg.link, "yes");
	option_fini(options, &cfg);
	cfg = (struct config){ 0 };
	cr_assert_eq(PARSE(&cfg, &err, &args, "--config", file, "--link=x"), 0,
		     "%s", err.msg);
	cr_expect_str_eq(cfg.link, "x");
	option_fini(options, &cfg);
	unlink(file);
}

Test(option, a_word_may_stand_for_a_file)
{
	struct config cfg = { 0 };
	struct error err = ERROR_INIT;
	int args;

	cr_assert_eq(PARSE(&cfg, &err, &args, "--rights", "all"), 0, "%s",
		     err.msg);
	cr_expect_str_eq(cfg.rights, "all");
	option_fini(options, &cfg);
	cfg = (struct config){ 0 };
	cr_expect_lt(PARSE(&cfg, &err, &args, "--rights", "/no/file"), 0);
	cr_expect(strstr(err.msg, "'/no/file' is not there: name a file"), "%s",
		  err.msg);
	option_fini(options, &cfg);
}

Test(option, a_dump_is_a_file_that_gives_the_same_configuration)
{
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *path = NULL;
	struct config cfg = { 0 }, again = { 0 };
	struct error err = ERROR_INIT;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int args;

	cr_assert_eq(PARSE(&cfg, &err, &args, "--name", "a\"b\\c", "--host",
			   "x", "--host", "y", "--quota", "1536M"),
		     0);
	option_dump(options, &cfg, out);
	fclose(out);
	path = config_file(text);
	cr_assert_eq(PARSE(&again, &err, &args, "-c", path), 0, "%s", err.msg);
	cr_expect_str_eq(again.name, cfg.name);
	cr_expect_eq(again.quota, cfg.quota);
	cr_expect_eq(again.timeout, cfg.timeout);
	cr_expect_str_eq(again.hosts[1], "y");
	option_fini(options, &cfg);
	option_fini(options, &again);
	unlink(path);
}

Test(option, help_is_at_most_80_wide)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	option_help(&prog, out);
	fclose(out);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		cr_expect_leq(strlen(line), (size_t)80, "%s", line);
}

static const struct option_spec more[] = {
	{ .key = "deep", .type = OPTION_BOOL, AT(force), .help = "It's deep." },
	{ 0 },
};
static const struct option_program convert = {
	.name = "prog image convert",
	.usage = "",
	.summary = "",
	.options = more,
};
static const struct option_program status = {
	.name = "prog node status",
	.usage = "",
	.summary = "",
	.options = options,
};

static char *completion_text(const char *typed)
{
	static const struct option_program *const all[] = { &convert, &status,
							    NULL };
	AUTO_FREE char *path = config_file("");
	AUTO_BUF command = BUF_INIT;
	struct buf got = BUF_INIT;
	FILE *out = fopen(path, "w");
	char line[256];

	cr_assert_eq(option_completion("bash", all, out), 0);
	fclose(out);
	cr_assert_eq(buf_printf(&command,
				"bash -c '. %s; COMP_WORDS=(%s \"\"); "
				"COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _prog; "
				"echo \"${COMPREPLY[*]}\"'",
				path, typed),
		     0);
	out = popen(command.data, "r");
	while (fgets(line, sizeof(line), out))
		cr_assert_eq(buf_puts(&got, line), 0);
	cr_expect_eq(pclose(out), 0);
	unlink(path);
	return buf_steal(&got);
}

Test(option, bash_completes_commands_and_their_options)
{
	AUTO_FREE char *first = completion_text("prog");
	AUTO_FREE char *second = completion_text("prog image");
	AUTO_FREE char *third = completion_text("prog image convert");

	cr_expect_str_eq(first, "image node\n");
	cr_expect_str_eq(second, "convert\n");
	cr_expect_str_eq(third, "--deep --help --version\n");
}

Test(option, the_manual_names_every_option)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	option_scdoc(&prog, out);
	fclose(out);
	for (const struct option_spec *o = options; o->key; o++) {
		AUTO_BUF key = BUF_INIT;

		cr_assert_eq(buf_printf(&key, "*--%s*", o->key), 0);
		cr_expect(strstr(text, key.data), "%s", key.data);
	}
}
