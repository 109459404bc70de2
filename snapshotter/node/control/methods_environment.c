// SPDX-License-Identifier: Apache-2.0
/* The methods about environments (docs/formats/control.md). */
#include <errno.h>

#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/methods.h"

json_t *method_env_mount(struct node *n, json_t *params,
			 struct remote_call *call, struct error *err)
{
	struct environment_query q = { .call = call };
	struct environment_mount m;
	const char *key, *artifact;
	json_t *result;
	int is_shared; /* packs are looked for in both places anyway */

	/* For the stores of traces. */
	if (method_waits(call, err) < 0)
		return NULL;
	if (params_unpack(params, err, "{s:s, s:s, s:s, s:s, s:s, s?b}",
			  "store", &q.store, "folder", &q.folder, "name",
			  &q.name, "key", &key, "manifest", &artifact,
			  "shared_packs", &is_shared) < 0 ||
	    digest_parse(key, &q.key, err) < 0 ||
	    digest_parse(artifact, &q.artifact, err) < 0 ||
	    environment_mount(n, &q, &m, err) < 0)
		return NULL;
	result = json_pack("{s:s, s:s, s:s}", "path", m.path, "work", m.work,
			   "mode", m.is_complete ? "complete" : "lazy");
	environment_mount_fini(&m);
	if (!result)
		error_nomem(err);
	return result;
}

json_t *method_env_umount(struct node *n, json_t *params,
			  struct remote_call *call, struct error *err)
{
	const char *name;
	json_t *result;
	bool was;

	if (params_unpack(params, err, "{s:s}", "name", &name) < 0)
		return NULL;
	/* However long others work on the snapshot. */
	if (call)
		remote_call_no_deadline(call);
	if (method_waits(call, err) < 0 ||
	    environment_umount(n, name, call, &was, err) < 0)
		return NULL;
	result = json_pack("{s:i}", "released", (int)was);
	if (!result)
		error_nomem(err);
	return result;
}
