// SPDX-License-Identifier: Apache-2.0
/* The parts of the docker: back end, which keeps objects in a repository of a registry. */
#ifndef BOOTSEER_OBJECTS_REPO_STORE_PRIV_H
#define BOOTSEER_OBJECTS_REPO_STORE_PRIV_H

#include "objects/oci.h"
#include "objects/repo/repo_text.h"
#include "objects/store/fetch.h"
#include "objects/store/store_lock.h"

struct repo_store {
	struct object_store base;
	struct oci_store *oci;
	struct fetch_history *history;
	atomic_bool has_empty; /* the blob that every manifest names is there */
};

static inline struct repo_store *repo_store_of(struct object_store *s)
{
	return container_of(s, struct repo_store, base);
}

/* The manifest of a tag, and its digest as text: the version of the object.  -ENOENT */
int repo_store_look(struct repo_store *s, const char *tag,
		    struct repo_manifest *ret, char version[OBJECT_TAG_MAX],
		    struct error *err) MUST_CHECK;
/* The same of an object's name.  -EPROTO: its tag leads to another object. */
int repo_store_find(struct repo_store *s, const char *name,
		    struct repo_manifest *ret, char version[OBJECT_TAG_MAX],
		    struct error *err) MUST_CHECK;
/* Make the object appear, whatever has its name; the blob is there. */
int repo_store_publish(struct repo_store *s, const struct repo_manifest *m,
		       struct object_stat *ret, struct error *err) MUST_CHECK;

/* Contracts of struct object_store_ops. */
int repo_store_list(struct object_store *s, const char *folder, bool deep,
		    object_list_fn *fn, void *arg, struct error *err);
int repo_store_put_open(struct object_store *s, const char *name,
			const struct object_put_options *opts,
			struct object_put **ret, struct error *err);
int repo_store_put_write(struct object_put *p, const void *data, size_t len,
			 struct error *err);
int repo_store_put_commit(struct object_put *p, struct object_stat *ret,
			  struct error *err);
void repo_store_put_free(struct object_put *p);
int repo_store_open_object(struct object_store *s, const char *name,
			   struct object **ret, struct error *err);
int repo_store_read(struct object *o, const struct object_range *ranges,
		    size_t n, int64_t deadline_ns, struct error *err);
void repo_store_close(struct object *o);

#endif
