// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/starts/recording_state.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/option.h"

/* How long a start is watched by default, and the longest time that can be set. */
#define WINDOW_NS (120 * NS_PER_S)
#define WINDOW_MAX_NS (3600 * NS_PER_S)

/* If another workload came on the mount sooner than this, and the start goes on, the recording
 * is too short to learn from. */
#define ALONE_MIN_NS (INT64_C(10000) * NS_PER_MS)
/* A start that did not end by itself, and took less than this fraction of the known length of
 * such starts, counts as a crash. */
#define FRAGMENT_SHARE 4
/* A start that ended sooner than this may be a crash or a short job.  One such recording is
 * enough: a container that is restarted again and again would otherwise fill the stores with
 * them. */
#define SHORT_MS 1000

int recording_policy_parse(const char *text, struct recording_policy *ret,
			   struct error *err)
{
	static const char *const modes[] = {
		[RECORDING_MODE_OFF] = "off",
		[RECORDING_MODE_AUTO] = "auto",
		[RECORDING_MODE_ALWAYS] = "always",
	};
	size_t len = strcspn(text, ":");
	int64_t ns = WINDOW_NS;
	size_t i = 0;

	while (i < ARRAY_SIZE(modes) &&
	       (strlen(modes[i]) != len || memcmp(modes[i], text, len) != 0))
		i++;
	if (i == ARRAY_SIZE(modes) ||
	    (text[len] && option_parse_duration(text + len + 1, &ns, NULL) < 0))
		return error_set(err, EINVAL,
				 "'%.64s' is not auto, always or off, with or "
				 "without a time, as auto:10m",
				 text);
	if (ns < NS_PER_S || ns > WINDOW_MAX_NS)
		return error_set(err, EINVAL,
				 "'%.64s': a start is watched for 1s to 1h",
				 text);
	*ret = (struct recording_policy){ .mode = (enum recording_mode)i,
					  .window_ns = ns };
	return 0;
}

enum recording_state recording_begin(enum recording_sight sight,
				     enum recording_mode mode, bool is_wanted)
{
	if (sight == RECORDING_BLIND)
		return RECORDING_UNSEEN;
	if (sight == RECORDING_STALE || mode == RECORDING_MODE_OFF)
		return RECORDING_FIGURES;
	if (mode == RECORDING_MODE_ALWAYS)
		return RECORDING_ORDERED;
	return is_wanted ? RECORDING_OFFERED : RECORDING_FIGURES;
}

bool recording_is_on(enum recording_state s)
{
	switch (s) {
	case RECORDING_OFFERED:
	case RECORDING_ORDERED:
	case RECORDING_OFFERED_ASK:
	case RECORDING_ORDERED_ASK:
	case RECORDING_KEPT:
	case RECORDING_EMPTY:
		return true;
	case RECORDING_UNSEEN:
	case RECORDING_FIGURES:
	case RECORDING_NAMELESS:
	case RECORDING_MIXED:
	case RECORDING_FRAGMENT:
	case RECORDING_KNOWN:
		return false;
	}
	return false;
}

static enum recording_state recording_kept(const struct recording_end *e)
{
	return e->n_entries && e->has_key ? RECORDING_KEPT : RECORDING_EMPTY;
}

enum recording_state recording_end(enum recording_state s,
				   const struct recording_end *e)
{
	if (s != RECORDING_OFFERED && s != RECORDING_ORDERED)
		return s;
	if (e->words == START_WORDS_PENDING && e->end == START_GONE)
		return RECORDING_NAMELESS;
	if (e->alone_ns < ALONE_MIN_NS)
		return RECORDING_MIXED;
	/* The start ended by itself, under the key that was looked up before, so the stores
	 * need not be asked again. */
	if (!e->has_key ||
	    (e->end != START_GONE && e->words != START_WORDS_OTHER))
		return recording_kept(e);
	return s == RECORDING_ORDERED ? RECORDING_ORDERED_ASK
				      : RECORDING_OFFERED_ASK;
}

bool recording_has_to_ask(enum recording_state s)
{
	return s == RECORDING_OFFERED_ASK || s == RECORDING_ORDERED_ASK;
}

static bool is_fragment(const struct recording_end *e, uint32_t known_ms)
{
	return e->end == START_GONE &&
	       e->watched_ms < known_ms / FRAGMENT_SHARE;
}

static bool is_short(const struct recording_end *e)
{
	return e->end == START_GONE && e->watched_ms < SHORT_MS;
}

enum recording_state recording_judge(enum recording_state s,
				     const struct recording_end *e,
				     const struct recording_known *known)
{
	if (!recording_has_to_ask(s))
		return s;
	/* Keep the recording if the stores do not answer. */
	if (!known || !known->is_own)
		return recording_kept(e);
	if (is_fragment(e, known->length_ms))
		return RECORDING_FRAGMENT;
	if (s == RECORDING_OFFERED_ASK && (!known->is_wanted || is_short(e)))
		return RECORDING_KNOWN;
	return recording_kept(e);
}
