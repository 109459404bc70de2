// SPDX-License-Identifier: Apache-2.0
/* bootseer-snapshotter: containerd's proxy plugin. */
#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/option.h"
#include "common/process.h"
#include "common/text.h"
#include "containerd-plugin/cri_proxy.h"
#include "containerd-plugin/service.h"
#include "containerd-plugin/snapshots.h"
#include "net/grpc_server.h"
#include "net/signals.h"
#include "snapshotter/client.h"

#define EXIT_BAD_OPTIONS 2
/* longest address: sun_path less its last byte, and less ".new", which is appended until the
 * socket listens */
#define ADDRESS_MAX 103
#define STOP_GRACE_NS INT64_C(5000000000) /* time for running calls to end */

struct plugin_config {
	char *root;
	char *address;
	char *node;
	int64_t node_timeout;
	int64_t layer_timeout;
	int64_t start_timeout;
	int64_t restore_timeout;
	char *containerd_state;
	char *scope;
	char *image_service;
	char *containerd;
	uint64_t threads;
	char *log_level;
	char *config;
};

static const struct option_spec options[] = {
	{ .key = "root",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .offset = offsetof(struct plugin_config, root),
	  .def = "/var/lib/bootseer-snapshotter",
	  .help = "Keep snapshots and their metadata in this folder." },
	{ .key = "address",
	  .type = OPTION_STRING,
	  .arg = "SOCKET",
	  .offset = offsetof(struct plugin_config, address),
	  .def = "/run/bootseer/snapshotter.sock",
	  .help = "Serve containerd on this Unix socket." },
	{ .key = "node",
	  .type = OPTION_STRING,
	  .arg = "SOCKET",
	  .offset = offsetof(struct plugin_config, node),
	  .def = NODE_SOCKET_DEFAULT,
	  .help = "Reach bootseerd at this Unix socket." },
	{ .key = "node-timeout",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct plugin_config, node_timeout),
	  .def = "30s",
	  .min = "100ms",
	  .max = "10m",
	  .help = "Wait for an answer of bootseerd, or for one that is being "
		  "started again, for so long; then an image is an ordinary "
		  "one." },
	{ .key = "layer-timeout",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct plugin_config, layer_timeout),
	  .def = "15m",
	  .min = "1s",
	  .max = "24h",
	  .help = "Wait for so long while bootseerd downloads a layer that an "
		  "ordinary image shares with a lazy one." },
	{ .key = "start-timeout",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct plugin_config, start_timeout),
	  .def = "60s",
	  .min = "100ms",
	  .max = "10m",
	  .help = "A container waits no longer for what bootseerd has "
		  "prefetched for its start." },
	{ .key = "containerd-state",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .offset = offsetof(struct plugin_config, containerd_state),
	  .def = "/run/containerd",
	  .help = "containerd's state folder: what a container runs is read "
		  "there when no label tells." },
	{ .key = "scope",
	  .type = OPTION_STRING,
	  .arg = "PREFIX",
	  .offset = offsetof(struct plugin_config, scope),
	  .def = "",
	  .help = "Run images of repositories below this prefix only (a host, "
		  "or a host and a path), and lazily also those that bootseerd "
		  "trusts no further.  containerd shares layers between all "
		  "images of a snapshotter, so one without this runs such "
		  "images the ordinary way." },
	{ .key = "image-service",
	  .type = OPTION_STRING,
	  .arg = "SOCKET",
	  .offset = offsetof(struct plugin_config, image_service),
	  .def = "",
	  .help = "Serve the CRI's image service on this Unix socket, for the "
		  "kubelet's imageServiceEndpoint: every call goes to "
		  "containerd as it is, and bootseerd is told the login that a "
		  "pod's pull carries, so that private images start lazily. "
		  "'': do not." },
	{ .key = "containerd",
	  .type = OPTION_STRING,
	  .arg = "SOCKET",
	  .offset = offsetof(struct plugin_config, containerd),
	  .def = "/run/containerd/containerd.sock",
	  .help = "containerd's socket, where calls of --image-service go "
		  "to." },
	{ .key = "restore-timeout",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct plugin_config, restore_timeout),
	  .def = "10s",
	  .min = "0s",
	  .max = "10m",
	  .help = "At start, give bootseerd so long to mount what snapshots "
		  "need; the rest is mounted on use." },
	{ .key = "threads",
	  .type = OPTION_INTEGER,
	  .offset = offsetof(struct plugin_config, threads),
	  .def = "32",
	  .min = "1",
	  .max = "1024",
	  .help = "Serve at most so many slow calls at a time: of those that "
		  "wait for no registry, of those that ask for images, start "
		  "containers on lazy ones, and download layers, so many "
		  "each." },
	OPTION_LOG_LEVEL(offsetof(struct plugin_config, log_level)),
	OPTION_CONFIG(offsetof(struct plugin_config, config)),
	{ .key = NULL },
};

