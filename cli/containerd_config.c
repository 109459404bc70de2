// SPDX-License-Identifier: Apache-2.0
#include "cli/containerd_config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 192u

/* Prefixes of CRI's keys by version of the file: 1, 2, and from 3 on. */
static const struct {
	const char *path, *written;
} sections[] = {
	{ "plugins.cri.containerd.", "[plugins.cri.containerd]" },
	{ "plugins.io.containerd.grpc.v1.cri.containerd.",
	  "[plugins.\"io.containerd.grpc.v1.cri\".containerd]" },
	{ "plugins.io.containerd.cri.v1.images.",
	  "[plugins.\"io.containerd.cri.v1.images\"]" },
};

/* Prefixes of CRI's registry settings, by version in the same order. */
static const char *const registries[] = {
	"plugins.cri.registry.",
	"plugins.io.containerd.grpc.v1.cri.registry.",
	"plugins.io.containerd.cri.v1.images.registry.",
};

/* Prefixes of the settings of one runtime, by version in the same order. */
static const char *const runtimes[] = {
	"plugins.cri.containerd.runtimes.",
	"plugins.io.containerd.grpc.v1.cri.containerd.runtimes.",
	"plugins.io.containerd.cri.v1.runtime.containerd.runtimes.",
};

static size_t prefix_index_of_version(unsigned int version)
{
	return version < 2 ? 0 : version == 2 ? 1 : 2;
}

const char *containerd_config_section(unsigned int version)
{
	return sections[prefix_index_of_version(version)].written;
}

/* Copy the string between the next two quotes to `out`; returns where it ends, or NULL. */
static const char *read_quoted(const char *p, const char *end, char *out,
			       size_t max)
{
	const char *q, *stop;

	for (q = p; q < end && *q != '"' && *q != '\''; q++)
		;
	if (q >= end)
		return NULL;
	stop = memchr(q + 1, *q, (size_t)(end - q - 1));
	if (!stop || (size_t)(stop - q) > max)
		return NULL;
	memcpy(out, q + 1, (size_t)(stop - q - 1));
	out[stop - q - 1] = '\0';
	return stop + 1;
}

/* Append the dotted name at `p`, without quotes and blanks, up to `stop` or a comment; returns
 * where it ends. */
static const char *add_name(const char *p, const char *end, char stop,
			    char out[PATH_BYTES])
{
	size_t n = strlen(out);

	for (; p < end && *p != stop && *p != '#'; p++)
		if (!strchr(" \t\"'", *p) && n + 1 < PATH_BYTES)
			out[n++] = *p;
	out[n] = '\0';
	return p;
}

static bool is_bootseer(const char *v, const char *end)
{
	char name[16];

	return read_quoted(v, end, name, sizeof(name)) &&
	       strcmp(name, "bootseer") == 0;
}

/* Is `path` = `prefix` + `key`, with one name between them when `between` is set? */
static bool is_path_of_key(const char *path, const char *prefix, bool between,
			   const char *key)
{
	size_t len = strlen(prefix);

	if (strncmp(path, prefix, len) != 0)
		return false;
	path += len;
	if (between && strchr(path, '.'))
		path = strchr(path, '.') + 1;
	return strcmp(path, key) == 0;
}

static bool is_snapshotter(const char *path, size_t version)
{
	return is_path_of_key(path, sections[version].path, false,
			      "snapshotter") ||
	       is_path_of_key(path, runtimes[version], true, "snapshotter") ||
	       (version == 2 &&
		is_path_of_key(
			path,
			"plugins.io.containerd.cri.v1.images.runtime_platforms.",
			true, "snapshotter"));
}

static void take_snapshotter(const char *path, struct containerd_config *ret)
{
	size_t now = prefix_index_of_version(ret->version);

	for (size_t v = 0; v < 3; v++) {
		if (!is_snapshotter(path, v))
			continue;
		if (v == now) {
			ret->used = true;
			ret->by_default |=
				is_path_of_key(path, sections[v].path, false,
					       "snapshotter");
		} else
			ret->misplaced = true;
	}
}

static void take_capabilities(const char *v, const char *end,
			      struct containerd_config *ret)
{
	char name[32];

	ret->rebase = false;
	ret->remap_ids = false;
	while ((v = read_quoted(v, end, name, sizeof(name)))) {
		ret->rebase |= strcmp(name, "rebase") == 0;
		ret->remap_ids |= strcmp(name, "remap-ids") == 0;
	}
}

static void take_list_value(const char *path, const char *v, const char *end,
			    struct containerd_config *ret)
{
	const size_t max = sizeof(ret->imports) / sizeof(ret->imports[0]);
	bool is_imports = strcmp(path, "imports") == 0;
	char name[sizeof(ret->imports[0])];

	while ((v = read_quoted(v, end, name, sizeof(name)))) {
		if (is_imports && ret->n_imports < max)
			strcpy(ret->imports[ret->n_imports++], name);
		else if (!is_imports &&
			 (strcmp(name, "cri") == 0 ||
			  strcmp(name, "io.containerd.grpc.v1.cri") == 0 ||
			  strcmp(name, "io.containerd.cri.v1.images") == 0))
			ret->cri_off = true;
	}
}

