// SPDX-License-Identifier: Apache-2.0
#include "registry/metrics.h"

#include <errno.h>

#include "common/counter.h"
#include "registry/service.h"

#define PREFIX "bootseer_registry_"

struct values {
	struct httpd_stats http;
	struct hot_stats hot;
	struct prediction_stats prediction;
	struct db_stats db;
	uint64_t queued, tls_not_after;
	uint64_t stored, replaced, enough, refused, too_many;
	uint64_t evicted, expired_calls, denied, reloads, stage_events;
	uint64_t set_aside;
	uint64_t not_training, silent, silent_s;
	uint64_t pushes_queued, pushes_dropped, pushes_other;
	uint64_t conversions_done, conversions_failed, conversions_retried;
	uint64_t waiting, running, failed, wait_s;
	uint64_t doctor_nodes, doctor_missing, doctor_advised;
	uint64_t starts, votes, bytes;
	struct start_cache_stats start_cache;
	struct tracker_stats swarm;
	struct issuer_stats issuer;
};

#define TOTAL(n, member, text) \
	{ \
		n, COUNTER_TOTAL, offsetof(struct values, member), text \
	}
#define GAUGE(n, member, text) \
	{ \
		n, COUNTER_GAUGE, offsetof(struct values, member), text \
	}

#define NANOSECONDS(n, member, text) \
	{ \
		n, COUNTER_NS, offsetof(struct values, member), text \
	}

