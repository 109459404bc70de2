// SPDX-License-Identifier: Apache-2.0
#include "common/json.h"

#include "common/buf.h"
#include "common/digest.h"

json_t *json_bytes(const char *text)
{
	json_t *v = json_string(text);
	AUTO_BUF out = BUF_INIT;

	for (; !v && *text; text++)
		if ((*text >= ' ' && *text <= '~' && *text != '\\')
			    ? buf_append(&out, text, 1)
			    : buf_printf(&out, "\\x%02x", (unsigned char)*text))
			return NULL;
	return v ? v : json_string(out.data);
}

const char *json_text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

json_t *json_digest(const struct digest *d)
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	return json_string(text);
}

json_t *json_descriptor(const char *media_type, const struct digest *d,
			uint64_t size)
{
	return json_pack("{s:s, s:o, s:I}", "mediaType", media_type, "digest",
			 json_digest(d), "size", (json_int_t)size);
}
