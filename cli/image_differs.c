// SPDX-License-Identifier: Apache-2.0
#include "cli/image_differs.h"

#include <inttypes.h>
#include <string.h>

#include "common/text.h"

static void note_difference(struct compare_report *base, const char *path,
			    const char *what)
{
	struct image_differs *d =
		container_of(base, struct image_differs, base);

	char *shown;

	if (base->n > IMAGE_DIFFERS_SHOWN)
		return;
	shown = d->shown[base->n - 1];
	(void)snprintf(shown, sizeof(d->shown[0]), "%s: %s", path, what);
	/* The path is chosen by strangers. */
	text_make_printable(shown);
}

void image_differs_start(struct image_differs *d)
{
	memset(d, 0, sizeof(*d));
	d->base.differs = note_difference;
}

void image_differs_print(const struct image_differs *d)
{
	uint64_t n = d->base.n;

	for (uint64_t i = 0; i < n && i < IMAGE_DIFFERS_SHOWN; i++)
		printf("%s\n", d->shown[i]);
	if (n > IMAGE_DIFFERS_SHOWN)
		printf("and %" PRIu64 " more\n", n - IMAGE_DIFFERS_SHOWN);
}
