// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which nodes, named by a person or an analysis, may be taken out of a cluster
 * (docs/analysis.md, Recovery). Pure: one thread at a time.
 */
#ifndef BOOTSEER_PROFILER_OPS_RECOVER_H
#define BOOTSEER_PROFILER_OPS_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define RECOVER_WISHES_MAX 1000u

/* A node of the cluster. */
struct recover_node {
	const char *name;
	/* other names and addresses; NULL ends them */
	const char *const *others;
	bool is_held; /* an earlier recovery took it out */
	bool is_out;  /* no pods are placed on it now, for any reason */
	bool is_control_plane;
};

/* How many nodes may be out at the same time: a number, or a percentage of the cluster's. */
struct recover_budget {
	uint32_t count;
	bool is_percent;
};

/* Read a budget such as "3" or "5%". -EINVAL. */
int recover_read_budget(const char *text, struct recover_budget *ret,
			struct error *err) MUST_CHECK;

enum recover_verdict {
	RECOVER_TAKE,
	RECOVER_UNKNOWN,       /* no node has this name */
	RECOVER_AMBIGUOUS,     /* several nodes have this name */
	RECOVER_TWICE,         /* the same node was named before */
	RECOVER_HELD,          /* an earlier recovery took it out */
	RECOVER_OUT,           /* the node is out for another reason */
	RECOVER_CONTROL_PLANE, /* never taken out */
};

struct recover_wish {
	const char *node, *why;
	enum recover_verdict verdict;
	size_t index; /* index of the node in the cluster; SIZE_MAX: unknown */
};

struct recover_plan {
	size_t n_nodes; /* nodes of the cluster, without control planes */
	size_t n_out;   /* how many of these are out now */
	size_t n_allowed;
	size_t n_new;
	/* all new nodes fit into the budget; otherwise none is taken out */
	bool is_allowed;
};

/* Fill in the verdict of each wish, and the plan that results. */
void recover_decide(const struct recover_node *nodes, size_t n,
		    struct recover_budget budget, struct recover_wish *wishes,
		    size_t n_wishes, struct recover_plan *ret);

/* Advice about an XID of a GPU, by tables 2.3 and 4.3.5 of the paper, after NVIDIA's catalog. */
enum recover_xid {
	RECOVER_XID_UNKNOWN,
	RECOVER_XID_RESTART, /* restart the program on the same nodes */
	RECOVER_XID_RESET,   /* reset the GPU while the node has no work */
	RECOVER_XID_SUPPORT, /* call the support of the hardware */
};

enum recover_xid recover_read_xid(uint32_t xid);
/* The advice as text: "reset the GPU"; "": unknown. */
const char *recover_xid_text(enum recover_xid v);

/* Kinds of failures by XID, after NVIDIA's catalog: those categories of the paper's tables 1 and 2
 * that XIDs can show. */
enum recover_kind {
	/* ECC errors, and memory rows remapped because of them */
	RECOVER_KIND_MEMORY,
	RECOVER_KIND_NVLINK,
	RECOVER_KIND_DROPOUT, /* the GPU is no longer on its bus */
	RECOVER_KIND_PROGRAM, /* faults of the program that runs on the GPU */
	RECOVER_KIND_OTHER,   /* another XID, or none */
	RECOVER_N_KINDS,
};

enum recover_kind recover_kind_of(uint32_t xid);
/* The kind as text: "GPU memory". */
const char *recover_kind_text(enum recover_kind v);
/* The percentage of this kind among the failures of Minder's clusters (table 1); NAN: not listed
 * there. */
double recover_kind_elsewhere(enum recover_kind v);

/* The verdict as text: "is out already". */
const char *recover_verdict_text(enum recover_verdict v);

#endif
