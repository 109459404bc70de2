// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer node join` and `node leave`: configure the plugin in containerd by a file of its own,
 * or remove that file. containerd prints its configuration before and after; if anything else
 * would change, or containerd does not start again, all files are restored.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/command.h"
#include "cli/containerd_config.h"
#include "cli/containerd_dropin.h"
#include "cli/containerd_hosts.h"
#include "cli/node_ask.h"
#include "cli/snapshot_records.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/toml.h"

#define FILE_MAX (1u << 20)
#define DUMP_TIMEOUT_MS 20000
#define CTR_TIMEOUT_MS 10000
#define RESTART_TIMEOUT_MS 120000
#define FETCH_TIMEOUT_MS (60 * 60 * 1000)
#define NODE_TIMEOUT_NS (10 * NS_PER_S)
#define LOOK_MS 200   /* pause between two checks of a starting containerd */
#define STATUS_LEFT 3 /* exit status: containers still run on the plugin */

struct join_config {
	char *file, *socket, *restart, *pods, *address, *root;
	char **mirror; /* registries; NULL: none */
	bool unpack, no_restart, no_fetch;
	int64_t answer_ns;
};

static const char *const pods_names[] = { "all", "runtime", NULL };

#define COMMON_OPTIONS \
	{ .key = "containerd", \
	  .type = OPTION_STRING, \
	  .arg = "FILE", \
	  .def = "/etc/containerd/config.toml", \
	  .offset = offsetof(struct join_config, file), \
	  .help = "containerd's configuration; the plugin's is in conf.d " \
		  "beside it." }, \
		{ .key = "socket", \
		  .type = OPTION_STRING, \
		  .arg = "SOCKET", \
		  .offset = offsetof(struct join_config, socket), \
		  .help = "Where containerd listens; default is ctr's, " \
			  "$CONTAINERD_ADDRESS or /run/containerd/containerd.sock." }, \
		{ .key = "restart", \
		  .type = OPTION_STRING, \
		  .arg = "COMMAND", \
		  .def = "systemctl restart containerd", \
		  .offset = offsetof(struct join_config, restart), \
		  .help = "Shell command that restarts containerd, if it runs." }, \
		{ .key = "answer-timeout", \
		  .type = OPTION_DURATION, \
		  .def = "1m", \
		  .min = "1s", \
		  .max = "1h", \
		  .offset = offsetof(struct join_config, answer_ns), \
		  .help = "After this a restarted containerd that does not answer is " \
			  "put back as it was." }, \
		{ .key = "no-restart", \
		  .type = OPTION_BOOL, \
		  .offset = offsetof(struct join_config, no_restart), \
		  .help = "Leave the restart of containerd to somebody else." }, \
		{ .key = "no-fetch", \
		  .type = OPTION_BOOL, \
		  .offset = offsetof(struct join_config, no_fetch), \
		  .help = "Do not fetch layers that containerd lacks; images " \
			  "without them have to be pulled again." }, \
		{ .key = "address", \
		  .type = OPTION_STRING, \
		  .arg = "SOCKET", \
		  .def = "/run/bootseer/snapshotter.sock", \
		  .offset = offsetof(struct join_config, address), \
		  .help = "Where bootseer-snapshotter listens." }, \
	{ \
		.key = "root", .type = OPTION_STRING, .arg = "DIR", \
		.def = "/var/lib/bootseer-snapshotter", \
		.offset = offsetof(struct join_config, root), \
		.help = "bootseer-snapshotter's folder." \
	}

static const struct option_spec leave_options[] = {
	COMMON_OPTIONS,
	{ .key = NULL },
};

static const struct option_spec join_options[] = {
	{ .key = "pods",
	  .type = OPTION_ENUM,
	  .values = pods_names,
	  .def = "all",
	  .offset = offsetof(struct join_config, pods),
	  .help = "Which pods start lazily: all, or those of the runtime "
		  "handler 'bootseer' (a RuntimeClass)." },
	{ .key = "mirror",
	  .type = OPTION_LIST,
	  .arg = "HOST",
	  .offset = offsetof(struct join_config, mirror),
	  .help = "Have containerd ask bootseerd's mirror first for layers of "
		  "this registry (HOST[:PORT]), or with _default of all that have "
		  "no folder in its config_path." },
	{ .key = "unpack",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct join_config, unpack),
	  .help = "Have containerd (1.7 and later) let bootseerd unpack layers "
		  "of ordinary images, which is faster.  While "
		  "bootseer-snapshotter does not run containerd then unpacks "
		  "nothing, whichever the snapshotter." },
	COMMON_OPTIONS,
	{ .key = NULL },
};

