// SPDX-License-Identifier: Apache-2.0
/*
 * Commands: of the image's config, of the first line of scripts, and in shell scripts, in which
 * words are looked for without a grammar. A word wrongly taken for a file's name costs only the
 * bytes of that file.
 */
#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

#include "image/closure/closure_priv.h"

/* words of a script's first line, and the script's own path */
#define HEAD_WORDS_MAX 4u
#define WORDS_MAX 64u /* words of a command: each may be a command itself */
#define DEFAULT_PATH \
	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* --------------------------------------------------------------- programs --- */

/* Find a program by the word that names it; false: it is not in the image. */
static bool find_program(struct closure *c, const char *word, char **ret,
			 struct rootfs_file *found)
{
	const char *list = closure_env(c, "PATH");
	const char *folder = c->start->folder;
	bool is_here = false;

	if (strchr(word, '/'))
		list = *word == '/' || !folder ? "" : folder;
	else if (!list)
		list = DEFAULT_PATH;
	*ret = NULL;
	do {
		size_t len = strcspn(list, ":");

		if (len > ROOTFS_PATH_MAX)
			break;
		free(*ret);
		if (asprintf(ret, "%.*s/%s", (int)len, list, word) < 0) {
			*ret = NULL;
			return false;
		}
		is_here = closure_find_file(c, *ret, found);
		list += len + (list[len] == ':');
	} while (!is_here && *list && !closure_is_spent(c));
	return is_here;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_shell(const char *name)
{
	static const char *const names[] = { "sh", "bash", "dash", "ash" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static int scan_shell(struct closure *c, const char *text, size_t len,
		      struct error *err);
static closure_look_fn look_shell_script;

/* Look into a file named by a command's argument: a program, or data of the command. */
static int look_into_argument_file(struct closure *c, struct closure_file *f,
				   struct error *err)
{
	char head[4];
	int rc;

	if (f->want.len < sizeof(head))
		return closure_add_range(c, &f->inode, 0, f->inode.size, err);
	rc = closure_read(c, &f->inode, 0, head, sizeof(head), err);
	if (rc < 0)
		return rc;
	if (memcmp(head, "\177ELF", 4) == 0 || memcmp(head, "#!", 2) == 0)
		return closure_look_program(c, f, err);
	return f->inode.size <= CLOSURE_TEXT_MAX
		       ? closure_add_range(c, &f->inode, 0, f->inode.size, err)
		       : 0;
}

/* Visit files whose absolute paths are arguments of a command. */
static int visit_words(struct closure *c, const char *const *words, size_t n,
		       struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		if (words[i][0] == '/')
			rc = closure_visit(c, words[i], look_into_argument_file,
					   CLOSURE_HEAD, err);
	return rc;
}

static int run_shell(struct closure *c, const char *const *words, size_t n,
		     struct error *err)
{
	while (n && words[0][0] == '-') {
		if (n > 1 && words[0][strlen(words[0]) - 1] == 'c')
			return scan_shell(c, words[1], strlen(words[1]), err);
		words++;
		n--;
	}
	return n && strchr(words[0], '/')
		       ? closure_visit(c, words[0], look_shell_script,
				       CLOSURE_TEXT_MAX, err)
		       : 0;
}

/* Count the words of a wrapper (env, tini) before the command that it runs. */
static size_t count_wrapper_words(const char *name, const char *const *words,
				  size_t n)
{
	size_t i = 1;

	if (strcmp(name, "env") == 0) {
		while (i < n && (words[i][0] == '-' || strchr(words[i], '=')))
			i++;
		return i;
	}
	for (; i < n; i++)
		if (strcmp(words[i], "--") == 0)
			return i + 1;
	return n;
}

int closure_run(struct closure *c, const char *const *words, size_t n,
		struct error *err)
{
	AUTO_FREE char *path = NULL;
	struct rootfs_file found;
	const char *name;
	size_t own;
	int rc;

	if (closure_is_spent(c))
		return 0;
	n = n < WORDS_MAX ? n : WORDS_MAX;
	/* The command may be a function of the script, which runs its arguments. */
	if (!find_program(c, words[0], &path, &found))
		return visit_words(c, words + 1, n - 1, err);
	rc = closure_visit_program(c, path, err);
	if (rc < 0)
		return rc;
	name = base_name(found.path);
	if (strncmp(name, "python3", 7) == 0)
		return closure_run_python(c, path, words + 1, n - 1, err);
	if (strcmp(name, "java") == 0)
		return closure_run_java(c, &found, words + 1, n - 1, err);
	/* busybox and dash run as shells when the name of the link says so. */
	if (rc == 0 && (is_shell(name) || is_shell(base_name(words[0]))))
		return run_shell(c, words + 1, n - 1, err);
	own = count_wrapper_words(name, words, n);
	if (rc == 0 && own < n)
		return closure_run(c, words + own, n - own, err);
	return rc < 0 ? rc : visit_words(c, words + 1, n - 1, err);
}

/* --------------------------------------------------------- shell scripts --- */

#define COMMAND_WORDS_MAX WORDS_MAX
#define COMMAND_TEXT_MAX 4096u
#define VARIABLES_MAX 32u
#define VARIABLE_LEN 255u
/* times that variables are replaced in one script */
#define EXPANSIONS_MAX 4096u
/* Depth of shells that run each other by "-c": X="sh -c $X" would have no end. */
#define SHELLS_MAX 4u

/* Text of a shell script, and the command that was taken from it. */
struct shell_scan {
	const char *p, *end;
	char text[COMMAND_TEXT_MAX];
	size_t text_len;
	const char *words[COMMAND_WORDS_MAX];
	size_t n;
	const struct closure *c; /* used to read environment variables */
	/* Assignments of literal values, "NAME=value". */
	char variables[VARIABLES_MAX][VARIABLE_LEN + 1];
	size_t n_variables, n_expanded;
};

static bool is_one_of(char ch, const char *set)
{
	return ch && strchr(set, ch);
}

/* Shell keywords that stand before a command. */
static bool is_before_command(const char *word)
{
	static const char *const words[] = {
		"do",    "then",  "else", "elif",   "if",
		"while", "until", "exec", "!",      "{",
		"time",  "nohup", ".",    "source", "command",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return strchr(word, '=');
}

static void skip_blanks(struct shell_scan *s)
{
	while (s->p < s->end && is_one_of(*s->p, " \t\r\\"))
		s->p += *s->p == '\\' && s->p + 1 < s->end ? 2 : 1;
	if (s->p < s->end && *s->p == '#')
		while (s->p < s->end && *s->p != '\n')
			s->p++;
}

static void note_assignment(struct shell_scan *s, const char *word)
{
	size_t len = strlen(word);

	if (len <= VARIABLE_LEN && s->n_variables < VARIABLES_MAX)
		memcpy(s->variables[s->n_variables++], word, len + 1);
}

/* The last value assigned to a variable, or NULL. */
static const char *find_variable(const struct shell_scan *s, const char *name,
				 size_t len)
{
	char copy[VARIABLE_LEN + 1];

	for (size_t i = s->n_variables; i-- > 0;)
		if (strncmp(s->variables[i], name, len) == 0 &&
		    s->variables[i][len] == '=')
			return s->variables[i] + len + 1;
	if (len == 0 || len > VARIABLE_LEN)
		return NULL;
	memcpy(copy, name, len);
	copy[len] = '\0';
	return closure_env(s->c, copy);
}

static void put_char(struct shell_scan *s, char ch)
{
	if (s->n < COMMAND_WORDS_MAX && s->text_len < COMMAND_TEXT_MAX - 1)
		s->text[s->text_len++] = ch;
}

/* At a '$': append the value of the variable that it names, if known. */
static void take_variable(struct shell_scan *s)
{
	const char *name, *value;
	bool is_braced;

	s->p++;
	is_braced = s->p < s->end && *s->p == '{';
	s->p += is_braced;
	name = s->p;
	while (s->p < s->end && (isalnum((unsigned char)*s->p) || *s->p == '_'))
		s->p++;
	value = s->n_expanded++ < EXPANSIONS_MAX
			? find_variable(s, name, (size_t)(s->p - name))
			: NULL;
	for (size_t i = 0; value && value[i] && i < VARIABLE_LEN; i++)
		put_char(s, value[i]);
	if (is_braced)
		while (s->p < s->end && *s->p != '\n' && *s->p++ != '}')
			;
}

/* Take a word, and remove its quotes; a word that is too long is cut. */
static void take_shell_word(struct shell_scan *s)
{
	size_t begin = s->text_len;
	const char *word = s->text + begin;

	while (s->p < s->end && !is_one_of(*s->p, " \t\r\n;&|()`<>")) {
		if (*s->p == '$') {
			take_variable(s);
			continue;
		}
		if (!is_one_of(*s->p, "\"'\\") && *s->p)
			put_char(s, *s->p);
		s->p++;
	}
	s->text[s->text_len] = '\0';
	if (s->n == 0 && strchr(word, '='))
		note_assignment(s, word);
	if (s->n == COMMAND_WORDS_MAX || !*word ||
	    (s->n == 0 && is_before_command(word))) {
		s->text_len = begin;
		return;
	}
	s->words[s->n++] = word;
	s->text_len += s->text_len < COMMAND_TEXT_MAX - 1;
}

/* Take the words of the next command, maybe none; false at the end of the text. */
static bool take_command(struct shell_scan *s)
{
	s->n = s->text_len = 0;
	while (s->p < s->end) {
		skip_blanks(s);
		if (s->p >= s->end || is_one_of(*s->p, "\n;&|()`"))
			break;
		if (is_one_of(*s->p, "<>")) {
			s->p++;
			continue;
		}
		take_shell_word(s);
	}
	if (s->p >= s->end)
		return s->n > 0;
	s->p++;
	return true;
}

static int scan_shell(struct closure *c, const char *text, size_t len,
		      struct error *err)
{
	struct shell_scan *s;
	int rc = 0;

	if (c->n_shells >= SHELLS_MAX)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	c->n_shells++;
	s->p = text;
	s->end = text + len;
	s->c = c;
	while (rc == 0 && !closure_is_spent(c) && take_command(s))
		if (s->n)
			rc = closure_run(c, s->words, s->n, err);
	c->n_shells--;
	free(s);
	return rc;
}

/* ---------------------------------------------------------- first lines --- */

static int look_shell_script(struct closure *c, struct closure_file *f,
			     struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = closure_read_text(c, &f->inode, &text, err);

	if (rc == 0)
		rc = closure_add_range(c, &f->inode, 0, text.len, err);
	return rc < 0 ? rc : scan_shell(c, text.data, text.len, err);
}

static int visit_shell_script(struct closure *c, struct closure_file *f,
			      struct error *err)
{
	const struct elf_range text = { 0, f->inode.size < CLOSURE_TEXT_MAX
						   ? f->inode.size
						   : CLOSURE_TEXT_MAX };

	return closure_visit_again(c, f, &text, look_shell_script, err);
}

/* Run the interpreter that "#!" names with its argument and the script. */
static int run_first_line(struct closure *c, struct closure_file *f, char *line,
			  struct error *err)
{
	const char *words[HEAD_WORDS_MAX], *last;
	size_t n = 0;

	for (char *save = NULL, *w = strtok_r(line + 2, " \t\r", &save);
	     w && n < HEAD_WORDS_MAX - 1; w = strtok_r(NULL, " \t\r", &save))
		words[n++] = w;
	if (n == 0)
		return 0;
	last = base_name(words[n - 1]);
	if (is_shell(last)) {
		int rc = visit_shell_script(c, f, err);

		return rc < 0 ? rc : closure_run(c, words, n, err);
	}
	words[n] = f->path;
	return closure_run(c, words, n + 1, err);
}

/* The script of an image's command often runs its arguments with exec "$@", so look into
 * these as a command. */
static int visit_words_of_command(struct closure *c, struct error *err)
{
	return c->start->n_words > 1 ? closure_run(c, c->start->words + 1,
						   c->start->n_words - 1, err)
				     : 0;
}

int closure_look_program(struct closure *c, struct closure_file *f,
			 struct error *err)
{
	char head[CLOSURE_HEAD + 1];
	size_t len = (size_t)f->want.len;
	bool is_first = c->done == 0;
	int rc = closure_read(c, &f->inode, 0, head, len, err);

	if (rc < 0)
		return rc;
	head[len] = '\0';
	if (len < 2 || memcmp(head, "#!", 2) != 0)
		return memchr(head, '\0', len) ? closure_look_elf(c, f, err)
					       : visit_shell_script(c, f, err);
	rc = closure_add_range(c, &f->inode, 0, CLOSURE_TEXT_MAX, err);
	head[strcspn(head, "\n")] = '\0';
	if (rc == 0)
		rc = run_first_line(c, f, head, err);
	return rc == 0 && is_first ? visit_words_of_command(c, err) : rc;
}
