// SPDX-License-Identifier: Apache-2.0
/* Manifests and tags of objects in a repository. */
#include <assert.h>
#include <string.h>

#include "objects/repo/repo_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_tag(const char *text)
{
	AUTO_FREE char *name = NULL;
	AUTO_BUF decoded = BUF_INIT, encoded = BUF_INIT;
	char tag[REPO_TAG_MAX];

	(void)repo_tag_is_in(text, "", &name);
	/* What can be decoded was encoded. */
	if (repo_name_decode(text, &decoded) == 0 && decoded.data) {
		assert(repo_name_encode(decoded.data, &encoded) == 0);
		assert(strcmp(encoded.data, text) == 0);
	}
	if (*text && repo_tag(text, tag, NULL) == 0)
		assert(strlen(tag) < REPO_TAG_MAX);
}

static void try_again(const struct repo_manifest *m)
{
	struct repo_manifest back;
	AUTO_BUF text = BUF_INIT;

	assert(repo_manifest_format(m, "x", &text, NULL) == 0);
	assert(repo_manifest_parse(text.data, text.len, &back, NULL) == 0);
	assert(strcmp(back.name, m->name) == 0 && back.size == m->size &&
	       back.modified_ms == m->modified_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup((const char *)data, size);
	struct repo_manifest m;

	if (text)
		try_tag(text);
	if (repo_manifest_parse(data, size, &m, NULL) == 0)
		try_again(&m);
	return 0;
}
