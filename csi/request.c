// SPDX-License-Identifier: Apache-2.0
#include "csi/request.h"

#include <errno.h>
#include <string.h>
#include <sys/mount.h>

#include "common/option.h"
#include "common/text.h"

#define POD_PREFIX "csi.storage.k8s.io/"
#define ID_MAX UINT32_C(4294967294)
#define MOST_MAX 64
#define IMAGE_MAX 512
#define STORE_MAX 1024
#define WORKLOAD_MAX 255
#define NAME_MAX_K8S 253
#define SHOWN 80 /* bytes of an untrusted text in a message */

static const char *const kind_names[] = {
	[VOLUME_KIND_IMAGE] = "image",
	[VOLUME_KIND_ENV] = "env",
	[VOLUME_KIND_CKPT] = "ckpt",
};

const char *volume_kind_name(enum volume_kind kind)
{
	return kind_names[kind];
}

int volume_kind_parse(const char *text, enum volume_kind *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(kind_names); i++)
		if (strcmp(text, kind_names[i]) == 0) {
			*ret = (enum volume_kind)i;
			return 0;
		}
	return -EINVAL;
}

int volume_number_parse(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*text || strlen(text) > 19)
		return -EINVAL;
	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9')
			return -EINVAL;
		v = v * 10 + (uint64_t)(*p - '0');
	}
	if (v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int volume_size_parse(const char *text, uint64_t *ret)
{
	char copy[32];
	size_t len = strlen(text);

	if (len == 0 || len >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, len + 1);
	if (len > 2 && copy[len - 1] == 'i')
		copy[len - 1] = '\0';
	return option_parse_size(copy, ret, NULL) < 0 ? -EINVAL : 0;
}

/* ---- attributes ---- */

/* Bits for the kinds of volumes that have an attribute. */
#define OF(kind) (1u << (kind))
#define OF_ALL \
	(OF(VOLUME_KIND_IMAGE) | OF(VOLUME_KIND_ENV) | OF(VOLUME_KIND_CKPT))

static int take_text(const char *value, size_t max, const char **ret)
{
	if (!*value || !text_is_word(value, max))
		return -EINVAL;
	*ret = value;
	return 0;
}

static int take_kind(struct volume_request *r, const char *value)
{
	return volume_kind_parse(value, &r->kind);
}

static int take_image(struct volume_request *r, const char *value)
{
	return take_text(value, IMAGE_MAX, &r->image);
}

static int take_workload(struct volume_request *r, const char *value)
{
	return take_text(value, WORKLOAD_MAX, &r->workload);
}

static int take_store(struct volume_request *r, const char *value)
{
	return take_text(value, STORE_MAX, &r->store);
}

static int take_most_environments(struct volume_request *r, const char *value)
{
	r->has_most = true;
	if (volume_number_parse(value, MOST_MAX, &r->most) < 0 || r->most < 1)
		return -EINVAL;
	return 0;
}

static int take_memory(struct volume_request *r, const char *value)
{
	r->has_memory = true;
	return volume_size_parse(value, &r->memory);
}

static int take_uid(struct volume_request *r, const char *value)
{
	r->has_uid = true;
	return volume_number_parse(value, ID_MAX, &r->uid);
}

static int take_gid(struct volume_request *r, const char *value)
{
	r->has_gid = true;
	return volume_number_parse(value, ID_MAX, &r->gid);
}

static const struct volume_attribute {
	const char *key, *wanted;
	unsigned int kinds;
	int (*take)(struct volume_request *r, const char *value);
} attributes[] = {
	{ "kind", "image, env or ckpt", OF_ALL, take_kind },
	{ "image", "HOST[:PORT]/REPOSITORY with a tag or a digest",
	  OF(VOLUME_KIND_IMAGE), take_image },
	{ "workload", "1 to 255 printable characters without spaces",
	  OF(VOLUME_KIND_IMAGE), take_workload },
	{ "store", "the URL of a store",
	  OF(VOLUME_KIND_ENV) | OF(VOLUME_KIND_CKPT), take_store },
	{ "most", "a number, 1 to 64", OF(VOLUME_KIND_ENV),
	  take_most_environments },
	{ "memory", "a size, as 512Mi", OF(VOLUME_KIND_CKPT), take_memory },
	{ "uid", "a number", OF(VOLUME_KIND_CKPT), take_uid },
	{ "gid", "a number", OF(VOLUME_KIND_CKPT), take_gid },
};

static const struct volume_attribute *find_attribute(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
		if (strcmp(key, attributes[i].key) == 0)
			return &attributes[i];
	return NULL;
}

/* An untrusted text for a message: printable and shortened. */
struct shown {
	char text[SHOWN + 1];
};

static struct shown printable_text(const char *text)
{
	struct shown s;

	(void)snprintf(s.text, sizeof(s.text), "%s", text);
	text_end_whole(s.text);
	text_make_printable(s.text);
	return s;
}

/* Take an attribute that the kubelet sets; it replaces one of the same name that the pod sets. */
static void take_pod(struct volume_request *r, const char *key,
		     const char *value)
{
	if (strcmp(key, "pod.namespace") == 0)
		r->namespace = value;
	else if (strcmp(key, "pod.uid") == 0)
		r->pod_uid = value;
	else if (strcmp(key, "pod.name") == 0)
		r->pod_name = value;
	else if (strcmp(key, "serviceAccount.tokens") == 0)
		r->tokens = value;
	else if (strcmp(key, "ephemeral") == 0)
		r->is_ephemeral = strcmp(value, "true") == 0;
}

static int take_attribute(struct volume_request *r, const struct csi_pair *p,
			  struct error *err)
{
	const struct volume_attribute *a = find_attribute(p->key);

	if (!a)
		return error_set(err, EINVAL,
				 "volumeAttributes: there is no '%s': known "
				 "are kind, image, workload, store, most, "
				 "memory, uid and gid",
				 printable_text(p->key).text);
	if (a->take(r, p->value) < 0)
		return error_set(err, EINVAL,
				 "volumeAttributes: %s '%s': wanted is %s",
				 a->key, printable_text(p->value).text,
				 a->wanted);
	return 0;
}

static int check_unique(const struct csi_publish *p, size_t i,
			struct error *err)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(p->attributes[k].key, p->attributes[i].key) == 0)
			return error_set(err, EINVAL,
					 "volumeAttributes: '%s' is there "
					 "twice",
					 printable_text(p->attributes[i].key)
						 .text);
	return 0;
}

