// SPDX-License-Identifier: Apache-2.0
/*
 * A node's report of a start of an image on it (docs/formats/registry-api.md, "Images"): the
 * figures of `bootseer image explain`, whose start it was, and which nodes gave it blocks.
 * Pure: no I/O, any thread.
 */
#ifndef BOOTSEER_REGISTRY_IMAGE_REPORT_H
#define BOOTSEER_REGISTRY_IMAGE_REPORT_H

#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"
#include "profiler/stage_event.h"

#define IMAGE_REPORT_MAX (16u << 10) /* bytes of one */
#define IMAGE_REPORT_FILES_MAX 20u   /* that were missed most */
#define IMAGE_REPORT_PEERS_MAX 32u   /* that gave most */
/* Most bytes of one report; as many reports as are kept have a sum. */
#define IMAGE_REPORT_BYTES_MAX (INT64_C(1) << 43)

struct image_report {
	char name[STAGE_IMAGE_MAX + 1]; /* of the image; "" unknown */
	char job[STAGE_JOB_MAX + 1];    /* "": of no job */
	int64_t attempt;
	/* Stored bytes since the node's report before: of all peers, of the registry. */
	int64_t peer_bytes, origin_bytes;
	json_t *start; /* the figures, without what is not known here */
	struct buf
		peers; /* lines of registry/peer_sums.h: who gave most, and no more */
};
#define IMAGE_REPORT_INIT \
	{ \
		.peers = BUF_INIT \
	}

/* -EINVAL: the message names what is wrong.  `*ret` is the caller's, for
 * image_report_fini(), also after a failure. */
int image_report_parse(const char *text, size_t len, struct image_report *ret,
		       struct error *err) MUST_CHECK;
void image_report_fini(struct image_report *r);

/* Figures of many starts, one after the other. */
struct image_sums;
int image_sums_new(struct image_sums **ret, struct error *err) MUST_CHECK;
void image_sums_free(struct image_sums *s); /* NULL is allowed */
/* `start` as a report has it; -ENOMEM. */
int image_sums_add(struct image_sums *s, const json_t *start) MUST_CHECK;
/* Their sums, and `files` of the files that were missed most; NULL: memory is short. */
json_t *image_sums_json(const struct image_sums *s);
json_t *image_sums_files(struct image_sums *s, size_t files);

#endif
