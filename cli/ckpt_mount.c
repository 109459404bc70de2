// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer ckpt mount`, `umount` and `status`.  A mount is served by a process, bootseer-ckpt,
 * which is started here and found by its folder below --run.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "cli/ckpt.h"
#include "cli/ckpt_start.h"
#include "cli/mount_holders.h"
#include "cli/nfs_mounts.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/duration.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/mount.h"
#include "common/mountinfo.h"
#include "net/control_client.h"
#include "net/listen_address.h"
#include "net/unix_connect.h"

/* added to the timeout of the store */
#define START_TIMEOUT_MS 60000
#define END_TIMEOUT_MS 120000
#define ASK_TIMEOUT_MS 10000
#define DEAD_ANSWER_MS 2000
#define STATUS_MAX 16384u
#define ARGS_MAX 48u
#define LOG_FILE "log"
/* File in a mount's run folder: the number of lost files when an umount was refused. */
#define REFUSED_FILE "umount.refused"
/* File in a mount's run folder: its process may have closed files that are not stored. */
#define BUFFERED_FILE "close.buffered"

struct ckpt_mount_options {
	char *run, *ca_file, *close, *compare, *metrics, *group, *group_key,
		*group_socket, *cache, *selinux_context;
	uint64_t memory, tail, readahead, uid, gid, threads, columns,
		group_memory, group_staging, group_blocks, group_blocks_store,
		cache_size, group_nodes;
	int64_t store_timeout, group_wait;
	uint64_t group_rate, group_dscp;
	bool foreground, read_only, group_full;
};

struct ckpt_run_options {
	char *run;
};

#define RUN_OPTION(type_) \
	{ \
		.key = "run", .type = OPTION_STRING, .arg = "DIR", \
		.def = "/run/bootseer-ckpt", .offset = offsetof(type_, run), \
		.help = "Folder of what mounts leave for one another: " \
			"sockets, locks, logs." \
	}

static const struct option_spec mount_options[] = {
	{ .key = "foreground",
	  .letter = 'f',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct ckpt_mount_options, foreground),
	  .help = "Stay until it is unmounted, for a service manager; nobody "
		  "else keeps the mount over a crash." },
	CKPT_MOUNT_OPTIONS(struct ckpt_mount_options),
	RUN_OPTION(struct ckpt_mount_options),
	{ .key = NULL },
};

static const struct option_spec run_options[] = {
	RUN_OPTION(struct ckpt_run_options),
	{ .key = NULL },
};

/* ----------------------------------------------------------------- its folder --- */

/* The absolute mount point for `arg`, in the form that the mount table has.  The last component is
 * not looked at, as it may be a mount that nobody serves, unless it is "." or "..", which have to
 * be resolved. */
static int find_mount_point(const char *arg, char **ret, struct error *err)
{
	AUTO_FREE char *here = *arg == '/' ? strdup("/") : getcwd(NULL, 0);
	AUTO_FREE char *path = NULL;
	const char *last;

	if (!*arg)
		return error_set(err, EINVAL,
				 "the mount point is named by no letter");
	if (!here)
		return error_errno(err, errno, "where this runs");
	path = fs_join(strcmp(here, "/") == 0 ? "" : here,
		       arg + strspn(arg, "/"));
	if (!path)
		return error_nomem(err);
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	last = strrchr(path, '/') + 1;
	if (strcmp(last, ".") != 0 && strcmp(last, "..") != 0)
		return mount_canonical(path, ret, err);
	*ret = realpath(path, NULL);
	return *ret ? 0 : error_errno(err, errno, "'%s'", arg);
}

/* The run folder of the mount at `path`; a short name, as the path of a socket is limited. */
static int run_dir_of(const char *run, const char *path, char **ret,
		      struct error *err)
{
	char text[DIGEST_STR_MAX];
	struct digest d;

	if (digest_of(path, strlen(path), &d) < 0)
		return error_nomem(err);
	digest_format(&d, text);
	if (asprintf(ret, "%s/%.16s", run, strchr(text, ':') + 1) < 0) {
		*ret = NULL;
		return error_nomem(err);
	}
	return 0;
}

