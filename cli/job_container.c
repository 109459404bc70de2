// SPDX-License-Identifier: Apache-2.0
#include "cli/job_container.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/ctr.h"
#include "cli/job_client.h"
#include "cli/job_init.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/fs.h"
#include "snapshotter/client.h"

#define SNAPSHOTTER "bootseer"
#define LABEL "containerd.io/snapshot/bootseer."
#define FOLDER "/run/bootseer-job."
#define FOLDER_TRIES 8
#define LIBRARIES_MAX 8u
#define SOCKET_WAIT_MS 5000
#define LOOK_MS 10
#define REMOVE_MS 10000 /* how long to retry while containerd is restarting */
#define REMOVE_AGAIN_MS 100

/* ------------------------------------------------------------------------- image --- */

/* Choose the pulling program: ctr of containerd 1 fetches every layer before it asks the
 * snapshotter; stargz's ctr-remote, if installed, does not. */
static const char *choose_lazy_puller(void)
{
	AUTO_BUF said = { .limit = 4096 };
	char ctr[] = "ctr", remote[] = "ctr-remote", version[] = "--version";
	char *of_ctr[] = { ctr, version, NULL };
	char *of_remote[] = { remote, version, NULL };
	int status = 0;
	const char *word;

	if (child_capture(of_ctr, CTR_TIMEOUT_MS, &said, &status, NULL) < 0)
		return NULL;
	word = said.len ? strrchr(said.data, ' ') : NULL;
	if (!word || strtol(word + 1 + (word[1] == 'v'), NULL, 10) >= 2)
		return NULL;
	return child_capture(of_remote, CTR_TIMEOUT_MS, &said, &status, NULL) <
			       0
		       ? NULL
		       : "ctr-remote";
}

/* A shell command that repeats `ctr`'s pull while the registry's errors are temporary.  It stops
 * at once for an image that containerd already has, or if the registry refuses. */
#define PULL_AGAIN \
	"ref=$1; shift; for s in 0 1 2 4 8 16 30; do sleep $s; " /* deadline poll */ \
	"said=$(\"$@\" 2>&1) && exit; " \
	"case $said in *'failed to do request'*|*timeout*|*'reset by peer'*|" \
	"*' 50'[0-9]*|*' 429'*) ;; *) break ;; esac; " \
	"[ -z \"$(ctr images ls -q \"name==$ref\")\" ] || break; " \
	"done; printf '%s\\n' \"$said\" >&2; exit 1"

static void add_pull_step(const struct job_image *i, const char *program,
			  bool lazy, struct job_way *way)
{
	struct job_words *w = job_way_step(way);

	if (!lazy) {
		job_words_add(w, "/bin/sh");
		job_words_add(w, "-c");
		job_words_add(w, "%s", PULL_AGAIN);
		job_words_add(w, "sh");
		job_words_add(w, "%s", i->reference);
	}
	job_words_add(w, "%s", program ? program : "ctr");
	job_words_add(w, "images");
	job_words_add(w, program ? "rpull" : "pull");
	if (lazy)
		job_words_add(w, "--snapshotter=" SNAPSHOTTER);
	if (i->plain_http)
		job_words_add(w, "--plain-http");
	job_words_add_all(w, i->pull);
	job_words_add(w, "%s", i->reference);
}

void job_container_pull(const struct job_file *f, struct job_part *ret)
{
	ret->stage = "image.pull";
	ret->ordinary = "the image is pulled the ordinary way";
	(void)snprintf(ret->what, sizeof(ret->what), "image");
	add_pull_step(&f->image, choose_lazy_puller(), true, &ret->way);
	add_pull_step(&f->image, NULL, false, &ret->otherwise);
}

/* Find the image's digest in ctr's list, whose lines are "REF TYPE DIGEST ...".  The caller owns
 * it; NULL: not on the node. */
