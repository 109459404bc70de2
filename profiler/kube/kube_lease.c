// SPDX-License-Identifier: Apache-2.0
#include "profiler/kube/kube_lease.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/text.h"

#define LEASES \
	"/apis/coordination.k8s.io/v1/namespaces/" KUBE_LEASE_NAMESPACE \
	"/leases"
#define LEASE LEASES "/" KUBE_LEASE_NAME
#define TRIES 3
#define SECONDS_MAX 86400
#define HOLDER_SHOWN 128

/* The server's time; before its first answer, this machine's time. */
static int64_t server_time_ms(const struct kube *k)
{
	int64_t ms = kube_date_ms(k);

	return ms >= 0 ? ms : (int64_t)time(NULL) * 1000;
}

static bool format_time(int64_t ms, char out[40])
{
	time_t t = (time_t)(ms / 1000);
	struct tm tm;

	return gmtime_r(&t, &tm) &&
	       strftime(out, 40, "%Y-%m-%dT%H:%M:%S.000000Z", &tm) > 0;
}

/* Read a time such as "2026-11-29T20:42:50.000000Z"; -1: invalid. */
static int64_t read_time(const char *text)
{
	struct tm tm = { .tm_year = 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (!rest || (*rest != '.' && *rest != 'Z'))
		return -1;
	return (int64_t)timegm(&tm) * 1000;
}

bool kube_lease_is_held(const json_t *lease, int64_t now_ms)
{
	const json_t *spec = json_object_get(lease, "spec");
	const json_t *seconds = json_object_get(spec, "leaseDurationSeconds");
	int64_t renewed_ms = read_time(json_text_of(spec, "renewTime"));

	if (!*json_text_of(spec, "holderIdentity"))
		return false;
	if (renewed_ms < 0 || !json_is_integer(seconds) ||
	    json_integer_value(seconds) < 0 ||
	    json_integer_value(seconds) > SECONDS_MAX)
		return true;
	return now_ms < renewed_ms + 1000 * json_integer_value(seconds);
}

/* Make a Lease object. `version` NULL: for a new one; `holder` NULL: held by nobody. */
static json_t *make_lease(const char *holder, const char *version,
			  int64_t now_ms)
{
	char at[40];

	if (!format_time(now_ms, at))
		return NULL;
	return json_pack("{s:s,s:s,s:{s:s,s:s*},s:{s:s*,s:i,s:s,s:s}}",
			 "apiVersion", "coordination.k8s.io/v1", "kind",
			 "Lease", "metadata", "name", KUBE_LEASE_NAME,
			 "resourceVersion", version, "spec", "holderIdentity",
			 holder, "leaseDurationSeconds",
			 holder ? KUBE_LEASE_S : 1, "acquireTime", at,
			 "renewTime", at);
}

static int send_lease(struct kube *k, const char *holder, const char *version,
		      struct error *err)
{
	AUTO_JSON *body = make_lease(holder, version, server_time_ms(k));
	const struct kube_call c = { .method = version ? "PUT" : "POST",
				     .path = version ? LEASE : LEASES,
				     .type = "application/json",
				     .body = body };

	return body ? kube_do(k, &c, NULL, err) : error_nomem(err);
}

static int get_lease(struct kube *k, json_t **ret, struct error *err)
{
	return kube_do(k, &(struct kube_call){ .method = "GET", .path = LEASE },
		       ret, err);
}

static int refuse_busy(const json_t *lease, struct error *err)
{
	char holder[HOLDER_SHOWN];

	(void)snprintf(holder, sizeof(holder), "%s",
		       json_text_of(json_object_get(lease, "spec"),
				    "holderIdentity"));
	text_end_whole(holder);
	text_make_printable(holder);
	return error_set(err, EBUSY,
			 "'%s' recovers nodes right now; wait until it has "
			 "ended, %d s if it died (the lease %s of %s)",
			 holder, KUBE_LEASE_S, KUBE_LEASE_NAME,
			 KUBE_LEASE_NAMESPACE);
}

/* Take over the existing Lease. Returns 1: it was changed or deleted at the same time. */
static int take_over_lease(struct kube *k, const char *holder,
			   struct error *err)
{
	AUTO_JSON *lease = NULL;
	const json_t *meta;
	int rc = get_lease(k, &lease, err);

	if (rc == -ENOENT)
		return 1;
	if (rc < 0)
		return rc;
	meta = json_object_get(lease, "metadata");
	/* This caller holds it already: the answer to an earlier try was lost. */
	if (strcmp(json_text_of(json_object_get(lease, "spec"),
				"holderIdentity"),
		   holder) == 0)
		return 0;
	if (kube_lease_is_held(lease, server_time_ms(k)))
		return refuse_busy(lease, err);
	if (!*json_text_of(meta, "resourceVersion"))
		return error_set(err, EBADMSG,
				 "the API server gave a lease without version");
	rc = send_lease(k, holder, json_text_of(meta, "resourceVersion"), err);
	return rc == -EEXIST || rc == -ENOENT ? 1 : rc;
}

int kube_lease_take(struct kube *k, const char *holder, struct error *err)
{
	int rc = 1;

	/* Try the existing Lease first: any answer tells the server's time, which a new Lease
	 * needs. */
	for (int i = 0; rc == 1 && i < TRIES; i++) {
		rc = take_over_lease(k, holder, err);
		if (rc != 1)
			break;
		rc = send_lease(k, holder, NULL, err);
		if (rc == -EEXIST)
			rc = 1;
	}
	return rc == 1 ? error_set(err, EBUSY,
				   "several recover nodes right now: ask again")
		       : rc;
}

int kube_lease_drop(struct kube *k, const char *holder, struct error *err)
{
	AUTO_JSON *lease = NULL;
	int rc = get_lease(k, &lease, err);

	if (rc < 0)
		return rc;
	if (strcmp(json_text_of(json_object_get(lease, "spec"),
				"holderIdentity"),
		   holder) != 0)
		return 0;
	rc = send_lease(k, NULL,
			json_text_of(json_object_get(lease, "metadata"),
				     "resourceVersion"),
			err);
	return rc == -EEXIST ? 0 : rc;
}
