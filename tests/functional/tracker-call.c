// SPDX-License-Identifier: Apache-2.0
/*
 * tracker-call NODE IMAGE CA CERT KEY URL...: one announcement by our client, which
 * wants pieces 7 and 8.  Prints the swarm's size, what was granted and who is named.
 */
#include <stdio.h>

#include "p2p/tracker/tracker_client.h"

#define URL_1 6 /* in argv */

static void print(const struct tracker_answer *a)
{
	printf("swarm %u granted", a->swarm);
	for (size_t i = 0; i < a->n_granted; i++)
		printf(" %u", a->granted[i]);
	printf(" members");
	for (size_t i = 0; i < a->n_members; i++)
		printf(" %s", a->members[i].node);
	printf("\n");
}

int main(int argc, char **argv)
{
	static const uint32_t want[] = { 7, 8 }, bytes[] = { 4096, 4096 };
	static struct tracker_answer answer; /* large */
	AUTO(tracker_client) c = NULL;
	struct error err = ERROR_INIT;
	struct tracker_call call = { .addr = "127.0.0.1:7000",
				     .rack = "",
				     .zone = "",
				     .region = "",
				     .n_pieces = 1000,
				     .wants_members = true,
				     .want = want,
				     .want_bytes = bytes,
				     .n_want = ARRAY_SIZE(want) };
	struct tracker_client_config cfg = { .urls = argv + URL_1 };
	int rc;

	if (argc <= URL_1) {
		fprintf(stderr, "usage: NODE IMAGE CA CERT KEY URL...\n");
		return 2;
	}
	call.node = argv[1];
	cfg.ca_file = argv[3];
	cfg.cert_file = argv[4];
	cfg.key_file = argv[5];
	rc = digest_parse(argv[2], &call.image, &err);
	if (rc == 0)
		rc = tracker_client_new(&cfg, &c, &err);
	if (rc == 0)
		rc = tracker_client_call(c, &call, &answer, &err);
	if (rc < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	print(&answer);
	return 0;
}
