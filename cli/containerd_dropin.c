// SPDX-License-Identifier: Apache-2.0
#include "cli/containerd_dropin.h"

#include <errno.h>
#include <string.h>

#include "cli/containerd_config.h"

#define CRI_1 "plugins.io.containerd.grpc.v1.cri"
#define IMAGES_2 "plugins.io.containerd.cri.v1.images"
#define RUNTIME_2 "plugins.io.containerd.cri.v1.runtime"
#define DIFF_SERVICE "plugins.io.containerd.service.v1.diff-service"
#define TRANSFER "plugins.io.containerd.transfer.v1.local"
#define UNPACK TRANSFER ".unpack_config"
#define UNPACK_HEADER \
	"[[plugins.\"io.containerd.transfer.v1.local\".unpack_config]]\n"
#define NAME_BYTES 256u
#define MARK " # by 'bootseer node join'"

/* A line of a dump, with its section (or the section that it begins) and its key. */
struct dump_line {
	const char *at; /* begin of the line, after blanks */
	size_t len;
	bool is_header;
	char section[NAME_BYTES]; /* dotted, without quotes */
	char key[64];             /* "": the line has none */
};

/* Copy a dotted name up to `stop`, without quotes and blanks. */
static void copy_name(const char *from, size_t len, char stop, char *ret,
		      size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < len && from[i] != stop; i++)
		if (!strchr(" \t\"'[", from[i]) && n + 1 < max)
			ret[n++] = from[i];
	ret[n] = '\0';
}

/* Read the next line that is not empty; false at the end.  Zero `l` before the first call. */
static bool dump_next(const char **text, struct dump_line *l)
{
	for (;;) {
		*text += strspn(*text, " \t\n");
		if (!**text)
			return false;
		l->at = *text;
		l->len = strcspn(l->at, "\n");
		*text += l->len;
		l->is_header = *l->at == '[';
		l->key[0] = '\0';
		if (l->is_header)
			copy_name(l->at, l->len, ']', l->section,
				  sizeof(l->section));
		else if (memchr(l->at, '=', l->len))
			copy_name(l->at, l->len, '=', l->key, sizeof(l->key));
		return true;
	}
}

/* Copy the value in the line, without quotes, blanks and comment. */
static void copy_value(const struct dump_line *l, char ret[NAME_BYTES])
{
	const char *value = (const char *)memchr(l->at, '=', l->len) + 1;

	copy_name(value, (size_t)(l->at + l->len - value), '#', ret,
		  NAME_BYTES);
}

/* Is `section` equal to `top` or below it?  Returns the rest of its name, or NULL. */
static const char *section_name_below(const char *section, const char *top)
{
	size_t len = strlen(top);

	if (strncmp(section, top, len) != 0 ||
	    (section[len] && section[len] != '.'))
		return NULL;
	return section + len;
}

/* ----------------------------------------------------------------- compose --- */

/* Find the default runtime's name, in the form used in section names. */
static int find_runtime(const char *dump, const char *containerd,
			char ret[NAME_BYTES], struct error *err)
{
	struct dump_line l = { .len = 0 };

	while (dump_next(&dump, &l)) {
		if (strcmp(l.section, containerd) != 0 ||
		    strcmp(l.key, "default_runtime_name") != 0)
			continue;
		copy_value(&l, ret);
		if (*ret && strlen(ret) < 64)
			return 0;
	}
	return error_set(err, ENOENT,
			 "containerd's configuration has no "
			 "default_runtime_name that a runtime can be made of");
}

