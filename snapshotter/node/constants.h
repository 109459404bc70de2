// SPDX-License-Identifier: Apache-2.0
/*
 * Constants that were options once, and that nobody could choose better than the
 * figures that are named here.  Each was an option: docs/decisions/0022-options.md
 * has the list of those.
 */
#ifndef BOOTSEER_NODE_CONSTANTS_H
#define BOOTSEER_NODE_CONSTANTS_H

#include "common/bytes.h"
#include "common/clock.h"

/* Seconds after which an image without users that nobody asked for is forgotten.  It costs
 * its metadata, some MB, and a want of room takes the oldest images long before; what is
 * pulled less than once a month is no start that somebody waits for daily. */
#define NODE_IMAGE_MAX_AGE_S (30 * 24 * INT64_C(3600))

/* Threads that read requests of one FUSE session: the figures of docs/benchmarks.md are
 * with these.  A read that misses gives its thread back, so that more of them would wait
 * for a CPU only. */
#define NODE_FUSE_THREADS 4u

/* Bytes a second of the scrubber: 4 % of one core's SHA-256, and 50 GiB in 53 minutes
 * (docs/decisions/0012). */
#define NODE_SCRUB_RATE (16 * MIB)

/* Time from one scrub to the next: at that rate a day has room for a cache of 1.3 TiB,
 * and a cache of 50 GiB costs the disk a 27th of the day, when it is idle. */
#define NODE_SCRUB_EVERY_NS (24 * 3600 * NS_PER_S)

/* Transfers from registries at once: shared by hosts as 8, 4, 2, 1, and 12 of them for
 * bulk (docs/decisions/0006, "No host takes all threads"). */
#define NODE_FETCH_THREADS 16u

/* Bytes fetched around a block that is missing: docs/decisions/0006, "The window", where
 * numpy-1 at 200 Mbit/s takes 4.8 s with 256 KiB, 4.3 s with this, 5.1 s with 4 MiB. */
#define NODE_FETCH_WINDOW MIB

/* Attempts of a request to a registry, with pauses that grow: together about a second, which
 * a proxy that is started again takes.  A reader's request is begun anew after them, until
 * --read-timeout, so more would only keep a mount of an image waiting whose registry is
 * gone. */
#define NODE_REGISTRY_ATTEMPTS 5u

/* Registries at a start of bootseerd, all together, for metadata that the disk lost:
 * readers of all images wait meanwhile.  An image whose registry takes longer is mounted
 * when somebody asks for it. */
#define NODE_RESTORE_REMOTE_NS (10 * NS_PER_S)

/* Time that a mount may take to check an image that is whole on the node, and to mount it
 * without a daemon.  A block that was served is checked already; of others one core hashes
 * 0.75 GB in this time (docs/decisions/0012).  A lazy mount of the same image is there in
 * tens of ms, and reads it 1.0 to 1.15 times as long (docs/decisions/0002), so waiting
 * longer never pays. */
#define NODE_COMPLETE_NS (2 * NS_PER_S)

/* To connect to a registry.  TCP sends its SYN again after 1, 3 and 7 seconds: three
 * lost packets are no outage. */
#define NODE_CONNECT_MS 10000u

/* A registry that sends less over a --stall-timeout sends nothing: 30 KiB in half a
 * minute is no transfer that ends before its reader's deadline. */
#define NODE_LEAST_RATE 1024u

/* Images and layers got from one registry at once: a fourth of the threads for such
 * calls, so that a registry that hangs leaves the rest to others. */
#define NODE_REGISTRY_CALLS 8u

/* Transfers of one prefetch, bytes of a request, and bytes that nobody asked for where
 * they save one: tables "Streams", "Size of a range", "Gaps" and "The rest" of
 * docs/decisions/0008. */
#define NODE_HOT_STREAMS 8u
#define NODE_COLD_STREAMS 8u
#define NODE_HOT_RANGE MIB
#define NODE_HOT_GROWN \
	(4 * MIB) /* docs/decisions/0020: 71 requests for 88, no slower */
#define NODE_COLD_RANGE (4 * MIB)
#define NODE_HOT_GAP (64 * KIB)

/* The first pause after a prefetch that failed; each after that is twice as long, up to
 * 64 times this.  A registry that is started again is back by then, and a thousand nodes,
 * each up to a fourth later by chance, come back over four seconds. */
#define NODE_PREFETCH_RETRY_NS (15 * NS_PER_S)

/* A start waits this long for an answer about a trace, and a call of the service takes this at
 * most.  An answer takes 5 ms from a service and three round trips from a registry; a
 * start that is prefetched by a trace saves seconds (docs/decisions/0008), so that a
 * wait of this length pays, and no container hangs on a service that does. */
#define NODE_TRACE_LOOKUP_NS (2 * NS_PER_S)

/* Traces that are kept on the node: 16 of the largest (TRACE_BYTES_MAX). */
#define NODE_TRACES_MAX (256 * MIB)

/* Nodes that are looked for to exchange an image with: 24 to 50 differ by less than what
 * another seed does, and each costs messages (docs/decisions/0009). */
#define NODE_P2P_NEIGHBOURS 32u

/* Disk for compressed blocks as they came.  A crowd passes on what it starts with: of the
 * largest image that is measured, ml-1, that is 256 MB (docs/decisions/0008); what has
 * left this file is served unpacked from the cache. */
#define NODE_P2P_RELAY (1024 * MIB)

/* Memory for blocks on their way: half of it for eight of the largest, as stored, and
 * half for the same unpacked. */
#define NODE_P2P_MEMORY (64 * MIB)

/* Memory that is locked for RDMA: 4 MiB for each of 64 links (docs/decisions/0010). */
#define NODE_P2P_RDMA_MEMORY (256 * MIB)

/* A wait for other work on the same image ends after this. */
#define NODE_GATE_TIMEOUT_NS (INT64_C(600) * 1000000000)

#endif
