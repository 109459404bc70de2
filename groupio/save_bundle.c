// SPDX-License-Identifier: Apache-2.0
#include "groupio/save_bundle.h"

#include <errno.h>
#include <string.h>

#include "common/bounded_json.h"
#include "common/bytes.h"

/* Length that marks a table which is left out. */
#define ABSENT UINT32_MAX

static json_t *seen_json(const struct save_seen *s)
{
	return json_pack("{s:b,s:s,s:s,s:I,s:I,s:I,s:b}", "known",
			 s->version.is_known, "striped", s->version.striped,
			 "plain", s->version.plain, "generation",
			 (json_int_t)s->version.generation, "bytes",
			 (json_int_t)s->version.bytes_id, "owner",
			 (json_int_t)s->owner, "behind", s->is_behind);
}

int save_bundle_encode(const struct buf *texts, size_t n,
		       const struct save_seen *seen, struct buf *ret,
		       struct error *err)
{
	AUTO_JSON *file = seen_json(seen);
	AUTO_FREE char *text = file ? json_dumps(file, JSON_COMPACT) : NULL;
	int rc = 0;

	if (!text)
		return error_set(err, EBADMSG,
				 "the store's names for versions are no text");
	for (size_t i = 0; i < n && rc == 0; i++) {
		const bool is_absent = texts[i].len > SAVE_TOLD_MAX;
		uint8_t len[4];

		put_le32(len, is_absent ? ABSENT : (uint32_t)texts[i].len);
		rc = buf_append(ret, len, sizeof(len));
		if (rc == 0 && !is_absent)
			rc = buf_append(ret, texts[i].data, texts[i].len);
	}
	if (rc == 0)
		rc = buf_puts(ret, text);
	return rc < 0 ? error_nomem(err) : 0;
}

static int decode_seen(json_t *file, struct save_seen *ret, struct error *err)
{
	const char *striped, *plain;
	json_int_t generation, bytes, owner;
	int is_known, is_behind;

	if (json_unpack(file, "{s:b,s:s,s:s,s:I,s:I,s:I,s:b}", "known",
			&is_known, "striped", &striped, "plain", &plain,
			"generation", &generation, "bytes", &bytes, "owner",
			&owner, "behind", &is_behind) < 0 ||
	    strlen(striped) >= sizeof(ret->version.striped) ||
	    strlen(plain) >= sizeof(ret->version.plain))
		return error_set(err, EBADMSG,
				 "it has not said what is at the path");
	*ret = (struct save_seen){ .owner = owner,
				   .is_behind = is_behind,
				   .version = {
					   .is_known = is_known,
					   .generation = (uint64_t)generation,
					   .bytes_id = (uint64_t)bytes,
				   } };
	(void)strcpy(ret->version.striped, striped);
	(void)strcpy(ret->version.plain, plain);
	return 0;
}

/* Decode the table of a node, which stands behind its length at `*at`; moves `*at` behind
 * it. */
static int decode_next(const char *data, size_t len, size_t *at,
		       struct save_table *ret, bool *ret_is_absent,
		       struct error *err)
{
	const size_t left = len - *at;
	const uint32_t n = left < 4 ? 0 : get_le32(data + *at);

	*at += 4;
	*ret_is_absent = n == ABSENT;
	if (left >= 4 && n == ABSENT)
		return 0;
	if (left < 4 || n > left - 4)
		return error_set(err, EBADMSG,
				 "it has not the tables of all nodes");
	*at += n;
	return ret ? save_table_decode(data + *at - n, n, ret, err) : 0;
}

int save_bundle_decode(const char *data, size_t len, size_t n, size_t self,
		       struct save_table *ret, uint64_t *ret_absent,
		       struct save_seen *ret_seen, struct error *err)
{
	AUTO_JSON *file = NULL;
	size_t at = 0;
	int rc = 0;

	*ret_absent = 0;
	for (size_t i = 0; i < n && rc == 0; i++) {
		bool is_absent;

		rc = decode_next(data, len, &at, i == self ? NULL : &ret[i],
				 &is_absent, err);
		if (rc == 0 && is_absent && i != self)
			*ret_absent |= UINT64_C(1) << i;
	}
	if (rc == 0)
		rc = bounded_json_load(data + at, len - at,
				       "what is at the path", &file, err);
	return rc < 0 ? rc : decode_seen(file, ret_seen, err);
}
