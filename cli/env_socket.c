// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer env socket`: a socket in a pod, by which its containers have bootseerd mount
 * environments at their targets.  A single-threaded process listens; each connection has a child
 * process, which an alarm ends in any case.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/env.h"
#include "cli/env_give.h"
#include "cli/env_pod.h"
#include "cli/node_ask.h"
#include "cli/node_socket.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "net/control.h"
#include "net/shortage.h"

#define CHILDREN_MAX 4
#define ASK_S 5 /* seconds for the client to send its request */
/* with ASK_S less than the client's timeout, after which it unpacks itself */
#define MOUNT_S 75
#define ANSWER_S 120 /* seconds for replies to all other requests */
/* seconds for the client's check, as a --verify may take an hour */
#define KEEP_S 3700
#define BURST 16 /* requests at once; then one per RATE_NS */
#define RATE_NS NS_PER_S
#define TARGETS_MAX 64
#define TARGET_MAX 4095
#define LIST_MAX 65536
#define LOG_FILE_MAX 262144 /* bytes; each refused request adds a line */

struct env_socket_config {
	struct node_options node;
	char **stores;
	uint64_t most;
};

struct pod_question {
	struct control_request request; /* owns the texts */
	bool is_open; /* environment.open: blocks are sent, nothing is mounted */
	char *paths[TARGETS_MAX];
	struct env_targets targets;
};

struct pod_socket {
	const struct env_socket_config *cfg;
	int dir; /* the folder DIR of the operand */
	char *list;
	int listener, signals;
	unsigned int n_children;
	int64_t tokens, counted_ns;
	struct accept_shortage shortage;
	int64_t short_until_ns; /* no client is accepted before this time */
};

/* ----------------------------------------------------------------------- question --- */

/* Is it an absolute path without "." , ".." and empty components? */
static bool is_plain_path(const char *p)
{
	size_t len = strlen(p);

	if (len < 2 || len > TARGET_MAX || p[0] != '/' || p[len - 1] == '/')
		return false;
	for (const char *at = p; at; at = strchr(at + 1, '/')) {
		size_t n = strcspn(at + 1, "/");

		if (n == 0 || (n == 1 && at[1] == '.') ||
		    (n == 2 && at[1] == '.' && at[2] == '.'))
			return false;
	}
	return true;
}

static bool is_path_within(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 &&
	       (path[len] == '/' || !path[len]);
}

static int parse_targets(json_t *list, struct pod_question *q,
			 struct error *err)
{
	size_t n = json_array_size(list);

	if (n < 1 || n > TARGETS_MAX)
		return error_set(err, EINVAL, "parameters: 1 to %d targets",
				 TARGETS_MAX);
	for (size_t i = 0; i < n; i++) {
		const char *p = json_string_value(json_array_get(list, i));

		if (!p || !is_plain_path(p))
			return error_set(err, EINVAL,
					 "parameters: a target is an absolute "
					 "path without '.' and '..'");
		for (size_t k = 0; k < i; k++)
			if (is_path_within(p, q->paths[k]) ||
			    is_path_within(q->paths[k], p))
				return error_set(err, EINVAL,
						 "parameters: one target lies "
						 "in another");
		q->paths[i] = (char *)(uintptr_t)p;
	}
	q->targets = (struct env_targets){ .paths = q->paths, .n = n };
	return 0;
}

static int check_store(const struct env_socket_config *cfg, const char *store,
		       struct error *err)
{
	for (char **u = cfg->stores; u && *u; u++)
		if (strcmp(*u, store) == 0)
			return 0;
	return error_set(err, EACCES,
			 "the container's socket has no --store '%.120s'",
			 store);
}

static int parse_question(const struct env_socket_config *cfg,
			  const struct buf *line, struct pod_question *q,
			  struct error *err)
{
	const char *store, *text;
	json_error_t why;
	json_t *targets = NULL;
	int flag;
	int rc = control_request_parse(line->data, line->len - 1, &q->request,
				       err);

	if (rc < 0)
		return rc;
	q->is_open = strcmp(q->request.method, "environment.open") == 0;
	if (!q->is_open &&
	    strcmp(q->request.method, "environment.restore") != 0)
		return error_set(err, ENOSYS,
				 "the container's socket restores "
				 "environments, and nothing else");
	if (json_unpack_ex(q->request.params, &why, JSON_STRICT,
			   "{s:s, s:s, s:s, s:s, s?o, s?b}", "store", &store,
			   "folder", &text, "key", &text, "manifest", &text,
			   "targets", &targets, "shared_packs", &flag) < 0)
		return error_set(err, EINVAL, "parameters: %s", why.text);
	rc = q->is_open ? 0 : parse_targets(targets, q, err);
	return rc < 0 ? rc : check_store(cfg, store, err);
}

