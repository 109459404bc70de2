// SPDX-License-Identifier: Apache-2.0
#include "envcache/words.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "common/buf.h"

/* State of splitting a text, with the present word. */
struct splitter {
	const char *at;
	char *const *environment;
	struct shell_words *words;
	struct buf text, written;
	bool has_word; /* true also for an empty word in quotes */
	bool is_open, is_first, is_piped, is_output, is_input;
};

const char *variable_find(char *const *environment, const char *name,
			  size_t len)
{
	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, len) == 0 &&
		    (*environment)[len] == '=')
			return *environment + len + 1;
	return NULL;
}

static int put_char(struct splitter *s, char c)
{
	s->has_word = true;
	return buf_append(&s->text, &c, 1) < 0 ||
			       buf_append(&s->written, &c, 1) < 0
		       ? -ENOMEM
		       : 0;
}

static size_t name_length(const char *at)
{
	size_t n = 0;

	while (isalnum((unsigned char)at[n]) || at[n] == '_')
		n++;
	return n && !isdigit((unsigned char)at[0]) ? n : 0;
}

size_t shell_variable_name(const char *at, const char **ret)
{
	*ret = at + 1 + (at[1] == '{');
	return name_length(*ret);
}

/* Expand $NAME and ${NAME} from the environment; only a shell can expand other uses of $. */
static int put_variable(struct splitter *s)
{
	bool has_brace = s->at[1] == '{';
	const char *name, *value;
	size_t n = shell_variable_name(s->at, &name);

	value = n && (!has_brace || name[n] == '}')
			? variable_find(s->environment, name, n)
			: NULL;
	if (!value) {
		s->is_open = true;
		return put_char(s, *s->at++);
	}
	n += 1 + 2 * (size_t)has_brace;
	s->has_word = true;
	if (buf_puts(&s->text, value) < 0 ||
	    buf_append(&s->written, s->at, n) < 0)
		return -ENOMEM;
	s->at += n;
	return 0;
}

/* Read a quoted part; `at` is at its first quote. */
static int put_quoted(struct splitter *s)
{
	char quote = *s->at++;
	int rc = 0;

	s->has_word = true;
	while (rc == 0 && *s->at && *s->at != quote) {
		if (quote == '"' && *s->at == '\\' && s->at[1])
			s->at++;
		else if (quote == '"' && *s->at == '$') {
			rc = put_variable(s);
			continue;
		} else if (quote == '"' && *s->at == '`')
			s->is_open = true;
		rc = put_char(s, *s->at++);
	}
	s->at += *s->at == quote;
	return rc;
}

/* Is the word followed by a command? */
static bool comes_before_command(const char *word)
{
	static const char *const words[] = {
		"if",    "then",  "else", "elif",    "do",  "while",
		"until", "!",     "time", "exec",    "env", "sudo",
		"nice",  "nohup", "eval", "command",
	};
	/* NAME=VALUE before a command is not the command's name. */
	bool is = strchr(word, '=') != NULL;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		is = is || strcmp(word, words[i]) == 0;
	return is;
}

static int end_word(struct splitter *s, struct error *err)
{
	struct shell_words *w = s->words;
	struct shell_word *word;

	if (!s->has_word)
		return 0;
	if (w->n == SHELL_WORDS_MAX)
		return error_set(err, E2BIG, "more than %u words",
				 SHELL_WORDS_MAX);
	if (array_grow(&w->list, w->n, &w->cap, 64) < 0 ||
	    buf_append(&s->text, "", 1) < 0 ||
	    buf_append(&s->written, "", 1) < 0)
		return error_nomem(err);
	word = &w->list[w->n++];
	*word = (struct shell_word){ .is_first = s->is_first,
				     .is_piped = s->is_first && s->is_piped,
				     .is_output = s->is_output,
				     .is_input = s->is_input,
				     .is_open = s->is_open };
	word->text = strdup(s->text.data);
	word->written = strdup(s->written.data);
	if (!s->is_output && !s->is_input &&
	    !(s->is_first && comes_before_command(s->text.data)))
		s->is_first = s->is_piped = false;
	s->has_word = s->is_open = s->is_output = s->is_input = false;
	buf_reset(&s->text);
	buf_reset(&s->written);
	return word->text && word->written ? 0 : error_nomem(err);
}

