// SPDX-License-Identifier: Apache-2.0
#include "cli/env_criu.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "common/fs.h"
#include "common/text.h"

#define OUTPUT_MAX 4096u    /* bytes of criu's output that are kept */
#define LOG_MAX (16u << 20) /* most bytes of criu's log */
#define END_TIMEOUT_MS 5000 /* how long to wait for a killed process to end */
#define INHERIT_FD_MIN 100  /* above the descriptors that criu itself uses */

/* --------------------------------------------------------------------- arguments --- */

void criu_args_fini(struct criu_args *a)
{
	buf_fini(&a->text);
}

/* Store the words one after the other, each with its NUL. argv is set when all are stored, as the
 * memory may move before. */
static int copy_words(struct criu_args *a, const char *const *words,
		      struct error *err)
{
	char *at;

	a->text = (struct buf)BUF_INIT;
	for (a->n = 0; words[a->n]; a->n++)
		if (a->n == CRIU_ARGS_MAX ||
		    buf_append(&a->text, words[a->n], strlen(words[a->n]) + 1) <
			    0)
			return error_nomem(err);
	at = a->text.data;
	for (size_t i = 0; i < a->n; i++) {
		a->argv[i] = at;
		at += strlen(at) + 1;
	}
	a->argv[a->n] = NULL;
	return 0;
}

int criu_dump_args(const struct criu_job *j, pid_t pid, struct criu_args *ret,
		   struct error *err)
{
	char target[24];
	/* Control groups of another node do not exist here: the process stays in the groups that
	 * it starts in. */
	const char *const words[] = {
		"criu",
		"dump",
		"--tree",
		target,
		"--images-dir",
		j->images,
		"--log-file",
		j->log,
		"--leave-running",
		"--manage-cgroups=ignore",
		"--external",
		j->output,
		NULL,
	};

	(void)snprintf(target, sizeof(target), "%d", (int)pid);
	return copy_words(ret, words, err);
}

int criu_restore_args(const struct criu_job *j, const char *pidfile,
		      int output_fd, struct criu_args *ret, struct error *err)
{
	char inherit[CRIU_FILE_MAX + 24];
	const char *const words[] = {
		"criu",
		"restore",
		"--restore-detached",
		"--images-dir",
		j->images,
		"--log-file",
		j->log,
		"--pidfile",
		pidfile,
		"--manage-cgroups=ignore",
		"--inherit-fd",
		inherit,
		NULL,
	};

	(void)snprintf(inherit, sizeof(inherit), "fd[%d]:%s", output_fd,
		       j->output);
	return copy_words(ret, words, err);
}

/* ----------------------------------------------------------------------- answers --- */

/* The message after the place in a line such as "(00.05) Error (criu/files-ext.c:99): Can't
 * dump". */
static const char *skip_message_place(const char *error, size_t len)
{
	const char *at = memmem(error, len, "): ", 3);

	return at ? at + 3 : error;
}

void criu_reason(const char *text, char *ret, size_t room)
{
	ret[0] = '\0';
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		const char *at = memmem(line, len, "Error (", 7);
		const char *what =
			at ? skip_message_place(at, (size_t)(line + len - at))
			   : NULL;

		/* Skip a harmless error: criu goes on when it may not raise a limit. */
		if (what && strncmp(what, "rlimit:", strlen("rlimit:")) != 0) {
			(void)snprintf(ret, room, "%.*s",
				       (int)(line + len - what), what);
			text_make_printable(ret);
			return;
		}
		line += len + (line[len] == '\n');
	}
}

/* Set the error of a criu that ended with `status`, from its log or its output. */
static int set_criu_error(const struct criu_job *j, const char *what,
			  int status, const struct buf *printed,
			  struct error *err)
{
	AUTO_BUF log = BUF_INIT;
	char why[200];