/* Plugins that containerd must have loaded without errors, as a bit set. */
enum wanted_plugins { WANT_OURS = 1, WANT_CRI = 2, WANT_DIFF = 4 };

struct join {
	const struct join_config *config;
	struct kept_file main, dropin;
	struct hosts_files hosts;
	char *pattern;    /* import pattern in the main file */
	char *hosts_dir;  /* folder for hosts.toml files if containerd's
	                   * configuration names none */
	char *pending;    /* path of a marker file that exists while
	                   * containerd may still run with other files than
	                   * those on disk */
	struct buf entry; /* entry of the mirror, for hosts.toml */
	struct buf dump;
	json_t *node;     /* bootseerd's status; NULL: not requested */
	unsigned int had; /* bits of the plugins that worked before:
	                   * WANT_CRI and WANT_DIFF */
	bool runs, is_pending;
};

static void join_fini(struct join *j)
{
	kept_file_fini(&j->main);
	kept_file_fini(&j->dropin);
	hosts_files_fini(&j->hosts);
	free(j->pattern);
	free(j->hosts_dir);
	free(j->pending);
	buf_fini(&j->entry);
	buf_fini(&j->dump);
	json_decref(j->node);
}

/* ------------------------------------------------------------------- files --- */

/* Create the drop-in's folder. */
static int make_folder(const struct join *j, struct error *err)
{
	AUTO_FREE char *path = strdup(j->dropin.path);

	if (!path)
		return error_nomem(err);
	*strrchr(path, '/') = '\0';
	if (mkdir(path, 0755) == 0 || errno == EEXIST)
		return 0;
	return error_set(err, errno, "make '%s': %s", path, strerror(errno));
}

/* Remove the drop-in's folder; false: it has other files. */
static bool remove_folder(const struct join *j)
{
	AUTO_FREE char *path = strdup(j->dropin.path);

	if (!path)
		return false;
	*strrchr(path, '/') = '\0';
	return rmdir(path) == 0 || errno == ENOENT;
}

static int restore_files(const struct join *j, struct error *err)
{
	int rc = kept_file_restore(&j->main, err);
	int rc2 = j->dropin.is_there ? make_folder(j, err) : 0;

	if (rc2 == 0)
		rc2 = kept_file_restore(&j->dropin, err);
	if (rc2 == 0 && !j->dropin.is_there)
		(void)remove_folder(j);
	rc = rc < 0 ? rc : rc2;
	rc2 = hosts_files_restore(&j->hosts, err);
	return rc < 0 ? rc : rc2;
}

/* Read the main file, and the drop-in in conf.d beside it, to be able to restore both. */
static int open_files(struct join *j, struct error *err)
{
	const char *slash = strrchr(j->config->file, '/');
	AUTO_FREE char *folder = NULL;
	int rc;

	if (!slash || *j->config->file != '/')
		return error_set(err, EINVAL,
				 "--containerd: '%s' is no absolute path",
				 j->config->file);
	j->main.path = strdup(j->config->file);
	if (asprintf(&folder, "%.*s/conf.d", (int)(slash - j->config->file),
		     j->config->file) < 0)
		folder = NULL;
	j->dropin.path = folder ? fs_join(folder, "bootseer.toml") : NULL;
	j->pattern = folder ? fs_join(folder, "*.toml") : NULL;
	if (asprintf(&j->hosts_dir, "%.*s/certs.d",
		     (int)(slash - j->config->file), j->config->file) < 0)
		j->hosts_dir = NULL;
	if (asprintf(&j->pending, "%.*s/.bootseer.pending",
		     (int)(slash - j->config->file), j->config->file) < 0)
		j->pending = NULL;
	if (!j->main.path || !j->dropin.path || !j->pattern || !j->hosts_dir ||
	    !j->pending)
		return error_nomem(err);
	rc = kept_file_read(&j->main, err);
	return rc < 0 ? rc : kept_file_read(&j->dropin, err);
}

/* -------------------------------------------------------------- containerd --- */

/* Run a program and get its stdout.  If it fails, its stderr is in `err`. */
static int run_child(char *const argv[], int64_t timeout_ms, struct buf *ret,
		     struct error *err)
{
	AUTO_BUF said = { .limit = 4096 };
	FILE *out = tmpfile();
	const char *line;
	int status = -1, rc;
	char part[4096];
	size_t n;

