// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/version.h"

#include <errno.h>
#include <stdio.h>

#include "ckpt-fuse/names.h"

void version_set_tag(char tag[OBJECT_TAG_MAX], const char *from)
{
	(void)snprintf(tag, OBJECT_TAG_MAX, "%s", from);
}

int version_tag_now(struct object_store *s, const char *name,
		    char ret[OBJECT_TAG_MAX], struct error *err)
{
	struct object_stat o;
	int rc = object_stat(s, name, &o, err);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	version_set_tag(ret, rc == 0 ? o.tag : "");
	return 0;
}

/* A manifest hides what else has the name. */
int version_see_hidden(struct object_store *s, const char *path,
		       struct ckpt_version *v, struct error *err)
{
	return *v->striped ? version_tag_now(s, path, v->plain, err) : 0;
}

void version_set_manifest(struct ckpt_version *v, const struct manifest *m)
{
	v->generation = m->generation;
	v->bytes_id = manifest_bytes_id(m);
}

int ckpt_look(struct object_store *s, const char *path,
	      struct ckpt_version *ret_version, struct ckpt_stat *ret,
	      struct error *err)
{
	struct ckpt_version v = { .is_known = true };
	struct error ignored = ERROR_INIT;
	AUTO(manifest) m = NULL;
	struct object *plain = NULL;
	struct ckpt_stat st = { .size = 0 };
	int rc = names_open(s, path, &m, &plain, &v, err), hidden;

	if (rc == 0 && plain)
		plain_stat(object_opened_stat(plain), &st);
	else if (rc == 0)
		manifest_stat(m, &st);
	if (plain)
		object_close(plain);
	if (rc < 0 && rc != -ENOENT && rc != -EISDIR && rc != -EBADMSG)
		return rc;
	hidden = version_see_hidden(s, path, &v, rc == 0 ? err : &ignored);
	if (hidden < 0)
		return rc < 0 ? rc : hidden;
	*ret_version = v;
	if (rc == 0 && ret)
		*ret = st;
	return rc;
}
