// SPDX-License-Identifier: Apache-2.0
/*
 * The holder: the counterpart of keeper.c where no service manager keeps descriptors. It must
 * never crash itself, so it does nothing else: one thread, no memory but its table, no reads
 * from disks.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "fuse/fuse.h"
#include "fuse/hold_priv.h"

#define FIRST_FD 3
#define N_HELD_MAX 64
/* number of the child's end in the child */
#define SOCKET_FD (FIRST_FD + N_HELD_MAX)
#define NAME_BYTES 256
#define MESSAGE_MAX 4096
/* Messages read in a row. More than a socket's queue holds (net.unix.max_dgram_qlen), so
 * that all messages of a dead child are among them; limited, so that a flood of messages does
 * not delay signals. */
#define MESSAGES_A_TURN 4096u
#define FDS_PER_MESSAGE 16
#define BACKOFF_FIRST_MS 50
/* Pauses between restarts of a child: short at first, so that service resumes soon after a
 * fault is repaired; long later, so that a child that fails for hours does not fill a disk with
 * its log. */
#define QUICK_MAX_MS 2000
#define SLOW_MAX_MS 30000
/* A child that lived so long did not crash because of its start. */
#define STABLE_MS 5000

struct held {
	char name[NAME_BYTES];
	int fd;
};

struct holder {
	char *const *argv;
	int sock, signals;
	int child_sock; /* the child's end of the socket */
	sigset_t old_mask;
	struct held held[N_HELD_MAX];
	int n_held;
	pid_t child; /* 0: no child is running */
	bool ending; /* the holder was asked to end */
	int64_t started_ms, respawn_ms;
	unsigned int n_failed; /* ends in a row, each soon after the start */
};

/* -------------------------------------------------------------- messages --- */

static void close_kept_descriptors(struct holder *h, const char *name)
{
	int n = 0;

	for (int i = 0; i < h->n_held; i++) {
		if (strcmp(h->held[i].name, name) == 0)
			(void)close(h->held[i].fd);
		else
			h->held[n++] = h->held[i];
	}
	h->n_held = n;
}

/* Keep a descriptor; takes `fd`. */
static void keep_descriptor(struct holder *h, const char *name, int fd)
{
	struct held *d;

	if (h->n_held == N_HELD_MAX || strlen(name) >= NAME_BYTES) {
		log_warning("hold", "refused a descriptor name=\"%s\" held=%d",
			    name, h->n_held);
		(void)close(fd);
		return;
	}
	d = &h->held[h->n_held++];
	memset(d, 0, sizeof(*d));
	memcpy(d->name, name, strlen(name));
	d->fd = fd;
}

/* Value of "KEY=" in a message of lines, or NULL; modifies the message. */
static char *find_field_value(char *text, const char *key)
{
	size_t n = strlen(key);

	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, n) == 0)
			return line + n;
	}
	return NULL;
}

static void handle_message(struct holder *h, char *text, int *fds, int n_fds)
{
	bool store = find_field_value(text, "FDSTORE=1") != NULL;
	bool drop = find_field_value(text, "FDSTOREREMOVE=1") != NULL;
	char *name = find_field_value(text, "FDNAME=");

	if (name)
		name[strcspn(name, "\n")] = '\0';
	if (name && (!name[0] || strchr(name, ':')))
		name = NULL;
	if (drop && name)
		close_kept_descriptors(h, name);
	/* Close descriptors that are not kept; BARRIER=1 needs just that. */
	for (int i = 0; i < n_fds; i++) {
		if (store && name)
			keep_descriptor(h, name, fds[i]);
		else
			(void)close(fds[i]);
	}
}

struct received {
	int fds[FDS_PER_MESSAGE];
	int n_fds;
	pid_t pid;
};

static void parse_control(struct msghdr *msg, struct received *r)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS) {
			size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

			memcpy(r->fds, CMSG_DATA(c), n * sizeof(int));
			r->n_fds = (int)n;
		} else if (c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred cred;

			memcpy(&cred, CMSG_DATA(c), sizeof(cred));
			r->pid = cred.pid;
		}
	}
}

