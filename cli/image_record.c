// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer image record`: start a container of an image once, and have bootseerd record what it
 * reads until it is ready.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cli/bundle.h"
#include "cli/command.h"
#include "cli/container.h"
#include "cli/image.h"
#include "cli/leftovers.h"
#include "cli/node_ask.h"
#include "cli/rootfs.h"
#include "cli/trace.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/text.h"
#include "recorder/recorder.h"

#define FIGURES_MS 30000 /* longest wait for bootseerd to sum up */
#define FIGURES_LOOK_MS 50
#define USERS_FILE_MAX (4u << 20)

struct record_config {
	struct node_options node;
	bool plain_http;
	int64_t window;
	char *ready_file, *ready_line, *workload, *output;
	char **env, **mounts;
};

static const struct option_spec options[] = {
	{ .key = "window",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct record_config, window),
	  .def = "120s",
	  .min = "1s",
	  .max = "1h",
	  .help = "Record no longer than this." },
	{ .key = "ready-file",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct record_config, ready_file),
	  .arg = "FILE",
	  .help = "It is ready when this file is there, a path in the "
		  "container." },
	{ .key = "ready-line",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct record_config, ready_line),
	  .arg = "REGEX",
	  .help = "It is ready when it prints a line that this matches, an "
		  "extended regular expression." },
	{ .key = "workload",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct record_config, workload),
	  .arg = "KEY",
	  .help = "Keep the recording under this name; default is made of the "
		  "words that are started." },
	{ .key = "output",
	  .letter = 'o',
	  .type = OPTION_STRING,
	  .offset = offsetof(struct record_config, output),
	  .arg = "FILE",
	  .help = "Write the node's trace of this workload here, too, as "
		  "'bootseer trace push' takes it." },
	{ .key = "env",
	  .letter = 'e',
	  .type = OPTION_LIST,
	  .offset = offsetof(struct record_config, env),
	  .arg = "NAME=VALUE",
	  .help = "Set a variable of the container's environment." },
	{ .key = "mount",
	  .type = OPTION_LIST,
	  .offset = offsetof(struct record_config, mounts),
	  .arg = "SRC:DST[:ro]",
	  .help = "Show a file or folder of this machine in the "
		  "container." },
	IMAGE_PLAIN_HTTP_OPTION(offsetof(struct record_config, plain_http)),
	NODE_OPTIONS(struct record_config),
	{ .key = NULL },
};

/* A recording. */
struct record_job {
	const struct record_config *cfg;
	char *const *command;
	struct node_client *node;
	struct digest id, manifest;
	char user[64];
	json_t *reply; /* bootseerd's reply to image.record */
	int signal_fd;
	int64_t until_ns;
	enum container_event event;
	int status;         /* if the container ended */
	long long ready_ms; /* -1: not ready */
};

/* Block the signals that end the recording and read them from a descriptor, to clean up first. */
static int catch_signals(int *ret, struct error *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
	    signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return error_errno(err, errno, "signals");
	*ret = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret < 0 ? error_errno(err, errno, "signals") : 0;
}

/* ------------------------------------------------------------------ bootseerd --- */

static json_t *image_id_json(const struct record_job *j)
{
	char text[DIGEST_STR_MAX];

	digest_format(&j->id, text);
	return json_string(text);
}

/* The key for the command; 0 and NULL: the image's own command is used. */
static int get_workload_key(const struct record_job *j, char **ret,
			    struct error *err)
{
	size_t n = 0;

	*ret = NULL;
	if (!j->cfg->workload && !*j->command)
		return 0;
	while (j->command[n])
		n++;
	*ret = j->cfg->workload
		       ? strdup(j->cfg->workload)
		       : trace_workload_key((const char *const *)j->command, n);
	return *ret ? 0 : error_nomem(err);
}

