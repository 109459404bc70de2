// SPDX-License-Identifier: Apache-2.0
/*
 * Files that the words of a command name, and those that these include: shell scripts are
 * split into words as the command is, lists of requirements are read line by line.  What the
 * program does with its words is not known, so each that names a file counts; in scripts
 * those of commands that read files.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/text.h"
#include "envcache/inputs_priv.h"
#include "envcache/words.h"

#define DEPTH_MAX 8
#define READS_MAX 256u
#define TEXT_MAX (1u << 20) /* a longer file is no script or list of people's */

/* Where words stand. */
struct text_place {
	const char
		*folder; /* of the file that has them; NULL: the command line */
	const char *name; /* of that folder, as far as it was named; "" */
	int depth;
	int n_shells; /* each told by `-c` of the one before */
	bool is_text; /* a shell's, and no words of the command itself */
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_one_of(const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, list[i]) == 0)
			return true;
	return false;
}

static bool is_shell(const char *word)
{
	static const char *const shells[] = { "sh",  "bash", "dash",
					      "zsh", "ksh",  "ash" };

	return is_one_of(base_name(word), shells, ARRAY_SIZE(shells));
}

static bool is_interpreter(const char *word)
{
	static const char *const names[] = { "perl", "ruby", "node" };
	const char *base = base_name(word);

	return is_shell(word) || strncmp(base, "python", 6) == 0 ||
	       is_one_of(base, names, ARRAY_SIZE(names));
}

/* Options whose value is a list of requirements. */
static bool names_list(const char *word)
{
	static const char *const options[] = {
		"-r",
		"-c",
		"--requirement",
		"--requirements",
		"--constraint",
		"--constraints",
		"--override",
		"--overrides",
	};

	return is_one_of(word, options, ARRAY_SIZE(options));
}

/* Options whose value is an index, which is what its URL says. */
static bool names_index(const char *word, size_t len)
{
	static const char *const options[] = {
		"-i",
		"--index-url",
		"--extra-index-url",
		"--index",
		"--default-index",
		"-f",
		"--find-links",
		"--registry",
		"--channel",
		"--proxy",
		"-c",
	};
	bool is = false;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		is = is || (strlen(options[i]) == len &&
			    strncmp(options[i], word, len) == 0);
	return is;
}

/* Options whose value is a file that is written. */
static bool names_output(const char *word)
{
	static const char *const options[] = {
		"-o",    "--output",   "-O",       "--output-document",
		"--log", "--log-file", "--report",
	};

	return is_one_of(word, options, ARRAY_SIZE(options));
}

/* Options whose value is a folder for what comes out, or that may be lost. */
static bool names_output_folder(const char *word)
{
	static const char *const options[] = {
		"-t",          "--target", "--prefix", "--root",
		"--cache-dir", "--dest",   "-d",       "--directory",
	};

	return is_one_of(word, options, ARRAY_SIZE(options));
}

/* --------------------------------------------------------------------------- URLs --- */

static bool has_hex_run(const char *text, size_t want)
{
	for (; *text; text++) {
		size_t n = strspn(text, "0123456789abcdefABCDEF");

		if (n >= want)
			return true;
		text += n;
		if (!*text)
			break;
	}
	return false;
}

/* NAME of NAME=URL, where the value is an index and not something to install. */
static bool is_index_variable(const char *name, size_t len)
{
	static const char *const parts[] = { "INDEX", "REGISTRY", "CHANNEL",
					     "PROXY", "proxy" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (memmem(name, len, parts[i], strlen(parts[i])))
			return true;
	return false;
}

/* Note a URL without digest or commit as unknown: its content is whatever its server
 * says. */
static int look_at_url(struct gather *g, const char *prev, const char *word,
		       struct error *err)
{
	const char *url = strstr(word, "://"), *is = strchr(word, '=');
	AUTO_FREE char *shown = NULL;
	const char *start;

	if (!url || has_hex_run(url, 40))
		return 0;
	if (is && is < url &&
	    (names_index(word, (size_t)(is - word)) ||
	     is_index_variable(word, (size_t)(is - word))))
		return 0;
	if (prev && names_index(prev, strlen(prev)))
		return 0;
	for (start = url; start > word && start[-1] != '=' && start[-1] != ' ';)
		start--;
	if (strncmp(start, "file:", 5) == 0)
		return 0;
	shown = text_without_logins(start);
	return shown ? inputs_note(g, err, "what '%s' has: no digest is in it",
				   shown)
		     : error_nomem(err);
}

/* -------------------------------------------------------------------------- files --- */

static int look_at_text(struct gather *g, const struct text_place *at,
			const char *text, struct error *err);

/* Is the file left out? The kernel's files are, the base's, and those of the system that
 * scripts name, which the image has. */
static bool is_left_out(const struct gather *g, const char *real,
			bool leaves_system)
{
	static const char *const kernel[] = { "/proc", "/sys", "/dev", "/run" };
	static const char *const system[] = { "/bin",    "/etc",  "/lib",
					      "/lib64",  "/sbin", "/usr",
					      "/var/lib" };
	const struct env_targets *t = g->from->targets;
	bool is = false;

	for (size_t i = 0; i < ARRAY_SIZE(kernel); i++)
		is = is || text_path_holds(kernel[i], real);
	for (size_t i = 0; leaves_system && i < ARRAY_SIZE(system); i++)
		is = is || text_path_holds(system[i], real);
	for (size_t i = 0; i < t->n; i++)
		is = is || text_path_holds(t->paths[i], real);
	return is;
}

/* "DIR/NAME", or NAME where there is no folder, or it is absolute. */
static char *path_in(const char *dir, const char *name)
{
	return dir && *dir && *name != '/' ? fs_join(dir, name) : strdup(name);
}

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? strndup(path, (size_t)(slash - path) + (slash == path))
		     : strdup("");
}