/* Receive one message; false when there is none. */
static bool receive_message(struct holder *h)
{
	static const char none[] = "";
	char text[MESSAGE_MAX + 1];
	struct iovec iov = { text, MESSAGE_MAX };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) +
			   CMSG_SPACE(sizeof(int) * FDS_PER_MESSAGE)];
	} control;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	struct received r = { .n_fds = 0 };
	ssize_t n = recvmsg(h->sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EINTR;
	text[n] = '\0';
	parse_control(&msg, &r);
	/* Programs run by the child may have inherited its end of the socket: of their
	 * messages only the descriptors are closed. */
	if (h->child == 0 || r.pid != h->child || (msg.msg_flags & MSG_TRUNC))
		memcpy(text, none, sizeof(none));
	handle_message(h, text, r.fds, r.n_fds);
	return true;
}

/* ----------------------------------------------------------------- child --- */

static void set_number(const char *name, long v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%ld", v);
	(void)setenv(name, text, 1);
}

static int set_environment(const struct holder *h)
{
	char names[N_HELD_MAX * NAME_BYTES];
	char socket[HOLD_ENV_MAX];
	size_t n = 0;

	names[0] = '\0';
	for (int i = 0; i < h->n_held; i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
				      i ? ":" : "", h->held[i].name);
	(void)snprintf(socket, sizeof(socket), "%ld:%d", (long)getpid(),
		       SOCKET_FD);
	/* A service manager's socket is for this process alone. */
	(void)unsetenv("NOTIFY_SOCKET");
	if (setenv(HOLD_ENV, socket, 1) < 0)
		return -errno;
	if (h->n_held == 0) {
		(void)unsetenv("LISTEN_PID");
		(void)unsetenv("LISTEN_FDS");
		(void)unsetenv("LISTEN_FDNAMES");
		return 0;
	}
	set_number("LISTEN_PID", getpid());
	set_number("LISTEN_FDS", h->n_held);
	return setenv("LISTEN_FDNAMES", names, 1) < 0 ? -errno : 0;
}

/* Move the kept descriptors to FIRST_FD and up, and the socket behind them: first all out of
 * the way, then into place. */
static int move_descriptors_into_place(struct holder *h)
{
	h->child_sock = fcntl(h->child_sock, F_DUPFD_CLOEXEC, SOCKET_FD + 1);
	if (h->child_sock < 0)
		return -errno;
	for (int i = 0; i < h->n_held; i++) {
		h->held[i].fd =
			fcntl(h->held[i].fd, F_DUPFD_CLOEXEC, SOCKET_FD + 1);
		if (h->held[i].fd < 0)
			return -errno;
	}
	for (int i = 0; i < h->n_held; i++)
		if (dup2(h->held[i].fd, FIRST_FD + i) < 0)
			return -errno;
	return dup2(h->child_sock, SOCKET_FD) < 0 ? -errno : 0;
}

static void run_child(struct holder *h)
{
	if (move_descriptors_into_place(h) == 0 && set_environment(h) == 0) {
		(void)sigprocmask(SIG_SETMASK, &h->old_mask, NULL);
		(void)execvp(h->argv[0], h->argv);
	}
	log_error("hold", "cannot run \"%s\": %s", h->argv[0], strerror(errno));
	_exit(127);
}

static void hold_spawn(struct holder *h)
{
	pid_t pid = fork();

	h->started_ms = clock_now_ms();
	if (pid == 0)
		run_child(h);
	if (pid > 0) {
		h->child = pid;
		return;
	}
	log_error("hold", "fork: %s", strerror(errno));
	h->respawn_ms = h->started_ms + hold_delay_ms(++h->n_failed);
}

int hold_delay_ms(unsigned int n_failed)
{
	const int most =
		n_failed < HOLD_QUICK_TRIES ? QUICK_MAX_MS : SLOW_MAX_MS;
	int ms = n_failed ? BACKOFF_FIRST_MS : 0;

	for (; n_failed > 1 && ms < most; n_failed--)
		ms *= 2;
	return ms < most ? ms : most;
}