/* Read the status from a mount process of an older version, which has no mount.sock and sends it
 * to each connection.  Needed as an umount must learn of files not stored yet.  False: none. */
static bool ask_older_mount(const char *dir, struct buf *ret)
{
	AUTO_FREE char *path = fs_join(dir, "status.sock");
	AUTO_CLOSE int fd = path ? unix_connect(path, ASK_TIMEOUT_MS) : -1;
	ssize_t n = fd < 0 ? 0 : 1;

	while (n > 0 && ret->len < STATUS_MAX && buf_reserve(ret, 4096) == 0) {
		n = recv(fd, ret->data + ret->len, 4096, 0);
		ret->len += n > 0 ? (size_t)n : 0;
		ret->data[ret->len] = '\0';
	}
	return ret->len > 0;
}

/* Request the status of the mount that has this run folder.  -ENOENT: no process answers. */
static int ask_mount(const char *dir, struct buf *ret, struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, "mount.sock");
	const struct control_client_config cfg = {
		.path = path,
		.server = "bootseer-ckpt",
		.timeout_ms = ASK_TIMEOUT_MS,
	};
	struct control_client *c = NULL;
	struct error why = ERROR_INIT;
	int rc;

	if (!path)
		return error_nomem(err);
	rc = control_client_open(&cfg, &c, &why);
	if (rc == -ENAMETOOLONG)
		return error_set(err, EINVAL, "--run '%s' is too long", dir);
	if (rc < 0 && rc != -ETIMEDOUT && ask_older_mount(dir, ret))
		return 0;
	if (rc < 0)
		return error_set(err, rc == -ETIMEDOUT ? ETIMEDOUT : ENOENT,
				 "no mount answers at '%s': %s", path,
				 strerror(why.code));
	rc = control_client_read(c, "/status", false, ret, err);
	control_client_close(c);
	return rc;
}

/* ---------------------------------------------------------------------- mount --- */

struct mount_args {
	char *argv[ARGS_MAX];
	char text[ARGS_MAX][64];
	size_t n;
};

static void add_arg(struct mount_args *a, char *arg)
{
	if (a->n + 1 < ARRAY_SIZE(a->argv))
		a->argv[a->n++] = arg;
}

/* Add an argument whose text is formatted into `a`, at the same index. */
static PRINTF(2, 3) void add_text(struct mount_args *a, const char *fmt, ...)
{
	char *text = a->text[a->n];
	va_list list;

	va_start(list, fmt);
	(void)vsnprintf(text, sizeof(a->text[0]), fmt, list);
	va_end(list);
	add_arg(a, text);
}

static void add_number(struct mount_args *a, const char *key, uint64_t v)
{
	add_text(a, "--%s=%" PRIu64, key, v);
}

static void add_option_with_value(struct mount_args *a, const char *key,
				  char *value)
{
	add_text(a, "--%s", key);
	add_arg(a, value);
}

