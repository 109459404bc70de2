// SPDX-License-Identifier: Apache-2.0
#include "cli/containerd_hosts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/json.h"
#include "common/toml.h"

#define BEGIN \
	"# Begin of what 'bootseer node join' wrote; 'node leave' removes it.\n"
#define END "# End of what 'bootseer node join' wrote.\n"

/* -------------------------------------------------------------------- text --- */

int hosts_text_remove(const char *text, struct buf *ret, struct error *err)
{
	const char *begin = strstr(text, BEGIN);
	const char *end = begin ? strstr(begin, END) : NULL;
	int rc;

	if (begin && !end)
		return error_set(err, EINVAL,
				 "the line '%.40s' has none that ends it: "
				 "remove it, and what follows it of ours",
				 BEGIN);
	if (!begin)
		return buf_puts(ret, text) < 0 ? error_nomem(err) : 0;
	rc = buf_append(ret, text, (size_t)(begin - text));
	if (rc == 0)
		rc = buf_puts(ret, end + strlen(END));
	return rc < 0 ? error_nomem(err) : 0;
}

/* Does `after` equal `before` plus the hosts of `entry`?  Changes `after`. */
static bool is_only_entry_added(const json_t *before, json_t *after,
				const json_t *entry)
{
	json_t *hosts = json_object_get(after, "host");
	const char *name;
	json_t *table;

	json_object_foreach(json_object_get(entry, "host"), name, table)
	{
		if (!json_equal(json_object_get(hosts, name), table))
			return false;
		(void)json_object_del(hosts, name);
	}
	if (!json_object_get(before, "host") && json_object_size(hosts) == 0)
		(void)json_object_del(after, "host");
	return json_equal(before, after);
}

/* Insert the entry before `at`; -EAGAIN: there it would change the meaning of other lines. */
static int insert_entry(const char *text, const char *at, const char *entry,
			struct buf *ret, struct error *err)
{
	AUTO_JSON *before = NULL;
	AUTO_JSON *after = NULL;
	AUTO_JSON *added = NULL;
	const char *gap = at > text && at[-1] != '\n' ? "\n" : "";
	int rc;

	buf_reset(ret);
	rc = buf_append(ret, text, (size_t)(at - text));
	if (rc == 0)
		rc = buf_printf(ret, "%s" BEGIN "%s" END "%s", gap, entry, at);
	if (rc < 0)
		return error_nomem(err);
	rc = toml_parse(text, strlen(text), &before, err);
	if (rc == 0)
		rc = toml_parse(entry, strlen(entry), &added, err);
	if (rc < 0)
		return rc;
	return toml_parse(ret->data, ret->len, &after, NULL) == 0 &&
			       is_only_entry_added(before, after, added)
		       ? 0
		       : -EAGAIN;
}

/* Does the operator's own text have this mirror already? */
static int has_mirror_entry(const char *text, const char *entry, bool *ret,
			    struct error *err)
{
	AUTO_JSON *now = NULL;
	AUTO_JSON *added = NULL;
	const char *name;
	json_t *table;
	int rc = toml_parse(text, strlen(text), &now, err);

	if (rc == 0)
		rc = toml_parse(entry, strlen(entry), &added, err);
	if (rc < 0)
		return rc;
	*ret = false;
	json_object_foreach(json_object_get(added, "host"), name, table) *ret =
		json_equal(json_object_get(json_object_get(now, "host"), name),
			   table);
	return 0;
}

