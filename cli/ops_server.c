// SPDX-License-Identifier: Apache-2.0
/* Serve saved metrics: a snapshot of a TSDB, or an export. */
#include "cli/ops_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/ops_export.h"
#include "common/bounded_json.h"
#include "common/clock.h"
#include "common/fs.h"

#define META_MAX (1u << 20)
#define SAID_MAX (1u << 20)
#define IMPORT_MS INT64_C(3600000)
#define READY_MS INT64_C(300000)
#define MS 1000

/* ---------------------------------------------------------------------- blocks --- */

static int link_file(const char *block, const char *name, const char *to,
		     bool is_needed, struct error *err)
{
	AUTO_FREE char *from = fs_join(block, name);
	AUTO_FREE char *link = fs_join(to, name);

	if (!from || !link)
		return error_nomem(err);
	if (!is_needed && access(from, F_OK) < 0)
		return 0;
	return symlink(from, link) < 0
		       ? error_errno(err, errno, "link %s", link)
		       : 0;
}

/* Note when the data end: at the end of the last block. */
static int note_block_end_time(struct ops_server *s, const char *block,
			       struct error *err)
{
	AUTO_FREE char *path = fs_join(block, "meta.json");
	AUTO_BUF text = { .limit = META_MAX };
	AUTO_JSON *meta = NULL;
	int64_t to_s;
	int rc = path ? fs_read_file(path, META_MAX, &text, err)
		      : error_nomem(err);

	if (rc == 0)
		rc = bounded_json_load(text.data, text.len, path, &meta, err);
	if (rc < 0)
		return rc;
	to_s = json_integer_value(json_object_get(meta, "maxTime")) / MS;
	if (to_s <= 0)
		return error_set(err, EINVAL, "%s has no time", path);
	if (to_s > strtoll(s->to, NULL, 10))
		(void)snprintf(s->to, sizeof(s->to), "%" PRId64, to_s);
	return 0;
}

/* Link the files of a block into our folder, so that the block itself is never changed. */
static int link_block(struct ops_server *s, const char *block, const char *name,
		      struct error *err)
{
	AUTO_FREE char *to = fs_join(s->folder, name);
	int rc = to ? note_block_end_time(s, block, err) : error_nomem(err);

	if (rc == 0 && mkdir(to, 0700) < 0)
		rc = error_errno(err, errno, "%s", to);
	if (rc == 0)
		rc = link_file(block, "meta.json", to, true, err);
	if (rc == 0)
		rc = link_file(block, "index", to, true, err);
	if (rc == 0)
		rc = link_file(block, "chunks", to, true, err);
	return rc < 0 ? rc : link_file(block, "tombstones", to, false, err);
}

/* Link all blocks of a folder, by absolute paths, as the links are in another folder. */
static int link_blocks(struct ops_server *s, const char *folder,
		       struct error *err)
{
	AUTO_FREE char *whole = realpath(folder, NULL);
	DIR *d = whole ? opendir(whole) : NULL;
	const struct dirent *e;
	size_t n = 0;
	int rc = d ? 0 : error_errno(err, errno, "%s", folder);

	while (rc == 0 && (e = readdir(d))) {
		AUTO_FREE char *block = fs_join(whole, e->d_name);
		AUTO_FREE char *meta =
			block ? fs_join(block, "meta.json") : NULL;

		if (!meta)
			rc = error_nomem(err);
		else if (e->d_name[0] != '.' && access(meta, R_OK) == 0) {
			rc = link_block(s, block, e->d_name, err);
			n++;
		}
	}
	if (d)
		(void)closedir(d);
	return rc < 0 || n ? rc
			   : error_set(err, EINVAL,
				       "%s has no blocks of a Prometheus: "
				       "wanted is a snapshot, or its data "
				       "folder",
				       folder);
}

/* --------------------------------------------------------------------- exports --- */

static int make_blocks(struct ops_server *s, const char *path,
		       struct error *err)
{
	AUTO_FREE char *to = fs_join(s->folder, "made");
	AUTO_BUF said = { .limit = SAID_MAX };
	char *argv[] = { (char[]){ "promtool" },
			 (char[]){ "tsdb" },
			 (char[]){ "create-blocks-from" },
			 (char[]){ "openmetrics" },
			 (char *)(uintptr_t)path,
			 to,
			 NULL };
	int status = 0;
	int rc = to ? child_read_output(argv, NULL, -1, SAID_MAX, IMPORT_MS,
					NULL, &said, &status, err)
		    : error_nomem(err);

	if (rc == 0 && status != 0)
		rc = error_set(err, EINVAL, "promtool: %s",
			       child_last_line(&said));
	return rc < 0 ? rc : link_blocks(s, to, err);
}

/* Import an export; JSON lines of VictoriaMetrics are first converted to OpenMetrics. */
static int import_export(struct ops_server *s, const char *path,
			 struct error *err)
{
	AUTO_FREE char *text = fs_join(s->folder, "metrics");
	AUTO_CLOSE int in = open(path, O_RDONLY | O_CLOEXEC);
	char first = 0;
	int rc;