static void collect_args(const struct ckpt_mount_options *c,
			 struct mount_args *a, char *dir, char **args)
{
	add_option_with_value(a, "run", dir);
	add_number(a, "memory", c->memory);
	add_number(a, "tail", c->tail);
	add_number(a, "readahead", c->readahead);
	add_number(a, "threads", c->threads);
	add_number(a, "columns", c->columns);
	add_number(a, "uid", c->uid);
	add_number(a, "gid", c->gid);
	add_text(a, "--store-timeout=%" PRId64 "ms",
		 c->store_timeout / NS_PER_MS);
	add_text(a, "--close=%s", c->close);
	add_text(a, "--compare=%s", c->compare);
	if (c->read_only)
		add_text(a, "--read-only");
	if (c->selinux_context)
		add_option_with_value(a, "selinux-context", c->selinux_context);
	if (c->ca_file)
		add_option_with_value(a, "ca-file", c->ca_file);
	if (c->metrics)
		add_option_with_value(a, "metrics", c->metrics);
	if (c->cache) {
		add_option_with_value(a, "cache", c->cache);
		add_number(a, "cache-size", c->cache_size);
	}
	if (c->group_key)
		add_option_with_value(a, "group-key", c->group_key);
	if (c->group) {
		add_option_with_value(a, "group", c->group);
		add_number(a, "group-nodes", c->group_nodes);
		add_number(a, "group-memory", c->group_memory);
		add_text(a, "--group-wait=%" PRId64 "ms",
			 c->group_wait / NS_PER_MS);
		if (c->group_rate)
			add_number(a, "group-rate", c->group_rate);
		if (c->group_dscp)
			add_number(a, "group-dscp", c->group_dscp);
	}
	if (c->group_socket) {
		add_option_with_value(a, "group-socket", c->group_socket);
		add_number(a, "group-staging", c->group_staging);
		if (c->group_full)
			add_text(a, "--group-full");
		if (c->group_blocks)
			add_number(a, "group-blocks", c->group_blocks);
		if (c->group_blocks_store)
			add_number(a, "group-blocks-store",
				   c->group_blocks_store);
	}
	add_arg(a, args[0]);
	add_arg(a, args[1]);
}

static int check_mounted(const char *path, struct error *err)
{
	struct mount_line l = { .major = 0 };
	int rc = mount_find(path, &l, err);
	bool is_ours = rc == 1 && strcmp(l.fstype, CKPT_MOUNT_FSTYPE) == 0;

	if (rc == 1)
		mount_line_fini(&l);
	if (rc < 0 || is_ours)
		return rc < 0 ? rc : 0;
	return error_set(err, EINVAL, "'%s' is no mount of 'bootseer ckpt'",
			 path);
}

static int check_is_folder(const char *path, struct error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return error_errno(err, errno, "'%s'", path);
	return S_ISDIR(st.st_mode)
		       ? 0
		       : error_set(err, ENOTDIR, "'%s' is no folder", path);
}

/* Does another process start in this run folder, or serve already? */
static bool is_run_dir_in_use(const char *dir)
{
	AUTO_BUF status = BUF_INIT;
	AUTO_FREE char *name = fs_join(dir, CKPT_CLAIM_FILE);
	AUTO_CLOSE int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;

	if (!name || (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0))
		return true;
	return ask_mount(dir, &status, NULL) == 0;
}

/* Remove the run folder of our process, which has ended. */
static void remove_run_dir(const char *run, const char *dir)
{
	if (is_run_dir_in_use(dir))
		return;
	(void)!fs_remove_tree(dir, NULL);
	(void)rmdir(run); /* fails if other mounts have folders there */
}

/* Is the mount dead for ever (ENOTCONN)?  The kernel answers so at once.  A mount that a holder
 * keeps for the next process does not answer yet, so it is not dead. */
static bool is_mount_dead(const char *path)
{
	return mount_ask(path, DEAD_ANSWER_MS) == ENOTCONN;
}

/* End this process by the signal that interrupted it, so that callers see it; returns only if that
 * failed. */
static int die_of_signal(int signal_number, const char *path, struct error *err)
{
	/* If the mount's process was killed while mounting, remove the mount that it left. */
	if (check_mounted(path, NULL) == 0 && is_mount_dead(path))
		(void)umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH);
	fprintf(stderr, "bootseer ckpt mount: %s\n", err->msg);
	(void)signal(signal_number, SIG_DFL);
	(void)raise(signal_number);
	return -EINTR;
}

/* Create the run folder, and remove notes that an earlier mount left in it. */
static int begin_run_dir(const struct ckpt_mount_options *c, const char *dir,
			 struct error *err)
{
	AUTO_FREE char *refused = fs_join(dir, REFUSED_FILE);
	AUTO_FREE char *buffered = fs_join(dir, BUFFERED_FILE);
	AUTO_CLOSE int fd = -1;

