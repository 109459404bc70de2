// SPDX-License-Identifier: Apache-2.0
/* A list is that of the repository's tags; sizes and times, and long names, are in the
 * manifests, which are read side by side. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/compare.h"
#include "common/side_by_side.h"
#include "objects/repo/repo_store_priv.h"

#define TAGS_MAX 200000u
#define LOOKERS 8u

/* An object that is to be listed, by its tag. */
struct listed_tag {
	char *tag;
	char *tags_name; /* that the tag has; NULL: it is too long for a tag */
	char *name;      /* NULL: it is not one of these */
	struct object_stat stat;
};

struct tag_list {
	struct repo_store *store;
	const char *folder;
	bool deep;
	struct listed_tag *tags;
	size_t n, cap;
	char **folders; /* in the folder; some more than once until they are told */
	size_t n_folders, cap_folders;
	atomic_size_t next; /* to be looked at */
};

static void tag_list_fini(struct tag_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->tags[i].tag);
		free(l->tags[i].tags_name);
		free(l->tags[i].name);
	}
	for (size_t i = 0; i < l->n_folders; i++)
		free(l->folders[i]);
	free(l->tags);
	free(l->folders);
}

/* The folder in our folder that the name lies in; NULL: it lies in ours itself, or all
 * below is wanted. */
static const char *find_inner_slash(const struct tag_list *l, const char *name)
{
	size_t len = strlen(l->folder);

	return l->deep ? NULL : strchr(name + len + (len > 0), '/');
}

/* Names of one folder mostly follow each other, so the last folder alone is compared. */
static int add_folder(struct tag_list *l, const char *name, size_t len)
{
	const char *last = l->n_folders ? l->folders[l->n_folders - 1] : NULL;

	if (last && strncmp(last, name, len) == 0 && !last[len])
		return 0;
	if (array_grow(&l->folders, l->n_folders, &l->cap_folders, 16) < 0)
		return -ENOMEM;
	l->folders[l->n_folders] = strndup(name, len);
	return l->folders[l->n_folders++] ? 0 : -ENOMEM;
}

static int add_tag(struct tag_list *l, const char *tag, const char *name)
{
	const char *slash = name ? find_inner_slash(l, name) : NULL;

	if (slash)
		return add_folder(l, name, (size_t)(slash - name));
	if (array_grow(&l->tags, l->n, &l->cap, 64) < 0)
		return -ENOMEM;
	l->tags[l->n] =
		(struct listed_tag){ .tag = strdup(tag),
				     .tags_name = name ? strdup(name) : NULL };
	l->n++;
	return l->tags[l->n - 1].tag && (!name || l->tags[l->n - 1].tags_name)
		       ? 0
		       : -ENOMEM;
}

/* Those that may be in the folder. */
static int choose_tags(struct tag_list *l, char *const *tags, size_t n,
		       struct error *err)
{
	AUTO_BUF prefix = BUF_INIT;
	int rc = repo_name_encode(l->folder, &prefix);

	if (rc == 0)
		rc = buf_puts(&prefix, *l->folder ? "__" : "");
	for (size_t i = 0; rc == 0 && i < n; i++) {
		AUTO_FREE char *name = NULL;

		if (repo_tag_is_in(tags[i], prefix.data, &name))
			rc = add_tag(l, tags[i], name);
	}
	return rc < 0 ? error_nomem(err) : 0;
}

/* Gone meanwhile, or a copy of another's tag: it is not listed.  An object whose manifest
 * is damaged is: whoever needs all that are there must not take it for gone. */
static int read_listed_tag(struct tag_list *l, struct listed_tag *t,
			   struct error *err)
{
	struct repo_manifest m;
	size_t len = strlen(l->folder);
	char tag[REPO_TAG_MAX];
	int rc = repo_store_look(l->store, t->tag, &m, t->stat.tag, err);

	if (rc == -ENOENT || (rc == -EPROTO && !t->tags_name))
		return 0;
	if (rc == -EPROTO) {
		t->stat.modified_ms = -1;
		t->name = steal_ptr(&t->tags_name);
		return 0;
	}
	if (rc == 0)
		rc = repo_tag(m.name, tag, err);
	if (rc < 0)
		return rc;
	if (strcmp(tag, t->tag) != 0)
		return 0;
	if (len && (strncmp(m.name, l->folder, len) != 0 || m.name[len] != '/'))
		return 0;
	t->stat.size = m.size;
	t->stat.modified_ms = m.modified_ms;
	t->name = strdup(m.name);
	return t->name ? 0 : error_nomem(err);
}

static int read_next_tags(void *arg, unsigned int index, struct error *err)
{
	struct tag_list *l = arg;
	int rc = 0;

	(void)index;
	while (rc == 0) {
		size_t i = atomic_fetch_add(&l->next, 1);

		if (i >= l->n)
			break;
		rc = read_listed_tag(l, &l->tags[i], err);
	}
	return rc;
}

/* Name each folder once. */
static int folders_report(struct tag_list *l, object_list_fn *fn, void *arg,
			  struct error *err)
{
	int rc = 0;

	if (l->n_folders)
		qsort((void *)l->folders, l->n_folders, sizeof(*l->folders),
		      compare_texts);
	for (size_t i = 0; rc == 0 && i < l->n_folders; i++) {
		struct object_entry e = { .name = l->folders[i],
					  .is_folder = true };

		if (i == 0 || strcmp(l->folders[i - 1], e.name) != 0)
			rc = fn(arg, &e, err);
	}
	return rc;
}

static int list_tags(struct tag_list *l, object_list_fn *fn, void *arg,
		     struct error *err)
{
	int rc = 0;

	/* Long names are known only now. */
	for (size_t i = 0; rc == 0 && i < l->n; i++) {
		const char *name = l->tags[i].name;
		const char *slash = name ? find_inner_slash(l, name) : NULL;
		struct object_entry e = { .name = name,
					  .stat = l->tags[i].stat };

		if (slash && add_folder(l, name, (size_t)(slash - name)) < 0)
			rc = error_nomem(err);
		else if (name && !slash)
			rc = fn(arg, &e, err);
	}
	return rc == 0 ? folders_report(l, fn, arg, err) : rc;
}

int repo_store_list(struct object_store *base, const char *folder, bool deep,
		    object_list_fn *fn, void *arg, struct error *err)
{
	struct repo_store *s = repo_store_of(base);
	AUTO_FINI(tag_list) l = { .store = s, .folder = folder, .deep = deep };
	char **tags = NULL;
	size_t n = 0;
	int rc = oci_list_tags(s->oci, TAGS_MAX, &tags, &n, err);

	atomic_fetch_add(&base->count.n_requests, 1);
	if (rc == -ENOENT) /* nothing was ever put */
		return 0;
	if (rc == 0 && n == TAGS_MAX)
		rc = error_set(err, EFBIG,
			       "the repository has %u tags or more: take "
			       "another one",
			       TAGS_MAX);
	if (rc == 0)
		rc = choose_tags(&l, tags, n, err);
	while (n)
		free(tags[--n]);
	free(tags);
	if (rc == 0 && l.n)
		rc = side_by_side(l.n < LOOKERS ? (unsigned int)l.n : LOOKERS,
				  read_next_tags, &l, err);
	if (rc == 0)
		rc = list_tags(&l, fn, arg, err);
	return rc;
}
