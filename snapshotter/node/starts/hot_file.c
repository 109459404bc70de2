// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/starts/hot_file.h"

#include <errno.h>
#include <jansson.h>

#include "net/control.h"

int hot_file_format(const struct hot_list *hot, struct buf *ret,
		    struct error *err)
{
	if (buf_printf(ret, "{\"format\": %d, \"blocks\": [", HOT_FILE_FORMAT) <
	    0)
		return error_nomem(err);
	for (size_t i = 0; i < hot->n; i++)
		if (buf_printf(ret, "%s%u", i ? "," : "",
			       hot->blocks[i].index) < 0)
			return error_nomem(err);
	return buf_puts(ret, "]}\n") < 0 ? error_nomem(err) : 0;
}

static int parse_blocks(const json_t *blocks, struct hot_list *ret,
			struct error *err)
{
	size_t n = json_array_size(blocks);
	AUTO_FREE struct hot_block *list = calloc(n + 1, sizeof(*list));

	if (!list)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const json_t *b = json_array_get(blocks, i);
		json_int_t index = json_integer_value(b);

		if (!json_is_integer(b) || index < 0 || index > UINT32_MAX)
			return error_set(err, EINVAL, "hot set: entry %zu", i);
		list[i].index = (uint32_t)index;
	}
	*ret = (struct hot_list){ .blocks = steal_ptr(&list), .n = n };
	return 0;
}

int hot_file_parse(const char *text, size_t len, struct hot_list *ret,
		   struct error *err)
{
	AUTO_JSON *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	json_error_t why;
	json_t *blocks;
	int format;

	if (!root)
		return error_set(err, EINVAL, "hot set: no JSON");
	if (json_unpack_ex(root, &why, JSON_STRICT, "{s:i, s:o}", "format",
			   &format, "blocks", &blocks) < 0)
		return error_set(err, EINVAL, "hot set: %s", why.text);
	if (format != HOT_FILE_FORMAT || !json_is_array(blocks))
		return error_set(err, EINVAL, "hot set of format %d", format);
	return parse_blocks(blocks, ret, err);
}
