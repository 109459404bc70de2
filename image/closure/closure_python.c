// SPDX-License-Identifier: Apache-2.0
/*
 * A Python interpreter's start files and the modules that its program imports, found as the
 * interpreter finds them: a package before an extension before a module, in the folders of
 * sys.path. Where a module has byte code, that is looked into and not the source, as the
 * interpreter does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "image/closure/closure_priv.h"
#include "image/closure/python_imports.h"

#define NAME_MAX_LEN 255u
/* minor version since which start modules are part of the program: 3.11 */
#define FROZEN_SINCE 11u

/* A folder in which modules are looked for; `path` has room for a module's name. */
struct module_folder {
	char path[ROOTFS_PATH_MAX + 1];
};

/* Files read by an interpreter whose locale "C" is treated as UTF-8. */
static const char *const locale_files[] = {
	"/usr/lib/locale/C.utf8/LC_CTYPE",
	"/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache",
	"/usr/lib/aarch64-linux-gnu/gconv/gconv-modules.cache",
};

/* Modules that every interpreter imports before its program. */
static const char *const first_modules[] = {
	"encodings",
	"encodings.aliases",
	"encodings.utf_8",
	"site",
	"os",
	"codecs",
	"io",
	"abc",
	"stat",
	"posixpath",
	"genericpath",
	"_collections_abc",
	"_sitebuiltins",
	"sitecustomize",
};

/* Modules that are part of the interpreter's own program file. */
static const char *const frozen_modules[] = {
	"site",      "os",        "codecs",           "io",
	"abc",       "stat",      "posixpath",        "genericpath",
	"ntpath",    "runpy",     "_collections_abc", "_sitebuiltins",
	"zipimport", "importlib",
};

static const char *const extension_ends[] = {
	".cpython-3%u-x86_64-linux-gnu.so",
	".cpython-3%u-aarch64-linux-gnu.so",
	".cpython-3%u-x86_64-linux-musl.so",
	".cpython-3%u-aarch64-linux-musl.so",
	".abi3.so",
	".so",
};

/* ---------------------------------------------------------------- modules --- */

static bool is_frozen(const struct closure *c, const char *folder,
		      const char *name)
{
	const struct python_paths *p = &c->python;

	if (p->minor < FROZEN_SINCE || p->standard >= p->n ||
	    strcmp(folder, p->folders[p->standard]) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(frozen_modules); i++)
		if (strcmp(name, frozen_modules[i]) == 0)
			return true;
	return false;
}

static closure_look_fn scan_compiled_module, scan_module_text;

/* Visit FOLDER/NAME.py or its byte code; `*ret_found` is true when one exists. */
static int visit_source(struct closure *c, const char *folder, const char *name,
			bool *ret_found, struct error *err)
{
	char path[ROOTFS_PATH_MAX + NAME_MAX_LEN + 64];
	struct rootfs_file f;

	(void)snprintf(path, sizeof(path), "%s/__pycache__/%s.cpython-3%u.pyc",
		       folder, name, c->python.minor);
	*ret_found = true;
	if (closure_find_file(c, path, &f))
		return closure_visit(c, path, scan_compiled_module,
				     CLOSURE_TEXT_MAX, err);
	(void)snprintf(path, sizeof(path), "%s/%s.py", folder, name);
	if (closure_find_file(c, path, &f))
		return closure_visit(c, path, scan_module_text,
				     CLOSURE_TEXT_MAX, err);
	*ret_found = false;
	return 0;
}

static int visit_extension(struct closure *c, const char *folder,
			   const char *name, bool *ret_found, struct error *err)
{
	char path[ROOTFS_PATH_MAX + NAME_MAX_LEN + 64], end[64];
	struct rootfs_file f;

	*ret_found = false;
	for (size_t i = 0; i < ARRAY_SIZE(extension_ends); i++) {
		const char *number = strstr(extension_ends[i], "%u");

		if (number)
			(void)snprintf(end, sizeof(end), "%.*s%u%s",
				       (int)(number - extension_ends[i]),
				       extension_ends[i], c->python.minor,
				       number + 2);
		else
			(void)snprintf(end, sizeof(end), "%s",
				       extension_ends[i]);
		(void)snprintf(path, sizeof(path), "%s/%s%s", folder, name,
			       end);
		if (!closure_find_file(c, path, &f))
			continue;
		*ret_found = true;
		return closure_visit_program(c, path, err);
	}
	return 0;
}