	(void)!fs_read_file(j->log, LOG_MAX, &log, NULL);
	criu_reason(log.len ? log.data : "", why, sizeof(why));
	if (!why[0])
		criu_reason(printed->len ? printed->data : "", why,
			    sizeof(why));
	return error_set(err, ECANCELED, "%s: criu ended with %d: %s (%.150s)",
			 what, status, why[0] ? why : "it does not say why",
			 j->log);
}

int criu_name_file(int fd, char ret[CRIU_FILE_MAX], struct error *err)
{
	AUTO_BUF info = BUF_INIT;
	char path[40];
	const char *at;
	struct stat st;
	int rc;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	rc = fs_read_file(path, OUTPUT_MAX, &info, err);
	if (rc < 0)
		return rc;
	at = info.len ? strstr(info.data, "mnt_id:") : NULL;
	if (!at || fstat(fd, &st) < 0)
		return error_set(err, EIO, "%s does not name a mount", path);
	(void)snprintf(ret, CRIU_FILE_MAX, "file[%lx:%" PRIx64 "]",
		       strtoul(at + strlen("mnt_id:"), NULL, 10),
		       (uint64_t)st.st_ino);
	return 0;
}

int criu_check_file(const char *name, struct error *err)
{
	static const char digits[] = "0123456789abcdef";
	size_t mount, inode, len = strlen("file[");

	if (strncmp(name, "file[", len) == 0) {
		mount = strspn(name + len, digits);
		len += mount;
		if (mount && name[len] == ':') {
			inode = strspn(name + len + 1, digits);
			len += 1 + inode;
			if (inode && strcmp(name + len, "]") == 0 &&
			    len < CRIU_FILE_MAX)
				return 0;
		}
	}
	return error_set(err, EBADMSG, "the dump does not name its log");
}

/* --------------------------------------------------------------------------- run --- */

/* Copy the number from "Version: 4.2.1\n...". */
static int parse_version(const struct buf *out, char ret[CRIU_VERSION_MAX],
			 struct error *err)
{
	const char *at = out->len ? strstr(out->data, "Version: ") : NULL;
	size_t len;

	if (!at)
		return error_set(err, ENOTSUP, "criu does not say its version");
	at += strlen("Version: ");
	len = strcspn(at, "\n");
	if (len == 0 || len >= CRIU_VERSION_MAX)
		return error_set(err, ENOTSUP, "criu does not say its version");
	memcpy(ret, at, len);
	ret[len] = '\0';
	if (!text_is_word(ret, CRIU_VERSION_MAX))
		return error_set(err, ENOTSUP, "criu does not say its version");
	return 0;
}

int criu_version(int64_t timeout_ms, char ret[CRIU_VERSION_MAX],
		 struct error *err)
{
	char *argv[] = { (char *)(uintptr_t) "criu",
			 (char *)(uintptr_t) "--version", NULL };
	AUTO_BUF out = { .limit = OUTPUT_MAX };
	int status, rc = child_capture(argv, timeout_ms, &out, &status, err);

	if (rc == -ENOENT)
		return error_set(err, ENOENT, "there is no criu in PATH");
	return rc < 0 ? rc : parse_version(&out, ret, err);
}

int criu_check(int64_t timeout_ms, struct error *err)
{
	char *argv[] = { (char *)(uintptr_t) "criu",
			 (char *)(uintptr_t) "check", NULL };
	AUTO_BUF out = { .limit = OUTPUT_MAX };
	char why[200];
	int status, rc = child_capture(argv, timeout_ms, &out, &status, err);

	if (rc < 0)
		return error_wrap(err, rc, "check");
	if (status == 0)
		return 0;
	criu_reason(out.len ? out.data : "", why, sizeof(why));
	return error_set(err, ENOTSUP,
			 "'criu check' says that it does not work here: %s",
			 why[0] ? why : "no reason");
}

