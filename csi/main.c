// SPDX-License-Identifier: Apache-2.0
/* bootseer-csi: the kubelet's plugin for volumes. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/option.h"
#include "common/text.h"
#include "csi/host.h"
#include "csi/service.h"
#include "net/signals.h"
#include "snapshotter/client.h"

#define EXIT_BAD_OPTIONS 2
#define STOP_GRACE_NS (5 * NS_PER_S) /* time for calls under way */
#define NODE_NAME_MAX 192            /* bytes, by the CSI specification */

struct csi_config {
	char *kubelet_dir, *state, *node, *node_name, *programs;
	char **allow;
	char *audience;
	int64_t node_timeout;
	bool enter_host;
	char *log_level, *config;
};

static const char *const log_levels[] = { "error", "warning", "info", "debug",
					  NULL };

static const struct option_spec options[] = {
	{ .key = "allow",
	  .type = OPTION_LIST,
	  .arg = "RULE",
	  .offset = offsetof(struct csi_config, allow),
	  .help = "What pods of a namespace may have: 'namespace=NAME "
		  "kind=KIND' and 'image=PREFIX' or 'store=URL', and for kind "
		  "ckpt also access=, memory=, total=, cache=, "
		  "cache-size=, uid=, gid=, credentials= and role=. What no rule allows is refused." },
	{ .key = "node-name",
	  .type = OPTION_STRING,
	  .arg = "NAME",
	  .offset = offsetof(struct csi_config, node_name),
	  .help = "The name of this node, as Kubernetes knows it; the "
		  "machine's by default." },
	{ .key = "kubelet-dir",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .offset = offsetof(struct csi_config, kubelet_dir),
	  .def = "/var/lib/kubelet",
	  .help = "The kubelet's --root-dir." },
	{ .key = "state",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .offset = offsetof(struct csi_config, state),
	  .def = "/run/bootseer-csi",
	  .help = "Folder of what volumes with a process have: sockets, "
		  "credentials, logs. In memory, so that it ends with the "
		  "mounts." },
	{ .key = "node",
	  .type = OPTION_STRING,
	  .arg = "SOCKET",
	  .offset = offsetof(struct csi_config, node),
	  .def = NODE_SOCKET_DEFAULT,
	  .help = "Reach bootseerd at this Unix socket." },
	{ .key = "node-timeout",
	  .type = OPTION_DURATION,
	  .arg = "TIME",
	  .offset = offsetof(struct csi_config, node_timeout),
	  .def = "90s",
	  .min = "1s",
	  .max = "10m",
	  .help = "Wait for an answer of bootseerd for so long; the kubelet "
		  "asks again after two minutes." },
	{ .key = "programs",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .offset = offsetof(struct csi_config, programs),
	  .help = "Folder of bootseer and bootseer-ckpt, of the node with "
		  "--enter-host; where they are installed by default." },
	{ .key = "token-audience",
	  .type = OPTION_STRING,
	  .arg = "AUDIENCE",
	  .offset = offsetof(struct csi_config, audience),
	  .def = "sts.amazonaws.com",
	  .help = "Which of the tokens of tokenRequests logs in for rules "
		  "with role=." },
	{ .key = "enter-host",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct csi_config, enter_host),
	  .no_file = true,
	  .help = "In a pod with hostPID: join the node's namespaces first." },
	{ .key = "log-level",
	  .type = OPTION_ENUM,
	  .arg = "LEVEL",
	  .offset = offsetof(struct csi_config, log_level),
	  .def = "info",
	  .values = log_levels,
	  .help = "Write lines up to this level." },
	{ .key = "config",
	  .type = OPTION_STRING,
	  .arg = "FILE",
	  .offset = offsetof(struct csi_config, config),
	  .no_file = true,
	  .help = "Read options from this file first." },
	{ .key = NULL },
};

static const struct option_program program = {
	.name = "bootseer-csi",
	.usage = "[OPTIONS]",
	.summary = "The kubelet's plugin for volumes of images, environments "
		   "and checkpoints.",
	.options = options,
	.see_also = "bootseer(1), bootseerd(8)",
};

struct csi_daemon {
	struct loop *loop;
	struct volumes *volumes;
	struct csi_service *service;
	struct grpc_server *server; /* csi.v1 */
	struct grpc_server
		*registration; /* the same table; at another socket */
	char *socket, *registration_first, *registration_socket;
	int lock; /* descriptor that holds the lock on --state; -1: none */
	struct daemon_signals signals;
	struct loop_timer grace;
};

/* --- end of the plugin */

static void on_idle(void *arg)
{
	struct csi_daemon *d = arg;

	loop_stop(d->loop);
}

