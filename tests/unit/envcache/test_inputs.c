// SPDX-License-Identifier: Apache-2.0
/* Inputs of a command that are found without running it. */
#include "envcache/inputs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "env_fixture.h"
#include "envcache/key.h"
#include "envcache/words.h"

/* The working folder for files, which is outside the target. */
static char work[] = "/var/tmp/bootseer-inputs.XXXXXX";

static void set_up(void)
{
	env_setup();
	cr_assert_not_null(mkdtemp(work));
	cr_assert_eq(chdir(work), 0);
}

static void tear_down(void)
{
	cr_assert_eq(chdir("/"), 0);
	cr_expect_eq(fs_remove_tree(work, NULL), 0);
	env_teardown();
}

TestSuite(env_inputs, .init = set_up, .fini = tear_down, .timeout = 60);

static void put_file_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f, "%s", path);
	cr_assert_geq(fputs(text, f), 0);
	cr_assert_eq(fclose(f), 0);
}

static char *environment[8];

static struct env_inputs gather_inputs(const char *const *command,
				       char *const *made, bool reads_script)
{
	const struct env_inputs_from from = {
		.command = (char *const *)(uintptr_t)command,
		.targets = &env_dir_targets,
		.environment = environment,
		.root = work,
		.made = made,
		.reads_script = reads_script,
	};
	struct error err = ERROR_INIT;
	struct env_inputs in;

	cr_assert_eq(env_inputs_gather(&from, &in, &err), 0, "%s", err.msg);
	return in;
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void expect_item_names(const struct env_inputs *in, const char *kind,
			      const char *names)
{
	char found[1000] = "";

	for (size_t i = 0; i < in->n; i++)
		if (strcmp(in->items[i].kind, kind) == 0)
			(void)snprintf(found + strlen(found),
				       sizeof(found) - strlen(found), "%s ",
				       in->items[i].name);
	cr_expect_str_eq(found, names, "%s", kind);
}

static struct digest digest_for(const char *const *command)
{
	struct env_inputs in = gather_inputs(command, NULL, false);
	const struct env_spec spec = {
		.command = (char *const *)(uintptr_t)command, .inputs = &in
	};
	AUTO(env_scan) s = env_look();
	struct error err = ERROR_INIT;
	struct env_key k;
	struct digest d;

	cr_assert_eq(env_key_make(&spec, &env_dir_targets, s, &k, &err), 0,
		     "%s", err.msg);
	d = k.digest;
	env_key_fini(&k);
	env_inputs_fini(&in);
	return d;
}

/* Does the key change with the content of the file? */
static bool changes_key(const char *const *command, const char *path)
{
	struct digest before, after;

	put_file_text(path, "a==1\n");
	before = digest_for(command);
	put_file_text(path, "a==2\n");
	after = digest_for(command);
	return !digest_equal(&before, &after);
}

Test(env_inputs, are_files_that_the_command_names_by_their_contents)
{
	cr_assert_eq(mkdir("conf", 0755), 0);
	cr_expect(changes_key(WORDS("bash", "setup.sh"), "setup.sh"));
	cr_expect(changes_key(WORDS("cp", "req.txt", "/nowhere"), "req.txt"));
	cr_expect(changes_key(WORDS("pip", "install", "-rreq.txt"), "req.txt"));
	cr_expect(changes_key(WORDS("conda", "env", "create", "--file=e.yml"),
			      "e.yml"));
	cr_expect(changes_key(WORDS("sh", "-ec", "cp 'conf/a b' /nowhere"),
			      "conf/a b"));
	cr_expect(changes_key(WORDS("./setup"), "setup"));
	cr_expect(!changes_key(WORDS("pip", "install", "x"), "other"));
}

Test(env_inputs, are_what_those_include)
{
	struct env_inputs in;

	cr_assert_eq(mkdir("req", 0755), 0);
	put_file_text("setup.sh",
		      "#!/bin/bash\n# -r no.txt\nset -e\n"
		      "pip install -r req/all.txt \\\n  -c \"req/c.txt\" "
		      ">log 2>&1\n. ./env.sh\n");
	put_file_text("env.sh", "uv pip install --requirements=last.txt\n");
	put_file_text("req/all.txt",
		      "-r more.txt\n--constraint more2.txt\nx==1\n");
	put_file_text("req/more.txt", "-r all.txt\n");
	put_file_text("req/more2.txt", "");
	put_file_text("req/c.txt", "");
	put_file_text("last.txt", "");
	put_file_text("log", "");
	put_file_text("no.txt", "");
	put_file_text("e.yml", "dependencies:\n  - pip:\n    - -r no.txt\n");
	in = gather_inputs(WORDS("bash", "setup.sh"), NULL, false);
	expect_item_names(
		&in, "file",
		"setup.sh req/all.txt req/c.txt ./env.sh req/more.txt "
		"req/more2.txt last.txt ");
	cr_expect_eq(in.n_unknown, 0, "%s", in.n_unknown ? in.unknown[0] : "");
	env_inputs_fini(&in);
	in = gather_inputs(WORDS("conda", "env", "create", "-f", "e.yml"), NULL,
			   false);
	expect_item_names(&in, "file", "e.yml no.txt ");
	env_inputs_fini(&in);
}

/* They belong to the base, or differ between any two nodes. */
Test(env_inputs, are_no_files_of_the_target_the_node_or_the_kernel)
{
	AUTO_FREE char *in_target = env_path("made");
	struct env_inputs in;

	env_write("made", "x");
	put_file_text("word", "");
	put_file_text("setup.sh",
		      "echo word >log; [ -e word ] || cp /etc/hosts none\n"
		      "cat /etc/hostname /proc/cpuinfo /etc/hosts\n");
	in = gather_inputs(WORDS("/bin/sh", "setup.sh", in_target,
				 "/proc/cpuinfo"),
			   NULL, false);
	expect_item_names(&in, "file", "/bin/sh setup.sh ");
	env_inputs_fini(&in);
}

Test(env_inputs, are_not_what_the_command_makes_itself)
{
	const char *const *command =
		WORDS("tool", "pip.log", "-r", "req.txt", "--output", "out");
	struct env_inputs before, after, later;
	char **made, **fewer;
	const char *unwritten;

	put_file_text("req.txt", "x");
	put_file_text("out", "x");
	before = gather_inputs(command, NULL, false);
	put_file_text("pip.log", "done");
	after = gather_inputs(command, NULL, false);
	cr_assert_eq(env_inputs_made(&before, &after, NULL, &made, &unwritten,
				     NULL),
		     1);
	cr_expect_null(unwritten);
	cr_expect_str_eq(made[0], "pip.log");
	cr_expect_null(made[1]);
	later = gather_inputs(command, made, false);
	expect_item_names(&later, "file", "req.txt ");
	env_inputs_fini(&before);
	env_inputs_fini(&after);
	/* While each run writes pip.log it stays in the list; in a run that does not write it, it
	 * is an input. */
	put_file_text("pip.log", "done again");
	after = gather_inputs(command, made, false);
	cr_expect_eq(env_inputs_made(&later, &after, made, &fewer, &unwritten,
				     NULL),
		     0);
	cr_expect_str_eq(fewer[0], "pip.log");
	cr_expect_null(unwritten);
	env_names_free(fewer);
	cr_expect_eq(env_inputs_made(&after, &after, made, &fewer, &unwritten,
				     NULL),
		     1);
	cr_expect_str_eq(unwritten, "pip.log");
	cr_expect_null(fewer[0]);
	env_names_free(fewer);
	env_names_free(made);
	env_inputs_fini(&after);
	env_inputs_fini(&later);
}

Test(env_inputs, are_lock_files_and_settings_of_the_package_manager_alone)
{
	struct env_inputs in;

	put_file_text("pyproject.toml", "");
	put_file_text("uv.lock", "");
	put_file_text("package.json", "");
	in = gather_inputs(WORDS("uv", "sync"), NULL, false);
	expect_item_names(&in, "config", "pyproject.toml uv.lock ");
	env_inputs_fini(&in);
	in = gather_inputs(WORDS("sh", "-c", "cd x && npm ci"), NULL, false);
	expect_item_names(&in, "config", "package.json ");
	env_inputs_fini(&in);
	/* Settings for all users; renewed tokens in them do not change the key. */
	cr_assert_eq(mkdir("etc", 0755), 0);
	put_file_text("etc/pip.conf",
		      "[global]\nindex-url = https://u:one@h/simple\n");
	cr_expect(digest_for(WORDS("pip3.11", "x")).b[0] ==
		  digest_for(WORDS("pip3.11", "x")).b[0]);
	in = gather_inputs(WORDS("pip3.11", "x"), NULL, false);
	expect_item_names(&in, "config", "/etc/pip.conf ");
	env_inputs_fini(&in);
}

static struct digest digest_with(const char *variable)
{
	environment[0] = (char *)(uintptr_t)variable;
	return digest_for(WORDS("pip", "install", "x"));
}

Test(env_inputs, are_variables_that_package_managers_obey_without_logins)
{
	struct digest a = digest_with("PIP_INDEX_URL=https://u:one@h/simple"),
		      b = digest_with("PIP_INDEX_URL=https://u:two@h/simple"),
		      c = digest_with("PIP_INDEX_URL=https://u:two@i/simple"),
		      none = digest_with("HOME=/nowhere");
	static const char *const no_inputs[] = {
		"PIP_CACHE_DIR=/c",
		"UV_CONCURRENT_BUILDS=3",
		"UV_INDEX_X_PASSWORD=p",
		"PIP_PROXY=http://p",
		"PIPX=1",
		"npm_config_cache=x",
	};
	static const char *const inputs[] = {
		"UV_INDEX_URL=https://h", "npm_config_registry=https://h",
		"CONDA_OVERRIDE_CUDA=12", "TORCH_CUDA_ARCH_LIST=9.0",
		"GOPROXY=https://h",
	};
	struct env_inputs in;

	cr_expect(digest_equal(&a, &b));
	cr_expect(!digest_equal(&a, &c));
	cr_expect(!digest_equal(&a, &none));
	for (size_t i = 0; i < ARRAY_SIZE(no_inputs); i++) {
		struct digest d = digest_with(no_inputs[i]);

		cr_expect(digest_equal(&d, &none), "%s", no_inputs[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(inputs); i++) {
		struct digest d = digest_with(inputs[i]);

		cr_expect(!digest_equal(&d, &none), "%s", inputs[i]);
	}
	environment[0] = (char *)(uintptr_t) "PIP_INDEX_URL=https://u:one@h/s";
	in = gather_inputs(WORDS("pip"), NULL, false);
	cr_assert_eq(in.n, 1);
	cr_expect_str_eq(in.items[0].shown, "https://h/s");
	env_inputs_fini(&in);
	/* A file named by a variable is an input with its content. */
	put_file_text("c.txt", "x==1");
	a = digest_with("PIP_CONSTRAINT=c.txt");
	put_file_text("c.txt", "x==2");
	b = digest_with("PIP_CONSTRAINT=c.txt");
	cr_expect(!digest_equal(&a, &b));
}

static void put_device(const char *name, const char *class, const char *vendor,
		       const char *device)
{
	const char *const rows[][2] = { { "class", class },
					{ "vendor", vendor },
					{ "device", device } };
	char path[200];

	(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", name);
	cr_assert_eq(fs_mkdir_p(path, 0755, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/%s",
			       name, rows[i][0]);
		put_file_text(path, rows[i][1]);
	}
}

Test(env_inputs, are_types_of_gpus_and_not_how_many_or_where_they_are)
{
	struct env_inputs in = gather_inputs(WORDS("pip"), NULL, false);

	expect_item_names(&in, "gpu", "");
	env_inputs_fini(&in);
	put_device("0000:00:01.0", "0x030000\n", "0x1a03\n", "0x2000\n");
	put_device("0000:00:02.0", "0x030200\n", "0x10de\n", "0x2330\n");
	put_device("0000:00:03.0", "0x030200\n", "0x10de\n", "0x2330\n");
	put_device("0000:00:04.0", "0x020000\n", "0x10de\n", "0x1111\n");
	in = gather_inputs(WORDS("pip"), NULL, false);
	cr_assert_eq(in.n, 1);
	cr_expect_str_eq(in.items[0].kind, "gpu");
	cr_expect_str_eq(in.items[0].shown, "10de:2330");
	env_inputs_fini(&in);
}

static void expect_unknown(const char *const *command, bool reads_script,
			   const char *want)
{
	struct env_inputs in = gather_inputs(command, NULL, reads_script);
	const char *is = in.n_unknown ? in.unknown[0] : "";

	cr_expect(in.n_unknown == (*want != '\0') && strstr(is, want),
		  "%s %s: '%s' and %zu", command[0], command[1], is,
		  in.n_unknown);
	env_inputs_fini(&in);
}

Test(env_inputs, that_nobody_can_tell_are_named)
{
#define HEX40 "0123456789abcdef0123456789abcdef01234567"
	cr_assert_eq(mkdir("conf", 0755), 0);
	put_file_text("r.txt", "x @ https://h/x.whl\n-i https://h/simple\n");
	expect_unknown(WORDS("sh", "-c", "cat x | bash"), false,
		       "what is piped to 'bash'");
	expect_unknown(WORDS("pip", "install", "https://u:secret@h/x.whl"),
		       false, "what 'https://h/x.whl' has");
	expect_unknown(WORDS("pip", "install", "git+https://h/x@" HEX40), false,
		       "");
	expect_unknown(WORDS("pip", "install", "-i", "https://h/simple", "x"),
		       false, "");
	expect_unknown(WORDS("pip", "--index-url=https://h/simple", "x"), false,
		       "");
	expect_unknown(WORDS("pip", "install", "-r", "r.txt"), false,
		       "https://h/x.whl");
	expect_unknown(WORDS("cp", "-r", "./conf", "/nowhere"), false,
		       "what is in the folder './conf'");
	expect_unknown(WORDS("pip", "install", "conf"), false, "");
	expect_unknown(WORDS("bash", "-c", "pip install -r \"$1\""), false,
		       "what '$1' names");
	expect_unknown(WORDS("bash", "-s"), true,
		       "the script on standard input");
	expect_unknown(WORDS("bash", "-s"), false, "");
	expect_unknown(WORDS("bash", "setup.sh"), true, "");
	expect_unknown(WORDS("sh", "-c", "true"), true, "");
}

/* A large file is only read at some places: a change between them is not noticed, so a note says
 * that it is read in part. */
Test(env_inputs, that_are_too_large_are_looked_at_in_part)
{
	const char *const *command = WORDS("tar", "-xf", "big.tar");
	struct env_inputs a, b;

	put_file_text("big.tar", "x");
	cr_assert_eq(truncate("big.tar", (off_t)ENV_INPUT_BYTES + 4096), 0);
	a = gather_inputs(command, NULL, false);
	expect_item_names(&a, "file", "big.tar ");
	cr_expect_eq(a.n_unknown, 1);
	cr_expect(strstr(a.unknown[0], "most of 'big.tar'"));
	put_file_text("big.tar", "y");
	cr_assert_eq(truncate("big.tar", (off_t)ENV_INPUT_BYTES + 4096), 0);
	b = gather_inputs(command, NULL, false);
	cr_expect(!digest_equal(&a.items[0].value, &b.items[0].value));
	env_inputs_fini(&a);
	env_inputs_fini(&b);
}

Test(env_inputs, that_are_small_are_read_whole_beside_large_ones)
{
	static const char *const command[] = { "install", "big.tar", "req.txt",
					       "/d", NULL };
	struct env_inputs in;

	put_file_text("big.tar", "x");
	cr_assert_eq(truncate("big.tar", (off_t)ENV_INPUT_BYTES), 0);
	put_file_text("req.txt", "a==1\n");
	in = gather_inputs(command, NULL, false);
	expect_item_names(&in, "file", "big.tar req.txt ");
	cr_expect_eq(in.n_unknown, 0);
	env_inputs_fini(&in);
}

Test(env_inputs, end_where_a_shell_is_told_without_end)
{
	struct env_inputs in;

	environment[0] = (char[]){ "A=sh -c \"$A\"" };
	environment[1] = NULL;
	in = gather_inputs(WORDS("sh", "-c", "sh -c \"$A\""), NULL, false);
	expect_item_names(&in, "variable", "A ");
	cr_expect_eq(in.n_unknown, 1);
	env_inputs_fini(&in);
	environment[0] = NULL;
}

/* After `cd`, or with a package manager's option, names refer to the folder that it leads to. */
Test(env_inputs, are_files_of_the_folders_that_the_command_goes_to)
{
	cr_assert_eq(fs_mkdir_p("app/sub", 0755, NULL), 0);
	put_file_text("app/setup.sh",
		      "cd \"$(dirname \"$0\")\"\ncd sub; uv sync\n");
	put_file_text("go.sh",
		      "pushd app\nsource ./env.sh\npython3 ../build.py\n");
	cr_expect(changes_key(WORDS("sh", "-c", "cd app && pip install -r r"),
			      "app/r"));
	cr_expect(changes_key(WORDS("bash", "go.sh"), "app/env.sh"));
	cr_expect(changes_key(WORDS("bash", "go.sh"), "build.py"));
	cr_expect(changes_key(WORDS("sh", "-c", "cd app; uv sync"),
			      "app/uv.lock"));
	cr_expect(
		changes_key(WORDS("bash", "app/setup.sh"), "app/sub/uv.lock"));
	cr_expect(changes_key(WORDS("uv", "sync", "--project", "app"),
			      "app/uv.lock"));
	cr_expect(changes_key(WORDS("uv", "--directory=app", "sync"),
			      "app/uv.lock"));
	cr_expect(changes_key(WORDS("npm", "--prefix", "app", "ci"),
			      "app/package-lock.json"));
	cr_expect(changes_key(WORDS("make", "-C", "app"), "app/Makefile"));
	cr_expect(!changes_key(WORDS("sh", "-c", "cd app; uv sync"),
			       "app/sub/uv.lock"));
	expect_unknown(WORDS("sh", "-c", "cd \"$X\" && pip install -r r"),
		       false, "what '$X' names");
	expect_unknown(WORDS("sh", "-c", "cd $(mktemp -d)"), false, "");
}

/* Files of the system named in a script are inputs: another image may have other contents. */
Test(env_inputs, are_files_of_the_system_also_where_a_script_names_them)
{
	char folder[] = "/var/lib/bootseer-inputs.XXXXXX";
	AUTO_FREE char *text = NULL, *list = NULL;
	AUTO_FREE char *lock = NULL;
	bool is_in_list, is_in_lock, is_in_script, is_in_file;

	if (geteuid() != 0)
		cr_skip("it needs root");
	cr_assert_not_null(mkdtemp(folder));
	list = fs_join(folder, "r");
	cr_assert_gt(asprintf(&text, "cd %s && pip install -r r", folder), 0);
	is_in_list = changes_key(WORDS("sh", "-c", text), list);
	cr_assert_eq(chdir(folder), 0);
	is_in_script = changes_key(WORDS("./setup.sh"), "setup.sh");
	cr_assert_eq(chdir(work), 0);
	put_file_text("in.sh", text);
	is_in_file = changes_key(WORDS("bash", "in.sh"), list);
	lock = fs_join(folder, "uv.lock");
	is_in_lock =
		changes_key(WORDS("uv", "sync", "--project", folder), lock);
	cr_expect_eq(fs_remove_tree(folder, NULL), 0);
	cr_expect(is_in_list);
	cr_expect(is_in_file);
	cr_expect(is_in_script);
	cr_expect(is_in_lock);
}

Test(env_inputs, are_files_of_folders_that_are_named_after_the_script)
{
	cr_assert_eq(mkdir("app", 0755), 0);
	put_file_text("setup.sh",
		      "cat \"$1/pkgs.txt\" | xargs apt-get install -y\n");
	cr_expect(
		changes_key(WORDS("bash", "setup.sh", "app"), "app/pkgs.txt"));
	put_file_text("in.sh", "bash setup.sh\ncd app\n");
	cr_expect(changes_key(WORDS("bash", "in.sh"), "app/pkgs.txt"));
}

/* Only some programs take an index after -f and -c; a needless note is better than a missing
 * one. */
Test(env_inputs, that_are_urls_are_known_behind_options_of_indexes_alone)
{
	static const char *const unknown[] = {
		"wget -c https://h/x",
		"npm config set registry https://h/x",
		"curl -f https://h/x",
		"wget index.html https://h/x",
		"pip install -c https://h/x",
		"conda env create -f https://h/x",
		"pip install llama-index https://h/x",
		"curl -i https://h/x",
		"pip3 install -f https://h/x y",
		"conda install -c https://h/x y",
	};
	static const char *const known[] = {
		"pip3 install --find-links https://h/x y",
		"python3 -m pip install -i https://h/x y",
		"conda install --channel https://h/x y",
		"npm ci --registry https://h/x",
	};

	put_file_text("l.txt", "llama-index==1\nhttps://h/x\n");
	expect_unknown(WORDS("pip", "install", "-r", "l.txt"), false,
		       "what 'https://h/x' has");
	expect_unknown(WORDS("wget", "https://h/profile:x"), false,
		       "what 'https://h/profile:x' has");
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		expect_unknown(WORDS("sh", "-c", unknown[i]), false,
			       "what 'https://h/x' has");
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		expect_unknown(WORDS("sh", "-c", known[i]), false, "");
}

Test(env_inputs, that_are_folders_are_named_in_scripts)
{
	static const char *const rows[][2] = {
		{ "python3 -m pip install .", "in the folder '.'" },
		{ "cd pkg; pip install .", "in the folder '.'" },
		{ "sudo -H pip install ./pkg", "in the folder './pkg'" },
		{ "make -C pkg", "in the folder 'pkg'" },
		{ "cmake -S pkg -B b", "in the folder 'pkg'" },
		{ "cp -r ./pkg /nowhere", "in the folder './pkg'" },
		/* With tar this option names a destination; with make, a source. */
		{ "tar -x -C pkg", "in the folder 'pkg'" },
		{ "ls ./pkg", "" },
		{ "tool --target ./pkg", "" },
		{ "tool --target=x -e pkg", "in the folder 'pkg'" },
		{ "cp pkg/x /var/tmp", "" },
	};
	AUTO_FREE char *text = NULL;

	cr_assert_eq(mkdir("pkg", 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		put_file_text("s.sh", rows[i][0]);
		expect_unknown(WORDS("bash", "s.sh"), false, rows[i][1]);
	}
	/* "/" is the working folder of a container when none was chosen. */
	cr_assert_gt(asprintf(&text, "cd %s/pkg && pip install .", work), 0);
	cr_assert_eq(chdir("/"), 0);
	expect_unknown(WORDS("sh", "-c", text), false, "/pkg/.'");
	cr_assert_eq(chdir(work), 0);
}

Test(env_inputs, are_files_of_the_home_and_words_that_the_shell_alone_knows)
{
	AUTO_FREE char *home = NULL;

	cr_assert_gt(asprintf(&home, "HOME=%s/home", work), 0);
	cr_assert_eq(mkdir("home", 0755), 0);
	environment[0] = home;
	cr_expect(
		changes_key(WORDS("sh", "-c", "pip install -r ~/r"), "home/r"));
	cr_expect(changes_key(WORDS("sh", "-c", "cd ~/; pip install -r q"),
			      "home/q"));
	environment[0] = NULL;
	expect_unknown(WORDS("sh", "-c", "pip install $WHEEL"), false,
		       "what '$WHEEL' names");
	expect_unknown(WORDS("sh", "-c", "pip install ./x-$V.whl"), false,
		       "what './x-$V.whl' names");
	expect_unknown(WORDS("sh", "-c", ". \"$D/none\""), false,
		       "what '$D/none' names");
	expect_unknown(WORDS("sh", "-c", "tool --file=$X"), false,
		       "what '--file=$X' names");
	expect_unknown(WORDS("sh", "-c", "tool -f $X"), false,
		       "what '$X' names");
	expect_unknown(WORDS("sh", "-c", "bash $X"), false, "what '$X' names");
	expect_unknown(WORDS("sh", "-c", "pip install x==$V; make -j$(nproc)"),
		       false, "");
}

/* A file that a program writes is no input, but words do not show which one it is.  A file that
 * did not exist before is left out later (env_inputs_made()); one that did makes another key. */
Test(env_inputs, are_files_whatever_the_program_does_with_its_words)
{
	cr_expect(changes_key(WORDS("unzip", "-o", "x.zip"), "x.zip"));
	cr_expect(changes_key(WORDS("python3", "-O", "s.py"), "s.py"));
	cr_expect(changes_key(WORDS("install", "-t", "/d", "tool"), "tool"));
	cr_expect(changes_key(WORDS("cp", "-t", "/d", "a", "b"), "b"));
	cr_expect(changes_key(WORDS("cp", "a", "b"), "b"));
	cr_expect(changes_key(WORDS("gcc", "a", "-o", "b"), "b"));
	cr_expect(changes_key(WORDS("tool", "--log=l", "b"), "b"));
	cr_expect(!changes_key(WORDS("tool", "--log=l"), "l"));
	cr_expect(!changes_key(WORDS("tool", "--log", "l"), "l"));
}

/* A digest names no file, even if a file has that name. */
Test(env_inputs, are_not_looked_for_by_digests)
{
	cr_expect(!changes_key(WORDS("pip", "x@" HEX40), HEX40));
	cr_expect(!changes_key(WORDS("pip", "x", "--hash=md5:a1"), "a1"));
}

Test(env_inputs, are_files_by_pattern_url_and_redirection)
{
	AUTO_FREE char *url = NULL;

	cr_assert_eq(fs_mkdir_p("w/app", 0755, NULL), 0);
	cr_assert_gt(asprintf(&url, "file://%s/w/x.whl", work), 0);
	put_file_text("l.txt",
		      "./w/x.whl ; python_version > '3'\n-e ./w/app\n");
	cr_expect(changes_key(WORDS("pip", "install", url), "w/x.whl"));
	cr_expect(changes_key(WORDS("pip", "install", "./w/x.whl[all]"),
			      "w/x.whl"));
	cr_expect(
		changes_key(WORDS("pip", "install", "-r", "l.txt"), "w/x.whl"));
	cr_expect(changes_key(WORDS("sh", "-c", "pip install w/*.whl"),
			      "w/y.whl"));
	cr_expect(changes_key(WORDS("sh", "-c", "cd w && pip install *.whl"),
			      "w/y.whl"));
	cr_expect(!changes_key(WORDS("sh", "-c", "rm w/*.log"), "w/a.log"));
	cr_expect(changes_key(WORDS("sh", "-c", "xargs pip install <w/r"),
			      "w/r"));
	cr_expect(
		changes_key(WORDS("sh", "-c",
				  "while read p; do pip install $p; done <w/r"),
			    "w/r"));
	expect_unknown(WORDS("pip", "install", "-r", "l.txt"), false,
		       "what is in the folder './w/app'");
	*strrchr(url, '/') = '\0';
	expect_unknown(WORDS("pip", "install", url), false, "what is in the");
	put_file_text("e.sh", "true\n");
	expect_unknown(WORDS("sh", "-c", ". ./e.sh"), false, "");
}

static bool is_variable_in_key(const char *name, const char *value,
			       const char *text)
{
	struct digest none, is;
	AUTO_FREE char *variable = NULL;

	environment[0] = NULL;
	none = digest_for(WORDS("sh", "-c", text));
	cr_assert_gt(asprintf(&variable, "%s=%s", name, value), 0);
	environment[0] = variable;
	is = digest_for(WORDS("sh", "-c", text));
	environment[0] = NULL;
	return !digest_equal(&none, &is);
}

/* Commands that are in no list, and words that are part of a word or a text of their own. */
Test(env_inputs, are_files_of_any_command_and_part_of_a_word)
{
	static const char own[] = "pip install -r \"$(dirname \"$0\")/r\"\n";

	cr_assert_eq(mkdir("app", 0755), 0);
	put_file_text("app/own.sh", own);
	put_file_text("app/var.sh", "D=$(pwd)\n. \"$D/env\"\n");
	put_file_text("in.sh", "pip install ./app\n");
	cr_expect(
		changes_key(WORDS("sh", "-c", "grep -v x r | xargs pip"), "r"));
	cr_expect(changes_key(WORDS("sh", "-c", "spack install -f s.json"),
			      "s.json"));
	cr_expect(changes_key(WORDS("su", "-c", "pip install -r r"), "r"));
	cr_expect(changes_key(WORDS("tool", "--files=a,b"), "b"));
	cr_expect(changes_key(WORDS("tool", "-v", "b:/there"), "b"));
	cr_expect(changes_key(WORDS("make", "-f", "b.mk", "-C", "app"),
			      "app/b.mk"));
	cr_expect(changes_key(WORDS("bash", "app/own.sh"), "app/r"));
	cr_expect(changes_key(WORDS("bash", "app/var.sh"), "app/env"));
	cr_expect(!changes_key(WORDS("sh", "-c", "x --log=l >o"), "l"));
	expect_unknown(WORDS("bash", "in.sh"), false,
		       "what is in the folder './app'");
	expect_unknown(WORDS("env", "PATH=/opt:./app:/srv", "x"), false, "");
	cr_assert_eq(chdir("app"), 0);
	cr_expect(
		changes_key(WORDS("sh", "-c", "cd ./; cd ..; cat r"), "../r"));
	expect_unknown(WORDS("sh", "-c", "cd ./; cd .."), false, "");
	cr_assert_eq(chdir(".."), 0);
	expect_unknown(WORDS("sh", "-c", "pip install -r \"$D/none\""), false,
		       "what '$D/none' names");
}

/* Variables that differ between nodes, or only name a folder, are not in the key: with them, each
 * node would make its own environment. */
Test(env_inputs, are_variables_in_words_of_what_installs)
{
	cr_expect(is_variable_in_key("VERSION", "1.2",
				     "pip install x==$VERSION"));
	cr_expect(is_variable_in_key(
		"VERSION", "1.2",
		"python3 -m pip install \"x==${VERSION:-3}\""));
	cr_expect(is_variable_in_key("VERSION", "1",
				     "apt-get install -y x=$VERSION"));
	cr_expect(!is_variable_in_key("VERSION", "1.2", "echo $VERSION"));
	cr_expect(!is_variable_in_key("SITE", "/opt/x",
				      "pip install --target $SITE x"));
	cr_expect(!is_variable_in_key("LOCAL_RANK", "3",
				      "pip install x --r$LOCAL_RANK"));
	cr_expect(!is_variable_in_key("API_TOKEN", "s",
				      "pip install x --t=$API_TOKEN"));
}

Test(env_inputs, are_not_what_is_removed_or_asked_for)
{
	struct env_inputs in;

	cr_assert_eq(mkdir("old", 0755), 0);
	put_file_text("names", "x");
	put_file_text("ready", "x");
	in = gather_inputs(
		WORDS("sh", "-c",
		      "rm -r ./old; rm -r $X; [ -e ready ] || touch ready; "
		      "sort -r names; echo ready | tee ready; head -c 9"),
		NULL, false);
	expect_item_names(&in, "file", "names ");
	cr_expect_eq(in.n_unknown, 0);
	env_inputs_fini(&in);
}

Test(env_inputs, have_names_that_an_index_can_keep)
{
	struct env_inputs in;

	put_file_text("a\351", "x");
	put_file_text("\303\251", "x");
	in = gather_inputs(WORDS("cp", "a\351", "\303\251", "a\351",
				 "/nowhere"),
			   NULL, false);
	expect_item_names(&in, "file", "a\\xe9 \303\251 ");
	env_inputs_fini(&in);
}

/* ------------------------------------------------------------------------- words --- */

Test(env_words, are_split_as_a_shell_does)
{
	char *values[] = { (char[]){ "D=/d" }, NULL };
	static const char text[] =
		"A=1 cp 'a b'\"c $D\" ${D}/x >out 2>>err <in; # no\n"
		"x | sh -c \"$(y)\" && z\\\n w";
	static const struct {
		const char *text;
		bool is_first, is_piped, is_output, is_open;
	} want[] = {
		{ "A=1", true, false, false, false },
		{ "cp", true, false, false, false },
		{ "a bc /d", false, false, false, false },
		{ "/d/x", false, false, false, false },
		{ "out", false, false, true, false },
		{ "err", false, false, true, false },
		{ "in", false, false, false, false },
		{ "x", true, false, false, false },
		{ "sh", true, true, false, false },
		{ "-c", false, false, false, false },
		{ "$(y)", false, false, false, true },
		{ "z", true, false, false, false },
		{ "w", false, false, false, false },
	};
	struct shell_words w;

	cr_assert_eq(shell_words_split(text, values, &w, NULL), 0);
	cr_assert_eq(w.n, ARRAY_SIZE(want), "%zu", w.n);
	for (size_t i = 0; i < w.n; i++) {
		cr_expect_str_eq(w.list[i].text, want[i].text);
		cr_expect_eq(w.list[i].is_first, want[i].is_first, "%zu", i);
		cr_expect_eq(w.list[i].is_piped, want[i].is_piped, "%zu", i);
		cr_expect_eq(w.list[i].is_output, want[i].is_output, "%zu", i);
		cr_expect_eq(w.list[i].is_open, want[i].is_open, "%zu", i);
	}
	cr_expect_str_eq(w.list[3].written, "${D}/x");
	for (size_t i = 0; i < w.n; i++)
		cr_expect_eq(w.list[i].is_input, i == 6, "%zu", i);
	shell_words_fini(&w);
}

Test(env_words, are_shown_without_logins)
{
	static const char *const rows[][2] = {
		{ "https://u:p@h/x", "https://h/x" },
		{ "--index-url=https://t@h:8/s?a=1",
		  "--index-url=https://h:8/s?a=1" },
		{ "https://h/t/ab-12345678-90abcdef/chan",
		  "https://h/t/*/chan" },
		{ "https://h/t/v1.2/x.tgz", "https://h/t/v1.2/x.tgz" },
		{ "https://h/x?X-Amz-Signature=1&y=2", "https://h/x?*" },
		{ "https://h/x?sv=1&sig=abc", "https://h/x?*" },
		{ "https://h/x?sha=v1&private_token=abc&y=2",
		  "https://h/x?sha=v1&private_token=*&y=2" },
		{ "https://h/x?token=abc", "https://h/x?token=*" },
		{ "https://h/x?", "https://h/x?" },
		{ "--token=abc", "--token=*" },
		{ "HF_TOKEN=abc pip install x", "HF_TOKEN=* pip install x" },
		{ "f --password 'abc' x", "f --password '*' x" },
		{ "tokenizers==0.15", "tokenizers==0.15" },
		{ "--tokenizer=x", "--tokenizer=x" },
		{ "a@b", "a@b" },
		{ "git+ssh://git@h/x.git@v1", "git+ssh://h/x.git@v1" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *is = text_without_logins(rows[i][0]);

		cr_assert_not_null(is);
		cr_expect_str_eq(is, rows[i][1]);
	}
}
