// SPDX-License-Identifier: Apache-2.0
/* Functions that the commands on stages share: who says it, when. */
#ifndef BOOTSEER_CLI_STAGE_H
#define BOOTSEER_CLI_STAGE_H

#include "common/option.h"
#include "profiler/emit/emit.h"

/* The owner of events; NULL: by the environment. */
struct stage_owner {
	char *job, *attempt, *node, *rank;
};

#define STAGE_OWNER_OPTIONS(config) \
	{ .key = "job", \
	  .type = OPTION_STRING, \
	  .arg = "NAME", \
	  .offset = offsetof(config, owner.job), \
	  .help = "The job that starts; default is $BOOTSEER_JOB." }, \
		{ .key = "attempt", \
		  .type = OPTION_STRING, \
		  .arg = "N", \
		  .offset = offsetof(config, owner.attempt), \
		  .help = "Which start of the job; default is " \
			  "$BOOTSEER_ATTEMPT, or 0." }, \
	{ \
		.key = "node", .type = OPTION_STRING, .arg = "NAME", \
		.offset = offsetof(config, owner.node), \
		.help = "The node; default is $BOOTSEER_NODE, or this " \
			"machine's name." \
	}

#define STAGE_RANK_OPTION(config) \
	{ \
		.key = "rank", .type = OPTION_STRING, .arg = "N", \
		.offset = offsetof(config, owner.rank), \
		.help = "The rank; default is $BOOTSEER_RANK or $RANK, or " \
			"none: the node as a whole." \
	}

/* -EINVAL: an option is not what an event can have. */
int stage_owner_check(const struct stage_owner *o,
		      struct error *err) MUST_CHECK;
int stage_name_check(const char *name, struct error *err) MUST_CHECK;

/* Fill in job, attempt, node and rank where the event has none; borrowed from `o`
 * and the environment.  What the environment says wrongly is left out, for a start
 * must not fail because of this. */
void stage_own(const struct stage_owner *o, struct stage_event *e);

/* Times of now, an id, and the rest as above. */
void stage_say(const struct stage_owner *o, const char *name, enum stage_ev ev,
	       struct stage_event *ret);

#endif
