// SPDX-License-Identifier: Apache-2.0
/*
 * Checks of containerd's settings for bootseerd, in its effective configuration as containerd
 * prints it (with defaults, imports and migrations).  Without a containerd program, in the lines
 * of the file and of those that it imports.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/containerd_config.h"
#include "cli/containerd_hosts.h"
#include "cli/doctor.h"
#include "common/fs.h"
#include "net/unix_connect.h"

#define DEFAULT_FILE "/etc/containerd/config.toml"
#define FILE_MAX (4u << 20)
#define CMDLINE_MAX (128u << 10)
#define STATUS_MAX 65536u
#define IMPORTS_MAX 1024u /* names of a folder that are looked at */
#define DAEMONS_MAX 64u   /* containerds on one machine */
#define DROPIN "/conf.d/bootseer.toml"
#define CRI_1 "io.containerd.grpc.v1.cri"
#define DUMP_TIMEOUT_MS 20000

/* A file with settings of CRI, and the time of its last inode change, as copying a file into place
 * preserves its modification time. */
struct cri_file {
	char name[256];
	struct timespec changed;
};

/* A containerd on this machine, running or not. */
struct containerd {
	char *file; /* its configuration file, for messages */
	/* Folder in which the file and its imports are looked up; -1: the operator named the
	 * file. */
	int root;
	int program; /* its executable, which can print the configuration;
	              * -1: the one in PATH, if any */
	const struct doctor_node *node;
	struct cri_file dropin, newest; /* our drop-in, and the newest other
	                                 * file; name "": none */
};

static void containerd_fini(struct containerd *d)
{
	free(d->file);
	fd_close(d->root);
	fd_close(d->program);
}

/* -------------------------------------------------------------------- files --- */

static bool is_later_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec
				      : a->tv_nsec > b->tv_nsec;
}

static void note_cri_file_time(struct containerd *d, const char *file)
{
	AUTO_CLOSE int fd =
		d->root < 0
			? open(file, O_PATH | O_CLOEXEC)
			: fs_openat2(d->root, file, O_PATH,
				     RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	size_t len = strlen(file), end = strlen(DROPIN);
	bool is_ours = len > end && strcmp(file + len - end, DROPIN) == 0;
	struct cri_file *f = is_ours ? &d->dropin : &d->newest;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 ||
	    (*f->name && !is_later_time(&st.st_ctim, &f->changed)))
		return;
	f->changed = st.st_ctim;
	(void)snprintf(f->name, sizeof(f->name), "%s", file);
}

static int scan_config_file(struct containerd *d, const char *file,
			    struct containerd_config *ret, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = d->root < 0
			 ? fs_read_file(file, FILE_MAX, &text, err)
			 : fs_read_file_in(d->root, file, FILE_MAX, &text, err);

	if (rc < 0 || !text.data)
		return rc;
	containerd_config_scan(text.data, ret);
	if (strstr(text.data, CRI_1))
		note_cri_file_time(d, file);
	return 0;
}

static void read_import(struct containerd *d, const char *file,
			struct containerd_config *c)
{
	unsigned int version = c->version;

	(void)!scan_config_file(d, file, c, NULL);
	c->version = version;
}

static void read_glob(struct containerd *d, const char *pattern,
		      struct containerd_config *c)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t k = 0; k < found.gl_pathc; k++)
			read_import(d, found.gl_pathv[k], c);
	globfree(&found);
}

/* Read the files that match an import pattern of the process.  Only the last component may be a
 * pattern: the file's owner may be a stranger, and patterns in folders can match without end. */
static void read_folder(struct containerd *d, const char *pattern,
			struct containerd_config *c)
{
	const char *slash = strrchr(pattern, '/');
	AUTO_FREE char *folder =
		slash ? strndup(pattern, (size_t)(slash - pattern) + 1) : NULL;
	int fd = folder ? fs_openat2(d->root, folder, O_RDONLY | O_DIRECTORY,
				     RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
			: -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!dir && fd >= 0)
		(void)close(fd);
	for (size_t n = 0; dir && n < IMPORTS_MAX && (e = readdir(dir)); n++) {
		AUTO_FREE char *file = NULL;

		if (fnmatch(slash + 1, e->d_name, FNM_PERIOD) != 0)
			continue;
		file = fs_join(folder, e->d_name);
		if (file)
			read_import(d, file, c);
	}
	if (dir)
		(void)closedir(dir);
}