/* Visit a module of a folder. `*ret` becomes the package's own folder, or "" when the module
 * is no package. */
static int visit_module(struct closure *c, const char *folder, const char *name,
			bool *ret_found, struct module_folder *ret,
			struct error *err)
{
	struct module_folder own;
	bool is_folder, has_init = false;
	int n, rc = 0;

	*ret_found = false;
	ret->path[0] = '\0';
	n = snprintf(own.path, sizeof(own.path), "%s/%s", folder, name);
	if (n < 0 || (size_t)n >= sizeof(own.path))
		return 0;
	is_folder = closure_is_folder(c, own.path);
	if (is_frozen(c, folder, name)) {
		*ret_found = true;
		if (is_folder)
			*ret = own;
		return 0;
	}
	if (is_folder)
		rc = visit_source(c, own.path, "__init__", &has_init, err);
	if (rc == 0 && !has_init)
		rc = visit_extension(c, folder, name, ret_found, err);
	if (rc == 0 && !has_init && !*ret_found)
		rc = visit_source(c, folder, name, ret_found, err);
	if (is_folder && !*ret_found) {
		*ret_found = true; /* may be a package without __init__.py */
		*ret = own;
	}
	return rc;
}

/* Visit the first part of a dotted name, in the folders of sys.path. */
static int visit_first(struct closure *c, const char *name, bool *ret_found,
		       struct module_folder *ret, struct error *err)
{
	int rc = 0;

	*ret_found = false;
	for (size_t i = 0; i < c->python.n && rc == 0 && !*ret_found; i++)
		rc = visit_module(c, c->python.folders[i], name, ret_found, ret,
				  err);
	return rc;
}

/* Copy part of a dotted name; false: it cannot be a module's name. */
static bool copy_part(const char *part, size_t len, char to[NAME_MAX_LEN + 1])
{
	if (len == 0 || len > NAME_MAX_LEN || memchr(part, '/', len) ||
	    memchr(part, '\0', len))
		return false;
	memcpy(to, part, len);
	to[len] = '\0';
	return true;
}

/* Visit all parts of a dotted name below the folder `at`, or in sys.path when `at` is empty.
 * Afterwards `at` is the folder of the last part, or "". */
static int visit_dotted(struct closure *c, const char *name, size_t len,
			struct module_folder *at, struct error *err)
{
	struct module_folder next;
	char part[NAME_MAX_LEN + 1];
	bool is_first = at->path[0] == '\0', is_found = true;
	int rc = 0;

	while (len && rc == 0 && is_found) {
		const char *dot = memchr(name, '.', len);
		size_t n = dot ? (size_t)(dot - name) : len;

		is_found =
			copy_part(name, n, part) && (is_first || at->path[0]);
		if (is_found)
			rc = is_first ? visit_first(c, part, &is_found, &next,
						    err)
				      : visit_module(c, at->path, part,
						     &is_found, &next, err);
		if (rc == 0 && is_found)
			*at = next;
		is_first = false;
		name += n + (dot != NULL);
		len -= n + (dot != NULL);
	}
	if (!is_found)
		at->path[0] = '\0';
	return rc;
}

/* ---------------------------------------------------------------- imports --- */

/* The module whose imports are scanned. */
struct importer {
	struct closure *c;
	struct module_folder folder; /* folder that the module lies in */
	struct error *err;
};

