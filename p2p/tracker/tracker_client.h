// SPDX-License-Identifier: Apache-2.0
/*
 * A node's side of the trackers: calls over HTTP, which block their thread.
 *
 * Of several trackers the one responsible for an image is asked, by rendezvous
 * hashing over their URLs; the next one when it does not answer.  Who did not answer
 * is left alone for a while, longer each time.
 */
#ifndef BOOTSEER_P2P_TRACKER_TRACKER_CLIENT_H
#define BOOTSEER_P2P_TRACKER_TRACKER_CLIENT_H

#include "common/pace.h"
#include "p2p/rights/capability.h"
#include "p2p/rights/revoked.h"
#include "p2p/tracker/tracker.h"

#define TRACKER_URLS_MAX 16u

/* Results of the last calls to a tracker. */
enum tracker_state {
	TRACKER_NEW,     /* none was made yet */
	TRACKER_GOOD,    /* it does what it is asked */
	TRACKER_LOST,    /* it did not answer twice on end, or the first time */
	TRACKER_REFUSES, /* it answers, and lets this node take no part; or
			  * what answers there is no tracker */
};

struct tracker_client_config {
	char *const *urls; /* of bootseer-registry, NULL-terminated; copied */
	const char *token_file; /* read at each call; NULL: none is needed */
	const char *ca_file;    /* PEM; NULL: the system's */
	/* The node's own certificate and key, PEM, for trackers that ask for
	 * it; NULL: none. */
	const char *cert_file, *key_file;
	/* Also tell those that tracker_is_private() denies the token, and a
	 * registry's credentials; else -EINVAL, -EACCES. */
	bool plain_http;
	int64_t deadline_ns; /* of a call over all trackers; 0: 2 s */
	/* Called when a tracker becomes TRACKER_LOST, or TRACKER_REFUSES, or
	 * for another reason than before; or TRACKER_GOOD again, `why` "". Any
	 * thread; may be NULL. */
	void (*changed)(void *arg, const char *url, enum tracker_state state,
			const char *why);
	void *arg;
};

/* By its name: 127.0.0.0/8, [::1], localhost. */
bool tracker_is_here(const char *url);
/* May it be told secrets: is it https://, or on this machine? */
bool tracker_is_private(const char *url);

/* Any thread. */
struct tracker_client;
int tracker_client_new(const struct tracker_client_config *cfg,
		       struct tracker_client **ret,
		       struct error *err) MUST_CHECK;
void tracker_client_free(struct tracker_client *c);
DEFINE_AUTO(tracker_client)

/*
 * Announce.  `ret` is large: the caller keeps it off the stack.
 *   -ECONNREFUSED  no tracker answers
 *   -EBUSY         a tracker is there, with no room for this image: it is asked again
 *                  as ever, and of other images at once
 *   -EAGAIN        all are left alone for now: nobody was asked
 *   -EACCES        the token is not good for this, or there is none to be read
 *   -EINVAL        the tracker says that the call cannot be
 *   -EPROTO        the answer is none: what is there is no tracker
 */
int tracker_client_call(struct tracker_client *c,
			const struct tracker_call *call,
			struct tracker_answer *ret,
			struct error *err) MUST_CHECK;

/* Does tracker `i` of tracker_client_places() do what `node` asks?  By a call that
 * changes nothing there, whether or not it is left alone now, and after which it is not
 * left alone for longer.  `pace` (NULL: none) ends it early.  Errors as above;
 * -ECANCELED: nothing is known. */
int tracker_client_probe(struct tracker_client *c, size_t i, const char *node,
			 struct pace *pace, struct error *err) MUST_CHECK;

struct tracker_capability {
	uint8_t data[CAPABILITY_MAX];
	size_t len;
	int64_t not_after; /* seconds since 1970 */
};

/* The right of `node` to an image of "HOST/REPOSITORY", for who shows the registry
 * `authorization` (NULL: nothing).  Errors as above; -EACCES also when the
 * registry says no; -EBUSY: the service cannot tell now, so when the registry does
 * not answer it; -EOPNOTSUPP: the service signs none. */
int tracker_client_capability(struct tracker_client *c,
			      const struct digest *image, const char *repo,
			      const char *node, const char *authorization,
			      struct tracker_capability *ret,
			      struct error *err) MUST_CHECK;

#define TRACKER_ETAG_MAX 80u
/* Get the list of revocations; `*ret` NULL: the same as when it came with this
 * `etag` ("": it never did), which is replaced. Errors as above. */
int tracker_client_revoked(struct tracker_client *c,
			   char etag[TRACKER_ETAG_MAX], struct revoked **ret,
			   struct error *err) MUST_CHECK;

struct tracker_client_stats {
	uint64_t calls_total, failures_total; /* failures: of one tracker */
	unsigned int trackers, down;          /* down: left alone now */
	unsigned int good, lost, refusing;    /* of each state */
};
void tracker_client_get_stats(struct tracker_client *c,
			      struct tracker_client_stats *ret);

struct tracker_place {
	const char *url; /* borrowed from the client */
	enum tracker_state state;
	char why[ERROR_MSG_MAX]; /* not where it is good */
};
/* Returns how many there are. */
size_t tracker_client_places(struct tracker_client *c,
			     struct tracker_place ret[TRACKER_URLS_MAX]);

#endif
