// SPDX-License-Identifier: Apache-2.0
/*
 * The XML that S3 servers answer with: elements and their text.  Attributes, comments
 * and instructions are passed over; there are no entities but the five of XML and
 * characters by number, and a document type is refused.
 */
#ifndef BOOTSEER_OBJECTS_S3_XML_H
#define BOOTSEER_OBJECTS_S3_XML_H

#include <stddef.h>

#include "common/buf.h"

#define S3_XML_DEPTH 16u

/* An element ended.  `path` has the names from the root to it, without prefixes, with
 * slashes between: "ListBucketResult/Contents/Key".  `text` is its own, decoded.
 * Returns 0 or -errno, which s3_xml_parse() then returns. */
typedef int s3_xml_fn(void *arg, const char *path, const char *text);

/* -EBADMSG: that is no such XML; -EFBIG: too many elements in one another. */
int s3_xml_parse(const char *data, size_t len, s3_xml_fn *fn,
		 void *arg) MUST_CHECK;

/* Append text with what XML would take for its own escaped. */
int s3_xml_escape(struct buf *b, const char *text) MUST_CHECK;

#endif
