// SPDX-License-Identifier: Apache-2.0
/*
 * Files that words name: those of the command, those of a word with blanks (`sh -c "..."`), and
 * those of scripts and lists of requirements that were found.  What a program does with its
 * words is not known, so each part of a word counts that names a file, from the working folder
 * or from a folder that words name.  docs/environments.md has the rule.
 */
#include <ctype.h>
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
#define FOLDERS_MAX 32u
#define MATCHES_MAX 256u /* of a pattern */
#define DIGEST_DIGITS_MIN 40u
#define PART_ENDS "=:,@#[]" /* what parts of a word stand between */

/* Lists of words end with NULL. */
static const char *const shells[] = {
	"sh", "bash", "dash", "zsh", "ksh", "ash", NULL,
};

/* Commands whose words name no inputs: they read no content, or only write it. */
static const char *const blind_commands[] = {
	"[",    "[[",    "cd",   "chmod",  "chown", "du", "echo",
	"ls",   "mkdir", "popd", "printf", "pushd", "rm", "rmdir",
	"stat", "tee",   "test", "touch",  NULL,
};

/* The last operand of these is what they make. */
static const char *const copiers[] = {
	"cp", "install", "ln", "mv", "rsync", NULL,
};

/* Options whose value is ... a list of requirements */
static const char *const list_options[] = {
	"-r",
	"-c",
	"--requirement",
	"--requirements",
	"--constraint",
	"--constraints",
	"--override",
	"--overrides",
	NULL,
};

/* ... a file that is read, as are these commands' */
static const char *const read_options[] = {
	"-f", "--file", ".", "source", NULL,
};

/* ... a file that is written */
static const char *const output_options[] = {
	"-o",    "--output",   "-O",       "--output-document",
	"--log", "--log-file", "--report", NULL,
};

/* ... a folder for what comes out, or that may be lost */
static const char *const output_folder_options[] = {
	"-t",     "--target", "--prefix",    "--root", "--cache-dir",
	"--dest", "-d",       "--directory", NULL,
};

/* ... the folder that a program works in */
static const char *const folder_options[] = {
	"-C", "--directory", "--project", "--cwd", "--prefix", "--path", NULL,
};

/* ... a folder of what is installed, also where its name has no slash. */
static const char *const source_options[] = {
	"-e", "--editable", "--find-links", "-f", "--path", "-S", NULL,
};

/* A word that may name files. */
struct naming_word {
	const struct text_place *at;
	const char *option;     /* whose value it is, or the word before; "" */
	const char *own_option; /* of --OPTION=VALUE, NAME=VALUE */
	bool is_input;     /* files that it names count, and not only folders */
	bool is_program;   /* it names what is run */
	bool is_text;      /* it has blanks: words of its own, and no parts */
	bool is_open;      /* a pattern, or partly known to the shell alone */
	bool is_of_tool;   /* a package manager's */
	bool has_one_path; /* it is no list of paths, as PATH=A:B */
	bool is_path;      /* the part at hand is no bare name */
	bool is_found;     /* something of that name is there */
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_one_of(const char *word, const char *const *list)
{
	while (*list && strcmp(word, *list) != 0)
		list++;
	return *list != NULL;
}

static bool is_interpreter(const char *word)
{
	static const char *const names[] = { "perl", "ruby", "node", NULL };
	const char *base = base_name(word);

	return is_one_of(base, shells) || is_one_of(base, names) ||
	       strncmp(base, "python", 6) == 0;
}

static bool has_one_of(const char *name, size_t len, const char *const *parts)
{
	while (*parts && !memmem(name, len, *parts, strlen(*parts)))
		parts++;
	return *parts != NULL;
}

/* The word that names the command. */
static size_t command_of(const struct shell_words *all, size_t i)
{
	while (i && !all->list[i].is_first)
		i--;
	return i;
}

/* --------------------------------------------------------------------------- URLs --- */

/* Does the command at the word, or what it runs (`python3 -m pip`), have a name that begins so?
 * NULL: any package manager's. */
static bool is_of_tool(const struct shell_words *all, size_t i,
		       const char *begin)
{
	bool is = false;

	for (size_t k = command_of(all, i); k <= i && !is; k++) {
		const char *word = all->list[k].text;

		is = inputs_is_tool(word) &&
		     (!begin ||
		      strncmp(base_name(word), begin, strlen(begin)) == 0);
	}
	return is;
}

/* Does the option or variable have an index, and nothing to install? */
static bool names_index(const char *name, size_t len)
{
	static const char *const parts[] = {
		"INDEX",   "index", "REGISTRY", "registry",   "CHANNEL",
		"channel", "PROXY", "proxy",    "find-links", NULL
	};

	return has_one_of(name, len, parts);
}

/* Is the word the value of an option that has an index?  What -f and -c have depends on whose
 * they are. */
static bool is_behind_index(const struct text_place *at,
			    const struct shell_words *all, size_t i)
{
	const char *option = all->list[i - 1].text;

	if (strcmp(option, "-i") == 0 || strcmp(option, "-f") == 0)
		return at->is_list || is_of_tool(all, i, "pip") ||
		       is_of_tool(all, i, "uv");
	if (strcmp(option, "-c") == 0)
		return is_of_tool(all, i, "conda") ||
		       is_of_tool(all, i, "mamba") ||
		       is_of_tool(all, i, "micromamba");
	/* `pip config set global.index-url URL`; the package llama-index is none. */
	return (*option == '-' ||
		(i > 1 && strcmp(all->list[i - 2].text, "set") == 0)) &&
	       names_index(option, strlen(option));
}

static bool has_digest(const struct shell_words *all, size_t i)
{
	static const char hex[] = "0123456789abcdefABCDEF";
	const char *p = all->list[i].text;

	for (size_t n; *(p += strcspn(p, hex)); p += n) {
		n = strspn(p, hex);
		if (n >= DIGEST_DIGITS_MIN)
			return true;
	}
	while (++i < all->n) {
		if (strncmp(all->list[i].text, "--hash", 6) == 0)
			return true;
		if (all->list[i].is_first)
			break;
	}
	return false;
}

/* Note a URL without digest or commit as unknown: its content is whatever its server
 * says. */
static int look_at_url(struct gather *g, const struct text_place *at,
		       const struct shell_words *all, size_t i,
		       struct error *err)
{
	const char *word = all->list[i].text, *url = strstr(word, "://");
	const char *is = strchr(word, '='), *start = url;
	AUTO_FREE char *shown = NULL;

