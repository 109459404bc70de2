// SPDX-License-Identifier: Apache-2.0
/* Options of bootseerd that were given up: nodes that have them in their configuration
 * go on, and are told what holds instead. */
#include "snapshotter/node/config.h"

/* What chose each is in snapshotter/node/constants.h. */
const struct option_retired node_options_retired[] = {
	{ "fuse-threads", "four threads answer the kernel's reads" },
	{ "cache-scrub-rate", "the scrubber reads 16M a second" },
	{ "fetch-threads", "registries get 16 transfers at once" },
	{ "fetch-window",
	  "it is 1M, or --fetch-window-max where that is less" },
	{ "connect-timeout", "a connection is waited for 10s" },
	{ "hot-streams", "recorded blocks have 8 transfers, as measured" },
	{ "cold-streams", "the rest has 8 transfers, as measured" },
	{ "hot-rate", "a start waits for these blocks: --cold-rate bounds the "
		      "rest" },
	{ "hot-gap", "it is 64K, as measured" },
	{ "hot-range", "it is 1M, as measured" },
	{ "cold-range", "it is 4M, as measured" },
	{ "trace-folder-max", "traces have 256M of --cache-quota" },
	{ "least-rate", "less than 1K a second, over a --stall-timeout, counts "
			"as nothing" },
	{ "registry-calls", "one registry has 8 places" },
	{ "p2p-rdma-memory", "it is 256M, enough for all neighbours" },
	{ "p2p-neighbours", "32 are looked for, as simulated" },
	{ "p2p-relay", "it is 1G" },
	{ "p2p-memory", "it is 64M" },
	{ "image-max-age", "images without users are forgotten 30 days after "
			   "somebody asked for them last" },
	{ "cache-scrub-every", "the scrubber begins once a day" },
	{ "prefetch-retry",
	  "the first pause after a prefetch that failed is 15s" },
	{ "trace-lookup-timeout", "a start waits for a trace for 2s" },
	{ "umount-at-exit",
	  "mounts that have users stay, or are there again at the next start",
	  .is_switch = true },
	{ .key = NULL },
};
