// SPDX-License-Identifier: Apache-2.0
/*
 * bootseerd: puts its parts together in the order in which they depend on each other, runs the
 * loop, and takes the parts down again.  (origin.c composes the sources.)
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "blockstore/cache_mount.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/process.h"
#include "fuse/fuse.h"
#include "net/control_server.h"
#include "net/lanes.h"
#include "net/signals.h"
#include "snapshotter/datapath.h"
#include "snapshotter/node/control/control.h"
#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/holder.h"
#include "snapshotter/node/control/housekeeper.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/control/preheat.h"
#include "snapshotter/node/control/ready_server.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/kept_logins.h"
#include "snapshotter/node/images/keyed_lock.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/mirror/mirror.h"
#include "snapshotter/node/parser/confine.h"
#include "snapshotter/node/offers/offers.h"
#include "snapshotter/node/parser/parser.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/starts/mount.h"
#include "snapshotter/node/starts/image_closure.h"
#include "snapshotter/node/starts/prefetch.h"
#include "snapshotter/node/starts/record.h"
#include "snapshotter/node/starts/starts.h"
#include "snapshotter/node/traces/trace_lookup.h"
#include "snapshotter/node/trust/admission.h"
#include "snapshotter/node/trust/key_revocations.h"
#include "snapshotter/node/constants.h"

#define SOCKET_NAME "bootseerd.sock"
#define QUICK_THREADS 16
#define WAITING_THREADS 64
#define REMOTE_THREADS 32
#define SCRAPES_MAX 64
#define LANE_WAITING_MAX 64 /* calls in the queue of one registry */
/* Threads that calls to registries without a recent answer may use together; the rest is for
 * registries that do answer. */
#define STRANGE_MAX (REMOTE_THREADS / 2)
/* Calls may still wait for a registry when bootseerd ends.  All durable state is on disk at any
 * moment, so they are waited for no longer than this. */
#define END_TIMEOUT_S 10

struct node_daemon {
	struct node node;
	struct work resume; /* resumes prefetches after a restart */
	struct loop *loop;
	struct pool *pools[CONTROL_KINDS];
	struct lanes *lanes; /* one lane for each registry */
	struct control_server *server;
	/* apart from `server`, since every process may flood it */
	struct ready_server *ready;
	/* serves --metrics, on threads of its own */
	struct control_server *metrics;
	/* threads of `metrics`, which visits every block */
	struct pool *scrapes;
	struct preheat *preheat;
	struct holder_watch holder;
	struct housekeeper *housekeeper;
	struct daemon_signals signals;
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
		return error_errno(err, errno, "'%s'", n->cfg->root);
	cfg.dir = dir;
	cfg.scrub_every_ns = NODE_SCRUB_EVERY_NS;
	cfg.scrub_rate = NODE_SCRUB_RATE;
	cfg.min_free =
		(uint64_t)vfs.f_blocks * vfs.f_frsize / 100 * n->min_free;
	return cache_open(&cfg, &n->cache, err);
}

static int open_fetcher(struct node *n, struct error *err)
{
	uint64_t max = n->cfg->fetch_window_max;
	const struct fetcher_config cfg = {
		.threads = NODE_FETCH_THREADS,
		.window =
			(uint32_t)(max < NODE_FETCH_WINDOW ? max
							   : NODE_FETCH_WINDOW),
		.window_max = (uint32_t)max,
		.demand_timeout_ns = n->cfg->read_timeout,
		.cache = n->cache,
	};

	return fetcher_new(&cfg, &n->fetcher, err);
}

/* The kind of data path whose mounts an earlier bootseerd may have left in RUN. */
static const struct datapath_ops *read_former_datapath_kind(const char *path)
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
	kind = read_former_datapath_kind(path);
	if (kind)
		return kind;
	for (k = datapath_kinds; *k; k++) {
		why = (struct error)ERROR_INIT;
		if ((*k)->probe(dp, &why) == 0)
			return *k;
		log_info("main", "datapath %s reason=\"%s\"", (*k)->name,
			 why.msg);
		/* If the message has no room for the reason, the log still has it. */
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
		.threads = NODE_FUSE_THREADS,
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

/* Lock RUN before anything in it is changed: another bootseerd, of another ROOT, may be using
 * it. */
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
	return error_errno(err, errno, "lock '%s'", n->cfg->run);
}

