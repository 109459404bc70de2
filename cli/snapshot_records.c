// SPDX-License-Identifier: Apache-2.0
#include "cli/snapshot_records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ctr.h"
#include "common/array.h"
#include "common/text.h"

#define LABEL "containerd.io/gc.ref.snapshot.bootseer="
#define NAMED_MAX 5 /* snapshots named in a message */
/* long, as the plugin removes folders */
#define GARBAGE_TIMEOUT_MS (10 * 60 * 1000)

void snapshot_labels_free(struct snapshot_labels *l)
{
	for (size_t i = 0; l && i < l->n; i++) {
		free(l->list[i].namespace);
		free(l->list[i].blob);
	}
	if (l)
		free(l->list);
	free(l);
}

static int list_namespaces(const char *socket, struct buf *ret,
			   struct error *err)
{
	const struct ctr_target at = { .address = socket };

	return ctr_run(&at,
		       (const char *const[]){ "namespaces", "ls", "-q", NULL },
		       -1, CTR_TIMEOUT_MS, ret, err);
}

/* List snapshots, in lines of "KEY PARENT KIND" below a heading.  A key may contain a space, a
 * parent may be missing. */
static int list_snapshots(const struct ctr_target *at, struct buf *ret,
			  struct error *err)
{
	int rc = ctr_run(at,
			 (const char *const[]){ "snapshots", "--snapshotter",
						"bootseer", "ls", NULL },
			 -1, CTR_TIMEOUT_MS, ret, err);

	if (rc == 0 && !ret->data)
		return error_set(err, EIO, "ctr snapshots ls: nothing");
	return rc;
}

static bool has_snapshot(const char *list, const char *name)
{
	const size_t len = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += len)
		if (at > list && at[-1] == '\n' &&
		    (at[len] == ' ' || at[len] == '\t'))
			return true;
	return false;
}

static int add_label(struct snapshot_labels *l, const char *namespace,
		     const char *blob, struct error *err)
{
	struct snapshot_label *new;

	if (array_grow(&l->list, l->n, &l->cap, 16) < 0)
		return error_nomem(err);
	new = &l->list[l->n++];
	new->namespace = strdup(namespace);
	new->blob = strdup(blob);
	return new->namespace &&new->blob ? 0 : error_nomem(err);
}

/* Find the labels in the list of blobs, in lines of "DIGEST SIZE AGE LABELS" with commas between
 * labels. */
static int find_labels(const struct ctr_target *at, bool lost,
		       struct snapshot_labels *l, struct error *err)
{
	AUTO_BUF blobs = BUF_INIT, known = BUF_INIT;
	int rc = ctr_run(at, (const char *const[]){ "content", "ls", NULL }, -1,
			 CTR_TIMEOUT_MS, &blobs, err);
	char *line, *rest = blobs.data;

	/* List snapshots after the labels: else those of a pull that ends in between would seem
	 * lost. */
	if (rc == 0 && lost)
		rc = list_snapshots(at, &known, err);
	while (rc == 0 && rest && (line = strsep(&rest, "\n"))) {
		char *name = strstr(line, LABEL);

		if (!name)
			continue;
		name += strlen(LABEL);
		name[strcspn(name, ", \t")] = '\0';
		line[strcspn(line, " \t")] = '\0';
		if (!lost || !has_snapshot(known.data, name))
			rc = add_label(l, at->namespace, line, err);
	}
	return rc;
}

int snapshot_labels_find(const char *socket, bool lost,
			 struct snapshot_labels **ret, struct error *err)
{
	AUTO(snapshot_labels) l = calloc(1, sizeof(*l));
	AUTO_BUF names = BUF_INIT;
	int rc = l ? list_namespaces(socket, &names, err) : error_nomem(err);
	char *name, *rest = names.data;

	while (rc == 0 && rest && (name = strsep(&rest, "\n"))) {
		const struct ctr_target at = { socket, name };

		if (*name)
			rc = find_labels(&at, lost, l, err);
	}
	if (rc == 0)
		*ret = steal_ptr(&l);
	return rc;
}

/* Create and remove a lease: containerd answers only after it collected garbage in all
 * namespaces. */
static int collect_garbage(const struct ctr_target *at, struct error *err)
{
	AUTO_BUF lease = BUF_INIT;
	int rc = ctr_run(at, (const char *const[]){ "leases", "create", NULL },
			 -1, CTR_TIMEOUT_MS, &lease, err);

	if (rc < 0)
		return rc;
	if (!lease.data)
		return error_set(err, EIO, "ctr leases create: nothing");
	lease.data[strcspn(lease.data, "\n")] = '\0';
	return ctr_run(at,
		       (const char *const[]){ "leases", "rm", "--sync",
					      lease.data, NULL },
		       -1, GARBAGE_TIMEOUT_MS, NULL, err);
}

int snapshot_labels_remove(const char *socket, const struct snapshot_labels *l,
			   struct error *err)
{
	struct ctr_target at = { .address = socket };
	int rc = 0;

	for (size_t i = 0; i < l->n && rc == 0; i++) {
		at.namespace = l->list[i].namespace;
		rc = ctr_run(&at,
			     (const char *const[]){ "content", "label",
						    l->list[i].blob, LABEL,
						    NULL },
			     -1, CTR_TIMEOUT_MS, NULL, err);
	}
	return rc == 0 && l->n ? collect_garbage(&at, err) : rc;
}

static int name_snapshot(struct buf *names, const char *namespace, char *key,
			 size_t n)
{
	if (n > NAMED_MAX)
		return n == NAMED_MAX + 1 ? buf_puts(names, ", ...") : 0;
	text_make_printable(key);
	return buf_printf(names, "%s%s/%s", n > 1 ? ", " : "", namespace, key);
}

int snapshots_count(const char *socket, bool used, size_t *ret_n,
		    struct buf *ret_names, struct error *err)
{
	AUTO_BUF names = BUF_INIT;
	int rc = list_namespaces(socket, &names, err);
	char *name, *rest = names.data;

	*ret_n = 0;
	while (rc == 0 && rest && (name = strsep(&rest, "\n"))) {
		const struct ctr_target at = { socket, name };
		AUTO_BUF list = BUF_INIT;
		char *line, *save = NULL;

		rc = *name ? list_snapshots(&at, &list, err) : 0;
		line = list.data ? strtok_r(list.data, "\n", &save) : NULL;
		while (rc == 0 && line &&
		       (line = strtok_r(NULL, "\n", &save))) {
			if (used && !strstr(line, " Active") &&
			    !strstr(line, " View"))
				continue;
			line[strcspn(line, " \t")] = '\0';
			if (name_snapshot(ret_names, name, line, ++*ret_n) < 0)
				rc = error_nomem(err);
		}
	}
	return rc;
}
