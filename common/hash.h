// SPDX-License-Identifier: Apache-2.0
/*
 * uthash, which would end the program when memory is short.  With this header
 * what could not be added is left as it was: after HASH_ADD look at
 * hash_has_added().
 */
#ifndef BOOTSEER_COMMON_HASH_H
#define BOOTSEER_COMMON_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* `element` was just added, its handle is the member `hh`. */
#define hash_has_added(element) ((element)->hh.tbl != NULL)

#endif