static void on_grace_over(struct loop_timer *t)
{
	(void)t;
	/* End now: every call may be interrupted anywhere, and the kubelet repeats calls
	 * without an answer. */
	log_warning("main", "ending with calls under way");
	_exit(EXIT_SUCCESS);
}

static void on_signal(void *arg, int signo)
{
	struct csi_daemon *d = arg;
	struct error err = ERROR_INIT;

	log_info("main", "ending: signal=%d", signo);
	notify_send("STOPPING=1");
	/* Removing the socket makes the kubelet forget this plugin. */
	(void)unlink(d->registration_socket);
	grpc_server_drain(d->registration);
	grpc_server_drain(d->server);
	if (loop_timer_start(d->loop, &d->grace, STOP_GRACE_NS, &err) < 0)
		on_grace_over(&d->grace);
	csi_service_when_idle(d->service, on_idle, d);
}

/* ---- the start ---- */

static int make_paths(struct csi_daemon *d, const char *kubelet_dir,
		      struct error *err)
{
	AUTO_FREE char *registry = fs_join(kubelet_dir, "plugins_registry");
	AUTO_FREE char *dir = NULL;
	int rc;

	if (!registry ||
	    asprintf(&dir, "%s/plugins/" CSI_DRIVER, kubelet_dir) < 0)
		return error_nomem(err);
	d->socket = fs_join(dir, "csi.sock");
	d->registration_first = fs_join(dir, "registration.sock");
	d->registration_socket = fs_join(registry, CSI_DRIVER "-reg.sock");
	if (!d->socket || !d->registration_first || !d->registration_socket)
		return error_nomem(err);
	rc = fs_mkdir_p(dir, 0750, err);
	return rc < 0 ? rc : fs_mkdir_p(registry, 0750, err);
}

/* Register with the kubelet.  It connects to a socket as soon as it appears in its folder, so
 * listen at another path first, and rename it into the folder. */
static int register_plugin(struct csi_daemon *d, struct error *err)
{
	int rc =
		grpc_server_listen(d->registration, d->registration_first, err);

	if (rc == 0 &&
	    rename(d->registration_first, d->registration_socket) < 0)
		rc = error_set(err, errno, "move '%s' to '%s': %s",
			       d->registration_first, d->registration_socket,
			       strerror(errno));
	return rc;
}

/* Lock --state, so that no second plugin manages the same volumes. */
static int lock_state(struct csi_daemon *d, const char *state,
		      struct error *err)
{
	d->lock = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->lock < 0)
		return error_set(err, errno, "open '%s': %s", state,
				 strerror(errno));
	return flock(d->lock, LOCK_EX | LOCK_NB) == 0
		       ? 0
		       : error_set(
				 err, EBUSY,
				 "another bootseer-csi uses --state '%s': end "
				 "it first",
				 state);
}

static int open_volumes(struct csi_daemon *d, const struct csi_config *cfg,
			struct error *err)
{
	const struct volumes_config vc = {
		.kubelet_dir = cfg->kubelet_dir,
		.state = cfg->state,
		.node_socket = cfg->node,
		.programs = cfg->programs,
		.audience = cfg->audience,
		.node_timeout_ns = cfg->node_timeout,
	};
	struct volume_policy *policy = NULL;
	int rc = volume_policy_new(cfg->allow, &policy, err);

	if (rc == 0)
		rc = volumes_new(&vc, policy, &d->volumes, err);
	return rc < 0 ? rc : lock_state(d, cfg->state, err);
}

static int start_daemon(struct csi_daemon *d, const struct csi_config *cfg,
			struct error *err)
{
	struct csi_service_config sc = { .node_name = cfg->node_name };
	int rc = make_paths(d, cfg->kubelet_dir, err);

	if (rc == 0)
		rc = open_volumes(d, cfg, err);
	if (rc == 0)
		rc = loop_new(&d->loop, err);
	if (rc == 0)
		rc = daemon_signals_start(&d->signals, d->loop, err);
	if (rc < 0)
		return rc;
	sc.loop = d->loop;
	sc.volumes = d->volumes;
	sc.endpoint = d->socket;
	rc = csi_service_new(&sc, &d->service, err);
	if (rc == 0)
		rc = grpc_server_new(d->loop, csi_service_methods(), d->service,
				     &d->server, err);
	if (rc == 0)
		rc = grpc_server_new(d->loop, csi_service_methods(), d->service,
				     &d->registration, err);
	if (rc == 0)
		rc = grpc_server_listen(d->server, d->socket, err);
	if (rc == 0)
		rc = register_plugin(d, err);
	return rc;
}

