// SPDX-License-Identifier: Apache-2.0
/* Inputs that package managers use although the command does not name them: files in the working
 * folder, settings, variables; and the type of GPU, which some of them take into account. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/text.h"
#include "envcache/inputs_priv.h"
#include "envcache/words.h"

#define SETTINGS_MAX (1u << 20) /* bytes of a file */
/* most files of a folder of settings that are read */
#define FILES_MAX 256

/* A package manager's names and files.  Lists end with NULL. In files, "~" is $HOME, a final slash
 * stands for all files of a folder; relative names are in the working folder. */
struct tool {
	const char *names[5];
	const char *files[9];
};

static const struct tool tools[] = {
	{ { "pip", "pip3", "pipx" },
	  { "/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf" } },
	{ { "uv", "uvx" },
	  { "pyproject.toml", "uv.lock", "uv.toml", ".python-version",
	    "/etc/uv/uv.toml", "~/.config/uv/uv.toml" } },
	{ { "poetry" },
	  { "pyproject.toml", "poetry.lock", "poetry.toml",
	    "~/.config/pypoetry/config.toml" } },
	{ { "pipenv" }, { "Pipfile", "Pipfile.lock" } },
	{ { "pdm" }, { "pyproject.toml", "pdm.lock", "pdm.toml" } },
	{ { "conda", "mamba", "micromamba", "conda-lock" },
	  { "environment.yml", "environment.yaml", "conda-lock.yml",
	    "/etc/conda/.condarc", "/etc/conda/condarc", "~/.condarc",
	    "~/.conda/.condarc", "~/.mambarc" } },
	{ { "pixi" }, { "pixi.toml", "pixi.lock", "pyproject.toml" } },
	{ { "npm", "npx" },
	  { "package.json", "package-lock.json", "npm-shrinkwrap.json",
	    ".npmrc", "~/.npmrc" } },
	{ { "yarn" },
	  { "package.json", "yarn.lock", ".yarnrc", ".yarnrc.yml", ".npmrc",
	    "~/.npmrc", "~/.yarnrc", "~/.yarnrc.yml" } },
	{ { "pnpm" },
	  { "package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml", ".npmrc",
	    "~/.npmrc" } },
	{ { "apt", "apt-get", "aptitude" },
	  { "/etc/apt/sources.list", "/etc/apt/sources.list.d/",
	    "/etc/apt/preferences", "/etc/apt/preferences.d/" } },
	{ { "dnf", "yum", "microdnf" },
	  { "/etc/yum.repos.d/", "/etc/dnf/dnf.conf" } },
	{ { "apk" }, { "/etc/apk/repositories", "/etc/apk/world" } },
	{ { "cargo" }, { "Cargo.toml", "Cargo.lock", "~/.cargo/config.toml" } },
	{ { "go" }, { "go.mod", "go.sum" } },
	{ { "bundle", "bundler" }, { "Gemfile", "Gemfile.lock" } },
	{ { "make" }, { "GNUmakefile", "makefile", "Makefile" } },
};

_Static_assert(ARRAY_SIZE(tools) <= 32, "a bit for each");

/* Is it this tool, possibly with a version: "pip3.11" is pip? */
static bool is_tool(const char *base, const char *name)
{
	size_t n = strlen(name);

	return strncmp(base, name, n) == 0 &&
	       (!base[n] || (strcmp(name, "pip3") == 0 && base[n] == '.' &&
			     isdigit((unsigned char)base[n + 1])));
}

/* The tools that the word names, as bits of `tools`. */
static unsigned int tools_named(const char *word)
{
	const char *slash = strrchr(word, '/');
	const char *base = slash ? slash + 1 : word;
	unsigned int bits = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		for (const char *const *n = tools[i].names; *n; n++)
			if (is_tool(base, *n))
				bits |= 1u << i;
	return bits;
}

bool inputs_is_tool(const char *word)
{
	return tools_named(word) != 0;
}

void inputs_note_tool(struct gather *g, const char *word)
{
	g->tools |= tools_named(word);
}

/* ------------------------------------------------------------------------ settings --- */

/* Append a line of settings; if the name denotes a secret, without the value:
 * "//HOST/:_authToken=X". */
static int put_setting(struct buf *out, char *line)
{
	char *is = strpbrk(line, "="), *name = is;
	AUTO_FREE char *plain = NULL;

	while (name && name > line && !strchr(" \t:/.", name[-1]))
		name--;
	if (is) {
		size_t n = (size_t)(is - name);

		while (n && name[n - 1] == ' ')
			n--;
		if (name_is_secret(name, n) ||
		    (n >= 9 && strncasecmp(name + n - 9, "authtoken", 9) == 0))
			is[1] = '\0';
	}
	plain = text_without_logins(line);
	return !plain || buf_puts(out, plain) < 0 || buf_puts(out, "\n") < 0
		       ? -ENOMEM
		       : 0;
}

/* Add a file of settings.  A missing or unreadable file is skipped: the package manager cannot
 * read it either. */
