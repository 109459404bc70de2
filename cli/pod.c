// SPDX-License-Identifier: Apache-2.0
#include "cli/pod.h"

#include <errno.h>
#include <string.h>

#include "cli/ctr.h"
#include "cli/node_ask.h"
#include "common/bounded_json.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/digest.h"

#define CRI_NAMESPACE "k8s.io"
#define LABEL_NAMESPACE "io.kubernetes.pod.namespace"
#define LABEL_POD "io.kubernetes.pod.name"
#define LABEL_UID "io.kubernetes.pod.uid"
#define LABEL_CONTAINER "io.kubernetes.container.name"
#define LABEL_KIND "io.cri-containerd.kind"
#define CONTAINERS_MAX 64
#define LIST_MAX 65536u
/* bytes; a pod in Kubernetes' API has at most 1.5 MiB */
#define CONTAINER_MAX (4u << 20)
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-."

/* Split a pod's name.  It becomes part of a filter, so other characters are refused. */
static bool read_pod_name(const char *text, struct pod_name *ret)
{
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : 0;

	if (!n || n > POD_NAMESPACE_MAX || !slash[1] ||
	    strlen(slash + 1) > POD_NAME_MAX || strspn(text, NAME_CHARS) != n ||
	    slash[1 + strspn(slash + 1, NAME_CHARS)])
		return false;
	*ret = (struct pod_name){ .uid = "" };
	memcpy(ret->namespace, text, n);
	memcpy(ret->pod, slash + 1, strlen(slash + 1));
	return true;
}

int pod_check(const struct pod_options *o, char **args, const char *what,
	      struct error *err)
{
	struct pod_name name;

	if (!args[0] == !o->pod)
		return error_set(err, EINVAL,
				 "name either %s or --pod NAMESPACE/NAME",
				 what);
	if (o->pod && !read_pod_name(o->pod, &name))
		return error_set(err, EINVAL,
				 "--pod '%s': a pod's name is "
				 "NAMESPACE/NAME",
				 o->pod);
	return 0;
}

static int list_ids(const struct ctr_target *at, const struct pod_name *name,
		    struct buf *ret, struct error *err)
{
	AUTO_BUF filter = BUF_INIT;

	if (buf_printf(&filter,
		       "labels.\"" LABEL_NAMESPACE "\"==\"%s\","
		       "labels.\"" LABEL_POD "\"==\"%s\"",
		       name->namespace, name->pod) < 0)
		return error_nomem(err);
	return ctr_run(at,
		       (const char *const[]){ "containers", "ls", "--quiet",
					      filter.data, NULL },
		       -1, CTR_TIMEOUT_MS, ret, err);
}

static const json_t *get_container_label(const json_t *container,
					 const char *key)
{
	return json_object_get(json_object_get(container, "Labels"), key);
}

/* Add a container to the list; nothing if it has ended since it was listed. */
static int add_container(const struct ctr_target *at, const char *id,
			 json_t *list, struct error *err)
{
	AUTO_BUF text = { .limit = CONTAINER_MAX };
	AUTO_JSON *one = NULL;
	const char *kind;
	int rc =
		ctr_run(at,
			(const char *const[]){ "containers", "info", id, NULL },
			-1, CTR_TIMEOUT_MS, &text, err);

	if (rc == -EIO && err && strstr(err->msg, "not found"))
		return 0;
	if (rc == 0)
		rc = bounded_json_load(text.data ? text.data : "", text.len, id,
				       &one, err);
	if (rc < 0)
		return rc;
	kind = json_string_value(get_container_label(one, LABEL_KIND));
	if (kind && strcmp(kind, "sandbox") == 0)
		return 0;
	return json_array_append(list, one) < 0 ? error_nomem(err) : 0;
}

static const char *uid_of(const json_t *container)
{
	return reply_text(json_object_get(container, "Labels"), LABEL_UID);
}

/* Was the container created after the other one?  Times are in UTC, with any number of decimals. */
static bool is_newer(const json_t *container, const json_t *other)
{
	const char *a = reply_text(container, "CreatedAt");
	const char *b = reply_text(other, "CreatedAt");
	size_t len = strcspn(a, "Z"), other_len = strcspn(b, "Z");
	int order = memcmp(a, b, len < other_len ? len : other_len);

	return order ? order > 0 : len > other_len;
}

/* Drop containers of earlier pods of the same name, which exist until the kubelet removes them. */
static void drop_earlier_pods(json_t *list)
{
	const json_t *newest = json_array_get(list, 0), *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (is_newer(one, newest))
			newest = one;
	}
	for (i = json_array_size(list); i-- > 0;) {
		one = json_array_get(list, i);
		if (one != newest && strcmp(uid_of(one), uid_of(newest)) != 0)
			(void)json_array_remove(list, i);
	}
}

