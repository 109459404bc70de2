// SPDX-License-Identifier: Apache-2.0
/*
 * Find files named by words: words of the command, of words with blanks (`sh -c "..."`), and of
 * scripts and lists of requirements that were found.
 *
 * It is unknown what a program does with its words.  So each part of a word that names a file,
 * relative to the working folder or another named folder, makes that file an input, whatever the
 * program and option: an unnecessary file only costs a capture, a missing one would give a stale
 * restore.  Only files that are certainly not read are left out. docs/environments.md has the
 * rules.
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

#define DEPTH_MAX 8 /* nesting of texts */
#define READS_MAX 256u
#define TEXT_MAX (1u << 20) /* longer files are not scripts or lists */
#define FOLDERS_MAX 32u
#define MATCHES_MAX 256u /* files that a pattern matches */
#define DIGEST_DIGITS_MIN 40u
#define PART_ENDS "=:,@#[]" /* characters that separate the parts of a word */

/* The words of these lists are separated by blanks. */
#define SHELLS "sh bash dash zsh ksh ash"
#define INTERPRETERS SHELLS " perl ruby node"

/* Commands whose operands are not inputs, as they only write contents or read none. */
#define BLIND_COMMANDS \
	"[ [[ cd chmod chown du echo ls mkdir popd printf pushd rm rmdir stat " \
	"tee test touch"

/* Options, and commands, whose value is read: a file there contains words, a folder there counts
 * even without a slash in its name, and a value that only the shell can expand is noted. */
#define INPUT_OPTIONS \
	"-r -c -f -e -C -S --requirement --requirements --constraint " \
	"--constraints --override --overrides --file --editable " \
	"--find-links --path --project --directory --cwd . source"

/* Options whose value is written, and may be ignored.  Only long ones, as short ones have other
 * meanings in other programs. */
#define OUTPUT_OPTIONS \
	"--output --output-document --log --log-file --report --cache-dir " \
	"--target --prefix --root --dest"

/* Folders in which almost any word would name a file. */
#define CROWDED_FOLDERS \
	"/ /bin /etc /lib /sbin /usr /usr/bin /usr/lib /usr/local " \
	"/usr/local/bin /usr/local/lib /usr/local/sbin /usr/sbin /usr/share"

