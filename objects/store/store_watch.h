// SPDX-License-Identifier: Apache-2.0
/* Watches whether a store is silent while a call waits for it. */
#ifndef BOOTSEER_OBJECTS_STORE_STORE_WATCH_H
#define BOOTSEER_OBJECTS_STORE_STORE_WATCH_H

#include "objects/store/backend.h"

struct store_watch;

/* Call before the store is freed; NULL is allowed. */
void store_watch_stop(struct store_watch *w);

/* Silence after which it is reported, for this timeout; 0: never, as the wait is too short. */
int64_t store_silence_after(int64_t timeout_ns);

/* Is the store's silence to be reported at `now_ns`? `*ret_next_ns`: when to check again. */
bool store_silence_look(struct store_silence *s, int64_t now_ns,
			int64_t after_ns, int64_t *ret_next_ns);

#endif
