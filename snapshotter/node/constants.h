// SPDX-License-Identifier: Apache-2.0
/*
 * Constants that were options in the past, because nobody could choose better values than the
 * measured ones here.  docs/decisions/0022-options.md lists those options.
 */
#ifndef BOOTSEER_NODE_CONSTANTS_H
#define BOOTSEER_NODE_CONSTANTS_H

#include "common/bytes.h"
#include "common/clock.h"

/* Seconds after which an unused image that nobody asked for is removed.  Keeping it costs some
 * MB of metadata, and when the disk is short of room the oldest images go first anyway.  An
 * image that is pulled less than once a month is not one whose start somebody waits for daily. */
#define NODE_IMAGE_MAX_AGE_S (30 * 24 * INT64_C(3600))

/* Threads that read requests of one FUSE session; docs/benchmarks.md was measured with 4.  A
 * read that misses the cache frees its thread while it waits, so more threads would only
 * compete for a CPU. */
#define NODE_FUSE_THREADS 4u

/* Bytes a second of the scrubber: 4 % of one core's SHA-256, and 50 GiB in 53 minutes
 * (docs/decisions/0012). */
#define NODE_SCRUB_RATE (16 * MIB)

/* Time from one scrub to the next: at NODE_SCRUB_RATE a day is enough for a cache of 1.3 TiB,
 * and a cache of 50 GiB keeps an idle disk busy for a 27th of the day. */
#define NODE_SCRUB_EVERY_NS (24 * 3600 * NS_PER_S)

/* Transfers from all registries at once: a host may have half of the threads that the other hosts
 * leave (8, 4, 2, 1), and 12 of the 16 may be for bulk (docs/decisions/0006, "No host takes all
 * threads"). */
#define NODE_FETCH_THREADS 16u

/* Bytes fetched around a missing block: docs/decisions/0006, "The window", where numpy-1 at 200
 * Mbit/s takes 4.8 s with 256 KiB, 4.3 s with 1 MiB, 5.1 s with 4 MiB. */
#define NODE_FETCH_WINDOW MIB

/* Attempts of a request to a registry, with growing pauses: together about a second, which is
 * how long a restarting proxy takes.  A reader repeats the whole request until --read-timeout,
 * so more attempts would only delay mounts of images whose registry is gone. */
#define NODE_REGISTRY_ATTEMPTS 5u

/* Time that a starting bootseerd spends on all registries together to fetch metadata that the
 * disk lost: readers of all images wait meanwhile.  An image whose registry takes longer is
 * mounted when somebody asks for it. */
#define NODE_RESTORE_REMOTE_NS (10 * NS_PER_S)

/* Time that a mount may take to check an image that is whole on the node and to mount it
 * without a daemon.  Blocks that were served before are already checked; one core hashes 0.75
 * GB of the others in this time (docs/decisions/0012).  A lazy mount of the same image takes
 * tens of ms, and its reads take 1.0 to 1.15 times as long (docs/decisions/0002), so a longer
 * wait never pays. */
#define NODE_COMPLETE_NS (2 * NS_PER_S)

/* Time to connect to a registry.  TCP sends its SYN again after 1, 3 and 7 seconds, so three
 * lost packets are no outage. */
#define NODE_CONNECT_MS 10000u

/* Bytes a second below which, over a --stall-timeout, a registry counts as silent: 30 KiB in
 * half a minute is no transfer that ends before its reader's deadline. */
#define NODE_LEAST_RATE 1024u

/* Calls that wait for one registry at a time (images and layers): a fourth of the threads for
 * such calls, so that a registry that hangs leaves the other threads to other registries. */
#define NODE_REGISTRY_CALLS 8u

/* Transfers of one prefetch at once, bytes of one request, and unwanted bytes between two
 * blocks that are fetched with them to save a request: tables "Streams", "Size of a range",
 * "Gaps" and "The rest" of docs/decisions/0008. */
#define NODE_HOT_STREAMS 8u
#define NODE_COLD_STREAMS 8u
#define NODE_HOT_RANGE MIB
/* docs/decisions/0020: 71 requests instead of 88, and no slower */
#define NODE_HOT_GROWN (4 * MIB)
#define NODE_COLD_RANGE (4 * MIB)
#define NODE_HOT_GAP (64 * KIB)

/* The first pause after a failed prefetch; each next one is twice as long, up to 64 times this.
 * A restarted registry is back after 15 s.  Each node adds up to a fourth at random, so that a
 * thousand nodes return spread over four seconds. */
#define NODE_PREFETCH_RETRY_NS (15 * NS_PER_S)

/* Time that a start waits for the answer about a trace, and the limit of a call of the service.
 * A service answers in 5 ms, a registry in three round trips, and a prefetch by a trace saves
 * seconds (docs/decisions/0008), so a wait of 2 s pays.  A longer one would let a hanging
 * service delay containers. */
#define NODE_TRACE_LOOKUP_NS (2 * NS_PER_S)

/* Bytes of the traces that are kept on the node: 16 of the largest size (TRACE_BYTES_MAX). */
#define NODE_TRACES_MAX (256 * MIB)

/* Peers that a node wants for one image: 24 to 50 make less difference than one more seed, and
 * each costs messages (docs/decisions/0009). */
#define NODE_P2P_NEIGHBOURS 32u

/* Disk for blocks that are kept compressed, as they arrived.  Nodes that start together pass on
 * mostly the hot set: 256 MB of the largest measured image, ml-1 (docs/decisions/0008).  A
 * block that was dropped from this file is served unpacked from the cache. */
#define NODE_P2P_RELAY (1024 * MIB)

/* Memory for blocks in transfer between peers: half of it holds eight of the largest blocks as
 * stored, the other half eight unpacked ones. */
#define NODE_P2P_MEMORY (64 * MIB)

/* Memory that is locked for RDMA: 4 MiB for each of 64 links (docs/decisions/0010). */
#define NODE_P2P_RDMA_MEMORY (256 * MIB)

/* Limit of a wait for other work on the same image. */
#define NODE_GATE_TIMEOUT_NS (INT64_C(600) * 1000000000)

#endif