	if (!url ||
	    (is && is < url && names_index(word, (size_t)(is - word))) ||
	    (i && !all->list[i].is_first && is_behind_index(at, all, i)) ||
	    has_digest(all, i))
		return 0;
	while (start > word && start[-1] != '=')
		start--;
	if (strstr(start, "file:"))
		return 0;
	shown = text_without_logins(start);
	return shown ? inputs_note(g, err, "what '%s' has: no digest is in it",
				   shown)
		     : error_nomem(err);
}

/* -------------------------------------------------------------------------- files --- */

/* The folder of the system that the path is in, or NULL. */
static const char *system_folder_of(const char *real)
{
	static const char *const system[] = {
		"/bin",           "/etc",       "/lib",
		"/lib64",         "/sbin",      "/usr/bin",
		"/usr/sbin",      "/usr/lib",   "/usr/lib64",
		"/usr/libexec",   "/usr/share", "/usr/local/bin",
		"/usr/local/lib", "/var/lib",
	};

	for (size_t i = 0; i < ARRAY_SIZE(system); i++)
		if (text_path_holds(system[i], real))
			return system[i];
	return NULL;
}

/* Is it below the working folder or one that the command named, which itself is below a
 * folder of the system? */
static bool is_below_named(const struct gather *g, const char *real)
{
	bool is = false;

	for (size_t i = 0; i <= g->n_folders && !is; i++) {
		AUTO_FREE char *named =
			realpath(i ? g->folders[i - 1] : ".", NULL);
		const char *of = named ? system_folder_of(named) : NULL;

		is = of && strcmp(of, named) != 0 &&
		     text_path_holds(named, real);
	}
	return is;
}

/* Is the file left out? The kernel's files are, the base's, and those of the system where the
 * image has them. */
static bool is_left_out(const struct gather *g, const char *real,
			bool leaves_system)
{
	static const char *const kernel[] = { "/proc", "/sys", "/dev", "/run" };
	const struct env_targets *t = g->from->targets;
	bool is = leaves_system && system_folder_of(real) &&
		  !is_below_named(g, real);

	for (size_t i = 0; i < ARRAY_SIZE(kernel); i++)
		is = is || text_path_holds(kernel[i], real);
	for (size_t i = 0; i < t->n; i++)
		is = is || text_path_holds(t->paths[i], real);
	return is;
}

static bool is_folder(const char *path, const char *real)
{
	AUTO_FREE char *is = realpath(path, NULL);

	return is && strcmp(is, real) == 0;
}

/* Add a folder that files may be in; the working folder is none of them.  /usr/bin and its like
 * have programs of any word's name. */
static int add_folder(struct gather *g, const char *path, bool leaves_system,
		      struct error *err)
{
	AUTO_FREE char *real = realpath(path, NULL);
	const char *of = real ? system_folder_of(real) : NULL;

