// SPDX-License-Identifier: Apache-2.0
/*
 * bootseerd: puts the parts together in the order in which they need each
 * other, runs the loop, and takes them apart.  (origin.c composes the sources.)
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/notify.h"
#include "snapshotter/node/metrics.h"
#include "snapshotter/node/node.h"
#include "snapshotter/node/peers.h"
#include "snapshotter/node/prefetch.h"
#include "snapshotter/node/preheat.h"
#include "snapshotter/node/server.h"
#include "snapshotter/node/starts.h"
#include "snapshotter/node/traces.h"

#define SOCKET_NAME "bootseerd.sock"
#define READY_NAME "ready.sock"
#define READY_LINE_MAX 16
#define HELD_ENV "BOOTSEER_HELD" /* set by our own --hold for its child */
/* At the end calls may still wait for a registry; everything that must last
 * is on disk at any moment, so they are not waited for longer than this. */
#define END_TIMEOUT_S 10

struct daemon {
	struct node node;
	struct work resume; /* of prefetches */
	struct loop *loop;
	struct pool *pool;
	struct pool *ready_pool; /* what everybody may fill is apart */
	struct server *server, *ready;
	struct metrics *metrics;
	struct preheat *preheat;
	struct loop_signal on_term, on_int, on_hup;
};

/* ------------------------------------------------------------------- parts --- */

static int open_cache(struct node *n, struct error *err)
{
	AUTO_FREE char *dir = NULL;
	struct cache_config cfg = { .quota = n->cfg->cache_quota };
	struct statvfs vfs;

	if (asprintf(&dir, "%s/cache", n->cfg->root) < 0) {
		dir = NULL;
		return error_nomem(err);
	}
	if (statvfs(n->cfg->root, &vfs) < 0)
		return error_set(err, errno, "'%s': %s", n->cfg->root,
				 strerror(errno));
	cfg.dir = dir;
	cfg.min_free = (uint64_t)vfs.f_blocks * vfs.f_frsize / 100 *
		       n->cfg->cache_min_free;
	return cache_open(&cfg, &n->cache, err);
}

static int open_fetcher(struct node *n, struct error *err)
{
	const struct fetcher_config cfg = {
		.threads = (unsigned int)n->cfg->fetch_threads,
		.window = (uint32_t)n->cfg->fetch_window,
		.window_max = (uint32_t)n->cfg->fetch_window_max,
		.demand_timeout_ns = n->cfg->read_timeout,
		.cache = n->cache,
	};

	return fetcher_new(&cfg, &n->fetcher, err);
}

/* The kind whose mounts the bootseerd before may have left in RUN. */
static const struct datapath_ops *kind_before(const char *path)
{
	AUTO_BUF name = BUF_INIT;

	if (fs_read_file(path, 64, &name, NULL) < 0 || !name.data)
		return NULL;
	name.data[strcspn(name.data, "\n")] = '\0';
	return datapath_kind(name.data);
}

static const struct datapath_ops *choose_kind(const struct node_config *cfg,
					      const struct datapath_config *dp,
					      const char *path,
					      struct error *err)
{
	const struct datapath_ops *kind = datapath_kind(cfg->datapath);
	const struct datapath_ops *const *k;
	AUTO_BUF reasons = { .limit = ERROR_MSG_MAX };
	struct error why;

	if (kind)
		return kind->probe(dp, err) < 0 ? NULL : kind;
	kind = kind_before(path);
	if (kind)
		return kind;
	for (k = datapath_kinds; *k; k++) {
		why = (struct error)ERROR_INIT;
		if ((*k)->probe(dp, &why) == 0)
			return *k;
		log_info("main", "datapath %s reason=\"%s\"", (*k)->name,
			 why.msg);
		/* What has no room here is in the log. */
		if (buf_printf(&reasons, "%s: %s; ", (*k)->name, why.msg) < 0)
			continue;
	}
	error_set(err, ENOTSUP, "no data path works here: %s",
		  reasons.data ? reasons.data : "");
	return NULL;
}