/* Read the file and those of its imports that exist; imports of imports are not read. */
static int read_files(struct containerd *d, struct containerd_config *ret,
		      struct error *err)
{
	int rc = scan_config_file(d, d->file, ret, err);
	size_t n = ret->n_imports;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (d->root < 0)
			read_glob(d, ret->imports[i], ret);
		else
			read_folder(d, ret->imports[i], ret);
	}
	return rc;
}

/* The line that says why containerd ended, which comes after the lines of its log. */
static const char *find_end_reason(char *text)
{
	char *found = strstr(text, "\ncontainerd: ");
	const char *line = found ? found + 1 : text;

	text[(size_t)(line - text) + strcspn(line, "\n")] = '\0';
	return strncmp(line, "containerd: ", 12) == 0 ? line + 12 : line;
}

/* Have containerd print its configuration.  Returns 1; 0: no containerd to run, or it failed;
 * -EINVAL: it refuses the file. */
static int ask_containerd(const struct containerd *d,
			  struct containerd_config *ret, struct error *err)
{
	char name[40] = "containerd";
	char *argv[] = { name,
			 (char[]){ "--config" },
			 d->file,
			 (char[]){ "config" },
			 (char[]){ "dump" },
			 NULL };
	AUTO_BUF text = BUF_INIT;
	int status = -1;

	text.limit = FILE_MAX;
	/* Run the opened executable itself; the process's number may belong to another by now. */
	if (d->program >= 0)
		snprintf(name, sizeof(name), "/proc/self/fd/%d", d->program);
	if ((d->root >= 0 && d->program < 0) ||
	    child_capture(argv, DUMP_TIMEOUT_MS, &text, &status, NULL) < 0 ||
	    !text.data)
		return 0;
	if (status != 0)
		return error_set(err, EINVAL, "%s", find_end_reason(text.data));
	containerd_config_scan(text.data, ret);
	return 1;
}

/* ------------------------------------------------------------------- checks --- */

static void check_cri(json_t *list, const char *file,
		      const struct containerd_config *c)
{
	const char *section = containerd_config_section(c->version);
	const char *in = c->version > 2    ? ", in a file of version = 3"
			 : c->version == 2 ? ", in a file of version = 2"
					   : "";
	AUTO_FREE char *cure = NULL;

	if (c->cri_off) {
		doctor_add(list, "containerd CRI", false, DOCTOR_ADVICE,
			   "take CRI out of disabled_plugins, where Kubernetes "
			   "is to use this containerd",
			   "by %s it is turned off", file);
		return;
	}
	if (asprintf(&cure, "snapshotter = \"bootseer\" below %s%s", section,
		     in) < 0)
		cure = NULL;
	doctor_add(list, "containerd CRI snapshotter", c->used, DOCTOR_ADVICE,
		   cure ? cure : section, "by %s Kubernetes pods %s it%s", file,
		   c->by_default ? "use"
		   : c->used     ? "of some runtime handler use"
				 : "do not use",
		   !c->used && c->misplaced
			   ? ": snapshotter = \"bootseer\" is in a section of "
			     "another version, which is not read"
			   : "");
	free(cure);
	if (asprintf(&cure, "disable_snapshot_annotations = false below %s%s",
		     section, in) < 0)
		cure = NULL;
	doctor_add(list, "containerd image labels", c->labels, DOCTOR_ADVICE,
		   cure ? cure : section,
		   "CRI %s the plugin which image it pulls",
		   c->labels ? "tells" : "does not tell");
}