static char *find_digest(const char *reference)
{
	const struct ctr_target at = { .address = NULL };
	const char *const words[] = { "images", "ls", NULL };
	AUTO_BUF said = { .limit = 4u << 20 };
	size_t len = strlen(reference);

	if (ctr_run(&at, words, -1, CTR_TIMEOUT_MS, &said, NULL) < 0)
		return NULL;
	for (const char *line = said.len ? said.data : NULL; line;
	     line = strchr(line, '\n')) {
		const char *digest;

		line += *line == '\n';
		if (strncmp(line, reference, len) != 0 || line[len] != ' ')
			continue;
		digest = strstr(line, " sha256:");
		return digest ? strndup(digest + 1, strcspn(digest + 1, " \n"))
			      : NULL;
	}
	return NULL;
}

/* ------------------------------------------------------------------------ folders --- */

/* This program and its loaded libraries, mounted into the container so that it does not depend on
 * the image's libraries. */
struct job_program {
	char *program;
	char *folders[LIBRARIES_MAX];
	size_t n;
	char *loader; /* a path in the container */
};

static void job_program_fini(struct job_program *o)
{
	for (size_t i = 0; i < o->n; i++)
		free(o->folders[i]);
	free(o->program);
	free(o->loader);
}

static int note_library(struct job_program *o, const char *path,
			struct error *err)
{
	const char *base = strrchr(path, '/') + 1;
	size_t len = (size_t)(base - path) - 1, i;

	for (i = 0; i < o->n; i++)
		if (strncmp(o->folders[i], path, len) == 0 &&
		    !o->folders[i][len])
			break;
	if (i == LIBRARIES_MAX)
		return error_set(err, E2BIG, "libraries in too many folders");
	if (i == o->n) {
		o->folders[i] = strndup(path, len);
		if (!o->folders[i])
			return error_nomem(err);
		o->n++;
	}
	if (!o->loader && strncmp(base, "ld-", 3) == 0 &&
	    asprintf(&o->loader, JOB_CONTAINER_DIR "/lib/%zu/%s", i, base) <
		    0) {
		o->loader = NULL;
		return error_nomem(err);
	}
	return 0;
}

static int find_job_program(const char *self, struct job_program *o,
			    struct error *err)
{
	AUTO_BUF maps = BUF_INIT;
	int rc = fs_read_file("/proc/self/maps", 4u << 20, &maps, err);
	char *save = NULL;

	if (rc < 0)
		return rc;
	for (char *line = strtok_r(maps.data, "\n", &save); line && rc == 0;
	     line = strtok_r(NULL, "\n", &save)) {
		char *path = strchr(line, '/');

		if (path && strstr(path, ".so"))
			rc = note_library(o, path, err);
	}
	o->program = strdup(self);
	return rc < 0 ? rc : o->program ? 0 : error_nomem(err);
}

static int write_file(const char *dir, const char *name, const struct buf *text,
		      struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, name);

	return path ? fs_replace_file(path, text->len ? text->data : "",
				      text->len, 0600, err)
		    : error_nomem(err);
}

/* Name the container, for whoever finds its folder: its id, and where ctr looks for it. */
static int write_id(const struct job_container *c, struct error *err)
{
	const char *address = getenv("CONTAINERD_ADDRESS");
	const char *namespace = getenv("CONTAINERD_NAMESPACE");
	AUTO_BUF text = BUF_INIT;
	int rc = buf_printf(&text, "%s\n%s\n%s\n", c->id,
			    address ? address : "", namespace ? namespace : "");

	return rc < 0 ? error_nomem(err) : write_file(c->dir, "id", &text, err);
}

