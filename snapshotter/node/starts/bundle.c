// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/starts/bundle.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fs.h"
#include "net/control.h"
#include "profiler/emit/emit.h"
#include "profiler/pod_log.h"
#include "recorder/recorder.h"

#define CRI_PREFIX "io.kubernetes.cri."
#define POD_FOLDER_MAX (POD_NAMESPACE_MAX + POD_NAME_MAX + POD_UID_MAX + 3)

void bundle_fini(struct bundle *b)
{
	free(b->key);
	b->key = NULL;
}

static char *key_of(const json_t *args)
{
	AUTO_FREE const char **words = NULL;
	size_t n = json_array_size(args);

	if (n == 0 || n > BUNDLE_WORDS_MAX)
		return NULL;
	words = calloc(n, sizeof(*words));
	for (size_t k = 0; words && k < n; k++) {
		words[k] = json_string_value(json_array_get(args, k));
		if (!words[k])
			return NULL;
	}
	return words ? trace_workload_key(words, n) : NULL;
}

/* The value of a variable, or NULL; of a variable that is set twice, the last value, as runc
 * does. */
static const char *find_variable(const json_t *env, const char *name)
{
	size_t n = strlen(name);
	const char *value = NULL;

	for (size_t k = 0; k < json_array_size(env); k++) {
		const char *s = json_string_value(json_array_get(env, k));

		if (s && strncmp(s, name, n) == 0 && s[n] == '=')
			value = s + n + 1;
	}
	return value;
}

static const char *find_annotation(const json_t *all, const char *name)
{
	return json_string_value(json_object_get(all, name));
}

/* Read the pod's names from annotations.  pod_name_parse() checks them, as it does for folders
 * of pods' logs. */
static bool pod_of(const json_t *all, struct pod_name *ret)
{
	const char *space =
		find_annotation(all, CRI_PREFIX "sandbox-namespace");
	const char *pod = find_annotation(all, CRI_PREFIX "sandbox-name");
	const char *uid = find_annotation(all, CRI_PREFIX "sandbox-uid");
	char folder[POD_FOLDER_MAX];
	int n;

	if (!space || !pod)
		return false;
	/* Runtimes before containerd 1.7 set no uid; the name of a job does not contain it. */
	n = snprintf(folder, sizeof(folder), "%s_%s_%s", space, pod,
		     uid ? uid : "0");
	return n > 0 && (size_t)n < sizeof(folder) &&
	       pod_name_parse(folder, ret);
}

static bool is_of_a_pod(const json_t *all)
{
	return find_annotation(all, CRI_PREFIX "sandbox-namespace") ||
	       find_annotation(all, CRI_PREFIX "sandbox-id");
}

/* Find the container's job; "": it has none. */
static int name_job(const json_t *all, struct stage_text said,
		    const char *space, char ret[STAGE_JOB_MAX + 1])
{
	struct pod_name pod;

	ret[0] = '\0';
	if (pod_of(all, &pod))
		return pod_job(&pod, said, ret);
	if (is_of_a_pod(all) || strcmp(space, BUNDLE_CRI) == 0 || !said.n)
		return 0;
	memcpy(ret, said.s, said.n);
	ret[said.n] = '\0';
	return 0;
}

static int owner_of(const json_t *root, const char *space,
		    struct start_owner *ret)
{
	const json_t *env =
		json_object_get(json_object_get(root, "process"), "env");
	struct stage_text said = stage_text(find_variable(env, "BOOTSEER_JOB"));

	*ret = (struct start_owner){ .attempt = STAGE_NONE,
				     .rank = STAGE_NONE };
	if (!stage_is_job(said))
		said = stage_text(NULL);
	(void)stage_read_count(find_variable(env, "BOOTSEER_ATTEMPT"),
			       &ret->attempt);
	if (!stage_read_count(find_variable(env, "BOOTSEER_RANK"), &ret->rank))
		(void)stage_read_count(find_variable(env, "RANK"), &ret->rank);
	return name_job(json_object_get(root, "annotations"), said, space,
			ret->job);
}

int bundle_parse(const char *text, size_t len, const char *space,
		 struct bundle *ret, struct error *err)
{
	AUTO_JSON *root = json_loadb(text, len, 0, NULL);
	struct bundle b = { .key = NULL };

	if (!json_is_object(root))
		return error_set(err, EINVAL, "bundle: no JSON object");
	b.key = key_of(
		json_object_get(json_object_get(root, "process"), "args"));
	if (!b.key)
		return error_set(err, EINVAL,
				 "bundle: process.args: 1 to %d words wanted",
				 BUNDLE_WORDS_MAX);
	if (owner_of(root, space, &b.owner) < 0) {
		bundle_fini(&b);
		return error_nomem(err);
	}
	*ret = b;
	return 0;
}

/* The last folder but one of the path: containerd's namespace.  The caller frees it. */
static char *get_namespace_part(const char *path)
{
	const char *end = strrchr(path, '/'), *p = end;

	while (p && p > path && p[-1] != '/')
		p--;
	return p ? strndup(p, (size_t)(end - p)) : strdup("");
}

int bundle_read(const char *path, struct bundle *ret, struct error *err)
{
	AUTO_FREE char *file = fs_join(path, "config.json");
	AUTO_FREE char *space = get_namespace_part(path);
	AUTO_BUF text = BUF_INIT;
	int rc;

	if (!file || !space)
		return error_nomem(err);
	rc = fs_read_file(file, BUNDLE_MAX, &text, err);
	if (rc < 0)
		return rc;
	return bundle_parse(text.data ? text.data : "", text.len, space, ret,
			    err);
}