static int add_settings(struct gather *g, const char *name, const char *path,
			struct error *err)
{
	AUTO_BUF text = BUF_INIT, plain = BUF_INIT;
	char *save = NULL;
	struct stat st;
	struct digest d;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
	    inputs_has(g, "file", name) ||
	    fs_read_file(path, SETTINGS_MAX, &text, NULL) < 0)
		return 0;
	for (char *line = text.data ? strtok_r(text.data, "\n", &save) : NULL;
	     line; line = strtok_r(NULL, "\n", &save))
		if (put_setting(&plain, line) < 0)
			return error_nomem(err);
	if (digest_of(plain.data ? plain.data : "", plain.len, &d) < 0)
		return error_nomem(err);
	return inputs_add(g, "config", name, &d, NULL, err);
}

static int is_no_dot(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int add_folder(struct gather *g, const char *name, const char *path,
		      struct error *err)
{
	struct dirent **list = NULL;
	int n = scandir(path, &list, is_no_dot, alphasort), rc = 0;

	for (int i = 0; i < n; i++) {
		AUTO_FREE char *in = fs_join(path, list[i]->d_name);
		AUTO_FREE char *called = NULL;

		if (asprintf(&called, "%s%s", name, list[i]->d_name) < 0)
			called = NULL;
		if (rc == 0 && i < FILES_MAX)
			rc = in && called ? add_settings(g, called, in, err)
					  : error_nomem(err);
		free(list[i]);
	}
	free((void *)list);
	return rc;
}

static int add_tool_file(struct gather *g, const char *name, struct error *err)
{
	const char *home = variable_find(g->from->environment, "HOME", 4);
	AUTO_FREE char *path = NULL;
	int n = 0;

	if (*name == '~' && !home)
		return 0;
	if (*name == '~')
		n = asprintf(&path, "%s%s", home, name + 1);
	else if (*name == '/')
		n = asprintf(&path, "%s%s", g->from->root, name);
	else
		path = strdup(name);
	if (n < 0 || !path)
		return error_nomem(err);
	return name[strlen(name) - 1] == '/' ? add_folder(g, name, path, err)
					     : add_settings(g, name, path, err);
}

/* Also look for a file of the working folder in the folders that the command changes to. */
static int add_in_folders(struct gather *g, const char *name, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < g->n_folders; i++) {
		AUTO_FREE char *path = fs_join(g->folders[i], name);

		rc = path ? add_settings(g, path, path, err) : error_nomem(err);
	}
	return rc;
}

int inputs_add_tools(struct gather *g, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		for (const char *const *f = tools[i].files;
		     rc == 0 && (g->tools & 1u << i) && *f; f++) {
			rc = add_tool_file(g, *f, err);
			if (rc == 0 && !strchr("~/", **f))
				rc = add_in_folders(g, *f, err);
		}
	return rc;
}

/* ----------------------------------------------------------------------------- GPU --- */

#define DISPLAY_VGA 0x0300u /* PCI class numbers */
#define DISPLAY_3D 0x0302u
#define DISPLAY_OTHER 0x0380u
#define ACCELERATOR 0x1200u
#define VENDOR_AMD 0x1002u
#define VENDOR_NVIDIA 0x10deu
#define GPU_TYPES_MAX 16

static unsigned int read_number(const char *dir, const char *device,
				const char *name)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF text = BUF_INIT;

	if (asprintf(&path, "%s/%s/%s", dir, device, name) < 0)
		path = NULL;
	return path && fs_read_file(path, 64, &text, NULL) == 0 && text.data
		       ? (unsigned int)strtoul(text.data, NULL, 16)
		       : 0;
}

/* Is it a GPU? A server board's own VGA chip is not. */
static bool is_gpu(unsigned int class, unsigned int vendor)
{
	class >>= 8;
	return class == DISPLAY_3D || class == ACCELERATOR ||
	       ((class == DISPLAY_VGA || class == DISPLAY_OTHER) &&
		(vendor == VENDOR_AMD || vendor == VENDOR_NVIDIA));
}

static int compare_numbers(const void *a, const void *b)
{
	unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

	return x < y ? -1 : x > y;
}

/* Add the GPU types as "10de:2330", each once: PCI numbers are visible in a container without the
 * driver's programs. */
int inputs_add_gpu(struct gather *g, struct error *err)
{
	unsigned int types[GPU_TYPES_MAX];
	AUTO_FREE char *dir = NULL;
	AUTO_BUF shown = BUF_INIT;
	struct dirent **list = NULL;
	size_t n_types = 0;
	int n, rc = 0;

	if (asprintf(&dir, "%s/sys/bus/pci/devices", g->from->root) < 0)
		return error_nomem(err);
	n = scandir(dir, &list, is_no_dot, NULL);
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;
		unsigned int vendor = read_number(dir, name, "vendor");

		if (n_types < GPU_TYPES_MAX &&
		    is_gpu(read_number(dir, name, "class"), vendor))
			types[n_types++] =
				vendor << 16 | read_number(dir, name, "device");
		free(list[i]);
	}
	free((void *)list);
	if (n_types)
		qsort(types, n_types, sizeof(*types), compare_numbers);
	for (size_t i = 0; rc == 0 && i < n_types; i++)
		if (i == 0 || types[i] != types[i - 1])
			rc = buf_printf(&shown, "%s%04x:%04x", i ? " " : "",
					types[i] >> 16, types[i] & 0xffffu);
	if (rc < 0)
		return error_nomem(err);
	return n_types ? inputs_add_text(g, "gpu", "", shown.data, err) : 0;
}
