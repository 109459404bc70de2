// SPDX-License-Identifier: Apache-2.0
#include "containerd-plugin/labels.h"

#include <errno.h>
#include <string.h>

static void label_fini(struct label *l)
{
	free(l->key);
	free(l->value);
}

void labels_fini(struct labels *l)
{
	for (size_t i = 0; i < l->n; i++)
		label_fini(&l->v[i]);
	free(l->v);
	*l = (struct labels)LABELS_INIT;
}

static struct label *find_label(const struct labels *l, const char *key)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].key, key) == 0)
			return &l->v[i];
	return NULL;
}

const char *labels_get(const struct labels *l, const char *key)
{
	const struct label *found = find_label(l, key);

	return found ? found->value : NULL;
}

static void remove_label(struct labels *l, struct label *which)
{
	size_t i = (size_t)(which - l->v);

	label_fini(which);
	memmove(which, which + 1, (l->n - i - 1) * sizeof(*which));
	l->n--;
}

static int add_label(struct labels *l, const char *key, const char *value,
		     struct error *err)
{
	struct label add, *v;

	if (l->n >= LABELS_MAX)
		return error_set(err, EINVAL, "more than %d labels",
				 LABELS_MAX);
	v = realloc(l->v, (l->n + 1) * sizeof(*v));
	if (!v)
		return error_nomem(err);
	l->v = v;
	add.key = strdup(key);
	add.value = strdup(value);
	if (!add.key || !add.value) {
		label_fini(&add);
		return error_nomem(err);
	}
	l->v[l->n++] = add;
	return 0;
}

int labels_set(struct labels *l, const char *key, const char *value,
	       struct error *err)
{
	struct label *found = find_label(l, key);
	char *copy;

	if (strlen(key) + strlen(value) > LABEL_SIZE_MAX)
		return error_set(err, EINVAL,
				 "label '%.64s...' is longer than %d bytes",
				 key, LABEL_SIZE_MAX);
	if (!*value) {
		if (found)
			remove_label(l, found);
		return 0;
	}
	if (!found)
		return add_label(l, key, value, err);
	copy = strdup(value);
	if (!copy)
		return error_nomem(err);
	free(found->value);
	found->value = copy;
	return 0;
}

int labels_encode(const struct labels *l, struct buf *ret)
{
	int rc = 0;

	for (size_t i = 0; i < l->n && rc == 0; i++) {
		rc = buf_append(ret, l->v[i].key, strlen(l->v[i].key) + 1);
		if (rc == 0)
			rc = buf_append(ret, l->v[i].value,
					strlen(l->v[i].value) + 1);
	}
	return rc;
}

int labels_decode(const void *data, size_t len, struct labels *ret,
		  struct error *err)
{
	const char *p = len ? data : "", *end = p + len;
	struct labels l = LABELS_INIT;
	const char *key;
	int rc;

	while (p < end) {
		key = p;
		p = memchr(p, '\0', (size_t)(end - p));
		if (!p || !memchr(p + 1, '\0', (size_t)(end - p - 1))) {
			labels_fini(&l);
			return error_set(err, EBADMSG, "labels are cut short");
		}
		rc = labels_set(&l, key, p + 1, err);
		if (rc < 0) {
			labels_fini(&l);
			return rc;
		}
		p += strlen(p + 1) + 2;
	}
	*ret = l;
	return 0;
}