	if (!out)
		return error_set(err, errno, "a temporary file: %s",
				 strerror(errno));
	rc = child_capture_with(argv, -1, fileno(out), timeout_ms, &said,
				&status, err);
	rewind(out);
	while (rc == 0 && ret && (n = fread(part, 1, sizeof(part), out)) > 0)
		if (ret->len + n > FILE_MAX || buf_append(ret, part, n) < 0)
			rc = error_set(err, EFBIG, "%s prints too much",
				       argv[0]);
	fclose(out);
	if (rc < 0 || status == 0)
		return rc;
	while (said.len && said.data[said.len - 1] == '\n')
		said.data[--said.len] = '\0';
	line = said.len ? strrchr(said.data, '\n') : NULL;
	return error_set(err, EIO, "%s: %s", argv[0],
			 line       ? line + 1
			 : said.len ? said.data
				    : "it failed");
}

/* A shell script that runs "$@" with the drop-in $1 hidden, for that program only: a tmpfs with
 * copies of the other files is mounted over the folder. */
#define WITHOUT_DROPIN \
	"d=${1%/*}; exec 9<\"$d\" && mount -t tmpfs -o mode=755 bootseer \"$d\" && " \
	"cp -a /proc/self/fd/9/. \"$d\" && rm \"$1\" && shift && exec \"$@\" 9<&-"
/* WITHOUT_DROPIN for a root folder that is no mount point (chroot), where a mount namespace cannot
 * be private: the drop-in is renamed meanwhile.  No containerd is started there at that time. */
#define DROPIN_AWAY \
	"f=$1; shift; mv \"$f\" \"$f.away\" && { \"$@\"; s=$?; mv \"$f.away\" \"$f\" && " \
	"exit $s; }"

static bool root_is_mount(void)
{
	struct statx s;

	return statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &s) == 0 &&
	       s.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* Get the configuration that containerd makes of its files, or with `without` of all files but the
 * drop-in.  The main file is only named if it exists, as a missing one is an error. */
static int dump_config(const struct join *j, bool without, struct buf *ret,
		       struct error *err)
{
	const char *hidden[] = { "unshare",      "--mount",
				 "sh",           "-c",
				 WITHOUT_DROPIN, "sh",
				 j->dropin.path, NULL };
	const char *away[] = { "sh", "-c",           DROPIN_AWAY,
			       "sh", j->dropin.path, NULL };
	const char **before = root_is_mount() ? hidden : away;
	const char *argv[16];
	size_t n = 0;
	int rc;

	for (; without && before[n]; n++)
		argv[n] = before[n];
	argv[n++] = "containerd";
	if (access(j->main.path, F_OK) == 0) {
		argv[n++] = "--config";
		argv[n++] = j->main.path;
	}
	argv[n++] = "config";
	argv[n++] = "dump";
	argv[n] = NULL;
	rc = run_child((char *const *)(uintptr_t)argv, DUMP_TIMEOUT_MS, ret,
		       err);
	if (rc == 0 && !ret->data)
		return error_set(err, EIO, "containerd config dump: nothing");
	return rc;
}

static int ask_ctr(const struct join *j, const char *const words[],
		   struct buf *ret, struct error *err)
{
	const char *argv[12] = { "ctr" };
	size_t n = 1;

	if (j->config->socket) {
		argv[n++] = "--address";
		argv[n++] = j->config->socket;
	}
	argv[n++] = "--connect-timeout";
	argv[n++] = "2s";
	for (size_t i = 0; words[i] && n < 11; i++)
		argv[n++] = words[i];
	return run_child((char *const *)(uintptr_t)argv, CTR_TIMEOUT_MS, ret,
			 err);
}

/* Is this plugin loaded without errors?  The list has lines of "TYPE ID PLATFORMS STATUS". */
static bool is_plugin_ok(const char *list, const char *type, const char *id)
{
	while (*list) {
		char t[64], i[64], p[64], s[64];

		if (sscanf(list, "%63s %63s %63s %63s", t, i, p, s) == 4 &&
		    strcmp(t, type) == 0 && strcmp(i, id) == 0)
			return strcmp(s, "ok") == 0;
		list += strcspn(list, "\n");
		list += *list == '\n';
	}
	return false;
}

