// SPDX-License-Identifier: Apache-2.0
/*
 * Making the index of an image that containerd has pulled: the layers are read once more, from
 * containerd's content store, by a process that has no rights, no network and no key, and runs
 * only on an idle CPU.  What it writes is checked as untrusted data (send.c).
 *
 * The process finds two folders where it is: `src`, an OCI layout whose blobs are descriptors
 * that it has open, since other images' blobs, which may be private, are none of its business,
 * with what is kept of readings of these (readings.c) beside them; and `dst`, its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/log.h"
#include "common/process.h"
#include "snapshotter/convert.h"
#include "snapshotter/node/images/content.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/offers/offers_priv.h"
#include "snapshotter/node/parser/confine.h"

#define FOLDER "indexing" /* folder below --root */
#define BUILD_NS (6000 * NS_PER_S)
#define LOOK_MS 500
#define ROOM_LEAST (16 * MIB)
#define ROOM_MOST (UINT64_C(4) << 30)
#define SAID_MAX 512 /* bytes of the process's answer */
#define SAY_FD STDOUT_FILENO
#define SRC "oci:src:image"
#define DST "oci:dst:image"
#define READINGS "readings"

/* ----------------------------------------------------------------- the process --- */

static void write_to_parent(const char *text)
{
	(void)!write(SAY_FD, text, strlen(text));
}

static int make_index(struct error *err)
{
	const struct convert_options opt = {
		.form = CONVERT_FORM_INDEX,
		.alone = true,
		.jobs = 1,
		.temp_dir = "dst",
		.readings = "src/" READINGS,
	};
	struct convert_result result;
	struct oci_ref src = { .tag = NULL }, dst = { .tag = NULL };
	char text[DIGEST_STR_MAX];
	int rc = oci_ref_parse(SRC, &src, err);

	if (rc == 0)
		rc = oci_ref_parse(DST, &dst, err);
	if (rc == 0)
		rc = image_convert(&src, &dst, &opt, &result, err);
	oci_ref_fini(&src);
	oci_ref_fini(&dst);
	if (rc < 0)
		return rc;
	digest_format(&result.artifact, text);
	write_to_parent(text);
	return 0;
}

/* Make this process killable for lack of memory before any container; bootseerd is shielded
 * from that. */
static void allow_oom_kill(void)
{
	AUTO_CLOSE int fd =
		open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	(void)!write(fd, "500", 3);
}

int offers_child_main(void)
{
	struct error err = ERROR_INIT;
	int rc;

	allow_oom_kill();
	rc = confine_index(&err);

	if (rc == 0)
		rc = make_index(&err);
	if (rc < 0)
		write_to_parent(err.msg);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---------------------------------------------------- --- the process's folders --- */

static int write_file(int dir, const char *name, const char *text,
		      struct error *err)
{
	AUTO_CLOSE int fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		       0644);
	int rc = fd < 0 ? -errno : fs_write_full(fd, text, strlen(text));

	return rc < 0 ? error_set(err, -rc, "write '%s': %s", name,
				  strerror(-rc))
		      : 0;
}

/* Open blobs of the image. */
struct blob_files {
	int *fd;
	size_t n;
	size_t n_readings; /* how many of them are readings */
};

static void blob_files_fini(struct blob_files *b)
{
	for (size_t k = 0; k < b->n; k++)
		(void)close(b->fd[k]);
	free(b->fd);
	*b = (struct blob_files){ .n = 0 };
}

/* Add `fd`, which is taken, to the folder as a link to the process's descriptor. */
static int add_file(struct blob_files *b, int fd, int dir, const char *name,
		    struct error *err)
{
	char to[64];

	b->fd[b->n++] = fd;
	(void)snprintf(to, sizeof(to), "/proc/self/fd/%d", fd);
	/* A layer that the image has twice is already there. */
	return symlinkat(to, dir, name) < 0 && errno != EEXIST
		       ? error_set(err, errno, "folder of its layers: %s",
				   strerror(errno))
		       : 0;
}

