// SPDX-License-Identifier: Apache-2.0
/*
 * bootseer-events: follows the logs of a node, and sends the stage events in them to the service.
 * One thread reads, one sends; between them is the spool on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/option.h"
#include "net/signals.h"
#include "profiler/emit/emit.h"
#include "profiler/follow/follower.h"
#include "profiler/follow/pod_watch.h"

#define EXIT_USAGE 2
#define SCAN_NS NS_PER_S
#define COMMIT_NS NS_PER_S
/* between saves of places when there are no events */
#define SAVE_NS (10 * NS_PER_S)
#define PENDING_WANTED (64u << 10)
#define PAUSE_MS 200
/* shorter, because an event without a time gets the time of reading */
#define PAUSE_FILES_MS 25
#define REQUEST_MS 10000
#define ONCE_NS (60 * NS_PER_S)
#define DESCRIPTORS_BESIDE 64

#define AT(member) offsetof(struct follow_config, member)

static const struct option_spec options[] = {
	{ .key = "service",
	  .type = OPTION_STRING,
	  .arg = "URL",
	  .offset = AT(service),
	  .help = "The bootseer-registry; default is $BOOTSEER_SERVICE." },
	{ .key = "token-file",
	  .type = OPTION_FILE,
	  .offset = AT(token_file),
	  .help = "The bearer token for --service." },
	{ .key = "ca-file",
	  .type = OPTION_FILE,
	  .offset = AT(ca_file),
	  .help = "Certificates (PEM) to trust instead of the system's." },
	{ .key = "node",
	  .type = OPTION_STRING,
	  .arg = "NAME",
	  .offset = AT(node),
	  .help = "This node's name; default is $BOOTSEER_NODE, or the "
		  "machine's." },
	{ .key = "state",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .def = "/var/lib/bootseer-events",
	  .offset = AT(state),
	  .help = "Where places in logs, and events that wait for the "
		  "service, are kept." },
	{ .key = "spool-max",
	  .type = OPTION_SIZE,
	  .def = "64M",
	  .min = "1M",
	  .max = "64G",
	  .offset = AT(spool_max),
	  .help = "Events on disk at most; then logs are read no further "
		  "until the service takes some." },
	{ .key = "pods",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .def = "/var/log/pods",
	  .offset = AT(pods),
	  .help = "Logs of Kubernetes' pods; '' follows none." },
	{ .key = "events",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .def = STAGE_EMIT_DIR,
	  .offset = AT(events),
	  .help = "What BootSeer's own processes on this node say; '' "
		  "follows none." },
	{ .key = "pod-status",
	  .type = OPTION_STRING,
	  .arg = "FILE|URL",
	  .offset = AT(pod_status),
	  .help = "Tell how long pods with BOOTSEER_JOB were queued and "
		  "scheduled, from this list of pods: the kubelet's, "
		  "https://localhost:10250/pods, or a file that has it." },
	{ .key = "pod-status-token-file",
	  .type = OPTION_FILE,
	  .offset = AT(pod_status_token_file),
	  .help = "The bearer token for --pod-status." },
	{ .key = "pod-status-ca-file",
	  .type = OPTION_FILE,
	  .offset = AT(pod_status_ca_file),
	  .help = "Certificates (PEM) to trust for --pod-status instead of "
		  "the system's." },
	{ .key = "job",
	  .type = OPTION_STRING,
	  .arg = "NAME",
	  .offset = AT(job),
	  .help = "The job of lines of files that name none." },
	{ .key = "attempt",
	  .type = OPTION_STRING,
	  .arg = "N",
	  .offset = AT(attempt),
	  .help = "The attempt of lines of files that name none." },
	{ .key = "train-pattern",
	  .type = OPTION_STRING,
	  .arg = "REGEX",
	  .offset = AT(train_pattern),
	  .help = "The first line of a container that matches this shows that "
		  "training begins, where its program does not say so." },
	{ .key = "read-rate",
	  .type = OPTION_SIZE,
	  .def = "32M",
	  .min = "64K",
	  .max = "64G",
	  .offset = AT(read_rate),
	  .help = "Bytes of logs that are read in a second at most." },
	{ .key = "pod-events",
	  .type = OPTION_INTEGER,
	  .def = "10000",
	  .min = "1",
	  .max = "100000000",
	  .offset = AT(pod_events),
	  .help = "Events that one pod may say in an hour." },
	{ .key = "node-events",
	  .type = OPTION_INTEGER,
	  .def = "100000",
	  .min = "1",
	  .max = "100000000",
	  .offset = AT(node_events),
	  .help = "Events that all pods may say in an hour, half of "
		  "bootseer-registry's --max-node-events; a namespace has half "
		  "of what the others leave." },
	{ .key = "max-age",
	  .type = OPTION_DURATION,
	  .def = "1h",
	  .min = "1s",
	  .max = "10000h",
	  .offset = AT(max_age),
	  .help = "At the very first start, logs that nobody wrote to for so "
		  "long are left out." },
	{ .key = "once",
	  .type = OPTION_BOOL,
	  .no_file = true,
	  .offset = AT(once),
	  .help = "Read what is there, send it, and end." },
	OPTION_LOG_LEVEL(AT(log_level)),
	{ .key = "config",
	  .type = OPTION_FILE,
	  .no_file = true,
	  .offset = AT(config),
	  .help = "Read options from this file first." },
	{ .key = NULL },
};