static void stop_daemon(struct csi_daemon *d)
{
	grpc_server_free(d->registration);
	grpc_server_free(d->server);
	loop_timer_stop(&d->grace);
	daemon_signals_stop(&d->signals);
	csi_service_stop(d->service);
	loop_free(d->loop);
	csi_service_free(d->service);
	volumes_free(d->volumes);
	if (d->lock >= 0)
		(void)close(d->lock);
	free(d->socket);
	free(d->registration_first);
	free(d->registration_socket);
}

static int serve_kubelet(const struct csi_config *cfg, struct error *err)
{
	struct csi_daemon d = { .lock = -1,
				.signals = { on_signal, NULL, &d },
				.grace.fn = on_grace_over };
	int rc;

	umask(077);
	/* Forbid core dumps: secrets of pods pass through the memory. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	rc = start_daemon(&d, cfg, err);
	if (rc == 0) {
		log_info("main", "listening: socket=\"%s\" node=%s", d.socket,
			 cfg->node_name);
		notify_send("READY=1");
		rc = loop_run(d.loop, err);
	}
	stop_daemon(&d);
	return rc;
}

/* ---- options ---- */

static int check_folder(const char *option, const char *path, struct error *err)
{
	size_t len = strlen(path);

	if (*path == '/' && path[len - 1] != '/')
		return 0;
	return error_set(err, EINVAL,
			 "%s '%.200s': wanted is an absolute path without / at "
			 "its end",
			 option, path);
}

static int fill_defaults(struct csi_config *cfg, struct error *err)
{
	char text[PATH_MAX];
	ssize_t n;

	if (!cfg->node_name) {
		if (gethostname(text, sizeof(text)) < 0)
			return error_set(err, errno, "gethostname: %s",
					 strerror(errno));
		cfg->node_name = strdup(text);
	}
	if (!cfg->programs) {
		/* This program is installed in PREFIX/sbin, `bootseer` in PREFIX/bin. */
		n = readlink("/proc/self/exe", text, sizeof(text) - 1);
		text[n > 0 ? n : 0] = '\0';
		if (asprintf(&cfg->programs, "%s/../bin", dirname(text)) < 0)
			cfg->programs = NULL;
	}
	return cfg->node_name && cfg->programs ? 0 : error_nomem(err);
}

static int check_options(struct csi_config *cfg, struct error *err)
{
	struct volume_policy *policy = NULL;
	int rc = check_folder("--kubelet-dir", cfg->kubelet_dir, err);

	if (rc == 0)
		rc = check_folder("--state", cfg->state, err);
	if (rc == 0)
		rc = check_folder("--node", cfg->node, err);
	if (rc == 0 && cfg->enter_host && !cfg->programs)
		rc = error_set(err, EINVAL,
			       "--enter-host: which folder of the node has "
			       "bootseer and bootseer-ckpt? --programs DIR");
	if (rc == 0)
		rc = fill_defaults(cfg, err);
	if (rc == 0)
		rc = check_folder("--programs", cfg->programs, err);
	if (rc == 0 &&
	    (!*cfg->node_name || !text_is_word(cfg->node_name, NODE_NAME_MAX)))
		rc = error_set(err, EINVAL,
			       "--node-name '%.100s': wanted is a name of 1 to "
			       "%d characters",
			       cfg->node_name, NODE_NAME_MAX);
	if (rc == 0)
		rc = volume_policy_new(cfg->allow, &policy, err);
	if (rc == 0)
		volume_policy_free(policy);
	return rc;
}

int main(int argc, char **argv)
{
	struct csi_config cfg = { .kubelet_dir = NULL };
	enum option_action action = OPTION_ACTION_RUN;
	enum log_level level = LOG_LEVEL_INFO;
	struct error err = ERROR_INIT;
	int first, status = EXIT_SUCCESS;

	if (option_parse(&program, &cfg, argc, argv, &action, &first, &err) <
		    0 ||
	    (action != OPTION_ACTION_EXIT &&
	     (check_options(&cfg, &err) < 0 ||
	      log_level_parse(cfg.log_level, &level) < 0))) {
		(void)option_refuse(&program, &cfg, argc, argv, -1, &err);
		fprintf(stderr, "bootseer-csi: %s\n", err.msg);
		status = EXIT_BAD_OPTIONS;
	} else if (action == OPTION_ACTION_RUN) {
		log_set_level(level);
		if ((cfg.enter_host && host_enter(&err) < 0) ||
		    serve_kubelet(&cfg, &err) < 0) {
			log_error("main", "%s", err.msg);
			status = EXIT_FAILURE;
		}
	}
	option_fini(options, &cfg);
	return status;
}
