// SPDX-License-Identifier: Apache-2.0
/*
 * A call to a tracker and its answer as JSON, for both sides; pure. docs/formats/registry-api.md
 * describes the fields; unknown fields are skipped.
 */
#ifndef BOOTSEER_P2P_TRACKER_TRACKER_JSON_H
#define BOOTSEER_P2P_TRACKER_TRACKER_JSON_H

#include "common/buf.h"
#include "p2p/rights/revoked.h"
#include "p2p/tracker/tracker.h"

#define TRACKER_CALL_JSON_MAX (32u << 10)
#define TRACKER_ANSWER_JSON_MAX (128u << 10)

/* Write all of a call but the image, which is in the URL. */
int tracker_call_to_json(const struct tracker_call *c, struct buf *ret,
			 struct error *err) MUST_CHECK;

/* A call with its texts and lists; `call` points into it, so it is not copied. */
struct tracker_call_text {
	struct tracker_call call;
	char node[TRACKER_NAME_MAX + 1], addr[TRACKER_ADDR_MAX + 1];
	char rack[TRACKER_PLACE_MAX + 1], zone[TRACKER_PLACE_MAX + 1],
		region[TRACKER_PLACE_MAX + 1];
	uint32_t want[TRACKER_PIECES_MAX], want_bytes[TRACKER_PIECES_MAX],
		done[TRACKER_PIECES_MAX], failed[TRACKER_PIECES_MAX];
};

/* -EINVAL: the message names the field.  Values are checked by tracker_hear(). */
int tracker_call_from_json(const char *text, size_t len,
			   struct tracker_call_text *ret,
			   struct error *err) MUST_CHECK;

int tracker_answer_to_json(const struct tracker_answer *a, struct buf *ret,
			   struct error *err) MUST_CHECK;
int tracker_answer_from_json(const char *text, size_t len,
			     struct tracker_answer *ret,
			     struct error *err) MUST_CHECK;

/* Reason in an error answer, without control characters; "" if there is none. */
void tracker_reason_from_json(const char *text, size_t len, char *ret,
			      size_t size);

/* Write a request for a capability; parse the answer: its bytes, not empty, within the limit of
 * `ret`. */
int capability_wish_to_json(const struct digest *image, const char *repo,
			    const char *node, const char *authorization,
			    struct buf *ret, struct error *err) MUST_CHECK;
int capability_from_json(const char *text, size_t len, struct buf *ret,
			 int64_t *ret_not_after, struct error *err) MUST_CHECK;
/* Parse the revocations in the answer that has the keys. */
int revoked_from_json(const char *text, size_t len, struct revoked **ret,
		      struct error *err) MUST_CHECK;

#endif
