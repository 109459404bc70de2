// SPDX-License-Identifier: Apache-2.0
#include "csi/charge.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/bytes.h"
#include "common/fs.h"

#define CHARGE_FILE "charge"
#define CHARGE_MAX 4096 /* bytes of the file, "KIND MEMORY NAMESPACE" */
#define ENV_MOST 32     /* volumes of kind env that a namespace may have */

struct charge_sum {
	uint64_t memory;
	size_t n; /* volumes */
};

/* The parts of the file's text, which is cut up in place. */
struct charge_parts {
	const char *kind, *namespace;
	uint64_t memory;
};

static int read_text(const char *state, const char *id, struct buf *text)
{
	AUTO_FREE char *dir = fs_join(state, id);
	AUTO_FREE char *path = dir ? fs_join(dir, CHARGE_FILE) : NULL;
	int rc = path ? fs_read_file(path, CHARGE_MAX, text, NULL) : -ENOMEM;

	return rc < 0 ? rc : buf_append(text, "", 1);
}

static int split_text(char *text, struct charge_parts *ret)
{
	char *save = NULL;
	const char *memory;

	ret->kind = strtok_r(text, " ", &save);
	memory = strtok_r(NULL, " ", &save);
	ret->namespace = save;
	return memory && ret->namespace &&
			       volume_number_parse(memory, UINT64_MAX,
						   &ret->memory) == 0
		       ? 0
		       : -EINVAL;
}

/* Add the charge of volume `id`.  Volumes that an older plugin made have no file. */
static void add_charge(const char *state, const char *id,
		       const struct volume_charge *c, struct charge_sum *sum)
{
	AUTO_BUF text = BUF_INIT;
	struct charge_parts p;

	if (read_text(state, id, &text) < 0 || split_text(text.data, &p) < 0 ||
	    strcmp(p.kind, volume_kind_name(c->kind)) != 0 ||
	    strcmp(p.namespace, c->namespace) != 0)
		return;
	sum->n++;
	/* The sum cannot wrap: no file that we wrote has so much. */
	sum->memory += p.memory;
}

/* Sum up the other volumes of the same kind and namespace. */
static int sum_others(const char *state, const struct volume_charge *c,
		      struct charge_sum *ret, struct error *err)
{
	DIR *d = opendir(state);
	const struct dirent *e;

	*ret = (struct charge_sum){ .n = 0 };
	if (!d)
		return error_errno(err, errno, "open '%s'", state);
	while ((e = readdir(d)))
		if (*e->d_name != '.' && strcmp(e->d_name, c->id) != 0)
			add_charge(state, e->d_name, c, ret);
	(void)closedir(d);
	return 0;
}

static int check_total(const struct volume_charge *c,
		       const struct charge_sum *others, struct error *err)
{
	if (c->kind == VOLUME_KIND_ENV && others->n >= ENV_MOST)
		return error_set(err, EDQUOT,
				 "namespace %.63s has %zu env volumes on this "
				 "node, and gets no more: end pods of it here, "
				 "or run this one on another node",
				 c->namespace, others->n);
	if (c->kind != VOLUME_KIND_CKPT ||
	    (c->memory <= c->total && others->memory <= c->total - c->memory))
		return 0;
	return error_set(err, EDQUOT,
			 "ckpt volumes of namespace %.63s have %" PRIu64
			 "Mi of this node, its rule's total is %" PRIu64
			 "Mi, and this one wants %" PRIu64
			 "Mi: end pods of it here, say less memory, or have "
			 "the node's operator raise total=",
			 c->namespace, others->memory / MIB, c->total / MIB,
			 c->memory / MIB);
}

static int write_charge(const char *state, const struct volume_charge *c,
			struct error *err)
{
	AUTO_FREE char *dir = fs_join(state, c->id);
	AUTO_FREE char *path = dir ? fs_join(dir, CHARGE_FILE) : NULL;
	AUTO_BUF text = BUF_INIT;
	int rc;

	if (!path ||
	    buf_printf(&text, "%s %" PRIu64 " %s", volume_kind_name(c->kind),
		       c->memory, c->namespace) < 0)
		return error_nomem(err);
	rc = fs_mkdir(dir, 0700, err);
	return rc < 0 ? rc
		      : fs_replace_file(path, text.data, text.len, 0600, err);
}

int charge_take(const char *state, const struct volume_charge *c, bool is_there,
		struct error *err)
{
	struct charge_sum others;
	int rc = sum_others(state, c, &others, err);

	if (rc == 0 && !is_there)
		rc = check_total(c, &others, err);
	return rc < 0 ? rc : write_charge(state, c, err);
}

char *charge_namespace(const char *state, const char *id)
{
	AUTO_BUF text = BUF_INIT;
	struct charge_parts p;

	if (read_text(state, id, &text) < 0 || split_text(text.data, &p) < 0)
		return NULL;
	return strdup(p.namespace);
}