/* A word that may name files, and its properties. */
struct naming_word {
	const struct text_place *at;
	const char *option; /* the option that it is a value of: the word
	                     * before, or the part up to `=` */
	bool is_input;      /* its files are inputs, not only its folders */
	bool is_text;       /* has blanks, so it is examined as a text */
	bool is_open;       /* a pattern, or contains parts that only the
	                     * shell can expand */
	bool is_of_tool;    /* an argument of a package manager */
	bool has_one_path;  /* the word is not a list as in PATH=A:B */
	bool is_content;    /* the contents of a folder named by the present
	                     * part count */
	bool is_found;      /* a file or folder of this name was found */
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool list_has(const char *list, const char *word, size_t len,
		     bool is_part)
{
	for (size_t n; *(list += strspn(list, " ")); list += n) {
		n = strcspn(list, " ");
		if (is_part ? memmem(word, len, list, n) != NULL
			    : n == len && memcmp(word, list, n) == 0)
			return true;
	}
	return false;
}

static bool is_one_of(const char *word, const char *list)
{
	return list_has(list, word, strlen(word), false);
}

/* Does the text contain one of the words in the list? */
static bool has_one_of(const char *text, size_t len, const char *list)
{
	return list_has(list, text, len, true);
}

/* Is the word the value of one of the options, or --OPTION=VALUE? */
static bool is_value_of(const struct naming_word *w, const char *options)
{
	return list_has(options, w->option, strcspn(w->option, "="), false);
}

static bool is_interpreter(const char *word)
{
	const char *base = base_name(word);

	return is_one_of(base, INTERPRETERS) || strncmp(base, "python", 6) == 0;
}

/* The index of the word that is the command's name. */
static size_t find_command_word(const struct shell_words *all, size_t i)
{
	while (i && !all->list[i].is_first)
		i--;
	return i;
}

/* --------------------------------------------------------------------------- URLs --- */

/* Is the command at the word, or a module that it runs (`python3 -m pip`), a package manager? */
static bool is_of_tool(const struct shell_words *all, size_t i)
{
	size_t k = find_command_word(all, i);

	while (k < i && !inputs_is_tool(all->list[k].text))
		k++;
	return inputs_is_tool(all->list[k].text);
}

/* Does the option or variable name a package index, not something to install? */
static bool is_package_index_name(const char *name, size_t len)
{
	return has_one_of(name, len,
			  "INDEX index REGISTRY registry CHANNEL channel PROXY "
			  "proxy find-links");
}

/* Is the word the value of an option for a package index? */
static bool is_package_index_value(const struct shell_words *all, size_t i)
{
	const char *option = all->list[i - 1].text;

	/* "-i" is followed by an index when used with a package manager, or at the start of a
	 * list's line. */
	if (strcmp(option, "-i") == 0)
		return all->list[i - 1].is_first || is_of_tool(all, i);
	/* A word without '-', such as the package llama-index, is no option. */
	return *option == '-' && is_package_index_name(option, strlen(option));
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

/* Note a URL without digest or commit as unknown: its server may change the content. */
static int look_at_url(struct gather *g, const struct shell_words *all,
		       size_t i, const char *url, struct error *err)
{
	const char *word = all->list[i].text, *is = strchr(word, '=');
	AUTO_FREE char *shown = NULL;

	if ((is && is < url &&
	     is_package_index_name(word, (size_t)(is - word))) ||
	    (i && !all->list[i].is_first && is_package_index_value(all, i)) ||
	    has_digest(all, i))
		return 0;
	while (url > word && url[-1] != '=')
		url--;
	shown = text_without_logins(url);
	return shown ? inputs_note(g, err, "what '%s' has: no digest is in it",
				   shown)
		     : error_nomem(err);
}

/* -------------------------------------------------------------------------- files --- */

/* Is the file ignored?  Files of the node itself are, as they differ between nodes, and files in
 * targets, as the base has them. */
static bool is_file_ignored(const struct gather *g, const char *real)
{
	static const char *const own[] = {
		"/proc",
		"/sys",
		"/dev",
		"/run",
		"/etc/hosts",
		"/etc/hostname",
		"/etc/resolv.conf",
		"/etc/mtab",
		"/etc/machine-id",
		"/etc/ld.so.cache",
	};
	const struct env_targets *t = g->from->targets;
	bool is = false;

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		is = is || text_path_holds(own[i], real);
	for (size_t i = 0; i < t->n; i++)
		is = is || text_path_holds(t->paths[i], real);
	return is;
}

static bool is_folder(const char *path, const char *real)
{
	AUTO_FREE char *is = realpath(path, NULL);

	return is && strcmp(is, real) == 0;
}

/* Add a folder in which to look for files, unless it is the working folder or ignored. */
static int add_folder(struct gather *g, const char *path, const char *real,
		      struct error *err)
{
	bool is_known = is_folder(".", real) || is_file_ignored(g, real) ||
			is_one_of(real, CROWDED_FOLDERS);

	for (size_t i = 0; i < g->n_folders && !is_known; i++)
		is_known = is_folder(g->folders[i], real);
	if (is_known)
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

/* Is the text a shell script? */
static bool is_script(const struct naming_word *w, const char *end,
		      const char *text)
{
	return is_one_of(base_name(w->option), SHELLS " . source") ||
	       is_one_of(end, ".sh .bash") ||
	       (strncmp(text, "#!", 2) == 0 &&
		memmem(text + 2, strcspn(text + 2, "\n"), "sh", 2));
}

/* Keep the text of a newly added script or list, to examine its words later.  Its own folder is
 * also searched for files that it names. */
static int keep_script_text(struct gather *g, const struct naming_word *w,
			    const char *path, struct error *err)
{
	const char *base = base_name(path), *end = strrchr(base, '.');
	AUTO_FREE char *folder =
		strndup(path, (size_t)(base - path) - (base > path + 1));
	AUTO_FREE char *real = folder ? realpath(folder, NULL) : NULL;
	AUTO_BUF text = BUF_INIT;
	bool is_of_shell;

	if (fs_read_file(path, TEXT_MAX, &text, NULL) < 0 || !text.data ||
	    memchr(text.data, '\0', text.len))
		return 0;
	is_of_shell = is_script(w, end ? end : "", text.data);
	if (!is_of_shell && !is_value_of(w, INPUT_OPTIONS) &&
	    !is_one_of(end ? end : "", ".txt .in .yml .yaml"))
		return 0;
	if (g->n_texts == READS_MAX)
		return inputs_note(g, err, "what '%s' includes: too much does",
				   path);
	if (!folder || array_grow(&g->texts, g->n_texts, &g->cap_texts, 4) < 0)
		return error_nomem(err);
	g->texts[g->n_texts++] = (struct known_text){
		.at = { .depth = 1, .is_script = is_of_shell },
		.text = buf_steal(&text),
	};
	return real ? add_folder(g, folder, real, err) : 0;
}

/* Do the contents of a folder with this name count?  A name without a slash may mean anything
 * else; a script's absolute folder paths are mostly destinations. */
static bool is_content(const struct naming_word *w, const char *part)
{
	return w->is_input && w->has_one_path &&
	       (strchr(part, '/') || is_one_of(part, ". ..") ||
		is_value_of(w, INPUT_OPTIONS)) &&
	       !is_value_of(w, OUTPUT_OPTIONS) &&
	       (!w->at->is_script || w->is_of_tool || *part != '/');
}

static int look_at_path(struct gather *g, struct naming_word *w,
			const char *path, const char *name, struct error *err)
{
	AUTO_FREE char *real = NULL;
	bool is_new = false;
	struct stat st;
	int rc = 0;

	if (strlen(path) >= PATH_MAX || stat(path, &st) < 0)
		return 0;
	real = realpath(path, NULL);
	if (!real || is_file_ignored(g, real))
		return 0;
	w->is_found = true;
	if (S_ISDIR(st.st_mode)) {
		rc = add_folder(g, path, real, err);
		if (rc == 0 && w->is_content &&
		    !is_one_of(real, CROWDED_FOLDERS))
			rc = inputs_note(g, err, "what is in the folder '%s'",
					 name);
	} else if (w->is_input && S_ISREG(st.st_mode) &&
		   !is_value_of(w, OUTPUT_OPTIONS)) {
		rc = inputs_add_file(g, name, path, &is_new, err);
		if (rc == 0 && is_new)
			rc = keep_script_text(g, w, path, err);
	}
	return rc;
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
	return w->is_open && strpbrk(part, "*?")
		       ? look_at_matches(g, w, path, err)
		       : look_at_path(g, w, path, name, err);
}

/* Do the contents of the working folder not count?  In "/", where containers start, they do not. */
static bool has_no_folder(const struct gather *g)
{
	AUTO_FREE char *real = realpath(".", NULL);

	return real &&
	       (is_file_ignored(g, real) || is_one_of(real, CROWDED_FOLDERS));
}

/* Look up a part of a word in each folder that the command may be in. */
static int look_up_part(struct gather *g, struct naming_word *w,
			const char *part, const char *written,
			struct error *err)
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
	/* Reduce the slashes of file:///PATH to one. */
	part += strspn(part, "/") - (*part == '/');
	written += strspn(written, "/") - (*written == '/');
	w->is_content = is_content(w, part);
	rc = look_in_folder(g, w, NULL, part, written, err);
	for (size_t i = 0; rc == 0 && *part != '/' && i < g->n_folders; i++)
		/* "." is only looked up once, in the working folder; `cd ..` goes up only once. */
		if ((strcmp(part, ".") != 0 || has_no_folder(g)) &&
		    (strncmp(part, "..", 2) != 0 ||
		     strcmp(base_name(g->folders[i]), "..") != 0))
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

/* Look up each part of a word, alone and with all that follows; of -rFILE, FILE; and of
 * $FOLDER/FILE, if only the shell knows the folder, FILE. */
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
		rc = look_up_part(g, &value, text + 2, written + 2, err);
	}
	for (const char *p = text; w->is_open && *p; p++)
		rest = strchr("$`)}", *p) ? strchr(p, '/') : rest;
	if (rc == 0 && rest && strcmp(rest, "/*") != 0)
		rc = look_up_part(g, w, rest + 1, rest + 1, err);
	while (rc == 0) {
		size_t n = strcspn(text, PART_ENDS);
		size_t n_written = strcspn(written, PART_ENDS);
		AUTO_FREE char *part = strndup(text, n);
		AUTO_FREE char *name = strndup(written, n_written);

		if (!part || !name)
			return error_nomem(err);
		rc = look_up_part(g, w, text, written, err);
		w->has_one_path =
			w->has_one_path &&
			(text[n] != ':' || strncmp(text + n, "://", 3) == 0);
		if (rc < 0 || !text[n] || w->is_text)
			return rc;
		/* The part before `=` is an option of the program, such as status= of dd. */
		if (text[n] == '=')
			w->option = word->text;
		else
			rc = look_up_part(g, w, part, name, err);
		text += n + 1;
		written += n_written + 1;
	}
	return rc;
}

/* Judged by name and value, is the variable the same on all nodes? */
static bool is_same_on_all_nodes(const char *name, size_t len,
				 const char *value)
{
	return *value != '/' && !name_is_secret(name, len) &&
	       !has_one_of(name, len,
			   "RANK HOST POD_ USER JOB SLURM NODENAME NODE_NAME "
			   "PROXY");
}

/* Add the variables used in a text, as in `pip install numpy==$VERSION`.  A path in a variable is
 * not added, as the files there are inputs themselves. */
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
		if (value && is_same_on_all_nodes(name, n, value))
			rc = inputs_add_text(g, "variable", copy, value, err);
	}
	return rc;
}