/* A list of requirements: what it includes, and URLs in it. */
static int look_at_list_line(struct gather *g, const struct text_place *at,
			     char *line, struct error *err);

static int look_at_list(struct gather *g, const struct text_place *at,
			char *text, struct error *err)
{
	char *save = NULL;
	int rc = 0;

	for (char *line = strtok_r(text, "\n", &save); rc == 0 && line;
	     line = strtok_r(NULL, "\n", &save))
		rc = look_at_list_line(g, at, line, err);
	return rc;
}

enum text_kind { TEXT_OTHER, TEXT_SHELL, TEXT_LIST };

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n >= k && strcmp(text + n - k, end) == 0;
}

static enum text_kind text_kind_of(const char *name, const char *prev,
				   const char *text)
{
	size_t first = strcspn(text, "\n");

	if (prev && names_list(prev))
		return TEXT_LIST;
	if ((prev && (is_shell(prev) || strcmp(prev, ".") == 0 ||
		      strcmp(prev, "source") == 0)) ||
	    ends_with(name, ".sh") || ends_with(name, ".bash") ||
	    (text[0] == '#' && text[1] == '!' && first > 2 &&
	     memmem(text, first, "sh", 2)))
		return TEXT_SHELL;
	return ends_with(name, ".txt") || ends_with(name, ".in") ||
			       ends_with(name, ".yml") ||
			       ends_with(name, ".yaml")
		       ? TEXT_LIST
		       : TEXT_OTHER;
}

/* The file was just added. */
static int look_into(struct gather *g, const struct text_place *at,
		     const char *name, const char *path, const char *prev,
		     struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_FREE char *folder = folder_of(path), *in = folder_of(name);
	const struct text_place below = { .folder = folder,
					  .name = in,
					  .is_text = true,
					  .depth = at->depth + 1 };

	if (!folder || !in)
		return error_nomem(err);
	if (g->n_read == READS_MAX || at->depth == DEPTH_MAX)
		return inputs_note(g, err, "what '%s' includes: too much does",
				   name);
	if (fs_read_file(path, TEXT_MAX, &text, NULL) < 0 || !text.data ||
	    memchr(text.data, '\0', text.len))
		return 0;
	g->n_read++;
	switch (text_kind_of(name, prev, text.data)) {
	case TEXT_SHELL:
		return look_at_text(g, &below, text.data, err);
	case TEXT_LIST:
		return look_at_list(g, &below, text.data, err);
	case TEXT_OTHER:
		break;
	}
	return 0;
}

/* Note that a folder's content is not in the key; a bare word may be anything else. */
static int look_at_folder(struct gather *g, const struct text_place *at,
			  const char *name, const char *prev, struct error *err)
{
	static const char *const inputs[] = { "-e", "--editable",
					      "--find-links", "-f" };

	if (at->depth || (prev && names_output_folder(prev)))
		return 0;
	if (!strchr(name, '/') && strcmp(name, ".") != 0 &&
	    strcmp(name, "..") != 0 &&
	    !(prev && is_one_of(prev, inputs, ARRAY_SIZE(inputs))))
		return 0;
	return inputs_note(g, err, "what is in the folder '%s'", name);
}

