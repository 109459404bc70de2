// SPDX-License-Identifier: Apache-2.0
/*
 * Files that the words of a command name, and those that these include: shell scripts are
 * split into words as the command is, lists of requirements are read line by line.  What the
 * program does with its words is not known, so each that names a file counts; in scripts
 * those of commands that read files.
 */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/buf.h"
#include "common/fs.h"
#include "common/text.h"
#include "envcache/inputs_priv.h"
#include "envcache/words.h"

#define DEPTH_MAX 8
#define READS_MAX 256u
#define TEXT_MAX (1u << 20) /* a longer file is no script or list of people's */
#define FOLDERS_MAX 16u     /* that a command goes to */
#define MATCHES_MAX 256u    /* of a pattern */

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

/* Options whose value is the folder that a program works in. */
static bool names_folder(const char *word, size_t len)
{
	static const char *const options[] = {
		"-C", "--directory", "--project", "--cwd", "--prefix", "--path",
	};
	bool is = false;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		is = is || (strlen(options[i]) == len &&
			    strncmp(options[i], word, len) == 0);
	return is;
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

static int look_at_path(struct gather *g, const struct text_place *at,
			bool is_list, const char *path, const char *written,
			const char *prev, bool is_program, struct error *err);

/* file:///PATH, with what may follow it. */
static int look_at_file_url(struct gather *g, const struct text_place *at,
			    const char *url, struct error *err)
{
	const char *path = url + strlen("file:");
	AUTO_FREE char *plain = NULL;

	path += strncmp(path, "//", 2) == 0 ? 2 : 0;
	plain = strndup(path, strcspn(path, "#[; \t"));
	return plain ? look_at_path(g, at, false, plain, plain, NULL, false,
				    err)
		     : error_nomem(err);
}

/* Note a URL without digest or commit as unknown: its content is whatever its server
 * says. */
static int look_at_url(struct gather *g, const struct text_place *at,
		       const char *prev, const char *word, struct error *err)
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
		return look_at_file_url(g, at, start, err);
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
			  bool is_list, const char *name, const char *prev,
			  struct error *err)
{
	static const char *const inputs[] = { "-e", "--editable",
					      "--find-links", "-f", "--path" };

	if ((at->depth && !is_list) || (prev && names_output_folder(prev)))
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

/* The file at `path`, which is called `name`. */
static int look_at_file(struct gather *g, const struct text_place *at,
			const char *path, const char *name, const char *prev,
			bool is_program, struct error *err)
{
	AUTO_FREE char *real = realpath(path, NULL);
	bool is_new = false;
	int rc;

	if (!real || (prev && names_output(prev)) ||
	    is_left_out(g, real, is_program || at->folder != NULL))
		return 0;
	rc = inputs_add_file(g, name, path, &is_new, err);
	return rc < 0 || !is_new ? rc : look_into(g, at, name, path, prev, err);
}

/* A folder that the command has gone to may have a file of the name, too. */
static int look_in_folders(struct gather *g, const struct text_place *at,
			   const char *path, const char *written,
			   const char *prev, bool is_program, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && *path != '/' && i < g->n_folders; i++) {
		AUTO_FREE char *found = path_in(g->folders[i], path);
		AUTO_FREE char *name = path_in(g->folders[i], written);
		struct stat st;

		if (!found || !name)
			return error_nomem(err);
		if (stat(found, &st) == 0 && S_ISREG(st.st_mode))
			rc = look_at_file(g, at, found, name, prev, is_program,
					  err);
	}
	return rc;
}

/* `is_list`: it stands in a list of requirements, and is relative to that. */
static int look_at_path(struct gather *g, const struct text_place *at,
			bool is_list, const char *path, const char *written,
			const char *prev, bool is_program, struct error *err)
{
	AUTO_FREE char *found = NULL, *name = NULL, *real = NULL;
	struct stat st;
	int rc;

	if (!*path || strlen(path) >= PATH_MAX)
		return 0;
	rc = is_list ? 0
		     : look_in_folders(g, at, path, written, prev, is_program,
				       err);
	if (rc < 0)
		return rc;
	if (find_path(at, is_list, path, written, &found, &name, &st) < 0)
		return found && name ? 0 : error_nomem(err);
	if (S_ISREG(st.st_mode))
		return look_at_file(g, at, found, name, prev, is_program, err);
	real = realpath(found, NULL);
	return S_ISDIR(st.st_mode) && !is_program && real &&
			       !is_left_out(g, real, at->folder != NULL)
		       ? look_at_folder(g, at, is_list, name, prev, err)
		       : 0;
}