/* Append a copy of the default runtime's section, named "bootseer" and using the plugin. */
static int copy_runtime(const char *dump, const char *containerd,
			const char *written, struct buf *ret, struct error *err)
{
	char name[NAME_BYTES], top[2 * NAME_BYTES];
	struct dump_line l = { .len = 0 };
	bool found = false;
	int rc = find_runtime(dump, containerd, name, err);

	if (rc < 0)
		return rc;
	snprintf(top, sizeof(top), "%s.runtimes.%s", containerd, name);
	while (rc == 0 && dump_next(&dump, &l)) {
		const char *rest = section_name_below(l.section, top);

		if (!rest)
			continue;
		if (l.is_header)
			rc = buf_printf(ret, "[%s.runtimes.bootseer%s]\n",
					written, rest);
		else if (!*rest && strcmp(l.key, "snapshotter") == 0) {
			found = true;
			rc = buf_puts(ret, "  snapshotter = \"bootseer\"\n");
		} else
			rc = buf_printf(ret, "  %.*s\n", (int)l.len, l.at);
	}
	if (rc == 0 && !found)
		return error_set(err, ENOTSUP,
				 "this containerd has one snapshotter for all "
				 "runtimes (1.7 and later have one for each): "
				 "--pods all");
	return rc < 0 ? error_nomem(err) : 0;
}

/* Add the runtime handler "bootseer".  It is kept even when other pods start lazily too:
 * containerd refuses to exec in a pod whose handler is not configured. */
static int add_runtime(const struct dropin_want *want, const char *dump,
		       const char *containerd, const char *written,
		       struct buf *ret, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct error why = ERROR_INIT;
	int rc;

	if (want->pods == DROPIN_NO_PODS)
		return 0;
	rc = copy_runtime(dump, containerd, written, &text, &why);
	if (rc == 0)
		return buf_append(ret, text.data, text.len) < 0
			       ? error_nomem(err)
			       : 0;
	if (want->pods != DROPIN_RUNTIME && (rc == -ENOTSUP || rc == -ENOENT))
		return 0; /* this containerd never had pods of this handler */
	*err = why;
	return rc;
}

/* For containerd 1.x: append all of CRI's section with the plugin in it, because a section of an
 * imported file replaces the whole section of the same name, and those below it. */
static int copy_cri(const struct dropin_want *want, const char *dump,
		    struct buf *ret, struct error *err)
{
	struct dump_line l = { .len = 0 };
	int rc = 0;

	for (const char *text = dump; rc == 0 && dump_next(&text, &l);) {
		bool here = strcmp(l.section, CRI_1 ".containerd") == 0;

		if (!section_name_below(l.section, CRI_1) ||
		    section_name_below(l.section,
				       CRI_1 ".containerd.runtimes.bootseer"))
			continue;
		if (here && want->pods == DROPIN_ALL &&
		    strcmp(l.key, "snapshotter") == 0)
			rc = buf_puts(ret, "  snapshotter = \"bootseer\"\n");
		else if (here &&
			 strcmp(l.key, "disable_snapshot_annotations") == 0)
			rc = buf_puts(ret, "  disable_snapshot_annotations = "
					   "false\n");
		else if (want->config_path &&
			 strcmp(l.section, CRI_1 ".registry") == 0 &&
			 strcmp(l.key, "config_path") == 0)
			rc = buf_printf(ret, "  config_path = \"%s\"\n",
					want->config_path);
		else
			rc = buf_printf(ret, "%s%.*s\n",
					l.is_header ? "" : "  ", (int)l.len,
					l.at);
	}
	if (rc < 0)
		return error_nomem(err);
	return add_runtime(want, dump, CRI_1 ".containerd",
			   "plugins.\"io.containerd.grpc.v1.cri\".containerd",
			   ret, err);
}

/* For containerd 2.x, which merges sections key by key. */
static int add_cri(const struct dropin_want *want, const char *dump,
		   struct buf *ret, struct error *err)
{
	int rc = buf_puts(ret, "[plugins.\"io.containerd.cri.v1.images\"]\n"
			       "  disable_snapshot_annotations = false\n"
			       "  use_local_image_pull = true\n");

	if (rc == 0 && want->pods == DROPIN_ALL)
		rc = buf_puts(ret, "  snapshotter = \"bootseer\"\n");
	if (rc == 0 && want->config_path)
		rc = buf_printf(ret,
				"[plugins.\"io.containerd.cri.v1.images\""
				".registry]\n  config_path = \"%s\"\n",
				want->config_path);
	if (rc == 0 && want->pods != DROPIN_NO_PODS)
		rc = buf_printf(ret,
				"[plugins.\"io.containerd.cri.v1.images\""
				".runtime_platforms.bootseer]\n"
				"  platform = \"%s\"\n"
				"  snapshotter = \"bootseer\"\n",
				want->platform);
	if (rc < 0)
		return error_nomem(err);
	return add_runtime(
		want, dump, RUNTIME_2 ".containerd",
		"plugins.\"io.containerd.cri.v1.runtime\".containerd", ret,
		err);
}

