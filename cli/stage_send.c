// SPDX-License-Identifier: Apache-2.0
/*
 * bootseer stage send: send the events in a log to bootseer-registry.  A log on stdin that is
 * still being written is read without long pauses and to its end, or else its writer would block
 * or die.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/service.h"
#include "cli/stage.h"
#include "common/clock.h"
#include "common/progress.h"
#include "profiler/send/send.h"
#include "profiler/stage_lines.h"

#define READ_SIZE 65536u
#define BATCH_MAX (256u << 10) /* bytes of one request */
/* bytes kept while the service does not answer */
#define KEPT_MAX (1u << 20)
#define PAUSE_MS 1000 /* events are sent after a pause this long */

struct send_config {
	struct service_where where;
	struct stage_owner owner;
};

static const struct option_spec options[] = {
	SERVICE_WHERE_OPTIONS(struct send_config),
	STAGE_OWNER_OPTIONS(struct send_config),
	{ .key = NULL },
};

struct sender {
	const struct send_config *cfg;
	struct service_client *client;
	struct buf batch; /* unsent lines, all of `node` */
	char node[STAGE_NODE_MAX + 1];
	bool is_live;     /* the log is read while it is written */
	struct buf clock; /* this machine's time, in the service's form */
	int64_t kept_since_ms;
	uint64_t events, stored, doubles, no_job, no_time, dropped;
	struct error failure; /* error of the last request; code 0: none */
};

/* ------------------------------------------------------------------ sending --- */

static int send_once(struct sender *s, struct error *err)
{
	bool own = strcmp(s->node, stage_this_node()) == 0;
	struct stage_sent sent = { .stored = 0 };
	int rc = 0;

	if (own && !s->clock.len)
		rc = stage_clock_exchange(s->client, s->node, &s->clock, err);
	if (rc == 0)
		rc = stage_send(s->client, s->node, own ? s->clock.data : NULL,
				&s->batch, &sent, err);
	s->stored += sent.stored;
	s->doubles += sent.doubles;
	return rc;
}

/*
 * Send the batch.  For a file, failure is an error.  For a live log the events are kept for the
 * next attempt, up to KEPT_MAX.
 */
static int flush_batch(struct sender *s)
{
	int rc = s->batch.len ? send_once(s, &s->failure) : 0;

	s->kept_since_ms = clock_now_ms();
	if (rc < 0 && s->is_live && stage_send_is_passing(rc) &&
	    s->batch.len < KEPT_MAX)
		return 0;
	if (rc == 0 && s->batch.len)
		s->failure.code = 0;
	for (size_t i = 0; rc < 0 && s->is_live && i < s->batch.len; i++)
		s->dropped += s->batch.data[i] == '\n';
	buf_reset(&s->batch);
	return s->is_live ? 0 : rc;
}

static int add_event(struct sender *s, const struct stage_event *e)
{
	bool same = strlen(s->node) == e->node.n &&
		    memcmp(s->node, e->node.s, e->node.n) == 0;
	size_t full = s->failure.code ? KEPT_MAX - STAGE_LINE_MAX : BATCH_MAX;
	int rc = 0;

	if (s->batch.len && (!same || s->batch.len >= full))
		rc = flush_batch(s);
	/* The batch was not sent, and this event does not fit or is of another node: drop the
	 * event. */
	if (rc == 0 && s->batch.len && (!same || s->batch.len >= full)) {
		s->dropped++;
		return 0;
	}
	if (rc < 0)
		return rc;
	memcpy(s->node, e->node.s, e->node.n);
	s->node[e->node.n] = '\0';
	return stage_event_format(e, &s->batch);
}

static int on_event(void *arg, const struct stage_event *found, uint64_t offset)
{
	struct sender *s = arg;
	struct stage_event e = *found;

	s->events++;
	stage_own(&s->cfg->owner, &e);
	if (e.ts_ns == STAGE_NONE && s->is_live)
		e.ts_ns = clock_wall_ns();
	if (!e.job.n || !e.node.n) {
		s->no_job++;
		return 0;
	}
	if (e.ts_ns == STAGE_NONE) {
		s->no_time++;
		return 0;
	}
	if (e.id == STAGE_NONE)
		e.id = stage_event_make_id(&e, offset);
	return e.id == STAGE_NONE ? -ENOMEM : add_event(s, &e);
}

/* ------------------------------------------------------------------ reading --- */

