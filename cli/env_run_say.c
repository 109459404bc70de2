// SPDX-License-Identifier: Apache-2.0
/* Lines that the steps of `env run` say, and small things that several do. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/env_run.h"
#include "cli/env_smoke.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/duration.h"
#include "common/progress.h"
#include "profiler/emit/emit.h"

/* For the log of a job that says its name; others have nobody who reads it. */
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

void env_run_say_done(const struct env_run *r, const char *what,
		      const struct env_snapshot *s)
{
	char bytes[PROGRESS_BYTES_MAX], names[PROGRESS_COUNT_MAX];
	char key[ENV_KEY_HEX];

	if (r->cfg->quiet)
		return;
	env_key_hex(&s->key.digest, key);
	progress_format_bytes(s->bytes, bytes);
	progress_format_count(s->n_changed, "name", names);
	fprintf(stderr,
		"bootseer env run: %s %.12s: %s, %s, %lld removed, in "
		"%.1f s\n",
		what, key, names, bytes, (long long)s->n_deleted,
		(double)(clock_now_ns() - r->begun_ns) / NS_PER_S);
}

void env_run_note_name(const struct env_run *r)
{
	if (r->cfg->name)
		env_named_put(r->at.store, r->cfg->name, &r->key.digest);
}

void env_run_say_wait(const struct env_run *r, const char *what)
{
	int64_t left = r->deadline_ns - clock_now_ns();
	char text[DURATION_TEXT_MAX];

	if (r->cfg->quiet)
		return;
	duration_format(left > 0 ? left : 0, text);
	fprintf(stderr,
		"bootseer env run: %s, for %s at most (--wait); then the command "
		"is run here, too\n",
		what, text);
}

int env_run_check_programs(const struct env_run *r, struct error *err)
{
	return env_smoke_run(r->cfg->verify,
			     clock_now_ns() + r->cfg->verify_timeout, err);
}