/* Check the capabilities that the configuration gives the plugin. */
static void check_capabilities(json_t *list, const struct containerd_config *c)
{
	if (c->rebase)
		doctor_add(list, "containerd unpacking", false, DOCTOR_ADVICE,
			   "take \"rebase\" out of capabilities in "
			   "[proxy_plugins.bootseer]; then restart containerd",
			   "layers that are unpacked beside each other lose "
			   "their whiteouts: such pulls are refused");
	if (c->discards)
		doctor_add(list, "containerd layers", c->used, DOCTOR_ADVICE,
			   "bootseer node fetch, before the snapshotter of "
			   "pods is changed",
			   "deleted once they are unpacked: without them no "
			   "other snapshotter starts the images that are here");
	/* containerd 1.x copies the image for pods in user namespaces, if it has such pods at
	 * all. */
	if (c->version > 2)
		doctor_add(list, "containerd user namespaces", c->remap_ids,
			   DOCTOR_ADVICE,
			   "capabilities = [\"remap-ids\"] in "
			   "[proxy_plugins.bootseer], on Linux 5.19 or later; "
			   "then restart containerd",
			   c->remap_ids ? "ids are mapped by mounts"
					: "for pods with hostUsers: false each "
					  "image is fetched and copied whole");
}

/* containerd 1.x uses CRI's section of one file only.  Where pods use the plugin that is our
 * drop-in, which has a copy of the other files' settings; warn if another file is newer. */
static void check_dropin(json_t *list, const struct containerd *d)
{
	bool is_old = is_later_time(&d->newest.changed, &d->dropin.changed);

	if (*d->dropin.name && *d->newest.name)
		doctor_add(list, "containerd drop-in", !is_old, DOCTOR_ADVICE,
			   "bootseer node join again, with its options as "
			   "they were",
			   is_old ? "%s was changed after %s: what it says of "
				    "CRI may not be in force"
				  : "%s is older than %s, which repeats it",
			   d->newest.name, d->dropin.name);
}

/* containerd asks the differs of its list in order, and goes on to the next only if one that it
 * asked has answered.  So check that ours is listed and answers. */
static void check_differ(json_t *list, const struct containerd *d,
			 const struct containerd_config *c)
{
	static const char name[] = "layer unpacking";
	const char *root = d->node->containerd_root;

	if (c->differ_listed && !*c->differ)
		doctor_add(list, name, false, DOCTOR_NEEDED,
			   "bootseer node join --unpack",
			   "containerd unpacks nothing: it is to ask "
			   "'" CONTAINERD_DIFFER "', which no "
			   "[proxy_plugins." CONTAINERD_DIFFER "] names");
	else if (c->differ_listed && !unix_is_served(c->differ))
		doctor_add(list, name, false, DOCTOR_NEEDED,
			   "systemctl start bootseer-snapshotter, or bootseer "
			   "node join without --unpack",
			   "containerd unpacks nothing: nobody answers at %s",
			   c->differ);
	else if (*c->differ && !c->differ_first)
		doctor_add(list, name, false, DOCTOR_ADVICE,
			   "bootseer node join --unpack",
			   "containerd does not ask '" CONTAINERD_DIFFER
			   "' first, which [proxy_plugins." CONTAINERD_DIFFER
			   "] names");
	else if (c->differ_first && root && *c->root &&
		 !fs_is_same(root, c->root))
		doctor_add(list, name, false, DOCTOR_ADVICE,
			   "containerd-root in bootseerd's configuration, and "
			   "restart it",
			   "by containerd itself: its layers are in %s, and "
			   "bootseerd reads them in '%s'",
			   c->root, root);
	else
		doctor_add(list, name, true, DOCTOR_ADVICE, "", "%s",
			   !c->differ_first
				   ? "by containerd itself (bootseer node join "
				     "--unpack has bootseerd do it)"
			   : root ? "by bootseerd"
				  : "by containerd itself, as bootseerd does "
				    "not answer");
}

