// SPDX-License-Identifier: Apache-2.0
#include "image/artifact/offer.h"

#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "image/artifact/artifact.h"

#define VERSION 1

static const char magic[4] = { 'B', 'S', 'O', 'F' };

int offer_format_head(const struct offer *o, struct buf *ret)
{
	uint8_t head[OFFER_HEAD];

	memcpy(head, magic, sizeof(magic));
	put_le32(head + 4, VERSION);
	for (int m = 0; m < OFFER_MEMBERS; m++)
		put_le64(head + 8 + 8 * m, o->size[m]);
	return buf_append(ret, head, sizeof(head));
}

int offer_parse_head(const void *data, size_t len, uint64_t total,
		     struct offer *ret, struct error *err)
{
	const uint8_t *head = data;
	uint64_t sum = OFFER_HEAD;
	struct offer o;

	if (len < OFFER_HEAD || memcmp(head, magic, sizeof(magic)) != 0)
		return error_set(err, EBADMSG, "the offer is no index");
	if (get_le32(head + 4) != VERSION)
		return error_set(err, EBADMSG,
				 "the offer has format %u, this bootseerd "
				 "knows %d",
				 get_le32(head + 4), VERSION);
	for (int m = 0; m < OFFER_MEMBERS; m++) {
		o.size[m] = get_le64(head + 8 + 8 * m);
		if (o.size[m] > OFFER_MAX)
			return error_set(err, EBADMSG,
					 "a member of the offer is too long");
		sum += o.size[m];
	}
	if (sum != total || total > OFFER_MAX ||
	    o.size[OFFER_MANIFEST] > OCI_MANIFEST_MAX ||
	    o.size[OFFER_CONFIG] > ARTIFACT_CONFIG_MAX)
		return error_set(err, EBADMSG,
				 "the offer's members are not its %llu bytes",
				 (unsigned long long)total);
	*ret = o;
	return 0;
}

uint64_t offer_begin(const struct offer *o, enum offer_member m)
{
	uint64_t at = OFFER_HEAD;

	for (int k = 0; k < (int)m; k++)
		at += o->size[k];
	return at;
}