static int look_at_text(struct gather *g, const struct text_place *at,
			const char *text, struct error *err);

/* Note a word that is read and whose value only the shell knows.  Not for a script's own folder,
 * which is searched anyway, nor for a new folder (mktemp), which is empty. */
static int note_unknown_value(struct gather *g, const struct naming_word *w,
			      const struct shell_words *all, size_t i,
			      struct error *err)
{
	const char *text = all->list[i].text;
	bool is_read;

	if (w->is_found || !w->is_open || !strpbrk(text, "$`"))
		return 0;
	/* Outside of quotes, $(...) was split into several words. */
	if (strcmp(text, "$") == 0 && i + 1 < all->n)
		text = all->list[i + 1].text;
	if (is_one_of(w->option, "cd pushd"))
		is_read = !has_one_of(text, strlen(text),
				      "dirname $0 ${0 BASH_SOURCE mktemp");
	else if (is_value_of(w, INPUT_OPTIONS))
		is_read = w->is_input && !w->is_text;
	else
		is_read = w->is_input && strlen(text) > 1 &&
			  (w->is_of_tool || is_interpreter(w->option)) &&
			  (strchr("$`", *text) || strchr(text, '/'));
	return is_read ? inputs_note(g, err,
				     "what '%s' names, which the shell alone "
				     "knows",
				     all->list[i].written)
		       : 0;
}

