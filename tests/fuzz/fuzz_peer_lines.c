// SPDX-License-Identifier: Apache-2.0
/* Lines of a report's text that say which peer gave how much, and the JSON of older versions:
 * what is taken is the same when it is written as a line and read again. */
#include <stdlib.h>
#include <string.h>

#include "registry/peer_sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void must_read_again(const char *giver, int64_t bytes)
{
	char again[STAGE_NODE_MAX + 1];
	AUTO_BUF b = BUF_INIT;
	const char *at;
	int64_t n;

	/* No name of a node has these; JSON of older versions is not looked at for them. */
	if (giver[0] == '[' || giver[0] == ',' || strchr(giver, ' '))
		return;
	must(peer_line_format(giver, bytes, &b) == 0);
	at = b.data;
	must(peer_line_parse(&at, again, &n));
	must(strcmp(giver, again) == 0 && n == bytes && *at == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char giver[STAGE_NODE_MAX + 1];
	char *text = malloc(len + 1);
	const char *at = text, *before;
	int64_t bytes;

	if (!text)
		return 0;
	if (len)
		memcpy(text, data, len);
	text[len] = '\0';
	for (before = at; peer_line_parse(&at, giver, &bytes); before = at) {
		must(at > before && at <= text + strlen(text));
		must(*giver && bytes >= 0);
		must_read_again(giver, bytes);
	}
	must(at == before);
	free(text);
	return 0;
}