/*
 * Make the folders of ROOT and RUN closed to other users, also where an earlier version left
 * them open.  Images hold set-uid programs and files that only their users may read, and no
 * user of this machine may reach them through our folders.
 */
static int make_folders(const struct node_config *cfg, struct error *err)
{
	static const char *const in_root[] = { "images",           "cache",
					       "traces",           "p2p",
					       TRUST_REVOKED_NAME, NULL };
	static const char *const in_run[] = { "images", "datapath", SOCKET_NAME,
					      "snapshotter.sock", NULL };
	int rc = fs_mkdir_private(cfg->root, in_root, err);

	return rc < 0 ? rc : fs_mkdir_private(cfg->run, in_run, err);
}

static int open_trust(struct node *n, struct error *err)
{
	struct key_revocations_config cfg;
	int rc;

	key_revocations_config_of(n->cfg, &cfg);
	rc = key_revocations_open(&cfg, &n->key_revocations, err);
	return rc < 0 ? rc
		      : admission_open(n->cfg, n->key_revocations,
				       &n->admission, err);
}

static int open_logins(struct node *n, struct error *err)
{
	int rc = kept_logins_open(n->cfg, &n->logins, err);

	if (rc == 0)
		origins_use_logins(n->origins, kept_logins_table(n->logins));
	return rc;
}

static int open_peers(struct node *n, struct error *err)
{
	const struct image_swarms_of of = { .cfg = n->cfg,
					    .cache = n->cache,
					    .images = n->images,
					    .origins = n->origins,
					    .parser = n->parser,
					    .is_ending = &n->is_ending };

	return image_swarms_open(&of, &n->peers, err);
}

static int open_disk(struct node *n, struct error *err)
{
	const struct disk_of of = { .cfg = n->cfg,
				    .min_free = n->min_free,
				    .cache = n->cache,
				    .gc = &n->gc };
	int rc;

	n->gc = (struct gc){ .images = n->images,
			     .cache = n->cache,
			     .gate = n->gate };
	rc = disk_open(&of, &n->disk, err);
	n->room = (struct disk_room){ .disk = n->disk,
				      .reserve = disk_reserve,
				      .settle = disk_settle };
	return rc;
}

static int open_offers(struct node *n, struct error *err)
{
	const struct offers_of of = { .cfg = n->cfg,
				      .admission = n->admission,
				      .origins = n->origins,
				      .room = &n->room,
				      .is_ending = &n->is_ending };

	return offers_open(&of, &n->offers, err);
}

static int open_mirror(struct node *n, struct error *err)
{
	const struct mirror_of of = { .cfg = n->cfg,
				      .origins = n->origins,
				      .peers = n->peers,
				      .room = &n->room,
				      .is_ending = &n->is_ending };

	return mirror_open(&of, &n->mirror, err);
}

/* The parts of the node with which prefetches and mounts open images. */
static struct mounted_of parts_for_mounting(const struct node *n)
{
	return (struct mounted_of){ .cache = n->cache,
				    .fetcher = n->fetcher,
				    .origins = n->origins,
				    .parser = n->parser,
				    .peers = n->peers,
				    .gate = n->gate,
				    .is_ending = &n->is_ending,
				    .prepare_timeout_ns =
					    n->cfg->prepare_timeout };
}

static int open_prefetch_part(struct node *n, struct error *err)
{
	const struct prefetches_of of = { .cfg = n->cfg,
					  .min_free = n->min_free,
					  .images = n->images,
					  .opens = parts_for_mounting(n),
					  .n_unready = &n->n_unready_starts };
	int rc = node_prefetch_open(&of, &n->prefetches, err);

	return rc < 0 ? rc
		      : closure_searches_new(n->origins, n->prefetches,
					     &n->is_ending, &n->searches, err);
}