static int look_at_word(struct gather *g, const struct text_place *at,
			const struct shell_words *all, size_t i,
			struct error *err)
{
	const struct shell_word *word = &all->list[i];
	const char *command = all->list[find_command_word(all, i)].text;
	const char *url = strstr(word->text, "://");
	const struct text_place below = { at->depth + 1, at->is_script };
	struct naming_word w = {
		.at = at,
		/* After --OPTION=VALUE, the next word is not its value. */
		.option = i && !word->is_first && !strchr(word[-1].text, '=')
				  ? word[-1].text
				  : "",
		.is_input = word->is_first || word->is_input ||
			    !is_one_of(base_name(command), BLIND_COMMANDS),
		.is_open = word->is_open,
		.is_of_tool = is_of_tool(all, i),
		.is_text = strpbrk(word->text, url ? " \t\n" : " \t\n;|&<>"),
		.has_one_path = true,
	};
	int rc = 0;

	/* Skip digests, which no file is named after; and the command `.  FILE`, whose "." is not
	 * a folder. */
	if (word->is_output || strncmp(word->text, "--hash", 6) == 0 ||
	    (word->is_first && strcmp(word->text, ".") == 0 && i + 1 < all->n &&
	     !word[1].is_first))
		return 0;
	inputs_note_tool(g, word->text);
	if (word->is_piped && is_interpreter(word->text))
		rc = inputs_note(g, err, "what is piped to '%s'", word->text);
	if (rc == 0 && at->depth && (w.is_of_tool || is_interpreter(command)))
		rc = add_variables_of(g, word->written, err);
	if (rc == 0 && url && !w.is_text &&
	    (url - word->text < 4 || strncmp(url - 4, "file", 4) != 0))
		return look_at_url(g, all, i, url, err);
	if (rc == 0)
		rc = look_at_parts(g, &w, word, err);
	/* The word is a text for a shell, or another program that runs commands. */
	if (rc == 0 && w.is_text && w.is_input)
		rc = look_at_text(g, &below, word->text, err);
	return rc < 0 || !g->is_settled
		       ? rc
		       : note_unknown_value(g, &w, all, i, err);
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

