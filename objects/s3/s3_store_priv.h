// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the s3: back end. */
#ifndef BOOTSEER_OBJECTS_S3_STORE_PRIV_H
#define BOOTSEER_OBJECTS_S3_STORE_PRIV_H

#include "common/bytes.h"
#include "net/http.h"
#include "objects/s3/s3_credentials.h"
#include "objects/s3/s3_sign.h"
#include "objects/store/fetch.h"
#include "objects/store/store_lock.h"

#define S3_READ (8 * MIB) /* bytes of one range */
/* Bytes of a part; the protocol's minimum is 5 MiB. */
#define S3_PART (8 * MIB)
#define S3_COPY_MAX (5 * GIB) /* limit of the protocol for one copy */
#define S3_PUT_HEADER "x-amz-meta-bootseer-put" /* identifies the put */

struct s3_store {
	struct object_store base;
	struct http *http;
	struct s3_login *login; /* NULL: requests are not signed */
	char *region;
	char *origin; /* "https://HOST[:PORT]" */
	char *host;   /* value of the Host header */
	char *bucket;
	char *bucket_path; /* "/BUCKET", or "" when the host names it */
	char *prefix;      /* prefix of all keys, ending in a slash; or "" */
	/* Use locks: the server's conditions are not used. */
	bool by_lock;
	struct fetch_history *history;
};

static inline struct s3_store *s3_store_of(struct object_store *s)
{
	return container_of(s, struct s3_store, base);
}

#define S3_HEADERS_MAX 8u

struct s3_request {
	const char *method;
	const char *name;  /* object's name; NULL: the bucket itself */
	const char *query; /* encoded and sorted; NULL: none */
	struct s3_header headers[S3_HEADERS_MAX]; /* beside those of signing */
	size_t n_headers;
	const void *body;
	size_t body_len;
	bool is_hashed; /* the signature covers the body */
	struct http_sink *sink;
	struct buf *whole; /* instead of a sink: gets the whole answer */
	size_t whole_max;
	struct pace *pace;
	int64_t deadline_ns; /* 0: only a stall ends it */
};

void s3_header(struct s3_request *r, const char *name, const char *value);

/* Make one attempt of the request. 0: an answer of 2xx came, and no error is in its body. */
int s3_try(struct s3_store *s, struct s3_request *r, struct http_response *resp,
	   struct retry_verdict *v, struct error *err) MUST_CHECK;
/* Make the request, with retries within the store's budget. */
int s3_call(struct s3_store *s, struct s3_request *r,
	    struct http_response *resp, struct error *err) MUST_CHECK;

/* PREFIX + name. */
int s3_key(const struct s3_store *s, const char *name, struct buf *ret,
	   struct error *err) MUST_CHECK;

/* Fill the object's figures from the headers of an answer. */
int s3_stat_fill(const struct http_response *resp, struct object_stat *ret,
		 struct error *err) MUST_CHECK;

/* Text of the first element of this path in an answer; the caller's.  NULL: none. */
char *s3_element(const struct http_response *resp, const char *path) MUST_CHECK;

/* Members of the vtable. */
int s3_store_stat(struct object_store *s, const char *name,
		  struct object_stat *ret, struct error *err);
int s3_store_open_object(struct object_store *s, const char *name,
			 struct object **ret, struct error *err);
int s3_store_open_unasked(struct object_store *s, const char *name,
			  struct object **ret, struct error *err);
int s3_store_open_head(struct object_store *s, const char *name, size_t most,
		       struct object **ret, struct error *err);
int s3_store_get(struct object_store *s, const char *name, size_t max,
		 struct buf *ret, struct object_stat *ret_stat,
		 struct error *err);
int s3_store_read(struct object *o, const struct object_range *ranges, size_t n,
		  int64_t deadline_ns, struct error *err);
void s3_store_close(struct object *o);
int s3_store_list(struct object_store *s, const char *folder, bool deep,
		  object_list_fn *fn, void *arg, struct error *err);
int s3_store_sweep(struct object_store *s, const char *folder,
		   int64_t before_ms, size_t *ret_n, struct error *err);
int s3_store_put_open(struct object_store *s, const char *name,
		      const struct object_put_options *opts,
		      struct object_put **ret, struct error *err);
int s3_store_put_commit(struct object_put *p, struct object_stat *ret,
			struct error *err);
void s3_store_put_free(struct object_put *p);
int s3_store_probe(struct object_store *s, struct error *err);
#endif