/* The next line at or after `at` that may start a table; NULL: none. */
static const char *find_table(const char *at)
{
	while (at && at[strspn(at, " \t")] != '[') {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* Top-level keys must stand before the first table.  A line inside a nested list can look like a
 * table, so the next such line is tried when an insertion would change the meaning. */
int hosts_text_add(const char *text, const char *entry, struct buf *ret,
		   struct error *err)
{
	AUTO_BUF own = BUF_INIT;
	AUTO_BUF out = BUF_INIT;
	bool is_there = false;
	const char *at;
	int rc = buf_puts(&own, "");

	if (rc == 0)
		rc = hosts_text_remove(text, &own, err);
	if (rc == 0)
		rc = has_mirror_entry(own.data, entry, &is_there, err);
	if (rc < 0)
		return rc;
	if (is_there)
		return buf_append(ret, own.data, own.len) < 0 ? error_nomem(err)
							      : 0;
	at = find_table(own.data);
	do {
		rc = insert_entry(own.data, at ? at : own.data + own.len, entry,
				  &out, err);
		if (rc != -EAGAIN || !at)
			break;
		at = strchr(at, '\n');
		at = find_table(at ? at + 1 : NULL);
	} while (true);
	if (rc == -EAGAIN)
		return error_set(err, EINVAL,
				 "no place was found for the mirror: put what "
				 "bootseerd's hosts.toml says before its first "
				 "host by hand");
	if (rc == 0 && buf_append(ret, out.data, out.len) < 0)
		return error_nomem(err);
	return rc;
}

/* ----------------------------------------------------------------- folders --- */

typedef int hosts_folder_fn(void *arg, const char *dir, const char *name,
			    struct error *err);

/* Call `fn` for every folder inside the folders of `path` ("DIR:DIR"). */
static int call_for_each_folder(const char *path, hosts_folder_fn *fn,
				void *arg, struct error *err)
{
	int rc = 0;

	for (; rc == 0 && *path; path += *path == ':') {
		size_t len = strcspn(path, ":");
		AUTO_FREE char *root = strndup(path, len);
		DIR *d = root && len ? opendir(root) : NULL;
		const struct dirent *e;

		path += len;
		while (rc == 0 && d && (e = readdir(d))) {
			AUTO_FREE char *dir = NULL;

			if (e->d_name[0] == '.')
				continue;
			dir = fs_join(root, e->d_name);
			rc = dir ? fn(arg, dir, e->d_name, err)
				 : error_nomem(err);
		}
		if (d)
			(void)closedir(d);
	}
	return rc;
}

static bool is_link(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* containerd looks for the name host_port_ first, then host:port. */
static char *find_in_root(const char *root, const char *registry)
{
	const char *colon = strrchr(registry, ':');
	AUTO_FREE char *flat = NULL;
	AUTO_FREE char *plain = fs_join(root, registry);

	if (colon && asprintf(&flat, "%s/%.*s_%s_", root,
			      (int)(colon - registry), registry, colon + 1) < 0)
		flat = NULL;
	if (flat && is_folder(flat))
		return steal_ptr(&flat);
	return plain && is_folder(plain) ? steal_ptr(&plain) : NULL;
}

/* The folder that containerd reads for the registry (not `_default`); NULL: none. containerd
 * ignores all roots after the first that has `_default`. */
static char *find_folder(const char *path, const char *registry)
{
	AUTO_FREE char *other = NULL;
	char *found = NULL;

	for (; !found && !other && *path; path += *path == ':') {
		size_t len = strcspn(path, ":");
		AUTO_FREE char *root = strndup(path, len);

		path += len;
		if (!root || !len)
			continue;
		found = find_in_root(root, registry);
		other = find_in_root(root, "_default");
	}
	return found;
}

/* Refuse a folder with certificates: containerd ignores them once there is a hosts.toml. */
static int check_certs(const char *dir, struct error *err)
{
	static const char *const ends[] = { ".crt", ".cert", ".key" };
	DIR *d = opendir(dir);
	const struct dirent *e;
	int rc = 0;

	while (rc == 0 && d && (e = readdir(d))) {
		const char *dot = strrchr(e->d_name, '.');

		for (size_t k = 0; dot && k < ARRAY_SIZE(ends); k++)
			if (strcmp(dot, ends[k]) == 0)
				rc = error_set(err, EEXIST,
					       "'%s' has '%.60s', which "
					       "containerd reads only where "
					       "there is no hosts.toml: "
					       "write one that names it",
					       dir, e->d_name);
	}
	if (d)
		(void)closedir(d);
	return rc;
}

/* Refuse a new folder for a registry to which `_default` applies now: it would not any more. */
static int check_default_hosts_apply(const struct hosts_want *want,
				     const char *registry, struct error *err)
{
	AUTO_FREE char *dir = find_folder(want->config_path, "_default");
	AUTO_FREE char *path = dir ? fs_join(dir, "hosts.toml") : NULL;
	AUTO_BUF text = BUF_INIT;
	AUTO_BUF own = BUF_INIT;
	int rc = 0;

	if (path && fs_read_file(path, TOML_BYTES_MAX, &text, NULL) == 0 &&
	    text.data)
		rc = hosts_text_remove(text.data, &own, err);
	if (rc == 0 && own.data && own.data[strspn(own.data, " \t\r\n")])
		return error_set(err, EEXIST,
				 "'%s' says how '%.100s' is reached now: name "
				 "_default, or make a folder of it yourself",
				 path, registry);
	return rc;
}

static bool has_folders(const char *root)
{
	DIR *d = opendir(root);
	const struct dirent *e;
	bool found = false;

	while (!found && d && (e = readdir(d)))
		found = e->d_name[0] != '.';
	if (d)
		(void)closedir(d);
	return found;
}

/* Where to create a registry's folder: in the first root, which takes precedence.  `_default`
 * hides all roots after its own, so it goes into the last root that has folders. */
static char *new_folder(const char *path, const char *registry)
{
	AUTO_FREE char *best = strndup(path, strcspn(path, ":"));

	for (path += strcspn(path, ":");
	     *path && strcmp(registry, "_default") == 0;) {
		size_t len = strcspn(++path, ":");
		char *root = strndup(path, len);

		path += len;
		if (!root || !has_folders(root)) {
			free(root);
			continue;
		}
		free(best);
		best = root;
	}
	return best ? fs_join(best, registry) : NULL;
}

static int choose_folder(const struct hosts_want *want, const char *registry,
			 char **ret, struct error *err)
{
	AUTO_FREE char *dir = NULL;
	AUTO_FREE char *file = NULL;
	int rc = 0;

	if (!*registry || *registry == '.' || strchr(registry, '/'))
		return error_set(err, EINVAL,
				 "--mirror: '%.100s' is no registry's name: "
				 "HOST, HOST:PORT or _default",
				 registry);
	dir = find_folder(want->config_path, registry);
	file = dir ? fs_join(dir, "hosts.toml") : NULL;
	if (dir && !file)
		return error_nomem(err);
	if (file && access(file, F_OK) < 0)
		rc = is_link(file) ? error_set(err, EEXIST,
					       "'%s' is a link to nothing: "
					       "remove it",
					       file)
				   : check_certs(dir, err);
	if (!dir && strcmp(registry, "_default") != 0)
		rc = check_default_hosts_apply(want, registry, err);
	if (rc == 0 && !dir)
		dir = new_folder(want->config_path, registry);
	if (rc == 0 && !dir)
		return error_nomem(err);
	*ret = rc == 0 ? steal_ptr(&dir) : NULL;
	return rc;
}

/* ------------------------------------------------------------------- files --- */

struct hosts_change {
	const struct hosts_want *want;
	struct hosts_files *files;
	char *chosen[HOSTS_FILES_MAX]; /* folders chosen for want->registries */
	size_t n;
};

/* Write `text` to file `at` of the list; with "" the file is removed, and its folder if empty. */
static int write_hosts_file(const struct hosts_files *h, size_t at,
			    const char *text, struct error *err)
{
	const struct kept_file *f = &h->list[at];
	AUTO_FREE char *dir =
		strndup(f->path, (size_t)(strrchr(f->path, '/') - f->path));
	bool is_empty = !h->is_linked[at] && !text[strspn(text, " \t\r\n")];
	int rc;

	if (!dir)
		return error_nomem(err);
	rc = is_empty ? 0 : fs_mkdir_p(dir, 0755, err);
	if (rc == 0)
		rc = kept_file_put(f, is_empty ? NULL : text, err);
	if (rc == 0 && is_empty)
		(void)rmdir(dir); /* fails if the folder has other files */
	return rc;
}

/* Add a file to the list; if it is a link, the file that the link leads to. */
static int add_file(struct hosts_files *h, const char *dir,
		    struct kept_file **ret, struct error *err)
{
	struct kept_file *f = &h->list[h->n];
	AUTO_FREE char *path = fs_join(dir, "hosts.toml");

	if (h->n == HOSTS_FILES_MAX)
		return error_set(err, E2BIG, "more than %u registries",
				 HOSTS_FILES_MAX);
	if (!path)
		return error_nomem(err);
	*f = (struct kept_file){ .path = realpath(path, NULL) };
	h->is_linked[h->n] = f->path && is_link(path);
	if (!f->path)
		f->path = steal_ptr(&path);
	h->n++;
	*ret = f;
	return 0;
}

/* Change a file.  It joins the list, for restoring, only if it is really changed. */
static int change_file(struct hosts_change *c, const char *dir, bool is_wanted,
		       struct error *err)
{
	struct kept_file *f = NULL;
	AUTO_BUF text = BUF_INIT;
	int rc = add_file(c->files, dir, &f, err);

	if (rc < 0)
		return rc;
	rc = kept_file_read(f, err);
	if (rc == 0)
		rc = buf_puts(&text, "") < 0 ? error_nomem(err) : 0;
	if (rc == 0)
		rc = is_wanted ? hosts_text_add(f->text.data, c->want->entry,
						&text, err)
			       : hosts_text_remove(f->text.data, &text, err);
	if (rc == 0 && strcmp(text.data, f->text.data) != 0)
		return write_hosts_file(c->files, c->files->n - 1, text.data,
					err);
	if (rc < 0)
		error_wrap(err, rc, "'%s'", f->path);
	kept_file_fini(f);
	c->files->n--;
	return rc;
}

static int clear_folder(void *arg, const char *dir, const char *name,
			struct error *err)
{
	struct hosts_change *c = arg;
	AUTO_FREE char *path = fs_join(dir, "hosts.toml");
	AUTO_BUF text = BUF_INIT;

	(void)name;
	for (size_t k = 0; k < c->n; k++)
		if (strcmp(c->chosen[k], dir) == 0)
			return 0;
	if (!path)
		return error_nomem(err);
	/* A file that cannot be read was not written by us. */
	if (fs_read_file(path, TOML_BYTES_MAX, &text, NULL) < 0 || !text.data ||
	    !strstr(text.data, BEGIN))
		return 0;
	return change_file(c, dir, false, err);
}

int hosts_files_apply(const struct hosts_want *want, struct hosts_files *ret,
		      struct error *err)
{
	struct hosts_change c = { .want = want, .files = ret };
	int rc = 0;

	for (size_t k = 0; rc == 0 && want->registries && want->registries[k];
	     k++) {
		if (c.n == HOSTS_FILES_MAX)
			rc = error_set(err, E2BIG, "more than %u registries",
				       HOSTS_FILES_MAX);
		else
			rc = choose_folder(want, want->registries[k],
					   &c.chosen[c.n], err);
		c.n += rc == 0;
	}
	if (rc == 0)
		rc = call_for_each_folder(want->search, clear_folder, &c, err);
	for (size_t k = 0; k < c.n; k++) {
		if (rc == 0)
			rc = change_file(&c, c.chosen[k], true, err);
		free(c.chosen[k]);
	}
	return rc;
}

int hosts_files_restore(const struct hosts_files *h, struct error *err)
{
	int rc = 0;

	for (size_t k = h->n; k > 0; k--) {
		const struct kept_file *f = &h->list[k - 1];
		int rc2 =
			write_hosts_file(h, k - 1,
					 f->is_there ? f->text.data : "", err);

		rc = rc < 0 ? rc : rc2;
	}
	return rc;
}

void hosts_files_fini(struct hosts_files *h)
{
	for (size_t k = 0; k < h->n; k++)
		kept_file_fini(&h->list[k]);
}

/* -------------------------------------------------------------------- look --- */

struct hosts_look {
	const char *entry;
	struct buf *named, *others;
};

static int read_folder_hosts(void *arg, const char *dir, const char *name,
			     struct error *err)
{
	struct hosts_look *l = arg;
	AUTO_FREE char *path = fs_join(dir, "hosts.toml");
	AUTO_BUF text = BUF_INIT;
	bool is_there = false;
	struct buf *to;

	if (!path)
		return error_nomem(err);
	if (!is_folder(dir))
		return 0;
	if (fs_read_file(path, TOML_BYTES_MAX, &text, NULL) == 0 && text.data)
		(void)!has_mirror_entry(text.data, l->entry, &is_there, NULL);
	to = is_there ? l->named : l->others;
	return buf_printf(to, "%s%s", to->len ? ", " : "", name) < 0
		       ? error_nomem(err)
		       : 0;
}

int hosts_files_look(const char *config_path, const char *entry,
		     struct buf *ret_named, struct buf *ret_others,
		     struct error *err)
{
	struct hosts_look l = { entry, ret_named, ret_others };

	return call_for_each_folder(config_path, read_folder_hosts, &l, err);
}