static const struct counter_spec table[] = {
	GAUGE("connections", http.connections, "Clients connected now."),
	TOTAL("connections_total", http.connections_total,
	      "Connections accepted."),
	TOTAL("connections_dropped_total", http.connections_refused_total,
	      "Connections closed because all places were taken."),
	TOTAL("tls_failures_total", http.tls_failures_total,
	      "Connections that ended by an error of TLS."),
	GAUGE("tls_certificate_not_after_seconds", tls_not_after,
	      "When --tls-cert ends, seconds since 1970; 0: it has none."),
	TOTAL("requests_total", http.requests_total, "Requests."),
	NANOSECONDS("request_seconds_total", http.request_ns_total,
		    "Time from the heads of requests to their answers."),
	TOTAL("answers_2xx_total", http.answers_2xx_total, "Answers 2xx."),
	TOTAL("answers_3xx_total", http.answers_3xx_total, "Answers 3xx."),
	TOTAL("answers_4xx_total", http.answers_4xx_total, "Answers 4xx."),
	TOTAL("answers_5xx_total", http.answers_5xx_total, "Answers 5xx."),
	TOTAL("received_bytes_total", http.received_bytes_total,
	      "Bytes received."),
	TOTAL("sent_bytes_total", http.sent_bytes_total,
	      "Bytes of bodies sent."),
	GAUGE("body_bytes", http.body_bytes,
	      "Memory that bodies of requests take."),
	GAUGE("bodies_waiting", http.bodies_waiting,
	      "Requests that wait for such memory."),
	GAUGE("answer_bytes", http.answer_bytes,
	      "Memory that large answers take until clients took them."),
	TOTAL("answers_dropped_total", http.answers_dropped_total,
	      "Answers cut off, as too much memory waited to be taken."),
	GAUGE("queued", queued, "Requests that wait for a thread."),
	TOTAL("expired_total", expired_calls,
	      "Requests that waited too long for a thread."),
	TOTAL("denied_total", denied,
	      "Requests refused for their token or certificate."),
	TOTAL("reloads_total", reloads, "SIGHUPs, and changes of files."),
	TOTAL("stage_events_total", stage_events, "Stage events stored."),
	TOTAL("start_reports_cached_total", start_cache.hits_total,
	      "Starts asked for whose analysis was in memory."),
	TOTAL("start_reports_made_total", start_cache.misses_total,
	      "Starts analysed."),
	TOTAL("starts_set_aside_total", set_aside,
	      "Starts that could not be summed up, and wait for a day."),
	GAUGE("starts_not_training", not_training,
	      "Starts that have not begun to train, heard of within a day and "
	      "not followed by a later attempt, at the last sweep."),
	GAUGE("starts_silent", silent,
	      "Those of them of which nothing was heard for ten minutes."),
	GAUGE("start_silence_seconds", silent_s,
	      "Time since the last event of the one that is silent the "
	      "longest."),
	GAUGE("doctor_nodes", doctor_nodes,
	      "Nodes that said within three hours what they lack, at the last "
	      "sweep."),
	GAUGE("doctor_nodes_missing", doctor_missing,
	      "Those of them that lack something they need."),
	GAUGE("doctor_nodes_advised", doctor_advised,
	      "Those of them that have advice."),
	GAUGE("start_report_bytes", start_cache.bytes,
	      "Memory that analysed starts take."),
	TOTAL("recordings_stored_total", stored, "Recordings of new voters."),
	TOTAL("recordings_replaced_total", replaced,
	      "Recordings that took the place of the same node's."),
	TOTAL("recordings_enough_total", enough,
	      "Recordings that were not needed."),
	TOTAL("recordings_refused_total", refused,
	      "Recordings that were not valid."),
	TOTAL("recordings_too_many_total", too_many,
	      "Recordings of nodes that sent too many."),
	TOTAL("list_hits_total", hot.hits_total, "Lists that were in memory."),
	TOTAL("list_misses_total", hot.misses_total, "Lists that were not."),
	TOTAL("list_stale_total", hot.stale_total,
	      "Lists given out that were up to a second old."),
	TOTAL("merges_total", hot.merges_total, "Lists merged."),
	NANOSECONDS("merge_seconds_total", hot.merge_ns_total,
		    "Time that merging took."),
	TOTAL("merge_failures_total", hot.merge_failures_total,
	      "Merges that failed."),
	TOTAL("predictions_asked_total", prediction.asked_total,
	      "Starts without a trace that asked for a prediction."),
	TOTAL("predictions_told_total", prediction.told_total,
	      "Of these, those that were given one."),
	TOTAL("predictions_made_total", prediction.made_total,
	      "Predictions made of the lists of many images."),
	NANOSECONDS("prediction_seconds_total", prediction.made_ns_total,
		    "Time that making them took."),
	GAUGE("prediction_entries", prediction.entries,
	      "Parts of files in the one made last."),
	GAUGE("lists", hot.lists, "Lists in memory."),
	GAUGE("list_bytes", hot.bytes, "Bytes of lists in memory."),
	GAUGE("db_connections", db.connections, "Database connections."),
	TOTAL("db_connects_total", db.connects_total,
	      "Database connections opened."),
	TOTAL("db_retries_total", db.retries_total,
	      "Transactions that were tried again."),
	TOTAL("db_failures_total", db.failures_total,
	      "Transactions that were given up."),
	GAUGE("starts", starts, "Starts known, at the last sweep."),
	GAUGE("recordings", votes, "Recordings kept, at the last sweep."),
	GAUGE("recording_bytes", bytes,
	      "Bytes of recordings and lists kept, at the last sweep."),
	GAUGE("swarm_images", swarm.images, "Images that nodes take part in."),
	GAUGE("swarm_members", swarm.members,
	      "Nodes that take part, counted for each image."),
	GAUGE("swarm_leases", swarm.leases,
	      "Pieces leased for reading from the origin."),
	GAUGE("swarm_bytes", swarm.memory,
	      "Memory for pieces and their leases."),
	TOTAL("swarm_calls_total", swarm.calls_total, "Announcements."),
	TOTAL("swarm_granted_total", swarm.granted_total, "Leases given."),
	TOTAL("swarm_refused_total", swarm.refused_total,
	      "Pieces asked for and not leased."),
	TOTAL("swarm_expired_total", swarm.expired_total,
	      "Leases that ran out."),
	TOTAL("swarm_done_total", swarm.done_total,
	      "Pieces reported as read from the origin."),
	TOTAL("swarm_failed_total", swarm.failed_total,
	      "Leases whose holder could not read."),
	TOTAL("swarm_namesakes_total", swarm.namesakes_total,
	      "Times that two nodes were found to have one name."),
	TOTAL("capabilities_granted_total", issuer.granted_total,
	      "Capabilities signed."),
	TOTAL("capabilities_denied_total", issuer.denied_total,
	      "Capabilities refused: the image's registry said no, or it was "
	      "revoked."),
	TOTAL("capabilities_failed_total", issuer.failed_total,
	      "Capabilities not given, since the registry did not answer."),
	TOTAL("pushes_queued_total", pushes_queued,
	      "Pushed images that --convert names and that were not known."),
	TOTAL("pushes_dropped_total", pushes_dropped,
	      "Such images that are not converted, as too many waited."),
	TOTAL("pushes_other_total", pushes_other,
	      "What else registries notified."),
	GAUGE("conversions_waiting", waiting,
	      "Images to be converted, at the last sweep."),
	GAUGE("conversions_running", running,
	      "Images that workers convert, at the last sweep."),
	GAUGE("conversions_failed", failed,
	      "Images whose conversion failed within a week, at the last "
	      "sweep."),
	GAUGE("conversion_wait_seconds", wait_s,
	      "Time that the first of those that wait could have been taken "
	      "for, at the last sweep: is there a worker?"),
	TOTAL("conversions_done_total", conversions_done, "Images converted."),
	TOTAL("conversions_failed_total", conversions_failed,
	      "Images that were given up."),
	TOTAL("conversions_retried_total", conversions_retried,
	      "Tries that failed and are to be repeated."),
	TOTAL("evicted_total", evicted, "Starts forgotten to make room."),
	{ NULL, 0, 0, NULL },
};