static int begin_recording(struct record_job *j, const char *ref,
			   struct error *err)
{
	const struct node_image_query q = {
		.ref = ref,
		.plain_http = j->cfg->plain_http,
	};
	struct node_image image = { .chain_ids = NULL };
	AUTO_FREE char *workload = NULL;
	json_t *params;
	int rc = node_image_prepare(j->node, &q, &image, err);

	if (rc == 0)
		rc = get_workload_key(j, &workload, err);
	if (rc < 0)
		return rc;
	if (image.warning) {
		text_make_printable(image.warning);
		fprintf(stderr, "bootseer: warning: %s\n", image.warning);
	}
	j->id = image.id;
	j->manifest = image.manifest;
	node_image_fini(&image);
	(void)snprintf(j->user, sizeof(j->user), "record/%d-%" PRId64,
		       (int)getpid(), clock_now_ns());
	params = json_pack("{s:o, s:s, s:s*, s:I}", "id", image_id_json(j),
			   "user", j->user, "workload", workload, "window_ms",
			   (json_int_t)(j->cfg->window / NS_PER_MS));
	rc = node_ask_on(j->node, "image.record", params, &j->reply, err);
	j->until_ns = clock_now_ns() + j->cfg->window;
	return rc;
}

static void end_recording(struct record_job *j)
{
	struct error err = ERROR_INIT;

	if (node_image_umount(j->node, &j->id, j->user, &err) < 0)
		fprintf(stderr, "bootseer: the recording's mount stays: %s\n",
			err.msg);
}

static int report_start_ready(struct record_job *j, struct error *err)
{
	AUTO_JSON *reply = NULL;
	int rc = node_ask_on(j->node, "start.ready",
			     json_pack("{s:I}", "start",
				       (json_int_t)reply_number(j->reply,
								"start")),
			     &reply, err);

	if (rc == 0)
		j->ready_ms = reply_number(reply, "ready_ms");
	return rc;
}

/* ------------------------------------------------------------------ container --- */

static int write_bundle(struct record_job *j, const struct rootfs *r,
			struct error *err)
{
	const char *text = reply_raw(j->reply, "config");
	AUTO_BUF passwd = BUF_INIT;
	AUTO_BUF group = BUF_INIT;
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *out = NULL;
	struct bundle_user user;
	AUTO_JSON *image = json_loads(text, 0, NULL);
	AUTO_JSON *bundle = NULL;
	const char *who = json_string_value(
		json_object_get(json_object_get(image, "config"), "User"));
	const struct bundle_spec spec = {
		.image = image,
		.command = j->command,
		.env = j->cfg->env,
		.mounts = j->cfg->mounts,
		.user = &user,
		.rootfs = r->merged,
	};
	int rc =
		image ? 0 : error_set(err, EPROTO, "the image's config is bad");

	if (rc == 0)
		rc = rootfs_read(r, "etc/passwd", USERS_FILE_MAX, &passwd, err);
	if (rc == 0)
		rc = rootfs_read(r, "etc/group", USERS_FILE_MAX, &group, err);
	if (rc == 0)
		rc = bundle_user_find(who ? who : "", passwd.data, group.data,
				      &user, err);
	if (rc == 0)
		rc = bundle_make(&spec, &bundle, err);
	if (rc == 0) {
		out = json_dumps(bundle, 0);
		if (asprintf(&path, "%s/config.json", r->dir) < 0)
			path = NULL;
		rc = out && path ? fs_replace_file(path, out, strlen(out), 0600,
						   err)
				 : error_nomem(err);
	}
	return rc;
}

/* Refuse a ready file that exists before the start, as it would show nothing. */
static int check_ready_file(struct record_job *j, const struct rootfs *r,
			    struct error *err)
{
	if (!j->cfg->ready_file)
		return 0;
	if (rootfs_has(r, j->cfg->ready_file))
		return error_set(err, EEXIST,
				 "--ready-file '%s' is in the image already",
				 j->cfg->ready_file);
	return 0;
}

static bool has_condition(const struct record_job *j)
{
	return j->cfg->ready_file || j->cfg->ready_line;
}