/* Configure bootseerd to unpack layers, with containerd's own differs as the second choice.  For
 * 1.x the whole section is repeated, as an imported section replaces the old one. */
static int add_differ(const struct dropin_want *want, const char *dump,
		      bool is_2, struct buf *ret, struct error *err)
{
	struct dump_line l = { .len = 0 };
	bool listed = false, asks_others = false;
	int rc = buf_printf(ret,
			    "[proxy_plugins." CONTAINERD_DIFFER "]\n"
			    "  type = \"diff\"\n"
			    "  address = \"%s\"\n"
			    "[plugins.\"io.containerd.service.v1.diff-service"
			    "\"]\n",
			    want->address);

	while (rc == 0 && dump_next(&dump, &l)) {
		const char *list = memchr(l.at, '[', l.len);

		asks_others |= strcmp(l.section, TRANSFER) == 0;
		if (strcmp(l.section, DIFF_SERVICE) != 0 || l.is_header)
			continue;
		if (strcmp(l.key, "default") != 0)
			rc = is_2 ? 0
				  : buf_printf(ret, "  %.*s\n", (int)l.len,
					       l.at);
		else if (list) {
			listed = true;
			rc = buf_printf(ret, "  default = [%s%.*s\n",
					memmem(l.at, l.len, CONTAINERD_DIFFER,
					       strlen(CONTAINERD_DIFFER))
						? ""
						: "\"" CONTAINERD_DIFFER "\", ",
					(int)(l.at + l.len - list - 1),
					list + 1);
		}
	}
	if (rc < 0)
		return error_nomem(err);
	/* containerd 1.6 has neither the transfer service nor differ plugins. */
	if (!listed || !asks_others)
		return error_set(err, ENOTSUP,
				 "this containerd has nobody else unpack "
				 "layers (1.7 and later do): leave out "
				 "--unpack");
	return 0;
}

static int add_plugin(const struct dropin_want *want, bool is_2,
		      struct buf *ret)
{
	return buf_printf(
		ret,
		"# SPDX-License-Identifier: Apache-2.0\n"
		"# Made by 'bootseer node join', which makes it anew each time; "
		"'bootseer node leave'\n# takes it away.  docs/containerd.md "
		"says what is in it.\n"
		"version = %d\n"
		"[proxy_plugins.bootseer]\n"
		"  type = \"snapshot\"\n"
		"  address = \"%s\"\n"
		"%s"
		"  [proxy_plugins.bootseer.exports]\n"
		"    root = \"%s\"\n"
		"%s",
		is_2 ? 3 : 2, want->address,
		is_2 && want->remap_ids ? "  capabilities = [\"remap-ids\"]\n"
					: "",
		want->root,
		is_2 ? "    enable_remote_snapshot_annotations = \"true\"\n"
		     : "");
}

/* Append a line of an entry of the transfer service's list.  An entry has a single differ; an
 * entry without one would become ambiguous beside ours, so it gets containerd's own. */
static int copy_unpack_line(const struct dropin_want *want,
			    const struct dump_line *l, bool *is_ours,
			    struct buf *ret)
{
	char value[NAME_BYTES];

	if (l->is_header)
		return buf_puts(ret, UNPACK_HEADER);
	if (!*l->key)
		return 0;
	copy_value(l, value);
	*is_ours |= strcmp(l->key, "snapshotter") == 0 &&
		    strcmp(value, "bootseer") == 0;
	if (want->unpack && strcmp(l->key, "differ") == 0 && !*value)
		return buf_puts(ret, "  differ = \"walking\"\n");
	return buf_printf(ret, "  %.*s\n", (int)l->len, l->at);
}

/* Append the entries of the transfer service's list for other snapshotters: a list in an imported
 * file replaces the built-in list and those of other files. */
