// SPDX-License-Identifier: Apache-2.0
/* The command line: long and short options, operands, built-in options. */
#include "common/option.h"

#include <errno.h>
#include <string.h>

#include "common/option_priv.h"

/* The state of the scan of one command line. */
struct scan {
	const struct option_program *prog;
	void *cfg;
	int argc;
	char **argv;
	int i;
	bool seen_file; /* the configuration file was read; now the other
	                 * options are set */
	bool help, version, check, dump;
	const char *generate; /* "man" or a shell, borrowed from argv */
};

static const struct option_spec *
find_option_by_letter(const struct option_spec *options, char letter)
{
	for (const struct option_spec *o = options; o->key; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

static bool has_config_option(const struct option_program *prog)
{
	return option_find(prog->options, "config", 6) != NULL;
}

static bool scan_builtin(struct scan *s, const char *key)
{
	if (strcmp(key, "help") == 0)
		return s->help = true;
	if (strcmp(key, "version") == 0)
		return s->version = true;
	if (strncmp(key, "generate-", 9) == 0) {
		s->generate = key + 9;
		return true;
	}
	if (has_config_option(s->prog) && strcmp(key, "check-config") == 0)
		return s->check = true;
	if (has_config_option(s->prog) && strcmp(key, "dump-config") == 0)
		return s->dump = true;
	return false;
}

static int option_apply(struct scan *s, const struct option_spec *o,
			const char *text, struct error *err)
{
	/* The first pass reads only the configuration file, so that options of the command line
	 * override it wherever --config stands. */
	bool is_file = strcmp(o->key, "config") == 0;
	int rc;

	if (s->seen_file == is_file)
		return 0;
	rc = option_set(o, s->cfg, text, err);
	return rc < 0 ? error_wrap(err, rc, "option '--%s'", o->key) : 0;
}

static int next_value(struct scan *s, const char *name, const char **ret,
		      struct error *err)
{
	if (s->i + 1 >= s->argc)
		return error_set(err, EINVAL,
				 "option '%s' wants a value: see '%s --help'",
				 name, s->prog->name);
	*ret = s->argv[++s->i];
	return 0;
}

static int scan_long(struct scan *s, const char *arg, struct error *err)
{
	const char *eq = strchr(arg, '=');
	size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
	const struct option_spec *o = option_find(s->prog->options, arg, len);
	const char *text = eq ? eq + 1 : NULL;
	int rc;

	if (!o && !eq && scan_builtin(s, arg))
		return 0;
	if (!o)
		return error_set(err, EINVAL,
				 "unknown option '--%.*s': see '%s --help'",
				 (int)len, arg, s->prog->name);
	if (!text)
		text = option_bare(o);
	if (!text) {
		rc = next_value(s, s->argv[s->i], &text, err);
		if (rc < 0)
			return rc;
	}
	return option_apply(s, o, text, err);
}

static int scan_short(struct scan *s, const char *arg, struct error *err)
{
	const struct option_spec *o =
		find_option_by_letter(s->prog->options, arg[0]);
	const char *text = arg[1] ? arg + 1 : NULL;
	int rc;

	if (!o && strcmp(arg, "h") == 0) {
		s->help = true;
		return 0;
	}
	if (!o || (o->type == OPTION_BOOL && text))
		return error_set(err, EINVAL,
				 "unknown option '-%s': see '%s --help'", arg,
				 s->prog->name);
	if (o->type == OPTION_BOOL)
		return option_apply(s, o, "yes", err);
	if (!text) {
		rc = next_value(s, s->argv[s->i], &text, err);
		if (rc < 0)
			return rc;
	}
	return option_apply(s, o, text, err);
}

/* Options first, then operands; "--" ends the options. */
static int scan_all(struct scan *s, struct error *err)
{
	int rc = 0;

	for (s->i = 1; s->i < s->argc && rc == 0; s->i++) {
		const char *arg = s->argv[s->i];

		if (arg[0] != '-' || arg[1] == '\0')
			break;
		if (strcmp(arg, "--") == 0) {
			s->i++;
			break;
		}
		rc = arg[1] == '-' ? scan_long(s, arg + 2, err)
				   : scan_short(s, arg + 1, err);
	}
	return rc;
}

/* Move operands behind all options, so that "SRC DST --force" works. */
static int option_permute(const struct option_program *prog, int argc,
			  char **argv, struct error *err)
{
	AUTO_FREE char **rest = calloc((size_t)argc + 2, sizeof(*rest));
	int n_opt = 1, n_rest = 0;

	if (!rest)
		return error_nomem(err);
	for (int i = 1; i < argc; i++) {
		const struct option_spec *o = NULL;
		char *arg = argv[i];

		if (strcmp(arg, "--") == 0) {
			/* All that follows are operands, and must stay so. */
			while (i < argc)
				rest[n_rest++] = argv[i++];
			break;
		}
		if (arg[0] != '-' || arg[1] == '\0') {
			rest[n_rest++] = arg;
			continue;
		}
		argv[n_opt++] = arg;
		if (arg[1] != '-' && arg[2] == '\0')
			o = find_option_by_letter(prog->options, arg[1]);
		else if (arg[1] == '-' && !strchr(arg, '='))
			o = option_find(prog->options, arg + 2,
					strlen(arg + 2));
		if (o && !option_bare(o) && i + 1 < argc)
			argv[n_opt++] = argv[++i];
	}
	memcpy(argv + n_opt, rest, (size_t)n_rest * sizeof(*rest));
	return 0;
}

static int set_defaults(const struct option_spec *options, void *cfg,
			struct error *err)
{
	for (const struct option_spec *o = options; o->key; o++) {
		int rc = o->def ? option_set(o, cfg, o->def, err) : 0;

		if (rc < 0)
			return error_wrap(err, rc, "default of '%s'", o->key);
	}
	return 0;
}

/* Lists given on the command line replace the default list and that of the file. */
static void clear_given_lists(struct scan *s)
{
	for (const struct option_spec *o = s->prog->options; o->key; o++) {
		if (o->type != OPTION_LIST)
			continue;
		for (int i = 1; i < s->argc; i++) {
			size_t len = strlen(o->key);
			const char *arg = s->argv[i];

			if (strcmp(arg, "--") == 0)
				break;
			if (strncmp(arg, "--", 2) == 0 &&
			    strncmp(arg + 2, o->key, len) == 0 &&
			    (arg[2 + len] == '\0' || arg[2 + len] == '='))
				option_clear(o, s->cfg);
		}
	}
}

static int read_config(struct scan *s, struct error *err)
{
	const struct option_spec *o;
	char **path;

	o = option_find(s->prog->options, "config", 6);
	if (!o)
		return 0;
	path = (char **)(void *)((char *)s->cfg + o->offset);
	if (!*path)
		return 0;
	return option_read_file(s->prog, s->cfg, *path, err);
}

static int check_operands(const struct scan *s, bool may_lack,
			  struct error *err)
{
	int n = s->argc - s->i;
	int max = s->prog->max_args ? s->prog->max_args : s->prog->min_args;

	if (n < s->prog->min_args && !may_lack)
		return error_set(err, EINVAL,
				 "%d of its arguments %s missing: usage: %s %s",
				 s->prog->min_args - n,
				 s->prog->min_args - n == 1 ? "is" : "are",
				 s->prog->name, s->prog->usage);
	if (max >= 0 && n > max)
		return error_set(err, EINVAL,
				 "'%.64s' is one argument too many: usage: %s "
				 "%s",
				 s->argv[s->i + max], s->prog->name,
				 s->prog->usage);
	return 0;
}

static int option_generate(const struct scan *s, struct error *err)
{
	const struct option_program *const all[] = { s->prog, NULL };

	if (strcmp(s->generate, "man") == 0) {
		option_scdoc(s->prog, stdout);
		return 0;
	}
	if (option_completion(s->generate, all, stdout) < 0)
		return error_set(err, EINVAL,
				 "unknown option '--generate-%s': see "
				 "'%s --help'",
				 s->generate, s->prog->name);
	return 0;
}

static bool run_builtin_option(const struct scan *s)
{
	if (s->help)
		option_help(s->prog, stdout);
	else if (s->version)
		printf("%.*s %s\n", (int)strcspn(s->prog->name, " "),
		       s->prog->name, BOOTSEER_VERSION);
	else if (s->dump)
		option_dump(s->prog->options, s->cfg, stdout);
	else if (!s->check && !s->generate)
		return false;
	return true;
}

int option_parse(const struct option_program *prog, void *cfg, int argc,
		 char **argv, enum option_action *ret, int *ret_args,
		 struct error *err)
{
	struct scan s = {
		.prog = prog, .cfg = cfg, .argc = argc, .argv = argv
	};
	int rc = set_defaults(prog->options, cfg, err);

	if (rc == 0)
		rc = option_permute(prog, argc, argv, err);
	if (rc == 0)
		rc = scan_all(&s, err);
	if (rc < 0)
		return rc;
	if (s.generate)
		rc = option_generate(&s, err);
	if (rc < 0)
		return rc;
	if (!s.help && !s.version && !s.generate) {
		rc = read_config(&s, err);
		s.seen_file = true;
		clear_given_lists(&s);
		if (rc == 0)
			rc = scan_all(&s, err);
		if (rc == 0)
			rc = check_operands(&s, s.check || s.dump, err);
		if (rc < 0)
			return rc;
	}
	*ret = !run_builtin_option(&s)            ? OPTION_ACTION_RUN
	       : s.check && !s.help && !s.version ? OPTION_ACTION_CHECK
						  : OPTION_ACTION_EXIT;
	*ret_args = s.i;
	return 0;
}