static const struct option_program program = {
	.name = "bootseer-snapshotter",
	.usage = "[OPTIONS]",
	.summary =
		"Serve containerd's Snapshots service: images that bootseerd "
		"has are started lazily, all others are overlayfs snapshots.",
	.options = options,
	.see_also = "bootseerd(8)",
};

struct plugin_daemon {
	struct loop *loop;
	struct snapshots *snapshots;
	struct plugin_service *service;
	struct grpc_server *server;
	struct cri_proxy *images; /* NULL: disabled */
	struct daemon_signals signals;
	struct loop_timer grace;
};

/* ---- ending ---- */

static void on_idle(void *arg)
{
	struct plugin_daemon *d = arg;

	loop_stop(d->loop);
}

static void on_grace_over(struct loop_timer *t)
{
	(void)t;
	/* Running calls may be cut off at any point: every answer was durable before it was
	 * sent, and their threads may wait long for bootseerd. */
	log_warning("main", "ending with calls under way");
	_exit(EXIT_SUCCESS);
}

static void on_signal(void *arg, int signo)
{
	struct plugin_daemon *d = arg;
	struct error err = ERROR_INIT;

	log_info("main", "ending: signal=%d calls=%zu", signo,
		 service_busy(d->service));
	notify_send("STOPPING=1");
	grpc_server_drain(d->server);
	cri_proxy_drain(d->images);
	if (loop_timer_start(d->loop, &d->grace, STOP_GRACE_NS, &err) < 0)
		on_grace_over(&d->grace);
	service_when_idle(d->service, on_idle, d);
}

/* ---- starting ---- */

static int make_parent(const char *path, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);

	if (!copy)
		return error_nomem(err);
	return fs_mkdir(dirname(copy), 0700, err);
}

static void restore_mounts(struct plugin_daemon *d,
			   const struct plugin_config *cfg)
{
	struct error err = ERROR_INIT;

	if (snapshots_restore(d->snapshots, cfg->restore_timeout, &err) < 0)
		log_warning("main",
			    "lazy images are mounted when they are "
			    "used: reason=\"%s\"",
			    err.msg);
}

static int listen_on(struct plugin_daemon *d, const char *address,
		     struct error *err)
{
	int fd = notify_take_socket();
	int rc;

	if (fd >= 0)
		return grpc_server_adopt(d->server, fd, err);
	rc = make_parent(address, err);
	return rc < 0 ? rc : grpc_server_listen(d->server, address, err);
}

/* Start the CRI proxy, after protecting this process's memory, which will contain logins. */
static int start_proxy(struct plugin_daemon *d, const struct plugin_config *cfg,
		       struct error *err)
{
	const struct cri_proxy_config pc = { .address = cfg->image_service,
					     .containerd = cfg->containerd,
					     .node = cfg->node };
	int rc = process_forbid_core(err);

	if (rc == 0)
		rc = make_parent(cfg->image_service, err);
	return rc < 0 ? rc : cri_proxy_new(d->loop, &pc, &d->images, err);
}

static int start(struct plugin_daemon *d, const struct plugin_config *cfg,
		 struct error *err)
{
	const struct snapshots_config sc = {
		.root = cfg->root,
		.node_socket = cfg->node,
		.node_timeout_ns = cfg->node_timeout,
		.layer_timeout_ns = cfg->layer_timeout,
		.start_timeout_ns = cfg->start_timeout,
		.containerd_state = cfg->containerd_state,
		.scope = cfg->scope,
	};
	int rc = loop_new(&d->loop, err);

	if (rc == 0)
		rc = daemon_signals_start(&d->signals, d->loop, err);
	if (rc == 0)
		rc = snapshots_open(&sc, &d->snapshots, err);
	if (rc < 0)
		return rc;
	restore_mounts(d, cfg);
	rc = service_new(d->loop, d->snapshots, cfg->threads, &d->service, err);
	if (rc == 0)
		rc = grpc_server_new(d->loop, service_methods(), d->service,
				     &d->server, err);
	if (rc == 0)
		rc = listen_on(d, cfg->address, err);
	if (rc == 0 && *cfg->image_service)
		rc = start_proxy(d, cfg, err);
	return rc;
}

static void stop(struct plugin_daemon *d)
{
	grpc_server_free(d->server);
	loop_timer_stop(&d->grace);
	daemon_signals_stop(&d->signals);
	snapshots_service_stop(d->service);
	cri_proxy_stop(d->images);
	loop_free(d->loop);
	cri_proxy_free(d->images);
	service_free(d->service);
	snapshots_close(d->snapshots);
}

