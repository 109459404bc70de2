// SPDX-License-Identifier: Apache-2.0
/* The methods about environments (docs/formats/control.md). */
#include <errno.h>
#include <stdlib.h>

#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/methods.h"

/* Read which snapshot is wanted, and for which name; the texts stay those of `params`. */
static int unpack_query(json_t *params, struct environment_query *ret,
			struct error *err)
{
	const char *key, *artifact;
	int is_shared; /* ignored: packs are looked for in both places anyway */
	int rc = params_unpack(params, err, "{s:s, s:s, s:s, s:s, s:s, s?b}",
			       "store", &ret->store, "folder", &ret->folder,
			       "name", &ret->name, "key", &key, "manifest",
			       &artifact, "shared_packs", &is_shared);

	if (rc == 0)
		rc = digest_parse(key, &ret->key, err);
	return rc < 0 ? rc : digest_parse(artifact, &ret->artifact, err);
}

json_t *method_env_mount(struct node *n, json_t *params,
			 struct remote_call *call, struct error *err)
{
	struct environment_query q = { .call = call };
	struct environment_mount m;
	json_t *result;

	/* This method waits for the snapshot's store and for the stores of traces. */
	if (method_waits(call, err) < 0 || unpack_query(params, &q, err) < 0 ||
	    environment_mount(&n->environments, &q, &m, err) < 0)
		return NULL;
	result = json_pack("{s:s, s:s, s:s}", "path", m.path, "work", m.work,
			   "mode", m.is_complete ? "complete" : "lazy");
	environment_mount_fini(&m);
	if (!result)
		error_nomem(err);
	return result;
}

json_t *method_env_open(struct node *n, json_t *params,
			struct remote_call *call, struct error *err)
{
	struct environment_query q = { .call = call };
	struct environment_files f;
	json_t *result;

	if (method_waits(call, err) < 0 || unpack_query(params, &q, err) < 0 ||
	    environment_open(&n->environments, &q, &f, err) < 0)
		return NULL;
	result = json_pack("{s:s, s:s, s:s}", "meta", f.meta, "map", f.map,
			   "blocks", f.blocks);
	environment_files_fini(&f);
	if (!result)
		error_nomem(err);
	return result;
}

/* Read pairs of an offset and a length. */
static int unpack_ranges(const json_t *list, struct environment_range *ret,
			 size_t *ret_n, struct error *err)
{
	size_t n = json_array_size(list);

	if (n == 0 || n % 2 || n / 2 > ENVIRONMENT_RANGES_MAX)
		return error_set(err, EINVAL,
				 "parameters: at has 1 to %u pairs of numbers",
				 ENVIRONMENT_RANGES_MAX);
	for (size_t k = 0; k < n; k++) {
		const json_t *v = json_array_get(list, k);
		json_int_t number =
			json_is_integer(v) ? json_integer_value(v) : -1;

		if (number < 0)
			return error_set(err, EINVAL,
					 "parameters: at has something else "
					 "than numbers");
		*(k % 2 ? &ret[k / 2].len : &ret[k / 2].off) = (uint64_t)number;
	}
	*ret_n = n / 2;
	return 0;
}

json_t *method_env_read(struct node *n, json_t *params,
			struct remote_call *call, struct error *err)
{
	AUTO_FREE struct environment_range *ranges =
		calloc(ENVIRONMENT_RANGES_MAX, sizeof(*ranges));
	const char *name;
	json_t *list, *result;
	size_t count = 0;

	if (!ranges) {
		error_nomem(err);
		return NULL;
	}
	if (method_waits(call, err) < 0 ||
	    params_unpack(params, err, "{s:s, s:o}", "name", &name, "at",
			  &list) < 0 ||
	    unpack_ranges(list, ranges, &count, err) < 0 ||
	    environment_read(&n->environments, name, ranges, count, call, err) <
		    0)
		return NULL;
	result = json_object();
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
	/* No deadline: other calls may work on the snapshot for long. */
	if (call)
		remote_call_no_deadline(call);
	if (method_waits(call, err) < 0 ||
	    environment_umount(&n->environments, name, call, &was, err) < 0)
		return NULL;
	result = json_pack("{s:i}", "released", (int)was);
	if (!result)
		error_nomem(err);
	return result;
}