/* -------------------------------------------------------------------------- places --- */

static int umount_at_node(const struct pod_socket *s, const char *name)
{
	return node_ask(&s->cfg->node, "environment.umount",
			json_pack("{s:s}", "name", name), NULL, NULL);
}

/* The byte of mounts.lock for this mount; the process that makes the mount holds its lock. */
static struct flock mount_lock_range(const char *name)
{
	char digits[16];

	(void)snprintf(digits, sizeof(digits), "%.15s", name);
	return (struct flock){ .l_type = F_WRLCK,
			       .l_whence = SEEK_SET,
			       .l_start = (off_t)strtoull(digits, NULL, 16),
			       .l_len = 1 };
}

static int open_mount_locks(const struct pod_socket *s)
{
	return openat(s->dir, "mounts.lock",
		      O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Is another process just about to join this mount to its targets? */
static bool is_join_pending(const struct pod_socket *s, const char *name)
{
	AUTO_CLOSE int fd = open_mount_locks(s);
	struct flock l = mount_lock_range(name);

	return fd < 0 || fcntl(fd, F_OFD_GETLK, &l) < 0 || l.l_type != F_UNLCK;
}

/* Lock the list of mounts for this process; -1 with errno. */
static int lock_list(const struct pod_socket *s)
{
	int fd = open_mount_locks(s);

	while (fd >= 0 && flock(fd, LOCK_EX) < 0) {
		int code = errno;

		if (code == EINTR)
			continue;
		(void)close(fd);
		errno = code;
		return -1;
	}
	return fd;
}

/* Read the names of mounts; when the list is full, only those that bootseerd still has. */
static int read_list(const struct pod_socket *s, const char *without,
		     bool is_full, struct buf *ret, size_t *ret_n,
		     struct error *err)
{
	AUTO_BUF was = BUF_INIT;
	char *save = NULL;
	int rc = fs_read_file(s->list, LIST_MAX, &was, err);

	*ret_n = 0;
	if (rc == -ENOENT)
		return 0;
	if (rc == 0 && buf_append(&was, "", 1) < 0)
		rc = error_nomem(err);
	if (rc < 0)
		return rc;
	for (char *name = strtok_r(was.data, "\n", &save); name;
	     name = strtok_r(NULL, "\n", &save)) {
		if ((without && strcmp(name, without) == 0) ||
		    (is_full && !is_join_pending(s, name) &&
		     umount_at_node(s, name) == 0))
			continue;
		if (buf_printf(ret, "%s\n", name) < 0)
			return error_nomem(err);
		(*ret_n)++;
	}
	return 0;
}

/* Add the mount to the list.  `*ret` is its lock, to be kept open until the mount was checked or
 * undone. */
static int add_mount_to_list(const struct pod_socket *s, const char *name,
			     int *ret, struct error *err)
{
	struct flock l = mount_lock_range(name);
	AUTO_CLOSE int place = open_mount_locks(s);
	AUTO_CLOSE int lock = lock_list(s);
	AUTO_BUF names = BUF_INIT;
	size_t n, most = (size_t)s->cfg->most;
	int rc;

	if (lock < 0 || place < 0 || fcntl(place, F_OFD_SETLK, &l) < 0)
		return error_errno(err, errno, "lock '%.200s'", s->list);
	rc = read_list(s, NULL, false, &names, &n, err);
	if (rc == 0 && n >= most) {
		buf_reset(&names);
		rc = read_list(s, NULL, true, &names, &n, err);
	}
	if (rc < 0)
		return rc;
	if (n >= most)
		return error_set(err, EDQUOT,
				 "this socket has %zu environments mounted or "
				 "read already: --most",
				 n);
	if (buf_printf(&names, "%s\n", name) < 0)
		return error_nomem(err);
	rc = fs_replace_file(s->list, names.data, names.len, 0600, err);
	if (rc == 0)
		*ret = steal_fd(&place);
	return rc;
}

static void remove_mount_from_list(const struct pod_socket *s, const char *name)
{
	AUTO_CLOSE int lock = lock_list(s);
	AUTO_BUF names = BUF_INIT;
	size_t n;

	if (lock >= 0 && read_list(s, name, false, &names, &n, NULL) == 0)
		(void)!fs_replace_file(s->list, names.data ? names.data : "",
				       names.len, 0600, NULL);
}

/* ---------------------------------------------------------------------- connection --- */

/* Make bootseerd's parameters from the client's: without the targets, which are joined here. */
static json_t *node_params(const struct pod_question *q, const char *name)
{
	json_t *params = json_copy(q->request.params);

	(void)json_object_del(params, "targets");
	return env_params_with(params, "name", json_string(name));
}

static int join_asker_targets(struct env_asker *asker,
			      const struct pod_question *q, const char *name,
			      const json_t *mounted, struct error *err)
{
	char source[64];
	const struct env_join j = {
		.targets = &q->targets,
		.tree = reply_raw(mounted, "path"),
		.work = reply_raw(mounted, "work"),
		.source = source,
		.asker = asker,
	};
	int rc;

	(void)snprintf(source, sizeof(source), ENV_MOUNT_PREFIX "%s", name);
	rc = env_asker_isolate(asker, err);
	return rc < 0 ? rc : env_join(&j, err);
}

static int reply_with(int fd, int rc, const struct error *why)
{
	AUTO_BUF line = BUF_INIT;
	json_t *none = json_object();

	if (rc == 0)
		rc = control_reply_format(none, &line, NULL);
	else
		rc = control_error_format(why, &line, NULL);
	json_decref(none);
	return rc < 0 ? rc : env_pod_write(fd, &line, NULL);
}

/* Wait for the result of the client's check.  A client that closes the connection has not
 * confirmed the mount. */
static bool is_mount_confirmed(int fd)
{
	struct control_request r = { .root = NULL };
	AUTO_BUF line = BUF_INIT;
	bool is = false;

	(void)alarm(KEEP_S + ANSWER_S);
	if (env_pod_read(fd, KEEP_S, &line, NULL) == 0 &&
	    control_request_parse(line.data, line.len - 1, &r, NULL) == 0)
		is = strcmp(r.method, "environment.keep") == 0;
	control_request_fini(&r);
	(void)alarm(ANSWER_S);
	return is;
}

/* Check that the client still waits: otherwise it has begun to unpack the snapshot, and the
 * overlay would hide its files. */
static int check_asker_waits(int fd, struct error *err)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0 &&
			       (p.revents & (POLLRDHUP | POLLHUP | POLLERR))
		       ? error_set(err, ECONNRESET, "who asked has left")
		       : 0;
}

static int mount_for_client(const struct pod_socket *s, int fd,
			    const struct pod_question *q,
			    struct env_asker *asker, const char *name,
			    struct error *err)
{
	json_t *mounted = NULL;
	int rc = node_ask(&s->cfg->node, "environment.mount",
			  node_params(q, name), &mounted, err);

	if (rc == 0)
		rc = check_asker_waits(fd, err);
	if (rc == 0)
		rc = join_asker_targets(asker, q, name, mounted, err);
	json_decref(mounted);
	if (rc < 0)
		return rc;
	if (reply_with(fd, 0, NULL) < 0 || !is_mount_confirmed(fd)) {
		env_asker_undo(asker);
		return error_set(err, ECANCELED, "it was not kept");
	}
	return 0;
}

/* Undo a mount.  If it is still in use, bootseerd ends it later, and its entry is checked again
 * when the list is full. */
static void undo_pod_mount(const struct pod_socket *s, const char *name)
{
	if (umount_at_node(s, name) == 0)
		remove_mount_from_list(s, name);
}

/* Serve the blocks of a snapshot, which needs no mount namespace. */
static int give_blocks(const struct pod_socket *s, int fd,
		       const struct pod_question *q, const char *name,
		       struct error *err)
{
	int rc = env_give_serve(&s->cfg->node, fd, node_params(q, name),
				ANSWER_S, err);

	undo_pod_mount(s, name);
	return rc;
}

static int answer_question(const struct pod_socket *s, int fd,
			   struct pod_question *q, struct error *err)
{
	struct env_asker *asker = NULL;
	AUTO_BUF line = BUF_INIT;
	char name[ENV_MOUNT_NAME_ROOM];
	AUTO_CLOSE int place = -1;
	struct error alone = ERROR_INIT; /* why nothing can be mounted here */
	int known = env_asker_open(fd, &asker, &alone);
	/* Read the request before refusing: a client still writing would get an error from the
	 * close instead of our reply. */
	int rc = env_pod_read(fd, ASK_S, &line, err);

	if (rc == 0 && known < 0 && known != -ENOTSUP)
		rc = error_set(err, alone.code, "%s", alone.msg);
	if (rc == 0)
		rc = parse_question(s->cfg, &line, q, err);
	if (rc == 0)
		rc = env_mount_choose_name(name, err);
	(void)alarm(q->is_open ? ANSWER_S : MOUNT_S);
	if (rc == 0 && !q->is_open && alone.code)
		rc = error_set(err, alone.code, "%s", alone.msg);
	if (rc == 0)
		rc = add_mount_to_list(s, name, &place, err);
	if (rc == 0 && q->is_open) {
		env_asker_free(asker);
		return give_blocks(s, fd, q, name, err);
	}
	if (rc == 0) {
		rc = mount_for_client(s, fd, q, asker, name, err);
		/* Its descriptors keep the mounts in use. */
		env_asker_free(asker);
		asker = NULL;
		if (rc < 0)
			undo_pod_mount(s, name);
	}
	env_asker_free(asker);
	return rc;
}

/* Log a refusal, while the log has room: a client that keeps asking could fill the log's disk,
 * which may be memory. */
static void log_refusal(const struct error *err)
{
	if (log_has_room(LOG_LEVEL_WARNING))
		fprintf(stderr, "bootseer env socket: %s\n", err->msg);
}

static void serve_child(const struct pod_socket *s, int fd)
{
	const struct timeval patience = { .tv_sec = ASK_S };
	struct pod_question q = { .is_open = false };
	struct error err = ERROR_INIT;
	sigset_t none;
	int rc;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm(2 * ASK_S);
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
			 sizeof(patience));
	rc = answer_question(s, fd, &q, &err);
	(void)!reply_with(fd, rc, &err);
	if (rc < 0 && rc != -ECONNRESET)
		log_refusal(&err);
	control_request_fini(&q.request);
}

