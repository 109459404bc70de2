// SPDX-License-Identifier: Apache-2.0
/* What containerd is told of us. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "common/fs.h"

#define DEFAULT_FILE "/etc/containerd/config.toml"
#define FILE_MAX (4u << 20)
#define CMDLINE_MAX (128u << 10)
#define DAEMONS_MAX 64u /* containerds on one machine */

/* -------------------------------------------------------------------- lines --- */

/* The string between the first two quotes at `p`, in `out`; where it ends, or
 * NULL. */
static const char *quoted(const char *p, const char *end, char *out, size_t max)
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

/* The value of the line `key = value`, or NULL. */
static const char *value_of(const char *line, const char *end, const char *key)
{
	size_t len = strlen(key);

	if ((size_t)(end - line) < len || strncmp(line, key, len) != 0)
		return NULL;
	for (line += len; line < end && isblank((unsigned char)*line); line++)
		;
	if (line == end || *line != '=')
		return NULL;
	for (line++; line < end && isblank((unsigned char)*line); line++)
		;
	return line;
}

static bool is_ours(const char *line, const char *end)
{
	char name[64];
	size_t n = 0;

	for (; line < end && *line != '#' && n + 1 < sizeof(name); line++)
		if (!strchr(" \t\"'", *line))
			name[n++] = *line;
	name[n] = '\0';
	return strcmp(name, "[proxy_plugins.bootseer]") == 0;
}

static void scan_imports(const char *v, const char *end,
			 struct containerd_config *ret)
{
	const size_t max = sizeof(ret->imports) / sizeof(ret->imports[0]);

	while (ret->n_imports < max &&
	       (v = quoted(v, end, ret->imports[ret->n_imports],
			   sizeof(ret->imports[0]))))
		ret->n_imports++;
}

static void scan_line(const char *line, const char *end, bool *in_ours,
		      struct containerd_config *ret)
{
	const char *v;
	char name[16];

	if (*line == '[') {
		*in_ours = is_ours(line, end);
		ret->proxy = ret->proxy || *in_ours;
	} else if ((v = value_of(line, end, "snapshotter"))) {
		if (quoted(v, end, name, sizeof(name)) &&
		    strcmp(name, "bootseer") == 0)
			ret->used = true;
	} else if ((v = value_of(line, end, "disable_snapshot_annotations"))) {
		if (strncmp(v, "false", 5) == 0)
			ret->labels = true;
	} else if (*in_ours && (v = value_of(line, end, "address"))) {
		(void)!quoted(v, end, ret->address, sizeof(ret->address));
	} else if ((v = value_of(line, end, "imports"))) {
		scan_imports(v, end, ret);
	}
}

