// SPDX-License-Identifier: Apache-2.0
/*
 * Signatures of S3 requests, AWS Signature Version 4. libcurl's own (CURLOPT_AWS_SIGV4) is not
 * used: it leaves out x-amz-content-sha256, which servers require, and signs the query in the
 * order in which it is written.
 */
#ifndef BOOTSEER_OBJECTS_S3_SIGN_H
#define BOOTSEER_OBJECTS_S3_SIGN_H

#include "common/buf.h"
#include "common/error.h"

#define S3_UNSIGNED "UNSIGNED-PAYLOAD"
#define S3_TIME_MAX 17 /* "20130524T000000Z" and a NUL */

/* A header to be signed; its name in lower case. */
struct s3_header {
	const char *name, *value;
};

struct s3_signing {
	const char *key_id, *secret; /* key and secret of the credentials */
	const char *region, *service;
	const char *time; /* "20130524T000000Z" */
	const char *method;
	const char *path;  /* percent-encoded as it is sent */
	const char *query; /* NAME=VALUE&..., encoded and sorted; "" for none */
	/* "host" and each "x-amz-*", sorted by name, x-amz-date and
	 * x-amz-content-sha256 among them. */
	const struct s3_header *headers;
	size_t n_headers;
	const char *payload; /* SHA-256 of the body in hex, or S3_UNSIGNED */
};

/* Append the value of the header "Authorization".  -ENOMEM. */
int s3_sign(const struct s3_signing *s, struct buf *ret) MUST_CHECK;

/* SHA-256 of `len` bytes in hex and a NUL. */
int s3_hash(const void *data, size_t len, char ret[65]) MUST_CHECK;

#endif