	if (!real || is_folder(".", real) || strcmp(real, "/") == 0 ||
	    (of && strcmp(of, real) == 0) ||
	    is_left_out(g, real, leaves_system))
		return 0;
	for (size_t i = 0; i < g->n_folders; i++)
		if (is_folder(g->folders[i], real))
			return 0;
	if (g->n_folders == FOLDERS_MAX)
		return inputs_note(g, err,
				   "what is in the folder '%s': there are more "
				   "than %u",
				   path, FOLDERS_MAX);
	if (array_grow(&g->folders, g->n_folders, &g->cap_folders, 4) < 0)
		return error_nomem(err);
	g->folders[g->n_folders] = strdup(path);
	return g->folders[g->n_folders] ? (g->n_folders++, 0)
					: error_nomem(err);
}

static int look_at_text(struct gather *g, const struct text_place *at,
			const char *text, struct error *err);

static bool ends_with_one_of(const char *name, const char *const *ends)
{
	const char *dot = strrchr(base_name(name), '.');

	return dot && is_one_of(dot, ends);
}

/* Is the file a shell's script, or a list?  `option`: what stands before its name. */
static bool is_script(const char *name, const char *option, const char *text)
{
	static const char *const ends[] = { ".sh", ".bash", NULL };
	size_t first = strcspn(text, "\n");

	return is_one_of(base_name(option), shells) ||
	       strcmp(option, ".") == 0 || strcmp(option, "source") == 0 ||
	       ends_with_one_of(name, ends) ||
	       (text[0] == '#' && text[1] == '!' && first > 2 &&
		memmem(text, first, "sh", 2));
}

static bool is_list(const char *name, const char *option)
{
	static const char *const ends[] = { ".txt", ".in", ".yml", ".yaml",
					    NULL };

	return is_one_of(option, list_options) || ends_with_one_of(name, ends);
}

/* The words of a file that was just added, which names others from its own folder, too. */
static int look_into(struct gather *g, const struct naming_word *w,
		     const char *name, const char *path, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct text_place below = { .is_text = true,
				    .is_file = true,
				    .depth = w->at->depth + 1 };
	struct known_text *known;
	int rc = 0;

	if (g->n_texts == READS_MAX || w->at->depth == DEPTH_MAX)
		return inputs_note(g, err, "what '%s' includes: too much does",
				   name);
	if (fs_read_file(path, TEXT_MAX, &text, NULL) < 0 || !text.data ||
	    memchr(text.data, '\0', text.len))
		return 0;
	below.is_list = !is_script(name, w->option, text.data);
	if (below.is_list && !is_list(name, w->option))
		return 0;
	if (array_grow(&g->texts, g->n_texts, &g->cap_texts, 4) < 0)
		return error_nomem(err);
	known = &g->texts[g->n_texts++];
	*known = (struct known_text){ .at = below, .text = strdup(text.data) };
	if (!known->text)
		return error_nomem(err);
	if (base_name(path) > path + 1) {
		AUTO_FREE char *folder =
			strndup(path, (size_t)(base_name(path) - path) - 1);

		rc = folder ? add_folder(g, folder, w->at->is_file, err)
			    : error_nomem(err);
	}
	return rc < 0 ? rc : look_at_text(g, &below, text.data, err);
}

/* A folder's content is not in the key; a bare name may be anything else, and a script's folders
 * are of no account but to package managers. */
static bool is_content(const struct naming_word *w)
{
	bool is_source = is_one_of(w->option, source_options) ||
			 /* `tar -C` has what comes out */
			 (w->is_of_tool && strcmp(w->option, "-C") == 0);

	return w->is_input && !w->is_program &&
	       ((w->is_path && w->has_one_path) || is_source) &&
	       !is_one_of(w->option, output_folder_options) &&
	       (!w->at->is_file || w->at->is_list || w->is_of_tool ||
		strcmp(w->option, "-S") == 0);
}

static int look_at_path(struct gather *g, struct naming_word *w,
			const char *path, const char *name, struct error *err)
{
	AUTO_FREE char *real = NULL;
	bool is_new = false;
	struct stat st;
	int rc;

	if (strlen(path) >= PATH_MAX || stat(path, &st) < 0)
		return 0;
	real = realpath(path, NULL);
	if (!real || is_left_out(g, real, w->is_program || w->at->is_file))
		return 0;
	w->is_found = true;
	if (S_ISDIR(st.st_mode)) {
		rc = add_folder(g, path, w->at->is_file || !w->has_one_path,
				err);
		return rc < 0 || !is_content(w)
			       ? rc
			       : inputs_note(g, err,
					     "what is in the folder '%s'",
					     name);
	}
	if (!w->is_input || !S_ISREG(st.st_mode) ||
	    is_one_of(w->option, output_options))
		return 0;
	rc = inputs_add_file(g, name, path, &is_new, err);
	return rc < 0 || !is_new ? rc : look_into(g, w, name, path, err);
}

static int look_at_matches(struct gather *g, struct naming_word *w,
			   const char *pattern, struct error *err)
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
		rc = look_at_path(g, w, found.gl_pathv[i], found.gl_pathv[i],
				  err);
	globfree(&found);
	return rc;
}