	if (!refused || !buffered)
		return error_nomem(err);
	(void)unlink(refused);
	(void)unlink(buffered);
	if (strcmp(c->close, "buffered") != 0)
		return 0;
	fd = open(buffered, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? error_errno(err, errno, "open '%s'", buffered) : 0;
}

/* Warn if the store is a directory on NFS whose settings only suit small files. */
static void warn_of_nfs_settings(const char *store)
{
	static const char scheme[] = "file:";

	if (strncmp(store, scheme, strlen(scheme)) != 0)
		return;
	store += strlen(scheme);
	nfs_mounts_advise(store[0] == '/' && store[1] == '/' ? store + 2
							     : store);
}

static int run_mount(const void *config, char **args, struct error *err)
{
	const struct ckpt_mount_options *c = config;
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *dir = NULL;
	AUTO_FREE char *program = NULL;
	static char hold[] = "--hold";
	struct mount_args a = { .n = 0 };
	bool is_new;
	int signal = 0;
	char *operands[] = { args[0], NULL };
	int rc = check_is_folder(args[1], err);

	if (rc == 0)
		rc = find_mount_point(args[1], &path, err);
	if (rc == 0)
		rc = run_dir_of(c->run, path, &dir, err);
	if (rc == 0)
		rc = ckpt_start_find(&program, err);
	if (rc < 0)
		return rc;
	is_new = access(dir, F_OK) < 0;
	rc = fs_mkdir_p(dir, 0700, err);
	if (rc < 0)
		return rc;
	if (!is_run_dir_in_use(dir))
		rc = begin_run_dir(c, dir, err);
	if (rc < 0)
		return rc;
	operands[1] = path;
	add_arg(&a, program);
	if (!c->foreground)
		add_arg(&a, hold);
	collect_args(c, &a, dir, operands);
	warn_of_nfs_settings(args[0]);
	if (!c->foreground) {
		rc = ckpt_start(a.argv, dir,
				START_TIMEOUT_MS + c->store_timeout / NS_PER_MS,
				&signal, err);
		/* After a timeout the mount may still appear, and then needs its log. */
		if (rc < 0 && rc != -ETIMEDOUT && is_new)
			remove_run_dir(c->run, dir);
		return rc == -EINTR ? die_of_signal(signal, path, err) : rc;
	}
	(void)execvp(program, a.argv);
	return error_errno(err, errno, "run '%s'", program);
}

/* Refuse a mount that is alive but belongs to another --run. */
static int check_run(const char *run, const char *dir, const char *path,
		     struct error *err)
{
	if (access(dir, F_OK) == 0 || is_mount_dead(path))
		return 0;
	return error_set(err, ENOENT,
			 "'%s' was mounted with another --run than '%s': say "
			 "which",
			 path, run);
}

static int check_mount(const void *config, char **args, struct error *err)
{
	const struct ckpt_mount_options *c = config;
	struct sockaddr_storage addr;
	socklen_t len;
	int rc = ckpt_check_url(args[0], err);

	if (rc == 0 && c->metrics)
		rc = listen_address_parse("--metrics", c->metrics, &addr, &len,
					  err);
	return rc;
}

const struct command ckpt_mount_command = {
	.brief = "Show a store's files as a folder",
	.program = {
		.name = "bootseer ckpt mount",
		.usage = "[OPTIONS] STORE DIR",
		.summary = "Show the files of the store in the folder DIR, "
			   "where programs read and write them as any others. "
			   "Returns when it is there.",
		.options = mount_options,
		.min_args = 2,
	},
	.config_size = sizeof(struct ckpt_mount_options),
	.check = check_mount,
	.run = run_mount,
};

/* --------------------------------------------------------------------- umount --- */

/* A pidfd of the process that serves the mount, or -1. */
static int open_mount_process(const char *dir)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_JSON *all = NULL;
	json_int_t pid;

	if (ask_mount(dir, &text, NULL) < 0)
		return -1;
	all = json_loads(text.data, 0, NULL);
	pid = json_integer_value(json_object_get(all, "pid"));
	return pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
}

