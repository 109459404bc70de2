// SPDX-License-Identifier: Apache-2.0
/* The list of a command's inputs: items, contents of files, and notes. inputs_words.c and
 * inputs_tools.c find them. */
#include "envcache/inputs_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/buf.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "envcache/key.h"
#include "envcache/words.h"

#define READ_PIECE (1u << 20)
#define PIECES 64u /* number of pieces that are hashed of a large file */
#define NOTES_MAX 64u
#define ITEMS_MAX 4096u

void env_names_free(char **names)
{
	for (char **n = names; n && *n; n++)
		free(*n);
	free((void *)names);
}

void env_inputs_fini(struct env_inputs *in)
{
	struct env_key items = { .items = in->items, .n = in->n };

	env_key_fini(&items);
	for (size_t i = 0; i < in->n_unknown; i++)
		free(in->unknown[i]);
	free((void *)in->unknown);
	for (size_t i = 0; i < in->n_left_out; i++)
		free(in->left_out[i].name);
	free(in->left_out);
	*in = (struct env_inputs){ .n = 0 };
}

/* ------------------------------------------------------------------------- items --- */

static const struct env_item *find_item(const struct env_inputs *in,
					const char *kind, const char *name)
{
	for (size_t i = 0; i < in->n; i++)
		if (strcmp(in->items[i].kind, kind) == 0 &&
		    strcmp(in->items[i].name, name) == 0)
			return &in->items[i];
	return NULL;
}

