// SPDX-License-Identifier: Apache-2.0
/*
 * Where requests about images wait that a restarted daemon has not adopted yet.
 */
#ifndef BOOTSEER_DATAPATH_PARKING_H
#define BOOTSEER_DATAPATH_PARKING_H

#include "snapshotter/datapath/images.h"

struct parking;

/* Closed at first: nothing is parked. */
struct parking *parking_new(struct image_table *images) MUST_CHECK;
void parking_free(struct parking *p);
void parking_open(struct parking *p);

/*
 * Park a copy of the request, of `len` bytes and a NUL after them, if it is
 * about an image that is not in the table.  False: process it now.
 */
bool parking_take(struct parking *p, const char *request, size_t len);

/*
 * Hand the requests whose image came to `process`, in the order they came;
 * `all`: the others too, and close.
 */
void parking_release(struct parking *p, bool all,
		     void (*process)(void *arg, void *request, size_t len),
		     void *arg);

#endif