static int refuse_busy(const char *path, struct error *err)
{
	AUTO_BUF holders = BUF_INIT;

	mount_holders(path, &holders);
	return error_set(err, EBUSY,
			 "'%s' is in use by %s: what is open in it may not be "
			 "in the store yet",
			 path, holders.len ? holders.data : "somebody");
}

/* Closed files that are not in the store (--close=buffered), as the mount's process reports. */
struct lost_files {
	json_int_t n;
	json_t *status; /* the "lost" member has the paths of some of these
	                 * files */
};

static struct lost_files lost_files(const char *path, const char *dir)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct lost_files l = { .n = 0 };
	AUTO_BUF text = BUF_INIT;

	/* fsync waits for files that are being stored; the status then has the result. */
	if (fd >= 0)
		(void)fsync(fd);
	if (ask_mount(dir, &text, NULL) == 0)
		l.status = json_loads(text.data, 0, NULL);
	l.n = json_integer_value(json_object_get(l.status, "files_lost"));
	return l;
}

/* Is there a log in `dir`?  The log of a mount run by a service manager is elsewhere. */
static bool has_log(const char *dir)
{
	AUTO_FREE char *log = fs_join(dir, LOG_FILE);

	return log && access(log, F_OK) == 0;
}

static void print_lost(const struct lost_files *l, const char *dir)
{
	const json_t *paths = json_object_get(l->status, "lost");

	for (size_t i = 0; i < json_array_size(paths); i++)
		fprintf(stderr, "not in the store: %s\n",
			json_string_value(json_array_get(paths, i)));
	if ((json_int_t)json_array_size(paths) < l->n)
		fprintf(stderr, "and more: %" JSON_INTEGER_FORMAT " in all\n",
			l->n);
	if (has_log(dir))
		fprintf(stderr, "'lost' in '%s/" LOG_FILE "' says why\n", dir);
}

/* Was an umount refused before for as many lost files?  If not, note this refusal. */
static bool was_umount_refused(const char *dir, json_int_t n)
{
	AUTO_FREE char *name = fs_join(dir, REFUSED_FILE);
	AUTO_CLOSE int fd =
		name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	char text[32] = "";

	if (fd < 0)
		return false;
	if (pread(fd, text, sizeof(text) - 1, 0) > 0 &&
	    strtoll(text, NULL, 10) >= n)
		return true;
	(void)snprintf(text, sizeof(text), "%-20" JSON_INTEGER_FORMAT, n);
	(void)!pwrite(fd, text, strlen(text), 0);
	return false;
}

static int set_lost_files_error(const char *what, const struct lost_files *l,
				struct error *err)
{
	return error_set(err, EIO,
			 "%s: %" JSON_INTEGER_FORMAT
			 " files that were closed in it are not in the store",
			 what, l->n);
}

/* Refuse to unmount once while closed files are not stored, so that the user can write them
 * again. */
static int refuse_umount_with_lost_files(const struct lost_files *l,
					 const char *path, const char *dir,
					 struct error *err)
{
	AUTO_BUF what = BUF_INIT;

	if (!l->n || was_umount_refused(dir, l->n))
		return 0;
	print_lost(l, dir);
	if (buf_printf(&what,
		       "'%.100s' stays mounted, write them again, or unmount "
		       "it once more to leave them",
		       path) < 0)
		return error_nomem(err);
	return set_lost_files_error(what.data, l, err);
}

/* After an unmount with lost files, keep the run folder: its log is the only list of them, and is
 * kept until the folder was mounted twice more. */
static int keep_log_of_losses(const char *run, const char *dir, bool was_served,
			      const struct lost_files *l, struct error *err)
{
	AUTO_FREE char *buffered = fs_join(dir, BUFFERED_FILE);
	const bool may_lose =
		!was_served && (!buffered || access(buffered, F_OK) == 0);

	if (!may_lose && !l->n) {
		remove_run_dir(run, dir);
		return 0;
	}
	if (l->n) {
		print_lost(l, dir);
		return set_lost_files_error("it is unmounted", l, err);
	}
	if (has_log(dir))
		fprintf(stderr,
			"nobody served it: files that were closed and not "
			"stored are 'lost' in '%s/" LOG_FILE "'\n",
			dir);
	return 0;
}

