// SPDX-License-Identifier: Apache-2.0
#include "cli/job_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/store_access.h"
#include "common/buf.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/toml.h"
#include "profiler/stage_event.h"

enum job_kind {
	JOB_TEXT,
	JOB_PATH, /* absolute */
	JOB_FLAG,
	JOB_LIST,
	JOB_COMMAND, /* a list of words, or a text for the shell */
	JOB_TABLE    /* has a reader of its own */
};

struct job_key {
	const char *name;
	enum job_kind kind;
	size_t offset;
};

#define KEY(type, name_, member, kind_) \
	{ \
		.name = (name_), .kind = (kind_), \
		.offset = offsetof(struct type, member) \
	}

static const struct job_key top_keys[] = {
	KEY(job_file, "name", name, JOB_TEXT),
	KEY(job_file, "command", command, JOB_COMMAND),
	KEY(job_file, "stop-on-failure", stops, JOB_FLAG),
	{ .name = "image", .kind = JOB_TABLE },
	{ .name = "environment", .kind = JOB_TABLE },
	{ .name = "checkpoint", .kind = JOB_TABLE },
	{ .name = "stages", .kind = JOB_TABLE },
	{ .name = NULL },
};

static const struct job_key image_keys[] = {
	KEY(job_image, "reference", reference, JOB_TEXT),
	KEY(job_image, "workload", workload, JOB_TEXT),
	KEY(job_image, "wait", wait, JOB_TEXT),
	KEY(job_image, "env", env, JOB_LIST),
	KEY(job_image, "mounts", mounts, JOB_LIST),
	KEY(job_image, "pull-options", pull, JOB_LIST),
	KEY(job_image, "run-options", run, JOB_LIST),
	KEY(job_image, "plain-http", plain_http, JOB_FLAG),
	{ .name = NULL },
};

static const struct job_key environment_keys[] = {
	KEY(job_environment, "store", store, JOB_TEXT),
	KEY(job_environment, "command", command, JOB_COMMAND),
	KEY(job_environment, "targets", targets, JOB_LIST),
	KEY(job_environment, "keys", keys, JOB_LIST),
	KEY(job_environment, "key-files", key_files, JOB_LIST),
	KEY(job_environment, "options", options, JOB_LIST),
	{ .name = NULL },
};

static const struct job_key ckpt_keys[] = {
	KEY(job_ckpt, "store", store, JOB_TEXT),
	KEY(job_ckpt, "dir", dir, JOB_PATH),
	KEY(job_ckpt, "prefetch", prefetch, JOB_LIST),
	KEY(job_ckpt, "read-only", read_only, JOB_FLAG),
	KEY(job_ckpt, "options", options, JOB_LIST),
	{ .name = NULL },
};

static const struct job_key stages_keys[] = {
	KEY(job_stages, "service", service, JOB_TEXT),
	KEY(job_stages, "token-file", token_file, JOB_PATH),
	KEY(job_stages, "ca-file", ca_file, JOB_PATH),
	KEY(job_stages, "ready-file", ready_file, JOB_PATH),
	{ .name = NULL },
};

/* ----------------------------------------------------------------------- values --- */

/* The text belongs to the JSON document, which lives as long as the result. */
static char *text_of(const json_t *v)
{
	return (char *)(uintptr_t)json_string_value(v);
}

static int read_list(const json_t *v, const char *where, char ***ret,
		     struct error *err)
{
	size_t n = json_array_size(v);
	char **list = calloc(n + 1, sizeof(*list));

	if (!list)
		return error_nomem(err);
	*ret = list;
	for (size_t i = 0; i < n; i++) {
		list[i] = text_of(json_array_get(v, i));
		if (!list[i] || !*list[i])
			return error_set(err, EINVAL,
					 "%s: a list of texts is wanted",
					 where);
	}
	return 0;
}

static int read_command(const json_t *v, const char *where, char ***ret,
			struct error *err)
{
	static char shell[] = "/bin/sh", option[] = "-c";
	int rc;

	if (json_is_string(v)) {
		*ret = calloc(4, sizeof(**ret));
		if (!*ret)
			return error_nomem(err);
		(*ret)[0] = shell;
		(*ret)[1] = option;
		(*ret)[2] = text_of(v);
		return 0;
	}
	rc = read_list(v, where, ret, err);
	return rc == 0 && !**ret
		       ? error_set(err, EINVAL, "%s: no word is in it", where)
		       : rc;
}

