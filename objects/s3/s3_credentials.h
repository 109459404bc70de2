// SPDX-License-Identifier: Apache-2.0
/*
 * Credentials for an S3 server, from where its other users have them: the environment,
 * the file of credentials, a web identity (pods of Kubernetes), the address of a
 * container's agent, the instance's metadata. Those that end are asked for again in time.
 */
#ifndef BOOTSEER_OBJECTS_S3_CREDENTIALS_H
#define BOOTSEER_OBJECTS_S3_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/http.h"

struct s3_credentials {
	char *key_id, *secret;
	char *token;      /* of a session; NULL: none */
	int64_t until_ms; /* wall clock; 0: they do not end */
};

void s3_credentials_fini(struct s3_credentials *c);

struct s3_login;

struct s3_login_config {
	const char *profile; /* of the file; NULL: AWS_PROFILE, or "default" */
	const char *region;
	const struct http_config *http;
};

int s3_login_new(const struct s3_login_config *cfg, struct s3_login **ret,
		 struct error *err) MUST_CHECK;
void s3_login_free(struct s3_login *l);
DEFINE_AUTO(s3_login)

/* A copy of those that are valid now, or -EACCES, which says where they were looked
 * for.  Any thread; one asks while the others wait, until `deadline_ns` at most. */
int s3_login_get(struct s3_login *l, int64_t deadline_ns,
		 struct s3_credentials *ret, struct error *err) MUST_CHECK;
/* The server takes these no longer, whatever they say. */
void s3_login_expire(struct s3_login *l, const char *key_id);
/* The server refused these. True: there are others by now, since a file of keys may be
 * replaced below a mount that goes on. */
bool s3_login_renew(struct s3_login *l, const struct s3_credentials *refused);

/* The parsers, which are fuzzed: a file of credentials, and answers. */
int s3_credentials_from_file(const char *text, size_t len, const char *profile,
			     struct s3_credentials *ret) MUST_CHECK;
int s3_credentials_from_json(const char *text, size_t len,
			     struct s3_credentials *ret) MUST_CHECK;
int s3_credentials_from_xml(const char *text, size_t len,
			    struct s3_credentials *ret) MUST_CHECK;

/* "2026-11-23T06:10:19Z", in ms since 1970; -1: it is none. */
int64_t s3_time_parse(const char *text);

#endif