static int run_umount(const void *config, char **args, struct error *err)
{
	const struct ckpt_run_options *c = config;
	struct lost_files lost = { .n = 0 };
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *dir = NULL;
	AUTO_CLOSE int process = -1;
	struct pollfd p = { .events = POLLIN };
	int rc = find_mount_point(args[0], &path, err);

	if (rc == 0)
		rc = check_mounted(path, err);
	if (rc == 0)
		rc = run_dir_of(c->run, path, &dir, err);
	if (rc == 0)
		rc = check_run(c->run, dir, path, err);
	if (rc < 0)
		return rc;
	p.fd = process = open_mount_process(dir);
	/* Only ask a mount that has a process: without one the request would block, and files that
	 * were staged in the process are gone anyway. */
	if (process >= 0)
		lost = lost_files(path, dir);
	rc = refuse_umount_with_lost_files(&lost, path, dir, err);
	if (rc == 0 && umount2(path, UMOUNT_NOFOLLOW) < 0 && errno == EBUSY)
		rc = refuse_busy(path, err);
	else if (rc == 0 && check_mounted(path, NULL) == 0)
		rc = error_set(err, errno, "unmount '%s': %s%s", path,
			       strerror(errno), error_root_hint(errno));
	else if (rc == 0 && process >= 0 && poll(&p, 1, END_TIMEOUT_MS) <= 0)
		rc = error_set(err, ETIMEDOUT,
			       "it is unmounted, and its process is still "
			       "there");
	if (rc == 0)
		rc = keep_log_of_losses(c->run, dir, process >= 0, &lost, err);
	json_decref(lost.status);
	return rc;
}

const struct command ckpt_umount_command = {
	.brief = "Take the folder of a store away",
	.program = {
		.name = "bootseer ckpt umount",
		.usage = "[OPTIONS] DIR",
		.summary = "Unmount what 'bootseer ckpt mount' mounted. Refuses "
			   "while files of it are open, and once when files that "
			   "were closed could not be stored, which it names: "
			   "then it fails also when it unmounts, and leaves the "
			   "log.",
		.options = run_options,
		.min_args = 1,
	},
	.config_size = sizeof(struct ckpt_run_options),
	.run = run_umount,
};

/* --------------------------------------------------------------------- status --- */

static int add_status(const char *dir, json_t *all, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = ask_mount(dir, &text, err);
	json_t *one;

	if (rc < 0)
		return rc;
	one = json_loads(text.data, 0, NULL);
	return json_array_append_new(all, one) < 0
		       ? error_set(err, EPROTO, "'%s' answers no JSON", dir)
		       : 0;
}

static int set_dead_mount_error(const char *path, struct error *err)
{
	return error_set(err, ENOTCONN,
			 "'%s' is dead: its process and the one above it were "
			 "killed, and whoever uses it gets errors: 'bootseer "
			 "ckpt umount %s', then mount it again",
			 path, path);
}

/* Warn of each mount in the mount table that has a folder in `run` but no process. */
static int warn_of_dead_mount(void *run, const struct mountinfo *m,
			      struct error *err)
{
	AUTO_FREE char *dir = NULL;
	AUTO_BUF ignored = BUF_INIT;
	struct error why = ERROR_INIT;
	int rc = strcmp(m->fstype, CKPT_MOUNT_FSTYPE) == 0
			 ? run_dir_of(run, m->path, &dir, err)
			 : 0;

	if (rc < 0 || !dir || access(dir, F_OK) < 0 ||
	    ask_mount(dir, &ignored, NULL) != -ENOENT ||
	    !is_mount_dead(m->path))
		return rc;
	(void)set_dead_mount_error(m->path, &why);
	fprintf(stderr, "bootseer ckpt status: %s\n", why.msg);
	return 0;
}

