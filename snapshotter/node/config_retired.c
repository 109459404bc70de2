// SPDX-License-Identifier: Apache-2.0
/* Options of bootseerd that were given up, or have another name: nodes that have them in
 * their configuration go on, and are told what holds instead.  Where what they ask for
 * would be missed, or could be meant otherwise, the node is not started, and the message
 * has the cure (docs/decisions/0022-options.md). */
#include "snapshotter/node/config.h"

#define PLAIN_CURE "name HOST:PORT of the service by plain-http"
/* One name alone is the rack. */
#define LOCATION_CURE "say location = \"REGION/ZONE/RACK\"; "

/* What chose each is in snapshotter/node/constants.h. */
const struct option_retired node_options_retired[] = {
	{ .key = "fuse-threads",
	  .why = "four threads answer the kernel's reads" },
	{ .key = "cache-scrub-rate", .why = "the scrubber reads 16M a second" },
	{ .key = "fetch-threads",
	  .why = "registries get 16 transfers at once" },
	{ .key = "fetch-window",
	  .why = "it is 1M, or --fetch-window-max where that is less" },
	{ .key = "connect-timeout", .why = "a connection is waited for 10s" },
	{ .key = "hot-streams",
	  .why = "recorded blocks have 8 transfers, as measured" },
	{ .key = "cold-streams",
	  .why = "the rest has 8 transfers, as measured" },
	{ .key = "hot-rate",
	  .why = "a start waits for these blocks: --cold-rate bounds the "
		 "rest" },
	{ .key = "hot-gap", .why = "it is 64K, as measured" },
	{ .key = "hot-range", .why = "it is 1M, as measured" },
	{ .key = "cold-range", .why = "it is 4M, as measured" },
	{ .key = "trace-folder-max",
	  .why = "traces have 256M of --cache-quota" },
	{ .key = "least-rate",
	  .why = "less than 1K a second, over a --stall-timeout, counts "
		 "as nothing" },
	{ .key = "registry-calls", .why = "one registry has 8 places" },
	{ .key = "p2p-rdma-memory",
	  .why = "it is 256M, enough for all neighbours" },
	{ .key = "p2p-neighbours", .why = "32 are looked for, as simulated" },
	{ .key = "p2p-relay", .why = "it is 1G" },
	{ .key = "p2p-memory", .why = "it is 64M" },
	{ .key = "image-max-age",
	  .why = "images without users are forgotten 30 days after "
		 "somebody asked for them last" },
	{ .key = "cache-scrub-every",
	  .why = "the scrubber begins once a day, and a minute "
		 "after a start with complete mounts" },
	{ .key = "prefetch-retry",
	  .why = "the first pause after a prefetch that failed is 15s" },
	{ .key = "trace-lookup-timeout",
	  .why = "a start waits for a trace for 2s" },
	{ .key = "umount-at-exit",
	  .why = "mounts that have users stay, or are there again at the next start",
	  .is_switch = true },
	{ .key = "trace-service", .now = "service" },
	{ .key = "trace-token-file", .now = "service-token-file" },
	{ .key = "trace-ca-file", .now = "service-ca-file" },
	{ .key = "trace-plain-http", .cure = PLAIN_CURE, .is_switch = true },
	{ .key = "p2p-tracker-plain-http",
	  .cure = "name HOST:PORT of each tracker by plain-http",
	  .is_switch = true },
	{ .key = "service-plain-http", .cure = PLAIN_CURE, .is_switch = true },
	{ .key = "p2p-capability-keys", .cure = "name the file by p2p-rights" },
	{ .key = "p2p-rdma-device", .cure = "name the device by p2p-rdma" },
	{ .key = "rack",
	  .cure = LOCATION_CURE "of a rack alone, location = \"RACK\"" },
	{ .key = "zone",
	  .cure = LOCATION_CURE "of a zone alone, location = \"ZONE/\"" },
	{ .key = "region",
	  .cure = LOCATION_CURE "of a region alone, location = \"REGION//\"" },
	{ .key = NULL },
};