static int open_traces(struct node *n, struct error *err)
{
	const struct trace_user user =
		node_prefetch_trace_user(n->cfg, n->searches);

	return trace_lookup_open(n->cfg, n->origins, &n->is_ending, &user,
				 &n->traces, err);
}

static int open_starts(struct node *n, struct error *err)
{
	const struct starts_of of = { .cfg = n->cfg,
				      .origins = n->origins,
				      .peers = n->peers,
				      .gate = n->gate,
				      .prefetches = n->prefetches,
				      .traces = n->traces,
				      .n_unready = &n->n_unready_starts };
	int rc = starts_open(&of, &n->starts, err);

	if (rc == 0)
		node_prefetch_ask_starts(n->prefetches, n->starts,
					 starts_mark_read);
	return rc;
}

static int open_mounts(struct node *n, struct error *err)
{
	const struct mounts_of of = { .cfg = n->cfg,
				      .images = n->images,
				      .datapath = n->datapath,
				      .prefetches = n->prefetches,
				      .starts = n->starts,
				      .opens = parts_for_mounting(n) };
	int rc = mounts_open(&of, &n->mounts, err);

	return rc < 0 ? rc
		      : recordings_open(&of, n->mounts, &n->recordings, err);
}

static void set_environments(struct node *n)
{
	n->environments = (struct environments){ .cfg = n->cfg,
						 .disk = n->disk,
						 .gc = &n->gc,
						 .images = n->images,
						 .origins = n->origins,
						 .parser = n->parser,
						 .peers = n->peers,
						 .gate = n->gate,
						 .mounts = n->mounts,
						 .prefetches = n->prefetches,
						 .starts = n->starts,
						 .is_ending = &n->is_ending };
}

static int node_open(struct node *n, struct error *err)
{
	int rc;

	n->started_at = time(NULL);
	n->held = getenv(HOLDER_ENV) != NULL;
	n->gate = keyed_lock_new();
	memory_gate_init(&n->windows, NODE_WINDOWS_MAX, NODE_WINDOWS_EACH);
	n->origins = origins_new(n->cfg, &n->is_ending, oci_store_open);
	if (!n->gate || !n->origins)
		return error_nomem(err);
	rc = parser_open("/proc/self/exe", &n->parser, err);
	if (rc == 0)
		rc = make_folders(n->cfg, err);
	if (rc == 0)
		rc = lock_run(n, err);
	if (rc == 0)
		rc = open_logins(n, err);
	if (rc == 0)
		rc = disk_choose_min_free(n->cfg, &n->min_free, err);
	if (rc == 0)
		rc = open_trust(n, err);
	if (rc == 0)
		rc = open_cache(n, err);
	if (rc == 0)
		rc = open_fetcher(n, err);
	if (rc == 0)
		rc = images_open(n->cfg->root, n->cfg->run, &n->images, err);
	if (rc == 0)
		rc = open_disk(n, err);
	if (rc == 0)
		rc = open_peers(n, err);
	if (rc == 0)
		rc = fd_keeper_open(&n->keeper, err);
	if (rc == 0)
		rc = open_offers(n, err);
	if (rc == 0)
		rc = open_prefetch_part(n, err);
	if (rc == 0)
		rc = open_traces(n, err);
	if (rc == 0)
		rc = open_starts(n, err);
	if (rc == 0)
		rc = open_datapath(n, err);
	if (rc == 0)
		rc = open_mounts(n, err);
	set_environments(n);
	return rc < 0 ? rc : open_mirror(n, err);
}

/* Leave the mounts to the next bootseerd if a holder or systemd keeps their descriptors; else
 * unmount those that need this process. */
static void close_mounts(struct node *n)
{
	bool keep;

	if (!n->datapath)
		return;
	keep = !n->held && fd_keeper_is_durable(n->keeper);
	if (!keep && n->mounts)
		mounts_take_down(n->mounts);
	n->datapath->ops->stop(n->datapath, keep);
	mounts_close(n->mounts);
}