static int look_in_folder(struct gather *g, struct naming_word *w,
			  const char *folder, const char *part,
			  const char *written, struct error *err)
{
	AUTO_FREE char *path = folder ? fs_join(folder, part) : strdup(part);
	AUTO_FREE char *name =
		folder ? fs_join(folder, written) : strdup(written);

	if (!path || !name)
		return error_nomem(err);
	return w->is_open && strpbrk(part, "*?") && !strpbrk(part, "$`")
		       ? look_at_matches(g, w, path, err)
		       : look_at_path(g, w, path, name, err);
}

/* Look for what a part of a word names, wherever the command may be. */
static int look_for(struct gather *g, struct naming_word *w, const char *part,
		    const char *written, struct error *err)
{
	const char *home = variable_find(g->from->environment, "HOME", 4);
	AUTO_FREE char *at_home = NULL;
	int rc;

	if (!*part || !*written ||
	    strspn(part, "0123456789abcdefABCDEF") >= DIGEST_DIGITS_MIN)
		return 0;
	if (strncmp(part, "~/", 2) == 0 && home) {
		part = at_home = fs_join(home, part + 2);
		if (!part)
			return error_nomem(err);
	}
	/* file:///PATH */
	part += strspn(part, "/") - (*part == '/');
	written += strspn(written, "/") - (*written == '/');
	w->is_path = strchr(part, '/') || strcmp(part, ".") == 0 ||
		     strcmp(part, "..") == 0;
	rc = look_in_folder(g, w, NULL, part, written, err);
	for (size_t i = 0; rc == 0 && *part != '/' && i < g->n_folders; i++)
		/* `cd ..` goes up once. */
		if (strncmp(part, "..", 2) != 0 ||
		    strcmp(base_name(g->folders[i]), "..") != 0)
			rc = look_in_folder(g, w, g->folders[i], part, written,
					    err);
	return rc;
}

/* --------------------------------------------------------------------------- words --- */

static size_t count_parts(const char *word)
{
	size_t n = 0;

	while (*(word += strcspn(word, PART_ENDS))) {
		word++;
		n++;
	}
	return n;
}

/* Each part of a word, alone and with all that follows it; of -rFILE what follows the option,
 * and of $FOLDER/FILE, if the shell alone knows where that is, FILE. */
static int look_at_parts(struct gather *g, struct naming_word *w,
			 const struct shell_word *word, struct error *err)
{
	const char *text = word->text, *written = word->written, *rest = NULL;
	int rc = 0;

	if (count_parts(text) != count_parts(written) ||
	    (text[0] == '-') != (written[0] == '-'))
		written = text;
	if (text[0] == '-' && isalpha((unsigned char)text[1]) && text[2] &&
	    !w->is_text) {
		char letter[] = { '-', text[1], '\0' };
		struct naming_word value = *w;

		value.option = letter;
		rc = look_for(g, &value, text + 2, written + 2, err);
	}
	for (const char *p = text; w->is_open && *p; p++)
		rest = strchr("$`)}", *p) ? strchr(p, '/') : rest;
	if (rc == 0 && rest && strcmp(rest, "/*") != 0)
		rc = look_for(g, w, rest + 1, rest + 1, err);
	for (; rc == 0; w->is_program = false) {
		size_t n = strcspn(text, PART_ENDS);
		size_t n_written = strcspn(written, PART_ENDS);
		AUTO_FREE char *part = strndup(text, n);
		AUTO_FREE char *name = strndup(written, n_written);

		if (!part || !name)
			return error_nomem(err);
		rc = look_for(g, w, text, written, err);
		w->has_one_path = w->has_one_path && text[n] != ':';
		if (rc < 0 || !text[n] || w->is_text)
			return rc;
		/* Before `=` stands a name of the program's, as status of dd. */
		if (text[n] == '=')
			w->option = w->own_option;
		else
			rc = look_for(g, w, part, name, err);
		text += n + 1;
		written += n_written + 1;
	}
	return rc;
}