/* Does the path lead to a file, from the working folder or from that of a script? */
static int find_path(const struct text_place *at, bool is_list,
		     const char *path, const char *written, char **ret_path,
		     char **ret_name, struct stat *st)
{
	*ret_path = is_list ? path_in(at->folder, path) : strdup(path);
	*ret_name = is_list ? path_in(at->name, written) : strdup(written);
	if (*ret_path && stat(*ret_path, st) == 0)
		return 0;
	if (is_list || !at->folder || *path == '/')
		return -ENOENT;
	free(*ret_path);
	free(*ret_name);
	*ret_path = path_in(at->folder, path);
	*ret_name = path_in(at->name, written);
	return *ret_path && stat(*ret_path, st) == 0 ? 0 : -ENOENT;
}

/* `is_list`: it stands in a list of requirements, and is relative to that. */
static int look_at_path(struct gather *g, const struct text_place *at,
			bool is_list, const char *path, const char *written,
			const char *prev, bool is_program, struct error *err)
{
	AUTO_FREE char *found = NULL, *name = NULL, *real = NULL;
	struct stat st;
	bool is_new = false;
	int rc;

	if (!*path || strlen(path) >= PATH_MAX)
		return 0;
	if (find_path(at, is_list, path, written, &found, &name, &st) < 0)
		return found && name ? 0 : error_nomem(err);
	real = realpath(found, NULL);
	if (!name || !real ||
	    is_left_out(g, real, is_program || at->folder != NULL))
		return 0;
	if (S_ISDIR(st.st_mode))
		return look_at_folder(g, at, name, prev, err);
	if (!S_ISREG(st.st_mode) || (prev && names_output(prev)))
		return 0;
	rc = inputs_add_file(g, name, found, &is_new, err);
	return rc < 0 || !is_new ? rc
				 : look_into(g, at, name, found, prev, err);
}

/* -r FILE, -rFILE, --requirement=FILE, also in the lists of conda: "- -r FILE". */
static int look_at_list_line(struct gather *g, const struct text_place *at,
			     char *line, struct error *err)
{
	AUTO_FREE char *option = NULL;
	char *value;
	size_t n;

	line += strspn(line, " \t");
	if (line[0] == '-' && line[1] == ' ')
		line += 1 + strspn(line + 1, " \t");
	line[strcspn(line, "\r")] = '\0';
	if (*line == '#')
		return 0;
	if (strstr(line, "://") && !strstr(line, "--hash=") &&
	    !names_index(line, strcspn(line, " \t=")))
		return look_at_url(g, NULL, line, err);
	n = strcspn(line, " \t=");
	if (line[0] == '-' && line[1] != '-' && n > 2)
		n = 2;
	option = strndup(line, n);
	if (!option)
		return error_nomem(err);
	if (!names_list(option))
		return 0;
	value = line + n + strspn(line + n, " \t=");
	value[strcspn(value, " \t")] = '\0';
	return look_at_path(g, at, true, value, value, "-r", false, err);
}

/* --------------------------------------------------------------------------- words --- */

/* The part of a word that may be a path: all of it, behind NAME= or --option=, or the rest of
 * -rFILE and -cFILE. */
static const char *value_of(const char *word)
{
	const char *is = strchr(word, '=');

	if (word[0] == '-' && (word[1] == 'r' || word[1] == 'c') && word[2])
		return word + 2;
	return is ? is + 1 : word;
}

static int look_at_value(struct gather *g, const struct text_place *at,
			 const struct shell_word *w, const char *prev,
			 struct error *err)
{
	AUTO_FREE char *option = NULL;
	const char *value = value_of(w->text), *written = value_of(w->written);
	int rc;

	if (value != w->text) {
		size_t n = (size_t)(value - w->text);

		option = strndup(w->text, n - (w->text[n - 1] == '='));
		if (!option)
			return error_nomem(err);
		rc = look_at_path(g, at, false, value, written, option, false,
				  err);
		if (rc < 0)
			return rc;
	}
	return look_at_path(g, at, false, w->text, w->written, prev,
			    w->is_first, err);
}

/* A text for a shell: behind -c of one, such as -lc. */
static bool is_shell_text(const struct shell_word *list, size_t i)
{
	const char *option = i ? list[i - 1].text : "";
	size_t n = strlen(option);

	if (n < 2 || option[0] != '-' || option[1] == '-' ||
	    option[n - 1] != 'c')
		return false;
	for (size_t k = 0; k + 1 < i; k++)
		if (is_shell(list[k].text))
			return true;
	return false;
}

/* The last operand of cp is what it makes. */
static bool is_last_operand(const struct shell_words *all, size_t i)
{
	return i + 1 == all->n || all->list[i + 1].is_first ||
	       all->list[i + 1].is_output;
}

/*
 * Is the word of a shell's text an input where it names a file?  Not of each command: `[ -e
 * DONE ]` asks for what another node makes at this moment.
 */
