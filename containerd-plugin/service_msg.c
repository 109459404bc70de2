// SPDX-License-Identifier: Apache-2.0
#include "containerd-plugin/service_msg.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "snapshots.pb-c.h"

static int message_error(const char *what, struct error *err)
{
	return error_set(err, EINVAL, "this is no %s message", what);
}

static int copy_text(const char *text, char **ret, struct error *err)
{
	*ret = strdup(text ? text : "");
	return *ret ? 0 : error_nomem(err);
}

static int copy_labels(Snapshots__Label **v, size_t n, struct labels *ret,
		       struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = labels_set(ret, v[i]->key, v[i]->value, err);
	return rc;
}

/* ---- requests ---- */

int msg_create_read(const uint8_t *data, size_t len, struct msg_create *ret,
		    struct error *err)
{
	Snapshots__CreateRequest *m =
		snapshots__create_request__unpack(NULL, len, data);
	int rc;

	if (!m)
		return message_error("Prepare or View", err);
	rc = copy_text(m->key, &ret->key, err);
	if (rc == 0)
		rc = copy_text(m->parent, &ret->parent, err);
	if (rc == 0)
		rc = copy_labels(m->labels, m->n_labels, &ret->labels, err);
	snapshots__create_request__free_unpacked(m, NULL);
	return rc;
}

int msg_commit_read(const uint8_t *data, size_t len, struct msg_create *ret,
		    struct error *err)
{
	Snapshots__CommitRequest *m =
		snapshots__commit_request__unpack(NULL, len, data);
	int rc;

	if (!m)
		return message_error("Commit", err);
	rc = copy_text(m->key, &ret->key, err);
	if (rc == 0)
		rc = copy_text(m->name, &ret->name, err);
	if (rc == 0)
		rc = copy_text(m->parent, &ret->parent, err);
	if (rc == 0)
		rc = copy_labels(m->labels, m->n_labels, &ret->labels, err);
	if (rc == 0 && !*ret->name)
		rc = error_set(err, EINVAL, "a snapshot needs a name");
	snapshots__commit_request__free_unpacked(m, NULL);
	return rc;
}

void msg_create_fini(struct msg_create *m)
{
	free(m->key);
	free(m->name);
	free(m->parent);
	labels_fini(&m->labels);
}

int msg_key_read(const uint8_t *data, size_t len, char **ret, struct error *err)
{
	Snapshots__KeyRequest *m =
		snapshots__key_request__unpack(NULL, len, data);
	int rc;

	if (!m)
		return message_error("request", err);
	rc = copy_text(m->key, ret, err);
	snapshots__key_request__free_unpacked(m, NULL);
	return rc;
}

static int copy_paths(char **v, size_t n, struct msg_update *ret,
		      struct error *err)
{
	int rc = 0;

	ret->paths = calloc(n ? n : 1, sizeof(*ret->paths));
	if (!ret->paths)
		return error_nomem(err);
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = copy_text(v[i], &ret->paths[i], err);
		ret->n_paths += rc == 0;
	}
	return rc;
}

int msg_update_read(const uint8_t *data, size_t len, struct msg_update *ret,
		    struct error *err)
{
	Snapshots__UpdateRequest *m =
		snapshots__update_request__unpack(NULL, len, data);
	int rc;

	if (!m)
		return message_error("Update", err);
	rc = copy_text(m->info ? m->info->name : "", &ret->name, err);
	if (rc == 0 && m->info)
		rc = copy_labels(m->info->labels, m->info->n_labels,
				 &ret->labels, err);
	if (rc == 0 && m->update_mask)
		rc = copy_paths(m->update_mask->paths, m->update_mask->n_paths,
				ret, err);
	snapshots__update_request__free_unpacked(m, NULL);
	return rc;
}

int msg_list_read(const uint8_t *data, size_t len, struct msg_update *ret,
		  struct error *err)
{
	Snapshots__ListRequest *m =
		snapshots__list_request__unpack(NULL, len, data);
	int rc;

	if (!m)
		return message_error("List", err);
	rc = copy_paths(m->filters, m->n_filters, ret, err);
	snapshots__list_request__free_unpacked(m, NULL);
	return rc;
}

