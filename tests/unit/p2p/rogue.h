// SPDX-License-Identifier: Apache-2.0
/* A node that speaks the protocol, and does no good. */
#ifndef BOOTSEER_TESTS_UNIT_P2P_ROGUE_H
#define BOOTSEER_TESTS_UNIT_P2P_ROGUE_H

#include "p2p/net/net.h"
#include "tests/unit/blockstore/image.h"

enum rogue_kind {
	ROGUE_LIES,   /* answers with bytes that are not the piece's */
	ROGUE_STALLS, /* says that it has everything, and never answers */
	ROGUE_GONE,   /* says that it has everything, and refuses as gone */
	ROGUE_BUSY,   /* ... as busy, for ever */
};

struct rogue;
struct rogue *rogue_start(enum rogue_kind kind, const struct image *img,
			  const struct digest *digest);
void rogue_stop(struct rogue *r);
/* "ADDR:PORT" */
const char *rogue_address(struct rogue *r);
/* How many pieces it was asked for, how many links were made, and ended. */
unsigned int rogue_asked(struct rogue *r);
unsigned int rogue_links(struct rogue *r);
unsigned int rogue_ended(struct rogue *r);
/* How often it was shown an image, and was not let into one, or any more. */
unsigned int rogue_shown(struct rogue *r);
unsigned int rogue_refused(struct rogue *r);

#endif