static const struct option_program program = {
	.name = "bootseer-events",
	.usage = "[OPTIONS] [FILE|-]...",
	.summary = "Follow the logs of this node's containers, and FILEs, and "
		   "send the stage events in them to bootseer-registry, each "
		   "once. FILE - is standard input.",
	.options = options,
	.examples = "bootseer-events --service https://boot.example "
		    "\\\n    --token-file /etc/bootseer/events.token\n",
	.see_also = "bootseer(1), bootseer-registry(8)",
	.max_args = -1,
};

/* ------------------------------------------------------------------------- once --- */

struct follow_run {
	struct event_follower f;
	struct follow_stdin *input; /* NULL: not read, or at its end */
	struct service_client *client;
	struct pod_watch *pods; /* NULL: --pod-status is not set */
	char **files;
	int signals, lock;
	int64_t scan_ns, commit_ns, save_ns, refill_ns, tokens;
	bool is_ending, has_files;
	bool is_draining; /* a rotated file may still get lines */
};

static size_t pending_bytes(const struct event_follower *f)
{
	return f->pending[SPOOL_FIRST].len + f->pending[SPOOL_LATER].len;
}

static int spool_pending_events(struct event_follower *f, struct error *err)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < SPOOLS; i++) {
		if (f->pending[i].len)
			rc = event_spool_put(f->spools[i], &f->pending[i], err);
		if (rc == 0)
			buf_reset(&f->pending[i]);
	}
	return rc;
}

static void seal_spools(struct event_follower *f)
{
	for (int i = 0; i < SPOOLS; i++)
		event_spool_seal(f->spools[i]);
}

static uint64_t spooled_bytes(const struct event_follower *f)
{
	uint64_t n = 0;

	for (int i = 0; i < SPOOLS; i++)
		n += f->spools[i] ? event_spool_bytes(f->spools[i]) : 0;
	return n;
}

/* Write pending events to the spools, then save the places behind them. */
static int commit_events(struct follow_run *r, bool is_end, struct error *err)
{
	struct event_follower *f = &r->f;
	int64_t now = clock_now_ns();
	bool had = pending_bytes(f) > 0;
	struct error why = ERROR_INIT;
	int rc = spool_pending_events(f, &why);

	r->commit_ns = now;
	if (rc < 0) {
		if (!f->is_full)
			log_warning("events",
				    "logs are not read on reason=\"%s\"",
				    why.msg);
		f->is_full = true;
		return 0;
	}
	if (f->is_full)
		log_info("events", "logs are read on");
	f->is_full = false;
	if (f->is_dirty &&
	    (had || is_end || f->wants_commit || now - r->save_ns >= SAVE_NS)) {
		rc = follow_save(f, err);
		r->save_ns = now;
	}
	f->wants_commit = false;
	if (had) {
		seal_spools(f);
		deliverer_wake(f->deliverer);
	}
	return rc;
}

static void refill_allowance(struct follow_run *r, int64_t now)
{
	int64_t most = (int64_t)r->f.cfg->read_rate;
	int64_t more = most / 1000 * ((now - r->refill_ns) / 1000000);

	if (more <= 0)
		return;
	r->refill_ns = now;
	r->tokens = r->tokens + more > most ? most : r->tokens + more;
}

