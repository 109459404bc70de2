// SPDX-License-Identifier: Apache-2.0
/* Messages of `env run`'s steps, and small helpers of several steps. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/env_run.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/duration.h"
#include "common/progress.h"
#include "profiler/emit/emit.h"

/* Log a stage, if this run belongs to a named job; otherwise the line has no reader. */
void env_run_say_stage(const char *name, enum stage_ev ev, int64_t status)
{
	AUTO_BUF line = BUF_INIT;
	struct stage_event e;

	stage_make(name, ev, 0, &e);
	stage_own_by_env(&e);
	e.status = status;
	if (e.job.n && stage_event_format(&e, &line) == 0)
		(void)!write(STDERR_FILENO, line.data, line.len);
}

void env_run_say_done(const char *what, const struct env_snapshot *s,
		      int64_t begun_ns)
{
	char bytes[PROGRESS_BYTES_MAX], names[PROGRESS_COUNT_MAX];
	char key[ENV_KEY_HEX];

	env_key_hex(&s->key.digest, key);
	progress_format_bytes(s->bytes, bytes);
	progress_format_count(s->n_changed, "name", names);
	fprintf(stderr,
		"bootseer env run: %s %.12s: %s, %s, %lld removed, in "
		"%.1f s\n",
		what, key, names, bytes, (long long)s->n_deleted,
		(double)(clock_now_ns() - begun_ns) / NS_PER_S);
}

void env_run_note_name(const struct env_run *r)
{
	if (r->cfg->name)
		env_named_put(r->store.at.store, r->cfg->name,
			      &r->key.key.digest);
}

void env_run_say_wait(const struct env_run_key *k, const char *what)
{
	int64_t left = k->deadline_ns - clock_now_ns();
	char text[DURATION_TEXT_MAX];

	if (k->quiet)
		return;
	duration_format(left > 0 ? left : 0, text);
	fprintf(stderr,
		"bootseer env run: %s, for %s at most (--wait); then the command "
		"is run here, too\n",
		what, text);
}