/* Add where the command goes; what is no folder, or in a target, is let be. */
static int add_folder(struct gather *g, const char *path, struct error *err)
{
	AUTO_FREE char *real = realpath(path, NULL);
	const struct env_targets *t = g->from->targets;
	struct stat st;

	if (!real || stat(real, &st) < 0 || !S_ISDIR(st.st_mode) ||
	    g->n_folders == FOLDERS_MAX)
		return 0;
	for (size_t i = 0; i < t->n; i++)
		if (text_path_holds(t->paths[i], real))
			return 0;
	for (size_t i = 0; i < g->n_folders; i++)
		if (strcmp(g->folders[i], path) == 0)
			return 0;
	if (array_grow(&g->folders, g->n_folders, &g->cap_folders, 4) < 0)
		return error_nomem(err);
	g->folders[g->n_folders] = strdup(path);
	return g->folders[g->n_folders] ? (g->n_folders++, 0)
					: error_nomem(err);
}

/* From the working folder, or from where the command went last. */
static int go_to_folder(struct gather *g, const char *path, struct error *err)
{
	AUTO_FREE char *below =
		path_in(g->n_folders ? g->folders[g->n_folders - 1] : NULL,
			path);
	int rc = below ? add_folder(g, path, err) : error_nomem(err);

	return rc < 0 ? rc : add_folder(g, below, err);
}

/* `cd "$(dirname "$0")"`: scripts go to their own folder by a name that only the shell knows. */
static int go_to_unknown(struct gather *g, const struct text_place *at,
			 const struct shell_words *all, size_t i,
			 struct error *err)
{
	static const char *const known[] = { "dirname", "$0", "${0",
					     "BASH_SOURCE", "mktemp" };
	const char *text = all->list[i].text;
	int rc = at->folder ? add_folder(g, at->folder, err) : 0;
	bool is_known = false;

	/* Outside of quotes $(...) is several words. */
	if (strcmp(text, "$") == 0)
		text = i + 1 < all->n ? all->list[i + 1].text : text;
	for (size_t k = 0; k < ARRAY_SIZE(known); k++)
		is_known = is_known || strstr(text, known[k]);
	return rc < 0 || is_known
		       ? rc
		       : inputs_note(g, err,
				     "files of the folder '%s', whose name the "
				     "shell alone knows",
				     all->list[i].written);
}

/* cd FOLDER, make -C FOLDER, uv --project=FOLDER */
static int look_at_way(struct gather *g, const struct text_place *at,
		       const struct shell_words *all, size_t i,
		       struct error *err)
{
	const struct shell_word *w = &all->list[i];
	const struct shell_word *prev = i ? w - 1 : NULL;
	const char *is = strchr(w->text, '=');

	if (prev && !w->is_first && prev->is_first &&
	    (strcmp(prev->text, "cd") == 0 || strcmp(prev->text, "pushd") == 0))
		return w->is_open ? go_to_unknown(g, at, all, i, err)
				  : go_to_folder(g, w->text, err);
	if (prev && names_folder(prev->text, strlen(prev->text)))
		return go_to_folder(g, w->text, err);
	return is && names_folder(w->text, (size_t)(is - w->text))
		       ? go_to_folder(g, is + 1, err)
		       : 0;
}

/* A wheel, an archive or a folder that a list of requirements names by its path. */
static int look_at_requirement(struct gather *g, const struct text_place *at,
			       const char *option, char *value,
			       struct error *err)
{
	static const char *const options[] = { "-e", "--editable", "-f",
					       "--find-links" };
	static const char *const ends[] = { ".whl", ".gz", ".zip" };
	bool is_path = false;

	if (option[0] == '-' &&
	    !is_one_of(option, options, ARRAY_SIZE(options)))
		return 0;
	value[strcspn(value, " \t;[#")] = '\0';
	is_path = strchr(value, '/') != NULL ||
		  (option[0] == '-' && strcmp(value, ".") == 0);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		is_path = is_path || ends_with(value, ends[i]);
	return is_path ? look_at_path(g, at, true, value, value, option, false,
				      err)
		       : 0;
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
		return look_at_url(g, at, NULL, line, err);
	n = strcspn(line, " \t=");
	if (line[0] == '-' && line[1] != '-' && n > 2)
		n = 2;
	option = strndup(line, n);
	if (!option)
		return error_nomem(err);
	value = line[0] == '-' ? line + n + strspn(line + n, " \t=") : line;
	if (!names_list(option))
		return look_at_requirement(g, at, option, value, err);
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

/* FILE of FILE[EXTRA], as pip has it. */
static char *without_extra(const char *text)
{
	size_t n = strlen(text);
	const char *extra = strrchr(text, '[');

	return n && text[n - 1] == ']' && extra
		       ? strndup(text, (size_t)(extra - text))
		       : strdup(text);
}

static int look_at_matches(struct gather *g, const struct text_place *at,
			   const char *pattern, const char *prev,
			   struct error *err)
{
	glob_t found;
	int rc = 0;