/* 0: containerd answers, and the wanted plugins work. */
static int ask_plugins(const struct join *j, unsigned int want,
		       struct error *err)
{
	static const struct {
		const char *type, *id, *lack;
	} plugins[] = {
		{ "io.containerd.snapshotter.v1", "bootseer",
		  "has no snapshotter 'bootseer'" },
		{ "io.containerd.grpc.v1", "cri", "runs without CRI" },
		{ "io.containerd.service.v1", "diff-service",
		  "cannot unpack layers" },
	};
	AUTO_BUF list = BUF_INIT;
	int rc = ask_ctr(j, (const char *const[]){ "plugins", "ls", NULL },
			 &list, err);

	if (rc == 0 && !list.data)
		return error_set(err, EIO, "ctr plugins ls: nothing");
	for (size_t i = 0; rc == 0 && i < 3; i++)
		if (want & 1u << i &&
		    !is_plugin_ok(list.data, plugins[i].type, plugins[i].id))
			rc = error_set(err, EIO, "containerd %s",
				       plugins[i].lack);
	return rc;
}

static int wait_for_containerd(const struct join *j, bool want_ours,
			       struct error *err)
{
	const unsigned int want = j->had | (want_ours ? WANT_OURS : 0);
	int64_t until = clock_now_ns() + j->config->answer_ns;
	struct error why = ERROR_INIT;
	int rc;

	while ((rc = ask_plugins(j, want, &why)) < 0 && clock_now_ns() < until)
		(void)poll(NULL, 0, LOOK_MS);
	if (rc < 0)
		return error_set(err, EIO,
				 "%s, --answer-timeout after the restart",
				 why.msg);
	return 0;
}

static int restart_containerd(const struct join *j, bool want_ours,
			      struct error *err)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, j->config->restart,
			 NULL };
	int rc;

	if (!j->runs)
		return 0;
	if (j->config->no_restart) {
		puts("restart containerd, which reads its files at its start");
		return 0;
	}
	rc = run_child(argv, RESTART_TIMEOUT_MS, NULL, err);
	if (rc < 0)
		return error_wrap(err, rc, "--restart '%s'",
				  j->config->restart);
	return wait_for_containerd(j, want_ours, err);
}

/* Remove the marker: containerd now runs with the files on disk, or will read them at its start. */
static void clear_pending(struct join *j)
{
	(void)unlink(j->pending);
	j->is_pending = false;
}

/* Restore all files, and restart containerd if it was restarted. */
static int restore_containerd(struct join *j, int rc, bool restarted,
			      struct error *err)
{
	struct error why = ERROR_INIT;
	int undone = restore_files(j, &why);

	if (undone == 0 && restarted)
		undone = restart_containerd(j, false, &why);
	if (undone == 0 && (restarted || !j->is_pending))
		clear_pending(j);
	error_wrap(err, rc,
		   undone < 0 ? "could not be undone"
			      : "undone, all is as it "
				"was");
	if (undone < 0)
		fprintf(stderr, "bootseer: %s\n", why.msg);
	return rc;
}

static int fetch_layers(const struct join *j, struct error *err)
{
	char *argv[] = { (char[]){ "/proc/self/exe" },
			 (char[]){ "node" },
			 (char[]){ "fetch" },
			 j->config->socket ? (char[]){ "--containerd" } : NULL,
			 j->config->socket,
			 NULL };
	int rc = j->config->no_fetch || !j->runs
			 ? 0
			 : run_child(argv, FETCH_TIMEOUT_MS, NULL, err);

	return rc < 0 ? error_wrap(err, rc,
				   "layers of images that are here (see "
				   "'bootseer node fetch'; --no-fetch leaves "
				   "them)")
		      : 0;
}

/* -------------------------------------------------------------------- join --- */

/* Set what depends on the machine: its platform, and whether its kernel maps the ids of overlay
 * mounts (since 5.19). */
static void describe_machine(struct dropin_want *want, char platform[80])
{
	struct utsname u = { .machine = "x86_64" };
	unsigned int major = 0, minor = 0;
	const char *arch;

	(void)uname(&u);
	arch = strcmp(u.machine, "x86_64") == 0    ? "amd64"
	       : strcmp(u.machine, "aarch64") == 0 ? "arm64"
						   : u.machine;
	snprintf(platform, 80, "linux/%.64s", arch);
	want->platform = platform;
	want->remap_ids = sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
			  (major > 5 || (major == 5 && minor >= 19));
}

static int import_dropin(const struct join *j, unsigned int version,
			 struct error *err)
{
	AUTO_BUF empty = BUF_INIT, text = BUF_INIT;
	const char *now = j->main.text.data;
	bool changed = false;
	int rc = buf_printf(&empty, "version = %u\n", version > 2 ? 3 : 2);