void msg_update_fini(struct msg_update *m)
{
	for (size_t i = 0; i < m->n_paths; i++)
		free(m->paths[i]);
	free(m->paths);
	free(m->name);
	labels_fini(&m->labels);
}

/* ---- Apply ---- */

/* The value of a mount option "NAME=value" if it has this name ("upperdir="); else NULL. */
static const char *option_value(const char *option, const char *name)
{
	size_t n = strlen(name);

	return strncmp(option, name, n) == 0 ? option + n : NULL;
}

static int refuse_mount(const char *what, struct error *err)
{
	return error_set(err, ENOSYS, "it is not unpacked into a mount %.200s",
			 what);
}

/* Read the options of an overlay mount. One that maps ids, or is mounted without privileges,
 * is refused: writing to its folder directly would not give the same result. */
static int read_overlay(const Snapshots__Mount *m, const char **ret_dir,
			const char **ret_lower, struct error *err)
{
	*ret_lower = "";
	for (size_t i = 0; i < m->n_options; i++) {
		const char *o = m->options[i], *v;

		if ((v = option_value(o, "upperdir=")))
			*ret_dir = v;
		else if ((v = option_value(o, "lowerdir=")))
			*ret_lower = v;
		else if (!option_value(o, "workdir=") &&
			 !option_value(o, "index="))
			return refuse_mount(o, err);
		/* An escaped colon is part of a folder's name, which is not supported. */
		if (v && strchr(v, '\\'))
			return refuse_mount(o, err);
	}
	return 0;
}

static int read_bind(const Snapshots__Mount *m, const char **ret_dir,
		     const char **ret_lower, struct error *err)
{
	for (size_t i = 0; i < m->n_options; i++)
		if (strcmp(m->options[i], "rw") != 0 &&
		    strcmp(m->options[i], "rbind") != 0)
			return refuse_mount(m->options[i], err);
	*ret_dir = m->source;
	*ret_lower = "";
	return 0;
}

/* Get the folder to which the mount writes changes, and the folders below it. */
static int read_folders(const Snapshots__ApplyRequest *m, const char **ret_dir,
			const char **ret_lower, struct error *err)
{
	const Snapshots__Mount *mount = m->n_mounts == 1 ? m->mounts[0] : NULL;
	int rc;

	if (mount && *mount->target)
		rc = refuse_mount("on a folder in it", err);
	else if (mount && strcmp(mount->type, "overlay") == 0)
		rc = read_overlay(mount, ret_dir, ret_lower, err);
	else if (mount && strcmp(mount->type, "bind") == 0)
		rc = read_bind(mount, ret_dir, ret_lower, err);
	else
		rc = refuse_mount("of this kind", err);
	return rc == 0 && **ret_dir != '/'
		       ? refuse_mount("without a folder", err)
		       : rc;
}

int msg_apply_read(const uint8_t *data, size_t len, struct msg_apply *ret,
		   struct error *err)
{
	Snapshots__ApplyRequest *m =
		snapshots__apply_request__unpack(NULL, len, data);
	const char *dir = "", *lower = "";
	int rc;

	if (!m || !m->diff || m->diff->size < 0) {
		snapshots__apply_request__free_unpacked(m, NULL);
		return message_error("Apply", err);
	}
	rc = digest_parse(m->diff->digest, &ret->layer.digest, err) < 0
		     ? error_set(err, ENOSYS, "its digest is no SHA-256")
		     : 0;
	if (rc == 0)
		rc = read_folders(m, &dir, &lower, err);
	if (rc == 0)
		rc = copy_text(m->diff->media_type, &ret->media_type, err);
	if (rc == 0)
		rc = copy_text(dir, &ret->dir, err);
	if (rc == 0)
		rc = copy_text(lower, &ret->lower, err);
	ret->layer.media_type = ret->media_type;
	ret->layer.size = (uint64_t)m->diff->size;
	ret->layer.dir = ret->dir;
	ret->layer.lower = ret->lower;
	ret->layer.sync = m->sync_fs;
	snapshots__apply_request__free_unpacked(m, NULL);
	return rc;
}

void msg_apply_fini(struct msg_apply *m)
{
	free(m->media_type);
	free(m->dir);
	free(m->lower);
}

/* ---- replies ---- */

static int pack_message(const ProtobufCMessage *m, struct buf *ret,
			struct error *err)
{
	size_t n = protobuf_c_message_get_packed_size(m);

