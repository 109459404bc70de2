// SPDX-License-Identifier: Apache-2.0
/*
 * Parser of the XML of S3 answers: elements and their text. Attributes, comments and instructions
 * are skipped; only XML's five entities and numeric characters are known; a document type is
 * refused.
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

/* -EBADMSG: not such XML; -EFBIG: nested too deep. */
int s3_xml_parse(const char *data, size_t len, s3_xml_fn *fn,
		 void *arg) MUST_CHECK;

/* Append text, escaped for XML. */
int s3_xml_escape(struct buf *b, const char *text) MUST_CHECK;

#endif