/* Read one chunk of each log in turn, so that no log delays the others. */
static int read_logs(struct follow_run *r, bool *ret_more, struct error *err)
{
	struct event_follower *f = &r->f;
	struct followed_log *l, *next;
	int rc = 0;

	*ret_more = r->is_draining = false;
	HASH_ITER(hh, f->logs, l, next)
	{
		struct error why = ERROR_INIT;
		ssize_t n;

		if (rc < 0 || f->is_full || r->tokens <= 0)
			break;
		if (l->seen == 0)
			continue;
		n = followed_log_read(f, l, &why);
		if (n == -ENOMEM)
			return error_nomem(err);
		if (n < 0 && !l->is_told)
			log_warning("events",
				    "not read log=\"%s\" reason=\"%s\"", l->key,
				    why.msg);
		l->is_told = n < 0;
		*ret_more |= n > 0 || f->wants_commit || f->has_moved;
		f->has_moved = false;
		r->is_draining |= l->is_rotated;
		r->tokens -= n > 0 ? n : 0;
		if (f->wants_commit || pending_bytes(f) >= PENDING_WANTED)
			rc = commit_events(r, false, err);
	}
	return rc;
}

static int wait_for_more(struct follow_run *r, int timeout_ms,
			 struct error *err)
{
	struct pollfd p[2] = {
		{ .fd = r->signals, .events = POLLIN },
		{ .fd = r->input ? STDIN_FILENO : -1, .events = POLLIN },
	};
	struct signalfd_siginfo si;
	int rc = 0;

	if (poll(p, 2, timeout_ms) < 0 && errno != EINTR)
		return error_errno(err, errno, "poll");
	if (p[0].revents & POLLIN &&
	    read(r->signals, &si, sizeof(si)) == (ssize_t)sizeof(si) &&
	    si.ssi_signo != SIGHUP)
		r->is_ending = true;
	if (p[1].revents) {
		rc = follow_stdin_read(r->input, err);
		if (rc == 0) {
			follow_stdin_free(r->input);
			r->input = NULL;
		}
	}
	return rc < 0 ? rc : 0;
}

static int follow_step(struct follow_run *r, bool *ret_more, struct error *err)
{
	struct event_follower *f = &r->f;
	int64_t now = clock_now_ns();
	int rc;

	refill_allowance(r, now);
	if (!r->scan_ns || now - r->scan_ns >= SCAN_NS) {
		follow_scan(f, r->files);
		r->scan_ns = now;
	}
	rc = read_logs(r, ret_more, err);
	if (rc == 0 && now - r->commit_ns >= COMMIT_NS)
		rc = commit_events(r, false, err);
	if (rc == 0)
		rc = wait_for_more(r,
				   *ret_more && r->tokens > 0 ? 0
				   : r->has_files             ? PAUSE_FILES_MS
							      : PAUSE_MS,
				   err);
	return rc;
}

/* At the end of the input, wait until all events have been sent to the service. */
static int wait_sent(struct follow_run *r, struct error *err)
{
	int64_t until = clock_now_ns() + ONCE_NS;
	int rc = commit_events(r, true, err);

	while (rc == 0 && !r->is_ending && spooled_bytes(&r->f) > 0) {
		if (clock_now_ns() > until)
			return error_set(err, ETIMEDOUT,
					 "%s did not take all events; they are "
					 "kept in '%s'",
					 service_client_url(r->client),
					 r->f.cfg->state);
		rc = wait_for_more(r, PAUSE_FILES_MS, err);
	}
	return rc;
}

static int follow_logs(struct follow_run *r, struct error *err)
{
	bool more = true;
	int rc = 0;

	while (rc == 0 && !r->is_ending) {
		rc = follow_step(r, &more, err);
		if (rc == 0 && r->f.cfg->once && !more && !r->is_draining &&
		    !r->input && r->tokens > 0 && !r->f.is_full)
			return wait_sent(r, err);
	}
	return rc == 0 ? commit_events(r, true, err) : rc;
}

/* ------------------------------------------------------------------------ start --- */