static int check_kinds(const struct csi_publish *p,
		       const struct volume_request *r, struct error *err)
{
	for (size_t i = 0; i < p->n_attributes; i++) {
		const struct volume_attribute *a =
			find_attribute(p->attributes[i].key);

		if (a && !(a->kinds & OF(r->kind)))
			return error_set(err, EINVAL,
					 "volumeAttributes: a volume of kind "
					 "%s has no '%s': leave it out",
					 volume_kind_name(r->kind), a->key);
	}
	if (r->kind == VOLUME_KIND_IMAGE && !r->image)
		return error_set(err, EINVAL,
				 "volumeAttributes: which image? add 'image'");
	if (r->kind == VOLUME_KIND_IMAGE && p->n_secrets > 0)
		return error_set(err, EINVAL,
				 "nodePublishSecretRef: images are read with "
				 "the credentials of the node's bootseerd: "
				 "leave it out");
	if (r->kind != VOLUME_KIND_IMAGE && !r->store)
		return error_set(err, EINVAL,
				 "volumeAttributes: which store? add 'store'");
	return 0;
}

static int take_attributes(const struct csi_publish *p,
			   struct volume_request *r, struct error *err)
{
	bool has_kind = false;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < p->n_attributes; i++) {
		const struct csi_pair *a = &p->attributes[i];

		rc = check_unique(p, i, err);
		if (strcmp(a->key, "kind") == 0)
			has_kind = true;
		if (rc == 0 &&
		    strncmp(a->key, POD_PREFIX, strlen(POD_PREFIX)) == 0)
			take_pod(r, a->key + strlen(POD_PREFIX), a->value);
		else if (rc == 0)
			rc = take_attribute(r, a, err);
	}
	if (rc == 0 && !has_kind)
		rc = error_set(err, EINVAL,
			       "volumeAttributes: which kind? add 'kind': "
			       "image, env or ckpt");
	return rc < 0 ? rc : check_kinds(p, r, err);
}

/* ---- the capability ---- */

/* Read an SELinux context, which the kubelet puts in quotes since it may contain commas. */
static int take_context(struct volume_request *r, const char *value,
			struct error *err)
{
	size_t len = strlen(value);
	bool is_quoted = len >= 2 && value[0] == '"' && value[len - 1] == '"';