/* Remove what containerd knows of the container whose folder is `dir`. */
static void remove_left_container(const char *dir)
{
	AUTO_FREE char *path = fs_join(dir, "id");
	AUTO_BUF text = BUF_INIT;
	char *at, *id, *address, *namespace;

	if (!path || fs_read_file(path, PATH_MAX, &text, NULL) < 0 || !text.len)
		return;
	at = text.data;
	id = strsep(&at, "\n");
	address = strsep(&at, "\n");
	namespace = strsep(&at, "\n");
	if (!namespace)
		return;

	const struct ctr_target ctr = { .address = *address ? address : NULL,
					.namespace =
						*namespace ? namespace : NULL };
	const char *const task[] = { "tasks", "rm", "--force", id, NULL };
	const char *const all[] = { "containers", "rm", id, NULL };

	(void)!ctr_run(&ctr, task, -1, CTR_TIMEOUT_MS, NULL, NULL);
	(void)!ctr_run(&ctr, all, -1, CTR_TIMEOUT_MS, NULL, NULL);
}

/* Remove folders of killed jobs, as they hold the program's variables.  Running jobs hold a lock
 * on their folder. */
static void remove_left_folders(void)
{
	glob_t all;

	if (glob(FOLDER "*", GLOB_NOSORT, NULL, &all) != 0)
		return;
	for (size_t i = 0; i < all.gl_pathc; i++) {
		int fd = open(all.gl_pathv[i],
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
			remove_left_container(all.gl_pathv[i]);
			(void)!fs_remove_tree(all.gl_pathv[i], NULL);
		}
		fd_close(fd);
	}
	globfree(&all);
}

/* Lock the folder at `path`; -1: another job has removed it as left over. */
static int lock_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat held, there;

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    fstat(fd, &held) == 0 && lstat(path, &there) == 0 &&
	    held.st_ino == there.st_ino)
		return fd;
	fd_close(fd);
	return -1;
}

static int make_folders(struct job_container *c, struct error *err)
{
	char template[sizeof(FOLDER "XXXXXX")];
	AUTO_FREE char *in = NULL;
	AUTO_FREE char *lib = NULL;
	int rc;

	remove_left_folders();
	for (int i = 0; c->lock < 0 && i < FOLDER_TRIES; i++) {
		(void)snprintf(template, sizeof(template), FOLDER "XXXXXX");
		if (!mkdtemp(template))
			return error_set(err, errno, "'/run': %s%s",
					 strerror(errno),
					 error_root_hint(errno));
		c->lock = lock_folder(template);
	}
	if (c->lock < 0)
		return error_errno(err, EBUSY, "lock '%s'", template);
	c->dir = strdup(template);
	in = c->dir ? fs_join(c->dir, "in") : NULL;
	lib = in ? fs_join(in, "lib") : NULL;
	rc = lib ? fs_mkdir(in, 0755, err) : error_nomem(err);
	if (rc == 0)
		rc = fs_mkdir(lib, 0755, err);
	for (size_t i = 0; rc == 0 && i < LIBRARIES_MAX; i++) {
		char name[8];
		AUTO_FREE char *path = NULL;

		(void)snprintf(name, sizeof(name), "%zu", i);
		path = fs_join(lib, name);
		rc = path ? fs_mkdir(path, 0755, err) : error_nomem(err);
	}
	return rc;
}

/* -------------------------------------------------------------------- environment --- */

