// SPDX-License-Identifier: Apache-2.0
#include "profiler/ops/recover.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 65536ul

int recover_read_budget(const char *text, struct recover_budget *ret,
			struct error *err)
{
	size_t digits = strspn(text, "0123456789");
	bool is_percent = strcmp(text + digits, "%") == 0;
	unsigned long n =
		digits && digits <= 5 ? strtoul(text, NULL, 10) : COUNT_MAX + 1;

	if ((text[digits] && !is_percent) || n > (is_percent ? 100 : COUNT_MAX))
		return error_set(err, EINVAL,
				 "'%s' is no budget: wanted is a number of "
				 "nodes, or a share of all as 5%%",
				 text);
	*ret = (struct recover_budget){ (uint32_t)n, is_percent };
	return 0;
}

static bool is_named(const struct recover_node *node, const char *name)
{
	if (strcmp(node->name, name) == 0)
		return true;
	for (const char *const *o = node->others; o && *o; o++)
		if (strcmp(*o, name) == 0)
			return true;
	return false;
}

/* Find the node of a wish. A node's own name takes precedence over another node's address or label
 * with the same text, because labels are less protected. */
static enum recover_verdict find_node(const struct recover_node *nodes,
				      size_t n, struct recover_wish *w)
{
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < n; i++)
		if (strcmp(nodes[i].name, w->node) == 0) {
			w->index = i;
			return RECOVER_TAKE;
		}
	for (size_t i = 0; i < n; i++) {
		if (!is_named(&nodes[i], w->node))
			continue;
		if (found != SIZE_MAX)
			return RECOVER_AMBIGUOUS;
		found = i;
	}
	w->index = found;
	return found == SIZE_MAX ? RECOVER_UNKNOWN : RECOVER_TAKE;
}

static enum recover_verdict judge_node(const struct recover_node *node)
{
	if (node->is_control_plane)
		return RECOVER_CONTROL_PLANE;
	if (node->is_out)
		return node->is_held ? RECOVER_HELD : RECOVER_OUT;
	return RECOVER_TAKE;
}

void recover_decide(const struct recover_node *nodes, size_t n,
		    struct recover_budget budget, struct recover_wish *wishes,
		    size_t n_wishes, struct recover_plan *ret)
{
	*ret = (struct recover_plan){ .n_nodes = 0 };
	for (size_t i = 0; i < n; i++) {
		ret->n_nodes += !nodes[i].is_control_plane;
		ret->n_out += !nodes[i].is_control_plane && nodes[i].is_out;
	}
	ret->n_allowed = budget.is_percent ? ret->n_nodes * budget.count / 100
					   : budget.count;
	for (size_t i = 0; i < n_wishes; i++) {
		struct recover_wish *w = &wishes[i];

		w->index = SIZE_MAX;
		w->verdict = find_node(nodes, n, w);
		if (w->verdict == RECOVER_TAKE)
			w->verdict = judge_node(&nodes[w->index]);
		for (size_t k = 0; k < i && w->index != SIZE_MAX; k++)
			if (wishes[k].index == w->index)
				w->verdict = RECOVER_TWICE;
		ret->n_new += w->verdict == RECOVER_TAKE;
	}
	ret->is_allowed = ret->n_out + ret->n_new <= ret->n_allowed;
}

const char *recover_verdict_text(enum recover_verdict v)
{
	static const char *const texts[] = {
		[RECOVER_TAKE] = "may be taken out",
		[RECOVER_UNKNOWN] = "is no node of this cluster",
		[RECOVER_AMBIGUOUS] =
			"is a name of several nodes: say which by its own name",
		[RECOVER_TWICE] = "is named twice",
		[RECOVER_HELD] = "was taken out by bootseer before",
		[RECOVER_OUT] = "is cordoned or not ready already",
		[RECOVER_CONTROL_PLANE] =
			"is of the control plane, which is never taken out",
	};

	return texts[v];
}

static bool recover_is_among(const uint16_t *xids, size_t n, uint32_t xid)
{
	for (size_t i = 0; i < n; i++)
		if (xids[i] == xid)
			return true;
	return false;
}

enum recover_xid recover_read_xid(uint32_t xid)
{
	static const uint16_t restart[] = { 13, 31, 43, 45, 94 };
	static const uint16_t reset[] = { 48,  64,  74,  95,  119,
					  120, 140, 143, 145, 149 };

	if (recover_is_among(restart, ARRAY_SIZE(restart), xid))
		return RECOVER_XID_RESTART;
	if (recover_is_among(reset, ARRAY_SIZE(reset), xid))
		return RECOVER_XID_RESET;
	return xid == 79 ? RECOVER_XID_SUPPORT : RECOVER_XID_UNKNOWN;
}

const char *recover_xid_text(enum recover_xid v)
{
	static const char *const texts[] = {
		[RECOVER_XID_UNKNOWN] = "",
		[RECOVER_XID_RESTART] = "start the program again",
		[RECOVER_XID_RESET] = "reset the GPU",
		[RECOVER_XID_SUPPORT] = "call support",
	};

	return texts[v];
}

enum recover_kind recover_kind_of(uint32_t xid)
{
	static const uint16_t memory[] = { 48, 63, 64, 92, 94, 95, 140 };
	static const uint16_t nvlink[] = {
		74, 144, 145, 146, 147, 148, 149, 150
	};
	static const uint16_t program[] = { 13, 31, 43, 45 };

	if (recover_is_among(memory, ARRAY_SIZE(memory), xid))
		return RECOVER_KIND_MEMORY;
	if (recover_is_among(nvlink, ARRAY_SIZE(nvlink), xid))
		return RECOVER_KIND_NVLINK;
	if (recover_is_among(program, ARRAY_SIZE(program), xid))
		return RECOVER_KIND_PROGRAM;
	return xid == 79 ? RECOVER_KIND_DROPOUT : RECOVER_KIND_OTHER;
}

const char *recover_kind_text(enum recover_kind v)
{
	static const char *const texts[] = {
		[RECOVER_KIND_MEMORY] = "GPU memory",
		[RECOVER_KIND_NVLINK] = "NVLink",
		[RECOVER_KIND_DROPOUT] = "GPU lost",
		[RECOVER_KIND_PROGRAM] = "program on the GPU",
		[RECOVER_KIND_OTHER] = "other",
	};

	return texts[v];
}

double recover_kind_elsewhere(enum recover_kind v)
{
	static const double shares[] = {
		[RECOVER_KIND_MEMORY] = 38.9,
		[RECOVER_KIND_NVLINK] = 1.7,
		[RECOVER_KIND_DROPOUT] = 2.0,
		/* CUDA runtime errors and GPU execution errors. */
		[RECOVER_KIND_PROGRAM] = 14.6 + 7.7,
		[RECOVER_KIND_OTHER] = (double)NAN,
	};

	return shares[v];
}
