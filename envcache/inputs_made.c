// SPDX-License-Identifier: Apache-2.0
/* Files that a command names and makes itself, such as a log.  In a folder shared by nodes they
 * would otherwise be part of the keys of all later runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "envcache/inputs.h"
#include "envcache/names.h"
#include "objects/object_get.h"

#define MADE_MAX (64u << 10) /* bytes of the stored list */

int env_made_read(struct object_store *s, const char *name, struct buf *text,
		  struct digest *ret, struct error *err)
{
	struct object_stat st;
	int rc = object_get(s, name, MADE_MAX, text, &st, err);

	if (rc == 0 && (text->len == 0 || text->data[text->len - 1] != '\0'))
		rc = error_set(err, EBADMSG, "'%s' is no list of names", name);
	return rc < 0 ? rc : digest_parse(text->data, ret, err);
}

int env_made_get(struct object_store *s, const struct env_key *words,
		 char ***ret, struct error *err)
{
	char name[ENV_NAME_ROOM];
	AUTO_BUF text = BUF_INIT;
	struct digest of;
	size_t n = 0;
	char **names;
	int rc;

	env_object_name(ENV_MADE_FOLDER, &words->digest, name);
	rc = env_made_read(s, name, &text, &of, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < text.len; i++)
		n += text.data[i] == '\0';
	names = (char **)calloc(n, sizeof(*names));
	if (!names)
		return error_nomem(err);
	n = 0;
	for (size_t at = strlen(text.data) + 1; at < text.len;
	     at += strlen(text.data + at) + 1) {
		names[n] = strdup(text.data + at);
		if (!names[n++]) {
			env_names_free(names);
			return error_nomem(err);
		}
	}
	*ret = names;
	return 0;
}

int env_made_put(struct object_store *s, const struct env_key *words,
		 const struct digest *of, char *const *names, struct error *err)
{
	char name[ENV_NAME_ROOM], key[DIGEST_STR_MAX];
	AUTO_BUF text = BUF_INIT;
	int rc;

	env_object_name(ENV_MADE_FOLDER, &words->digest, name);
	digest_format(of, key);
	rc = buf_append(&text, key, strlen(key) + 1);
	for (; rc == 0 && *names; names++)
		if (text.len + strlen(*names) < MADE_MAX)
			rc = buf_append(&text, *names, strlen(*names) + 1);
	return rc < 0 ? error_nomem(err)
		      : object_put(s, name, text.data, text.len, NULL, NULL,
				   err);
}