/* Does the variable say the same on all nodes, as far as its name and value tell? */
static bool is_for_all(const char *name, size_t len, const char *value)
{
	static const char *const parts[] = {
		"RANK",  "HOST",     "POD_",      "USER",  "JOB",
		"SLURM", "NODENAME", "NODE_NAME", "PROXY", NULL,
	};

	return *value != '/' && !has_one_of(name, len, parts) &&
	       !name_is_secret(name, len);
}

/* `pip install numpy==$VERSION`: what is installed is what the variable says.  A path says
 * where, and files count by themselves. */
static int add_variables_of(struct gather *g, const char *at, struct error *err)
{
	const char *name, *value;
	int rc = 0;

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

/* Note a word whose value the shell alone knows where it is what is read.  A script's own
 * folder is looked in anyway, and a new one is empty. */
static int note_open(struct gather *g, const struct naming_word *w,
		     const struct shell_words *all, size_t i, struct error *err)
{
	static const char *const known[] = { "dirname",     "$0",     "${0",
					     "BASH_SOURCE", "mktemp", NULL };
	const char *text = all->list[i].text;
	bool is_folder = strcmp(w->option, "cd") == 0 ||
			 strcmp(w->option, "pushd") == 0 ||
			 is_one_of(w->option, folder_options);

	/* Outside of quotes $(...) is several words. */
	if (strcmp(text, "$") == 0 && i + 1 < all->n)
		text = all->list[i + 1].text;
	if (w->is_found || !w->is_open || !strpbrk(all->list[i].text, "$`") ||
	    (w->is_text && strcmp(w->option, "-c") == 0) ||
	    (is_folder && has_one_of(text, strlen(text), known)) ||
	    !(is_folder ||
	      (w->is_input &&
	       (is_one_of(w->option, list_options) ||
		is_one_of(w->option, read_options) ||
		(w->is_of_tool && text[1] &&
		 (strchr("$`", *text) || strchr(text, '/'))) ||
		(is_interpreter(w->option) && strchr(text, '/'))))))
		return 0;
	return inputs_note(g, err,
			   "what '%s' names, which the shell alone knows",
			   all->list[i].written);
}

/* `unzip -o x.zip`, `python3 -O setup.py`: -o and -O have no value. */
static bool is_behind_switch(const struct shell_words *all, size_t i)
{
	const char *option = i ? all->list[i - 1].text : "";
	bool is = false;

	for (size_t k = command_of(all, i); k < i && !is; k++) {
		const char *word = all->list[k].text;

		is = (strcmp(option, "-o") == 0 &&
		      strcmp(base_name(word), "unzip") == 0) ||
		     (strcmp(option, "-O") == 0 && is_interpreter(word));
	}
	return is;
}

/* `cp -t FOLDER a b`: the last one is no output. */
static bool has_target_option(const struct shell_words *all, size_t i)
{
	size_t k = command_of(all, i);
	bool is = false;

	if (strcmp(base_name(all->list[k].text), "rsync") == 0)
		return false;
	for (; k < i && !is; k++)
		is = strncmp(all->list[k].text, "-t", 2) == 0 ||
		     strncmp(all->list[k].text, "--target-d", 10) == 0;
	return is;
}

/* May files that the word names be inputs? */
static bool is_input(const struct shell_words *all, size_t i)
{
	const char *command = base_name(all->list[command_of(all, i)].text);
	bool is_last = i + 1 == all->n || all->list[i + 1].is_first ||
		       all->list[i + 1].is_output;

	return all->list[i].is_first || all->list[i].is_input ||
	       !(is_one_of(command, blind_commands) ||
		 (is_last && is_one_of(command, copiers) &&
		  !has_target_option(all, i)));
}

/* A text for a shell, or for another program that runs commands. */
static int look_at_inner_text(struct gather *g, const struct text_place *at,
			      const char *text, struct error *err)
{
	struct text_place in = *at;

	in.is_text = true;
	in.is_list = false;
	/* A variable's value may name the variable. */
	return ++in.depth > DEPTH_MAX
		       ? inputs_note(g, err,
				     "what a shell is told by a shell: too "
				     "many are")
		       : look_at_text(g, &in, text, err);
}

static int look_at_word(struct gather *g, const struct text_place *at,
			const struct shell_words *all, size_t i,
			struct error *err)
{
	const struct shell_word *word = &all->list[i];
	const char *command = all->list[command_of(all, i)].text;
	AUTO_FREE char *option = strndup(word->text, strcspn(word->text, "="));
	bool is_url = strstr(word->text, "://") != NULL;
	struct naming_word w = {
		.at = at,
		.option = i && !word->is_first && !is_behind_switch(all, i)
				  ? word[-1].text
				  : "",
		.own_option = option,
		.is_input = at->is_list || is_input(all, i),
		.is_program = word->is_first && !at->is_list,
		.is_open = word->is_open,
		.is_of_tool = is_of_tool(all, i, NULL),
		.is_text = strpbrk(word->text, is_url ? " \t\n" : " \t\n;|&<>"),
		.has_one_path = true,
	};
	int rc = 0;

	if (!option)
		return error_nomem(err);
	/* Names that digests have would be asked for one by one, in vain. */
	if (word->is_output || strncmp(word->text, "--hash", 6) == 0)
		return 0;
	inputs_note_tool(g, word->text);
	if (word->is_piped && is_interpreter(word->text))
		rc = inputs_note(g, err, "what is piped to '%s'", word->text);
	if (rc == 0 && at->is_text && (w.is_of_tool || is_interpreter(command)))
		rc = add_variables_of(g, word->written, err);
	if (rc == 0 && is_url && !w.is_text && !strstr(word->text, "file:"))
		return look_at_url(g, at, all, i, err);
	if (rc == 0)
		rc = look_at_parts(g, &w, word, err);
	if (rc == 0 && w.is_text && w.is_input)
		rc = look_at_inner_text(g, at, word->text, err);
	return rc < 0 || !g->is_settled ? rc : note_open(g, &w, all, i, err);
}

static int look_at_words(struct gather *g, const struct text_place *at,
			 const struct shell_words *all, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < all->n; i++)
		rc = look_at_word(g, at, all, i, err);
	return rc;
}