static void node_close(struct node *n)
{
	if (n->cache)
		cache_on_damage(n->cache, NULL, NULL);
	mirror_close(n->mirror);
	if (n->prefetches)
		node_prefetch_ask_starts(n->prefetches, NULL, NULL);
	if (n->mounts)
		mounts_forget_starts(n->mounts);
	starts_close(n->starts);
	recordings_close(n->recordings);
	offers_close(n->offers);
	trace_lookup_close(n->traces);
	closure_searches_free(n->searches);
	node_prefetch_close(n->prefetches);
	close_mounts(n);
	fd_keeper_close(n->keeper);
	image_swarms_close(n->peers);
	images_close(n->images);
	disk_close(n->disk);
	fetcher_free(n->fetcher);
	if (n->cache)
		cache_close(n->cache);
	admission_close(n->admission);
	key_revocations_close(n->key_revocations);
	origins_free(n->origins);
	kept_logins_close(n->logins);
	keyed_lock_free(n->gate);
	memory_gate_fini(&n->windows);
	parser_close(n->parser);
	if (n->run_fd >= 0)
		close(n->run_fd);
}

/* -------------------------------------------------------------------- loop --- */

static int on_call(void *arg, struct control_call *call, struct buf *reply)
{
	return node_answer(arg, call, reply);
}

static void tell_registry_is_busy(const char *lane, char *ret, size_t size)
{
	(void)snprintf(ret, size,
		       "registry %.80s: too many calls wait for it already: it "
		       "is slow or out of reach (bootseer node doctor "
		       "--registry)",
		       lane);
}

static int metrics_text(void *arg, struct buf *ret)
{
	return node_metrics(arg, ret);
}

static int on_scrape(void *arg, struct control_call *call, struct buf *reply)
{
	return control_figures(call, metrics_text, arg, reply);
}

static void on_end(void *arg, int signo)
{
	struct node_daemon *d = arg;

	log_info("main", "ending signal=%d", signo);
	loop_stop(d->loop);
}

static void on_reload(void *arg)
{
	struct node_daemon *d = arg;
	struct error err = ERROR_INIT;
	bool is_good;

	origins_reload(d->node.origins);
	admission_reload(d->node.admission);
	atomic_fetch_add(&d->node.events.reloads, 1);
	is_good = key_revocations_reload(d->node.key_revocations, &err) == 0;
	if (!is_good)
		log_warning("trust",
			    "the old list of revoked keys stays reason=\"%s\"",
			    err.msg);
	if (image_swarms_reload(d->node.peers) && is_good)
		log_info("main",
			 "reloaded what=\"credentials and certificates\"");
	else
		atomic_fetch_add(&d->node.events.reloads_failed, 1);
}

static int open_pools(struct node_daemon *d, struct error *err)
{
	static const size_t threads[CONTROL_KINDS] = {
		[CONTROL_QUICK] = QUICK_THREADS,
		[CONTROL_WAITS] = WAITING_THREADS,
		[CONTROL_REMOTE] = REMOTE_THREADS,
	};
	const struct lanes_config lanes = {
		.all = REMOTE_THREADS,
		.at_once = NODE_REGISTRY_CALLS,
		.waiting = LANE_WAITING_MAX,
		.strange_most = STRANGE_MAX,
	};
	int rc = 0;

	d->lanes = lanes_new(&lanes);
	if (!d->lanes)
		return error_nomem(err);
	for (size_t k = 0; rc == 0 && k < CONTROL_KINDS; k++)
		rc = pool_new(d->loop, threads[k], CONTROL_CONNECTIONS_MAX,
			      &d->pools[k], err);
	return rc;
}

static int serve_metrics(struct node_daemon *d, struct error *err)
{
	struct control_server_config cfg = {
		.loop = d->loop,
		.name = "metrics",
		.listen = d->node.cfg->metrics,
		.option = "--metrics",
		.answer = on_scrape,
		.arg = &d->node,
	};
	int rc;

	if (!cfg.listen)
		return 0;
	rc = pool_new(d->loop, 1, SCRAPES_MAX, &d->scrapes, err);
	cfg.pools[CONTROL_QUICK] = d->scrapes;
	if (rc == 0)
		rc = control_server_new(&cfg, &d->metrics, err);
	return error_wrap(err, rc, "metrics");
}