static void take_differs(const char *v, const char *end,
			 struct containerd_config *ret)
{
	bool is_first = true;
	char name[64];

	ret->differ_listed = false;
	ret->differ_first = false;
	while ((v = read_quoted(v, end, name, sizeof(name)))) {
		bool is_ours = strcmp(name, CONTAINERD_DIFFER) == 0;

		ret->differ_listed |= is_ours;
		ret->differ_first |= is_ours && is_first;
		is_first = false;
	}
}

/* Store the value at `v` if `path` is one of the known keys. */
static void take_value(const char *path, const char *v, const char *end,
		       struct containerd_config *ret)
{
	const char *last = strrchr(path, '.');

	last = last ? last + 1 : path;
	if (strcmp(path, "version") == 0) {
		ret->version = (unsigned int)strtoul(v, NULL, 10);
	} else if (strcmp(path, "imports") == 0 ||
		   strcmp(path, "disabled_plugins") == 0) {
		take_list_value(path, v, end, ret);
	} else if (strcmp(path, "proxy_plugins.bootseer.address") == 0) {
		ret->proxy = true;
		(void)!read_quoted(v, end, ret->address, sizeof(ret->address));
	} else if (strcmp(path, "proxy_plugins.bootseer.capabilities") == 0) {
		take_capabilities(v, end, ret);
	} else if (strcmp(path,
			  "proxy_plugins." CONTAINERD_DIFFER ".address") == 0) {
		(void)!read_quoted(v, end, ret->differ, sizeof(ret->differ));
	} else if (strcmp(path, "plugins.io.containerd.service.v1.diff-service"
				".default") == 0) {
		take_differs(v, end, ret);
	} else if (strcmp(path, "root") == 0) {
		(void)!read_quoted(v, end, ret->root, sizeof(ret->root));
	} else if (is_path_of_key(path,
				  sections[prefix_index_of_version(
						   ret->version)]
					  .path,
				  false, "discard_unpacked_layers")) {
		ret->discards = strncmp(v, "true", 4) == 0;
	} else if (is_path_of_key(path,
				  registries[prefix_index_of_version(
					  ret->version)],
				  false, "config_path")) {
		(void)!read_quoted(v, end, ret->config_path,
				   sizeof(ret->config_path));
	} else if (strcmp(last, "snapshotter") == 0 && is_bootseer(v, end)) {
		take_snapshotter(path, ret);
	} else if (is_path_of_key(path,
				  sections[prefix_index_of_version(
						   ret->version)]
					  .path,
				  false, "disable_snapshot_annotations")) {
		ret->labels = strncmp(v, "false", 5) == 0;
	}
}

/* Does the section name mirrors the way containerd did before hosts.toml? */
static bool is_old_mirror_section(const char *section, unsigned int version)
{
	const char *prefix = registries[prefix_index_of_version(version)];
	size_t len = strlen(prefix), end = strlen(section);

	if (strncmp(section, prefix, len) != 0)
		return false;
	section += len;
	end -= len;
	return strncmp(section, "mirrors.", 8) == 0 ||
	       (strncmp(section, "configs.", 8) == 0 && end > 4 &&
		strcmp(section + end - 4, ".tls") == 0);
}

static void scan_line(const char *line, const char *end,
		      char section[PATH_BYTES], struct containerd_config *ret)
{
	char path[PATH_BYTES];
	const char *v;

	if (*line == '[') {
		*section = '\0';
		/* add_name() ends at the first bracket, so "[[a.b]]" works too. */
		(void)add_name(line + 1 + (line[1] == '['), end, ']', section);
		if (strcmp(section, "proxy_plugins.bootseer") == 0)
			ret->proxy = true;
		ret->has_old_hosts |=
			is_old_mirror_section(section, ret->version);
		return;
	}
	strcpy(path, section);
	if (*path && strlen(path) + 1 < PATH_BYTES)
		strcat(path, ".");
	v = add_name(line, end, '=', path);
	if (v == end || *v != '=')
		return;
	for (v++; v < end && isblank((unsigned char)*v); v++)
		;
	take_value(path, v, end, ret);
}

/* Scanned for the version first, as the version may come after the keys that depend on it. */
static void scan_text(const char *text, bool version_only,
		      struct containerd_config *ret)
{
	char section[PATH_BYTES] = "";

	while (*text) {
		const char *end = text + strcspn(text, "\n");

		text += strspn(text, " \t");
		if (version_only && *text == '[')
			return;
		if (text < end &&
		    (!version_only || strncmp(text, "version", 7) == 0))
			scan_line(text, end, section, ret);
		text = *end ? end + 1 : end;
	}
}

void containerd_config_scan(const char *text, struct containerd_config *ret)
{
	scan_text(text, true, ret);
	scan_text(text, false, ret);
}

const char *containerd_config_of(const char *text, size_t len)
{
	size_t at = 0;

	while (at < len) {
		const char *w = text + at;

		at += strnlen(w, len - at) + 1;
		if (strncmp(w, "--config=", 9) == 0)
			return w + 9;
		if (strncmp(w, "-c=", 3) == 0)
			return w + 3;
		if (strcmp(w, "--config") == 0 || strcmp(w, "-c") == 0)
			return at < len ? text + at : NULL;
	}
	return NULL;
}
