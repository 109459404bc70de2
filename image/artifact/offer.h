// SPDX-License-Identifier: Apache-2.0
/*
 * An index artifact as one run of bytes, in which nodes upload it to bootseer-registry and
 * download it: docs/formats/artifact.md, "As an offer". Pure.
 */
#ifndef BOOTSEER_IMAGE_ARTIFACT_OFFER_H
#define BOOTSEER_IMAGE_ARTIFACT_OFFER_H

#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

/* The members of an offer, in the order in which they follow its head. */
enum offer_member {
	OFFER_MANIFEST,
	OFFER_CONFIG,
	OFFER_META, /* the blobs of the artifact, as stored */
	OFFER_MAP,
	OFFER_WINDOWS, /* may be empty */
	OFFER_MEMBERS
};

#define OFFER_HEAD 48u /* bytes */
#define OFFER_MAX (UINT64_C(1) << 30)

struct offer {
	uint64_t size[OFFER_MEMBERS];
};

int offer_format_head(const struct offer *o, struct buf *ret) MUST_CHECK;

/* Parse the head of an offer of `total` bytes. -EBADMSG: it is no offer, or longer than
 * nodes accept. */
int offer_parse_head(const void *data, size_t len, uint64_t total,
		     struct offer *ret, struct error *err) MUST_CHECK;

/* Offset at which a member begins. */
uint64_t offer_begin(const struct offer *o, enum offer_member m);

#endif