int criu_dump(const struct criu_job *j, pid_t pid, struct error *err)
{
	AUTO_BUF out = { .limit = OUTPUT_MAX };
	AUTO_CRIU_ARGS a = { .n = 0 };
	int status, rc = criu_dump_args(j, pid, &a, err);

	(void)unlink(j->log);
	if (rc == 0)
		rc = child_capture(a.argv, j->timeout_ms, &out, &status, err);
	if (rc < 0)
		return error_wrap(err, rc, "dump");
	return status ? set_criu_error(j, "dump", status, &out, err) : 0;
}

/* The process number in the file that criu wrote, if it is a live child of ours; else 0. */
static pid_t read_child(const char *pidfile)
{
	AUTO_BUF text = BUF_INIT;
	int status;
	long pid;

	if (fs_read_file(pidfile, 32, &text, NULL) < 0 || !text.len)
		return 0;
	pid = strtol(text.data, NULL, 10);
	return pid > 1 && pid <= INT32_MAX &&
			       waitpid((pid_t)pid, &status, WNOHANG) == 0
		       ? (pid_t)pid
		       : 0;
}

/* Kill the first process of a PID namespace, which ends all processes in it. */
static void end_child(pid_t pid)
{
	AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	(void)kill(pid, SIGKILL);
	if (fd >= 0)
		(void)poll(&p, 1, END_TIMEOUT_MS);
	(void)waitpid(pid, NULL, WNOHANG);
}

/* List the children of the main thread, which adopts orphans, as "12 34 ". */
static int read_children(struct buf *ret, struct error *err)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children",
		       (int)getpid());
	return fs_read_file(path, OUTPUT_MAX, ret, err);
}

static bool has_number(const struct buf *list, const char *number, size_t len)
{
	for (const char *at = list->len ? list->data : ""; *at;) {
		size_t n = strcspn(at, " ");

		if (n == len && memcmp(at, number, len) == 0)
			return true;
		at += n + (at[n] == ' ');
	}
	return false;
}

/* Kill our children that were not there `before`: processes that a killed criu had started to
 * restore. */
static void end_new_children(const struct buf *before)
{
	AUTO_BUF now = BUF_INIT;

	if (read_children(&now, NULL) < 0 || !now.len)
		return;
	for (const char *at = now.data; *at;) {
		size_t n = strcspn(at, " ");

		if (n && !has_number(before, at, n))
			end_child((pid_t)strtol(at, NULL, 10));
		at += n + (at[n] == ' ');
	}
}

static int restore_once(const struct criu_job *j, const char *pidfile,
			int output_fd, pid_t *ret, struct error *err)
{
	AUTO_BUF out = { .limit = OUTPUT_MAX };
	AUTO_BUF before = BUF_INIT;
	AUTO_CRIU_ARGS a = { .n = 0 };
	int status = 0, rc = criu_restore_args(j, pidfile, output_fd, &a, err);

	(void)unlink(j->log);
	(void)unlink(pidfile);
	if (rc == 0)
		rc = read_children(&before, err);
	if (rc == 0)
		rc = child_capture(a.argv, j->timeout_ms, &out, &status, err);
	if (rc < 0)
		rc = error_wrap(err, rc, "restore");
	else if (status)
		rc = set_criu_error(j, "restore", status, &out, err);
	if (rc == 0) {
		*ret = read_child(pidfile);
		if (!*ret)
			rc = error_set(err, ECHILD,
				       "restore: what was restored ended at "
				       "once");
	}
	if (rc < 0)
		end_new_children(&before);
	return rc;
}

int criu_restore(const struct criu_job *j, const char *pidfile, int output_fd,
		 pid_t *ret, struct error *err)
{
	/* criu closes unknown descriptors in low numbers, so the log gets a high one. */
	AUTO_CLOSE int fd = fcntl(output_fd, F_DUPFD, INHERIT_FD_MIN);
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "dup");
	/* criu's child becomes ours when criu ends, so its number cannot be reused before we wait
	 * for it. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return error_errno(err, errno, "become a reaper");
	rc = restore_once(j, pidfile, fd, ret, err);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 0);
	return rc;
}
