// SPDX-License-Identifier: Apache-2.0
/* Whether a store is silent while it is waited for. */
#ifndef BOOTSEER_OBJECTS_STORE_STORE_WATCH_H
#define BOOTSEER_OBJECTS_STORE_STORE_WATCH_H

#include "objects/store/backend.h"

struct store_watch;

/* Before the store is freed; NULL is allowed. */
void store_watch_stop(struct store_watch *w);

/* After what time somebody is told; 0: of so short a wait nobody is. */
int64_t store_silence_after(int64_t timeout_ns);

/* Is the store, at `now_ns`, to be told of?  `*ret_next_ns` is when to look again. */
bool store_silence_look(struct store_silence *s, int64_t now_ns,
			int64_t after_ns, int64_t *ret_next_ns);

#endif
