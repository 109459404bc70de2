// SPDX-License-Identifier: Apache-2.0
/* Index objects of environment snapshots. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "envcache/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count(void *arg, const struct env_item *a, const struct env_item *b)
{
	size_t *n = arg;

	(*n)++;
}

/* What is taken can be written, and is then the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct env_snapshot s, again;
	AUTO_BUF text = BUF_INIT;
	size_t n = 0;
	int rc = env_index_decode(data, size, &s, NULL);

	assert(rc == 0 || rc == -EBADMSG || rc == -ENOTSUP || rc == -ENOMEM);
	if (rc < 0)
		return 0;
	for (size_t i = 0; i < s.targets.n; i++)
		assert(s.targets.paths[i][0] == '/' &&
		       !strstr(s.targets.paths[i], "/../"));
	assert(strlen(s.folder) == 32);
	if (env_index_encode(&s, &text, NULL) == 0 &&
	    env_index_decode(text.data, text.len, &again, NULL) == 0) {
		assert(digest_equal(&s.key.digest, &again.key.digest));
		env_key_compare(&s.key, &again.key, count, &n);
		assert(n == 0);
		env_snapshot_fini(&again);
	} else {
		assert(!"what was taken is not taken again");
	}
	env_snapshot_fini(&s);
	return 0;
}