	if (!text)
		return error_nomem(err);
	if (in < 0 || pread(in, &first, 1, 0) < 0)
		return error_errno(err, errno, "%s", path);
	if (first != '{')
		return make_blocks(s, path, err);
	rc = ops_export_convert(in, text, err);
	if (rc == 0)
		rc = make_blocks(s, text, err);
	(void)unlink(text);
	return rc;
}

/* ---------------------------------------------------------------------- server --- */

/* A shell script that kills Prometheus and removes its folder when its stdin is closed, so that
 * neither is left however this process ends. */
static const char runner[] = "cd \"$1\" || exit 1; d=$PWD; shift; "
			     "\"$@\" 2>&1 </dev/null & p=$!; "
			     "exec >/dev/null 2>&1; read -r _; "
			     "kill -9 $p; wait $p; cd /; rm -rf \"$d\"";

static int start_prometheus(struct ops_server *s, struct error *err)
{
	AUTO_FREE char *config = fs_join(s->folder, "prometheus.yml");
	AUTO_CLOSE int in = -1;
	AUTO_CLOSE int out = -1;
	char *argv[] = { (char[]){ "sh" },
			 (char[]){ "-c" },
			 (char *)(uintptr_t)runner,
			 (char[]){ "sh" },
			 s->folder,
			 (char[]){ "prometheus" },
			 (char[]){ "--config.file=prometheus.yml" },
			 (char[]){ "--storage.tsdb.path=." },
			 (char[]){ "--storage.tsdb.retention.time=100y" },
			 (char[]){ "--storage.tsdb.min-block-duration=2h" },
			 (char[]){ "--storage.tsdb.max-block-duration=2h" },
			 (char[]){ "--web.listen-address=127.0.0.1:0" },
			 NULL };
	int stays[2], said[2], rc;

	if (!config)
		return error_nomem(err);
	rc = fs_replace_file(config, "global: {}\n", 11, 0600, err);
	if (rc < 0)
		return rc;
	if (pipe2(stays, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	in = stays[0];
	s->stays = stays[1];
	if (pipe2(said, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	s->said = said[0];
	out = said[1];
	/* The log is not read after the start, so its pipe must have room for all of it. */
	(void)fcntl(out, F_SETPIPE_SZ, SAID_MAX);
	return child_start_with(argv, in, out, out, &s->pid, err);
}

/* Wait until the log says that Prometheus is ready; its address in the log gives the URL. */
static int wait_ready(struct ops_server *s, struct error *err)
{
	static const char listens[] = "msg=\"Listening on\" address=";
	int64_t deadline = clock_now_ms() + READY_MS;
	AUTO_BUF log = { .limit = SAID_MAX };
	char some[4096];

	for (;;) {
		struct pollfd p = { .fd = s->said, .events = POLLIN };
		int64_t left = deadline - clock_now_ms();
		const char *at = log.len ? strstr(log.data, listens) : NULL;
		ssize_t n;

		if (at && strstr(log.data, "msg=\"Server is ready")) {
			at += sizeof(listens) - 1;
			(void)snprintf(s->url, sizeof(s->url), "http://%.*s",
				       (int)strcspn(at, " \n"), at);
			return 0;
		}
		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return error_set(err, ETIMEDOUT,
					 "prometheus is not ready in time");
		n = read(s->said, some, sizeof(some));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_set(err, EIO, "prometheus: %s",
					 child_last_line(&log));
		if (buf_append(&log, some, (size_t)n) < 0)
			return error_nomem(err);
	}
}

static int open_data_folder(const char *data, struct ops_server *s,
			    struct error *err)
{
	const char *tmp = getenv("TMPDIR");
	struct stat st;
	int rc;

	if (stat(data, &st) < 0)
		return error_errno(err, errno, "%s", data);
	s->folder = fs_join(tmp && *tmp ? tmp : "/tmp", "bootseer-ops.XXXXXX");
	if (!s->folder)
		return error_nomem(err);
	if (!mkdtemp(s->folder)) {
		rc = error_errno(err, errno, "%s", s->folder);
		free(s->folder);
		s->folder = NULL;
		return rc;
	}
	rc = S_ISDIR(st.st_mode) ? link_blocks(s, data, err)
				 : import_export(s, data, err);
	if (rc == 0)
		rc = start_prometheus(s, err);
	return rc < 0 ? rc : wait_ready(s, err);
}

int ops_server_open(const struct ops_config *c, struct ops_config *own,
		    struct ops_server **ret, struct error *err)
{
	AUTO(ops_server) s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->stays = s->said = s->pid = -1;
	*own = *c;
	if (c->prom.data) {
		rc = open_data_folder(c->prom.data, s, err);
		if (rc < 0)
			return rc;
		own->prom.url = s->url;
		own->prom.auth = own->prom.ca = NULL;
		if (!c->prom.to)
			own->prom.to = s->to;
	}
	*ret = steal_ptr(&s);
	return 0;
}

void ops_server_free(struct ops_server *s)
{
	if (!s)
		return;
	fd_close(s->stays);
	fd_close(s->said);
	if (s->pid > 0)
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	else if (s->folder)
		(void)!fs_remove_tree(s->folder, NULL);
	free(s->folder);
	free(s);
}
