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

/* Files whose units are larger are not shared: members that read in step ask for the same few
 * MiB, and the links of all that have units of these are to be busy. */
#define GROUP_UNIT_MAX (1u << 20)
#define GROUP_PLACES_MAX 8u  /* addresses of --group */
#define GROUP_SECRET_MIN 32u /* bytes of a key file */
#define GROUP_SECRET_MAX 4096u

struct group;
struct group_file;

struct group_config {
	/* A secret of the job, which every member has and nobody else may read. */
	const char *key_file;
	/* "HOST:PORT[,HOST:PORT...]": where members find one another.  A member whose own
	 * address is among them listens there. */
	const char *places;
	uint64_t
		memory; /* bytes for units that others want, or may want again */
	unsigned int fetches; /* reads of the store at a time */
	unsigned int
		members; /* that there will be, with this one; 0: unknown */
	/* A member that is asked, and sends nothing for so long, or a unit in four times that, is
	 * left out, and so is one that asks and takes nothing. */
	int64_t wait_ns;
	unsigned int dscp; /* of packets to other members; 0: the system's */
	/* Bytes a second that are sent, of units, and as many again of saves and blocks; 0: no
	 * bound. */
	uint64_t rate;
};

/* Reads the key; members are looked for from now on, and no failure of theirs is one of
 * this. */
int group_new(const struct group_config *cfg, struct group **ret,
	      struct error *err) MUST_CHECK;
/* With every file closed and no read under way. */
void group_free(struct group *g);

/* Where the bytes of a file come from when no other member has them. */
struct group_source_ops {
	/* Blocks; several threads at a time. */
	int (*read)(void *arg, uint64_t off, void *buf, size_t len,
		    struct error *err);
	/* Are these bytes, a whole unit that another member sent, the file's, as far as this
	 * node can tell?  -EBADMSG */
	int (*check)(void *arg, uint64_t off, const void *buf, size_t len,
		     struct error *err);
	/* The file has no reader any more. */
	void (*release)(void *arg);
};

struct group_source {
	const struct group_source_ops *ops;
	void *arg;
	/* The version of the file: equal where the bytes are, and nowhere else. */
	struct digest identity;
	uint64_t size;
	uint32_t
		unit; /* bytes, GROUP_UNIT_MAX at most; the last one may be shorter */
};

/* Offer the file to the other members.  Takes `s->arg`, also on failure; it is kept beyond
 * group_file_close() for members that still read. */
int group_file_open(struct group *g, const struct group_source *s,
		    struct group_file **ret, struct error *err) MUST_CHECK;
void group_file_close(struct group_file *f);
/* Release the source of a closed file that is kept for other members, the one unused for
 * longest; false: there is none. */
bool group_shed(struct group *g);

/* Read exactly `len` bytes; units that they lie in are fetched side by side.  Blocks; fails as the
 * source's read does, and for no fault of another member. */
int group_read(struct group_file *f, uint64_t off, void *buf, size_t len,
	       struct error *err) MUST_CHECK;

/* The address of this machine that the group listens at, without a port, once it does.
 * -ETIMEDOUT: no place of --group could be looked up; -ECANCELED: nobody is to wait any more. */
int group_wait_host(struct group *g, int64_t until_ns, char ret[64],
		    struct error *err) MUST_CHECK;
/* End all calls of group_wait_host(), and those to come. */
void group_cancel_waits(struct group *g);

struct group_stats {
	uint64_t members;       /* others that are linked now */
	uint64_t fetched_bytes; /* read from the store */
	uint64_t
		received_bytes; /* of units that others sent, and were believed */
	uint64_t sent_bytes;    /* passed on to others */
	uint64_t
		memory_read_bytes; /* read here from units that were in memory */
	uint64_t read_ns; /* time that reads took, of all threads together */
	uint64_t memory_bytes; /* of units that are kept now */
	uint64_t
		late_total; /* members that were left out, since they held others up */
	uint64_t wrong_total; /* units of others that were not the file's */
};
void group_stats(struct group *g, struct group_stats *ret);

#endif
