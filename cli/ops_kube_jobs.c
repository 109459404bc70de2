// SPDX-License-Identifier: Apache-2.0
/* Jobs and outages of nodes for bootseer ops, from a Kubernetes cluster or kubectl's saved
 * output. */
#include <sys/stat.h>
#include <time.h>

#include "cli/ops.h"
#include "cli/ops_kube.h"
#include "common/bounded_json.h"
#include "common/clock.h"
#include "common/fs.h"
#include "profiler/ops/kube_jobs.h"

#define DEADLINE_NS (300 * NS_PER_S)
#define PAGE 100
#define OBJECTS_MAX (256u << 20) /* bytes of a file */
/* JSON values in a document of the file: 400 MB at most */
#define VALUES_MAX (4u << 20)

/* --------------------------------------------------------------------- cluster --- */

struct kube_kind {
	struct ops_kube *to;
	const char *kind;
};

static int add_item(void *arg, json_t *item, struct error *err)
{
	const struct kube_kind *k = arg;

	return ops_kube_add(k->to, k->kind, item, err);
}

static int read_cluster(const struct ops_config *c, struct ops_kube *to,
			struct error *err)
{
	static const struct {
		const char *kind, *path;
	} lists[] = {
		{ "Pod", "/api/v1/pods" },
		{ "Node", "/api/v1/nodes" },
		{ "Event",
		  "/api/v1/events?fieldSelector=involvedObject.kind%3DNode" },
	};
	AUTO(kube) k = NULL;
	int rc = ops_kube_open(c->kubeconfig, clock_now_ns() + DEADLINE_NS, &k,
			       err);

	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(lists); i++) {
		struct kube_kind kind = { to, lists[i].kind };

		rc = kube_list(k, lists[i].path, PAGE, add_item, &kind, err);
	}
	return rc;
}

/* ------------------------------------------------------------------------ file --- */

/* The end of the object that begins at `at`; `end` if it is incomplete. */
static const char *end_of_object(const char *at, const char *end)
{
	size_t depth = 0;
	bool is_text = false;

	for (; at < end; at++) {
		if (is_text && *at == '\\')
			at++;
		else if (*at == '"')
			is_text = !is_text;
		else if (!is_text && *at == '{')
			depth++;
		else if (!is_text && *at == '}' && (!depth || --depth == 0))
			return at + 1;
	}
	return end;
}

static const char *skip_space(const char *at, const char *end)
{
	while (at < end &&
	       (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
		at++;
	return at;
}

static int read_objects(const char *path, struct ops_kube *to,
			struct error *err)
{
	AUTO_BUF text = { .limit = OBJECTS_MAX };
	const char *at, *end, *next;
	int rc = fs_read_file(path, OBJECTS_MAX, &text, err);

	if (rc < 0)
		return rc;
	end = text.data + text.len;
	for (at = skip_space(text.data, end); rc == 0 && at < end;
	     at = skip_space(next, end)) {
		AUTO_JSON *object = NULL;

		next = end_of_object(at, end);
		rc = bounded_json_load_large(at, (size_t)(next - at),
					     VALUES_MAX, "it", &object, err);
		if (rc == 0)
			rc = ops_kube_add(to, "", object, err);
	}
	return rc < 0 ? error_wrap(err, rc, "%s", path) : 0;
}

int ops_read_kube_jobs(const struct ops_config *c, struct ops_set **ret,
		       struct error *err)
{
	AUTO_BUF text = { .limit = OPS_TEXT_MAX };
	AUTO(ops_kube) k = NULL;
	AUTO(ops_set) set = NULL;
	int64_t now_s = time(NULL);
	struct stat st;
	int rc = ops_kube_new(&k, err);

	if (rc == 0)
		rc = c->kube_objects ? read_objects(c->kube_objects, k, err)
				     : read_cluster(c, k, err);
	/* Jobs that ran when the file was written are known only until then. */
	if (rc == 0 && c->kube_objects && stat(c->kube_objects, &st) == 0)
		now_s = st.st_mtime;
	if (rc == 0)
		rc = ops_kube_write_jobs(k, &text, err);
	if (rc == 0)
		rc = ops_read_sacct(&text, now_s, &set, err);
	if (rc == 0)
		rc = ops_kube_add_outages(k, now_s, set, err);
	if (rc == 0)
		*ret = steal_ptr(&set);
	return rc;
}