/* Is it a variable that configures launchers, stores or installers?  Those are passed on. */
static bool is_variable_passed_on(const char *v)
{
	static const char *const begins[] = {
		"AWS_",         "BOOTSEER_",   "CUDA_",
		"GROUP_",       "LOCAL_",      "MASTER_",
		"NCCL_",        "NNODES=",     "NODE_RANK=",
		"NVIDIA_",      "PET_",        "PIP_",
		"RANK=",        "SLURM_",      "TORCH",
		"UV_",          "WORLD_SIZE=", "HTTP_PROXY=",
		"HTTPS_PROXY=", "NO_PROXY=",   "http_proxy=",
		"https_proxy=", "no_proxy=",   "JOB_COMPLETION_INDEX="
	};
	static const char *const own[] = { "BOOTSEER_SOCKET=",
					   "BOOTSEER_EVENTS=", "BOOTSEER_JOB=",
					   "BOOTSEER_NODE=" };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strncmp(v, own[i], strlen(own[i])) == 0)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (strncmp(v, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

/* Pass variables in a file: all users of the node can see the arguments of a command. */
static int write_variables(struct job_container *c, struct error *err)
{
	extern char **environ;
	AUTO_BUF text = BUF_SECRET_INIT;
	int rc = 0;

	for (char **v = environ; rc == 0 && *v; v++)
		if (is_variable_passed_on(*v) && !strchr(*v, '\n'))
			rc = buf_printf(&text, "%s\n", *v);
	if (rc == 0 && c->file->stages.is_there)
		rc = buf_printf(&text, "BOOTSEER_JOB=%s\nBOOTSEER_NODE=%s\n",
				c->file->name, stage_this_node());
	for (char **v = c->file->image.env; rc == 0 && v && *v; v++) {
		const char *value = strchr(*v, '=') ? "" : getenv(*v);

		if (value && (strchr(*v, '\n') || strchr(value, '\n')))
			return error_set(err, EINVAL,
					 "image.env: '%.*s' has more than one "
					 "line, which ctr cannot pass on: give "
					 "it by a file",
					 (int)strcspn(*v, "=\n"), *v);
		if (value)
			rc = buf_printf(&text, "%s%s%s\n", *v,
					*value ? "=" : "", value);
	}
	return rc < 0 ? error_nomem(err)
		      : write_file(c->dir, "env", &text, err);
}

/* Start `env socket` for the container if bootseerd on this node mounts environments. */
static void start_socket(struct job_container *c)
{
	const char *named = getenv("BOOTSEER_SOCKET");
	AUTO_FREE char *dir = fs_join(c->dir, "env-socket");
	AUTO_FREE char *pod = dir ? fs_join(dir, "pod/env.sock") : NULL;
	AUTO_CLOSE int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int64_t until = clock_now_ms() + SOCKET_WAIT_MS;
	struct job_words w = { .v = NULL };

	if (!c->file->environment.store || !pod || null < 0 ||
	    access(named ? named : NODE_SOCKET_DEFAULT, R_OK | W_OK) < 0)
		return;
	job_words_add(&w, "%s", c->self);
	job_words_add(&w, "env");
	job_words_add(&w, "socket");
	job_words_add(&w, "--store=%s", c->file->environment.store);
	job_words_add(&w, "%s", dir);
	if (w.is_short ||
	    child_start_tied(w.v, null, null, &c->socket, NULL) < 0)
		c->socket = 0;
	job_words_fini(&w);
	while (c->socket && access(pod, F_OK) < 0 && clock_now_ms() < until) {
		if (waitpid(c->socket, NULL, WNOHANG) != 0)
			c->socket = 0; /* ended; its number may be reused */
		else
			(void)poll(NULL, 0, LOOK_MS);
	}
	/* A missing folder cannot be mounted, so the container then runs without the socket. */
	if (c->socket && access(pod, F_OK) < 0) {
		(void)kill(-c->socket, SIGKILL);
		(void)waitpid(c->socket, NULL, 0);
		c->socket = 0;
	}
}

/* ------------------------------------------------------------------------- words --- */

static void add_mount(struct job_words *w, const char *src, const char *dst,
		      const char *options)
{
	job_words_add(w, "--mount");
	job_words_add(w, "type=bind,src=%s,dst=%s,options=rbind:%s", src, dst,
		      options);
}

/* Add the mount "SOURCE:TARGET[:ro]". */
static void add_user_mount(struct job_words *w, const char *text)
{
	const char *dst = strchr(text, ':');
	size_t len = dst ? strlen(dst + 1) : 0;
	bool is_ro = len > 3 && strcmp(dst + 1 + len - 3, ":ro") == 0;

	if (!dst)
		return;
	job_words_add(w, "--mount");
	job_words_add(w, "type=bind,src=%.*s,dst=%.*s,options=rbind:%s",
		      (int)(dst - text), text, (int)(len - (is_ro ? 3 : 0)),
		      dst + 1, is_ro ? "ro" : "rw");
}

/* Add the words that run this program inside the container. */
static void add_program(const struct job_program *o, struct job_words *w)
{
	AUTO_BUF path = BUF_INIT;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < o->n; i++)
		rc = buf_printf(&path, "%s" JOB_CONTAINER_DIR "/lib/%zu",
				i ? ":" : "", i);
	w->is_short |= rc < 0 || !o->loader;
	job_words_add(w, "%s", o->loader ? o->loader : "");
	job_words_add(w, "--library-path");
	job_words_add(w, "%s", path.len ? path.data : "");
	job_words_add(w, JOB_CONTAINER_DIR "/bootseer");
}

/* Add the words that run the set-up command by `env run` in the container. */
static void add_setup(const struct job_file *f, const struct job_program *o,
		      const char *image, struct job_words *w)
{
	const struct job_environment *e = &f->environment;

	add_program(o, w);
	job_words_add(w, "env");
	job_words_add(w, "run");
	job_words_add(w, "--store=%s", e->store);
	if (image)
		job_words_add(w, "--image=%s", image);
	job_words_add(w, "--name=%s %s", f->name, f->image.reference);
	job_words_add_each(w, "--target", e->targets);
	job_words_add_each(w, "--key", e->keys);
	job_words_add_each(w, "--key-file", e->key_files);
	job_words_add_all(w, e->options);
	job_words_add(w, "--");
	job_words_add_all(w, e->command);
}

/* Write the script that the container's shell runs before it executes the program. */
static int write_script(const struct job_container *c,
			const struct job_program *o, const char *image,
			struct buf *ret)
{
	const struct job_environment *e = &c->file->environment;
	struct job_words w = { .v = NULL };
	int rc = c->is_terminal
			 ? 0
			 : buf_puts(ret, "exec >" JOB_CONTAINER_DIR
					 "/out 2>" JOB_CONTAINER_DIR "/err\n");

	if (e->store) {
		/* Make the targets: only an existing folder can be mounted over. */
		if (rc == 0 && e->targets && *e->targets) {
			rc = buf_puts(ret, "mkdir -p ");
			if (rc == 0)
				rc = job_words_quote(e->targets, ret);
			if (rc == 0)
				rc = buf_puts(ret, "\n");
		}
		add_setup(c->file, o, image, &w);
		if (rc == 0)
			rc = w.is_short ? -ENOMEM : job_words_quote(w.v, ret);
		if (rc == 0)
			rc = buf_puts(ret, " || exit\n");
		job_words_fini(&w);
	}
	return rc < 0 ? rc : buf_puts(ret, "exec \"$@\"\n");
}

static void add_own_mounts(const struct job_container *c,
			   const struct job_program *o, struct job_words *w)
{
	char dst[64];

	job_words_add(w, "--env-file=%s/env", c->dir);
	job_words_add(w, "--pid-file=%s/pid", c->dir);
	job_words_add(w, "--mount");
	job_words_add(w,
		      "type=bind,src=%s/in,dst=" JOB_CONTAINER_DIR
		      ",options=rbind:ro",
		      c->dir);
	for (size_t i = 0; i < o->n; i++) {
		(void)snprintf(dst, sizeof(dst), JOB_CONTAINER_DIR "/lib/%zu",
			       i);
		add_mount(w, o->folders[i], dst, "ro");
	}
	add_mount(w, o->program, JOB_CONTAINER_DIR "/bootseer", "ro");
	if (c->socket) {
		job_words_add(w, "--mount");
		job_words_add(w,
			      "type=bind,src=%s/env-socket/pod,dst=/run/"
			      "bootseer-env,options=rbind:ro",
			      c->dir);
	}
}

static void add_labels(const struct job_image *i, struct job_words *w)
{
	const char *const labels[][2] = { { "workload", i->workload },
					  { "wait", i->wait },
					  { "ready-file", i->ready_file } };

	for (size_t k = 0; k < ARRAY_SIZE(labels); k++) {
		if (!labels[k][1])
			continue;
		job_words_add(w, "--snapshotter-label");
		job_words_add(w, LABEL "%s=%s", labels[k][0], labels[k][1]);
	}
}

/* Hide the image's LD_PRELOAD from our program, whose loader may not be able to load it; the job's
 * program gets it back. */
#define BECOME_INIT \
	"[ -z \"$LD_PRELOAD\" ] || export " JOB_INIT_PRELOAD \
	"=\"$LD_PRELOAD\"; unset LD_PRELOAD; exec \"$@\""

static void add_shell(const char *script, struct job_words *w)
{
	job_words_add(w, "/bin/sh");
	job_words_add(w, "-c");
	job_words_add(w, "%s", script);
	job_words_add(w, "sh");
}

static void make_words(struct job_container *c, const struct job_program *o,
		       bool is_lazy, const char *script, char *const *command)
{
	const struct job_file *f = c->file;
	struct job_words *w = &c->words;

	job_words_add(w, "ctr");
	job_words_add(w, "run");
	job_words_add(w, "--net-host");
	if (c->is_terminal)
		job_words_add(w, "--tty");
	if (is_lazy) {
		job_words_add(w, "--snapshotter=" SNAPSHOTTER);
		add_labels(&f->image, w);
	}
	if (c->dir)
		add_own_mounts(c, o, w);
	for (size_t i = 0; i < f->n_ckpts; i++)
		add_mount(w, f->ckpts[i].dir, f->ckpts[i].dir,
			  f->ckpts[i].read_only ? "ro" : "rw");
	for (char **m = f->image.mounts; m && *m; m++)
		add_user_mount(w, *m);
	job_words_add_all(w, f->image.run);
	job_words_add(w, "%s", f->image.reference);
	(void)snprintf(c->id, sizeof(c->id), "job-%d-%llx", (int)getpid(),
		       (unsigned long long)clock_now_ns());
	job_words_add(w, "%s", c->id);
	if (script) {
		add_shell(BECOME_INIT, w);
		add_program(o, w);
		job_words_add(w, JOB_INIT);
		job_words_add(w, JOB_CONTAINER_DIR);
		add_shell(script, w);
	}
	job_words_add_all(w, command);
}

/* Make a FIFO and open it for both reading and writing, so that bytes written wait for their
 * reader. */

/* Make a FIFO and open it for both reading and writing, so that bytes written wait for their
 * reader. */
static int open_fifo(const char *in, const char *name, mode_t mode, int *ret_fd,
		     struct error *err)
{
	AUTO_FREE char *path = fs_join(in, name);

	if (!path)
		return error_nomem(err);
	/* `mode` lets any user of the container in; other users cannot enter the folder. */
	if (mkfifo(path, 0600) < 0 || chmod(path, mode) < 0)
		return error_errno(err, errno, "make '%s'", path);
	*ret_fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return *ret_fd < 0 ? error_errno(err, errno, "open '%s'", path) : 0;
}

int job_container_open(struct job_container *c, bool is_lazy,
		       char *const *command, int events, struct error *err)
{
	AUTO_FREE char *image = find_digest(c->file->image.reference);
	AUTO_FREE char *in = NULL;
	struct job_program own = { .n = 0 };
	AUTO_BUF script = BUF_INIT;
	AUTO_BUF empty = BUF_INIT;
	int rc = make_folders(c, err);

	c->is_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	in = c->dir ? fs_join(c->dir, "in") : NULL;
	c->pid_file = c->dir ? fs_join(c->dir, "pid") : NULL;
	if (rc == 0)
		rc = in && c->pid_file ? find_job_program(c->self, &own, err)
				       : error_nomem(err);
	if (rc == 0)
		rc = write_file(in, "bootseer", &empty, err);
	if (rc == 0)
		rc = write_variables(c, err);
	if (rc == 0)
		start_socket(c);
	if (rc == 0 && write_script(c, &own, image, &script) < 0)
		rc = error_nomem(err);
	if (rc == 0 && !c->is_terminal)
		rc = job_relay_start(in, events, &c->relay, err);
	/* Opened after the relay was started, so that the relay does not inherit it: the container
	 * must notice when this process is killed. */
	if (rc == 0)
		rc = open_fifo(in, JOB_INIT_SIGNALS, 0644, &c->signals, err);
	if (rc == 0)
		rc = open_fifo(in, JOB_INIT_STATUS, 0622, &c->status, err);
	if (rc == 0)
		make_words(c, &own, is_lazy, script.data, command);
	job_program_fini(&own);
	if (rc == 0)
		rc = c->words.is_short ? error_nomem(err) : write_id(c, err);
	return rc;
}

void job_container_words(struct job_container *c, bool is_lazy,
			 char *const *command)
{
	const struct job_program none = { .n = 0 };

	make_words(c, &none, is_lazy, NULL, command);
}

int job_container_run(const struct job_container *c, const sigset_t *mask,
		      int *ret_status, int *ret_told, struct error *err)
{
	const struct job_client client = { .argv = c->words.v,
					   .mask = mask,
					   .pid_file = c->pid_file,
					   .in = c->relay.typed,
					   .signals = c->signals,
					   .status = c->status,
					   .is_terminal = c->is_terminal };

	return job_client_run(&client, ret_status, ret_told, err);
}

/* Remove the task and the container.  `ctr run --rm` would remove a running container when it
 * loses the connection to containerd; and a client that was killed leaves the task. */
static void remove_container(const struct job_container *c, bool has_begun)
{
	const struct ctr_target at = { .address = NULL };
	const char *const task[] = { "tasks", "rm", "--force", c->id, NULL };
	const char *const all[] = { "containers", "rm", c->id, NULL };
	const int64_t until_ms = clock_now_ms() + REMOVE_MS;
	struct error err = ERROR_INIT;

	do {
		if (ctr_run(&at, all, -1, CTR_TIMEOUT_MS, NULL, &err) == 0 ||
		    strstr(err.msg, "not found") || !has_begun)
			return;
		(void)!ctr_run(&at, task, -1, CTR_TIMEOUT_MS, NULL, NULL);
		(void)poll(NULL, 0, REMOVE_AGAIN_MS);
	} while (clock_now_ms() < until_ms);
	fprintf(stderr,
		"bootseer job run: containerd keeps what it knows of the "
		"container (ctr containers rm %s): %s\n",
		c->id, err.msg);
}

void job_container_close(struct job_container *c)
{
	pid_t pid = job_container_pid(c);
	bool is_left = pid > 0 && kill(pid, 0) == 0;

	/* A container that still runs ends when these are closed. */
	if (c->signals >= 0)
		(void)close(steal_fd(&c->signals));
	if (c->status >= 0)
		(void)close(steal_fd(&c->status));
	job_relay_end(&c->relay, is_left);
	if (c->words.v)
		remove_container(c, pid > 0);
	if (c->socket > 0) {
		(void)kill(-c->socket, SIGTERM);
		(void)waitpid(c->socket, NULL, 0);
	}
	if (c->dir)
		(void)!fs_remove_tree(c->dir, NULL);
	free(steal_ptr(&c->dir));
	if (c->lock >= 0)
		(void)close(steal_fd(&c->lock));
	free(steal_ptr(&c->pid_file));
	job_words_fini(&c->words);
}

pid_t job_container_pid(const struct job_container *c)
{
	return c->pid_file ? job_client_read_pid(c->pid_file) : 0;
}