void containerd_config_scan(const char *text, struct containerd_config *ret)
{
	bool in_ours = false;

	while (*text) {
		const char *end = text + strcspn(text, "\n");

		text += strspn(text, " \t");
		if (text < end)
			scan_line(text, end, &in_ours, ret);
		text = *end ? end + 1 : end;
	}
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

/* -------------------------------------------------------------------- files --- */

static int read_one(const char *file, struct containerd_config *ret,
		    struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_read_file(file, FILE_MAX, &text, err);

	if (rc == 0 && text.data)
		containerd_config_scan(text.data, ret);
	return rc;
}

/* What the file imports counts too; one level of it, as far as it is there. */
static void read_imports(struct containerd_config *c)
{
	size_t n = c->n_imports;

	for (size_t i = 0; i < n; i++) {
		glob_t found;

		if (glob(c->imports[i], 0, NULL, &found) == 0)
			for (size_t k = 0; k < found.gl_pathc; k++)
				(void)!read_one(found.gl_pathv[k], c, NULL);
		globfree(&found);
	}
}

static bool listens(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
		return false;
	strcpy(addr.sun_path, path);
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
}

/* `file` as people name it, `path` as it is read. */
static void check_file(json_t *list, const char *file, const char *path)
{
	struct containerd_config c = { .proxy = false };
	struct error err = ERROR_INIT;
	bool up;

	if (read_one(path, &c, &err) < 0) {
		doctor_add(list, "containerd", false, DOCTOR_ADVICE,
			   "name its configuration with --containerd FILE",
			   "%s", err.msg);
		return;
	}
	read_imports(&c);
	doctor_add(list, "containerd proxy plugin", c.proxy, DOCTOR_ADVICE,
		   "[proxy_plugins.bootseer] in it, as docs/containerd.md has "
		   "it; then restart containerd",
		   "%s %s it", file, c.proxy ? "names" : "does not name");
	doctor_add(list, "containerd CRI snapshotter", c.used, DOCTOR_ADVICE,
		   "snapshotter = \"bootseer\" below "
		   "[plugins.\"io.containerd.grpc.v1.cri\".containerd] (on "
		   "2.x: [plugins.\"io.containerd.cri.v1.images\"])",
		   "by %s Kubernetes pods %s it", file,
		   c.used ? "use" : "do not use");
	doctor_add(list, "containerd image labels", c.labels, DOCTOR_ADVICE,
		   "disable_snapshot_annotations = false beside snapshotter",
		   "CRI %s the plugin which image it pulls",
		   c.labels ? "tells" : "does not tell");
	if (!*c.address)
		return;
	up = listens(c.address);
	doctor_add(list, "bootseer-snapshotter", up, DOCTOR_ADVICE,
		   "systemctl start bootseer-snapshotter", "%s at %s",
		   up ? "answers" : "nobody answers", c.address);
}

/* ---------------------------------------------------------------- processes --- */

static bool is_containerd(const char *pid)
{
	char path[64];
	AUTO_BUF name = BUF_INIT;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	return fs_read_file(path, 64, &name, NULL) == 0 && name.data &&
	       strcmp(name.data, "containerd\n") == 0;
}

/* Append the configuration of a process to the files, once each. */
static void note_process(const char *pid, char *files[], size_t *n)
{
	AUTO_FREE char *cmdline = NULL;
	AUTO_BUF words = BUF_INIT;
	const char *file;
	char *path;

	if (asprintf(&cmdline, "/proc/%.20s/cmdline", pid) < 0) {
		cmdline = NULL;
		return;
	}
	if (fs_read_file(cmdline, CMDLINE_MAX, &words, NULL) < 0)
		return;
	file = words.data ? containerd_config_of(words.data, words.len) : NULL;
	/* As the process sees it, which may have a root of its own. */
	if (asprintf(&path, "/proc/%.20s/root%s", pid,
		     file && *file == '/' ? file : DEFAULT_FILE) < 0)
		return;
	for (size_t i = 0; i < *n; i++) {
		if (strcmp(strchr(files[i] + 6, '/') + 5,
			   strchr(path + 6, '/') + 5) == 0) {
			free(path);
			return;
		}
	}
	files[(*n)++] = path;
}

static size_t find_processes(char *files[DAEMONS_MAX])
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	size_t n = 0;

	while (dir && n < DAEMONS_MAX && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]) &&
		    is_containerd(e->d_name))
			note_process(e->d_name, files, &n);
	if (dir)
		closedir(dir);
	return n;
}

void doctor_check_containerd(json_t *list, const char *file)
{
	char *files[DAEMONS_MAX];
	size_t n;

	if (file) {
		check_file(list, file, file);
		return;
	}
	n = find_processes(files);
	for (size_t i = 0; i < n; i++) {
		/* "/proc/PID/root" is left out for people. */
		check_file(list, strchr(files[i] + 6, '/') + 5, files[i]);
		free(files[i]);
	}
	if (n == 0 && access(DEFAULT_FILE, F_OK) == 0)
		check_file(list, DEFAULT_FILE, DEFAULT_FILE);
	else if (n == 0)
		doctor_add(list, "containerd", false, DOCTOR_ADVICE,
			   "start it, or name its configuration with "
			   "--containerd FILE",
			   "it does not run here and has no " DEFAULT_FILE);
}