/* Add the status of each mount that answers; the others have ended or were killed. */
static int add_each_status(const char *run, json_t *all, struct error *err)
{
	DIR *d = opendir(run);
	struct dirent *e;
	int rc = 0;

	if (!d)
		return errno == ENOENT
			       ? 0
			       : error_set(err, errno, "open '%s': %s%s", run,
					   strerror(errno),
					   error_root_hint(errno));
	while (rc == 0 && (e = readdir(d))) {
		AUTO_FREE char *dir = fs_join(run, e->d_name);

		if (!dir)
			rc = error_nomem(err);
		else if (*e->d_name != '.')
			rc = add_status(dir, all, err);
		if (rc == -ENOENT)
			rc = 0;
	}
	(void)closedir(d);
	return rc;
}

static int add_status_at(const char *run, const char *place, json_t *all,
			 struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *dir = NULL;
	int rc;

	if (!place) {
		rc = add_each_status(run, all, err);
		return rc == 0 ? mountinfo_each(warn_of_dead_mount,
						(void *)(uintptr_t)run, err)
			       : rc;
	}
	rc = find_mount_point(place, &path, err);
	if (rc == 0)
		rc = run_dir_of(run, path, &dir, err);
	if (rc < 0)
		return rc;
	rc = add_status(dir, all, err);
	if (rc == -ENOENT && check_mounted(path, NULL) == 0 &&
	    is_mount_dead(path))
		return set_dead_mount_error(path, err);
	if (rc == -ENOENT && check_mounted(path, NULL) == 0 &&
	    check_run(run, dir, path, err) < 0)
		return rc;
	/* Use the mount point in the message: the name of the run folder means nothing to users. */
	if (rc == -ENOENT && check_mounted(path, NULL) == 0)
		return error_set(
			err, ENOENT,
			"'%s' is mounted, and nobody serves it: its "
			"process is started again, and whoever uses it "
			"waits until it goes on ('%s/log' says why it "
			"does not); 'bootseer ckpt umount' gives it up",
			path, dir);
	if (rc == -ENOENT)
		return error_set(err, ENOENT,
				 "no mount of 'bootseer ckpt' answers for '%s'",
				 path);
	return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}

/* Print problems before the figures, as an operator in a hurry reads the first line. */
static void print_mount_trouble(const json_t *m)
{
	const json_t *away = json_object_get(m, "store_away");
	const char *path = json_string_value(json_object_get(m, "path"));
	json_int_t lost = json_integer_value(json_object_get(m, "files_lost"));
	char since[DURATION_TEXT_MAX];

	if (json_is_object(away)) {
		duration_format(clock_scale(json_integer_value(
						    json_object_get(away,
								    "seconds")),
					    NS_PER_S, 0),
				since);
		fprintf(stderr,
			"bootseer ckpt status: '%s' waits for its store, for "
			"%s now: %s\n",
			path, since,
			json_string_value(json_object_get(away, "reason")));
	}
	if (lost)
		fprintf(stderr,
			"bootseer ckpt status: '%s' has lost %" JSON_INTEGER_FORMAT
			" files that were closed ('lost'): write them again\n",
			path, lost);
}

static int run_status(const void *config, char **args, struct error *err)
{
	const struct ckpt_run_options *c = config;
	AUTO_JSON *all = json_array();
	int rc = all ? add_status_at(c->run, args[0], all, err)
		     : error_nomem(err);
	const json_t *one;
	size_t k;

	json_array_foreach(all, k, one) print_mount_trouble(one);
	if (rc == 0 && json_dumpf(all, stdout, JSON_INDENT(2)) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		(void)putchar('\n');
	return rc;
}

const struct command ckpt_status_command = {
	.brief = "Show the mounts of stores, as JSON",
	.program = {
		.name = "bootseer ckpt status",
		.usage = "[OPTIONS] [DIR]",
		.summary = "Show what the mounts of this machine, or the one at "
			   "DIR, have read, written and hold, as JSON; on standard "
			   "error which of them waits for its store, or lost "
			   "files.",
		.options = run_options,
		.max_args = 1,
	},
	.config_size = sizeof(struct ckpt_run_options),
	.run = run_status,
};
