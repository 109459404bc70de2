// SPDX-License-Identifier: Apache-2.0
/*
 * Looks into programs and libraries in three steps, which read different parts of the file:
 * program headers, the dynamic section, and the names that this refers to.
 */
#include <string.h>

#include "image/closure/closure_priv.h"

/* How well these limits predict a start is in docs/decisions/0028-predicted-starts.md. Files
 * up to WHOLE_MAX are taken whole. Of longer ones: written segments, as relocation touches
 * them, and nearly all code and constants of programs, but little of libraries, which often
 * have code for several processors. */
#define WHOLE_MAX (1u << 20)
#define CODE_MAX (16u << 20)
#define READ_MAX (4u << 20)
#define WRITTEN_MAX (16u << 20)
#define SYMBOLS_MAX (16u << 20)
#define NAME_MAX_LEN 256u
/* A longer string table is not fetched whole: only the names needed are read. */
#define STRINGS_MAX (256u << 10)
#define SEARCH_MAX 4096u /* bytes of a list of folders */

static const char *const default_folders[] = {
	"/lib/x86_64-linux-gnu",
	"/usr/lib/x86_64-linux-gnu",
	"/lib/aarch64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/lib64",
	"/usr/lib64",
	"/lib",
	"/usr/lib",
	"/usr/local/lib",
};

/* Length of the file's beginning that holds its symbols, as far as that is known. */
static uint64_t head_len(const struct elf_dynamic *d)
{
	uint64_t end = d ? d->relocations.off : 0;

	return end < SYMBOLS_MAX ? end : CLOSURE_HEAD;
}

static int add_elf_range(struct closure *c, const struct closure_file *f,
			 const struct elf_range *r, struct error *err)
{
	return r->len ? closure_add_range(c, &f->inode, r->off, r->len, err)
		      : 0;
}

/* Add the ranges of the file that the loader reads, and code that may run. */
static int add_loaded(struct closure *c, const struct closure_file *f,
		      struct error *err)
{
	const struct elf_dynamic *d = f->dynamic;
	int rc;

	if (f->inode.size <= WHOLE_MAX)
		return closure_add_range(c, &f->inode, 0, f->inode.size, err);
	rc = closure_add_range(c, &f->inode, 0, head_len(d), err);
	if (rc == 0 && d)
		rc = add_elf_range(c, f, &d->strings, err);
	if (rc == 0 && d)
		rc = add_elf_range(c, f, &d->relocations, err);
	if (rc == 0 && d)
		rc = add_elf_range(c, f, &d->calls, err);
	for (size_t i = 0; i < f->elf->n_loads && rc == 0; i++) {
		const struct elf_load *l = &f->elf->loads[i];

		if (l->file.len <= (l->is_written ? WRITTEN_MAX
				    : l->is_code  ? CODE_MAX
						  : READ_MAX))
			rc = add_elf_range(c, f, &l->file, err);
	}
	return rc;
}

/* Visit FOLDER/NAME; `*ret_found` is false when there is no such file. */
static int visit_file_in_folder(struct closure *c, const char *folder,
				size_t folder_len, const char *name,
				bool *ret_found, struct error *err)
{
	char path[SEARCH_MAX + NAME_MAX_LEN + 2];
	struct rootfs_file found;
	size_t len = strlen(name);

	*ret_found = false;
	if (folder_len > SEARCH_MAX || len > NAME_MAX_LEN)
		return 0;
	memcpy(path, folder, folder_len);
	path[folder_len] = '/';
	memcpy(path + folder_len + 1, name, len + 1);
	if (!closure_find_file(c, path, &found))
		return 0;
	*ret_found = true;
	return closure_visit_program(c, path, err);
}

/* Copy a folder of a list, with $ORIGIN replaced by the file's own folder. */
static size_t expand_origin(const struct closure_file *f, const char *folder,
			    size_t len, char to[SEARCH_MAX])
{
	static const char *const words[] = { "$ORIGIN", "${ORIGIN}" };
	size_t n, origin = (size_t)(strrchr(f->path, '/') - f->path);

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		n = strlen(words[i]);
		if (len < n || memcmp(folder, words[i], n) != 0)
			continue;
		if (origin + len - n > SEARCH_MAX)
			return 0;
		memcpy(to, f->path, origin);
		memcpy(to + origin, folder + n, len - n);
		return origin + len - n;
	}
	if (len > SEARCH_MAX)
		return 0;
	memcpy(to, folder, len);
	return len;
}

/* Look for a library in the folders of a list. */
static int visit_in_list(struct closure *c, const struct closure_file *f,
			 const char *list, const char *name, bool *ret_found,
			 struct error *err)
{
	char folder[SEARCH_MAX];
	int rc = 0;

	*ret_found = false;
	while (list && *list && !*ret_found && rc == 0 &&
	       !closure_is_spent(c)) {
		size_t len = strcspn(list, ":");
		size_t n = expand_origin(f, list, len, folder);

		if (n)
			rc = visit_file_in_folder(c, folder, n, name, ret_found,
						  err);
		list += len;
		list += strspn(list, ":");
	}
	return rc;
}

/* Note that a library is looked for; `*ret_was` is true if it was noted before. */
static int note_library(struct closure *c, const char *name, bool *ret_was,
			struct error *err)
{
	*ret_was = true;
	for (size_t i = 0; i < c->n_libraries; i++)
		if (strcmp(c->libraries[i], name) == 0)
			return 0;
	if (c->n_libraries == CLOSURE_LIBRARIES_MAX)
		return 0;
	*ret_was = false;
	c->libraries[c->n_libraries] = strdup(name);
	if (!c->libraries[c->n_libraries])
		return error_nomem(err);
	c->n_libraries++;
	return 0;
}

