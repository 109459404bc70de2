// SPDX-License-Identifier: Apache-2.0
/* Any head of an offer, of a length that the first eight bytes say: refused, or members that
 * lie one behind the other and end where it does. */
#include <string.h>

#include "common/bytes.h"
#include "image/artifact/offer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require_true(bool ok)
{
	if (!ok)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF again = BUF_INIT;
	uint64_t total, end = OFFER_HEAD;
	struct offer o;

	if (size < sizeof(total))
		return 0;
	total = get_le64(data);
	data += sizeof(total);
	size -= sizeof(total);
	if (offer_parse_head(data, size, total, &o, NULL) < 0)
		return 0;
	for (int m = 0; m < OFFER_MEMBERS; m++) {
		require_true(offer_begin(&o, (enum offer_member)m) == end);
		require_true(o.size[m] <= OFFER_MAX);
		end += o.size[m];
	}
	require_true(end == total && total <= OFFER_MAX);
	require_true(offer_format_head(&o, &again) == 0);
	require_true(again.len == OFFER_HEAD &&
		     memcmp(again.data, data, OFFER_HEAD) == 0);
	return 0;
}
