// SPDX-License-Identifier: Apache-2.0
/* The parts of fake-registry. */
#ifndef BOOTSEER_TESTS_FAKES_REGISTRY_H
#define BOOTSEER_TESTS_FAKES_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/fs.h"
#include "objects/oci.h"

/* Values are whole numbers, 0 is off, unless it says otherwise. */
enum fault {
	FAULT_MATCH,  /* text: counted faults strike URIs that contain it */
	FAULT_TIMES,  /* counted faults end after so many strikes; 0 never */
	FAULT_STATUS, /* answer with this status */
	FAULT_RETRY_AFTER, /* of `status`, in seconds; < 0: as a date */
	FAULT_DELAY_MS,    /* before the answer */
	FAULT_DROP,        /* close the connection instead of an answer */
	FAULT_DROP_AFTER,  /* do as asked by PUT, then close without answer */
	FAULT_CUT,         /* close after so many bytes of the body */
	FAULT_HANG,        /* send nothing more after so many */
	FAULT_DRIP,        /* send so many bytes at once */
	FAULT_DRIP_MS,     /* and wait so long after them */
	FAULT_WRONG,       /* flip a bit in byte N-1 of each blob */
	FAULT_NO_RANGE,    /* ranges are not honoured: 200 */
	FAULT_BAD_RANGE,   /* 206 with a range that was not asked for */
	FAULT_MAX_RANGE,   /* at most so many bytes in one answer */
	FAULT_BASIC,       /* wants user "user", password "secret" */
	FAULT_BEARER,      /* wants a token of /token */
	FAULT_REFUSAL,     /* status for who shows a login that is not good (any
	                      * more), instead of 401 */
	FAULT_LOGIN,       /* /token wants the same user and password, or the
			    * refresh token "refresh" */
	FAULT_LOCKED,      /* status of /token for who shows another user or
			    * password */
	FAULT_TOKEN_USES,  /* a token expires after so many requests */
	FAULT_REDIRECT,    /* blobs are at the control port, 307 */
	FAULT_STORAGE_LOGIN, /* the control port wants a login: 1 a password, 2 a
	                      * token of its own /steal */
	FAULT_TOKEN_PORT,    /* the token service is at this port instead */
	FAULT_TOKEN_MOVED,   /* /token is at the control port's /steal, 307 */
	FAULT_REFERRERS, /* 1 (default): the referrers API is there; from 100 on:
	                      * it answers with this status; else enum lists */
	FAULT_UPLOAD_CUT,  /* keep so many bytes of a PATCH, close */
	FAULT_UPLOAD_LOSE, /* forget upload sessions: 404 */
	FAULT_NO_CHUNKS,   /* PATCH with Content-Range is 400 */
	FAULT_DOWN,        /* nobody listens */
	FAULT_PAGE,        /* tags in one answer */
	FAULT_NO_DELETE,   /* manifests cannot be deleted: 405 */
	FAULT_DIGEST_TAGS, /* the tag sha256-HEX is the manifest with that digest,
	                      * and cannot be put: 400 */
	FAULT_IMMUTABLE, /* a tag that is there keeps its manifest: this status */
	FAULT_NO_HEAD, /* HEAD of a blob is refused: 1 with 405, 2 by the storage
	                      * that `redirect` leads it to */
	FAULT_REFERER, /* the storage wants to know which registry led there */
	N_FAULTS,
};

/* How the referrers API answers, odd as some do. */
enum lists {
	LISTS_NONE, /* 404: there is no such API */
	LISTS_PROPER,
	LISTS_OTHER,   /* JSON that is no list */
	LISTS_NULL,    /* a list that is always null */
	LISTS_UNTYPED, /* entries without artifactType and annotations */
	LISTS_EMPTY,   /* no body */
	LISTS_UNTOLD,  /* proper, but puts have no OCI-Subject */
	LISTS_ENDLESS, /* each page says that there is one more */
};

struct fault_spec {
	const char *name;
	bool text;
	bool counted; /* by `times` */
};

extern const struct fault_spec fault_specs[N_FAULTS];

struct session {
	char id[32]; /* "" when free */
	FILE *file;
	uint64_t size;
};

struct event_base;
struct evhttp;
struct evhttp_bound_socket;
struct evhttp_request;
struct evbuffer;

struct fake {
	struct event_base *base;
	struct evhttp *http, *control;
	struct evhttp_bound_socket *listener; /* NULL while down */
	int held; /* has the port, also while down, when nothing listens at it */
	uint16_t port, control_port;
	struct oci_store *store;
	char *dir;
	const char *address; /* of the registry itself */
	FILE *log, *heads;   /* the latter or NULL */
	int64_t faults[N_FAULTS];
	char match[128];
	uint64_t expired; /* bits of faults that end with this request */
	struct session sessions[64];
	unsigned int n_sessions;   /* ever, for their names */
	unsigned int token_serial; /* of the token that is valid */
	int64_t token_used;
};

int64_t fault(const struct fake *f, enum fault which);
bool fault_strikes(struct fake *f, enum fault which, const char *uri);

void fake_header(struct evhttp_request *req, const char *name,
		 const char *value);
void fake_reply(struct fake *f, struct evhttp_request *req, int status,
		struct evbuffer *body);
void fake_reply_text(struct fake *f, struct evhttp_request *req, int status,
		     const char *text);
void fake_drop(struct fake *f, struct evhttp_request *req);

/* registry_api.c: false when the request was answered instead. */
bool fake_authorize(struct fake *f, struct evhttp_request *req);
void fake_serve(struct fake *f, struct evhttp_request *req);
void fake_serve_blob(struct fake *f, struct evhttp_request *req,
		     const char *digest);

#endif
