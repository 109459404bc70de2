// SPDX-License-Identifier: Apache-2.0
/*
 * Filters of the List call: docs/formats/snapshots.md, section "Filters". No I/O; the texts are
 * untrusted.
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_FILTER_H
#define BOOTSEER_CONTAINERD_PLUGIN_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "containerd-plugin/labels.h"

#define FILTERS_MAX 64          /* texts of one list */
#define FILTER_SELECTORS_MAX 64 /* selectors in one text */

struct filter;

/* The fields of a snapshot that a filter compares. */
struct filter_subject {
	const char *name;
	const char *parent; /* "" when there is none */
	const char *kind;   /* "active", "view", "committed" */
	const struct labels *labels;
};

/* Parse filter texts, of which one must match; without a text all snapshots match. -EINVAL:
 * the message shows the place. */
int filter_parse(const char *const *texts, size_t n, struct filter **ret,
		 struct error *err) MUST_CHECK;
void filter_free(struct filter *f);
DEFINE_AUTO(filter)

bool filter_matches(const struct filter *f, const struct filter_subject *s);

#endif
