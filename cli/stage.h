// SPDX-License-Identifier: Apache-2.0
/* Functions that the commands on stages share: the owner and times of events. */
#ifndef BOOTSEER_CLI_STAGE_H
#define BOOTSEER_CLI_STAGE_H

#include "common/option.h"
#include "profiler/emit/emit.h"

/* The owner of events; a NULL member: from the environment. */
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

/* -EINVAL: an option is not allowed in an event. */
int stage_owner_check(const struct stage_owner *o,
		      struct error *err) MUST_CHECK;
int stage_name_check(const char *name, struct error *err) MUST_CHECK;

/* Set job, attempt, node and rank if the event lacks them; borrowed from `o` and the environment.
 * Invalid values in the environment are ignored, as a start must not fail because of them. */
void stage_own(const struct stage_owner *o, struct stage_event *e);

/* Make an event: the present time, an id, and the owner as by stage_own(). */
void stage_say(const struct stage_owner *o, const char *name, enum stage_ev ev,
	       struct stage_event *ret);

#endif
