// SPDX-License-Identifier: Apache-2.0
/* Standard input as a log. It cannot be read again, and the program that writes it must not be
 * blocked. */
#include <errno.h>
#include <sys/random.h>

#include "common/clock.h"
#include "profiler/follow/follower.h"
#include "profiler/stage_lines.h"

#define PENDING_MAX (1u << 20)

struct follow_stdin {
	struct event_follower *f;
	struct stage_lines lines;
	struct followed_log log; /* its last member, the key, is empty */
};

int follow_stdin_new(struct event_follower *f, struct follow_stdin **ret,
		     struct error *err)
{
	struct follow_stdin *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->f = f;
	s->log.kind = &log_kind_file;
	s->log.fd = -1;
	if (getrandom(&s->log.at.salt, sizeof(s->log.at.salt), 0) < 0)
		s->log.at.salt = (uint64_t)clock_now_ns();
	rc = stage_lines_init(&s->lines, err);
	if (rc < 0)
		follow_stdin_free(s);
	else
		*ret = s;
	return rc;
}

void follow_stdin_free(struct follow_stdin *s)
{
	if (!s)
		return;
	stage_lines_fini(&s->lines);
	free(s);
}

static int on_event(void *arg, const struct stage_event *found, uint64_t place)
{
	struct follow_stdin *s = arg;
	struct stage_event e = *found;
	int rc = s->log.kind->own(s->f, &s->log, &e, place);

	if (rc <= 0)
		return rc;
	s->f->stats.events++;
	if (s->f->pending[SPOOL_FIRST].len < PENDING_MAX)
		return follow_add(s->f, SPOOL_FIRST, &e);
	s->f->stats.stdin_lost++;
	return 0;
}

int follow_stdin_read(struct follow_stdin *s, struct error *err)
{
	ssize_t n = read(STDIN_FILENO, s->f->chunk, READ_CHUNK);
	int rc;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 1;
	if (n < 0)
		return error_errno(err, errno, "standard input");
	s->f->stats.bytes += (uint64_t)n;
	rc = n ? stage_lines_feed(&s->lines, s->f->chunk, (size_t)n, on_event,
				  s)
	       : stage_lines_end(&s->lines, on_event, s);
	if (rc < 0)
		return error_errno(err, -rc, "standard input");
	return n > 0;
}
