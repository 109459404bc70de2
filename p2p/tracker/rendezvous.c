// SPDX-License-Identifier: Apache-2.0
/* Rendezvous hashing: every node finds the same order by itself. */
#include <string.h>

#include "common/bytes.h"
#include "p2p/tracker/tracker.h"

struct score {
	uint64_t value;
	const char *name;
	size_t index;
};

/* Best first; equal names stay in their order. */
static int compare_by_score(const void *a, const void *b)
{
	const struct score *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	if (strcmp(x->name, y->name) != 0)
		return strcmp(x->name, y->name);
	return x->index < y->index ? -1 : x->index > y->index;
}

int rendezvous(const struct digest *image, const char *const *names, size_t n,
	       size_t *ret, struct error *err)
{
	AUTO_FREE struct score *scores = calloc(n ? n : 1, sizeof(*scores));
	AUTO(hasher) h = hasher_new();

	if (!scores || !h)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		struct digest d;

		if (hasher_update(h, image->b, sizeof(image->b)) < 0 ||
		    hasher_update(h, names[i], strlen(names[i])) < 0 ||
		    hasher_final(h, &d) < 0)
			return error_nomem(err);
		scores[i] = (struct score){ .value = get_le64(d.b),
					    .name = names[i],
					    .index = i };
	}
	qsort(scores, n, sizeof(*scores), compare_by_score);
	for (size_t i = 0; i < n; i++)
		ret[i] = scores[i].index;
	return 0;
}