static int wait_for_more(struct sender *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, s->batch.len ? PAUSE_MS : -1);
	while (n < 0 && errno == EINTR);
	/* Also send if small pieces keep coming without a pause. */
	if (n == 0 ||
	    (s->batch.len && clock_now_ms() - s->kept_since_ms > PAUSE_MS))
		return flush_batch(s);
	if (!s->batch.len)
		s->kept_since_ms = clock_now_ms();
	return 0;
}

static int read_log(struct sender *s, int fd, struct stage_lines *l,
		    struct error *err)
{
	AUTO_FREE char *some = malloc(READ_SIZE);
	ssize_t n = 1;
	int rc = some ? 0 : error_nomem(err);

	while (rc == 0 && n > 0) {
		if (s->is_live)
			rc = wait_for_more(s, fd);
		n = rc == 0 ? read(fd, some, READ_SIZE) : 0;
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return error_errno(err, errno, "read");
		else if (n > 0)
			rc = stage_lines_feed(l, some, (size_t)n, on_event, s);
	}
	if (rc == 0)
		rc = stage_lines_end(l, on_event, s);
	/* The writer has ended, so sending may now take its time. */
	s->is_live = false;
	if (rc == 0)
		rc = flush_batch(s);
	if (rc < 0 && s->failure.code)
		*err = s->failure;
	else if (rc < 0)
		(void)error_set(err, -rc, "%s", strerror(-rc));
	return rc;
}

static void tell_count(uint64_t n, const char *what)
{
	char count[PROGRESS_COUNT_MAX];

	if (!n)
		return;
	progress_format_count(n, "event", count);
	fprintf(stderr, "bootseer stage send: %s %s\n", count, what);
}

static int conclude_sending(const struct sender *s, const struct stage_lines *l,
			    struct error *err)
{
	char count[PROGRESS_COUNT_MAX];

	tell_count(s->no_job, "left out: no job is known, say --job");
	tell_count(s->no_time,
		   "left out: no time is in the line, nor before it");
	tell_count(l->junk, "left out: damaged, or no event");
	if (!s->stored && !s->doubles && !s->no_job && !s->no_time && !l->junk)
		fprintf(stderr,
			"bootseer stage send: there is no event in it; 'stage "
			"run' and programs of BootSeer print theirs on "
			"standard error\n");
	progress_format_count(s->stored, "event", count);
	printf("sent: %s, %" PRIu64 " known already\n", count, s->doubles);
	if (!s->dropped)
		return 0;
	progress_format_count(s->dropped, "event", count);
	return error_set(err, EIO, "%s lost while the service was away: %s",
			 count, s->failure.msg);
}

static int check_stage_send(const void *config, char **args, struct error *err)
{
	const struct send_config *c = config;
	int rc = service_where_check(&c->where, err);

	return rc == 0 ? stage_owner_check(&c->owner, err) : rc;
}

static int run_stage_send(const void *config, char **args, struct error *err)
{
	struct sender s = { .cfg = config };
	AUTO_CLOSE int file = -1;
	AUTO(service_client) client = NULL;
	struct stage_lines l;
	int rc = service_open(&s.cfg->where, &client, err);

	if (rc < 0)
		return rc;
	s.client = client;
	s.is_live = strcmp(args[0], "-") == 0;
	file = s.is_live ? -1 : open(args[0], O_RDONLY | O_CLOEXEC);
	if (!s.is_live && file < 0)
		return error_errno(err, errno, "'%s'", args[0]);
	rc = stage_lines_init(&l, err);
	if (rc == 0)
		rc = read_log(&s, s.is_live ? STDIN_FILENO : file, &l, err);
	if (rc == 0)
		rc = conclude_sending(&s, &l, err);
	stage_lines_fini(&l);
	buf_fini(&s.batch);
	buf_fini(&s.clock);
	return rc;
}

const struct command stage_send_command = {
	.brief = "Send the stage events of a log to bootseer-registry",
	.program = {
		.name = "bootseer stage send",
		.usage = "[OPTIONS] FILE|-",
		.summary = "Find the stage events in the log FILE, and send "
			   "them to bootseer-registry; those that it has are "
			   "not doubled. FILE - is standard input, which is "
			   "followed until its end. Lines that do not say it "
			   "are of the job, attempt and node given here.",
		.options = options,
		.examples = "train.sh 2>&1 | tee log | bootseer stage send "
			    "--service https://boot.example --job j1 -\n",
		.see_also = "bootseer(1), bootseer-registry(8)",
		.min_args = 1,
	},
	.config_size = sizeof(struct send_config),
	.check = check_stage_send,
	.run = run_stage_send,
};