static int copy_unpack(const struct dropin_want *want, const char *dump,
		       struct buf *ret)
{
	struct dump_line l = { .len = 0 };
	AUTO_BUF entry = BUF_INIT;
	bool is_ours = false, more = true;
	int rc = 0;

	while (rc == 0 && more) {
		more = dump_next(&dump, &l);
		if (entry.len && (!more || l.is_header)) {
			rc = is_ours ? 0
				     : buf_append(ret, entry.data, entry.len);
			entry.len = 0;
			is_ours = false;
		}
		if (rc == 0 && more && strcmp(l.section, UNPACK) == 0)
			rc = copy_unpack_line(want, &l, &is_ours, &entry);
	}
	return rc;
}

/* Write for which snapshotters the transfer service (`ctr images pull`) unpacks.  Since 2.2 dumps
 * lack the built-in list, so it is written here; since 2.3 (version 4) it has EROFS images, too. */
static int add_unpack(const struct dropin_want *want, const char *dump,
		      unsigned int version, struct buf *ret)
{
	const char *arch = strchr(want->platform, '/');
	size_t before = ret->len;
	int rc = copy_unpack(want, dump, ret);
	bool is_built_in = ret->len == before;

	if (rc == 0 && is_built_in && version > 3)
		rc = buf_printf(ret,
				UNPACK_HEADER
				"  platform = \"linux(+erofs)%s\"\n"
				"  snapshotter = \"erofs\"\n"
				"  differ = \"erofs\"\n"
				"  optional = true\n",
				arch ? arch : "");
	for (size_t i = is_built_in ? 0 : 1; rc == 0 && i < 2; i++)
		rc = buf_printf(ret,
				UNPACK_HEADER "  platform = \"%s\"\n"
					      "  snapshotter = \"%s\"\n"
					      "  differ = \"walking\"\n",
				want->platform, i ? "bootseer" : "overlayfs");
	return rc;
}

/* For containerd 1.x: repeat the transfer service's section, since an entry may have no differ. */
static int copy_transfer(const struct dropin_want *want, const char *dump,
			 struct buf *ret)
{
	struct dump_line l = { .len = 0 };
	int rc = 0;

	for (const char *text = dump; rc == 0 && dump_next(&text, &l);)
		if (strcmp(l.section, TRANSFER) == 0)
			rc = buf_printf(ret, "%s%.*s\n",
					l.is_header ? "" : "  ", (int)l.len,
					l.at);
	return rc < 0 ? rc : copy_unpack(want, dump, ret);
}

/* containerd 1.6 ignores the key "exports", which it does not know. */
int dropin_compose(const struct dropin_want *want, const char *dump,
		   struct buf *ret, struct error *err)
{
	struct containerd_config c = { .proxy = false };
	bool is_2;
	int rc;

	containerd_config_scan(dump, &c);
	is_2 = c.version > 2;
	rc = add_plugin(want, is_2, ret);
	if (rc == 0 && is_2)
		rc = add_unpack(want, dump, c.version, ret);
	else if (rc == 0 && want->unpack)
		rc = copy_transfer(want, dump, ret);
	if (rc < 0)
		return error_nomem(err);
	rc = want->unpack ? add_differ(want, dump, is_2, ret, err) : 0;
	if (rc < 0)
		return rc;
	return is_2 ? add_cri(want, dump, ret, err)
		    : copy_cri(want, dump, ret, err);
}

/* ----------------------------------------------------------------- imports --- */

/* Find the line with the file's imports, which is before its first section. */
static const char *find_imports(const char *text)
{
	struct dump_line l = { .len = 0 };

	while (dump_next(&text, &l) && !l.is_header)
		if (*l.at != '#' && strcmp(l.key, "imports") == 0)
			return l.at;
	return NULL;
}

