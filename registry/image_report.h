// SPDX-License-Identifier: Apache-2.0
/*
 * A node's report on a start of an image (docs/formats/registry-api.md, "Images"): the figures of
 * `bootseer image explain`, the job that started it, and the nodes that gave blocks. Pure: no I/O,
 * any thread.
 */
#ifndef BOOTSEER_REGISTRY_IMAGE_REPORT_H
#define BOOTSEER_REGISTRY_IMAGE_REPORT_H

#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"
#include "profiler/stage_event.h"

#define IMAGE_REPORT_MAX (16u << 10) /* bytes of one report */
/* files of a report: those with most misses */
#define IMAGE_REPORT_FILES_MAX 20u
/* peers of a report: those that gave most */
#define IMAGE_REPORT_PEERS_MAX 32u
/* The largest number of bytes in a report, so that the sum over all stored reports does not
 * overflow. */
#define IMAGE_REPORT_BYTES_MAX (INT64_C(1) << 43)

struct image_report {
	char name[STAGE_IMAGE_MAX + 1]; /* name of the image; "": unknown */
	char job[STAGE_JOB_MAX + 1];    /* "": the start belongs to no job */
	int64_t attempt;
	/* Stored bytes since the node's last report: from all peers, from the registry. */
	int64_t peer_bytes, origin_bytes;
	/* the report's figures; members that this version does not know are dropped */
	json_t *start;
	/* lines in the format of registry/peer_sums.h: the peers that gave most */
	struct buf peers;
};
#define IMAGE_REPORT_INIT \
	{ \
		.peers = BUF_INIT \
	}

/* Parse a report. The caller calls image_report_fini() on `*ret`, also after a failure. -EINVAL:
 * the message says what is wrong. */
int image_report_parse(const char *text, size_t len, struct image_report *ret,
		       struct error *err) MUST_CHECK;
void image_report_fini(struct image_report *r);

/* Sums of the figures of many starts, which are added one by one. */
struct image_sums;
int image_sums_new(struct image_sums **ret, struct error *err) MUST_CHECK;
void image_sums_free(struct image_sums *s); /* NULL is allowed */
/* Add image_report.start of one report. -ENOMEM. */
int image_sums_add(struct image_sums *s, const json_t *start) MUST_CHECK;
/* The sums as JSON, and the `files` files that were missed most. NULL: memory is short. */
json_t *image_sums_json(const struct image_sums *s);
json_t *image_sums_files(struct image_sums *s, size_t files);

#endif