static int open_datapath(struct node *n, struct error *err)
{
	const struct datapath_config cfg = {
		.run_dir = n->cfg->run,
		.state_dir = n->cfg->root,
		.threads = (unsigned int)n->cfg->fuse_threads,
		.keeper = n->keeper,
	};
	const struct datapath_ops *kind;
	AUTO_FREE char *path = NULL;
	int rc;

	if (asprintf(&path, "%s/datapath", n->cfg->run) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	kind = choose_kind(n->cfg, &cfg, path, err);
	if (!kind)
		return error_wrap(err, -ENOTSUP, "data path");
	rc = fs_replace_file(path, kind->name, strlen(kind->name), 0644, err);
	if (rc == 0)
		rc = kind->start(&cfg, &n->datapath, err);
	return error_wrap(err, rc, "data path %s", kind->name);
}

/* Before anything in RUN is touched: what lies there may serve another root. */
static int lock_run(struct node *n, struct error *err)
{
	n->run_fd = open(n->cfg->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (n->run_fd < 0)
		return error_set(err, errno, "open '%s': %s%s", n->cfg->run,
				 strerror(errno), error_root_hint(errno));
	if (flock(n->run_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return error_set(err, EBUSY,
				 "another bootseerd uses '%s': end it, or "
				 "choose another --run",
				 n->cfg->run);
	return error_set(err, errno, "lock '%s': %s", n->cfg->run,
			 strerror(errno));
}

static int node_open(struct node *n, struct error *err)
{
	int rc;

	n->started_at = time(NULL);
	rc = wait_policy_parse(n->cfg->wait, &n->wait_policy, err);
	if (rc < 0)
		return rc;
	n->held = getenv(HELD_ENV) != NULL;
	n->gate = gate_new();
	n->origins = origins_new(n->cfg, &n->is_ending);
	if (!n->gate || !n->origins)
		return error_nomem(err);
	rc = fs_mkdir(n->cfg->root, 0700, err);
	if (rc == 0)
		rc = fs_mkdir(n->cfg->run, 0755, err);
	if (rc == 0)
		rc = lock_run(n, err);
	if (rc == 0)
		rc = open_cache(n, err);
	if (rc == 0)
		rc = open_fetcher(n, err);
	if (rc == 0)
		rc = images_open(n->cfg->root, n->cfg->run, &n->images, err);
	if (rc == 0)
		rc = peers_open(n, err);
	if (rc == 0)
		rc = fd_keeper_open(&n->keeper, err);
	if (rc == 0)
		rc = traces_open(n, &n->traces, err);
	if (rc == 0)
		rc = starts_open(n, &n->starts, err);
	if (rc == 0)
		rc = recordings_open(n, &n->recordings, err);
	if (rc == 0)
		rc = open_datapath(n, err);
	if (rc == 0)
		rc = node_prefetch_open(n, err);
	return rc;
}

static void node_close(struct node *n)
{
	starts_close(n->starts);
	n->starts = NULL;
	recordings_close(n->recordings);
	traces_close(n->traces);
	node_prefetch_close(n);
	if (n->datapath)
		node_leave(n);
	fd_keeper_close(n->keeper);
	peers_close(n);
	images_close(n->images);
	fetcher_free(n->fetcher);
	if (n->cache)
		cache_close(n->cache);
	origins_free(n->origins);
	gate_free(n->gate);
	if (n->run_fd >= 0)
		close(n->run_fd);
}

/* -------------------------------------------------------------------- loop --- */

static int on_line(void *arg, const struct server_peer *peer, const char *line,
		   size_t len, struct buf *reply)
{
	(void)peer;
	return node_answer(arg, line, len, reply);
}

static int on_ready_line(void *arg, const struct server_peer *peer,
			 const char *line, size_t len, struct buf *reply)
{
	return node_ready_line(arg, peer->pid, peer->pidfd, line, len, reply);
}

static int on_metrics(void *arg, struct buf *ret)
{
	return node_metrics(arg, ret);
}

static void on_end(struct loop_signal *s, int signo)
{
	struct daemon *d = signo == SIGINT
				   ? container_of(s, struct daemon, on_int)
				   : container_of(s, struct daemon, on_term);

	log_info("main", "ending signal=%d", signo);
	loop_stop(d->loop);
}

static void on_reload(struct loop_signal *s, int signo)
{
	struct daemon *d = container_of(s, struct daemon, on_hup);

	(void)signo;
	origins_reload(d->node.origins);
	atomic_fetch_add(&d->node.events.reloads, 1);
	if (peers_reload(&d->node))
		log_info("main",
			 "reloaded what=\"credentials and certificates\"");
	else
		atomic_fetch_add(&d->node.events.reloads_failed, 1);
}

static int watch_signals(struct daemon *d, struct error *err)
{
	int rc;

	(void)signal(SIGPIPE, SIG_IGN);
	d->on_term.fn = on_end;
	d->on_int.fn = on_end;
	d->on_hup.fn = on_reload;
	rc = loop_signal_start(d->loop, &d->on_term, SIGTERM, err);
	if (rc == 0)
		rc = loop_signal_start(d->loop, &d->on_int, SIGINT, err);
	if (rc == 0)
		rc = loop_signal_start(d->loop, &d->on_hup, SIGHUP, err);
	return rc;
}

static int serve_ready(struct daemon *d, struct error *err)
{
	AUTO_FREE char *path = NULL;
	struct server_config server = {
		.loop = d->loop,
		.line_max = READY_LINE_MAX,
		.everybody = true,
		.answer = on_ready_line,
		.arg = &d->node,
	};
	int rc;

	if (asprintf(&path, "%s/" READY_NAME, d->node.cfg->run) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	server.path = path;
	rc = pool_new(d->loop, 1, SERVER_CONNECTIONS_MAX, &d->ready_pool, err);
	if (rc < 0)
		return rc;
	server.pool = d->ready_pool;
	return server_new(&server, &d->ready, err);
}

static int start_serving(struct daemon *d, struct error *err)
{
	const struct node_config *cfg = d->node.cfg;
	AUTO_FREE char *path = NULL;
	struct server_config server = {
		.loop = d->loop,
		.line_max = CONTROL_REQUEST_MAX,
		.answer = on_line,
		.arg = &d->node,
	};
	int rc;

	if (asprintf(&path, "%s/" SOCKET_NAME, cfg->run) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	server.path = path;
	rc = pool_new(d->loop, SERVER_CALLS_MAX, SERVER_CONNECTIONS_MAX,
		      &d->pool, err);
	if (rc == 0 && cfg->metrics)
		rc = metrics_new(d->loop, cfg->metrics, on_metrics, &d->node,
				 &d->metrics, err);
	server.pool = d->pool;
	if (rc == 0)
		rc = serve_ready(d, err);
	if (rc == 0)
		rc = server_new(&server, &d->server, err);
	if (rc < 0)
		return rc;
	if (d->metrics)
		log_info("main", "metrics port=%u", metrics_port(d->metrics));
	log_info("main", "ready socket=\"%s\" datapath=%s", path,
		 d->node.datapath->ops->name);
	return 0;
}

static void give_up(int signo)
{
	(void)signo;
	_exit(0);
}

static void daemon_stop(struct daemon *d)
{
	(void)signal(SIGALRM, give_up);
	(void)alarm(END_TIMEOUT_S);
	atomic_store(&d->node.is_ending, true);
	metrics_free(d->metrics);
	preheat_close(d->preheat);
	if (d->ready)
		server_stop(d->ready);
	if (d->server)
		server_stop(d->server);
	pool_free(d->ready_pool);
	pool_free(d->pool);
	if (d->loop) {
		loop_signal_stop(&d->on_term);
		loop_signal_stop(&d->on_int);
		loop_signal_stop(&d->on_hup);
		loop_free(d->loop);
	}
	server_free(d->ready);
	server_free(d->server);
	node_close(&d->node);
}

static void run_resume(struct work *w)
{
	struct daemon *d = container_of(w, struct daemon, resume);

	node_prefetch_resume(&d->node);
	peers_resume(&d->node);
}

/* It reads and hashes block maps: nobody waits for that. */
static int resume_prefetches(struct daemon *d, struct error *err)
{
	d->resume.run = run_resume;
	if (pool_submit(d->pool, &d->resume) < 0)
		return error_set(err, EAGAIN, "no thread for the prefetches");
	return 0;
}

static int run(const struct node_config *cfg, struct error *err)
{
	struct daemon d = { .node = { .cfg = cfg, .run_fd = -1 } };
	int rc;

	rc = node_open(&d.node, err);
	if (rc == 0)
		rc = loop_new(&d.loop, err);
	if (rc == 0)
		rc = watch_signals(&d, err);
	if (rc == 0) {
		/* Nothing is answered before every mount is there again. */
		node_restore(&d.node);
		rc = start_serving(&d, err);
	}
	if (rc == 0)
		rc = resume_prefetches(&d, err);
	if (rc == 0)
		rc = preheat_open(&d.node, &d.preheat, err);
	if (rc == 0) {
		notify_send("READY=1");
		rc = loop_run(d.loop, err);
	}
	daemon_stop(&d);
	return rc;
}

/* Run ourselves without --hold, and keep what that one hands over. */
static int run_held(int argc, char **argv, struct error *err)
{
	char **args = calloc((size_t)argc + 1, sizeof(*args));
	int n = 0, i, rc;

	if (!args || setenv(HELD_ENV, "1", 1) < 0) {
		free(args);
		return error_nomem(err);
	}
	for (i = 0; i < argc; i++) {
		if (strncmp(argv[i], "--hold", 6) != 0)
			args[n++] = argv[i];
	}
	rc = hold_run(args, err);
	free(args);
	return rc;
}

static int start(struct node_config *cfg, int argc, char **argv,
		 struct error *err)
{
	enum log_level level;

	if (log_level_parse(cfg->log_level, &level) == 0)
		log_set_level(level);
	if (cfg->list_metrics) {
		node_metrics_list(stdout);
		return 0;
	}
	return cfg->hold ? run_held(argc, argv, err) : run(cfg, err);
}

int main(int argc, char **argv)
{
	struct node_config cfg = { .root = NULL };
	struct error err = ERROR_INIT;
	enum option_action action;
	int operand, rc;

	rc = option_parse(&node_program, &cfg, argc, argv, &action, &operand,
			  &err);
	/* Also for --check-config. */
	if (rc == 0 && cfg.root && cfg.run)
		rc = node_config_check(&cfg, &err);
	if (rc == 0 && cfg.root && cfg.run && action != OPTION_ACTION_RUN)
		rc = peers_check(&cfg, &err);
	if (rc < 0) {
		fprintf(stderr, "bootseerd: %s\n", err.msg);
		option_fini(node_program.options, &cfg);
		return 2;
	}
	if (action == OPTION_ACTION_RUN)
		rc = start(&cfg, argc, argv, &err);
	if (rc < 0)
		log_error("main", "cannot go on reason=\"%s\"", err.msg);
	option_fini(node_program.options, &cfg);
	return rc < 0 ? 1 : rc;
}
