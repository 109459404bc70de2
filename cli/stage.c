// SPDX-License-Identifier: Apache-2.0
/* bootseer stage begin, end, mark: print a single event. */
#include "cli/stage.h"

#include <errno.h>

#include "cli/command.h"

/* -------------------------------------------------------------------- owner --- */

static int check_count(const char *what, const char *s, struct error *err)
{
	int64_t v;

	return !s || stage_read_count(s, &v)
		       ? 0
		       : error_set(err, EINVAL,
				   "--%s '%s': a number of at most 9 digits "
				   "is wanted",
				   what, s);
}

int stage_owner_check(const struct stage_owner *o, struct error *err)
{
	int rc = check_count("attempt", o->attempt, err);

	if (rc == 0)
		rc = check_count("rank", o->rank, err);
	if (rc == 0 && o->job && !stage_is_job(stage_text(o->job)))
		rc = error_set(err, EINVAL,
			       "--job '%s': 1 to 128 of A-Z a-z 0-9 . _ - : "
			       "/ @ + are wanted",
			       o->job);
	if (rc == 0 && o->node && !stage_is_node(stage_text(o->node)))
		rc = error_set(err, EINVAL,
			       "--node '%s': 1 to 255 of A-Z a-z 0-9 . _ - "
			       "are wanted",
			       o->node);
	return rc;
}

int stage_name_check(const char *name, struct error *err)
{
	return stage_is_name(stage_text(name))
		       ? 0
		       : error_set(err, EINVAL,
				   "'%s' is no name of a stage: 1 to 64 of "
				   "A-Z a-z 0-9 . _ - are wanted",
				   name);
}

static void fill_unset_count(const char *said, const char *env,
			     const char *other, int64_t *ret)
{
	if (*ret == STAGE_NONE && !stage_read_count(said, ret) &&
	    !stage_read_count(getenv(env), ret) && other)
		(void)stage_read_count(getenv(other), ret);
}

/* Set the node of an event: the --node option, which is for all lines, takes precedence over a
 * line's own source. */
static void set_event_node(const struct stage_owner *o, struct stage_event *e)
{
	if (o->node)
		e->node = stage_text(o->node);
	else if (e->source.n && !getenv("BOOTSEER_NODE"))
		e->node = e->source;
	else
		e->node = stage_text(stage_this_node());
}

void stage_own(const struct stage_owner *o, struct stage_event *e)
{
	const char *job = o->job ? o->job : getenv("BOOTSEER_JOB");

	if (!e->job.n && stage_is_job(stage_text(job)))
		e->job = stage_text(job);
	if (!e->node.n)
		set_event_node(o, e);
	if (e->attempt == STAGE_NONE &&
	    !stage_read_count(o->attempt, &e->attempt))
		stage_this_attempt(&e->attempt);
}

void stage_say(const struct stage_owner *o, const char *name, enum stage_ev ev,
	       struct stage_event *ret)
{
	stage_make(name, ev, 0, ret);
	stage_own(o, ret);
	fill_unset_count(o->rank, "BOOTSEER_RANK", "RANK", &ret->rank);
}

/* ----------------------------------------------------------------- commands --- */

struct say_config {
	struct stage_owner owner;
	char *status;
};

static const struct option_spec say_options[] = {
	STAGE_OWNER_OPTIONS(struct say_config),
	STAGE_RANK_OPTION(struct say_config),
	{ .key = NULL },
};

static const struct option_spec end_options[] = {
	{ .key = "status",
	  .type = OPTION_STRING,
	  .arg = "N",
	  .offset = offsetof(struct say_config, status),
	  .help = "Exit status of what the stage ran." },
	STAGE_OWNER_OPTIONS(struct say_config),
	STAGE_RANK_OPTION(struct say_config),
	{ .key = NULL },
};

static int say_check(const void *config, char **args, struct error *err)
{
	const struct say_config *c = config;
	int rc = stage_owner_check(&c->owner, err);

	if (rc == 0)
		rc = check_count("status", c->status, err);
	return rc == 0 ? stage_name_check(args[0], err) : rc;
}

static int say_event(const struct say_config *c, const char *name,
		     enum stage_ev ev, struct error *err)
{
	AUTO_BUF line = BUF_INIT;
	struct stage_event e;

	stage_say(&c->owner, name, ev, &e);
	(void)stage_read_count(c->status, &e.status);
	if (stage_event_format(&e, &line) < 0)
		return error_nomem(err);
	fputs(line.data, stdout);
	return 0;
}

static int run_begin(const void *config, char **args, struct error *err)
{
	return say_event(config, args[0], STAGE_BEGIN, err);
}

static int run_end(const void *config, char **args, struct error *err)
{
	return say_event(config, args[0], STAGE_END, err);
}

static int run_mark(const void *config, char **args, struct error *err)
{
	return say_event(config, args[0], STAGE_MARK, err);
}

const struct command stage_begin_command = {
	.brief = "Print that a stage of a job's start begins",
	.program = {
		.name = "bootseer stage begin",
		.usage = "[OPTIONS] NAME",
		.summary = "Print a line that says that the stage NAME begins, "
			   "for the log of the container; 'bootseer stage "
			   "send' finds it there.",
		.options = say_options,
		.examples = "bootseer stage begin env.install\n",
		.min_args = 1,
	},
	.config_size = sizeof(struct say_config),
	.check = say_check,
	.run = run_begin,
};

const struct command stage_end_command = {
	.brief = "Print that a stage of a job's start ends",
	.program = {
		.name = "bootseer stage end",
		.usage = "[OPTIONS] NAME",
		.summary = "Print a line that says that the stage NAME ends.",
		.options = end_options,
		.examples = "bootseer stage end --status $? env.install\n",
		.min_args = 1,
	},
	.config_size = sizeof(struct say_config),
	.check = say_check,
	.run = run_end,
};

const struct command stage_mark_command = {
	.brief = "Print that something happens in a job's start",
	.program = {
		.name = "bootseer stage mark",
		.usage = "[OPTIONS] NAME",
		.summary = "Print a line that says that NAME happens now. The "
			   "mark 'train' says that training begins, which "
			   "ends the start.",
		.options = say_options,
		.examples = "bootseer stage mark train\n",
		.min_args = 1,
	},
	.config_size = sizeof(struct say_config),
	.check = say_check,
	.run = run_mark,
};
