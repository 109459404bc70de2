// SPDX-License-Identifier: Apache-2.0
#include "groupio/save_bundle.h"

#include <errno.h>
#include <string.h>

#include "common/bounded_json.h"

#define VALUES_MAX (1u << 20)

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
	int rc = buf_puts(ret, "{\"tables\":[");

	if (!text)
		return error_set(err, EBADMSG,
				 "the store's names for versions are no text");
	for (size_t i = 0; i < n && rc == 0; i++) {
		const bool is_absent = texts[i].len > SAVE_TOLD_MAX;

		if (i)
			rc = buf_puts(ret, ",");
		if (rc == 0)
			rc = is_absent ? buf_puts(ret, "null")
				       : buf_append(ret, texts[i].data,
						    texts[i].len);
	}
	if (rc == 0)
		rc = buf_printf(ret, "],\"file\":%s}", text);
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

int save_bundle_decode(const char *text, size_t len, size_t n, size_t self,
		       struct save_table *ret, uint64_t *ret_absent,
		       struct save_seen *ret_seen, struct error *err)
{
	AUTO_JSON *root = NULL;
	json_t *list;
	int rc = bounded_json_load_large(text, len, VALUES_MAX,
					 "the tables of all nodes", &root, err);

	if (rc < 0)
		return rc;
	list = json_object_get(root, "tables");
	if (!json_is_array(list) || json_array_size(list) != n)
		return error_set(err, EBADMSG,
				 "it has not the tables of %zu nodes", n);
	*ret_absent = 0;
	for (size_t i = 0; i < n && rc == 0; i++) {
		const json_t *table = json_array_get(list, i);

		if (i == self)
			continue;
		if (json_is_null(table))
			*ret_absent |= UINT64_C(1) << i;
		else
			rc = save_table_take(table, &ret[i], err);
	}
	return rc < 0 ? rc
		      : decode_seen(json_object_get(root, "file"), ret_seen,
				    err);
}
