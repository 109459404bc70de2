// SPDX-License-Identifier: Apache-2.0
/* Calls and answers as JSON: what can be read can be written and read again. */
#include <stdint.h>
#include <string.h>

#include "p2p/tracker/tracker_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ')
			return true;
	return false;
}

static void call(const char *text, size_t size)
{
	static struct tracker_call_text a, b; /* large */
	AUTO_BUF out = BUF_INIT;

	if (tracker_call_from_json(text, size, &a, NULL) < 0 ||
	    has_control(a.node) || has_control(a.addr) || has_control(a.rack) ||
	    has_control(a.zone) || has_control(a.region))
		return; /* no tracker takes these */
	if (tracker_call_to_json(&a.call, &out, NULL) < 0 ||
	    tracker_call_from_json(out.data, out.len, &b, NULL) < 0 ||
	    strcmp(a.node, b.node) != 0 || a.call.n_want != b.call.n_want ||
	    memcmp(a.want, b.want, a.call.n_want * sizeof(*a.want)) != 0 ||
	    a.call.origin_wait_ns != b.call.origin_wait_ns ||
	    a.call.run != b.call.run ||
	    (a.call.run && a.call.opening != b.call.opening))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tracker_answer answer; /* large */
	AUTO_BUF out = BUF_INIT;
	AUTO(revoked) revoked = NULL;
	const char *text = (const char *)data;

	int64_t not_after;
	char reason[32];

	call(text, size);
	tracker_reason_from_json(text, size, reason, sizeof(reason));
	if (capability_from_json(text, size, &out, &not_after, NULL) == 0 &&
	    (out.len == 0 || not_after < 0))
		abort();
	buf_reset(&out);
	if (revoked_from_json(text, size, &revoked, NULL) == 0 &&
	    revoked_count(revoked) > REVOKED_MAX)
		abort();
	if (tracker_answer_from_json(text, size, &answer, NULL) < 0)
		return 0;
	if (answer.n_members > TRACKER_MEMBERS_MAX ||
	    answer.n_granted > TRACKER_PIECES_MAX ||
	    tracker_answer_to_json(&answer, &out, NULL) < 0)
		abort();
	return 0;
}