static int open_blob(const struct offers *o, const struct digest *d, int dir,
		     struct blob_files *b, struct error *err)
{
	AUTO_FREE char *path = content_path(o->of.cfg->containerd_root, d);
	int fd;

	if (!path)
		return error_nomem(err);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	return add_file(b, fd, dir, strrchr(path, '/') + 1, err);
}

static int add_layer_reading(struct offers *o, const struct digest *d, int dir,
			     struct blob_files *b, struct error *err)
{
	char name[DIGEST_STR_MAX];
	int fd = offers_reading_dup(o, d);

	if (fd < 0)
		return 0;
	b->n_readings++;
	digest_format(d, name);
	return add_file(b, fd, dir, name + strlen("sha256:"), err);
}

static int open_blobs(struct offers *o, const struct offer_image *i, int dir,
		      int readings, struct blob_files *b, struct error *err)
{
	struct oci_image image;
	int rc =
		oci_image_parse(i->manifest.data, i->manifest.len, &image, err);

	if (rc < 0)
		return rc;
	b->fd = calloc(2 * image.n_layers + 2, sizeof(*b->fd));
	rc = b->fd ? open_blob(o, &i->digest, dir, b, err) : error_nomem(err);
	if (rc == 0)
		rc = open_blob(o, &image.config.digest, dir, b, err);
	for (size_t k = 0; rc == 0 && k < image.n_layers; k++) {
		rc = open_blob(o, &image.layers[k].digest, dir, b, err);
		if (rc == 0)
			rc = add_layer_reading(o, &image.layers[k].digest,
					       readings, b, err);
	}
	oci_image_fini(&image);
	return rc;
}