	if (r->kind == VOLUME_KIND_IMAGE)
		return error_set(err, EINVAL,
				 "mountOptions: an image is one mount for all "
				 "pods of a node, and has no context= of one: "
				 "set seLinuxMount: false in the CSIDriver "
				 "csi.bootseer");
	(void)snprintf(r->selinux_context, sizeof(r->selinux_context), "%.*s",
		       (int)(is_quoted ? len - 2 : len), value + is_quoted);
	if (len >= sizeof(r->selinux_context) ||
	    !mount_context_is_valid(r->selinux_context))
		return error_set(err, EINVAL,
				 "mountOptions: context=%s is none of SELinux",
				 printable_text(value).text);
	return 0;
}

static int take_flag(struct volume_request *r, const char *flag,
		     struct error *err)
{
	static const struct {
		const char *name;
		uint64_t attributes;
	} known[] = {
		{ "ro", MOUNT_ATTR_RDONLY },
		{ "noexec", MOUNT_ATTR_NOEXEC },
		{ "nosuid", MOUNT_ATTR_NOSUID },
		{ "nodev", MOUNT_ATTR_NODEV },
		{ "noatime", MOUNT_ATTR_NOATIME },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(flag, known[i].name) == 0) {
			r->mount_attributes |= known[i].attributes;
			return 0;
		}
	if (strncmp(flag, "context=", 8) == 0)
		return take_context(r, flag + 8, err);
	return error_set(err, EINVAL,
			 "mountOptions: there is no '%s': known are ro, "
			 "noexec, nosuid, nodev, noatime and context=",
			 printable_text(flag).text);
}

static bool may_write(const struct csi_publish *p)
{
	return p->access != CSI_ACCESS_NODE_READER &&
	       p->access != CSI_ACCESS_NODES_READER;
}

static int take_capability(const struct csi_publish *p,
			   struct volume_request *r, struct error *err)
{
	int rc = 0;

	if (*p->fs_type)
		return error_set(err, EINVAL,
				 "fsType '%s': leave it out, nothing is "
				 "formatted",
				 printable_text(p->fs_type).text);
	if (p->access <= CSI_ACCESS_UNKNOWN ||
	    p->access > CSI_ACCESS_NODE_WRITERS)
		return error_set(err, EINVAL, "access mode %d is not known",
				 (int)p->access);
	/* An ephemeral volume has no access mode, so it is not checked there. */
	if (r->kind == VOLUME_KIND_IMAGE && !r->is_ephemeral && may_write(p))
		return error_set(err, EINVAL,
				 "an image cannot be written: accessModes "
				 "[ReadOnlyMany] in the PersistentVolume");
	r->mount_attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	for (size_t i = 0; rc == 0 && i < p->n_mount_flags; i++)
		rc = take_flag(r, p->mount_flags[i], err);
	if (rc < 0)
		return rc;
	r->is_read_only = p->is_read_only || !may_write(p) ||
			  (r->mount_attributes & MOUNT_ATTR_RDONLY) ||
			  r->kind != VOLUME_KIND_CKPT;
	if (r->is_read_only)
		r->mount_attributes |= MOUNT_ATTR_RDONLY;
	if (!*p->group || r->kind != VOLUME_KIND_CKPT || r->has_gid)
		return 0;
	if (volume_number_parse(p->group, ID_MAX, &r->gid) < 0)
		return error_set(err, EINVAL, "fsGroup '%s' is no number",
				 printable_text(p->group).text);
	r->has_gid = r->is_group = true;
	return 0;
}

int volume_request_read(const struct csi_publish *p, struct volume_request *ret,
			struct error *err)
{
	int rc;

	*ret = (struct volume_request){ .namespace = NULL };
	rc = take_attributes(p, ret, err);
	if (rc < 0)
		return rc;
	/* Without these the pod itself could claim any namespace. */
	if (!ret->namespace || !*ret->namespace || !ret->pod_uid ||
	    !text_is_word(ret->namespace, NAME_MAX_K8S))
		return error_set(err, EINVAL,
				 "the kubelet does not say whose pod it is: "
				 "set podInfoOnMount: true in the CSIDriver "
				 "csi.bootseer");
	return take_capability(p, ret, err);
}