	if (buf_reserve(ret, n) < 0)
		return error_nomem(err);
	protobuf_c_message_pack(m, (uint8_t *)ret->data + ret->len);
	ret->len += n;
	ret->data[ret->len] = '\0';
	return 0;
}

int msg_mount_write(const struct mount *m, struct buf *ret, struct error *err)
{
	Snapshots__Mount mount, *mounts[] = { &mount };
	Snapshots__MountsResponse out;

	snapshots__mount__init(&mount);
	snapshots__mounts_response__init(&out);
	mount.type = (char *)(uintptr_t)m->type;
	mount.source = m->source;
	mount.options = m->options;
	mount.n_options = m->n_options;
	out.mounts = mounts;
	out.n_mounts = 1;
	return pack_message(&out.base, ret, err);
}

/* A snapshot as a message; borrows from the snapshot and this struct. */
struct info {
	Snapshots__Info info;
	Snapshots__Time created, updated;
	Snapshots__Label *labels, **list;
};

static void info_time(int64_t ns, Snapshots__Time *ret)
{
	snapshots__time__init(ret);
	ret->seconds = ns / NS_PER_S;
	ret->nanos = (int32_t)(ns % NS_PER_S);
}

static int info_init(struct info *i, const struct snapshot *s,
		     struct error *err)
{
	snapshots__info__init(&i->info);
	info_time(s->created_ns, &i->created);
	info_time(s->updated_ns, &i->updated);
	i->info.name = s->name;
	i->info.parent = s->parent;
	i->info.kind = (Snapshots__Kind)s->kind;
	i->info.created_at = &i->created;
	i->info.updated_at = &i->updated;
	i->labels = calloc(s->labels.n + 1, sizeof(*i->labels));
	i->list = calloc(s->labels.n + 1, sizeof(*i->list));
	if (!i->labels || !i->list)
		return error_nomem(err);
	for (size_t k = 0; k < s->labels.n; k++) {
		snapshots__label__init(&i->labels[k]);
		i->labels[k].key = s->labels.v[k].key;
		i->labels[k].value = s->labels.v[k].value;
		i->list[k] = &i->labels[k];
	}
	i->info.labels = i->list;
	i->info.n_labels = s->labels.n;
	return 0;
}

static void info_fini(struct info *i)
{
	free(i->labels);
	free(i->list);
}

int msg_info_write(const struct snapshot *s, struct buf *ret, struct error *err)
{
	Snapshots__InfoResponse out = SNAPSHOTS__INFO_RESPONSE__INIT;
	AUTO_FINI(info) i = { .labels = NULL };
	int rc = info_init(&i, s, err);

	out.info = &i.info;
	if (rc == 0)
		rc = pack_message(&out.base, ret, err);
	return rc;
}

int msg_list_add(const struct snapshot *s, struct buf *ret, struct error *err)
{
	Snapshots__ListResponse out = SNAPSHOTS__LIST_RESPONSE__INIT;
	AUTO_FINI(info) i = { .labels = NULL };
	Snapshots__Info *list[] = { &i.info };
	int rc = info_init(&i, s, err);

	/* Concatenated messages count as one message with all of their repeated fields. */
	out.info = list;
	out.n_info = 1;
	if (rc == 0)
		rc = pack_message(&out.base, ret, err);
	return rc;
}

int msg_usage_write(int64_t size, int64_t inodes, struct buf *ret,
		    struct error *err)
{
	Snapshots__UsageResponse out = SNAPSHOTS__USAGE_RESPONSE__INIT;

	out.size = size;
	out.inodes = inodes;
	return pack_message(&out.base, ret, err);
}

int msg_applied_write(const struct node_layer_content *c, struct buf *ret,
		      struct error *err)
{
	Snapshots__ApplyResponse out = SNAPSHOTS__APPLY_RESPONSE__INIT;
	Snapshots__Descriptor d;
	char diff_id[DIGEST_STR_MAX];

	snapshots__descriptor__init(&d);
	digest_format(&c->diff_id, diff_id);
	d.media_type = (char[]){ "application/vnd.oci.image.layer.v1.tar" };
	d.digest = diff_id;
	d.size = (int64_t)c->bytes;
	out.applied = &d;
	return pack_message(&out.base, ret, err);
}