	if (rc < 0)
		return error_nomem(err);
	rc = dropin_import(j->main.is_there ? now : empty.data, j->pattern,
			   &text, &changed, err);
	if (rc < 0)
		return error_wrap(err, rc, "'%s'", j->main.path);
	return changed ? kept_file_put(&j->main, text.data, err) : 0;
}

/* With the new files in place, check that containerd's configuration is the intended one. */
static int check_after(const struct join *j, enum dropin_pods pods,
		       struct error *err)
{
	struct containerd_config c = { .proxy = false };
	AUTO_BUF after = BUF_INIT;
	int rc = dump_config(j, false, &after, err);
	bool is_used;

	if (rc < 0)
		return rc;
	containerd_config_scan(after.data, &c);
	is_used = (pods == DROPIN_ALL ? c.by_default : c.used) && c.labels;
	if (!c.proxy || (pods >= DROPIN_RUNTIME && !c.cri_off && !is_used))
		return error_set(err, EIO,
				 "another file of those that containerd "
				 "imports has the last word");
	if (j->config->unpack && !(*c.differ && c.differ_first))
		return error_set(err, EIO,
				 "another file of those that containerd "
				 "imports has the last word on who unpacks");
	if (j->config->mirror && !c.cri_off && !*c.config_path)
		return error_set(err, EIO,
				 "CRI's config_path does not come into force: "
				 "set it in '%s'",
				 j->main.path);
	return dropin_compare(j->dump.data, after.data, err);
}

/* Put the mirror's entry into hosts.toml of the named registries, and remove it from others. */
static int place_hosts(struct join *j, const struct containerd_config *c,
		       struct error *err)
{
	const char *path = *c->config_path ? c->config_path : j->hosts_dir;
	struct hosts_want want = { .config_path = path,
				   .registries = j->config->mirror,
				   .entry = j->entry.data };
	AUTO_FREE char *search = NULL;

	if (asprintf(&search, "%s:%s", path, j->hosts_dir) < 0) {
		search = NULL;
		return error_nomem(err);
	}
	if (j->config->mirror && c->has_old_hosts)
		return error_set(err, ENOTSUP,
				 "containerd's configuration has "
				 "registry.mirrors or registry.configs.*.tls, "
				 "which it does not take beside config_path: "
				 "say the same in hosts.toml");
	want.search = search;
	return hosts_files_apply(&want, &j->hosts, err);
}

static bool is_file_text_same(const struct kept_file *f, const char *text)
{
	return f->is_there && strcmp(f->text.data, text) == 0;
}

/* Write the wanted drop-in.  `*ret_same`: the existing one is equal. */
static int place_dropin(struct join *j, enum dropin_pods pods, bool *ret_same,
			struct error *err)
{
	struct dropin_want want = { .pods = pods,
				    .address = j->config->address,
				    .root = j->config->root,
				    .unpack = j->config->unpack };
	struct containerd_config c = { .proxy = false };
	char platform[80];
	AUTO_BUF text = BUF_INIT;
	int rc;

	describe_machine(&want, platform);
	containerd_config_scan(j->dump.data, &c);
	if (c.version < 2)
		return error_set(err, ENOTSUP,
				 "'%s' is of version 1: containerd config "
				 "migrate, or write it anew",
				 j->main.path);
	if (j->config->mirror && !*c.config_path)
		want.config_path = j->hosts_dir;
	rc = place_hosts(j, &c, err);
	if (rc == 0)
		rc = dropin_compose(&want, j->dump.data, &text, err);
	*ret_same = rc == 0 && is_file_text_same(&j->dropin, text.data);
	if (rc == 0)
		rc = make_folder(j, err);
	/* This marker stays if the process is killed before containerd was restarted. */
	if (rc == 0 && !*ret_same)
		rc = fs_replace_file(j->pending, "", 0, 0600, err);
	/* The drop-in is written last: doctor compares its time with those of the other files. */
	if (rc == 0)
		rc = import_dropin(j, c.version, err);
	if (rc == 0)
		rc = kept_file_put(&j->dropin, text.data, err);
	return rc < 0 ? rc : check_after(j, pods, err);
}

/* Read containerd's configuration as it would be without the drop-in. */
static int read_config_without_plugin(struct join *j,
				      const struct join_config *config,
				      struct error *err)
{
	struct error why = ERROR_INIT;
	int rc;