static int fill_src(struct offers *o, const struct offer_image *i, int dir,
		    struct blob_files *b, struct error *err)
{
	AUTO_CLOSE int src =
		openat(dir, "src", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int blobs = -1, readings = -1;
	char text[DIGEST_STR_MAX];
	AUTO_BUF index = BUF_INIT;
	int rc;

	digest_format(&i->digest, text);
	if (buf_printf(&index,
		       "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":"
		       "\"application/vnd.oci.image.manifest.v1+json\","
		       "\"digest\":\"%s\",\"size\":%zu,\"annotations\":{"
		       "\"org.opencontainers.image.ref.name\":\"image\"}}]}",
		       text, i->manifest.len) < 0)
		return error_nomem(err);
	if (src >= 0 && mkdirat(src, "blobs", 0755) == 0 &&
	    mkdirat(src, "blobs/sha256", 0755) == 0 &&
	    mkdirat(src, READINGS, 0755) == 0) {
		blobs = openat(src, "blobs/sha256",
			       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		readings = openat(src, READINGS,
				  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (blobs < 0 || readings < 0)
		return error_set(err, errno, "folder of its layers: %s",
				 strerror(errno));
	rc = open_blobs(o, i, blobs, readings, b, err);
	if (rc == 0)
		rc = write_file(src, "oci-layout",
				"{\"imageLayoutVersion\":\"1.0.0\"}", err);
	return rc < 0 ? rc : write_file(src, "index.json", index.data, err);
}

/* Make the folder and open it as `ret`; the caller frees `ret_path` and removes the folder. */
static int make_folders(struct offers *o, const struct offer_image *i,
			char **ret_path, int *ret, struct blob_files *b,
			struct error *err)
{
	AUTO_FREE char *path = fs_join(o->of.cfg->root, FOLDER);
	AUTO_CLOSE int dir = -1;
	int rc;

	if (!path)
		return error_nomem(err);
	/* Remove files of a process that was killed. */
	rc = fs_remove_tree(path, err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (mkdir(path, 0711) < 0)
		return error_set(err, errno, "create '%s': %s", path,
				 strerror(errno));
	*ret_path = strdup(path);
	if (!*ret_path)
		return error_nomem(err);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fchmod(dir, 0711) < 0 || mkdirat(dir, "src", 0755) < 0 ||
	    mkdirat(dir, "dst", 0700) < 0 ||
	    fchownat(dir, "dst", CONFINE_INDEX_ID, CONFINE_INDEX_ID,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "folders of '%s': %s", path,
				 strerror(errno));
	rc = fill_src(o, i, dir, b, err);
	if (rc == 0)
		*ret = steal_fd(&dir);
	return rc;
}

/* ------------------------------------------------------ --- running the process --- */

/* Runs in the forked child of a process with threads: only system calls are allowed. */
static _Noreturn void become_child(int dir, const struct blob_files *b,
				   int say_fd)
{
	static char name[] = OFFERS_CHILD_NAME;
	static char *const args[] = { name, NULL };
	static char *const env[] = { NULL };
	const struct sched_param none = { .sched_priority = 0 };
	sigset_t no_signals;

	(void)setpgid(0, 0);
	(void)sigemptyset(&no_signals);
	(void)sigprocmask(SIG_SETMASK, &no_signals, NULL);
	(void)setpriority(PRIO_PROCESS, 0, 19);
	(void)sched_setscheduler(0, SCHED_IDLE, &none);
	/* ioprio_set(IOPRIO_WHO_PROCESS, this process, IOPRIO_CLASS_IDLE) */
	(void)syscall(SYS_ioprio_set, 1, 0, 3 << 13);
	if (fchdir(dir) < 0 || dup2(say_fd, SAY_FD) != SAY_FD ||
	    syscall(SYS_close_range, STDERR_FILENO + 1, ~0U,
		    CLOSE_RANGE_CLOEXEC) < 0)
		_exit(127);
	for (size_t k = 0; k < b->n; k++)
		if (fcntl(b->fd[k], F_SETFD, 0) < 0)
			_exit(127);
	(void)execve("/proc/self/exe", args, env);
	_exit(127);
}

/* Wait until the process ends; kill it after BUILD_NS, or when bootseerd ends. */
static int wait_for(const struct offers *o, pid_t pid, struct error *err)
{
	int64_t end = clock_now_ns() + BUILD_NS;
	AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int status = 0, rc = 0;

	while (pidfd >= 0 && rc == 0 && poll(&p, 1, LOOK_MS) <= 0) {
		if (atomic_load(o->of.is_ending))
			rc = error_set(err, ECANCELED, "bootseerd ends");
		else if (clock_now_ns() > end)
			rc = error_set(err, ETIMEDOUT, "it takes too long");
	}
	/* Kill the process group before the process is reaped, while its number is still its
	 * own. */
	(void)kill(-pid, SIGKILL);
	rc = process_reap(pid, LOOK_MS, rc, &status, err);
	if (rc == 0 && WIFSIGNALED(status))
		rc = error_set(err, EIO, "its process was killed by signal %d",
			       WTERMSIG(status));
	return rc < 0 ? rc : WEXITSTATUS(status);
}

/* Run the process and read its answer: the digest of the artifact, or why there is none. */
static int run_child(const struct offers *o, int dir,
		     const struct blob_files *b, struct digest *ret,
		     struct error *err)
{
	AUTO_CLOSE int said_r = -1, said_w = -1;
	char said[SAID_MAX + 1] = "";
	int pipes[2], rc;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0)
		return error_set(err, errno, "pipe: %s", strerror(errno));
	said_r = pipes[0];
	said_w = pipes[1];
	pid = fork();
	if (pid < 0)
		return error_set(err, errno, "fork: %s", strerror(errno));
	if (pid == 0)
		become_child(dir, b, said_w);
	rc = wait_for(o, pid, err);
	if (rc < 0)
		return rc;
	n = read(said_r, said, SAID_MAX);
	said[n > 0 ? n : 0] = '\0';
	for (char *c = said; *c; c++)
		*c = *c < ' ' || *c > '~' ? '?' : *c;
	return rc == 0 ? digest_parse(said, ret, err)
		       : error_set(err, EINVAL, "%s",
				   *said ? said : "its process failed");
}

/* ---------------------------------------------------------- --- the whole work --- */

static int build_and_send(struct offers *o, const struct offer_image *i,
			  const char *authorization, struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int dir = -1, dst = -1;
	struct error ignored = ERROR_INIT;
	struct blob_files blobs = { .n = 0 };
	struct digest artifact;
	int rc = make_folders(o, i, &path, &dir, &blobs, err);

	if (rc == 0) {
		log_info("index", "making image=\"%s/%s\" readings=%zu",
			 i->host, i->repo, blobs.n_readings);
		rc = run_child(o, dir, &blobs, &artifact, err);
	}
	blob_files_fini(&blobs);
	if (rc == 0) {
		dst = openat(dir, "dst",
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		rc = dst < 0 ? error_set(err, errno, "its folder: %s",
					 strerror(errno))
			     : offers_send(o, i, dst, &artifact, authorization,
					   err);
	}
	if (path && fs_remove_tree(path, &ignored) < 0)
		log_warning("index", "leftover path=\"%s\"", path);
	return rc;
}

/* Ask the service who makes the index; 1: this node does. */
static int claim_index(struct offers *o, const struct offer_image *i,
		       const char *repo, const char *authorization,
		       struct error *err)
{
	const struct offer_call c = {
		.method = "POST",
		.below = "",
		.image = &i->digest,
		.repo = repo,
		.authorization = authorization,
	};
	AUTO_BUF text = { .limit = 4096 };
	AUTO_JSON *answer = NULL;
	const char *state;
	int rc = offers_call(o, &c, &text, err);

	if (rc < 0)
		return rc;
	answer = json_loadb(text.data ? text.data : "", text.len, 0, NULL);
	state = json_string_value(json_object_get(answer, "state"));
	log_info("index", "claim image=\"%s\" state=%s", repo,
		 state && strlen(state) < 20 ? state : "?");
	return state && strcmp(state, "yours") == 0;
}

/* Upper bound of the bytes of an index and its temporary files, which were some 2 % of the
 * layers. */
static uint64_t estimate_index_bytes(const struct offer_image *i)
{
	uint64_t sum = ROOM_LEAST;
	struct oci_image image;

	if (oci_image_parse(i->manifest.data, i->manifest.len, &image, NULL) <
	    0)
		return sum;
	for (size_t k = 0; k < image.n_layers; k++)
		sum += image.layers[k].size / 10;
	oci_image_fini(&image);
	return sum < ROOM_MOST ? sum : ROOM_MOST;
}

int offers_build(struct offers *o, const struct offer_image *i,
		 struct error *err)
{
	AUTO_FREE char *repo = origin_place(i->host, i->repo);
	AUTO_FREE char *authorization = NULL;
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	uint64_t room;
	int rc;

	if (!repo)
		return error_nomem(err);
	rc = origin_get(o->of.origins, i->host, i->repo, i->plain_http, &origin,
			err);
	if (rc == 0)
		rc = origin_lease(origin, &lease, err);
	if (rc == 0)
		rc = offers_authorization(o, lease->store, &i->digest, NULL,
					  &authorization, err);
	store_lease_end(lease);
	origin_put(origin);
	if (rc < 0)
		return rc;
	/* Reserve the disk before the claim: a claim keeps other nodes from making the index. */
	room = estimate_index_bytes(i);
	rc = o->of.room->reserve(o->of.room->disk, room, err);
	if (rc < 0)
		return rc;
	if (!i->was_none || !offers_is_made(o, i, repo, authorization))
		rc = claim_index(o, i, repo, authorization, err);
	if (rc > 0)
		rc = build_and_send(o, i, authorization, err);
	o->of.room->settle(o->of.room->disk, room, NULL);
	return rc;
}
