// SPDX-License-Identifier: Apache-2.0
/* The registry store's parts (distribution-spec 1.1); private to its files. */
#ifndef BOOTSEER_OBJECTS_OCI_REGISTRY_H
#define BOOTSEER_OBJECTS_OCI_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/http.h"
#include "objects/oci_hosts.h"
#include "objects/oci_mirrors.h"
#include "objects/oci_store.h"

/* Requests that hosts.toml lets a mirror answer; bits. None: the registry itself is
 * asked. */
enum registry_use {
	REGISTRY_ITSELF,
	REGISTRY_PULLS = 1,   /* what has a digest is had */
	REGISTRY_RESOLVES = 2 /* it says what a tag or a list means */
};

/* Where a login comes from, in the order in which they are tried. */
enum login_place {
	LOGIN_FILE,     /* auth_file, or the helper that it names */
	LOGIN_SHOWN,    /* by a pod: each that was not refused */
	LOGIN_PROVIDER, /* a plugin of the kubelet, or what it said before */
	LOGIN_PROVIDER_ANEW,
	LOGIN_ANONYMOUS,
	LOGIN_PASSED, /* by a pod, and the token service failed for them before */
	LOGIN_PLACES /* all were refused */
};

/* The login that a registry is shown, and how that went. */
struct registry_login {
	bool is_under_way;       /* one thread asks for a token */
	char *authorization;     /* header line, or NULL */
	unsigned int generation; /* changes with `authorization` */
	char *challenge;         /* WWW-Authenticate that it answers, or NULL */
	uint64_t shown_id;       /* of oci_logins.h; 0: it is from elsewhere */
	enum login_place next;   /* is tried when this one is refused */
	bool works;              /* this one was accepted */
	bool has_worked;         /* this one or one before it */
	/* These count logins that expired and were refused when they were renewed, too: */
	unsigned int n_refused; /* in a row */
	int64_t retry_at_ns;    /* no helper or token service is asked before */
	unsigned int n_seen;    /* logins that were new then */
};

struct registry {
	struct oci_store base;
	atomic_uint refs; /* the store and each open blob */
	/* The store whose connections and login these are, when only the pace is its own:
	 * what is not in `base`, `refs` and `cfg` is borrowed from there. NULL else. */
	struct registry *whole;
	struct http *http;
	struct oci_config cfg;
	char *auth_file; /* or NULL */
	char *host, *repo;
	char *url;    /* "https://host/v2/repo" */
	char *origin; /* "https://host" */
	/* Asked before it, in this order: each a registry of its own, with the
	 * login of its own host.  Of the whole; no mirror has mirrors. */
	struct registry *mirrors[OCI_MIRRORS_MAX];
	size_t n_mirrors;
	bool is_mirror;    /* there is the registry itself behind it */
	unsigned int uses; /* of enum registry_use */
	char *query;       /* "ns=HOST": whose mirror is asked; or NULL */
	char *extra[OCI_MIRROR_HEADERS_MAX + 1]; /* header lines; NULL ends */
	atomic_int_fast64_t heard_ns;            /* of `http` */
	pthread_mutex_t lock;                    /* of `login` */
	pthread_cond_t logged_in; /* login.is_under_way became false */
	struct registry_login login;
	/* Abilities of the registry, as its answers show (those of `whole`, where there
	 * is one): */
	atomic_bool lists_referrers;            /* by the API */
	atomic_int_fast64_t no_referrers_until; /* it has no such API */
	atomic_bool refuses_head; /* of blobs; GET is asked instead */
};

#define REGISTRY_HEADERS_MAX 6 /* of a request, ours not counted */

struct registry_request {
	struct http_request http; /* url relative to /v2/REPO unless absolute;
	                           * headers without Authorization */
	const char *what;         /* for messages: "blob sha256:..." */
	bool (*accept)(long status); /* is it a good answer?  NULL: 2xx is */
	bool is_final;     /* set: this failure is not to be tried again */
	bool is_of_others; /* set: the answer may be about a pod's login, or is of a
	                        * host that the registry led to */
	enum registry_use use; /* who may answer */
	/* The mirror that answered, and that is to be asked for an absolute url which it
	 * had led to. NULL: the registry itself. */
	struct registry *by;
	/* The host that refused the last connection: the registry, or its token
	 * service.  "": none did. */
	char refused_by[OCI_HOST_ROOM];
};

struct registry *registry_of(struct oci_store *s);
/* "scheme://host[:port]" of a URL, as it is known among the hosts; or "". */
void registry_origin_of(const char *url, char ret[OCI_HOST_ROOM]);
/* The one whose login it is: itself, or what it is a part of. */
struct registry *registry_whole(struct registry *r);
struct registry *registry_ref(struct registry *r);
void registry_unref(struct registry *r);

/*
 * Do a request: log in when asked, try again after cuts, 429 and 5xx within
 * cfg.attempts.  0 when the answer was accepted; otherwise -ENOENT (404),
 * -EACCES (401, 403), -EBUSY (429), -EIO, -ETIMEDOUT ..., the message naming
 * host, repository and what was asked for.
 */
int registry_do(struct registry *r, struct registry_request *req,
		struct http_response *resp, struct error *err) MUST_CHECK;

/* The same, once: for what may not simply be sent again. */
int registry_try(struct registry *r, struct registry_request *req,
		 struct http_response *resp, struct error *err) MUST_CHECK;

/* Logins (oci_registry_login.c). */

/* The header line to be shown now, the caller's, and its number; NULL: none.  `ret_is_shown`
 * (may be NULL): a pod showed the login that it is of. */