	j->config = config;
	rc = open_files(j, err);
	if (rc < 0)
		return rc;
	j->runs = ask_plugins(j, 0, &why) == 0;
	for (unsigned int want = WANT_CRI; j->runs && want <= WANT_DIFF;
	     want *= 2)
		if (ask_plugins(j, want, &why) == 0)
			j->had |= want;
	j->is_pending = access(j->pending, F_OK) == 0;
	return dump_config(j, j->dropin.is_there, &j->dump, err);
}

static int ask_node(struct join *j, const char *option, struct error *err)
{
	const struct node_options node = { .timeout = NODE_TIMEOUT_NS };
	struct error why = ERROR_INIT;
	int rc = node_ask(&node, "node.status", json_object(), &j->node, &why);

	if (rc < 0)
		return error_set(err, -rc,
				 "%s: bootseerd, at $BOOTSEER_SOCKET or "
				 "its usual place, gives no answer: %s",
				 option, why.msg);
	return 0;
}

/* Read the hosts.toml entry for bootseerd's mirror from its status. */
static int read_mirror(struct join *j, struct error *err)
{
	AUTO_FREE char *path = NULL;

	if (!json_is_string(json_object_get(j->node, "mirror")))
		return error_set(err, ENOENT,
				 "bootseerd has no mirror: mirror = "
				 "\"127.0.0.1:9745\"; in its configuration, "
				 "and restart it");
	if (asprintf(&path, "%s/mirror/hosts.toml",
		     reply_raw(j->node, "root")) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	return fs_read_file(path, TOML_BYTES_MAX, &j->entry, err);
}

/* Check that bootseerd can read the layers that it shall unpack. */
static int check_store(const struct join *j, const struct containerd_config *c,
		       struct error *err)
{
	const char *root = reply_raw(j->node, "containerd_root");

	if (!*c->root || fs_is_same(root, c->root))
		return 0;
	return error_set(err, ENOENT,
			 "--unpack: bootseerd reads containerd's layers in "
			 "'%s': containerd-root = \"%s\"; in its "
			 "configuration, and restart it",
			 root, c->root);
}

/* Change the files.  `is_other`: containerd runs with another drop-in than the one on disk. */
static int change_config(struct join *j, enum dropin_pods pods, bool is_other,
			 struct error *err)
{
	struct error why = ERROR_INIT;
	bool same = false;
	int rc = place_dropin(j, pods, &same, err);

	is_other = is_other || j->is_pending;
	if (rc < 0)
		return restore_containerd(j, rc, is_other, err);
	if (same && !is_other &&
	    (!j->runs || ask_plugins(j, j->had | WANT_OURS, &why) == 0))
		return 0;
	rc = restart_containerd(j, true, err);
	if (rc < 0)
		return restore_containerd(j, rc, true, err);
	clear_pending(j);
	return 0;
}

/* If the plugin's files were lost, containerd's records still make pulls succeed, but no container
 * of these images could start.  So remove those records.  Labels of the snapshots tell which
 * layers to fetch. */
static void forget_lost_snapshots(const struct join *j)
{
	const int64_t until = clock_now_ns() + NODE_TIMEOUT_NS;
	AUTO(snapshot_labels) lost = NULL;
	struct error why = ERROR_INIT;
	int rc;

	/* containerd calls a plugin that just started only after some seconds, so retry. */
	while ((rc = snapshot_labels_find(j->config->socket, true, &lost,
					  &why)) < 0 &&
	       clock_now_ns() < until)
		(void)poll(NULL, 0, LOOK_MS);
	if (rc == 0 && lost->n == 0)
		return;
	if (rc == 0 && fetch_layers(j, &why) < 0)
		fprintf(stderr,
			"bootseer: %s; remove those images (crictl rmi), so "
			"that they are pulled again\n",
			why.msg);
	if (rc == 0)
		rc = snapshot_labels_remove(j->config->socket, lost, &why);
	if (rc < 0)
		fprintf(stderr,
			"bootseer: whether containerd has snapshots that the "
			"plugin lost: %s\n",
			why.msg);
	else
		printf("%zu images whose snapshots were lost are unpacked again "
		       "when they are used\n",
		       lost->n);
}

static int run_join(const void *config, char **args, struct error *err)
{
	const struct join_config *c = config;
	struct containerd_config was = { .proxy = false };
	struct join j = { .config = c };
	int rc = 0;

	(void)args;
	if (c->mirror || c->unpack)
		rc = ask_node(&j, c->mirror ? "--mirror" : "--unpack", err);
	if (rc == 0 && c->mirror)
		rc = read_mirror(&j, err);
	if (rc == 0)
		rc = read_config_without_plugin(&j, c, err);
	if (rc == 0)
		containerd_config_scan(j.dump.data, &was);
	if (rc == 0 && c->unpack)
		rc = check_store(&j, &was, err);
	if (rc == 0) {
		if (was.discards && !was.used)
			rc = fetch_layers(&j, err);
		if (rc < 0)
			rc = restore_containerd(&j, rc, false, err);
		else
			rc = change_config(&j,
					   strcmp(c->pods, "all") == 0
						   ? DROPIN_ALL
						   : DROPIN_RUNTIME,
					   false, err);
	}
	if (rc == 0 && j.runs && !c->no_restart)
		forget_lost_snapshots(&j);
	if (rc == 0)
		printf("%s: containerd %s\n", j.dropin.path,
		       j.runs ? "knows the plugin"
			      : "reads it when it is started");
	for (size_t k = 0; rc == 0 && k < j.hosts.n; k++)
		printf("%s: changed for the mirror\n", j.hosts.list[k].path);
	join_fini(&j);
	return rc;
}

/* ------------------------------------------------------------------- leave --- */

/* Have containerd remove its snapshots on the plugin while the plugin still runs.  Snapshots that
 * leases or labels keep are an error: no container could start on them without the files. */
static int forget_snapshots(const struct join *j, struct error *err)
{
	AUTO(snapshot_labels) l = NULL;
	AUTO_BUF names = BUF_INIT;
	size_t n = 0;
	int rc = snapshot_labels_find(j->config->socket, false, &l, err);

	if (rc == 0)
		rc = snapshot_labels_remove(j->config->socket, l, err);
	if (rc == 0)
		rc = snapshots_count(j->config->socket, false, &n, &names, err);
	if (rc == 0 && n)
		fprintf(stderr,
			"bootseer: containerd keeps %zu snapshots of the "
			"plugin (%s): remove the leases, and the labels "
			"containerd.io/gc.root, that hold them before this "
			"node joins again\n",
			n, names.data);
	return rc;
}

/* Restore the main file and remove the drop-in.  The import stays if other files are in the
 * folder. */
static int remove_files(const struct join *j, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	bool is_ours;
	int rc = dropin_unimport(j->main.text.data, j->pattern, &text, err);

	if (rc == 0)
		rc = kept_file_put(&j->dropin, NULL, err);
	if (rc < 0 || !remove_folder(j) || !j->main.is_there ||
	    strcmp(text.data, j->main.text.data) == 0)
		return rc;
	is_ours = strcmp(text.data, "version = 3\n") == 0 ||
		  strcmp(text.data, "version = 2\n") == 0;
	return kept_file_put(&j->main, is_ours ? NULL : text.data, err);
}

/* Take the plugin out of containerd's configuration.  `is_other`: see change_config(). */
static int take_plugin_out(struct join *j, bool is_other, struct error *err)
{
	struct containerd_config c = { .proxy = false };
	AUTO_BUF after = BUF_INIT;
	int rc;

	containerd_config_scan(j->dump.data, &c);
	rc = place_hosts(j, &c, err);
	if (rc == 0)
		rc = remove_files(j, err);
	if (rc == 0)
		rc = dump_config(j, false, &after, err);
	if (rc == 0)
		rc = dropin_compare(j->dump.data, after.data, err);
	if (rc < 0)
		return restore_containerd(j, rc, is_other, err);
	rc = restart_containerd(j, false, err);
	if (rc < 0)
		return restore_containerd(j, rc, true, err);
	clear_pending(j);
	return 0;
}

/* Extend an error after records were removed: restoring the files does not restore the records. */
static int add_forgotten_advice(const struct join *j, int rc, struct error *err)
{
	return error_wrap(err, rc,
			  j->config->no_fetch
				  ? "remove images that started lazily (crictl "
				    "rmi), so that they are pulled again, as "
				    "containerd has forgotten their snapshots"
				  : "containerd has forgotten the plugin's "
				    "snapshots, and unpacks images again");
}

/* Count snapshots of containers and pods.  Until containerd is restarted without the plugin, new
 * pods may start on it; so if none is found, restart and count again. */
static int count_used(struct join *j, bool *ret_restarted, size_t *ret_n,
		      struct buf *ret_names, struct error *err)
{
	const char *socket = j->config->socket;
	int rc = snapshots_count(socket, true, ret_n, ret_names, err);

	if (rc < 0)
		return restore_containerd(j, rc, false, err);
	if (*ret_n || j->config->no_restart)
		return 0;
	rc = change_config(j, DROPIN_NO_PODS, false, err);
	if (rc < 0)
		return rc;
	*ret_restarted = true;
	rc = snapshots_count(socket, true, ret_n, ret_names, err);
	return rc < 0 ? restore_containerd(j, rc, true, err) : 0;
}

static int leave_plugin(struct join *j, size_t *ret_n, struct buf *ret_names,
			struct error *err)
{
	bool restarted = false;
	int rc = fetch_layers(j, err);

	if (rc < 0)
		return restore_containerd(j, rc, false, err);
	rc = count_used(j, &restarted, ret_n, ret_names, err);
	if (rc < 0)
		return rc;
	if (*ret_n)
		return change_config(j, DROPIN_LEAVING, restarted, err);
	rc = forget_snapshots(j, err);
	rc = rc < 0 ? restore_containerd(j, rc, restarted, err)
		    : take_plugin_out(j, restarted, err);
	return rc < 0 ? add_forgotten_advice(j, rc, err) : 0;
}

static int leave_containerd(struct join *j, struct error *err)
{
	AUTO_BUF names = BUF_INIT;
	struct error why = ERROR_INIT;
	size_t n = 0;
	int rc = j->runs && ask_plugins(j, WANT_OURS, &why) == 0
			 ? leave_plugin(j, &n, &names, err)
			 : take_plugin_out(j, false, err);

	if (rc < 0 || n == 0)
		return rc;
	printf("%zu containers and pods go on with the plugin (%s): run this "
	       "again when they have ended\n",
	       n, names.data);
	return STATUS_LEFT;
}

static int run_leave(const void *config, char **args, struct error *err)
{
	struct containerd_config c = { .proxy = false };
	struct join j = { .config = config };
	int rc = read_config_without_plugin(&j, config, err);

	(void)args;
	if (rc == 0)
		containerd_config_scan(j.dump.data, &c);
	/* The administrator's own lines are not removed, and with them no layer would be unpacked
	 * after this. */
	if (rc == 0 && c.differ_listed)
		rc = error_set(err, EBUSY,
			       "containerd's own files have it unpack by "
			       "'" CONTAINERD_DIFFER
			       "': take that out of default in "
			       "[plugins.\"io.containerd.service.v1"
			       ".diff-service\"], without the plugin "
			       "containerd unpacks nothing");
	if (rc == 0)
		rc = leave_containerd(&j, err);
	if (rc == 0)
		printf("containerd knows nothing of the plugin\n");
	join_fini(&j);
	return rc;
}

const struct command node_join_command = {
	.brief = "Tell containerd of the plugin, by a file of its own",
	.program = {
		.name = "bootseer node join",
		.usage = "[OPTIONS]",
		.summary =
			"Tell containerd of bootseer-snapshotter: by conf.d/"
			"bootseer.toml beside its configuration, which it "
			"imports.  What else would change by that, or a "
			"containerd that does not come back with the plugin "
			"and with CRI, and everything is put back as it was.  "
			"Images whose snapshots the plugin lost are unpacked "
			"again, after fetching the layers that they lack.  "
			"Each time all options count: without --mirror, entries "
			"of before in hosts.toml are removed, and without "
			"--unpack containerd unpacks itself.",
		.options = join_options,
		.examples = "  bootseer node join --pods runtime --mirror _default --unpack",
		.see_also = "bootseer-snapshotter(8)",
	},
	.config_size = sizeof(struct join_config),
	.run = run_join,
};

const struct command node_leave_command = {
	.brief = "Take what 'node join' told containerd away again",
	.program = {
		.name = "bootseer node leave",
		.usage = "[OPTIONS]",
		.summary =
			"Take away what 'bootseer node join' told containerd, "
			"after fetching the layers that images lack under "
			"another snapshotter, and have containerd forget its "
			"snapshots of the plugin.  While containers go on with the "
			"plugin it stays known, and the exit status is 3.  New "
			"pods do not use it then, but for those of the runtime "
			"handler 'bootseer'.",
		.options = leave_options,
		.see_also = "bootseer-snapshotter(8)",
	},
	.config_size = sizeof(struct join_config),
	.is_status = true,
	.run = run_leave,
};