static int look_at_text(struct gather *g, const struct text_place *at,
			const char *text, struct error *err)
{
	struct shell_words words;
	int rc = shell_words_split(text, g->from->environment, &words, err);

	if (rc == -E2BIG)
		return inputs_note(g, err, "what a script of %zu bytes names",
				   strlen(text));
	if (rc == 0)
		rc = look_at_words(g, at, &words, err);
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

/* The words of the command and of all texts that are known. */
static int look_at_all(struct gather *g, const struct shell_words *command,
		       struct error *err)
{
	const struct text_place at = { .depth = 0 };
	int rc = look_at_words(g, &at, command, err);

	for (size_t i = 0; rc == 0 && i < g->n_texts; i++) {
		const struct known_text t = g->texts[i];

		rc = look_at_text(g, &t.at, t.text, err);
	}
	return rc;
}

/* Folders that are named later may have files that are named before; what no folder has is
 * told last. */
int inputs_look_at_command(struct gather *g, struct error *err)
{
	const struct env_inputs_from *from = g->from;
	AUTO_FREE struct shell_word *list = NULL;
	struct shell_words all = { .n = 0 };
	size_t n_folders;
	int rc;

	while (from->command[all.n])
		all.n++;
	list = all.list = calloc(all.n + 1, sizeof(*list));
	if (!list)
		return error_nomem(err);
	for (size_t i = 0; i < all.n; i++)
		list[i] = (struct shell_word){ .text = from->command[i],
					       .written = from->command[i],
					       .is_first = i == 0 };
	do {
		n_folders = g->n_folders;
		rc = look_at_all(g, &all, err);
	} while (rc == 0 && g->n_folders != n_folders);
	g->is_settled = true;
	if (rc == 0)
		rc = look_at_all(g, &all, err);
	if (rc == 0 && from->reads_script && reads_input(from->command))
		rc = inputs_note(g, err, "the script on standard input");
	return rc;
}

int inputs_look_at_list(struct gather *g, const char *path, struct error *err)
{
	const struct text_place at = { .is_file = true };
	struct naming_word w = {
		.at = &at, .option = "-r", .is_input = true, .is_program = true
	};

	return look_at_path(g, &w, path, path, err);
}