static void log_stats(const struct follow_run *r)
{
	const struct follow_stats *s = &r->f.stats;
	struct deliver_stats d = { .stored = 0 };

	if (r->f.deliverer)
		deliverer_get_stats(r->f.deliverer, &d);
	log_info("events",
		 "ended lines=%llu bytes=%llu events=%llu stored=%llu "
		 "doubles=%llu refused=%llu damaged=%llu limited=%llu "
		 "junk=%llu foreign=%llu no_job=%llu no_time=%llu links=%llu "
		 "lost_files=%llu stdin_lost=%llu left_out_pods=%llu "
		 "spool=%llu",
		 (unsigned long long)s->lines, (unsigned long long)s->bytes,
		 (unsigned long long)s->events, (unsigned long long)d.stored,
		 (unsigned long long)d.doubles, (unsigned long long)d.refused,
		 (unsigned long long)d.damaged, (unsigned long long)s->limited,
		 (unsigned long long)s->junk, (unsigned long long)s->foreign,
		 (unsigned long long)s->no_job, (unsigned long long)s->no_time,
		 (unsigned long long)s->links,
		 (unsigned long long)s->lost_files,
		 (unsigned long long)s->stdin_lost,
		 (unsigned long long)r->f.allowance.told,
		 (unsigned long long)spooled_bytes(&r->f));
}

/* Raise the limit of file descriptors, since each log needs one. */
static void raise_descriptors(void)
{
	rlim_t want = LOGS_MAX + DESCRIPTORS_BESIDE;
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= want)
		return;
	l.rlim_cur = want < l.rlim_max ? want : l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
}

/* Lock the state folder: two processes that follow the same logs would overwrite each other's
 * places. */
static int lock_state(const char *dir, struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, "lock");
	AUTO_CLOSE int fd = -1;
	int rc = path ? fs_mkdir_p(dir, 0700, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, errno, "'%s'", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, EBUSY,
				 "another bootseer-events uses --state '%s'",
				 dir);
	return steal_fd(&fd);
}

static int open_pods(struct follow_run *r, struct error *err)
{
	const struct follow_config *c = r->f.cfg;
	const struct pod_watch_config pw = {
		.from = c->pod_status,
		.token_file = c->pod_status_token_file,
		.ca_file = c->pod_status_ca_file,
		.node = r->f.node,
		.events = c->events,
	};
	int rc = c->pod_status ? pod_watch_new(&pw, &r->pods, err) : 0;

	if (rc < 0 || !r->pods)
		return rc;
	return c->once ? pod_watch_once(r->pods, err)
		       : pod_watch_start(r->pods, err);
}

static int open_spools(struct event_follower *f, struct error *err)
{
	static const char *const names[SPOOLS] = {
		[SPOOL_FIRST] = "spool", [SPOOL_LATER] = "spool-later"
	};
	int rc = 0;

	for (int i = 0; rc == 0 && i < SPOOLS; i++) {
		AUTO_FREE char *dir = fs_join(f->cfg->state, names[i]);

		rc = dir ? event_spool_open(dir, f->cfg->spool_max / SPOOLS,
					    &f->spools[i], err)
			 : error_nomem(err);
	}
	return rc;
}

static int open_parts_of_follower(struct follow_run *r, struct error *err)
{
	const struct follow_config *c = r->f.cfg;
	const struct service_client_config sc = {
		.url = c->service,
		.token_file = c->token_file,
		.ca_file = c->ca_file,
		.timeout_ms = REQUEST_MS,
	};
	int rc = open_spools(&r->f, err);

	if (rc == 0 && c->train_pattern)
		rc = train_line_new(c->train_pattern, &r->f.train, err);
	if (rc == 0)
		rc = follow_load(&r->f, err);
	if (rc == 0)
		rc = service_client_new(&sc, &r->client, err);
	if (rc == 0)
		rc = deliverer_start(r->f.spools, r->client, r->f.node,
				     &r->f.deliverer, err);
	if (rc == 0)
		rc = open_pods(r, err);
	for (char **p = r->files; rc == 0 && *p; p++) {
		r->has_files |= strcmp(*p, "-") != 0;
		if (strcmp(*p, "-") == 0 && !r->input)
			rc = follow_stdin_new(&r->f, &r->input, err);
	}
	return rc;
}