int dropin_import(const char *text, const char *pattern, struct buf *ret,
		  bool *ret_changed, struct error *err)
{
	const char *line = find_imports(text), *open, *quote;
	size_t before;
	int rc;

	*ret_changed = true;
	if (!line) {
		rc = buf_printf(ret, "imports = [\"%s\"]" MARK "\n%s", pattern,
				text);
		return rc < 0 ? error_nomem(err) : 0;
	}
	quote = strstr(line, pattern);
	open = memchr(line, '[', strcspn(line, "\n"));
	if (quote && quote < line + strcspn(line, "\n")) {
		*ret_changed = false;
		return buf_puts(ret, text) < 0 ? error_nomem(err) : 0;
	}
	if (!open)
		return error_set(err, EINVAL,
				 "imports is not written in one line: add "
				 "\"%s\" to it",
				 pattern);
	before = (size_t)(open + 1 - text);
	rc = buf_append(ret, text, before);
	if (rc == 0)
		rc = buf_printf(ret, "\"%s\", %s", pattern, open + 1);
	return rc < 0 ? error_nomem(err) : 0;
}

int dropin_unimport(const char *text, const char *pattern, struct buf *ret,
		    struct error *err)
{
	const char *line = find_imports(text);
	size_t len = line ? strcspn(line, "\n") : 0;
	AUTO_BUF own = BUF_INIT;
	AUTO_BUF added = BUF_INIT;
	const char *at = NULL;
	int rc = buf_printf(&own, "imports = [\"%s\"]" MARK, pattern);

	if (rc == 0)
		rc = buf_printf(&added, "\"%s\"", pattern);
	if (rc < 0)
		return error_nomem(err);
	/* If the operator added a file to the line that join wrote, the line stays. */
	if (line && len == own.len && memcmp(line, own.data, len) == 0) {
		at = line;
		added.len = len + (line[len] == '\n');
	} else if (line) {
		at = memmem(line, len, added.data, added.len);
		if (at && strncmp(at + added.len, ", ", 2) == 0)
			added.len += 2;
		else if (at && at[added.len] == ',')
			added.len++;
	}
	if (!at)
		rc = buf_puts(ret, text);
	else if ((rc = buf_append(ret, text, (size_t)(at - text))) == 0)
		rc = buf_puts(ret, at + added.len);
	return rc < 0 ? error_nomem(err) : 0;
}

/* ----------------------------------------------------------------- compare --- */

static bool is_ours(const struct dump_line *l)
{
	static const char *const keys[] = { "snapshotter",
					    "disable_snapshot_annotations",
					    "use_local_image_pull" };
	bool cri = strcmp(l->section, CRI_1 ".containerd") == 0 ||
		   strcmp(l->section, IMAGES_2) == 0;
	bool differs = strcmp(l->section, DIFF_SERVICE) == 0 &&
		       strcmp(l->key, "default") == 0;
	bool registry = strcmp(l->section, CRI_1 ".registry") == 0 ||
			strcmp(l->section, IMAGES_2 ".registry") == 0;

	/* Parent sections that have nothing else are new with ours. */
	if (differs || strstr(l->section, "bootseer") ||
	    section_name_below(l->section, UNPACK) ||
	    (l->is_header &&
	     (strcmp(l->section, "proxy_plugins") == 0 ||
	      strcmp(l->section, IMAGES_2 ".runtime_platforms") == 0)))
		return true;
	if (!*l->section && strcmp(l->key, "imports") == 0)
		return true;
	if (registry && (l->is_header || strcmp(l->key, "config_path") == 0))
		return true;
	for (size_t i = 0; cri && i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(l->key, keys[i]) == 0)
			return true;
	return false;
}

static bool has_line(const char *text, const struct dump_line *want)
{
	struct dump_line l = { .len = 0 };

	while (dump_next(&text, &l))
		if (l.len == want->len && memcmp(l.at, want->at, l.len) == 0 &&
		    strcmp(l.section, want->section) == 0)
			return true;
	return false;
}

static int check_lines_in_other(const char *a, const char *b, const char *what,
				struct error *err)
{
	struct dump_line l = { .len = 0 };

	while (dump_next(&a, &l))
		if (!is_ours(&l) && !has_line(b, &l))
			return error_set(err, EBADMSG, "%s [%.60s] %.*s", what,
					 l.section,
					 (int)(l.len < 80 ? l.len : 80), l.at);
	return 0;
}

int dropin_compare(const char *before, const char *after, struct error *err)
{
	int rc = check_lines_in_other(before, after, "containerd would lose",
				      err);

	return rc < 0 ? rc
		      : check_lines_in_other(after, before,
					     "containerd would get", err);
}
