// SPDX-License-Identifier: Apache-2.0
/* Answers of S3 servers: pages of lists, errors, credentials; and files of credentials. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "objects/s3/s3_credentials.h"
#include "objects/s3/s3_list_priv.h"
#include "objects/s3/s3_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_element(void *arg, const char *path, const char *text)
{
	size_t *n = arg;

	assert(*path && path[strlen(path) - 1] != '/');
	*n += strlen(text);
	return 0;
}

static int on_entry(void *arg, const struct s3_entry *e)
{
	size_t *n = arg;

	assert(e->key && e->tag);
	*n += strlen(e->key);
	return 0;
}

static void check(struct s3_credentials *c, int rc)
{
	if (rc == 0) {
		assert(c->key_id && c->secret);
		assert(!strpbrk(c->key_id, "\r\n") &&
		       !strpbrk(c->secret, "\r\n"));
	} else {
		assert(!c->key_id && !c->secret && !c->token);
	}
	s3_credentials_fini(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct s3_credentials c;
	struct s3_next next;
	size_t n = 0;

	if (s3_xml_parse(text, size, on_element, &n) == 0)
		assert(n <= size);
	n = 0;
	if (s3_page_parse(text, size, on_entry, &n, &next) == 0)
		s3_next_fini(&next);
	check(&c, s3_credentials_from_xml(text, size, &c));
	check(&c, s3_credentials_from_json(text, size, &c));
	check(&c, s3_credentials_from_file(text, size, "default", &c));
	return 0;
}