static void close_parts_of_follower(struct follow_run *r)
{
	struct followed_log *l, *next;

	pod_watch_free(r->pods);
	deliverer_stop(r->f.deliverer);
	service_client_free(r->client);
	follow_stdin_free(r->input);
	HASH_ITER(hh, r->f.logs, l, next)
	{
		HASH_DEL(r->f.logs, l);
		followed_log_free(l);
	}
	allowance_fini(&r->f.allowance);
	for (int i = 0; i < SPOOLS; i++) {
		event_spool_close(r->f.spools[i]);
		buf_fini(&r->f.pending[i]);
		buf_fini(&r->f.plain);
	}
	train_line_free(r->f.train);
	free(r->f.chunk);
	if (r->f.pods_fd >= 0)
		close(r->f.pods_fd);
	if (r->f.events_fd >= 0)
		close(r->f.events_fd);
	if (r->lock >= 0)
		close(r->lock);
	close(r->signals);
}

static int run_follower(const struct follow_config *cfg, char **files,
			struct error *err)
{
	struct follow_run r = {
		.f = { .cfg = cfg,
		       .node = cfg->node ? cfg->node : stage_this_node(),
		       .pods_fd = -1,
		       .events_fd = -1,
		       .own_attempt = STAGE_NONE,
		       .allowance.cfg = { .node_events = cfg->node_events,
					  .pod_events = cfg->pod_events,
					  .logs_max = POD_LOGS_ALL_MAX } },
		.files = files,
		.lock = -1
	};
	enum log_level level;
	int rc;

	if (log_level_parse(cfg->log_level, &level) == 0)
		log_set_level(level);
	(void)stage_read_count(cfg->attempt, &r.f.own_attempt);
	raise_descriptors();
	r.signals = daemon_signals_fd(err);
	if (r.signals < 0)
		return r.signals;
	r.f.chunk = malloc(READ_CHUNK);
	r.lock = r.f.chunk ? lock_state(cfg->state, err) : error_nomem(err);
	rc = r.lock < 0 ? r.lock : open_parts_of_follower(&r, err);
	if (rc == 0) {
		r.tokens = (int64_t)cfg->read_rate;
		r.refill_ns = clock_now_ns();
		log_info("events", "ready node=\"%s\" service=\"%s\"", r.f.node,
			 service_client_url(r.client));
		notify_send("READY=1");
		rc = follow_logs(&r, err);
		log_stats(&r);
	}
	close_parts_of_follower(&r);
	return rc;
}

static int check_config(struct follow_config *c, struct error *err)
{
	const char *env = getenv("BOOTSEER_SERVICE");
	int64_t n;

	if (!c->service && env)
		c->service = strdup(env);
	if (!c->service)
		return error_set(err, EINVAL,
				 "--service: name the bootseer-registry, or "
				 "set BOOTSEER_SERVICE");
	if (c->pod_status && !c->events[0])
		return error_set(err, EINVAL,
				 "--pod-status: what it tells goes through the "
				 "folder --events, which is ''");
	if (c->attempt && !stage_read_count(c->attempt, &n))
		return error_set(err, EINVAL,
				 "--attempt '%s': a number of at most 9 digits "
				 "is wanted",
				 c->attempt);
	if (c->job && !stage_is_job(stage_text(c->job)))
		return error_set(err, EINVAL,
				 "--job '%s': 1 to 128 of A-Z a-z 0-9 . _ - : "
				 "/ @ + are wanted",
				 c->job);
	if (!stage_is_node(stage_text(c->node ? c->node : stage_this_node())))
		return error_set(err, EINVAL,
				 "--node: 1 to 255 of A-Z a-z 0-9 . _ - are "
				 "wanted");
	return 0;
}

int main(int argc, char **argv)
{
	struct follow_config cfg = { .service = NULL };
	struct error err = ERROR_INIT;
	enum option_action action;
	int first = 0, rc;

	rc = option_parse(&program, &cfg, argc, argv, &action, &first, &err);
	if (rc == 0 && action == OPTION_ACTION_RUN)
		rc = check_config(&cfg, &err);
	rc = option_refuse(&program, &cfg, argc, argv, rc, &err);
	if (rc < 0) {
		fprintf(stderr, "bootseer-events: %s\n", err.msg);
		option_fini(options, &cfg);
		return EXIT_USAGE;
	}
	if (action == OPTION_ACTION_RUN)
		rc = run_follower(&cfg, argv + first, &err);
	if (rc < 0)
		log_error("events", "cannot go on reason=\"%s\"", err.msg);
	option_fini(options, &cfg);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