/* ------------------------------------------------------------------------- listener --- */

/* How many ms to wait before the next request is accepted; -1: until an event. */
static int accept_delay_ms(struct pod_socket *s)
{
	int64_t now = clock_now_ns();
	int64_t more = (now - s->counted_ns) / RATE_NS;

	s->tokens = s->tokens + more > BURST ? BURST : s->tokens + more;
	s->counted_ns += more * RATE_NS;
	if (s->short_until_ns > now)
		return (int)((s->short_until_ns - now) / NS_PER_MS) + 1;
	s->short_until_ns = 0;
	if (s->n_children >= CHILDREN_MAX || s->tokens > 0)
		return -1;
	return (int)((s->counted_ns + RATE_NS - now) / NS_PER_MS) + 1;
}

/* Send an error to the client, which then runs its command itself. */
static void refuse_asker(int fd, int code)
{
	struct error err = ERROR_INIT;
	int rc = error_errno(&err, code, "start a process for the answer");

	log_refusal(&err);
	(void)!reply_with(fd, rc, &err);
}

static void accept_one_client(struct pod_socket *s)
{
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	pid_t pid;

	if (fd < 0) {
		if (!shortage_is(errno))
			return;
		shortage_note(&s->shortage, "env-socket", errno);
		s->short_until_ns = clock_now_ns() + SHORTAGE_PAUSE_NS;
		return;
	}
	s->tokens--;
	pid = fork();
	if (pid == 0) {
		serve_child(s, fd);
		_exit(0);
	}
	if (pid > 0)
		s->n_children++;
	else
		refuse_asker(fd, errno);
	(void)close(fd);
}

