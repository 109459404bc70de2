// SPDX-License-Identifier: Apache-2.0
/* Manual sections and shell completions from option tables. */
#include <errno.h>
#include <string.h>

#include "common/buf.h"
#include "common/option_priv.h"

/* Escape the characters that have a meaning in scdoc. */
static void print_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("*_\\#[]<>~`", *text))
			fputc('\\', out);
		fputc(*text, out);
	}
}

void option_scdoc(const struct option_program *prog, FILE *out)
{
	for (const struct option_spec *o = prog->options; o->key; o++) {
		AUTO_BUF text = BUF_INIT;
		const char *value = option_value_name(o);

		if (o->letter)
			fprintf(out, "*-%c*, ", o->letter);
		fprintf(out, "*--%s*", o->key);
		if (value)
			fprintf(out, o->bare ? "\\[=_%s_\\]" : " _%s_", value);
		fputs("\n\t", out);
		print_escaped(out, option_describe(o, &text) == 0 ? text.data
								  : o->help);
		fputs("\n\n", out);
	}
	if (option_find(prog->options, "config", 6))
		fputs("*--check-config*\n\tCheck options and configuration, "
		      "then exit.\n\n*--dump-config*\n\tPrint the "
		      "configuration in force, then exit.\n\n",
		      out);
	fputs("*-h*, *--help*\n\tShow a help text.\n\n*--version*\n\tShow the "
	      "version.\n\n",
	      out);
}

/* Options of every program; the last ones only of programs with a configuration file. */
static const struct {
	const char *key, *help;
} builtins[] = {
	{ "help", "Show a help text." },
	{ "version", "Show the version." },
	{ "check-config", "Check options and configuration, then exit." },
	{ "dump-config", "Print the configuration in force, then exit." },
};

static size_t n_builtins(const struct option_program *prog)
{
	return option_find(prog->options, "config", 6) ? ARRAY_SIZE(builtins)
						       : 2;
}

/* The words that may follow `path`: its subcommands, or its options. */
static int next_words(const struct option_program *const *programs,
		      const char *path, struct buf *ret)
{
	size_t len = strlen(path);
	int rc = 0;

	for (; *programs && rc == 0; programs++) {
		const char *name = (*programs)->name;
		const char *word = name + len + 1;
		size_t n;

		if (strcmp(name, path) == 0) {
			const struct option_spec *o = (*programs)->options;

			for (; o->key && rc == 0; o++)
				rc = buf_printf(ret, " --%s", o->key);
			for (size_t i = 0; rc == 0 && i < n_builtins(*programs);
			     i++)
				rc = buf_printf(ret, " --%s", builtins[i].key);
			continue;
		}
		if (strncmp(name, path, len) != 0 || name[len] != ' ')
			continue;
		n = strcspn(word, " ");
		if (ret->len >= n && ret->data &&
		    strncmp(ret->data + ret->len - n, word, n) == 0)
			continue; /* the previous program's group is the same */
		rc = buf_printf(ret, " %.*s", (int)n, word);
	}
	return rc;
}

typedef void path_fn(FILE *out, const char *path, const char *words);

/* Call `each` once for every prefix of the programs' names. */
static int print_each_path(const struct option_program *const *programs,
			   FILE *out, path_fn *each)
{
	AUTO_BUF seen = BUF_INIT;
	int rc = 0;

	for (const struct option_program *const *p = programs; *p; p++) {
		const char *name = (*p)->name;
		const char *end = name;

		while (*end && rc == 0) {
			AUTO_BUF path = BUF_INIT;
			AUTO_BUF mark = BUF_INIT;
			AUTO_BUF words = BUF_INIT;

			end += strcspn(end + 1, " ") + 1;
			rc = buf_append(&path, name, (size_t)(end - name));
			if (rc == 0)
				rc = buf_printf(&mark, "|%s|", path.data);
			if (rc < 0 ||
			    (seen.data && strstr(seen.data, mark.data)))
				continue;
			rc = buf_puts(&seen, mark.data);
			if (rc == 0)
				rc = next_words(programs, path.data, &words);
			if (rc == 0)
				each(out, path.data,
				     words.len ? words.data + 1 : "");
		}
	}
	return rc;
}

static void print_bash_path(FILE *out, const char *path, const char *words)
{
	fprintf(out, "\t'%s') words='%s' ;;\n", path, words);
}