int metrics_format(struct service *s, struct buf *ret)
{
	struct service_counts *c = &s->counts;
	struct values v = { .queued = turns_waiting(s->turns) +
				      turns_waiting(s->asking) };

	if (s->tls)
		v.tls_not_after = (uint64_t)httpd_tls_not_after(s->tls);
	httpd_get_stats(s->httpd, &v.http);
	hot_get_stats(s->hot, &v.hot);
	predictions_get_stats(s->predictions, &v.prediction);
	db_get_stats(s->db, &v.db);
	swarms_get_stats(s->swarms, &v.swarm);
	issuer_get_stats(s->issuer, &v.issuer);
	start_cache_get_stats(s->start_cache, &v.start_cache);
	v.stored = atomic_load(&c->stored);
	v.replaced = atomic_load(&c->replaced);
	v.enough = atomic_load(&c->enough);
	v.refused = atomic_load(&c->refused);
	v.too_many = atomic_load(&c->too_many);
	v.evicted = atomic_load(&c->evicted);
	v.not_training = atomic_load(&c->not_training);
	v.silent = atomic_load(&c->silent);
	v.silent_s = atomic_load(&c->silent_s);
	v.doctor_nodes = atomic_load(&c->doctor_nodes);
	v.doctor_missing = atomic_load(&c->doctor_missing);
	v.doctor_advised = atomic_load(&c->doctor_advised);
	v.set_aside = atomic_load(&c->set_aside);
	v.pushes_queued = atomic_load(&c->pushes_queued);
	v.pushes_dropped = atomic_load(&c->pushes_dropped);
	v.pushes_other = atomic_load(&c->pushes_other);
	v.conversions_done = atomic_load(&c->conversions_done);
	v.conversions_failed = atomic_load(&c->conversions_failed);
	v.conversions_retried = atomic_load(&c->conversions_retried);
	v.waiting = atomic_load(&c->converting[CONVERSION_WAITING]);
	v.running = atomic_load(&c->converting[CONVERSION_RUNNING]);
	v.failed = atomic_load(&c->converting[CONVERSION_FAILED]);
	v.wait_s = atomic_load(&c->conversion_wait_s);
	v.expired_calls = atomic_load(&c->expired_calls);
	v.denied = atomic_load(&c->denied);
	v.reloads = atomic_load(&c->reloads);
	v.stage_events = atomic_load(&c->stage_events);
	v.starts = atomic_load(&c->starts);
	v.votes = atomic_load(&c->votes);
	v.bytes = atomic_load(&c->bytes);
	if (stage_times_format(s->stage_times, ret) < 0)
		return -ENOMEM;
	return counter_format(table, &v, PREFIX, ret);
}

void metrics_list(FILE *out)
{
	counter_list(table, PREFIX, out);
}
