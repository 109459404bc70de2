// SPDX-License-Identifier: Apache-2.0
/* Answers of WebHDFS. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "objects/hdfs/hdfs_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_status(void *arg, const struct hdfs_status *s)
{
	size_t *n = arg;

	assert(s->suffix && !strchr(s->suffix, '/'));
	assert(s->modified_ms >= 0);
	++*n;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	AUTO_FREE char *copy = strndup(text, size);
	AUTO_BUF url = BUF_INIT;
	struct hdfs_status s;
	char *one, *two;
	size_t n = 0;
	bool b;

	if (hdfs_listing_parse(text, size, on_status, &n, &one) == 0) {
		assert(!one || n > 0);
		free(one);
	}
	if (hdfs_exception_parse(text, size, &one, &two) == 0) {
		assert(!strpbrk(one, "\r\n\x1b") && !strpbrk(two, "\r\n\x1b"));
		free(one);
		free(two);
	}
	if (hdfs_token_parse(text, size, &one) == 0)
		free(one);
	(void)!hdfs_status_parse(text, size, &s);
	(void)!hdfs_boolean_parse(text, size, &b);
	if (copy && hdfs_url_range(copy, 1, 2, &url) == 0)
		assert(strstr(url.data, "offset=1&length=2"));
	return 0;
}