/* Decide whether the recording succeeded, by how the container ended or got ready. */
static int conclude_recording(struct record_job *j, struct container *c,
			      struct error *err)
{
	if (j->event == CONTAINER_SIGNAL)
		return error_set(err, EINTR, "ended by a signal");
	if (j->event == CONTAINER_ENDED) {
		j->status = container_status(c);
		if (j->status != 0 || has_condition(j))
			return error_set(err, ECHILD,
					 "the container ended with status %d "
					 "before it was ready",
					 j->status);
	}
	return j->event == CONTAINER_LATE ? 0 : report_start_ready(j, err);
}

static int run_container(struct record_job *j, const struct rootfs *r,
			 struct error *err)
{
	const struct container_config cfg = {
		.dir = r->dir,
		.id = strrchr(r->dir, '/') + 1,
		.ready_file = j->cfg->ready_file,
		.ready_line = j->cfg->ready_line,
		.signal_fd = j->signal_fd,
	};
	struct container *c = NULL;
	int rc = container_start(&cfg, &c, err);

	if (rc == 0)
		rc = container_wait(c, j->until_ns, &j->event, err);
	if (rc == 0)
		rc = conclude_recording(j, c, err);
	container_free(c);
	return rc;
}

static int record_start(struct record_job *j, struct error *err)
{
	AUTO(rootfs) r = NULL;
	int rc = rootfs_new(reply_raw(j->reply, "path"), &r, err);

	if (rc == 0)
		rc = leftovers_note(r->dir, j->user, err);
	if (rc == 0)
		rc = check_ready_file(j, r, err);
	if (rc == 0)
		rc = write_bundle(j, r, err);
	return rc < 0 ? rc : run_container(j, r, err);
}

/* -------------------------------------------------------------------- figures --- */

/* Find this start's figures in a reply; borrowed; NULL: not there yet. */
static json_t *find_own_figures(const struct record_job *j, const json_t *reply)
{
	json_t *start;
	size_t k;

	json_array_foreach(json_object_get(reply, "starts"), k, start)
	{
		if (reply_number(start, "start") ==
		    reply_number(j->reply, "start"))
			return start;
	}
	return NULL;
}

/* bootseerd computes the figures in the background: ask until they are there. */
static int get_figures(struct record_job *j, json_t **ret, struct error *err)
{
	int64_t until = clock_now_ns() + FIGURES_MS * NS_PER_MS;
	struct pollfd p = { .fd = j->signal_fd, .events = POLLIN };

	for (;;) {
		AUTO_JSON *reply = NULL;
		int rc = node_ask_on(j->node, "image.explain",
				     json_pack("{s:o}", "id", image_id_json(j)),
				     &reply, err);

		if (rc < 0)
			return rc;
		*ret = json_incref(find_own_figures(j, reply));
		if (*ret)
			return 0;
		if (clock_now_ns() > until)
			return error_set(err, ETIMEDOUT,
					 "bootseerd has not summed up: see its "
					 "log");
		if (poll(&p, 1, FIGURES_LOOK_MS) > 0)
			return error_set(err, EINTR, "ended by a signal");
	}
}

static void print_seconds(long long ms)
{
	printf("%lld.%02lld s", ms / 1000, ms % 1000 / 10);
}

static void print_figures(const struct record_job *j, const json_t *f)
{
	char bytes[PROGRESS_BYTES_MAX], blocks[PROGRESS_COUNT_MAX],
		reads[PROGRESS_COUNT_MAX];

	printf("workload  %s\n", reply_text(f, "workload"));
	printf("recorded  %s; %s in %s\n",
	       reply_count(f, "read_blocks", "block", blocks),
	       reply_bytes(f, "read_bytes", bytes),
	       reply_count(f, "reads", "read", reads));
	printf("missed    %s, %s, waited for the registry\n",
	       reply_count(f, "missed_blocks", "block", blocks),
	       reply_bytes(f, "missed_bytes", bytes));
	if (j->ready_ms >= 0) {
		printf(j->event == CONTAINER_ENDED ? "ended     after "
						   : "ready     after ");
		print_seconds(j->ready_ms);
		putchar('\n');
	} else {
		printf("ready     %s\n",
		       has_condition(j)
			       ? "not within the window"
			       : "not known: the whole window is recorded");
	}
}