static int visit_import(void *arg, const struct python_import *i)
{
	const struct importer *m = arg;
	struct module_folder at = { .path = "" };
	char item[NAME_MAX_LEN + 1];
	struct module_folder ignored;
	bool is_found;
	int rc;

	if (closure_is_spent(m->c))
		return 0;
	if (i->level)
		at = m->folder;
	for (unsigned int k = 1; k < i->level && k < NAME_MAX_LEN; k++)
		if (strrchr(at.path, '/'))
			*strrchr(at.path, '/') = '\0';
	rc = visit_dotted(m->c, i->module, i->module_len, &at, m->err);
	if (rc < 0 || !i->item || !at.path[0] ||
	    !copy_part(i->item, i->item_len, item))
		return rc;
	return visit_module(m->c, at.path, item, &is_found, &ignored, m->err);
}

static int scan_module_imports(struct closure *c, struct closure_file *f,
			       bool is_code, struct error *err)
{
	struct importer m = { .c = c, .err = err };
	AUTO_BUF text = BUF_INIT;
	int rc = closure_read_text(c, &f->inode, &text, err);

	if (rc == 0)
		rc = closure_add_range(c, &f->inode, 0, f->inode.size, err);
	if (rc < 0)
		return rc;
	memcpy(m.folder.path, f->path, strlen(f->path) + 1);
	/* Byte code lies one folder deeper, in __pycache__. */
	for (int i = 0; i < (is_code ? 2 : 1); i++)
		if (strrchr(m.folder.path, '/'))
			*strrchr(m.folder.path, '/') = '\0';
	rc = is_code ? python_scan_code(text.data, text.len, visit_import, &m)
		     : python_scan_text(text.data, text.len, visit_import, &m);
	return rc == -ENOTSUP ? 0 : rc;
}

static int scan_compiled_module(struct closure *c, struct closure_file *f,
				struct error *err)
{
	return scan_module_imports(c, f, true, err);
}

static int scan_module_text(struct closure *c, struct closure_file *f,
			    struct error *err)
{
	return scan_module_imports(c, f, false, err);
}

/* ------------------------------------------------------------ interpreter --- */

static int add_folder(struct closure *c, const char *path, struct error *err)
{
	struct python_paths *p = &c->python;

	if (p->n == PYTHON_FOLDERS_MAX || strlen(path) > ROOTFS_PATH_MAX ||
	    !closure_is_folder(c, path))
		return 0;
	p->folders[p->n] = strdup(path);
	if (!p->folders[p->n])
		return error_nomem(err);
	p->n++;
	return 0;
}

/* Add the folders of a list with ':' between them. */
static int add_folder_list(struct closure *c, const char *list,
			   struct error *err)
{
	char path[ROOTFS_PATH_MAX + 1];
	int rc = 0;

	while (list && *list && rc == 0) {
		size_t len = strcspn(list, ":");

		if (len && len <= ROOTFS_PATH_MAX) {
			memcpy(path, list, len);
			path[len] = '\0';
			rc = add_folder(c, path, err);
		}
		list += len + (list[len] == ':');
	}
	return rc;
}

/* Add the library's folders, which are below a prefix or absolute. */
static int add_library_folders(struct closure *c, const char *prefix,
			       struct error *err)
{
	static const char *const ends[] = { "", "/lib-dynload",
					    "/site-packages" };
	char path[ROOTFS_PATH_MAX + 64];
	size_t before = c->python.n;
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ends) && rc == 0; i++) {
		(void)snprintf(path, sizeof(path), "%s/lib/python3.%u%s",
			       prefix, c->python.minor, ends[i]);
		rc = add_folder(c, path, err);
		if (i == 0 && c->python.n > before)
			c->python.standard = before;
	}
	return rc;
}

static void cut_path(char *path, int n)
{
	for (int i = 0; i < n && strrchr(path, '/'); i++)
		*strrchr(path, '/') = '\0';
}

/* Find sys.path of the interpreter PREFIX/bin/python3; a virtual environment has a link of
 * that name. */