/* A containerd that runs in another root folder (a container) is skipped. */
static void check_mirror(json_t *list, const struct containerd *d,
			 const struct containerd_config *c)
{
	AUTO_BUF named = BUF_INIT;
	AUTO_BUF others = BUF_INIT;
	struct error err = ERROR_INIT;

	if (!d->node->mirror || c->cri_off || (d->root >= 0 && d->program < 0))
		return;
	doctor_add(list, "containerd config_path", *c->config_path,
		   DOCTOR_ADVICE, "bootseer node join --mirror _default",
		   "%s%s",
		   *c->config_path
			   ? "hosts.toml are read below "
			   : "containerd reads no hosts.toml, so it asks "
			     "no mirror",
		   c->config_path);
	if (!*c->config_path)
		return;
	if (hosts_files_look(c->config_path, d->node->mirror, &named, &others,
			     &err) < 0)
		return;
	doctor_add(list, "containerd mirror", named.len > 0, DOCTOR_ADVICE,
		   "bootseer node join --mirror _default",
		   "hosts.toml of %s name%s this node's mirror%s%s%s",
		   named.len ? named.data : "no registry",
		   named.len && memchr(named.data, ',', named.len) ? "" : "s",
		   others.len ? " (not: " : "", others.len ? others.data : "",
		   others.len ? ")" : "");
}

static void check_containerd_settings(json_t *list, struct containerd *d)
{
	struct containerd_config lines = { .proxy = false };
	struct containerd_config c = { .proxy = false };
	struct error err = ERROR_INIT;
	int rc = read_files(d, &lines, &err);
	bool up;

	if (rc < 0) {
		doctor_add(list, "containerd", false, DOCTOR_ADVICE,
			   rc == -EACCES
				   ? "run this command as root"
				   : "name its configuration with --containerd "
				     "FILE",
			   "%s", err.msg);
		return;
	}
	rc = ask_containerd(d, &c, &err);
	if (rc < 0) {
		doctor_add(list, "containerd configuration", false,
			   DOCTOR_ADVICE,
			   "mend it: containerd does not start with it",
			   "%s: %s", d->file, err.msg);
		return;
	}
	c.misplaced =
		lines.misplaced ||
		(lines.used && containerd_config_section(lines.version) !=
				       containerd_config_section(c.version));
	if (rc == 0)
		c = lines;
	doctor_add(list, "containerd proxy plugin", c.proxy, DOCTOR_ADVICE,
		   "[proxy_plugins.bootseer] in it, as docs/containerd.md has "
		   "it; then restart containerd",
		   "%s %s it%s", d->file, c.proxy ? "names" : "does not name",
		   rc > 0 ? ""
			  : " (by its lines: there is no containerd here that "
			    "could be asked)");
	check_cri(list, d->file, &c);
	if (c.version == 2)
		check_dropin(list, d);
	if (c.proxy)
		check_capabilities(list, &c);
	check_mirror(list, d, &c);
	check_differ(list, d, &c);
	if (!*c.address)
		return;
	up = unix_is_served(c.address);
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

static char *read_proc_link(const char *pid, const char *name)
{
	char path[64], at[4096];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, name);
	n = readlink(path, at, sizeof(at) - 1);
	if (n < 0)
		return NULL;
	at[n] = '\0';
	return strdup(at);
}

static bool is_same_link(const char *pid, const char *name)
{
	AUTO_FREE char *theirs = read_proc_link(pid, name);
	AUTO_FREE char *ours = read_proc_link("self", name);

	return theirs && ours && strcmp(theirs, ours) == 0;
}

/* Are all user ids of the process root's?  A set-user-id program, which any user may start under
 * any name, has one that is not. */
static bool is_process_of_root(const char *pid)
{
	static const char key[] = "\nUid:";
	unsigned int id[4];
	char path[64];
	AUTO_BUF text = BUF_INIT;
	const char *line;

	snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
	if (fs_read_file(path, STATUS_MAX, &text, NULL) < 0 || !text.data)
		return false;
	line = strstr(text.data, key);
	return line &&
	       sscanf(line + sizeof(key) - 1, "%u %u %u %u", &id[0], &id[1],
		      &id[2], &id[3]) == 4 &&
	       !(id[0] | id[1] | id[2] | id[3]);
}

/* May this process run that one's executable?  Only if it has our root folder and mount namespace
 * and belongs to root: users and containers may call any program "containerd". */
static bool is_trusted(const char *pid)
{
	return is_process_of_root(pid) && is_same_link(pid, "ns/mnt") &&
	       is_same_link(pid, "root");
}