/* Write the trace that the node now has for this workload, merged from all recordings of it. */
static int write_trace(struct record_job *j, const char *workload,
		       struct error *err)
{
	const struct trace_query q = {
		.image = j->manifest,
		.workload = workload,
		.exact = true,
	};
	struct trace_found found = { .trace = NULL };
	AUTO(trace_store) store = NULL;
	struct trace_where where = { .root = NULL };
	AUTO_JSON *status = NULL;
	int rc = node_ask_on(j->node, "node.status", json_object(), &status,
			     err);

	where.root = (char *)(uintptr_t)reply_raw(status, "root");
	if (rc == 0)
		rc = trace_open_local(&where, &store, err);
	if (rc == 0)
		rc = trace_store_get(store, &q, &found, err);
	if (rc == 0)
		rc = trace_write(j->cfg->output, found.trace, err);
	trace_free(found.trace);
	return rc < 0 ? error_wrap(err, rc, "--output") : 0;
}

static int report_recording(struct record_job *j, struct error *err)
{
	AUTO_JSON *figures = NULL;
	int rc = get_figures(j, &figures, err);

	if (rc == 0)
		print_figures(j, figures);
	if (rc == 0 && j->cfg->output)
		rc = write_trace(j, reply_text(figures, "workload"), err);
	return rc;
}

static int check_image_record(const void *config, char **args,
			      struct error *err)
{
	const struct record_config *cfg = config;
	int rc = image_ref_check(args[0], err);

	if (rc == 0 && cfg->ready_file && cfg->ready_file[0] != '/')
		rc = error_set(err, EINVAL,
			       "--ready-file '%s' is no absolute path",
			       cfg->ready_file);
	if (rc == 0 && cfg->ready_line)
		rc = container_line_check(cfg->ready_line, err);
	for (char **m = cfg->mounts; rc == 0 && m && *m; m++)
		rc = bundle_mount_check(*m, err);
	return rc;
}

static int run_image_record(const void *config, char **args, struct error *err)
{
	struct record_job j = { .cfg = config,
				.ready_ms = -1,
				.signal_fd = -1 };
	int rc = catch_signals(&j.signal_fd, err);

	/* With "REF -- COMMAND" the dashes are still among the operands. */
	j.command = args + 1;
	if (*j.command && strcmp(*j.command, "--") == 0)
		j.command++;
	if (rc == 0)
		rc = node_connect(&j.cfg->node, &j.node, err);
	if (rc == 0) {
		leftovers_clean(j.node);
		rc = begin_recording(&j, args[0], err);
	}
	if (rc == 0) {
		rc = record_start(&j, err);
		end_recording(&j);
	}
	if (rc == 0)
		rc = report_recording(&j, err);
	json_decref(j.reply);
	node_client_close(j.node);
	fd_close(j.signal_fd);
	return rc;
}

const struct command image_record_command = {
	.brief = "Run a container once and record what its start reads",
	.program = {
		.name = "bootseer image record",
		.usage = "[OPTIONS] REF [-- COMMAND...]",
		.summary = "Run a container of the image REF once and record "
			   "what it reads until it is ready, so that other "
			   "starts have it before they ask. COMMAND replaces "
			   "the image's entry point; without a sign of being "
			   "ready the container's end, or the window's, ends "
			   "the recording.",
		.options = options,
		.examples =
			"  bootseer image record --ready-line 'Uvicorn running' "
			"registry.example/serve:1\n"
			"  bootseer image record registry.example/ml:1 -- "
			"python3 -c 'import torch'",
		.see_also = "bootseerd(8), runc(8)",
		.min_args = 1,
		.max_args = -1,
	},
	.config_size = sizeof(struct record_config),
	.check = check_image_record,
	.run = run_image_record,
};