static int find_paths(struct closure *c, const char *program,
		      const struct rootfs_file *real, struct error *err)
{
	static const char debian[] = "/usr/lib/python3/dist-packages";
	char prefix[ROOTFS_PATH_MAX + 1], path[ROOTFS_PATH_MAX + 64];
	int rc = add_folder_list(c, closure_env(c, "PYTHONPATH"), err);

	memcpy(prefix, real->path, strlen(real->path) + 1);
	cut_path(prefix, 2);
	if (rc == 0)
		rc = add_library_folders(c, prefix, err);
	(void)snprintf(prefix, sizeof(prefix), "%s", program);
	cut_path(prefix, 2);
	(void)snprintf(path, sizeof(path), "%s/pyvenv.cfg", prefix);
	if (rc == 0)
		rc = closure_add_whole(c, path, err);
	(void)snprintf(path, sizeof(path), "%s/lib/python3.%u/site-packages",
		       prefix, c->python.minor);
	if (rc == 0)
		rc = add_folder(c, path, err);
	(void)snprintf(path, sizeof(path),
		       "/usr/local/lib/python3.%u/dist-packages",
		       c->python.minor);
	if (rc == 0)
		rc = add_folder(c, path, err);
	return rc < 0 ? rc : add_folder(c, debian, err);
}

/* Visit a script, in whose folder Python looks for modules first. */
static int visit_script(struct closure *c, const char *path, struct error *err)
{
	char folder[ROOTFS_PATH_MAX + 1];
	struct rootfs_file f;
	int rc;

	if (!closure_find_file(c, path, &f))
		return 0;
	memcpy(folder, f.path, strlen(f.path) + 1);
	cut_path(folder, 1);
	rc = add_folder(c, folder[0] ? folder : "/", err);
	return rc < 0 ? rc
		      : closure_visit(c, path, scan_module_text,
				      CLOSURE_TEXT_MAX, err);
}

static int run_module(struct closure *c, const char *name, struct error *err)
{
	struct module_folder at = { .path = "" };
	int rc = visit_dotted(c, name, strlen(name), &at, err);
	bool is_found;

	return rc < 0 || !at.path[0]
		       ? rc
		       : visit_source(c, at.path, "__main__", &is_found, err);
}

static int scan_program_text(struct closure *c, const char *text,
			     struct error *err)
{
	struct importer m = { .c = c, .err = err };

	return python_scan_text(text, strlen(text), visit_import, &m);
}

static int run_words(struct closure *c, const char *const *words, size_t n,
		     struct error *err)
{
	const char *folder = c->start->folder ? c->start->folder : "";
	char path[ROOTFS_PATH_MAX + 1];

	for (size_t i = 0; i < n; i++) {
		if (words[i][0] != '-') {
			(void)snprintf(path, sizeof(path), "%s/%s",
				       words[i][0] == '/' ? "" : folder,
				       words[i]);
			return visit_script(c, path, err);
		}
		if (i + 1 == n)
			break;
		if (strcmp(words[i], "-m") == 0)
			return run_module(c, words[i + 1], err);
		if (strcmp(words[i], "-c") == 0)
			return scan_program_text(c, words[i + 1], err);
		/* These two options take an argument. */
		i += strcmp(words[i], "-W") == 0 || strcmp(words[i], "-X") == 0;
	}
	return 0;
}

static int visit_first_modules(struct closure *c, struct error *err)
{
	struct module_folder at;
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(locale_files) && rc == 0; i++)
		rc = closure_add_whole(c, locale_files[i], err);
	for (size_t i = 0; i < ARRAY_SIZE(first_modules) && rc == 0; i++) {
		at.path[0] = '\0';
		rc = visit_dotted(c, first_modules[i], strlen(first_modules[i]),
				  &at, err);
	}
	return rc;
}

int closure_run_python(struct closure *c, const char *program,
		       const char *const *words, size_t n, struct error *err)
{
	struct rootfs_file real;
	int rc = 0;

	if (!closure_find_file(c, program, &real))
		return 0;
	if (c->python.n == 0) {
		const char *name = strrchr(real.path, '/');

		if (!name ||
		    sscanf(name, "/python3.%u", &c->python.minor) != 1 ||
		    c->python.minor > 99)
			return 0;
		rc = find_paths(c, program, &real, err);
		if (rc == 0)
			rc = visit_first_modules(c, err);
	}
	return rc < 0 ? rc : run_words(c, words, n, err);
}