static int start_serving(struct node_daemon *d, struct error *err)
{
	const struct node_config *cfg = d->node.cfg;
	AUTO_FREE char *path = NULL;
	struct control_server_config server = {
		.loop = d->loop,
		.name = "control",
		.option = "choose another --run",
		.body_max = CONTROL_REQUEST_MAX,
		.lane_is_full = tell_registry_is_busy,
		.answer = on_call,
		.arg = &d->node,
	};
	int rc;

	if (asprintf(&path, "%s/" SOCKET_NAME, cfg->run) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	server.path = path;
	rc = open_pools(d, err);
	if (rc == 0)
		rc = serve_metrics(d, err);
	memcpy(server.pools, d->pools, sizeof(server.pools));
	server.lanes = d->lanes;
	if (rc == 0)
		rc = ready_server_start(&d->node, &d->ready, err);
	if (rc == 0)
		rc = control_server_new(&server, &d->server, err);
	if (rc < 0)
		return rc;
	if (d->metrics)
		log_info("main", "metrics port=%u",
			 control_server_port(d->metrics));
	log_info("main", "ready socket=\"%s\" datapath=%s", path,
		 d->node.datapath->ops->name);
	return 0;
}

static void exit_on_signal(int signo)
{
	(void)signo;
	_exit(0);
}

static void daemon_stop(struct node_daemon *d)
{
	(void)signal(SIGALRM, exit_on_signal);
	(void)alarm(END_TIMEOUT_S);
	atomic_store(&d->node.is_ending, true);
	if (d->metrics)
		control_server_stop(d->metrics);
	pool_free(d->scrapes);
	preheat_close(d->preheat);
	housekeeper_stop(d->housekeeper);
	ready_server_stop(d->ready);
	if (d->server)
		control_server_stop(d->server);
	for (size_t k = 0; k < CONTROL_KINDS; k++)
		pool_free(d->pools[k]);
	if (d->loop) {
		daemon_signals_stop(&d->signals);
		holder_watch_stop(&d->holder);
		loop_free(d->loop);
	}
	control_server_free(d->metrics);
	control_server_free(d->server);
	lanes_free(d->lanes);
	housekeeper_free(d->housekeeper);
	node_close(&d->node);
}

static void run_resume(struct work *w)
{
	struct node_daemon *d = container_of(w, struct node_daemon, resume);

	node_prefetch_resume(d->node.prefetches);
	image_swarms_resume(d->node.peers);
}

/* Prefetches are resumed on a thread that may wait, since block maps are read and hashed. */
static int resume_prefetches(struct node_daemon *d, struct error *err)
{
	d->resume.run = run_resume;
	if (pool_submit(d->pools[CONTROL_WAITS], &d->resume) < 0)
		return error_set(err, EAGAIN, "no thread for the prefetches");
	return 0;
}

/* Confine the process by the function `by`.  If only a part works, log that and go on; `node
 * doctor` shows it too. */
static void confine_process(int (*by)(struct error *))
{
	struct error err = ERROR_INIT;

	if (by(&err) < 0)
		log_warning("main", "not wholly confined reason=\"%s\"",
			    err.msg);
}

/* Restore mounted environments; images can start even if that fails. */
static void environments_restore(struct node *n)
{
	struct error err = ERROR_INIT;

	if (environments_open(&n->environments, &err) < 0)
		log_error("environment",
			  "mounts of earlier are not all cleared away "
			  "reason=\"%s\"",
			  err.msg);
}

static int run_node(const struct node_config *cfg, struct error *err)
{
	struct node_daemon d = { .node = { .cfg = cfg, .run_fd = -1 },
				 .signals = { on_end, on_reload, &d } };
	int rc;

	/* SIGIO comes when a process opens a file of the cache while fs_is_in_use() holds a
	 * lease on it. */
	(void)signal(SIGIO, SIG_IGN);
	/* Forbid core dumps: the process has logins in its memory. */
	confine_process(process_forbid_core);
	/* Confine before threads start: they inherit it. */
	confine_process(confine_node);
	rc = node_open(&d.node, err);
	if (rc == 0)
		rc = loop_new(&d.loop, err);
	if (rc == 0)
		rc = daemon_signals_start(&d.signals, d.loop, err);
	if (rc == 0)
		rc = holder_watch_start(&d.holder, d.loop, &d.node, err);
	if (rc == 0) {
		/* Answer calls only when every mount is restored. */
		environments_restore(&d.node);
		mounts_restore(d.node.mounts);
		rc = start_serving(&d, err);
	}
	if (rc == 0)
		rc = resume_prefetches(&d, err);
	if (rc == 0)
		rc = housekeeper_start(&d.node, d.loop, d.pools[CONTROL_WAITS],
				       &d.housekeeper, err);
	if (rc == 0)
		rc = preheat_open(&d.node, &d.preheat, err);
	if (rc == 0) {
		notify_send("READY=1");
		rc = loop_run(d.loop, err);
	}
	daemon_stop(&d);
	return rc;
}

/* Be the holder: run bootseerd without --hold as a child, and keep the descriptors that it
 * hands over. */
static int run_as_holder(int argc, char **argv, struct error *err)
{
	char **args = calloc((size_t)argc + 1, sizeof(*args));
	char self[16];
	int n = 0, i, rc;

	(void)snprintf(self, sizeof(self), "%d", getpid());
	if (!args || setenv(HOLDER_ENV, self, 1) < 0) {
		free(args);
		return error_nomem(err);
	}
	for (i = 0; i < argc; i++) {
		if (strncmp(argv[i], "--hold", 6) != 0)
			args[n++] = argv[i];
	}
	confine_process(confine_holder);
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
	return cfg->hold ? run_as_holder(argc, argv, err) : run_node(cfg, err);
}

/* bootseerd needs root: it mounts, unpacks and opens /dev/fuse. */
static int check_user(struct error *err)
{
	if (geteuid() == 0)
		return 0;
	return error_set(
		err, EPERM,
		"it mounts file systems, which user %u may not: run it "
		"as root (sudo bootseerd, or systemctl start bootseerd)",
		geteuid());
}

int main(int argc, char **argv)
{
	struct node_config cfg = { .root = NULL };
	struct error err = ERROR_INIT;
	enum option_action action;
	int operand, rc;

	if (argc == 1 && strcmp(argv[0], PARSER_NAME) == 0)
		return parser_main();
	if (argc == 1 && strcmp(argv[0], OFFERS_CHILD_NAME) == 0)
		return offers_child_main();
	daemon_signals_hold();
	rc = option_parse(&node_program, &cfg, argc, argv, &action, &operand,
			  &err);
	if (rc == 0)
		rc = node_config_complete(&cfg, &err);
	/* Also done for --check-config. */
	if (rc == 0 && cfg.root && cfg.run)
		rc = node_config_check(&cfg, &err);
	if (rc == 0 && cfg.root && cfg.run && action != OPTION_ACTION_RUN)
		rc = image_swarms_check(&cfg, &err);
	if (rc == 0 && cfg.root && cfg.run && action != OPTION_ACTION_RUN)
		rc = key_revocations_check(cfg.trust_revoked_file, &err);
	if (rc == 0 && cfg.root && cfg.run && action == OPTION_ACTION_CHECK)
		rc = admission_check_files(&cfg, &err);
	if (rc == 0 && cfg.root && cfg.run && action == OPTION_ACTION_CHECK)
		rc = kept_logins_check(&cfg, &err);
	rc = option_refuse(&node_program, &cfg, argc, argv, rc, &err);
	if (rc == 0 && action == OPTION_ACTION_RUN && !cfg.list_metrics)
		rc = check_user(&err);
	if (rc < 0) {
		fprintf(stderr, "bootseerd: %s\n", err.msg);
		node_config_fini(&cfg);
		return 2;
	}
	if (action == OPTION_ACTION_RUN)
		rc = start(&cfg, argc, argv, &err);
	if (rc < 0)
		log_error("main", "cannot go on reason=\"%s\"", err.msg);
	node_config_fini(&cfg);
	return rc < 0 ? 1 : rc;
}
