// SPDX-License-Identifier: Apache-2.0
/* The tracker's core behind the smallest HTTP server that our client is content
 * with; the real one is tested by tests/functional. */
#ifndef BOOTSEER_TESTS_UNIT_P2P_FAKE_TRACKER_H
#define BOOTSEER_TESTS_UNIT_P2P_FAKE_TRACKER_H

#include "p2p/tracker/tracker.h"

struct fake_tracker;
/* The tracker gives rights to the image of a crowd, and to no other. */
struct fake_tracker *fake_tracker_start(void);
/* It tells the nodes to announce so often. */
void fake_tracker_interval(struct fake_tracker *t, int64_t ns);
/* From now on it has no room for leases; it hears all the same who takes part. */
void fake_tracker_fill(struct fake_tracker *t);
/* The next call that tells of what ended is heard, but not answered before it is
 * released; is one held? */
void fake_tracker_hold(struct fake_tracker *t);
bool fake_tracker_holds(struct fake_tracker *t);
void fake_tracker_release(struct fake_tracker *t);
/* From now on the first that leaves is heard after another call; how many did leave? */
void fake_tracker_leave_late(struct fake_tracker *t);
unsigned int fake_tracker_n_left(struct fake_tracker *t);
/* Answers nobody any more. */
void fake_tracker_kill(struct fake_tracker *t);
void fake_tracker_free(struct fake_tracker *t);
const char *fake_tracker_url(const struct fake_tracker *t);
/* It gives capabilities that are good for `life_s`, 0: none; `pem` is to check them
 * with. */
extern const char fake_tracker_pem[];
void fake_tracker_sign(struct fake_tracker *t, unsigned int life_s);
/* Those of this node name this repository, whatever it asks for; both stay. */
void fake_tracker_sign_other(struct fake_tracker *t, const char *node,
			     const char *repo);
/* It says that everything was revoked of this node. */
void fake_tracker_revoke(struct fake_tracker *t, const char *node);
void fake_tracker_stats(struct fake_tracker *t, struct tracker_stats *ret);

#endif