/* Handle an operator, which ends a word outside of quotes. */
static int put_operator(struct splitter *s, struct error *err)
{
	char c = *s->at++;
	int rc;

	/* The number in 2>FILE is not a word. */
	if (c == '>' && s->text.len == 1 &&
	    isdigit((unsigned char)*s->text.data))
		s->has_word = false;
	if (!s->has_word) {
		buf_reset(&s->text);
		buf_reset(&s->written);
	}
	rc = end_word(s, err);
	if (c == '>') {
		s->at += strspn(s->at, ">&|");
		s->is_output = true;
	} else if (c == '<') {
		/* <<END, <<<TEXT, <(COMMAND) and <&3 do not name a file. */
		s->is_input = !strchr("<(&", *s->at);
		s->at += strspn(s->at, "<");
	} else if (strchr("|;&(){}\n", c)) {
		s->is_piped = c == '|' && *s->at != '|';
		s->at += strspn(s->at, "|&;");
		s->is_first = true;
		s->is_output = s->is_input = false;
	}
	return rc;
}

static int split_next_char(struct splitter *s, struct error *err)
{
	char c = *s->at;

	if (c == '\'' || c == '"')
		return put_quoted(s) < 0 ? error_nomem(err) : 0;
	if (c == '\\' && s->at[1]) {
		s->at += 2;
		/* A backslash at the end of a line continues it. */
		return s->at[-1] == '\n' || put_char(s, s->at[-1]) == 0
			       ? 0
			       : error_nomem(err);
	}
	if (c == '$')
		return put_variable(s) < 0 ? error_nomem(err) : 0;
	if (c == '#' && !s->has_word) {
		s->at += strcspn(s->at, "\n");
		return 0;
	}
	if (strchr(" \t\r\n|;&()<>", c) ||
	    (!s->has_word && (c == '{' || c == '}')))
		return put_operator(s, err);
	s->is_open = s->is_open || strchr("`*?", c);
	s->at++;
	return put_char(s, c) < 0 ? error_nomem(err) : 0;
}

int shell_words_split(const char *text, char *const *environment,
		      struct shell_words *ret, struct error *err)
{
	struct splitter s = { .at = text,
			      .environment = environment,
			      .words = ret,
			      .is_first = true };
	int rc = 0;

	*ret = (struct shell_words){ .n = 0 };
	while (rc == 0 && *s.at)
		rc = split_next_char(&s, err);
	if (rc == 0)
		rc = end_word(&s, err);
	buf_fini(&s.text);
	buf_fini(&s.written);
	if (rc < 0)
		shell_words_fini(ret);
	return rc;
}

void shell_words_fini(struct shell_words *w)
{
	for (size_t i = 0; i < w->n; i++) {
		free(w->list[i].text);
		free(w->list[i].written);
	}
	free(w->list);
	*w = (struct shell_words){ .n = 0 };
}

/* ------------------------------------------------------------------------ logins --- */

bool name_is_secret(const char *name, size_t len)
{
	static const char *const ends[] = {
		"token",      "password",    "passwd",     "secret",
		"credential", "credentials", "auth",       "api_key",
		"apikey",     "secret_key",  "access_key", "private_key",
		"signature",  "sig"
	};

	while (len && (*name == '-' || *name == '_')) {
		name++;
		len--;
	}
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t n = strlen(ends[i]), k = 0;
		const char *end = name + len - n;

		if (n > len || (n < len && end[-1] != '-' && end[-1] != '_'))
			continue;
		while (k < n && (tolower((unsigned char)end[k]) == ends[i][k] ||
				 (end[k] == '-' && ends[i][k] == '_')))
			k++;
		if (k == n)
			return true;
	}
	return false;
}

#define WORD_ENDS " \t\r\n\"'`;|&<>()"

/*
 * The length of a word's start before its secret value, as in NAME=VALUE or --NAME VALUE; the
 * value has `*ret_len` bytes. 0: no secret. (NAME==VALUE has a version.)
 */
