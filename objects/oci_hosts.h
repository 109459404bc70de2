// SPDX-License-Identifier: Apache-2.0
/*
 * State of the hosts of registries, as requests have found them, for all stores of a
 * process: a host that is away, or that wants to be left alone, is not waited for by each
 * image anew. A host is an origin, "https://host:port". Any thread.
 */
#ifndef BOOTSEER_OBJECTS_OCI_HOSTS_H
#define BOOTSEER_OBJECTS_OCI_HOSTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define OCI_HOSTS_MAX 64 /* the one that was noted longest ago gives way */
#define OCI_HOST_ROOM 272

struct oci_hosts;
struct oci_config;

struct oci_hosts *oci_hosts_new(void) MUST_CHECK; /* NULL: no memory */
void oci_hosts_free(struct oci_hosts *h);

/* The operator has changed something: every host may be asked again. */
void oci_hosts_forget(struct oci_hosts *h);

/*
 * May a request go to `host` that somebody can do without?  `h` may be NULL.
 * -ETIMEDOUT while the host is away; once such a time is over, one caller is let through
 * and the others only after oci_hosts_answered().  -EBUSY while it wants to be left alone.
 * 1: it may be asked once, and not again when that fails.
 */
int oci_hosts_check(struct oci_hosts *h, const char *host, int64_t now_ns,
		    struct error *err) MUST_CHECK;

/* No connection came about, or no answer; asked again after 30 seconds, each time in a
 * row twice as long, up to five minutes. */
void oci_hosts_note_away(struct oci_hosts *h, const char *host,
			 const struct error *why, int64_t now_ns);
/* The host has refused each connection of a question: as long as it would be away, it is
 * asked once for each question, which costs no time, and is found again at once. */
void oci_hosts_note_refusing(struct oci_hosts *h, const char *host,
			     const struct error *why, int64_t now_ns);
/* Note that the host wants no request for `wait_ns`; an hour at most is kept. */
void oci_hosts_note_throttled(struct oci_hosts *h, const char *host,
			      int64_t wait_ns, int64_t now_ns);
/* Note that the host has answered. */
void oci_hosts_answered(struct oci_hosts *h, const char *host);

/* How often a new login has worked at `host` where one before it was refused. */
unsigned int oci_hosts_logins(struct oci_hosts *h, const char *host);
void oci_hosts_note_login(struct oci_hosts *h, const char *host);

/* A host that is not asked now: which, why, and for how long yet.  False: there is none.
 * `k` counts them from 0. */
bool oci_hosts_get(struct oci_hosts *h, size_t k, int64_t now_ns,
		   char host[OCI_HOST_ROOM], int64_t *ret_left_ns,
		   struct error *ret_why);

/*
 * A request that somebody waits for goes to `host` for `what`, until oci_hosts_end_wait();
 * `heard_ns` (clock_now_ns(), the caller's until then) is when bytes last came or went.
 * 0: it is not watched, as there are too many.
 */
unsigned int oci_hosts_begin_wait(struct oci_hosts *h, const char *host,
				  const char *what,
				  const atomic_int_fast64_t *heard_ns);
void oci_hosts_end_wait(struct oci_hosts *h, unsigned int wait);

#define OCI_HOSTS_SILENT_NS INT64_C(3000000000)

/* A host that has sent no byte to requests that wait for OCI_HOSTS_SILENT_NS: for how long,
 * to how many, and what the one that waits longest is for.  Otherwise as oci_hosts_get(). */
bool oci_hosts_get_silent(struct oci_hosts *h, size_t k, int64_t now_ns,
			  char host[OCI_HOST_ROOM], int64_t *ret_ns,
			  struct error *ret_why);

/* Faults of a hosts.toml, as told to a person. */
enum oci_hosts_fault {
	OCI_HOSTS_UNREAD,   /* it, or a file that it names; it is left aside */
	OCI_HOSTS_IGNORED,  /* it says what is not heeded here */
	OCI_HOSTS_UNREACHED /* a host that it names does not answer */
};
typedef void oci_hosts_report_fn(void *arg, enum oci_hosts_fault fault,
				 const char *file, const char *why);

/* Look at the files of cfg->hosts_dirs, the first 16 folders, and ask each host that they
 * name for an answer, some seconds at most for each file. */
void oci_hosts_examine(const struct oci_config *cfg,
		       oci_hosts_report_fn *report, void *arg);

/* A host of hosts.toml with this header is bootseerd's --mirror, which bootseerd does not ask. */
#define OCI_MIRROR_OWN "x-bootseer-mirror"

#endif