static int read_value(const struct job_key *k, const json_t *v,
		      const char *where, void *base, struct error *err)
{
	void *at = (char *)base + k->offset;
	const char *text = json_string_value(v);

	switch (k->kind) {
	case JOB_TEXT:
	case JOB_PATH:
		if (!text || !*text)
			return error_set(err, EINVAL, "%s: a text is wanted",
					 where);
		if (k->kind == JOB_PATH && *text != '/')
			return error_set(err, EINVAL,
					 "%s: '%.100s' is no absolute path",
					 where, text);
		*(char **)at = text_of(v);
		return 0;
	case JOB_FLAG:
		if (!json_is_boolean(v))
			return error_set(err, EINVAL,
					 "%s: true or false is wanted", where);
		*(bool *)at = json_is_true(v);
		return 0;
	case JOB_LIST:
		return json_is_array(v)
			       ? read_list(v, where, at, err)
			       : error_set(err, EINVAL, "%s: a list is wanted",
					   where);
	case JOB_COMMAND:
		return json_is_array(v) || json_is_string(v)
			       ? read_command(v, where, at, err)
			       : error_set(err, EINVAL,
					   "%s: a list of words or a text is "
					   "wanted",
					   where);
	case JOB_TABLE:
		break;
	}
	return json_is_object(v)
		       ? 0
		       : error_set(err, EINVAL, "%s: a table is wanted", where);
}

/* Read a table by its list of keys; NULL: the file has no such table. */
static int read_table(json_t *table, const char *name,
		      const struct job_key *keys, void *base, struct error *err)
{
	const char *key;
	json_t *v;
	int rc = 0;

	if (table && !json_is_object(table))
		return error_set(err, EINVAL, "%s: a table is wanted", name);
	json_object_foreach(table, key, v)
	{
		const struct job_key *k = keys;
		char where[128];

		(void)snprintf(where, sizeof(where), "%.60s%s%.60s", name,
			       *name ? "." : "", key);
		while (k->name && strcmp(k->name, key) != 0)
			k++;
		if (!k->name)
			return error_set(err, EINVAL, "there is no key '%s'",
					 where);
		rc = read_value(k, v, where, base, err);
		if (rc < 0)
			break;
	}
	return rc;
}

const char *job_master(void)
{
	const char *v = getenv("MASTER_ADDR");

	return v && *v ? v : NULL;
}

/* ----------------------------------------------------------------------- tables --- */

static int check_store(const char *store, const char *where, struct error *err)
{
	int rc;

	if (!store)
		return error_set(err, EINVAL, "%s: 'store' is missing", where);
	rc = store_access_check(store, err);
	return rc < 0 ? error_wrap(err, rc, "%s.store", where) : 0;
}

/* Check a checkpoint's store.  Without a store the folder is mounted by others (a pod's volume),
 * who set its options. */
static int check_ckpt_store(const struct job_ckpt *c, const char *where,
			    struct error *err)
{
	if (c->store)
		return check_store(c->store, where, err);
	if (c->options)
		return error_set(err, EINVAL,
				 "%s: 'options' are those of a mount, which "
				 "takes a 'store'",
				 where);
	if (!c->prefetch || !*c->prefetch)
		return error_set(err, EINVAL,
				 "%s: a 'store' to mount, or what to "
				 "'prefetch' of a folder that is mounted "
				 "already, is missing",
				 where);
	return 0;
}

/* Refuse the mark {master} if no launcher set the first node: all nodes read the same file, so it
 * cannot contain an address. */
static int check_options(const struct job_ckpt *c, const char *where,
			 struct error *err)
{
	for (char *const *o = c->options; o && *o; o++)
		if (strstr(*o, JOB_MASTER) && !job_master())
			return error_set(err, EINVAL,
					 "%s.options: '%.100s' is of "
					 "MASTER_ADDR, which is not set: "
					 "torchrun and Kubernetes' training "
					 "operators set it; else export it",
					 where, *o);
	return 0;
}

/* Check paths to prefetch: they must lie within the store, without "..". */
static int check_prefetch(const struct job_ckpt *c, const char *where,
			  struct error *err)
{
	for (char *const *p = c->prefetch; p && *p; p++)
		if (**p == '/' || strstr(*p, "..") || **p == '-')
			return error_set(err, EINVAL,
					 "%s.prefetch: '%.100s' is no name in "
					 "the store",
					 where, *p);
	return 0;
}