static int visit_library(struct closure *c, const struct closure_file *f,
			 const char *list, const char *name, struct error *err)
{
	const char *at;
	bool is_found = false, was_seen;
	int rc = note_library(c, name, &was_seen, err);

	if (rc < 0 || was_seen)
		return rc;
	if (strchr(name, '/'))
		return closure_visit_program(c, name, err);
	rc = visit_in_list(c, f, list, name, &is_found, err);
	if (rc == 0 && !is_found)
		rc = visit_in_list(c, f, closure_env(c, "LD_LIBRARY_PATH"),
				   name, &is_found, err);
	at = ld_cache_find(c->ld_cache.data, c->ld_cache.len, name);
	if (rc == 0 && !is_found && at)
		return closure_visit_program(c, at, err);
	for (size_t i = 0;
	     i < ARRAY_SIZE(default_folders) && rc == 0 && !is_found; i++)
		rc = visit_file_in_folder(c, default_folders[i],
					  strlen(default_folders[i]), name,
					  &is_found, err);
	return rc;
}

/* Read a string of the string table; longer ones are cut. */
static int read_string(struct closure *c, const struct closure_file *f,
		       uint64_t at, size_t max, char *ret, struct error *err)
{
	const struct elf_range *s = &f->dynamic->strings;
	uint64_t len;

	ret[0] = '\0';
	if (at >= s->len)
		return 0;
	len = s->len - at < max ? s->len - at : max;
	ret[len] = '\0';
	return closure_read(c, &f->inode, s->off + at, ret, (size_t)len, err);
}

static int visit_needed_libraries(struct closure *c, struct closure_file *f,
				  struct error *err)
{
	char list[SEARCH_MAX + 1] = "", name[NAME_MAX_LEN + 1];
	const struct elf_dynamic *d = f->dynamic;
	int rc = 0;

	if (d->has_path)
		rc = read_string(c, f, d->path, SEARCH_MAX, list, err);
	for (size_t i = 0; i < d->n_needed && rc == 0; i++) {
		rc = read_string(c, f, d->needed[i], NAME_MAX_LEN, name, err);
		if (rc == 0 && *name)
			rc = visit_library(c, f, list, name, err);
	}
	return rc < 0 ? rc : add_loaded(c, f, err);
}

static int read_dynamic_section(struct closure *c, struct closure_file *f,
				struct error *err)
{
	AUTO_FREE uint8_t *data = malloc((size_t)f->want.len + 1);
	struct elf_range want = { 0, 0 };
	int rc;

	f->dynamic = calloc(1, sizeof(*f->dynamic));
	if (!data || !f->dynamic)
		return error_nomem(err);
	rc = closure_read(c, &f->inode, f->want.off, data, (size_t)f->want.len,
			  err);
	if (rc < 0)
		return rc;
	if (elf_dynamic_parse(data, (size_t)f->want.len, f->elf, f->dynamic) <
	    0)
		return add_loaded(c, f, err);
	if (f->dynamic->strings.len <= STRINGS_MAX)
		want = f->dynamic->strings;
	return closure_visit_again(c, f, &want, visit_needed_libraries, err);
}

static int visit_interpreter(struct closure *c, const struct closure_file *f,
			     struct error *err)
{
	const struct elf_range *r = &f->elf->interpreter;
	char path[NAME_MAX_LEN + 1] = "";
	int rc;

	if (r->len == 0 || r->len > NAME_MAX_LEN)
		return 0;
	rc = closure_read(c, &f->inode, r->off, path, (size_t)r->len, err);
	return rc < 0 ? rc : closure_visit_program(c, path, err);
}

static int read_program_headers(struct closure *c, struct closure_file *f,
				struct error *err)
{
	uint8_t data[ELF_PROGRAM_HEADERS_MAX * ELF_PROGRAM_HEADER_SIZE];
	size_t len = (size_t)f->elf->program_headers.len;
	int rc = closure_read(c, &f->inode, f->elf->program_headers.off, data,
			      len, err);

	if (rc < 0)
		return rc;
	if (elf_segments_parse(data, len, f->inode.size, f->elf) < 0)
		return 0;
	rc = visit_interpreter(c, f, err);
	if (rc < 0 || f->elf->dynamic.len == 0)
		return rc < 0 ? rc : add_loaded(c, f, err);
	return closure_visit_again(c, f, &f->elf->dynamic, read_dynamic_section,
				   err);
}

int closure_look_elf(struct closure *c, struct closure_file *f,
		     struct error *err)
{
	uint8_t data[ELF_IDENT_SIZE];
	int rc;

	if (f->inode.size < sizeof(data))
		return 0;
	rc = closure_read(c, &f->inode, 0, data, sizeof(data), err);
	if (rc < 0)
		return rc;
	f->elf = calloc(1, sizeof(*f->elf));
	if (!f->elf)
		return error_nomem(err);
	if (elf_head_parse(data, sizeof(data), f->inode.size, f->elf) < 0)
		return 0;
	/* The program headers are nearly always within the bytes just fetched. */
	return f->elf->program_headers.off + f->elf->program_headers.len <=
			       f->want.len
		       ? read_program_headers(c, f, err)
		       : closure_visit_again(c, f, &f->elf->program_headers,
					     read_program_headers, err);
}

int closure_look_ld_cache(struct closure *c, struct closure_file *f,
			  struct error *err)
{
	int rc = closure_read_text(c, &f->inode, &c->ld_cache, err);

	return rc < 0 ? rc
		      : closure_add_range(c, &f->inode, 0, f->inode.size, err);
}
