// SPDX-License-Identifier: Apache-2.0
/*
 * PAX records (POSIX, pax, "pax Interchange Format"), read as Go's archive/tar does, which
 * containerd uses to unpack.  No I/O.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_PAX_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_PAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes; `data` NULL: there are none. */
struct pax_text {
	const uint8_t *data;
	size_t len;
};

/* Read the record at `*at`, and advance `*at`.  False at the end, or if it is no record. */
bool pax_next(const uint8_t *records, size_t len, size_t *at,
	      struct pax_text *ret_key, struct pax_text *ret_value);

/* Are all bytes complete records? */
bool pax_is_whole(const uint8_t *records, size_t len);

/* The value of the last record of that key; without data when there is none. */
struct pax_text pax_find(const uint8_t *records, size_t len, const char *key);

#endif