/* Handle a signal.  False: this process has to end. */
static bool take_signal(struct pod_socket *s)
{
	struct signalfd_siginfo i;

	if (read(s->signals, &i, sizeof(i)) != sizeof(i))
		return true;
	if (i.ssi_signo != SIGCHLD)
		return false;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		s->n_children--;
	return true;
}

static int accept_until_signal(struct pod_socket *s, struct error *err)
{
	bool goes_on = true;

	s->tokens = BURST;
	s->counted_ns = clock_now_ns();
	while (goes_on) {
		int ms = accept_delay_ms(s);
		bool takes = s->tokens > 0 && !s->short_until_ns &&
			     s->n_children < CHILDREN_MAX;
		struct pollfd p[2] = {
			{ .fd = s->signals, .events = POLLIN },
			{ .fd = takes ? s->listener : -1, .events = POLLIN },
		};

		if (poll(p, 2, ms) < 0 && errno != EINTR)
			return error_errno(err, errno, "poll");
		if (p[0].revents)
			goes_on = take_signal(s);
		else if (p[1].revents)
			accept_one_client(s);
	}
	return 0;
}

static int watch_signals(struct pod_socket *s, struct error *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? error_errno(err, errno, "signals") : 0;
}

/* Listen in DIR/pod, the folder given to the pod; containers do not see DIR itself. */
static int open_listener(struct pod_socket *s, const char *dir,
			 struct error *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	mode_t mask;
	int rc;

	if (mkdirat(s->dir, "pod", 0755) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make '%.200s/pod'", dir);
	if ((size_t)snprintf(at.sun_path, sizeof(at.sun_path),
			     "%s/pod/env.sock", dir) >= sizeof(at.sun_path))
		return error_set(err, ENAMETOOLONG,
				 "'%.200s' is too long for a socket", dir);
	(void)unlink(at.sun_path);
	s->listener =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Any user of the container may connect; users of the node cannot enter the folder. */
	mask = umask(0);
	rc = s->listener < 0 ||
	     bind(s->listener, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	     listen(s->listener, SOMAXCONN) < 0;
	(void)umask(mask);
	if (rc)
		return error_errno(err, errno, "listen at '%s'", at.sun_path);
	fprintf(stderr, "bootseer env socket: ready %s\n", at.sun_path);
	return 0;
}

static int open_dir(struct pod_socket *s, const char *dir, struct error *err)
{
	static const char *const ours[] = { "pod", "mounts", "mounts.lock",
					    NULL };
	int rc = fs_mkdir_private(dir, ours, err);

	if (rc < 0)
		return rc;
	s->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return error_errno(err, errno, "open '%.200s'", dir);
	if (flock(s->dir, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, EBUSY,
				 "another 'env socket' serves '%.200s': end "
				 "it, or name another folder",
				 dir);
	s->list = fs_join(dir, "mounts");
	return s->list ? 0 : error_nomem(err);
}

static int run_env_socket(const void *config, char **args, struct error *err)
{
	struct pod_socket s = {
		.cfg = config, .dir = -1, .listener = -1, .signals = -1
	};
	int rc;

	if (geteuid() != 0)
		return error_set(err, EPERM,
				 "it mounts, which user %u may not: run it as "
				 "root",
				 geteuid());
	log_set_file_max(LOG_FILE_MAX);
	rc = open_dir(&s, args[0], err);
	if (rc == 0)
		rc = watch_signals(&s, err);
	if (rc == 0)
		rc = open_listener(&s, args[0], err);
	if (rc == 0)
		rc = accept_until_signal(&s, err);
	if (s.listener >= 0) {
		(void)close(s.listener);
		(void)unlinkat(s.dir, "pod/env.sock", 0);
	}
	fd_close(s.signals);
	fd_close(s.dir);
	free(s.list);
	return rc;
}

static int check_env_socket(const void *config, char **args, struct error *err)
{
	const struct env_socket_config *c = config;
	int rc = 0;

	if (!c->stores || !c->stores[0])
		return error_set(err, EINVAL,
				 "which stores may the pod have mounted? "
				 "--store URL");
	for (char **u = c->stores; rc == 0 && *u; u++)
		rc = env_check_store(*u, err);
	return rc;
}

static const struct option_spec options[] = {
	NODE_OPTIONS(struct env_socket_config),
	{ .key = "store",
	  .type = OPTION_LIST,
	  .offset = offsetof(struct env_socket_config, stores),
	  .arg = "URL",
	  .help = "A store whose environments the pod may have mounted, as "
		  "its containers name it; bootseerd must have it as an "
		  "--env-store, too." },
	{ .key = "most",
	  .type = OPTION_INTEGER,
	  .offset = offsetof(struct env_socket_config, most),
	  .def = "16",
	  .min = "1",
	  .max = "1000",
	  .help = "So many environments may be mounted by this socket, or "
		  "sent to be unpacked, at once." },
	{ .key = NULL },
};

const struct command env_socket_command = {
	.brief = "Have environments mounted for a pod's containers",
	.program = {
		.name = "bootseer env socket",
		.usage = "--store URL [OPTIONS] DIR",
		.summary = "Listen at DIR/pod/env.sock. Containers that DIR/pod "
			   "is mounted in at /run/bootseer-env may have "
			   "snapshots of the stores mounted at folders of "
			   "theirs, or sent to be unpacked, by 'bootseer env "
			   "run', and nothing else.",
		.options = options,
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct env_socket_config),
	.check = check_env_socket,
	.run = run_env_socket,
};