static bool is_operand(const struct shell_words *all, size_t i)
{
	static const char *const readers[] = {
		"cat",        "tar",  "unzip",   "dpkg", "rpm",   "patch",
		"pip",        "pip3", "pipx",    "uv",   "conda", "mamba",
		"micromamba", "apt",  "apt-get", "dnf",  "yum",   "npm",
		"yarn",       "pnpm", "cargo",   "go",   "make",  "cmake",
		"source",     ".",    "ninja",
	};
	static const char *const copiers[] = { "cp", "install", "mv", "ln",
					       "rsync" };
	/* Their -r and -c have nothing to do with lists. */
	static const char *const others[] = {
		"rm",  "ls",   "sort", "head", "tail",  "grep",
		"cut", "stat", "wc",   "date", "touch", "test",
	};
	const char *name;
	size_t first = i;

	while (first && !all->list[first].is_first)
		first--;
	name = base_name(all->list[first].text);
	return first == i || is_interpreter(name) ||
	       is_one_of(name, readers, ARRAY_SIZE(readers)) ||
	       (is_one_of(name, copiers, ARRAY_SIZE(copiers)) &&
		!is_last_operand(all, i)) ||
	       (names_list(all->list[i - 1].text) &&
		!is_one_of(name, others, ARRAY_SIZE(others)));
}

static int look_at_word(struct gather *g, const struct text_place *at,
			const struct shell_words *all, size_t i,
			struct error *err)
{
	const struct shell_word *list = all->list, *w = &list[i];
	const char *prev = i ? list[i - 1].text : NULL;
	bool is_input = !at->is_text || is_operand(all, i);
	int rc = 0;

	if (w->is_output)
		return 0;
	if (is_shell_text(list, i)) {
		struct text_place in = *at;

		in.is_text = true;
		/* A variable's value may name the variable. */
		return ++in.n_shells > DEPTH_MAX
			       ? inputs_note(g, err,
					     "what a shell is told by a shell: "
					     "too many are")
			       : look_at_text(g, &in, w->text, err);
	}
	inputs_note_tool(g, w->text);
	if (w->is_piped && is_interpreter(w->text))
		rc = inputs_note(g, err, "what is piped to '%s'", w->text);
	if (rc == 0)
		rc = look_at_url(g, prev, w->text, err);
	if (rc == 0 && is_input && w->is_open && prev && names_list(prev) &&
	    !strpbrk(w->text, " \n"))
		return inputs_note(g, err,
				   "the file '%s', whose name the shell alone "
				   "knows",
				   w->written);
	return rc < 0 || strstr(w->text, "://") || !is_input
		       ? rc
		       : look_at_value(g, at, w, prev, err);
}

static int look_at_text(struct gather *g, const struct text_place *at,
			const char *text, struct error *err)
{
	struct shell_words words;
	int rc = shell_words_split(text, g->from->environment, &words, err);

	if (rc == -E2BIG)
		return inputs_note(g, err, "what a script of %zu bytes names",
				   strlen(text));
	for (size_t i = 0; rc == 0 && i < words.n; i++)
		rc = look_at_word(g, at, &words, i, err);
	shell_words_fini(&words);
	return rc;
}

/* An interpreter without a file that it is to read: `sh <setup.sh`, `bash -s`. */
static bool reads_input(char *const *command)
{
	size_t n = 1;

	if (!command[0] || !is_interpreter(command[0]))
		return false;
	while (command[n] && command[n][0] == '-' && command[n][1] &&
	       strcmp(command[n], "-s") != 0 && command[n][1] != '-' &&
	       !strpbrk(command[n], "cem"))
		n++;
	return !command[n] || strcmp(command[n], "-") == 0 ||
	       strcmp(command[n], "-s") == 0;
}

int inputs_look_at_command(struct gather *g, struct error *err)
{
	const struct env_inputs_from *from = g->from;
	const struct text_place at = { .name = "" };
	AUTO_FREE struct shell_word *list = NULL;
	struct shell_words all;
	size_t n = 0;
	int rc = 0;

	while (from->command[n])
		n++;
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++)
		list[i] = (struct shell_word){ .text = from->command[i],
					       .written = from->command[i],
					       .is_first = i == 0 };
	all = (struct shell_words){ .list = list, .n = n };
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = look_at_word(g, &at, &all, i, err);
	if (rc == 0 && from->reads_script && reads_input(from->command))
		rc = inputs_note(g, err, "the script on standard input");
	return rc;
}

int inputs_look_at_list(struct gather *g, const char *path, struct error *err)
{
	const struct text_place at = { .name = "", .depth = 1 };

	return look_at_path(g, &at, false, path, path, "-r", true, err);
}
