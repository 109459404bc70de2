// SPDX-License-Identifier: Apache-2.0
/*
 * A node's calls to the trackers over HTTP; they block their thread.
 *
 * Rendezvous hashing over the trackers' URLs says which one is responsible for an image; the next
 * is asked when it does not answer. A tracker that did not answer is not called for a while,
 * longer each time.
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
	TRACKER_NEW,     /* no call was made yet */
	TRACKER_GOOD,    /* it answers this node's calls */
	TRACKER_LOST,    /* its first call, or two in a row, had no answer */
	TRACKER_REFUSES, /* it refuses this node, or is not a tracker */
};

struct tracker_client_config {
	char *const *urls; /* of bootseer-registry, NULL-terminated; copied */
	const char *token_file; /* file, read at each call; NULL: no token */
	const char *ca_file;    /* PEM; NULL: the system's */
	/* The node's own certificate and key, PEM, for trackers that ask for
	 * it; NULL: none. */
	const char *cert_file, *key_file;
	/* Send the token and a registry's credentials even to trackers that
	 * tracker_is_private() rejects; without it: -EINVAL, -EACCES. */
	bool plain_http;
	int64_t deadline_ns; /* time for a call, over all trackers; 0: 2 s */
	/* Called when a tracker becomes TRACKER_LOST or TRACKER_REFUSES, also for a new reason,
	 * and when it is TRACKER_GOOD again (`why` ""). Any thread; may be NULL. */
	void (*changed)(void *arg, const char *url, enum tracker_state state,
			const char *why);
	void *arg;
};

/* Is it this machine by its name: 127.0.0.0/8, [::1], localhost? */
bool tracker_is_here(const char *url);
/* May secrets be sent there: is it https://, or on this machine? */
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

/* Check whether tracker `i` of tracker_client_places() accepts calls of `node`, by a call that
 * changes nothing, even if the tracker is not called at present. A failure does not lengthen
 * that pause. `pace` (NULL: none) ends it early. Errors as above; -ECANCELED: nothing is known. */
int tracker_client_probe(struct tracker_client *c, size_t i, const char *node,
			 struct pace *pace, struct error *err) MUST_CHECK;

struct tracker_capability {
	uint8_t data[CAPABILITY_MAX];
	size_t len;
	int64_t not_after; /* seconds since 1970 */
};

/* Get the capability of `node` for an image of "HOST/REPOSITORY", showing the registry
 * `authorization` (NULL: none). Errors as above; -EACCES also when the registry refuses;
 * -EBUSY: the service cannot decide now, as when the registry does not answer; -EOPNOTSUPP: the
 * service signs none. */
int tracker_client_capability(struct tracker_client *c,
			      const struct digest *image, const char *repo,
			      const char *node, const char *authorization,
			      struct tracker_capability *ret,
			      struct error *err) MUST_CHECK;

#define TRACKER_ETAG_MAX 80u
/* Get the list of revocations; `*ret` NULL: unchanged since the answer with this `etag` ("":
 * there was none); `etag` is replaced. Errors as above. */
int tracker_client_revoked(struct tracker_client *c,
			   char etag[TRACKER_ETAG_MAX], struct revoked **ret,
			   struct error *err) MUST_CHECK;

struct tracker_client_stats {
	/* Failures: calls that one tracker did not answer. */
	uint64_t calls_total, failures_total;
	/* Down: not called at present. */
	unsigned int trackers, down;
	unsigned int good, lost, refusing; /* trackers in each state */
};
void tracker_client_get_stats(struct tracker_client *c,
			      struct tracker_client_stats *ret);

struct tracker_place {
	const char *url; /* borrowed from the client */
	enum tracker_state state;
	char why[ERROR_MSG_MAX]; /* reason of the state; unset if good */
};
/* Returns the number of trackers. */
size_t tracker_client_places(struct tracker_client *c,
			     struct tracker_place ret[TRACKER_URLS_MAX]);

#endif