	/* Bounded, as a variable's value may contain the variable itself. */
	if (at->depth > DEPTH_MAX || rc == -E2BIG)
		rc = inputs_note(g, err, "what a script of %zu bytes names",
				 strlen(text));
	else if (rc == 0)
		rc = look_at_words(g, at, &words, err);
	shell_words_fini(&words);
	return rc;
}

/* Is it an interpreter that reads standard input: `sh <setup.sh`, `bash -s`? */
static bool is_interpreter_reading_stdin(char *const *command)
{
	size_t n = 1;

	if (!command[0] || !is_interpreter(command[0]))
		return false;
	while (command[n] && command[n][0] == '-' &&
	       strcmp(command[n], "-s") != 0)
		n++;
	return !command[n] || strcmp(command[n], "-s") == 0;
}

/* Examine the words of the command and of all texts found so far. */
static int look_at_command_and_texts(struct gather *g,
				     const struct shell_words *command,
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

/* Repeated, as a folder found later may have files named earlier; notes about missing files are
 * made in the last round. */
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
		rc = look_at_command_and_texts(g, &all, err);
	} while (rc == 0 && g->n_folders != n_folders);
	g->is_settled = true;
	if (rc == 0)
		rc = look_at_command_and_texts(g, &all, err);
	if (rc == 0 && from->reads_script &&
	    is_interpreter_reading_stdin(from->command))
		rc = inputs_note(g, err, "the script on standard input");
	return rc;
}

int inputs_look_at_list(struct gather *g, const char *path, struct error *err)
{
	const struct text_place at = { .depth = 0 };
	struct naming_word w = { .at = &at, .option = "-r", .is_input = true };

	return look_at_path(g, &w, path, path, err);
}