/* Is it named "containerd", and writable by root only? */
static bool is_program(int fd)
{
	AUTO_FREE char *name = NULL;
	const char *slash;
	struct stat st;
	char path[40];

	snprintf(path, sizeof(path), "fd/%d", fd);
	name = read_proc_link("self", path);
	slash = name ? strrchr(name, '/') : NULL;
	return slash && strcmp(slash, "/containerd") == 0 &&
	       fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH | S_ISUID | S_ISGID));
}

static int open_proc_file(const char *pid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, name);
	return open(path, O_PATH | O_CLOEXEC | flags);
}

/* The executable of a process, or -1 if it must not be run. is_trusted() is checked before and
 * after the open, as the process may execute another program in between. */
static int open_program(const char *pid)
{
	AUTO_CLOSE int fd =
		is_trusted(pid) ? open_proc_file(pid, "exe", 0) : -1;

	return fd >= 0 && is_program(fd) && is_trusted(pid) ? steal_fd(&fd)
							    : -1;
}

/* Fill in `ret`; false: no memory, or the process has ended. */
static bool describe_process(const char *pid, struct containerd *ret)
{
	AUTO_FREE char *cmdline = NULL;
	AUTO_FREE char *cwd = NULL;
	AUTO_BUF words = BUF_INIT;
	const char *file;

	if (asprintf(&cmdline, "/proc/%.20s/cmdline", pid) < 0) {
		cmdline = NULL;
		return false;
	}
	if (fs_read_file(cmdline, CMDLINE_MAX, &words, NULL) < 0)
		return false;
	file = words.data ? containerd_config_of(words.data, words.len) : NULL;
	if (!file || !*file)
		file = DEFAULT_FILE;
	cwd = *file == '/' ? strdup("") : read_proc_link(pid, "cwd");
	if (asprintf(&ret->file, "%s%s%s", cwd ? cwd : "",
		     *file == '/' ? "" : "/", file) < 0)
		ret->file = NULL;
	ret->program = open_program(pid);
	/* The root folder that the process has. */
	ret->root = open_proc_file(pid, "root", O_DIRECTORY);
	return ret->file && ret->root >= 0;
}

/* describe_process(), checked by `pidfd` at the end: the number was the same process's all the
 * time. */
static bool describe_live_process(const char *pid, struct containerd *ret)
{
	AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
	struct pollfd gone = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && is_containerd(pid) && describe_process(pid, ret) &&
	       poll(&gone, 1, 0) == 0;
}

static bool is_containerd_known(const struct containerd *d,
				const struct containerd all[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(all[i].file, d->file) == 0 &&
		    (all[i].program < 0) == (d->program < 0))
			return true;
	return false;
}

static size_t find_processes(struct containerd ret[DAEMONS_MAX])
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	size_t n = 0;

	while (dir && n < DAEMONS_MAX && (e = readdir(dir))) {
		struct containerd d = { .root = -1, .program = -1 };

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		if (describe_live_process(e->d_name, &d) &&
		    !is_containerd_known(&d, ret, n))
			ret[n++] = d;
		else
			containerd_fini(&d);
	}
	if (dir)
		closedir(dir);
	return n;
}

void doctor_check_containerd(json_t *list, const char *file,
			     const struct doctor_node *node)
{
	struct containerd named = { .file = (char *)(uintptr_t)file,
				    .root = -1,
				    .program = -1,
				    .node = node };
	struct containerd running[DAEMONS_MAX];
	size_t n;

	if (file) {
		check_containerd_settings(list, &named);
		return;
	}
	n = find_processes(running);
	for (size_t i = 0; i < n; i++) {
		running[i].node = node;
		check_containerd_settings(list, &running[i]);
		containerd_fini(&running[i]);
	}
	named.file = (char[]){ DEFAULT_FILE };
	if (n == 0 && access(DEFAULT_FILE, F_OK) == 0)
		check_containerd_settings(list, &named);
	else if (n == 0)
		doctor_add(list, "containerd", false, DOCTOR_ADVICE,
			   "start it, or name its configuration with "
			   "--containerd FILE",
			   "it does not run here and has no " DEFAULT_FILE);
}