static int serve_snapshots(const struct plugin_config *cfg, struct error *err)
{
	struct plugin_daemon d = { .signals = { on_signal, NULL, &d },
				   .grace.fn = on_grace_over };
	int rc;

	umask(077);
	rc = start(&d, cfg, err);
	if (rc == 0) {
		log_info("main", "listening: address=\"%s\" root=\"%s\"",
			 cfg->address, cfg->root);
		notify_send("READY=1");
		rc = loop_run(d.loop, err);
	}
	stop(&d);
	return rc;
}

static int check_absolute(const char *option, const char *path,
			  struct error *err)
{
	if (*path == '/')
		return 0;
	return error_set(err, EINVAL,
			 "%s '%.120s' is no absolute path: begin it with /",
			 option, path);
}

/* Check that the address can be a socket, and that its folder can be made. */
static int check_address(const char *option, const char *address,
			 struct error *err)
{
	AUTO_FREE char *copy = strdup(address);
	struct stat st;
	int rc;

	if (!copy)
		return error_nomem(err);
	rc = fs_check_parent(dirname(copy), err);
	if (rc < 0)
		return error_wrap(err, rc, "%s", option);
	if (strlen(address) > ADDRESS_MAX)
		return error_set(err, ENAMETOOLONG,
				 "%s '%.120s' has over %d bytes: choose a "
				 "shorter path",
				 option, address, ADDRESS_MAX);
	if (lstat(address, &st) == 0 && !S_ISSOCK(st.st_mode))
		return error_set(err, EEXIST,
				 "%s '%s' is there, and no socket: name "
				 "another, or move it away first",
				 option, address);
	return 0;
}

static int check_proxy(const struct plugin_config *cfg, struct error *err)
{
	int rc = check_absolute("--image-service", cfg->image_service, err);

	if (rc == 0)
		rc = check_absolute("--containerd", cfg->containerd, err);
	if (rc == 0)
		rc = check_address("--image-service", cfg->image_service, err);
	if (rc == 0 && (strcmp(cfg->image_service, cfg->containerd) == 0 ||
			strcmp(cfg->image_service, cfg->address) == 0))
		rc = error_set(err, EINVAL,
			       "--image-service '%s' is another program's "
			       "socket: name one of its own",
			       cfg->image_service);
	return rc;
}

static int check_paths(const struct plugin_config *cfg, struct error *err)
{
	int rc = check_absolute("--root", cfg->root, err);

	if (rc == 0)
		rc = check_absolute("--address", cfg->address, err);
	if (rc == 0)
		rc = check_absolute("--node", cfg->node, err);
	if (rc == 0)
		rc = check_absolute("--containerd-state", cfg->containerd_state,
				    err);
	if (rc < 0)
		return rc;
	rc = fs_check_parent(cfg->root, err);
	if (rc < 0)
		return error_wrap(err, rc, "--root");
	rc = check_address("--address", cfg->address, err);
	return rc < 0 || !*cfg->image_service ? rc : check_proxy(cfg, err);
}

static int check_scope(const struct plugin_config *cfg, struct error *err)
{
	if (!cfg->scope || !*cfg->scope ||
	    text_is_repo_prefix(cfg->scope, strlen(cfg->scope)))
		return 0;
	return error_set(err, EINVAL,
			 "--scope '%.200s': wanted is HOST[:PORT][/PATH] as in "
			 "names of images, without docker://, tag, or / at the "
			 "end",
			 cfg->scope);
}

int main(int argc, char **argv)
{
	struct plugin_config cfg = { .root = NULL };
	enum option_action action = OPTION_ACTION_RUN;
	enum log_level level = LOG_LEVEL_INFO;
	struct error err = ERROR_INIT;
	int first, status = EXIT_SUCCESS;

	if (option_parse(&program, &cfg, argc, argv, &action, &first, &err) <
		    0 ||
	    check_paths(&cfg, &err) < 0 || check_scope(&cfg, &err) < 0 ||
	    (action == OPTION_ACTION_RUN &&
	     log_level_parse(cfg.log_level, &level) < 0)) {
		(void)option_refuse(&program, &cfg, argc, argv, -1, &err);
		fprintf(stderr, "bootseer-snapshotter: %s\n", err.msg);
		status = EXIT_BAD_OPTIONS;
	} else if (action == OPTION_ACTION_RUN) {
		log_set_level(level);
		if (serve_snapshots(&cfg, &err) < 0) {
			log_error("main", "%s", err.msg);
			status = EXIT_FAILURE;
		}
	}
	option_fini(options, &cfg);
	return status;
}