static size_t find_secret_value(const char *word, size_t *ret_len)
{
	size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz"
				"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	if (!name_is_secret(word, n))
		return 0;
	if (word[n] == '=' && word[n + 1] != '=')
		n++;
	else if (word[0] == '-' && word[n] == ' ')
		n += strspn(word + n, " ");
	else
		return 0;
	n += word[n] == '"' || word[n] == '\'';
	*ret_len = strcspn(word + n, WORD_ENDS);
	return *ret_len ? n : 0;
}

/* The length of the parameter at `q`, and of its name. */
static size_t parameter_length(const char *q, size_t len, size_t *ret_name)
{
	size_t n = 0, name = 0;

	while (n < len && q[n] != '&')
		n++;
	while (name < n && q[name] != '=')
		name++;
	*ret_name = name;
	return n + (n < len);
}

/* Is the query of a signed URL? Then all its parameters belong to the signature. */
static bool is_signed_query(const char *q, size_t len)
{
	static const char *const ends[] = { "signature", "sig" };

	while (len) {
		size_t name, n = parameter_length(q, len, &name);

		for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
			size_t k = strlen(ends[i]);

			if (name >= k && name < n &&
			    strncasecmp(q + name - k, ends[i], k) == 0)
				return true;
		}
		q += n;
		len -= n;
	}
	return false;
}

/* Append a query without its secret parameters; others, such as a version, stay. */
static int put_query_without_secrets(struct buf *out, const char *q, size_t len)
{
	int rc = 0;

	if (is_signed_query(q, len))
		return buf_puts(out, "*");
	while (rc == 0 && len) {
		size_t name, n = parameter_length(q, len, &name);

		if (q[name] == '=' && name < n && name_is_secret(q, name)) {
			rc = buf_append(out, q, name + 1);
			if (rc == 0)
				rc = buf_puts(out,
					      q[n - 1] == '&' ? "*&" : "*");
		} else {
			rc = buf_append(out, q, n);
		}
		q += n;
		len -= n;
	}
	return rc;
}

#define TOKEN_MIN 16u

/* Append what follows "://" in a URL, without logins; `*at` moves to the URL's end. */
static int put_url_without_logins(struct buf *out, const char **at)
{
	static const char ends[] = " \t\r\n\"'`<>|;()";
	const char *p = *at;
	size_t len = strcspn(p, ends), host = strcspn(p, "/?#"), n;
	const char *query;

	host = host < len ? host : len;
	for (size_t i = host; i > 0; i--) {
		if (p[i - 1] == '@') {
			p += i;
			len -= i;
			host -= i;
			break;
		}
	}
	*at = p + len;
	/* conda URLs may have a token in the path: HOST/t/TOKEN/CHANNEL. A short name, as in
	 * "/t/v1.2/", is no token. */
	if (len > host + 3 && strncmp(p + host, "/t/", 3) == 0 &&
	    strcspn(p + host + 3, "/") >= TOKEN_MIN) {
		if (buf_append(out, p, host + 3) < 0 || buf_puts(out, "*") < 0)
			return -ENOMEM;
		p += host + 3;
		len -= host + 3;
		n = strcspn(p, "/");
		n = n < len ? n : len;
		p += n;
		len -= n;
	}
	query = memchr(p, '?', len);
	n = query ? (size_t)(query - p) : len;
	if (buf_append(out, p, n) < 0)
		return -ENOMEM;
	return query && (buf_puts(out, "?") < 0 ||
			 put_query_without_secrets(out, query + 1,
						   len - n - 1) < 0)
		       ? -ENOMEM
		       : 0;
}

char *text_without_logins(const char *text)
{
	AUTO_BUF out = BUF_INIT;
	bool is_start = true;
	int rc = 0;

	while (rc == 0 && *text) {
		size_t len = 0,
		       n = is_start ? find_secret_value(text, &len) : 0;

		if (n) {
			rc = buf_append(&out, text, n);
			if (rc == 0)
				rc = buf_puts(&out, "*");
			text += n + len;
			is_start = false;
			continue;
		}
		n = strncmp(text, "://", 3) == 0 ? 3 : 1;
		rc = buf_append(&out, text, n);
		text += n;
		is_start = strchr(WORD_ENDS, text[-1]) != NULL;
		if (rc == 0 && n == 3)
			rc = put_url_without_logins(&out, &text);
	}
	return rc < 0 ? NULL : buf_steal(&out);
}
