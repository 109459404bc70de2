// SPDX-License-Identifier: Apache-2.0
/*
 * Which of the nodes that a person or an analysis names may be taken out of a cluster
 * (docs/analysis.md, Recovery).  Pure: one thread at a time.
 */
#ifndef BOOTSEER_PROFILER_OPS_RECOVER_H
#define BOOTSEER_PROFILER_OPS_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define RECOVER_WISHES_MAX 1000u

/* A node as the cluster has it. */
struct recover_node {
	const char *name;
	const char *const
		*others; /* its other names and addresses; NULL ends them */
	bool is_held;    /* an earlier recovery took it out */
	bool is_out;     /* no pod is placed there now, for whatever reason */
	bool is_control_plane;
};

/* Nodes that may be out at once: a number, or a share of the cluster's in percent. */
struct recover_budget {
	uint32_t count;
	bool is_percent;
};

/* "3" or "5%".  -EINVAL. */
int recover_read_budget(const char *text, struct recover_budget *ret,
			struct error *err) MUST_CHECK;

enum recover_verdict {
	RECOVER_TAKE,
	RECOVER_UNKNOWN,       /* no node has this name */
	RECOVER_AMBIGUOUS,     /* several nodes have it */
	RECOVER_TWICE,         /* the same node was named before */
	RECOVER_HELD,          /* an earlier recovery took it out */
	RECOVER_OUT,           /* it is out for another reason */
	RECOVER_CONTROL_PLANE, /* never taken out */
};

struct recover_wish {
	const char *node, *why;
	enum recover_verdict verdict;
	size_t index; /* of the cluster's nodes; SIZE_MAX: unknown */
};

struct recover_plan {
	size_t n_nodes; /* of the cluster, without control planes */
	size_t n_out;   /* of these, now */
	size_t n_allowed;
	size_t n_new;
	bool is_allowed; /* all that are new fit; if not, none is taken */
};

/* Fill in the wishes' verdicts, and what they come to. */
void recover_decide(const struct recover_node *nodes, size_t n,
		    struct recover_budget budget, struct recover_wish *wishes,
		    size_t n_wishes, struct recover_plan *ret);

/* How an XID of a GPU is met: tables of the paper's 2.3 and 4.3.5, after NVIDIA's catalog. */
enum recover_xid {
	RECOVER_XID_UNKNOWN,
	RECOVER_XID_RESTART, /* the program is started again, on the same nodes */
	RECOVER_XID_RESET,   /* the GPU is reset, without the node's work */
	RECOVER_XID_SUPPORT, /* the hardware's support is called */
};

enum recover_xid recover_read_xid(uint32_t xid);
/* "reset the GPU"; "" where it is unknown. */
const char *recover_xid_text(enum recover_xid v);

/* Kinds of failures by their XID, after NVIDIA's catalog, in the categories of the paper's
 * tables 1 and 2 that XIDs tell of. */
enum recover_kind {
	RECOVER_KIND_MEMORY, /* ECC errors, and rows that are remapped for them */
	RECOVER_KIND_NVLINK,
	RECOVER_KIND_DROPOUT, /* the GPU is no longer on its bus */
	RECOVER_KIND_PROGRAM, /* faults of what runs on the GPU */
	RECOVER_KIND_OTHER,   /* another XID, or none */
	RECOVER_N_KINDS,
};

enum recover_kind recover_kind_of(uint32_t xid);
/* "GPU memory". */
const char *recover_kind_text(enum recover_kind v);
/* How many of 100 failures of Minder's clusters were of the kind (table 1); NAN where these
 * categories have none. */
double recover_kind_elsewhere(enum recover_kind v);

/* The reason of a verdict, for people: "is out already". */
const char *recover_verdict_text(enum recover_verdict v);

#endif