char *registry_login_line(struct registry *r, unsigned int *ret_generation,
			  bool *ret_is_shown);

/* Is it an answer that another login may change?  401, 403, and what the registry's
 * own text calls a refusal. */
bool registry_is_refusal(const struct http_response *resp);

/* After `n_logins` of this request: is another one worth it?  Line `used`
 * was refused with `resp`; `is_verdict`: which says that its login may not read here.  A
 * login that worked before is asked for anew once, and then after growing pauses, or as
 * soon as one of another repository there works or a pod shows a new one. */
bool registry_may_log_in(struct registry *r, const struct http_response *resp,
			 unsigned int used, int n_logins, bool is_verdict);

/* Does it ask for something small, by GET or HEAD? */
bool registry_is_question(const struct http_request *req);

/* Is it a question that an image starts without, the ordinary way?  A reader of blocks
 * waits, and so does who works for one. */
bool registry_is_optional(const struct registry *r,
			  const struct registry_request *req);
/* Time that a request which can be done without waits for TCP: a lost SYN is sent again after
 * a second. */
#define REGISTRY_REACH_MS 1200

/* Meet the challenge of `resp`, or the one before it.  Threads whose line `used` was
 * refused at once ask for one token only.  A token service that is away is not asked for
 * `req` when that is optional: `req` is final then. */
int registry_log_in(struct registry *r, struct registry_request *req,
		    const struct http_response *resp, unsigned int used,
		    bool is_verdict, struct error *err) MUST_CHECK;

/* Show line `used` no more. */
void registry_login_drop(struct registry *r, unsigned int used,
			 bool is_verdict);

/* Line `used` was accepted; a login is refused, and no other is tried. */
void registry_login_worked(struct registry *r, unsigned int used);
void registry_login_refused(struct registry *r,
			    const struct http_response *resp);

/* Set the error that the status of an answer means, and the cure; -errno. */
int registry_status_error(const struct http_response *resp, struct error *err);

/* May it go better next time? */
bool registry_can_retry(int rc, long status);

/* Wait before attempt `n` + 1, as long as the answer `resp` (may be NULL) says
 * at least, but leave time for a last attempt before the deadline (0 is none);
 * -ETIMEDOUT at once when that was it, -ECANCELED as soon as `pace` (may be NULL)
 * says stop. */
int registry_back_off(unsigned int n, const struct http_response *resp,
		      int64_t deadline_ns, struct pace *pace) MUST_CHECK;

/* The same for a request of `r`, and whoever watches the registry is told. */
int registry_wait(struct registry *r, unsigned int n,
		  const struct registry_request *req,
		  const struct http_response *resp) MUST_CHECK;

/* Write side and lists: contracts of struct oci_store_ops. */
int registry_put_blob(struct oci_store *s, const struct digest *d,
		      uint64_t size, int fd, struct oci_progress *p,
		      struct error *err);
int registry_put_manifest(struct oci_store *s, const char *ref,
			  const char *media_type, const void *body, size_t len,
			  struct error *err);
int registry_remove_manifest(struct oci_store *s, const struct digest *d,
			     struct error *err);
int registry_list_tags(struct oci_store *s, size_t max, char ***ret,
		       size_t *ret_n, struct error *err);
int registry_list_noted(struct oci_store *s,
			const struct oci_referrers_query *q,
			struct oci_referrers *ret, struct error *err);
int registry_list_referrers(struct oci_store *s, const struct digest *d,
			    const char *artifact_type, struct digest **ret,
			    size_t *ret_n, struct error *err);

/* Read side. */
/* Accept of every kind of manifest; NULL ends. */
extern const char *const registry_manifest_headers[];
/* `pace` may be NULL. */
int registry_read_manifest(struct oci_store *s, const char *ref,
			   bool may_mirror, struct pace *pace,
			   struct oci_manifest *ret,
			   struct error *err) MUST_CHECK;
int registry_get_manifest(struct oci_store *s, const char *ref,
			  struct oci_manifest *ret, struct error *err);
/* The same, from a mirror where one has it. */
int registry_pull_manifest(struct oci_store *s, const char *ref,
			   struct oci_manifest *ret, struct error *err);
int registry_find_blob(struct oci_store *s, const struct digest *d, bool *ret,
		       uint64_t *ret_size, struct error *err) MUST_CHECK;
int registry_open_blob(struct oci_store *s, const struct digest *d,
		       uint64_t size, struct source **ret, struct error *err);

/* Content-Type without parameters; "" when there is none. */
void registry_content_type(const struct http_response *resp, char *out,
			   size_t size);

/* Fallback tag of a subject, "sha256-<hex>" (distribution-spec 1.1, Referrers
 * Tag Schema).  A registry that takes such a tag for the digest cannot keep the list
 * there: then it is in a tag of ours, that with REFERRERS_TAG_OWN behind it. */
#define REFERRERS_TAG_OWN ".referrers"
#define REFERRERS_TAG_MAX (DIGEST_STR_MAX + sizeof(REFERRERS_TAG_OWN))
void registry_referrers_tag(const struct digest *d,
			    char out[REFERRERS_TAG_MAX]);

/* The list of a subject by its tag, an index, and which tag that is; `tag` is set when
 * there is none, too: -ENOENT. */
int registry_get_list(struct registry *r, const struct digest *d,
		      char tag[REFERRERS_TAG_MAX], struct oci_manifest *ret,
		      struct error *err) MUST_CHECK;

#endif
