// SPDX-License-Identifier: Apache-2.0
/* What a node says of a start: what is taken is the same when it is read again. */
#include <string.h>

#include "registry/image_report.h"
#include "registry/peer_sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void sum_up(const json_t *start)
{
	struct image_sums *s = NULL;

	if (image_sums_new(&s, NULL) == 0) {
		must(image_sums_add(s, start) == 0);
		must(image_sums_add(s, start) == 0);
		json_decref(image_sums_json(s));
		json_decref(image_sums_files(s, 3));
	}
	image_sums_free(s);
}

/* As a node says it, of the lines that are stored. */
static json_t *peers_of(const struct image_report *r)
{
	const char *lines = r->peers.data ? r->peers.data : "";
	char giver[STAGE_NODE_MAX + 1];
	json_t *a = json_array();
	int64_t bytes;

	while (peer_line_parse(&lines, giver, &bytes))
		must(json_array_append_new(a, json_pack("[s,I]", giver,
							(json_int_t)bytes)) ==
		     0);
	must(*lines == '\0');
	return a;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct image_report r, again;
	json_t *o;
	char *text;

	if (image_report_parse((const char *)data, len, &r, NULL) == 0) {
		o = json_pack("{s:s,s:s,s:I,s:I,s:I,s:O,s:o}", "name", r.name,
			      "job", r.job, "attempt", (json_int_t)r.attempt,
			      "peer_bytes", (json_int_t)r.peer_bytes,
			      "origin_bytes", (json_int_t)r.origin_bytes,
			      "start", r.start, "peers", peers_of(&r));
		text = json_dumps(o, JSON_COMPACT);
		/* What was left out as 0 is said now, which may be too long. */
		if (text && strlen(text) <= IMAGE_REPORT_MAX) {
			must(image_report_parse(text, strlen(text), &again,
						NULL) == 0);
			must(json_equal(r.start, again.start) &&
			     r.peers.len == again.peers.len &&
			     (r.peers.len == 0 ||
			      strcmp(r.peers.data, again.peers.data) == 0) &&
			     strcmp(r.name, again.name) == 0 &&
			     strcmp(r.job, again.job) == 0 &&
			     r.attempt == again.attempt);
			image_report_fini(&again);
		}
		free(text);
		json_decref(o);
		sum_up(r.start);
	}
	image_report_fini(&r);
	return 0;
}