/* Number of bytes of the UTF-8 character at `text`; 0: invalid. */
static size_t character_length(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = *p < 0x80   ? 1
		   : *p < 0xc2 ? 0
		   : *p < 0xe0 ? 2
		   : *p < 0xf0 ? 3
		   : *p < 0xf5 ? 4
			       : 0;

	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* The name as valid UTF-8, as an index is JSON. */
static char *name_in_utf8(const char *name)
{
	AUTO_BUF out = BUF_INIT;
	int rc = 0;

	while (rc == 0 && *name) {
		size_t n = character_length(name);

		rc = n ? buf_append(&out, name, n)
		       : buf_printf(&out, "\\x%02x", (unsigned char)*name);
		name += n ? n : 1;
	}
	return rc < 0 ? NULL : buf_steal(&out);
}

bool inputs_has(const struct gather *g, const char *kind, const char *name)
{
	AUTO_FREE char *plain = name_in_utf8(name);

	return plain && find_item(g->in, kind, plain);
}

int inputs_add(struct gather *g, const char *kind, const char *name,
	       const struct digest *value, const char *shown, struct error *err)
{
	AUTO_FREE char *plain = name_in_utf8(name);
	struct env_inputs *in = g->in;
	struct env_item *it;

	if (!plain)
		return error_nomem(err);
	if (find_item(in, kind, plain))
		return 0;
	if (in->n == ITEMS_MAX || strlen(plain) > ENV_NAME_MAX)
		return error_set(err, E2BIG,
				 "the command names more files than a key has "
				 "room for (--no-auto-key)");
	if (array_grow(&in->items, in->n, &in->cap, 16) < 0)
		return error_nomem(err);
	it = &in->items[in->n++];
	*it = (struct env_item){ .kind = strdup(kind),
				 .name = steal_ptr(&plain),
				 .value = *value,
				 .shown = shown ? strdup(shown) : NULL };
	return it->kind && (it->shown || !shown) ? 0 : error_nomem(err);
}

int inputs_add_text(struct gather *g, const char *kind, const char *name,
		    const char *value, struct error *err)
{
	AUTO_FREE char *plain = text_without_logins(value);
	struct digest d;

	return !plain || digest_of(plain, strlen(plain), &d) < 0
		       ? error_nomem(err)
		       : inputs_add(g, kind, name, &d, plain, err);
}

int inputs_note(struct gather *g, struct error *err, const char *fmt, ...)
{
	struct env_inputs *in = g->in;
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return error_nomem(err);
	for (size_t i = 0; i < in->n_unknown; i++) {
		if (strcmp(in->unknown[i], text) == 0) {
			free(text);
			return 0;
		}
	}
	if (in->n_unknown == NOTES_MAX) {
		free(text);
		return 0;
	}
	if (array_grow(&in->unknown, in->n_unknown, &in->cap_unknown, 8) < 0) {
		free(text);
		return error_nomem(err);
	}
	in->unknown[in->n_unknown++] = text;
	return 0;
}

/* ------------------------------------------------------------------------- files --- */

/* Hash the file's size, then all of it, or PIECES evenly spaced pieces. */
static int hash_content(int fd, uint64_t size, bool is_whole,
			struct digest *ret)
{
	AUTO(hasher) h = hasher_new();
	unsigned char head[8];
	int rc = h ? 0 : -ENOMEM;

	put_le64(head, size);
	if (rc == 0 && !is_whole)
		rc = hasher_update(h, head, sizeof(head));
	if (rc == 0)
		rc = hasher_update_file(h, fd, READ_PIECE,
					is_whole ? 0 : size / PIECES);
	return rc < 0 ? rc : hasher_final(h, ret);
}

/* Is it one of the files that the command makes?  Names are compared in the index's form. */
static bool is_made_by_command(const struct env_inputs_from *from,
			       const char *name)
{
	AUTO_FREE char *plain = from->made ? name_in_utf8(name) : NULL;
	bool is = false;

	for (char *const *m = from->made; plain && *m && !is; m++)
		is = strcmp(*m, plain) == 0;
	return is;
}

static int note_left_out_file(struct gather *g, const char *name,
			      const char *path, struct error *err)
{
	struct env_inputs *in = g->in;
	struct env_left_out *o;
	struct stat st;

	if (stat(path, &st) < 0)
		return 0;
	for (size_t i = 0; i < in->n_left_out; i++)
		if (strcmp(in->left_out[i].name, name) == 0)
			return 0;
	if (array_grow(&in->left_out, in->n_left_out, &in->cap_left_out, 4) < 0)
		return error_nomem(err);
	o = &in->left_out[in->n_left_out++];
	*o = (struct env_left_out){ .name = name_in_utf8(name),
				    .ino = st.st_ino,
				    .size = st.st_size,
				    .changed = st.st_ctim };
	return o->name ? 0 : error_nomem(err);
}

int inputs_add_file(struct gather *g, const char *name, const char *path,
		    bool *ret_is_new, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	struct digest d;
	struct stat st;
	bool is_whole;
	int rc;

	*ret_is_new = false;
	if (is_made_by_command(g->from, name))
		return note_left_out_file(g, name, path, err);
	if (inputs_has(g, "file", name))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return inputs_note(g, err, "'%s', which cannot be read: %s",
				   name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return 0;
	/* For a small file, the pieces would not be less to read. */
	is_whole = (uint64_t)st.st_size <= g->whole ||
		   (uint64_t)st.st_size <= (uint64_t)PIECES * READ_PIECE;
	rc = hash_content(fd, (uint64_t)st.st_size, is_whole, &d);
	if (rc < 0)
		return inputs_note(g, err, "'%s', which cannot be read: %s",
				   name, strerror(-rc));
	if (is_whole)
		g->whole -= (uint64_t)st.st_size < g->whole
				    ? (uint64_t)st.st_size
				    : g->whole;
	else
		rc = inputs_note(
			g, err,
			"most of '%s', which is too large: its size and "
			"%u MiB of it are",
			name, PIECES);
	*ret_is_new = true;
	return rc < 0 ? rc : inputs_add(g, "file", name, &d, NULL, err);
}

/* -------------------------------------------------------------------------- made --- */

static int add_name(char **names, size_t *n, const char *name)
{
	names[*n] = strdup(name);
	return names[(*n)++] ? 0 : -ENOMEM;
}

/* Is the file unchanged by this run of the command, having been made in an earlier run? */
static bool is_file_of_earlier_run(const struct env_inputs *before,
				   const struct env_inputs *after,
				   const char *name)
{
	for (size_t i = 0; i < before->n_left_out; i++) {
		const struct env_left_out *a = &before->left_out[i];

		for (size_t k = 0; k < after->n_left_out; k++) {
			const struct env_left_out *b = &after->left_out[k];

			if (strcmp(a->name, name) == 0 &&
			    strcmp(b->name, name) == 0)
				return a->ino == b->ino && a->size == b->size &&
				       a->changed.tv_sec == b->changed.tv_sec &&
				       a->changed.tv_nsec == b->changed.tv_nsec;
		}
	}
	return false;
}

int env_inputs_made(const struct env_inputs *before,
		    const struct env_inputs *after, char *const *known,
		    char ***ret, const char **ret_unwritten, struct error *err)
{
	size_t n = 0, n_known = 0;
	bool is_new = false;
	char **names;
	int rc = 0;

	*ret_unwritten = NULL;
	while (known && known[n_known])
		n_known++;
	names = (char **)calloc(after->n + n_known + 1, sizeof(*names));
	if (!names)
		return error_nomem(err);
	for (size_t i = 0; rc == 0 && i < n_known; i++) {
		if (is_file_of_earlier_run(before, after, known[i]))
			*ret_unwritten = known[i];
		else
			rc = add_name(names, &n, known[i]);
	}
	for (size_t i = 0; rc == 0 && i < after->n; i++) {
		const struct env_item *it = &after->items[i];

		if (strcmp(it->kind, "file") != 0 ||
		    find_item(before, it->kind, it->name))
			continue;
		is_new = true;
		rc = add_name(names, &n, it->name);
	}
	if (rc < 0) {
		env_names_free(names);
		return error_nomem(err);
	}
	*ret = names;
	return is_new || *ret_unwritten;
}