int pod_containers(const struct pod_options *o, json_t **ret, struct error *err)
{
	const struct ctr_target at = { o->address, CRI_NAMESPACE };
	AUTO_BUF ids = { .limit = LIST_MAX };
	AUTO_JSON *list = json_array();
	struct pod_name name;
	char *id, *rest;
	int rc = list ? 0 : error_nomem(err);

	if (rc == 0 && !read_pod_name(o->pod, &name))
		rc = error_set(err, EINVAL, "'%s' is no pod", o->pod);
	if (rc == 0)
		rc = list_ids(&at, &name, &ids, err);
	rest = ids.data;
	while (rc == 0 && rest && (id = strsep(&rest, "\n")))
		if (*id && json_array_size(list) == CONTAINERS_MAX)
			rc = error_set(err, E2BIG,
				       "pod '%s' has more than %d containers "
				       "on this node: name an image",
				       o->pod, CONTAINERS_MAX);
		else if (*id)
			rc = add_container(&at, id, list, err);
	if (rc == 0 && json_array_size(list) == 0)
		rc = error_set(
			err, ENOENT,
			"pod '%s' has no container on this node: 'kubectl get "
			"pod -o wide -n %s %s' says where it is, and whether "
			"it has begun; run this there",
			o->pod, name.namespace, name.pod);
	if (rc < 0)
		return rc;
	drop_earlier_pods(list);
	*ret = steal_ptr(&list);
	return 0;
}

const char *pod_container_name(const json_t *container)
{
	return reply_text(json_object_get(container, "Labels"),
			  LABEL_CONTAINER);
}

static const char *find_job(const json_t *containers)
{
	static const char key[] = "BOOTSEER_JOB=";
	const json_t *one, *spec, *word;
	size_t i, k;

	json_array_foreach(containers, i, one)
	{
		spec = json_object_get(one, "Spec");
		json_array_foreach(json_object_get(json_object_get(spec,
								   "process"),
						   "env"),
				   k, word)
		{
			const char *text = json_string_value(word);

			if (text && strncmp(text, key, strlen(key)) == 0)
				return text + strlen(key);
		}
	}
	return "";
}

int pod_job_name(const struct pod_options *o, const json_t *containers,
		 char ret[STAGE_JOB_MAX + 1], struct error *err)
{
	struct pod_name name;

	if (!read_pod_name(o->pod, &name))
		return error_set(err, EINVAL, "'%s' is no pod", o->pod);
	return pod_job(&name, stage_text(find_job(containers)), ret) < 0
		       ? error_nomem(err)
		       : 0;
}

/* The length of "HOST/REPOSITORY" in a name with or without tag and digest. */
static size_t repository_len(const char *ref)
{
	size_t n = strcspn(ref, "@");
	const char *slash = memrchr(ref, '/', n);
	const char *from = slash ? slash : ref;
	const char *colon = memchr(from, ':', n - (size_t)(from - ref));

	return colon ? (size_t)(colon - ref) : n;
}

int pod_image_name(const struct pod_options *o, const char *ref,
		   struct buf *ret, struct error *err)
{
	const struct ctr_target at = { o->address, CRI_NAMESPACE };
	AUTO_BUF filter = BUF_INIT;
	AUTO_BUF text = { .limit = LIST_MAX };
	char *line, *rest;
	int rc;

	/* The reference becomes part of a filter, so these characters are refused. */
	if (strpbrk(ref, "\"\\ \t\n"))
		return error_set(err, ENOENT, "'%s' is no image", ref);
	if (buf_printf(&filter, "name==\"%s\"", ref) < 0)
		return error_nomem(err);
	rc = ctr_run(&at,
		     (const char *const[]){ "images", "ls", filter.data, NULL },
		     -1, CTR_TIMEOUT_MS, &text, err);
	rest = text.data;
	/* Read lines of "REF TYPE DIGEST ...". */
	while (rc == 0 && rest && (line = strsep(&rest, "\n"))) {
		char *save = NULL, *name = strtok_r(line, " \t", &save);
		char *digest = strtok_r(NULL, " \t", &save) && name &&
					       strcmp(name, ref) == 0
				       ? strtok_r(NULL, " \t", &save)
				       : NULL;
		struct digest d;

		if (digest && digest_parse(digest, &d, NULL) == 0)
			return buf_printf(ret, "%.*s@%s",
					  (int)repository_len(ref), ref,
					  digest) < 0
				       ? error_nomem(err)
				       : 0;
	}
	return rc < 0 ? rc
		      : error_set(err, ENOENT, "containerd has no image '%s'",
				  ref);
}
