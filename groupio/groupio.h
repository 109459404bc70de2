// SPDX-License-Identifier: Apache-2.0
/*
 * Reads that the nodes of a job share: each unit of a file that several of them read at the
 * same time is read from the store by one node, which passes it on to the others from its
 * memory.  docs/checkpoints.md ("Many nodes that read one file") has what users see,
 * docs/formats/p2p.md the messages, SECURITY.md whom a node believes.
 *
 * Any thread may call any function, unless its comment says otherwise.
 */
#ifndef BOOTSEER_GROUPIO_GROUPIO_H
#define BOOTSEER_GROUPIO_GROUPIO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"

/* Files with larger units are not shared. Small units let members that read in step spread
 * the few MiB that all of them need over many links. */
#define GROUP_UNIT_MAX (1u << 20)
#define GROUP_PLACES_MAX 8u  /* addresses of --group */
#define GROUP_SECRET_MIN 32u /* bytes of a key file */
#define GROUP_SECRET_MAX 4096u

struct group;
struct group_file;

struct group_config {
	/* File with a secret of the job, which all members have and nobody else may read. */
	const char *key_file;
	/* "HOST:PORT[,HOST:PORT...]": addresses where members meet. A member listens at the
	 * address that is its own. */
	const char *places;
	uint64_t
		/* bytes for units that others want now, or may want later */
		memory;
	unsigned int fetches; /* concurrent reads of the store */
	unsigned int
		/* members that the group will have, with this one; 0: unknown */
		members;
	/* A member that sends nothing for so long after a request, or no whole unit in four
	 * times that, is shunned, and so is one that does not take what it requested. */
	int64_t wait_ns;
	unsigned int dscp; /* of packets to other members; 0: the system's */
	/* Limit in bytes per second for units sent, and the same again for saves and blocks;
	 * 0: no limit. */
	uint64_t rate;
};

/* Create a group. Reads the key file, and begins to look for members; failing to find any is
 * no error. */
int group_new(const struct group_config *cfg, struct group **ret,
	      struct error *err) MUST_CHECK;
/* Call it with every file closed and no read running. */
void group_free(struct group *g);

/* Reads the bytes of a file that no other member has. */
struct group_source_ops {
	/* Read bytes. Blocks; called by several threads at a time. */
	int (*read)(void *arg, uint64_t off, void *buf, size_t len,
		    struct error *err);
	/* Do these bytes, a whole unit that another member sent, belong to the file, as far
	 * as this node can tell? -EBADMSG */
	int (*check)(void *arg, uint64_t off, const void *buf, size_t len,
		     struct error *err);
	/* Called when neither readers nor members need the source. */
	void (*release)(void *arg);
};

struct group_source {
	const struct group_source_ops *ops;
	void *arg;
	/* Identifies the version of the file: equal if and only if the bytes are equal. */
	struct digest identity;
	uint64_t size;
	uint32_t
		unit; /* bytes, GROUP_UNIT_MAX at most; the last one may be shorter */
};

/* Open a file and offer it to the other members. Takes `s->arg`, also on failure; it may be
 * kept after group_file_close() for members that still read. */
int group_file_open(struct group *g, const struct group_source *s,
		    struct group_file **ret, struct error *err) MUST_CHECK;
void group_file_close(struct group_file *f);
/* Release the source of a closed file that is kept for other members: the one unused for
 * longest. False: there is no such file. */
bool group_shed(struct group *g);

/* Read exactly `len` bytes; the units with these bytes are fetched in parallel. Blocks;
 * fails only as the source's read does, never because of another member. */
int group_read(struct group_file *f, uint64_t off, void *buf, size_t len,
	       struct error *err) MUST_CHECK;

/* Wait for the address of this machine at which the group listens, without port. -ETIMEDOUT:
 * no address of --group could be looked up; -ECANCELED: group_cancel_waits() was called. */
int group_wait_host(struct group *g, int64_t until_ns, char ret[64],
		    struct error *err) MUST_CHECK;
/* End all calls of group_wait_host(), and those to come. */
void group_cancel_waits(struct group *g);

struct group_stats {
	uint64_t members;       /* other members that are linked now */
	uint64_t fetched_bytes; /* read from the store */
	uint64_t
		/* of units that others sent and that passed the check */
		received_bytes;
	uint64_t sent_bytes; /* passed on to others */
	uint64_t
		memory_read_bytes; /* read here from units that were in memory */
	uint64_t read_ns; /* time that reads took, of all threads together */
	uint64_t memory_bytes; /* of units that are kept now */
	uint64_t late_total;   /* members shunned because they delayed others */
	/* units sent by others that did not belong to the file */
	uint64_t wrong_total;
};
void group_stats(struct group *g, struct group_stats *ret);

#endif
