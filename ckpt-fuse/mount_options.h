// SPDX-License-Identifier: Apache-2.0
/* Options of bootseer-ckpt, shared with the programs that start it. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_OPTIONS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_OPTIONS_H

#include "common/option.h"
#include "objects/store_patience.h"

/* Options of a mount, as rows of common/option.h, for bootseer-ckpt and programs that start it.
 * `config_type` must have the members `metrics`, `memory`, `tail`, `readahead`, `threads`,
 * `columns`, `uid`, `gid`, `close`, `compare`, `ca_file`, `store_timeout`, `cache`, `cache_size`,
 * `group`, `group_key`, `group_nodes`, `group_memory`, `group_wait`, `group_rate`, `group_dscp`,
 * `group_socket`, `group_staging`, `group_full`, `group_blocks`, `group_blocks_store`,
 * `selinux_context` and `read_only`. */
#define CKPT_MOUNT_OPTIONS(config_type) \
	{ .key = "metrics", \
	  .type = OPTION_STRING, \
	  .arg = "ADDR:PORT", \
	  .offset = offsetof(config_type, metrics), \
	  .help = "Serve Prometheus text at http://ADDR:PORT/metrics." }, \
		{ .key = "memory", \
		  .type = OPTION_SIZE, \
		  .def = "512M", \
		  .min = "64M", \
		  .offset = offsetof(config_type, memory), \
		  .help = "Memory for all that is written and read ahead; who wants " \
			  "more waits." }, \
		{ .key = "tail", \
		  .type = OPTION_SIZE, \
		  .def = "32M", \
		  .min = "4M", \
		  .max = "1G", \
		  .offset = offsetof(config_type, tail), \
		  .help = "Bytes of each file that is written that stay in memory " \
			  "until it is closed: they are sent once, however often " \
			  "they change." }, \
		{ .key = "readahead", \
		  .type = OPTION_SIZE, \
		  .def = "128M", \
		  .min = "4M", \
		  .max = "4G", \
		  .offset = offsetof(config_type, readahead), \
		  .help = "Bytes that are read ahead of a sequential reader at most." }, \
		{ .key = "threads", \
		  .type = OPTION_INTEGER, \
		  .def = "16", \
		  .min = "2", \
		  .max = "64", \
		  .offset = offsetof(config_type, threads), \
		  .help = "Requests of the kernel that are answered at a time; " \
			  "more, up to 64, while some wait for memory." }, \
		{ .key = "columns", \
		  .type = OPTION_INTEGER, \
		  .def = "0", \
		  .max = "64", \
		  .offset = offsetof(config_type, columns), \
		  .help = "Objects that a file is striped over, which are read " \
			  "and written side by side; 0: by its size, 8 from 64 " \
			  "MiB on.  A file has fewer while many are written." }, \
		{ .key = "uid", \
		  .type = OPTION_INTEGER, \
		  .def = "0", \
		  .max = "4294967294", \
		  .offset = offsetof(config_type, uid), \
		  .help = "Owner of folders and plain objects." }, \
		{ .key = "gid", \
		  .type = OPTION_INTEGER, \
		  .def = "0", \
		  .max = "4294967294", \
		  .offset = offsetof(config_type, gid), \
		  .help = "Group of folders and plain objects." }, \
		{ .key = "close", \
		  .type = OPTION_ENUM, \
		  .values = (const char *const[]){ "durable", "buffered", \
						   NULL }, \
		  .def = "durable", \
		  .offset = offsetof(config_type, close), \
		  .help = "What close() waits for: that the file is in the " \
			  "store, or only in this process's memory; fsync() " \
			  "waits for the store either way." }, \
		{ .key = "compare", \
		  .type = OPTION_ENUM, \
		  .values = (const char *const[]){ "auto", "always", NULL }, \
		  .def = "always", \
		  .offset = offsetof(config_type, compare), \
		  .help = "When close() and fsync() fail because another node " \
			  "wrote the file since it was opened here: always, " \
			  "in HDFS and some S3 by a lock object and more " \
			  "requests for each file; or (auto) only where the " \
			  "store compares by itself, and elsewhere the last " \
			  "close has the file and nobody is told." }, \
		STORE_TIMEOUT_OPTION(offsetof(config_type, store_timeout), \
				     STORE_TIMEOUT_CKPT), \
		{ .key = "ca-file", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(config_type, ca_file), \
		  .help = "Certificates (PEM) that the store's server is checked " \
			  "with, instead of the system's." }, \
		{ .key = "cache", \
		  .type = OPTION_STRING, \
		  .arg = "DIR", \
		  .offset = offsetof(config_type, cache), \
		  .help = "Keep bytes of striped files that were read in this folder " \
			  "of the node's disk, for mounts of the same store after " \
			  "this one; it belongs to the mount's user alone." }, \
		{ .key = "cache-size", \
		  .type = OPTION_SIZE, \
		  .def = "64G", \
		  .min = "16M", \
		  .offset = offsetof(config_type, cache_size), \
		  .help = "Bytes of --cache at most, for all mounts that have it; " \
			  "a twentieth of the disk stays free; files that were " \
			  "not read for longest go first." }, \
		{ .key = "group", \
		  .type = OPTION_STRING, \
		  .arg = "HOST:PORT[,...]", \
		  .offset = offsetof(config_type, group), \
		  .help = "Read files together with the other mounts of this " \
			  "store that have the same --group-key: what several " \
			  "read at the same time leaves the store once, and is " \
			  "passed on between them.  They find one another at " \
			  "HOST:PORT, where the first of that host's mounts " \
			  "listens; the others need a free port." }, \
		{ .key = "group-key", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(config_type, group_key), \
		  .help = "File with the group's secret, 32 bytes or more; whoever " \
			  "has it is believed what files of the store are." }, \
		{ .key = "group-nodes", \
		  .type = OPTION_INTEGER, \
		  .def = "0", \
		  .max = "65536", \
		  .offset = offsetof(config_type, group_nodes), \
		  .help = "Mounts that the group will have: the first read waits " \
			  "until all are there, for --group-wait at most; 0 waits " \
			  "for those that can be found." }, \
		{ .key = "group-memory", \
		  .type = OPTION_SIZE, \
		  .def = "256M", \
		  .min = "32M", \
		  .offset = offsetof(config_type, group_memory), \
		  .help = "Memory, beside --memory, for what is passed on, and " \
			  "kept for who reads it again." }, \
		{ .key = "group-wait", \
		  .type = OPTION_DURATION, \
		  .def = "5s", \
		  .min = "100ms", \
		  .max = "10m", \
		  .offset = offsetof(config_type, group_wait), \
		  .help = "Time without a byte after which a mount that was asked " \
			  "is left out, and what it owes is read from the store." }, \
		{ .key = "group-rate", \
		  .type = OPTION_SIZE, \
		  .def = "0", \
		  .offset = offsetof(config_type, group_rate), \
		  .help = "Bytes a second that this mount sends the others at " \
			  "most, of files that are read, and as many again of " \
			  "saves and blocks; 0 sets no bound." }, \
		{ .key = "group-dscp", \
		  .type = OPTION_INTEGER, \
		  .def = "0", \
		  .max = "63", \
		  .offset = offsetof(config_type, group_dscp), \
		  .help = "Class of traffic (DSCP) of packets to the others, " \
			  "8 for what gives way to the rest; 0 is the system's." }, \
		{ .key = "group-socket", \
		  .type = OPTION_STRING, \
		  .arg = "FILE", \
		  .offset = offsetof(config_type, group_socket), \
		  .help = "Take what ranks of this node save together with those of " \
			  "other nodes (bootseer.group) at this Unix socket, from " \
			  "root and the mount's own user; of a mount that root " \
			  "runs, the owner of --group-key." }, \
		{ .key = "group-staging", \
		  .type = OPTION_SIZE, \
		  .def = "8G", \
		  .min = "16M", \
		  .offset = offsetof(config_type, group_staging), \
		  .help = "Memory of ranks and this mount for what they save together " \
			  "and the store has not yet; who wants more waits." }, \
		{ .key = "group-full", \
		  .type = OPTION_BOOL, \
		  .offset = offsetof(config_type, group_full), \
		  .help = "Store all bytes of each such save, also those that an " \
			  "earlier one has in the store." }, \
		{ .key = "group-blocks", \
		  .type = OPTION_SIZE, \
		  .def = "0", \
		  .offset = offsetof(config_type, group_blocks), \
		  .help = "Memory for blocks that programs of this node and " \
			  "others of the group keep by name (bootseer.KVCache) " \
			  "at --group-socket; 0 takes none." }, \
		{ .key = "group-blocks-store", \
		  .type = OPTION_SIZE, \
		  .def = "0", \
		  .offset = offsetof(config_type, group_blocks_store), \
		  .help = "Bytes of such blocks that the group, all nodes " \
			  "together, leaves in the store; 0 stores none." }, \
		{ .key = "selinux-context", \
		  .type = OPTION_STRING, \
		  .arg = "CONTEXT", \
		  .offset = offsetof(config_type, selinux_context), \
		  .help = "SELinux's label of all files, as " \
			  "system_u:object_r:container_file_t:s0." }, \
	{ \
		.key = "read-only", .letter = 'r', .type = OPTION_BOOL, \
		.offset = offsetof(config_type, read_only), \
		.help = "Refuse all changes." \
	}

#endif