	if (glob(pattern, 0, NULL, &found) != 0)
		return 0;
	if (found.gl_pathc > MATCHES_MAX)
		rc = inputs_note(g, err, "what '%s' names: too much is",
				 pattern);
	for (size_t i = 0; rc == 0 && i < found.gl_pathc && i < MATCHES_MAX;
	     i++)
		rc = look_at_path(g, at, false, found.gl_pathv[i],
				  found.gl_pathv[i], prev, false, err);
	globfree(&found);
	return rc;
}

/* NAME*.whl, in each place where the command may be. */
static int look_at_pattern(struct gather *g, const struct text_place *at,
			   const char *pattern, const char *prev,
			   struct error *err)
{
	int rc = look_at_matches(g, at, pattern, prev, err);

	for (size_t i = 0; rc == 0 && *pattern != '/' && i < g->n_folders;
	     i++) {
		AUTO_FREE char *there = path_in(g->folders[i], pattern);

		rc = there ? look_at_matches(g, at, there, prev, err)
			   : error_nomem(err);
	}
	return rc;
}

static int look_at_value(struct gather *g, const struct text_place *at,
			 const struct shell_word *w, const char *prev,
			 struct error *err)
{
	AUTO_FREE char *option = NULL, *text = without_extra(w->text);
	AUTO_FREE char *as_written = without_extra(w->written);
	const char *value = value_of(w->text), *written = value_of(w->written);
	int rc;

	if (!text || !as_written)
		return error_nomem(err);
	if (w->is_open && strpbrk(text, "*?") && !strpbrk(text, "$`"))
		return look_at_pattern(g, at, text, prev, err);
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
	return look_at_path(g, at, false, text, as_written, prev, w->is_first,
			    err);
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

/* The word that names the command. */
static size_t command_of(const struct shell_words *all, size_t i)
{
	while (i && !all->list[i].is_first)
		i--;
	return i;
}

/* Does the variable say the same on all nodes, as far as its name and value tell? */
static bool is_for_all(const char *name, size_t len, const char *value)
{
	static const char *const parts[] = { "RANK",     "HOST",      "POD_",
					     "USER",     "JOB",       "SLURM",
					     "NODENAME", "NODE_NAME", "PROXY" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (memmem(name, len, parts[i], strlen(parts[i])))
			return false;
	return *value != '/' && !name_is_secret(name, len);
}

/* `pip install numpy==$VERSION`: what is installed is what the variable says.  A path says
 * where, and files count by themselves. */
static int add_variables_of(struct gather *g, const struct shell_words *all,
			    size_t i, struct error *err)
{
	const char *command = all->list[command_of(all, i)].text;
	const char *at = all->list[i].written, *name, *value;
	int rc = 0;

	if (!inputs_is_tool(command) && !is_interpreter(command))
		return 0;
	for (; rc == 0 && (at = strchr(at, '$')) != NULL; at = name) {
		size_t n = shell_variable_name(at, &name);
		AUTO_FREE char *copy = strndup(name, n);

		if (!copy)
			return error_nomem(err);
		value = n ? variable_find(g->from->environment, name, n) : NULL;
		if (value && is_for_all(name, n, value))
			rc = inputs_add_text(g, "variable", copy, value, err);
	}
	return rc;
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
	size_t first = command_of(all, i);
	const char *name = base_name(all->list[first].text);

	return first == i || all->list[i].is_input || is_interpreter(name) ||
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
		rc = look_at_way(g, at, all, i, err);
	if (rc == 0 && at->is_text)
		rc = add_variables_of(g, all, i, err);
	if (rc == 0)
		rc = look_at_url(g, at, prev, w->text, err);
	if (rc == 0 && is_input && w->is_open && prev &&
	    (names_list(prev) ||
	     (is_interpreter(prev) && strchr(w->text, '/'))) &&
	    !strpbrk(w->text, " \n*?"))
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