/* Handle the child's end. 1: the holder ends too, with *ret_code; 0: go on. */
static int child_ended(struct holder *h, int status, int *ret_code)
{
	int64_t now = clock_now_ms();
	bool by_itself = WIFEXITED(status);
	int delay_ms;

	h->child = 0;
	*ret_code = by_itself ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	/* A child that fails before it kept a descriptor is not restarted: it may have been
	 * given a wrong option. */
	if (h->ending || (by_itself && (*ret_code == 0 || h->n_held == 0)))
		return 1;
	if (now - h->started_ms >= STABLE_MS)
		h->n_failed = 0;
	delay_ms = hold_delay_ms(h->n_failed);
	log_warning("hold", "child ended code=%d held=%d restart_in_ms=%d",
		    *ret_code, h->n_held, delay_ms);
	if (++h->n_failed == HOLD_QUICK_TRIES)
		log_error("hold",
			  "child ends again and again: whoever uses what it "
			  "served waits until one goes on; mend what it says "
			  "above, or unmount that and end it tries=%u",
			  h->n_failed);
	h->respawn_ms = now + delay_ms;
	return 0;
}

static int hold_reap(struct holder *h, int *ret_code)
{
	int status, over = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == h->child)
			over = child_ended(h, status, ret_code);
	return over;
}

/* ------------------------------------------------------------------ loop --- */

static void receive_messages(struct holder *h)
{
	for (unsigned int n = 0; n < MESSAGES_A_TURN && receive_message(h); n++)
		continue;
}

static int handle_signal(struct holder *h, int *ret_code)
{
	struct signalfd_siginfo si;

	if (read(h->signals, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return 0;
	if (si.ssi_signo == SIGCHLD) {
		/* Handle first the messages that it sent before it died. */
		receive_messages(h);
		return hold_reap(h, ret_code);
	}
	if (si.ssi_signo != SIGHUP)
		h->ending = true;
	if (h->child)
		(void)kill(h->child, (int)si.ssi_signo);
	else if (h->ending)
		*ret_code = 128 + (int)si.ssi_signo;
	return h->ending && !h->child;
}

static int get_respawn_wait_ms(const struct holder *h)
{
	int64_t left;

	if (h->child)
		return -1;
	left = h->respawn_ms - clock_now_ms();
	return left > 0 ? (int)left : 0;
}

static int hold_loop(struct holder *h)
{
	struct pollfd p[2] = { { .fd = h->signals, .events = POLLIN },
			       { .fd = h->sock, .events = POLLIN } };
	int code = 0;

	hold_spawn(h);
	for (;;) {
		int n = poll(p, 2, get_respawn_wait_ms(h));

		if (n > 0 && (p[1].revents & POLLIN))
			receive_messages(h);
		if (n > 0 && (p[0].revents & POLLIN) && handle_signal(h, &code))
			return code;
		if (!h->child && get_respawn_wait_ms(h) == 0)
			hold_spawn(h);
	}
}

/* An unnamed pair of sockets: anyone who can send to a socket can send it descriptors, and
 * closing such a descriptor may take as long as its sender likes (SO_LINGER). */
static int open_sockets(struct holder *h, struct error *err)
{
	const int on = 1;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, errno, "descriptor store socket");
	h->sock = pair[0];
	h->child_sock = pair[1];
	if (setsockopt(h->sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return error_errno(err, errno, "descriptor store socket");
	return 0;
}

static int open_signals(struct holder *h, struct error *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, &h->old_mask) < 0)
		return error_errno(err, errno, "sigprocmask");
	h->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (h->signals < 0)
		return error_errno(err, errno, "signalfd");
	return 0;
}

static void free_holder(struct holder *h)
{
	for (int i = 0; i < h->n_held; i++)
		(void)close(h->held[i].fd);
	if (h->signals >= 0) {
		(void)close(h->signals);
		(void)sigprocmask(SIG_SETMASK, &h->old_mask, NULL);
	}
	fd_close(h->sock);
	fd_close(h->child_sock);
	free(h);
}

int hold_run(char *const argv[], struct error *err)
{
	struct holder *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return error_nomem(err);
	h->argv = argv;
	h->sock = h->child_sock = h->signals = -1;
	rc = open_sockets(h, err);
	if (rc == 0)
		rc = open_signals(h, err);
	if (rc == 0)
		rc = hold_loop(h);
	free_holder(h);
	return rc;
}