static int read_ckpts(struct job_file *f, struct error *err)
{
	const char *name;
	json_t *v;

	json_object_foreach(json_object_get(f->text, "checkpoint"), name, v)
	{
		struct job_ckpt *c = &f->ckpts[f->n_ckpts];
		char where[80];
		int rc;

		(void)snprintf(where, sizeof(where), "checkpoint.%.60s", name);
		if (f->n_ckpts++ == JOB_CKPTS_MAX - 1)
			return error_set(err, EINVAL,
					 "more than %u checkpoints",
					 JOB_CKPTS_MAX - 1);
		rc = read_table(v, where, ckpt_keys, c, err);
		if (rc == 0)
			rc = check_ckpt_store(c, where, err);
		if (rc == 0 && !c->dir)
			rc = error_set(err, EINVAL, "%s: 'dir' is missing",
				       where);
		if (rc == 0)
			rc = check_options(c, where, err);
		if (rc == 0)
			rc = check_prefetch(c, where, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int read_parts(struct job_file *f, struct error *err)
{
	json_t *image = json_object_get(f->text, "image");
	json_t *environment = json_object_get(f->text, "environment");
	json_t *stages = json_object_get(f->text, "stages");
	int rc = read_table(image, "image", image_keys, &f->image, err);

	if (rc == 0 && image && !f->image.reference)
		rc = error_set(err, EINVAL, "image: 'reference' is missing");
	if (rc == 0)
		rc = read_table(environment, "environment", environment_keys,
				&f->environment, err);
	if (rc == 0 && environment)
		rc = check_store(f->environment.store, "environment", err);
	if (rc == 0 && environment && !f->environment.command)
		rc = error_set(err, EINVAL,
			       "environment: 'command' is missing");
	if (rc == 0)
		rc = read_table(stages, "stages", stages_keys, &f->stages, err);
	f->stages.is_there = stages || getenv("BOOTSEER_JOB");
	if (!f->stages.service)
		f->stages.service = getenv("BOOTSEER_SERVICE");
	f->image.ready_file = f->stages.ready_file;
	return rc < 0 ? rc : read_ckpts(f, err);
}

/* ------------------------------------------------------------------------ names --- */

/* The value of the first of these variables that is set. */
static const char *first_variable(const char *const names[])
{
	for (; *names; names++) {
		const char *v = getenv(*names);

		if (v && *v)
			return v;
	}
	return NULL;
}

/* Find this node's number in the job: set by Slurm, torchrun, or Kubernetes' indexed jobs. */
static int find_rank(struct job_file *f, struct error *err)
{
	static const char *const names[] = {
		"BOOTSEER_RANK", "SLURM_NODEID",
		"GROUP_RANK",    "NODE_RANK",
		"PET_NODE_RANK", "JOB_COMPLETION_INDEX",
		"RANK",          NULL
	};
	const char *v = first_variable(names);

	if (v && (strlen(v) > 9 || strspn(v, "0123456789") != strlen(v)))
		v = NULL;
	f->rank = f->names[1] = strdup(v ? v : "0");
	return f->rank ? 0 : error_nomem(err);
}

static int find_name(const char *path, struct job_file *f, struct error *err)
{
	static const char *const names[] = { "SLURM_JOB_NAME",
					     "TORCHELASTIC_RUN_ID", "JOB_NAME",
					     NULL };
	const char *base = strrchr(path, '/');
	const char *v = getenv("BOOTSEER_JOB");

	base = base ? base + 1 : path;
	if (!v || !*v)
		v = f->name ? f->name : first_variable(names);
	f->names[0] = v ? strdup(v) : strndup(base, strcspn(base, "."));
	f->name = f->names[0];
	if (!f->name)
		return error_nomem(err);
	return stage_is_job(stage_text(f->name))
		       ? 0
		       : error_set(err, EINVAL,
				   "'%.100s' is no name of a job: letters, "
				   "digits and . _ - / are",
				   f->name);
}

/* ------------------------------------------------------------------------- file --- */

int job_file_read(const char *path, struct job_file *ret, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc;

	*ret = (struct job_file){ .text = NULL };
	rc = fs_read_file(path, TOML_BYTES_MAX, &text, err);
	if (rc < 0)
		return rc;
	rc = toml_parse(text.len ? text.data : "", text.len, &ret->text, err);
	if (rc == 0)
		rc = read_table(ret->text, "", top_keys, ret, err);
	if (rc == 0)
		rc = read_parts(ret, err);
	if (rc == 0)
		rc = find_name(path, ret, err);
	if (rc == 0)
		rc = find_rank(ret, err);
	if (rc == 0)
		return 0;
	job_file_fini(ret);
	return error_wrap(err, rc, "%.100s", path);
}

void job_file_fini(struct job_file *f)
{
	struct job_image *i = &f->image;
	struct job_environment *e = &f->environment;

	free(f->command);
	free(i->env);
	free(i->mounts);
	free(i->pull);
	free(i->run);
	free(e->command);
	free(e->targets);
	free(e->keys);
	free(e->key_files);
	free(e->options);
	for (size_t k = 0; k < f->n_ckpts; k++) {
		free(f->ckpts[k].prefetch);
		free(f->ckpts[k].options);
	}
	free(f->names[0]);
	free(f->names[1]);
	json_decref(f->text);
	*f = (struct job_file){ .text = NULL };
}