/* In the zsh function, the variable `words` is the command line. */
static void print_zsh_path(FILE *out, const char *path, const char *words)
{
	fprintf(out, "\t'%s') words_='%s' ;;\n", path, words);
}

static void print_known_path(FILE *out, const char *path, const char *words)
{
	(void)words;
	fprintf(out, "\t\t'%s') at=\"$at $word\" ;;\n", path);
}

static int complete_bash(const struct option_program *const *programs,
			 const char *name, FILE *out)
{
	int rc;

	fprintf(out,
		"_%s() {\n\tlocal at=%s word words=\n"
		"\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
		"\t\tcase \"$at $word\" in\n",
		name, name);
	rc = print_each_path(programs, out, print_known_path);
	fputs("\t\tesac\n\tdone\n\tcase $at in\n", out);
	if (rc == 0)
		rc = print_each_path(programs, out, print_bash_path);
	fprintf(out,
		"\tesac\n\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
		"\"${COMP_WORDS[COMP_CWORD]}\")\n}\n"
		"complete -o default -F _%s %s\n",
		name, name);
	return rc;
}

static int complete_zsh(const struct option_program *const *programs,
			const char *name, FILE *out)
{
	int rc;

	fprintf(out,
		"#compdef %s\nlocal at=%s word words_=\n"
		"for word in ${words[2,CURRENT-1]}; do\n"
		"\tcase \"$at $word\" in\n",
		name, name);
	rc = print_each_path(programs, out, print_known_path);
	fputs("\tesac\ndone\ncase $at in\n", out);
	if (rc == 0)
		rc = print_each_path(programs, out, print_zsh_path);
	fputs("esac\ncompadd -- ${=words_}\n_files\n", out);
	return rc;
}

/* Write the condition that every word of `commands` was typed already. */
static void print_fish_condition(FILE *out, const char *commands)
{
	const char *and = "";

	fputs(" -n '", out);
	while (*commands) {
		size_t n = strcspn(commands, " ");

		fprintf(out, "%s__fish_seen_subcommand_from %.*s", and, (int)n,
			commands);
		commands += n + (commands[n] == ' ');
		and = "; and ";
	}
	fputc('\'', out);
}

static void print_fish_option(FILE *out, const char *name, const char *commands,
			      const char *key, const char *help, bool has_value)
{
	fprintf(out, "complete -c %s", name);
	if (*commands)
		print_fish_condition(out, commands);
	fprintf(out, " -l %s%s -d '", key, has_value ? " -r" : "");
	for (const char *c = help; *c; c++) {
		if (*c == '\'' || *c == '\\')
			fputc('\\', out);
		fputc(*c, out);
	}
	fputs("'\n", out);
}

/* Offer each word of a command once the words before it were typed. */
static void print_fish_words(FILE *out, const char *name, const char *commands)
{
	for (const char *word = commands; *word;) {
		size_t n = strcspn(word, " ");

		fprintf(out, "complete -c %s", name);
		if (word == commands) {
			fputs(" -n __fish_use_subcommand", out);
		} else {
			AUTO_FREE char *before =
				strndup(commands,
					(size_t)(word - commands - 1));

			if (before)
				print_fish_condition(out, before);
		}
		fprintf(out, " -a %.*s\n", (int)n, word);
		word += n + (word[n] == ' ');
	}
}

static int complete_fish(const struct option_program *const *programs,
			 const char *name, FILE *out)
{
	for (; *programs; programs++) {
		const struct option_program *p = *programs;
		const char *commands = p->name + strlen(name);

		commands += *commands == ' ';
		print_fish_words(out, name, commands);
		for (const struct option_spec *o = p->options; o->key; o++)
			print_fish_option(out, name, commands, o->key, o->help,
					  !option_bare(o));
		for (size_t i = 0; i < n_builtins(p); i++)
			print_fish_option(out, name, commands, builtins[i].key,
					  builtins[i].help, false);
	}
	return 0;
}

int option_completion(const char *shell,
		      const struct option_program *const *programs, FILE *out)
{
	static const struct {
		const char *name;
		int (*write)(const struct option_program *const *programs,
			     const char *name, FILE *out);
	} shells[] = {
		{ "bash", complete_bash },
		{ "zsh", complete_zsh },
		{ "fish", complete_fish },
	};
	AUTO_FREE char *name = NULL;

	name = strndup(programs[0]->name, strcspn(programs[0]->name, " "));
	if (!name)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (strcmp(shell, shells[i].name) == 0)
			return shells[i].write(programs, name, out);
	return -EINVAL;
}
